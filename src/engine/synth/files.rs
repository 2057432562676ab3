//! Writes generated entries as files: `.tns`, `.csv` or `.parquet`, each also `.gz`.

use super::batch::Batch;
use crate::error::{IoContext, Result};
use crate::shard::Split;
use crate::storage::{AtomicFile, Disk, Output as Place};
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use flate2::write::GzEncoder;
use parquet::arrow::ArrowWriter;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Saturday, 1 January 2000: week 0 of generated ratings.
const FIRST_WEEK: i64 = 946_684_800;
const WEEK: i64 = 604_800;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tns,
    Csv,
    Parquet,
}

/// A file that was written.
#[derive(Debug, Clone)]
pub struct WrittenFile {
    /// Where.
    pub path: PathBuf,
    /// How many entries.
    pub entries: u64,
    /// How many bytes.
    pub bytes: u64,
}

/// What [`EntryFiles::finish`] has written.
#[derive(Debug, Clone)]
pub struct WrittenFiles {
    /// The files.
    pub files: Vec<WrittenFile>,
    /// Entries of train, validation and test.
    pub entries: [u64; 3],
}

/// Where the bytes of a file go.
enum Sink<'d> {
    Plain(AtomicFile<'d>),
    Gzip(Box<GzEncoder<AtomicFile<'d>>>),
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Sink::Plain(file) => file.write(bytes),
            Sink::Gzip(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Sink::Plain(file) => file.flush(),
            Sink::Gzip(file) => file.flush(),
        }
    }
}

enum Output<'d> {
    Text(Sink<'d>),
    Parquet(Box<ArrowWriter<Sink<'d>>>, Arc<Schema>),
}

struct OneFile<'d> {
    path: PathBuf,
    output: Output<'d>,
    entries: u64,
    text: Vec<u8>,
}

/// One file per split that has entries.
pub struct EntryFiles<'d> {
    disk: &'d dyn Disk,
    path: PathBuf,
    kind: Kind,
    gzip: bool,
    order: usize,
    ratings: bool,
    force: bool,
    files: [Option<OneFile<'d>>; 3],
}

impl<'d> EntryFiles<'d> {
    /// Begins files named after `path`; the splits beside it are `x.validation.csv`, `x.test.csv`.
    pub fn create(disk: &'d dyn Disk, path: &Path, order: usize, ratings: bool, force: bool) -> Result<Self> {
        let name = crate::ingest::source::plain_name(path);
        let kind = match name.rsplit('.').next() {
            Some("tns") => Kind::Tns,
            Some("csv") => Kind::Csv,
            _ => Kind::Parquet,
        };
        let gzip = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gz"));
        let files = EntryFiles {
            disk,
            path: path.into(),
            kind,
            gzip,
            order,
            ratings,
            force,
            files: [None, None, None],
        };
        for split in [Split::Train, Split::Validation, Split::Test] {
            AtomicFile::check(&Place::new(files.path_of(split), force))?;
        }
        Ok(files)
    }

    /// The names of the modes in a file with a header.
    pub fn mode_names(order: usize, ratings: bool) -> Vec<String> {
        if ratings {
            return ["userId", "movieId", "timestamp"].map(String::from).into();
        }
        ["i", "j", "k", "l", "m", "n", "o", "p"][..order].iter().map(|name| name.to_string()).collect()
    }

    fn path_of(&self, split: Split) -> PathBuf {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().to_string();
        let plain = if self.gzip { &name[..name.len() - 3] } else { &name };
        let (stem, ending) = plain.rsplit_once('.').unwrap_or((plain, ""));
        let split = match split {
            Split::Train => "",
            Split::Validation => ".validation",
            Split::Test => ".test",
        };
        self.path.with_file_name(format!("{stem}{split}.{ending}{}", if self.gzip { ".gz" } else { "" }))
    }

    fn open(&self, split: Split) -> Result<OneFile<'d>> {
        let path = self.path_of(split);
        let file = AtomicFile::output(self.disk, &Place::new(&path, self.force))?;
        let mut sink = if self.gzip {
            Sink::Gzip(Box::new(GzEncoder::new(file, flate2::Compression::fast())))
        } else {
            Sink::Plain(file)
        };
        let names = Self::mode_names(self.order, self.ratings);
        let output = match self.kind {
            Kind::Tns => Output::Text(sink),
            Kind::Csv => {
                let header = if self.ratings {
                    "userId,movieId,rating,timestamp\n".to_string()
                } else {
                    names.join(",") + ",value\n"
                };
                sink.write_all(header.as_bytes()).context("write", &path)?;
                Output::Text(sink)
            }
            Kind::Parquet => {
                let mut fields: Vec<Field> =
                    names.iter().map(|name| Field::new(name, DataType::Int64, false)).collect();
                fields.push(Field::new(
                    if self.ratings { "rating" } else { "value" },
                    DataType::Float64,
                    false,
                ));
                let schema = Arc::new(Schema::new(fields));
                let properties = parquet::file::properties::WriterProperties::builder()
                    .set_compression(parquet::basic::Compression::SNAPPY)
                    .build();
                let writer = ArrowWriter::try_new(sink, Arc::clone(&schema), Some(properties));
                let writer = writer.map_err(std::io::Error::other).context("write", &path)?;
                Output::Parquet(Box::new(writer), schema)
            }
        };
        Ok(OneFile { path, output, entries: 0, text: Vec::new() })
    }

    /// The ids of an entry as they stand in the file: from 1, weeks as the seconds they begin at.
    fn id(&self, mode: usize, index: u32) -> i64 {
        if self.ratings && mode == 2 { FIRST_WEEK + WEEK * i64::from(index) } else { i64::from(index) + 1 }
    }

    /// Writes the entries of a batch to the files of their splits.
    pub fn write(&mut self, batch: &Batch) -> Result<()> {
        for split in [Split::Train, Split::Validation, Split::Test] {
            let count = batch.splits.iter().filter(|&&other| other == split).count();
            if count == 0 {
                continue;
            }
            let mut file = match self.files[split as usize].take() {
                Some(file) => file,
                None => self.open(split)?,
            };
            let entries = batch.entries().filter(|&(_, _, other)| other == split);
            match &mut file.output {
                Output::Text(sink) => {
                    file.text.clear();
                    for (indices, value, _) in entries {
                        self.line(indices, value, &mut file.text);
                    }
                    sink.write_all(&file.text).context("write", &file.path)?;
                }
                Output::Parquet(writer, schema) => {
                    let mut ids = vec![Vec::with_capacity(count); self.order];
                    let mut values = Vec::with_capacity(count);
                    for (indices, value, _) in entries {
                        (0..self.order).for_each(|mode| ids[mode].push(self.id(mode, indices[mode])));
                        values.push(value);
                    }
                    let ids = ids.into_iter().map(|ids| Arc::new(Int64Array::from(ids)) as ArrayRef);
                    let columns = ids.chain([Arc::new(Float64Array::from(values)) as ArrayRef]).collect();
                    let rows =
                        RecordBatch::try_new(Arc::clone(schema), columns).map_err(std::io::Error::other);
                    let rows = rows.context("write", &file.path)?;
                    writer.write(&rows).map_err(std::io::Error::other).context("write", &file.path)?;
                }
            }
            file.entries += count as u64;
            self.files[split as usize] = Some(file);
        }
        Ok(())
    }

    fn line(&self, indices: &[u32], value: f64, text: &mut Vec<u8>) {
        let between = if self.kind == Kind::Tns { b' ' } else { b',' };
        for (mode, &index) in indices.iter().enumerate() {
            if self.ratings && self.kind == Kind::Csv && mode == 2 {
                let _ = write!(text, "{value},"); // the rating stands before the time
            }
            let id = if self.kind == Kind::Tns { i64::from(index) + 1 } else { self.id(mode, index) };
            let _ = write!(text, "{id}");
            text.push(between);
        }
        if self.ratings && self.kind == Kind::Csv {
            text.pop();
        } else {
            let _ = write!(text, "{value}"); // a Vec takes every write
        }
        text.push(b'\n');
    }

    /// Completes the files and gives them their names.
    pub fn finish(self) -> Result<WrittenFiles> {
        let mut written = WrittenFiles { files: Vec::new(), entries: [0; 3] };
        for (split, file) in self.files.into_iter().enumerate() {
            let Some(file) = file else { continue };
            let sink = match file.output {
                Output::Text(sink) => sink,
                Output::Parquet(writer, _) => {
                    writer.into_inner().map_err(std::io::Error::other).context("write", &file.path)?
                }
            };
            let plain = match sink {
                Sink::Plain(plain) => plain,
                Sink::Gzip(gzip) => gzip.finish().context("write", &file.path)?,
            };
            let bytes = plain.written();
            plain.commit()?;
            written.entries[split] = file.entries;
            written.files.push(WrittenFile { path: file.path, entries: file.entries, bytes });
        }
        Ok(written)
    }
}
