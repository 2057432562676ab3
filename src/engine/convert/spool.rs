//! Rows that wait for their final indices: in memory while they fit, then in a scratch file.

use crate::budget::{Budget, Reservation};
use crate::error::{IoContext, Result};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

const PIECE: usize = 1 << 20;

/// Where the parts of a spooled row stand: its cells, the value, and where rows have them the weight, the time
/// and the split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordLayout {
    pub(super) value: usize,
    pub(super) weight: usize,
    pub(super) time: usize,
    pub(super) split: usize,
    /// Bytes of a row.
    pub(super) bytes: usize,
}

impl RecordLayout {
    /// For rows whose cells take so many bytes.
    pub(super) fn new(cells: usize, weighted: bool, timed: bool, tagged: bool) -> Self {
        let (value, weight) = (cells, cells + 8);
        let time = weight + 8 * usize::from(weighted);
        let split = time + 8 * usize::from(timed);
        RecordLayout { value, weight, time, split, bytes: split + usize::from(tagged) }
    }
}

/// Fixed-size byte records, written once and read once, in order.
#[derive(Debug)]
pub(super) struct Spool {
    record: usize,
    buffer: Vec<u8>,
    memory: Reservation,
    file: Option<File>,
    directory: PathBuf,
    records: u64,
    most: u64,
}

impl Spool {
    /// For records of `record` bytes, with at most a third of what the budget has left.
    pub(super) fn new(record: usize, budget: &Budget, directory: &Path) -> Result<Self> {
        let memory = budget.reserve(2 * PIECE as u64, "the spool")?;
        let most = (budget.free() / 3).max(2 * PIECE as u64);
        let (buffer, directory) = (Vec::new(), directory.into());
        Ok(Spool { record, buffer, memory, file: None, directory, records: 0, most })
    }

    pub(super) fn len(&self) -> u64 {
        self.records
    }

    /// Space for `count` more records, zeroed.
    pub(super) fn extend(&mut self, count: usize) -> Result<&mut [u8]> {
        let limit = if self.file.is_some() { PIECE } else { self.most as usize };
        let mut end = self.buffer.len() + count * self.record;
        let grows = self.file.is_none() && end as u64 > self.memory.bytes() / 2;
        // A growing Vec holds the old and the new copy for a moment.
        let wanted = (end as u64 * 3).min(self.most * 3 / 2).max(2 * PIECE as u64);
        if end > limit || grows && self.memory.resize(wanted).is_err() {
            self.spill()?;
            end = count * self.record;
        }
        let start = self.buffer.len();
        self.buffer.resize(end, 0);
        self.records += count as u64;
        Ok(&mut self.buffer[start..])
    }

    /// Moves what is in memory to the scratch file.
    pub(super) fn spill(&mut self) -> Result<()> {
        let first = self.file.is_none();
        if first {
            let file = tempfile::tempfile_in(&self.directory);
            self.file = Some(file.context("create a scratch file in", &self.directory)?);
        }
        if let Some(file) = &mut self.file {
            file.write_all(&self.buffer).context("write a scratch file in", &self.directory)?;
        }
        self.buffer.clear();
        if first {
            self.buffer = Vec::with_capacity(PIECE);
            self.memory.resize(2 * PIECE as u64)?;
        }
        Ok(())
    }

    /// All records in order, some at a time; may be called again.
    pub(super) fn for_each_piece(&mut self, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        if let Some(file) = &mut self.file {
            file.rewind().context("read a scratch file in", &self.directory)?;
            let mut piece = vec![0; PIECE / self.record * self.record];
            let mut left = (self.records as usize * self.record) - self.buffer.len();
            while left > 0 {
                let now = left.min(piece.len());
                file.read_exact(&mut piece[..now]).context("read a scratch file in", &self.directory)?;
                each(&piece[..now])?;
                left -= now;
            }
        }
        for piece in self.buffer.chunks(PIECE / self.record * self.record) {
            each(piece)?;
        }
        Ok(())
    }
}
