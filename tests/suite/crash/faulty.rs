//! A disk that fails at its k-th call.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tenfill_engine::storage::{Disk, DiskFile, RealDisk};

/// How a call goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The device reports an error, once.
    Io,
    /// The disk is full, once; half of what is written arrives.
    Full,
    /// The disk is full from then on.
    StaysFull,
    /// Half of what is written is taken, and no error is reported.
    Short,
}

impl Fault {
    pub const ALL: [Fault; 4] = [Fault::Io, Fault::Full, Fault::StaysFull, Fault::Short];

    fn error(self) -> io::Error {
        match self {
            // The numbers of EIO and ENOSPC are the same on every Linux.
            Fault::Io => io::Error::from_raw_os_error(5),
            _ => io::Error::from_raw_os_error(28),
        }
    }
}

#[derive(Clone)]
pub struct Faulty {
    calls: Arc<AtomicUsize>,
    at: usize,
    fault: Fault,
}

impl Faulty {
    /// Fails at call `at`, counted from 0.
    pub fn new(at: usize, fault: Fault) -> Self {
        Faulty { calls: Arc::default(), at, fault }
    }

    /// One that never fails, to count the calls.
    pub fn never() -> Self {
        Self::new(usize::MAX, Fault::Io)
    }

    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    fn strikes(&self) -> bool {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        call == self.at || self.fault == Fault::StaysFull && call > self.at
    }

    fn step<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if self.strikes() && self.fault != Fault::Short { Err(self.fault.error()) } else { work() }
    }

    fn wrap(&self, inner: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(FaultyFile { inner, disk: self.clone() })
    }
}

struct FaultyFile {
    inner: Box<dyn DiskFile>,
    disk: Faulty,
}

impl Write for FaultyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.disk.strikes() {
            return self.inner.write(bytes);
        }
        let half = bytes.len().div_ceil(2);
        match self.disk.fault {
            Fault::Io => Err(Fault::Io.error()),
            Fault::Short => self.inner.write(&bytes[..half]),
            fault => {
                self.inner.write_all(&bytes[..half])?;
                Err(fault.error())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl DiskFile for FaultyFile {
    fn sync(&mut self) -> io::Result<()> {
        self.disk.step(|| Ok(()))
    }
}

impl Disk for Faulty {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.step(|| RealDisk.create(path)).map(|file| self.wrap(file))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.step(|| RealDisk.append(path)).map(|file| self.wrap(file))
    }

    fn sync_file(&self, _: &Path) -> io::Result<()> {
        self.step(|| Ok(()))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(|| RealDisk.rename(from, to))
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(|| RealDisk.rename_new(from, to))
    }

    fn exchange(&self, a: &Path, b: &Path) -> io::Result<()> {
        self.step(|| RealDisk.exchange(a, b))
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        self.step(|| Ok(()))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.step(|| RealDisk.create_dir(path))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.step(|| RealDisk.remove_file(path))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.step(|| RealDisk.remove_dir(path))
    }
}
