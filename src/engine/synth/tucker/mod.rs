//! Instances of exact low Tucker rank, as in section 5 of the paper.

mod contract;
mod model;
mod spec;
#[cfg(test)]
mod tests;

pub use model::TuckerModel;
pub use spec::{Distribution, TuckerSpec, degrees_of_freedom, entries_from_oversampling};

use super::random::{Purpose, Random, derive_seed};
use super::stream::{BATCH_ENTRIES, in_order};
use super::{Batch, Permutation, SynthError};
use crate::shard::Split;

/// Generates the entries of a [`TuckerSpec`].
///
/// The t-th entry is the t-th cell of a pseudo-random order of all cells, so entries are distinct
/// without a record of those drawn before; train entries come first, then validation, then test.
#[derive(Clone, Debug)]
pub struct TuckerSynth {
    spec: TuckerSpec,
    model: TuckerModel,
    cells: Permutation,
}

impl TuckerSynth {
    /// Checks the spec and makes its model, [`TuckerSpec::memory_bytes`] large.
    pub fn new(spec: TuckerSpec) -> Result<Self, SynthError> {
        spec.validate()?;
        let cells = spec.cells().ok_or_else(|| SynthError::TooManyCells { dims: spec.dims.clone() })?;
        Ok(TuckerSynth {
            model: TuckerModel::new(&spec),
            cells: Permutation::new(cells, derive_seed(spec.seed, Purpose::Cells, 0)),
            spec,
        })
    }

    /// What was asked for.
    pub fn spec(&self) -> &TuckerSpec {
        &self.spec
    }

    /// The tensor that the entries are observations of.
    pub fn model(&self) -> &TuckerModel {
        &self.model
    }

    /// The variance of the noise on train and validation entries: no fit can have a lower expected
    /// error on entries it was not fitted to.
    pub fn noise_variance(&self) -> f64 {
        (self.spec.noise * self.model.rms()).powi(2)
    }

    /// Hands all entries to `take`, batch by batch, in the same order and with the same bits for
    /// any number of threads; the first error of `take` ends it.
    pub fn for_each_batch<E>(&self, take: impl FnMut(Batch) -> Result<(), E>) -> Result<(), E> {
        let total = self.spec.entries + self.spec.validation + self.spec.test;
        let batches = total.div_ceil(BATCH_ENTRIES as u64);
        in_order(
            0..batches,
            |number| {
                let first = number * BATCH_ENTRIES as u64;
                self.batch(number, first, (total - first).min(BATCH_ENTRIES as u64))
            },
            take,
        )
    }

    /// Entries `first..first + entries`.
    fn batch(&self, number: u64, first: u64, entries: u64) -> Batch {
        let order = self.spec.dims.len();
        let mut batch = Batch::with_capacity(order, entries as usize);
        let observed = self.spec.entries + self.spec.validation;
        for t in first..first + entries {
            self.push_cell(self.cells.at(t), &mut batch.indices);
            batch.splits.push(if t < self.spec.entries {
                Split::Train
            } else if t < observed {
                Split::Validation
            } else {
                Split::Test
            });
        }
        batch.values.resize(entries as usize, 0.0);
        self.model.values(&batch.indices, &mut batch.values);
        if self.spec.noise > 0.0 {
            let deviation = self.noise_variance().sqrt();
            let mut random = Random::new(self.spec.seed, Purpose::Noise, number);
            let noisy = observed.saturating_sub(first).min(entries) as usize;
            for value in &mut batch.values[..noisy] {
                *value += deviation * random.normal();
            }
        }
        if self.spec.single {
            for value in &mut batch.values {
                *value = *value as f32 as f64;
            }
        }
        batch
    }

    /// The coordinates of a cell, the last mode counting fastest.
    fn push_cell(&self, cell: u128, indices: &mut Vec<u32>) {
        let start = indices.len();
        indices.resize(start + self.spec.dims.len(), 0);
        let places = indices[start..].iter_mut().zip(&self.spec.dims).rev();
        // Divisions of 128 bits are slow, and few tensors need them.
        match u64::try_from(cell) {
            Ok(mut rest) => {
                for (index, &n) in places {
                    *index = (rest % n as u64) as u32;
                    rest /= n as u64;
                }
            }
            Err(_) => {
                let mut rest = cell;
                for (index, &n) in places {
                    *index = (rest % n as u128) as u32;
                    rest /= n as u128;
                }
            }
        }
    }
}
