//! A fit of one dataset as the beginning of one for another.

use super::level::Level;
use super::look;
use super::row::start;
use super::sweeps::{Data, Fit};
use crate::error::Result;
use crate::rows::Square;
use crate::shard::Manifest;

// What other values do: docs/thresholds.md.
/// Sweeps that count as done, so that the next is one over all data, with everything that is learned later on.
const SWEEPS: usize = 5;

/// The covariance of the prior of rows is so many times as large to begin with. What a fit has learned of it at its end is often
/// less than is best, and comes back from there by small steps only; from above it is found in a few sweeps. (1, 2, 4, 8 and 16
/// were tried on synthetic ratings of seeds 1 to 6, ten thousand each: with 1, three of six ended higher on validation than a start from nothing;
/// from 4 on all are within 0.08 % of it, and from 8 on more is fitted than validation asks for.)
const LOOSER: f64 = 4.0;

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
        let (counts, thresholds) = look::counts(data.train, &dims, data.slices.per_weight, values, range)?;
        let tables = std::mem::take(&mut self.posterior.tables);
        let levels = self.posterior.levels.iter_mut().zip(&self.terms.mode_order).zip(counts);
        for (number, ((level, &mode), counts)) in levels.enumerate() {
            level.move_onto(&origins[mode], counts, number > 0);
            level.prior.loosen(LOOSER);
        }
        (self.terms.thresholds, self.terms.range) = (thresholds, range);
        (self.posterior.sums, self.posterior.inside) = (Vec::new(), None);
        self.posterior.sweep = SWEEPS;
        let of_level = |level: usize| origins[self.terms.mode_order[level]].as_slice();
        let pairs = tables.iter().filter_map(|table| table.onto(&of_level)).collect();
        let mut passes = 1;
        passes += self.take_tables(data, pairs)?;
        if let Some(levels) = self.terms.time {
            passes += self.add_time(data, levels)?;
        }
        Ok((self, passes))
    }
}

impl Level {
    /// Whether covariances are whole follows from the new rows and their entries, as at any start; `may_be_whole` is
    /// false for the first level, whose covariances are not kept.
    fn move_onto(&mut self, origins: &Origins, counts: Vec<f64>, may_be_whole: bool) {
        let (k, d) = (self.width, self.features.width);
        let old = Level {
            rows: self.rows,
            width: k,
            means: std::mem::take(&mut self.means),
            variances: std::mem::take(&mut self.variances),
            covariances: std::mem::take(&mut self.covariances),
            counts: std::mem::take(&mut self.counts),
            features: self.features.clone(),
            prior: self.prior.clone(),
        };
        (self.rows, self.counts) = (counts.len(), counts);
        self.means = vec![0.0; self.rows * k];
        self.variances = vec![0.0; self.rows * k];
        self.features.values = vec![0.0; self.rows * d];
        if may_be_whole {
            self.set_covariances();
        }
        let wide = self.covariance_width();
        let prior = Square::from_fn(k, |i, j| old.prior.covariance[i * k + j]);
        let mut f = vec![0.0; self.features.count()];
        for (row, origin) in origins.iter().enumerate().filter(|(row, _)| self.counts[*row] > 0.0) {
            let means = &mut self.means[row * k..][..k];
            let covariance = match origin {
                Some(origin) => {
                    let at = *origin as usize;
                    means.copy_from_slice(old.mean(at));
                    let features = &old.features.values[at * d..][..d];
                    self.features.values[row * d..][..d].copy_from_slice(features);
                    &old.covariance(at)
                }
                // Of whom it shares entries with nothing is known; how many they are is.
                None => {
                    self.features.of(row, self.counts[row], &mut f);
                    self.prior.mean(&f, means);
                    &prior
                }
            };
            let variances = self.variances[row * k..][..k].iter_mut().enumerate();
            variances.for_each(|(i, to)| *to = covariance[(i, i)] as f32);
            if !self.covariances.is_empty() {
                let to = &mut self.covariances[row * wide..][..wide];
                (0..k).for_each(|i| (0..=i).for_each(|j| to[start(i) + j] = covariance[(i, j)] as f32));
            }
        }
    }
}
