//! Parquet to rows: one file or a directory of parts.

use super::arrow_rows::{self, ArrowRows, BATCH_ROWS};
use super::columns::{Columns, FilePlan};
use super::rows::RowBatch;
use crate::error::{Error, IoContext, Result};
use crate::storage::guarded;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use std::fs::File;
use std::path::{Path, PathBuf};

/// How a Parquet file begins.
pub const MAGIC: &[u8; 4] = b"PAR1";

/// Whether a file begins as Parquet does.
///
/// Only a regular file is looked into: what is read from a pipe is gone.
pub fn is_parquet(path: &Path) -> bool {
    use std::io::Read;
    let mut magic = [0; 4];
    path.is_file()
        && File::open(path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok())
        && &magic == MAGIC
}

/// The parts in a directory, sorted by name; hidden and marker files (`_SUCCESS`) are left out.
pub fn parts(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut parts = Vec::new();
    for entry in std::fs::read_dir(directory).context("read", directory)? {
        let path = entry.context("read", directory)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_string();
        if path.is_file() && !name.starts_with(['_', '.']) && is_parquet(&path) {
            parts.push(path);
        }
    }
    parts.sort();
    if parts.is_empty() {
        return Err(Error::input(directory, "there is no Parquet file in this directory"));
    }
    Ok(parts)
}

pub(crate) fn builder(path: &Path, unpacked: Option<&File>) -> Result<ParquetRecordBatchReaderBuilder<File>> {
    let file = unpacked.map_or_else(|| File::open(path), File::try_clone).context("open", path)?;
    intact(path, || ParquetRecordBatchReaderBuilder::try_new(file))
}

/// What the Parquet reader returns, with its errors and panics as damage to the file.
pub(crate) fn intact<T, E: std::fmt::Display>(path: &Path, read: impl FnOnce() -> Result<T, E>) -> Result<T> {
    let result = guarded(read).and_then(|result| result.map_err(|error| error.to_string()));
    result.map_err(|error| {
        Error::input(path, format!("this Parquet file is damaged ({error}): fetch it again"))
    })
}

/// The columns of a file (or of its unpacked copy), with the first row to guess from.
pub fn columns(path: &Path, unpacked: Option<&File>) -> Result<Columns> {
    let builder = builder(path, unpacked)?;
    let schema = builder.schema().clone();
    let mut reader = intact(path, || builder.with_batch_size(arrow_rows::SAMPLE_ROWS).build())?;
    let first = intact(path, || reader.next().transpose())?;
    Ok(arrow_rows::columns(&schema, first.as_ref(), path))
}

/// Reads one file's rows, a batch at a time.
pub struct Parts {
    reader: ParquetRecordBatchReader,
    path: PathBuf,
    rows: ArrowRows,
}

impl Parts {
    /// Opens a file for a plan; `unpacked` is read in its place where it is given.
    pub fn open(path: &Path, unpacked: Option<&File>, plan: &FilePlan) -> Result<Self> {
        let builder = builder(path, unpacked)?;
        let wanted = plan.used();
        let rows = ArrowRows::new(path, plan, &wanted);
        let mask = ProjectionMask::roots(builder.parquet_schema(), wanted);
        let reader = intact(path, || builder.with_projection(mask).with_batch_size(BATCH_ROWS).build())?;
        Ok(Parts { reader, path: path.into(), rows })
    }

    /// The next rows; `None` at the end.
    pub fn next_rows(&mut self) -> Result<Option<RowBatch>> {
        let batch = intact(&self.path, || self.reader.next().transpose())?;
        batch.map(|batch| self.rows.rows(&batch)).transpose()
    }
}
