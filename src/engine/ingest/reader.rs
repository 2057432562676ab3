//! Reads a file's rows in order: one thread cuts the input, the others parse.

use super::batches::{Batches, BegunBatches, STREAM};
use super::chunks::Chunks;
use super::columns::{ColumnRequest, Columns, FilePlan};
use super::dialect::{self, Delimiter, DialectRequest};
use super::encoding::FoundEncoding;
use super::npy::{self, NpyCells, NpyHeader};
use super::parquet;
use super::parts::{self, ParquetFile};
use super::quotes::Quotes;
use super::rows::RowBatch;
use super::rules::Signs;
use super::slices;
use super::source::{self, BytesRead, Source, display_name, is_stdin, plain_name};
use super::text::{LONGEST_LINE, NUL, Parser};
use crate::budget::Budget;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::remote;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// What kind of file an input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Delimited text.
    Text,
    /// FROSTT's `.tns`.
    Tns,
    /// Parquet.
    Parquet,
    /// NumPy's `.npy`.
    Npy,
}

/// How inputs are read.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// The format; found from the name and the first bytes where not given.
    pub format: Option<Format>,
    /// The dialect of text, where given.
    pub dialect: DialectRequest,
    /// Columns.
    pub columns: ColumnRequest,
    /// Threads that parse.
    pub threads: usize,
    /// Bytes of text that a thread gets at a time.
    pub chunk: usize,
    /// Where scratch files go.
    pub scratch: PathBuf,
    /// Where memory that depends on the file is asked for.
    pub budget: Option<Budget>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions {
            format: None,
            dialect: DialectRequest::default(),
            columns: ColumnRequest::default(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            chunk: 256 << 10,
            scratch: std::env::temp_dir(),
            budget: None,
        }
    }
}

/// An input whose beginning has been looked at.
pub struct Input {
    path: PathBuf,
    plan: FilePlan,
    kind: Kind,
}

enum Kind {
    /// Parts, and an unpacked copy where the file itself cannot be read in any order.
    Parquet(Vec<(ParquetFile, Option<File>)>),
    Batches(BegunBatches),
    Npy(NpyCells),
    Text {
        stream: Box<dyn Read + Send>,
        encoding: FoundEncoding,
        begun: Vec<u8>,
        read: BytesRead,
        delimiter: Delimiter,
        header: bool,
        tns: bool,
    },
}

/// Text, and how it is written.
pub struct PlainText {
    /// All of it.
    pub stream: Box<dyn Read + Send>,
    /// What it was written in.
    pub encoding: FoundEncoding,
    /// What stands between fields.
    pub delimiter: Delimiter,
    /// Whether it has a header.
    pub header: bool,
    /// Whether `#` begins a comment.
    pub comments: bool,
}

impl Input {
    /// How its rows will be read.
    pub fn plan(&self) -> &FilePlan {
        &self.plan
    }

    /// Whether it is an array.
    pub fn is_array(&self) -> bool {
        matches!(self.kind, Kind::Npy(_))
    }

    /// Its cells, where it is an array.
    pub fn into_cells(self) -> Option<NpyCells> {
        if let Kind::Npy(cells) = self.kind { Some(cells) } else { None }
    }

    /// Its text, where it is text.
    pub fn into_text(self) -> Option<PlainText> {
        match self.kind {
            Kind::Text { stream, encoding, begun, delimiter, header, tns, .. } => {
                let stream = Box::new(Cursor::new(begun).chain(stream));
                Some(PlainText { stream, encoding, delimiter, header, comments: tns })
            }
            _ => None,
        }
    }

    /// The delimiter, where it is text.
    pub fn delimiter(&self) -> Option<Delimiter> {
        if let Kind::Text { delimiter, .. } = &self.kind { Some(*delimiter) } else { None }
    }
}

/// How many bytes an input has, as it lies on disk or in a store; 0 where that is not known.
pub fn input_bytes(path: &Path, control: &Control) -> u64 {
    if is_stdin(path) {
        return 0;
    }
    if path.is_dir() || remote::several(path).is_some() {
        let parts = parts::find(path, control).ok().flatten().unwrap_or_default();
        return parts.iter().map(|part| part.bytes).sum();
    }
    if remote::is_remote(path) {
        return remote::size(path, control).unwrap_or(0);
    }
    std::fs::metadata(path).map_or(0, |data| data.len())
}

/// Looks at an input's beginning and settles how to read it.
pub fn open(path: &Path, options: &ReadOptions, control: &Control) -> Result<Input> {
    open_source(&Source::from(path).encoded(options.dialect.encoding), options, control)
}

/// The same for batches that a program hands over.
pub fn open_batches(batches: Batches, options: &ReadOptions) -> Result<Input> {
    let stream = BegunBatches::open(batches)?;
    let plan = stream.columns().plan(&options.columns).map_err(|what| Error::input(STREAM, what))?;
    Ok(Input { path: STREAM.into(), plan, kind: Kind::Batches(stream) })
}

/// The same for an input that is opened again later.
pub fn open_source(source: &Source, options: &ReadOptions, control: &Control) -> Result<Input> {
    let path = source.path();
    let name = display_name(path);
    let settle = |columns: &Columns| columns.plan(&options.columns).map_err(|what| Error::input(&name, what));
    let parts = match options.format != Some(Format::Text) && source.is_named() {
        true => parts::find(path, control)?,
        false => None,
    };
    if let Some(parts) = parts {
        let columns = parquet::columns(&parts[0], None, control)?;
        for part in &parts[1..] {
            if parquet::columns(part, None, control)?.names != columns.names {
                return Err(Error::input(&part.path, "this part has other columns than the first one"));
            }
        }
        let parts = parts.into_iter().map(|part| (part, None)).collect();
        return Ok(Input { path: path.into(), plan: settle(&columns)?, kind: Kind::Parquet(parts) });
    }
    let read = BytesRead::default();
    // What is said to be no text has no encoding.
    let (mut stream, encoding) = match options.format {
        Some(Format::Parquet | Format::Npy) => {
            (source::open(source, read.clone(), control)?, FoundEncoding::default())
        }
        _ => source::open_text(source, read.clone(), control)?,
    };
    let mut begun = Vec::new();
    let mut whole = false;
    // The header and a row after it, however wide the table is.
    while !whole && memchr::memchr_iter(b'\n', &begun).nth(1).is_none() && begun.len() <= 2 * LONGEST_LINE {
        let read = (&mut stream).take(1 << 16).read_to_end(&mut begun);
        whole = read.map_err(|error| source::read_error(path, error))? < 1 << 16;
    }
    if begun.starts_with(parquet::MAGIC) {
        // Compressed as a whole, or from standard input: Parquet is read from its end, so unpack it.
        let file = source::spool(Cursor::new(begun).chain(stream), path, &options.scratch)?;
        let part = ParquetFile::from(name.clone());
        let columns = parquet::columns(&part, Some(&file), control)?;
        return Ok(Input {
            path: path.into(),
            plan: settle(&columns)?,
            kind: Kind::Parquet(vec![(part, Some(file))]),
        });
    }
    if options.format == Some(Format::Parquet) {
        return Err(Error::input(name, "this is no Parquet file"));
    }
    if begun.starts_with(npy::MAGIC) || options.format == Some(Format::Npy) {
        let mut stream: Box<dyn Read + Send> = Box::new(Cursor::new(begun).chain(stream));
        let header = NpyHeader::read(&mut stream, &name)?;
        let plan = header.plan(&options.columns).map_err(|what| Error::input(&name, what))?;
        return Ok(Input { path: path.into(), plan, kind: Kind::Npy(NpyCells::new(header, stream, &name)) });
    }
    let tns =
        options.format == Some(Format::Tns) || options.format.is_none() && plain_name(path).ends_with(".tns");
    let text = begun.as_slice();
    if let Some(nul) = memchr::memchr(0, text) {
        let line = memchr::memchr_iter(b'\n', &text[..nul]).count() as u64 + 1;
        if line > 1 {
            return Err(Error::Row { file: name, line, what: NUL.into() });
        }
        return Err(Error::input(name, "this is a binary file, not text (nor Parquet, gzip or zstd)"));
    }
    if text.contains(&b'\r') && !text.contains(&b'\n') && text.trim_ascii().contains(&b'\r') {
        return Err(Error::input(
            name,
            "its lines end with a carriage return alone: save it with line feeds",
        ));
    }
    let mut lines = if tns { text.split(|&byte| byte == b'\n').collect() } else { quoted_lines(text) };
    lines.iter_mut().for_each(|line| *line = line.strip_suffix(b"\r").unwrap_or(line));
    if !whole && lines.len() > 1 {
        lines.pop(); // the last line is cut
    }
    lines.retain(|line| !(line.trim_ascii().is_empty() || tns && line.trim_ascii_start().starts_with(b"#")));
    lines.truncate(20);
    let one_field = |line: &&[u8]| Delimiter::Blanks.fields(line).len() == 1;
    if tns && options.dialect.delimiter.is_none() && !lines.is_empty() && lines.iter().all(one_field) {
        let what = "a .tns file has blanks between its numbers, and the first lines have none: leave `format` out to \
                    have it found, or say `format` text";
        return Err(Error::input(name, what));
    }
    let request = if tns {
        DialectRequest {
            delimiter: options.dialect.delimiter.or(Some(Delimiter::Blanks)),
            header: Some(false),
            encoding: None,
        }
    } else {
        // The columns of a wide table are known by its header alone.
        let header = options.dialect.header.or(options.columns.wide.as_ref().map(|_| true));
        DialectRequest { header, ..options.dialect }
    };
    let missing = Signs::new(&options.columns.missing);
    let found = dialect::detect(&lines, request, |line| options.columns.in_header(line), &missing);
    let found = found.map_err(|what| Error::input(&name, what))?;
    if whole && found.first.is_empty() {
        return Err(Error::input(name, "the file has a header but no rows"));
    }
    let header = found.header.is_some();
    // Of parts that were cut from one file only the first has the header.
    let first_file = options.columns.names.clone().filter(|names| !tns && names.len() == found.columns);
    let names = found.header.or(first_file);
    let plan =
        settle(&Columns { names, count: found.columns, first: found.first, nearly: found.nearly, tns })?;
    let kind = Kind::Text { stream, encoding, begun, read, delimiter: found.delimiter, header, tns };
    Ok(Input { path: path.into(), plan, kind })
}

/// Lines, where a quoted field may hold line ends; to look at a file's beginning only.
fn quoted_lines(text: &[u8]) -> Vec<&[u8]> {
    /// A quote that is still open after so many lines is none.
    const LONGEST: usize = 20;
    let mut lines = Vec::new();
    let mut start = 0;
    while start <= text.len() {
        let ends = memchr::memchr_iter(b'\n', &text[start..]).map(|at| start + at).chain([text.len()]);
        let mut ends = ends.take(LONGEST);
        let first = ends.next().unwrap_or(text.len());
        let balanced = |end: usize| memchr::memchr_iter(b'"', &text[start..end]).count().is_multiple_of(2);
        let end = if balanced(first) { first } else { ends.find(|&end| balanced(end)).unwrap_or(first) };
        lines.push(&text[start..end]);
        start = end + 1;
    }
    lines
}

/// Gives all rows of an input to `each`, in order.
pub fn read_rows(
    input: Input,
    options: &ReadOptions,
    control: &Control,
    mut each: impl FnMut(RowBatch) -> Result<()>,
) -> Result<()> {
    match input.kind {
        Kind::Parquet(parts) => slices::read_parts(&parts, &input.plan, options, control, each),
        Kind::Npy(mut cells) => {
            while let Some(batch) = cells.next_rows(&input.plan.rules)? {
                control.check()?;
                each(batch)?;
            }
            Ok(())
        }
        Kind::Batches(stream) => stream.read(&input.plan, |batch| {
            control.check()?;
            each(batch)
        }),
        Kind::Text { stream, begun, read, delimiter, header, tns, .. } => {
            let name = display_name(&input.path);
            let quotes = Quotes::of(&input.plan, delimiter, tns);
            let parser = Parser::new(&input.plan, delimiter, quotes.clone(), header, tns);
            let chunks = Chunks::new(stream, name.clone(), begun, options.chunk, quotes, header, tns);
            let named = |mut batch: RowBatch| {
                batch.file.clone_from(&name);
                each(batch)
            };
            read_text(chunks, parser, read, options.threads.max(1), control, named)
        }
    }
}

fn read_text(
    mut chunks: Chunks,
    parser: Parser,
    read: BytesRead,
    threads: usize,
    control: &Control,
    mut each: impl FnMut(RowBatch) -> Result<()>,
) -> Result<()> {
    let (give, take) = crossbeam_channel::bounded(threads);
    let (give_rows, take_rows) = crossbeam_channel::bounded(threads);
    std::thread::scope(|scope| {
        let cutter = scope.spawn(move || -> Result<()> {
            let mut number = 0u64;
            while let Some(mut chunk) = chunks.next_chunk()? {
                chunk.input_bytes = read.load(Ordering::Relaxed);
                if give.send((number, chunk)).is_err() {
                    break; // the other side has met an error
                }
                number += 1;
            }
            Ok(())
        });
        for _ in 0..threads {
            let (take, give_rows, parser) = (take.clone(), give_rows.clone(), parser.clone());
            scope.spawn(move || {
                for (number, chunk) in take {
                    if give_rows.send((number, parser.parse(chunk))).is_err() {
                        break;
                    }
                }
            });
        }
        drop((take, give_rows));
        // Threads finish out of order; rows are handed on in order.
        let mut waiting = BTreeMap::new();
        let mut next = 0;
        let mut result = Ok(());
        for (number, batch) in take_rows.iter() {
            waiting.insert(number, batch);
            while let Some(batch) = waiting.remove(&next) {
                next += 1;
                result = control.check().and_then(|()| each(batch));
                if result.is_err() {
                    break;
                }
            }
            if result.is_err() {
                break;
            }
        }
        drop(take_rows);
        let cut = cutter.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        result.and(cut)
    })
}
