//! Text cut into chunks of whole lines.

use super::quotes::{BadRecord, Quotes, Record};
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
    /// Whether its first line that holds something may be the header.
    pub begins: bool,
    /// Lines whose quotes are wrong, ascending: what shows that may lie behind the chunk.
    pub bad: Vec<BadRecord>,
}

/// Cuts an input into chunks of whole lines.
pub struct Chunks {
    input: Box<dyn Read + Send>,
    name: PathBuf,
    rest: Vec<u8>,
    size: usize,
    quotes: Option<Quotes>,
    /// Whether a header is still to come.
    header: bool,
    comments: bool,
    line: u64,
    ended: bool,
}

/// Whether a line holds nothing that counts.
pub(super) fn is_idle(line: &[u8], comments: bool) -> bool {
    let line = line.trim_ascii_start();
    line.is_empty() || comments && line.starts_with(b"#")
}

impl Chunks {
    /// Chunks of about `size` bytes; `rest` was read already. `header` says that the first line is one, and
    /// `comments` that `#` begins a comment.
    pub fn new(
        input: Box<dyn Read + Send>,
        name: PathBuf,
        rest: Vec<u8>,
        size: usize,
        quotes: Option<Quotes>,
        header: bool,
        comments: bool,
    ) -> Self {
        Chunks { input, name, rest, size, quotes, header, comments, line: 1, ended: false }
    }

    /// The next chunk; `None` at the end.
    pub fn next_chunk(&mut self) -> Result<Option<Chunk>> {
        loop {
            if !self.ended {
                // What has no end yet grows by as much again: it is looked through from its beginning each time.
                let want = self.size.saturating_sub(self.rest.len()).max(self.size / 2).max(self.rest.len());
                let read = (&mut self.input).take(want as u64).read_to_end(&mut self.rest);
                let count = read.map_err(|error| super::source::read_error(&self.name, error))?;
                self.ended = count < want;
            }
            if self.rest.is_empty() {
                return Ok(None);
            }
            let (cut, bad) = self.records();
            if cut == 0 {
                if self.rest.len() > LONGEST_LINE {
                    return Err(self.too_long(self.line));
                }
                continue;
            }
            let rest = self.rest.split_off(cut);
            let bytes = std::mem::replace(&mut self.rest, rest);
            let begins = self.header;
            if begins {
                self.header = bytes.split(|&byte| byte == b'\n').all(|line| is_idle(line, self.comments));
            }
            self.check_lines(&bytes, begins)?;
            let chunk = Chunk { first_line: self.line, input_bytes: 0, begins, bytes, bad };
            self.line += memchr::memchr_iter(b'\n', &chunk.bytes).count() as u64;
            return Ok(Some(chunk));
        }
    }

    fn too_long(&self, line: u64) -> Error {
        let what = "the line is longer than 1 MB: is a quote left open, or is this not text?";
        Error::Row { file: self.name.clone(), line, what: what.into() }
    }

    /// No line may be too long, a header excepted, however the text was cut.
    fn check_lines(&self, text: &[u8], begins: bool) -> Result<()> {
        if text.len() <= LONGEST_LINE {
            return Ok(());
        }
        let mut lines = text.split(|&byte| byte == b'\n').zip(self.line..);
        match lines.find(|(line, number)| line.len() > LONGEST_LINE && !(begins && *number == 1)) {
            Some((_, number)) => Err(self.too_long(number)),
            None => Ok(()),
        }
    }

    /// One past the last record that is whole, 0 where there is none; and the lines before it whose quotes
    /// are wrong.
    fn records(&self) -> (usize, Vec<BadRecord>) {
        let text = &self.rest;
        let mut bad = Vec::new();
        let mut at = 0;
        if let Some(quotes) = &self.quotes {
            let mut fields = Vec::new();
            let mut header = self.header;
            while let Some(quote) = memchr::memchr(b'"', &text[at..]).map(|length| at + length) {
                let line = memchr::memrchr(b'\n', &text[at..quote]).map_or(at, |length| at + length + 1);
                header = header
                    && text[at..line].split(|&byte| byte == b'\n').all(|line| is_idle(line, self.comments));
                match quotes.record(text, line, self.ended, header, &mut fields) {
                    Record::Whole(end) => {
                        header &= is_idle(&text[line..end], self.comments);
                        at = end;
                    }
                    Record::Bad(record) => {
                        header = false;
                        at = record.end;
                        bad.push(record);
                    }
                    Record::Cut => return (line, bad),
                }
            }
        }
        let end = match self.ended {
            true => text.len(),
            false => memchr::memrchr(b'\n', &text[at..]).map_or(at, |length| at + length + 1),
        };
        (end, bad)
    }
}
