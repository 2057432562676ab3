//! Small data to write and to complete.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tenfill_engine::control::Control;
use tenfill_engine::convert::{ConvertOptions, Converted, Duplicates, SplitRule, convert_on};
use tenfill_engine::ingest::ReadOptions;
use tenfill_engine::ingest::columns::ColumnRequest;
use tenfill_engine::ingest::dialect::DialectRequest;
use tenfill_engine::run::{Config, Every, Limits};
use tenfill_engine::shard::Dataset;
use tenfill_engine::storage::Disk;

/// A table of `rows` users whose names are no plain range, so that there are label files.
pub fn csv(path: &Path, rows: u32) {
    let mut text = String::from("user,item,day,value\n");
    for i in 0..rows {
        for j in 0..6 {
            for k in 0..5 {
                if (i * 7 + j * 3 + k * 5) % 4 != 0 {
                    let (x, y, z) = (f64::from(i + 1), f64::from(j + 2), f64::from(k + 3));
                    let value = (0.3 * x).sin() * y * z.sqrt() + 0.2 * x / (y + z);
                    writeln!(text, "u{},{},{},{value}", i * 3, j * 2, k * 10).unwrap();
                }
            }
        }
    }
    std::fs::write(path, text).unwrap();
}

pub fn convert(
    disk: &dyn Disk,
    input: &Path,
    output: &Path,
    force: bool,
) -> tenfill_engine::Result<Converted> {
    let columns = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
    let options = ConvertOptions {
        inputs: vec![input.into()],
        validation: Vec::new(),
        test: Vec::new(),
        output: output.into(),
        read: ReadOptions {
            format: None,
            dialect: DialectRequest::default(),
            columns: ColumnRequest {
                modes: Some(columns(&["user", "item", "day"])),
                value: Some("value".into()),
                ..ColumnRequest::default()
            },
            threads: 1,
            chunk: 0,
            scratch: PathBuf::new(),
            budget: None,
        },
        split: SplitRule::Shares([0.8, 0.1, 0.1]),
        seed: 1,
        absent: 0.0,
        transform: None,
        duplicates: Duplicates::Error,
        memory: 64 << 20,
        temp_dir: None,
        skip_bad: 0,
        force,
    };
    convert_on(disk, &options, &Control::default())
}

/// A run of eight iterations.
pub fn config(dataset: &Dataset) -> Config {
    let mut config = Config::new(dataset, vec![2, 2, 2]);
    config.solver.max_iterations = 8;
    config.set_tolerances(Some(0.0), None);
    config
}

/// A checkpoint every second iteration, with room to write it behind the next pass.
pub fn limits() -> Limits {
    let every = Every { iterations: 2, time: Duration::MAX };
    Limits { memory: 64 << 20, threads: 1, every, ..Limits::default() }
}

/// The names in a directory and below that are temporary.
pub fn temporaries(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().to_string();
        if name.ends_with(".tenfill-partial") || name.ends_with(".tenfill-aside") {
            found.push(path);
        } else if path.is_dir() {
            found.extend(temporaries(&path));
        }
    }
    found
}
