//! Times, headers and formats as people have them.

mod headers;
mod messages;
mod parquet;
mod pipes;
mod times;

use crate::common::{stderr, tenfill};
use std::path::Path;

/// Runs words that must fail with one sentence; gives it.
fn refused(folder: &Path, line: &str) -> String {
    let output = tenfill(folder).args(line.split_whitespace()).arg("--quiet").output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{line}: {said}");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 1, "one sentence: {said}");
    lines[0].to_string()
}

/// Runs words that must succeed; gives standard output and standard error.
fn done(folder: &Path, line: &str) -> (String, String) {
    let output = tenfill(folder).args(line.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "{line}: {}", stderr(&output));
    (String::from_utf8(output.stdout.clone()).unwrap(), stderr(&output))
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}
