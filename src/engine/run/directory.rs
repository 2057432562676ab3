//! The directory of a run: made, locked and cleaned here.

use super::config;
use super::log::log_path;
use crate::error::{Error, IoContext, Result};
use crate::storage::{Disk, Lock, NoDisk, append_regular, make_dir, remove_partial};
use std::path::{Path, PathBuf};

/// The file that is locked, and that tells a run which was ended before it had a configuration
/// from a directory of the user's.
const LOCK: &str = ".lock";
/// What a run consists of beside its configuration, with what a killed conversion leaves.
const FILES: [&str; 1] = ["log.jsonl"];
const FOLDERS: [&str; 5] =
    ["checkpoints", "model", "data.tenfill", ".data.tenfill.partial", ".data.tenfill.old"];

/// A run directory that is this process's alone.
pub struct RunDirectory<'d> {
    disk: &'d dyn Disk,
    path: PathBuf,
    made: bool,
    /// None in a process that does not write.
    _lock: Option<Lock>,
}

impl<'d> RunDirectory<'d> {
    /// Makes a directory for a new run. What is there already is removed only with `force`, and
    /// only if it is a run; the remains of a start that was killed go in any case.
    pub fn create(disk: &'d dyn Disk, path: &Path, force: bool) -> Result<Self> {
        let exists = path.symlink_metadata().is_ok();
        let empty = std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
        let is_run = path.join(config::CONFIG_FILE).is_file();
        if exists && !empty && (is_run || !Self::was_begun(path)) {
            if !force {
                let hint = "`tenfill resume` goes on with it, --force begins anew";
                return Err(Error::Exists { path: path.into(), hint });
            }
            if !is_run {
                let what = "--force replaces runs only, and this is none: choose another name";
                return Err(Error::input(path, what));
            }
        }
        make_dir(disk, path)?;
        let directory = RunDirectory { disk, path: path.into(), made: !exists, _lock: Some(lock(path)?) };
        directory.clear()?;
        Ok(directory)
    }

    /// Takes a run that exists, and removes what a killed process left half written in it.
    pub fn open(disk: &'d dyn Disk, path: &Path) -> Result<Self> {
        config::Config::read(path)?;
        let directory = RunDirectory { disk, path: path.into(), made: false, _lock: Some(lock(path)?) };
        for folder in ["", "checkpoints", "model", "model/modes"] {
            remove_partial(disk, &path.join(folder))?;
        }
        Ok(directory)
    }

    /// What a process has of a run that another one writes: nothing goes to disk, and nothing of it
    /// need be seen from here.
    pub fn written_elsewhere(path: &Path) -> RunDirectory<'static> {
        RunDirectory { disk: &NoDisk, path: path.into(), made: false, _lock: None }
    }

    /// Whether a run was begun here, however little of it there is.
    pub(super) fn was_begun(path: &Path) -> bool {
        path.join(LOCK).is_file()
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The disk that its files go to.
    pub fn disk(&self) -> &'d dyn Disk {
        self.disk
    }

    /// Ends a run that failed. What has no log yet is of no worth and would only be in the way of
    /// the next try: it is removed.
    pub fn abandon(self) {
        if self._lock.is_none() || log_path(&self.path).is_file() || self.clear().is_err() {
            return; // the error that led here is on its way to the user already
        }
        let _ = self.disk.remove_file(&self.path.join(LOCK));
        if self.made {
            let _ = std::fs::remove_dir(&self.path);
        }
    }

    /// Removes the parts of a run, the configuration first: without it, it is none.
    fn clear(&self) -> Result<()> {
        let remove = |name: &str| self.disk.remove_file(&self.path.join(name));
        remove(config::CONFIG_FILE).context("remove", &self.path)?;
        self.disk.sync_dir(&self.path).context("remove", &self.path)?;
        for file in FILES {
            remove(file).context("remove", &self.path)?;
        }
        for folder in FOLDERS {
            self.disk.remove_dir(&self.path.join(folder)).context("remove", &self.path)?;
        }
        remove_partial(self.disk, &self.path)
    }
}

fn lock(path: &Path) -> Result<Lock> {
    let file = path.join(LOCK);
    append_regular(&file)?;
    let busy = || Error::request(format!("another tenfill is at work on {} just now", path.display()));
    Lock::take(&file).context("lock", &file)?.ok_or_else(busy)
}
