//! The directory of a run: made, locked and cleaned here.

use super::config;
use super::layout::RunKind;
use crate::error::Result;
use crate::storage::{Disk, Lock, NoDisk, Output, RunLayout, Staging, remove_partial};
use std::path::{Path, PathBuf};

/// A run directory that is this process's alone.
///
/// A new run is begun beside its place. Where there is nothing, it takes it as soon as it has a log, and
/// `resume` could go on with it; where there is an old run, when it has something that is worth more: a
/// checkpoint and a model. Whatever fails before leaves the old one as it was.
pub struct RunDirectory<'d> {
    disk: &'d dyn Disk,
    path: PathBuf,
    /// Where a new run is until it takes its place.
    staging: Option<Staging<'d>>,
    /// None in a process that does not write.
    _lock: Option<Lock>,
}

/// What can be done about a run that is in the way.
const HINT: &str = "`tenfill resume` goes on with it, `force` begins anew";

impl<'d> RunDirectory<'d> {
    /// Begins a new run. Only a run is replaced, and only where the user wants it.
    pub fn create(disk: &'d dyn Disk, output: &Output) -> Result<Self> {
        let mut output = output.clone();
        output.hint = HINT;
        let staging = Staging::create(disk, &output, &RunKind)?;
        let lock = Lock::of_run(&output.path, &RunLayout::of(staging.path()).lock())?;
        Ok(RunDirectory { disk, path: output.path, staging: Some(staging), _lock: Some(lock) })
    }

    /// Takes a run that exists, and removes what a killed process left half written in it.
    pub fn open(disk: &'d dyn Disk, path: &Path) -> Result<Self> {
        config::Config::read(path)?;
        let layout = RunLayout::of(path);
        let lock = Lock::of_run(path, &layout.lock())?;
        for folder in [path.into(), layout.checkpoints(), layout.model(), layout.model().join("modes")] {
            remove_partial(disk, &folder)?;
        }
        Ok(RunDirectory { disk, path: path.into(), staging: None, _lock: Some(lock) })
    }

    /// What a process has of a run that another one writes: nothing goes to disk, and nothing of it
    /// need be seen from here.
    pub fn written_elsewhere(path: &Path) -> RunDirectory<'static> {
        RunDirectory { disk: &NoDisk, path: path.into(), staging: None, _lock: None }
    }

    /// Where it lies now.
    pub fn path(&self) -> &Path {
        self.staging.as_ref().map_or(&self.path, Staging::path)
    }

    /// The names in it, where it lies now.
    pub fn layout(&self) -> RunLayout {
        RunLayout::of(self.path())
    }

    /// The disk that its files go to.
    pub fn disk(&self) -> &'d dyn Disk {
        self.disk
    }

    /// Keeps the dataset of a run that cannot begin, beside where it would have been; tells where. A run that has its place
    /// has its dataset in it.
    pub fn keep_data(&self) -> Option<PathBuf> {
        let staging = self.staging.as_ref().filter(|staging| staging.path() != self.path)?;
        let data = RunLayout::of(staging.path()).data();
        if !data.is_dir() {
            return None;
        }
        let name = self.path.file_name()?.to_string_lossy().into_owned();
        let numbered = (2..100).map(|number| format!("{name}-{number}.tenfill"));
        let mut names = std::iter::once(format!("{name}.tenfill")).chain(numbered);
        names.find_map(|name| {
            let to = self.path.with_file_name(name);
            self.disk.rename_new(&data, &to).ok().map(|()| to)
        })
    }

    /// The run has a log: it takes its place, unless another run is there.
    pub(super) fn begun(&self) -> Result<()> {
        self.staging.as_ref().filter(|staging| !staging.replaces()).map_or(Ok(()), Staging::commit)
    }

    /// The run has something to go on from: it takes its place, if it has not yet.
    pub(super) fn kept(&self) -> Result<()> {
        self.staging.as_ref().map_or(Ok(()), Staging::commit)
    }
}
