//! How a text file separates its fields, and whether its first line is a header.

use super::columns::names_value;
use super::encoding::Encoding;
use super::nearly;
use super::number::parse_number;
use super::rules::{Signs, is_missing};
use super::text::shown;

/// What stands between two fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delimiter {
    /// One character; fields may be quoted.
    Byte(u8),
    /// `::`, as in older MovieLens files.
    DoubleColon,
    /// Any number of spaces and tabs.
    Blanks,
}

impl Delimiter {
    /// From what a user writes: a character, `tab`, `space`, `\t`, `::`.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "tab" | "\\t" | "\t" => Ok(Delimiter::Byte(b'\t')),
            "space" | "blank" | "blanks" | " " => Ok(Delimiter::Blanks),
            "comma" => Ok(Delimiter::Byte(b',')),
            "::" => Ok(Delimiter::DoubleColon),
            _ => match text.as_bytes() {
                [byte]
                    if byte.is_ascii() && !byte.is_ascii_alphanumeric() && !b"\"\r\n.-+".contains(byte) =>
                {
                    Ok(Delimiter::Byte(*byte))
                }
                _ => Err(format!("'{text}' is no delimiter: use , ; | :: tab or space")),
            },
        }
    }

    /// What to call it.
    pub fn name(self) -> String {
        match self {
            Delimiter::Byte(b'\t') => "tab".into(),
            Delimiter::Byte(byte) => format!("'{}'", byte as char),
            Delimiter::DoubleColon => "'::'".into(),
            Delimiter::Blanks => "blanks".into(),
        }
    }

    /// Calls `each` with the fields of an unquoted line, and returns how many there are.
    #[inline]
    pub fn split<'l>(self, line: &'l [u8], mut each: impl FnMut(usize, &'l [u8])) -> usize {
        let mut count = 0;
        match self {
            Delimiter::Byte(delimiter) => {
                let mut start = 0;
                for (at, &byte) in line.iter().enumerate() {
                    if byte == delimiter {
                        each(count, &line[start..at]);
                        count += 1;
                        start = at + 1;
                    }
                }
                each(count, &line[start..]);
                count + 1
            }
            Delimiter::DoubleColon => {
                let mut rest = line;
                while let Some(at) = memchr::memmem::find(rest, b"::") {
                    each(count, &rest[..at]);
                    count += 1;
                    rest = &rest[at + 2..];
                }
                each(count, rest);
                count + 1
            }
            Delimiter::Blanks => {
                for field in line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|field| !field.is_empty())
                {
                    each(count, field);
                    count += 1;
                }
                count
            }
        }
    }

    /// The fields of a line that may be quoted, unescaped.
    pub fn fields(self, line: &[u8]) -> Vec<String> {
        let text = |field: &[u8]| String::from_utf8_lossy(field).trim().to_string();
        if let Delimiter::Byte(delimiter) = self
            && line.contains(&b'"')
        {
            let mut reader = csv::ReaderBuilder::new()
                .has_headers(false)
                .flexible(true)
                .delimiter(delimiter)
                .from_reader(line);
            let record = reader.byte_records().next();
            return record
                .and_then(Result::ok)
                .map_or(Vec::new(), |record| record.iter().map(text).collect());
        }
        let mut fields = Vec::new();
        self.split(line, |_, field| fields.push(text(field)));
        fields
    }
}

/// How a file is to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dialect {
    /// Between fields.
    pub delimiter: Delimiter,
    /// The names of the columns, where the first line gives them.
    pub header: Option<Vec<String>>,
    /// How many fields every line has.
    pub columns: usize,
    /// The fields of the first lines after the header that hold something, to guess types from.
    pub first: Vec<String>,
    /// Of columns that are nearly numbers, but for commas or percent signs, an example.
    pub nearly: Vec<Option<String>>,
}

/// What the user said of a file's dialect.
#[derive(Debug, Clone, Copy, Default)]
pub struct DialectRequest {
    /// The delimiter.
    pub delimiter: Option<Delimiter>,
    /// Whether there is a header.
    pub header: Option<bool>,
    /// The encoding.
    pub encoding: Option<Encoding>,
}

/// Candidates, best first; blanks only where nothing else fits.
const CANDIDATES: [Delimiter; 5] = [
    Delimiter::DoubleColon,
    Delimiter::Byte(b'\t'),
    Delimiter::Byte(b','),
    Delimiter::Byte(b';'),
    Delimiter::Byte(b'|'),
];

/// Finds the dialect from a file's first lines (whole lines, no byte-order mark). A first line that is
/// `named` is a header, whatever it looks like, unless the user says otherwise.
pub fn detect(
    lines: &[&[u8]],
    request: DialectRequest,
    named: impl FnOnce(&[String]) -> bool,
    missing: &Signs,
) -> Result<Dialect, String> {
    let Some(&first) = lines.first() else { return Err("the file is empty".into()) };
    let delimiter = match request.delimiter {
        Some(delimiter) => delimiter,
        None => find_delimiter(lines).ok_or(
            "no delimiter splits the first lines into the same number of fields: give one with `delimiter`",
        )?,
    };
    if request.delimiter.is_some() && lines.iter().all(|line| delimiter.fields(line).len() == 1) {
        return Err(format!(
            "the delimiter {} occurs in none of the first lines (the first is {}): give another `delimiter`, or none \
             to have it found",
            delimiter.name(),
            shown(first)
        ));
    }
    let rows: Vec<Vec<String>> = lines.iter().map(|line| delimiter.fields(line)).collect();
    let columns = delimiter.fields(first).len();
    let is_number = |field: &String| parse_number(field.as_bytes()).is_some();
    let header = request.header.unwrap_or_else(|| {
        // Names are not numbers; a first row of data has at least its value.
        named(&rows[0])
            || !rows[0].iter().any(is_number)
                && (rows.len() == 1
                    || rows[1..].iter().any(|row| row.iter().any(is_number))
                    || is_above_nothing(&rows, missing))
    });
    let data = &rows[usize::from(header)..];
    let texts = |column: usize| -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(data.iter().filter_map(move |row| row.get(column)).map(String::as_str))
    };
    let nearly = nearly::examples(columns, texts);
    let first = told(data, missing);
    Ok(Dialect { delimiter, header: header.then(|| rows[0].clone()), columns, first, nearly })
}

/// Whether the first row has the name of a value above cells that are all missing: the numbers come further down.
fn is_above_nothing(rows: &[Vec<String>], missing: &Signs) -> bool {
    let is_nothing = |row: &Vec<String>, column: usize| {
        row.get(column).is_some_and(|field| is_missing(field.as_bytes()) || missing.has(field.as_bytes()))
    };
    let nothing = |column: usize| rows[1..].iter().all(|row| is_nothing(row, column));
    rows[0].iter().enumerate().any(|(column, name)| names_value(name) && nothing(column))
}

/// What each column holds: of the first row that says something, because values may be missing.
fn told(rows: &[Vec<String>], missing: &Signs) -> Vec<String> {
    let Some(first) = rows.first() else { return Vec::new() };
    let says = |column: usize| {
        let fields = rows.iter().filter_map(move |row| row.get(column));
        let says = |field: &&String| !is_missing(field.as_bytes()) && !missing.has(field.as_bytes());
        fields.clone().find(says).or(first.get(column))
    };
    (0..first.len()).map(|column| says(column).cloned().unwrap_or_default()).collect()
}

fn find_delimiter(lines: &[&[u8]]) -> Option<Delimiter> {
    let consistent = |delimiter: Delimiter| {
        let counts: Vec<usize> = lines.iter().map(|line| delimiter.fields(line).len()).collect();
        let most = counts[0];
        (most >= 2 && counts.iter().all(|&count| count == most)).then_some(most)
    };
    let best = CANDIDATES.iter().rev().filter_map(|&candidate| Some((consistent(candidate)?, candidate)));
    let best = best.max_by_key(|&(count, _)| count).map(|(_, candidate)| candidate);
    best.or_else(|| consistent(Delimiter::Blanks).map(|_| Delimiter::Blanks)).or_else(|| {
        // A bad line among the first must not hide the delimiter: its own error names it.
        let first = CANDIDATES.iter().copied().chain([Delimiter::Blanks]);
        first.filter(|candidate| candidate.fields(lines[0]).len() >= 2).max_by_key(|candidate| {
            let count = candidate.fields(lines[0]).len();
            lines.iter().filter(|line| candidate.fields(line).len() == count).count()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detected(text: &str) -> Dialect {
        let lines: Vec<&[u8]> = text.lines().map(str::as_bytes).collect();
        detect(&lines, DialectRequest::default(), |_| false, &Signs::default()).unwrap()
    }

    #[test]
    fn the_usual_dialects_are_found() {
        assert_eq!(detected("userId,movieId,rating\n1,2,3.5\n").delimiter, Delimiter::Byte(b','));
        assert_eq!(detected("1::122::5::838985046\n1::185::5::838983525").delimiter, Delimiter::DoubleColon);
        assert_eq!(detected("196\t242\t3\t881250949").columns, 4);
        assert_eq!(detected("a;b;c\n1;2;3,5\n1;3;4,5").delimiter, Delimiter::Byte(b';'));
        assert_eq!(detected("a|b|c\n1|2|3").delimiter, Delimiter::Byte(b'|'));
        assert_eq!(detected("1 1 1 0.5\n2   1 1 7").delimiter, Delimiter::Blanks);
        assert_eq!(detected("\"x, y\",\"b\",3\n\"z\",\"c\",4").columns, 3);
    }

    #[test]
    fn headers_are_found() {
        assert!(detected("user,item,rating\n1,2,3").header.is_some());
        assert!(detected("u1,i1,3\nu2,i2,4").header.is_none());
        // The name of a value above nothing is one.
        assert!(detected("user,item,value\nu1,i1,\nu2,i2,NA").header.is_some());
        assert!(detected("user,item,note\nu1,i1,\nu2,i2,").header.is_none());
        assert!(detected("1,2,3").header.is_none());
        assert_eq!(detected("user,item\nx,2").header, Some(vec!["user".into(), "item".into()]));
    }
}
