//! A directory of files, whole or absent.

use super::Disk;
use crate::error::{Error, IoContext, Result};
use std::fs::{File, OpenOptions, TryLockError};
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
    lock: Option<File>,
    /// Directories above the output that were not there before, the innermost first.
    made: Vec<PathBuf>,
}

const LOCK: &str = ".lock";

impl<'d> Staging<'d> {
    /// Begins `output`. With `replace` an existing one may be there; `hint` is for when it may not.
    pub fn create(disk: &'d dyn Disk, output: &Path, replace: bool, hint: &'static str) -> Result<Self> {
        let Some(name) = output.file_name() else {
            return Err(Error::request(format!("'{}' is no name for an output", output.display())));
        };
        if !replace && output.symlink_metadata().is_ok() {
            return Err(Error::Exists { path: output.into(), hint });
        }
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(".partial");
        let directory = output.with_file_name(hidden);
        // Look before cleaning: another process may be at work there.
        let in_use = File::open(directory.join(LOCK))
            .is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)));
        if in_use {
            return Err(Error::request(format!("another tenfill is writing {} just now", output.display())));
        }
        disk.remove_dir(&directory).context("remove the leftover", &directory)?;
        let above = output.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
        let made = above.take_while(|above| !above.exists()).map(Path::to_path_buf).collect();
        disk.create_dir(&directory).context("create", &directory)?;
        let lock = OpenOptions::new().create(true).append(true).open(directory.join(LOCK));
        let lock = lock.context("create", &directory)?;
        lock.lock().context("lock", &directory)?;
        Ok(Staging { disk, directory, output: output.into(), replace, lock: Some(lock), made })
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
        disk.remove_file(&self.directory.join(LOCK)).context("finish", &self.output)?;
        disk.sync_dir(&self.directory).context("finish", &self.output)?;
        let parent = self.output.parent().unwrap_or(Path::new(""));
        if self.replace && self.output.symlink_metadata().is_ok() {
            // One step where the file system can; otherwise the old one steps aside first.
            if disk.exchange(&self.directory, &self.output).is_err() {
                let aside = self.directory.with_extension("old");
                disk.remove_dir(&aside).context("remove", &aside)?;
                disk.rename(&self.output, &aside).context("replace", &self.output)?;
                disk.rename(&self.directory, &self.output).context("replace", &self.output)?;
                self.directory = aside;
            }
            disk.sync_dir(parent).context("finish", &self.output)?;
            // What was there before now lies beside; Drop removes it.
        } else {
            disk.rename(&self.directory, &self.output).context("finish", &self.output)?;
            disk.sync_dir(parent).context("finish", &self.output)?;
        }
        self.made.clear();
        Ok(())
    }
}

impl Drop for Staging<'_> {
    fn drop(&mut self) {
        self.lock = None;
        let removed = if self.directory.is_dir() {
            self.disk.remove_dir(&self.directory)
        } else {
            self.disk.remove_file(&self.directory)
        };
        // A leftover is found and removed at the next start.
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
        std::fs::write(leftover.join(LOCK), "").unwrap();
        let staging = Staging::create(&RealDisk, &output, false, "").unwrap();
        assert!(!staging.path().join("junk").exists());
    }
}
