//! Moves solver, biases and plan on together, an iteration at a time.

use super::fitted::{Fitted, fitted};
use super::plan::{Move, Plan, Stage};
use super::prepare::{empty_state, prepare};
use super::settings::{BiasChoice, Recipe};
use crate::control::Control;
use crate::error::{Error, Result};
use crate::manifold::{Point, orthonormalize};
use crate::model::{Biases, Clip, Model};
use crate::objective::bias_fit::{self, Counts, Damping};
use crate::objective::{Coordinates, RefinementRoom, Regularised};
use crate::shard::Dataset;
use crate::solver::{Algorithm, Options, Solver, State, Stochastic, StoppedBy};

/// Biases are fitted anew after this many iterations.
const REFIT_EVERY: usize = 4;

/// What a run depends on beside the solver's state; it goes into checkpoints.
#[derive(Debug, Clone, PartialEq)]
pub struct Extra {
    /// The plan.
    pub plan: Plan,
    /// Which biases auto has come to.
    pub bias: BiasChoice,
    /// How much biases are damped.
    pub damping: Option<Damping>,
    /// The biases of the present iterate.
    pub biases: Option<Biases>,
    /// The point and the biases that trials start from.
    pub accepted: Option<(Point, Option<Biases>)>,
    /// The stage and the biases of the best model.
    pub best: Option<(Stage, Option<Biases>)>,
}

impl Extra {
    /// That of the paper's method.
    pub fn plain(ranks: &[usize]) -> Self {
        Extra {
            plan: Plan::new(ranks),
            bias: BiasChoice::None,
            damping: None,
            biases: None,
            accepted: None,
            best: None,
        }
    }
}

/// A run in memory.
pub struct Trainer {
    /// The solver's state.
    pub state: State,
    /// What goes with it.
    pub extra: Extra,
    /// The data.
    pub objective: Regularised,
    pub(super) solver: Solver,
    pub(super) plain_solver: bool,
    pub(super) make_solver: Box<dyn Fn(Options) -> Solver + Send>,
    pub(super) options: Options,
    pub(super) recipe: Recipe,
    pub(super) dims: Vec<usize>,
    pub(super) bound: Vec<usize>,
    pub(super) seed: u64,
    /// The variance of the train values.
    pub(super) variance: f64,
    pub(super) counts: Option<Counts>,
    pub(super) coordinates: Option<Coordinates>,
    pub(super) refinement_room: RefinementRoom,
    pub(super) control: Control,
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
    /// Where the plain method is tried first, because a rank was given.
    pub probe: bool,
    /// A model to start from.
    pub warm: Option<Model>,
    /// Makes a solver.
    pub make_solver: Box<dyn Fn(Options) -> Solver + Send>,
}

impl Trainer {
    /// Starts: passes over the data for counts and biases where the recipe needs them, then the
    /// first point. `plain_start` gives that of the paper's method.
    pub fn begin(
        setup: Setup<'_>,
        mut objective: Regularised,
        control: &Control,
        plain_start: impl FnOnce(&Regularised) -> Result<Point>,
    ) -> Result<Self> {
        let recipe = setup.recipe;
        let manifest = setup.dataset.manifest();
        let mut extra = Extra::plain(setup.ranks);
        let dims: Vec<usize> = manifest.dims().iter().map(|&dim| dim as usize).collect();
        objective.clip = recipe.range.map(|range| Clip::new(range, None));
        let prepared = prepare(setup.dataset, recipe, &mut objective, control)?;
        extra.bias = prepared.bias;
        extra.damping = prepared.damping;
        extra.biases = prepared.biases;
        extra.plan.biases_mse = prepared.biases_mse;
        extra.plan.usual_lambda = prepared.usual_lambda;
        extra.plan.main = prepared.main;
        let passes = prepared.passes;
        let probe =
            setup.probe && setup.warm.is_none() && recipe.decides() && recipe.bias == BiasChoice::Auto;
        let plain_first = recipe.is_plain() || probe;
        let options = setup.options;
        let mut trainer = Trainer {
            // Replaced below: there is no state without a point.
            state: empty_state(),
            solver: (setup.make_solver)(options),
            plain_solver: true,
            make_solver: setup.make_solver,
            extra,
            objective,
            options,
            recipe: recipe.clone(),
            dims,
            bound: setup.ranks.to_vec(),
            seed: setup.seed,
            variance: manifest.variance(),
            counts: prepared.counts,
            coordinates: prepared.coordinates,
            refinement_room: RefinementRoom::of(manifest, setup.ranks),
            control: control.clone(),
        };
        if plain_first {
            let point = plain_start(&trainer.objective)?;
            trainer.state = trainer.solver.start(&mut trainer.objective, point)?;
            trainer.state.last.passes += passes;
            if options.algorithm == Algorithm::Stochastic {
                let phase = Stochastic::new(&trainer.state.point, setup.seed);
                trainer.state.stochastic = Some(Box::new(phase));
                trainer.state.direction.fill(0.0);
            }
        } else {
            let bound = trainer.bound.clone();
            let mut stage = trainer.extra.plan.begin(recipe, trainer.extra.bias, &bound);
            if let Some(model) = setup.warm {
                trainer.take_over(model, &mut stage)?;
            }
            trainer.state.last.passes = passes;
            trainer.enter(stage, Move::Begin)?;
            trainer.state.first_gradient_norm = trainer.state.last.gradient_norm;
        }
        trainer.note_best();
        let last = trainer.state.last;
        trainer.extra.plan.observe(last.iteration, last.cost, last.validation_mse);
        trainer.check()?;
        Ok(trainer)
    }

    /// Makes a model what the first stage starts from: its factors in these coordinates, and its
    /// biases where both have some.
    fn take_over(&mut self, model: Model, stage: &mut Stage) -> Result<()> {
        stage.ranks = model.point.ranks().to_vec();
        stage.held = (0..stage.ranks.len()).map(|mode| model.is_held(mode)).collect();
        let mut point = model.point.divided(self.objective.data.team());
        if let Some(coordinates) = &self.coordinates {
            for (mode, factor) in point.factors.iter_mut().enumerate() {
                coordinates.unscale_in_place(mode, factor);
                let upper = orthonormalize(factor).map_err(|dependent| {
                    Error::request(format!("the model to start from cannot be used: {dependent}"))
                })?;
                point.core = point.core.mode_product(mode, &upper);
            }
        }
        let same = |(own, other): &(&Biases, &Biases)| {
            let lengths = |biases: &Biases| biases.modes.iter().map(Vec::len).collect::<Vec<_>>();
            lengths(own) == lengths(other) && own.time.is_some() == other.time.is_some()
        };
        if self.extra.biases.as_ref().zip(model.biases.as_ref()).filter(same).is_some() {
            self.extra.biases = model.biases;
        }
        self.extra.accepted = Some((point, self.extra.biases.clone()));
        Ok(())
    }

    /// Goes on from a checkpoint.
    pub fn resume(
        setup: Setup<'_>,
        objective: Regularised,
        state: State,
        extra: Extra,
        control: &Control,
    ) -> Result<Self> {
        let recipe = setup.recipe;
        let dims: Vec<usize> = setup.dataset.manifest().dims().iter().map(|&dim| dim as usize).collect();
        let (mut counts, mut coordinates) = (None, None);
        if !recipe.is_plain() {
            let (found, _) = bias_fit::count(setup.dataset, objective.data.train(), recipe.bias_time)?;
            coordinates = Some(Coordinates::new(&found));
            counts = Some(found);
        }
        let mut trainer = Trainer {
            state,
            solver: (setup.make_solver)(setup.options),
            plain_solver: true,
            make_solver: setup.make_solver,
            extra,
            objective,
            options: setup.options,
            recipe: recipe.clone(),
            dims,
            bound: setup.ranks.to_vec(),
            seed: setup.seed,
            variance: setup.dataset.manifest().variance(),
            counts,
            coordinates,
            refinement_room: RefinementRoom::of(setup.dataset.manifest(), setup.ranks),
            control: control.clone(),
        };
        trainer.objective.clip = recipe.range.map(|range| Clip::new(range, None));
        let stage = trainer.extra.plan.stage.clone();
        trainer.adopt(&stage);
        Ok(trainer)
    }

    /// Which rule ends the run here, if any.
    pub fn stop(&self) -> Option<StoppedBy> {
        let last = &self.state.last;
        if let Some(phase) = &self.state.stochastic {
            // An epoch's cost was measured on the way: nothing but the number of epochs ends it. Where it
            // is small enough, the cost of the point itself decides.
            let used_up = phase.about.position == 0 && last.iteration >= self.options.max_iterations;
            return used_up.then_some(StoppedBy::MaxIterations);
        }
        if self.is_simple() {
            return self.solver.stop(&self.state);
        }
        let tolerance = self.options.tolerance;
        if last.train_mse <= tolerance && (tolerance > 0.0 || last.train_mse == 0.0) {
            Some(StoppedBy::Tolerance)
        } else if last.iteration >= self.options.max_iterations {
            Some(StoppedBy::MaxIterations)
        } else if self.extra.plan.done {
            Some(if self.state.stuck { StoppedBy::Step } else { StoppedBy::Patience })
        } else {
            None
        }
    }

    /// Whether nothing follows the present stage, so that the solver's own rules end the run.
    fn is_simple(&self) -> bool {
        !self.recipe.decides()
    }

    /// One iteration, with whatever the plan asks for before it. `false` where there was none,
    /// because the plan has come to its end or the solver to its own.
    pub fn iterate(&mut self) -> Result<bool> {
        let iteration = self.state.last.iteration;
        if !self.is_simple() && self.extra.plan.stage_over(iteration, self.ended(), self.options.patience) {
            self.next_stage()?;
            self.check()?;
            return Ok(false);
        }
        if self.state.stochastic.is_some() {
            let ended = self.step_chunk()?;
            self.check()?;
            return Ok(ended);
        }
        let stage_iteration = iteration - self.extra.plan.began;
        let refits = self.extra.plan.stage.bias == BiasChoice::Modes;
        if refits && stage_iteration > 0 && stage_iteration.is_multiple_of(REFIT_EVERY) {
            self.refit()?;
        }
        let went = self.solver.iterate(&mut self.state, &mut self.objective)?.is_some();
        if went {
            self.note_best();
            let last = self.state.last;
            self.extra.plan.observe(last.iteration, last.cost, last.validation_mse);
        }
        self.check()?;
        Ok(went)
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
                self.objective.data.team().agree(Err(Error::not_finite(&what)))
            }
        }
    }

    /// A step from a chunk of the data, or the change to conjugate gradients: `true` where that ended an
    /// epoch.
    fn step_chunk(&mut self) -> Result<bool> {
        let ended = self.state.stochastic.as_ref().is_some_and(|phase| {
            let tolerance = self.options.tolerance;
            phase.about.done || phase.about.position == 0 && self.state.last.train_mse <= tolerance
        });
        if ended {
            self.state.stochastic = None;
            self.solver.refresh(&mut self.state, &mut self.objective)?;
            return Ok(false);
        }
        let kept = self.solver.step_chunk(&mut self.state, &mut self.objective)?;
        if kept {
            self.note_best();
            let last = self.state.last;
            self.extra.plan.observe(last.iteration, last.cost, last.validation_mse);
        }
        Ok(kept)
    }

    /// Whether no further iteration of this stage makes sense.
    fn ended(&self) -> bool {
        let state = &self.state;
        state.stuck || state.last.gradient_norm <= self.options.gradient_tolerance * state.first_gradient_norm
    }

    /// Fits the biases to what the tensor leaves over, and looks at cost and gradient again.
    fn refit(&mut self) -> Result<()> {
        let (Some(counts), Some(damping), Some(biases)) =
            (&self.counts, &self.extra.damping, &mut self.extra.biases)
        else {
            return Ok(());
        };
        let model = self.objective.model(&self.state.point);
        let data = &self.objective.data;
        let (train, exchange) = (data.train(), data.exchange());
        bias_fit::refit(train, exchange, data.mode_order(), &model, counts, damping, biases)?;
        self.state.last.passes += 2;
        let biases = biases.clone();
        self.objective.data.set_biases(Some(biases));
        self.solver.refresh(&mut self.state, &mut self.objective)
    }

    /// The model so far, in its own factors: the best by validation, or the last.
    pub fn model(&self) -> Fitted {
        fitted(&self.state, &self.extra, self.coordinates.as_ref())
    }

    /// What turns a point into a model's factors.
    pub fn coordinates(&self) -> Option<&Coordinates> {
        self.coordinates.as_ref()
    }
}
