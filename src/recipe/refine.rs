//! When the search has ended: the rows of its best model, fitted to their own entries.

use super::fitted::{Fitted, fitted};
use super::plan::{Move, STAGE_GAIN, Tried};
use super::prepare::empty_state;
use super::trainer::Trainer;
use crate::error::Result;
use crate::objective::RefinementRoom;
use crate::objective::rows_fit::{RowsFit, covariance_bytes};
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
        if !self.recipe.refines() || !stage.smoothed || main.iter().any(|&mode| stage.held[mode]) {
            return Ok(None);
        }
        let bytes = |mode: usize| covariance_bytes(self.dims[mode] as u64, stage.ranks[mode]);
        let room: RefinementRoom = self.refinement_room;
        if bytes(main[0]) + bytes(main[1]) > room.covariances {
            self.control.say("rows are not fitted to their own entries: the rank is too high for it");
            return Ok(None);
        }
        let Fitted { mut point, mut biases, held } =
            fitted(&self.state, &self.extra, self.coordinates.as_ref());
        self.give_back();
        let Some(counts) = self.counts.take() else { return Ok(None) };
        self.objective.coordinates = None;
        self.objective.held.clone_from(&held);
        let (mut passes, mut sweeps) = (0, 0);
        let mut best: Option<(Fitted, f64)> = None;
        let mut last = before;
        let data = &self.objective.data;
        let (order, main) = (data.mode_order().to_vec(), self.extra.plan.main);
        let begun =
            RowsFit::new(data.team(), &order, &counts, main, &point, biases.as_ref(), train_mse, room.sums);
        if let Some(mut fit) = begun {
            while sweeps < MOST_SWEEPS {
                let data = &self.objective.data;
                let Some(made) = fit.sweep(data.train(), data.exchange(), &mut point, &mut biases)? else {
                    break;
                };
                (passes, sweeps) = (passes + made, sweeps + 1);
                self.objective.data.set_biases(biases.clone());
                let Some(mse) = self.objective.validation(&point)? else { break };
                if best.as_ref().map_or(before, |best| best.1) > mse {
                    let (point, biases, held) = (point.clone(), biases.clone(), held.clone());
                    best = Some((Fitted { point, biases, held }, mse));
                }
                if sweeps >= FEWEST_SWEEPS && mse > last * (1.0 - STAGE_GAIN) {
                    break;
                }
                last = mse;
                if stopping() {
                    return Ok(None);
                }
            }
        }
        let tried = Tried {
            change: Move::Rows,
            stage,
            iterations: sweeps,
            validation_mse: best.as_ref().map_or(last, |best| best.1),
            helped: best.is_some(),
            kept: best.is_some(),
        };
        self.control.say(tried.to_string());
        self.extra.plan.tried.push(tried);
        self.state.last.passes += passes;
        let Some((fitted, validation_mse)) = best else { return Ok(None) };
        self.objective.data.set_biases(fitted.biases.clone());
        let range = self.objective.range.take();
        let data = &self.objective.data;
        let scored = self.objective.score(data.train(), data.exchange(), &fitted.point)?;
        self.objective.range = range;
        self.state.last.passes += 1;
        Ok(Some(Refined { fitted, train_mse: scored.mse().unwrap_or(train_mse), validation_mse }))
    }

    /// Gives back the memory that only a next iteration would need.
    fn give_back(&mut self) {
        let empty = empty_state();
        (self.state.point, self.state.gradient, self.state.direction) =
            (empty.point, empty.gradient, empty.direction);
        self.extra.accepted = None;
        self.solver = (self.make_solver)(self.options);
        self.objective.release();
        self.objective.data.set_ranks(&vec![1; self.dims.len()], &vec![1; self.dims.len()]);
    }
}
