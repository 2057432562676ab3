//! Tables that go out: batches in memory, or a stream of them that is read once.

use crate::{arrow_ffi, errors, work};
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator,
    RecordBatchReader, StringArray,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::exceptions::{PyKeyError, PyStopIteration, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyCapsule};
use serde_json::Value;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tenfill_engine::ingest::Batches;
use tenfill_engine::ingest::arrow::{Column, is_null, nulls};
use tenfill_engine::table::EntryBatches;
use tenfill_engine::{Error, Result};

/// Batches in memory.
#[pyclass(frozen, module = "tenfill._native")]
pub struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Table {
    /// Of batches with these columns.
    pub fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Table { schema, batches }
    }

    /// Of one batch.
    pub fn of(columns: Vec<(&str, ArrayRef)>) -> Result<Self> {
        let field = |(name, array): &(&str, ArrayRef)| Field::new(*name, array.data_type().clone(), true);
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let arrays = columns.into_iter().map(|(_, array)| array).collect();
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays);
        let batch = batch.map_err(|error| Error::request(error.to_string()))?;
        Ok(Table { schema, batches: vec![batch] })
    }
}

#[pymethods]
impl Table {
    /// The batches as a capsule of the Arrow C stream interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // Another schema may be asked for, and need not be given.
        let _ = requested_schema;
        let batches = self.batches.clone().into_iter().map(Ok);
        arrow_ffi::export(py, Box::new(RecordBatchIterator::new(batches, Arc::clone(&self.schema))))
    }

    /// The number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The cells of a column, by its number: (kind, data). `f8`, `i8` and `b1` are bytes of NumPy's types,
    /// `text` is a list.
    fn column<'py>(&self, py: Python<'py>, number: usize) -> PyResult<(&'static str, Bound<'py, PyAny>)> {
        let Some(field) = self.schema.fields().get(number) else {
            return Err(PyKeyError::new_err(number));
        };
        let arrays: Vec<&ArrayRef> = self.batches.iter().map(|batch| batch.column(number)).collect();
        let bytes = |bytes: Vec<u8>| PyByteArray::new(py, &bytes).into_any();
        if let DataType::Boolean = field.data_type()
            && arrays.iter().all(|array| array.null_count() == 0)
        {
            let truths = arrays.iter().flat_map(|array| array.as_boolean().values().iter().map(u8::from));
            return Ok(("b1", bytes(truths.collect())));
        }
        if let DataType::Float64 = field.data_type() {
            let number = |x: Option<f64>| x.unwrap_or(f64::NAN).to_ne_bytes();
            let cells =
                arrays.iter().flat_map(|array| array.as_primitive::<Float64Type>().iter().map(number));
            return Ok(("f8", bytes(cells.flatten().collect())));
        }
        let mut cells = Vec::with_capacity(arrays.len());
        for array in &arrays {
            let column = Column::of(array, field.name(), Path::new("<table>"));
            cells.push((column.map_err(|error| PyTypeError::new_err(error.to_string()))?, nulls(array)));
        }
        let no_nulls = cells.iter().all(|(_, nulls)| nulls.is_none());
        if no_nulls
            && !cells.is_empty()
            && cells.iter().all(|(cells, _)| matches!(cells, Column::Integers(_)))
        {
            let numbers = cells.iter().flat_map(|(cells, _)| match cells {
                Column::Integers(values) => values.as_slice(),
                _ => &[],
            });
            return Ok(("i8", bytes(numbers.flat_map(|number| number.to_ne_bytes()).collect())));
        }
        let numbers = |cells: &Column<'_>| matches!(cells, Column::Integers(_) | Column::Floats(_));
        let each = || {
            cells.iter().zip(&arrays).flat_map(|((cells, nulls), array)| {
                (0..array.len()).map(move |row| (cells, row, is_null(nulls, row)))
            })
        };
        if !cells.is_empty() && cells.iter().all(|(cells, _)| numbers(cells)) {
            let number = |(cells, row, null): (&Column<'_>, usize, bool)| {
                cells.number(row).filter(|_| !null).unwrap_or(f64::NAN).to_ne_bytes()
            };
            return Ok(("f8", bytes(each().flat_map(number).collect())));
        }
        let texts: Vec<Option<String>> =
            each().map(|(cells, row, null)| (!null).then(|| cells.text(row).into_owned())).collect();
        Ok(("text", texts.into_pyobject(py)?.into_any()))
    }

    /// The first rows.
    fn head(&self, rows: usize) -> Table {
        let mut left = rows;
        let mut batches = Vec::new();
        for batch in &self.batches {
            let part = batch.slice(0, left.min(batch.num_rows()));
            left -= part.num_rows();
            batches.push(part);
            if left == 0 {
                break;
            }
        }
        Table { schema: Arc::clone(&self.schema), batches }
    }
}

/// Batches that come one after the other, once.
#[pyclass(frozen, module = "tenfill._native")]
pub struct Stream {
    batches: Mutex<Option<Box<dyn Source>>>,
}

/// Where a stream has its batches from, with errors in our own words.
pub trait Source: Send {
    /// The columns.
    fn schema(&self) -> SchemaRef;
    /// The next batch.
    fn next_batch(&mut self) -> PyResult<Option<RecordBatch>>;
}

impl Source for EntryBatches {
    fn schema(&self) -> SchemaRef {
        Arc::clone(EntryBatches::schema(self))
    }

    fn next_batch(&mut self) -> PyResult<Option<RecordBatch>> {
        EntryBatches::next_batch(self).map_err(|error| errors::raised(&error))
    }
}

impl Stream {
    /// Of a source.
    pub fn new(source: impl Source + 'static) -> Self {
        Stream { batches: Mutex::new(Some(Box::new(source))) }
    }

    /// Of the entries of a dataset.
    pub fn of_entries(entries: EntryBatches) -> Self {
        Stream::new(entries)
    }
}

/// A source as others read it.
struct Reader(Box<dyn Source>);

impl Iterator for Reader {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        // Whoever calls is no Rust code: a panic must not get there.
        let next = errors::guarded(|| self.0.next_batch());
        next.map_err(|error| ArrowError::ExternalError(error.to_string().into())).transpose()
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
}

#[pymethods]
impl Stream {
    /// Hands the batches that are left on; the stream is empty then.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let taken = self.batches.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(source) = taken else {
            let what = "this stream has been read already: make it anew";
            return Err(errors::raised(&Error::request(what)));
        };
        let batches: Batches = Box::new(Reader(source));
        arrow_ffi::export(py, batches)
    }

    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    /// The next batch as a table.
    fn __next__(&self, py: Python<'_>) -> PyResult<Table> {
        work::check_fork()?;
        let next = py.detach(|| {
            let mut batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(source) = batches.as_mut() else { return Ok(None) };
            let next = errors::guarded(|| source.next_batch())?;
            Ok::<_, PyErr>(next.map(|batch| Table { schema: source.schema(), batches: vec![batch] }))
        });
        py.check_signals()?;
        next?.ok_or_else(|| PyStopIteration::new_err(()))
    }
}

/// Lines of JSON as a table: a column per field of the first line. Lists and objects stay JSON.
pub fn json_table(lines: &[Value]) -> Result<Table> {
    let first = lines.first().and_then(Value::as_object);
    let mut names: Vec<&str> = first.into_iter().flat_map(|line| line.keys().map(String::as_str)).collect();
    // What people look at stands before the rest.
    let first = ["iteration", "passes", "seconds", "rank", "train_rmse", "validation_rmse"];
    names.sort_by_key(|name| first.iter().position(|other| other == name).unwrap_or(first.len()));
    let columns = names.iter().map(|name| {
        let cells: Vec<&Value> = lines.iter().map(|line| &line[*name]).collect();
        (*name, json_column(&cells))
    });
    Table::of(columns.collect())
}

fn json_column(cells: &[&Value]) -> ArrayRef {
    let all = |is: fn(&Value) -> bool| cells.iter().all(|cell| cell.is_null() || is(cell));
    if all(Value::is_i64) {
        return Arc::new(Int64Array::from_iter(cells.iter().map(|cell| cell.as_i64())));
    }
    if all(Value::is_number) {
        return Arc::new(Float64Array::from_iter(cells.iter().map(|cell| cell.as_f64())));
    }
    if all(Value::is_boolean) {
        return Arc::new(BooleanArray::from_iter(cells.iter().map(|cell| cell.as_bool())));
    }
    let text = |cell: &&Value| match cell {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    Arc::new(StringArray::from_iter(cells.iter().map(text)))
}
