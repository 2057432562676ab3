//! The train entries slice by slice: all entries of a row of level 0 together, whatever blocks and lanes they
//! lie in.
//!
//! Lanes are cut at blocks, so that a slice may lie in several. It belongs to the first of them; the entries
//! that the others have of it are kept in memory, by every process, and handed out with the slice.

use crate::MAX_ORDER;
use crate::error::{Error, Result};
use crate::kernel::BlockView;
use crate::reduce::{own_lanes, share_words};
use crate::shard::{Dataset, Split};
use crate::stream::{Lane, Stream};
use std::ops::Range;

/// The most entries of a slice: they are in memory while their row is fitted.
const MOST: usize = 1 << 22;

/// The entries of a slice, or of a part of one.
#[derive(Debug, Clone, Default)]
pub(super) struct Entries {
    /// The indices of levels 1 and up, entry after entry.
    pub(super) at: Vec<u32>,
    /// Values, and weights of 1 on average.
    pub(super) values: Vec<f64>,
    pub(super) weights: Vec<f64>,
}

impl Entries {
    fn push(&mut self, indices: &[u32], value: f64, weight: f64) {
        // One by one: a copy of two numbers would be a call.
        indices[1..].iter().for_each(|&index| self.at.push(index));
        self.values.push(value);
        self.weights.push(weight);
    }

    fn clear(&mut self) {
        self.at.clear();
        self.values.clear();
        self.weights.clear();
    }

    fn add(&mut self, other: &Entries) {
        self.at.extend_from_slice(&other.at);
        self.values.extend_from_slice(&other.values);
        self.weights.extend_from_slice(&other.weights);
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// Indices, value and weight of every entry; those of level 0 are `slice`.
    #[inline(always)]
    pub(super) fn for_each(&self, slice: u32, order: usize, each: impl FnMut(&[u32; MAX_ORDER], f64, f64)) {
        self.for_each_of(0..self.len(), slice, order, each);
    }

    /// The same of some entries.
    #[inline(always)]
    pub(super) fn for_each_of(
        &self,
        range: Range<usize>,
        slice: u32,
        order: usize,
        mut each: impl FnMut(&[u32; MAX_ORDER], f64, f64),
    ) {
        let mut indices = [0; MAX_ORDER];
        indices[0] = slice;
        let rest = self.values[range.clone()].iter().zip(&self.weights[range.clone()]);
        let at = &self.at[range.start * (order - 1)..range.end * (order - 1)];
        for (at, (&value, &weight)) in at.chunks_exact(order - 1).zip(rest) {
            match *at {
                [one] => indices[1] = one,
                [one, two] => (indices[1], indices[2]) = (one, two),
                _ => indices[1..order].copy_from_slice(at),
            }
            each(&indices, value, weight);
        }
    }
}

/// What it takes to go through the train entries slice by slice.
#[derive(Debug)]
pub struct Slices {
    /// What weights are multiplied by, so that they are 1 on average.
    pub(super) per_weight: f64,
    /// Per lane of all processes, what later lanes have of its last slice.
    tails: Vec<Option<Entries>>,
}

/// What is left of a lane between its parts: the slice that is not at its end yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Pending {
    slice: Option<u32>,
    entries: Entries,
}

impl Slices {
    /// Finds out which slices lie in several lanes. A look at a few blocks.
    pub fn new(stream: &Stream, per_weight: f64, order: usize) -> Result<Self> {
        let mut slices = Slices { per_weight, tails: Vec::new() };
        let all = stream.all_lanes();
        let words = share_words(stream, own_lanes(stream, |lane| slices.head(stream, lane))?);
        slices.tails = vec![None; all.len()];
        for (lane, words) in words.iter().enumerate().filter(|(_, words)| !words.is_empty()) {
            // The first of the lanes that have the slice.
            let owner =
                (0..lane).find(|&owner| all[owner].slices.end > all[lane].slices.start).unwrap_or(lane);
            let tail = slices.tails[owner].get_or_insert_with(Entries::default);
            for entry in words.chunks_exact(order + 1) {
                tail.at.extend(entry[..order - 1].iter().map(|&index| index as u32));
                tail.values.push(f64::from_bits(entry[order - 1]));
                tail.weights.push(f64::from_bits(entry[order]));
            }
        }
        Ok(slices)
    }

    /// Whether a lane begins within a slice of an earlier one.
    fn begins_inside(stream: &Stream, lane: &Lane) -> bool {
        let all = stream.all_lanes();
        let number = all.iter().position(|other| other == lane).unwrap_or(0);
        number > 0 && all[..number].iter().any(|earlier| earlier.slices.end > lane.slices.start)
    }

    /// The entries at a lane's beginning that belong to a slice of an earlier one, as words.
    fn head(&self, stream: &Stream, lane: &Lane) -> Result<Vec<u64>> {
        let mut words = Vec::new();
        if !Self::begins_inside(stream, lane) {
            return Ok(words);
        }
        for position in lane.blocks.clone() {
            let mut ended = false;
            self.blocks(stream, lane, position..position + 1, |indices, value, weight| {
                ended |= indices[0] != lane.slices.start;
                if !ended {
                    words.extend(indices[1..].iter().map(|&index| u64::from(index)));
                    words.extend([value.to_bits(), weight.to_bits()]);
                }
            })?;
            if ended {
                break;
            }
            if words.len() > MOST * MAX_ORDER {
                return Err(too_many());
            }
        }
        Ok(words)
    }

    fn blocks(
        &self,
        stream: &Stream,
        lane: &Lane,
        blocks: Range<usize>,
        mut each: impl FnMut(&[u32], f64, f64),
    ) -> Result<()> {
        let part = Lane { blocks, ..lane.clone() };
        stream.for_each(&part, |block: &BlockView<'_>| {
            block.for_each_weighted(|indices, value, weight| {
                if weight > 0.0 {
                    each(indices, value, weight * self.per_weight);
                }
            });
            Ok(())
        })
    }

    /// Calls `each` with every slice of a part of a lane: the blocks of `part` of so many. What is left waits
    /// in `pending`, and is handed out at the latest with the last part.
    pub(super) fn for_each(
        &self,
        stream: &Stream,
        lane: &Lane,
        (part, parts): (usize, usize),
        pending: &mut Pending,
        mut each: impl FnMut(u32, &Entries),
    ) -> Result<()> {
        let all = stream.all_lanes();
        let number = all.iter().position(|other| other == lane).unwrap_or(0);
        let skipped = Self::begins_inside(stream, lane).then_some(lane.slices.start);
        let count = lane.blocks.len();
        let at = |part: usize| lane.blocks.start + (2 * count * part + parts) / (2 * parts);
        let (from, to) =
            if parts == 1 { (lane.blocks.start, lane.blocks.end) } else { (at(part), at(part + 1)) };
        let mut overflows = false;
        self.blocks(stream, lane, from..to, |indices, value, weight| {
            if Some(indices[0]) == skipped {
                return;
            }
            if pending.slice != Some(indices[0]) {
                if let Some(slice) = pending.slice {
                    each(slice, &pending.entries);
                }
                pending.entries.clear();
                pending.slice = Some(indices[0]);
            }
            if pending.entries.len() == MOST {
                overflows = true;
                return;
            }
            pending.entries.push(indices, value, weight);
        })?;
        if overflows {
            return Err(too_many());
        }
        if part + 1 == parts {
            if let Some(slice) = pending.slice.take() {
                if let Some(tail) = &self.tails[number] {
                    pending.entries.add(tail);
                }
                each(slice, &pending.entries);
            }
            pending.entries.clear();
        }
        Ok(())
    }
}

/// Whether a slice may have more entries than are kept in memory, as far as this process has it: by the index of
/// its files, up to a block.
pub fn has_large_slice(dataset: &Dataset) -> Result<bool> {
    let shards = dataset.shards_here(Split::Train)?;
    let rows = shards.iter().flatten().flat_map(|shard| shard.blocks());
    Ok(has_large(rows.map(|row| (row.first, row.last, row.entries as usize)), MOST))
}

/// Of blocks by their first and last slices and their entries.
fn has_large(blocks: impl Iterator<Item = (u32, u32, usize)>, most: usize) -> bool {
    let (mut slice, mut entries) = (None, 0);
    for (first, last, count) in blocks {
        entries = if slice == Some(first) { entries + count } else { count };
        if entries > most {
            return true;
        }
        if first != last {
            entries = count;
        }
        slice = Some(last);
    }
    false
}

fn too_many() -> Error {
    let what = format!(
        "one index of the first mode on disk has more than {MOST} entries, which sweeps over rows would keep in \
         memory: give `grow`"
    );
    Error::request(what)
}

#[cfg(test)]
mod tests {
    use super::has_large;

    #[test]
    fn slices_are_found_to_be_large_across_blocks() {
        let large = |blocks: &[(u32, u32, usize)]| has_large(blocks.iter().copied(), 100);
        assert!(!large(&[(0, 3, 90), (4, 4, 90), (5, 9, 90)]));
        assert!(large(&[(0, 3, 60), (3, 3, 60)]));
        assert!(large(&[(0, 0, 101)]));
        assert!(!large(&[(0, 3, 60), (3, 5, 40), (5, 6, 60)]));
        assert!(large(&[(0, 3, 60), (3, 5, 40), (5, 6, 61)]));
    }
}
