//! Whether a fit is as sure as it may be: what validation entries say of the noise, and of how often a value lies far
//! off.
//!
//! An entry is expected to be normal about what the model says. Where the noise is not the same for all entries, more
//! of them are near to it than the variance says, and more are far off: a Student distribution of few degrees of
//! freedom. Its degrees and its variance are those that make the distances of the validation entries most likely.

use super::offsets::offset;
use super::shape::{EntryRows, EntryVariances};
use super::sweeps::Fit;
use crate::MAX_ORDER;
use crate::error::Result;
use crate::model::{Predictive, Tails, Uncertainty};
use crate::reduce::{own_lanes, sum_in_order};
use crate::stream::Stream;

// What other values do: docs/thresholds.md.
/// Distances are counted in bins of this many standard deviations, and above the last one together.
const BIN: f64 = 0.15;
const BINS: usize = 24;
/// More validation entries say no more.
const MOST: u64 = 1 << 17;
/// Fewer say nothing.
const FEWEST: f64 = 30.0;
/// How far the standard deviation may be wrong before anything is known, as a share of it.
const DOUBT: f64 = 0.1;
/// By how much the logarithm of the likelihood must rise for tails that are not normal.
const WORTH: f64 = 3.0;
/// Degrees of freedom that are tried.
const DEGREES: [u32; 9] = [4, 5, 6, 8, 10, 14, 20, 30, 60];
/// The variance of the noise is lowered to this share at most.
const LEAST: f64 = 0.25;

impl Fit {
    /// Lets validation entries, or a share of them, say what the noise of entries is that were not fitted to.
    pub fn calibrate(&self, validation: &Stream, uncertainty: &mut Uncertainty) -> Result<()> {
        let (posterior, terms) = (&self.posterior, &self.terms);
        let stride = validation.entries().div_ceil(MOST).max(1);
        let (unit, ends) = (terms.spread * terms.spread, self.model_ends());
        let lanes = own_lanes(validation, |lane| {
            // Entries per bin, all, and the sum of their variances.
            let (mut found, mut number) = (vec![0.0; BINS + 2], 0u64);
            validation.for_each(lane, |block| {
                block.for_each_weighted(|indices, value, weight| {
                    number += 1;
                    if !number.is_multiple_of(stride) || weight <= 0.0 {
                        return;
                    }
                    let (mut rows, mut variances): (EntryRows<'_>, EntryVariances<'_>) =
                        ([&[]; MAX_ORDER], [&[]; MAX_ORDER]);
                    for (number, (level, &index)) in posterior.levels.iter().zip(indices).enumerate() {
                        if level.counts[index as usize] <= 0.0 {
                            return;
                        }
                        rows[number] = level.mean(index as usize);
                        variances[number] = level.variance(index as usize);
                    }
                    let (offset, _) = offset(&posterior.tables, indices, posterior.noise);
                    let mean = terms.mean + terms.spread * (posterior.shape.value(&rows) + offset);
                    let unsure = posterior.shape.value_variance(&rows, &variances);
                    let variance = unit * (unsure + posterior.noise);
                    let predictive = Predictive::new(mean, variance, terms.range, ends, Tails::Normal);
                    let cell = predictive.below(value);
                    let mut before = 0.0;
                    for (bin, to) in found[..BINS].iter_mut().enumerate() {
                        let covered = Predictive::covered(cell, within(bin, Tails::Normal, 1.0));
                        *to += covered - before;
                        before = covered;
                    }
                    found[BINS] += 1.0;
                    found[BINS + 1] += unsure + posterior.noise;
                });
                Ok(())
            })?;
            Ok(found)
        })?;
        let mut total = vec![0.0; BINS + 2];
        sum_in_order(validation.team(), &mut total, lanes.iter().map(|lane| (0, lane.as_slice())));
        let entries = total[BINS];
        if entries >= FEWEST {
            let (tails, scale) = most_likely(&total[..BINS], entries);
            uncertainty.tails = tails;
            let mean = total[BINS + 1] / entries;
            let noise = posterior.noise;
            uncertainty.held_out_noise = (noise + (scale * scale - 1.0) * mean).max(LEAST * noise);
        }
        Ok(())
    }
}

/// The probability of a distance up to the end of a bin, the standard deviation being `scale` times as large.
fn within(bin: usize, tails: Tails, scale: f64) -> f64 {
    tails.within(BIN * (bin + 1) as f64 / scale)
}

/// The tails, and the standard deviation, that make the distances most likely.
fn most_likely(bins: &[f64], entries: f64) -> (Tails, f64) {
    let above = (entries - bins.iter().sum::<f64>()).max(0.0);
    let likelihood = |tails: Tails, log_scale: f64| {
        let (scale, mut before) = (log_scale.exp(), 0.0);
        let mut sum = -0.5 * (log_scale / DOUBT).powi(2);
        for (bin, count) in bins.iter().enumerate() {
            let now = within(bin, tails, scale);
            sum += count * (now - before).max(1e-12).ln();
            before = now;
        }
        sum + above * (1.0 - before).max(1e-12).ln()
    };
    let best_scale = |tails: Tails| {
        let tried = (-60..=60).map(|n| 0.01 * f64::from(n));
        let found = tried.map(|log_scale| (likelihood(tails, log_scale), log_scale));
        found.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, 0.0))
    };
    let (plain, mut scale) = best_scale(Tails::Normal);
    let (mut tails, mut most) = (Tails::Normal, plain + WORTH);
    for degrees in DEGREES.map(Tails::Student) {
        let (likelihood, log_scale) = best_scale(degrees);
        if likelihood > most {
            (tails, most, scale) = (degrees, likelihood, log_scale);
        }
    }
    (tails, scale.exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What so many entries of a distribution would be counted as.
    fn counted(tails: Tails, scale: f64, entries: f64) -> Vec<f64> {
        let mut before = 0.0;
        let each = |bin: usize| {
            let now = within(bin, tails, scale);
            let share = now - before;
            before = now;
            entries * share
        };
        (0..BINS).map(each).collect()
    }

    #[test]
    fn the_distribution_that_made_the_distances_is_found() {
        for (tails, scale) in [(Tails::Normal, 1.0), (Tails::Normal, 1.2), (Tails::Student(6), 0.9)] {
            let (found, size) = most_likely(&counted(tails, scale, 1e4), 1e4);
            assert_eq!(found, tails);
            assert!((size - scale).abs() < 0.011, "{scale} was found as {size}");
        }
        // Few entries say little of the scale, and nothing of tails.
        let (found, size) = most_likely(&counted(Tails::Student(6), 1.5, 40.0), 40.0);
        assert!(found == Tails::Normal && (1.0..1.45).contains(&size), "{found:?} {size}");
    }
}
