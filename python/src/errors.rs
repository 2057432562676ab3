//! What went wrong, as an exception of `tenfill._errors`.

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use tenfill::cli::Failure;
use tenfill_engine::Error;

/// Of all threads: one of a pool hands its panic on to another, without the place.
static LAST_PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Keeps the message and the place of a panic, which becomes an exception, instead of printing them.
pub fn keep_panics() {
    std::panic::set_hook(Box::new(|panic| {
        *LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic.to_string());
    }));
}

/// What the last panic said.
pub fn last_panic() -> String {
    let told = LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner).take();
    told.unwrap_or_else(|| "a panic without words".into())
}

/// Does something in the thread of the caller; a panic becomes an exception of ours.
pub fn guarded<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(panicked(last_panic())))
}

/// The exception for an object that says that it is Arrow and is no table.
pub fn no_table(why: impl std::fmt::Display) -> PyErr {
    raised(&Error::input(tenfill_engine::ingest::STREAM, format!("this is no table ({why})")))
}

/// An exception by the name of its kind, with the path and the line that it is about.
fn build(kind: &str, message: String, path: Option<&Path>, line: Option<u64>) -> PyErr {
    Python::attach(|py| {
        let build = py.import("tenfill._errors").and_then(|errors| errors.getattr("build"));
        let path = path.map(|path| path.to_string_lossy().into_owned());
        match build.and_then(|build| build.call1((kind, message, path, line))) {
            Ok(exception) => PyErr::from_value(exception),
            Err(error) => error,
        }
    })
}

/// The exception for an error of the engine.
pub fn raised(error: &Error) -> PyErr {
    let kind = match error {
        Error::Interrupted => return PyKeyboardInterrupt::new_err(()),
        Error::Row { .. } | Error::Input { .. } => "input",
        Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => "input",
        Error::Corrupt { .. } | Error::Newer { .. } => "format",
        Error::Budget { .. } => "memory",
        Error::Request(_) | Error::Exists { .. } => "usage",
        _ => "error",
    };
    build(kind, error.to_string(), error.path(), error.line())
}

/// The exception for a command that has failed.
pub fn failed(failure: &Failure) -> PyErr {
    match failure {
        Failure::Usage(sentence) => build("usage", sentence.clone(), None, None),
        Failure::Failed(error) => raised(error),
    }
}

/// The exception for a panic.
pub fn panicked(message: String) -> PyErr {
    build("internal", message, None, None)
}

/// The exception for a process that was forked from one that has used tenfill.
pub fn forked() -> PyErr {
    let what = "this process was forked from one in which tenfill has worked, and its threads did not come \
                along: start processes by 'spawn' (multiprocessing.get_context(\"spawn\")), or use tenfill in \
                the child only";
    build("error", what.into(), None, None)
}
