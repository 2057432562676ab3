//! What a run starts with: solver, data, first point.

use super::config::{Config, GeometryKind, Init};
use super::limits::Limits;
use crate::budget::Budget;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::manifold::{Distribution, Euclidean, Geometry, Point, Preconditioned, random_point};
use crate::model::Model;
use crate::objective::{Needs, Streamed};
use crate::shard::Dataset;
use crate::solver::Solver;

/// The solver that a configuration asks for.
pub(super) fn solver(config: &Config) -> Solver {
    let geometry: Box<dyn Geometry> = match config.geometry {
        GeometryKind::Preconditioned => Box::new(Preconditioned),
        GeometryKind::Euclidean => Box::new(Euclidean),
    };
    Solver::new(geometry, config.solver)
}

/// Opens the data, and says what is odd about it.
pub(super) fn open(
    dataset: &Dataset,
    config: &Config,
    budget: &Budget,
    limits: &Limits,
    control: &Control,
) -> Result<Streamed> {
    let manifest = dataset.manifest();
    if manifest.train.entries == 0 {
        return Err(Error::input(dataset.directory(), "the dataset has no train entries"));
    }
    let needs = Needs::of(dataset, &config.rank, config.precision, None, limits.threads);
    let objective = Streamed::open(dataset, &config.rank, config.precision, budget, None)?;
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
    Ok(objective)
}

/// The first point.
pub(super) fn start_point(config: &Config, dataset: &Dataset, objective: &Streamed) -> Result<Point> {
    let dims: Vec<usize> = dataset.manifest().dims().iter().map(|&dim| dim as usize).collect();
    let random = |distribution| random_point(&dims, &config.rank, distribution, config.seed);
    match &config.init {
        Init::Uniform => Ok(random(Distribution::Uniform)),
        Init::Gaussian => Ok(random(Distribution::Gaussian)),
        Init::Scaled => {
            let mut point = random(Distribution::Uniform);
            let scale = objective.least_squares_scale(&point)?;
            point.core.scale(scale);
            Ok(point)
        }
        Init::Run(run) => {
            let model = Model::read(run)?;
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
