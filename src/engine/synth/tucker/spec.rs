//! What a low-rank instance is asked to be, and what it cannot be.

use crate::synth::{Permutation, SynthError};
use crate::{MAX_ORDER, MIN_ORDER};

/// The most values a core may have (2 GiB).
const MAX_CORE: u128 = 1 << 28;

/// How the entries of factors and core are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Uniform in [0, 1), as in the paper's instances: a large mean component and smaller others.
    Uniform,
    /// Standard normal: all directions alike.
    Gaussian,
}

/// A tensor of low Tucker rank and the entries of it that are observed.
///
/// Start from [`TuckerSpec::new`] and change fields; [`TuckerSynth::new`](super::TuckerSynth::new)
/// checks them.
#[derive(Clone, Debug, PartialEq)]
pub struct TuckerSpec {
    /// n_d, the dimension of each mode.
    pub dims: Vec<u32>,
    /// r_d, the rank of each mode.
    pub rank: Vec<usize>,
    /// The number of train entries.
    pub entries: u64,
    /// The number of validation entries.
    pub validation: u64,
    /// The number of test entries.
    pub test: u64,
    /// The distribution that factors and core are drawn from.
    pub factors: Distribution,
    /// With `Some(CN)`, a diagonal core whose values decay exponentially from CN to 1 takes the
    /// place of the random one (case S5 of the paper); the factors are orthonormal, and nothing
    /// else scales the tensor.
    pub condition: Option<f64>,
    /// The standard deviation of the Gaussian noise on train and validation entries, relative to
    /// the root mean square of all cells of the tensor (case S6). Test entries are exact: the
    /// noise is that of the observations, and the test asks for the tensor behind them.
    pub noise: f64,
    /// Instances of different seeds are unrelated.
    pub seed: u64,
    /// Whether values are rounded to single precision, to be stored in four bytes.
    pub single: bool,
}

impl TuckerSpec {
    /// `entries` exact train entries of a tensor of these dimensions and ranks, from uniform
    /// factors, seed 1, no validation or test entries, in double precision.
    pub fn new(dims: &[u32], rank: &[usize], entries: u64) -> Self {
        TuckerSpec {
            dims: dims.to_vec(),
            rank: rank.to_vec(),
            entries,
            validation: 0,
            test: 0,
            factors: Distribution::Uniform,
            condition: None,
            noise: 0.0,
            seed: 1,
            single: false,
        }
    }

    /// Whether such an instance exists; the error says what to change.
    pub fn validate(&self) -> Result<(), SynthError> {
        validate_shape(&self.dims, &self.rank)?;
        if let Some(condition) = self.condition {
            let rank = self.rank[0];
            if self.rank.iter().any(|&r| r != rank) {
                return Err(SynthError::ConditionRanks { rank: self.rank.clone() });
            }
            let possible = condition.is_finite() && condition >= 1.0;
            if !possible || (rank == 1 && condition != 1.0) {
                return Err(SynthError::Condition { condition, rank });
            }
        }
        if !(self.noise.is_finite() && self.noise >= 0.0) {
            return Err(SynthError::Noise { noise: self.noise });
        }
        if self.entries == 0 {
            return Err(SynthError::NoEntries);
        }
        let asked = self.entries as u128 + self.validation as u128 + self.test as u128;
        let cells = self.cells().ok_or_else(|| SynthError::TooManyCells { dims: self.dims.clone() })?;
        // Places in the order of the cells are 64-bit numbers, which no run comes near.
        let limit = cells.min(u64::MAX as u128);
        if asked > limit {
            return Err(SynthError::TooManyEntries { asked, cells: limit });
        }
        Ok(())
    }

    /// The product of the dimensions, if cells can be numbered.
    pub(super) fn cells(&self) -> Option<u128> {
        self.dims
            .iter()
            .try_fold(1_u128, |product, &n| product.checked_mul(n as u128))
            .filter(|&cells| cells <= Permutation::MAX_LEN)
    }

    /// The bytes that the generating model takes: factors and core in double precision. Batches in
    /// flight come on top, a few MiB for each thread.
    pub fn memory_bytes(&self) -> u64 {
        let factors: u128 = self.dims.iter().zip(&self.rank).map(|(&n, &r)| n as u128 * r as u128).sum();
        let values = factors.saturating_add(core_values(&self.rank));
        u64::try_from(values.saturating_mul(8)).unwrap_or(u64::MAX)
    }
}

fn core_values(rank: &[usize]) -> u128 {
    rank.iter().fold(1_u128, |product, &r| product.saturating_mul(r as u128))
}

fn validate_shape(dims: &[u32], rank: &[usize]) -> Result<(), SynthError> {
    let order = dims.len();
    if !(MIN_ORDER..=MAX_ORDER).contains(&order) {
        return Err(SynthError::Order { order });
    }
    if rank.len() != order {
        return Err(SynthError::RankCount { dims: order, ranks: rank.len() });
    }
    if let Some(mode) = dims.iter().position(|&n| n == 0) {
        return Err(SynthError::ZeroDimension { mode: mode + 1 });
    }
    if let Some(mode) = rank.iter().position(|&r| r == 0) {
        return Err(SynthError::ZeroRank { mode: mode + 1 });
    }
    let values = core_values(rank);
    for (d, (&dim, &rank)) in dims.iter().zip(rank).enumerate() {
        let mode = d + 1;
        if rank as u128 > dim as u128 {
            return Err(SynthError::RankAboveDimension { mode, rank, dim });
        }
        let product = values / rank as u128;
        if rank as u128 > product {
            return Err(SynthError::RankAboveOthers { mode, rank, product });
        }
    }
    if values > MAX_CORE {
        return Err(SynthError::CoreTooLarge { rank: rank.to_vec(), values, limit: MAX_CORE });
    }
    Ok(())
}

/// The dimension of the manifold of tensors of this rank: sum(n_d r_d - r_d^2) + r_1 ... r_D.
///
/// ```
/// use tenfill_engine::synth::degrees_of_freedom;
///
/// assert_eq!(degrees_of_freedom(&[10000, 10000, 10000], &[5, 5, 5]), Ok(150_050));
/// ```
pub fn degrees_of_freedom(dims: &[u32], rank: &[usize]) -> Result<u64, SynthError> {
    validate_shape(dims, rank)?;
    // Ranks are at most their dimensions and the core is bounded, so 64 bits hold all of this.
    let factors: u64 = dims.iter().zip(rank).map(|(&n, &r)| (n as u64 - r as u64) * r as u64).sum();
    Ok(factors + core_values(rank) as u64)
}

/// The number of train entries at an oversampling ratio: OS times the degrees of freedom, rounded
/// to whole entries and at least one.
pub fn entries_from_oversampling(oversampling: f64, dims: &[u32], rank: &[usize]) -> Result<u64, SynthError> {
    let dof = degrees_of_freedom(dims, rank)?;
    let entries = (oversampling * dof as f64).round();
    if !(oversampling > 0.0 && entries < u64::MAX as f64) {
        return Err(SynthError::Oversampling { oversampling, dof });
    }
    Ok((entries as u64).max(1))
}
