//! Reads a table of any width in batches: delimited text or Parquet, plain or compressed.

use super::parts::Parts;
use super::raw::{RawRows, unquoted};
use crate::control::Control;
use crate::error::{Error, Result};
use crate::ingest::columns::is_column_number;
use crate::ingest::dialect::{self, Delimiter, DialectRequest};
use crate::ingest::quotes::Quotes;
use crate::ingest::source::{self, BytesRead, display_name};
use crate::ingest::{Signs, parquet, parts};
use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::borrow::Cow;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A batch ends after so many rows or so much text, whichever comes first.
const BATCH_ROWS: usize = 8192;
const BATCH_BYTES: usize = 4 << 20;
/// A row longer than this is an unclosed quote, or no text.
const LONGEST_ROW: usize = 1 << 20;
/// What is looked at, at a time, to find how a file is written.
const BEGINNING: usize = 1 << 16;

/// Some rows.
pub struct TableBatch {
    /// All columns, as they are in the file; text files have columns of text.
    pub rows: RecordBatch,
    /// Where each row stands: its line in text, its number in Parquet, from 1.
    pub lines: Vec<u64>,
}

/// An open table.
pub struct Table {
    path: PathBuf,
    schema: SchemaRef,
    header: bool,
    read: BytesRead,
    source: Source,
}

enum Source {
    Parquet { reader: Box<Parts>, row: u64 },
    Text { rows: Box<RawRows>, skip: bool },
    Blanks { reader: Box<dyn io::BufRead>, delimiter: Delimiter, line: u64, skip: bool, comments: bool },
}

impl Table {
    /// Opens a table. A first line that holds any of `names` is a header, whatever else it looks
    /// like.
    pub fn open(path: &Path, names: &[String], request: DialectRequest, control: &Control) -> Result<Self> {
        Self::open_source(&source::Source::from(path).encoded(request.encoding), names, request, control)
    }

    /// The same for an input that is opened again later.
    pub fn open_source(
        from: &source::Source,
        names: &[String],
        request: DialectRequest,
        control: &Control,
    ) -> Result<Self> {
        let path = from.path();
        let name = display_name(path);
        let read = BytesRead::default();
        let parts = if from.is_named() { parts::find(path, control)? } else { None };
        if let Some(parts) = parts {
            let reader = Parts::open(parts, None, BATCH_ROWS, control)?;
            let schema = reader.schema();
            let source = Source::Parquet { reader: Box::new(reader), row: 0 };
            return Ok(Table { path: name, schema, header: true, read, source });
        }
        let (mut stream, _) = source::open_text(from, read.clone(), control)?;
        let mut begun = Vec::new();
        let mut whole = false;
        // The header and a row after it, however wide the table is.
        while !whole && memchr::memchr_iter(b'\n', &begun).nth(1).is_none() && begun.len() <= 2 * LONGEST_ROW
        {
            let read = (&mut stream).take(BEGINNING as u64).read_to_end(&mut begun);
            whole = read.map_err(|error| source::read_error(path, error))? < BEGINNING;
        }
        if begun.starts_with(parquet::MAGIC) {
            let file = source::spool(Cursor::new(begun).chain(stream), path, &std::env::temp_dir())?;
            let reader = Parts::open(vec![name.clone().into()], Some(file), BATCH_ROWS, control)?;
            let schema = reader.schema();
            let source = Source::Parquet { reader: Box::new(reader), row: 0 };
            return Ok(Table { path: name, schema, header: true, read, source });
        }
        if memchr::memchr(0, &begun).is_some() {
            return Err(Error::input(name, "this is a binary file, not text (nor Parquet, gzip or zstd)"));
        }
        if begun.trim_ascii().is_empty() {
            return Err(Error::input(name, "the file is empty"));
        }
        let comments = source::plain_name(path).ends_with(".tns");
        let (delimiter, first) = look(&begun, whole, comments, request);
        let header = request.header.unwrap_or_else(|| {
            let number = |field: &String| crate::ingest::number::parse_number(field.as_bytes()).is_some();
            let named = |field: &String| names.contains(field) && !is_column_number(field, first.len());
            first.iter().any(named) || !first.iter().any(number)
        });
        let columns: Vec<String> = match header {
            true => first,
            false => (1..=first.len()).map(|column| format!("column{column}")).collect(),
        };
        let whole = Cursor::new(begun).chain(stream);
        let source = match delimiter {
            Delimiter::Byte(_) => {
                let single = columns.iter().enumerate().filter(|(_, column)| names.contains(column));
                let single = single.map(|(number, name)| (number, name.clone())).collect();
                let quotes = Quotes::new(delimiter, columns.len(), single, false);
                let rows = RawRows::new(Box::new(whole), name.clone(), delimiter, quotes, header);
                Source::Text { rows: Box::new(rows), skip: header }
            }
            delimiter => Source::Blanks {
                reader: Box::new(io::BufReader::with_capacity(1 << 16, whole)),
                delimiter,
                line: 0,
                skip: header,
                comments,
            },
        };
        Ok(Table { path: name, schema: text_schema(columns.into_iter()), header, read, source })
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The names of the columns; `column1`, ... where the file has none.
    pub fn names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Whether it is text, which has no types.
    pub fn is_text(&self) -> bool {
        !matches!(self.source, Source::Parquet { .. })
    }

    /// Whether the file gives names to its columns.
    pub fn has_header(&self) -> bool {
        self.header
    }

    /// What to call the file in messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How much of the file has been read, in its own bytes.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// The next rows; `None` at the end.
    pub fn next_batch(&mut self) -> Result<Option<TableBatch>> {
        let width = self.schema.fields().len();
        match &mut self.source {
            Source::Parquet { reader, row } => {
                let Some(rows) = reader.next_batch()? else { return Ok(None) };
                let first = *row + 1;
                *row += rows.num_rows() as u64;
                Ok(Some(TableBatch { lines: (first..=*row).collect(), rows }))
            }
            Source::Text { rows: lines, skip } => {
                let mut rows = Rows::new(width);
                while !rows.full() {
                    let Some(row) = lines.next_row()? else { break };
                    let line = row.line;
                    let wrong = |what| Error::Row { file: self.path.clone(), line, what };
                    if let Some(what) = row.flaw {
                        return Err(wrong(what));
                    }
                    let fields: Vec<Cow<'_, [u8]>> =
                        row.fields.iter().map(|place| unquoted(&row.bytes[place.clone()])).collect();
                    let blank = fields.iter().all(|field| field.trim_ascii().is_empty());
                    if blank && fields.len() == 1 && (width > 1 || row.bytes.is_empty())
                        || std::mem::take(skip)
                    {
                        continue;
                    }
                    rows.push(fields.iter().map(AsRef::as_ref), line).map_err(wrong)?;
                }
                rows.finish(&self.schema)
            }
            Source::Blanks { reader, delimiter, line, skip, comments } => {
                let mut rows = Rows::new(width);
                let mut text = Vec::new();
                while !rows.full() {
                    text.clear();
                    let limit = &mut reader.take(LONGEST_ROW as u64 + 1);
                    let count = io::BufRead::read_until(limit, b'\n', &mut text)
                        .map_err(|error| source::read_error(&self.path, error))?;
                    if count == 0 {
                        break;
                    }
                    *line += 1;
                    let row = |what| Error::Row { file: self.path.clone(), line: *line, what };
                    if text.len() > LONGEST_ROW {
                        return Err(row("a row is longer than 1 MB: is this not text?".into()));
                    }
                    let comment = *comments && is_comment(&text);
                    if comment || std::mem::take(skip) || text.trim_ascii().is_empty() {
                        continue;
                    }
                    let mut fields = Vec::with_capacity(width);
                    delimiter.split(text.trim_ascii_end(), |_, field| fields.push(field));
                    rows.push(fields.into_iter(), *line).map_err(row)?;
                }
                rows.finish(&self.schema)
            }
        }
    }
}

fn is_comment(line: &[u8]) -> bool {
    line.trim_ascii_start().starts_with(b"#")
}

/// The delimiter and the fields of the first line; one column where nothing separates fields.
fn look(begun: &[u8], whole: bool, comments: bool, request: DialectRequest) -> (Delimiter, Vec<String>) {
    let mut lines: Vec<&[u8]> = begun.split(|&byte| byte == b'\n').collect();
    if !whole && lines.len() > 1 {
        lines.pop(); // the last line is cut
    }
    lines.iter_mut().for_each(|line| *line = line.strip_suffix(b"\r").unwrap_or(line));
    lines.retain(|line| !(line.trim_ascii().is_empty() || comments && is_comment(line)));
    lines.truncate(20);
    let first = lines.first().copied().unwrap_or_default();
    match dialect::detect(&lines, request, |_| false, &Signs::default()) {
        Ok(found) => (found.delimiter, found.delimiter.fields(first)),
        Err(_) => (Delimiter::Byte(b','), Delimiter::Byte(b',').fields(first)),
    }
}

fn text_schema(names: impl Iterator<Item = String>) -> SchemaRef {
    Arc::new(Schema::new(names.map(|name| Field::new(name, DataType::Utf8, true)).collect::<Vec<_>>()))
}

/// Columns of text that are being filled.
struct Rows {
    columns: Vec<StringBuilder>,
    lines: Vec<u64>,
    bytes: usize,
}

impl Rows {
    fn new(width: usize) -> Self {
        Rows { columns: (0..width).map(|_| StringBuilder::new()).collect(), lines: Vec::new(), bytes: 0 }
    }

    fn full(&self) -> bool {
        self.lines.len() >= BATCH_ROWS || self.bytes >= BATCH_BYTES
    }

    fn push<'r>(&mut self, fields: impl ExactSizeIterator<Item = &'r [u8]>, line: u64) -> Result<(), String> {
        if fields.len() != self.columns.len() {
            return Err(format!("{} fields where {} were expected", fields.len(), self.columns.len()));
        }
        for (column, field) in self.columns.iter_mut().zip(fields) {
            let text = std::str::from_utf8(field)
                .map_err(|_| "the row is not UTF-8 text: `encoding` says what it is".to_string())?;
            column.append_value(text);
            self.bytes += field.len();
        }
        self.lines.push(line);
        Ok(())
    }

    fn finish(mut self, schema: &SchemaRef) -> Result<Option<TableBatch>> {
        if self.lines.is_empty() {
            return Ok(None);
        }
        let columns: Vec<ArrayRef> =
            self.columns.iter_mut().map(|column| Arc::new(column.finish()) as ArrayRef).collect();
        let rows = RecordBatch::try_new(Arc::clone(schema), columns)
            .map_err(|error| Error::request(error.to_string()))?;
        Ok(Some(TableBatch { rows, lines: self.lines }))
    }
}
