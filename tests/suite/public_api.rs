//! The interface of the library, as a text that a reviewer sees change: `tests/data/public-api.txt`.
//! After a wanted change: `TENFILL_BLESS=1 cargo test --test suite public_api`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The files of the facade, with the path of their items.
const FACADE: [&str; 6] = ["lib.rs", "completion.rs", "dataset.rs", "manifold.rs", "model.rs", "run.rs"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The text without comments, attributes and tests.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let keep = |line: &&str| !line.trim_start().starts_with("//") && !line.trim_start().starts_with("#[");
    text.lines().filter(keep).collect::<Vec<_>>().join("\n")
}

/// One line, blanks joined.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Up to the body of a function or type, or the semicolon.
fn head(text: &str) -> String {
    one_line(text.split(['{', ';']).next().unwrap_or_default())
}

/// The text between the brace that opens at or after the beginning and the one that closes it.
fn body(text: &str) -> &str {
    let Some(open) = text.find('{') else { return "" };
    let mut depth = 0;
    for (at, c) in text.char_indices().skip_while(|(at, _)| *at < open) {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return &text[open + 1..at],
            '}' => depth -= 1,
            _ => {}
        }
    }
    ""
}

/// What the `impl` blocks of a type in some code make public.
fn methods(code: &str, name: &str, out: &mut BTreeSet<String>) {
    for (at, _) in code.match_indices("\nimpl") {
        let block = &code[at + 1..];
        let title = head(block);
        let of_type = title.split_whitespace().skip(1).any(|word| {
            let word = word.trim_start_matches("impl").split('<').next().unwrap_or_default();
            word.rsplit("::").next() == Some(name)
        });
        if of_type && title.contains(" for ") {
            out.insert(title);
        } else if of_type {
            let inside = body(block);
            for (at, _) in inside.match_indices("pub fn ") {
                out.insert(format!("{name}: {}", head(&inside[at..])));
            }
        }
    }
}

/// The definition of a type of the engine or the facade, with what is public in it.
fn describe(sources: &[(PathBuf, String)], name: &str, out: &mut BTreeSet<String>) {
    for (_, code) in sources {
        for kind in ["struct", "enum", "trait", "type", "fn"] {
            let needle = format!("pub {kind} {name}");
            for (at, _) in code.match_indices(&needle) {
                let rest = &code[at..];
                if rest[needle.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_') {
                    continue;
                }
                out.insert(head(rest));
                match kind {
                    "struct" if head(rest).len() + 1 < rest.len() && !head(rest).contains('(') => {
                        let fields = body(rest).split(",\n").map(one_line);
                        out.extend(
                            fields.filter(|field| field.starts_with("pub ")).map(|f| format!("{name}. {f}")),
                        );
                    }
                    "enum" => {
                        let variants = body(rest).split(",\n").map(one_line).filter(|text| !text.is_empty());
                        out.extend(variants.map(|variant| format!("{name}:: {variant}")));
                    }
                    "trait" => {
                        for (at, _) in body(rest).match_indices("fn ") {
                            out.insert(format!("{name}: {}", head(&body(rest)[at..])));
                        }
                    }
                    _ => {}
                }
                methods(code, name, out);
            }
        }
    }
}

fn sources(folder: &Path, out: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = code(&path);
            out.push((path, text));
        }
    }
}

fn interface() -> String {
    let source = root().join("src");
    let mut engine = Vec::new();
    sources(&source.join("engine"), &mut engine);
    let mut out = BTreeSet::new();
    let facade: Vec<(PathBuf, String)> =
        FACADE.iter().map(|file| (source.join(file), code(&source.join(file)))).collect();
    let mut names = BTreeSet::new();
    for (path, code) in &facade {
        let from_engine = |text: &str| text.contains("tenfill_engine") || path.ends_with("lib.rs");
        for (at, _) in code.match_indices("pub use ") {
            let item = one_line(code[at..].split(';').next().unwrap_or_default());
            out.insert(item.clone());
            if from_engine(&item) {
                let list = item.rsplit("::").next().unwrap_or_default();
                let words = list.trim_matches(['{', '}', ' ']).split(", ");
                names.extend(words.map(|word| {
                    word.trim_matches(['{', '}', ' ', ',']).split(" as ").next().unwrap_or("").to_string()
                }));
            }
        }
    }
    for name in &names {
        describe(&facade, name, &mut out);
    }
    let own: BTreeSet<String> = out.clone();
    for name in &names {
        // What the facade defines itself is not the engine's of the same name.
        let defined = ["struct", "enum"]
            .iter()
            .any(|kind| own.iter().any(|item| item.starts_with(&format!("pub {kind} {name}"))));
        if !defined {
            describe(&engine, name, &mut out);
        }
    }
    out.into_iter().collect::<Vec<_>>().join("\n") + "\n"
}

#[test]
fn the_interface_is_the_reviewed_one() {
    let path = root().join("tests/data/public-api.txt");
    let found = interface();
    if std::env::var_os("TENFILL_BLESS").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let reviewed = std::fs::read_to_string(&path).unwrap_or_default();
    let (found, reviewed): (BTreeSet<&str>, BTreeSet<&str>) =
        (found.lines().collect(), reviewed.lines().collect());
    let new: Vec<_> = found.difference(&reviewed).collect();
    let gone: Vec<_> = reviewed.difference(&found).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "the interface has changed; look at it, then set TENFILL_BLESS=1\nnew: {new:#?}\ngone: {gone:#?}"
    );
}
