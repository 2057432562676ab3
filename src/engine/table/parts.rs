//! The rows of Parquet files with all their columns.

use crate::error::{Error, Result};
use crate::ingest::parquet::{builder, intact};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use std::fs::File;
use std::path::PathBuf;

/// One file, or several of the same columns one after the other.
pub(super) struct Parts {
    parts: std::vec::IntoIter<PathBuf>,
    now: (PathBuf, ParquetRecordBatchReader),
    schema: SchemaRef,
    batch: usize,
}

impl Parts {
    /// Opens the first part; `unpacked` is read in its place where it is given.
    pub(super) fn open(parts: Vec<PathBuf>, unpacked: Option<File>, batch: usize) -> Result<Self> {
        let mut parts = parts.into_iter();
        let path = parts.next().ok_or_else(|| Error::request("there is no input file"))?;
        let opened = builder(&path, unpacked.as_ref())?;
        let schema = opened.schema().clone();
        let reader = intact(&path, || opened.with_batch_size(batch).build())?;
        Ok(Parts { parts, now: (path, reader), schema, batch })
    }

    pub(super) fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    /// The next rows; `None` at the end.
    pub(super) fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let (path, reader) = &mut self.now;
            if let Some(batch) = intact(path, || reader.next().transpose())? {
                return Ok(Some(batch));
            }
            let Some(path) = self.parts.next() else { return Ok(None) };
            let opened = builder(&path, None)?;
            if opened.schema().fields() != self.schema.fields() {
                return Err(Error::input(path, "this part has other columns than the first one"));
            }
            let reader = intact(&path, || opened.with_batch_size(self.batch).build())?;
            self.now = (path, reader);
        }
    }
}
