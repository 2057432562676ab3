//! The entries of another split beside those of train, slice by slice.
//!
//! When nothing is left to decide, validation entries are fitted to as well ([`Data::beside`](super::Data)). They lie in files
//! of their own. Whoever goes through the train entries asks for what there is of the same slice, and a block of the other split
//! is in memory at a time.

use super::entries::Entries;
use super::level::Level;
use crate::error::Result;
use crate::stream::{Lane, Stream};
use std::ops::Range;

/// A way through the slices of another split.
pub(super) struct Beside<'a> {
    stream: &'a Stream,
    levels: &'a [Level],
    per_weight: f64,
    /// The block behind the one that was read.
    next: usize,
    /// The entries of that one, its slices with where they end, and how many of these were asked for.
    entries: Entries,
    slices: Vec<(u32, usize)>,
    taken: usize,
    /// The newest slice that was asked for.
    asked: u32,
}

impl<'a> Beside<'a> {
    /// Entries of rows that train has no entry of are left out: nothing is known of what such rows are like.
    pub(super) fn new(stream: &'a Stream, levels: &'a [Level], per_weight: f64) -> Self {
        let (entries, slices) = (Entries::default(), Vec::new());
        Beside { stream, levels, per_weight, next: 0, entries, slices, taken: 0, asked: 0 }
    }

    /// Calls `each` with what the split has of a slice: once for every block that has any.
    pub(super) fn take(&mut self, slice: u32, mut each: impl FnMut(&Entries, Range<usize>)) -> Result<()> {
        if slice < self.asked {
            (self.next, self.taken) = (0, 0);
            self.slices.clear();
        }
        self.asked = slice;
        loop {
            while let Some(&(of, end)) = self.slices.get(self.taken).filter(|(of, _)| *of <= slice) {
                if of == slice {
                    let start = self.taken.checked_sub(1).map_or(0, |before| self.slices[before].1);
                    each(&self.entries, start..end);
                }
                self.taken += 1;
            }
            if self.taken < self.slices.len() {
                return Ok(());
            }
            // Blocks ascend.
            let (mut low, mut high) = (self.next, self.stream.block_count());
            while low < high {
                let middle = low.midpoint(high);
                match self.stream.slices_of(middle)[1] < slice {
                    true => low = middle + 1,
                    false => high = middle,
                }
            }
            self.next = low;
            if low == self.stream.block_count() || self.stream.slices_of(low)[0] > slice {
                return Ok(());
            }
            self.read(low)?;
        }
    }

    fn read(&mut self, position: usize) -> Result<()> {
        let Beside { stream, levels, per_weight, entries, slices, .. } = self;
        entries.clear();
        slices.clear();
        let block = Lane { blocks: position..position + 1, slices: 0..0, entries: 0 };
        stream.for_each(&block, |block| {
            for (slice, range) in block.slices() {
                let from = entries.len();
                entries.take(block, range, *per_weight);
                entries.retain(from, |indices| {
                    levels.iter().zip(indices).skip(1).all(|(level, &row)| level.counts[row as usize] > 0.0)
                });
                slices.push((slice, entries.len()));
            }
            Ok(())
        })?;
        (self.next, self.taken) = (position + 1, 0);
        Ok(())
    }
}
