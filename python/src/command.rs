//! Commands, called with their own arguments.

use crate::batches::{self, Raised, take_raised};
use crate::errors;
use crate::table::{Stream, Table, json_table};
use crate::work::{self, Listeners};
use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;
use tenfill::Split;
use tenfill::cli::{self, Outside};
use tenfill_engine::run::read_lines;
use tenfill_engine::shard::Dataset;
use tenfill_engine::storage::{Output, RealDisk};
use tenfill_engine::table::{EntryBatches, TableWriter};

/// A split by its name.
fn split_named(name: &str) -> PyResult<Split> {
    let found = Split::ALL.into_iter().find(|split| split.name() == name);
    found.ok_or_else(|| {
        let what = format!("'{name}' is no split: there are train, validation and test");
        errors::raised(&tenfill_engine::Error::request(what))
    })
}

/// Runs a command and returns its line of JSON. `batches` are (split, source) of `convert`; `modes` are the
/// columns of the modes; `line` and `progress` hear of the work; with `keep`, an interrupt is no exception.
#[pyfunction]
#[pyo3(signature = (arguments, *, batches=Vec::new(), modes=None, line=None, progress=None, keep=false))]
pub fn call(
    py: Python<'_>,
    arguments: Vec<OsString>,
    batches: Vec<(String, Bound<'_, PyAny>)>,
    modes: Option<Vec<String>>,
    line: Option<Py<PyAny>>,
    progress: Option<Py<PyAny>>,
    keep: bool,
) -> PyResult<String> {
    let raised = Raised::default();
    let mut given = Vec::new();
    for (split, source) in &batches {
        given.push((split_named(split)?, batches::of(source, &raised)?));
    }
    let listeners = Listeners { line, progress };
    let answer = work::run(py, &listeners, keep, move |control, observe| {
        cli::call(arguments, Outside { control, observe, batches: given, modes })
    })?;
    answer.map(|json| json.to_string()).map_err(|failure| {
        // What an iterator has raised comes through as it is.
        take_raised(&raised).unwrap_or_else(|| errors::failed(&failure))
    })
}

/// Runs the program: its arguments, the name first, to its exit code.
#[pyfunction]
pub fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| cli::exit_code_of(arguments))
}

/// The names of the commands.
#[pyfunction]
pub fn commands() -> Vec<String> {
    cli::commands()
}

/// The flags of a command.
#[pyfunction]
pub fn flags(command: &str) -> Vec<String> {
    cli::flags(command)
}

/// The entries of a split, a block at a time.
#[pyfunction]
pub fn entries(dataset: PathBuf, split: &str) -> PyResult<Stream> {
    let split = split_named(split)?;
    let dataset = Dataset::open(&dataset).map_err(|error| errors::raised(&error))?;
    let entries = EntryBatches::new(&dataset, split).map_err(|error| errors::raised(&error))?;
    Ok(Stream::of_entries(entries))
}

/// The log of a run.
#[pyfunction]
pub fn log(run: PathBuf) -> PyResult<Table> {
    let lines = read_lines(&run).map_err(|error| errors::raised(&error))?;
    json_table(&lines).map_err(|error| errors::raised(&error))
}

/// Writes a stream as a table: Parquet, CSV or TSV by the ending of the name. Returns the number of rows.
#[pyfunction]
pub fn write_table(py: Python<'_>, stream: &Bound<'_, PyAny>, path: PathBuf, force: bool) -> PyResult<u64> {
    let raised = Raised::default();
    let batches = batches::of(stream, &raised)?;
    let written = work::run(py, &Listeners::default(), false, move |control, _| {
        let disk = RealDisk;
        let place = Output::new(&path, force);
        let mut writer = TableWriter::create(&disk, Some(&place), batches.schema(), &control)?;
        for batch in batches {
            control.check()?;
            let batch = batch.map_err(|error| {
                tenfill_engine::Error::input(tenfill_engine::ingest::STREAM, error.to_string())
            })?;
            writer.write(&batch)?;
        }
        writer.finish()
    })?;
    written.map_err(|error| take_raised(&raised).unwrap_or_else(|| errors::raised(&error)))
}

/// Panics where work is done: for the test of what becomes of it.
#[cfg(feature = "test-hooks")]
#[pyfunction]
pub fn _panic(py: Python<'_>, place: &str) -> PyResult<()> {
    match place {
        "here" => errors::guarded(|| panic!("on purpose")),
        "pool" => errors::guarded(|| match work::pool() {
            Ok(pool) => pool.install(|| panic!("on purpose")),
            Err(error) => Err(errors::raised(&error)),
        }),
        _ => work::run(py, &Listeners::default(), false, |_, _| panic!("on purpose")),
    }
}
