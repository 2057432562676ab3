//! Which method a run follows: the options of `complete` behind [`Config::solver`] and its geometry.

use super::recipe::RecipeArguments;
use tenfill_engine::error::{Error, Result};
use tenfill_engine::recipe::Recipe;
use tenfill_engine::run::{Config, GeometryKind};
use tenfill_engine::solver::{Algorithm, Beta, StepRule};

/// Above options of the method in `--help`; `-h` leaves them out, as it does those above which stands [`MODEL`](super::recipe::MODEL).
pub(super) const METHOD: &str = "Method";
/// Above the rules that end a run.
pub(super) const STOPPING: &str = "Stopping";

/// Directions, steps and metric.
#[derive(clap::Args)]
#[command(next_help_heading = METHOD)]
pub(super) struct MethodArguments {
    /// How directions follow one another [default: auto, or cg where --beta, --step or --metric is given]
    #[arg(long, value_enum, hide_short_help = true)]
    algorithm: Option<AlgorithmArgument>,
    /// The factor of conjugate gradients [default: hs]
    #[arg(long, value_enum, hide_short_help = true)]
    beta: Option<BetaArgument>,
    /// How long a step is: the minimum of the linearised cost, or of the exact polynomial
    /// [default: linearised]
    #[arg(long, value_enum, hide_short_help = true)]
    step: Option<StepArgument>,
    /// The metric of the search space [default: damped]
    #[arg(long, value_enum, hide_short_help = true)]
    metric: Option<MetricArgument>,
}

impl MethodArguments {
    /// Sets the method of a configuration whose recipe is set; what does not go together is an error.
    pub(super) fn set(&self, config: &mut Config, recipe: &RecipeArguments) -> Result<()> {
        let named = self.beta.is_some() || self.step.is_some() || self.metric.is_some();
        let usual = if named { AlgorithmArgument::Cg } else { AlgorithmArgument::Auto };
        let algorithm = self.algorithm.unwrap_or(usual);
        if matches!(algorithm, AlgorithmArgument::GeomCg) {
            for (name, given) in [
                ("--beta", self.beta.is_some()),
                ("--step", self.step.is_some()),
                ("--metric", self.metric.is_some()),
                ("--rank auto", config.rank_auto),
                ("--bias and --penalty", recipe.asks_for_more()),
            ] {
                if given {
                    let what = format!("--algorithm geomcg has no choice of its own here: leave out {name}");
                    return Err(Error::request(what));
                }
            }
            config.use_geomcg();
        }
        if config.recipe.sweeps
            && (named || !matches!(algorithm, AlgorithmArgument::Auto | AlgorithmArgument::Cg))
        {
            // Sweeps over rows know no directions, steps or metrics: who names one means the plain method.
            config.recipe = Recipe { range: config.recipe.range, ..Recipe::plain() };
        }
        if let Some(metric) = self.metric {
            config.geometry = match metric {
                MetricArgument::Damped => GeometryKind::Damped,
                MetricArgument::Preconditioned => GeometryKind::Preconditioned,
                MetricArgument::Euclidean => GeometryKind::Euclidean,
            };
        }
        match algorithm {
            AlgorithmArgument::Auto => config.solver.algorithm = Algorithm::Auto,
            AlgorithmArgument::Cg => config.solver.algorithm = Algorithm::ConjugateGradient,
            AlgorithmArgument::Sd => config.solver.algorithm = Algorithm::SteepestDescent,
            AlgorithmArgument::Sgd => config.solver.algorithm = Algorithm::Stochastic,
            AlgorithmArgument::GeomCg => {}
        }
        if let Some(beta) = self.beta {
            config.solver.beta = match beta {
                BetaArgument::Hs => Beta::HestenesStiefel,
                BetaArgument::Pr => Beta::PolakRibiere,
                BetaArgument::HsDy => Beta::HestenesStiefelDaiYuan,
            };
        }
        if let Some(step) = self.step {
            config.solver.step = match step {
                StepArgument::Linearised => StepRule::Linearised,
                StepArgument::Exact => StepRule::Exact,
            };
        }
        config.check_method()
    }
}

/// When the error is small enough.
#[derive(clap::Args)]
#[command(next_help_heading = STOPPING)]
pub(super) struct ToleranceArguments {
    /// Stop when the train MSE is at most this share of the variance of the train values; 0 switches it
    /// off [default: 1e-12, or off where --tolerance is given]
    #[arg(long, value_name = "SHARE")]
    relative_tolerance: Option<f64>,
    /// Stop when the train MSE is at most this; 0 switches it off [default: off]
    #[arg(long, value_name = "MSE")]
    tolerance: Option<f64>,
}

impl ToleranceArguments {
    /// What is wrong with them.
    pub(super) fn check(&self) -> Result<()> {
        check_tolerance("--tolerance", self.tolerance)?;
        check_tolerance("--relative-tolerance", self.relative_tolerance)
    }

    /// Sets what was given.
    pub(super) fn set(&self, config: &mut Config) {
        config.set_tolerances(self.tolerance, self.relative_tolerance);
    }
}

/// A tolerance is a number that an error can be compared with.
pub(super) fn check_tolerance(name: &str, given: Option<f64>) -> Result<()> {
    match given.filter(|number| !(number.is_finite() && *number >= 0.0)) {
        Some(number) => Err(Error::request(format!("{name} {number} is negative or no number"))),
        None => Ok(()),
    }
}

#[derive(clap::ValueEnum, Clone, Copy)]
enum AlgorithmArgument {
    /// Few passes: steps from chunks of the data at first, then conjugate gradients, and in the end steps of
    /// one pass each; conjugate gradients where one of these fails
    Auto,
    /// Conjugate gradients
    Cg,
    /// Steepest descent
    Sd,
    /// Steps from chunks of the data with momentum, then conjugate gradients: fewer passes on data that
    /// are low-rank and sampled evenly
    Sgd,
    /// The method geomCG (Kressner, Steinlechner, Vandereycken 2014), without biases or penalty
    #[value(name = "geomcg")]
    GeomCg,
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
    /// The paper's, damped while the fit is bad: fewer iterations, and about as many with every seed
    Damped,
    /// The paper's as it is
    Preconditioned,
    /// The natural one of the factors and the core
    Euclidean,
}
