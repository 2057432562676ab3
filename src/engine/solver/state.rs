//! All that the next iteration depends on.

use serde::{Deserialize, Serialize};

use super::secant::Secant;
use super::stochastic::Stochastic;
use crate::manifold::{Point, Tangent};
use crate::team::Team;

/// What an iteration is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// None: the first point.
    Start,
    /// Steps from chunks of the data, one pass in all.
    Chunks,
    /// A pass for the length of the step, and one for the gradient where it leads.
    TwoPass,
    /// One pass: the length follows from the gradients at both ends.
    OnePass,
    /// Two passes, while components are found one by one in the spectrum of what is left over.
    Spectral,
    /// Every row fitted to its own entries, mode by mode.
    Sweep,
    /// The same, once more and to the validation entries as well.
    Refit,
}

/// The record of one iteration: a line of the log.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Iteration {
    /// 0 for the start.
    pub iteration: usize,
    /// What it is made of. (Files of older versions do not say.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Passes over the train entries up to here.
    pub passes: usize,
    /// The cost at this iterate; the train MSE unless the objective adds to it.
    pub cost: f64,
    /// The mean squared residual on the train entries.
    pub train_mse: f64,
    /// The mean absolute residual on them. (Checkpoints of older versions do not know it.)
    #[serde(default)]
    pub train_mae: f64,
    /// The mean squared error on the validation entries, where there are any.
    pub validation_mse: Option<f64>,
    /// The norm of the Riemannian gradient at this iterate, in the metric there.
    pub gradient_norm: f64,
    /// The step, along the direction as it is, that led here; 0 at the start.
    pub step: f64,
    /// The beta computed at this iterate (not used where the direction was then set back to -grad);
    /// 0 at the start and in steepest descent.
    pub beta: f64,
    /// How many times the step that led here was halved.
    pub backtracks: usize,
    /// Whether the direction was set back to -grad, either before the step that led here because
    /// no step along it would do, or at this iterate because it did not descend.
    pub restarted: bool,
    /// How many eigenvalues of G_d G_d^T the metric had to raise at this iterate.
    pub guarded: usize,
}

/// The best model by validation so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Best {
    /// The model.
    pub point: Point,
    /// Its validation MSE.
    pub validation_mse: f64,
    /// Its train MSE.
    pub train_mse: f64,
    /// The iteration that found it.
    pub iteration: usize,
}

/// All that the next iteration depends on. A state rebuilt from its fields goes on to the same
/// bits.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// The present iterate.
    pub point: Point,
    /// The Riemannian gradient there.
    pub gradient: Tangent,
    /// The direction of the next step.
    pub direction: Tangent,
    /// <gradient, direction> in the metric at the point; negative.
    pub slope: f64,
    /// <gradient, gradient> in the metric at the point.
    pub gradient_square: f64,
    /// The gradient norm at the start, to which the stopping rule is relative.
    pub first_gradient_norm: f64,
    /// The record of the newest iteration.
    pub last: Iteration,
    /// The best model by validation; none without validation entries.
    pub best: Option<Best>,
    /// Eigenvalues that the metric had to raise, over all iterates.
    pub guards: usize,
    /// How much of its damping a metric takes, for metrics that are damped: more after short steps, less
    /// after long ones.
    pub damping: f64,
    /// Whether no step lowered the cost, not even along -grad: there is no next iteration.
    pub stuck: bool,
    /// Where steps from chunks of the data stand, before conjugate gradients begin; none where there are
    /// no such steps (any more).
    pub stochastic: Option<Box<Stochastic>>,
    /// Whether steps of one pass each may follow, and where they stand; none where they may not.
    pub secant: Option<Box<Secant>>,
}

impl State {
    /// Of a solver that has nothing to do, while others find the model (or its first point): what is known from before, the best
    /// model and the records, and a point that is zero.
    pub(crate) fn idle(dims: &[usize], team: Team, before: Option<&State>) -> Self {
        let point = Point::zeros(dims, &vec![1; dims.len()]).divided(team);
        State {
            gradient: Tangent::zeros_like(&point),
            direction: Tangent::zeros_like(&point),
            point,
            slope: 0.0,
            gradient_square: 0.0,
            first_gradient_norm: 0.0,
            last: before.map_or_else(Iteration::default, |before| before.last),
            best: before.and_then(|before| before.best.clone()),
            guards: before.map_or(0, |before| before.guards),
            damping: 1.0,
            stuck: false,
            stochastic: None,
            secant: None,
        }
    }

    /// The model of the run so far: the best by validation, the last where there is no
    /// validation.
    pub fn model(&self) -> &Point {
        self.best.as_ref().map_or(&self.point, |best| &best.point)
    }
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoppedBy {
    /// The train MSE is at most the tolerance, or exactly 0.
    Tolerance,
    /// The gradient norm is small beside the first.
    Gradient,
    /// The validation MSE has not improved for too long.
    Patience,
    /// The iterations were used up.
    MaxIterations,
    /// The observer asked for it.
    Interrupted,
    /// No step lowered the cost, not even along -grad: rounding is all that is left.
    Step,
    /// The train MSE hardly falls any more: what is left is taken for noise.
    Floor,
}

impl StoppedBy {
    /// The word for it in logs and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            StoppedBy::Tolerance => "tolerance",
            StoppedBy::Gradient => "gradient",
            StoppedBy::Patience => "patience",
            StoppedBy::MaxIterations => "max-iterations",
            StoppedBy::Interrupted => "interrupted",
            StoppedBy::Step => "step",
            StoppedBy::Floor => "floor",
        }
    }
}

impl std::fmt::Display for StoppedBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
