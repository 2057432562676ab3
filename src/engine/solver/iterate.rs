//! One iteration, and the loop around it: conjugate gradients in manifold verbs.

use std::ops::ControlFlow;

use super::objective::{Cost, Objective};
use super::options::{
    ADAPTATION, ARMIJO, Algorithm, Beta, LEAST_DAMPING, MAX_TRIES, MODERATE, MOST_DAMPING, ORTHOGONAL,
    Options, StepRule,
};
use super::polynomial::least_minimum;
use super::state::{Best, Iteration, Phase, State, StoppedBy};
use crate::manifold::{Frame, Geometry, Point, Tangent, retract_absorbing};

/// Nonlinear conjugate gradients, or steepest descent, on the Tucker manifold.
///
/// An iteration is two passes over the data: the sums of the step, and cost and gradient of the
/// trial point in one. All that matters from one iteration to the next is in the [`State`]; the
/// solver itself keeps only room to work in.
pub struct Solver {
    geometry: Box<dyn Geometry>,
    options: Options,
    scratch: Option<Scratch>,
}

/// Scratch for a trial point and its partials. What is in it between iterations matters to nobody.
pub(super) struct Scratch {
    pub(super) trial: Point,
    pub(super) partials: Tangent,
}

/// A step that lowers the cost; its point and partials are in the scratch.
struct Accepted {
    cost: Cost,
    step: f64,
    backtracks: usize,
}

impl Solver {
    /// A solver with this metric and these options.
    pub fn new(geometry: impl Geometry + 'static, options: Options) -> Self {
        Solver::boxed(Box::new(geometry), options)
    }

    /// A solver with a metric that was chosen at run time.
    pub fn boxed(geometry: Box<dyn Geometry>, options: Options) -> Self {
        Solver { geometry, options, scratch: None }
    }

    /// The options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The state at a first point: one pass for cost and gradient, direction -grad.
    ///
    /// # Errors
    ///
    /// The objective's own.
    pub fn start<O: Objective>(&mut self, objective: &mut O, point: Point) -> Result<State, O::Error> {
        let mut gradient = Tangent::zeros_like(&point);
        let cost = objective.cost_and_gradient(&point, &mut gradient)?;
        let validation_mse = objective.validation(&point)?;
        let frame = self.geometry.frame_missing(&point, objective.missed(&point, &cost));
        self.geometry.gradient(&frame, &mut gradient);
        let square = frame.inner(&gradient, &gradient);
        let guarded = frame.guarded();
        drop(frame);
        let mut direction = gradient.clone();
        direction.scale(-1.0);
        let last = Iteration {
            iteration: 0,
            phase: Some(Phase::Start),
            passes: 1,
            cost: cost.total,
            train_mse: cost.train_mse,
            train_mae: cost.train_mae,
            validation_mse,
            gradient_norm: square.sqrt(),
            step: 0.0,
            beta: 0.0,
            backtracks: 0,
            restarted: false,
            guarded,
        };
        let train_mse = cost.train_mse;
        let best = validation_mse.map(|validation_mse| Best {
            point: point.clone(),
            validation_mse,
            train_mse,
            iteration: 0,
        });
        Ok(State {
            point,
            gradient,
            direction,
            slope: -square,
            gradient_square: square,
            first_gradient_norm: square.sqrt(),
            last,
            best,
            guards: guarded,
            damping: 1.0,
            stuck: false,
            stochastic: None,
            secant: (self.options.algorithm == Algorithm::Auto).then(Box::default),
        })
    }

    /// Goes one step. `None` where no step lowers the cost, neither along the direction nor along
    /// -grad; the state is then `stuck` and otherwise at the same point.
    ///
    /// # Errors
    ///
    /// The objective's own; the state is still at the same point then.
    pub fn iterate<O: Objective>(
        &mut self,
        state: &mut State,
        objective: &mut O,
    ) -> Result<Option<Iteration>, O::Error> {
        let mut restarted = false;
        if state.secant.as_ref().is_some_and(|secant| secant.ahead.is_some()) {
            if let Some(iteration) = self.step_secant(state, objective)? {
                return Ok(Some(iteration));
            }
            restarted = true;
        }
        let before = state.last;
        let mut scratch = self.take_scratch(state);
        let mut accepted = self.line_search(state, objective, &mut scratch)?;
        // Where the direction is -grad already, trying it again would only repeat the failure.
        if accepted.is_none() && state.slope != -state.gradient_square {
            restarted = true;
            set_to_descent(&mut state.direction, &state.gradient);
            state.slope = -state.gradient_square;
            accepted = self.line_search(state, objective, &mut scratch)?;
        }
        let Some(accepted) = accepted else {
            state.stuck = true;
            self.scratch = Some(scratch);
            return Ok(None);
        };
        let validation_mse = objective.validation(&scratch.trial)?;
        let damping = damping_after(state.damping, accepted.step, &state.point);
        let missed = damping * objective.missed(&scratch.trial, &accepted.cost);
        let frame = self.geometry.frame_missing(&scratch.trial, missed);
        self.geometry.gradient(&frame, &mut scratch.partials);
        let square = frame.inner(&scratch.partials, &scratch.partials);
        let (beta, turned_back) = self.turn(state, &frame, &scratch.partials, square);
        restarted |= turned_back;
        let guarded = frame.guarded();
        drop(frame);

        std::mem::swap(&mut state.point, &mut scratch.trial);
        std::mem::swap(&mut state.gradient, &mut scratch.partials);
        self.scratch = Some(scratch);
        state.gradient_square = square;
        state.guards += guarded;
        state.damping = damping;
        state.last = Iteration {
            iteration: state.last.iteration + 1,
            phase: Some(Phase::TwoPass),
            passes: state.last.passes,
            cost: accepted.cost.total,
            train_mse: accepted.cost.train_mse,
            train_mae: accepted.cost.train_mae,
            validation_mse,
            gradient_norm: square.sqrt(),
            step: accepted.step,
            beta,
            backtracks: accepted.backtracks,
            restarted,
            guarded,
        };
        keep_best(state);
        super::secant::look(state, &before);
        Ok(Some(state.last))
    }

    /// Iterates until a stopping rule holds or the observer asks for an end. The observer sees
    /// every iteration with the state after it: the place to log, to write a checkpoint, to look
    /// for Ctrl-C.
    ///
    /// # Errors
    ///
    /// The objective's own.
    pub fn run<O: Objective>(
        &mut self,
        state: &mut State,
        objective: &mut O,
        mut observer: impl FnMut(&Iteration, &State) -> ControlFlow<()>,
    ) -> Result<StoppedBy, O::Error> {
        loop {
            if let Some(reason) = self.stop(state) {
                return Ok(reason);
            }
            let Some(iteration) = self.iterate(state, objective)? else {
                return Ok(StoppedBy::Step);
            };
            if observer(&iteration, state).is_break() {
                return Ok(self.stop(state).unwrap_or(StoppedBy::Interrupted));
            }
        }
    }

    /// Which stopping rule holds at a state, if any.
    pub fn stop(&self, state: &State) -> Option<StoppedBy> {
        let (options, last) = (&self.options, &state.last);
        let off = options.tolerance == 0.0 && last.train_mse > 0.0;
        let stale = |best: &Best| last.iteration - best.iteration >= options.patience;
        if last.train_mse <= options.tolerance && !off {
            Some(StoppedBy::Tolerance)
        } else if last.gradient_norm <= options.gradient_tolerance * state.first_gradient_norm {
            Some(StoppedBy::Gradient)
        } else if state.stuck {
            Some(StoppedBy::Step)
        } else if options.patience > 0 && state.best.as_ref().is_some_and(stale) {
            Some(StoppedBy::Patience)
        } else if last.iteration >= options.max_iterations {
            Some(StoppedBy::MaxIterations)
        } else {
            None
        }
    }

    /// Evaluates cost and gradient at the present point again, for an objective that has changed
    /// between two iterations (biases fitted anew, say). The direction is kept where it still
    /// descends. One pass.
    ///
    /// # Errors
    ///
    /// The objective's own; the state is unchanged then.
    pub fn refresh<O: Objective>(&mut self, state: &mut State, objective: &mut O) -> Result<(), O::Error> {
        let mut scratch = self.take_scratch(state);
        let cost = objective.cost_and_gradient(&state.point, &mut scratch.partials)?;
        let missed = state.damping * objective.missed(&state.point, &cost);
        let frame = self.geometry.frame_missing(&state.point, missed);
        self.geometry.gradient(&frame, &mut scratch.partials);
        let square = frame.inner(&scratch.partials, &scratch.partials);
        state.slope = frame.inner(&scratch.partials, &state.direction);
        drop(frame);
        std::mem::swap(&mut state.gradient, &mut scratch.partials);
        self.scratch = Some(scratch);
        if state.slope >= 0.0 {
            set_to_descent(&mut state.direction, &state.gradient);
            state.slope = -square;
        }
        state.gradient_square = square;
        state.last.passes += 1;
        state.last.cost = cost.total;
        state.last.train_mse = cost.train_mse;
        state.last.train_mae = cost.train_mae;
        state.last.gradient_norm = square.sqrt();
        state.stuck = false;
        Ok(())
    }

    /// Looks for a step along the state's direction: first the rule's, then half of it, and so on.
    fn line_search<O: Objective>(
        &self,
        state: &mut State,
        objective: &mut O,
        scratch: &mut Scratch,
    ) -> Result<Option<Accepted>, O::Error> {
        state.last.passes += 1;
        let first = match self.options.step {
            StepRule::Linearised => {
                let sums = objective.step_sums(&state.point, &state.direction)?;
                Some(-sums.slope / sums.curvature)
            }
            StepRule::Exact => least_minimum(&objective.line_polynomial(&state.point, &state.direction)?),
        };
        let Some(mut step) = first.filter(|s| s.is_finite() && *s > 0.0) else {
            return Ok(None);
        };
        for backtracks in 0..MAX_TRIES {
            let (from, along, to) = (&state.point, &state.direction, &mut scratch.trial);
            let moved = match self.options.step {
                StepRule::Linearised => self.geometry.retract(from, along, step, to),
                StepRule::Exact => retract_absorbing(from, along, step, to),
            };
            if moved.is_ok() {
                state.last.passes += 1;
                let cost = objective.cost_and_gradient(&scratch.trial, &mut scratch.partials)?;
                if cost.total <= state.last.cost + ARMIJO * step * state.slope {
                    return Ok(Some(Accepted { cost, step, backtracks }));
                }
            }
            step /= 2.0;
        }
        Ok(None)
    }

    /// Sets the state's direction and slope for the new gradient `g`, whose point is the frame's,
    /// and returns beta and whether the direction had to be set back to -grad. The state's old
    /// gradient is used up.
    fn turn(&self, state: &mut State, frame: &Frame<'_>, g: &Tangent, square: f64) -> (f64, bool) {
        if self.options.algorithm == Algorithm::SteepestDescent {
            set_to_descent(&mut state.direction, g);
            state.slope = -square;
            return (0.0, false);
        }
        self.geometry.transport(frame, &state.point, &mut state.gradient);
        self.geometry.transport(frame, &state.point, &mut state.direction);
        let y = &mut state.gradient;
        y.axpby(1.0, g, -1.0);
        // <g+, T(g)> is what <g+, y> leaves of <g+, g+>.
        let orthogonal = |y: &Tangent| (square - frame.inner(g, y)).abs() < ORTHOGONAL * square;
        let restart = self.options.algorithm == Algorithm::GeomCg && !orthogonal(y);
        let hestenes_stiefel = |y: &Tangent, d: &Tangent| frame.inner(g, y) / frame.inner(y, d);
        let beta = match self.options.beta {
            Beta::HestenesStiefel => hestenes_stiefel(y, &state.direction),
            Beta::PolakRibiere => frame.inner(g, y) / state.gradient_square,
            Beta::HestenesStiefelDaiYuan => {
                let across = frame.inner(y, &state.direction);
                (frame.inner(g, y) / across).min(square / across)
            }
        };
        // Not a number, where a difference is exactly zero, counts as 0.
        let beta = if beta.is_finite() { beta.max(0.0) } else { 0.0 };
        state.direction.axpby(-1.0, g, beta);
        state.slope = frame.inner(g, &state.direction);
        let turn_back = restart || state.slope >= 0.0;
        if turn_back {
            set_to_descent(&mut state.direction, g);
            state.slope = -square;
        }
        (beta, turn_back)
    }

    /// The metric.
    pub(super) fn geometry(&self) -> &dyn Geometry {
        &*self.geometry
    }

    /// Gives scratch back.
    pub(super) fn put_scratch(&mut self, scratch: Scratch) {
        self.scratch = Some(scratch);
    }

    pub(super) fn take_scratch(&mut self, state: &State) -> Scratch {
        let same = |scratch: &Scratch| {
            scratch.trial.dims() == state.point.dims() && scratch.trial.ranks() == state.point.ranks()
        };
        self.scratch.take().filter(same).unwrap_or_else(|| Scratch {
            trial: Point::zeros_like(&state.point),
            partials: Tangent::zeros_like(&state.point),
        })
    }
}

/// The damping after a step: of the fully sampled problem, n_1 ... n_D / 2 is the whole step. A fifth of that
/// is neither short nor long; what is shorter comes from weak directions that are divided by too little.
pub(super) fn damping_after(damping: f64, step: f64, point: &Point) -> f64 {
    let whole = point.cells() / 2.0;
    (damping * (MODERATE * whole / step).powf(ADAPTATION)).clamp(LEAST_DAMPING, MOST_DAMPING)
}

/// direction = -gradient.
pub(super) fn set_to_descent(direction: &mut Tangent, gradient: &Tangent) {
    direction.copy_from(gradient);
    direction.scale(-1.0);
}

/// Keeps the newest point where its validation MSE is the best so far.
pub(super) fn keep_best(state: &mut State) {
    let Iteration { validation_mse: Some(validation_mse), train_mse, iteration, .. } = state.last else {
        return;
    };
    match &mut state.best {
        Some(best) if validation_mse < best.validation_mse => {
            if best.point.ranks() == state.point.ranks() {
                best.point.copy_from(&state.point);
            } else {
                best.point = state.point.clone();
            }
            (best.validation_mse, best.train_mse, best.iteration) = (validation_mse, train_mse, iteration);
        }
        Some(_) => {}
        none => *none = Some(Best { point: state.point.clone(), validation_mse, train_mse, iteration }),
    }
}
