//! A run on disk: gone on with, looked at, asked.

use crate::completion::control;
use crate::{Dataset, LogLine, Model, Recommendation, Result, Split};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use tenfill_engine::answer::{ExportFormat, FoldOptions, evaluate_file, evaluate_split, export, fold_in};
use tenfill_engine::ingest::Source;
use tenfill_engine::run::{self, Config, Limits, Observer, RunDirectory, log_path, resume};
use tenfill_engine::storage::RealDisk;
use tenfill_engine::{control::Control, model};

pub use tenfill_engine::answer::Evaluation;
pub use tenfill_engine::answer::ExportFormat as Format;
pub use tenfill_engine::run::{DataKind, Outcome};
pub use tenfill_engine::solver::StoppedBy;

/// A run directory: configuration, log, checkpoints, and the best model so far.
#[derive(Debug, Clone)]
pub struct Run {
    path: PathBuf,
    outcome: Option<Outcome>,
}

impl Run {
    /// Opens a run that exists.
    ///
    /// # Errors
    ///
    /// Where there is none.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Config::read(path.as_ref())?;
        Ok(Run { path: path.as_ref().into(), outcome: None })
    }

    pub(crate) fn ended(path: PathBuf, outcome: Outcome) -> Self {
        Run { path, outcome: Some(outcome) }
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How it ended, where it has just been completed or gone on with.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// Goes on from the newest good checkpoint, to the same bits as a run that was never interrupted, up to
    /// `max_iterations` in all where that is given.
    ///
    /// # Errors
    ///
    /// Where the dataset is not the one that the run began with, or a file cannot be read or written.
    pub fn resume(
        &mut self,
        max_iterations: Option<usize>,
        observe: impl Fn(&LogLine) -> ControlFlow<()> + Sync,
    ) -> Result<&Outcome> {
        let directory = RunDirectory::open(&RealDisk, &self.path)?;
        let change = |config: &mut Config| {
            let options = &mut config.solver;
            options.max_iterations = max_iterations.unwrap_or(options.max_iterations);
        };
        let observe: &Observer<'_> = &observe;
        let outcome = resume(&directory, change, &Limits::default(), &control(None), observe)?;
        Ok(self.outcome.insert(outcome))
    }

    /// The dataset that it was fitted to.
    ///
    /// # Errors
    ///
    /// Where it is not there any more, or not the same.
    pub fn dataset(&self) -> Result<Dataset> {
        Config::read(&self.path)?.open_dataset(&self.path).map(Dataset)
    }

    /// The best model so far.
    ///
    /// # Errors
    ///
    /// Where there is none yet, or it is damaged.
    pub fn model(&self) -> Result<Model> {
        Model::read(&self.path)
    }

    /// The `top` best ids of mode `ranked` for what is given of others, as (mode, id): the rest is averaged, and
    /// what was observed with it is left out.
    ///
    /// # Errors
    ///
    /// Where a mode or an id is not known.
    pub fn recommend(&self, given: &[(&str, &str)], ranked: &str, top: usize) -> Result<Vec<Recommendation>> {
        self.model()?.recommend(&self.path, given, ranked, top)
    }

    /// The lines of the log, one per iteration.
    ///
    /// # Errors
    ///
    /// Where it cannot be read.
    pub fn log(&self) -> Result<Vec<LogLine>> {
        run::read_log(&log_path(&self.path))
    }

    /// The errors of the model on a split.
    ///
    /// # Errors
    ///
    /// Where model or dataset cannot be read.
    pub fn evaluate(&self, split: Split) -> Result<Evaluation> {
        evaluate_split(&model::Model::read_with_uncertainty(&self.path)?, &self.dataset()?.0, split)
    }

    /// The errors of the model on the entries of a file.
    ///
    /// # Errors
    ///
    /// Where the file cannot be read or lacks a column.
    pub fn evaluate_file(&self, file: impl AsRef<Path>) -> Result<Evaluation> {
        let threads = Limits::default().threads;
        let source = Source::again(file.as_ref(), &std::env::temp_dir(), &Control::default())?;
        evaluate_file(
            &model::Model::read_with_uncertainty(&self.path)?,
            &source,
            threads,
            &Control::default(),
        )
    }

    /// A run whose model has rows for ids that this one has not seen, from their entries alone.
    ///
    /// # Errors
    ///
    /// Where no id is new, or new ones are in more than one mode.
    pub fn fold_in(&self, entries: impl AsRef<Path>, output: impl AsRef<Path>) -> Result<Run> {
        let (entries, output) = (entries.as_ref(), output.as_ref());
        fold_in(&self.path, entries, output, &FoldOptions::default(), &Control::default())?;
        Run::open(output)
    }

    /// Writes factors with their ids, and the core, for other programs.
    ///
    /// # Errors
    ///
    /// Where the output exists or cannot be written.
    pub fn export(&self, output: impl AsRef<Path>, format: ExportFormat) -> Result<()> {
        export(&RealDisk, &model::Model::read_with_uncertainty(&self.path)?, output.as_ref(), format, false)?;
        Ok(())
    }
}
