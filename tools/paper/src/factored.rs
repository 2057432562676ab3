//! The systems that the engine itself has: ours, steepest descent in either metric, geomCG. They stream
//! through the same kernels, and are timed in the same way.

use crate::instance::Instance;
use crate::record::{Book, Clock, Errors, Rules};
use crate::{Result, told};
use tenfill_engine::budget::Budget;
use tenfill_engine::kernel::Precision;
use tenfill_engine::manifold::{
    Distribution, Embedded, Euclidean, Geometry, Point, Preconditioned, random_point,
};
use tenfill_engine::objective::{Regularised, Streamed};
use tenfill_engine::reduce::Exchange;
use tenfill_engine::shard::Split;
use tenfill_engine::solver::{Algorithm, Beta, Options, Solver, StoppedBy};
use tenfill_engine::stream::Stream;

/// A system of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Factored {
    /// The paper's proposal: conjugate gradients in the preconditioned metric.
    Ours,
    /// geomCG.
    GeomCg,
    /// Steepest descent in the preconditioned metric.
    DescentOurs,
    /// Steepest descent in the Euclidean metric.
    DescentEuclidean,
}

/// Where a system starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The paper's generator as it is.
    Raw,
    /// The same with its core scaled by least squares to the train entries.
    Scaled,
}

impl Factored {
    /// Its name in tables and figures.
    pub fn name(self) -> &'static str {
        match self {
            Factored::Ours => "ours",
            Factored::GeomCg => "geomCG",
            Factored::DescentOurs => "SD proposed metric",
            Factored::DescentEuclidean => "SD Euclidean metric",
        }
    }

    fn solver(self, rules: &Rules) -> Solver {
        let options = Options {
            tolerance: rules.tolerance,
            max_iterations: rules.max_iterations,
            patience: rules.patience,
            ..Options::default()
        };
        let (algorithm, beta) = match self {
            Factored::Ours => (Algorithm::ConjugateGradient, Beta::HestenesStiefel),
            Factored::GeomCg => (Algorithm::GeomCg, Beta::PolakRibiere),
            Factored::DescentOurs | Factored::DescentEuclidean => (Algorithm::SteepestDescent, options.beta),
        };
        let geometry: Box<dyn Geometry> = match self {
            Factored::Ours | Factored::DescentOurs => Box::new(Preconditioned),
            Factored::DescentEuclidean => Box::new(Euclidean),
            Factored::GeomCg => Box::new(Embedded),
        };
        Solver::boxed(geometry, Options { algorithm, beta, ..options })
    }
}

/// Opens the entries of an instance for models of its rank.
pub fn open(instance: &Instance, precision: Precision) -> Result<Regularised> {
    let budget = Budget::new(Budget::default_bytes()).map_err(told)?;
    let data = Streamed::open(&instance.dataset, &instance.about.rank, precision, &budget, None);
    Ok(Regularised::new(data.map_err(told)?))
}

/// The first point of a system on an instance; the same for all systems.
pub fn first_point(instance: &Instance, objective: &Regularised, start: Start) -> Result<Point> {
    let about = &instance.about;
    // Not the seed of the instance, whose generator is the same.
    let mut point = random_point(&about.dims, &about.rank, Distribution::Uniform, about.seed + 1000);
    if start == Start::Scaled {
        point.core.scale(objective.data.least_squares_scale(&point).map_err(told)?);
    }
    Ok(point)
}

/// The test entries of an instance.
pub fn test_entries(instance: &Instance) -> Result<Stream> {
    Stream::open(&instance.dataset, Split::Test, None).map_err(told)
}

/// The mean squared error of a model on the entries of a stream.
pub fn test_mse(objective: &Regularised, test: &Stream, point: &Point) -> Result<f64> {
    let dims: Vec<usize> = objective.data.mode_order().iter().map(|&mode| point.dims()[mode]).collect();
    let exchange = Exchange::new(test, &dims).map_err(told)?;
    Ok(objective.score(test, &exchange, point).map_err(told)?.mse().unwrap_or(f64::NAN))
}

/// Completes an instance and writes down how it went; returns the model that is kept.
pub fn run(
    book: &mut Book,
    instance: &Instance,
    system: Factored,
    start: Start,
    rules: &Rules,
    precision: Precision,
) -> Result<Point> {
    let mut objective = open(instance, precision)?;
    let test = test_entries(instance)?;
    let mut solver = system.solver(rules);
    let mut clock = Clock::stopped();
    let point = first_point(instance, &objective, start)?;
    let mut state = clock.time(|| solver.start(&mut objective, point)).map_err(told)?;
    let mut trace = Vec::new();
    let stopped_by = loop {
        trace.push(Errors {
            iteration: state.last.iteration,
            passes: state.last.passes,
            train_mse: state.last.train_mse,
            validation_mse: state.last.validation_mse,
            test_mse: test_mse(&objective, &test, &state.point)?,
            time: clock.spent(),
        });
        if let Some(reason) = solver.stop(&state) {
            break reason;
        }
        if clock.time(|| solver.iterate(&mut state, &mut objective)).map_err(told)?.is_none() {
            break StoppedBy::Step;
        }
    };
    let name = match start {
        Start::Raw => system.name().to_string(),
        Start::Scaled => format!("{}, scaled start", system.name()),
    };
    book.add(&instance.about, &name, &trace, stopped_by);
    Ok(state.model().clone())
}
