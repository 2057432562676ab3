//! The module `tenfill._native`: what the Python package `tenfill` is a typed front of.
//!
//! Commands are called with their own arguments ([`command`]), so that every option has the meaning, the
//! default and the sentences that it has on the command line. Models are asked in memory ([`model`]). Rows
//! come and go as Arrow streams ([`arrow_ffi`], the only file with `unsafe` code). Work is done in a thread
//! of its own, while the one that called looks for signals ([`work`]).

mod arrow_ffi;
mod batches;
mod command;
mod errors;
mod model;
mod table;
mod work;

use pyo3::prelude::*;

/// The native part of tenfill.
#[pymodule(gil_used = false)]
mod _native {
    use super::*;

    #[cfg(feature = "test-hooks")]
    #[pymodule_export]
    use super::command::_panic;
    #[pymodule_export]
    use super::command::{call, commands, entries, flags, log, main, write_table};
    #[pymodule_export]
    use super::model::Model;
    #[pymodule_export]
    use super::table::{Stream, Table};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        errors::keep_panics();
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
