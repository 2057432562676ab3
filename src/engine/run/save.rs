//! Checkpoints and models: written here and now, or by a thread while the next pass computes.

use super::directory::RunDirectory;
use crate::bayes::Position;
use crate::checkpoint::{Checkpoints, Progress};
use crate::control::Control;
use crate::error::{Error, IoContext, Result};
use crate::model::{Model, ModelParts};
use crate::objective::Coordinates;
use crate::recipe::{Extra, Fitted, fitted};
use crate::shard::Dataset;
use crate::solver::State;
use crossbeam_channel::{Receiver, Sender, bounded};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Scope;

/// Iteration, train and validation error of the model that is kept.
pub(super) type Kept = (usize, f64, Option<f64>);

/// Writes what a run can go on from.
pub(super) struct Saver<'a> {
    /// Where to: the first save of a new run may move it to its place.
    pub run: &'a RunDirectory<'a>,
    pub dataset: &'a Dataset,
    pub unseen: &'a [Vec<u32>],
    /// What turns a point into a model's factors, and where predictions are clipped.
    pub coordinates: Option<Coordinates>,
    pub range: Option<(f64, f64)>,
    /// What gives the numbers of a checkpoint their meaning.
    pub meaning: serde_json::Value,
    pub control: &'a Control,
    pub durable: Mutex<Durable>,
}

/// What is on disk for sure, so that nothing is written twice.
#[derive(Debug, Default)]
pub(super) struct Durable {
    /// What tells the newest checkpoint's state from others of the run.
    pub checkpoint: Option<Mark>,
    /// The iteration of the model, and the bits of its train error.
    pub model: Option<(usize, u64)>,
}

/// What tells a state from others of the same run: its iteration, whether it is stuck, whether its first sweep is over,
/// and where in an epoch or a sweep it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    iteration: usize,
    stuck: bool,
    has_model: bool,
    inside: Option<(usize, usize)>,
    sweep: Option<Position>,
}

impl Mark {
    pub(super) fn of(state: &State, extra: &Extra) -> Self {
        let inside = state.stochastic.as_ref().map(|phase| (phase.about.epoch, phase.about.position));
        let has_model = extra.has_model(state);
        Mark { iteration: state.last.iteration, stuck: state.stuck, has_model, inside, sweep: extra.inside() }
    }
}

impl Saver<'_> {
    /// Makes a state durable, with the log up to it and the model that goes with it.
    pub(super) fn save(&self, state: &State, extra: &Extra, progress: &Progress, kept: Kept) -> Result<()> {
        let mut durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        let this = Mark::of(state, extra);
        if durable.checkpoint != Some(this) {
            // The log first: it must reach at least as far as the checkpoint.
            let (disk, log) = (self.run.disk(), self.run.layout().log());
            state.point.team().agree(disk.sync_file(&log).context("write", &log))?;
            let checkpoints = Checkpoints::new(self.run.layout().checkpoints(), self.meaning.clone());
            checkpoints.save_with(disk, state, Some(extra), progress)?;
            durable.checkpoint = Some(this);
            let inside = match this.inside {
                Some((epoch, chunk)) if chunk > 0 => format!(" (chunk {chunk} of epoch {epoch})"),
                _ if !this.has_model => " (inside the first sweep)".into(),
                _ if this.sweep.is_some() => " (inside the next sweep)".into(),
                _ => String::new(),
            };
            self.control.detail(format!("checkpoint {} is durable{inside}", this.iteration));
        }
        if !this.has_model {
            // It goes on from there, but is not worth an old run in whose place it is to be.
            return Ok(());
        }
        let model_mark = (kept.0, kept.1.to_bits());
        if durable.model != Some(model_mark) {
            self.write_model(&fitted(state, extra, self.coordinates.as_ref()), kept)?;
            durable.model = Some(model_mark);
        }
        // Now it is worth more than an old run in whose place it is to be.
        state.point.team().agree(self.run.kept())
    }

    /// Makes a model durable.
    pub(super) fn write_model(&self, fitted: &Fitted, kept: Kept) -> Result<()> {
        let fit = ModelParts {
            point: &fitted.point,
            biases: fitted.biases.as_ref(),
            uncertainty: fitted.uncertainty.as_deref(),
            range: self.range,
            ends: fitted.ends,
            held: &fitted.held,
            unseen: self.unseen,
            iteration: kept.0,
            train_mse: kept.1,
            validation_mse: kept.2,
            refit: fitted.refit,
        };
        Model::write(self.run.disk(), &self.run.layout().model(), self.dataset, &fit)
    }
}

/// A state that nobody changes any more: what is written while the next pass computes, and what a run goes
/// back to where a pass is cut short.
pub(super) struct Snapshot {
    pub state: State,
    pub extra: Extra,
    pub progress: Progress,
    pub kept: Kept,
}

/// A thread that saves, one snapshot at a time.
pub(super) struct Background {
    give: Sender<Arc<Snapshot>>,
    done: Receiver<Result<()>>,
    busy: bool,
}

impl Background {
    pub(super) fn start<'scope>(scope: &'scope Scope<'scope, '_>, saver: &'scope Saver<'_>) -> Self {
        let (give, snapshots) = bounded::<Arc<Snapshot>>(1);
        let (tell, done) = bounded(1);
        scope.spawn(move || {
            for snapshot in snapshots {
                let result = saver.save(&snapshot.state, &snapshot.extra, &snapshot.progress, snapshot.kept);
                drop(snapshot);
                if tell.send(result).is_err() {
                    break;
                }
            }
        });
        Background { give, done, busy: false }
    }

    /// Whether the thread is free; the error where its last write failed.
    pub(super) fn is_free(&mut self) -> Result<bool> {
        if self.busy
            && let Ok(result) = self.done.try_recv()
        {
            self.busy = false;
            result?;
        }
        Ok(!self.busy)
    }

    /// Begins to save a copy of the state. The thread must be free.
    pub(super) fn save(&mut self, snapshot: Arc<Snapshot>) -> Result<()> {
        self.busy = true;
        self.give.send(snapshot).map_err(|_| gone())
    }

    /// Waits for what is under way.
    pub(super) fn finish(mut self) -> Result<()> {
        if std::mem::take(&mut self.busy) { self.done.recv().unwrap_or_else(|_| Err(gone())) } else { Ok(()) }
    }
}

/// The thread can end early only by a panic, which the scope passes on when it ends.
fn gone() -> Error {
    Error::request("the thread that writes checkpoints has ended")
}
