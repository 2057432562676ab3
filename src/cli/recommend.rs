//! `tenfill recommend`.

use super::predict::in_pool;
use super::{Context, given, parse_threads};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use tenfill_engine::answer::{Observed, RecommendOptions, USUAL_TOP, observed_with, recommend};
use tenfill_engine::error::{Error, Result};
use tenfill_engine::model::{ModeIds, Model, Place};
use tenfill_engine::run::Config;
use tenfill_engine::shard::Split;
use tenfill_engine::units;
use tenfill_engine::usage::Usage;

/// Find the best entries that were not observed yet
///
/// One mode is ranked (--rank-mode), others are given. A mode that is neither is averaged: the value
/// is the mean over its ids, exactly. --given timestamp=latest fixes a mode of bins at its last one,
/// --given timestamp=2004-05-01 at a date, --given timestamp=average says the default aloud.
///
/// Left out are ids that were observed together with the given ids in any split of the run's
/// dataset, at whatever time (bins need not match); --seen train looks at the train entries alone,
/// --include-seen leaves out nothing. Ids without train entries are never recommended. Equal values
/// come in the order of the ids.
///
/// With --sd there is a column sd, the standard deviation of an observation about the prediction.
/// --explore ranks by an upper bound instead of the prediction, C standard deviations of what is
/// said above it (1 unless said otherwise): what the model is not sure of comes first. The column
/// bound has it. Both need a model that was fitted by sweeps, the default for data with noise.
///
/// With --all the best are found for every id of a mode, streamed to the output.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tenfill recommend run --given userId=42 --rank-mode movieId --top 10
  tenfill recommend run --given userId=42 --given timestamp=2004-05-01 --rank-mode movieId
  tenfill recommend run --given movieId=318 --rank-mode userId --top 100 --include-seen
  tenfill recommend run --given userId=42 --rank-mode movieId --explore=2 --sd
  tenfill recommend run --all --rank-mode movieId --top 10 -o best.parquet
  tenfill recommend run --all=movieId --given timestamp=latest --rank-mode userId -o fans.csv")]
pub(super) struct Arguments {
    /// The run
    run: PathBuf,
    /// What is known of a mode: an id, a date, 'latest' (of bins) or 'average'
    #[arg(long, value_name = "MODE=ID", value_parser = given::parse)]
    given: Vec<given::Given>,
    /// The mode whose best ids are wanted
    #[arg(long, value_name = "MODE")]
    rank_mode: String,
    /// How many [default: 10, or all where there are fewer]
    #[arg(long, short = 'k', value_name = "K")]
    top: Option<usize>,
    /// Also tell the standard deviation of an observation, in a column sd
    #[arg(long)]
    sd: bool,
    /// Rank by an upper bound, C standard deviations above the prediction [default of C: 1]
    #[arg(long, value_name = "C", num_args = 0..=1, require_equals = true, default_missing_value = "1")]
    explore: Option<f64>,
    /// For every id of a mode [default: of the only mode that is not given, ranked or binned]
    #[arg(long, value_name = "MODE", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    all: Option<String>,
    /// Leave out what was observed in all splits, or in train alone
    #[arg(long, value_enum, default_value_t = Seen::All)]
    seen: Seen,
    /// Leave out nothing
    #[arg(long, conflicts_with = "seen")]
    include_seen: bool,
    /// Stop at an id that the model does not know, instead of falling back on biases
    #[arg(long)]
    strict: bool,
    /// The table to write: .csv, .tsv (also .gz, .zst) or .parquet [default: CSV to standard output]
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Threads [default: one per core]
    #[arg(long, value_parser = parse_threads)]
    threads: Option<usize>,
    /// Replace the output if it exists
    #[arg(long)]
    force: bool,
}

#[derive(clap::ValueEnum, Clone, Copy)]
enum Seen {
    All,
    Train,
}

pub(super) fn run(arguments: Arguments, context: &Context) -> Result<ExitCode> {
    let usage = Usage::start();
    let model = match arguments.sd || arguments.explore.is_some() {
        true => Model::read_with_uncertainty(&arguments.run)?,
        false => Model::read(&arguments.run)?,
    };
    let ids = ModeIds::of_all(&model)?;
    let ranked = given::mode(&ids, &arguments.rank_mode)?;
    let places = given::places(&model, &ids, &arguments.given, arguments.strict, &context.control)?;
    let mut taken: Vec<usize> = places.iter().map(|(mode, _)| *mode).collect();
    if taken.contains(&ranked) {
        let name = &arguments.rank_mode;
        return Err(Error::request(format!("{name} is ranked, so it cannot be given too")));
    }
    taken.push(ranked);
    let each = match &arguments.all {
        Some(named) => Some(given::each_mode(&ids, named, &taken)?),
        None if places.is_empty() => {
            return Err(Error::request("for whom? say --given MODE=ID, or --all for every id"));
        }
        None => None,
    };
    let mut question = vec![Place::Average; ids.len()];
    for (mode, place) in &places {
        question[*mode] = *place;
    }
    let given = match arguments.include_seen {
        true => None,
        false => observed_with(&ids, &question, ranked, each),
    };
    let datasets = match given {
        Some(_) => Config::read(&arguments.run)?.open_datasets(&arguments.run)?,
        None => Vec::new(),
    };
    let splits = match arguments.seen {
        Seen::All => Split::ALL.to_vec(),
        Seen::Train => vec![Split::Train],
    };
    let observed = given.map(|given| Observed { datasets: &datasets, splits, each, ranked, given });
    let top = arguments.top.unwrap_or(USUAL_TOP.min(ids[ranked].dim() as usize));
    drop(ids);
    let options = RecommendOptions {
        question,
        ranked,
        each,
        top,
        sd: arguments.sd,
        explore: arguments.explore,
        observed,
        output: arguments.output,
        force: arguments.force,
    };
    let threads = context.threads(arguments.threads);
    let done = in_pool(threads, || recommend(&model, &options, &context.control))?;
    let seconds = usage.seconds();
    if options.each.is_some() {
        let (count, rows) = (units::count(done.questions), units::count(done.rows));
        let peak = units::size(usage.peak_anon_bytes());
        let time = units::duration(seconds);
        context
            .about(&options.output, format!("{rows} rows for {count} ids in {time}, peak {peak} of memory"));
    }
    context.finish(&json!({
        "questions": done.questions,
        "rows": done.rows,
        "left_out": done.left_out,
        "seconds": seconds,
        "cpu_seconds": usage.cpu_seconds(),
        "peak_anon_bytes": usage.peak_anon_bytes(),
    }));
    Ok(ExitCode::SUCCESS)
}
