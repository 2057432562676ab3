//! Steps of one pass each, behind the plateau.
//!
//! An iteration of conjugate gradients reads the data twice: for the length of the step, and for cost and
//! gradient where it leads. Behind the plateau lengths hardly change, so a step of the last length goes nearly
//! the right way, and the gradients at both ends say how far it should have gone: the difference is made
//! good in the next step. With x the point, v an offset to where it should be, d a direction there, t the last
//! length and g^ what the gradient at x + v should be:
//!
//! z = R_x(v + t d), one pass: the cost there and g;   s_1 = <g, T d>,   s_0 = <T g^, T d>,
//! tau = min(-s_1 t / (s_1 - s_0), 2 t),   v+ = tau T d,   g^+ = g + tau / t (g - T g^),
//! y = g^+ - T g^,   beta = max(0, <g^+, y> / <y, T d>),   d+ = -g^+ + beta T d,   t+ = t + tau,
//!
//! everything in the metric at z, which is the next x. On the plateau this fails: y is dominated there by how
//! the Jacobian changes. So it begins when conjugate gradients have settled, and wherever a cost comes out higher
//! than before, or curvature is not positive, the way goes on from the last good point with two passes.

use super::iterate::{Solver, damping_after, keep_best, set_to_descent};
use super::objective::Objective;
use super::state::{Iteration, Phase, State};
use crate::manifold::{Point, Tangent};
use serde::{Deserialize, Serialize};

// What other values do: docs/thresholds.md.
/// Conjugate gradients have settled when a step is within this share of the last,
const ALIKE: f64 = 0.25;
/// and leaves at most this share of the cost,
const FALLING: f64 = 0.7;
/// so many times in a row.
const MOST_CALM: usize = 2;
/// A step is lengthened by at most so many times itself.
const LONGER: f64 = 2.0;

/// Where steps of one pass stand.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Secant {
    /// The numbers.
    pub about: SecantAbout,
    /// The vectors; none while iterations take two passes.
    pub ahead: Option<Ahead>,
}

/// The numbers of a [`Secant`].
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct SecantAbout {
    /// Iterations in a row by which conjugate gradients seem to have settled.
    pub calm: usize,
    /// The length of the next step.
    pub step: f64,
    /// What the cost should be at the point and the offset.
    pub expected: f64,
    /// <g, g> of the gradient at the point itself.
    pub square: f64,
}

/// The vectors of a [`Secant`]. The state's gradient is g^ meanwhile, what it should be at the point and
/// the offset.
#[derive(Debug, Clone, PartialEq)]
pub struct Ahead {
    /// The offset v.
    pub offset: Tangent,
    /// The gradient at the point itself: what to go on with where a step fails.
    pub gradient: Tangent,
}

impl Ahead {
    /// Room.
    fn zeros_like(point: &Point) -> Self {
        Ahead { offset: Tangent::zeros_like(point), gradient: Tangent::zeros_like(point) }
    }
}

/// Looks whether the iteration after `before`, of two passes, was one of those that steps of one pass may follow.
pub(super) fn look(state: &mut State, before: &Iteration) {
    let (Some(secant), last) = (state.secant.as_mut(), &state.last) else { return };
    let alike = (last.step - before.step).abs() <= ALIKE * before.step;
    let calm = before.phase == Some(Phase::TwoPass) && alike && last.cost < FALLING * before.cost;
    secant.about.calm =
        if calm && !last.restarted && last.backtracks == 0 { secant.about.calm + 1 } else { 0 };
    if secant.about.calm >= MOST_CALM {
        let mut ahead = Ahead::zeros_like(&state.point);
        ahead.gradient.copy_from(&state.gradient);
        secant.ahead = Some(ahead);
        secant.about =
            SecantAbout { calm: 0, step: last.step, expected: last.cost, square: state.gradient_square };
    }
}

impl Solver {
    /// A step of one pass. `None` where it failed: the state is then where it was, with the direction -grad.
    ///
    /// # Errors
    ///
    /// The objective's own; there is no way on from the state then but from a checkpoint.
    pub(super) fn step_secant<O: Objective>(
        &mut self,
        state: &mut State,
        objective: &mut O,
    ) -> Result<Option<Iteration>, O::Error> {
        let Some(mut secant) = state.secant.take() else { return Ok(None) };
        let Some(mut ahead) = secant.ahead.take() else {
            state.secant = Some(secant);
            return Ok(None);
        };
        let mut scratch = self.take_scratch(state);
        let (step, expected) = (secant.about.step, secant.about.expected);
        ahead.offset.axpy(step, &state.direction);
        let mut cost = None;
        if self.geometry().retract(&state.point, &ahead.offset, 1.0, &mut scratch.trial).is_ok() {
            state.last.passes += 1;
            cost = Some(objective.cost_and_gradient(&scratch.trial, &mut scratch.partials)?);
        }
        let Some(cost) = cost.filter(|cost| cost.total <= state.last.cost.max(expected)) else {
            std::mem::swap(&mut state.gradient, &mut ahead.gradient);
            set_to_descent(&mut state.direction, &state.gradient);
            state.gradient_square = secant.about.square;
            state.slope = -secant.about.square;
            secant.about = SecantAbout::default();
            state.secant = Some(secant);
            self.put_scratch(scratch);
            return Ok(None);
        };
        let validation_mse = objective.validation(&scratch.trial)?;
        let damping = damping_after(state.damping, step, &state.point);
        let missed = damping * objective.missed(&scratch.trial, &cost);
        let frame = self.geometry().frame_missing(&scratch.trial, missed);
        self.geometry().gradient(&frame, &mut scratch.partials);
        let square = frame.inner(&scratch.partials, &scratch.partials);
        self.geometry().transport(&frame, &state.point, &mut state.gradient);
        self.geometry().transport(&frame, &state.point, &mut state.direction);
        ahead.gradient.copy_from(&scratch.partials);
        let ends = [&state.gradient, &scratch.partials].map(|g| frame.inner(g, &state.direction));
        let curvature = ends[1] - ends[0];
        let further = (-ends[1] * step / curvature).min(LONGER * step);
        let mut beta = 0.0;
        let mut went = ends[0] < 0.0 && curvature > 0.0 && further.is_finite();
        if went {
            ahead.offset.copy_from(&state.direction);
            ahead.offset.scale(further);
            let share = further / step;
            scratch.partials.axpby(-share, &state.gradient, 1.0 + share);
            let (new, y) = (&scratch.partials, &mut state.gradient);
            y.axpby(1.0, new, -1.0);
            let found = frame.inner(new, y) / frame.inner(y, &state.direction);
            beta = if found.is_finite() { found.max(0.0) } else { 0.0 };
            state.direction.axpby(-1.0, new, beta);
            state.slope = frame.inner(new, &state.direction);
            state.gradient_square = frame.inner(new, new);
            went = state.slope < 0.0;
        }
        let guarded = frame.guarded();
        drop(frame);
        if went {
            std::mem::swap(&mut state.gradient, &mut scratch.partials);
            let expected = cost.total + ends[1] * further / 2.0;
            secant.about = SecantAbout { calm: 0, step: step + further, expected, square };
            secant.ahead = Some(ahead);
        } else {
            std::mem::swap(&mut state.gradient, &mut ahead.gradient);
            set_to_descent(&mut state.direction, &state.gradient);
            (state.gradient_square, state.slope) = (square, -square);
            secant.about = SecantAbout::default();
        }
        state.secant = Some(secant);
        std::mem::swap(&mut state.point, &mut scratch.trial);
        self.put_scratch(scratch);
        state.guards += guarded;
        state.damping = damping;
        state.last = Iteration {
            iteration: state.last.iteration + 1,
            phase: Some(Phase::OnePass),
            passes: state.last.passes,
            cost: cost.total,
            train_mse: cost.train_mse,
            train_mae: cost.train_mae,
            validation_mse,
            gradient_norm: square.sqrt(),
            step,
            beta,
            backtracks: 0,
            restarted: !went,
            guarded,
        };
        keep_best(state);
        Ok(Some(state.last))
    }
}
