//! One file, whole or absent.

use super::partial::partial_name;
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
    written: u64,
    named: bool,
}

impl<'d> AtomicFile<'d> {
    /// Begins `path`.
    pub fn create(disk: &'d dyn Disk, path: &Path) -> Result<Self> {
        let temporary = partial_name(path);
        let file = disk.create(&temporary).context("create", &temporary)?;
        let file = Some(io::BufWriter::with_capacity(BUFFER, file));
        Ok(AtomicFile { disk, file, temporary, path: path.into(), written: 0, named: false })
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
        self.disk.rename(&self.temporary, &self.path).context("write", &self.path)?;
        self.named = true;
        let directory = self.path.parent().unwrap_or(Path::new(""));
        self.disk.sync_dir(directory).context("write", &self.path)
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
