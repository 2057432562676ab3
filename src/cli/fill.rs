//! `tenfill fill`.

use super::complete::{RankArgument, parse_ranks};
use super::convert::ConvertArguments;
use super::outcome::{say_learned, say_little};
use super::{Context, parse_threads};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use tenfill_engine::error::Result;
use tenfill_engine::fill::{FillOptions, Filled, HeldOut, SPLIT, check_split, fill, usual_config};
use tenfill_engine::run::Limits;
use tenfill_engine::shard::Dataset;
use tenfill_engine::units::{self, digits};
use tenfill_engine::usage::Usage;

/// Fill the holes of a table or an array
///
/// Completes what has a value and writes the table back with what had none: the same rows, columns, order and
/// types, every value that was there as it was, and a column filled. A value is missing where convert says
/// so: nothing, NA, NaN or null, and what --missing says. Long tables (CSV, TSV, other text, Parquet), wide ones (--wide) and .npy
/// arrays, of any size within the memory. Times are ids of their own unless --bin groups them. A part of the
/// values is held out (--split, 90/5/5) to tell the error, beside that of the mean, of biases alone and of
/// linear interpolation along a mode that has an order.
///
/// With --sd a long table has a further column: sd, the standard deviation of an observation about what was
/// filled in, empty where a value was. A wide table and an array get a second file beside them, OUT.sd.csv or
/// OUT.sd.npy, with nothing (NaN) where a value was. Models that were fitted by sweeps know it.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tenfill fill readings.csv -o filled.csv --modes station,day,hour --value pm10
  tenfill fill readings.csv -o filled.csv --missing -999 --missing '?'
  tenfill fill readings.parquet -o filled.parquet --all-cells
  tenfill fill hours-by-station.csv -o filled.csv --wide --column-mode station
  tenfill fill cube.npy -o filled.npy --memory 512M
  tenfill fill readings.csv -o filled.csv --sd              with standard deviations
  tenfill fill readings.csv -o filled.csv --keep run        keeps the run, for predict and report
  tenfill fill more.csv -o filled.csv --run run             with a model that is there already")]
pub(super) struct Arguments {
    /// The table or array; - for standard input
    input: PathBuf,
    /// The table to write: .csv, .tsv (also .gz, .zst), .parquet, or .npy for an array
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Use the model of a run, instead of completing the table
    #[arg(long, conflicts_with_all = ["keep", "rank", "max_iterations", "patience", "split"])]
    run: Option<PathBuf>,
    /// Keep the run there [default: it is removed]
    #[arg(long, value_name = "RUN")]
    keep: Option<PathBuf>,
    /// Add a row for every cell (combination of ids) that has none; how many is said first
    #[arg(long)]
    all_cells: bool,
    /// Also tell the standard deviation of what is filled in: a column sd, or OUT.sd.csv, OUT.sd.npy
    #[arg(long)]
    sd: bool,
    /// Ranks, as complete takes them [default: auto]
    #[arg(long, value_parser = parse_ranks, value_name = "R,R,...|auto")]
    rank: Option<RankArgument>,
    /// Stop after this many iterations [default: 250]
    #[arg(long, value_name = "N")]
    max_iterations: Option<usize>,
    /// Stop when validation has not improved for this many iterations; 0 switches it off [default: 10]
    #[arg(long, value_name = "N")]
    patience: Option<usize>,
    /// Seeds the start and the split
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    /// Memory to keep to [default: 1G, or a quarter of the machine's or container's]
    #[arg(long, value_parser = units::parse_size)]
    memory: Option<u64>,
    /// Threads [default: one per core]
    #[arg(long, value_parser = parse_threads)]
    threads: Option<usize>,
    /// Replace the output, and the run that is kept, if they exist
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    convert: ConvertArguments,
}

pub(super) fn run(arguments: Arguments, context: &Context) -> Result<ExitCode> {
    let usage = Usage::start();
    let Arguments { input, output, run, keep, all_cells, sd, rank, seed, force, .. } = arguments;
    let usual = Limits::of(context.team);
    let threads = context.threads(arguments.threads);
    let limits = Limits { memory: arguments.memory.unwrap_or(usual.memory), threads, ..usual };
    let mut converting = arguments.convert;
    converting.set_modes(context);
    let held_out = converting.has_split();
    let mut convert =
        converting.options(vec![input], output.clone(), seed, Some(limits.memory), threads, force)?;
    if !held_out {
        convert.split = SPLIT;
    }
    if run.is_none() {
        check_split(&convert, rank.as_ref().and_then(RankArgument::given))?;
    }
    let options = FillOptions { convert, output: output.clone(), force, run, keep, all_cells, sd };
    let configure = |dataset: &Dataset| {
        let ranks = rank.as_ref().and_then(RankArgument::given);
        let mut config = usual_config(dataset, ranks)?;
        config.seed = seed;
        config.solver.max_iterations = arguments.max_iterations.unwrap_or(250);
        config.solver.patience = arguments.patience.unwrap_or(10);
        Ok(config)
    };
    let filled = fill(&options, &configure, &limits, &context.control, &*context.observe)?;
    report(&filled, &options, &usage, context);
    Ok(ExitCode::SUCCESS)
}

/// The error of what was held out, and what is to be had without a model.
fn beside(held: &HeldOut) -> String {
    let HeldOut { entries, rmse, mean_rmse, biases_rmse, interpolation, .. } = held;
    let mut others = Vec::new();
    others.extend(mean_rmse.map(|rmse| format!("the mean {}", digits(rmse))));
    others.extend(biases_rmse.map(|rmse| format!("biases alone {}", digits(rmse))));
    let along = |(mode, rmse): &(String, f64)| format!("linear interpolation along {mode} {}", digits(*rmse));
    others.extend(interpolation.as_ref().map(along));
    let mut said = format!("\n  held out   {}: RMSE {}", units::many(*entries, "value"), digits(*rmse));
    if !others.is_empty() {
        said += &format!("\n  beside     {}", others.join(", "));
    }
    said
}

/// An RMSE that is lower by this share is clearly lower.
const CLEARLY: f64 = 0.1;

/// Says where linear interpolation is clearly better than the model.
fn say_interpolation(held: &HeldOut, context: &Context) {
    let Some((modes, rmse)) = &held.interpolation else { return };
    if *rmse <= (1.0 - CLEARLY) * held.rmse {
        context.control.say(format!(
            "linear interpolation along {modes} is closer than the model to what was held out (RMSE {} instead of {}): take \
             it where the values beside a hole are there",
            digits(*rmse),
            digits(held.rmse)
        ));
    }
}

fn report(filled: &Filled, options: &FillOptions, usage: &Usage, context: &Context) {
    let Filled { rows, filled: count, unknown, outside_bins, added, sd, held_out, outcome } = filled;
    let mut said = format!("{} filled, {} rows or cells", units::many(*count, "value"), units::count(*rows));
    if *added > 0 {
        said += &format!(", {} added", units::rows(*added));
    }
    if *unknown > 0 {
        said += &format!(
            "; {} with an id that has no value: by biases or the mean alone",
            units::count(*unknown)
        );
    }
    if *outside_bins > 0 {
        said += &format!("; {} outside the bins, taken as the nearest", units::count(*outside_bins));
    }
    if let Some(held) = held_out {
        said += &beside(held);
    }
    said += &format!(
        "\n  {}, {} CPU, peak {} of memory",
        units::duration(usage.seconds()),
        units::duration(usage.cpu_seconds()),
        units::size(usage.peak_anon_bytes())
    );
    context.print(format_args!("{}: {said}", options.output.display()));
    if let Some(outcome) = outcome {
        say_learned(outcome, context);
    }
    say_little(held_out.as_ref().and_then(HeldOut::over_biases), context);
    held_out.iter().for_each(|held| say_interpolation(held, context));
    context.finish(&json!({
        "rows": rows,
        "filled": count,
        "unknown": unknown,
        "outside_bins": outside_bins,
        "added": added,
        "sd": sd,
        "held_out": held_out.as_ref().map(|held| json!({
            "split": held.split.name(),
            "entries": held.entries,
            "rmse": held.rmse,
            "mean_rmse": held.mean_rmse,
            "biases_rmse": held.biases_rmse,
            "over_biases": held.over_biases(),
            "interpolation_rmse": held.interpolation.as_ref().map(|(_, rmse)| rmse),
            "interpolation_mode": held.interpolation.as_ref().map(|(mode, _)| mode),
        })),
        "learned": outcome.as_ref().map(|outcome| outcome.learned),
        "rank": outcome.as_ref().map(|outcome| &outcome.rank),
        "iterations": outcome.as_ref().map(|outcome| outcome.last.iteration),
        "passes": outcome.as_ref().map(|outcome| outcome.last.passes),
        "seconds": usage.seconds(),
        "cpu_seconds": usage.cpu_seconds(),
        "peak_anon_bytes": usage.peak_anon_bytes(),
    }));
}
