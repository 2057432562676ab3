//! Rows of text as they stand in the file, byte for byte, with the places of their fields.

use crate::error::{Error, Result};
use crate::ingest::dialect::Delimiter;
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
    buffer: Vec<u8>,
    at: usize,
    line: u64,
    ended: bool,
}

impl RawRows {
    /// Of a stream; `path` is its name in messages.
    pub fn new(input: Box<dyn Read + Send>, path: PathBuf, delimiter: Delimiter) -> Self {
        RawRows { input, path, delimiter, buffer: Vec::new(), at: 0, line: 1, ended: false }
    }

    /// The next row; `None` at the end.
    pub fn next_row(&mut self) -> Result<Option<RawRow<'_>>> {
        let length = loop {
            let rest = &self.buffer[self.at..];
            if let Some(length) = self.row_length(rest) {
                break length;
            }
            if self.ended {
                break rest.len();
            }
            if rest.len() > LONGEST_ROW {
                let what = "a row is longer than 1 MB: is a quote left open, or is this not text?";
                return Err(Error::Row { file: self.path.clone(), line: self.line, what: what.into() });
            }
            self.buffer.drain(..self.at);
            self.at = 0;
            let read = (&mut self.input).take(PIECE as u64).read_to_end(&mut self.buffer);
            self.ended = read.map_err(|error| read_error(&self.path, error))? == 0;
        };
        if length == 0 {
            return Ok(None);
        }
        let whole = &self.buffer[self.at..self.at + length];
        let line = self.line;
        self.line += memchr::memchr_iter(b'\n', whole).count() as u64;
        self.at += length;
        let bytes = whole.strip_suffix(b"\n").unwrap_or(whole);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let end = &whole[bytes.len()..];
        Ok(Some(RawRow { bytes, end, fields: fields(self.delimiter, bytes), line }))
    }

    /// The bytes up to and with the line end that is outside quotes; `None` where it is not there yet.
    fn row_length(&self, bytes: &[u8]) -> Option<usize> {
        let Delimiter::Byte(delimiter) = self.delimiter else {
            return memchr::memchr(b'\n', bytes).map(|at| at + 1);
        };
        let first = memchr::memchr(b'\n', bytes)?;
        if memchr::memchr(b'"', &bytes[..first]).is_none() {
            return Some(first + 1);
        }
        let mut quotes = Quotes::FieldStart;
        for (at, &byte) in bytes.iter().enumerate() {
            if byte == b'\n' && quotes != Quotes::Inside {
                return Some(at + 1);
            }
            quotes = quotes.after(byte, delimiter);
        }
        None
    }
}

/// As the csv crate reads: a quote opens only at the start of a field, and a quote inside quotes closes
/// them unless another follows.
#[derive(Clone, Copy, PartialEq)]
enum Quotes {
    FieldStart,
    Outside,
    Inside,
    Closing,
}

impl Quotes {
    fn after(self, byte: u8, delimiter: u8) -> Self {
        match (self, byte) {
            (Quotes::Inside, b'"') => Quotes::Closing,
            (Quotes::Inside, _) | (Quotes::FieldStart | Quotes::Closing, b'"') => Quotes::Inside,
            (_, b'\n') => Quotes::FieldStart,
            (_, byte) if byte == delimiter => Quotes::FieldStart,
            _ => Quotes::Outside,
        }
    }
}

fn fields(delimiter: Delimiter, row: &[u8]) -> Vec<Range<usize>> {
    let mut fields = Vec::new();
    match delimiter {
        Delimiter::Byte(byte) if row.contains(&b'"') => {
            let (mut quotes, mut start) = (Quotes::FieldStart, 0);
            for (at, &next) in row.iter().enumerate() {
                if next == byte && quotes != Quotes::Inside {
                    fields.push(start..at);
                    start = at + 1;
                }
                quotes = quotes.after(next, byte);
            }
            fields.push(start..row.len());
        }
        _ => {
            let base = row.as_ptr() as usize;
            delimiter.split(row, |_, field| {
                let start = field.as_ptr() as usize - base;
                fields.push(start..start + field.len());
            });
        }
    }
    fields
}

/// What a field says: without quotes, and without blanks around it.
pub fn content(field: &[u8]) -> Cow<'_, str> {
    let trimmed = field.trim_ascii();
    // Only what begins the field is a quote.
    let Some(inside) = field.strip_prefix(b"\"") else { return String::from_utf8_lossy(trimmed) };
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
    Cow::Owned(String::from_utf8_lossy(text.trim_ascii()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rows(text: &'static [u8]) -> RawRows {
        RawRows::new(Box::new(text), "x".into(), Delimiter::Byte(b','))
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
        /// What the csv crate reads, it reads here; and no byte is lost.
        #[test]
        fn fields_are_those_of_the_csv_crate(text in "[ab\",\n]{0,40}") {
            let bytes: &'static [u8] = Box::leak(text.clone().into_bytes().into_boxed_slice());
            let mut ours: Vec<Vec<String>> = Vec::new();
            let mut all = Vec::new();
            let mut rows = rows(bytes);
            while let Some(row) = rows.next_row().unwrap() {
                all.extend_from_slice(row.bytes);
                all.extend_from_slice(row.end);
                if !row.bytes.is_empty() {
                    ours.push(row.fields.iter().map(|field| content(&row.bytes[field.clone()]).into()).collect());
                }
            }
            prop_assert_eq!(all, text.as_bytes());
            let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes);
            let theirs: Vec<Vec<String>> = reader
                .byte_records()
                .map(|record| record.unwrap().iter().map(|field| String::from_utf8_lossy(field.trim_ascii()).into()).collect())
                .collect();
            prop_assert_eq!(ours, theirs);
        }
    }
}
