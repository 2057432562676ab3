//! Records of text whose fields may be quoted: where one ends, and what is wrong with its quotes.

use super::columns::FilePlan;
use super::dialect::Delimiter;
use super::number::parse_number;
use super::rules::{Signs, is_missing};
use super::text::{LONGEST_LINE, shown};
use std::ops::Range;

/// How quotes are read in a file.
///
/// A quote opens only at the start of a field. Inside, two of them stand for one; the one that closes the
/// field has nothing but blanks behind it. What goes over several lines is a record only if all else is right
/// with it: mostly it is a stray quote, and the lines below it are good.
#[derive(Debug, Clone)]
pub struct Quotes {
    delimiter: u8,
    /// How many fields a record has.
    count: usize,
    /// Columns that hold no line breaks, with their names.
    single: Vec<(usize, String)>,
    /// Columns that hold numbers or nothing, with their names.
    numbers: Vec<(usize, String)>,
    /// What else stands for nothing there.
    missing: Signs,
    /// Whether `#` begins a comment.
    comments: bool,
}

/// A field of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Where it stands, quotes included.
    pub outer: Range<usize>,
    /// What it says, quotes excluded.
    pub inner: Range<usize>,
    /// Whether quotes in it stand for half as many.
    pub doubled: bool,
}

impl Field {
    /// What it says.
    pub fn content(&self, text: &[u8]) -> Vec<u8> {
        let mut content = text[self.inner.clone()].to_vec();
        if self.doubled {
            let mut before = false;
            content.retain(|&byte| {
                before = byte == b'"' && !before;
                byte != b'"' || before
            });
        }
        content
    }
}

/// A line that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRecord {
    /// Where it begins.
    pub start: usize,
    /// Where the next one begins.
    pub end: usize,
    /// What is wrong.
    pub what: String,
}

/// What begins at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A record, up to here; its line end belongs to it.
    Whole(usize),
    /// A line that cannot be used.
    Bad(BadRecord),
    /// More text is needed to tell.
    Cut,
}

impl Quotes {
    /// For fields between single characters; elsewhere a quote is a character like others.
    pub fn new(
        delimiter: Delimiter,
        count: usize,
        single: Vec<(usize, String)>,
        comments: bool,
    ) -> Option<Self> {
        let Delimiter::Byte(delimiter) = delimiter else { return None };
        let (numbers, missing) = (Vec::new(), Signs::default());
        Some(Quotes { delimiter, count, single, numbers, missing, comments })
    }

    /// For a file that is read with that plan.
    pub fn of(plan: &FilePlan, delimiter: Delimiter, comments: bool) -> Option<Self> {
        let modes = plan.id_columns().iter().map(|mode| (mode.column, mode.name.clone()));
        let mut single: Vec<(usize, String)> = modes.collect();
        let mut numbers = match &plan.wide {
            Some(wide) => wide.columns.clone(),
            None if plan.ones => Vec::new(),
            None => vec![(plan.value, plan.value_name.clone())],
        };
        numbers.extend(plan.weight.clone());
        single.extend(numbers.iter().cloned());
        single.extend(plan.time.map(|column| (column, "the time".into())));
        // What is compared with a text may be one of several lines.
        let conditions = plan.rules.conditions.iter().filter(|(_, condition)| !condition.is_of_text());
        single.extend(conditions.map(|(column, condition)| (*column, condition.column.clone())));
        let missing = plan.rules.missing.clone();
        Some(Quotes { numbers, missing, ..Self::new(delimiter, plan.count, single, comments)? })
    }

    /// The record that begins at `start`; its fields go to `fields`. `ended` says that no text follows, and
    /// `header` that it is the names of the columns.
    pub fn record(
        &self,
        text: &[u8],
        start: usize,
        ended: bool,
        header: bool,
        fields: &mut Vec<Field>,
    ) -> Record {
        fields.clear();
        if self.comments && text[start..].trim_ascii_start().starts_with(b"#") {
            return match memchr::memchr(b'\n', &text[start..]) {
                Some(at) => Record::Whole(start + at + 1),
                None if ended => Record::Whole(text.len()),
                None => Record::Cut,
            };
        }
        // Only the line goes that the record begins on: the quote that is blamed stands there, and what is below may
        // be good.
        let bad = |what: String| match memchr::memchr(b'\n', &text[start..]) {
            Some(at) => Record::Bad(BadRecord { start, end: start + at + 1, what }),
            None if ended => Record::Bad(BadRecord { start, end: text.len(), what }),
            None => Record::Cut,
        };
        // The first quote that opens a field over several lines, and over how many.
        let mut spans = None;
        let mut at = start;
        let end = loop {
            if text.get(at) == Some(&b'"') {
                let field = match self.quoted(text, start, at, ended) {
                    Ok(field) => field,
                    Err(None) => return Record::Cut,
                    Err(Some(what)) => {
                        return bad(spans.map_or(what, |(_, lines)| {
                            stray(lines, "a later quote of this row is wrong, too")
                        }));
                    }
                };
                let lines = breaks(&text[field.inner.clone()]);
                if spans.is_none() && lines > 0 {
                    spans = Some((at, lines));
                }
                at = field.outer.end;
                fields.push(field);
            } else {
                let begin = at;
                at = match memchr::memchr2(self.delimiter, b'\n', text.get(at..).unwrap_or_default()) {
                    Some(length) => at + length,
                    None if ended => text.len(),
                    None => return Record::Cut,
                };
                fields.push(Field { outer: begin..at, inner: begin..at, doubled: false });
            }
            // Stray quotes can pair up to the end of the file, anew from every line.
            let too_many = spans.is_some() && !header && fields.len() > self.count;
            match text.get(at) {
                Some(b'\n') => break at + 1,
                Some(_) if !too_many => at += 1,
                _ => break at,
            }
        };
        if let Some(last) = fields.last_mut() {
            for place in [&mut last.outer, &mut last.inner] {
                if place.end == at && text[..place.end].ends_with(b"\r") && place.end > place.start {
                    place.end -= 1;
                }
            }
        }
        let Some((opens, lines)) = spans.filter(|_| !header) else { return Record::Whole(end) };
        if fields.len() != self.count {
            let found = match fields.len() > self.count {
                true => format!("more than {} fields", self.count),
                false => format!("{} fields where {} were expected", fields.len(), self.count),
            };
            return bad(format!(
                "{found}, with the quote that opens here closed {}: is it a stray quote? remove it",
                below(lines)
            ));
        }
        for (column, name) in &self.single {
            let Some(field) = fields.get(*column) else { continue };
            if breaks(text[field.inner.clone()].trim_ascii()) == 0 {
                continue;
            }
            return bad(match field.outer.start == opens {
                true => format!(
                    "{name} holds line breaks: the quote that opens here is closed {}; remove it if it is a stray \
                     one, else take the line breaks out of {name}",
                    below(lines)
                ),
                false => stray(lines, &format!("{name} behind it holds line breaks, too")),
            });
        }
        // The quote that closes it may be one that opens a field of a good row.
        for (column, name) in &self.numbers {
            let Some(field) = fields.get(*column) else { continue };
            let content = field.content(text);
            let content = content.trim_ascii();
            if parse_number(content).is_none() && !is_missing(content) && !self.missing.has(content) {
                return bad(stray(lines, &format!("{name} of this row is {}, no number", shown(content))));
            }
        }
        Record::Whole(end)
    }

    /// The field whose quote opens at `at`, in a record that begins at `start`; or what is wrong with it, or nothing
    /// where more text is needed to tell.
    fn quoted(&self, text: &[u8], start: usize, at: usize, ended: bool) -> Result<Field, Option<String>> {
        let (close, doubled) = match closing(text, start, at, ended) {
            Closing::At(close, doubled) => (close, doubled),
            Closing::Cut => return Err(None),
            Closing::Never => {
                let what =
                    "the quote that opens here is never closed: remove it, or close the field with another";
                return Err(Some(what.into()));
            }
        };
        let mut behind = close + 1;
        let blank = |byte: u8| matches!(byte, b' ' | b'\t' | b'\r') && byte != self.delimiter;
        while text.get(behind).is_some_and(|&byte| blank(byte)) {
            behind += 1;
        }
        let inner = at + 1..close;
        match text.get(behind) {
            None if !ended => Err(None),
            Some(&byte) if byte != b'\n' && byte != self.delimiter => {
                Err(Some(match breaks(&text[inner.clone()]) {
                    0 => format!(
                        "text follows the quote that closes {}: write a quote inside a quoted field twice (\"\"), or \
                         remove it",
                        shown(&text[inner])
                    ),
                    lines => format!(
                        "the quote that opens here meets the next one {}, with text behind it: is it a stray quote? \
                         remove it, or write quotes inside a quoted field twice (\"\")",
                        below(lines)
                    ),
                }))
            }
            _ => Ok(Field { outer: at..behind, inner, doubled }),
        }
    }
}

/// What to say of a quote that is closed, but not where the row ends well.
fn stray(lines: usize, what: &str) -> String {
    format!(
        "the quote that opens here is closed {}, and {what}: is it a stray quote? remove it, or write quotes inside a \
         quoted field twice (\"\")",
        below(lines)
    )
}

enum Closing {
    /// There; and whether quotes before it are doubled.
    At(usize, bool),
    Never,
    Cut,
}

/// Where the quote is closed that opens at `at`, in a record that begins at `start`. What is longer than any
/// line does not count, so that the answer depends neither on how much text is there nor on its end.
fn closing(text: &[u8], start: usize, at: usize, ended: bool) -> Closing {
    let most = start.saturating_add(LONGEST_LINE);
    let (mut from, mut doubled) = (at + 1, false);
    loop {
        let there = &text[from.min(text.len())..text.len().min(most).max(from.min(text.len()))];
        let Some(length) = memchr::memchr(b'"', there) else {
            return if ended || text.len() > most { Closing::Never } else { Closing::Cut };
        };
        let quote = from + length;
        match text.get(quote + 1) {
            Some(b'"') => (from, doubled) = (quote + 2, true),
            None if !ended => return Closing::Cut,
            _ => return Closing::At(quote, doubled),
        }
    }
}

fn breaks(text: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', text).count()
}

fn below(lines: usize) -> String {
    format!("{lines} line{} below", if lines == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Records and flaws of a whole text, by their lines.
    fn read(text: &[u8]) -> (Vec<Vec<String>>, Vec<u64>) {
        let quotes = Quotes::new(Delimiter::Byte(b','), 3, vec![(0, "a".into())], false).unwrap();
        let (mut at, mut fields, mut records, mut bad) = (0, Vec::new(), Vec::new(), Vec::new());
        while at < text.len() {
            match quotes.record(text, at, true, false, &mut fields) {
                Record::Whole(end) => {
                    let says = |field: &Field| String::from_utf8(field.content(text)).unwrap();
                    records.push(fields.iter().map(says).collect());
                    at = end;
                }
                Record::Bad(record) => {
                    assert_eq!(breaks(&text[record.start..record.end - 1]), 0, "one line");
                    bad.push(1 + breaks(&text[..record.start]) as u64);
                    at = record.end;
                }
                Record::Cut => panic!("there is no more"),
            }
        }
        (records, bad)
    }

    #[test]
    fn a_stray_quote_is_one_bad_line() {
        let (records, bad) = read(b"1,\"a,3\n4,5,6\n7,\"b\",9\r\n");
        assert_eq!(bad, [1]);
        assert_eq!(records, [["4", "5", "6"], ["7", "b", "9"]]);
        assert_eq!(read(b"1,2,3\n4,\"5,6\n7,8,9\n").1, [2]);
        assert_eq!(read(b"1,\"a\"x,3\n4,5,6\n").1, [1]);
        // Closed again by another stray one, with the right number of fields or not.
        assert_eq!(read(b"\"1,2,3\n4\",5,6\n").1, [1]);
        assert_eq!(read(b"1,2,\"3\n4,5\",6\n").1, [1]);
        // Closed by another far below, and only what follows that one is wrong.
        let good = "4,5,6\n".repeat(100);
        for last in ["7,8\",\"9\n", "7,8\",\"9\"x\n", "7\",\"8,9\n10\"x,11,12\n"] {
            let (records, bad) = read(format!("1,\"2,3\n{good}{last}{good}").as_bytes());
            assert_eq!(bad[..2], [1, 102], "{last}");
            assert_eq!(records.iter().filter(|record| **record == ["4", "5", "6"]).count(), 200, "{last}");
        }
        // A field that must not have line breaks, behind one that may.
        let quotes = Quotes::new(Delimiter::Byte(b','), 3, vec![(2, "c".into())], false).unwrap();
        let text = b"1,\"a\n4,5,6\n7,8,9\",\"3\n4\"\n";
        let Record::Bad(record) = quotes.record(text, 0, true, false, &mut Vec::new()) else { panic!() };
        assert_eq!((record.start, record.end), (0, 5));
        assert!(
            record.what.contains("closed 2 lines below, and c behind it holds line breaks"),
            "{record:?}"
        );
        let (records, bad) = read(b"1,\"say \"\"hi\"\"\nthere\" ,3\n");
        assert!(bad.is_empty());
        assert_eq!(records, [["1", "say \"hi\"\nthere", "3"]]);
    }

    proptest! {
        /// What has nothing wrong is read as the csv crate reads it, and a piece of text says nothing else than
        /// the whole.
        #[test]
        fn records_are_those_of_the_csv_crate(text in "[ab\",\n]{0,40}") {
            let bytes = text.as_bytes();
            let quotes = Quotes::new(Delimiter::Byte(b','), usize::MAX, Vec::new(), false).unwrap();
            let (mut at, mut fields, mut ours) = (0, Vec::new(), Vec::new());
            while at < bytes.len() {
                let record = quotes.record(bytes, at, true, true, &mut fields);
                for length in at..bytes.len() {
                    let part = quotes.record(&bytes[..length], at, false, true, &mut Vec::new());
                    prop_assert!(part == Record::Cut || part == record, "{:?} {:?}", part, record);
                }
                match record {
                    Record::Whole(end) => {
                        if end > at + 1 || bytes[at] != b'\n' {
                            let says = |field: &Field| String::from_utf8(field.content(bytes)).unwrap();
                            ours.push(fields.iter().map(says).collect::<Vec<_>>());
                        }
                        at = end;
                    }
                    _ => return Ok(()),
                }
            }
            let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes);
            let theirs: Vec<Vec<String>> = reader
                .byte_records()
                .map(|record| record.unwrap().iter().map(|field| String::from_utf8_lossy(field).into()).collect())
                .collect();
            prop_assert_eq!(ours, theirs);
        }
    }
}
