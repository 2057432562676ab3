//! `tenfill resume`.

use super::Context;
use super::complete::LimitArguments;
use super::method::{STOPPING, ToleranceArguments};
use super::outcome::report;
use std::path::PathBuf;
use std::process::ExitCode;
use tenfill_engine::error::{Error, Result};
use tenfill_engine::run::{Config, End, RunDirectory, resume};
use tenfill_engine::solver::{Phase, StoppedBy};
use tenfill_engine::storage::RealDisk;
use tenfill_engine::usage::Usage;

/// Go on with a run from its newest good checkpoint
///
/// The result has the same bits as that of a run that was never interrupted, with any number of
/// threads and of processes. Limits may change; what would alter the meaning of the state may not.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tenfill resume run
  tenfill resume run --max-iterations 500 --threads 4
  mpirun -np 4 tenfill resume run")]
pub(super) struct Arguments {
    /// The run
    run: PathBuf,
    #[command(flatten)]
    limits: LimitArguments,
    /// Stop after this many iterations in all
    #[arg(long, value_name = "N", help_heading = STOPPING)]
    max_iterations: Option<usize>,
    /// Stop when validation has not improved for this many iterations; 0 switches it off
    #[arg(long, value_name = "N", help_heading = STOPPING)]
    patience: Option<usize>,
    #[command(flatten)]
    tolerance: ToleranceArguments,
    #[arg(long, hide = true)]
    rank: Option<String>,
    #[arg(long, hide = true)]
    seed: Option<String>,
    #[arg(long, hide = true)]
    init: Option<String>,
    #[arg(long, hide = true)]
    algorithm: Option<String>,
    #[arg(long, hide = true)]
    beta: Option<String>,
    #[arg(long, hide = true)]
    step: Option<String>,
    #[arg(long, hide = true)]
    metric: Option<String>,
    #[arg(long, hide = true)]
    bias: Option<String>,
    #[arg(long, hide = true)]
    penalty: Option<String>,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode> {
    let usage = Usage::start();
    let fixed = [
        ("--rank", &arguments.rank, "the factors have the rank that the run began with"),
        ("--seed", &arguments.seed, "it chose the start, which lies behind"),
        ("--init", &arguments.init, "it chose the start, which lies behind"),
        ("--algorithm", &arguments.algorithm, "the search direction belongs to it"),
        ("--beta", &arguments.beta, "the search direction belongs to it"),
        ("--step", &arguments.step, "the search direction belongs to it"),
        ("--metric", &arguments.metric, "gradient and direction belong to it"),
        ("--bias", &arguments.bias, "the factors belong to the biases beside them"),
        ("--penalty", &arguments.penalty, "the factors belong to it"),
    ];
    for (name, given, reason) in fixed {
        if given.is_some() {
            let what = format!(
                "{name} cannot change in a resumed run: {reason}; start another with complete --init"
            );
            return context.team.agree(Err(Error::request(what)));
        }
    }
    context.team.agree(arguments.tolerance.check())?;
    let limits = arguments.limits.limits(context);
    let change = |config: &mut Config| {
        arguments.tolerance.set(config);
        let options = &mut config.solver;
        options.max_iterations = arguments.max_iterations.unwrap_or(options.max_iterations);
        options.patience = arguments.patience.unwrap_or(options.patience);
    };
    let run = context.team.agree(match context.team.is_first() {
        true => RunDirectory::open(&RealDisk, &arguments.run),
        false => Ok(RunDirectory::written_elsewhere(&arguments.run)),
    })?;
    let before = End::read(&arguments.run).ok().flatten();
    let outcome = resume(&run, change, &limits, &context.control, &*context.observe)?;
    let ended = before.is_some_and(|end| {
        end.stopped_by != StoppedBy::Interrupted.as_str() && end.iterations == outcome.last.iteration
    });
    if ended && outcome.stopped_by != StoppedBy::Interrupted {
        let how = match outcome.stopped_by {
            StoppedBy::MaxIterations => "a larger `max_iterations` goes on",
            StoppedBy::Patience if matches!(outcome.last.phase, Some(Phase::Sweep | Phase::Refit)) => {
                "the sweeps have settled and nothing is left to try, whatever `patience` is (a new run with other options \
                 may find more)"
            }
            StoppedBy::Patience => "a larger `patience` goes on, or 0 with `max_iterations`",
            StoppedBy::Tolerance => "a smaller `tolerance` goes on",
            _ => "there is no further iteration",
        };
        let what = format!("the run had ended already, stopped by {}: {how}", outcome.stopped_by);
        context.control.say(what);
    }
    report(&outcome, &arguments.run, &usage, context)
}
