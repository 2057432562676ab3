//! Text in other encodings than UTF-8: found or asked for, decoded as it streams by, and written back.

use super::{npy, parquet};
use crate::control::Control;
use crate::error::{Error, Result};
use encoding_rs::{Decoder, DecoderResult, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};
use std::borrow::Cow;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Bytes that are decoded at a time.
const PIECE: usize = 1 << 16;
/// Byte-order marks.
const MARKS: [(&[u8], &encoding_rs::Encoding); 3] =
    [(b"\xef\xbb\xbf", UTF_8), (b"\xff\xfe", UTF_16LE), (b"\xfe\xff", UTF_16BE)];
/// How much of a file is looked at to tell UTF-16 without a mark.
const SAMPLE: usize = 1 << 12;

/// An encoding of text, by the names that the web has for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encoding {
    of: &'static encoding_rs::Encoding,
    /// Whether a byte-order mark decides between the two of UTF-16.
    either: bool,
}

impl Encoding {
    /// From a name: `utf-8`, `latin1`, `windows-1250`, `utf-16`, `shift_jis`, ...
    ///
    /// ```
    /// use tenfill_engine::ingest::Encoding;
    /// assert_eq!(Encoding::parse("ISO-8859-1").unwrap().to_string(), "windows-1252");
    /// assert!(Encoding::parse("latin").unwrap_err().contains("latin1"));
    /// ```
    pub fn parse(name: &str) -> Result<Self, String> {
        let plain = name.trim().to_lowercase().replace('_', "-");
        let label = match plain.as_str() {
            "latin-1" => "latin1",
            "cp-1252" => "cp1252",
            "utf16" => "utf-16",
            "utf16le" => "utf-16le",
            "utf16be" => "utf-16be",
            other => other,
        };
        // Names with underscores are tried as they are, too.
        let of = encoding_rs::Encoding::for_label(label.as_bytes())
            .or_else(|| encoding_rs::Encoding::for_label(name.trim().as_bytes()));
        let Some(of) = of.filter(|of| *of != encoding_rs::REPLACEMENT) else {
            return Err(format!(
                "'{name}' is no encoding that is known here: write utf-8, latin1, utf-16, windows-1250, shift_jis, ..."
            ));
        };
        Ok(Encoding { of, either: label == "utf-16" })
    }

    fn is_utf16(self) -> bool {
        self.of == UTF_16LE || self.of == UTF_16BE
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.of.name())
    }
}

/// What an input turned out to be written in; nothing as long as it may be UTF-8.
#[derive(Debug, Clone, Default)]
pub struct FoundEncoding(Arc<OnceLock<Written>>);

#[derive(Debug, Clone, Copy)]
struct Written {
    encoding: Encoding,
    mark: bool,
}

impl FoundEncoding {
    /// Its byte-order mark, where it has one: it is no part of the text.
    pub fn mark(&self) -> &'static [u8] {
        match self.0.get() {
            Some(Written { encoding, mark: true }) => match MARKS.iter().find(|(_, of)| *of == encoding.of) {
                Some((mark, _)) => mark,
                None => b"",
            },
            _ => b"",
        }
    }

    /// Text in this encoding; as it is where that is UTF-8.
    pub fn encode<'t>(&self, text: &'t [u8]) -> Result<Cow<'t, [u8]>, String> {
        let Some(Written { encoding, .. }) = self.0.get().filter(|found| found.encoding.of != UTF_8) else {
            return Ok(Cow::Borrowed(text));
        };
        let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
        if encoding.is_utf16() {
            let big = encoding.of == UTF_16BE;
            let bytes = |unit: u16| if big { unit.to_be_bytes() } else { unit.to_le_bytes() };
            return Ok(Cow::Owned(text.encode_utf16().flat_map(bytes).collect()));
        }
        match encoding.of.encode(text) {
            (_, _, true) => Err(format!("some of the text has no place in {encoding}")),
            (bytes, ..) => Ok(Cow::Owned(bytes.into_owned())),
        }
    }
}

/// Decodes an input, if it is text. What is asked for is kept to; else a mark, the zeros of UTF-16, or the
/// first bytes that are not ASCII tell what it is, and what is not UTF-8 is said once.
pub(super) fn decoded(
    mut input: Box<dyn Read + Send>,
    asked: Option<Encoding>,
    name: &Path,
    control: &Control,
) -> Result<(Box<dyn Read + Send>, FoundEncoding)> {
    let mut begun = Vec::new();
    let read = (&mut input).take(SAMPLE as u64).read_to_end(&mut begun);
    read.map_err(|error| super::source::read_error(name, error))?;
    let found = FoundEncoding::default();
    if begun.starts_with(parquet::MAGIC) || begun.starts_with(npy::MAGIC) {
        return Ok((Box::new(io::Cursor::new(begun).chain(input)), found));
    }
    let (state, mark) = first_state(&begun, asked);
    let input = Box::new(io::Cursor::new(begun.split_off(mark)).chain(input));
    let (control, name) = (control.clone(), name.to_path_buf());
    let mut text = Decoded {
        input,
        state: State::Ascii,
        raw: Vec::new(),
        text: Vec::new(),
        at: 0,
        line: 1,
        ended: false,
        name,
        found: found.clone(),
        control,
    };
    match state {
        Some(encoding) if encoding.of == UTF_8 && asked.is_none() => {
            // Nobody else sets it.
            let _ = found.0.set(Written { encoding, mark: true });
            text.state = State::Plain;
        }
        Some(encoding) => text.begin(encoding, mark > 0, asked.is_none()),
        None => {}
    }
    Ok((Box::new(text), found))
}

/// The encoding that the beginning of a file tells, and the length of its mark.
fn first_state(begun: &[u8], asked: Option<Encoding>) -> (Option<Encoding>, usize) {
    let be = |of| Encoding { of, either: false };
    let may_be = |of| match asked {
        None => true,
        Some(asked) if asked.either => be(of).is_utf16(),
        Some(asked) => asked.of == of,
    };
    if let Some((mark, of)) = MARKS.iter().find(|(mark, of)| begun.starts_with(mark) && may_be(of)) {
        return (Some(be(of)), mark.len());
    }
    match asked {
        Some(asked) if !asked.either => (Some(asked), 0),
        _ => (zeros(begun).map(be).or(asked), 0),
    }
}

/// UTF-16 without a mark: tables are full of digits and delimiters, and every other byte of those is zero. A
/// binary file has zeros elsewhere, or control characters.
fn zeros(begun: &[u8]) -> Option<&'static encoding_rs::Encoding> {
    let pairs = begun.len() / 2;
    let count = |odd: usize| begun.iter().skip(odd).step_by(2).filter(|&&byte| byte == 0).count();
    let (even, odd) = (count(0), count(1));
    let of = match (even, odd) {
        (0, odd) if 10 * odd >= 3 * pairs && odd > 0 => UTF_16LE,
        (even, 0) if 10 * even >= 3 * pairs && even > 0 => UTF_16BE,
        _ => return None,
    };
    let (text, ..) = of.decode(&begun[..2 * pairs]);
    let plain = |c: char| !c.is_control() || matches!(c, '\t' | '\r' | '\n');
    text.chars().all(plain).then_some(of)
}

enum State {
    /// Nothing but ASCII so far: the same in all encodings that can still be meant.
    Ascii,
    /// UTF-8, which is handed on as it is; what reads it says what is wrong with it.
    Plain,
    Decoding(Box<Decoder>, Encoding),
}

struct Decoded {
    input: Box<dyn Read + Send>,
    state: State,
    raw: Vec<u8>,
    text: Vec<u8>,
    /// How much of the text has been handed on.
    at: usize,
    line: u64,
    ended: bool,
    name: PathBuf,
    found: FoundEncoding,
    control: Control,
}

impl Decoded {
    fn begin(&mut self, encoding: Encoding, mark: bool, say: bool) {
        // Nobody else sets it.
        let _ = self.found.0.set(Written { encoding, mark });
        if say {
            let name = self.name.display();
            let also = if encoding.of == WINDOWS_1252 { " (Latin-1)" } else { "" };
            let what = format!("{name} is read as {encoding}{also} text; `encoding` says another");
            self.control.say_once(what);
        }
        self.state = State::Decoding(Box::new(encoding.of.new_decoder_without_bom_handling()), encoding);
    }

    /// Reads on behind what is left in `raw`.
    fn read_raw(&mut self) -> io::Result<()> {
        let before = self.raw.len();
        let read = (&mut self.input).take((PIECE - before.min(PIECE / 2)) as u64).read_to_end(&mut self.raw);
        self.ended = read? == 0;
        Ok(())
    }

    /// Fills `text`; leaves it empty at the end only.
    fn refill(&mut self) -> io::Result<()> {
        self.text.clear();
        self.at = 0;
        while self.text.is_empty() && !(self.ended && self.raw.is_empty()) {
            if !self.ended {
                self.read_raw()?;
            }
            match &mut self.state {
                State::Ascii => match tell(&self.raw, self.ended) {
                    Told::Ascii => std::mem::swap(&mut self.text, &mut self.raw),
                    Told::More => {}
                    Told::Utf8 => {
                        std::mem::swap(&mut self.text, &mut self.raw);
                        self.state = State::Plain;
                    }
                    Told::Latin1 => self.begin(Encoding { of: WINDOWS_1252, either: false }, false, true),
                },
                State::Plain => std::mem::swap(&mut self.text, &mut self.raw),
                State::Decoding(..) => self.decode()?,
            }
        }
        self.line += memchr::memchr_iter(b'\n', &self.text).count() as u64;
        Ok(())
    }

    fn decode(&mut self) -> io::Result<()> {
        let State::Decoding(decoder, encoding) = &mut self.state else { return Ok(()) };
        let most = decoder.max_utf8_buffer_length_without_replacement(self.raw.len());
        self.text.resize(most.unwrap_or(4 * PIECE), 0);
        let (result, read, written) =
            decoder.decode_to_utf8_without_replacement(&self.raw, &mut self.text, self.ended);
        self.text.truncate(written);
        self.raw.drain(..read);
        if let DecoderResult::Malformed(..) = result {
            let line = self.line + memchr::memchr_iter(b'\n', &self.text).count() as u64;
            let what = format!("these bytes are no {encoding} text: `encoding` says what they are");
            return Err(io::Error::other(Error::Row { file: self.name.clone(), line, what }));
        }
        Ok(())
    }
}

impl Read for Decoded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.text.len() {
            if let (State::Plain, true) = (&self.state, self.raw.is_empty()) {
                return self.input.read(buffer);
            }
            self.refill()?;
        }
        let count = buffer.len().min(self.text.len() - self.at);
        buffer[..count].copy_from_slice(&self.text[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

enum Told {
    Ascii,
    /// A character is cut at the end, and no other tells.
    More,
    Utf8,
    Latin1,
}

/// What the first bytes that are not ASCII are: characters of UTF-8 for the most part, or not.
fn tell(bytes: &[u8], whole: bool) -> Told {
    let (mut rest, mut right, mut wrong) = (bytes, 0, 0);
    if rest.is_ascii() {
        return Told::Ascii;
    }
    loop {
        match std::str::from_utf8(rest) {
            Ok(text) => {
                right += text.chars().filter(|c| !c.is_ascii()).count();
                break;
            }
            Err(error) => {
                let (valid, after) = rest.split_at(error.valid_up_to());
                right += String::from_utf8_lossy(valid).chars().filter(|c| !c.is_ascii()).count();
                match error.error_len() {
                    Some(length) => {
                        wrong += 1;
                        rest = &after[length..];
                    }
                    None => {
                        wrong += usize::from(whole);
                        break;
                    }
                }
            }
        }
    }
    match (right, wrong) {
        (0, 0) => Told::More,
        (right, wrong) if right > wrong => Told::Utf8,
        _ => Told::Latin1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Hands on so many bytes at a time.
    struct Drops(Vec<u8>, usize, usize);

    impl Read for Drops {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = buffer.len().min(self.2).min(self.0.len() - self.1);
            buffer[..count].copy_from_slice(&self.0[self.1..self.1 + count]);
            self.1 += count;
            Ok(count)
        }
    }

    fn read(bytes: &[u8], drop: usize, asked: Option<&str>) -> (Result<Vec<u8>, String>, FoundEncoding) {
        let asked = asked.map(|name| Encoding::parse(name).unwrap());
        let input = Box::new(Drops(bytes.to_vec(), 0, drop));
        let (mut text, found) = decoded(input, asked, Path::new("x"), &Control::default()).unwrap();
        let mut out = Vec::new();
        let read = text.read_to_end(&mut out);
        (read.map(|_| out).map_err(|error| error.to_string()), found)
    }

    fn utf16(text: &str, big: bool, mark: bool) -> Vec<u8> {
        let units = mark.then_some(0xfeff).into_iter().chain(text.encode_utf16());
        units.flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
    }

    proptest! {
        #[test]
        fn text_comes_back_whatever_it_was_written_in(
            cells in prop::collection::vec("[a-z0-9,.]{1,30}", 1..200), odd in "[é-ÿ]{1,4}", drop in 1usize..300
        ) {
            let text = format!("user,film,{odd}\n{}\n", cells.join(&format!("\n{odd},")));
            let (latin, ..) = WINDOWS_1252.encode(&text);
            let all = [latin.to_vec(), utf16(&text, false, true), utf16(&text, true, true),
                utf16(&text, false, false), utf16(&text, true, false), text.clone().into_bytes()];
            for bytes in all {
                let (found, encoding) = read(&bytes, drop, None);
                let found = found.unwrap();
                prop_assert_eq!(String::from_utf8_lossy(&found), text.as_str());
                let again = [encoding.mark(), &encoding.encode(&found).unwrap()].concat();
                prop_assert_eq!(again, bytes);
            }
        }
    }

    #[test]
    fn a_late_letter_still_tells() {
        let mut bytes = "1,2,3\n".repeat(50_000).into_bytes();
        bytes.extend_from_slice(b"Andr\xe9,2,3\n");
        let (text, _) = read(&bytes, 1 << 20, None);
        assert!(text.unwrap().ends_with("André,2,3\n".as_bytes()));
        // One stray byte does not make Latin-1 of UTF-8.
        let mixed = "Zürich, Köln, Malmö\n".repeat(20).into_bytes();
        let mixed = [mixed, b"\xe9\n".to_vec()].concat();
        assert_eq!(read(&mixed, 1 << 20, None).0.unwrap(), mixed);
    }

    #[test]
    fn wrong_bytes_name_their_line() {
        let bytes = [b"a,b\n1,2\n3,".as_slice(), b"\xff\xff,1\n"].concat();
        let said = read(&bytes, 3, Some("utf-8")).0.unwrap_err();
        assert!(said.starts_with("x:3: ") && said.contains("UTF-8") && said.contains("`encoding`"), "{said}");
        let mut cut = utf16("a,b\n1,2\n", false, true);
        cut.pop();
        assert!(read(&cut, 7, None).0.unwrap_err().starts_with("x:2: "));
        // Lone halves of a pair.
        let said = read(b"a\0\n\0\x00\xd8,\0", 9, Some("utf-16le")).0.unwrap_err();
        assert!(said.starts_with("x:2: "), "{said}");
    }

    #[test]
    fn binary_files_are_left_alone() {
        let numbers: Vec<u8> = (0..2000u32).flat_map(|n| n.to_le_bytes()).collect();
        let small: Vec<u8> = (0..20u16).cycle().take(900).flat_map(|n| n.to_le_bytes()).collect();
        for bytes in [numbers, small] {
            let (found, encoding) = read(&bytes, 1 << 20, None);
            assert!(encoding.mark().is_empty() && found.is_ok_and(|text| text.contains(&0)));
        }
        let parquet = [b"PAR1".as_slice(), b"\xff\xfe\0\0\xe9"].concat();
        assert_eq!(read(&parquet, 2, Some("latin1")).0.unwrap(), parquet);
    }
}
