//! The names in a run directory.

use std::path::{Path, PathBuf};

/// Where the parts of a run lie. All who read or write one know its names from here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunLayout {
    run: PathBuf,
}

impl RunLayout {
    /// The file that makes a directory a run.
    pub const CONFIG: &str = "config.json";
    /// How the run ended.
    pub const END: &str = "end.json";
    /// A line per iteration.
    pub const LOG: &str = "log.jsonl";
    /// Held by the process that works on the run.
    pub const LOCK: &str = ".lock";
    /// The folder of checkpoints.
    pub const CHECKPOINTS: &str = "checkpoints";
    /// The folder of the model and its labels.
    pub const MODEL: &str = "model";
    /// The model itself, in its folder.
    pub const MODEL_FILE: &str = "model.bin";
    /// Biases alone, which the model is compared with, in the same folder.
    pub const BASELINE_FILE: &str = "baseline.bin";
    /// The dataset, where a raw file was completed.
    pub const DATA: &str = "data.tenfill";
    /// Entries that were folded in.
    pub const ADDED: &str = "added.tenfill";

    /// That of a run.
    pub fn of(run: impl Into<PathBuf>) -> Self {
        RunLayout { run: run.into() }
    }

    /// Whether a folder claims to be a run.
    pub fn is_in(folder: &Path) -> bool {
        RunLayout::of(folder).config().is_file()
    }

    /// The configuration.
    pub fn config(&self) -> PathBuf {
        self.run.join(Self::CONFIG)
    }

    /// The log.
    pub fn log(&self) -> PathBuf {
        self.run.join(Self::LOG)
    }

    /// How the run ended.
    pub fn end(&self) -> PathBuf {
        self.run.join(Self::END)
    }

    /// The lock.
    pub fn lock(&self) -> PathBuf {
        self.run.join(Self::LOCK)
    }

    /// The folder of checkpoints.
    pub fn checkpoints(&self) -> PathBuf {
        self.run.join(Self::CHECKPOINTS)
    }

    /// The folder of the model.
    pub fn model(&self) -> PathBuf {
        self.run.join(Self::MODEL)
    }

    /// The model's file.
    pub fn model_file(&self) -> PathBuf {
        self.model().join(Self::MODEL_FILE)
    }

    /// The dataset, where a raw file was completed.
    pub fn data(&self) -> PathBuf {
        self.run.join(Self::DATA)
    }

    /// Entries that were folded in.
    pub fn added(&self) -> PathBuf {
        self.run.join(Self::ADDED)
    }
}
