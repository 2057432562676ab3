//! Rows of text as they stand in the file, byte for byte, with the places of their fields.

use crate::error::{Error, Result};
use crate::ingest::dialect::Delimiter;
use crate::ingest::quotes::{Field, Quotes, Record};
use crate::ingest::source::read_error;
use std::borrow::Cow;
use std::io::Read;
use std::ops::Range;
use std::path::PathBuf;

/// A row longer than this is an unclosed quote, or no text.
const LONGEST_ROW: usize = 1 << 20;
/// Bytes that are read at a time.
const PIECE: usize = 1 << 17;

/// One row.
#[derive(Debug)]
pub struct RawRow<'b> {
    /// All its bytes, without the line end.
    pub bytes: &'b [u8],
    /// What ends it: `\n`, `\r\n`, or nothing at the end of the file.
    pub end: &'b [u8],
    /// Where the fields are, quotes included.
    pub fields: Vec<Range<usize>>,
    /// The line that it begins on, from 1.
    pub line: u64,
    /// What is wrong with its quotes; it is one line without fields then.
    pub flaw: Option<String>,
}

impl RawRow<'_> {
    /// Whether there is nothing on the line.
    pub fn is_blank(&self) -> bool {
        self.bytes.trim_ascii().is_empty()
    }
}

/// Reads rows.
pub struct RawRows {
    input: Box<dyn Read + Send>,
    path: PathBuf,
    delimiter: Delimiter,
    quotes: Option<Quotes>,
    /// Whether a header is still to come.
    header: bool,
    buffer: Vec<u8>,
    at: usize,
    line: u64,
    ended: bool,
}

/// Where a row ends, and what has been found on the way.
enum Found {
    Plain(usize),
    Quoted(usize, Vec<Field>),
    Flawed(usize, String),
}

impl RawRows {
    /// Of a stream; `path` is its name in messages. `header` says that the first row is one.
    pub fn new(
        input: Box<dyn Read + Send>,
        path: PathBuf,
        delimiter: Delimiter,
        quotes: Option<Quotes>,
        header: bool,
    ) -> Self {
        RawRows { input, path, delimiter, quotes, header, buffer: Vec::new(), at: 0, line: 1, ended: false }
    }

    /// The next row; `None` at the end.
    pub fn next_row(&mut self) -> Result<Option<RawRow<'_>>> {
        let found = loop {
            let rest = &self.buffer[self.at..];
            if rest.is_empty() && self.ended {
                return Ok(None);
            }
            if let Some(found) = self.find(rest) {
                break found;
            }
            if rest.len() > LONGEST_ROW {
                let what = "a row is longer than 1 MB: is a quote left open, or is this not text?";
                return Err(Error::Row { file: self.path.clone(), line: self.line, what: what.into() });
            }
            self.buffer.drain(..self.at);
            self.at = 0;
            let piece = PIECE.max(self.buffer.len()) as u64;
            let read = (&mut self.input).take(piece).read_to_end(&mut self.buffer);
            self.ended = read.map_err(|error| read_error(&self.path, error))? == 0;
        };
        let length = match &found {
            Found::Plain(length) | Found::Quoted(length, _) | Found::Flawed(length, _) => *length,
        };
        let whole = &self.buffer[self.at..self.at + length];
        let line = self.line;
        self.line += memchr::memchr_iter(b'\n', whole).count() as u64;
        self.at += length;
        let bytes = whole.strip_suffix(b"\n").unwrap_or(whole);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let end = &whole[bytes.len()..];
        self.header &= bytes.trim_ascii().is_empty();
        let (fields, flaw) = match found {
            Found::Plain(_) => (fields(self.delimiter, bytes), None),
            Found::Quoted(_, fields) => (fields.into_iter().map(|field| field.outer).collect(), None),
            Found::Flawed(_, what) => (Vec::new(), Some(what)),
        };
        Ok(Some(RawRow { bytes, end, fields, line, flaw }))
    }

    /// The bytes up to and with the line end that is outside quotes; `None` where it is not there yet.
    fn find(&self, bytes: &[u8]) -> Option<Found> {
        let line = match memchr::memchr(b'\n', bytes) {
            Some(at) => at + 1,
            None if self.ended => bytes.len(),
            None => return None,
        };
        let Some(quotes) = self.quotes.as_ref().filter(|_| memchr::memchr(b'"', &bytes[..line]).is_some())
        else {
            return Some(Found::Plain(line));
        };
        let mut fields = Vec::new();
        match quotes.record(bytes, 0, self.ended, self.header, &mut fields) {
            Record::Whole(end) => Some(Found::Quoted(end, fields)),
            Record::Bad(record) => Some(Found::Flawed(record.end, record.what)),
            Record::Cut => None,
        }
    }
}

/// The fields of a row without quotes.
fn fields(delimiter: Delimiter, row: &[u8]) -> Vec<Range<usize>> {
    let (mut fields, base) = (Vec::new(), row.as_ptr() as usize);
    delimiter.split(row, |_, field| {
        let start = field.as_ptr() as usize - base;
        fields.push(start..start + field.len());
    });
    fields
}

/// What a field says: without quotes, and without blanks around it.
pub fn content(field: &[u8]) -> Cow<'_, str> {
    match unquoted(field) {
        Cow::Borrowed(text) => String::from_utf8_lossy(text.trim_ascii()),
        Cow::Owned(text) => Cow::Owned(String::from_utf8_lossy(text.trim_ascii()).into_owned()),
    }
}

/// A field without its quotes.
pub(super) fn unquoted(field: &[u8]) -> Cow<'_, [u8]> {
    // Only what begins the field is a quote.
    let Some(inside) = field.strip_prefix(b"\"") else { return Cow::Borrowed(field) };
    let (mut text, mut rest) = (Vec::with_capacity(inside.len()), inside);
    while let Some(at) = memchr::memchr(b'"', rest) {
        text.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        match rest.strip_prefix(b"\"") {
            Some(after) => {
                text.push(b'"');
                rest = after;
            }
            None => break,
        }
    }
    text.extend_from_slice(rest);
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rows(text: &'static [u8]) -> RawRows {
        let delimiter = Delimiter::Byte(b',');
        let quotes = Quotes::new(delimiter, 3, Vec::new(), false);
        RawRows::new(Box::new(text), "x".into(), delimiter, quotes, false)
    }

    #[test]
    fn rows_come_with_their_bytes_fields_and_lines() {
        let mut rows = rows(b"a,\"b, c\",\r\n\n \"x\" ,\"say \"\"hi\"\"\n!\",3\nlast,,");
        let mut seen = Vec::new();
        while let Some(row) = rows.next_row().unwrap() {
            let texts: Vec<String> =
                row.fields.iter().map(|field| content(&row.bytes[field.clone()]).into_owned()).collect();
            seen.push((row.line, row.end.to_vec(), texts));
        }
        assert_eq!(seen[0], (1, b"\r\n".to_vec(), vec!["a".into(), "b, c".into(), String::new()]));
        assert_eq!(seen[1].2, [""]);
        assert_eq!(seen[2].0, 3);
        assert_eq!(seen[2].2, ["\"x\"", "say \"hi\"\n!", "3"]);
        assert_eq!(seen[3], (5, Vec::new(), vec!["last".into(), String::new(), String::new()]));
        assert_eq!(seen.len(), 4);
    }

    proptest! {
        /// What the csv crate reads, it reads here where no quote is wrong; and no byte is lost.
        #[test]
        fn fields_are_those_of_the_csv_crate(text in "[ab\",\n]{0,40}") {
            let bytes: &'static [u8] = Box::leak(text.clone().into_bytes().into_boxed_slice());
            let mut ours: Vec<Vec<String>> = Vec::new();
            let (mut all, mut strict) = (Vec::new(), true);
            let mut rows = rows(bytes);
            while let Some(row) = rows.next_row().unwrap() {
                all.extend_from_slice(row.bytes);
                all.extend_from_slice(row.end);
                strict &= row.flaw.is_none();
                if !row.bytes.is_empty() {
                    ours.push(row.fields.iter().map(|field| content(&row.bytes[field.clone()]).into()).collect());
                }
            }
            prop_assert_eq!(all, text.as_bytes());
            if !strict {
                return Ok(());
            }
            let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes);
            let theirs: Vec<Vec<String>> = reader
                .byte_records()
                .map(|record| record.unwrap().iter().map(|field| String::from_utf8_lossy(field.trim_ascii()).into()).collect())
                .collect();
            prop_assert_eq!(ours, theirs);
        }
    }
}
