//! Delimited text to rows, a chunk at a time.

use super::chunks::{Chunk, is_idle};
use super::columns::{FilePlan, ModeRole};
use super::dialect::Delimiter;
use super::number::{parse_integer, parse_number};
use super::quotes::{Quotes, Record};
use super::rows::{Cell, ModeCells, RowBatch, Taken};
use super::rules::{self, RowRules, is_missing};
use super::times::TimesSeen;
use super::wide::Wide;
use crate::message::{printable, short};
use crate::times::parse_time;

/// A line longer than this is taken for an unclosed quote or a binary file.
pub(super) const LONGEST_LINE: usize = 1 << 20;

/// What is said of a line of text that has one.
pub(super) const NUL: &str =
    "this line holds a NUL byte: take it out (tr -d '\\0' < FILE), or say what the text is with `encoding`";

/// Parses chunks into rows; one per thread.
#[derive(Debug, Clone)]
pub struct Parser {
    delimiter: Delimiter,
    quotes: Option<Quotes>,
    comments: bool,
    skip_first: bool,
    count: usize,
    /// Column of each field that is wanted, in column order, and what it is for.
    pub(super) wanted: Vec<(usize, Want)>,
    roles: Vec<ModeRole>,
    names: Vec<String>,
    pub(super) times: Vec<usize>,
    value: Option<usize>,
    /// Whether every row has the value 1.
    ones: bool,
    rules: RowRules,
    wide: Option<Wide>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Want {
    Mode(usize),
    Value,
    Weight,
    Time,
    /// A condition, by its number.
    Where(usize),
}

impl Parser {
    /// For files with that plan; `header` tells to skip the first line of the file, `comments`
    /// that `#` begins a comment.
    pub fn new(
        plan: &FilePlan,
        delimiter: Delimiter,
        quotes: Option<Quotes>,
        header: bool,
        comments: bool,
    ) -> Self {
        let ids = plan.id_columns().iter().enumerate();
        let mut wanted: Vec<(usize, Want)> =
            ids.map(|(position, mode)| (mode.column, Want::Mode(position))).collect();
        if plan.wide.is_none() && !plan.ones {
            wanted.push((plan.value, Want::Value));
        }
        let conditions = plan.rules.conditions.iter().enumerate();
        wanted.extend(conditions.map(|(number, (column, _))| (*column, Want::Where(number))));
        wanted.extend(plan.weight.iter().map(|(column, _)| (*column, Want::Weight)));
        wanted.extend(plan.time.map(|column| (column, Want::Time)));
        wanted.sort_by_key(|&(column, _)| column);
        let mut names: Vec<String> = plan.modes.iter().map(|mode| mode.name.clone()).collect();
        names.push(plan.value_name.clone());
        names.extend(plan.weight.iter().map(|(_, name)| name.clone()));
        Parser {
            delimiter,
            quotes,
            comments,
            skip_first: header,
            count: plan.count,
            wanted,
            roles: plan.modes.iter().map(|mode| mode.role).collect(),
            names,
            times: plan.times(),
            value: plan.wide.is_none().then_some(plan.value),
            ones: plan.ones,
            rules: plan.rules.clone(),
            wide: plan.wide.clone(),
        }
    }

    /// Parses one chunk.
    pub fn parse(&self, chunk: Chunk) -> RowBatch {
        let mut batch = RowBatch { input_bytes: chunk.input_bytes, ..RowBatch::default() };
        batch.modes = self
            .roles
            .iter()
            .map(|role| match role {
                ModeRole::Bins(_) => ModeCells::Numbers(Vec::new()),
                _ => ModeCells::Ids(Vec::new()),
            })
            .collect();
        let unquoted = self.parse_lines(&chunk, &mut batch);
        batch.text = chunk.bytes;
        batch.text.extend_from_slice(&unquoted);
        if let Some(wide) = &self.wide {
            wide.add_names(&mut batch);
        }
        batch
    }

    /// Parses all lines; what was written otherwise within quotes comes back, to stand behind the text.
    fn parse_lines(&self, chunk: &Chunk, batch: &mut RowBatch) -> Vec<u8> {
        let text = chunk.bytes.as_slice();
        let base = text.as_ptr() as usize;
        let quotes = self.quotes.as_ref().filter(|_| memchr::memchr(b'"', text).is_some());
        let (mut unquoted, mut parts, mut places) = (Vec::new(), Vec::new(), Vec::new());
        let mut bad = chunk.bad.iter().peekable();
        let mut header = chunk.begins && self.skip_first;
        let (mut start, mut number) = (0, chunk.first_line);
        while start < text.len() {
            let rows = batch.len();
            if let Some(record) = bad.next_if(|record| record.start == start) {
                header = false;
                batch.reject(rows, number, record.what.clone());
                number += 1;
                start = record.end;
                continue;
            }
            let end = memchr::memchr(b'\n', &text[start..]).map_or(text.len(), |at| start + at);
            let line = &text[start..end];
            let idle = is_idle(line, self.comments);
            let quotes = quotes.filter(|_| !idle && memchr::memchr(b'"', line).is_some());
            if let Some(quotes) = quotes {
                let is_header = std::mem::take(&mut header);
                let Record::Whole(end) = quotes.record(text, start, true, is_header, &mut parts) else {
                    // Whoever cut the text has looked at this record, too.
                    batch.reject(rows, number, "the quotes of this line are wrong".into());
                    start = end + 1;
                    number += 1;
                    continue;
                };
                let (line, from) = (&text[start..end], number);
                start = end;
                number += memchr::memchr_iter(b'\n', line).count() as u64;
                if is_header || parts.len() == 1 && text[parts[0].inner.clone()].trim_ascii().is_empty() {
                    continue;
                }
                if parts.len() != self.count {
                    batch.reject(rows, from, self.wrong_count(parts.len(), line.trim_ascii_end()));
                    continue;
                }
                places.clear();
                for part in &parts {
                    if part.doubled {
                        let content = part.content(text);
                        let begin = text.len() + unquoted.len();
                        unquoted.extend_from_slice(content.trim_ascii());
                        places.push(begin..text.len() + unquoted.len());
                    } else {
                        let inner = text[part.inner.clone()].trim_ascii();
                        let begin = inner.as_ptr() as usize - base;
                        places.push(begin..begin + inner.len());
                    }
                }
                let field = |column: usize| {
                    let place = places[column].clone();
                    let at = place.start as u32;
                    match place.start.checked_sub(text.len()) {
                        Some(begin) => (&unquoted[begin..place.end - text.len()], at),
                        None => (&text[place], at),
                    }
                };
                if let Some(wide) = &self.wide {
                    self.take_wide(wide, field, from, batch);
                    continue;
                }
                let mut verdict = Verdict::default();
                for &(column, want) in &self.wanted {
                    let (field, at) = field(column);
                    verdict.hear(want, || self.take(want, field, at, batch));
                }
                self.end(rows, from, verdict, batch);
                continue;
            }
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let from = number;
            start = end + 1;
            number += 1;
            if idle || std::mem::take(&mut header) {
                continue;
            }
            if let Some(wide) = &self.wide {
                let mut fields = Vec::with_capacity(self.count);
                let count = self.delimiter.split(line, |_, field| fields.push(field.trim_ascii()));
                if count != self.count {
                    batch.reject(rows, from, self.wrong_count(count, line));
                    continue;
                }
                let at = |column: usize| (fields[column].as_ptr() as usize - base) as u32;
                self.take_wide(wide, |column| (fields[column], at(column)), from, batch);
                continue;
            }
            let mut next = 0;
            let mut verdict = Verdict::default();
            let count = self.delimiter.split(line, |column, field| {
                while let Some(&(_, want)) = self.wanted.get(next).filter(|(wanted, _)| *wanted == column) {
                    let field = field.trim_ascii();
                    let at = field.as_ptr() as usize - base;
                    verdict.hear(want, || self.take(want, field, at as u32, batch));
                    next += 1;
                }
            });
            if count != self.count {
                batch.reject(rows, from, self.wrong_count(count, line));
            } else {
                self.end(rows, from, verdict, batch);
            }
        }
        unquoted
    }

    #[inline]
    fn end(&self, rows: usize, line: u64, verdict: Verdict, batch: &mut RowBatch) {
        let taken = verdict.taken();
        if self.ones && taken == Ok(Taken::Entry) {
            batch.values.push(1.0);
        }
        batch.end(rows, line, taken, &self.times);
    }

    fn wrong_count(&self, count: usize, line: &[u8]) -> String {
        let text = shown(line);
        format!("{count} fields where {} were expected: {text}", self.count)
    }

    /// Puts one field where it belongs.
    #[inline]
    pub(super) fn take(
        &self,
        want: Want,
        field: &[u8],
        at: u32,
        batch: &mut RowBatch,
    ) -> Result<Taken, String> {
        match want {
            Want::Value if self.rules.missing.has(field) => {
                let name = &self.names[self.roles.len()];
                return self.rules.lacking(|| format!("{name} is missing: {}", shown(field)));
            }
            Want::Value => match parse_number(field) {
                Some(number) if number.is_finite() => {
                    self.rules.check(number, &self.names[self.roles.len()])?;
                    batch.values.push(number);
                }
                parsed if !self.rules.strict && (parsed.is_some_and(f64::is_nan) || is_missing(field)) => {
                    return Ok(Taken::Empty);
                }
                _ => return self.number(field, self.roles.len()).map(|_| Taken::Entry),
            },
            Want::Where(number) => {
                let (column, condition) = &self.rules.conditions[number];
                // That a value is missing is said of the value.
                let missing =
                    Some(*column) == self.value && (is_missing(field) || self.rules.missing.has(field));
                let met = missing || condition.meets(rules::Cell::Field(field))?;
                return Ok(if met { Taken::Entry } else { Taken::LeftOut });
            }
            Want::Weight => {
                let name = self.roles.len() + 1;
                batch.weights.push(check_weight(self.number(field, name)?, &self.names[name])?);
            }
            Want::Time => {
                let time = self.time(field, TimesSeen::SPLIT, batch)?;
                batch.times.push(time);
            }
            Want::Mode(position) => {
                if field.is_empty() {
                    return Err(format!("{} is empty", self.names[position]));
                }
                match self.roles[position] {
                    ModeRole::Bins(binning) => {
                        let number = if binning.time {
                            self.time(field, position, batch)?
                        } else {
                            self.number(field, position)?
                        };
                        if let ModeCells::Numbers(numbers) = &mut batch.modes[position] {
                            numbers.push(number);
                        }
                    }
                    role => {
                        let cell = match (parse_integer(field), role) {
                            (Some(id), ModeRole::Indices { base, dim }) => {
                                Cell::Integer(check_index(id, base, dim, &self.names[position])?)
                            }
                            (None, ModeRole::Indices { .. }) => {
                                return Err(format!(
                                    "{} is {}, not an index",
                                    self.names[position],
                                    shown(field)
                                ));
                            }
                            (Some(id), _) => Cell::Integer(id),
                            (None, _) if std::str::from_utf8(field).is_err() => {
                                return Err(format!(
                                    "{} is {}, which is not UTF-8 text: `encoding` says what it is",
                                    self.names[position],
                                    shown(field)
                                ));
                            }
                            (None, _) if memchr::memchr(0, field).is_some() => return Err(NUL.into()),
                            (None, _) => Cell::Text { start: at, length: field.len() as u32 },
                        };
                        if let ModeCells::Ids(cells) = &mut batch.modes[position] {
                            cells.push(cell);
                        }
                    }
                }
            }
        }
        Ok(Taken::Entry)
    }

    #[inline]
    fn number(&self, field: &[u8], name: usize) -> Result<f64, String> {
        match parse_number(field) {
            Some(number) if number.is_finite() => Ok(number),
            Some(_) => Err(format!("{} is {}, which is no finite number", self.names[name], shown(field))),
            None if field.is_empty() => Err(format!("{} is empty", self.names[name])),
            None => {
                let hint = hint(field, &self.names[name]);
                Err(format!("{} is {}, which is no number{hint}", self.names[name], shown(field)))
            }
        }
    }

    fn time(&self, field: &[u8], column: usize, batch: &mut RowBatch) -> Result<f64, String> {
        if let Some(number) = parse_number(field).filter(|number| number.is_finite()) {
            return Ok(number);
        }
        if let Some(seconds) = std::str::from_utf8(field).ok().and_then(parse_time) {
            batch.dates |= 1 << column;
            return Ok(seconds);
        }
        let name = self.names.get(column).filter(|_| column < self.roles.len());
        let name = name.map_or("the time", String::as_str);
        let hint = if is_other_date(field) { ": write it as year-month-day, like 2024-10-06" } else { "" };
        Err(format!("{name} is {}, neither a number nor an ISO-8601 date{hint}", shown(field)))
    }
}

/// What the fields of a row say together: a row that is left out may be as bad as it likes, and one without
/// a value is no entry, whatever else is wrong with it.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    taken: Option<Taken>,
    /// A condition that cannot be told.
    untold: Option<String>,
    flaw: Option<String>,
}

impl Verdict {
    #[inline]
    pub(super) fn hear(&mut self, want: Want, take: impl FnOnce() -> Result<Taken, String>) {
        let condition = matches!(want, Want::Where(_));
        if self.taken == Some(Taken::LeftOut) || self.flaw.is_some() && !condition && want != Want::Value {
            return;
        }
        match take() {
            Ok(Taken::Entry) => {}
            Ok(other) => self.taken = Some(other),
            Err(what) if condition => self.untold = self.untold.take().or(Some(what)),
            Err(what) => self.flaw = self.flaw.take().or(Some(what)),
        }
    }

    #[inline]
    pub(super) fn taken(self) -> Result<Taken, String> {
        match (self.taken, self.untold, self.flaw) {
            (Some(Taken::LeftOut), ..) => Ok(Taken::LeftOut),
            (_, Some(what), _) => Err(what),
            (Some(taken), ..) => Ok(taken),
            (None, None, Some(what)) => Err(what),
            (None, None, None) => Ok(Taken::Entry),
        }
    }
}

/// A weight, or what is wrong with it; it is finite.
pub fn check_weight(weight: f64, name: &str) -> Result<f64, String> {
    // -0 is 0, and should look like it.
    if weight >= 0.0 {
        Ok(weight.abs())
    } else {
        Err(format!("{name} is {weight}, but weights are not negative"))
    }
}

/// An id as an index from 0, or what is wrong with it.
pub fn check_index(id: i64, base: i64, dim: Option<u32>, name: &str) -> Result<i64, String> {
    let index = id.saturating_sub(base);
    if index < 0 {
        return Err(match base {
            1 if id == 0 => {
                format!("{name} is 0, but indices begin at 1 here: is it a file for `zero_based`?")
            }
            _ => format!("{name} is {id}, below the first index {base}"),
        });
    }
    match dim {
        Some(dim) if index >= i64::from(dim) => {
            Err(format!("{name} is {id}, above its dimension {dim} in `dims`"))
        }
        None if index >= i64::from(u32::MAX) => {
            // 2^32 - 1 indices are the most that a dimension can have.
            let largest = base.saturating_add(i64::from(u32::MAX) - 1);
            Err(format!("{name} is {id}, above the largest index {largest}"))
        }
        _ => Ok(index),
    }
}

/// The number that it is where its comma is a decimal one.
pub(super) fn with_point(field: &[u8]) -> Option<String> {
    let (whole, part) = std::str::from_utf8(field).ok()?.split_once(',')?;
    let number = format!("{whole}.{part}");
    parse_number(number.as_bytes()).map(|_| number)
}

/// What to do about the comma of something that would be a number without it.
pub(super) fn about_comma(field: &[u8]) -> Option<String> {
    let number = with_point(field)?;
    let (whole, part) = std::str::from_utf8(field).ok()?.split_once(',')?;
    let decimal = format!("turn decimal commas into points first ({number})");
    // Before three digits it may as well stand between thousands.
    let digits = whole.trim_start_matches(['-', '+']);
    let thousands = matches!(digits.len(), 1..=3) && !digits.starts_with('0');
    let thousands = thousands && part.len() == 3 && part.bytes().all(|byte| byte.is_ascii_digit());
    Some(match thousands {
        true => format!("{decimal}, or take out those between thousands ({whole}{part})"),
        false => decimal,
    })
}

/// What a field needs that should be a number.
fn hint(field: &[u8], name: &str) -> String {
    if field.eq_ignore_ascii_case(name.as_bytes()) {
        return ": is this the header once more? `skip_bad` leaves such lines out".into();
    }
    about_comma(field)
        .map_or(String::new(), |what| format!(": numbers have a decimal point and no comma here, so {what}"))
}

/// Whether it looks like 06/10/2024 or 6.10.2024.
pub(super) fn is_other_date(field: &[u8]) -> bool {
    let mut parts = field.split(|byte| b"/.-".contains(byte));
    let mut number = || parts.next().is_some_and(|part| part.first().is_some_and(u8::is_ascii_digit));
    number() && number() && number()
}

/// A field or line for a message: quoted, shortened, printable.
pub fn shown(text: &[u8]) -> String {
    format!("'{}'", printable(&short(&String::from_utf8_lossy(text))))
}
