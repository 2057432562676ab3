//! The command that goes on where one has stopped after it had converted its file.

use super::convert::ConvertArguments;
use clap::Args;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;

/// The options that say how a file is read, and whether a value follows.
fn about_files() -> HashMap<String, bool> {
    let flags = ConvertArguments::augment_args(clap::Command::new(""));
    let flag = |flag: &clap::Arg| Some((flag.get_long()?.to_string(), flag.get_action().takes_values()));
    flags.get_arguments().filter_map(flag).collect()
}

/// The first of these among the words of a command, by its field's name: a dataset was read long ago, and such an option would do
/// nothing. Room for temporary files is no matter of the file.
pub(super) fn said_of_a_file(words: &[OsString]) -> Option<String> {
    let about_files = about_files();
    let flag = |word: &OsString| {
        let word = word.to_str()?;
        let name = word.strip_prefix("--")?.split('=').next()?;
        (name != "temp-dir" && about_files.contains_key(name)).then(|| name.replace('-', "_"))
    };
    words.iter().take_while(|word| *word != "--").find_map(flag)
}

/// The command that was called (`words`, without the program's name) with the dataset `kept` in the place of its file:
/// without what was said of the file, and with other values of the flags that are `changed`.
pub(super) fn command(words: &[OsString], input: &Path, kept: &Path, changed: &[(&str, String)]) -> String {
    let about_file = about_files();
    let mut line = vec!["tenfill".to_string()];
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        let flag =
            text.strip_prefix("--").map(|flag| flag.split_once('=').map_or((flag, true), |f| (f.0, false)));
        match flag {
            Some((name, value_follows)) if about_file.contains_key(name) => {
                if value_follows && about_file[name] {
                    words.next();
                }
            }
            Some((name, value_follows)) if changed.iter().any(|(other, _)| *other == name) => {
                if value_follows {
                    words.next();
                }
            }
            // The value of -o may be called like the input, but an output that is its input was refused before.
            None if Path::new(word) == input => line.push(quoted(&kept.to_string_lossy()).into_owned()),
            _ => line.push(quoted(&text).into_owned()),
        }
    }
    line.extend(changed.iter().map(|(name, value)| format!("--{name} {value}")));
    line.join(" ")
}

/// A word as a shell takes it.
fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_alphanumeric() || "-_=+./,:@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_the_file_is_left_out() {
        let line =
            "complete my.csv -o run --modes a,b --value=x --rank 50 --wide --seed 3 --memory=16M --json";
        let words: Vec<OsString> =
            line.split(' ').map(OsString::from).chain(["--where".into(), "x > 0".into()]).collect();
        let changed = [("memory", "40M".to_string())];
        let said = command(&words, Path::new("my.csv"), Path::new("it's.tenfill"), &changed);
        assert_eq!(said, r"tenfill complete 'it'\''s.tenfill' -o run --rank 50 --seed 3 --json --memory 40M");
    }
}
