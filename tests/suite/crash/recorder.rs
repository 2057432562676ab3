//! A disk that does what it is told and writes down what that was.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use tenfill_engine::storage::{Disk, DiskFile, RealDisk};

/// One operation; paths are relative to the root, files are numbered as they are opened.
#[derive(Debug, Clone)]
pub enum Op {
    Create {
        path: PathBuf,
        file: usize,
    },
    Append {
        path: PathBuf,
        file: usize,
    },
    Write {
        file: usize,
        bytes: Vec<u8>,
    },
    SyncFile {
        file: usize,
    },
    SyncPath {
        path: PathBuf,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    Exchange {
        a: PathBuf,
        b: PathBuf,
    },
    SyncDir {
        path: PathBuf,
    },
    CreateDir {
        path: PathBuf,
    },
    RemoveFile {
        path: PathBuf,
    },
    RemoveDir {
        path: PathBuf,
    },
    /// Something was reported as durable.
    Mark(usize),
}

#[derive(Default)]
struct Record {
    ops: Vec<Op>,
    files: usize,
}

/// Works in a real directory, so that the code under test can read what it has written. Nothing is
/// really synced: what a sync means is the image's business.
#[derive(Clone)]
pub struct Recorder {
    root: PathBuf,
    record: Arc<Mutex<Record>>,
    /// Whether two names can trade places.
    pub exchanges: bool,
    /// Whether syncs of files, and of directories, are done: without them the images must show
    /// what goes wrong.
    pub syncs: [bool; 2],
}

impl Recorder {
    pub fn new(root: &Path) -> Self {
        Recorder { root: root.into(), record: Arc::default(), exchanges: true, syncs: [true; 2] }
    }

    pub fn mark(&self, number: usize) {
        self.lock().ops.push(Op::Mark(number));
    }

    pub fn ops(&self) -> Vec<Op> {
        self.lock().ops.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap()
    }

    fn inside(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.root).unwrap_or_else(|_| panic!("{} is outside", path.display())).into()
    }

    /// Does something and writes it down in one step, so that the order is the true one.
    fn step<T>(&self, op: Op, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let mut record = self.lock();
        let done = work()?;
        record.ops.push(op);
        Ok(done)
    }

    fn open(
        &self,
        op: impl FnOnce(usize) -> Op,
        work: impl FnOnce() -> io::Result<Box<dyn DiskFile>>,
    ) -> io::Result<Box<dyn DiskFile>> {
        let mut record = self.lock();
        let inner = work()?;
        let file = record.files;
        record.files += 1;
        record.ops.push(op(file));
        Ok(Box::new(RecordedFile { inner, file, disk: self.clone() }))
    }
}

struct RecordedFile {
    inner: Box<dyn DiskFile>,
    file: usize,
    disk: Recorder,
}

impl Write for RecordedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let op = Op::Write { file: self.file, bytes: bytes.to_vec() };
        let inner = &mut self.inner;
        self.disk.step(op, || inner.write_all(bytes)).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFile for RecordedFile {
    fn sync(&mut self) -> io::Result<()> {
        if !self.disk.syncs[0] {
            return Ok(());
        }
        self.disk.step(Op::SyncFile { file: self.file }, || Ok(()))
    }
}

impl Disk for Recorder {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.open(|file| Op::Create { path: self.inside(path), file }, || RealDisk.create(path))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.open(|file| Op::Append { path: self.inside(path), file }, || RealDisk.append(path))
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.step(Op::SyncPath { path: self.inside(path) }, || Ok(()))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let op = Op::Rename { from: self.inside(from), to: self.inside(to) };
        self.step(op, || RealDisk.rename(from, to))
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        let op = Op::Rename { from: self.inside(from), to: self.inside(to) };
        self.step(op, || RealDisk.rename_new(from, to))
    }

    fn exchange(&self, a: &Path, b: &Path) -> io::Result<()> {
        if !self.exchanges {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let op = Op::Exchange { a: self.inside(a), b: self.inside(b) };
        self.step(op, || RealDisk.exchange(a, b))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        if !self.syncs[1] {
            return Ok(());
        }
        self.step(Op::SyncDir { path: self.inside(path) }, || Ok(()))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let missing: Vec<&Path> = path.ancestors().take_while(|path| !path.is_dir()).collect();
        for path in missing.into_iter().rev() {
            self.step(Op::CreateDir { path: self.inside(path) }, || std::fs::create_dir(path))?;
        }
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        if path.symlink_metadata().is_err() {
            return Ok(());
        }
        self.step(Op::RemoveFile { path: self.inside(path) }, || RealDisk.remove_file(path))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        if path.symlink_metadata().is_err() {
            return Ok(());
        }
        self.step(Op::RemoveDir { path: self.inside(path) }, || RealDisk.remove_dir(path))
    }
}
