//! `tenfill report`.

use super::Context;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use tenfill_engine::error::Result;
use tenfill_engine::report::report;
use tenfill_engine::storage::RealDisk;

/// Write a page that shows a run, or compares several
///
/// One self-contained HTML file, light or dark, for the screen or for paper: convergence, rank, time
/// and bytes per pass, error by activity of the ids, the core by component, the strongest ids of each
/// component, and for modes of times the components over time with their dominant periods.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tenfill report run -o report.html
  tenfill report run-rank4 run-rank8 run-rank16 -o compared.html")]
pub(super) struct Arguments {
    /// The runs
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// The page to write
    #[arg(short, long, value_name = "HTML")]
    output: PathBuf,
    /// Replace the output if it exists
    #[arg(long)]
    force: bool,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode> {
    let plots = report(&RealDisk, &arguments.runs, &arguments.output, arguments.force, &context.control)?;
    context.print(format_args!("{}: {plots} plots", arguments.output.display()));
    context.finish(&json!({ "plots": plots, "runs": arguments.runs.len() }));
    Ok(ExitCode::SUCCESS)
}
