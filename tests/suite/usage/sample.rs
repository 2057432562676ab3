//! Small data with biases, an interaction and text ids, and runs on it.

pub use crate::common::{failure_of as failure, output};
use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;

/// Numbers that look random and are always the same.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() * n as f64) as usize
    }
}

pub const DIMS: [usize; 4] = [40, 25, 12, 6];

/// The id of an index: text in the second mode, dates in the third, numbers elsewhere.
pub fn id(mode: usize, index: usize) -> String {
    match mode {
        1 => format!("film \"{index}\", part {}", index % 3),
        2 => format!("2004-{:02}-{:02}", 1 + index / 4, 1 + index % 4 * 7),
        3 => format!("{}", 7 * index + 100),
        _ => format!("{}", index + 1),
    }
}

pub fn quoted(text: &str) -> String {
    if text.contains(['"', ',']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_string() }
}

pub const NAMES: [&str; 4] = ["user", "film", "week", "place"];

/// Rows of a CSV with a header: `user,film[,week[,place]],stars`.
pub fn csv(order: usize, entries: usize, seed: u64) -> String {
    let mut numbers = Numbers(seed);
    let mut text = NAMES[..order].join(",") + ",stars\n";
    let mut seen = std::collections::HashSet::new();
    while seen.len() < entries {
        let at: Vec<usize> = (0..order).map(|mode| numbers.below(DIMS[mode])).collect();
        if !seen.insert(at.clone()) {
            continue;
        }
        let wave = |mode: usize, k: f64| ((at[mode] as f64 + 1.0) * k).sin();
        let value = 3.0
            + 0.5 * wave(0, 1.3)
            + 0.4 * wave(1, 2.1)
            + (0..order).map(|mode| wave(mode, 0.7)).product::<f64>()
            + 0.2 * (numbers.next() - 0.5);
        for (mode, &index) in at.iter().enumerate() {
            let _ = write!(text, "{},", quoted(&id(mode, index)));
        }
        let _ = writeln!(text, "{:.3}", value);
    }
    text
}

/// Completes `data.csv` of that order as `run`.
pub fn complete(folder: &Path, order: usize, extra: &str) {
    std::fs::write(
        folder.join("data.csv"),
        csv(order, 1500.min(DIMS[..order].iter().product::<usize>() / 2), 5),
    )
    .unwrap();
    let modes = NAMES[..order].join(",");
    let bin = if order > 2 { "--bin week=7d" } else { "" };
    let rank = vec!["2"; order].join(",");
    let line = format!(
        "complete data.csv -o run --force --modes {modes} --value stars {bin} --rank {rank} --max-iterations 25 {extra}"
    );
    crate::common::run(folder, line.split_whitespace());
}

/// Rows of CSV text, by column name.
pub fn rows(text: &str) -> Vec<HashMap<String, String>> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let names: Vec<String> = reader.headers().unwrap().iter().map(str::to_string).collect();
    let row =
        |record: csv::StringRecord| names.iter().cloned().zip(record.iter().map(str::to_string)).collect();
    reader.records().map(|record| row(record.unwrap())).collect()
}

pub fn number(row: &HashMap<String, String>, name: &str) -> f64 {
    row[name].parse().unwrap()
}
