//! A decoded block as the kernels see it: borrowed columns, no copies.

use crate::{MAX_ORDER, MIN_ORDER};
use std::iter::repeat_n;
use std::ops::Range;

/// The node ids of one level of a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ids<'a> {
    /// Block-local ids: the index is `base + ids[n]`.
    U16 {
        /// What every id is relative to.
        base: u32,
        /// One id per node.
        ids: &'a [u16],
    },
    /// Whole indices.
    U32(&'a [u32]),
}

impl Ids<'_> {
    /// The number of nodes.
    pub fn len(&self) -> usize {
        match self {
            Ids::U16 { ids, .. } => ids.len(),
            Ids::U32(ids) => ids.len(),
        }
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The index that node `n` stands for.
    #[inline]
    pub fn get(&self, n: usize) -> u32 {
        match self {
            Ids::U16 { base, ids } => base + u32::from(ids[n]),
            Ids::U32(ids) => ids[n],
        }
    }
}

/// The values of a block's entries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Values<'a> {
    /// Entry `e` has the value `table[codes[e]]`; every code is below `table.len()`.
    Codes {
        /// The distinct values.
        table: &'a [f64],
        /// One code per entry.
        codes: &'a [u8],
    },
    /// Single precision, where that loses nothing.
    F32(&'a [f32]),
    /// Double precision.
    F64(&'a [f64]),
}

impl Values<'_> {
    /// The number of entries.
    pub fn len(&self) -> usize {
        match self {
            Values::Codes { codes, .. } => codes.len(),
            Values::F32(v) => v.len(),
            Values::F64(v) => v.len(),
        }
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether all of them are as wanted; for codes, all that may occur.
    pub fn all(&self, wanted: impl Fn(f64) -> bool) -> bool {
        match self {
            Values::Codes { table, .. } => table.iter().all(|&value| wanted(value)),
            Values::F32(values) => values.iter().all(|&value| wanted(f64::from(value))),
            Values::F64(values) => values.iter().all(|&value| wanted(value)),
        }
    }

    /// Appends the values of some entries.
    pub fn append(&self, entries: Range<usize>, to: &mut Vec<f64>) {
        match self {
            Values::Codes { table, codes } => {
                to.extend(codes[entries].iter().map(|&code| table[usize::from(code)]));
            }
            Values::F32(v) => to.extend(v[entries].iter().map(|&x| f64::from(x))),
            Values::F64(v) => to.extend_from_slice(&v[entries]),
        }
    }

    /// The value of entry `e`.
    #[inline]
    pub fn get(&self, e: usize) -> f64 {
        match self {
            Values::Codes { table, codes } => table[usize::from(codes[e])],
            Values::F32(v) => f64::from(v[e]),
            Values::F64(v) => v[e],
        }
    }
}

/// The most entries a block may hold: every end fits into 16 bits.
pub const MAX_BLOCK_ENTRIES: usize = 65_535;

/// At most 65,535 entries, sorted in the dataset's mode order, as a tree of levels.
///
/// Level `l` belongs to the `l`-th mode of the mode order. Level 0 has a node per slice, the next
/// one per distinct pair, and so on. For `l < flat_from` the children of node `n` are the nodes
/// `ends[l][n - 1] .. ends[l][n]` (from 0 for `n = 0`) of level `l + 1`. From `flat_from` on there
/// is one node per entry, whether or not neighbours share an id: that is smaller and faster where
/// a level's nodes hold hardly more than one entry each. `1 <= flat_from <= order - 1`, so the
/// first level is always a tree and the last always flat.
///
/// The kernels walk this tree without looking at an end twice. So there is no block whose ends do not
/// ascend or do not cover the level below: [`BlockView::new`] is the only way to one.
#[derive(Debug, Clone, Copy)]
pub struct BlockView<'a> {
    pub(crate) order: usize,
    pub(crate) entries: usize,
    pub(crate) flat_from: usize,
    /// The ids of each level; those past the order are empty.
    pub(crate) ids: [Ids<'a>; MAX_ORDER],
    /// The children of the nodes of each level below `flat_from`; empty for the others.
    pub(crate) ends: [&'a [u16]; MAX_ORDER],
    pub(crate) values: Values<'a>,
    pub(crate) weights: Option<Values<'a>>,
}

/// Why columns are no block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockFlaw {
    /// The order is not 2 to 8.
    Order,
    /// There is no entry, or more than [`MAX_BLOCK_ENTRIES`].
    Entries,
    /// There are no tree levels, or no flat one.
    FlatFrom,
    /// This level has another number of nodes than of ends (a tree level) or entries (a flat one).
    Nodes(usize),
    /// The ends of this level do not ascend from above 0 to the number of nodes below it.
    Ends(usize),
    /// There are weights, but not as many as entries.
    Weights,
}

impl<'a> BlockView<'a> {
    /// A block of these columns: `ids` of each level, `ends` of each level but the flat ones.
    ///
    /// ```
    /// use tenfill_kernel::{BlockFlaw, BlockView, Ids, Values};
    ///
    /// let slices = Ids::U16 { base: 100, ids: &[0, 3] }; // two slices, 100 and 103
    /// let columns = [slices, Ids::U32(&[7, 9, 7])];
    /// let values = Values::F64(&[1.0, 2.0, 3.0]);
    /// // Slice 100 has the entries 0 and 1, slice 103 the entry 2.
    /// let block = BlockView::new(&columns, &[&[2, 3]], values, None).unwrap();
    /// let mut seen = vec![];
    /// block.for_each(|i, value| seen.push((i[0], i[1], value)));
    /// assert_eq!(seen, [(100, 7, 1.0), (100, 9, 2.0), (103, 7, 3.0)]);
    ///
    /// assert_eq!(BlockView::new(&columns, &[&[3, 2]], values, None).unwrap_err(), BlockFlaw::Ends(0));
    /// ```
    pub fn new(
        ids: &[Ids<'a>],
        ends: &[&'a [u16]],
        values: Values<'a>,
        weights: Option<Values<'a>>,
    ) -> Result<Self, BlockFlaw> {
        let (order, flat_from, entries) = (ids.len(), ends.len(), values.len());
        if !(MIN_ORDER..=MAX_ORDER).contains(&order) {
            return Err(BlockFlaw::Order);
        }
        if entries == 0 || entries > MAX_BLOCK_ENTRIES {
            return Err(BlockFlaw::Entries);
        }
        if flat_from == 0 || flat_from >= order {
            return Err(BlockFlaw::FlatFrom);
        }
        let mut view = BlockView {
            order,
            entries,
            flat_from,
            ids: [Ids::U32(&[]); MAX_ORDER],
            ends: [&[]; MAX_ORDER],
            values,
            weights,
        };
        view.ids[..order].copy_from_slice(ids);
        view.ends[..flat_from].copy_from_slice(ends);
        for level in 0..order {
            let nodes = ids[level].len();
            if nodes != ends.get(level).map_or(entries, |ends| ends.len()) {
                return Err(BlockFlaw::Nodes(level));
            }
        }
        for (level, ends) in ends.iter().enumerate() {
            if !ascend_to(ends, ids[level + 1].len()) {
                return Err(BlockFlaw::Ends(level));
            }
        }
        if weights.is_some_and(|weights| weights.len() != entries) {
            return Err(BlockFlaw::Weights);
        }
        Ok(view)
    }

    /// The same entries with other values.
    ///
    /// # Panics
    ///
    /// Where there are not as many values as entries.
    pub fn with_values(&self, values: Values<'a>) -> Self {
        assert_eq!(values.len(), self.entries, "a value for every entry");
        BlockView { values, ..*self }
    }

    /// The same entries with other weights, finite and not negative.
    ///
    /// # Panics
    ///
    /// Where there are not as many weights as entries.
    pub fn with_weights(&self, weights: Values<'a>) -> Self {
        assert_eq!(weights.len(), self.entries, "a weight for every entry");
        BlockView { weights: Some(weights), ..*self }
    }

    /// The number of modes.
    pub fn order(&self) -> usize {
        self.order
    }

    /// The number of entries.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// The first level with one node per entry.
    pub fn flat_from(&self) -> usize {
        self.flat_from
    }

    /// The ids of each level.
    pub fn ids(&self) -> &[Ids<'a>] {
        &self.ids[..self.order]
    }

    /// The ends of each level below [`flat_from`](Self::flat_from).
    pub fn ends(&self) -> &[&'a [u16]] {
        &self.ends[..self.flat_from]
    }

    /// The entries' values.
    pub fn values(&self) -> Values<'a> {
        self.values
    }

    /// The entries' weights, finite and not negative; none where every entry counts once.
    pub fn weights(&self) -> Option<Values<'a>> {
        self.weights
    }

    /// Calls `each(indices, value)` for every entry in order, the indices in level order.
    pub fn for_each(&self, mut each: impl FnMut(&[u32], f64)) {
        self.for_each_entry(|entry, indices| each(indices, self.values.get(entry)));
    }

    /// Calls `each(indices, value, weight)` for every entry in order.
    pub fn for_each_weighted(&self, mut each: impl FnMut(&[u32], f64, f64)) {
        self.for_each_entry(|entry, indices| each(indices, self.values.get(entry), self.weight(entry)));
    }

    /// The weight of entry `e`: 1 where entries have none.
    #[inline]
    pub fn weight(&self, e: usize) -> f64 {
        self.weights.map_or(1.0, |weights| weights.get(e))
    }

    /// The slices in order: the index of each, and its entries.
    pub fn slices(&self) -> impl Iterator<Item = (u32, Range<usize>)> {
        let mut from = 0;
        (0..self.ids[0].len()).map(move |node| {
            let entries = from..self.end(0, node);
            from = entries.end;
            (self.ids[0].get(node), entries)
        })
    }

    /// Where the entries of a node end.
    #[inline]
    fn end(&self, level: usize, node: usize) -> usize {
        let ends = &self.ends[level.min(self.flat_from)..self.flat_from];
        ends.iter().fold(node, |node, ends| usize::from(ends[node]) - 1) + 1
    }

    /// Appends the indices that some entries have on a level: a column at a time, where
    /// [`for_each`](Self::for_each) goes from level to level for every entry.
    pub fn append_indices(&self, level: usize, entries: Range<usize>, to: &mut Vec<u32>) {
        if level >= self.flat_from {
            match self.ids[level] {
                Ids::U16 { base, ids } => to.extend(ids[entries].iter().map(|&id| base + u32::from(id))),
                Ids::U32(ids) => to.extend_from_slice(&ids[entries]),
            }
            return;
        }
        // From the first entry up to the node that it is under.
        let ends = self.ends[level..self.flat_from].iter().rev();
        let above = |below, ends: &&[u16]| ends.partition_point(|&end| usize::from(end) <= below);
        let mut node = ends.fold(entries.start, above);
        let mut from = entries.start;
        while from < entries.end {
            let end = self.end(level, node).min(entries.end);
            to.extend(repeat_n(self.ids[level].get(node), end - from));
            (from, node) = (end, node + 1);
        }
    }

    /// Calls `each(entry, indices)` for every entry in order.
    fn for_each_entry(&self, mut each: impl FnMut(usize, &[u32])) {
        let mut indices = [0u32; MAX_ORDER];
        let mut node = [0usize; MAX_ORDER];
        for entry in 0..self.entries {
            // From the leaves up: a tree node is left behind when its last child has been.
            for level in (0..self.order).rev() {
                if level >= self.flat_from {
                    node[level] = entry;
                } else {
                    while usize::from(self.ends[level][node[level]]) <= node[level + 1] {
                        node[level] += 1;
                    }
                }
                indices[level] = self.ids[level].get(node[level]);
            }
            each(entry, &indices[..self.order]);
        }
    }
}

/// Whether ends ascend from above 0 to `nodes`. Without a branch per end: it is looked at in every pass,
/// and vectors make that a fiftieth of a nanosecond per entry.
fn ascend_to(ends: &[u16], nodes: usize) -> bool {
    let (Some(&first), Some(&last)) = (ends.first(), ends.last()) else { return false };
    let ascending = ends.iter().zip(&ends[1..]).fold(true, |ascending, (a, b)| ascending & (a < b));
    ascending && first > 0 && usize::from(last) == nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_slices_are_what_entries_have() {
        // Slices 0 and 3; nodes of level 1 with 1, 2, 1 and 2 children of level 2, which have two entries or one.
        let ends: [&[u16]; 3] = [&[2, 4], &[1, 3, 4, 6], &[2, 3, 5, 6, 8, 9]];
        let ids = [
            Ids::U16 { base: 0, ids: &[0, 3] },
            Ids::U16 { base: 10, ids: &[1, 2, 1, 5] },
            Ids::U32(&[7, 7, 8, 9, 4, 6]),
            Ids::U16 { base: 5, ids: &[0, 1, 2, 3, 4, 5, 6, 7, 8] },
        ];
        let codes = Values::Codes { table: &[0.5, 1.5], codes: &[0, 1, 0, 1, 1, 0, 0, 1, 0] };
        let flat = [
            ids[0],
            Ids::U32(&[11, 11, 12, 12, 12, 11, 15, 15, 15]),
            Ids::U32(&[7, 7, 7, 8, 8, 9, 4, 4, 6]),
            ids[3],
        ];
        let singles = Values::F32(&[0.5, 1.5, 0.5, 1.5, 1.5, 0.5, 0.5, 1.5, 0.5]);
        for block in [
            BlockView::new(&ids, &ends, codes, None).unwrap(),
            BlockView::new(&flat, &[&[5, 9]], singles, None).unwrap(),
        ] {
            let slices: Vec<_> = block.slices().collect();
            assert_eq!(slices, [(0, 0..5), (3, 5..9)]);
            let mut plain = Vec::new();
            block.for_each(|indices, value| plain.push((indices.to_vec(), value)));
            for (from, to) in [(0, 9), (0, 5), (5, 9), (1, 4), (2, 3), (4, 4)] {
                let mut values = vec![9.0];
                block.values().append(from..to, &mut values);
                assert_eq!(values[1..], plain[from..to].iter().map(|entry| entry.1).collect::<Vec<_>>());
                for level in 0..4 {
                    let mut indices = vec![99];
                    block.append_indices(level, from..to, &mut indices);
                    let plain: Vec<u32> = plain[from..to].iter().map(|entry| entry.0[level]).collect();
                    assert_eq!(indices[1..], plain, "{level} {from}");
                }
            }
        }
    }

    #[test]
    fn what_is_no_tree_is_no_block() {
        let ids = [Ids::U32(&[0, 1]), Ids::U32(&[0, 1, 0]), Ids::U32(&[4, 5, 6, 7])];
        let values = Values::F32(&[1.0, 2.0, 3.0, 4.0]);
        let new = |ids: &[Ids<'static>], ends: &[&'static [u16]]| BlockView::new(ids, ends, values, None);
        assert!(new(&ids, &[&[2, 3], &[1, 2, 4]]).is_ok());
        for ends in [[3, 2], [0, 3], [3, 3], [2, 4], [1, 2]] {
            let ends: &'static [u16] = Box::leak(Box::new(ends));
            assert_eq!(new(&ids, &[ends, &[1, 2, 4]]).unwrap_err(), BlockFlaw::Ends(0), "{ends:?}");
        }
        assert_eq!(new(&ids, &[&[2, 3], &[1, 3, 2]]).unwrap_err(), BlockFlaw::Ends(1));
        assert_eq!(new(&ids, &[&[3], &[1, 2, 4]]).unwrap_err(), BlockFlaw::Nodes(0));
        assert_eq!(new(&ids, &[&[2, 3]]).unwrap_err(), BlockFlaw::Nodes(1));
        assert_eq!(new(&ids, &[]).unwrap_err(), BlockFlaw::FlatFrom);
        assert_eq!(new(&ids, &[&[2, 3], &[1, 2, 4], &[1, 2, 3, 4]]).unwrap_err(), BlockFlaw::FlatFrom);
        assert_eq!(new(&ids[..1], &[&[2, 3]]).unwrap_err(), BlockFlaw::Order);
        let none = BlockView::new(&ids, &[&[2, 3], &[1, 2, 4]], Values::F64(&[]), None);
        assert_eq!(none.unwrap_err(), BlockFlaw::Entries);
        let weights = Some(Values::F64(&[1.0]));
        let short = BlockView::new(&ids, &[&[2, 3], &[1, 2, 4]], values, weights);
        assert_eq!(short.unwrap_err(), BlockFlaw::Weights);
    }
}
