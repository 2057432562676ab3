//! `tenfill synth`.

use super::{Context, Dims, Ranks, convert, parse_list};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use tenfill_engine::budget::{Budget, Reservation};
use tenfill_engine::convert::{ConvertOptions, Duplicates, convert_entries_within};
use tenfill_engine::error::{Error, Result};
use tenfill_engine::ingest::source;
use tenfill_engine::synth::{
    Batch, Distribution, EntryFiles, RatingsSpec, RatingsSynth, TuckerSpec, TuckerSynth,
};
use tenfill_engine::synth::{SynthError, entries_from_oversampling};
use tenfill_engine::units;
use tenfill_engine::usage::Usage;

/// Make reproducible test data
///
/// The ending of the output decides: .tns, .csv or .parquet (each also .gz), anything else is a
/// dataset. A file gets its test entries beside it: x.tns and x.test.tns.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tenfill synth -o small.tenfill --dims 200,200,200 --rank 10,10,10 --oversampling 10
  tenfill synth -o noisy.tns --dims 10000,10000,10000 --rank 5,5,5 --oversampling 10 --noise 1e-4
  tenfill synth -o ratings.csv --kind ratings --dims 6000,4000,200 --entries 1000000")]
pub(super) struct Arguments {
    /// The file or dataset to write
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Dimensions
    #[arg(long, value_parser = parse_list::<u32>, value_name = "N,N,...")]
    dims: Dims,
    /// Ranks; one number for all modes [default: 5]. Of ratings, the number of tastes [default: 4]
    #[arg(long, value_parser = parse_list::<usize>, value_name = "R,R,...")]
    rank: Option<Ranks>,
    /// Train entries as a multiple of the degrees of freedom
    #[arg(long, value_name = "OS", conflicts_with = "entries")]
    oversampling: Option<f64>,
    /// Train entries
    #[arg(long, value_name = "N")]
    entries: Option<u64>,
    /// Test entries, as a share of the train entries
    #[arg(long, default_value_t = 0.1, value_name = "SHARE")]
    test: f64,
    /// Validation entries, as a share of the train entries
    #[arg(long, default_value_t = 0.0, value_name = "SHARE")]
    validation: f64,
    /// Noise: relative to the entries' RMS (tucker), in stars (ratings)
    #[arg(long)]
    noise: Option<f64>,
    /// A diagonal core with exponentially decaying values of this condition number
    #[arg(long, value_name = "CN")]
    condition: Option<f64>,
    /// A low-rank tensor, or users x items x weeks with half stars
    #[arg(long, value_enum, default_value_t = Kind::Tucker)]
    kind: Kind,
    /// The distribution of the factors and the core
    #[arg(long, value_enum, default_value_t = Factors::Uniform)]
    factors: Factors,
    /// Values in full, or rounded to single precision
    #[arg(long, value_enum, default_value_t = Values::F64)]
    values: Values,
    /// Seeds everything
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    /// Memory to keep to [default: 1G, or a quarter of the machine's or container's]
    #[arg(long, value_parser = units::parse_size)]
    memory: Option<u64>,
    /// Directory for temporary files [default: beside the output]
    #[arg(long, value_name = "DIR")]
    temp_dir: Option<PathBuf>,
    /// Replace the output if it exists
    #[arg(long)]
    force: bool,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq)]
enum Kind {
    Tucker,
    Ratings,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq)]
enum Factors {
    Uniform,
    Gaussian,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq)]
enum Values {
    F32,
    F64,
}

/// The ranks of a low-rank tensor where none are given.
const TUCKER_RANK: usize = 5;

/// What asks for memory.
const WHAT: &str = "synth";

/// Either generator.
enum Generator {
    Tucker(TuckerSynth),
    Ratings(RatingsSynth),
}

impl Generator {
    fn for_each_batch(&self, take: impl FnMut(Batch) -> Result<()>) -> Result<()> {
        match self {
            Generator::Tucker(synth) => synth.for_each_batch(take),
            Generator::Ratings(synth) => synth.for_each_batch(take),
        }
    }
}

fn request(error: SynthError) -> Error {
    Error::request(error.to_string())
}

/// The generator, and its part of the budget.
fn generator(arguments: &Arguments, rank: &[usize], budget: &Budget) -> Result<(Generator, Reservation)> {
    let dims = &arguments.dims;
    let entries = match (arguments.entries, arguments.oversampling) {
        (Some(entries), _) => entries,
        (None, Some(oversampling)) => entries_from_oversampling(oversampling, dims, rank).map_err(request)?,
        (None, None) => {
            return Err(Error::request("say how many entries: --oversampling 10, or --entries 1000000"));
        }
    };
    for (name, share) in [("--test", arguments.test), ("--validation", arguments.validation)] {
        if !(share.is_finite() && (0.0..=1e6).contains(&share)) {
            return Err(Error::request(format!("{name} {share} is no share of the train entries")));
        }
    }
    let share = |share: f64| (entries as f64 * share).round() as u64;
    if arguments.kind == Kind::Tucker {
        let mut spec = TuckerSpec::new(dims, rank, entries);
        spec.validation = share(arguments.validation);
        spec.test = share(arguments.test);
        spec.factors = if arguments.factors == Factors::Gaussian {
            Distribution::Gaussian
        } else {
            Distribution::Uniform
        };
        spec.condition = arguments.condition;
        spec.noise = arguments.noise.unwrap_or(0.0);
        spec.seed = arguments.seed;
        spec.single = arguments.values == Values::F32;
        spec.validate().map_err(request)?;
        let room = budget.reserve(spec.memory_bytes(), WHAT)?;
        return Ok((TuckerSynth::new(spec).map(Generator::Tucker).map_err(request)?, room));
    }
    let &[users, items, weeks] = dims.as_slice() else {
        return Err(Error::request("--kind ratings has three dimensions: users,items,weeks"));
    };
    if arguments.condition.is_some() {
        return Err(Error::request("--condition goes with --kind tucker only"));
    }
    let mut spec = RatingsSpec::new(users, items, weeks, entries);
    spec.validation = share(arguments.validation);
    spec.test = share(arguments.test);
    spec.rank = rank[0];
    spec.noise = arguments.noise.unwrap_or(spec.noise);
    spec.seed = arguments.seed;
    spec.validate().map_err(request)?;
    let room = budget.reserve(spec.memory_bytes(), WHAT)?;
    Ok((RatingsSynth::new(spec).map(Generator::Ratings).map_err(request)?, room))
}

pub(super) fn run(arguments: Arguments, context: &Context) -> Result<ExitCode> {
    let usage = Usage::start();
    let ratings = arguments.kind == Kind::Ratings;
    let usual = if ratings { RatingsSpec::TASTES } else { TUCKER_RANK };
    let rank = match arguments.rank.as_deref() {
        None => vec![usual; arguments.dims.len()],
        Some([rank]) => vec![*rank; arguments.dims.len()],
        Some(rank) => rank.to_vec(),
    };
    let budget = Budget::new(arguments.memory.unwrap_or_else(Budget::default_bytes))?;
    let (generator, _room) = generator(&arguments, &rank, &budget)?;
    let name = source::plain_name(&arguments.output);
    if [".tns", ".csv", ".parquet"].iter().any(|ending| name.ends_with(ending)) {
        return write_files(&arguments, &generator, ratings, &usage, context);
    }
    let names: Vec<String> = if ratings {
        ["userId", "movieId", "week"].map(String::from).into()
    } else {
        (1..=arguments.dims.len()).map(|mode| format!("mode{mode}")).collect()
    };
    let options = ConvertOptions {
        seed: arguments.seed,
        duplicates: Duplicates::Error,
        memory: budget.total(),
        temp_dir: arguments.temp_dir.clone(),
        force: arguments.force,
        ..ConvertOptions::new(Vec::new(), &arguments.output)
    };
    let control = &context.control;
    let converted = convert_entries_within(&options, &names, &arguments.dims, &budget, control, |gather| {
        generator.for_each_batch(|batch| {
            control.check()?;
            gather.entries(&batch.indices, &batch.values, batch.splits.iter().copied())
        })
    })?;
    converted.notes.iter().for_each(|note| control.say(note));
    convert::report(&converted, &options.output, &usage, context);
    Ok(ExitCode::SUCCESS)
}

fn write_files(
    arguments: &Arguments,
    generator: &Generator,
    ratings: bool,
    usage: &Usage,
    context: &Context,
) -> Result<ExitCode> {
    let disk = tenfill_engine::storage::RealDisk;
    let mut files =
        EntryFiles::create(&disk, &arguments.output, arguments.dims.len(), ratings, arguments.force)?;
    generator.for_each_batch(|batch| {
        context.control.check()?;
        files.write(&batch)
    })?;
    let written = files.finish()?;
    for file in &written.files {
        context.print(format_args!(
            "{}: {} entries, {}",
            file.path.display(),
            units::count(file.entries),
            units::size(file.bytes)
        ));
    }
    let total: u64 = written.files.iter().map(|file| file.entries).sum();
    let bytes: u64 = written.files.iter().map(|file| file.bytes).sum();
    let of = |part: usize| written.entries[part];
    context.finish(&json!({
        "dims": arguments.dims,
        "modes": EntryFiles::mode_names(arguments.dims.len(), ratings),
        "entries": { "train": of(0), "validation": of(1), "test": of(2) },
        "duplicates": 0,
        "bytes_per_entry": bytes as f64 / total.max(1) as f64,
        "shards": 0,
        "seconds": usage.seconds(),
        "cpu_seconds": usage.cpu_seconds(),
        "peak_anon_bytes": usage.peak_anon_bytes(),
    }));
    Ok(ExitCode::SUCCESS)
}
