//! What is known of the rows of a mode: means, variances, and the prior that they share.

use super::row::{dot, invert, start};
use crate::kernel::Picked;
use crate::model::RowFeatures;
use crate::rows::{Square, triangle_len};

/// Rows are normal before their entries are seen: with mean B f and covariance V.
#[derive(Debug, Clone, PartialEq)]
pub struct Prior {
    /// B, a row per column of the rows.
    pub coefficients: Vec<f64>,
    /// V, row-major.
    pub covariance: Vec<f64>,
    /// How much B is shrunk.
    pub ridge: f64,
    /// V^-1.
    pub(super) precision: Vec<f64>,
}

impl Prior {
    /// With B = 0 and a diagonal V.
    pub fn new(variances: &[f64], features: usize) -> Option<Self> {
        let k = variances.len();
        let mut covariance = vec![0.0; k * k];
        (0..k).for_each(|i| covariance[i * k + i] = variances[i]);
        Self::of(vec![0.0; k * features], covariance, FIRST_RIDGE)
    }

    /// From its parts; `None` where V is not positive definite.
    pub fn of(coefficients: Vec<f64>, covariance: Vec<f64>, ridge: f64) -> Option<Self> {
        let k = covariance.len().isqrt();
        let precision = invert(&covariance, k)?;
        Some(Prior { coefficients, covariance, ridge, precision })
    }

    /// Takes V times a number.
    pub fn loosen(&mut self, times: f64) {
        self.covariance.iter_mut().for_each(|number| *number *= times);
        self.precision.iter_mut().for_each(|number| *number /= times);
    }

    /// Columns of the rows.
    pub fn width(&self) -> usize {
        self.covariance.len().isqrt()
    }

    /// B f.
    #[inline(always)]
    pub(super) fn mean(&self, f: &[f64], to: &mut [f64]) {
        for (to, row) in to.iter_mut().zip(self.coefficients.chunks_exact(f.len())) {
            *to = dot(row, f);
        }
    }

    /// (V^-1 B)^T, a row per feature: what a row's features add to the right side of its equations.
    pub(super) fn pull(&self) -> Vec<f64> {
        let k = self.width();
        let n = self.coefficients.len() / k.max(1);
        let mut pull = vec![0.0; n * k];
        for (f, to) in pull.chunks_exact_mut(k).enumerate() {
            for (i, to) in to.iter_mut().enumerate() {
                *to = (0..k).map(|j| self.precision[i * k + j] * self.coefficients[j * n + f]).sum();
            }
        }
        pull
    }

    /// The precision of a row with sums A, a whole square: V^-1 + A / noise.
    #[inline(always)]
    pub(super) fn precision_with(&self, noise: f64, a: &[f64], to: &mut [f64]) {
        let by = 1.0 / noise;
        to.iter_mut().zip(a).zip(&self.precision).for_each(|((to, a), p)| *to = p + by * a);
    }
}

// What other values do: docs/thresholds.md.
/// How much the coefficients of features are shrunk until there is something to learn it from.
const FIRST_RIDGE: f64 = 30.0;
/// V is never smaller than this share of its trace in any direction.
pub(super) const FLOOR: f64 = 1e-9;

/// The rows of a mode.
#[derive(Debug, Clone, PartialEq)]
pub struct Level {
    /// How many.
    pub rows: usize,
    /// Columns of a row.
    pub width: usize,
    /// Their means, row after row; zeros for rows without entries.
    pub means: Vec<f64>,
    /// The variances of these numbers.
    pub variances: Vec<f32>,
    /// Their covariances, row after row, each a packed triangle filled up to whole tiles; empty where columns are
    /// taken as independent.
    pub covariances: Vec<f32>,
    /// The weight of every row's entries.
    pub counts: Vec<f64>,
    /// What is known of a row before its values.
    pub features: RowFeatures,
    /// The prior.
    pub prior: Prior,
}

/// Covariances are whole where a row has fewer entries than this, on average, per number of its own...
const SCARCE: f64 = 8.0;
/// ...and where they take no more memory than this.
const MOST_COVARIANCES: u64 = 32 << 20;

/// Numbers of the covariance of a row of k numbers.
pub(super) fn covariance_width(k: usize) -> usize {
    triangle_len(k).next_multiple_of(Picked::TILE)
}

/// The memory of the covariances of so many rows with so many entries: none where columns are taken as independent,
/// because there are entries enough or not enough room.
pub(super) fn covariance_bytes(rows: u64, entries: u64, k: usize) -> u64 {
    let bytes = rows * (covariance_width(k) * size_of::<f32>()) as u64;
    let scarce = (entries as f64) < SCARCE * k as f64 * rows as f64;
    if k > 1 && scarce && bytes <= MOST_COVARIANCES { bytes } else { 0 }
}

impl Level {
    /// Numbers of the covariance of a row of k numbers, where it is whole.
    pub fn covariance_numbers(k: usize) -> usize {
        covariance_width(k)
    }

    /// The same of its own rows.
    #[inline(always)]
    pub(super) fn covariance_width(&self) -> usize {
        covariance_width(self.width)
    }

    /// Makes covariances whole where rows have few entries.
    pub(super) fn set_covariances(&mut self) {
        let entries = self.counts.iter().sum::<f64>() as u64;
        let bytes = covariance_bytes(self.rows as u64, entries, self.width);
        self.covariances = vec![0.0; bytes as usize / size_of::<f32>()];
    }

    /// The covariance of a row, as a square; its variances where it is not whole.
    pub(super) fn covariance(&self, row: usize) -> Square {
        if self.covariances.is_empty() {
            let s = self.variance(row);
            return Square::from_fn(self.width, |i, j| if i == j { f64::from(s[i]) } else { 0.0 });
        }
        let from = &self.covariances[row * self.covariance_width()..];
        Square::from_fn(self.width, |i, j| f64::from(from[start(i.max(j)) + i.min(j)]))
    }

    #[inline(always)]
    pub(super) fn mean(&self, row: usize) -> &[f64] {
        &self.means[row * self.width..][..self.width]
    }

    #[inline(always)]
    pub(super) fn variance(&self, row: usize) -> &[f32] {
        &self.variances[row * self.width..][..self.width]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_pull_a_row_to_its_expected_mean() {
        let (k, n) = (3, 4);
        let covariance = vec![2.0, 0.5, 0.0, 0.5, 1.0, 0.25, 0.0, 0.25, 3.0];
        let coefficients: Vec<f64> = (0..k * n).map(|n| n as f64 / 3.0 - 1.0).collect();
        let prior = Prior::of(coefficients, covariance, 1.0).unwrap();
        let f = [1.0, -0.5, 2.0, 0.25];
        let mut expected = [0.0; 3];
        prior.mean(&f, &mut expected);
        let pull = prior.pull();
        for i in 0..k {
            let told: f64 = (0..n).map(|g| f[g] * pull[g * k + i]).sum();
            assert!((told - dot(&prior.precision[i * k..][..k], &expected)).abs() < 1e-12);
        }
        let (mut to, a) = (vec![0.0; 9], vec![4.0; 9]);
        prior.precision_with(0.5, &a, &mut to);
        (0..9).for_each(|n| assert_eq!(to[n], prior.precision[n] + 8.0));
    }
}
