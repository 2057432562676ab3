//! The main job: a dataset to a run.

use crate::{Dataset, Result, Run};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tenfill_engine::control::Control;
use tenfill_engine::recipe::{Recipe, auto_rank};
use tenfill_engine::run::{
    Config, Every, GeometryKind, Init, Limits, Observer, RunDirectory, check_rank, complete, inputs_of,
    unobserved,
};
use tenfill_engine::storage::{Output, RealDisk};

pub use tenfill_engine::run::LogLine;
pub use tenfill_engine::solver::Algorithm;

/// The metric of the search space.
pub use tenfill_engine::run::GeometryKind as Metric;

/// A completion on its way: a Tucker model is fitted to the train entries of a dataset, which are streamed
/// from disk.
///
/// ```
/// # fn main() -> tenfill::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let (csv, run) = (folder.path().join("r.csv"), folder.path().join("run"));
/// # let rows: Vec<String> = (0..400).map(|n| format!("u{},m{},{}", n % 20, n / 20, 1 + n * 7 % 5)).collect();
/// # std::fs::write(&csv, format!("user,movie,rating\n{}\n", rows.join("\n"))).unwrap();
/// # let dataset = tenfill::ConvertOptions::new([&csv]).convert(folder.path().join("d"))?;
/// use std::ops::ControlFlow;
/// use tenfill::Completion;
///
/// let run = Completion::new(&dataset)
///     .rank([2, 2])
///     .memory(256 << 20)
///     .observe(|line| {
///         println!("{}: {}", line.iteration.iteration, line.train_rmse);
///         if line.iteration.iteration < 20 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
///     })
///     .run(&run)?;
/// println!("test MSE {:?}", run.outcome().unwrap().test_mse);
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing happens before `run`"]
pub struct Completion<'a> {
    dataset: &'a Dataset,
    rank: Option<Vec<usize>>,
    plain: bool,
    config: Config,
    limits: Limits,
    force: bool,
    stop: Option<Arc<AtomicBool>>,
    observe: Option<Box<Observer<'a>>>,
}

impl<'a> Completion<'a> {
    /// With the defaults of the command line: validation finds the ranks.
    pub fn new(dataset: &'a Dataset) -> Self {
        let mut config = Config::new(&dataset.0, auto_rank(dataset.0.manifest()));
        config.solver.patience = 10;
        Completion {
            dataset,
            rank: None,
            plain: false,
            config,
            limits: Limits::default(),
            force: false,
            stop: None,
            observe: None,
        }
    }

    /// Ranks, one per mode, or one number for all modes.
    pub fn rank(mut self, rank: impl Into<Vec<usize>>) -> Self {
        self.rank = Some(rank.into());
        self
    }

    /// The paper's method as it is: no biases, no penalty.
    pub fn plain(mut self) -> Self {
        self.plain = true;
        self
    }

    /// Whether the validation entries are fitted to as well, in a last sweep when they have nothing left to decide. They are
    /// unless this says `false`.
    pub fn refit(mut self, refit: bool) -> Self {
        self.config.recipe.refit = refit && self.config.recipe.sweeps;
        self
    }

    /// How directions follow one another.
    pub fn algorithm(mut self, algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::GeomCg => {
                self.plain = true;
                self.config.use_geomcg();
            }
            other => self.config.solver.algorithm = other,
        }
        self
    }

    /// The metric of the search space, for conjugate gradients where no algorithm was asked for.
    pub fn metric(mut self, metric: GeometryKind) -> Self {
        self.config.geometry = metric;
        if self.config.solver.algorithm == Algorithm::Auto {
            self.config.solver.algorithm = Algorithm::ConjugateGradient;
        }
        self
    }

    /// Starts from the model of another run.
    pub fn init(mut self, run: &Run) -> Self {
        self.config.init = Init::Run(run.path().into());
        self
    }

    /// Seeds the start.
    pub fn seed(mut self, seed: u64) -> Self {
        self.config.seed = seed;
        self
    }

    /// Stop when the train MSE is at most this, as the paper does; 0 switches it off. Instead of the usual stop,
    /// which is relative.
    pub fn tolerance(mut self, mse: f64) -> Self {
        self.config.set_tolerances(Some(mse), None);
        self
    }

    /// Stop when the train MSE is at most this share of the variance of the train values [1e-12].
    pub fn relative_tolerance(mut self, share: f64) -> Self {
        self.config.set_tolerances(None, Some(share));
        self
    }

    /// Stop after this many iterations.
    pub fn max_iterations(mut self, iterations: usize) -> Self {
        self.config.solver.max_iterations = iterations;
        self
    }

    /// Stop when validation has not improved for this many iterations; 0 switches it off.
    pub fn patience(mut self, iterations: usize) -> Self {
        self.config.solver.patience = iterations;
        self
    }

    /// The memory to keep to, in bytes.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.limits.memory = bytes;
        self
    }

    /// Threads; their number never changes a bit of the result.
    pub fn threads(mut self, threads: usize) -> Self {
        self.limits.threads = threads.max(1);
        self
    }

    /// A checkpoint after this many iterations, and every five minutes; 0 for at the end only.
    pub fn checkpoint_every(mut self, iterations: usize) -> Self {
        self.limits.every = Every { iterations, ..self.limits.every };
        self
    }

    /// Whether to replace a run that is there already. It stays until the new one has something to show.
    pub fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Calls `observe` with every line of the log; `Break` ends the run here, with a checkpoint and the errors of
    /// its model.
    pub fn observe(mut self, observe: impl Fn(&LogLine) -> ControlFlow<()> + Sync + 'a) -> Self {
        self.observe = Some(Box::new(observe));
        self
    }

    /// Ends the run as soon as this becomes true, with a checkpoint of its last whole iteration, as Ctrl-C does on the
    /// command line: for signal handlers, of which the library has none. Nobody waits for the errors of the model then;
    /// before the first iteration it is [`Error::Interrupted`](crate::Error::Interrupted).
    pub fn stop_when(mut self, stop: Arc<AtomicBool>) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Runs it, into a new directory.
    ///
    /// # Errors
    ///
    /// Ranks that cannot be, too little memory, an output that exists, a disk that fails. What was written
    /// up to the last checkpoint stays: [`Run::resume`] goes on from there.
    pub fn run(self, output: impl AsRef<Path>) -> Result<Run> {
        let manifest = self.dataset.0.manifest();
        let mut config = self.config;
        config.rank_auto = self.rank.is_none();
        config.rank = match &self.rank {
            Some(rank) => check_rank(rank, manifest)?,
            None => auto_rank(manifest),
        };
        if self.plain {
            config.recipe = Recipe { range: config.recipe.range, ..Recipe::plain() };
        }
        config.dataset = std::path::absolute(self.dataset.path()).map_err(|_| {
            tenfill_engine::Error::input(self.dataset.path(), "the dataset's place is unknown")
        })?;
        let control = control(self.stop);
        let output: PathBuf = output.as_ref().into();
        let mut inputs = vec![self.dataset.path().to_path_buf()];
        if let Init::Run(run) = &config.init {
            inputs.extend(inputs_of(run));
        }
        let place = Output::new(&output, self.force).apart_from(inputs);
        let directory = RunDirectory::create(&RealDisk, &place)?;
        let observe: &Observer<'_> = self.observe.as_deref().unwrap_or(&unobserved);
        let outcome = complete(&directory, &self.dataset.0, &config, &self.limits, &control, observe)?;
        Ok(Run::ended(output, outcome))
    }
}

/// A control that stops when asked to, and says nothing.
pub(crate) fn control(stop: Option<Arc<AtomicBool>>) -> Control {
    stop.map_or_else(Control::default, Control::stopped_by)
}
