//! Runs the solver on a dataset: log, checkpoints, model, and an end at any time.

use super::config::{Config, check_rank};
use super::directory::RunDirectory;
use super::end::End;
use super::kind::DataKind;
use super::limits::Limits;
use super::log::{Log, LogLine, Observer};
use super::save::{Background, Durable, Mark, Saver, Snapshot};
use super::start::{open, settle_room, settle_start, setup, start_point, warm, warm_fit};
use crate::budget::{Budget, Reservation};
use crate::checkpoint::{Checkpoints, Progress};
use crate::control::{Control, Unit};
use crate::error::{Error, Result};
use crate::model::Model;
use crate::objective::{LITTLE, Regularised, Scored, over_biases, r2};
use crate::recipe::{Extra, Move, Trainer, Tried};
use crate::shard::{Dataset, Split};
use crate::solver::{Iteration, Options, StoppedBy};
use crate::storage::make_dir;
use crate::team::Combine;
use crate::units;
use crate::usage::Usage;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

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
    /// On validation, entries that biases alone have scored included; none without such entries.
    pub validation_mse: Option<f64>,
    /// On test; none without such entries.
    pub test_mse: Option<f64>,
    /// The ranks of that model.
    pub rank: Vec<usize>,
    /// Whether it has biases.
    pub biases: bool,
    /// The modes that it holds constant.
    pub held: Vec<usize>,
    /// The weight of the penalty it was fitted with.
    pub penalty: f64,
    /// What was tried on the way.
    pub tried: Vec<Tried>,
    /// Its errors on every split that has entries, clipped, and with entries that biases alone
    /// have scored.
    pub errors: Vec<SplitErrors>,
    /// What kind of data it was found to be.
    pub kind: DataKind,
    /// Whether it says more than the mean of the train values, judged on entries that it has not seen where
    /// there are any.
    pub learned: bool,
    /// The column of weights by which all errors are weighted; none where entries count once.
    pub weights: Option<String>,
    /// Whether the last sweep was to the validation entries as well. Their errors are those of the model before it.
    pub refit: bool,
    /// Wall and processor time of the run, restarts included.
    pub progress: Progress,
}

/// The errors of a model on a split.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SplitErrors {
    /// The split.
    pub split: Split,
    /// Its errors.
    pub scored: Scored,
    /// The mean squared error of the mean of the train values on the same entries; none where they do not
    /// vary.
    pub mean_mse: Option<f64>,
    /// The mean squared error of biases alone on them: of a mean and a number per id, fitted without the tensor. None
    /// where the run was interrupted, or memory had no room for it.
    pub biases_mse: Option<f64>,
    /// The weight of the entries in these means, in the unit of the dataset's weights.
    pub weight: f64,
}

impl Outcome {
    /// [That](SplitErrors::over_biases) of the entries that were held out, test before validation, where the low-rank part
    /// adds less to biases alone than is worth speaking of.
    pub fn adds_little(&self) -> Option<f64> {
        let of = |split: Split| self.errors.iter().find(|errors| errors.split == split);
        let held_out = [Split::Test, Split::Validation].into_iter().filter_map(of);
        held_out.filter_map(SplitErrors::over_biases).next().filter(|&over| over < LITTLE)
    }
}

impl SplitErrors {
    /// The share of the values' variance about the mean of the train values that the model explains; `None`
    /// where they do not vary.
    pub fn r2(&self) -> Option<f64> {
        Some(r2(self.scored.mse()?, self.mean_mse?))
    }

    /// How much lower the model's RMSE is than that of biases alone, as a share of it.
    pub fn over_biases(&self) -> Option<f64> {
        over_biases(self.scored.mse()?, self.biases_mse)
    }
}

/// Completes a dataset: the whole of a run, in a new directory.
pub fn complete(
    run: &RunDirectory<'_>,
    dataset: &Dataset,
    config: &Config,
    limits: &Limits,
    control: &Control,
    observe: &Observer<'_>,
) -> Result<Outcome> {
    let mut config = config.clone();
    let values = &dataset.manifest().values;
    if config.recipe.sweeps && values.min == values.max {
        config.use_mean();
    }
    settle_start(&mut config, dataset, limits.team, control)?;
    // Memory may differ between machines: that of the first process counts.
    let memory = limits.team.told_by_first(|| Ok(limits.memory.to_string()))?;
    let memory = memory.parse().unwrap_or(limits.memory);
    config.fit_rank(dataset.manifest(), memory);
    if let Some(bytes) = config.fit_growth(dataset.manifest(), memory) {
        let rank = match config.grown.is_empty() {
            true => String::new(),
            false => format!(" of a rank above {}", units::ranks(&config.grown)),
        };
        let (have, bytes) = (units::size(memory), units::size(bytes));
        // Of ratings nobody would look.
        let say = |text| if config.recipe.range.is_none() { control.say(text) } else { control.detail(text) };
        say(format!("{have} has no room to look for low-rank data{rank} first: {bytes} would do"));
    }
    config.rank = limits.team.agree(check_rank(&config.rank, dataset.manifest()))?;
    limits.team.agree(config.check_method().and_then(|()| config.check_lanes(limits.team)))?;
    limits.team.check_processors()?;
    in_pool(limits, || {
        let config = settle_room(config, dataset, limits, control)?;
        begin(run, dataset, &config, limits, control, observe)
    })
}

/// Goes on with a run from its newest good checkpoint, with other limits where given; from the
/// beginning where it was ended before its first.
pub fn resume(
    run: &RunDirectory<'_>,
    change: impl FnOnce(&mut Config),
    limits: &Limits,
    control: &Control,
    observe: &Observer<'_>,
) -> Result<Outcome> {
    let team = limits.team;
    let mut config = Config::read_for(run.path(), team)?;
    team.agree(config.check_lanes(team))?;
    team.check_processors()?;
    let searching = || {
        let what = "this run is a search over ranks and penalties, which this version has not and cannot go on with: its \
                    model can be used as it is, and `tenfill complete` begins a new run";
        team.agree(Err(Error::input(run.path(), what)))
    };
    if config.recipe.is_search() {
        return searching();
    }
    if !config.added.is_empty() {
        let what =
            "rows were folded into this run, so it cannot go on: complete the data with the new entries";
        return team.agree(Err(Error::input(run.path(), what)));
    }
    change(&mut config);
    let dataset = team.agree(config.open_dataset(run.path()))?;
    let Some(loaded) = checkpoints(run, &config).newest_for(team)? else {
        control.say("there is no checkpoint yet: starting from the beginning");
        return in_pool(limits, || begin(run, &dataset, &config, limits, control, observe));
    };
    if loaded.extra.as_ref().is_some_and(|extra| matches!(extra.plan.change, Move::Search(_))) {
        return searching();
    }
    let iteration = loaded.state.last.iteration;
    for damaged in &loaded.damaged {
        control.say(format!("{damaged}, going on from {iteration}"));
    }
    if loaded.damaged.is_empty() {
        control.say(format!("going on from checkpoint {iteration}"));
    }
    in_pool(limits, || {
        let usage = Usage::start();
        let budget = limits.team.agree(Budget::new(limits.memory))?;
        let objective = open(&dataset, &config, &budget, limits, control)?;
        team.agree(config.write(run.disk(), run.path()))?;
        // Only the first process has the lines of before.
        let upto = team.is_first().then_some(iteration);
        let log = team.agree(Log::open(run.disk(), run.path(), upto))?;
        let before = match End::read(run.path()) {
            // What came behind the last checkpoint of a run that had ended counts, too.
            Ok(Some(end)) if team.is_alone() && end.iterations == iteration => Progress {
                seconds: end.seconds.max(loaded.progress.seconds),
                cpu_seconds: end.cpu_seconds.max(loaded.progress.cpu_seconds),
                ..loaded.progress.clone()
            },
            _ => loaded.progress.clone(),
        };
        let mut session = Session::new(
            run, &dataset, &config, limits, control, observe, &budget, usage, before, &objective, log,
        );
        let extra = loaded.extra.unwrap_or_else(|| Extra::plain(&config.rank));
        session.saved = Some(Mark::of(&loaded.state, &extra));
        session.go_on(Trainer::resume(setup(&config, &dataset), objective, loaded.state, extra, control)?)
    })
}

/// The first pass of a run and all that follow.
fn begin(
    run: &RunDirectory<'_>,
    dataset: &Dataset,
    config: &Config,
    limits: &Limits,
    control: &Control,
    observe: &Observer<'_>,
) -> Result<Outcome> {
    let usage = Usage::start();
    let budget = limits.team.agree(Budget::new(limits.memory))?;
    let objective = open(dataset, config, &budget, limits, control)?;
    let team = limits.team;
    let written = config.write(run.disk(), run.path()).and_then(|()| {
        let model = run.layout().model();
        make_dir(run.disk(), &model)?;
        if team.is_first() { Model::write_labels(run.disk(), dataset, &model) } else { Ok(()) }
    });
    team.agree(written)?;
    let first = |objective: &Regularised| start_point(config, dataset, objective);
    let mut setup = setup(config, dataset);
    setup.warm_fit = warm_fit(config, dataset, team)?;
    if setup.warm_fit.is_none() {
        setup.warm = warm(config, dataset, team, control)?;
    }
    let trainer = match Trainer::begin(setup, objective, control, first) {
        Err(error) if !matches!(error, Error::Interrupted) => return Err(error),
        begun => begun,
    };
    // Last, because a run without a log has nothing that is worth keeping. One that was interrupted before its
    // first iteration has a log without a line, and begins anew when it is gone on with, unless sweeps had begun.
    let log = team.agree(Log::open(run.disk(), run.path(), None))?;
    team.agree(run.begun())?;
    let trainer = trainer?;
    let (before, objective) = (Progress::default(), trainer.objective());
    let mut session =
        Session::new(run, dataset, config, limits, control, observe, &budget, usage, before, objective, log);
    if trainer.has_model() {
        session.log_iteration(&trainer, 1, 0.0)?;
    }
    session.go_on(trainer)
}

fn checkpoints(run: &RunDirectory<'_>, config: &Config) -> Checkpoints {
    Checkpoints::new(run.layout().checkpoints(), config.meaning())
}

/// Runs `work` on a pool of its own; the number of threads never changes a bit of the result.
pub(crate) fn in_pool<T: Send>(limits: &Limits, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let threads = limits.threads.clamp(1, crate::usage::most_threads());
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|error| Error::request(format!("{threads} threads cannot be started: {error}")));
    limits.team.agree(pool)?.install(work)
}

/// What goes along with the solver.
pub(super) struct Session<'a> {
    pub(super) run: &'a RunDirectory<'a>,
    pub(super) dataset: &'a Dataset,
    pub(super) config: &'a Config,
    pub(super) limits: &'a Limits,
    pub(super) control: &'a Control,
    observe: &'a Observer<'a>,
    usage: Usage,
    /// What earlier starts of the run have used.
    before: Progress,
    unseen: Vec<Vec<u32>>,
    log: Log,
    /// The checkpoint that the run goes on from.
    saved: Option<Mark>,
    /// Room for a copy of the state, which is written while the next pass computes, and gone back to where a
    /// pass is cut short; none where the budget has no room for it.
    room: Option<Reservation>,
    /// That copy: of the newest whole iteration, or of one before while that is being written.
    copy: Option<Arc<Snapshot>>,
}

impl<'a> Session<'a> {
    fn new(
        run: &'a RunDirectory<'a>,
        dataset: &'a Dataset,
        config: &'a Config,
        limits: &'a Limits,
        control: &'a Control,
        observe: &'a Observer<'a>,
        budget: &Budget,
        usage: Usage,
        before: Progress,
        objective: &Regularised,
        log: Log,
    ) -> Self {
        // The usual limit ends hardly a run: patience or tolerance do, and nobody knows when.
        let most = config.solver.max_iterations;
        let total = if most == Options::default().max_iterations { 0 } else { most as u64 };
        control.progress().stage("complete", Unit::Iterations, total);
        let room = budget.reserve(objective.data.needs().snapshot(), "a copy of the state");
        // All processes have one, or none.
        let room = limits.team.agree(room).ok();
        if room.is_none() {
            control.detail(
                "`memory` has no room for a copy of the state: passes wait for checkpoints, and Ctrl-C for the end \
                 of an iteration",
            );
        }
        Session {
            run,
            dataset,
            config,
            limits,
            control,
            observe,
            usage,
            before,
            unseen: objective.data.unseen().by_mode(&dataset.manifest().mode_order),
            log,
            saved: None,
            room,
            copy: None,
        }
    }

    /// What was used so far. Several processes must all ask for it.
    pub(super) fn progress(&self, objective: &Regularised) -> Progress {
        // Of all processes together.
        let nanoseconds = (self.usage.cpu_seconds() * 1e9) as u64;
        let mut used = [nanoseconds, objective.data.train().bytes_read()];
        self.limits.team.combine(&mut used, Combine::Sum);
        Progress {
            seconds: self.before.seconds + self.usage.seconds(),
            cpu_seconds: self.before.cpu_seconds + used[0] as f64 * 1e-9,
            bytes_read: self.before.bytes_read + used[1],
            ..Progress::default()
        }
    }

    fn log_iteration(&mut self, trainer: &Trainer, passes: usize, seconds: f64) -> Result<()> {
        let (state, objective, plan) = (&trainer.state, trainer.objective(), &trainer.extra.plan);
        let last = state.last;
        let progress = self.progress(objective);
        let entries = objective.data.train().entries() as f64 * passes as f64;
        let entries_per_second = if seconds > 0.0 { entries / seconds } else { 0.0 };
        let (rank, held) = trainer.ranks();
        let absolute = |scored: &Scored| scored.all.mae();
        let line = LogLine {
            iteration: last,
            rank,
            trial: self.config.recipe.decides().then(|| plan.change.clone()),
            penalty: plan.stage.lambda,
            held,
            train_rmse: last.train_mse.sqrt(),
            validation_rmse: last.validation_mse.map(f64::sqrt),
            validation_mae: objective.last_validation.as_ref().and_then(absolute),
            seconds: progress.seconds,
            cpu_seconds: progress.cpu_seconds,
            pass_seconds: objective.data.take_pass_seconds(),
            iteration_seconds: seconds,
            entries_per_second,
            bytes_read: progress.bytes_read,
            peak_rss_bytes: crate::usage::peak_resident_bytes(),
        };
        let written = self.log.write(&line);
        self.limits.team.agree(written)?;
        if self.limits.team.is_first() && (self.observe)(&line).is_break() {
            self.control.end();
        }
        let validation = last.validation_mse.map_or(String::new(), |mse| format!("  validation {mse:.6e}"));
        self.control.progress().advance(
            last.iteration as u64,
            &format_args!(
                "train {:.6e}{validation}  {} passes  {:.1} M entries/s",
                last.train_mse,
                last.passes,
                entries_per_second / 1e6
            ),
        );
        Ok(())
    }

    fn go_on(mut self, mut trainer: Trainer) -> Result<Outcome> {
        if self.room.is_none() {
            // There would be nothing to go back to.
            trainer.watch(&Control::default());
        }
        let unseen = std::mem::take(&mut self.unseen);
        let saver = Saver {
            run: self.run,
            dataset: self.dataset,
            unseen: &unseen,
            coordinates: trainer.coordinates().cloned(),
            range: self.config.recipe.range,
            meaning: self.config.meaning(),
            control: self.control,
            durable: Mutex::new(Durable { checkpoint: self.saved, model: None }),
        };
        let stopped_by = std::thread::scope(|scope| {
            // Several processes bring their rows together when they write, all at the same time.
            // And where none may be passed over because another one is being written, nobody writes beside the passes.
            let waits = !self.limits.team.is_alone() || self.limits.every.time.is_zero();
            let writes = self.room.is_some() && !waits;
            let mut background = writes.then(|| Background::start(scope, &saver));
            let stopped_by = self.iterate(&mut trainer, &saver, background.as_mut())?;
            background.map_or(Ok(()), Background::finish)?;
            Ok::<_, Error>(stopped_by)
        })?;
        let kept = self.kept(&trainer);
        saver.save(&trainer.state, &trainer.extra, &self.progress(trainer.objective()), kept)?;
        if !trainer.has_model() {
            return Err(Error::Interrupted);
        }
        self.finish(trainer, stopped_by, &saver)
    }

    /// Iterates until there is a reason to end, with checkpoints on the way.
    fn iterate(
        &mut self,
        trainer: &mut Trainer,
        saver: &Saver<'_>,
        mut background: Option<&mut Background>,
    ) -> Result<StoppedBy> {
        let every = self.limits.every;
        // Passes before the first iteration count: nothing of them is on disk yet.
        let begun = Duration::from_secs_f64(self.usage.seconds());
        let now = Instant::now();
        let mut saved = (trainer.state.last.iteration, now.checked_sub(begun).unwrap_or(now));
        let mut passes = trainer.state.last.passes;
        let mut begun = Instant::now();
        loop {
            if let Some(reason) = trainer.stop() {
                return Ok(reason);
            }
            if self.any(self.control.ending()) {
                return Ok(StoppedBy::Interrupted);
            }
            if !trainer.is_inside() {
                begun = Instant::now();
            }
            // Inside an epoch or a sweep the one from before it will do.
            if !trainer.is_inside() || self.copy.is_none() {
                self.copy_of(trainer);
            }
            // None where the plan went on to another stage, no step lowers the cost, or an epoch is not
            // at its end.
            let went = match trainer.iterate() {
                Err(Error::Interrupted) if self.go_back(trainer) => return Ok(StoppedBy::Interrupted),
                other => other?,
            };
            let state = &trainer.state;
            if went {
                let seconds = begun.elapsed().as_secs_f64();
                self.log_iteration(trainer, state.last.passes - passes, seconds)?;
                passes = state.last.passes;
            }
            if !went && !trainer.is_inside() {
                continue;
            }
            if state.last.guarded > 0 && state.guards == state.last.guarded && self.config.recipe.is_plain() {
                self.control.say("the core is nearly singular in some mode (see 'guarded' in log.jsonl): is the rank too large?");
            }
            let due = went && every.iterations > 0 && state.last.iteration >= saved.0 + every.iterations;
            // Clocks differ: that of the first process counts.
            let due = due || self.any(self.limits.team.is_first() && saved.1.elapsed() >= every.time);
            // While one is being written, the next waits for a later iteration instead of
            // holding up this one.
            let free = background.as_mut().map_or(Ok(true), |background| background.is_free())?;
            if due && free {
                match (&mut background, self.copy_of(trainer)) {
                    (Some(background), Some(copy)) => background.save(copy)?,
                    _ => {
                        let (progress, kept) = (self.progress(trainer.objective()), self.kept(trainer));
                        saver.save(state, &trainer.extra, &progress, kept)?;
                    }
                }
                saved = (state.last.iteration, Instant::now());
            }
        }
    }

    /// The copy of the state, made anew unless it is that of this iteration already or somebody writes it.
    fn copy_of(&mut self, trainer: &Trainer) -> Option<Arc<Snapshot>> {
        self.room.as_ref()?;
        let mark = Some(Mark::of(&trainer.state, &trainer.extra));
        let newest = self.copy.as_ref().map(|copy| Mark::of(&copy.state, &copy.extra)) == mark;
        let written = self.copy.as_ref().is_some_and(|copy| Arc::strong_count(copy) > 1);
        if !newest && !written {
            // The old one first: there is room for one.
            self.copy = None;
            let (state, extra) = (trainer.state.clone(), trainer.extra.clone());
            let (progress, kept) = (self.progress(trainer.objective()), self.kept(trainer));
            self.copy = Some(Arc::new(Snapshot { state, extra, progress, kept }));
        }
        self.copy.clone()
    }

    /// Goes back to the newest state that there is: what was cut short may have left half of a next one. `false`
    /// where there is none.
    fn go_back(&mut self, trainer: &mut Trainer) -> bool {
        if trainer.is_inside() {
            return true;
        }
        let Some(copy) = self.copy.take() else { return false };
        trainer.state.clone_from(&copy.state);
        trainer.extra.clone_from(&copy.extra);
        true
    }

    /// Whether any process says so.
    pub(super) fn any(&self, one: bool) -> bool {
        let mut word = [u64::from(one)];
        self.limits.team.combine(&mut word, Combine::Or);
        word != [0]
    }
}
