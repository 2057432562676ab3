//! One process at a time.

use super::ownership::Identity;
use super::regular::in_place_of;
use crate::error::{Error, IoContext, Result};
use rustix::fs::{Mode, OFlags};
use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

/// The right to work on a file or directory; given back when dropped, or when the process ends in
/// whatever way.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// What became of the wish to have a lock.
#[derive(Debug)]
pub(super) enum Tried {
    /// It is ours.
    Taken(Lock),
    /// Another process has it.
    Busy,
    /// The file system knows no locks: who has it is open.
    Unknown(File),
}

/// What a lock file holds, so that it is known for what it is.
const TEXT: &[u8] = b"tenfill\n";

/// Neither followed where it is a link, nor waited for where it is a pipe.
fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::from_raw_mode(0o666))?.into())
}

/// A process that has just ended, or is just starting another program, may still have a lock for a moment.
const MOMENTS: usize = 30;
const MOMENT: Duration = Duration::from_millis(10);

fn lock(file: File) -> Tried {
    for _ in 0..MOMENTS {
        match file.try_lock() {
            Ok(()) => return Tried::Taken(Lock { _file: file }),
            Err(TryLockError::WouldBlock) => std::thread::sleep(MOMENT),
            Err(TryLockError::Error(_)) => return Tried::Unknown(file),
        }
    }
    Tried::Busy
}

impl Lock {
    /// Tries to take the lock of what lies at `path`.
    pub(super) fn try_on(path: &Path) -> io::Result<Tried> {
        Ok(lock(open(path, OFlags::RDONLY)?))
    }

    /// Whether a file is one that [`Lock::of_run`] makes. Those of earlier versions are empty.
    pub fn is_file_of_ours(path: &Path) -> bool {
        let size = path.symlink_metadata().map(|data| if data.is_file() { data.len() } else { u64::MAX });
        let fits = size.is_ok_and(|size| size <= TEXT.len() as u64);
        fits && std::fs::read(path).is_ok_and(|text| TEXT.starts_with(&text))
    }

    /// Takes the lock of the run that lies in `folder`, by the file at `path`.
    ///
    /// A file system that knows no locks gives everyone the right: better than refusing to work.
    pub fn of_run(folder: &Path, path: &Path) -> Result<Self> {
        // Where two processes meet, the run may just have been replaced: once more with the new one.
        for _ in 0..8 {
            if path.symlink_metadata().is_ok_and(|data| !data.is_file()) {
                return Err(in_place_of(path, "file"));
            }
            // Locks over a network need a file that can be written.
            let mut file = match open(path, OFlags::RDWR | OFlags::CREATE) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => open(path, OFlags::RDONLY),
                other => other,
            }
            .context("lock", path)?;
            if !Self::is_file_of_ours(path) {
                return Err(Error::input(path, "this is no lock of tenfill: move it elsewhere"));
            }
            let mut text = Vec::new();
            file.read_to_end(&mut text).context("lock", path)?;
            let same =
                Identity::of_open(&file).is_ok_and(|file| Identity::of(path).is_some_and(|it| it == file));
            match lock(file) {
                _ if !same => {}
                Tried::Busy => {
                    let what = format!("another tenfill is at work on {} just now", folder.display());
                    return Err(Error::request(what));
                }
                Tried::Taken(Lock { _file: mut file }) | Tried::Unknown(mut file) => {
                    // Only for people and for those who ask whose file this is: empty will do.
                    let _ = file.write_all(&TEXT[text.len().min(TEXT.len())..]);
                    return Ok(Lock { _file: file });
                }
            }
        }
        Err(Error::request(format!("{} is being replaced again and again", folder.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_taken_once_and_only_by_a_file_of_ours() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(".lock");
        let first = Lock::of_run(place.path(), &path).unwrap();
        let told = Lock::of_run(place.path(), &path).unwrap_err().to_string();
        assert!(told.contains("another tenfill is at work"), "{told}");
        drop(first);
        drop(Lock::of_run(place.path(), &path).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), TEXT);
        // One of an earlier version is empty.
        std::fs::write(&path, "").unwrap();
        drop(Lock::of_run(place.path(), &path).unwrap());
        std::fs::write(&path, "my own").unwrap();
        let told = Lock::of_run(place.path(), &path).unwrap_err().to_string();
        assert!(told.contains("this is no lock of tenfill"), "{told}");
        assert_eq!(std::fs::read(&path).unwrap(), b"my own");
        std::fs::rename(&path, place.path().join("else")).unwrap();
        std::os::unix::fs::symlink("else", &path).unwrap();
        Lock::of_run(place.path(), &path).unwrap_err();
        assert_eq!(std::fs::read(place.path().join("else")).unwrap(), b"my own");
    }
}
