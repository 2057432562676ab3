//! One file, whole or absent.

use super::lock::{Lock, Tried};
use super::output::{Output, appeared};
use super::ownership::Identity;
use super::partial::{Temporary, temporary_path};
use super::{Disk, DiskFile};
use crate::error::{IoContext, Result};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const BUFFER: usize = 1 << 18;

/// A file that appears under its name only when [`AtomicFile::commit`] has returned.
///
/// Until then it has a temporary name in the same directory; dropped before, it is removed.
pub struct AtomicFile<'d> {
    disk: &'d dyn Disk,
    file: Option<io::BufWriter<Box<dyn DiskFile>>>,
    temporary: PathBuf,
    path: PathBuf,
    place: Place,
    written: u64,
    named: bool,
    _lock: Option<Lock>,
}

/// What the file may take the place of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Whatever has its name: in a folder of ours.
    Own,
    /// Nothing.
    New,
    /// This file, which the user wants replaced.
    Over(Identity),
}

impl<'d> AtomicFile<'d> {
    /// Begins `path`, a file in a folder of ours, which replaces the one of that name.
    pub fn create(disk: &'d dyn Disk, path: &Path) -> Result<Self> {
        let temporary = temporary_path(path);
        let file = disk.create(&temporary).context("create", &temporary)?;
        let file = Some(io::BufWriter::with_capacity(BUFFER, file));
        let (path, place) = (path.into(), Place::Own);
        Ok(AtomicFile { disk, file, temporary, path, place, written: 0, named: false, _lock: None })
    }

    /// Begins a file that the user asked for. It replaces one that is there now where it may, and nothing
    /// that appears later.
    pub fn output(disk: &'d dyn Disk, output: &Output) -> Result<Self> {
        let place = output.check_file()?.map_or(Place::New, Place::Over);
        let path = &output.path;
        for (_, left) in Temporary::all_of(path) {
            // Whoever writes it holds its lock.
            let is_file = left.symlink_metadata().is_ok_and(|data| data.is_file());
            if is_file && let Ok(Tried::Taken(_lock)) = Lock::try_on(&left) {
                disk.remove_file(&left).context("remove the leftover", &left)?;
            }
        }
        super::make_dir(disk, path.parent().unwrap_or(Path::new("")))?;
        let mut file = Self::create(disk, path)?;
        file.place = place;
        file._lock = match Lock::try_on(&file.temporary) {
            Ok(Tried::Taken(lock)) => Some(lock),
            _ => None,
        };
        Ok(file)
    }

    /// Whether a file can be written there, before anything else is done.
    pub fn check(output: &Output) -> Result<()> {
        output.check_file().map(drop)
    }

    /// How many bytes were written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Appends bytes, with the final path in the error.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_all(bytes).context("write", &self.path)
    }

    /// Makes the file durable and gives it its name.
    pub fn commit(mut self) -> Result<()> {
        if let Some(mut buffered) = self.file.take() {
            let synced = buffered.flush().and_then(|()| buffered.get_mut().sync());
            let (_file, _unwritten) = buffered.into_parts();
            synced.context("write", &self.path)?;
        }
        let replaced = self.take_place()?;
        self.named = true;
        let directory = self.path.parent().unwrap_or(Path::new(""));
        self.disk.sync_dir(directory).context("write", &self.path)?;
        if replaced {
            // Cleaned at the next start where this fails.
            let _ = self.disk.remove_file(&self.temporary);
        }
        Ok(())
    }

    /// Gives the file its name; true where the one before it has now the temporary one.
    fn take_place(&mut self) -> Result<bool> {
        let (disk, from, to) = (self.disk, self.temporary.as_path(), self.path.as_path());
        match self.place {
            Place::Own => disk.rename(from, to).context("write", to)?,
            Place::New => disk.rename_new(from, to).or_else(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => Err(appeared(to)),
                _ => Err(error).context("write", to),
            })?,
            Place::Over(old) if disk.exchange(from, to).is_ok() => {
                if Identity::of(from) != Some(old) {
                    // Another file than the one that was to be replaced: back, and if that fails, hands off.
                    self.named = true;
                    disk.exchange(from, to).context("put back", to)?;
                    self.named = false;
                    return Err(appeared(to));
                }
                return Ok(true);
            }
            Place::Over(old) if Identity::of(to) == Some(old) => {
                disk.rename(from, to).context("write", to)?
            }
            Place::Over(_) => return Err(appeared(to)),
        }
        Ok(false)
    }
}

impl Write for AtomicFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = self.file.as_mut().ok_or_else(|| io::Error::other("the file is closed"))?;
        let count = file.write(bytes)?;
        self.written += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for AtomicFile<'_> {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            // Whatever is still buffered must not be written on the way out.
            let (_file, _unwritten) = file.into_parts();
        }
        if !self.named {
            // An error is on its way to the user already; a leftover is cleaned at the next start.
            let _ = self.disk.remove_file(&self.temporary);
        }
    }
}

/// Writes a whole file at once.
pub fn write_atomic(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = AtomicFile::create(disk, path)?;
    file.append(bytes)?;
    file.commit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::RealDisk;

    #[test]
    fn a_file_is_whole_or_absent() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("model");
        let mut file = AtomicFile::create(&RealDisk, &path).unwrap();
        file.append(b"half").unwrap();
        assert!(!path.exists());
        drop(file);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);

        write_atomic(&RealDisk, &path, b"old").unwrap();
        write_atomic(&RealDisk, &path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
