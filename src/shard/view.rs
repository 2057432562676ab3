//! A decoded block as the kernels see it: borrowed columns, no copies.

use crate::MAX_ORDER;

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

/// At most 65,535 entries, sorted in the dataset's mode order, as a tree of levels.
///
/// Level `l` belongs to the `l`-th mode of the mode order. Level 0 has a node per slice, the next
/// one per distinct pair, and so on. For `l < flat_from` the children of node `n` are the nodes
/// `ends[l][n - 1] .. ends[l][n]` (from 0 for `n = 0`) of level `l + 1`. From `flat_from` on there
/// is one node per entry, whether or not neighbours share an id: that is smaller and faster where
/// a level's nodes hold hardly more than one entry each. `1 <= flat_from <= order - 1`, so the
/// first level is always a tree and the last always flat.
///
/// Every id is below the dimension of its mode and every end is in range: the reader checks that
/// before it hands out a view.
#[derive(Debug, Clone, Copy)]
pub struct BlockView<'a> {
    /// The number of modes.
    pub order: usize,
    /// The number of entries.
    pub entries: usize,
    /// The first level with one node per entry.
    pub flat_from: usize,
    /// The ids of each level; those past the order are empty.
    pub ids: [Ids<'a>; MAX_ORDER],
    /// The children of the nodes of each level below `flat_from`; empty for the others.
    pub ends: [&'a [u16]; MAX_ORDER],
    /// The entries' values.
    pub values: Values<'a>,
    /// The entries' weights, finite and not negative; none where every entry counts once.
    pub weights: Option<Values<'a>>,
}

impl BlockView<'_> {
    /// Calls `each(indices, value)` for every entry in order, the indices in level order.
    ///
    /// ```
    /// use tenfill::shard::{BlockView, Ids, Values};
    ///
    /// let empty = Ids::U32(&[]);
    /// let mut ids = [empty; 8];
    /// ids[0] = Ids::U16 { base: 100, ids: &[0, 3] }; // two slices, 100 and 103
    /// ids[1] = Ids::U32(&[7, 9, 7]);
    /// let mut ends: [&[u16]; 8] = [&[]; 8];
    /// ends[0] = &[2, 3]; // slice 100 has the entries 0 and 1, slice 103 the entry 2
    /// let block = BlockView {
    ///     order: 2, entries: 3, flat_from: 1, ids, ends, values: Values::F64(&[1.0, 2.0, 3.0]),
    ///     weights: None,
    /// };
    /// let mut seen = vec![];
    /// block.for_each(|i, value| seen.push((i[0], i[1], value)));
    /// assert_eq!(seen, [(100, 7, 1.0), (100, 9, 2.0), (103, 7, 3.0)]);
    /// ```
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
