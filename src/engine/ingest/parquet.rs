//! Parquet to rows: one file or several parts, on disk or in a store.

use super::arrow_rows::{self, ArrowRows, BATCH_ROWS};
use super::columns::{Columns, FilePlan};
use super::parts::ParquetFile;
use super::rows::RowBatch;
use crate::control::Control;
use crate::error::{Error, IoContext, Result};
use crate::remote::{self, Blocks};
use crate::storage::guarded;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};
use std::fs::File;
use std::io::{BufReader, Read};
use std::os::unix::fs::FileExt;
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
#[derive(Clone)]
enum Place {
    File(Arc<File>),
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
            Place::File(file) => file.metadata().map_or(0, |about| about.len()),
            Place::Object(blocks, _) => blocks.size(),
        }
    }
}

impl ChunkReader for Place {
    type T = Box<dyn Read + Send>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(match self {
            Place::File(file) => Box::new(BufReader::new(FileRead { file: Arc::clone(file), at: start })),
            Place::Object(blocks, failure) => {
                Box::new(ObjectRead { blocks: blocks.clone(), failure: failure.clone(), at: start })
            }
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        match self {
            Place::File(file) => {
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, start)?;
                Ok(bytes.into())
            }
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

/// A file from some place on. It is read by places, not by the file's own, which all that share it would move.
struct FileRead {
    file: Arc<File>,
    at: u64,
}

impl Read for FileRead {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
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

/// A part whose description has been read.
pub(super) struct OpenPart {
    place: Place,
    metadata: ArrowReaderMetadata,
    failure: Failure,
}

impl OpenPart {
    /// Opens a part; `unpacked` is read in its place where it is given.
    pub(super) fn open(part: &ParquetFile, unpacked: Option<&File>, control: &Control) -> Result<Self> {
        let path = &part.path;
        let failure = Failure::default();
        let place = match unpacked {
            Some(file) => Place::File(Arc::new(file.try_clone().context("open", path)?)),
            None if remote::is_remote(path) => Place::Object(Blocks::open(path, control)?, failure.clone()),
            None => Place::File(Arc::new(File::open(path).context("open", path)?)),
        };
        let options = ArrowReaderOptions::default();
        let metadata = intact(path, &failure, || ArrowReaderMetadata::load(&place, options))?;
        Ok(OpenPart { place, metadata, failure })
    }

    /// The same once more.
    pub(super) fn again(&self) -> Result<Self> {
        let OpenPart { place, metadata, failure } = self;
        Ok(OpenPart { place: place.clone(), metadata: metadata.clone(), failure: failure.clone() })
    }

    /// The rows of each of its groups.
    pub(super) fn groups(&self) -> Vec<usize> {
        let groups = self.metadata.metadata().row_groups().iter();
        groups.map(|group| usize::try_from(group.num_rows()).unwrap_or(0)).collect()
    }

    /// Bytes of the columns `wanted` in memory: each of them in the group where it is largest.
    pub(super) fn chunk_bytes(&self, wanted: &[usize]) -> Vec<u64> {
        let schema = self.metadata.parquet_schema();
        let leaves =
            (0..schema.num_columns()).filter(|&leaf| wanted.contains(&schema.get_column_root_idx(leaf)));
        let bytes = |leaf: usize| {
            let groups = self.metadata.metadata().row_groups().iter();
            let bytes = groups.map(|group| group.column(leaf).uncompressed_size());
            bytes.max().and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0)
        };
        leaves.map(bytes).collect()
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
        part: &ParquetFile,
        unpacked: Option<&File>,
        wanted: Option<&[usize]>,
        batch: usize,
        control: &Control,
    ) -> Result<Self> {
        Self::build(OpenPart::open(part, unpacked, control)?, part, wanted, batch, None)
    }

    /// The same of a part that is open, or of some rows of one of its groups.
    fn build(
        open: OpenPart,
        part: &ParquetFile,
        wanted: Option<&[usize]>,
        batch: usize,
        rows: Option<(usize, usize, usize)>,
    ) -> Result<Self> {
        let path = &part.path;
        let OpenPart { place, metadata, failure } = open;
        let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(place, metadata);
        if let Some((group, offset, count)) = rows {
            builder = builder.with_row_groups(vec![group]).with_offset(offset).with_limit(count);
        }
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
pub fn columns(part: &ParquetFile, unpacked: Option<&File>, control: &Control) -> Result<Columns> {
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
    pub fn open(
        part: &ParquetFile,
        unpacked: Option<&File>,
        plan: &FilePlan,
        control: &Control,
    ) -> Result<Self> {
        let wanted = plan.used();
        let rows = ArrowRows::new(&part.path, plan, &wanted);
        let reader = PartReader::open(part, unpacked, Some(&wanted), BATCH_ROWS, control)?;
        Ok(PartRows { reader, rows })
    }

    /// Some rows of a group of an open part: which group, how many rows of it come before, and how many are wanted;
    /// `before` of the part come before them.
    pub(super) fn slice(
        open: OpenPart,
        part: &ParquetFile,
        plan: &FilePlan,
        rows: (usize, usize, usize),
        before: u64,
    ) -> Result<Self> {
        let wanted = plan.used();
        let reader = PartReader::build(open, part, Some(&wanted), BATCH_ROWS, Some(rows))?;
        Ok(PartRows { reader, rows: ArrowRows::new(&part.path, plan, &wanted).behind(before) })
    }

    /// The next rows; `None` at the end.
    pub fn next_rows(&mut self) -> Result<Option<RowBatch>> {
        let batch = self.reader.next_batch()?;
        batch.map(|batch| self.rows.rows(&batch)).transpose()
    }
}
