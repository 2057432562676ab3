//! `tenfill export`.

use super::Context;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use tenfill_engine::answer::{ExportFormat, export};
use tenfill_engine::error::Result;
use tenfill_engine::model::Model;
use tenfill_engine::storage::RealDisk;

/// Write a run's model as files that other programs read
///
/// For every mode a table of ids, whether each is known, biases and factor columns; the core; and
/// model.json with all else that a prediction needs; where the model knows how sure it is, variances
/// and features of rows, and the prior that they were learned with. docs/guide.md rebuilds a prediction from them with
/// pandas, polars and numpy.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tenfill export run -o exported
  tenfill export run -o exported --format npy
  tenfill export run -o exported --format csv --force")]
pub(super) struct Arguments {
    /// The run
    run: PathBuf,
    /// The directory to write
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// The kind of files
    #[arg(long, value_enum, default_value_t = Format::Parquet)]
    format: Format,
    /// Replace the output if it is an export
    #[arg(long)]
    force: bool,
}

#[derive(clap::ValueEnum, Clone, Copy)]
enum Format {
    /// A Parquet file per mode
    Parquet,
    /// NumPy arrays
    Npy,
    /// A CSV file per mode
    Csv,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode> {
    let model = Model::read_with_uncertainty(&arguments.run)?;
    let format = match arguments.format {
        Format::Parquet => ExportFormat::Parquet,
        Format::Npy => ExportFormat::Npy,
        Format::Csv => ExportFormat::Csv,
    };
    let files = export(&RealDisk, &model, &arguments.output, format, arguments.force)?;
    context.print(format_args!("{}: {}", arguments.output.display(), files.join(", ")));
    context.finish(&json!({ "files": files, "rank": model.point.ranks(), "dims": model.point.dims() }));
    Ok(ExitCode::SUCCESS)
}
