//! A stream of Arrow batches to rows: what a program hands over in place of a file.

use super::arrow_rows::{self, ArrowRows, BATCH_ROWS};
use super::columns::{Columns, FilePlan};
use super::rows::RowBatch;
use crate::error::{Error, Result};
use crate::storage::guarded;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{DataType, Schema};
use std::path::Path;

/// Batches that are read once, in order.
pub type Batches = Box<dyn RecordBatchReader + Send>;

/// What a stream is called in messages, where a file has its path.
pub const STREAM: &str = "<stream>";

/// Whether two batches have the same columns: whether they may hold nulls is not looked at.
pub fn same_columns(one: &Schema, other: &Schema) -> bool {
    let columns = |schema: &Schema| -> Vec<(String, DataType)> {
        schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect()
    };
    columns(one) == columns(other)
}

/// A stream whose first rows have been looked at.
pub struct BegunBatches {
    batches: Batches,
    /// What has been taken from it and not been handed on.
    rest: Option<RecordBatch>,
    columns: Columns,
    taken: u64,
}

impl BegunBatches {
    /// Looks at the first rows.
    pub fn open(batches: Batches) -> Result<Self> {
        let columns = Columns { count: 0, ..Columns::default() };
        let mut stream = BegunBatches { batches, rest: None, columns, taken: 0 };
        stream.rest = stream.next_batch()?;
        let schema = stream.batches.schema();
        stream.columns = arrow_rows::columns(&schema, stream.rest.as_ref(), Path::new(STREAM));
        Ok(stream)
    }

    /// Its columns.
    pub fn columns(&self) -> &Columns {
        &self.columns
    }

    /// The next batch that has rows.
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let wrong = |what: String| Error::input(STREAM, what);
        loop {
            let next = guarded(|| self.batches.next().transpose());
            let next = next.and_then(|next| next.map_err(|error| error.to_string()));
            let next = next.map_err(|error| {
                wrong(format!("the stream has failed after {} rows ({})", self.taken, error.trim()))
            })?;
            let Some(batch) = next else { return Ok(None) };
            if !same_columns(&batch.schema(), &self.batches.schema()) {
                let what = format!("a batch behind {} rows has other columns than the first one", self.taken);
                return Err(wrong(what));
            }
            self.taken += batch.num_rows() as u64;
            if batch.num_rows() > 0 {
                return Ok(Some(batch));
            }
        }
    }

    /// Gives all its rows to `each`, in order.
    pub fn read(mut self, plan: &FilePlan, mut each: impl FnMut(RowBatch) -> Result<()>) -> Result<()> {
        let all: Vec<usize> = (0..self.columns.count).collect();
        let mut rows = ArrowRows::new(Path::new(STREAM), plan, &all);
        while let Some(batch) = self.rest.take().map_or_else(|| self.next_batch(), |rest| Ok(Some(rest)))? {
            // A frame may come as one batch of any size; rows are handed on in small ones.
            for first in (0..batch.num_rows()).step_by(BATCH_ROWS) {
                let part = batch.slice(first, BATCH_ROWS.min(batch.num_rows() - first));
                let mut part = rows.rows(&part)?;
                part.file = STREAM.into();
                each(part)?;
            }
        }
        Ok(())
    }
}
