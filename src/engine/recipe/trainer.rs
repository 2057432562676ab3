//! Moves solver, biases and plan on together, an iteration at a time.

use super::again::Second;
use super::cut::{Cut, LowRank};
use super::fitted::{Fitted, fitted};
use super::fitting::{Fitting, Terms};
use super::missing::Growth;
use super::plan::{Move, Plan, Stage};
use super::prepare::{biases_mse, prepare};
use super::settings::{BiasChoice, Recipe};
use crate::bayes::{Course, Fit, Origins, Position, Posterior, Slices};
use crate::control::Control;
use crate::error::{Error, Result};
use crate::manifold::Point;
use crate::model::{Biases, Ends, Matched, Uncertainty};
use crate::objective::bias_fit::{self, Damping};
use crate::objective::{Coordinates, Regularised};
use crate::shard::Dataset;
use crate::solver::{
    Algorithm, LEAST_CHUNKS, Objective, Options, Phase, Solver, State, Stochastic, StoppedBy,
};

// What other values do: docs/thresholds.md.
/// Biases are fitted anew after this many iterations.
const REFIT_EVERY: usize = 4;

/// What a run depends on beside the solver's state; it goes into checkpoints.
#[derive(Debug, Clone, PartialEq)]
pub struct Extra {
    /// The plan.
    pub plan: Plan,
    /// How much biases are damped.
    pub damping: Option<Damping>,
    /// The biases of the present iterate.
    pub biases: Option<Biases>,
    /// The fit that has stalled, while another way is tried.
    pub accepted: Option<(Point, Option<Biases>)>,
    /// The stage and the biases of the best model.
    pub best: Option<(Stage, Option<Biases>)>,
    /// What values at the ends of the range say to the best model.
    pub ends: Option<Ends>,
    /// How sure the best model is, where it was found by sweeps.
    pub uncertainty: Option<Box<Uncertainty>>,
    /// Sweeps over rows, while there are any.
    pub sweeping: Option<Box<Sweeping>>,
}

/// Sweeps over rows on their way.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweeping {
    /// The rows.
    pub fit: Fit,
    /// What is being tried.
    pub course: Course,
    /// What a trial may go back to.
    pub before: Option<Box<Posterior>>,
}

impl Extra {
    /// Where the sweep stands that is on its way, if any.
    pub fn inside(&self) -> Option<Position> {
        let sweeping = self.sweeping.as_ref()?;
        sweeping.fit.posterior.inside.as_ref().map(|inside| inside.at)
    }

    /// Whether there is a model yet: within the first sweep there is none.
    pub fn has_model(&self, state: &State) -> bool {
        let found = !self.plan.costs.is_empty() || state.best.is_some() || state.last.cost != 0.0;
        found || self.sweeping.is_none()
    }

    /// That of the paper's method.
    pub fn plain(ranks: &[usize]) -> Self {
        Extra {
            plan: Plan::new(ranks),
            damping: None,
            biases: None,
            accepted: None,
            best: None,
            ends: None,
            uncertainty: None,
            sweeping: None,
        }
    }
}

/// A run in memory.
pub struct Trainer {
    /// The solver's state.
    pub state: State,
    /// What goes with it.
    pub extra: Extra,
    pub(super) fitting: Fitting,
}

/// What a trainer is made from.
pub struct Setup<'a> {
    /// The dataset.
    pub dataset: &'a Dataset,
    /// What was asked for.
    pub recipe: &'a Recipe,
    /// The highest ranks.
    pub ranks: &'a [usize],
    /// The solver's options.
    pub options: Options,
    /// Seeds what is random.
    pub seed: u64,
    /// Whether the ranks follow from the data.
    pub rank_auto: bool,
    /// Whether the plain method is tried before sweeps.
    pub probe: bool,
    /// The highest ranks of components of all modes that may be looked for before sweeps; empty for none.
    pub grown: &'a [usize],
    /// The components that sweeps begin with where none was.
    pub components: usize,
    /// Whether there is no room for others than those of the first pair.
    pub pair_alone: bool,
    /// A model to start from.
    pub warm: Option<Matched>,
    /// Sweeps to start from, and where the rows of every mode come from.
    pub warm_fit: Option<(Fit, Vec<Origins>)>,
    /// Whether the plain method starts from a point that knows nothing of the data.
    pub cold: bool,
    /// Whether it starts from the spectrum of the data, one component after another.
    pub spectral: bool,
    /// Makes a solver.
    pub make_solver: Box<dyn Fn(Options) -> Solver + Send>,
}

impl Trainer {
    /// Starts: passes over the data for counts and biases where the recipe needs them, then the
    /// first point. `plain_start` gives that of the paper's method.
    pub fn begin(
        mut setup: Setup<'_>,
        objective: Regularised,
        control: &Control,
        plain_start: impl FnOnce(&Regularised) -> Result<Point>,
    ) -> Result<Self> {
        let (dataset, recipe, ranks) = (setup.dataset, setup.recipe, setup.ranks);
        let (seed, options, cold, spectral) = (setup.seed, setup.options, setup.cold, setup.spectral);
        let fresh = setup.warm.is_none() && setup.warm_fit.is_none();
        let found = match fresh && !setup.grown.is_empty() {
            true => LowRank::look(dataset.manifest(), objective.data.train(), setup.grown, control)?,
            false => LowRank::Hardly,
        };
        let spectral = spectral || matches!(found, LowRank::Spectral);
        let probed = setup.probe && fresh || !matches!(found, LowRank::Hardly);
        let plain_first = recipe.is_plain() || probed;
        if recipe.sweeps && !plain_first {
            return Self::begin_sweeping(setup, objective, control);
        }
        let warm = setup.warm.take();
        let terms = terms(setup, control);
        let mut extra = Extra::plain(ranks);
        if let LowRank::AtMost { ranks, biases_mse } = &found {
            extra.plan = Plan::of_highest(ranks, *biases_mse);
        } else if recipe.decides() && probed && fresh {
            // A rank that is given is the most, if validation decides.
            let (manifest, train) = (dataset.manifest(), objective.data.train());
            if let LowRank::AtMost { biases_mse, .. } = LowRank::look(manifest, train, ranks, control)? {
                extra.plan.growth = Growth { cut: Cut::beside(biases_mse), given: true, ..Growth::default() };
            }
        }
        let mut fitting = Fitting::new(terms, objective);
        let mut state;
        let mut counted = 0;
        if plain_first && options.algorithm == Algorithm::Auto {
            (extra.plan.stage.even, counted) = fitting.even_out()?;
        }
        if plain_first && spectral {
            let team = fitting.objective.data.team();
            state = State::idle(&fitting.terms.dims, team, None);
        } else if plain_first {
            let point = match &found {
                LowRank::AtMost { ranks, .. } => fitting.random_start(ranks, seed)?,
                _ => fitting.in_coordinates(plain_start(&fitting.objective)?)?,
            };
            state = fitting.solver.start(&mut fitting.objective, point)?;
            let auto = options.algorithm == Algorithm::Auto;
            if options.algorithm == Algorithm::Stochastic || auto && cold && enough(&fitting.objective) {
                state.stochastic = Some(Box::new(Stochastic::new(&state.point, seed, auto)));
                state.direction.fill(0.0);
            }
        } else {
            let prepared = prepare(dataset, recipe, &fitting.objective, control)?;
            (extra.damping, extra.biases) = (prepared.damping, prepared.biases);
            fitting.take_counts(prepared.counts);
            let mut stage = Stage::fixed(recipe, ranks);
            let from =
                warm.map(|matched| take_over(&fitting, &mut extra, &matched, &mut stage)).transpose()?;
            fitting.adopt(&stage, extra.biases.as_ref());
            let passes;
            (state, passes) = fitting.start(&stage, from, prepared.main)?;
            state.last.passes = prepared.passes + passes;
            state.first_gradient_norm = state.last.gradient_norm;
            extra.plan.enter(stage, Move::Begin);
        }
        state.last.passes += counted;
        let mut trainer = Trainer { state, extra, fitting };
        if plain_first && spectral {
            trainer.begin_with_spectrum()?;
            if trainer.extra.sweeping.is_some() {
                return Ok(trainer);
            }
        }
        let last = trainer.state.last;
        if plain_first && !trainer.is_simple() && last.validation_mse.is_none() {
            // Validation is to decide, and has no entry that the plain method could be compared on.
            trainer.enter_sweeping()?;
            return Ok(trainer);
        }
        trainer.note_best();
        trainer.extra.plan.observe(last.iteration, last.cost, last.validation_mse);
        trainer.check()?;
        Ok(trainer)
    }

    /// Goes on from a checkpoint.
    pub fn resume(
        setup: Setup<'_>,
        objective: Regularised,
        state: State,
        extra: Extra,
        control: &Control,
    ) -> Result<Self> {
        let terms = terms(setup, control);
        let mut fitting = Fitting::new(terms, objective);
        if extra.sweeping.is_some() {
            fitting.find_slices()?;
        } else {
            fitting.count(&extra.plan.stage)?;
        }
        fitting.adopt(&extra.plan.stage, extra.biases.as_ref());
        Ok(Trainer { state, extra, fitting })
    }

    /// Which rule ends the run here, if any.
    pub fn stop(&self) -> Option<StoppedBy> {
        let last = &self.state.last;
        if !self.has_model() {
            return None;
        }
        if let Some(phase) = &self.state.stochastic {
            // An epoch's cost was measured on the way: nothing but the number of epochs ends it. Where it
            // is small enough, the cost of the point itself decides.
            let used_up =
                phase.about.position == 0 && last.iteration >= self.fitting.terms.options.max_iterations;
            return used_up.then_some(StoppedBy::MaxIterations);
        }
        if self.is_elsewhere() {
            // All other rules wait until the better one of two fits is known.
            let used_up = last.iteration >= self.fitting.terms.options.max_iterations;
            let rules = [(self.is_exact(), StoppedBy::Tolerance), (used_up, StoppedBy::MaxIterations)];
            return rules.into_iter().find(|(holds, _)| *holds).map(|(_, rule)| rule);
        }
        if self.is_simple() {
            let rule = self.fitting.solver.stop(&self.state).filter(|rule| !self.gives_up(*rule));
            return rule.or_else(|| self.is_at_floor().then_some(StoppedBy::Floor));
        }
        if self.is_exact() {
            Some(StoppedBy::Tolerance)
        } else if last.iteration >= self.fitting.terms.options.max_iterations {
            Some(StoppedBy::MaxIterations)
        } else if self.extra.plan.done {
            Some(if self.state.stuck { StoppedBy::Step } else { StoppedBy::Patience })
        } else {
            None
        }
    }

    /// Whether the train entries are met to the tolerance.
    fn meets_train(&self) -> bool {
        let (mse, tolerance) = (self.state.last.train_mse, self.fitting.terms.options.tolerance);
        mse <= tolerance && (tolerance > 0.0 || mse == 0.0)
    }

    /// Whether that is all there is to say. A tensor of a high rank meets any entries: where validation decides, it tells.
    fn is_exact(&self) -> bool {
        // What sweeps begin with is the error of the fit before them.
        let own = self.extra.sweeping.is_none() || self.state.last.phase == Some(Phase::Sweep);
        own && self.meets_train()
            && (self.is_simple() || self.extra.plan.is_exact(self.fitting.terms.variance))
    }

    /// Whether nothing follows the present stage, so that the solver's own rules end the run.
    pub(super) fn is_simple(&self) -> bool {
        !self.fitting.terms.recipe.decides()
    }

    /// One iteration, with whatever the plan asks for before it. `false` where there was none,
    /// because the plan has come to its end or the solver to its own.
    pub fn iterate(&mut self) -> Result<bool> {
        let iteration = self.state.last.iteration;
        if self.extra.sweeping.is_some() {
            if self.extra.plan.growth.second == Second::Due {
                self.look_again()?;
                self.check()?;
                return Ok(false);
            }
            let over = self.sweep()?;
            self.check()?;
            return Ok(over);
        }
        if self.look_for_missing()? {
            self.check()?;
            return Ok(false);
        }
        // Where an epoch has met the train entries, the point itself is looked at first.
        let met = self.state.stochastic.is_some() && self.meets_train();
        if !self.is_simple() && !self.is_elsewhere() && !met && self.is_probed()? {
            match self.may_miss() {
                true => self.go_elsewhere()?,
                false => {
                    if !self.look_at_end()? {
                        self.end_probe()?;
                    }
                }
            }
            self.check()?;
            return Ok(false);
        }
        if self.state.stochastic.is_some() {
            let ended = self.step_chunk()?;
            self.check()?;
            return Ok(ended);
        }
        let refits = self.extra.plan.stage.bias == BiasChoice::Modes;
        if refits && iteration > 0 && iteration.is_multiple_of(REFIT_EVERY) {
            self.refit()?;
        }
        let went = self.fitting.solver.iterate(&mut self.state, &mut self.fitting.objective)?.is_some();
        if went {
            self.mark_phase();
            self.note_best();
            let last = self.state.last;
            self.extra.plan.observe(last.iteration, last.cost, last.validation_mse);
        }
        self.check()?;
        Ok(went)
    }

    /// Whether the plain method has shown what it can do, beside biases alone where its error does not speak for itself.
    fn is_probed(&mut self) -> Result<bool> {
        let (ended, iteration) = (self.ended(), self.state.last.iteration);
        let (patience, variance) = (self.fitting.terms.options.patience, self.fitting.terms.variance);
        // Conjugate gradients may be as slow on a plateau, but not at the rank that the data have.
        let telling = self.state.stochastic.is_some() || self.extra.plan.growth.cut.is_done();
        let level = telling && self.extra.plan.is_level();
        let stuck = ended || level || self.extra.plan.is_stale(iteration, patience);
        if self.extra.plan.growth.second == Second::Taken {
            return Ok(stuck || self.extra.plan.is_flat());
        }
        self.look_at_biases(stuck)?;
        Ok(self.extra.plan.probe_over(iteration, stuck, variance))
    }

    /// Fits biases alone, where it depends on them what the plain method's error means.
    pub(super) fn look_at_biases(&mut self, stuck: bool) -> Result<()> {
        let (iteration, variance) = (self.state.last.iteration, self.fitting.terms.variance);
        if self.extra.plan.wants_biases(iteration, stuck, variance) {
            let (mse, passes) = biases_mse(&self.fitting.terms.manifest, &mut self.fitting.objective)?;
            self.extra.plan.biases_mse = mse;
            self.state.last.passes += passes;
        }
        Ok(())
    }

    /// The plain method stays, or sweeps follow.
    pub(super) fn end_probe(&mut self) -> Result<()> {
        let shown = self.has_shown_rank();
        let (iteration, variance) = (self.state.last.iteration, self.fitting.terms.variance);
        let said = self.extra.plan.end_probe(iteration, variance, shown).to_string();
        self.fitting.terms.control.say(said);
        // What came from sweeps does not go back there.
        self.extra.plan.done |= self.extra.plan.growth.second == Second::Taken;
        // A run does not end within steps from chunks.
        if self.extra.plan.done { self.end_chunks() } else { self.enter_sweeping() }
    }

    /// Keeps what belongs to the best model, where the newest iterate is that.
    pub(super) fn note_best(&mut self) {
        let newest = self.state.last.iteration;
        if self.state.best.as_ref().is_some_and(|best| best.iteration == newest) {
            let stage = &self.extra.plan.stage;
            let biases = if stage.bias == BiasChoice::None { None } else { self.extra.biases.clone() };
            self.extra.best = Some((stage.clone(), biases));
            (self.extra.ends, self.extra.uncertainty) = (None, None);
        }
    }

    /// An error where the state is made of numbers that are none. All processes see the same ones.
    fn check(&self) -> Result<()> {
        let last = &self.state.last;
        let numbers = [
            ("error", last.cost),
            ("gradient", last.gradient_norm),
            ("direction", self.state.slope),
            ("validation error", last.validation_mse.unwrap_or(0.0)),
        ];
        match numbers.into_iter().find(|(_, number)| !number.is_finite()) {
            None => Ok(()),
            Some((what, _)) => {
                let what = format!("the {what} of iteration {}", last.iteration);
                self.objective().data.team().agree(Err(Error::not_finite(&what)))
            }
        }
    }

    /// A step from a chunk of the data, or the change to conjugate gradients: `true` where that ended an
    /// epoch.
    fn step_chunk(&mut self) -> Result<bool> {
        let ended = self.state.stochastic.as_ref().is_some_and(|phase| {
            let tolerance = self.fitting.terms.options.tolerance;
            phase.about.done || phase.about.position == 0 && self.state.last.train_mse <= tolerance
        });
        if ended {
            self.end_chunks()?;
            return Ok(false);
        }
        let kept = self.fitting.solver.step_chunk(&mut self.state, &mut self.fitting.objective)?;
        if kept {
            self.note_best();
            let last = self.state.last;
            self.extra.plan.observe(last.iteration, last.cost, last.validation_mse);
        }
        Ok(kept)
    }

    /// Ends steps from chunks, if there are any. Costs of epochs were measured on the way: that of the point itself is looked at.
    fn end_chunks(&mut self) -> Result<()> {
        if self.state.stochastic.take().is_none() {
            return Ok(());
        }
        self.extra.plan.costs.clear();
        self.fitting.solver.refresh(&mut self.state, &mut self.fitting.objective)
    }

    /// Whether no further iteration of this stage makes sense.
    pub(super) fn ended(&self) -> bool {
        let state = &self.state;
        state.stuck
            || !self.is_simple() && self.meets_train()
            || state.last.gradient_norm
                <= self.fitting.terms.options.gradient_tolerance * state.first_gradient_norm
    }

    /// Fits the biases to what the tensor leaves over, and looks at cost and gradient again.
    fn refit(&mut self) -> Result<()> {
        let (Some(counts), Some(damping), Some(biases)) =
            (&self.fitting.counts, &self.extra.damping, &mut self.extra.biases)
        else {
            return Ok(());
        };
        let model = self.fitting.objective.model(&self.state.point);
        let data = &self.fitting.objective.data;
        let (train, exchange) = (data.train(), data.exchange());
        bias_fit::refit(train, exchange, data.mode_order(), &model, counts, damping, biases)?;
        self.state.last.passes += 2;
        let biases = biases.clone();
        self.fitting.objective.data.set_biases(Some(biases));
        self.fitting.solver.refresh(&mut self.state, &mut self.fitting.objective)
    }

    /// The model so far, in its own factors: the best by validation, or the last.
    pub fn model(&self) -> Fitted {
        fitted(&self.state, &self.extra, self.fitting.coordinates.as_ref())
    }

    /// The ranks at present, and the modes that are held constant.
    pub fn ranks(&self) -> (Vec<usize>, Vec<usize>) {
        if let Some(sweeping) = &self.extra.sweeping {
            return sweeping.fit.ranks();
        }
        let held = &self.extra.plan.stage.held;
        (self.state.point.ranks().to_vec(), (0..held.len()).filter(|&mode| held[mode]).collect())
    }

    /// The data.
    pub fn objective(&self) -> &Regularised {
        &self.fitting.objective
    }

    /// Whether an epoch of steps from chunks, or a sweep, is not at its end. A chunk or a wave that is cut short leaves
    /// the state as it was; anything else may not.
    pub fn is_inside(&self) -> bool {
        self.state.stochastic.as_ref().is_some_and(|phase| phase.about.position > 0)
            || self.extra.inside().is_some()
    }

    /// Whether there is a model yet: within the first sweep there is none.
    pub fn has_model(&self) -> bool {
        self.extra.has_model(&self.state)
    }

    /// Lets this cut passes short.
    pub fn watch(&mut self, control: &Control) {
        self.fitting.objective.data.watch(control);
    }

    /// Gives back what only a next pass over the train entries would need.
    pub fn release(&mut self) {
        self.fitting.slices.iter().for_each(Slices::forget);
        self.fitting.objective.release();
    }

    /// What turns a point into a model's factors.
    pub fn coordinates(&self) -> Option<&Coordinates> {
        self.fitting.coordinates.as_ref()
    }
}

/// Whether the data have enough chunks to take steps from.
pub(super) fn enough(objective: &Regularised) -> bool {
    objective.chunks() >= LEAST_CHUNKS
}

/// What stays the same during the run.
pub(super) fn terms(setup: Setup<'_>, control: &Control) -> Terms {
    let manifest = setup.dataset.manifest();
    Terms {
        options: setup.options,
        recipe: setup.recipe.clone(),
        dims: manifest.dims().iter().map(|&dim| dim as usize).collect(),
        bound: setup.ranks.to_vec(),
        grown: setup.grown.to_vec(),
        plain: setup.probe || !setup.grown.is_empty(),
        seed: setup.seed,
        variance: manifest.variance(),
        control: control.clone(),
        rank_auto: setup.rank_auto,
        components: setup.components,
        pair_alone: setup.pair_alone,
        manifest: manifest.clone(),
        make_solver: setup.make_solver,
    }
}

/// What a model gives to the first stage: its ranks and biases, and the point that it starts from, which is its factors in
/// these coordinates.
fn take_over(fitting: &Fitting, extra: &mut Extra, matched: &Matched, stage: &mut Stage) -> Result<Point> {
    let model = &matched.model;
    stage.ranks = model.point.ranks().to_vec();
    stage.held = (0..stage.ranks.len()).map(|mode| model.is_held(mode)).collect();
    let point = fitting.in_coordinates(model.point.clone().divided(fitting.objective.data.team()))?;
    extra.biases = extra.biases.take().map(|own| matched.biases(own));
    Ok(point)
}
