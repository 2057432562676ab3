//! The folders of the engine are layers: each knows only what stands below it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// From the bottom to the top; folders of one row do not know each other.
const LAYERS: &[&[&str]] = &[
    &["times", "transform", "units", "usage"],
    &["message"],
    &["error"],
    &["budget", "control", "storage"],
    &["remote", "team"],
    &["rows", "ingest", "sort"],
    &["shard"],
    &["convert", "fetch", "stream", "table"],
    &["distribute", "reduce", "synth"],
    &["manifold"],
    &["solver", "model"],
    &["objective"],
    &["bayes"],
    &["recipe"],
    &["checkpoint"],
    &["run"],
    &["answer"],
    &["fill", "report"],
];

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The code of a file without its tests and comments.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The names that directly follow `crate::`, also within braces.
fn named(code: &str) -> BTreeSet<String> {
    let word = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let mut names = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        let Some(list) = rest.strip_prefix('{') else {
            names.insert(word(rest));
            continue;
        };
        let (mut depth, mut item) = (0, String::new());
        for c in list.chars() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    names.insert(word(&item));
                    item.clear();
                    continue;
                }
                _ => {}
            }
            item.push(c);
        }
        names.insert(word(&item));
    }
    names
}

#[test]
fn a_folder_knows_only_what_stands_below_it() {
    let engine = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/engine");
    let mut height = BTreeMap::new();
    for (row, folders) in LAYERS.iter().enumerate() {
        for &folder in *folders {
            assert_eq!(height.insert(folder.to_string(), row), None, "{folder} stands in two rows");
        }
    }
    let mut paths = Vec::new();
    files(&engine, &mut paths);
    let mut upwards = Vec::new();
    for path in paths {
        let inside = path.strip_prefix(&engine).unwrap();
        let is_test = inside.iter().any(|part| part == "tests" || part == "tests.rs");
        let top = inside.iter().next().unwrap().to_string_lossy().trim_end_matches(".rs").to_string();
        if top == "lib" || is_test {
            continue;
        }
        let own = *height.get(&top).unwrap_or_else(|| panic!("{top} has no place among the layers"));
        for name in named(&code(&path)) {
            if let Some(&other) = height.get(&name)
                && name != top
                && other >= own
            {
                upwards.push(format!("{} knows {name}", inside.display()));
            }
        }
    }
    assert!(upwards.is_empty(), "upwards:\n{}", upwards.join("\n"));
}

#[test]
fn names_are_found_in_every_way_to_write_them() {
    let names = named("use crate::a::B;\nuse crate::{b::{C, D}, c, d::E};\nlet x = crate::e::f();");
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["a", "b", "c", "d", "e"]);
}
