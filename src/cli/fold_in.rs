//! `tenfill fold-in`.

use super::{Context, parse_threads};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use tenfill_engine::answer::{FoldOptions, FoldedMode, fold_in};
use tenfill_engine::budget::Budget;
use tenfill_engine::error::{Error, Result};
use tenfill_engine::ingest::Encoding;
use tenfill_engine::message::printable;
use tenfill_engine::units;
use tenfill_engine::usage::Usage;

/// Learn ids that the model has not seen, from their entries alone
///
/// NEW is a file with the columns of the run's own data. For every id of a mode that occurs in it a
/// row (and a bias) is found by ridge least squares, with everything else of the model held; no
/// training. Where ids of several modes are new, the rows of these modes are found in turn. Ids that the model knows are found anew from their train entries and the new ones, which
/// replace entries at the same place. The result is a run that evaluate, predict, recommend, export,
/// report and fold-in take like any other; it refers to the dataset of the first run, which must stay.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tenfill fold-in run new-users.csv -o run2
  tenfill fold-in run todays-ratings.csv -o run2 --mode userId
  tenfill fold-in run2 new-movies.parquet -o run3 --mode movieId
  tenfill recommend run2 --given userId=71568 --rank-mode movieId")]
pub(super) struct Arguments {
    /// The run
    run: PathBuf,
    /// The new entries; - for standard input
    new: PathBuf,
    /// The run to write
    #[arg(short, long, value_name = "RUN2")]
    output: PathBuf,
    /// The mode whose rows are found; entries with new ids of others are left out [default: all modes
    /// with ids that the model lacks]
    #[arg(long)]
    mode: Option<String>,
    /// How strongly rows are drawn to the average row; 1 is what the spread of the known rows suggests
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR")]
    ridge: f64,
    /// The encoding of text: utf-8, latin1, utf-16, windows-1250, shift_jis, ... [default: found; else UTF-8]
    #[arg(long, value_name = "NAME", value_parser = Encoding::parse)]
    encoding: Option<Encoding>,
    /// Memory to keep to [default: 1G, or a quarter of the machine's or container's]
    #[arg(long, value_parser = units::parse_size)]
    memory: Option<u64>,
    /// Threads [default: one per core]
    #[arg(long, value_parser = parse_threads)]
    threads: Option<usize>,
    /// Replace the output if it exists
    #[arg(long)]
    force: bool,
}

pub(super) fn run(arguments: Arguments, context: &Context) -> Result<ExitCode> {
    let usage = Usage::start();
    if !(arguments.ridge.is_finite() && arguments.ridge >= 0.0) {
        return Err(Error::request("--ridge is negative or no number"));
    }
    let options = FoldOptions {
        mode: arguments.mode,
        ridge: arguments.ridge,
        memory: arguments.memory.unwrap_or_else(Budget::default_bytes),
        threads: context.threads(arguments.threads),
        force: arguments.force,
        encoding: arguments.encoding,
    };
    let done = fold_in(&arguments.run, &arguments.new, &arguments.output, &options, &context.control)?;
    if done.left_out > 0 {
        let count = units::count(done.left_out);
        context
            .control
            .say(format!("{count} entries were left out: the model does not know another of their ids"));
    }
    if done.outside_bins > 0 {
        let count = units::count(done.outside_bins);
        context.control.say(format!("{count} entries lie outside the bins and were taken as the nearest"));
    }
    let seconds = usage.seconds();
    let each = |of: &FoldedMode| {
        let (new, updated) = (units::count(of.new_ids), units::count(of.updated_ids));
        format!("{new} new and {updated} updated ids of {}", printable(&of.mode))
    };
    let modes: Vec<String> = done.modes.iter().map(each).collect();
    context.print(format_args!(
        "{}: {} from {} entries in {}",
        arguments.output.display(),
        modes.join(", "),
        units::count(done.entries),
        units::duration(seconds),
    ));
    context.finish(&json!({
        "mode": done.modes.iter().map(|of| of.mode.as_str()).collect::<Vec<_>>().join(","),
        "new_ids": done.modes.iter().map(|of| of.new_ids).sum::<u64>(),
        "updated_ids": done.modes.iter().map(|of| of.updated_ids).sum::<u64>(),
        "modes": done.modes.iter().map(|of| json!({
            "mode": of.mode, "new_ids": of.new_ids, "updated_ids": of.updated_ids,
        })).collect::<Vec<_>>(),
        "entries": done.entries,
        "left_out": done.left_out,
        "outside_bins": done.outside_bins,
        "seconds": seconds,
        "cpu_seconds": usage.cpu_seconds(),
        "peak_anon_bytes": usage.peak_anon_bytes(),
    }));
    Ok(ExitCode::SUCCESS)
}
