//! Labels: ids as they stood in the file, and the order that their indices follow.

use super::number::parse_number;
use super::sketch::mix;
use std::borrow::Cow;
use std::cmp::Ordering;

/// An id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label<'t> {
    /// A canonical integer.
    Integer(i64),
    /// Anything else.
    Text(&'t [u8]),
}

/// The hash of an integer label: the same whether the mode holds text as well, or is a plain range.
#[inline]
pub fn hash_integer(value: i64) -> u64 {
    mix(value as u64 ^ 0x5851_f42d_4c95_7f2d)
}

/// The hash of a label that is no integer.
#[inline]
pub fn hash_text(text: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(text)
}

impl<'t> Label<'t> {
    fn bytes(self) -> Cow<'t, [u8]> {
        match self {
            Label::Integer(value) => value.to_string().into_bytes().into(),
            Label::Text(text) => text.into(),
        }
    }

    /// As text.
    pub fn to_text(self) -> Cow<'t, str> {
        match self {
            Label::Integer(value) => value.to_string().into(),
            Label::Text(text) => String::from_utf8_lossy(text),
        }
    }
}

/// A label with what it is sorted by. Numbers come first, by value; then the rest, by bytes. Among
/// numbers of one value (`007` and `7`) bytes decide as well.
#[derive(Debug, Clone, Copy)]
pub struct Key<'t> {
    /// The value in double precision, and what an integer has beyond it.
    number: Option<(f64, i64)>,
    /// The label.
    pub label: Label<'t>,
}

impl<'t> Key<'t> {
    /// The key of a label.
    pub fn new(label: Label<'t>) -> Self {
        let number = match label {
            Label::Integer(value) => {
                let double = value as f64;
                // At most 512: the doubles next to the largest integers are 1024 apart.
                Some((double, (i128::from(value) - double as i128) as i64))
            }
            Label::Text(text) => parse_number(text).filter(|x| x.is_finite()).map(|x| (x, 0)),
        };
        Key { number, label }
    }

    /// The label's value, where it is a number.
    pub fn value(&self) -> Option<f64> {
        self.number.map(|number| number.0)
    }
}

impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_number = match (self.number, other.number) {
            (Some(a), Some(b)) => a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)),
            (a, b) => b.is_some().cmp(&a.is_some()),
        };
        by_number.then_with(|| match (self.label, other.label) {
            (Label::Text(a), Label::Text(b)) => a.cmp(b),
            (a, b) => a.bytes().cmp(&b.bytes()),
        })
    }
}

impl PartialOrd for Key<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key<'_> {}

/// A label that holds its text itself, with its key.
#[derive(Debug, Clone)]
pub struct OwnedKey {
    number: Option<(f64, i64)>,
    integer: i64,
    /// None for an integer.
    text: Option<Vec<u8>>,
}

impl OwnedKey {
    /// Of a label.
    pub fn new(label: Label<'_>) -> Self {
        let (integer, text) = match label {
            Label::Integer(value) => (value, None),
            Label::Text(text) => (0, Some(text.to_vec())),
        };
        OwnedKey { number: Key::new(label).number, integer, text }
    }

    /// The label.
    pub fn label(&self) -> Label<'_> {
        self.text.as_ref().map_or(Label::Integer(self.integer), |text| Label::Text(text))
    }

    /// With what it is sorted by.
    pub fn key(&self) -> Key<'_> {
        Key { number: self.number, label: self.label() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_in_order_however_large_and_words_come_last() {
        let labels = [
            Label::Integer(i64::MIN),
            Label::Integer(i64::MIN + 1),
            Label::Integer(-9_007_199_254_740_993),
            Label::Integer(-9_007_199_254_740_992),
            Label::Text(b"-1.5"),
            Label::Text(b"007"),
            Label::Integer(7),
            Label::Text(b"7.0"),
            Label::Integer(9_007_199_254_740_992),
            Label::Integer(9_007_199_254_740_993),
            Label::Integer(i64::MAX - 1),
            Label::Integer(i64::MAX),
            Label::Text(b""),
            Label::Text(b"Zo\xc3\xab"),
            Label::Text(b"nan"),
        ];
        for (a, first) in labels.iter().enumerate() {
            for (b, second) in labels.iter().enumerate() {
                assert_eq!(Key::new(*first).cmp(&Key::new(*second)), a.cmp(&b), "{first:?} {second:?}");
            }
        }
    }
}
