//! Writes a table in batches: CSV, TSV or Parquet by the ending of the name, CSV to standard output.

use super::cells::Cells;
use super::sink::{Sink, Target};
use crate::control::Control;
use crate::error::{Error, IoContext, Result};
use crate::message::printable;
use crate::storage::{Disk, Output as Place};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a table is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text with this between fields.
    Text(u8),
    /// Parquet.
    Parquet,
}

impl Kind {
    /// From the ending of a name; compressed text as `.csv.gz` or `.csv.zst`.
    pub fn of(path: &Path) -> Result<Self> {
        let name = crate::ingest::source::plain_name(path);
        match name.rsplit_once('.').map(|(_, ending)| ending) {
            Some("csv") => Ok(Kind::Text(b',')),
            Some("tsv" | "txt") => Ok(Kind::Text(b'\t')),
            Some("parquet" | "pq") => Ok(Kind::Parquet),
            _ => Err(Error::request(format!(
                "'{}' does not say what to write: end it with .csv, .tsv (also .gz, .zst) or .parquet",
                path.display()
            ))),
        }
    }
}

/// Rows per group of a Parquet file: what the writer holds before it writes.
const GROUP_ROWS: usize = 1 << 17;

/// Whether a column holds numbers that were computed.
fn is_computed(field: &Field) -> bool {
    *field.data_type() == DataType::Float64
        && ["prediction", "sd", "bound"].iter().any(|name| field.name().starts_with(name))
}

enum Output<'d> {
    Text(Box<csv::Writer<Sink<'d>>>),
    Parquet(Box<ArrowWriter<Sink<'d>>>),
}

/// A table that is being written; it has its name only when [`TableWriter::finish`] has returned.
pub struct TableWriter<'d> {
    path: PathBuf,
    schema: SchemaRef,
    output: Output<'d>,
    /// Whether somebody looks at it: then control characters of ids are shown, not sent.
    terminal: bool,
    closed: bool,
    rows: u64,
}

/// The disk's own error, where it was that.
fn of_parquet(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => other.into(),
    }
}

impl<'d> TableWriter<'d> {
    /// Begins a table; `None` or `-` is CSV on standard output.
    pub fn create(
        disk: &'d dyn Disk,
        place: Option<&Place>,
        schema: SchemaRef,
        control: &Control,
    ) -> Result<Self> {
        let Some(place) = place.filter(|place| place.path != Path::new("-")) else {
            let sink = Sink::Stdout(io::BufWriter::with_capacity(1 << 16, io::stdout()));
            return Self::text(sink, b',', "standard output".into(), schema, io::stdout().is_terminal());
        };
        let path = place.path.as_path();
        let kind = Kind::of(path)?;
        let file = Target::create(disk, place, control)?;
        match kind {
            Kind::Text(delimiter) => {
                Self::text(Sink::packed(file, path)?, delimiter, path.into(), schema, false)
            }
            Kind::Parquet => {
                let level = parquet::basic::ZstdLevel::default();
                let mut properties = WriterProperties::builder()
                    .set_compression(Compression::ZSTD(level))
                    .set_max_row_group_row_count(Some(GROUP_ROWS));
                // Hardly two predictions are the same: to look for equal ones takes longer than all else.
                for field in schema.fields().iter().filter(|field| is_computed(field)) {
                    properties =
                        properties.set_column_dictionary_enabled(field.name().as_str().into(), false);
                }
                let properties = properties.build();
                let writer = ArrowWriter::try_new(Sink::Plain(file), Arc::clone(&schema), Some(properties))
                    .map_err(io::Error::from)
                    .context("write", path)?;
                let output = Output::Parquet(Box::new(writer));
                Ok(TableWriter { path: path.into(), schema, output, terminal: false, closed: false, rows: 0 })
            }
        }
    }

    /// Begins a table that is a new file.
    pub fn file(disk: &'d dyn Disk, path: impl AsRef<Path>, schema: SchemaRef) -> Result<Self> {
        Self::create(disk, Some(&Place::new(path.as_ref(), false)), schema, &Control::default())
    }

    /// Whether a table can be written there, before anything else is done.
    pub fn check(place: Option<&Place>, control: &Control) -> Result<()> {
        match place.filter(|place| place.path != Path::new("-")) {
            Some(place) => Kind::of(&place.path).and_then(|_| Target::check(place, control)),
            None => Ok(()),
        }
    }

    fn text(sink: Sink<'d>, delimiter: u8, path: PathBuf, schema: SchemaRef, terminal: bool) -> Result<Self> {
        let writer =
            csv::WriterBuilder::new().delimiter(delimiter).buffer_capacity(1 << 16).from_writer(sink);
        let output = Output::Text(Box::new(writer));
        let mut table = TableWriter { path, schema, output, terminal, closed: false, rows: 0 };
        let names: Vec<String> = table.schema.fields().iter().map(|field| field.name().clone()).collect();
        table.record(names.iter().map(String::as_str))?;
        Ok(table)
    }

    /// Whether nobody reads what is written any more: there is no use in going on.
    pub fn closed(&self) -> bool {
        self.closed
    }

    /// The number of rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    fn record<'r>(&mut self, fields: impl Iterator<Item = &'r str>) -> Result<()> {
        let Output::Text(writer) = &mut self.output else { return Ok(()) };
        let written = match self.terminal {
            true => writer.write_record(fields.map(|field| printable(field).into_owned())),
            false => writer.write_record(fields),
        };
        let written = written.map_err(|error| match error.into_kind() {
            csv::ErrorKind::Io(error) => error,
            other => io::Error::other(format!("{other:?}")),
        });
        self.listened(written)
    }

    /// A reader that has gone is no error.
    fn listened(&mut self, result: io::Result<()>) -> Result<()> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            other => other.context("write", &self.path),
        }
    }

    /// Appends rows.
    pub fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        if self.closed {
            return Ok(());
        }
        self.rows += rows.num_rows() as u64;
        if let Output::Parquet(writer) = &mut self.output {
            return writer.write(rows).map_err(of_parquet).context("write", &self.path);
        }
        let names: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        let mut columns = Vec::with_capacity(names.len());
        for (array, name) in rows.columns().iter().zip(&names) {
            columns.push(match array.data_type() {
                DataType::Null => None,
                _ => Some(Cells::of(array, name, &self.path)?),
            });
        }
        for row in 0..rows.num_rows() {
            let fields: Vec<_> = columns
                .iter()
                .map(|cells| cells.as_ref().and_then(|cells| cells.text(row)).unwrap_or_default())
                .collect();
            self.record(fields.iter().map(|field| field.as_ref()))?;
            if self.closed {
                break;
            }
        }
        Ok(())
    }

    /// Completes the table and gives it its name; returns the number of rows.
    pub fn finish(self) -> Result<u64> {
        let TableWriter { path, output, rows, closed, .. } = self;
        let sink = match output {
            Output::Parquet(writer) => writer.into_inner().map_err(of_parquet).context("write", &path)?,
            Output::Text(writer) => match writer.into_inner() {
                Ok(sink) => sink,
                Err(error) if closed || error.error().kind() == io::ErrorKind::BrokenPipe => {
                    // What is left in the buffer has no reader; dropping it would try once more.
                    return Ok(rows);
                }
                Err(error) => {
                    let source = io::Error::new(error.error().kind(), error.error().to_string());
                    return Err(source).context("write", &path);
                }
            },
        };
        sink.finish(&path)?;
        Ok(rows)
    }
}
