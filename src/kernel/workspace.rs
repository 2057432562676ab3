//! Scratch memory of a lane: grown by the first blocks, then used again and again.

use super::arithmetic::Arithmetic;
use super::dispatch::{self, Kernel};
use super::inner::{Columns, PaddedMatrix, PerFibre, TOGETHER};
use super::padded_rows::{CacheLines, PaddedFactors};
use super::rows::prefetch_all;
use super::walk::children;
use crate::MAX_ORDER;
use crate::block::{BlockView, Ids, Values};
use std::ops::Range;

/// Scratch memory for all kernels: one per lane, made once. Holds no results: a kernel's sums do
/// not depend on what the workspace was used for before.
#[derive(Debug, Default)]
pub struct Workspace {
    /// The core contracted with the rows of the open nodes.
    pub(super) contracted: Stack,
    /// Its derivative along the direction, or its further coefficients in the step.
    pub(super) changed: Stack,
    /// The adjoints of the contracted cores.
    pub(super) adjoint: Stack,
    /// The decoded part of the block.
    pub(super) decoded: Decoded,
    /// The contracted core and what else the kernels of the last levels need of its shape.
    pub(super) matrices: [PaddedMatrix; 3],
    /// What they need per fibre.
    pub(super) fibres: [PerFibre; 2],
}

impl Workspace {
    /// An empty workspace.
    pub fn new() -> Self {
        Workspace::default()
    }
}

/// An array per level: slot `l + 1` is a core whose levels `0..=l` are contracted away, so it has
/// `r_{l+1} ... r_{D-1}` numbers (times a factor of the kernel's own). Slot 0, the core itself,
/// lives elsewhere.
#[derive(Debug, Default)]
pub(super) struct Stack {
    slots: [Vec<f64>; MAX_ORDER],
}

impl Stack {
    /// Gives the slots the sizes for `ranks`, `copies` arrays in each.
    pub(super) fn resize(&mut self, ranks: &[usize], copies: usize) {
        let mut size = copies;
        for level in (0..ranks.len()).rev() {
            self.slots[level].resize(size, 0.0);
            size *= ranks[level];
        }
    }

    /// Slot `level`, with `core` as slot 0.
    #[inline(always)]
    pub(super) fn get<'a>(&'a self, core: &'a [f64], level: usize) -> &'a [f64] {
        if level == 0 { core } else { &self.slots[level - 1] }
    }

    /// Slot `level` to write, with `core` as slot 0.
    #[inline(always)]
    pub(super) fn get_mut<'a>(&'a mut self, core: &'a mut [f64], level: usize) -> &'a mut [f64] {
        if level == 0 { core } else { &mut self.slots[level - 1] }
    }

    /// Slots `level` and `level + 1`, the latter to write, with `core` as slot 0.
    #[inline(always)]
    pub(super) fn pair<'a>(&'a mut self, core: &'a [f64], level: usize) -> (&'a [f64], &'a mut [f64]) {
        let (above, below) = self.slots.split_at_mut(level);
        (if level == 0 { core } else { &above[level - 1] }, &mut below[0])
    }

    /// Slots `level` and `level + 1`, both to write, with `core` as slot 0.
    #[inline(always)]
    pub(super) fn pair_mut<'a>(
        &'a mut self,
        core: &'a mut [f64],
        level: usize,
    ) -> (&'a mut [f64], &'a mut [f64]) {
        let (above, below) = self.slots.split_at_mut(level);
        (if level == 0 { core } else { &mut above[level - 1] }, &mut below[0])
    }

    /// Slot `level + 1`.
    #[inline(always)]
    pub(super) fn below(&mut self, level: usize) -> &mut [f64] {
        &mut self.slots[level]
    }
}

/// How many entries are decoded at once, at least: short enough to leave room in the first cache, long
/// enough that what is done once for many entries costs nothing.
const WINDOW: usize = 512;

/// Columns of a block with their encodings undone and ids turned into offsets of padded rows, some
/// slices at a time.
#[derive(Debug)]
pub(super) struct Decoded {
    /// Of which nodes of the level before the last, and of which entries.
    nodes: Range<usize>,
    entries: Range<usize>,
    /// Whole lines of the cache, and so are values: stores of eight numbers are as long as one.
    offsets: [CacheLines; 2],
    values: CacheLines,
    /// Where entries have weights, as many as values.
    weights: Vec<f64>,
    /// What a code stands for: for every u8, so that no code needs a check.
    table: [f64; 256],
    /// First value and step where values are evenly spaced, as stars are: computed, not looked up, so
    /// that many are decoded at once.
    even: Option<(f64, f64)>,
    stride: u32,
    /// The number of rows of the two last levels.
    counts: [usize; 2],
}

impl Default for Decoded {
    fn default() -> Self {
        Decoded {
            nodes: 0..0,
            entries: 0..0,
            offsets: Default::default(),
            values: CacheLines::default(),
            weights: vec![],
            table: [0.0; 256],
            even: None,
            stride: 0,
            counts: [0; 2],
        }
    }
}

impl Decoded {
    /// Forgets what was decoded and takes over a block's table of values; offsets will be those of
    /// rows in `padded`.
    pub(super) fn prepare(&mut self, block: &BlockView<'_>, padded: &PaddedFactors<'_>) {
        if let Values::Codes { table, .. } = block.values {
            self.table[..table.len()].copy_from_slice(table);
            self.even = evenly_spaced(table);
        }
        (self.nodes, self.entries) = (0..0, 0..0);
        self.stride = padded.stride() as u32;
        self.counts = padded.levels().map(|rows| rows.len().checked_div(padded.stride()).unwrap_or(0));
    }

    /// The columns below the nodes `nodes` of the level before the last.
    #[inline(always)]
    pub(super) fn decode<'b>(&'b mut self, block: &BlockView<'b>, nodes: Range<usize>) -> Columns<'b> {
        let level = block.order - 2;
        let in_fibres = level < block.flat_from && !nodes.is_empty();
        let entries = if in_fibres {
            children(block, level, nodes.start).start..children(block, level, nodes.end - 1).end
        } else {
            nodes.clone()
        };
        if nodes.start < self.nodes.start || self.nodes.end < nodes.end {
            self.refill(block, nodes.clone(), entries.clone(), in_fibres);
        }
        let [offsets1, offsets2] = self.offsets.each_ref().map(CacheLines::numbers);
        let values = self.values.numbers();
        let (node, entry) = (nodes.start - self.nodes.start, entries.start - self.entries.start);
        Columns {
            entries: entries.len(),
            offsets1: &offsets1[node..node + nodes.len() + TOGETHER],
            offsets2: &offsets2[entry..entry + entries.len() + TOGETHER],
            values: &values[entry..entry + entries.len() + TOGETHER],
            weights: block.weights.is_some().then(|| &self.weights[entry..entry + entries.len() + TOGETHER]),
            ends: in_fibres.then(|| &block.ends[level][nodes]),
            start: entries.start,
        }
    }

    /// Decodes these nodes and entries, and those after them if they are few.
    #[inline(always)]
    fn refill(&mut self, block: &BlockView<'_>, nodes: Range<usize>, entries: Range<usize>, in_fibres: bool) {
        let level = block.order - 2;
        let enough = entries.end.max(entries.start + WINDOW).min(block.entries);
        let (last_node, last_entry) = if in_fibres {
            // The last fibre that ends within the window.
            let ends = &block.ends[level][nodes.end..];
            let ends = &ends[..ends.len().min(enough - entries.end)];
            let last = nodes.end + ends.partition_point(|&end| usize::from(end) <= enough);
            (last, usize::from(block.ends[level][last - 1]))
        } else {
            (enough.max(nodes.end), enough.max(entries.end))
        };
        self.nodes = nodes.start..last_node;
        self.entries = entries.start..last_entry;
        dispatch::run(Refill { block, decoded: self });
    }
}

/// Decodes a window of a block.
struct Refill<'t> {
    block: &'t BlockView<'t>,
    decoded: &'t mut Decoded,
}

impl Kernel for Refill<'_> {
    #[inline(always)]
    fn run<M: Arithmetic>(self) {
        let Refill { block, decoded } = self;
        let level = block.order - 2;
        let Decoded {
            nodes,
            entries,
            offsets: [offsets1, offsets2],
            values,
            weights,
            table,
            even,
            stride,
            counts,
        } = decoded;
        if let Some(from) = block.weights {
            weights.clear();
            weights.extend(entries.clone().map(|entry| from.get(entry)));
            weights.extend([0.0; TOGETHER]);
        }
        // What the next window will be decoded from, which the processor asks for too late.
        let next = |from: usize, length: usize, all: usize| from.min(all)..(from + length).min(all);
        let (after, behind) = (next(nodes.end, nodes.len(), block.ids[level].len()), entries.end);
        prefetch_ids(&block.ids[level + 1], next(behind, WINDOW, block.entries));
        if level < block.flat_from {
            prefetch_ids(&block.ids[level], after.clone());
            prefetch_all(&block.ends[level][after]);
        }
        if let Values::Codes { codes, .. } = block.values {
            prefetch_all(&codes[next(behind, WINDOW, codes.len())]);
        }
        copy_offsets(&block.ids[level], nodes.clone(), *stride, counts[0], offsets1);
        copy_offsets(&block.ids[level + 1], entries.clone(), *stride, counts[1], offsets2);
        let (values, behind) = values.at_least::<f64>(entries.len() + TOGETHER).split_at_mut(entries.len());
        behind[..TOGETHER].fill(0.0);
        match block.values {
            Values::Codes { codes, .. } => match *even {
                Some((first, step)) => {
                    for (to, &code) in values.iter_mut().zip(&codes[entries.clone()]) {
                        *to = first + f64::from(code) * step;
                    }
                }
                None => {
                    for (to, &code) in values.iter_mut().zip(&codes[entries.clone()]) {
                        *to = table[usize::from(code)];
                    }
                }
            },
            Values::F32(from) => {
                for (to, &from) in values.iter_mut().zip(&from[entries.clone()]) {
                    *to = f64::from(from);
                }
            }
            Values::F64(from) => values.copy_from_slice(&from[entries.clone()]),
        }
    }
}

/// First value and step of a table whose every value is first + code step to the bit.
fn evenly_spaced(table: &[f64]) -> Option<(f64, f64)> {
    let (&first, step) = (table.first()?, table.get(1)? - table.first()?);
    let even = (table.iter().enumerate()).all(|(code, &value)| first + code as f64 * step == value);
    even.then_some((first, step))
}

/// Asks for ids that will be read soon.
fn prefetch_ids(ids: &Ids<'_>, nodes: Range<usize>) {
    match ids {
        Ids::U16 { ids, .. } => prefetch_all(&ids[nodes]),
        Ids::U32(ids) => prefetch_all(&ids[nodes]),
    }
}

/// Turns ids into offsets of rows, all of which exist, and repeats the last one behind them.
///
/// # Panics
///
/// Where there is no such row: kernels read at these offsets without a further look.
#[inline(always)]
fn copy_offsets(ids: &Ids<'_>, nodes: Range<usize>, stride: u32, rows: usize, to: &mut CacheLines) {
    let (to, behind) = to.at_least::<u32>(nodes.len() + TOGETHER).split_at_mut(nodes.len());
    let mut largest = 0;
    match ids {
        Ids::U16 { base, ids } => {
            for (to, &id) in to.iter_mut().zip(&ids[nodes]) {
                let id = base + u32::from(id);
                largest = largest.max(id);
                *to = id.wrapping_mul(stride);
            }
        }
        Ids::U32(ids) => {
            for (to, &id) in to.iter_mut().zip(&ids[nodes]) {
                largest = largest.max(id);
                *to = id.wrapping_mul(stride);
            }
        }
    }
    assert!(to.is_empty() || (largest as usize) < rows, "index {largest} is one of {rows} rows");
    behind[..TOGETHER].fill(to.last().copied().unwrap_or(0));
}

#[cfg(test)]
mod tests {
    use super::evenly_spaced;

    #[test]
    fn values_are_computed_only_where_they_are_the_same_to_the_bit() {
        let stars: Vec<f64> = (1..=10).map(|n| f64::from(n) / 2.0).collect();
        assert_eq!(evenly_spaced(&stars), Some((0.5, 0.5)));
        assert_eq!(evenly_spaced(&[5.0, 4.0, 3.0]), Some((5.0, -1.0)));
        // 0.1 + 2 (0.2 - 0.1) is not 0.3.
        assert_eq!(evenly_spaced(&[0.1, 0.2, 0.3]), None);
        assert_eq!(evenly_spaced(&[1.0, 2.0, 4.0]), None);
        assert_eq!(evenly_spaced(&[1.0]), None);
        assert_eq!(evenly_spaced(&[]), None);
    }
}
