//! When the search has ended: the rows of its best model, fitted to their own entries; first those of the two
//! main modes, then those of the others as well, then with values at the ends of the range for what they may
//! stand for. Validation decides on each.

use super::fitted::{Fitted, fitted};
use super::plan::{Move, STAGE_GAIN, Tried};
use super::trainer::Trainer;
use crate::error::Result;
use crate::manifold::{Point, Tangent};
use crate::model::Clip;
use crate::objective::rows_fit::{RowsFit, covariance_bytes};
use crate::objective::{RefinementMemory, thresholds};
use crate::solver::Objective;

/// Sweeps over the rows end here at the latest; they end when validation hardly improves any more.
const MOST_SWEEPS: usize = 30;
/// But not before: the first sweep knows no covariances yet, and may well be a step back.
const FEWEST_SWEEPS: usize = 3;

/// A model with better rows.
pub struct Refined {
    /// The model.
    pub fitted: Fitted,
    /// Its mean squared error on the train entries, not clipped.
    pub train_mse: f64,
    /// On the validation entries, those left out that biases alone score.
    pub validation_mse: f64,
}

/// The model on its way from sweep to sweep, and the best one.
struct Work {
    now: Fitted,
    best: Option<Fitted>,
    /// The validation MSE to come below: that of the best one.
    bar: f64,
}

/// What some sweeps have come to.
#[derive(Default)]
struct Swept {
    sweeps: usize,
    /// The least.
    validation_mse: f64,
    kept: bool,
    /// A number was not finite.
    broken: bool,
    /// Somebody wants the run to stop.
    stopped: bool,
}

impl Trainer {
    /// Fits the rows of the best model to their own entries, as long as validation improves: sweeps, of
    /// a few passes each. No iteration can follow, because what only the solver needs is given back
    /// first. `None` where that does not help or is not asked for, or where `stopping` says so.
    ///
    /// `train_mse` is the error of the best model.
    pub fn refine(&mut self, train_mse: f64, stopping: impl Fn() -> bool) -> Result<Option<Refined>> {
        let Some(before) = self.state.best.as_ref().map(|best| best.validation_mse) else { return Ok(None) };
        let stage = self.extra.best.as_ref().map_or(&self.extra.plan.stage, |best| &best.0).clone();
        let main = self.extra.plan.main;
        if !self.fitting.terms.recipe.refines()
            || !stage.smoothed
            || main.iter().any(|&mode| stage.held[mode])
        {
            return Ok(None);
        }
        let dims = self.fitting.terms.dims.clone();
        let bytes = |mode: usize| covariance_bytes(dims[mode] as u64, stage.ranks[mode]);
        let room: RefinementMemory = self.fitting.terms.refinement_memory;
        if bytes(main[0]) + bytes(main[1]) > room.covariances {
            self.fitting
                .terms
                .control
                .say("rows are not fitted to their own entries: the rank is too high for it");
            return Ok(None);
        }
        let now = fitted(&self.state, &self.extra, self.fitting.coordinates.as_ref());
        self.give_back();
        let Some(counts) = self.fitting.counts.take() else { return Ok(None) };
        self.fitting.objective.coordinates = None;
        self.fitting.objective.held.clone_from(&now.held);
        let data = &self.fitting.objective.data;
        let (order, team) = (data.mode_order().to_vec(), data.team());
        let known = now.biases.as_ref();
        let spread = self.fitting.terms.variance.sqrt();
        let fit = RowsFit::new(team, &order, &counts, main, &now.point, known, train_mse, spread, room.sums);
        let mut work = Work { now, best: None, bar: before };
        let Some(mut fit) = fit else { return Ok(None) };
        let others: Vec<usize> =
            (0..order.len()).filter(|mode| !main.contains(mode) && !stage.held[*mode]).collect();
        let most = others.iter().map(|&mode| bytes(mode)).max().unwrap_or(0);
        let enough = bytes(main[0]) + bytes(main[1]) + most <= room.covariances;
        for change in [Move::Rows, Move::Others, Move::Ends] {
            let further = self.fitting.terms.recipe.refine_further;
            let possible = match (&change, self.fitting.terms.recipe.range) {
                (Move::Rows, _) => true,
                (Move::Others, _) if further && enough && !others.is_empty() => {
                    fit.fit_others(&others, &work.now.point, work.now.biases.as_ref())
                }
                (Move::Ends, Some(range)) if further => {
                    self.state.last.passes += 1;
                    let found = thresholds(self.fitting.objective.data.train(), range)?;
                    found.into_iter().for_each(|found| fit.censor(found));
                    found.is_some()
                }
                _ => false,
            };
            if !possible {
                continue;
            }
            let swept = self.sweeps(&mut fit, &mut work, &stopping)?;
            if swept.stopped {
                return Ok(None);
            }
            let tried = Tried {
                change: change.clone(),
                stage: stage.clone(),
                iterations: swept.sweeps,
                validation_mse: swept.validation_mse,
                helped: swept.kept,
                kept: swept.kept,
            };
            self.fitting.terms.control.say(tried.to_string());
            self.extra.plan.tried.push(tried);
            if swept.broken {
                break;
            }
            if change == Move::Others {
                // As good as they get: a pass for them costs as much as several for the main modes.
                fit.fit_others(&[], &work.now.point, None);
                if let Some(best) = work.best.as_ref().filter(|_| !swept.kept) {
                    // Taken back: what follows starts from the better model.
                    work.now.clone_from(best);
                }
            }
        }
        let Some(fitted) = work.best else { return Ok(None) };
        self.fitting.objective.data.set_biases(fitted.biases.clone());
        // What an error that is not clipped would say of latent values nobody asks.
        self.fitting.objective.clip = self
            .fitting
            .terms
            .recipe
            .range
            .zip(fitted.ends)
            .map(|(range, ends)| Clip::new(range, Some(ends)));
        let data = &self.fitting.objective.data;
        let scored = self.fitting.objective.score(data.train(), data.exchange(), &fitted.point)?;
        self.fitting.objective.clip =
            self.fitting.terms.recipe.range.map(|range| Clip::new(range, fitted.ends));
        self.state.last.passes += 1;
        Ok(Some(Refined { fitted, train_mse: scored.mse().unwrap_or(train_mse), validation_mse: work.bar }))
    }

    /// Sweeps over the rows until validation hardly improves any more.
    fn sweeps(
        &mut self,
        fit: &mut RowsFit<'_>,
        work: &mut Work,
        stopping: &impl Fn() -> bool,
    ) -> Result<Swept> {
        let mut last = work.bar;
        let mut swept = Swept { validation_mse: last, ..Swept::default() };
        while swept.sweeps < MOST_SWEEPS {
            let data = &self.fitting.objective.data;
            let Fitted { point, biases, .. } = &mut work.now;
            let Some(made) = fit.sweep(data.train(), data.exchange(), point, biases)? else {
                swept.broken = true;
                break;
            };
            swept.sweeps += 1;
            self.state.last.passes += made;
            self.fitting.objective.data.set_biases(biases.clone());
            work.now.ends = fit.ends();
            self.fitting.objective.clip =
                self.fitting.terms.recipe.range.map(|range| Clip::new(range, work.now.ends));
            let Some(mse) = self.fitting.objective.validation(&work.now.point)? else { break };
            swept.validation_mse = if swept.sweeps == 1 { mse } else { mse.min(swept.validation_mse) };
            if mse < work.bar {
                (work.best, work.bar, swept.kept) = (Some(work.now.clone()), mse, true);
            }
            if swept.sweeps >= FEWEST_SWEEPS && mse > last * (1.0 - STAGE_GAIN) {
                break;
            }
            last = mse;
            swept.stopped = stopping();
            if swept.stopped {
                break;
            }
        }
        Ok(swept)
    }

    /// Gives back the memory that only a next iteration would need: none can follow.
    fn give_back(&mut self) {
        let nothing = Point::zeros(&[1, 1], &[1, 1]);
        self.state.gradient = Tangent::zeros_like(&nothing);
        self.state.direction = Tangent::zeros_like(&nothing);
        self.state.point = nothing;
        self.extra.accepted = None;
        self.fitting.release();
    }
}
