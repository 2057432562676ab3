//! What kind of data a run has met, in a sentence.

use crate::manifold::dimension;
use crate::shard::Manifest;
use crate::units::count;
use serde::Serialize;
use std::fmt;

// What other values do: docs/thresholds.md.
/// What is left of the variance where data are low-rank as they are: on train entries, and on those held out.
const EXACT: [f64; 2] = [1e-6, 1e-4];
/// Entries held out are fitted worse than train entries where these leave less than this share of their error.
const WORSE: f64 = 0.8;
/// Entries per degree of freedom that do where components have a mean (`tenfill-bench instances`), and what does in any
/// case of three modes, as a multiple of the root of the number of cells (`tenfill-bench classes`, rank 5).
const PER_DIMENSION: f64 = 5.0;
const PER_ROOT: f64 = 4.0;
/// Fewer entries per degree of freedom tell nothing where none are held out.
const TELLING: f64 = 1.5;

/// What kind of data a run has met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
#[non_exhaustive]
pub enum DataKind {
    /// A tensor of the rank explains all entries.
    LowRank,
    /// It leaves something over, however many entries there are.
    Noisy {
        /// Whether biases and priors, or a penalty, were fitted for that.
        regularised: bool,
    },
    /// There are too few entries to tell.
    TooFew {
        /// How many would do.
        entries_needed: u64,
    },
}

/// What a run has found.
pub(super) struct Found {
    pub(super) train_mse: f64,
    pub(super) held_out: Option<f64>,
    pub(super) biases: bool,
    pub(super) learned: bool,
}

impl DataKind {
    /// By the errors of a model of at most these ranks.
    pub(super) fn of(manifest: &Manifest, ranks: &[usize], found: &Found) -> Self {
        let spread = manifest.spread_square();
        let (dimension, needed) = needed(manifest, ranks);
        // Few entries are met by any tensor of as many numbers.
        if found.held_out.is_none() && (manifest.train.entries as f64) < TELLING * dimension {
            return DataKind::TooFew { entries_needed: needed };
        }
        let exact = found.held_out.is_none_or(|mse| mse <= EXACT[1] * spread);
        if exact && found.train_mse <= EXACT[0] * spread {
            return DataKind::LowRank;
        }
        let worse = found.held_out.is_some_and(|mse| found.train_mse < WORSE * mse);
        if !found.biases && manifest.train.entries < needed && (worse || !found.learned) {
            return DataKind::TooFew { entries_needed: needed };
        }
        DataKind::Noisy { regularised: found.biases }
    }
}

/// The dimension of the tensors of these ranks, and how many entries would do for them.
fn needed(manifest: &Manifest, ranks: &[usize]) -> (f64, u64) {
    let dims = manifest.dims();
    let dimension = dimension(dims.iter().copied(), ranks);
    let cells: f64 = dims.iter().map(|&dim| f64::from(dim)).product();
    let root = if dims.len() == 3 { PER_ROOT * cells.sqrt() } else { 0.0 };
    (dimension, (PER_DIMENSION * dimension).max(root).ceil() as u64)
}

impl fmt::Display for DataKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataKind::LowRank => f.write_str("low-rank: a tensor of this rank explains all entries"),
            DataKind::Noisy { regularised: true } => {
                f.write_str("noisy: fitted with biases, and regularised")
            }
            DataKind::Noisy { regularised: false } => {
                f.write_str("noisy: fitted as they are, without biases or penalty")
            }
            DataKind::TooFew { entries_needed } => write!(
                f,
                "too few for this rank: fitted as far as they go; about {} entries would do, or a lower rank",
                count(*entries_needed)
            ),
        }
    }
}
