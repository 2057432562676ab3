//! `tenfill predict`.

use super::{Context, given, parse_threads};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tenfill_engine::answer::{AnswerOptions, predict_file};
use tenfill_engine::error::{Error, Result};
use tenfill_engine::ingest::Encoding;
use tenfill_engine::ingest::dialect::{Delimiter, DialectRequest};
use tenfill_engine::model::{ModeIds, Model};
use tenfill_engine::units;
use tenfill_engine::usage::Usage;

/// Predict a value for every row of a table of ids
///
/// QUERIES is CSV, TSV, other delimited text or Parquet, plain, gzip or zstd, or - for standard
/// input. Its columns may stand in any order; those that are no mode are passed through. Two
/// columns are added: prediction, and known, which is false where the model has never met an id and
/// the value comes from the biases of the others, or is the mean. A time outside the bins counts as
/// the nearest one. Any number of rows takes the same memory.
///
/// With --sd there is a third: sd, the standard deviation of an observation about the prediction,
/// from the noise and from how sure the model is of its rows. Models that were fitted by sweeps
/// (the default for data with noise) know it.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tenfill predict run queries.csv                              to standard output
  tenfill predict run queries.parquet -o answers.parquet
  tenfill predict run queries.csv --sd                         with standard deviations
  tenfill predict run pairs.csv --given timestamp=latest       the same time for every row
  tenfill predict run pairs.tsv --modes user,film --given timestamp=average -o answers.csv.gz
  zcat queries.csv.gz | tenfill predict run - --strict -o answers.csv")]
pub(super) struct Arguments {
    /// The run
    run: PathBuf,
    /// The table of ids; - for standard input
    queries: PathBuf,
    /// The table to write: .csv, .tsv (also .gz, .zst) or .parquet [default: CSV to standard output]
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Columns of the modes, in the model's order, by name or number [default: those with their names]
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS")]
    modes: Option<Vec<String>>,
    /// A mode that is the same for all rows: an id, a date, 'latest' (of bins) or 'average'
    #[arg(long, value_name = "MODE=ID", value_parser = given::parse)]
    given: Vec<given::Given>,
    /// Stop at an id that the model does not know, instead of falling back
    #[arg(long)]
    strict: bool,
    /// Also tell the standard deviation of an observation, in a column sd
    #[arg(long)]
    sd: bool,
    /// Between fields: , ; | :: tab space [default: found from the first lines]
    #[arg(long, value_parser = Delimiter::parse)]
    delimiter: Option<Delimiter>,
    /// The encoding of text: utf-8, latin1, utf-16, windows-1250, shift_jis, ... [default: found; else UTF-8]
    #[arg(long, value_name = "NAME", value_parser = Encoding::parse)]
    encoding: Option<Encoding>,
    /// The first line is data [default: found]
    #[arg(long)]
    no_header: bool,
    /// Threads [default: one per core]
    #[arg(long, value_parser = parse_threads)]
    threads: Option<usize>,
    /// Replace the output if it exists
    #[arg(long)]
    force: bool,
}

pub(super) fn run(arguments: Arguments, context: &Context) -> Result<ExitCode> {
    let usage = Usage::start();
    let model = match arguments.sd {
        true => Model::read_with_uncertainty(&arguments.run)?,
        false => Model::read(&arguments.run)?,
    };
    let ids = ModeIds::of_all(&model)?;
    let options = AnswerOptions {
        given: given::places(&model, &ids, &arguments.given, arguments.strict, &context.control)?,
        output: arguments.output,
        force: arguments.force,
        strict: arguments.strict,
        sd: arguments.sd,
        columns: arguments.modes,
        dialect: DialectRequest {
            delimiter: arguments.delimiter,
            header: arguments.no_header.then_some(false),
            encoding: arguments.encoding,
        },
    };
    drop(ids);
    let threads = context.threads(arguments.threads);
    let done = in_pool(threads, || predict_file(&model, &arguments.queries, &options, &context.control))?;
    let seconds = usage.seconds();
    let mut said = format!("{} in {}", units::rows(done.rows), units::duration(seconds));
    let mut warnings = Vec::new();
    if done.unknown > 0 {
        warnings.push(format!("{} with ids that the model does not know", units::count(done.unknown)));
    }
    if done.outside_bins > 0 {
        warnings.push(format!("{} outside the bins, taken as the nearest", units::count(done.outside_bins)));
    }
    for warning in &warnings {
        said += &format!("; {warning}");
    }
    if let Some(column) = &model.about.weights {
        said += &format!("; the model was fitted with weights ({column})");
    }
    let to_stdout = options.output.as_deref().is_none_or(|path| path == Path::new("-"));
    if to_stdout && !warnings.is_empty() {
        context.control.say(said);
    } else {
        context.about(&options.output, said);
    }
    context.finish(&json!({
        "rows": done.rows,
        "weights": model.about.weights,
        "unknown": done.unknown,
        "outside_bins": done.outside_bins,
        "seconds": seconds,
        "cpu_seconds": usage.cpu_seconds(),
        "peak_anon_bytes": usage.peak_anon_bytes(),
    }));
    Ok(ExitCode::SUCCESS)
}

/// Runs `work` with so many threads; results do not depend on their number.
pub(super) fn in_pool<T: Send>(threads: usize, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.max(1)).build();
    let pool =
        pool.map_err(|error| Error::request(format!("{threads} threads cannot be started: {error}")))?;
    pool.install(work)
}
