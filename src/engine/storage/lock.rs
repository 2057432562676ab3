//! One process at a time.

use super::OPEN_FLAGS;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The right to work on a file or directory; given back when dropped, or when the process ends in
/// whatever way.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of what lies at `path`; `None` where another process has it.
    ///
    /// A file system that knows no locks gives everyone the right: better than refusing to work.
    pub fn take(path: &Path) -> io::Result<Option<Self>> {
        // Neither a pipe in its place nor the lock itself is waited for.
        let file = OpenOptions::new().read(true).custom_flags(OPEN_FLAGS.bits() as i32).open(path)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Ok(None),
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Some(Lock { _file: file })),
        }
    }
}
