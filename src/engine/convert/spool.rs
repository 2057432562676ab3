//! Rows that wait for their final indices: in memory while they fit, then in a scratch file.

use crate::budget::{Budget, Reservation};
use crate::error::{IoContext, Result};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

const PIECE: usize = 1 << 20;
/// Bytes after which a new scratch file is begun: a file that was read for the last time makes room for what is
/// sorted.
const FILE: u64 = 1 << 30;

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
    /// With the bytes in each.
    files: Vec<(File, u64)>,
    directory: PathBuf,
    records: u64,
    most: u64,
    /// Bytes after which a file is full.
    full: u64,
}

impl Spool {
    /// For records of `record` bytes, with at most a third of what the budget has left.
    pub(super) fn new(record: usize, budget: &Budget, directory: &Path) -> Result<Self> {
        let memory = budget.reserve(2 * PIECE as u64, "the spool")?;
        let most = (budget.free() / 3).max(2 * PIECE as u64);
        let (buffer, directory) = (Vec::new(), directory.into());
        Ok(Spool { record, buffer, memory, files: Vec::new(), directory, records: 0, most, full: FILE })
    }

    pub(super) fn len(&self) -> u64 {
        self.records
    }

    /// Space for `count` more records, zeroed.
    pub(super) fn extend(&mut self, count: usize) -> Result<&mut [u8]> {
        let limit = if !self.files.is_empty() { PIECE } else { self.most as usize };
        let mut end = self.buffer.len() + count * self.record;
        let grows = self.files.is_empty() && end as u64 > self.memory.bytes() / 2;
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

    /// Moves what is in memory to a scratch file.
    pub(super) fn spill(&mut self) -> Result<()> {
        let first = self.files.is_empty();
        if self.files.last().is_none_or(|(_, bytes)| *bytes >= self.full) {
            let file = tempfile::tempfile_in(&self.directory);
            self.files.push((file.context("create a scratch file in", &self.directory)?, 0));
        }
        if let Some((file, bytes)) = self.files.last_mut() {
            file.write_all(&self.buffer).context("write a scratch file in", &self.directory)?;
            *bytes += self.buffer.len() as u64;
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
        let piece = PIECE / self.record * self.record;
        for (file, bytes) in &mut self.files {
            read_pieces(file, *bytes, piece, &self.directory, &mut each)?;
        }
        self.buffer.chunks(piece).try_for_each(each)
    }

    /// The same for the last time: a scratch file goes when it was read.
    pub(super) fn drain(mut self, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let piece = PIECE / self.record * self.record;
        for (mut file, bytes) in std::mem::take(&mut self.files) {
            read_pieces(&mut file, bytes, piece, &self.directory, &mut each)?;
        }
        self.buffer.chunks(piece).try_for_each(each)
    }
}

fn read_pieces(
    file: &mut File,
    bytes: u64,
    most: usize,
    directory: &Path,
    each: &mut impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    file.rewind().context("read a scratch file in", directory)?;
    let mut piece = vec![0; most];
    let mut left = bytes;
    while left > 0 {
        let now = left.min(most as u64) as usize;
        file.read_exact(&mut piece[..now]).context("read a scratch file in", directory)?;
        each(&piece[..now])?;
        left -= now as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_in_order_from_any_number_of_files() {
        let budget = Budget::new(64 << 20).unwrap();
        for full in [1, 3 << 20, FILE] {
            let mut spool = Spool::new(12, &budget, &std::env::temp_dir()).unwrap();
            (spool.most, spool.full) = (2 << 20, full);
            let records: Vec<[u8; 12]> =
                (0..700_000u64).map(|n| std::array::from_fn(|at| (n >> (8 * (at % 8))) as u8)).collect();
            for some in records.chunks(1000) {
                let space = spool.extend(some.len()).unwrap();
                space.copy_from_slice(some.as_flattened());
            }
            assert!(spool.files.len() == 1 || full < FILE, "{} files", spool.files.len());
            let mut seen = Vec::new();
            for _ in 0..2 {
                seen.clear();
                spool
                    .for_each_piece(|piece| {
                        seen.extend_from_slice(piece);
                        Ok(())
                    })
                    .unwrap();
                assert!(seen == records.as_flattened());
            }
            seen.clear();
            spool
                .drain(|piece| {
                    seen.extend_from_slice(piece);
                    Ok(())
                })
                .unwrap();
            assert!(seen == records.as_flattened());
        }
    }
}
