//! Noisy data in a few passes: sweeps over rows.

use super::fitted::Fitted;
use super::fitting::{Fitting, Terms};
use super::plan::{Move, Stage, Tried};
use super::settings::BiasChoice;
use super::trainer::{Extra, Setup, Sweeping, Trainer, terms};
use crate::bayes::{Change, Course, CourseLimits, Data, Fit, Origins};
use crate::control::Control;
use crate::error::{Error, Result};
use crate::model::Clip;
use crate::objective::{PenaltyKind, Regularised};
use crate::shard::{Manifest, Mode};
use crate::solver::{Best, Iteration, Objective, Phase, State};
use crate::units::count;

// What other values do: docs/thresholds.md.
/// Components of the first pair of modes to begin with, or the rank that was given where that is lower. Priors that
/// are learned do not keep many more of them from doing harm where rows have few entries: with 63 at once, MovieLens-100K was 0.3 to
/// 0.6 % worse than with 15 on splits 1 to 3 (`tenfill-bench ranks`, before more were left to validation).
pub const AUTO_RANK: usize = 15;
/// The most that they may become where the rank is left to the data, and validation says that more pay: rows of 64
/// numbers with their biases.
pub const MOST_AUTO_RANK: usize = 63;

impl Trainer {
    /// Begins with sweeps. The first one is yet to come, so that it may be saved on its way as any other.
    pub(super) fn begin_sweeping(
        mut setup: Setup<'_>,
        objective: Regularised,
        control: &Control,
    ) -> Result<Self> {
        let warm = setup.warm_fit.take();
        let order = setup.ranks.len();
        let terms = terms(setup, control);
        let dims = terms.dims.clone();
        let fitting = Fitting::new(terms, objective);
        let team = fitting.objective.data.team();
        let extra = Extra::plain(&vec![1; order]);
        let mut trainer = Trainer { state: State::idle(&dims, team, None), extra, fitting };
        trainer.fitting.find_slices()?;
        trainer.enter_fit(warm)?;
        Ok(trainer)
    }

    /// Goes on with sweeps where the plain method has shown not to be the right one.
    pub(super) fn enter_sweeping(&mut self) -> Result<()> {
        self.leave_coordinates();
        self.fitting.release();
        self.fitting.find_slices()?;
        let team = self.fitting.objective.data.team();
        self.state = State::idle(&self.fitting.terms.dims, team, Some(&self.state));
        self.enter_fit(None)
    }

    /// Writes the best model so far in its own factors: nobody has the coordinates of its point from here on.
    fn leave_coordinates(&mut self) {
        let coordinates = self.fitting.coordinates.take();
        let (Some(best), Some((stage, _))) = (&mut self.state.best, &mut self.extra.best) else { return };
        if let Some(coordinates) = coordinates.filter(|_| stage.even) {
            for (mode, factor) in best.point.factors.iter_mut().enumerate() {
                coordinates.scale_in_place(mode, factor);
            }
            stage.even = false;
        }
    }

    /// The first rows: those of another fit, where there is one.
    fn enter_fit(&mut self, warm: Option<(Fit, Vec<Origins>)>) -> Result<()> {
        let terms = &self.fitting.terms;
        let manifest = &terms.manifest;
        let slices = self.fitting.slices.as_ref().ok_or_else(nothing_to_sweep)?;
        let data = Data::of(self.fitting.objective.data.train(), slices);
        let validation = self.fitting.objective.data.validation_entries().map(|(stream, _)| stream);
        let rank = |modes: [usize; 2]| match terms.rank_auto {
            true => terms.components,
            false => modes.iter().map(|&mode| terms.bound[mode]).fold(terms.components, usize::min),
        };
        let (order, range, is_warm) = (manifest.modes.len(), terms.recipe.range, warm.is_some());
        let level_of = |mode: usize| manifest.mode_order.iter().position(|&other| other == mode).unwrap_or(0);
        let time = terms.recipe.bias_time.map(|(of, clock)| [level_of(of), level_of(clock)]);
        let (mut fit, passes) = match warm {
            Some((fit, origins)) => fit.onto(manifest, &data, &origins, range)?,
            None => Fit::begin(manifest, &data, validation, rank, range, terms.seed)?,
        };
        // Another fit has the time bias that it has.
        fit.terms.time = if is_warm { fit.terms.time } else { time };
        let course = match is_warm {
            true => Course::settling(order, fit.terms.pair),
            false => Course::new(order, fit.terms.pair, !terms.pair_alone),
        };
        self.state.last.passes += passes;
        let stage = stage(vec![1; order], &[]);
        self.fitting.adopt(&stage, None);
        self.extra.plan.enter(stage, Move::Sweeps);
        self.extra.accepted = None;
        self.extra.sweeping = Some(Box::new(Sweeping { fit, course, before: None }));
        Ok(())
    }

    /// A wave of a sweep, and what follows the last one. `false` where that is yet to come.
    pub(super) fn sweep(&mut self) -> Result<bool> {
        let first = !self.has_model();
        let Some(sweeping) = self.extra.sweeping.as_mut() else { return Ok(true) };
        let Sweeping { fit, course, before } = &mut **sweeping;
        let slices = self.fitting.slices.as_ref().ok_or_else(nothing_to_sweep)?;
        let validation = self.fitting.objective.data.validation_entries().map(|(stream, _)| stream);
        let beside = validation.filter(|_| course.refits());
        let data = Data { train: self.fitting.objective.data.train(), slices, beside };
        let Some(passes) = fit.advance(&data)? else { return Ok(false) };
        self.state.last.passes += passes;
        if course.refits() {
            self.keep_refit();
            return Ok(true);
        }
        let (point, biases, held) = fit.model();
        let ends = fit.model_ends();
        let objective = &mut self.fitting.objective;
        let stage = stage(point.ranks().to_vec(), &held);
        objective.held.clone_from(&held);
        objective.data.set_biases(Some(biases.clone()));
        objective.clip = self.fitting.terms.recipe.range.map(|range| Clip::new(range, ends));
        let point = point.divided(objective.data.team());
        let known = objective.validation(&point)?;
        // Where no entry has only ids that train has, as in tables of a few rows, biases are all that can be compared.
        let mse = known.or(objective.last_validation.and_then(|scored| scored.mse()));
        if self.extra.plan.costs.is_empty() && known.is_none() && mse.is_some() {
            say_strangers(&self.fitting.terms);
        }
        let last = &mut self.state.last;
        // The first sweep stands where other methods have their first point.
        last.iteration += usize::from(!first);
        last.phase = Some(Phase::Sweep);
        last.train_mse = fit.posterior.residuals * fit.terms.spread * fit.terms.spread;
        last.cost = fit.posterior.noise * fit.terms.spread * fit.terms.spread;
        last.validation_mse = mse;
        let last = *last;
        if let Some(mse) =
            mse.filter(|mse| self.state.best.as_ref().is_none_or(|best| *mse < best.validation_mse))
        {
            let Iteration { train_mse, iteration, .. } = last;
            self.state.best = Some(Best { point, validation_mse: mse, train_mse, iteration });
            self.extra.best = Some((stage.clone(), Some(biases)));
            self.extra.ends = ends;
            let mut uncertainty = fit.posterior.uncertainty(&fit.terms);
            if let Some((validation, _)) = self.fitting.objective.data.validation_entries() {
                fit.calibrate(validation, &mut uncertainty)?;
            }
            self.extra.uncertainty = Some(Box::new(uncertainty));
        }
        self.extra.plan.observe(last.iteration, last.cost, mse);
        let terms = &self.fitting.terms;
        let (Some((validation, _)), Some(mse)) = (self.fitting.objective.data.validation_entries(), mse)
        else {
            self.extra.plan.done = true;
            return Ok(true);
        };
        let ranks = (!terms.rank_auto).then_some(terms.bound.as_slice());
        let pair = fit.terms.pair.map(|level| terms.bound[fit.terms.mode_order[level]]);
        let room = match ranks {
            Some(_) => usize::MAX,
            // Fewer to begin with than usual: memory has no room for more.
            None if terms.components < AUTO_RANK => terms.components,
            None => MOST_AUTO_RANK,
        };
        let most = pair[0].min(pair[1]).min(room);
        let limits = CourseLimits { ranks, most, seed: terms.seed };
        let tried = course.tried.len();
        let data = Data::of(self.fitting.objective.data.train(), slices);
        self.state.last.passes += course.advance(fit, &data, before, validation, mse, limits)?;
        let why = course.take_why();
        for trial in &course.tried[tried..] {
            // What is told is the best of its models, which need not be the newest.
            let best = self.state.best.as_ref().filter(|best| best.validation_mse == trial.validation_mse);
            let of_best = best.and(self.extra.best.as_ref()).map(|(stage, _)| stage);
            let tried = Tried {
                change: change_of(trial.change.as_ref(), &fit.terms.mode_order),
                stage: of_best.unwrap_or(&stage).clone(),
                iterations: trial.sweeps,
                validation_mse: trial.validation_mse,
                helped: trial.kept,
                kept: trial.kept,
            };
            terms.control.say(tried.to_string());
            self.extra.plan.tried.push(tried);
        }
        why.into_iter().for_each(|why| terms.control.say(why));
        self.extra.plan.change = change_of(course.change(), &fit.terms.mode_order);
        // Where the rank is left to the data, the best of the plain method before them does not keep sweeps from having their own.
        let own = self.extra.plan.best.filter(|_| terms.rank_auto).map_or(0, |(_, iteration)| iteration);
        let own = own.max(last.iteration.saturating_sub(fit.posterior.sweep));
        let stale = |best: &Best| {
            let patience = terms.options.patience;
            patience > 0 && last.iteration - best.iteration.max(own) >= patience
        };
        let best = self.state.best.as_ref();
        self.extra.plan.done = course.done || best.is_some_and(stale);
        if self.extra.plan.done && !self.may_look_again() {
            self.end_sweeps();
        }
        Ok(true)
    }

    /// Ends sweeps, but for one to the validation entries as well, where that may follow.
    pub(super) fn end_sweeps(&mut self) {
        let Some(sweeping) = self.extra.sweeping.as_mut() else { return };
        let Sweeping { fit, course, before } = &mut **sweeping;
        let (Some(slices), Some((validation, _))) =
            (&self.fitting.slices, self.fitting.objective.data.validation_entries())
        else {
            return;
        };
        let data = Data::of(self.fitting.objective.data.train(), slices);
        let may_refit = |best: &Best| course.may_refit(best.validation_mse, &data, validation);
        let refits = self.fitting.terms.recipe.refit && self.state.best.as_ref().is_some_and(may_refit);
        if refits {
            *before = Some(Box::new(fit.posterior.clone()));
        }
        self.extra.plan.done = !refits;
    }

    /// After the last sweep, to the validation entries as well: the model is the one that is left. What they say of it was said
    /// before, by the one that it comes from.
    fn keep_refit(&mut self) {
        let Some(sweeping) = self.extra.sweeping.as_ref() else { return };
        let fit = &sweeping.fit;
        let (point, biases, held) = fit.model();
        let ends = fit.model_ends();
        let stage = stage(point.ranks().to_vec(), &held);
        let mut uncertainty = fit.posterior.uncertainty(&fit.terms);
        let last = &mut self.state.last;
        last.iteration += 1;
        last.phase = Some(Phase::Refit);
        last.train_mse = fit.posterior.residuals * fit.terms.spread * fit.terms.spread;
        last.cost = fit.posterior.noise * fit.terms.spread * fit.terms.spread;
        last.validation_mse = None;
        if let Some(known) = &self.extra.uncertainty {
            uncertainty.held_out_noise = known.held_out_noise;
            uncertainty.tails = known.tails;
        }
        let objective = &mut self.fitting.objective;
        objective.held.clone_from(&held);
        objective.data.set_biases(Some(biases.clone()));
        objective.clip = self.fitting.terms.recipe.range.map(|range| Clip::new(range, ends));
        objective.last_validation = None;
        if let Some(best) = &mut self.state.best {
            best.point = point.divided(objective.data.team());
            best.validation_mse = sweeping.course.newest().unwrap_or(best.validation_mse);
            (best.train_mse, best.iteration) = (last.train_mse, last.iteration);
        }
        self.extra.best = Some((stage, Some(biases)));
        self.extra.ends = ends;
        self.extra.uncertainty = Some(Box::new(uncertainty));
        self.extra.plan.done = true;
    }
}

impl Sweeping {
    /// The fit that has nothing of the validation entries.
    pub fn held_out(self) -> Fit {
        match self.before.filter(|_| self.course.refits()) {
            Some(posterior) => Fit { terms: self.fit.terms, posterior: *posterior },
            None => self.fit,
        }
    }
}

impl Trainer {
    /// The model before the last sweep, where that was to the validation entries as well. What it is made from is given away: it
    /// is asked for when the run has ended.
    pub fn take_held_out(&mut self) -> Option<Fitted> {
        if self.state.last.phase != Some(Phase::Refit) {
            return None;
        }
        let sweeping = self.extra.sweeping.as_mut()?;
        let fit = Fit { terms: sweeping.fit.terms.clone(), posterior: *sweeping.before.take()? };
        let (point, biases, held) = fit.model();
        let point = point.divided(self.fitting.objective.data.team());
        let (biases, ends) = (Some(biases), fit.model_ends());
        Some(Fitted { point, biases, held, ends, uncertainty: None, refit: false })
    }
}

/// The change in the words of the plan, whose modes are the user's.
fn change_of(change: Option<&Change>, mode_order: &[usize]) -> Move {
    match change {
        None => Move::Sweeps,
        Some(Change::More) => Move::More,
        Some(Change::Fewer) => Move::Fewer,
        Some(Change::Extend(level)) => Move::Extend(mode_order[*level]),
        Some(Change::Pairs) => Move::Pairs,
        Some(Change::Cells) => Move::Cells,
        Some(Change::All) => Move::All,
    }
}

pub(super) fn stage(ranks: Vec<usize>, held: &[bool]) -> Stage {
    let held = if held.is_empty() { vec![false; ranks.len()] } else { held.to_vec() };
    let (bias, kind) = (BiasChoice::Modes, PenaltyKind::Nuclear);
    Stage { ranks, held, smoothed: false, even: false, bias, lambda: 0.0, kind }
}

fn nothing_to_sweep() -> Error {
    Error::request("sweeps over rows were not set up")
}

/// Says that validation entries tell nothing of components, and which mode's ids may be to blame.
fn say_strangers(terms: &Terms) {
    let Manifest { modes, validation, .. } = &terms.manifest;
    let own = |mode: &&Mode| terms.manifest.has_own_ids(mode);
    let hint = modes.iter().find(own).map_or(String::new(), |Mode { name, .. }| {
        format!("; nearly every train entry has a {name} of its own: if {name} numbers the rows, leave it out with `modes`")
    });
    terms.control.say(format!(
        "each of the {} validation entries has an id that no train entry has: they tell how good biases are, and nothing of \
         components{hint}",
        count(validation.entries)
    ));
}
