//! `tenfill complete`, and the report that `tenfill resume` shares.

use super::convert::ConvertArguments;
use super::{Context, Ranks, parse_list};
use crate::error::{Error, IoContext, Result};
use crate::kernel::Precision;
use crate::run::{Config, Every, GeometryKind, Init, Limits, Outcome, RunDirectory, check_rank, complete};
use crate::shard::Dataset;
use crate::solver::{Algorithm, Beta, StepRule, StoppedBy};
use crate::storage::RealDisk;
use crate::units;
use crate::usage::Usage;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Complete a dataset, or a raw file that is converted first
///
/// Fits a Tucker model of the given rank to the train entries by Riemannian preconditioned
/// conjugate gradients, streaming them from disk. The run directory holds the configuration, a
/// log with a line per iteration, checkpoints, and the best model so far. Ctrl-C ends after the
/// iteration; `tenfill resume` goes on.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tenfill complete ratings.csv --rank 4,4,4 -o run
  tenfill complete ratings.tenfill --rank 10 -o run --memory 512M --threads 4
  tenfill complete tensor.tenfill --rank 5 -o run --max-iterations 500 --tolerance 1e-20 --patience 0
  tenfill complete ratings.tenfill --rank 4,4,4 -o better --init run")]
pub(super) struct Arguments {
    /// The dataset, or a file that `convert` can read
    input: PathBuf,
    /// The run directory to make
    #[arg(short, long, value_name = "RUN")]
    output: PathBuf,
    /// Ranks, one per mode; one number for all modes
    #[arg(long, value_parser = parse_list::<usize>, value_name = "R,R,...")]
    rank: Ranks,
    /// Stop when the train MSE is at most this; 0 switches it off
    #[arg(long, default_value_t = 1e-12)]
    tolerance: f64,
    /// Stop after this many iterations
    #[arg(long, default_value_t = 250, value_name = "N")]
    max_iterations: usize,
    /// Stop when validation has not improved for this many iterations; 0 switches it off
    #[arg(long, default_value_t = 10, value_name = "N")]
    patience: usize,
    /// Stop when the gradient norm is at most this times the first
    #[arg(long, default_value_t = 1e-14, value_name = "SHARE")]
    gradient_tolerance: f64,
    /// Where to start: scaled (random, fitted in scale), uniform or gaussian (the paper's raw
    /// start), or a run whose model to start from
    #[arg(long, default_value = "scaled", value_name = "START")]
    init: String,
    /// Seeds the start, and the split of a raw file
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How directions follow one another
    #[arg(long, value_enum, default_value_t = AlgorithmArgument::Cg)]
    algorithm: AlgorithmArgument,
    /// The factor of conjugate gradients
    #[arg(long, value_enum, default_value_t = BetaArgument::Hs)]
    beta: BetaArgument,
    /// How long a step is: the minimum of the linearised cost, or of the exact polynomial
    #[arg(long, value_enum, default_value_t = StepArgument::Linearised)]
    step: StepArgument,
    /// The metric: the paper's, or the natural one
    #[arg(long, value_enum, default_value_t = MetricArgument::Preconditioned)]
    metric: MetricArgument,
    /// How gradients are summed up; residuals are in double precision either way
    #[arg(long, value_enum, default_value_t = PrecisionArgument::Mixed)]
    precision: PrecisionArgument,
    #[command(flatten)]
    limits: LimitArguments,
    /// Replace the run if it exists
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    convert: ConvertArguments,
}

/// What may change from one start of a run to the next.
#[derive(clap::Args)]
pub(super) struct LimitArguments {
    /// Checkpoint after this many iterations or this time: 10, 5m or 10,5m; 0 at the end only
    #[arg(long, default_value = "10", value_parser = Every::parse, value_name = "N|TIME")]
    checkpoint_every: Every,
    /// Memory to keep to [default: 1G, or a quarter of the machine's]
    #[arg(long, value_parser = units::parse_size)]
    memory: Option<u64>,
    /// Threads [default: one per core]
    #[arg(long)]
    threads: Option<usize>,
}

impl LimitArguments {
    /// With the defaults where nothing is said.
    pub(super) fn limits(&self) -> Limits {
        let usual = Limits::default();
        Limits {
            memory: self.memory.unwrap_or(usual.memory),
            threads: self.threads.unwrap_or(usual.threads).max(1),
            every: self.checkpoint_every,
        }
    }
}

#[derive(clap::ValueEnum, Clone, Copy)]
enum AlgorithmArgument {
    /// Conjugate gradients
    Cg,
    /// Steepest descent
    Sd,
}

#[derive(clap::ValueEnum, Clone, Copy)]
enum BetaArgument {
    /// Hestenes-Stiefel, not below 0
    Hs,
    /// Polak-Ribiere, not below 0
    Pr,
    /// The smaller of Hestenes-Stiefel and Dai-Yuan, not below 0
    HsDy,
}

#[derive(clap::ValueEnum, Clone, Copy)]
enum StepArgument {
    Linearised,
    Exact,
}

#[derive(clap::ValueEnum, Clone, Copy)]
enum MetricArgument {
    Preconditioned,
    Euclidean,
}

#[derive(clap::ValueEnum, Clone, Copy)]
enum PrecisionArgument {
    /// The rows that every entry adds to in single precision: faster, and half the memory
    Mixed,
    /// Everything in double precision
    F64,
}

pub(super) fn run(arguments: Arguments, context: &Context) -> Result<ExitCode> {
    let usage = Usage::start();
    let limits = arguments.limits.limits();
    for (name, number) in
        [("--tolerance", arguments.tolerance), ("--gradient-tolerance", arguments.gradient_tolerance)]
    {
        if !(number.is_finite() && number >= 0.0) {
            return Err(Error::request(format!("{name} {number} is negative or no number")));
        }
    }
    let directory = &arguments.output;
    let is_dataset = arguments.input.join("manifest.json").is_file();
    // What is wrong with the request is said before anything is written.
    if is_dataset {
        check_rank(&arguments.rank, Dataset::open(&arguments.input)?.manifest())?;
    }
    let run = RunDirectory::create(&RealDisk, directory, arguments.force)?;
    match start(&arguments, &run, is_dataset, &limits, context) {
        Ok(outcome) => report(&outcome, directory, &usage, context),
        Err(error) => {
            run.abandon();
            Err(error)
        }
    }
}

fn start(
    arguments: &Arguments,
    run: &RunDirectory<'_>,
    is_dataset: bool,
    limits: &Limits,
    context: &Context,
) -> Result<Outcome> {
    let (dataset, recorded) = if is_dataset {
        let absolute = std::path::absolute(&arguments.input).context("find", &arguments.input)?;
        (Dataset::open(&arguments.input)?, absolute)
    } else {
        let data = arguments.output.join("data.tenfill");
        let options = arguments.convert.clone().options(
            vec![arguments.input.clone()],
            data.clone(),
            arguments.seed,
            arguments.limits.memory,
            arguments.limits.threads,
            false,
        )?;
        let converted = crate::convert::convert(&options, &context.control)?;
        converted.notes.iter().for_each(|note| context.control.say(note));
        context.print(super::convert::summary(&converted.manifest, &data));
        (Dataset::open(&data)?, PathBuf::from("data.tenfill"))
    };
    let mut config = Config::new(&dataset, arguments.rank.clone());
    config.dataset = recorded;
    config.seed = arguments.seed;
    config.init = match arguments.init.as_str() {
        "scaled" => Init::Scaled,
        "uniform" => Init::Uniform,
        "gaussian" => Init::Gaussian,
        run => Init::Run(std::path::absolute(run).context("find", run)?),
    };
    config.precision = match arguments.precision {
        PrecisionArgument::Mixed => Precision::Mixed,
        PrecisionArgument::F64 => Precision::F64,
    };
    config.geometry = match arguments.metric {
        MetricArgument::Preconditioned => GeometryKind::Preconditioned,
        MetricArgument::Euclidean => GeometryKind::Euclidean,
    };
    config.solver.algorithm = match arguments.algorithm {
        AlgorithmArgument::Cg => Algorithm::ConjugateGradient,
        AlgorithmArgument::Sd => Algorithm::SteepestDescent,
    };
    config.solver.beta = match arguments.beta {
        BetaArgument::Hs => Beta::HestenesStiefel,
        BetaArgument::Pr => Beta::PolakRibiere,
        BetaArgument::HsDy => Beta::HestenesStiefelDaiYuan,
    };
    config.solver.step = match arguments.step {
        StepArgument::Linearised => StepRule::Linearised,
        StepArgument::Exact => StepRule::Exact,
    };
    config.solver.tolerance = arguments.tolerance;
    config.solver.gradient_tolerance = arguments.gradient_tolerance;
    config.solver.max_iterations = arguments.max_iterations;
    config.solver.patience = arguments.patience;
    complete(run, &dataset, &config, limits, &context.control)
}

/// The outcome for people and programs.
pub(super) fn report(outcome: &Outcome, run: &Path, usage: &Usage, context: &Context) -> Result<ExitCode> {
    let show = |name: &str, mse: Option<f64>| {
        mse.map_or(String::new(), |mse| format!("\n  {name:10} MSE {mse:.6e}   RMSE {:.6}", mse.sqrt()))
    };
    let kept = match outcome.best_iteration == outcome.last.iteration {
        true => String::new(),
        false => format!(", the model of iteration {} is kept", outcome.best_iteration),
    };
    context.print(format_args!(
        "{}: {} iterations ({} passes), stopped by {}{kept}{}{}{}\n  {} wall, {} CPU, peak {} of memory",
        run.display(),
        outcome.last.iteration,
        outcome.last.passes,
        outcome.stopped_by,
        show("train", Some(outcome.train_mse)),
        show("validation", outcome.validation_mse),
        show("test", outcome.test_mse),
        units::duration(outcome.progress.seconds),
        units::duration(outcome.progress.cpu_seconds),
        units::size(usage.peak_anon_bytes()),
    ));
    context.finish(&json!({
        "iterations": outcome.last.iteration,
        "passes": outcome.last.passes,
        "rank": outcome.rank,
        "train_mse": outcome.train_mse,
        "validation_mse": outcome.validation_mse,
        "test_mse": outcome.test_mse,
        "best_iteration": outcome.best_iteration,
        "gradient_norm": outcome.last.gradient_norm,
        "stopped_by": outcome.stopped_by.as_str(),
        "seconds": outcome.progress.seconds,
        "cpu_seconds": outcome.progress.cpu_seconds,
        "peak_anon_bytes": usage.peak_anon_bytes(),
    }));
    if outcome.stopped_by == StoppedBy::Interrupted {
        context.control.say(format!("`tenfill resume {}` goes on", run.display()));
        return Ok(ExitCode::from(130));
    }
    Ok(ExitCode::SUCCESS)
}
