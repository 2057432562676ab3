//! What the generators hand out.

/// The set of entries that an entry belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// Entries that a model is fitted to.
    Train,
    /// Entries that rank, penalty and stopping are chosen by.
    Validation,
    /// Entries that a model is judged by.
    Test,
}

/// Some entries of a tensor, in columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The number of modes.
    pub order: usize,
    /// 0-based indices, entry after entry: `order` of them for each entry.
    pub indices: Vec<u32>,
    /// One value for each entry.
    pub values: Vec<f64>,
    /// One part for each entry: a batch may mix parts.
    pub parts: Vec<Part>,
}

impl Batch {
    /// An empty batch with room for `capacity` entries.
    pub(super) fn with_capacity(order: usize, capacity: usize) -> Self {
        Batch {
            order,
            indices: Vec::with_capacity(order * capacity),
            values: Vec::with_capacity(capacity),
            parts: Vec::with_capacity(capacity),
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

    /// The entries one by one: indices, value, part.
    pub fn entries(&self) -> impl Iterator<Item = (&[u32], f64, Part)> {
        self.indices
            .chunks_exact(self.order)
            .zip(&self.values)
            .zip(&self.parts)
            .map(|((index, &value), &part)| (index, value, part))
    }
}
