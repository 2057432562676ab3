//! A fit of one dataset as the beginning of one for another.

use super::level::Level;
use super::start;
use super::sweeps::{Data, Fit};
use crate::error::Result;
use crate::shard::Manifest;

/// Sweeps that count as done, so that the next is one over all data, with everything that is learned later on.
const SWEEPS: usize = 5;

/// Where the rows of a level come from: the row of the other fit, where it has one.
pub type Origins = Vec<Option<u32>>;

impl Fit {
    /// The fit with the rows of another dataset, by the origins of every mode, in the user's order. Rows that
    /// it has not met are what their prior says. Returns how many passes that took.
    pub fn onto(
        mut self,
        manifest: &Manifest,
        data: &Data<'_>,
        origins: &[Origins],
        range: Option<(f64, f64)>,
    ) -> Result<(Self, usize)> {
        let dims: Vec<usize> = manifest.level_dims().iter().map(|&dim| dim as usize).collect();
        let values = (manifest.values.min, manifest.values.max);
        let (counts, thresholds) = start::counts(data.train, &dims, data.slices.per_weight, values, range)?;
        let levels = self.posterior.levels.iter_mut().zip(&self.terms.mode_order).zip(counts);
        for ((level, &mode), counts) in levels {
            level.move_onto(&origins[mode], counts);
        }
        (self.terms.thresholds, self.terms.range) = (thresholds, range);
        self.posterior.sums = Vec::new();
        self.posterior.sweep = SWEEPS;
        Ok((self, 1))
    }
}

impl Level {
    fn move_onto(&mut self, origins: &Origins, counts: Vec<f64>) {
        let (k, d) = (self.width, self.features.width);
        let (old_means, old_variances) =
            (std::mem::take(&mut self.means), std::mem::take(&mut self.variances));
        let old_features = std::mem::take(&mut self.features.values);
        self.means = vec![0.0; counts.len() * k];
        self.variances = vec![0.0; counts.len() * k];
        self.features.values = vec![0.0; counts.len() * d];
        let mut f = vec![0.0; self.features.count()];
        for (row, (origin, &count)) in origins.iter().zip(&counts).enumerate() {
            let (means, variances) = (&mut self.means[row * k..][..k], &mut self.variances[row * k..][..k]);
            if count == 0.0 {
                continue;
            }
            match origin {
                Some(origin) => {
                    let at = *origin as usize;
                    means.copy_from_slice(&old_means[at * k..][..k]);
                    variances.copy_from_slice(&old_variances[at * k..][..k]);
                    self.features.values[row * d..][..d].copy_from_slice(&old_features[at * d..][..d]);
                }
                // Of whom it shares entries with nothing is known; how many they are is.
                None => {
                    self.features.of(row, count, &mut f);
                    self.prior.mean(&f, means);
                    let variance = |i: usize| self.prior.covariance[i * k + i] as f32;
                    variances.iter_mut().enumerate().for_each(|(i, to)| *to = variance(i));
                }
            }
        }
        (self.rows, self.counts) = (counts.len(), counts);
    }
}
