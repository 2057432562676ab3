//! The splits of a dataset as CSV files, so that other programs see the same rows.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use tenfill_engine::Dataset;
use tenfill_engine::shard::Split;

/// Write the splits of a dataset as CSV files of indices and values
#[derive(clap::Args)]
pub struct Arguments {
    /// The dataset
    dataset: PathBuf,
    /// The folder for train.csv, validation.csv and test.csv
    folder: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<(), String> {
    export(&arguments.dataset, &arguments.folder)
}

/// Writes a file per split, a column per mode under the mode's name and the value last.
pub fn export(dataset: &Path, folder: &Path) -> Result<(), String> {
    let dataset = Dataset::open(dataset).map_err(|error| error.to_string())?;
    std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    let names: Vec<&str> = dataset.manifest().modes.iter().map(|mode| mode.name.as_str()).collect();
    for split in Split::ALL {
        let path = folder.join(format!("{}.csv", split.name()));
        let file =
            File::create(&path).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        let mut out = BufWriter::new(file);
        let mut text = format!("{},value\n", names.join(","));
        let mut failed = out.write_all(text.as_bytes()).err();
        let read = dataset.for_each(split, |indices, value| {
            text.clear();
            indices.iter().for_each(|index| text += &format!("{index},"));
            text += &format!("{value}\n");
            failed = failed.take().or_else(|| out.write_all(text.as_bytes()).err());
        });
        read.map_err(|error| error.to_string())?;
        failed = failed.or_else(|| out.flush().err());
        if let Some(error) = failed {
            return Err(format!("cannot write {}: {error}", path.display()));
        }
    }
    Ok(())
}
