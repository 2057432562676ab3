//! Standard output: all that commands print goes through here, and what cannot be written is an error.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use tenfill_engine::error::{IoContext, Result};

/// Remembers the first write that failed, until the end of the program.
#[derive(Default)]
pub(super) struct Stdout {
    failed: Mutex<Option<io::Error>>,
}

impl Stdout {
    /// Prints a line.
    pub(super) fn line(&self, text: impl Display) {
        self.attempt(|| writeln!(io::stdout().lock(), "{text}"));
    }

    /// Prints, unless something could not be printed before.
    pub(super) fn attempt(&self, print: impl FnOnce() -> io::Result<()>) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.is_none() {
            *failed = print().err();
        }
    }

    /// Makes sure that all has arrived. Whoever reads our output may stop reading: that is no error.
    pub(super) fn finish(&self) -> Result<()> {
        self.attempt(|| io::stdout().lock().flush());
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        match failed.take() {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(error).context("write", "standard output")
            }
            _ => Ok(()),
        }
    }
}
