//! Texts that are numbers but for a comma or a percent sign: no value is guessed past a column of them.

use super::number::parse_number;
use super::rules::is_missing;
use super::text::about_comma;

/// Whether a text is a number but for such signs: `4,0`, `3,500`, `40%`.
fn is_nearly(text: &str) -> bool {
    let plain = text.strip_suffix('%').map_or(text, str::trim_end);
    let is_number = |text: &str| parse_number(text.as_bytes()).is_some_and(f64::is_finite);
    is_number(&plain.replace(',', "")) && !is_number(text) && !plain.starts_with(',') && !plain.ends_with(',')
}

/// An example of each column of which nearly all texts are such, of those that say something.
pub(super) fn examples<'t>(
    count: usize,
    texts: impl Fn(usize) -> Box<dyn Iterator<Item = &'t str> + 't>,
) -> Vec<Option<String>> {
    let of = |column: usize| {
        let said = || texts(column).filter(|text| !is_missing(text.as_bytes()));
        let nearly = said().filter(|text| is_nearly(text)).count();
        // Whole numbers have no sign that could be wrong.
        let others =
            said().filter(|text| !is_nearly(text) && parse_number(text.as_bytes()).is_none()).count();
        let first = said().find(|text| is_nearly(text));
        first.filter(|_| nearly >= 9 * others && 2 * nearly >= said().count()).map(String::from)
    };
    (0..count).map(of).collect()
}

/// What is said of such a text in a column, with what to do.
pub(super) fn sentence(name: &str, text: &str) -> String {
    if text.ends_with('%') {
        return format!("in column {name} '{text}' has a percent sign: take such signs away first");
    }
    let what = about_comma(text.as_bytes()).unwrap_or_else(|| "leave such commas out first".into());
    format!("in column {name} '{text}' has a comma: {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_commas_and_percent_signs_are_nearly_numbers() {
        for text in ["4,0", "3,500", "1,234,567", "-0,5", "40%", "40 %", "4,5%", "1,234.5"] {
            assert!(is_nearly(text), "{text}");
        }
        for text in ["4.0", "4", "", ",", "4,", "a,b", "%", "nan%", "2021-01-01", "1;2"] {
            assert!(!is_nearly(text), "{text}");
        }
        assert!(sentence("x", "4,0").ends_with("(4.0)"));
        assert!(sentence("x", "3,500").contains("take out those between thousands (3500)"));
        assert!(sentence("x", "1,234,567").contains("leave such commas out"));
        assert!(sentence("x", "40%").contains("percent"));
    }

    #[test]
    fn nearly_all_texts_of_a_column_must_be_such() {
        let of = |texts: &'static [&str]| examples(1, |_| Box::new(texts.iter().copied())).remove(0);
        assert_eq!(of(&["", "4,0", "3,5"]), Some("4,0".into()));
        assert_eq!(of(&["12", "1,5", "1,5"]), Some("1,5".into()));
        assert_eq!(of(&["Alien", "4,0", "Up"]), None);
        assert_eq!(of(&["12", "13", "14", "1,5"]), None);
        assert_eq!(of(&[]), None);
    }
}
