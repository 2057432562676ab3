//! Arrow streams from and to Python, by the C stream interface: the only file here with `unsafe` code.
#![allow(unsafe_code)]

use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::CStr;
use tenfill_engine::ingest::Batches;

const NAME: &CStr = c"arrow_array_stream";

/// The batches of anything that has `__arrow_c_stream__`.
pub fn import(stream: &Bound<'_, PyAny>) -> PyResult<Batches> {
    let capsule = stream.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(NAME))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of this name holds a valid stream by the Arrow PyCapsule interface, and is alive
    // here. The stream is moved out, and what stays behind is marked as released, so that the capsule will
    // not release it a second time.
    let reader = unsafe { RecordBatchStreamReader::from_raw(pointer.as_ptr()) };
    Ok(Box::new(
        reader.map_err(|error| PyTypeError::new_err(format!("this is no stream of tables: {error}")))?,
    ))
}

/// A capsule that hands batches on; whoever takes the stream out of it releases it.
pub fn export(py: Python<'_>, batches: Batches) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(batches), NAME)
}
