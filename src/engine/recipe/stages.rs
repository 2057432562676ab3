//! From one stage to the next: what a trial starts from, and what is kept of it.

use super::plan::{Move, Next, Stage};
use super::settings::BiasChoice;
use super::trainer::Trainer;
use crate::error::Result;
use crate::manifold::Point;
use crate::model::Biases;

impl Trainer {
    /// Ends a stage and begins the next, where there is one.
    pub(super) fn next_stage(&mut self) -> Result<()> {
        let iteration = self.state.last.iteration;
        let next = self.extra.plan.next(
            iteration,
            &self.fitting.terms.recipe,
            self.extra.bias,
            &self.fitting.terms.bound,
        );
        self.say_next(&next);
        if next.accepted.is_some() {
            self.extra.accepted = Some(self.accepted());
        }
        if let Some((stage, change)) = next.trial {
            if self.fitting.terms.recipe.sweeps && self.extra.plan.tried.len() == 1 {
                return self.enter_sweeping();
            }
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
        self.fitting.terms.control.say(tried[tried.len() - 1].to_string());
        if let Some(kept) = next.accepted.filter(|&kept| kept + 1 < tried.len()) {
            self.fitting.terms.control.say(format!("kept {}, which helped most", tried[kept].what()));
        }
    }

    /// Begins a stage from what was accepted last.
    pub(super) fn enter(&mut self, stage: Stage, change: Move) -> Result<()> {
        let last = self.state.last;
        let accepted = self.extra.accepted.clone();
        if let Some((_, biases)) = &accepted {
            self.extra.biases.clone_from(biases);
        }
        self.fitting.adopt(&stage, self.extra.biases.as_ref());
        let (mut state, passes) =
            self.fitting.start(&stage, accepted, self.extra.plan.main, last.iteration)?;
        // The start of a stage has no iteration of its own, and is no model to keep, but for the first.
        state.best = self.state.best.take().or(state.best);
        state.last.iteration = last.iteration;
        state.last.passes = last.passes + passes;
        state.first_gradient_norm = self.state.first_gradient_norm;
        state.guards += self.state.guards;
        self.state = state;
        self.extra.plan.enter(stage, change, last.iteration);
        Ok(())
    }

    /// Keeps what belongs to the best model, where the newest iterate is that.
    pub(super) fn note_best(&mut self) {
        let newest = self.state.last.iteration;
        if self.state.best.as_ref().is_some_and(|best| best.iteration == newest) {
            let stage = &self.extra.plan.stage;
            let biases = if stage.bias == BiasChoice::None { None } else { self.extra.biases.clone() };
            self.extra.best = Some((stage.clone(), biases));
            self.extra.ends = None;
            self.extra.uncertainty = None;
        }
    }
}
