//! `tenfill entries`.

use super::Context;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use tenfill_engine::error::Result;
use tenfill_engine::shard::{Dataset, Split};
use tenfill_engine::storage::{Output, RealDisk};
use tenfill_engine::table::{EntryBatches, write_entries};
use tenfill_engine::units;
use tenfill_engine::usage::Usage;

/// Write the entries of a dataset as a table, with their ids
///
/// A row per entry: the ids as they came in (of bins, where the bin begins), the value, and the weight
/// where entries have one. With --split all, a column says which split an entry belongs to. Any number of
/// entries takes the same memory. What is written can be converted again, with the options that are said in the end: columns of
/// weights, of the rows that were joined (rows) and of splits would be taken for modes without them.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tenfill entries ratings.tenfill --split test -o test.csv
  tenfill entries ratings.tenfill --split all -o ratings.parquet
  tenfill entries ratings.tenfill --split train | head")]
pub(super) struct Arguments {
    /// The dataset
    dataset: PathBuf,
    /// Which entries
    #[arg(long, value_enum, default_value_t = SplitArgument::Test)]
    split: SplitArgument,
    /// The table to write: .csv, .tsv (also .gz, .zst) or .parquet [default: CSV to standard output]
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Replace the output if it exists
    #[arg(long)]
    force: bool,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq)]
enum SplitArgument {
    Train,
    Validation,
    Test,
    /// All of them, with a column split
    All,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode> {
    let usage = Usage::start();
    let dataset = Dataset::open(&arguments.dataset)?;
    let split = match arguments.split {
        SplitArgument::Train => Some(Split::Train),
        SplitArgument::Validation => Some(Split::Validation),
        SplitArgument::Test => Some(Split::Test),
        SplitArgument::All => None,
    };
    let place = arguments.output.as_ref();
    let place = place.map(|path| Output::new(path, arguments.force).apart_from([&arguments.dataset]));
    let rows = write_entries(&RealDisk, &dataset, split, place.as_ref(), &context.control)?;
    let name = split.map_or("all", Split::name);
    let said = format!("{} entries ({name}) in {}", units::count(rows), units::duration(usage.seconds()));
    context.about(&arguments.output, said);
    let options = match split {
        Some(split) => EntryBatches::new(&dataset, split)?.options(),
        None => EntryBatches::all(&dataset)?.options(),
    };
    context.control.say(format!("to convert it back: {options}"));
    context.finish(&json!({
        "rows": rows,
        "split": name,
        "options": options,
        "seconds": usage.seconds(),
        "cpu_seconds": usage.cpu_seconds(),
        "peak_anon_bytes": usage.peak_anon_bytes(),
    }));
    Ok(ExitCode::SUCCESS)
}
