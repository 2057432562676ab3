//! A table of text to the same table: its bytes are copied, and only where a value is missing a number is put in.

use super::ask::{Asker, mark, says_nothing};
use super::cells::Absent;
use super::{Filled, Job};
use crate::control::Unit;
use crate::error::{Error, IoContext, Result};
use crate::ingest::FilePlan;
use crate::ingest::dialect::Delimiter;
use crate::ingest::encoding::FoundEncoding;
use crate::ingest::reader::input_bytes;
use crate::storage::RealDisk;
use crate::table::{RawRow, RawRows, Sink, Target, content};
use arrow_array::ArrayRef;
use arrow_array::builder::StringBuilder;
use arrow_schema::DataType;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

/// Text or questions that are gathered before the model is asked.
const BYTES: usize = 4 << 20;
const QUESTIONS: usize = 8192;

/// Whether text with `delimiter` stays as it is in a file whose name asks for `wanted`: the ending .csv goes
/// with any delimiter but tabs.
pub(super) fn stays(delimiter: Delimiter, wanted: u8) -> bool {
    (delimiter == Delimiter::Byte(b'\t')) == (wanted == b'\t')
}

/// The table as text.
pub(super) struct From {
    pub(super) stream: Box<dyn Read + Send>,
    pub(super) encoding: FoundEncoding,
    pub(super) delimiter: Delimiter,
    pub(super) header: bool,
}

/// The table that is written, in the encoding of the one that is read.
struct Written<'d> {
    sink: Sink<'d>,
    encoding: FoundEncoding,
    begun: bool,
}

impl Written<'_> {
    fn write(&mut self, text: &[u8], path: &Path) -> Result<()> {
        if !std::mem::replace(&mut self.begun, true) {
            self.sink.write_all(self.encoding.mark()).context("write", path)?;
        }
        let bytes = self.encoding.encode(text).map_err(|what| Error::input(path, what))?;
        self.sink.write_all(&bytes).context("write", path)
    }
}

/// Text with holes, and what belongs there.
struct Gathered {
    text: Vec<u8>,
    /// Where numbers are put in, ascending.
    holes: Vec<usize>,
    questions: Vec<StringBuilder>,
    lines: Vec<u64>,
}

impl Gathered {
    fn new(modes: usize) -> Self {
        let questions = (0..modes).map(|_| StringBuilder::new()).collect();
        Gathered { text: Vec::new(), holes: Vec::new(), questions, lines: Vec::new() }
    }

    fn is_full(&self) -> bool {
        self.text.len() >= BYTES || self.lines.len() >= QUESTIONS
    }

    /// Writes the text with its holes filled, and begins anew.
    fn flush(
        &mut self,
        asker: &Asker<'_>,
        sink: &mut Written<'_>,
        job: &Job<'_>,
        filled: &mut Filled,
    ) -> Result<()> {
        let columns: Vec<ArrayRef> =
            self.questions.iter_mut().map(|column| Arc::new(column.finish()) as ArrayRef).collect();
        let lines = std::mem::take(&mut self.lines);
        let values = if lines.is_empty() { Vec::new() } else { asker.ask(columns, lines, filled)? };
        filled.filled += values.len() as u64;
        let mut whole = Vec::with_capacity(self.text.len() + 20 * values.len());
        let mut from = 0;
        for (&hole, value) in self.holes.iter().zip(&values) {
            whole.extend_from_slice(&self.text[from..hole]);
            whole.extend_from_slice(value.to_string().as_bytes());
            from = hole;
        }
        whole.extend_from_slice(&self.text[from..]);
        sink.write(&whole, &job.output.path)?;
        self.text.clear();
        self.holes.clear();
        Ok(())
    }
}

/// The field of a row, without a byte-order mark in front of the first one.
fn field<'r>(row: &RawRow<'r>, column: usize) -> &'r [u8] {
    let bytes = &row.bytes[row.fields[column].clone()];
    if row.line == 1 && column == 0 { bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes) } else { bytes }
}

pub(super) fn fill(job: &Job<'_>, plan: &FilePlan, from: From, filled: &mut Filled) -> Result<()> {
    let From { stream, encoding, delimiter, header } = from;
    let between: &[u8] = match &delimiter {
        Delimiter::Byte(byte) => std::slice::from_ref(byte),
        Delimiter::DoubleColon => b"::",
        Delimiter::Blanks => b" ",
    };
    let between = between.to_vec();
    let asker = Asker::new(job.model, job.ids, job.ids.iter().map(|_| DataType::Utf8), job.table())?;
    let path = &job.output.path;
    let disk = RealDisk;
    let sink = Sink::packed(Target::create(&disk, &job.output)?, path)?;
    let mut sink = Written { sink, encoding, begun: false };
    let mut rows = RawRows::new(stream, job.table().into(), delimiter);
    let mut gathered = Gathered::new(job.ids.len());
    let mut absent = job.options.all_cells.then(|| Absent::new(job.ids, job.memory)).transpose()?;
    let wide = plan.wide.as_ref();
    let values: Vec<(usize, Option<&str>)> = match wide {
        Some(wide) => wide.columns.iter().map(|(column, name)| (*column, Some(name.as_str()))).collect(),
        None => vec![(plan.value, None)],
    };
    let (mut first, mut ended) = (header, true);
    let mut end = b"\n".to_vec();
    let total = input_bytes(job.table(), job.control);
    job.control.progress().stage("fill", Unit::Bytes, total);
    let mut done = 0;
    while let Some(row) = rows.next_row()? {
        done += (row.bytes.len() + row.end.len()) as u64;
        ended = !row.end.is_empty();
        if ended {
            end = row.end.to_vec();
        }
        if row.is_blank() {
            gathered.text.extend_from_slice(row.bytes);
            gathered.text.extend_from_slice(row.end);
            continue;
        }
        let is_header = std::mem::take(&mut first);
        let odd = row.fields.len() != plan.count;
        if odd && !is_header && job.options.convert.skip_bad == 0 {
            let what = format!("{} fields where {} were expected", row.fields.len(), plan.count);
            return Err(Error::Row { file: job.table().into(), line: row.line, what });
        }
        let (mut from, mut count) = (0, 0);
        filled.rows += u64::from(!is_header);
        if !is_header && !odd {
            let ids = |column: usize| content(field(&row, column));
            if let Some(absent) = &mut absent {
                absent.see(job.ids, |mode| Some(ids(plan.modes[mode].column)));
            }
            for &(column, name) in &values {
                if !says_nothing(&content(field(&row, column))) {
                    continue;
                }
                let place = &row.fields[column];
                gathered.text.extend_from_slice(&row.bytes[from..place.start]);
                gathered.holes.push(gathered.text.len());
                from = place.end;
                count += 1;
                for (mode, question) in plan.id_columns().iter().zip(&mut gathered.questions) {
                    question.append_value(ids(mode.column));
                }
                if let (Some(name), Some(last)) = (name, gathered.questions.last_mut()) {
                    last.append_value(name);
                }
                gathered.lines.push(row.line);
            }
        }
        gathered.text.extend_from_slice(&row.bytes[from..]);
        if wide.is_none() {
            gathered.text.extend_from_slice(&between);
            let names = plan.names.as_deref().unwrap_or_default();
            let told = if is_header { mark(names) } else { (count > 0).to_string() };
            gathered.text.extend_from_slice(told.as_bytes());
        }
        gathered.text.extend_from_slice(row.end);
        if gathered.is_full() {
            job.control.check()?;
            gathered.flush(&asker, &mut sink, job, filled)?;
            job.control.progress().advance(done.min(total), &format_args!("{} rows", filled.rows));
        }
    }
    gathered.flush(&asker, &mut sink, job, filled)?;
    if let Some(absent) = absent {
        if !ended {
            sink.write(&end, path)?;
        }
        let columns: Vec<usize> = plan.modes.iter().map(|mode| mode.column).collect();
        let mut text = Vec::new();
        absent.for_each(job, filled, |ids, values| {
            text.clear();
            for (row, value) in values.iter().enumerate() {
                for column in 0..plan.count {
                    if column > 0 {
                        text.extend_from_slice(&between);
                    }
                    match columns.iter().position(|&other| other == column) {
                        Some(mode) => text.extend_from_slice(quoted(&ids[mode][row], delimiter).as_bytes()),
                        None if column == plan.value => text.extend_from_slice(value.to_string().as_bytes()),
                        None if delimiter == Delimiter::Blanks => text.extend_from_slice(b"NA"),
                        None => {}
                    }
                }
                text.extend_from_slice(&between);
                text.extend_from_slice(b"true");
                text.extend_from_slice(&end);
            }
            sink.write(&text, path)
        })?;
    }
    sink.sink.finish(path)
}

/// An id as a field, in quotes where it needs them.
fn quoted(id: &str, delimiter: Delimiter) -> std::borrow::Cow<'_, str> {
    match delimiter {
        Delimiter::Byte(byte) if id.contains([byte as char, '"', '\n', '\r']) => {
            format!("\"{}\"", id.replace('"', "\"\"")).into()
        }
        _ => id.into(),
    }
}
