//! What a stage configures: the objective with its penalty, coordinates and held modes, and the solver.

use super::first::{self, first_point};
use super::plan::Stage;
use super::settings::{BiasChoice, Recipe};
use crate::bayes::{Room, Slices, per_weight};
use crate::control::Control;
use crate::error::{Error, Result};
use crate::manifold::{Distribution, Point, orthonormalize, random_point_on};
use crate::model::{Biases, Clip};
use crate::objective::bias_fit::{self, Counts};
use crate::objective::{Coordinates, Penalty, Regularised, is_uneven, may_be_uneven};
use crate::shard::Manifest;
use crate::solver::{Algorithm, Beta, Options, Solver, State};

// What other values do: docs/thresholds.md.
/// The nuclear norm's smoothing, beside the variance of the values.
const SMOOTHING: f64 = 1e-8;

/// What a run is made under: the same from the first iteration to the last.
pub(super) struct Terms {
    pub(super) options: Options,
    pub(super) recipe: Recipe,
    pub(super) dims: Vec<usize>,
    /// The highest ranks.
    pub(super) bound: Vec<usize>,
    /// The highest ranks of components that are found one by one before sweeps, where the rank is left to the data; empty
    /// where there are none.
    pub(super) grown: Vec<usize>,
    /// Whether memory has room for the plain method.
    pub(super) plain: bool,
    pub(super) seed: u64,
    /// The variance of the train values.
    pub(super) variance: f64,
    pub(super) control: Control,
    /// Whether the ranks follow from the data.
    pub(super) rank_auto: bool,
    /// The components that sweeps begin with then.
    pub(super) components: usize,
    /// Whether there is no room for others than those of the first pair.
    pub(super) pair_alone: bool,
    pub(super) manifest: Manifest,
    /// Makes a solver with the metric of the run.
    pub(super) make_solver: Box<dyn Fn(Options) -> Solver + Send>,
}

impl Terms {
    /// The highest ranks while components are found one by one.
    pub(super) fn growth_bound(&self) -> &[usize] {
        if self.grown.is_empty() { &self.bound } else { &self.grown }
    }
}

/// Objective and solver, which follow the stage.
pub(super) struct Fitting {
    pub(super) terms: Terms,
    pub(super) objective: Regularised,
    pub(super) solver: Solver,
    /// Entries of every row, where biases or a penalty are given; and the coordinates that follow from them, there and where
    /// entries are spread unevenly.
    pub(super) counts: Option<Counts>,
    pub(super) coordinates: Option<Coordinates>,
    /// What sweeps over rows need to go through the train entries.
    pub(super) slices: Option<Slices>,
}

impl Fitting {
    /// The plain method's.
    pub(super) fn new(terms: Terms, mut objective: Regularised) -> Self {
        objective.clip = terms.recipe.range.map(|range| Clip::new(range, None));
        let solver = (terms.make_solver)(terms.options);
        Fitting { terms, objective, solver, counts: None, coordinates: None, slices: None }
    }

    /// Counts the entries of every row, where a stage needs that.
    pub(super) fn count(&mut self, stage: &Stage) -> Result<()> {
        let (manifest, train) = (&self.terms.manifest, self.objective.data.train());
        if stage.even {
            self.coordinates = Some(Coordinates::even(&bias_fit::count(manifest, train, None)?.0));
        } else if !self.terms.recipe.is_plain() && !self.terms.recipe.sweeps {
            let (counts, _) = bias_fit::count(manifest, train, self.terms.recipe.bias_time)?;
            self.take_counts(counts);
        }
        Ok(())
    }

    /// Takes the entries of every row, and the coordinates that follow from them.
    pub(super) fn take_counts(&mut self, counts: Counts) {
        self.coordinates = Some(Coordinates::smoothed(&counts));
        self.counts = Some(counts);
    }

    /// Goes over to coordinates in which entries are spread evenly, where they are not as they are, and says whether; and
    /// the passes that this has taken.
    pub(super) fn even_out(&mut self) -> Result<(bool, usize)> {
        let (manifest, train) = (&self.terms.manifest, self.objective.data.train());
        if !may_be_uneven(manifest, train)? {
            return Ok((false, 0));
        }
        let (counts, _) = bias_fit::count(manifest, train, None)?;
        // Rows without entries are zero in these: there must be others for all components.
        let seen = |weights: &Vec<f64>| weights.iter().filter(|&&n| n > 0.0).count();
        let enough = counts.modes.iter().zip(self.terms.growth_bound()).all(|(of, &rank)| seen(of) >= rank);
        if !(enough && is_uneven(&counts, manifest.train.entries)) {
            return Ok((false, 1));
        }
        self.terms.control.detail("rows differ in how many entries they have: steps allow for that");
        self.coordinates = Some(Coordinates::even(&counts));
        self.objective.coordinates.clone_from(&self.coordinates);
        Ok((true, 1))
    }

    /// The point of a model in the present coordinates, with orthonormal factors.
    pub(super) fn in_coordinates(&self, mut point: Point) -> Result<Point> {
        let Some(coordinates) = &self.coordinates else { return Ok(point) };
        for (mode, factor) in point.factors.iter_mut().enumerate() {
            coordinates.unscale_in_place(mode, factor);
            let upper = orthonormalize(factor).map_err(|dependent| {
                Error::request(format!("the model to start from cannot be used: {dependent}"))
            })?;
            point.core = point.core.mode_product(mode, &upper);
        }
        Ok(point)
    }

    /// A random point of these ranks, scaled by least squares, and the objective's ranks are these.
    pub(super) fn random_start(&mut self, ranks: &[usize], seed: u64) -> Result<Point> {
        let (data, dims) = (&mut self.objective.data, &self.terms.dims);
        let mut point = random_point_on(data.team(), dims, ranks, Distribution::Uniform, seed);
        data.set_ranks(dims, ranks);
        let scale = data.least_squares_scale(&point)?;
        point.core.scale(scale);
        self.in_coordinates(point)
    }

    /// Finds out what sweeps over rows need.
    pub(super) fn find_slices(&mut self) -> Result<()> {
        let (manifest, train) = (&self.terms.manifest, self.objective.data.train());
        let (lanes, sums) = self.objective.data.needs().sweep_room;
        let slices = Slices::new(train, per_weight(manifest, train), manifest.modes.len())?;
        self.slices = Some(slices.within(Room { lanes, sums }));
        Ok(())
    }

    /// Sets objective and solver up for a stage and the biases of its iterates.
    pub(super) fn adopt(&mut self, stage: &Stage, biases: Option<&Biases>) {
        let objective = &mut self.objective;
        objective.held.clone_from(&stage.held);
        if !stage.held.contains(&true) {
            objective.held.clear();
        }
        objective.coordinates = if stage.has_coordinates() { self.coordinates.clone() } else { None };
        let smoothing = SMOOTHING * self.terms.variance;
        objective.penalty = Penalty { kind: stage.kind, lambda: stage.lambda, smoothing };
        let biases = if stage.bias == BiasChoice::None { None } else { biases.cloned() };
        objective.data.set_biases(biases);
        objective.data.set_ranks(&self.terms.dims, &stage.ranks);
        let mut options = self.terms.options;
        if stage.smoothed && options.algorithm == Algorithm::Auto {
            options.algorithm = Algorithm::ConjugateGradient;
        }
        if stage.smoothed && options.beta == Beta::HestenesStiefel {
            options.beta = Beta::HestenesStiefelDaiYuan;
        }
        if *self.solver.options() != options {
            self.solver = (self.terms.make_solver)(options);
        }
    }

    /// The state at the start of a stage with smoothed coordinates, and the passes that it took: from a model's point, or
    /// from nothing, growing in the two `main` modes.
    pub(super) fn start(
        &mut self,
        stage: &Stage,
        warm: Option<Point>,
        main: [usize; 2],
    ) -> Result<(State, usize)> {
        let Some(coordinates) = &self.coordinates else {
            return Err(Error::request("biases and penalties need counts, and the plain method has none"));
        };
        let (point, passes) = match warm {
            Some(point) => (point, 1),
            None => {
                let (objective, terms) = (&mut self.objective, &self.terms);
                let (dims, spread, seed) = (&terms.dims, terms.variance.sqrt(), terms.seed);
                let point = first_point(objective, coordinates, dims, &stage.ranks, main, spread, seed)?;
                (point, 1 + first::PASSES)
            }
        };
        let state = self.solver.start(&mut self.objective, point)?;
        Ok((state, passes))
    }

    /// Gives back the memory that only a next iteration would need.
    pub(super) fn release(&mut self) {
        self.solver = (self.terms.make_solver)(self.terms.options);
        self.objective.release();
        let ones = vec![1; self.terms.dims.len()];
        self.objective.data.set_ranks(&ones, &ones);
    }
}
