//! Keeps a panic inside a library that reads foreign files from ending the program.
//!
//! The Parquet reader asserts some things about a file's metadata that a damaged file does not
//! fulfil. To the user that is a damaged file like any other.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`; a panic in it becomes an error with its message, and is not printed.
///
/// Whatever `work` was changing when it panicked must not be used again.
pub(super) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let loud = take_hook();
        set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                loud(panic);
            }
        }));
    });
    GUARDED.set(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(false);
    result.map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
        text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "unreadable".into())
    })
}
