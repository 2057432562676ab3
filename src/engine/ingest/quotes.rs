//! Records of text whose fields may be quoted: where one ends, and what is wrong with its quotes.

use super::columns::FilePlan;
use super::dialect::Delimiter;
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
    /// Where the record begins.
    pub start: usize,
    /// Where the quote stands that is wrong.
    pub opens: usize,
    /// Where the next record begins: on the next line.
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
        Some(Quotes { delimiter, count, single, comments })
    }

    /// For a file that is read with that plan.
    pub fn of(plan: &FilePlan, delimiter: Delimiter, comments: bool) -> Option<Self> {
        let modes = plan.id_columns().iter().map(|mode| (mode.column, mode.name.clone()));
        let mut single: Vec<(usize, String)> = modes.collect();
        match &plan.wide {
            Some(wide) => single.extend(wide.columns.iter().cloned()),
            None if plan.ones => {}
            None => single.push((plan.value, plan.value_name.clone())),
        }
        single.extend(plan.weight.clone());
        Self::new(delimiter, plan.count, single, comments)
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
        let bad = |opens: usize, what: String| match memchr::memchr(b'\n', &text[opens..]) {
            Some(at) => Record::Bad(BadRecord { start, opens, end: opens + at + 1, what }),
            None if ended => Record::Bad(BadRecord { start, opens, end: text.len(), what }),
            None => Record::Cut,
        };
        // A quote that opens a field over several lines.
        let mut spans = None;
        let mut at = start;
        let end = loop {
            let begin = at;
            if text.get(at) == Some(&b'"') {
                let (close, doubled) = match closing(text, start, at, ended) {
                    Closing::At(close, doubled) => (close, doubled),
                    Closing::Cut => return Record::Cut,
                    Closing::Never => {
                        let what = "the quote that opens here is never closed: remove it, or close the field \
                                    with another";
                        return bad(at, what.into());
                    }
                };
                let mut behind = close + 1;
                let blank = |byte: u8| matches!(byte, b' ' | b'\t' | b'\r') && byte != self.delimiter;
                while text.get(behind).is_some_and(|&byte| blank(byte)) {
                    behind += 1;
                }
                match text.get(behind) {
                    None if !ended => return Record::Cut,
                    Some(&byte) if byte != b'\n' && byte != self.delimiter => {
                        let inner = &text[at + 1..close];
                        return bad(
                            at,
                            match breaks(inner) {
                                0 => format!(
                                    "text follows the quote that closes {}: write a quote inside a quoted field \
                                 twice (\"\"), or remove it",
                                    shown(inner)
                                ),
                                lines => format!(
                                    "the quote that opens here meets the next one {}, with text behind it: is it a \
                                 stray quote? remove it, or write quotes inside a quoted field twice (\"\")",
                                    below(lines)
                                ),
                            },
                        );
                    }
                    _ => {}
                }
                if spans.is_none() && breaks(&text[at..close]) > 0 {
                    spans = Some((at, close));
                }
                fields.push(Field { outer: begin..behind, inner: at + 1..close, doubled });
                at = behind;
            } else {
                at = match memchr::memchr2(self.delimiter, b'\n', text.get(at..).unwrap_or_default()) {
                    Some(length) => at + length,
                    None if ended => text.len(),
                    None => return Record::Cut,
                };
                fields.push(Field { outer: begin..at, inner: begin..at, doubled: false });
            }
            match text.get(at) {
                None => break at,
                Some(b'\n') => break at + 1,
                Some(_) => at += 1,
            }
        };
        if let Some(last) = fields.last_mut() {
            for place in [&mut last.outer, &mut last.inner] {
                if place.end == at && text[..place.end].ends_with(b"\r") && place.end > place.start {
                    place.end -= 1;
                }
            }
        }
        let Some((opens, close)) = spans.filter(|_| !header) else { return Record::Whole(end) };
        let lines = breaks(&text[opens..close]);
        if fields.len() != self.count {
            let what = format!(
                "{} fields where {} were expected, with the quote that opens here closed {}: is it a stray \
                 quote? remove it",
                fields.len(),
                self.count,
                below(lines)
            );
            return bad(opens, what);
        }
        for (column, name) in &self.single {
            let Some(field) = fields.get(*column) else { continue };
            let lines = breaks(text[field.inner.clone()].trim_ascii());
            if lines > 0 {
                let what = format!(
                    "{name} holds line breaks: the quote that opens here is closed {}; remove it if it is a stray \
                     one, else take the line breaks out of {name}",
                    below(lines)
                );
                return bad(field.outer.start, what);
            }
        }
        Record::Whole(end)
    }
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
                    bad.push(1 + breaks(&text[..record.opens]) as u64);
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
