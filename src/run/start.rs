//! What a run starts with: solver, data, first point.

use super::config::{Config, GeometryKind, Init};
use super::limits::Limits;
use crate::budget::Budget;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::manifold::{Distribution, Embedded, Euclidean, Geometry, Point, Preconditioned, random_point};
use crate::model::Model;
use crate::objective::{Needs, Regularised, Streamed};
use crate::recipe::Setup;
use crate::shard::Dataset;
use crate::solver::{Algorithm, CHUNKS, Options, Solver};

/// The solver that a configuration asks for.
fn solver(kind: GeometryKind, options: Options) -> Solver {
    let geometry: Box<dyn Geometry> = match kind {
        GeometryKind::Preconditioned => Box::new(Preconditioned),
        GeometryKind::Euclidean => Box::new(Euclidean),
        GeometryKind::Embedded => Box::new(Embedded),
    };
    Solver::new(geometry, options)
}

/// What a trainer is made from.
pub(super) fn setup<'a>(config: &'a Config, dataset: &'a Dataset) -> Setup<'a> {
    let kind = config.geometry;
    Setup {
        dataset,
        recipe: &config.recipe,
        ranks: &config.rank,
        options: config.solver,
        seed: config.seed,
        probe: !config.rank_auto,
        warm: None,
        make_solver: Box::new(move |options| solver(kind, options)),
    }
}

/// What a run needs.
pub(super) fn needs(config: &Config, dataset: &Dataset, threads: usize) -> Needs {
    let needs = Needs::of(dataset, &config.rank, config.precision, None, threads);
    with_more(config, dataset, needs)
}

/// What a configuration needs beside the plain method's memory.
fn with_more(config: &Config, dataset: &Dataset, needs: Needs) -> Needs {
    let needs = if config.recipe.is_plain() { needs } else { needs.with_recipe(dataset) };
    if config.solver.algorithm == Algorithm::Stochastic { needs.with_chunks() } else { needs }
}

/// Opens the data, and says what is odd about it.
pub(super) fn open(
    dataset: &Dataset,
    config: &Config,
    budget: &Budget,
    limits: &Limits,
    control: &Control,
) -> Result<Regularised> {
    let manifest = dataset.manifest();
    if manifest.train.entries == 0 {
        return Err(Error::input(dataset.directory(), "the dataset has no train entries"));
    }
    config.recipe.check(manifest)?;
    let needs = needs(config, dataset, limits.threads);
    let more = |needs: Needs| with_more(config, dataset, needs);
    let mut objective = Streamed::open_for(dataset, &config.rank, config.precision, budget, None, more)?;
    if config.solver.algorithm == Algorithm::Stochastic {
        objective.cut(CHUNKS);
    }
    let buffers = needs.buffers(budget.total())?;
    if buffers < needs.lanes {
        let (have, need) = (crate::units::size(budget.total()), crate::units::size(needs.total(needs.lanes)));
        control.say(format!(
            "{buffers} of {} lanes at a time fit into {have}; {need} would be faster",
            needs.lanes
        ));
    }
    for mode in &manifest.modes {
        let missing = u64::from(mode.dim) - mode.statistics.in_train;
        if missing > 0 {
            let (count, dim) = (crate::units::count(missing), crate::units::count(mode.dim.into()));
            control.say(format!(
                "{count} of {dim} rows of {} have no train entries and cannot be learned",
                mode.name
            ));
        }
    }
    if manifest.values.min == manifest.values.max {
        control.say(format!("all train values are {}: there is little to learn", manifest.values.min));
    }
    Ok(Regularised::new(objective))
}

/// The model that a run with a recipe starts from, where one was given.
pub(super) fn warm(config: &Config, dataset: &Dataset) -> Result<Option<Model>> {
    let Init::Run(run) = &config.init else { return Ok(None) };
    if config.recipe.is_plain() {
        return Ok(None);
    }
    let model = Model::read(run)?;
    let dims: Vec<usize> = dataset.manifest().dims().iter().map(|&dim| dim as usize).collect();
    let ranks = model.point.ranks();
    if model.point.dims() != dims || ranks.iter().zip(&config.rank).any(|(rank, bound)| rank > bound) {
        let what = format!(
            "its model has dimensions {:?} and rank {ranks:?}, this run {dims:?} and at most {:?}",
            model.point.dims(),
            config.rank
        );
        return Err(Error::input(run, what));
    }
    Ok(Some(model))
}

/// The first point.
pub(super) fn start_point(config: &Config, dataset: &Dataset, objective: &Regularised) -> Result<Point> {
    let dims: Vec<usize> = dataset.manifest().dims().iter().map(|&dim| dim as usize).collect();
    let random = |distribution| random_point(&dims, &config.rank, distribution, config.seed);
    match &config.init {
        Init::Uniform => Ok(random(Distribution::Uniform)),
        Init::Gaussian => Ok(random(Distribution::Gaussian)),
        Init::Scaled => {
            let mut point = random(Distribution::Uniform);
            let scale = objective.data.least_squares_scale(&point)?;
            point.core.scale(scale);
            Ok(point)
        }
        Init::Run(run) => {
            let model = Model::read(run)?;
            if model.biases.is_some() {
                let what = "its model has biases, which the plain method has not: leave --bias to auto";
                return Err(Error::input(run, what));
            }
            if model.point.dims() != dims || model.point.ranks() != config.rank {
                let what = format!(
                    "its model has dimensions {:?} and rank {:?}, this run {dims:?} and {:?}",
                    model.point.dims(),
                    model.point.ranks(),
                    config.rank
                );
                return Err(Error::input(run, what));
            }
            Ok(model.point)
        }
    }
}
