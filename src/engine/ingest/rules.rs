//! Which rows count: what stands for a missing value, and conditions on columns.

use super::arrow::Column;
use super::number::parse_number;
use super::rows::Taken;
use super::text::shown;
use crate::times::parse_time;
use crate::transform::Transform;
use std::borrow::Cow;
use std::cmp::Ordering;

/// What tables write where there is no value, beside nothing at all; upper or lower case.
const MISSING: [&[u8]; 8] = [b"na", b"n/a", b"nan", b"null", b"none", b"<na>", b"#n/a", b"\\n"];

/// Whether a field of the value's column says that there is none.
#[inline]
pub fn is_missing(field: &[u8]) -> bool {
    // Hardly a value is asked twice: numbers begin with a digit, a point or a sign.
    match field.first() {
        None => true,
        Some(b'0'..=b'9' | b'.' | b'-' | b'+') => false,
        Some(_) => field.len() <= 4 && MISSING.iter().any(|text| field.eq_ignore_ascii_case(text)),
    }
}

/// What else stands for a missing value in a file, beside what does so everywhere.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Signs {
    texts: Vec<String>,
    /// Those that are numbers, however they are written.
    numbers: Vec<f64>,
}

impl Signs {
    /// From what a user says: `?`, `-999`.
    pub fn new(signs: &[String]) -> Self {
        let texts: Vec<String> = signs.iter().map(|sign| sign.trim().to_string()).collect();
        let numbers = texts.iter().filter_map(|sign| parse_number(sign.as_bytes())).collect();
        Signs { texts, numbers }
    }

    /// Whether a field is one.
    #[inline]
    pub fn has(&self, field: &[u8]) -> bool {
        !self.texts.is_empty() && self.look_for(field)
    }

    #[cold]
    fn look_for(&self, field: &[u8]) -> bool {
        self.texts.iter().any(|sign| sign.as_bytes() == field)
            || parse_number(field).is_some_and(|number| self.has_number(number))
    }

    /// Whether a number is one.
    #[inline]
    pub fn has_number(&self, number: f64) -> bool {
        self.numbers.contains(&number)
    }
}

/// How a cell is compared with a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    AtMost,
    More,
    AtLeast,
}

impl Comparison {
    /// As they are written; the longer ones first.
    const ALL: [(&'static str, Comparison); 8] = [
        ("!=", Comparison::Unequal),
        ("<>", Comparison::Unequal),
        ("==", Comparison::Equal),
        ("<=", Comparison::AtMost),
        (">=", Comparison::AtLeast),
        ("=", Comparison::Equal),
        ("<", Comparison::Less),
        (">", Comparison::More),
    ];

    fn holds(self, order: Ordering) -> bool {
        match self {
            Comparison::Equal => order.is_eq(),
            Comparison::Unequal => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::AtMost => order.is_le(),
            Comparison::More => order.is_gt(),
            Comparison::AtLeast => order.is_ge(),
        }
    }

    fn is_order(self) -> bool {
        !matches!(self, Comparison::Equal | Comparison::Unequal)
    }
}

/// What a cell is compared with.
#[derive(Debug, Clone, PartialEq)]
enum Constant {
    Number(f64),
    /// Seconds since 1970.
    Time(f64),
    Text,
}

/// `rating > 0`: a column, a comparison, and a constant.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// The column, by name or number.
    pub column: String,
    comparison: Comparison,
    constant: Constant,
    /// The constant as it was written, without quotes.
    text: String,
    /// The whole, for messages.
    whole: String,
}

impl Condition {
    /// From `rating > 0`, `country = 'IT'` or `day >= 2020-01-01`; several are joined by `and`.
    ///
    /// ```
    /// use tenfill_engine::ingest::Condition;
    /// let all = Condition::parse("rating > 0 and country != 'Trinidad and Tobago'").unwrap();
    /// assert_eq!(all.iter().map(|one| one.column.as_str()).collect::<Vec<_>>(), ["rating", "country"]);
    /// assert!(Condition::parse("rating").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Vec<Self>, String> {
        split_and(text).into_iter().map(Self::one).collect()
    }

    fn one(whole: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "'{whole}' is no condition: write a column, one of = != < <= > >=, and a number or a text, \
                 like rating > 0"
            )
        };
        let (column, rest) = match quoted(whole) {
            Some((column, rest)) => (column, rest),
            None => {
                let at = whole.find(['!', '=', '<', '>']).ok_or_else(wrong)?;
                (whole[..at].trim(), &whole[at..])
            }
        };
        let found = Comparison::ALL.iter().find(|(sign, _)| rest.starts_with(sign)).ok_or_else(wrong)?;
        let constant = rest[found.0.len()..].trim();
        if column.is_empty() || constant.is_empty() {
            return Err(wrong());
        }
        let (text, constant) = match quoted(constant) {
            Some((text, "")) => (text, Constant::Text),
            Some(_) => return Err(wrong()),
            None => match (parse_number(constant.as_bytes()), parse_time(constant)) {
                (Some(number), _) if number.is_nan() => (constant, Constant::Text),
                (Some(number), _) => (constant, Constant::Number(number)),
                (None, Some(seconds)) => (constant, Constant::Time(seconds)),
                (None, None) => (constant, Constant::Text),
            },
        };
        Ok(Condition {
            column: column.into(),
            comparison: found.1,
            constant,
            text: text.into(),
            whole: whole.trim().into(),
        })
    }

    /// Whether cells are compared with a text, not with a number or a date.
    pub(super) fn is_of_text(&self) -> bool {
        self.constant == Constant::Text
    }

    /// Whether a cell meets it. What is missing differs from every constant but the empty text, and is
    /// neither less nor more than any; what cannot be compared is an error.
    pub fn meets(&self, cell: Cell<'_>) -> Result<bool, String> {
        let order = match &self.constant {
            Constant::Number(constant) => cell.number().and_then(|number| number.partial_cmp(constant)),
            Constant::Time(constant) => cell.seconds().and_then(|seconds| seconds.partial_cmp(constant)),
            Constant::Text => Some(cell.text().trim().cmp(self.text.as_str())),
        };
        match order {
            Some(order) => Ok(self.comparison.holds(order)),
            None if !self.comparison.is_order() => Ok(self.comparison == Comparison::Unequal),
            None if is_missing(cell.text().trim().as_bytes()) => Ok(false),
            None => {
                let kind = if matches!(self.constant, Constant::Time(_)) { "date" } else { "number" };
                let text = shown(cell.text().as_bytes());
                Err(format!("{} is {text}, which is no {kind}, as `where` {} needs", self.column, self.whole))
            }
        }
    }
}

/// A cell that a condition is asked about.
#[derive(Clone, Copy)]
pub enum Cell<'c> {
    /// A field of a text file.
    Field(&'c [u8]),
    /// A number.
    Number(f64),
    /// A row of a column; none where it is null.
    Row(&'c Column<'c>, Option<usize>),
}

impl Cell<'_> {
    fn text(&self) -> Cow<'_, str> {
        match self {
            Cell::Field(field) => String::from_utf8_lossy(field),
            Cell::Number(number) => number.to_string().into(),
            Cell::Row(column, Some(row)) => column.text(*row),
            Cell::Row(_, None) => Cow::Borrowed(""),
        }
    }

    fn number(&self) -> Option<f64> {
        match self {
            Cell::Field(field) => parse_number(field.trim_ascii()),
            Cell::Number(number) => Some(*number),
            Cell::Row(Column::Times(..), _) => None,
            Cell::Row(column, row) => column.number((*row)?),
        }
    }

    fn seconds(&self) -> Option<f64> {
        match self {
            Cell::Row(column @ Column::Times(..), row) => column.number((*row)?),
            _ => parse_time(self.text().trim()),
        }
    }
}

/// What rows are taken.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RowRules {
    /// Whether a missing value is an error, instead of a missing entry.
    pub strict: bool,
    /// What else stands for a missing value.
    pub missing: Signs,
    /// What all rows must meet, by the numbers of columns from 0.
    pub conditions: Vec<(usize, Condition)>,
    /// What values must have: they are kept transformed.
    pub transform: Option<Transform>,
}

impl RowRules {
    /// What becomes of a row whose value is missing; `what` is said where that is an error.
    #[inline]
    pub(super) fn lacking(&self, what: impl FnOnce() -> String) -> Result<Taken, String> {
        if self.strict { Err(what()) } else { Ok(Taken::Empty) }
    }

    /// What is wrong with a value of this name, where it cannot be kept.
    #[inline]
    pub(super) fn check(&self, value: f64, name: &str) -> Result<(), String> {
        match self.transform.map(|transform| transform.apply(value)) {
            Some(Err(what)) => Err(format!("{name} {what}")),
            _ => Ok(()),
        }
    }
}

/// A text in quotes at the beginning, and what follows it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let quote = text.chars().next().filter(|c| ['\'', '"', '`'].contains(c))?;
    let (inside, behind) = text[1..].split_once(quote)?;
    Some((inside, behind.trim()))
}

/// Cuts at every `and` that is outside quotes.
fn split_and(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut open) = (Vec::new(), 0, None);
    for (at, c) in text.char_indices() {
        match open {
            Some(quote) if quote == c => open = None,
            Some(_) => {}
            None if ['\'', '"', '`'].contains(&c) => open = Some(c),
            None if c.is_whitespace() => {
                let rest = &text[at..];
                let word = rest.trim_start();
                let is_and = word.get(..3).is_some_and(|word| word.eq_ignore_ascii_case("and"));
                let ends = word.len() == 3
                    || word.get(3..).is_some_and(|rest| rest.starts_with(char::is_whitespace));
                if is_and && ends && at >= start {
                    parts.push(&text[start..at]);
                    start = at + (rest.len() - word.len()) + 3;
                }
            }
            None => {}
        }
    }
    parts.push(&text[start.min(text.len())..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meets(condition: &str, field: &str) -> Result<bool, String> {
        let all = Condition::parse(condition)?;
        all.iter().try_fold(true, |met, one| Ok(met & one.meets(Cell::Field(field.as_bytes()))?))
    }

    #[test]
    fn conditions_compare_numbers_texts_and_times() {
        for (condition, field, expected) in [
            ("rating > 0", "3.5", true),
            ("rating > 0", "0", false),
            ("rating>=3.5", "3.50", true),
            ("rating = 7", "007", true),
            ("rating = '7'", "007", false),
            ("rating != 0", "", true),
            ("rating < 3", "", false),
            ("rating < 3", "NA", false),
            ("country = IT", "IT", true),
            ("country == \"IT\"", "FR", false),
            ("country <> 'Trinidad and Tobago'", "Trinidad and Tobago", false),
            ("user != ''", "", false),
            ("user != ''", "x", true),
            ("day >= 2020-01-01", "2020-01-01T10:00:00Z", true),
            ("day < 2020-01-01", "2019-12-31", true),
            ("x > 1 and x < 3", "2", true),
            ("x > 1 AND x < 3", "4", false),
            ("`two words` <= -1e3", "-1000", true),
        ] {
            assert_eq!(meets(condition, field), Ok(expected), "{condition} of '{field}'");
        }
    }

    #[test]
    fn what_cannot_be_compared_is_said() {
        assert!(meets("rating > 0", "good").unwrap_err().contains("rating is 'good', which is no number"));
        assert!(meets("day > 2020-01-01", "946684800").unwrap_err().contains("which is no date"));
        for wrong in ["rating", "> 3", "rating >", "a = 'x' y", "", "a > 1 and"] {
            assert!(Condition::parse(wrong).unwrap_err().contains("is no condition"), "{wrong}");
        }
    }

    #[test]
    fn what_stands_for_nothing() {
        for text in ["", "NA", "NaN", "nan", "null", "NULL", "None", "N/A", "<NA>", "#N/A", "\\N"] {
            assert!(is_missing(text.as_bytes()), "{text}");
        }
        for text in ["0", "-", "?", "x", "-1", ".", "nothing"] {
            assert!(!is_missing(text.as_bytes()), "{text}");
        }
    }
}
