//! Which rows count: what stands for a missing value, and conditions on columns.

use super::arrow::Column;
use super::number::parse_number;
use super::rows::Taken;
use super::text::{is_other_date, shown, with_point};
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
    Text {
        quoted: bool,
    },
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
            Some((text, "")) => (text, Constant::Text { quoted: true }),
            // It may be that more than one condition begins with a quote.
            Some((_, behind)) => return Err(stray(whole, behind)),
            None => match (parse_number(constant.as_bytes()), parse_time(constant)) {
                (Some(number), _) if number.is_nan() => (constant, Constant::Text { quoted: false }),
                (Some(number), _) => (constant, Constant::Number(number)),
                (None, Some(seconds)) => (constant, Constant::Time(seconds)),
                (None, None) => (constant, plain_text(whole, constant)?),
            },
        };
        if found.1.is_order() && matches!(constant, Constant::Text { .. }) && is_other_date(text.as_bytes()) {
            return Err(format!(
                "'{}' would compare letters, for {text} is no date here: write dates like 2021-01-31",
                whole.trim()
            ));
        }
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
        matches!(self.constant, Constant::Text { .. })
    }

    /// Whether a cell meets it. What is missing differs from every constant but the empty text, and is
    /// neither less nor more than any; what cannot be compared is an error.
    pub fn meets(&self, cell: Cell<'_>) -> Result<bool, String> {
        let order = match &self.constant {
            Constant::Number(constant) => cell.number().and_then(|number| number.partial_cmp(constant)),
            Constant::Time(constant) => cell.seconds().and_then(|seconds| seconds.partial_cmp(constant)),
            Constant::Text { .. } => {
                let told = cell.text();
                let told = told.trim();
                if self.comparison.is_order() && is_missing(told.as_bytes()) {
                    return Ok(false);
                }
                if self.comparison.is_order() && !is_quantity(&self.text) && is_quantity(told) {
                    return Err(format!(
                        "{} is {}, and `where` {} compares it with a text: give a number, or a date like 2021-01-31",
                        self.column,
                        shown(told.as_bytes()),
                        self.whole
                    ));
                }
                Some(told.cmp(self.text.as_str()))
            }
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

impl Condition {
    /// Refuses a text without quotes that is the name of a column: two columns are not compared.
    pub(super) fn check_names(&self, names: &[String]) -> Result<(), String> {
        match self.constant == (Constant::Text { quoted: false }) && names.contains(&self.text) {
            true => Err(format!(
                "`where` {} has the column '{}' behind its sign: a column comes first, and is compared with a number, a \
                 date or a text (in quotes, if '{}' is meant as one)",
                self.whole, self.text, self.text
            )),
            false => Ok(()),
        }
    }
}

/// Whether it is a number or a date.
fn is_quantity(text: &str) -> bool {
    parse_number(text.as_bytes()).is_some_and(|number| !number.is_nan()) || parse_time(text).is_some()
}

/// What is said of signs that are no part of a condition.
fn stray(whole: &str, what: &str) -> String {
    format!(
        "'{}' is no condition, because of {}: conditions are joined by and (there is no or), their signs are = != < <= \
         > >=, and a text with blanks or signs is put in quotes",
        whole.trim(),
        shown(what.as_bytes())
    )
}

/// A text without quotes: it must be one that cannot be meant as anything else.
fn plain_text(whole: &str, text: &str) -> Result<Constant, String> {
    if let Some(number) = with_point(text.as_bytes()) {
        return Err(format!("'{}' has a decimal comma: write {number}", whole.trim()));
    }
    let is_sign = |c: char| c.is_whitespace() || "=<>!&|;,()'\"`".contains(c);
    match text.contains(is_sign) {
        true => Err(stray(whole, text)),
        false => Ok(Constant::Text { quoted: false }),
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
            ("day >= 2020-01-01 10:00:00", "2020-01-01T11:00:00Z", true),
            ("shop >= s3", "s4", true),
            ("shop < s3", "", false),
            ("shop >= s3", "s10", false),
            ("id = '06/01/2021'", "06/01/2021", true),
            ("id < '2'", "10", true),
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
    fn what_may_be_meant_otherwise_is_refused() {
        for (wrong, why) in [
            ("price > 2 or price < 1", "there is no or"),
            ("price > 2;", "in quotes"),
            ("price > 1,5", "write 1.5"),
            ("price => 2", "signs are"),
            ("price =< 2", "signs are"),
            ("price > 2 && price < 3", "joined by and"),
            ("price > 2 || price < 1", "there is no or"),
            ("shop = s3 or shop = s4", "there is no or"),
            ("shop = 's3' or shop = 's4'", "there is no or"),
            ("country = New York", "in quotes"),
            ("date >= 06/01/2021", "like 2021-01-31"),
            ("date >= '06/01/2021'", "like 2021-01-31"),
        ] {
            let said = Condition::parse(wrong).unwrap_err();
            assert!(said.contains(why), "{wrong}: {said}");
        }
        // Letters are not compared with numbers or dates.
        for (condition, field) in
            [("price > cheap", "3"), ("price >= 'w'", "3"), ("day < yesterday", "2021-01-01")]
        {
            assert!(meets(condition, field).unwrap_err().contains("compares it with a text"), "{condition}");
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
