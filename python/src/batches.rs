//! Rows that Python code makes: an iterator of frames, or of columns of NumPy arrays.

use crate::arrow_ffi;
use crate::errors::guarded;
use arrow_array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchReader, StringArray,
    TimestampMicrosecondArray,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList};
use std::sync::{Arc, Mutex, PoisonError};
use tenfill_engine::ingest::Batches;

/// The exception of an iterator, kept to come through as it is.
pub type Raised = Arc<Mutex<Option<PyErr>>>;

/// Takes what an iterator has raised.
pub fn take_raised(raised: &Raised) -> Option<PyErr> {
    raised.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// The batches of a source: an Arrow stream, or an iterator of such and of columns.
pub fn of(source: &Bound<'_, PyAny>, raised: &Raised) -> PyResult<Batches> {
    guarded(|| batches(source, raised))
}

fn batches(source: &Bound<'_, PyAny>, raised: &Raised) -> PyResult<Batches> {
    if arrow_ffi::is_arrow(source)? {
        return arrow_ffi::import(source);
    }
    let mut iterated = Iterated {
        items: source.try_iter()?.unbind(),
        now: None,
        schema: Arc::new(Schema::empty()),
        raised: Arc::clone(raised),
    };
    // The columns of the first item are those of all.
    if let Some(first) = iterated.next_item(source.py())? {
        iterated.schema = first.schema();
        iterated.now = Some(first);
    }
    Ok(Box::new(iterated))
}

struct Iterated {
    items: Py<PyIterator>,
    now: Option<Batches>,
    schema: SchemaRef,
    raised: Raised,
}

impl Iterated {
    fn next_item(&self, py: Python<'_>) -> PyResult<Option<Batches>> {
        let Some(item) = self.items.bind(py).clone().next().transpose()? else { return Ok(None) };
        if arrow_ffi::is_arrow(&item)? {
            return arrow_ffi::import(&item).map(Some);
        }
        let batch = columns(item.cast::<PyList>()?)?;
        let schema = batch.schema();
        Ok(Some(Box::new(arrow_array::RecordBatchIterator::new([Ok(batch)], schema))))
    }
}

impl Iterator for Iterated {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(batch) = self.now.as_mut().and_then(Iterator::next) {
                return Some(batch);
            }
            match Python::attach(|py| self.next_item(py)) {
                Ok(Some(item)) => self.now = Some(item),
                Ok(None) => return None,
                Err(error) => {
                    let text = error.to_string();
                    *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    return Some(Err(ArrowError::ExternalError(text.into())));
                }
            }
        }
    }
}

impl RecordBatchReader for Iterated {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// A batch from a list of (name, kind, data): `i8` and `f8` are buffers of 64-bit numbers, `us` one of
/// microseconds since 1970, `text` is a list of texts or None.
fn columns(list: &Bound<'_, PyList>) -> PyResult<RecordBatch> {
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for item in list {
        let (name, kind, data): (String, String, Bound<'_, PyAny>) = item.extract()?;
        let (kind, array) = column(&kind, &data)?;
        fields.push(Field::new(name, kind, true));
        arrays.push(array);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

fn column(kind: &str, data: &Bound<'_, PyAny>) -> PyResult<(DataType, ArrayRef)> {
    let py = data.py();
    Ok(match kind {
        "i8" => (DataType::Int64, Arc::new(Int64Array::from(PyBuffer::<i64>::get(data)?.to_vec(py)?))),
        "f8" => (DataType::Float64, Arc::new(Float64Array::from(PyBuffer::<f64>::get(data)?.to_vec(py)?))),
        "us" => {
            let numbers = PyBuffer::<i64>::get(data)?.to_vec(py)?;
            // NumPy writes a missing time as the least number.
            let times = numbers.into_iter().map(|number| Some(number).filter(|&number| number != i64::MIN));
            let array = TimestampMicrosecondArray::from_iter(times);
            (DataType::Timestamp(TimeUnit::Microsecond, None), Arc::new(array))
        }
        "text" => {
            let texts: Vec<Option<String>> = data.extract()?;
            (DataType::Utf8, Arc::new(StringArray::from(texts)))
        }
        other => return Err(PyValueError::new_err(format!("'{other}' is no kind of column"))),
    })
}
