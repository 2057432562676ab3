//! Arrow streams and batches from and to Python, by the C interfaces: the only file here with `unsafe` code.
#![allow(unsafe_code)]

use crate::errors::no_table;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{RecordBatch, RecordBatchIterator, StructArray};
use arrow_schema::DataType;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::CStr;
use tenfill_engine::ingest::Batches;

const NAME: &CStr = c"arrow_array_stream";

/// The batches of what has `__arrow_c_stream__`.
fn import_stream(stream: &Bound<'_, PyAny>) -> PyResult<Batches> {
    let capsule = stream.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>().map_err(no_table)?;
    let pointer = capsule.pointer_checked(Some(NAME))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of this name holds a valid stream by the Arrow PyCapsule interface, and is alive
    // here. The stream is moved out, and what stays behind is marked as released, so that the capsule will
    // not release it a second time.
    let reader = unsafe { RecordBatchStreamReader::from_raw(pointer.as_ptr()) };
    Ok(Box::new(reader.map_err(no_table)?))
}

/// Whether this is what [`import`] takes.
pub fn is_arrow(source: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(source.hasattr("__arrow_c_stream__")? || source.hasattr("__arrow_c_array__")?)
}

/// The batches of anything that has `__arrow_c_stream__`, or the one batch of what has `__arrow_c_array__` alone.
pub fn import(source: &Bound<'_, PyAny>) -> PyResult<Batches> {
    if source.hasattr("__arrow_c_stream__")? {
        return import_stream(source);
    }
    let batch = import_batch(source)?;
    let schema = batch.schema();
    Ok(Box::new(RecordBatchIterator::new([Ok(batch)], schema)))
}

fn import_batch(source: &Bound<'_, PyAny>) -> PyResult<RecordBatch> {
    let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) =
        source.call_method0("__arrow_c_array__")?.extract().map_err(no_table)?;
    let schema = schema.pointer_checked(Some(c"arrow_schema"))?.cast::<FFI_ArrowSchema>();
    let array = array.pointer_checked(Some(c"arrow_array"))?.cast::<FFI_ArrowArray>();
    // SAFETY: capsules of these names hold a valid schema and a valid array of it by the Arrow PyCapsule interface,
    // and are alive here. The array is moved out, and what stays behind is marked as released, so that its capsule
    // will not release it a second time; the schema is only read.
    let (array, schema) = unsafe { (FFI_ArrowArray::from_raw(array.as_ptr()), schema.as_ref()) };
    if array.is_released() {
        return Err(no_table("its array has been taken already"));
    }
    // SAFETY: the same; the array is not released, and of this schema.
    let data = unsafe { from_ffi(array, schema) }.map_err(no_table)?;
    if !matches!(data.data_type(), DataType::Struct(_)) || data.nulls().is_some() {
        return Err(no_table("it has no columns"));
    }
    Ok(StructArray::from(data).into())
}

/// A capsule that hands batches on; whoever takes the stream out of it releases it.
pub fn export(py: Python<'_>, batches: Batches) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(batches), NAME)
}
