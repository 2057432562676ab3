//! Runs the solver on a dataset: log, checkpoints, model, and an end at any time.

use super::config::{Config, GeometryKind, Init, check_rank};
use super::log::{Log, LogLine};
use crate::budget::Budget;
use crate::checkpoint::{Checkpoints, Progress, remove_partial};
use crate::control::{Control, Unit};
use crate::error::{Error, IoContext, Result};
use crate::manifold::{Distribution, Euclidean, Geometry, Point, Preconditioned, random_point};
use crate::model::{Model, unseen_indices};
use crate::objective::{Needs, Streamed};
use crate::shard::{Dataset, Split};
use crate::solver::{Iteration, Options, Solver, State, StoppedBy};
use crate::storage::{Disk, RealDisk};
use crate::usage::Usage;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often a checkpoint is written: after so many iterations or so much time, whichever comes
/// first; at the end in any case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Every {
    /// Iterations; 0 for never.
    pub iterations: usize,
    /// Time.
    pub time: Duration,
}

impl Default for Every {
    fn default() -> Self {
        Every { iterations: 10, time: Duration::from_secs(300) }
    }
}

impl Every {
    /// From `10`, `5m` or `10,5m`; `0` for at the end only.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut every = Every::default();
        for part in text.split(',') {
            if let Some(seconds) = crate::units::parse_seconds(part) {
                every.time = Duration::from_secs_f64(seconds.min(1e9));
            } else {
                every.iterations = part
                    .trim()
                    .parse()
                    .map_err(|_| format!("'{part}' is neither iterations (10) nor a time (5m)"))?;
            }
        }
        if every.iterations == 0 {
            every.time = Duration::MAX;
        }
        Ok(every)
    }
}

/// What may differ between one start of a run and the next, without changing its result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Memory to keep to.
    pub memory: u64,
    /// Threads.
    pub threads: usize,
    /// Checkpoints.
    pub every: Every,
}

impl Default for Limits {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Limits { memory: Budget::default_bytes(), threads, every: Every::default() }
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The newest iteration.
    pub last: Iteration,
    /// Why there is no further one.
    pub stopped_by: StoppedBy,
    /// The iteration of the model that was kept.
    pub best_iteration: usize,
    /// The errors of that model.
    pub train_mse: f64,
    /// On validation; none without such entries.
    pub validation_mse: Option<f64>,
    /// On test; none without such entries.
    pub test_mse: Option<f64>,
    /// The ranks.
    pub rank: Vec<usize>,
    /// Wall and processor time of the run, restarts included.
    pub progress: Progress,
}

/// Completes a dataset: the whole of a run, from a new directory.
pub fn complete(
    run: &Path,
    dataset: &Dataset,
    config: &Config,
    limits: &Limits,
    control: &Control,
) -> Result<Outcome> {
    let mut config = config.clone();
    config.rank = check_rank(&config.rank, dataset.manifest())?;
    in_pool(limits.threads, || {
        let disk = RealDisk;
        let budget = Budget::new(limits.memory)?;
        let mut objective = open(dataset, &config, &budget, limits, control)?;
        disk.create_dir(run).context("create", run)?;
        config.write(&disk, run)?;
        let model = run.join("model");
        disk.create_dir(&model).context("create", &model)?;
        Model::write_labels(&disk, dataset, &model)?;
        let usage = Usage::start();
        let mut solver = solver(&config);
        let point = start_point(&config, dataset, &objective)?;
        let state = solver.start(&mut objective, point)?;
        let mut job =
            Job::new(run, dataset, &config, limits, control, usage, Progress::default(), &objective, None)?;
        job.log_iteration(&state, &objective, 1, 0.0)?;
        job.go_on(solver, state, objective)
    })
}

/// Goes on with a run from its newest good checkpoint, with other limits where given.
pub fn resume(
    run: &Path,
    change: impl FnOnce(&mut Options),
    limits: &Limits,
    control: &Control,
) -> Result<Outcome> {
    let disk = RealDisk;
    let mut config = Config::read(run)?;
    change(&mut config.solver);
    let dataset = config.open_dataset(run)?;
    let checkpoints = Checkpoints::new(run.join("checkpoints"), config.fingerprint());
    checkpoints.clean(&disk)?;
    remove_partial(&disk, run)?;
    remove_partial(&disk, &run.join("model"))?;
    let loaded = checkpoints.newest()?;
    for damaged in &loaded.damaged {
        control.say(format!("{damaged}, going on from {}", loaded.state.last.iteration));
    }
    if loaded.damaged.is_empty() {
        control.say(format!("going on from checkpoint {}", loaded.state.last.iteration));
    }
    in_pool(limits.threads, || {
        let budget = Budget::new(limits.memory)?;
        let objective = open(&dataset, &config, &budget, limits, control)?;
        config.write(&disk, run)?;
        let upto = Some(loaded.state.last.iteration);
        let (usage, before) = (Usage::start(), loaded.progress.clone());
        let job = Job::new(run, &dataset, &config, limits, control, usage, before, &objective, upto)?;
        job.go_on(solver(&config), loaded.state, objective)
    })
}

/// Runs `work` on a pool of its own; the number of threads never changes a bit of the result.
fn in_pool<T: Send>(threads: usize, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.max(1)).build();
    let pool =
        pool.map_err(|error| Error::request(format!("{threads} threads cannot be started: {error}")))?;
    pool.install(work)
}

fn solver(config: &Config) -> Solver {
    let geometry: Box<dyn Geometry> = match config.geometry {
        GeometryKind::Preconditioned => Box::new(Preconditioned),
        GeometryKind::Euclidean => Box::new(Euclidean),
    };
    Solver::new(geometry, config.solver)
}

fn open(
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
    let needs = Needs::of(dataset, &config.rank, None, limits.threads);
    let objective = Streamed::open(dataset, &config.rank, budget, None)?;
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

fn start_point(config: &Config, dataset: &Dataset, objective: &Streamed) -> Result<Point> {
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

/// What goes along with the solver.
struct Job<'a> {
    run: &'a Path,
    dataset: &'a Dataset,
    config: &'a Config,
    limits: &'a Limits,
    control: &'a Control,
    usage: Usage,
    /// What earlier starts of the run have used.
    before: Progress,
    bytes_before: u64,
    checkpoints: Checkpoints,
    unseen: Vec<Vec<u32>>,
    log: Log,
    best_train_mse: Option<f64>,
}

impl<'a> Job<'a> {
    fn new(
        run: &'a Path,
        dataset: &'a Dataset,
        config: &'a Config,
        limits: &'a Limits,
        control: &'a Control,
        usage: Usage,
        before: Progress,
        objective: &Streamed,
        upto: Option<usize>,
    ) -> Result<Self> {
        let disk = RealDisk;
        control.progress().stage("complete", Unit::Iterations, config.solver.max_iterations as u64);
        Ok(Job {
            run,
            dataset,
            config,
            limits,
            control,
            usage,
            best_train_mse: before.best_train_mse,
            bytes_before: before.bytes_read,
            before,
            checkpoints: Checkpoints::new(run.join("checkpoints"), config.fingerprint()),
            unseen: unseen_indices(objective.unseen(), &dataset.manifest().mode_order),
            log: Log::open(&disk, run, upto)?,
        })
    }

    fn progress(&self, objective: &Streamed) -> Progress {
        Progress {
            seconds: self.before.seconds + self.usage.seconds(),
            cpu_seconds: self.before.cpu_seconds + self.usage.cpu_seconds(),
            bytes_read: self.bytes_before + objective.train().bytes_read(),
            best_train_mse: self.best_train_mse,
        }
    }

    fn log_iteration(
        &mut self,
        state: &State,
        objective: &Streamed,
        passes: usize,
        seconds: f64,
    ) -> Result<()> {
        let last = state.last;
        if state.best.as_ref().is_some_and(|best| best.iteration == last.iteration) {
            self.best_train_mse = Some(last.train_mse);
        }
        let progress = self.progress(objective);
        let entries = objective.train().entries() as f64 * passes as f64;
        let entries_per_second = if seconds > 0.0 { entries / seconds } else { 0.0 };
        self.log.write(&LogLine {
            iteration: last,
            rank: self.config.rank.clone(),
            seconds: progress.seconds,
            cpu_seconds: progress.cpu_seconds,
            entries_per_second,
            bytes_read: progress.bytes_read,
            peak_rss_bytes: crate::usage::peak_resident_bytes(),
        })?;
        let validation = last.validation_mse.map_or(String::new(), |mse| format!("  validation {mse:.6e}"));
        self.control.progress().advance(
            last.iteration as u64,
            &format_args!(
                "train {:.6e}{validation}  {:.1} M entries/s",
                last.train_mse,
                entries_per_second / 1e6
            ),
        );
        Ok(())
    }

    fn go_on(mut self, mut solver: Solver, mut state: State, mut objective: Streamed) -> Result<Outcome> {
        let mut saved = (state.last.iteration, Instant::now());
        let stopped_by = loop {
            if let Some(reason) = solver.stop(&state) {
                break reason;
            }
            if self.control.stopping() {
                break StoppedBy::Interrupted;
            }
            let (passes, begun) = (state.last.passes, Instant::now());
            if solver.iterate(&mut state, &mut objective)?.is_none() {
                continue; // no step lowers the cost: the state says so
            }
            let seconds = begun.elapsed().as_secs_f64();
            self.log_iteration(&state, &objective, state.last.passes - passes, seconds)?;
            if state.last.guarded > 0 && state.guards == state.last.guarded {
                self.control.say("the core is nearly singular in some mode (see 'guarded' in log.jsonl): is the rank too large?");
            }
            let every = &self.limits.every;
            let due = every.iterations > 0 && state.last.iteration >= saved.0 + every.iterations;
            if due || saved.1.elapsed() >= every.time {
                self.save(&state, &objective)?;
                saved = (state.last.iteration, Instant::now());
            }
        };
        self.save(&state, &objective)?;
        self.finish(&state, &objective, stopped_by)
    }

    /// Writes a checkpoint and the model that goes with it.
    fn save(&mut self, state: &State, objective: &Streamed) -> Result<()> {
        let disk = RealDisk;
        self.log.sync()?;
        self.checkpoints.save(&disk, state, &self.progress(objective))?;
        Model::write(
            &disk,
            &self.run.join("model"),
            self.dataset,
            state.model(),
            &self.unseen,
            self.kept(state),
        )
    }

    /// Iteration, train and validation error of the model that is kept.
    fn kept(&self, state: &State) -> (usize, f64, Option<f64>) {
        match &state.best {
            Some(best) => (
                best.iteration,
                self.best_train_mse.unwrap_or(state.last.train_mse),
                Some(best.validation_mse),
            ),
            None => (state.last.iteration, state.last.train_mse, state.last.validation_mse),
        }
    }

    fn finish(&self, state: &State, objective: &Streamed, stopped_by: StoppedBy) -> Result<Outcome> {
        let (best_iteration, train_mse, validation_mse) = self.kept(state);
        let manifest = self.dataset.manifest();
        let test_mse = match manifest.test.entries {
            0 => None,
            _ => {
                let stream = crate::stream::Stream::open(self.dataset, Split::Test, None)?;
                let sums = crate::objective::residuals(
                    &stream,
                    state.model(),
                    &manifest.mode_order,
                    objective.unseen(),
                )?;
                (sums.scored > 0).then(|| sums.squares / sums.scored as f64)
            }
        };
        Ok(Outcome {
            last: state.last,
            stopped_by,
            best_iteration,
            train_mse,
            validation_mse,
            test_mse,
            rank: self.config.rank.clone(),
            progress: self.progress(objective),
        })
    }
}
