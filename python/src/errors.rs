//! What went wrong, as an exception of `tenfill._errors`.

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::path::Path;
use tenfill::cli::Failure;
use tenfill_engine::Error;

thread_local! {
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps the message and the place of a panic, which becomes an exception, instead of printing them.
pub fn keep_panics() {
    std::panic::set_hook(Box::new(|panic| {
        LAST_PANIC.set(Some(panic.to_string()));
    }));
}

/// What the last panic of this thread said.
pub fn last_panic() -> String {
    LAST_PANIC.take().unwrap_or_else(|| "a panic without words".into())
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
