//! The file system, as far as durable writing needs it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// A file that is being written, in order from its start.
pub trait DiskFile: Write + Send {
    /// Returns once everything written so far would survive a loss of power.
    fn sync(&mut self) -> io::Result<()>;
}

/// What is done to a file system. Implementations must be safe to share.
pub trait Disk: Send + Sync {
    /// Creates a file where there is nothing yet.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file to write at its end.
    fn append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Makes durable what was written to a file, through whichever handle.
    fn sync_file(&self, path: &Path) -> io::Result<()>;
    /// Renames a file or a directory over whatever `to` was (a directory must be absent or empty).
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Renames a file or a directory where there must be nothing yet.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes `a` and `b` trade places in one step.
    fn exchange(&self, a: &Path, b: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Creates a directory and its parents.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Removes a file; one that is not there is no error.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory with all that is in it; one that is not there is no error.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
}

/// The operating system's own.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl DiskFile for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// For file systems that do not offer it: a link is never made over something, and a directory renamed
/// over an empty one at the most.
fn rename_new_without_system(from: &Path, to: &Path) -> io::Result<()> {
    if !from.symlink_metadata()?.is_dir() {
        match fs::hard_link(from, to) {
            Ok(()) => return fs::remove_file(from),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
            Err(_) => {} // no links either
        }
    }
    match to.symlink_metadata() {
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => fs::rename(from, to),
    }
}

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(File::create_new(path)?))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(OpenOptions::new().append(true).open(path)?))
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => rename_new_without_system(from, to),
            other => Ok(other?),
        }
    }

    fn exchange(&self, a: &Path, b: &Path) -> io::Result<()> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        Ok(renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE)?)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        // The parent of a bare name is the empty path.
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        File::open(path)?.sync_all()
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        absent_is_fine(fs::remove_file(path))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        absent_is_fine(fs::remove_dir_all(path))
    }
}

/// A disk that keeps nothing: for processes that do the same work as the one that writes.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoDisk;

impl DiskFile for io::Sink {
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Disk for NoDisk {
    fn create(&self, _: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(io::sink()))
    }

    fn append(&self, _: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(io::sink()))
    }

    fn sync_file(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn rename_new(&self, _: &Path, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn exchange(&self, _: &Path, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn create_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn remove_file(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn remove_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
}
