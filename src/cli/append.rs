//! `tenfill append`.

use super::convert::{ConvertArguments, take_batches, told};
use super::{Context, parse_threads};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use tenfill_engine::convert::{AppendOptions, append_batches};
use tenfill_engine::error::{Error, Result};
use tenfill_engine::shard::{Manifest, Split};
use tenfill_engine::units;
use tenfill_engine::usage::Usage;

/// Add new rows to a dataset
///
/// The entries of the dataset are merged with the new ones; they are not sorted again. Columns, bins, splits
/// and duplicates follow the dataset, unless something else is said. Ids keep their rows, new ids come behind
/// them, bins go on in both directions, and every old entry stays in its split. A run on the old dataset is
/// where a run on the new one begins: tenfill complete NEW --init RUN.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tenfill append ratings.tenfill february.csv -o until-february.tenfill
  tenfill append ratings.tenfill february.csv --in-place
  tenfill append ratings.tenfill new.parquet --in-place --split none      all new entries for train
  tenfill append ratings.tenfill new.csv --modes user,film,date --value stars -o new.tenfill")]
pub(super) struct Arguments {
    /// The dataset
    dataset: PathBuf,
    /// Files of new rows; - for standard input
    #[arg(required = true)]
    inputs: Vec<PathBuf>,
    /// The dataset to write
    #[arg(short, long, value_name = "DATASET", required_unless_present = "in_place")]
    output: Option<PathBuf>,
    /// Put the new dataset in the place of the old one, in one step when it is whole
    #[arg(long, conflicts_with = "output")]
    in_place: bool,
    /// Memory to keep to [default: 1G, or a quarter of the machine's or container's]
    #[arg(long, value_parser = units::parse_size)]
    memory: Option<u64>,
    /// Threads [default: one per core]
    #[arg(long, value_parser = parse_threads)]
    threads: Option<usize>,
    /// Seeds the split of the new entries [default: that of the dataset]
    #[arg(long, allow_negative_numbers = true)]
    seed: Option<u64>,
    /// Replace the output if it exists
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    options: ConvertArguments,
}

pub(super) fn run(arguments: Arguments, context: &Context) -> Result<ExitCode> {
    let usage = Usage::start();
    let Arguments { dataset, inputs, output, in_place, mut options, memory, threads, seed, force } =
        arguments;
    options.set_modes(context);
    let (split, time_column, duplicates) = options.rules();
    let Some(output) = output.or_else(|| in_place.then(|| dataset.clone())) else {
        return Err(Error::request("give the new dataset a name (`output`), or `in_place`"));
    };
    let threads = context.threads(threads);
    let mut rows = options.options(inputs, output.clone(), seed.unwrap_or(1), memory, threads, force)?;
    let batches = take_batches(&mut rows, context);
    let before = Manifest::read(&dataset);
    let asked = AppendOptions { dataset, rows, split, seed, time_column, duplicates, in_place };
    let appended = append_batches(&asked, batches, &context.control)?;
    appended.notes.iter().for_each(|note| context.control.say(note));
    if in_place {
        context.control.say(format!(
            "runs that began with {0} as it was still predict, but cannot go on or be evaluated: `tenfill complete {0} -o \
             NEW --init RUN` begins a new run with the model of one",
            output.display()
        ));
    }
    let (before, after) = (before?, &appended.manifest);
    let entries =
        |manifest: &Manifest| Split::ALL.map(|split| manifest.split(split).entries).iter().sum::<u64>();
    let new_entries = entries(after).saturating_sub(entries(&before));
    let joined = after.duplicates - before.duplicates;
    let mut new_ids = serde_json::Map::new();
    let mut said = format!("appended {}", units::many(new_entries, "new entry"));
    if joined > 0 {
        said += &format!("; {} joined others", units::rows(joined));
    }
    for (old, new) in before.modes.iter().zip(&after.modes) {
        let more = new.dim - old.dim;
        new_ids.insert(new.name.clone(), json!(more));
        if more > 0 {
            said += &format!("; {} new {}", units::count(more.into()), new.name);
        }
    }
    let mut line = told(&appended, &output, &usage, context);
    context.print(said);
    line["new_entries"] = json!(new_entries);
    line["joined"] = json!(joined);
    line["new_ids"] = new_ids.into();
    context.finish(&line);
    Ok(ExitCode::SUCCESS)
}
