//! A table of text to the same table: its bytes are copied, and only where a value is missing a number is put in.

use super::ask::{Asker, Said, free_name, says_nothing};
use super::cells::Absent;
use super::{Filled, Filling};
use crate::control::{Control, Unit};
use crate::error::{Error, IoContext, Result};
use crate::ingest::FilePlan;
use crate::ingest::dialect::Delimiter;
use crate::ingest::encoding::FoundEncoding;
use crate::ingest::quotes::Quotes;
use crate::ingest::reader::{PlainText, input_bytes};
use crate::storage::{Output, RealDisk};
use crate::table::{RawRow, RawRows, Sink, Target, content};
use crate::units;
use arrow_array::ArrayRef;
use arrow_array::builder::StringBuilder;
use arrow_schema::DataType;
use std::io::Write;
use std::sync::Arc;

/// Text or questions that are gathered before the model is asked.
const BYTES: usize = 4 << 20;
const QUESTIONS: usize = 8192;

/// Whether text with `delimiter` stays as it is in a file whose name asks for `wanted`: the ending .csv goes
/// with any delimiter but tabs.
pub(super) fn stays(delimiter: Delimiter, wanted: u8) -> bool {
    (delimiter == Delimiter::Byte(b'\t')) == (wanted == b'\t')
}

/// What is put into a hole: the next value, or the next standard deviation.
#[derive(Clone, Copy)]
enum Hole {
    Value,
    Sd,
}

/// Text with holes.
#[derive(Default)]
struct Page {
    text: Vec<u8>,
    /// Where numbers are put in, ascending.
    holes: Vec<(usize, Hole)>,
}

impl Page {
    fn add(&mut self, bytes: &[u8]) {
        self.text.extend_from_slice(bytes);
    }

    fn hole(&mut self, hole: Hole) {
        self.holes.push((self.text.len(), hole));
    }

    /// The text with its holes filled; begins anew.
    fn take(&mut self, said: &Said) -> Vec<u8> {
        let mut whole = Vec::with_capacity(self.text.len() + 20 * self.holes.len());
        let (mut from, mut values, mut sds) = (0, said.values.iter(), said.sds.iter());
        for &(at, hole) in &self.holes {
            let number = match hole {
                Hole::Value => values.next(),
                Hole::Sd => sds.next(),
            };
            whole.extend_from_slice(&self.text[from..at]);
            number.iter().for_each(|number| whole.extend_from_slice(number.to_string().as_bytes()));
            from = at;
        }
        whole.extend_from_slice(&self.text[from..]);
        self.text.clear();
        self.holes.clear();
        whole
    }
}

/// Text on its way into a file, in the encoding of the table that is read.
struct Written<'d> {
    page: Page,
    sink: Sink<'d>,
    output: Output,
    encoding: FoundEncoding,
    begun: bool,
}

impl<'d> Written<'d> {
    fn create(
        disk: &'d RealDisk,
        output: Output,
        encoding: FoundEncoding,
        control: &Control,
    ) -> Result<Self> {
        let sink = Sink::packed(Target::create(disk, &output, control)?, &output.path)?;
        Ok(Written { page: Page::default(), sink, output, encoding, begun: false })
    }

    fn write(&mut self, text: &[u8]) -> Result<()> {
        let path = &self.output.path;
        if !std::mem::replace(&mut self.begun, true) {
            self.sink.write_all(self.encoding.mark()).context("write", path)?;
        }
        let bytes = self.encoding.encode(text).map_err(|what| Error::input(path, what))?;
        self.sink.write_all(&bytes).context("write", path)
    }

    fn flush(&mut self, said: &Said) -> Result<()> {
        let whole = self.page.take(said);
        self.write(&whole)
    }

    fn finish(self) -> Result<()> {
        self.sink.finish(&self.output.path)
    }
}

/// Questions, in the order of their values' holes.
struct Questions {
    columns: Vec<StringBuilder>,
    lines: Vec<u64>,
}

impl Questions {
    fn ask(&mut self, asker: &Asker<'_>, filled: &mut Filled) -> Result<Said> {
        let columns: Vec<ArrayRef> =
            self.columns.iter_mut().map(|column| Arc::new(column.finish()) as ArrayRef).collect();
        let lines = std::mem::take(&mut self.lines);
        let said = if lines.is_empty() { Said::default() } else { asker.ask(columns, lines, filled)? };
        filled.filled += said.values.len() as u64;
        Ok(said)
    }
}

/// A table on its way.
struct Rewriting<'j, 'd> {
    filling: &'j Filling<'j>,
    plan: &'j FilePlan,
    delimiter: Delimiter,
    between: Vec<u8>,
    /// The columns of values, with their names where a column is an id.
    values: Vec<(usize, Option<&'j str>)>,
    table: Written<'d>,
    /// The standard deviations of a wide table.
    sds: Option<Written<'d>>,
    questions: Questions,
    absent: Option<Absent>,
}

impl Rewriting<'_, '_> {
    /// A field that says nothing: blanks cannot stand for one.
    fn nothing(&self) -> &'static [u8] {
        if self.delimiter == Delimiter::Blanks { b"NA" } else { b"" }
    }

    /// What is copied as it is.
    fn copy(&mut self, row: &RawRow<'_>) {
        for written in [Some(&mut self.table), self.sds.as_mut()].into_iter().flatten() {
            written.page.add(row.bytes);
            written.page.add(row.end);
        }
    }

    fn header(&mut self, row: &RawRow<'_>) {
        if self.plan.wide.is_some() {
            return self.copy(row);
        }
        let names = self.plan.names.as_deref().unwrap_or_default();
        self.table.page.add(row.bytes);
        for name in std::iter::once("filled").chain(self.filling.sd.then_some("sd")) {
            self.table.page.add(&self.between);
            self.table.page.add(free_name(name, names).as_bytes());
        }
        self.table.page.add(row.end);
    }

    /// A row that cannot be used, and is skipped.
    fn odd(&mut self, row: &RawRow<'_>) {
        if self.plan.wide.is_some() {
            return self.copy(row);
        }
        self.table.page.add(row.bytes);
        self.mark(false);
        self.table.page.add(row.end);
    }

    /// What stands behind a row of a long table.
    fn mark(&mut self, filled: bool) {
        let nothing = self.nothing();
        let page = &mut self.table.page;
        page.add(&self.between);
        page.add(filled.to_string().as_bytes());
        if self.filling.sd {
            page.add(&self.between);
            match filled {
                true => page.hole(Hole::Sd),
                false => page.add(nothing),
            }
        }
    }

    fn row(&mut self, row: &RawRow<'_>) {
        let says = |column: usize| content(&row.bytes[row.fields[column].clone()]);
        let (plan, nothing) = (self.plan, self.nothing());
        if let Some(absent) = &mut self.absent {
            absent.see(self.filling.ids, |mode| Some(says(plan.modes[mode].column)));
        }
        let (mut from, mut sd_from, mut count) = (0, 0, 0);
        for &(column, name) in &self.values {
            let place = &row.fields[column];
            let said = says(column);
            let missing = says_nothing(&said) || plan.rules.missing.has(said.as_bytes());
            if let Some(sds) = &mut self.sds {
                sds.page.add(&row.bytes[sd_from..place.start]);
                sd_from = place.end;
                match missing {
                    true => sds.page.hole(Hole::Sd),
                    false => sds.page.add(nothing),
                }
            }
            if !missing {
                continue;
            }
            self.table.page.add(&row.bytes[from..place.start]);
            self.table.page.hole(Hole::Value);
            from = place.end;
            count += 1;
            for (mode, question) in plan.id_columns().iter().zip(&mut self.questions.columns) {
                question.append_value(says(mode.column));
            }
            if let (Some(name), Some(last)) = (name, self.questions.columns.last_mut()) {
                last.append_value(name);
            }
            self.questions.lines.push(row.line);
        }
        self.table.page.add(&row.bytes[from..]);
        if plan.wide.is_none() {
            self.mark(count > 0);
        }
        self.table.page.add(row.end);
        if let Some(sds) = &mut self.sds {
            sds.page.add(&row.bytes[sd_from..]);
            sds.page.add(row.end);
        }
    }

    fn is_full(&self) -> bool {
        self.table.page.text.len() >= BYTES || self.questions.lines.len() >= QUESTIONS
    }

    fn flush(&mut self, asker: &Asker<'_>, filled: &mut Filled) -> Result<()> {
        let said = self.questions.ask(asker, filled)?;
        self.table.flush(&said)?;
        self.sds.as_mut().map_or(Ok(()), |sds| sds.flush(&said))
    }

    /// The rows of cells that have none, with `end` behind each.
    fn add_cells(&mut self, absent: &Absent, end: &[u8], filled: &mut Filled) -> Result<()> {
        let columns: Vec<usize> = self.plan.modes.iter().map(|mode| mode.column).collect();
        let (delimiter, between, nothing) = (self.delimiter, self.between.as_slice(), self.nothing());
        let (plan, table) = (self.plan, &mut self.table);
        let mut text = Vec::new();
        absent.for_each(self.filling, filled, |ids, said| {
            text.clear();
            for (row, value) in said.values.iter().enumerate() {
                for column in 0..plan.count {
                    if column > 0 {
                        text.extend_from_slice(between);
                    }
                    match columns.iter().position(|&other| other == column) {
                        Some(mode) => text.extend_from_slice(quoted(&ids[mode][row], delimiter).as_bytes()),
                        None if column == plan.value => text.extend_from_slice(value.to_string().as_bytes()),
                        None => text.extend_from_slice(nothing),
                    }
                }
                text.extend_from_slice(between);
                text.extend_from_slice(b"true");
                if let Some(sd) = said.sds.get(row) {
                    text.extend_from_slice(between);
                    text.extend_from_slice(sd.to_string().as_bytes());
                }
                text.extend_from_slice(end);
            }
            table.write(&text)
        })
    }
}

pub(super) fn fill(
    filling: &Filling<'_>,
    plan: &FilePlan,
    table: PlainText,
    filled: &mut Filled,
) -> Result<()> {
    let PlainText { stream, encoding, delimiter, header, comments } = table;
    let between = match delimiter {
        Delimiter::Byte(byte) => vec![byte],
        Delimiter::DoubleColon => b"::".to_vec(),
        Delimiter::Blanks => b" ".to_vec(),
    };
    let kinds = filling.ids.iter().map(|_| DataType::Utf8);
    let asker = Asker::new(filling.model, filling.ids, kinds, filling.name, filling.sd)?;
    let disk = RealDisk;
    let quotes = Quotes::of(plan, delimiter, comments);
    let mut rows = RawRows::new(stream, filling.name.into(), delimiter, quotes, header);
    let wide = plan.wide.as_ref();
    let sd_output = wide.and(filling.sd_output());
    let mut rewriting = Rewriting {
        filling,
        plan,
        delimiter,
        between,
        values: match wide {
            Some(wide) => wide.columns.iter().map(|(column, name)| (*column, Some(name.as_str()))).collect(),
            None => vec![(plan.value, None)],
        },
        table: Written::create(&disk, filling.output.clone(), encoding.clone(), filling.control)?,
        sds: sd_output.map(|output| Written::create(&disk, output, encoding, filling.control)).transpose()?,
        questions: Questions {
            columns: filling.ids.iter().map(|_| StringBuilder::new()).collect(),
            lines: Vec::new(),
        },
        absent: filling.options.all_cells.then(|| Absent::new(filling.ids, filling.memory)).transpose()?,
    };
    let (mut first, mut ended) = (header, true);
    let mut end = b"\n".to_vec();
    let total = input_bytes(filling.source.path(), filling.control);
    filling.control.progress().stage("fill", Unit::Bytes, total);
    let mut done = 0;
    while let Some(row) = rows.next_row()? {
        done += (row.bytes.len() + row.end.len()) as u64;
        ended = !row.end.is_empty();
        if ended {
            end = row.end.to_vec();
        }
        if row.is_blank() || comments && row.bytes.trim_ascii_start().starts_with(b"#") {
            rewriting.copy(&row);
            continue;
        }
        let odd = row.flaw.is_some() || row.fields.len() != plan.count;
        if std::mem::take(&mut first) {
            rewriting.header(&row);
            continue;
        }
        if odd && filling.options.convert.skip_bad == 0 {
            let what = row
                .flaw
                .unwrap_or_else(|| format!("{} fields where {} were expected", row.fields.len(), plan.count));
            return Err(Error::Row { file: filling.name.into(), line: row.line, what });
        }
        filled.rows += 1;
        if odd {
            rewriting.odd(&row)
        } else {
            rewriting.row(&row)
        }
        if rewriting.is_full() {
            filling.control.check()?;
            rewriting.flush(&asker, filled)?;
            filling.control.progress().advance(done.min(total), &units::rows(filled.rows));
        }
    }
    rewriting.flush(&asker, filled)?;
    if let Some(absent) = rewriting.absent.take() {
        if !ended {
            rewriting.table.write(&end)?;
        }
        rewriting.add_cells(&absent, &end, filled)?;
    }
    rewriting.sds.map_or(Ok(()), Written::finish)?;
    rewriting.table.finish()
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
