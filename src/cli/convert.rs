//! `tenfill convert`.

use super::{Context, Dims, parse_list, parse_threads};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tenfill_engine::budget::Budget;
use tenfill_engine::convert::{ConvertOptions, Converted, Duplicates, SplitRule, convert_batches};
use tenfill_engine::error::{Error, Result};
use tenfill_engine::ingest::columns::{Binning, ColumnRequest};
use tenfill_engine::ingest::dialect::{Delimiter, DialectRequest};
use tenfill_engine::ingest::{Batches, Condition, Encoding, Format, ReadOptions, STREAM, WideRequest};
use tenfill_engine::message::printable;
use tenfill_engine::shard::{Manifest, Split};
use tenfill_engine::transform::Transform;
use tenfill_engine::units;
use tenfill_engine::usage::Usage;

/// Turn ratings, readings or any table of ids and values into a dataset
///
/// Reads CSV, TSV, a::b::c text, FROSTT .tns, Parquet (a file or a directory of parts) and .npy, plain,
/// gzip or zstd, or - for standard input. Ids may be numbers or text and are kept as labels. What
/// is not said is found from the file, and what was found is printed.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tenfill convert ratings.csv -o ratings.tenfill --modes userId,movieId,timestamp --value rating --bin timestamp=7d
  tenfill convert 'u.data' -o ml.tenfill --modes 1,2,4 --value 3 --bin 4=7d
  tenfill convert tensor.tns.gz -o tensor.tenfill --split none
  tenfill convert parts/ -o sensors.tenfill --modes sensor,place,hour --value reading --memory 512M
  zcat huge.csv.gz | tenfill convert - -o huge.tenfill --modes user,item --value stars
  tenfill convert books.csv -o books.tenfill --modes user,isbn --value rating --where 'rating > 0'
  tenfill convert hours-by-station.csv -o air.tenfill --wide --column-mode station
  tenfill convert prices.csv -o prices.tenfill --modes shop,item,week --value price --transform log
  tenfill convert clicks.csv -o clicks.tenfill --modes user,page --absent 1.0
  tenfill convert train.csv --validation val.csv --test test.csv -o mine.tenfill
  tenfill convert readings.csv -o sensors.tenfill --modes sensor,hour --value reading --weights precision")]
pub(super) struct Arguments {
    /// Files to convert; - for standard input
    #[arg(required = true)]
    inputs: Vec<PathBuf>,
    /// The dataset to write
    #[arg(short, long, value_name = "DATASET")]
    output: PathBuf,
    /// Memory to keep to [default: 1G, or a quarter of the machine's or container's]
    #[arg(long, value_parser = units::parse_size)]
    memory: Option<u64>,
    /// Threads [default: one per core]
    #[arg(long, value_parser = parse_threads)]
    threads: Option<usize>,
    /// Seeds the split
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    /// Replace the output if it exists
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    options: ConvertArguments,
}

/// What `complete FILE` takes as well. It is flattened last: what follows would stand below its heading.
#[derive(clap::Args, Clone)]
#[command(next_help_heading = "Input")]
pub(super) struct ConvertArguments {
    /// Columns of ids, by header name or number from 1: userId,movieId,timestamp
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS")]
    modes: Option<Vec<String>>,
    /// Column of the value, by header name or number
    #[arg(long, value_name = "COLUMN")]
    value: Option<String>,
    /// Column of weights, by header name or number: an entry of weight 2 counts as two, one of weight
    /// 0 not at all
    #[arg(long, value_name = "COLUMN")]
    weights: Option<String>,
    /// Whether a missing value (nothing, NA, N/A, NaN, null, None, #N/A, \N; null or NaN in Parquet) is a missing
    /// entry, which is left out and counted, or an error
    #[arg(long, value_enum, default_value_t = EmptyArgument::Missing)]
    empty: EmptyArgument,
    /// What else stands for a missing value, beside those of --empty: ?, -999, ...; may be given several times
    #[arg(long, value_name = "SIGN", allow_hyphen_values = true)]
    missing: Vec<String>,
    /// Take only rows that meet a condition: a column, one of = != < <= > >=, and a number, a date or a text
    /// ('rating > 0', "country = 'IT'", 'day >= 2020-01-01'); several are joined by and
    #[arg(long = "where", value_name = "CONDITION", value_parser = Condition::parse)]
    conditions: Vec<Conditions>,
    /// A wide table: the first column, or --id-columns, name its rows, and all other columns are the ids of
    /// one more mode
    #[arg(long)]
    wide: bool,
    /// The columns of a wide table that name its rows [default: the first]
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS", requires = "wide")]
    id_columns: Option<Vec<String>>,
    /// What the mode of a wide table's columns is called [default: column]
    #[arg(long, value_name = "NAME", requires = "wide")]
    column_mode: Option<String>,
    /// Draw so many cells that have no entry, per entry, as zeros: for counts, clicks and triples, where what is
    /// absent did not happen. A table without a value has 1 in every row then
    #[arg(long, value_name = "PER ENTRY", value_parser = parse_absent)]
    absent: Option<f64>,
    /// Fit the logarithm or logit of values, and undo it in all answers and errors: log1p (numbers above -1, like
    /// counts), log (above 0, like prices), logit (shares between 0 and 1)
    #[arg(long, value_name = "NAME", value_parser = Transform::parse)]
    transform: Option<Transform>,
    /// Cut a mode into bins: timestamp=7d (dates, 20210115, or epochs in s, ms, us or ns), age=10
    /// (numbers)
    #[arg(long, value_name = "MODE=WIDTH", value_parser = parse_bin)]
    bin: Vec<(String, Binning)>,
    /// Shares of train/validation/test by a seeded hash, or 'time', or 'none' [default: 80/10/10; of fill 90/5/5]
    #[arg(long, value_parser = SplitRule::parse)]
    split: Option<SplitRule>,
    /// Column of times for --split time, where it is not a mode
    #[arg(long, value_name = "COLUMN")]
    time_column: Option<String>,
    /// Validation entries in files of their own (no split then)
    #[arg(long, value_name = "FILE")]
    validation: Vec<PathBuf>,
    /// Test entries in files of their own (no split then)
    #[arg(long, value_name = "FILE")]
    test: Vec<PathBuf>,
    /// What to do with rows that have the same ids [default: mean, which counts as many rows as it is of unless
    /// there are --weights; of append, what the dataset has]
    #[arg(long, value_enum)]
    duplicates: Option<DuplicatesArgument>,
    /// Between fields: , ; | :: tab space [default: found from the first lines]
    #[arg(long, value_parser = Delimiter::parse)]
    delimiter: Option<Delimiter>,
    /// The encoding of text: utf-8, latin1, utf-16, windows-1250, shift_jis, ... [default: found; else UTF-8]
    #[arg(long, value_name = "NAME", value_parser = Encoding::parse)]
    encoding: Option<Encoding>,
    /// The first line is a header [default: found]
    #[arg(long, conflicts_with = "no_header")]
    header: bool,
    /// The first line is data
    #[arg(long)]
    no_header: bool,
    /// The format [default: found from the name and the first bytes]
    #[arg(long, value_enum)]
    format: Option<FormatArgument>,
    /// Fix the dimensions: ids are indices then, from 1
    #[arg(long, value_parser = parse_list::<u32>, value_name = "N,N,...")]
    dims: Option<Dims>,
    /// Indices begin at 0 (with .tns or --dims)
    #[arg(long)]
    zero_based: bool,
    /// Leave out up to N bad rows instead of stopping at the first
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip_bad: u64,
    /// Directory for temporary files [default: beside the output]
    #[arg(long, value_name = "DIR")]
    temp_dir: Option<PathBuf>,
}

/// The conditions of one argument.
type Conditions = Vec<Condition>;

#[derive(clap::ValueEnum, Clone, Copy)]
enum EmptyArgument {
    Missing,
    Error,
}

#[derive(clap::ValueEnum, Clone, Copy)]
enum DuplicatesArgument {
    Error,
    First,
    Last,
    Mean,
    Sum,
}

impl DuplicatesArgument {
    fn rule(self) -> Duplicates {
        match self {
            DuplicatesArgument::Error => Duplicates::Error,
            DuplicatesArgument::First => Duplicates::First,
            DuplicatesArgument::Last => Duplicates::Last,
            DuplicatesArgument::Mean => Duplicates::Mean,
            DuplicatesArgument::Sum => Duplicates::Sum,
        }
    }
}

#[derive(clap::ValueEnum, Clone, Copy)]
enum FormatArgument {
    /// Delimited text
    #[value(alias = "csv", alias = "tsv")]
    Text,
    /// FROSTT: 1-based indices, then the value
    Tns,
    /// Parquet
    Parquet,
    /// An array of NumPy: an axis is a mode, NaN is missing
    Npy,
}

fn parse_bin(text: &str) -> Result<(String, Binning), String> {
    let (mode, width) = text.rsplit_once('=').ok_or("write it as MODE=WIDTH, like timestamp=7d")?;
    Ok((mode.to_string(), Binning::parse(width)?))
}

fn parse_absent(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| format!("'{text}' is no number above 0"))
}

impl ConvertArguments {
    /// Files of entries beside the input.
    pub(super) fn given(&self) -> impl Iterator<Item = &PathBuf> {
        self.validation.iter().chain(&self.test)
    }

    /// Whether a split was asked for.
    pub(super) fn has_split(&self) -> bool {
        self.split.is_some()
    }

    /// Takes the columns of the modes that a program has handed over.
    pub(super) fn set_modes(&mut self, context: &Context) {
        self.modes = context.modes.clone().or(self.modes.take());
    }

    /// What is said of the rules by which a dataset was made: split, column of times, duplicates.
    pub(super) fn rules(&self) -> (Option<SplitRule>, Option<String>, Option<Duplicates>) {
        (self.split, self.time_column.clone(), self.duplicates.map(DuplicatesArgument::rule))
    }

    /// The options of a conversion.
    pub(super) fn options(
        self,
        inputs: Vec<PathBuf>,
        output: PathBuf,
        seed: u64,
        memory: Option<u64>,
        threads: usize,
        force: bool,
    ) -> Result<ConvertOptions> {
        let given = !self.validation.is_empty() || !self.test.is_empty();
        if given && self.split.is_some_and(|split| split != SplitRule::Shares([1.0, 0.0, 0.0])) {
            return Err(Error::request(
                "--split does not go with --validation and --test: the files are the split",
            ));
        }
        if self.dims.as_ref().is_some_and(|dims| dims.contains(&0)) {
            return Err(Error::request("--dims holds a 0: every mode needs at least one index"));
        }
        let split = self.split.unwrap_or(SplitRule::Shares([0.8, 0.1, 0.1]));
        let columns = ColumnRequest {
            modes: self.modes,
            value: self.value,
            weight: self.weights,
            bins: self.bin,
            time: (split == SplitRule::Time && !given).then_some(self.time_column),
            dims: self.dims,
            names: None,
            zero_based: self.zero_based,
            strict: matches!(self.empty, EmptyArgument::Error),
            missing: self.missing,
            conditions: self.conditions.into_iter().flatten().collect(),
            transform: None,
            wide: self.wide.then_some(WideRequest { ids: self.id_columns, mode: self.column_mode }),
            ones: self.absent.is_some(),
            plain_times: false,
        };
        let header = if self.header { Some(true) } else { self.no_header.then_some(false) };
        let format = self.format.map(|format| match format {
            FormatArgument::Text => Format::Text,
            FormatArgument::Tns => Format::Tns,
            FormatArgument::Parquet => Format::Parquet,
            FormatArgument::Npy => Format::Npy,
        });
        let duplicates = self.duplicates.map_or(Duplicates::Mean, DuplicatesArgument::rule);
        Ok(ConvertOptions {
            validation: self.validation,
            test: self.test,
            read: ReadOptions {
                format,
                dialect: DialectRequest { delimiter: self.delimiter, header, encoding: self.encoding },
                columns,
                threads,
                ..ReadOptions::default()
            },
            split,
            seed,
            duplicates,
            absent: self.absent.unwrap_or(0.0),
            transform: self.transform,
            memory: memory.unwrap_or_else(Budget::default_bytes),
            temp_dir: self.temp_dir,
            skip_bad: self.skip_bad,
            force,
            ..ConvertOptions::new(inputs, output)
        })
    }
}

pub(super) fn run(arguments: Arguments, context: &Context) -> Result<ExitCode> {
    let usage = Usage::start();
    let Arguments { inputs, output, mut options, memory, threads, force, seed } = arguments;
    options.set_modes(context);
    let mut options = options.options(inputs, output, seed, memory, context.threads(threads), force)?;
    let batches = take_batches(&mut options, context);
    let converted = convert_batches(&options, batches, &context.control)?;
    converted.notes.iter().for_each(|note| context.control.say(note));
    report(&converted, &options.output, &usage, context);
    Ok(ExitCode::SUCCESS)
}

/// The rows that a program has handed over, in place of the files that stand for them.
pub(super) fn take_batches(options: &mut ConvertOptions, context: &Context) -> Vec<(Split, Batches)> {
    let batches = context.take_batches();
    if !batches.is_empty() {
        for files in [&mut options.inputs, &mut options.validation, &mut options.test] {
            files.retain(|path| path != Path::new(STREAM));
        }
    }
    batches
}

/// The outcome for people and programs; synth has the same.
pub(super) fn report(converted: &Converted, output: &Path, usage: &Usage, context: &Context) {
    context.finish(&told(converted, output, usage, context));
}

/// The outcome for people, and its fields for programs.
pub(super) fn told(
    converted: &Converted,
    output: &Path,
    usage: &Usage,
    context: &Context,
) -> serde_json::Value {
    let manifest = &converted.manifest;
    context.print(summary(manifest, output));
    let seconds = usage.seconds();
    context.print(format_args!(
        "{} in {} ({} rows per second, {:.1} CPU seconds, peak {} of memory)",
        units::rows(converted.rows),
        units::duration(seconds),
        units::count((converted.rows as f64 / seconds.max(1e-9)) as u64),
        usage.cpu_seconds(),
        units::size(usage.peak_anon_bytes()),
    ));
    let mut line = dataset_json(manifest);
    for (name, value) in [
        ("duplicates", json!(manifest.duplicates)),
        ("rows", json!(converted.rows)),
        ("bad_rows", json!(converted.bad_rows)),
        ("empty", json!(converted.empty)),
        ("left_out", json!(converted.left_out)),
        ("absent", json!(converted.absent)),
        ("overlap", json!(converted.overlap)),
        ("notes", json!(converted.notes)),
        ("seconds", json!(seconds)),
        ("cpu_seconds", json!(usage.cpu_seconds())),
        ("peak_anon_bytes", json!(usage.peak_anon_bytes())),
    ] {
        line[name] = value;
    }
    line
}

/// What a dataset holds, in a few lines.
pub(super) fn summary(manifest: &Manifest, path: &Path) -> String {
    let modes: Vec<String> = manifest
        .modes
        .iter()
        .map(|mode| format!("{} {}", units::count(mode.dim.into()), printable(&mode.name)))
        .collect();
    let shards = manifest.train.shards.len() + manifest.validation.shards.len() + manifest.test.shards.len();
    let bytes = manifest.train.bytes() + manifest.validation.bytes() + manifest.test.bytes();
    let weighted = manifest.weights.as_ref().map_or(String::new(), |weights| {
        let train = &weights.train;
        if weights.counts {
            let most = train.max.max(weights.validation.max).max(weights.test.max);
            return format!(
                "\n  joined   entries of several rows count as many, up to {most}, also in errors"
            );
        }
        let zeros = match train.zeros {
            0 => String::new(),
            n => format!(", {} of them 0", units::count(n)),
        };
        format!(
            "\n  weighted by {}: train weights {} to {}{zeros}; all errors are weighted means",
            printable(&weights.column),
            train.min,
            train.max
        )
    });
    let weighted = match manifest.transform() {
        Some(transform) => format!("{weighted}\n  values   kept as their {}", transform.name()),
        None => weighted,
    };
    format!(
        "{}: {}\n  entries  {} train, {} validation, {} test{weighted}\n  order    {}\n  files    {} {} of {}, {:.2} bytes per entry",
        printable(&path.to_string_lossy()),
        modes.join(" x "),
        units::count(manifest.train.entries),
        units::count(manifest.validation.entries),
        units::count(manifest.test.entries),
        printable(&manifest.mode_order_reason),
        shards,
        if shards == 1 { "shard" } else { "shards" },
        units::size(bytes),
        manifest.bytes_per_entry(),
    )
}

/// The fields that convert, synth and inspect share.
pub(super) fn dataset_json(manifest: &Manifest) -> serde_json::Value {
    json!({
        "dims": manifest.dims(),
        "modes": manifest.modes.iter().map(|mode| mode.name.as_str()).collect::<Vec<_>>(),
        "mode_order": manifest.mode_order.iter().map(|&mode| manifest.modes[mode].name.as_str()).collect::<Vec<_>>(),
        "entries": {
            "train": manifest.train.entries,
            "validation": manifest.validation.entries,
            "test": manifest.test.entries,
        },
        "weights": manifest.weights,
        "transform": manifest.transform().map(Transform::name),
        "bytes_per_entry": manifest.bytes_per_entry(),
        "shards": manifest.train.shards.len() + manifest.validation.shards.len() + manifest.test.shards.len(),
    })
}
