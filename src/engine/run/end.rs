//! How a run ended: what `complete` said last, kept for whoever looks at the run later.

use super::train::{Outcome, SplitErrors};
use crate::error::{Error, IoContext, Result};
use crate::storage::{Disk, RunLayout, read_regular, write_atomic};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// What is kept of an outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// The newest iteration.
    pub iterations: usize,
    /// Why there is no further one.
    pub stopped_by: String,
    /// Whether the model says more than the mean of the train values.
    pub learned: bool,
    /// Wall time of all starts of the run.
    pub seconds: f64,
    /// Processor time, likewise.
    pub cpu_seconds: f64,
    /// The errors of the model on every split that has entries, by its name.
    pub errors: BTreeMap<String, EndErrors>,
}

/// Errors on a split.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndErrors {
    /// The model's.
    pub rmse: Option<f64>,
    /// That of the mean of the train values.
    pub mean_rmse: Option<f64>,
    /// That of biases alone.
    pub biases_rmse: Option<f64>,
}

impl EndErrors {
    fn of(errors: &SplitErrors) -> Self {
        EndErrors {
            rmse: errors.scored.mse().map(f64::sqrt),
            mean_rmse: errors.mean_mse.map(f64::sqrt),
            biases_rmse: errors.biases_mse.map(f64::sqrt),
        }
    }
}

impl End {
    fn of(outcome: &Outcome) -> Self {
        let errors = outcome.errors.iter();
        End {
            iterations: outcome.last.iteration,
            stopped_by: outcome.stopped_by.as_str().into(),
            learned: outcome.learned,
            seconds: outcome.progress.seconds,
            cpu_seconds: outcome.progress.cpu_seconds,
            errors: errors.map(|of| (of.split.name().to_string(), EndErrors::of(of))).collect(),
        }
    }

    /// Writes `end.json`.
    pub(super) fn write(disk: &dyn Disk, run: &Path, outcome: &Outcome) -> Result<()> {
        let path = RunLayout::of(run).end();
        let text = serde_json::to_string_pretty(&End::of(outcome)).map_err(std::io::Error::other);
        write_atomic(disk, &path, (text.context("write", &path)? + "\n").as_bytes())
    }

    /// The same, where a file that cannot be read is an error.
    pub(super) fn check(path: &Path) -> Result<Self> {
        let what =
            |_| Error::input(path, "this does not say how a run ended: `tenfill resume` writes it anew");
        serde_json::from_slice(&read_regular(path)?).map_err(what)
    }

    /// How a run has ended; none where it has not, or is from before this was kept. What cannot be read tells nothing.
    pub fn read(run: &Path) -> Result<Option<Self>> {
        let path = RunLayout::of(run).end();
        if path.symlink_metadata().is_err() {
            return Ok(None);
        }
        Ok(serde_json::from_slice(&read_regular(&path)?).ok())
    }
}
