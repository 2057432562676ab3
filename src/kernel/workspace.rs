//! Scratch memory of a lane: grown by the first blocks, then used again and again.

use super::inner::{Columns, Padded, TOGETHER};
use super::walk::children;
use crate::MAX_ORDER;
use crate::shard::{BlockView, Ids, Values};
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
    pub(super) padded: [Padded; 3],
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

/// Columns of a block with their encodings undone, a slice at a time: short enough for the first
/// cache, long enough that the choice of the encoding is made once for many entries.
#[derive(Debug)]
pub(super) struct Decoded {
    ids: [Vec<u32>; 2],
    values: Vec<f64>,
    /// What a code stands for: for every u8, so that no code needs a check.
    table: [f64; 256],
}

impl Default for Decoded {
    fn default() -> Self {
        Decoded { ids: [vec![], vec![]], values: vec![], table: [0.0; 256] }
    }
}

impl Decoded {
    /// Makes room for any part of `block` and takes over its table of values.
    pub(super) fn prepare(&mut self, block: &BlockView<'_>) {
        if let Values::Codes { table, .. } = block.values {
            self.table[..table.len()].copy_from_slice(table);
        }
        let room = block.entries + TOGETHER;
        for ids in &mut self.ids {
            ids.resize(ids.len().max(room), 0);
        }
        self.values.resize(self.values.len().max(room), 0.0);
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
        let [ids1, ids2] = &mut self.ids;
        let ids1 = &mut ids1[..nodes.len() + TOGETHER];
        let ids2 = &mut ids2[..entries.len() + TOGETHER];
        let values = &mut self.values[..entries.len() + TOGETHER];
        let (start, count) = (entries.start, entries.len());
        copy_ids(&block.ids[level], nodes.clone(), ids1);
        copy_ids(&block.ids[level + 1], entries.clone(), ids2);
        match block.values {
            Values::Codes { codes, .. } => {
                for (to, &code) in values.iter_mut().zip(&codes[entries]) {
                    *to = self.table[usize::from(code)];
                }
            }
            Values::F32(from) => {
                for (to, &from) in values.iter_mut().zip(&from[entries]) {
                    *to = f64::from(from);
                }
            }
            Values::F64(from) => values[..count].copy_from_slice(&from[entries]),
        }
        values[count..].fill(0.0);
        let ends = in_fibres.then(|| &block.ends[level][nodes]);
        Columns { entries: count, ids1, ids2, values, ends, start }
    }
}

/// Decodes ids, and repeats the last one behind them.
#[inline(always)]
fn copy_ids(ids: &Ids<'_>, nodes: Range<usize>, to: &mut [u32]) {
    let (to, behind) = to.split_at_mut(nodes.len());
    match ids {
        Ids::U16 { base, ids } => {
            for (to, &id) in to.iter_mut().zip(&ids[nodes]) {
                *to = base + u32::from(id);
            }
        }
        Ids::U32(ids) => to.copy_from_slice(&ids[nodes]),
    }
    behind.fill(to.last().copied().unwrap_or(0));
}
