//! Numbers as they stand in files.

/// An integer exactly as a program would print it: no sign but a minus, no leading zeros. `007` and
/// `+7` are labels of their own, so that they come back out as they went in.
///
/// ```
/// use tenfill_engine::ingest::number::parse_integer;
/// assert_eq!(parse_integer(b"-42"), Some(-42));
/// assert_eq!(parse_integer(b"007"), None);
/// ```
#[inline]
pub fn parse_integer(field: &[u8]) -> Option<i64> {
    let (negative, digits) = match field {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, field),
    };
    if digits.is_empty() || digits.len() > 18 || digits[0] == b'0' && field.len() > 1 {
        return None;
    }
    let mut number = 0i64;
    for &digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + i64::from(digit);
    }
    Some(if negative { -number } else { number })
}

/// The whole number that is written as `42.0`.
pub fn whole(text: &str) -> Option<i64> {
    let (number, zeros) = text.split_once('.')?;
    let zeros = !zeros.is_empty() && zeros.bytes().all(|byte| byte == b'0');
    parse_integer(number.as_bytes()).filter(|_| zeros)
}

const POWERS: [f64; 16] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/// A decimal number, correctly rounded; `None` for anything else. NaN and infinity are returned as
/// they are: the caller refuses them with their text.
#[inline]
pub fn parse_number(field: &[u8]) -> Option<f64> {
    // Up to 15 digits the digits and the power of ten are exact, and so their quotient is rounded
    // correctly: what most ratings and readings need, without the general algorithm.
    let (negative, digits) = match field {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, field),
    };
    if digits.len() <= 16 && !digits.is_empty() {
        let (mut number, mut point, mut count, mut simple) = (0u64, None, 0usize, true);
        for &byte in digits {
            let digit = byte.wrapping_sub(b'0');
            if digit <= 9 {
                number = number * 10 + u64::from(digit);
                count += 1;
            } else if byte == b'.' && point.is_none() {
                point = Some(count);
            } else {
                simple = false;
                break;
            }
        }
        if simple && count > 0 && count <= 15 {
            let value = number as f64 / POWERS[count - point.unwrap_or(count)];
            return Some(if negative { -value } else { value });
        }
    }
    std::str::from_utf8(field).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_those_of_the_standard_library(value in prop::num::f64::NORMAL, digits in 0usize..12) {
            for text in [value.to_string(), format!("{value:e}"), format!("{:.*}", digits, value % 1e6)] {
                let expected: f64 = text.parse().unwrap();
                prop_assert_eq!(parse_number(text.as_bytes()).map(f64::to_bits), Some(expected.to_bits()), "{}", text);
            }
        }

        #[test]
        fn integers_come_back(value in -999_999_999_999_999_999i64..=999_999_999_999_999_999) {
            prop_assert_eq!(parse_integer(value.to_string().as_bytes()), Some(value));
        }

        #[test]
        fn what_is_no_canonical_integer_is_text(text in "[+-]?[0-9]{0,3}[a-z. ]?") {
            if let Some(value) = parse_integer(text.as_bytes()) {
                prop_assert_eq!(value.to_string(), text);
            }
        }
    }

    #[test]
    fn what_is_no_number_is_none() {
        for text in ["", "-", "+", ".", "1.2.3", "1,5", "five", "0x10", "1e", "--1"] {
            assert_eq!(parse_number(text.as_bytes()), None, "{text}");
        }
        assert!(parse_number(b"nan").is_some_and(f64::is_nan));
    }

    #[test]
    fn whole_numbers_with_a_point_are_read() {
        assert_eq!(whole("42.0"), Some(42));
        assert_eq!(whole("-7.000"), Some(-7));
        for text in ["42", "42.", "42.5", "007.0", "1e3.0", "x.0", "1.0.0"] {
            assert_eq!(whole(text), None, "{text}");
        }
    }
}
