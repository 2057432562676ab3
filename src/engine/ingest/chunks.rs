//! Text cut into chunks of whole lines.

use super::dialect::Delimiter;
use super::text::LONGEST_LINE;
use crate::error::{Error, Result};
use std::io::Read;
use std::path::PathBuf;

/// Whole lines.
#[derive(Debug)]
pub struct Chunk {
    /// The text, ending with a line end unless it is the last.
    pub bytes: Vec<u8>,
    /// The number of its first line.
    pub first_line: u64,
    /// How far the input has been read.
    pub input_bytes: u64,
}

/// Cuts an input into chunks of whole lines.
pub struct Chunks {
    input: Box<dyn Read + Send>,
    name: PathBuf,
    rest: Vec<u8>,
    size: usize,
    quotes: Option<u8>,
    line: u64,
    ended: bool,
}

impl Chunks {
    /// Chunks of about `size` bytes; `rest` was read already. Quotes matter where fields are
    /// separated by one character.
    pub fn new(
        input: Box<dyn Read + Send>,
        name: PathBuf,
        rest: Vec<u8>,
        size: usize,
        delimiter: Delimiter,
    ) -> Self {
        let quotes = if let Delimiter::Byte(byte) = delimiter { Some(byte) } else { None };
        Chunks { input, name, rest, size, quotes, line: 1, ended: false }
    }

    /// The next chunk; `None` at the end.
    pub fn next_chunk(&mut self) -> Result<Option<Chunk>> {
        loop {
            if !self.ended {
                let want = self.size.saturating_sub(self.rest.len()).max(self.size / 2);
                let read = (&mut self.input).take(want as u64).read_to_end(&mut self.rest);
                let count = read.map_err(|error| super::source::read_error(&self.name, error))?;
                self.ended = count < want;
            }
            if self.rest.is_empty() {
                return Ok(None);
            }
            let cut = if self.ended { self.rest.len() } else { self.last_line_end() };
            if cut == 0 {
                if self.rest.len() > LONGEST_LINE {
                    return Err(Error::Row {
                        file: self.name.clone(),
                        line: self.line,
                        what: "the line is longer than 1 MB: is a quote left open, or is this not text?"
                            .into(),
                    });
                }
                continue;
            }
            let rest = self.rest.split_off(cut);
            let bytes = std::mem::replace(&mut self.rest, rest);
            let chunk = Chunk { first_line: self.line, input_bytes: 0, bytes };
            self.line += memchr::memchr_iter(b'\n', &chunk.bytes).count() as u64;
            return Ok(Some(chunk));
        }
    }

    /// One past the last line end that is not inside quotes; 0 where there is none.
    fn last_line_end(&self) -> usize {
        let Some(delimiter) = self.quotes.filter(|_| memchr::memchr(b'"', &self.rest).is_some()) else {
            return memchr::memrchr(b'\n', &self.rest).map_or(0, |at| at + 1);
        };
        // As the csv crate reads: a quote opens only at the start of a field, and a quote inside
        // quotes closes them unless another follows.
        #[derive(Clone, Copy, PartialEq)]
        enum At {
            FieldStart,
            Field,
            Quoted,
            QuoteInQuotes,
        }
        let (mut at, mut cut) = (At::FieldStart, 0);
        for (position, &byte) in self.rest.iter().enumerate() {
            at = match (at, byte) {
                (At::Quoted, b'"') => At::QuoteInQuotes,
                (At::Quoted, _) | (At::FieldStart | At::QuoteInQuotes, b'"') => At::Quoted,
                (_, b'\n') => {
                    cut = position + 1;
                    At::FieldStart
                }
                (_, byte) if byte == delimiter => At::FieldStart,
                _ => At::Field,
            };
        }
        cut
    }
}
