//! How the outside watches and stops long work: progress goes out, a request to stop comes in.

use crate::error::{Error, Result};
use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Receives progress. The command line shows it; a library user may ignore it.
pub trait Progress: Send + Sync {
    /// A stage begins; `total` is in the stage's own unit (bytes, rows), 0 where unknown.
    fn stage(&self, name: &str, unit: Unit, total: u64);
    /// The stage has come this far; `note` may say more.
    fn advance(&self, done: u64, note: &dyn fmt::Display);
    /// Something that the user should know, now and afterwards.
    fn say(&self, message: &str);
    /// Something for a user who wants to know more.
    fn detail(&self, _message: &str) {}
}

/// What a stage counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of input.
    Bytes,
    /// Rows, entries.
    Rows,
    /// Steps of an algorithm.
    Iterations,
}

struct Silent;

impl Progress for Silent {
    fn stage(&self, _: &str, _: Unit, _: u64) {}
    fn advance(&self, _: u64, _: &dyn fmt::Display) {}
    fn say(&self, _: &str) {}
}

/// Handed to everything that takes long.
#[derive(Clone)]
pub struct Control {
    stop: Arc<AtomicBool>,
    end: Arc<AtomicBool>,
    progress: Arc<dyn Progress>,
    /// What was said once and for all.
    said: Arc<Mutex<HashSet<String>>>,
}

impl Default for Control {
    fn default() -> Self {
        Control::new(Arc::new(AtomicBool::new(false)), Arc::new(Silent))
    }
}

impl Control {
    /// Stops when `stop` becomes true, reports to `progress`.
    pub fn new(stop: Arc<AtomicBool>, progress: Arc<dyn Progress>) -> Self {
        Control { stop, end: Arc::default(), progress, said: Arc::default() }
    }

    /// Stops when `stop` becomes true, and says nothing.
    pub fn stopped_by(stop: Arc<AtomicBool>) -> Self {
        Control { stop, ..Control::default() }
    }

    /// Asks whatever this was handed to to stop at once.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Asks it to end at its next good place, in its own time.
    pub fn end(&self) {
        self.end.store(true, Ordering::Relaxed);
    }

    /// Whether somebody asked to stop at once: whoever waits does not want to wait any longer.
    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether somebody asked to stop or to end: for good places.
    pub fn ending(&self) -> bool {
        self.stopping() || self.end.load(Ordering::Relaxed)
    }

    /// An error when somebody asked to stop at once: for work that has no good place to end early.
    pub fn check(&self) -> Result<()> {
        if self.stopping() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Where progress goes.
    pub fn progress(&self) -> &dyn Progress {
        &*self.progress
    }

    /// Something that the user should know.
    pub fn say(&self, message: impl AsRef<str>) {
        self.progress.say(message.as_ref());
    }

    /// The same, however often a file is read.
    pub fn say_once(&self, message: impl Into<String>) {
        let message = message.into();
        if self.said.lock().unwrap_or_else(PoisonError::into_inner).insert(message.clone()) {
            self.say(message);
        }
    }

    /// Something for a user who wants to know more.
    pub fn detail(&self, message: impl AsRef<str>) {
        self.progress.detail(message.as_ref());
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("stopping", &self.stopping()).finish_non_exhaustive()
    }
}
