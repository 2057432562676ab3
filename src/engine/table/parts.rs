//! The rows of Parquet files with all their columns.

use crate::control::Control;
use crate::error::{Error, Result};
use crate::ingest::parquet::PartReader;
use crate::ingest::parts::ParquetFile;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use std::fs::File;

/// One file, or several of the same columns one after the other.
pub(super) struct Parts {
    parts: std::vec::IntoIter<ParquetFile>,
    now: PartReader,
    schema: SchemaRef,
    batch: usize,
    control: Control,
}

impl Parts {
    /// Opens the first part; `unpacked` is read in its place where it is given.
    pub(super) fn open(
        parts: Vec<ParquetFile>,
        unpacked: Option<File>,
        batch: usize,
        control: &Control,
    ) -> Result<Self> {
        let mut parts = parts.into_iter();
        let first = parts.next().ok_or_else(|| Error::request("there is no input file"))?;
        let now = PartReader::open(&first, unpacked.as_ref(), None, batch, control)?;
        let schema = SchemaRef::clone(now.schema());
        Ok(Parts { parts, now, schema, batch, control: control.clone() })
    }

    pub(super) fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    /// The next rows; `None` at the end.
    pub(super) fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.now.next_batch()? {
                return Ok(Some(batch));
            }
            let Some(part) = self.parts.next() else { return Ok(None) };
            self.now = PartReader::open(&part, None, None, self.batch, &self.control)?;
            if self.now.schema().fields() != self.schema.fields() {
                return Err(Error::input(part.path, "this part has other columns than the first one"));
            }
        }
    }
}
