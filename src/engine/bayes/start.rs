//! What is found out before the first sweep: features of who has which entries, and first rows.

use super::both_ways::{ROW_DAMPING, both_ways};
use super::level::{Level, Prior};
use super::look::Look;
use super::row::axpy;
use super::shape::Shape;
use super::slices::Slices;
use super::weighted::{divided, orthonormal, standardised};
use crate::error::{Error, Result};
use crate::manifold::Distribution;
use crate::model::RowFeatures;
use crate::stream::Stream;
use rand::SeedableRng;
use rand_pcg::Pcg64;

// What other values do: docs/thresholds.md.
/// Rounds of the power iterations that features and first rows are found by.
const ROUNDS: usize = 3;
/// The size of the first rows of the second mode.
const FIRST_ROWS: f64 = 0.1;

/// Variances of rows and of biases before anything is known, values having the variance 1: of the two
/// modes of the first pair, and the biases of the others.
const FIRST_PRIOR: (f64, f64) = (1.0, 0.2);
const SECOND_PRIOR: (f64, f64) = (0.01, 0.3);
const OTHER_PRIOR: f64 = 0.1;

/// First levels, and how many passes they took beside the look.
///
/// Who has the same entries is found by a few steps of a power iteration: means of random numbers of one mode over
/// the rows of the other, and means of those back again. Likewise, with residuals of the biases as weights, first
/// rows: without these a component that explains much may be taken for noise and never be found.
pub(super) fn levels(
    (stream, slices): (&Stream, &Slices),
    look: Look,
    shape: &Shape,
    [a, b]: [usize; 2],
    d: usize,
    standard: (f64, f64),
    seed: u64,
) -> Result<(Vec<Level>, usize)> {
    let rank = shape.widths[b] - 1;
    let rows: Vec<usize> = look.counts.iter().map(Vec::len).collect();
    let (of_a, of_b) = (&look.counts[a], &look.counts[b]);
    let mut random = Pcg64::seed_from_u64(seed);
    let mut phi: Vec<f64> = (0..rows[b] * d).map(|_| Distribution::Gaussian.draw(&mut random)).collect();
    let left = |value: f64, indices: &[u32]| look.left(standard, value, indices);
    let mut passes = 0;
    // Beside the numbers of who has which entries, directions that residuals have in common: both begin random, and
    // a round of both is one of a power iteration.
    let mut psi: Vec<f64> = (0..rows[b] * d).map(|_| Distribution::Gaussian.draw(&mut random)).collect();
    let (mut h, mut back, mut basis) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (numbers, sums, made) = both_ways(
            (stream, slices),
            [a, b],
            &look.counts,
            [2 * d, 2 * d],
            &|indices, value, weight, to| {
                let (at, (h, t)) = (indices[b] as usize * d, to.split_at_mut(d));
                axpy(weight, &phi[at..][..d], h);
                axpy(weight * left(value, indices), &psi[at..][..d], t);
            },
            &|n, row| {
                row[..d].iter_mut().for_each(|x| *x /= n.max(f64::MIN_POSITIVE));
                row[d..].iter_mut().for_each(|x| *x /= (n + ROW_DAMPING).sqrt());
            },
            &|indices, value, weight, from, to| {
                let (h, t) = to.split_at_mut(d);
                axpy(weight, &from[..d], h);
                axpy(weight * left(value, indices), &from[d..], t);
            },
        )?;
        passes += made;
        h = numbers.chunks_exact(2 * d).flat_map(|row| &row[..d]).copied().collect();
        let half = |from: usize| sums.chunks_exact(2 * d).flat_map(move |row| &row[from..from + d]).copied();
        back = divided(half(0).collect(), of_b, d);
        basis = std::mem::replace(&mut phi, orthonormal(back.clone(), of_b, d)?);
        psi = half(d).collect();
        for (row, n) in psi.chunks_exact_mut(d).zip(of_b) {
            row.iter_mut().for_each(|x| *x /= (n + ROW_DAMPING).sqrt());
        }
        psi = orthonormal(psi, of_b, d)?;
    }
    let first = psi;
    // h of the first level is the mean of this over its entries, that of the second the mean of the first's.
    let basis: Vec<f32> = basis.into_iter().map(|x| x as f32).collect();
    let (of_a, of_b) = (standardised(h, of_a, d), RowFeatures { basis, ..standardised(back, of_b, d) });
    let mut levels = Vec::new();
    for (number, (counts, biases)) in look.counts.iter().zip(&look.biases).enumerate() {
        let k = shape.widths[number];
        let (features, (of_rows, of_bias)) = if number == a {
            (of_a.clone(), FIRST_PRIOR)
        } else if number == b {
            (of_b.clone(), SECOND_PRIOR)
        } else {
            (RowFeatures::default(), (OTHER_PRIOR, OTHER_PRIOR))
        };
        let variances: Vec<f64> =
            (0..k).map(|column| if column + 1 == k { of_bias } else { of_rows }).collect();
        let prior = Prior::new(&variances, features.count()).ok_or_else(|| Error::not_finite("a prior"))?;
        let mut means = vec![0.0; rows[number] * k];
        for (row, mean) in means.chunks_exact_mut(k).enumerate().filter(|(row, _)| counts[*row] > 0.0) {
            mean[k - 1] = biases[row];
            if number == b {
                for n in 0..rank {
                    let drawn =
                        if n < d { first[row * d + n] } else { Distribution::Gaussian.draw(&mut random) };
                    mean[n] = FIRST_ROWS * drawn;
                }
            }
        }
        let variances = vec![0.0; rows[number] * k];
        let counts = counts.clone();
        let covariances = Vec::new();
        let rows = rows[number];
        let mut level = Level { rows, width: k, means, variances, covariances, counts, features, prior };
        if number > 0 {
            level.set_covariances();
        }
        levels.push(level);
    }
    Ok((levels, passes))
}
