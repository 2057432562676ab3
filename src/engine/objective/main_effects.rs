//! How much of the values' variance the rows explain by themselves, as a few blocks tell.

use crate::error::Result;
use crate::shard::Manifest;
use crate::stream::Stream;
use crate::team::Combine;

/// Blocks of the sample: at most 2^20 entries.
const BLOCKS: usize = 16;
/// Entries per row below which a sample does not tell.
const FEWEST_PER_ROW: f64 = 1.5;
/// Values, in standard deviations, and weights, of the largest one, are whole numbers of this unit, values cut to a range and
/// shifted to be above 0: sums of whole numbers do not depend on which process has which block. These stay below 2^63.
const UNIT: f64 = 1.0 / (1 << 16) as f64;
const RANGE: f64 = 32.0;

/// The share of the variance that a number per row explains, of each level; none where the sample has too few entries per row to
/// tell.
///
/// By a one-way analysis of variance of each mode: with W_i and s_i the sums of w and w z of the values z in row i, about the mean
/// of all, of k rows and m entries, S_b = sum of s_i^2 / W_i, sigma^2 = (sum of w z^2 - S_b) / (m - k), the share is
/// (S_b - (k - 1) sigma^2) / sum of w z^2: the mean takes one of the k rows.
pub fn main_effects(manifest: &Manifest, train: &Stream) -> Result<Option<Vec<f64>>> {
    let (mean, spread) = (manifest.mean(), manifest.variance().sqrt());
    let largest = manifest.weights.as_ref().map_or(1.0, |weights| weights.train.max * train.weight_scale());
    if !(spread > 0.0 && spread.is_finite() && largest > 0.0) {
        return Ok(None);
    }
    let dims = manifest.level_dims();
    let mut sums: Vec<Vec<u64>> = dims.iter().map(|&dim| vec![0; dim as usize]).collect();
    let mut weights = sums.clone();
    // Entries, and the sum of w z^2.
    let mut words = [0, 0];
    let read = train.for_each_sampled(BLOCKS, |_, block| {
        block.for_each_weighted(|ids, value, weight| {
            let w = (weight / largest / UNIT) as u64;
            if w == 0 {
                return;
            }
            let z = ((value - mean) / spread).clamp(-RANGE, RANGE);
            words = [words[0] + 1, words[1] + w * (z * z / UNIT) as u64];
            for ((sums, weights), &id) in sums.iter_mut().zip(&mut weights).zip(ids) {
                sums[id as usize] += w * ((z + RANGE) / UNIT) as u64;
                weights[id as usize] += w;
            }
        });
        Ok(())
    });
    let team = train.team();
    team.agree(read)?;
    team.combine(&mut words, Combine::Sum);
    let (entries, all_squares) = (words[0] as f64, words[1] as f64 * UNIT);
    let mut shares = Vec::new();
    for (sums, weights) in sums.iter_mut().zip(&mut weights) {
        team.combine(sums, Combine::Sum);
        team.combine(weights, Combine::Sum);
        let used = || sums.iter().zip(weights.iter()).filter(|(_, w)| **w > 0);
        let sum_of = |&sum: &u64, w: f64| sum as f64 * UNIT - w * RANGE;
        let (mut total, mut weight, mut rows) = (0.0, 0.0, 0.0);
        for (sum, &w) in used() {
            let w = w as f64;
            (total, weight, rows) = (total + sum_of(sum, w), weight + w, rows + 1.0);
        }
        // The sample's own mean is none of the rows'.
        let mean = total / weight;
        let squares = all_squares - total * mean;
        if entries < FEWEST_PER_ROW * rows || squares.is_nan() || squares <= 0.0 {
            return Ok(None);
        }
        let between: f64 =
            used().map(|(sum, &w)| (sum_of(sum, w as f64) / w as f64 - mean).powi(2) * w as f64).sum();
        let noise = (squares - between) / (entries - rows);
        shares.push(((between - (rows - 1.0) * noise) / squares).max(0.0));
    }
    Ok(Some(shares))
}
