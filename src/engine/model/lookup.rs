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
    /// Integers that lie close to each other, in any order: the index of each number from `base` on, where there is one.
    Close {
        /// The least.
        base: i64,
        /// By number; `NONE` where it is no id.
        indices: Vec<u32>,
    },
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

/// No index: there are fewer ids than that.
const NONE: u32 = u32::MAX;

/// Whether a number for every id between the least and the largest takes no more room than the ids twice.
fn is_close(ids: &[i64]) -> bool {
    let (least, most) = ids.iter().fold((i64::MAX, i64::MIN), |(a, b), &id| (a.min(id), b.max(id)));
    !ids.is_empty() && i128::from(most) - i128::from(least) < 4 * ids.len() as i128
}

fn close(ids: &[i64]) -> ModeLookup {
    let base = ids.iter().copied().min().unwrap_or(0);
    let most = ids.iter().copied().max().unwrap_or(0);
    let mut indices = vec![NONE; (most - base) as usize + 1];
    for (&id, index) in ids.iter().zip(0..) {
        indices[(id - base) as usize] = index;
    }
    ModeLookup::Close { base, indices }
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
            (_, Some(Labels::Integers(labels))) if is_close(labels.values()) => close(labels.values()),
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
            ModeLookup::Close { base, indices } => {
                let at = id.checked_sub(*base).and_then(|at| usize::try_from(at).ok())?;
                indices.get(at).copied().filter(|&index| index != NONE)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_lie_close_are_found_as_others_are() {
        for ids in [vec![7, -3, 5, 0], vec![i64::MIN, i64::MIN + 2], vec![i64::MAX - 1, i64::MAX], vec![9]] {
            assert!(is_close(&ids));
            let found = close(&ids);
            for id in ids
                .iter()
                .flat_map(|&id| [id.saturating_sub(1), id, id.saturating_add(1), -id.saturating_add(1)])
            {
                let expected = ids.iter().position(|&other| other == id).map(|index| index as u32);
                assert_eq!(found.integer(id), expected, "{id} of {ids:?}");
            }
        }
        assert!(!is_close(&[]) && !is_close(&[0, 9]) && !is_close(&[i64::MIN, i64::MAX]));
    }
}
