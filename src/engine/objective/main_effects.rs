//! How much of the values' variance the rows explain by themselves, as a few blocks tell.

use crate::error::Result;
use crate::shard::Manifest;
use crate::stream::Stream;
use crate::team::Combine;

/// Blocks of the sample.
const BLOCKS: usize = 16;
/// Values are whole numbers of this share of the standard deviation, shifted and cut to be between 0 and twice the range:
/// sums of whole numbers do not depend on which process has which block.
const UNIT: f64 = 1.0 / (1 << 20) as f64;
const RANGE: f64 = 1024.0;

/// The share of the variance that a number per row explains, added up over modes; infinite where the sample has too few entries
/// per row to tell.
///
/// By a one-way analysis of variance of each mode: with s_i the sum of the n_i values z of row i, of k rows and m entries,
/// S_b = sum of s_i^2 / n_i, sigma^2 = (sum of z^2 - S_b) / (m - k), tau^2 = (S_b - k sigma^2) / m.
pub fn main_effects(manifest: &Manifest, train: &Stream) -> Result<f64> {
    let (mean, spread) = (manifest.mean(), manifest.variance().sqrt());
    if spread <= 0.0 || !spread.is_finite() {
        return Ok(f64::INFINITY);
    }
    let dims = manifest.level_dims();
    let mut sums: Vec<Vec<u64>> = dims.iter().map(|&dim| vec![0; dim as usize]).collect();
    let mut counts = sums.clone();
    let mut squares = 0;
    let read = train.for_each_sampled(BLOCKS, |_, block| {
        block.for_each(|ids, value| {
            let z = ((value - mean) / spread).clamp(-RANGE, RANGE);
            squares += (z * z / UNIT) as u64;
            for ((sums, counts), &id) in sums.iter_mut().zip(&mut counts).zip(ids) {
                sums[id as usize] += ((z + RANGE) / UNIT) as u64;
                counts[id as usize] += 1;
            }
        });
        Ok(())
    });
    let team = train.team();
    team.agree(read)?;
    let mut words = [squares];
    team.combine(&mut words, Combine::Sum);
    let squares = words[0] as f64 * UNIT;
    let mut explained = 0.0;
    for (sums, counts) in sums.iter_mut().zip(&mut counts) {
        team.combine(sums, Combine::Sum);
        team.combine(counts, Combine::Sum);
        let (mut between, mut rows, mut entries) = (0.0, 0.0, 0.0);
        for (&sum, &n) in sums.iter().zip(counts.iter()).filter(|(_, n)| **n > 0) {
            let n = n as f64;
            let sum = sum as f64 * UNIT - n * RANGE;
            between += sum * sum / n;
            rows += 1.0;
            entries += n;
        }
        if entries < 1.5 * rows {
            return Ok(f64::INFINITY);
        }
        let noise = (squares - between) / (entries - rows);
        explained += ((between - rows * noise) / squares).max(0.0);
    }
    Ok(explained)
}
