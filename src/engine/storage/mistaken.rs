//! What lies where something else was expected: runs, datasets and files are easily taken for one another.

use super::RunLayout;
use std::path::Path;

/// The file that makes a directory a dataset.
pub const MANIFEST_FILE: &str = "manifest.json";

/// A dataset was expected: what a path is instead, and what to do.
pub fn no_dataset(path: &Path) -> String {
    let data = RunLayout::of(path).data();
    if RunLayout::is_in(path) && data.is_dir() {
        return format!("this is a run: its dataset is {}", data.display());
    }
    if RunLayout::is_in(path) {
        return "this is a run, not a dataset".into();
    }
    if path.is_file() {
        return "this is a file, not a dataset: convert it first".into();
    }
    if path.to_str().is_some_and(|text| text.contains("://")) {
        return "a dataset in a store is fetched by `tenfill complete` into the folder of `cache`: give the one there".into();
    }
    match path.exists() {
        true => format!("this is no dataset of tenfill (there is no {MANIFEST_FILE} in it)"),
        false => "there is no such dataset".into(),
    }
}

/// A run was expected; `lacks` is what it would have.
pub fn no_run(path: &Path, lacks: &str) -> String {
    if path.join(MANIFEST_FILE).is_file() {
        return "this is a dataset, not a run: complete it first".into();
    }
    match path.exists() {
        true => format!("this is no run of tenfill (there is no {lacks} in it)"),
        false => "there is no such run: one that ended before its first iteration has left nothing, and is begun anew \
                  with `tenfill complete`"
            .into(),
    }
}

/// A table was expected, and a directory without parts of one is there.
pub fn no_table(path: &Path) -> &'static str {
    if RunLayout::is_in(path) {
        return "this is a run, not a table";
    }
    if path.join(MANIFEST_FILE).is_file() {
        return "this is a dataset, not a table: `tenfill entries` writes its entries as one";
    }
    let text = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        [".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".csv.zst"].iter().any(|end| name.ends_with(end))
    };
    if path.read_dir().into_iter().flatten().flatten().any(|entry| text(&entry.path())) {
        return "there is no Parquet file in this directory: give files of text one by one, e.g. FOLDER/*.csv";
    }
    "there is no Parquet file in this directory"
}
