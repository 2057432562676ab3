//! Constants that decide the course of a run stand in docs/thresholds.md, with what other values would do.

use std::path::Path;

/// Files of the engine whose constants are such.
const FILES: &[&str] = &[
    "bayes/both_ways.rs",
    "bayes/calibrate.rs",
    "bayes/cells.rs",
    "bayes/course.rs",
    "bayes/grow.rs",
    "bayes/inside.rs",
    "bayes/level.rs",
    "bayes/look.rs",
    "bayes/offsets.rs",
    "bayes/onto.rs",
    "bayes/start.rs",
    "bayes/sweeps.rs",
    "manifold/damped.rs",
    "objective/bias_fit.rs",
    "objective/coordinates.rs",
    "objective/evenness.rs",
    "objective/fibres.rs",
    "objective/main_effects.rs",
    "run/kind.rs",
];
/// And folders, with every file.
const FOLDERS: &[&str] = &["recipe", "solver"];

/// `NAME = value` of every constant of a file that is a number, or several.
fn constants(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (start, _) in text.match_indices("const ") {
        let line = text[..start].rsplit('\n').next().unwrap_or_default();
        if !(line.is_empty() || line.starts_with("pub")) {
            continue;
        }
        let Some((name, rest)) = text[start + 6..].split_once(": ") else { continue };
        if !name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_') {
            continue;
        }
        let Some((kind, rest)) = rest.split_once(" =") else { continue };
        let value = rest.split_once(';').map_or("", |(value, _)| value);
        if kind.starts_with(|c: char| c.is_ascii_lowercase() || c == '(' || c == '[') {
            found.push(format!("{name} = {}", value.split_whitespace().collect::<Vec<_>>().join(" ")));
        }
    }
    found
}

/// The same of a page: a heading per file, and rows that begin with a name and a value.
fn rows(page: &str, file: &str) -> Vec<String> {
    let section = page.split(&format!("\n## {file}\n")).nth(1).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    let row = |line: &str| {
        let (name, rest) = line.strip_prefix("| `")?.split_once("` | `")?;
        Some(format!("{name} = {}", rest.split_once("` |")?.0))
    };
    section.lines().filter_map(row).collect()
}

#[test]
fn every_constant_that_decides_has_its_row_with_its_value() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("docs/thresholds.md")).unwrap();
    let mut files: Vec<String> = FILES.iter().map(|file| (*file).to_string()).collect();
    for folder in FOLDERS {
        for entry in std::fs::read_dir(root.join("src/engine").join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".rs") && name != "tests.rs" {
                files.push(format!("{folder}/{name}"));
            }
        }
    }
    files.sort();
    let (mut found, mut told) = (Vec::new(), Vec::new());
    for file in files {
        let text = std::fs::read_to_string(root.join("src/engine").join(&file)).unwrap();
        found.extend(constants(&text).into_iter().map(|constant| format!("{file}: {constant}")));
        told.extend(rows(&page, &file).into_iter().map(|row| format!("{file}: {row}")));
    }
    let missing: Vec<&String> = found.iter().filter(|constant| !told.contains(constant)).collect();
    let gone: Vec<&String> = told.iter().filter(|row| !found.contains(row)).collect();
    assert!(found.len() > 100, "only {} constants were found", found.len());
    assert!(
        missing.is_empty() && gone.is_empty(),
        "not in docs/thresholds.md, which `tools/try-constant.py --all` writes: {missing:#?}\nthere, but not in the source: {gone:#?}"
    );
}

#[test]
fn constants_are_found_in_every_way_to_write_them() {
    let text = "const A: f64 = 1e-3;\npub(super) const B: (f64, f64) =\n    (1.0, 2.0);\nconst fn c() {}\n\
                pub const D: [u32; 2] = [1, 2];\nconst E: &str = \"no\";\n    const F: usize = 1;\n";
    assert_eq!(constants(text), ["A = 1e-3", "B = (1.0, 2.0)", "D = [1, 2]"]);
}
