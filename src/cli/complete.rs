//! `tenfill complete`.

use super::again::said_of_a_file;
use super::convert::ConvertArguments;
use super::method::{METHOD, MethodArguments, STOPPING, ToleranceArguments, check_tolerance};
use super::outcome::report;
use super::recipe::RecipeArguments;
use super::{Context, Ranks, parse_list, parse_threads};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tenfill_engine::convert::ConvertOptions;
use tenfill_engine::error::{Error, IoContext, Result};
use tenfill_engine::fetch::{fetch, is_dataset};
use tenfill_engine::ingest::{self, Binning, ModeRole};
use tenfill_engine::kernel::Precision;
use tenfill_engine::recipe::auto_rank;
use tenfill_engine::run::{
    Config, Every, Init, Limits, RunDirectory, check_rank, check_start, complete, largest_rank,
};
use tenfill_engine::shard::{Bins, Dataset, Manifest, ModeKind};
use tenfill_engine::storage::{Output, RealDisk, RunLayout};
use tenfill_engine::team::Team;
use tenfill_engine::units;
use tenfill_engine::usage::Usage;

/// Complete a dataset, or a raw file that is converted first
///
/// Fits a Tucker model, of the given rank or one that validation finds, to the train entries by Riemannian
/// preconditioned conjugate gradients, or to noisy data by sweeps over rows, streaming them from disk. The run directory holds the configuration, a
/// log with a line per iteration, checkpoints, and the best model so far. Ctrl-C cuts the pass short and keeps
/// what is done; `tenfill resume` goes on.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tenfill complete ratings.csv -o run                  convert the file, and let the data find the rank
  tenfill complete ratings.tenfill -o run --rank 4,4,4 --memory 512M --threads 4
  tenfill complete more.tenfill -o newer --init run    begin with the model of another run
  tenfill complete s3://bucket/ratings.tenfill --cache data -o run
  mpirun -np 4 tenfill complete ratings.tenfill -o run --rank 10 --threads 8 --lanes 32
The paper's method as it is:
  tenfill complete x.tns -o run --rank 5 --algorithm cg --metric preconditioned --tolerance 1e-12")]
pub(super) struct Arguments {
    /// The dataset, or a file that `convert` can read
    input: PathBuf,
    /// The run directory to make
    #[arg(short, long, value_name = "RUN")]
    output: PathBuf,
    /// Ranks, one per mode; one number for all modes; auto to let the data find them. Noisy data get
    /// at most these
    #[arg(long, value_parser = parse_ranks, value_name = "R,R,...|auto", default_value = "auto")]
    rank: RankArgument,
    #[command(flatten)]
    limits: LimitArguments,
    /// Seeds the start, and the split of a raw file
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    /// Where to start: scaled (random, fitted in scale), uniform or gaussian (the paper's raw start), spectral (one
    /// component after another, from the spectrum of what is left over), or the directory of a run whose model to start from
    #[arg(long, default_value = "scaled", value_name = "START|RUN")]
    init: String,
    /// Where a dataset in an object store (s3://bucket/name.tenfill) is kept on this machine
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Replace the run if it exists
    #[arg(long)]
    force: bool,
    /// Stop after this many iterations
    #[arg(long, default_value_t = 250, value_name = "N", help_heading = STOPPING)]
    max_iterations: usize,
    /// Stop when validation has not improved for this many iterations; 0 switches it off
    #[arg(long, default_value_t = 10, value_name = "N", help_heading = STOPPING)]
    patience: usize,
    #[command(flatten)]
    tolerance: ToleranceArguments,
    /// Stop when the gradient norm is at most this times the first
    #[arg(long, default_value = "1e-14", value_name = "SHARE", help_heading = STOPPING)]
    gradient_tolerance: f64,
    #[command(flatten)]
    recipe: RecipeArguments,
    #[command(flatten)]
    method: MethodArguments,
    /// How gradients are summed up; residuals are in double precision either way
    #[arg(long, value_enum, default_value_t = PrecisionArgument::Mixed, help_heading = METHOD, hide_short_help = true)]
    precision: PrecisionArgument,
    /// Lanes in which sums are taken: at least as many as processes; another number gives other
    /// roundings [default: 8, or the number of processes]
    #[arg(long, value_name = "N", value_parser = parse_lanes, help_heading = METHOD, hide_short_help = true)]
    lanes: Option<usize>,
    #[command(flatten)]
    convert: ConvertArguments,
}

/// What may change from one start of a run to the next.
#[derive(clap::Args)]
pub(super) struct LimitArguments {
    /// Memory to keep to, of each process [default: 1G, or a quarter of the machine's or container's]
    #[arg(long, value_parser = units::parse_size)]
    memory: Option<u64>,
    /// Threads of each process [default: one per core, or the process's share of them]
    #[arg(long, value_parser = parse_threads)]
    threads: Option<usize>,
    /// Checkpoint after this many iterations or this time: 10, 5m or 10,5m; 0 at the end only
    #[arg(long, default_value = "10", value_parser = Every::parse, value_name = "N|TIME")]
    checkpoint_every: Every,
}

impl LimitArguments {
    /// With the defaults where nothing is said.
    pub(super) fn limits(&self, context: &Context) -> Limits {
        let usual = Limits::of(context.team);
        Limits {
            memory: self.memory.unwrap_or(usual.memory),
            threads: self.threads.map_or(usual.threads, |asked| context.threads(Some(asked))),
            every: self.checkpoint_every,
            team: context.team,
        }
    }
}

/// Ranks as they are given.
#[derive(Clone)]
pub(super) enum RankArgument {
    Auto,
    Given(Ranks),
}

impl RankArgument {
    /// None where validation finds them.
    pub(super) fn given(&self) -> Option<&[usize]> {
        if let RankArgument::Given(ranks) = self { Some(ranks) } else { None }
    }
}

/// A number of lanes, at least one.
pub(super) fn parse_lanes(text: &str) -> Result<usize, String> {
    let lanes = text.parse().ok().filter(|lanes| (1..=65_536).contains(lanes));
    lanes.ok_or_else(|| format!("'{text}' is no number from 1 to 65536"))
}

pub(super) fn parse_ranks(text: &str) -> Result<RankArgument, String> {
    if text == "auto" {
        return Ok(RankArgument::Auto);
    }
    let ranks = parse_list::<usize>(text);
    ranks.map(RankArgument::Given).map_err(|what| format!("{what}: write 4, 4,4,4 or auto"))
}

#[derive(clap::ValueEnum, Clone, Copy)]
enum PrecisionArgument {
    /// The rows that every entry adds to in single precision: faster, and half the memory
    Mixed,
    /// Everything in double precision
    F64,
}

pub(super) fn run(mut arguments: Arguments, context: &Context) -> Result<ExitCode> {
    let usage = Usage::start();
    let (limits, team) = (arguments.limits.limits(context), context.team);
    let here = team.told_by_first(|| fetched(&arguments, context))?;
    if !here.is_empty() {
        arguments.input = PathBuf::from(here);
    }
    let directory = &arguments.output;
    let is_dataset = team.told_by_first(|| {
        arguments.recipe.check_removed()?;
        arguments.tolerance.check()?;
        check_tolerance("--gradient-tolerance", Some(arguments.gradient_tolerance))?;
        let is_dataset = Dataset::is_in(&arguments.input);
        let said = || context.modes.as_ref().map(|_| "modes".into()).or_else(|| said_of_a_file(&context.words));
        if is_dataset && let Some(option) = said() {
            let what = format!(
                "this is a dataset already, and `{option}` says how a file is converted: leave it out, or convert the \
                 file anew with it"
            );
            return Err(Error::input(&arguments.input, what));
        }
        Ok(is_dataset.to_string())
    })?;
    let is_dataset = is_dataset == true.to_string();
    // What is wrong with the request is said before anything is written.
    if is_dataset {
        team.agree(Dataset::open(&arguments.input).and_then(|dataset| {
            let manifest = dataset.manifest();
            check_start(&settle(&arguments, manifest, dataset.directory(), team)?, manifest)
        }))?;
    } else {
        team.agree(if team.is_first() { check_raw(&arguments, context) } else { Ok(()) })?;
    }
    let run = team.agree(match team.is_first() {
        true => RunDirectory::create(&RealDisk, &output(&arguments)),
        false => Ok(RunDirectory::written_elsewhere(directory)),
    })?;
    let outcome = prepare(&arguments, &run, is_dataset, context).and_then(|(dataset, config)| {
        complete(&run, &dataset, &config, &limits, &context.control, &*context.observe)
    });
    let outcome = outcome.map_err(|error| match error {
        Error::Budget { .. } | Error::Request(_) => match run.keep_data() {
            Some(kept) => keep(&arguments, error, kept, context),
            None => error,
        },
        // The user knows the file, not where it was converted to.
        Error::Input { file, what } if file.starts_with(run.path()) => Error::input(&arguments.input, what),
        error => error,
    })?;
    report(&outcome, directory, &usage, context)
}

/// What the engine says where nothing can find a rank.
const UNDECIDED: &str = "auto decides on validation entries";

/// What is said of a run that cannot begin though its file is converted.
fn keep(arguments: &Arguments, short: Error, kept: PathBuf, context: &Context) -> Error {
    let mut changed = Vec::new();
    if let Error::Budget { needed, .. } = short {
        changed.push(("memory", format!("{}M", needed.div_ceil(1 << 20))));
    } else if let Ok(dataset) = Dataset::open(&kept) {
        // What cannot be found can be given.
        let asked = arguments.rank.given().or(short.to_string().contains(UNDECIDED).then_some(&[4][..]));
        changed.extend(asked.map(|rank| ("rank", units::ranks(&largest_rank(rank, dataset.manifest())))));
    }
    // A program that calls has no use for a line of a shell.
    let again = context
        .answer
        .is_none()
        .then(|| super::again::command(&context.words, &arguments.input, &kept, &changed));
    Error::Kept { short: Box::new(short), kept, again }
}

/// Where a dataset of a store is on this machine; nothing where the input is no such dataset.
fn fetched(arguments: &Arguments, context: &Context) -> Result<String> {
    if !is_dataset(&arguments.input, &context.control)? {
        return Ok(String::new());
    }
    let Some(cache) = &arguments.cache else {
        let what = "a dataset in a store is kept on this machine: say where with --cache DIR";
        return Err(Error::input(&arguments.input, what));
    };
    let place = fetch(&RealDisk, &arguments.input, cache, &context.control)?;
    let what = "a cache needs a path that is UTF-8";
    place.to_str().map(String::from).ok_or_else(|| Error::input(&place, what))
}

/// The run to make, apart from all that is read for it.
fn output(arguments: &Arguments) -> Output {
    let inputs = [&arguments.input].into_iter().chain(arguments.convert.given());
    let start = Some(Path::new(&arguments.init)).filter(|_| is_run(&arguments.init));
    let inputs = inputs.map(PathBuf::as_path).chain(start);
    Output::new(&arguments.output, arguments.force).apart_from(inputs)
}

/// Whether a start is another run's model.
fn is_run(init: &str) -> bool {
    !["scaled", "uniform", "gaussian", "spectral"].contains(&init)
}

/// What can be seen to be wrong before a file is converted: what the options ask for together, and of the modes that it
/// will have.
fn check_raw(arguments: &Arguments, context: &Context) -> Result<()> {
    let options = convert_options(arguments, RunLayout::of(&arguments.output).data(), context)?;
    let input = &arguments.input;
    // What flows by can be looked at only once, and a store is asked only once.
    if !(input.is_file() || input.is_dir()) {
        return Ok(());
    }
    let plan = ingest::open(input, &options.read, &context.control)?.plan().clone();
    let whole = arguments.convert.given().next().is_none();
    // Further files may have further ids.
    let modes: Vec<(String, Option<u32>)> =
        plan.dims().map(|(name, dim)| (name, dim.filter(|_| whole))).collect();
    let mut manifest = Manifest::expected(&modes, options.holds_out_validation());
    for (mode, column) in manifest.modes.iter_mut().zip(&plan.modes) {
        if let ModeRole::Bins(Binning { width, time }) = column.role {
            mode.kind = ModeKind::Bins(Bins { origin: 0.0, width, time, per_second: 1.0, unit: None });
        }
    }
    check_start(&settle(arguments, &manifest, input, context.team)?, &manifest)
}

/// The ranks and the recipe for a dataset.
fn ask(arguments: &Arguments, manifest: &Manifest, directory: &Path, team: Team) -> Result<Config> {
    let rank = match &arguments.rank {
        RankArgument::Auto => auto_rank(manifest),
        RankArgument::Given(rank) => check_rank(rank, manifest)?,
    };
    let mut config = Config::of(manifest, directory, rank);
    config.lanes = match (arguments.lanes, &manifest.part) {
        (Some(lanes), Some(part)) if lanes != part.lanes => {
            let what = format!(
                "--lanes {lanes} does not go with parts that were cut by {}: leave it out, or distribute the \
                 dataset anew with --lanes {lanes}",
                part.lanes
            );
            return Err(Error::request(what));
        }
        (Some(lanes), _) => lanes,
        (None, Some(part)) => part.lanes,
        (None, None) => config.lanes.max(team.size()),
    };
    config.rank_auto = matches!(arguments.rank, RankArgument::Auto);
    config.recipe = arguments.recipe.recipe(manifest)?;
    arguments.method.set(&mut config, &arguments.recipe)?;
    config.recipe.check(manifest, config.rank_auto).map_err(|error| match error {
        // Made data has a flag of its own for it.
        Error::Request(what) if what.contains(UNDECIDED) => Error::Request(
            what.replace("or give `rank`", "make it with synth --validation 0.1, or give `rank`"),
        ),
        other => other,
    })?;
    Ok(config)
}

/// Converts a raw file, and puts together what the run is to be.
fn prepare(
    arguments: &Arguments,
    run: &RunDirectory<'_>,
    is_dataset: bool,
    context: &Context,
) -> Result<(Dataset, Config)> {
    let team = context.team;
    if is_dataset {
        return team.agree(configure(arguments, None, team));
    }
    // One process converts, and the others look at what it wrote.
    let data = run.layout().data();
    team.agree(if team.is_first() { convert_raw(arguments, data.clone(), context) } else { Ok(()) })?;
    let data = if team.is_alone() { data } else { told(team, &data)? };
    team.agree(configure(arguments, Some(&data), team))
}

/// The path that the first process has: a run that is being begun has a name of its own.
fn told(team: Team, path: &Path) -> Result<PathBuf> {
    let text = team.told_by_first(|| {
        let what = "several processes need an output whose path is UTF-8";
        path.to_str().map(String::from).ok_or_else(|| Error::input(path, what))
    });
    text.map(PathBuf::from)
}

fn convert_options(arguments: &Arguments, data: PathBuf, context: &Context) -> Result<ConvertOptions> {
    let mut convert = arguments.convert.clone();
    convert.set_modes(context);
    convert.options(
        vec![arguments.input.clone()],
        data,
        arguments.seed,
        arguments.limits.memory,
        context.threads(arguments.limits.threads),
        false,
    )
}

fn convert_raw(arguments: &Arguments, data: PathBuf, context: &Context) -> Result<()> {
    let options = convert_options(arguments, data, context)?;
    let converted = tenfill_engine::convert::convert(&options, &context.control)?;
    converted.notes.iter().for_each(|note| context.control.say(note));
    let place = RunLayout::of(&arguments.output).data();
    context.print(super::convert::summary(&converted.manifest, &place));
    Ok(())
}

/// The dataset, given or `converted`, and the configuration that the arguments ask for.
fn configure(arguments: &Arguments, converted: Option<&Path>, team: Team) -> Result<(Dataset, Config)> {
    let (dataset, recorded) = match converted {
        None => {
            let absolute = std::path::absolute(&arguments.input).context("find", &arguments.input)?;
            (Dataset::open(&arguments.input)?, absolute)
        }
        Some(data) => (Dataset::open(data)?, PathBuf::from(RunLayout::DATA)),
    };
    let mut config = settle(arguments, dataset.manifest(), dataset.directory(), team)?;
    config.dataset = recorded;
    Ok((dataset, config))
}

/// The configuration that the arguments ask for.
fn settle(arguments: &Arguments, manifest: &Manifest, directory: &Path, team: Team) -> Result<Config> {
    let mut config = ask(arguments, manifest, directory, team)?;
    config.seed = arguments.seed;
    config.init = match arguments.init.as_str() {
        "scaled" => Init::Scaled,
        "uniform" => Init::Uniform,
        "gaussian" => Init::Gaussian,
        "spectral" => Init::Spectral,
        run => Init::Run(std::path::absolute(run).context("find", run)?),
    };
    config.precision = match arguments.precision {
        PrecisionArgument::Mixed => Precision::Mixed,
        PrecisionArgument::F64 => Precision::F64,
    };
    let raw = matches!(config.init, Init::Uniform | Init::Gaussian | Init::Spectral);
    if raw && (config.rank_auto || !(config.recipe.is_plain() || config.recipe.sweeps)) {
        let what = "--init uniform, gaussian and spectral are starts of the plain method: give a rank, --bias none and \
                    --penalty 0";
        return Err(Error::request(what));
    }
    arguments.tolerance.set(&mut config);
    config.solver.gradient_tolerance = arguments.gradient_tolerance;
    config.solver.max_iterations = arguments.max_iterations;
    config.solver.patience = arguments.patience;
    Ok(config)
}
