//! The train entries slice by slice: all entries of a row of level 0 together, whatever blocks and lanes they
//! lie in.
//!
//! Lanes are cut at blocks, so that a slice may lie in several. It belongs to the first of them; the entries
//! that the others have of it are kept in memory, by every process, and handed out with the slice.
//!
//! A slice of very many entries comes in windows, in whichever lanes it lies. What they all add up to, which its row
//! is fitted to, is found before ([`Slices::of_large`]), so that its blocks are read twice.
//!
//! A lane may be gone through in parts. Nothing is kept from one to the next: what a part finds of a slice that an
//! earlier one has begun it reads again, so that a part can be the first that a process sees.

use super::batch::Batch;
use super::entries::Entries;
use super::memory::{Room, SUMS};
use crate::error::Result;
use crate::kernel::BlockView;
use crate::reduce::{own_lanes, share_words, sum_in_order};
use crate::stream::{Lane, Stream};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// The entries of a lane after which a pass may be ended and gone on with: a constant of the results, because sums of
/// lanes are added up there.
const PART: u64 = 1 << 22;

/// The most entries that are in memory together: of a slice of more, a window. A constant of the results. Two blocks
/// have no more, so that of three that share a slice the one between has nothing else.
const WINDOW: usize = 1 << 17;

/// The memory of a window.
pub(super) fn window_bytes(order: usize, entries: u64) -> u64 {
    entries.min(WINDOW as u64) * (2 * size_of::<f64>() + (order - 1) * size_of::<u32>()) as u64
}

/// What it takes to go through the train entries slice by slice.
#[derive(Debug)]
pub struct Slices {
    /// What weights are multiplied by, so that they are 1 on average.
    pub(super) per_weight: f64,
    /// Per lane of all processes, what later lanes have of its last slice.
    tails: Vec<Option<Entries>>,
    /// Slices that come in windows, ascending.
    large: Vec<u32>,
    window: usize,
    /// The parts of a pass.
    pub(super) parts: usize,
    /// What sums may take.
    pub(super) room: Room,
    /// Memory of sums, all of them zero. It is kept from pass to pass: to get it anew from the system would take a tenth of
    /// a pass over a million entries.
    spare: Mutex<Vec<Vec<f64>>>,
    /// Likewise batches, all of them empty.
    batches: Mutex<Vec<Batch>>,
}

/// A slice that is not at its end yet.
#[derive(Debug, Clone, Default)]
struct Pending {
    slice: Option<u32>,
    entries: Entries,
}

impl Slices {
    /// Finds out which slices lie in several lanes. A look at a few blocks.
    pub fn new(stream: &Stream, per_weight: f64, order: usize) -> Result<Self> {
        Self::in_windows(stream, per_weight, order, WINDOW)
    }

    /// The same with windows of about so many entries.
    pub fn in_windows(stream: &Stream, per_weight: f64, order: usize, window: usize) -> Result<Self> {
        let large =
            large_slices(stream.table().map(|row| (row.first, row.last, row.entries as usize)), window);
        let all = stream.all_lanes();
        let entries = all.iter().map(|lane| lane.entries).max().unwrap_or(0);
        let mut slices = Slices {
            per_weight,
            tails: Vec::new(),
            large,
            window,
            parts: entries.div_ceil(PART).max(1) as usize,
            room: Room { lanes: usize::MAX, sums: SUMS },
            spare: Mutex::default(),
            batches: Mutex::default(),
        };
        let words = share_words(stream, own_lanes(stream, |lane| slices.head(stream, lane))?);
        slices.tails = vec![None; all.len()];
        for (lane, words) in words.iter().enumerate().filter(|(_, words)| !words.is_empty()) {
            // The first of the lanes that have the slice.
            let owner =
                (0..lane).find(|&owner| all[owner].slices.end > all[lane].slices.start).unwrap_or(lane);
            let tail = slices.tails[owner].get_or_insert_with(Entries::default);
            for entry in words.chunks_exact(order + 1) {
                tail.at[1..]
                    .iter_mut()
                    .zip(&entry[..order - 1])
                    .for_each(|(at, &index)| at.push(index as u32));
                tail.values.push(f64::from_bits(entry[order - 1]));
                tail.weights.push(f64::from_bits(entry[order]));
            }
        }
        Ok(slices)
    }

    /// With passes in so many parts.
    pub fn in_parts(self, parts: usize) -> Self {
        Slices { parts, ..self }
    }

    /// With so much room for sums.
    pub fn within(self, room: Room) -> Self {
        Slices { room, ..self }
    }

    /// So many numbers, all of them zero.
    pub(super) fn zeros(&self, count: usize) -> Vec<f64> {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some(mut zeros) = spare.filter(|spare| spare.capacity() >= count) else {
            return vec![0.0; count];
        };
        zeros.resize(count, 0.0);
        zeros
    }

    /// Takes such numbers, all of them zero again, for the next lane or the next pass.
    pub(super) fn give_back(&self, zeros: Vec<f64>) {
        if !zeros.is_empty() {
            self.spare.lock().unwrap_or_else(PoisonError::into_inner).push(zeros);
        }
    }

    /// A batch that was given back, if there is one that does.
    pub(super) fn batch(&self, does: impl Fn(&Batch) -> bool) -> Option<Batch> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).pop().filter(does)
    }

    /// Takes it back, for the next lane.
    pub(super) fn give_batch_back(&self, batch: Batch) {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).push(batch);
    }

    /// Gives that memory back, before anything else that takes as much.
    pub fn forget(&self) {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Whether another split may be beside this one: none of its slices has more entries than a window, but for those that
    /// come in windows anyway.
    pub fn can_join(&self, other: &Stream) -> bool {
        let blocks = (0..other.block_count()).map(|position| {
            let [first, last] = other.slices_of(position);
            (first, last, other.block_row(position).entries as usize)
        });
        large_slices(blocks, self.window).into_iter().all(|slice| self.number_of(slice).is_some())
    }

    /// The slices that come in windows.
    pub fn large(&self) -> &[u32] {
        &self.large
    }

    /// The number of a slice among those.
    #[inline]
    pub(super) fn number_of(&self, slice: u32) -> Option<usize> {
        self.large.binary_search(&slice).ok()
    }

    /// Adds up numbers of every slice that comes in windows, from its entries.
    pub(super) fn of_large<T>(
        &self,
        stream: &Stream,
        width: usize,
        state: impl Fn() -> T + Sync,
        add: impl Fn(&mut T, u32, &Entries, &mut [f64]) + Sync,
    ) -> Result<Vec<f64>> {
        let lanes = own_lanes(stream, |lane| {
            let from = self.large.partition_point(|&slice| slice < lane.slices.start);
            let to = self.large.partition_point(|&slice| slice < lane.slices.end);
            let mut sums = vec![0.0; (to - from) * width];
            if from == to {
                return Ok((from, sums));
            }
            let (mut state, mut pending) = (state(), Pending::default());
            let mut each = |slice: u32, entries: &mut Entries| {
                if let Some(number) = self.number_of(slice) {
                    add(&mut state, slice, entries, &mut sums[(number - from) * width..][..width]);
                }
            };
            let has = |position: &usize| {
                let row = stream.block_row(*position);
                let next = self.large.partition_point(|&slice| slice < row.first);
                self.large.get(next).is_some_and(|&slice| slice <= row.last)
            };
            let positions: Vec<usize> = lane.blocks.clone().filter(has).collect();
            for run in positions.chunk_by(|a, b| a + 1 == *b) {
                self.blocks(stream, lane, run[0]..run[run.len() - 1] + 1, |slice, block, entries| {
                    if self.number_of(slice).is_some() {
                        pending.begin(slice, &mut each);
                        pending.push(block, entries, (self.window, self.per_weight), &mut each);
                    }
                })?;
            }
            pending.end(&mut each);
            Ok((from, sums))
        })?;
        let mut total = vec![0.0; self.large.len() * width];
        sum_in_order(
            stream.team(),
            &mut total,
            lanes.iter().map(|(from, sums)| (from * width, sums.as_slice())),
        );
        Ok(total)
    }

    /// Whether a lane begins within a slice of an earlier one, whose entries are handed out there.
    fn begins_inside(&self, stream: &Stream, lane: &Lane) -> bool {
        if self.number_of(lane.slices.start).is_some() {
            return false;
        }
        let all = stream.all_lanes();
        let number = all.iter().position(|other| other == lane).unwrap_or(0);
        number > 0 && all[..number].iter().any(|earlier| earlier.slices.end > lane.slices.start)
    }

    /// The entries at a lane's beginning that belong to a slice of an earlier one, as words.
    fn head(&self, stream: &Stream, lane: &Lane) -> Result<Vec<u64>> {
        let mut words = Vec::new();
        if !self.begins_inside(stream, lane) {
            return Ok(words);
        }
        let (mut head, mut order) = (Entries::default(), 0);
        for position in lane.blocks.clone() {
            let mut ended = false;
            self.blocks(stream, lane, position..position + 1, |slice, block, entries| {
                ended |= slice != lane.slices.start;
                if !ended {
                    order = block.order();
                    head.take(block, entries, self.per_weight);
                }
            })?;
            if ended {
                break;
            }
        }
        head.for_each(lane.slices.start, order, |indices, value, weight| {
            words.extend(indices[1..order].iter().map(|&index| u64::from(index)));
            words.extend([value.to_bits(), weight.to_bits()]);
        });
        Ok(words)
    }

    /// Calls `each` with what every block has of every slice, as long as it has any weight.
    fn blocks(
        &self,
        stream: &Stream,
        lane: &Lane,
        blocks: Range<usize>,
        mut each: impl FnMut(u32, &BlockView<'_>, Range<usize>),
    ) -> Result<()> {
        let part = Lane { blocks, ..lane.clone() };
        stream.for_each(&part, |block: &BlockView<'_>| {
            for (slice, entries) in block.slices() {
                if block.weights().is_none_or(|weights| entries.clone().any(|n| weights.get(n) > 0.0)) {
                    each(slice, block, entries);
                }
            }
            Ok(())
        })
    }

    /// Calls `each` with every slice that ends in a part of a lane: the blocks of `part` of so many; with those that
    /// come in windows, once for each. More entries may be added to what is handed out.
    pub(super) fn for_each(
        &self,
        stream: &Stream,
        lane: &Lane,
        (part, parts): (usize, usize),
        mut each: impl FnMut(u32, &mut Entries),
    ) -> Result<()> {
        let all = stream.all_lanes();
        let number = all.iter().position(|other| other == lane).unwrap_or(0);
        let skipped = self.begins_inside(stream, lane).then_some(lane.slices.start);
        let count = lane.blocks.len();
        let at = |part: usize| lane.blocks.start + (2 * count * part + parts) / (2 * parts);
        let (from, to) = (at(part), at(part + 1));
        let open = |end: usize| self.open(stream, lane, end, skipped);
        let mut pending = self.begun(stream, lane, from, open(from))?;
        self.blocks(stream, lane, from..to, |slice, block, entries| {
            if Some(slice) != skipped {
                let is_large = self.number_of(slice).is_some();
                let window = if is_large { self.window } else { usize::MAX };
                pending.begin(slice, &mut each);
                pending.push(block, entries, (window, self.per_weight), &mut each);
            }
        })?;
        if part + 1 == parts {
            if let Some(tail) = &self.tails[number] {
                // Entries of no weight may be all that this lane has of it.
                let last = lane.slices.end - 1;
                if pending.slice != Some(last) {
                    pending.end(&mut each);
                    pending.slice = Some(last);
                }
                pending.entries.add(tail, 0..tail.len());
            }
            pending.end(&mut each);
        } else if pending.slice != open(to) {
            pending.end(&mut each);
        }
        Ok(())
    }

    /// The slice that may go on behind a block of a lane. One that comes in windows need not be kept together, and one of
    /// an earlier lane is no concern of this one.
    fn open(&self, stream: &Stream, lane: &Lane, end: usize, skipped: Option<u32>) -> Option<u32> {
        let last = (end > lane.blocks.start).then(|| stream.block_row(end - 1).last);
        last.filter(|&slice| Some(slice) != skipped && self.number_of(slice).is_none())
    }

    /// What blocks before `end` have of a slice, read again.
    fn begun(&self, stream: &Stream, lane: &Lane, end: usize, slice: Option<u32>) -> Result<Pending> {
        let mut pending = Pending::default();
        let Some(slice) = slice else { return Ok(pending) };
        let has = |block: &usize| stream.block_row(*block).last == slice;
        let last = (lane.blocks.start..end).rev().take_while(has).last().unwrap_or(end);
        // The first one may have it behind others.
        self.blocks(stream, lane, last..end, |of, block, entries| {
            if of == slice {
                pending.slice = Some(slice);
                pending.entries.take(block, entries, self.per_weight);
            }
        })?;
        Ok(pending)
    }
}

impl Pending {
    /// Before entries of a slice: hands out what there is of another.
    fn begin(&mut self, slice: u32, each: &mut impl FnMut(u32, &mut Entries)) {
        if self.slice != Some(slice) {
            self.hand_out(each);
            self.slice = Some(slice);
        }
    }

    /// Takes entries of the slice, and hands out what came before as often as that is a window.
    fn push(
        &mut self,
        block: &BlockView<'_>,
        mut entries: Range<usize>,
        (window, per_weight): (usize, f64),
        each: &mut impl FnMut(u32, &mut Entries),
    ) {
        while !entries.is_empty() {
            if self.entries.len() >= window {
                self.hand_out(each);
            }
            let some = entries.len().min(window - self.entries.len());
            self.entries.take(block, entries.start..entries.start + some, per_weight);
            entries.start += some;
        }
    }

    fn hand_out(&mut self, each: &mut impl FnMut(u32, &mut Entries)) {
        if let Some(slice) = self.slice.filter(|_| self.entries.len() > 0) {
            each(slice, &mut self.entries);
        }
        self.entries.clear();
    }

    /// Hands out what is left, and gives its memory back.
    fn end(&mut self, each: &mut impl FnMut(u32, &mut Entries)) {
        self.hand_out(each);
        *self = Pending::default();
    }
}

/// The slices that may have more entries than a window, up to a block: of blocks by their first and last slices and
/// their entries.
fn large_slices(blocks: impl Iterator<Item = (u32, u32, usize)>, most: usize) -> Vec<u32> {
    let mut found = Vec::new();
    let (mut slice, mut entries) = (None, 0);
    for (first, last, count) in blocks {
        entries = if slice == Some(first) { entries + count } else { count };
        if entries > most && found.last() != Some(&first) {
            found.push(first);
        }
        if first != last {
            entries = count;
            // What lies between is within the block.
            if count > most {
                found.push(last);
            }
        }
        slice = Some(last);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::large_slices;

    #[test]
    fn slices_are_found_to_be_large_across_blocks() {
        let large = |blocks: &[(u32, u32, usize)]| large_slices(blocks.iter().copied(), 100);
        assert!(large(&[(0, 3, 90), (4, 4, 90), (5, 9, 90)]).is_empty());
        assert_eq!(large(&[(0, 3, 60), (3, 3, 60)]), [3]);
        assert_eq!(large(&[(0, 0, 101)]), [0]);
        assert!(large(&[(0, 3, 60), (3, 5, 40), (5, 6, 60)]).is_empty());
        assert_eq!(large(&[(0, 3, 60), (3, 5, 40), (5, 6, 61), (6, 6, 50), (6, 7, 10)]), [5, 6]);
        assert_eq!(large(&[(0, 2, 150), (2, 2, 1), (2, 9, 3)]), [0, 2]);
    }
}
