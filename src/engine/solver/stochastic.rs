//! A step per chunk of the data instead of one per pass: momentum, and a metric that is damped at
//! first.
//!
//! With Omega cut into chunks, g_k the chunk's share of the gradient (the shares add up to the whole
//! one) in the metric A_d + delta |A_d| I, and D the chunks' weights below, a step is
//!
//! v = 0.7 T(v) - 0.2 t D g_k,   x = R_x(v),
//!
//! (0.25 where they are only to cross the plateau), where t = n_1 ... n_D / 2 is the whole step of the fully
//! sampled problem. An epoch is a step for every chunk in a seeded order: one pass over the data. The sum of the
//! chunks' costs, each measured when its turn came, is the epoch's cost, so that nothing is read to measure it.
//!
//! The paper's metric divides by the eigenvalues of G_d G_d^T. Far from the solution the weak ones are
//! noise, and steps from a part of the data that are divided by them blow up: this is what made such
//! steps diverge. So the metric begins damped (delta = 0.01) and every epoch that does not get worse
//! damps it less. One that gets worse is taken back: to the start of the epoch before it, without
//! momentum, with half the step and more damping. (Where they are only to cross the plateau, see `is_at_risk`.) When epochs gain less than conjugate gradients would,
//! these take over.

use super::iterate::Solver;
use super::objective::Objective;
use super::state::{Iteration, Phase, State};
use crate::manifold::{Frame, Geometry, Point, retract};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

// What other values do: docs/thresholds.md.
/// What of the last step goes into the next one.
const MOMENTUM: f64 = 0.7;
/// The share of the whole step: with the momentum's sum 1 / (1 - 0.7), two thirds of it in the end.
const RATE: f64 = 0.2;
/// The first damping of the metric, as a share of the largest eigenvalue.
const DAMPING: f64 = 0.01;
/// The damping changes by these factors after an epoch that got better, and one that got worse.
const LESS: f64 = 0.1;
const MORE: f64 = 100.0;
/// An epoch is given up on the way when it costs this many times as much as the one before.
const HOPELESS: f64 = 20.0;
/// Conjugate gradients take over after so many epochs that were taken back,
const MOST_HALVINGS: usize = 6;
/// or so many in a row that left more than this share of the cost, when damping is not the reason.
const MOST_SLOW: usize = 3;
const SLOW: f64 = 0.75;
const UNDAMPED: f64 = 1e-8;
/// Where steps of conjugate gradients and of one pass follow (`--algorithm auto`), it is their turn as soon as the
/// plateau is behind: after so many epochs in a row that leave a share of the cost between these, when damping is
/// not the reason any more,
const MOST_STEADY: usize = 2;
const STEADY: (f64, f64) = (0.15, 0.6);
/// or after so many in a row that leave more,
const MOST_SLOW_FIRST: usize = 6;
/// or where so many epochs were taken back.
const MOST_HALVINGS_FIRST: usize = 4;
/// The damping ends here then. With few entries, epochs may blow up on the plateau, and what they leave behind makes
/// conjugate gradients crawl. This took the fewest passes over seeds 1 to 3 of `tenfill-bench instances`.
const LEAST_DAMPING: f64 = 1e-7;
const RATE_FIRST: f64 = 0.25;
/// The square of a step's length in the metric, the change of the whole tensor where all its cells count, is at most this
/// share of what the last epoch missed. Steps that are under control stay below it; others are, within a few chunks, a
/// hundred and a million times as long. The share was chosen with seeds 11 to 20 of 10000^3 at an
/// oversampling of 5 and of 20000 x 7000 x 7000 at 10: with 0.004 to 0.005 at most one of ten blows up, with 0.003 steps are
/// held back that were good, with 0.006 and above more of them blow up.
const MOST_CHANGE: f64 = 0.005;
/// And a row's share of that at most this many times the mean row's. Where epochs blew up, a weak column had come to live on
/// few rows: on 2 to 33 of 10000, counted as 1 / sum u^4 (10000^3 at an oversampling of 5, seed 34; 1000 to 4000 otherwise).
/// The metric takes a column's square to be spread over all rows, so that for what shares an entry with those few it is
/// too small, and the step too long by the same factor. Passes of seeds 31 to 50 of 10000^3 at an oversampling of 5, mean
/// (most), without: 48.8 (122); with 20, 30, 70, 100, 200: 39.1 (43), 39.4 (43), 39.3 (43), 39.4 (43), 40.4 (48); with 10 good steps
/// are held back, 42.8 (112). 20000 x 7000 x 7000: 35.4 (58) without, 33.4 (36) with 30, 70 and 100. Order 4 of
/// `tenfill-bench classes`, seeds 1 to 30: 36.5 (113) with 30, 34.0 (104) with 70, 37.6 (147) with 100.
const MOST_OF_A_ROW: f64 = 70.0;
/// From the second epoch on that is taken back, that share becomes smaller by this factor each time: what blew up twice from
/// one place does so again, in most orders of the chunks. Passes of 20000 x 7000 x 7000, seeds 1 and 27, and 10000^3 at an
/// oversampling of 5, seed 6: 48, 67, 53. When conjugate gradients took over at the second such epoch: 96, 181, 94. With 0.5:
/// 42, 125, 60. With the share of the first epoch smaller, too, 10000^3 took up to 110 (seed 23) instead of 40, and with more
/// damping instead of shorter steps all five hard seeds but one took more.
const LESS_CHANGE: f64 = 0.7;
/// What is known of a part only has the weight of so many chunks in all.
const PARTS: f64 = 4.0;
const PARTS_FIRST: f64 = 6.0;
/// Fewer chunks than this are not worth it.
pub const LEAST_CHUNKS: usize = 4;
/// How many chunks data is cut into where it has that many blocks.
pub const CHUNKS: usize = 16;

/// Where a stochastic phase stands, between two chunks; with the state's point and direction, which is
/// the velocity here, all that the next step depends on.
#[derive(Debug, Clone, PartialEq)]
pub struct Stochastic {
    /// The numbers.
    pub about: StochasticAbout,
    /// The point at the start of this epoch.
    pub start: Point,
    /// The point at the start of the last epoch that was kept and was not at risk: where to go back to.
    pub back: Point,
}

/// The numbers of a [`Stochastic`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StochasticAbout {
    /// Seeds the order of the chunks.
    pub seed: u64,
    /// The number of the epoch, from 0, those that were taken back included.
    pub epoch: usize,
    /// How many chunks of it have had their turn.
    pub position: usize,
    /// The sum of their costs.
    pub cost: f64,
    /// The sum of their shares in the mean absolute residual.
    #[serde(default)]
    pub absolute: f64,
    /// The cost of the last epoch that was kept, and of the one before the one to go back to.
    pub bars: [Option<f64>; 2],
    /// The damping of the metric.
    pub damping: f64,
    /// The share of the usual step.
    pub share: f64,
    /// Epochs that were taken back.
    pub halvings: usize,
    /// Epochs in a row that gained little.
    pub slow: usize,
    /// Whether it is conjugate gradients' turn.
    pub done: bool,
    /// Whether these are only to cross the plateau.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first: bool,
    /// Epochs in a row that gained steadily.
    #[serde(default)]
    pub steady: usize,
}

impl Stochastic {
    /// At the start of a run; `first` where they are only to cross the plateau.
    pub fn new(point: &Point, seed: u64, first: bool) -> Self {
        let about = StochasticAbout {
            seed,
            epoch: 0,
            position: 0,
            cost: 0.0,
            absolute: 0.0,
            bars: [None, None],
            damping: DAMPING,
            share: 1.0,
            halvings: 0,
            slow: 0,
            done: false,
            first,
            steady: 0,
        };
        Stochastic { about, start: point.clone(), back: point.clone() }
    }
}

impl StochasticAbout {
    /// The order of the chunks in this epoch.
    fn order(&self, chunks: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..chunks).collect();
        order.shuffle(&mut Pcg64::seed_from_u64(self.seed.wrapping_add(self.epoch as u64)));
        order
    }

    /// Whether epochs like this one may blow up: the metric is damped no more than it must be. The columns that live on
    /// few rows, which make them blow up, have been long in coming then, so that the way back is to where such
    /// epochs began.
    fn is_at_risk(&self) -> bool {
        self.first && self.damping <= LEAST_DAMPING
    }

    /// The largest change of the tensor by one step, squared, as a share of what the last epoch missed.
    fn most_change(&self) -> f64 {
        MOST_CHANGE * LESS_CHANGE.powi(self.halvings.saturating_sub(1) as i32)
    }

    /// Takes note of an epoch's cost: whether it is kept.
    fn judge(&mut self, cost: f64) -> bool {
        let [last, before] = self.bars;
        if cost.is_finite() && last.is_none_or(|last| cost <= last) {
            let share = last.map_or(0.0, |last| cost / last);
            let (undamped, least, most) = match self.first {
                true => (self.is_at_risk(), STEADY.1, MOST_SLOW_FIRST),
                false => (self.damping < UNDAMPED, SLOW, MOST_SLOW),
            };
            self.slow = if share > least && undamped { self.slow + 1 } else { 0 };
            let steady = STEADY.0 < share && share < STEADY.1 && undamped;
            self.steady = if steady { self.steady + 1 } else { 0 };
            self.bars = [Some(cost), if self.is_at_risk() { before } else { last }];
            self.damping *= LESS;
            if self.first {
                self.damping = self.damping.max(LEAST_DAMPING);
            }
            self.done = self.slow >= most || self.first && self.steady >= MOST_STEADY;
            return true;
        }
        self.bars = [before, before];
        if self.is_at_risk() {
            // From where it goes back to, the chunks in another order mostly lead on.
            self.damping = LEAST_DAMPING / LESS;
        } else {
            self.damping = (MORE * self.damping).max(DAMPING);
            self.share /= 2.0;
        }
        self.halvings += 1;
        (self.slow, self.steady) = (0, 0);
        self.done = self.halvings >= if self.first { MOST_HALVINGS_FIRST } else { MOST_HALVINGS };
        false
    }
}

/// A metric with its eigenvalues raised by a share of the largest.
struct Raised<'g> {
    metric: &'g dyn Geometry,
    damping: f64,
}

impl Geometry for Raised<'_> {
    fn weigh(&self, eigenvalues: &mut [f64]) -> usize {
        let guarded = self.metric.weigh(eigenvalues);
        let largest = eigenvalues.iter().copied().fold(0.0, f64::max);
        eigenvalues.iter_mut().for_each(|value| *value += self.damping * largest);
        guarded
    }
}

impl Solver {
    /// Goes one chunk further in the state's stochastic phase. `true` where an epoch has ended and was
    /// kept: an iteration.
    ///
    /// # Errors
    ///
    /// The objective's own; there is no way on from the state then but from a checkpoint.
    pub fn step_chunk<O: Objective>(
        &mut self,
        state: &mut State,
        objective: &mut O,
    ) -> Result<bool, O::Error> {
        let Some(mut phase) = state.stochastic.take() else { return Ok(false) };
        let chunks = objective.chunks();
        // A position that there is not comes from a file that somebody has changed.
        let chunk = phase.about.order(chunks).get(phase.about.position).copied();
        let Some(chunk) = chunk.filter(|_| chunks >= LEAST_CHUNKS) else {
            phase.about.done = true;
            state.stochastic = Some(phase);
            return Ok(false);
        };
        let mut scratch = self.take_scratch(state);
        let share = match objective.chunk_cost_and_gradient(chunk, &state.point, &mut scratch.partials) {
            Ok(cost) => cost,
            Err(error) => {
                state.stochastic = Some(phase);
                return Err(error);
            }
        };
        let about = &mut phase.about;
        about.cost += share.train_mse;
        about.absolute += share.train_mae;
        about.position += 1;
        let geometry = Raised { metric: self.geometry(), damping: about.damping };
        let frame = geometry.frame(&state.point);
        frame.gradient(&mut scratch.partials);
        let square = frame.inner(&scratch.partials, &scratch.partials);
        // A chunk has all entries of its own slices, so that it says of their rows what the whole data
        // would; of everything else it says a part, which is given more weight.
        let (rate, parts) = if about.first { (RATE_FIRST, PARTS_FIRST) } else { (RATE, PARTS) };
        let weight = (chunks as f64 / parts).max(1.0);
        for (mode, rows) in scratch.partials.factors.iter_mut().enumerate() {
            if Some(mode) != objective.leading_mode() {
                rows.scale(weight);
            }
        }
        scratch.partials.core.scale(weight);
        let whole = state.point.cells() / 2.0;
        state.direction.axpby(-rate * about.share * whole, &scratch.partials, MOMENTUM);
        if about.first {
            let missed = about.bars[0].unwrap_or(state.last.cost) * state.point.cells();
            let (most, dims) = (about.most_change() * missed, state.point.dims());
            frame.bound_rows(&mut state.direction, |mode, row| {
                // Of the leading mode, only the chunk's own rows move.
                let moving = if Some(mode) == objective.leading_mode() { chunks as f64 } else { 1.0 };
                MOST_OF_A_ROW * most * moving * objective.row_weight(mode, row) / dims[mode] as f64
            });
            let change = frame.inner(&state.direction, &state.direction);
            if change > most {
                state.direction.scale((most / change).sqrt());
            }
        }
        drop(frame);
        let moved = retract(&state.point, &state.direction, 1.0, &mut scratch.trial).is_ok();
        let sound = moved && about.cost.is_finite();
        if sound {
            std::mem::swap(&mut state.point, &mut scratch.trial);
            let frame: Frame<'_> = geometry.frame(&state.point);
            frame.project_tangent(&mut state.direction);
        }
        self.put_scratch(scratch);
        let hopeless = !sound || about.bars[0].is_some_and(|last| about.cost > HOPELESS * last);
        let ended = about.position == chunks;
        let mut kept = false;
        if ended || hopeless {
            let cost = if hopeless { f64::INFINITY } else { about.cost };
            let errors = [cost, about.absolute];
            let at_risk = about.is_at_risk();
            kept = about.judge(cost);
            about.epoch += 1;
            about.position = 0;
            (about.cost, about.absolute) = (0.0, 0.0);
            state.last.passes += 1;
            if kept {
                if !at_risk {
                    std::mem::swap(&mut phase.back, &mut phase.start);
                }
                phase.start.copy_from(&state.point);
                self.end_epoch(state, objective, errors, square.sqrt(), phase.about.share)?;
            } else {
                state.point.copy_from(&phase.back);
                phase.start.copy_from(&phase.back);
                state.direction.fill(0.0);
                state.last.backtracks += 1;
            }
        }
        if phase.about.done {
            // Conjugate gradients begin with the point's own cost and gradient.
            state.direction.fill(0.0);
        }
        state.stochastic = Some(phase);
        Ok(kept)
    }

    /// Records an epoch as an iteration.
    fn end_epoch<O: Objective>(
        &mut self,
        state: &mut State,
        objective: &mut O,
        [cost, train_mae]: [f64; 2],
        gradient_norm: f64,
        step: f64,
    ) -> Result<(), O::Error> {
        let validation_mse = objective.validation(&state.point)?;
        state.last = Iteration {
            iteration: state.last.iteration + 1,
            phase: Some(Phase::Chunks),
            passes: state.last.passes,
            cost,
            train_mse: cost,
            train_mae,
            validation_mse,
            gradient_norm,
            step,
            beta: MOMENTUM,
            backtracks: state.last.backtracks,
            restarted: false,
            guarded: 0,
        };
        super::iterate::keep_best(state);
        Ok(())
    }
}
