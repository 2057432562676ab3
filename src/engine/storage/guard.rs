//! Keeps a panic inside a library that reads foreign files from ending the program.
//!
//! The readers of Parquet and Arrow assert some things about a file's metadata that a damaged file does
//! not fulfil. To the user that is a damaged file like any other.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread will become an error, so that a panic hook need not print it. A library
/// sets no hook; the command line's asks here.
pub fn is_guarded() -> bool {
    GUARDED.get()
}

/// Runs `work`; a panic in it becomes an error with its message.
///
/// Whatever `work` was changing when it panicked must not be used again.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let before = GUARDED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(before);
    result.map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
        text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "unreadable".into())
    })
}
