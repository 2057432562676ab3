//! What the generators hand out.

use crate::shard::Split;

/// Some entries of a tensor, in columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The number of modes.
    pub order: usize,
    /// 0-based indices, entry after entry: `order` of them for each entry.
    pub indices: Vec<u32>,
    /// One value for each entry.
    pub values: Vec<f64>,
    /// One split for each entry: a batch may mix splits.
    pub splits: Vec<Split>,
}

impl Batch {
    /// An empty batch with room for `capacity` entries.
    pub(super) fn with_capacity(order: usize, capacity: usize) -> Self {
        Batch {
            order,
            indices: Vec::with_capacity(order * capacity),
            values: Vec::with_capacity(capacity),
            splits: Vec::with_capacity(capacity),
        }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The entries one by one: indices, value, split.
    pub fn entries(&self) -> impl Iterator<Item = (&[u32], f64, Split)> {
        self.indices
            .chunks_exact(self.order)
            .zip(&self.values)
            .zip(&self.splits)
            .map(|((index, &value), &split)| (index, value, split))
    }
}
