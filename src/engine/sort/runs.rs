//! Collects records, writes sorted runs when a buffer is full, and gives everything back in order.

use super::merge::{Merge, RunReader};
use super::radix;
use super::record::{Payload, Record};
use crate::control::Control;
use crate::error::{Error, IoContext, Result};
use bytemuck::Pod;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;

/// What decides between records of equal keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ties {
    /// The lesser value comes first: the result does not depend on the order of arrival.
    Value,
    /// The one that came first.
    Arrival,
}

/// The least a run's read buffer may have: below this, reading is all seeks.
const LEAST_READ: usize = 64 << 10;
/// More than this does not make reading faster.
const MOST_READ: usize = 2 << 20;

/// A sorted stretch of the scratch file, in records.
#[derive(Debug, Clone, Copy)]
pub(super) struct SortedRun {
    pub start: u64,
    pub records: u64,
}

/// Sorts any number of records in a given amount of memory.
pub struct Sorter<const W: usize, P = f64> {
    bits: u32,
    ties: Ties,
    memory: usize,
    directory: PathBuf,
    capacity: usize,
    buffer: Vec<Record<W, P>>,
    writer: Option<thread::JoinHandle<Result<Worker<W, P>>>>,
    idle: Option<Worker<W, P>>,
    total: u64,
    control: Control,
}

/// What sorts and writes a buffer while the next one fills.
struct Worker<const W: usize, P> {
    spare: Vec<Record<W, P>>,
    scratch: Vec<Record<W, P>>,
    file: File,
    runs: Vec<SortedRun>,
    written: u64,
}

impl<const W: usize, P: Payload> Sorter<W, P>
where
    Record<W, P>: Pod,
{
    /// Sorts by the low `bits` of the keys in `memory` bytes, with scratch files in `directory`.
    pub fn new(bits: u32, ties: Ties, memory: u64, directory: &Path, control: &Control) -> Self {
        // One buffer fills, one is sorted, one is the radix sort's scratch.
        let capacity = (memory as usize / 3 / size_of::<Record<W, P>>()).max(1024);
        Sorter {
            bits,
            ties,
            memory: memory as usize,
            directory: directory.into(),
            capacity,
            buffer: Vec::new(),
            writer: None,
            idle: None,
            total: 0,
            control: control.clone(),
        }
    }

    /// Takes a record.
    #[inline]
    pub fn push(&mut self, record: Record<W, P>) -> Result<()> {
        if self.buffer.len() == self.capacity {
            self.spill()?;
        }
        self.buffer.push(record);
        Ok(())
    }

    /// The number of records taken.
    pub fn len(&self) -> u64 {
        self.total + self.buffer.len() as u64
    }

    /// Whether none was taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn scratch_file(&self) -> Result<File> {
        tempfile::tempfile_in(&self.directory).context("create a scratch file in", &self.directory)
    }

    /// The worker, when it has finished what it was doing.
    fn worker(&mut self) -> Result<Option<Worker<W, P>>> {
        match self.writer.take() {
            Some(handle) => match handle.join() {
                Ok(result) => result.map(Some),
                Err(panic) => std::panic::resume_unwind(panic),
            },
            None => Ok(self.idle.take()),
        }
    }

    fn spill(&mut self) -> Result<()> {
        let mut worker = match self.worker()? {
            Some(worker) => worker,
            None => {
                let file = self.scratch_file()?;
                Worker { spare: Vec::new(), scratch: Vec::new(), file, runs: Vec::new(), written: 0 }
            }
        };
        let mut full = std::mem::take(&mut self.buffer);
        self.total += full.len() as u64;
        self.buffer = std::mem::take(&mut worker.spare);
        self.buffer.clear();
        self.buffer.reserve_exact(self.capacity);
        let (bits, ties, directory) = (self.bits, self.ties, self.directory.clone());
        let control = self.control.clone();
        let sort = move || {
            sort_buffer(&mut full, &mut worker.scratch, bits, ties, &control)?;
            write_records(&worker.file, worker.written, &full, &directory)?;
            worker.runs.push(SortedRun { start: worker.written, records: full.len() as u64 });
            worker.written += full.len() as u64;
            worker.spare = full;
            Ok(worker)
        };
        let handle = thread::Builder::new()
            .name("sort".into())
            .spawn(sort)
            .context("start a thread in", &self.directory)?;
        self.writer = Some(handle);
        Ok(())
    }

    /// Gives all records in order to `each`.
    pub fn finish(mut self, mut each: impl FnMut(&Record<W, P>) -> Result<()>) -> Result<()> {
        let control = self.control.clone();
        if self.total == 0 {
            let mut scratch = Vec::new();
            sort_buffer(&mut self.buffer, &mut scratch, self.bits, self.ties, &control)?;
            drop(scratch);
            for (number, record) in self.buffer.iter().enumerate() {
                if number % 65_536 == 0 {
                    control.check()?;
                }
                each(record)?;
            }
            return Ok(());
        }
        if !self.buffer.is_empty() {
            self.spill()?;
        }
        let Some(mut worker) = self.worker()? else {
            return Err(Error::request("the sort lost its worker"));
        };
        self.buffer = Vec::new();
        worker.spare = Vec::new();
        worker.scratch = Vec::new();
        let read = |runs: usize| (self.memory / runs.max(1)).clamp(LEAST_READ, MOST_READ);
        // Too many runs for one merge: neighbours are merged into longer runs first, in order, so
        // that ties by arrival stay right.
        let fan_in = (self.memory / LEAST_READ).max(3) - 1;
        while worker.runs.len() > fan_in {
            let file = self.scratch_file()?;
            let mut written = 0;
            let mut runs = Vec::new();
            for group in worker.runs.chunks(fan_in) {
                let start = written;
                let mut out: Vec<Record<W, P>> = Vec::with_capacity(LEAST_READ / size_of::<Record<W, P>>());
                let mut merge = Merge::new(
                    readers(&worker.file, group, read(group.len() + 1), &self.directory),
                    self.ties,
                )?;
                while let Some(record) = merge.next()? {
                    out.push(record);
                    if out.len() == out.capacity() {
                        control.check()?;
                        write_records(&file, written, &out, &self.directory)?;
                        written += out.len() as u64;
                        out.clear();
                    }
                }
                write_records(&file, written, &out, &self.directory)?;
                written += out.len() as u64;
                runs.push(SortedRun { start, records: written - start });
            }
            worker.file = file;
            worker.runs = runs;
        }
        let mut merge = Merge::new(
            readers(&worker.file, &worker.runs, read(worker.runs.len()), &self.directory),
            self.ties,
        )?;
        let mut number = 0u64;
        while let Some(record) = merge.next()? {
            if number.is_multiple_of(65_536) {
                control.check()?;
            }
            number += 1;
            each(&record)?;
        }
        Ok(())
    }
}

fn readers<'f, const W: usize, P: Payload>(
    file: &'f File,
    runs: &[SortedRun],
    bytes: usize,
    directory: &Path,
) -> Vec<RunReader<'f, W, P>>
where
    Record<W, P>: Pod,
{
    runs.iter().map(|&run| RunReader::new(file, run, bytes, directory)).collect()
}

fn sort_buffer<const W: usize, P: Payload>(
    records: &mut Vec<Record<W, P>>,
    scratch: &mut Vec<Record<W, P>>,
    bits: u32,
    ties: Ties,
    control: &Control,
) -> Result<()> {
    radix::sort_by_key(records, scratch, bits, control)?;
    if ties == Ties::Value {
        radix::sort_ties_by_value(records);
    }
    Ok(())
}

fn write_records<const W: usize, P: Payload>(
    file: &File,
    at: u64,
    records: &[Record<W, P>],
    directory: &Path,
) -> Result<()>
where
    Record<W, P>: Pod,
{
    let offset = at * size_of::<Record<W, P>>() as u64;
    file.write_all_at(bytemuck::cast_slice(records), offset).context("write a scratch file in", directory)
}
