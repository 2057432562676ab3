//! Text of others (ids, names of files and columns) in messages for people: printable, and short.

use std::borrow::Cow;

/// Text that does nothing to a terminal: control characters, and those that change the direction of
/// writing, as escapes. Files get the text as it is; this is for what is printed.
///
/// ```
/// use tenfill_engine::message::printable;
/// assert_eq!(printable("Zoë"), "Zoë");
/// assert_eq!(printable("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\n");
/// ```
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_hidden(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown.into()
}

fn is_hidden(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// How many names a list shows, and how much of each.
const LISTED: usize = 10;
const LONGEST: usize = 60;

/// Names for a message: the first ten, and how many others there are.
///
/// ```
/// use tenfill_engine::message::list;
/// assert_eq!(list(["user", "film"]), "user, film");
/// let many: Vec<String> = (1..=1000).map(|n| format!("c{n}")).collect();
/// assert_eq!(list(&many), "c1, c2, c3, c4, c5, c6, c7, c8, c9, c10 and 990 others");
/// ```
pub fn list(names: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let (mut shown, mut others) = (Vec::new(), 0u64);
    for name in names {
        if shown.len() < LISTED {
            shown.push(short(name.as_ref()));
        } else {
            others += 1;
        }
    }
    let shown = shown.join(", ");
    if others == 0 { shown } else { format!("{shown} and {} others", crate::units::count(others)) }
}

/// Text for a message, cut where it is long.
pub fn short(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}
