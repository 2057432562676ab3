//! A directory of files, whole or absent.

use super::lock::Lock;
use super::partial::{aside_name, partial_name};
use super::{Disk, make_dir};
use crate::error::{Error, IoContext, Result};
use std::path::{Path, PathBuf};

/// A directory that is filled beside its final place and moved there in one step.
///
/// The name beside is always the same (`.NAME.partial`) and locked while in use, so that what a
/// killed process left is found and removed by the next one, and two that run at once do not mix.
pub struct Staging<'d> {
    disk: &'d dyn Disk,
    directory: PathBuf,
    output: PathBuf,
    replace: bool,
    /// What is to be removed at the end.
    leftover: Option<PathBuf>,
    _lock: Lock,
    /// Directories above the output that were not there before, the innermost first.
    made: Vec<PathBuf>,
}

impl<'d> Staging<'d> {
    /// Begins `output`. With `replace` an existing one may be there; `hint` is for when it may not.
    pub fn create(disk: &'d dyn Disk, output: &Path, replace: bool, hint: &'static str) -> Result<Self> {
        if output.file_name().is_none() {
            return Err(Error::request(format!("'{}' is no name for an output", output.display())));
        }
        let busy = || Error::request(format!("another tenfill is writing {} just now", output.display()));
        let directory = partial_name(output);
        // Look before cleaning: another process may be at work there.
        if directory.is_dir() && Lock::take(&directory).context("lock", &directory)?.is_none() {
            return Err(busy());
        }
        disk.remove_dir(&directory).context("remove the leftover", &directory)?;
        let exists = output.symlink_metadata().is_ok();
        let aside = aside_name(output);
        if aside.symlink_metadata().is_ok() {
            // A process was killed between the two steps of replacing.
            if exists {
                disk.remove_dir(&aside).context("remove the leftover", &aside)?;
            } else {
                disk.rename(&aside, output).context("bring back", output)?;
            }
        }
        if !replace && output.symlink_metadata().is_ok() {
            return Err(Error::Exists { path: output.into(), hint });
        }
        let above = output.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
        let made = above.take_while(|above| !above.exists()).map(Path::to_path_buf).collect();
        make_dir(disk, output.parent().unwrap_or(Path::new("")))?;
        disk.create_dir(&directory).context("create", &directory)?;
        let lock = Lock::take(&directory).context("lock", &directory)?.ok_or_else(busy)?;
        let leftover = Some(directory.clone());
        Ok(Staging { disk, directory, output: output.into(), replace, leftover, made, _lock: lock })
    }

    /// The disk that the files go to.
    pub fn disk(&self) -> &'d dyn Disk {
        self.disk
    }

    /// Where to put the files for now.
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// Where they will be.
    pub fn output(&self) -> &Path {
        &self.output
    }

    /// Moves the directory to its place. Its files must have been synced.
    pub fn commit(mut self) -> Result<()> {
        let disk = self.disk;
        disk.sync_dir(&self.directory).context("finish", &self.output)?;
        let parent = self.output.parent().unwrap_or(Path::new(""));
        if self.replace && self.output.symlink_metadata().is_ok() {
            // One step where the file system can; otherwise the old one steps aside first.
            if disk.exchange(&self.directory, &self.output).is_err() {
                let aside = aside_name(&self.output);
                disk.remove_dir(&aside).context("remove", &aside)?;
                disk.rename(&self.output, &aside).context("replace", &self.output)?;
                if let Err(error) = disk.rename(&self.directory, &self.output) {
                    // The old one must not stay hidden; where even this fails, the next start does it.
                    let _ = disk.rename(&aside, &self.output);
                    return Err(error).context("replace", &self.output);
                }
                self.leftover = Some(aside);
            }
            // What was there before now lies beside; it goes when the new one is durable.
        } else {
            disk.rename(&self.directory, &self.output).context("finish", &self.output)?;
            self.leftover = None;
        }
        self.made.clear();
        let synced = disk.sync_dir(parent).context("finish", &self.output);
        if synced.is_err() {
            // Which of the two will be found after a crash is open: none must go.
            self.leftover = None;
        }
        synced
    }
}

impl Drop for Staging<'_> {
    fn drop(&mut self) {
        let Some(leftover) = &self.leftover else { return };
        let removed =
            if leftover.is_dir() { self.disk.remove_dir(leftover) } else { self.disk.remove_file(leftover) };
        // What cannot be removed is found and removed at the next start.
        let _ = removed;
        for above in &self.made {
            // One that somebody else has put something into stays.
            let _ = std::fs::remove_dir(above);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{RealDisk, write_atomic};

    #[test]
    fn a_directory_is_whole_or_absent() {
        let parent = tempfile::tempdir().unwrap();
        let output = parent.path().join("a.tenfill");
        let entries = || std::fs::read_dir(parent.path()).unwrap().count();

        let staging = Staging::create(&RealDisk, &output, false, "").unwrap();
        write_atomic(&RealDisk, &staging.path().join("x"), b"1").unwrap();
        assert!(Staging::create(&RealDisk, &output, false, "").is_err(), "two at once");
        drop(staging);
        assert_eq!(entries(), 0);

        for text in ["1", "2"] {
            let staging = Staging::create(&RealDisk, &output, true, "").unwrap();
            write_atomic(&RealDisk, &staging.path().join("x"), text.as_bytes()).unwrap();
            staging.commit().unwrap();
            assert_eq!(std::fs::read_to_string(output.join("x")).unwrap(), text);
            assert_eq!(entries(), 1);
        }
        assert!(matches!(Staging::create(&RealDisk, &output, false, ""), Err(Error::Exists { .. })));
    }

    #[test]
    fn directories_made_for_it_go_with_it() {
        let parent = tempfile::tempdir().unwrap();
        let output = parent.path().join("new/deeper/a.tenfill");
        drop(Staging::create(&RealDisk, &output, false, "").unwrap());
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
        Staging::create(&RealDisk, &output, false, "").unwrap().commit().unwrap();
        assert!(output.is_dir());
    }

    #[test]
    fn a_leftover_of_a_killed_process_is_replaced() {
        let parent = tempfile::tempdir().unwrap();
        let output = parent.path().join("a.tenfill");
        let leftover = parent.path().join(".a.tenfill.partial");
        std::fs::create_dir(&leftover).unwrap();
        std::fs::write(leftover.join("junk"), "x").unwrap();
        let staging = Staging::create(&RealDisk, &output, false, "").unwrap();
        assert!(!staging.path().join("junk").exists());
    }
}
