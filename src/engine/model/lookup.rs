//! From an id, as a user writes it, to an index.

use crate::ingest::number::parse_integer;
use crate::shard::{Bins, Labels, ModeKind};
use std::collections::HashMap;

/// The ids of one mode.
#[derive(Debug)]
pub enum ModeLookup {
    /// Numbers from `base` on.
    Range {
        /// The number of index 0.
        base: i64,
        /// How many there are.
        dim: u32,
    },
    /// Sorted integers.
    Integers(Labels),
    /// Integers in any order: a model that ids were folded into has the new ones at the end.
    Unsorted(HashMap<i64, u32>),
    /// Text.
    Text(HashMap<String, u32>),
    /// Intervals.
    Bins {
        /// Their origin and width.
        bins: Bins,
        /// How many there are.
        dim: u32,
    },
}

impl ModeLookup {
    /// For a mode and its labels.
    pub fn new(kind: &ModeKind, dim: u32, labels: Option<Labels>) -> Self {
        match (kind, labels) {
            (ModeKind::Bins(bins), _) => ModeLookup::Bins { bins: bins.clone(), dim },
            (ModeKind::Range { base }, _) => ModeLookup::Range { base: *base, dim },
            (_, Some(Labels::Text(text))) => ModeLookup::Text(
                text.iter().flatten().zip(0..).map(|(label, index)| (label.to_string(), index)).collect(),
            ),
            (_, Some(Labels::Integers(labels))) if !labels.values().is_sorted() => {
                ModeLookup::Unsorted(labels.values().iter().copied().zip(0..).collect())
            }
            (_, Some(labels)) => ModeLookup::Integers(labels),
            (_, None) => ModeLookup::Text(HashMap::new()),
        }
    }

    /// The index of a canonical integer.
    pub fn integer(&self, id: i64) -> Option<u32> {
        match self {
            ModeLookup::Range { base, dim } => {
                id.checked_sub(*base).and_then(|index| u32::try_from(index).ok()).filter(|index| index < dim)
            }
            ModeLookup::Integers(Labels::Integers(labels)) => {
                labels.values().binary_search(&id).ok().map(|index| index as u32)
            }
            ModeLookup::Unsorted(map) => map.get(&id).copied(),
            ModeLookup::Text(map) => map.get(&id.to_string()).copied(),
            _ => None,
        }
    }

    /// The index of an id as it stands in a file.
    pub fn text(&self, id: &str) -> Option<u32> {
        match (self, parse_integer(id.as_bytes())) {
            (_, Some(id)) => self.integer(id),
            (ModeLookup::Text(map), None) => map.get(id).copied(),
            _ => None,
        }
    }

    /// The bin of a number (a time in seconds), and whether it lies within the bins; outside, the
    /// nearest bin.
    pub fn number(&self, x: f64) -> Option<(u32, bool)> {
        let ModeLookup::Bins { bins, dim } = self else { return None };
        let bin = ((x - bins.origin) / bins.width).floor();
        let inside = bin >= 0.0 && bin < f64::from(*dim);
        Some((bin.clamp(0.0, f64::from(dim - 1)) as u32, inside))
    }
}
