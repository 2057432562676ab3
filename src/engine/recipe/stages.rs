//! From one stage to the next: what a trial starts from, and what is kept of it.

use super::grow::{self, enlarge, first_columns, seed_point};
use super::plan::{Move, Next, Stage};
use super::settings::BiasChoice;
use super::trainer::Trainer;
use crate::error::Result;
use crate::manifold::Point;
use crate::model::Biases;
use crate::objective::Penalty;
use crate::solver::Beta;

/// The nuclear norm's smoothing, beside the variance of the values.
const SMOOTHING: f64 = 1e-8;

impl Trainer {
    /// Ends a stage and begins the next, where there is one.
    pub(super) fn next_stage(&mut self) -> Result<()> {
        let iteration = self.state.last.iteration;
        let next = self.extra.plan.next(iteration, &self.recipe, self.extra.bias, &self.bound);
        self.say_next(&next);
        if next.accepted.is_some() {
            self.extra.accepted = Some(self.accepted());
        }
        if let Some((stage, change)) = next.trial {
            self.enter(stage, change)?;
        }
        Ok(())
    }

    /// The point and the biases of the stage that was accepted: its best, because later ones are fitted to
    /// noise or still on their way to a penalty that is no better. The last where the plain method's were
    /// better than all of them.
    fn accepted(&self) -> (Point, Option<Biases>) {
        let accepted = self.extra.plan.accepted.as_ref().map(|(stage, _)| stage);
        match (&self.state.best, &self.extra.best) {
            (Some(best), Some((stage, biases))) if Some(stage) == accepted => {
                (best.point.clone(), biases.clone())
            }
            _ => (self.state.point.clone(), self.extra.biases.clone()),
        }
    }

    /// Says how a stage has ended, and which one was kept where several have competed.
    fn say_next(&self, next: &Next) {
        let tried = &self.extra.plan.tried;
        self.control.say(tried[tried.len() - 1].to_string());
        if let Some(kept) = next.accepted.filter(|&kept| kept + 1 < tried.len()) {
            self.control.say(format!("kept {}, which helped most", tried[kept].what()));
        }
    }

    /// Begins a stage from what was accepted last.
    pub(super) fn enter(&mut self, stage: Stage, change: Move) -> Result<()> {
        let (iteration, passes) = (self.state.last.iteration, self.state.last.passes);
        let mut made = 0;
        let accepted = self.extra.accepted.clone();
        if let Some((_, biases)) = &accepted {
            self.extra.biases.clone_from(biases);
        }
        self.adopt(&stage);
        let Some(coordinates) = self.coordinates.take() else { return Ok(()) };
        let point = match accepted {
            Some((point, _)) if point.ranks() == stage.ranks => Ok(point),
            accepted => {
                made = grow::PASSES;
                let (from, keep) = match accepted {
                    Some((point, _)) => {
                        let keep = point.ranks().to_vec();
                        (point, keep)
                    }
                    None => {
                        let point = seed_point(self.objective.data.team(), &self.dims, &coordinates);
                        (point, first_columns(self.extra.plan.main, &stage.ranks))
                    }
                };
                let seed = self.seed.wrapping_add(iteration as u64);
                let spread = self.variance.sqrt();
                enlarge(&mut self.objective, &coordinates, &from, &keep, &stage.ranks, spread, seed)
            }
        };
        self.coordinates = Some(coordinates);
        let best = self.state.best.take();
        let (first, guards) = (self.state.first_gradient_norm, self.state.guards);
        self.state = self.solver.start(&mut self.objective, point?)?;
        // The start of a stage has no iteration of its own, and is no model to keep, but for the first.
        self.state.best = best.or_else(|| self.state.best.take());
        self.state.last.iteration = iteration;
        self.state.last.passes = passes + made + 1;
        self.state.first_gradient_norm = first;
        self.state.guards += guards;
        self.extra.plan.enter(stage, change, iteration);
        Ok(())
    }

    /// Sets the objective and the solver up for a stage.
    pub(super) fn adopt(&mut self, stage: &Stage) {
        self.objective.held.clone_from(&stage.held);
        if !stage.held.contains(&true) {
            self.objective.held.clear();
        }
        self.objective.coordinates = if stage.smoothed { self.coordinates.clone() } else { None };
        self.objective.penalty =
            Penalty { kind: stage.kind, lambda: stage.lambda, smoothing: SMOOTHING * self.variance };
        let biases = if stage.bias == BiasChoice::None { None } else { self.extra.biases.clone() };
        self.objective.data.set_biases(biases);
        self.objective.data.set_ranks(&self.dims, &stage.ranks);
        if stage.smoothed == self.plain_solver {
            let mut options = self.options;
            if stage.smoothed && options.beta == Beta::HestenesStiefel {
                options.beta = Beta::HestenesStiefelDaiYuan;
            }
            self.solver = (self.make_solver)(options);
            self.plain_solver = !stage.smoothed;
        }
    }

    /// Keeps what belongs to the best model, where the newest iterate is that.
    pub(super) fn note_best(&mut self) {
        let newest = self.state.last.iteration;
        if self.state.best.as_ref().is_some_and(|best| best.iteration == newest) {
            let stage = &self.extra.plan.stage;
            let biases = if stage.bias == BiasChoice::None { None } else { self.extra.biases.clone() };
            self.extra.best = Some((stage.clone(), biases));
        }
    }
}
