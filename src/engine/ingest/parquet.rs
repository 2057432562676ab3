//! Parquet to rows: one file or several parts, on disk or in a store.

use super::arrow_rows::{self, ArrowRows, BATCH_ROWS};
use super::columns::{Columns, FilePlan};
use super::parts::Part;
use super::rows::RowBatch;
use crate::control::Control;
use crate::error::{Error, IoContext, Result};
use crate::remote::{self, Blocks};
use crate::storage::guarded;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// How a Parquet file begins.
pub const MAGIC: &[u8; 4] = b"PAR1";

/// Whether a file begins as Parquet does.
///
/// Only a regular file or an object is looked into: what is read from a pipe is gone.
pub fn is_parquet(path: &Path, control: &Control) -> Result<bool> {
    if remote::is_remote(path) {
        return remote::begins_with(path, MAGIC, control);
    }
    let mut magic = [0; 4];
    let begun = path.is_file() && File::open(path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok());
    Ok(begun && &magic == MAGIC)
}

/// Where the bytes of a part are.
enum Place {
    File(File),
    Object(Blocks, Failure),
}

/// What a store said: the Parquet reader hands on only the words of it.
#[derive(Clone, Default)]
struct Failure(Arc<Mutex<Option<Error>>>);

impl Failure {
    fn take(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn keep(&self, error: Error) -> ParquetError {
        let words = error.to_string();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        ParquetError::General(words)
    }
}

impl Length for Place {
    fn len(&self) -> u64 {
        match self {
            Place::File(file) => Length::len(file),
            Place::Object(blocks, _) => blocks.size(),
        }
    }
}

impl ChunkReader for Place {
    type T = Box<dyn Read + Send>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(match self {
            Place::File(file) => Box::new(file.get_read(start)?),
            Place::Object(blocks, failure) => {
                Box::new(ObjectRead { blocks: blocks.clone(), failure: failure.clone(), at: start })
            }
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        match self {
            Place::File(file) => file.get_bytes(start, length),
            Place::Object(blocks, failure) => {
                let bytes = blocks.bytes(start, length).map_err(|error| failure.keep(error))?;
                match bytes.len() == length {
                    true => Ok(bytes),
                    false => Err(ParquetError::EOF("the object ends too early".into())),
                }
            }
        }
    }
}

/// An object from some place on.
struct ObjectRead {
    blocks: Blocks,
    failure: Failure,
    at: u64,
}

impl Read for ObjectRead {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.blocks.bytes(self.at, buffer.len());
        let bytes = bytes.map_err(|error| std::io::Error::other(self.failure.keep(error)))?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }
}

/// An open part: its rows in batches, with the columns that its folders give it behind its own.
pub(crate) struct PartReader {
    path: PathBuf,
    reader: ParquetRecordBatchReader,
    failure: Failure,
    keys: Vec<(String, Option<String>)>,
    schema: SchemaRef,
}

impl PartReader {
    /// Opens a part; `unpacked` is read in its place where it is given, and of its columns those that are
    /// `wanted`, in ascending order.
    pub(crate) fn open(
        part: &Part,
        unpacked: Option<&File>,
        wanted: Option<&[usize]>,
        batch: usize,
        control: &Control,
    ) -> Result<Self> {
        let path = &part.path;
        let failure = Failure::default();
        let place = match unpacked {
            Some(file) => Place::File(file.try_clone().context("open", path)?),
            None if remote::is_remote(path) => Place::Object(Blocks::open(path, control)?, failure.clone()),
            None => Place::File(File::open(path).context("open", path)?),
        };
        let builder = intact(path, &failure, || ParquetRecordBatchReaderBuilder::try_new(place))?;
        let own = builder.schema().fields().len();
        let wanted: Vec<usize> =
            wanted.map_or_else(|| (0..own + part.keys.len()).collect(), <[usize]>::to_vec);
        let keys = wanted.iter().filter_map(|column| part.keys.get(column.checked_sub(own)?).cloned());
        let keys: Vec<_> = keys.collect();
        let inside = wanted.iter().copied().filter(|&column| column < own);
        let mask = ProjectionMask::roots(builder.parquet_schema(), inside);
        let reader = intact(path, &failure, || builder.with_projection(mask).with_batch_size(batch).build())?;
        let mut fields: Vec<Field> = arrow_array::RecordBatchReader::schema(&reader)
            .fields()
            .iter()
            .map(|field| field.as_ref().clone())
            .collect();
        fields.extend(keys.iter().map(|(name, _)| Field::new(name, DataType::Utf8, true)));
        let schema = Arc::new(Schema::new(fields));
        Ok(PartReader { path: path.clone(), reader, failure, keys, schema })
    }

    /// Its columns.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next rows; `None` at the end.
    pub(crate) fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let reader = &mut self.reader;
        let batch = intact(&self.path, &self.failure, || reader.next().transpose())?;
        let Some(batch) = batch else { return Ok(None) };
        if self.keys.is_empty() {
            return Ok(Some(batch));
        }
        let rows = batch.num_rows();
        let key = |(_, value): &(String, Option<String>)| {
            Arc::new(std::iter::repeat_n(value.as_deref(), rows).collect::<StringArray>()) as ArrayRef
        };
        let columns = batch.columns().iter().cloned().chain(self.keys.iter().map(key)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let whole = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options);
        whole.map(Some).map_err(|error| Error::input(&self.path, error.to_string()))
    }
}

/// What the Parquet reader returns, with its errors and panics as damage to the file, and a store's as they were.
fn intact<T, E: std::fmt::Display>(
    path: &Path,
    failure: &Failure,
    read: impl FnOnce() -> Result<T, E>,
) -> Result<T> {
    let result = guarded(read).and_then(|result| result.map_err(|error| error.to_string()));
    result.map_err(|error| {
        failure.take().unwrap_or_else(|| {
            Error::input(path, format!("this Parquet file is damaged ({error}): fetch it again"))
        })
    })
}

/// The columns of a part (or of its unpacked copy), with the first row to guess from.
pub fn columns(part: &Part, unpacked: Option<&File>, control: &Control) -> Result<Columns> {
    let mut reader = PartReader::open(part, unpacked, None, arrow_rows::SAMPLE_ROWS, control)?;
    let first = reader.next_batch()?;
    Ok(arrow_rows::columns(reader.schema(), first.as_ref(), &part.path))
}

/// Reads one part's rows, a batch at a time.
pub struct PartRows {
    reader: PartReader,
    rows: ArrowRows,
}

impl PartRows {
    /// Opens a part for a plan; `unpacked` is read in its place where it is given.
    pub fn open(part: &Part, unpacked: Option<&File>, plan: &FilePlan, control: &Control) -> Result<Self> {
        let wanted = plan.used();
        let rows = ArrowRows::new(&part.path, plan, &wanted);
        let reader = PartReader::open(part, unpacked, Some(&wanted), BATCH_ROWS, control)?;
        Ok(PartRows { reader, rows })
    }

    /// The next rows; `None` at the end.
    pub fn next_rows(&mut self) -> Result<Option<RowBatch>> {
        let batch = self.reader.next_batch()?;
        batch.map(|batch| self.rows.rows(&batch)).transpose()
    }
}
