//! What all rows of a mode are like together.

use crate::rows::{RowPrior, Square, triangle_len};

/// Sums over rows that a prior and the noise come from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Moments {
    pub(super) rows: f64,
    pub(super) weight: f64,
    /// Of w E(e^2), e the residual.
    pub(super) squares: f64,
    pub(super) mean: Vec<f64>,
    /// Of E(x x^T), its triangle.
    pub(super) second: Vec<f64>,
}

impl Moments {
    pub(super) fn new(k: usize) -> Self {
        Moments {
            rows: 0.0,
            weight: 0.0,
            squares: 0.0,
            mean: vec![0.0; k],
            second: vec![0.0; triangle_len(k)],
        }
    }

    pub(super) fn add(&mut self, other: &Moments) {
        self.rows += other.rows;
        self.weight += other.weight;
        self.squares += other.squares;
        self.mean.iter_mut().zip(&other.mean).for_each(|(to, from)| *to += from);
        self.second.iter_mut().zip(&other.second).for_each(|(to, from)| *to += from);
    }

    /// The normal distribution that has them, found with the last component times `unit`; `None` where a
    /// number is not finite.
    pub(super) fn prior(&self, unit: f64) -> Option<RowPrior> {
        let k = self.mean.len();
        let mean: Vec<f64> = self.mean.iter().map(|sum| sum / self.rows.max(1.0)).collect();
        let covariance = Square::from_fn(k, |i, j| {
            let (i, j) = (i.max(j), i.min(j));
            self.second[triangle_len(i) + j] / self.rows.max(1.0) - mean[i] * mean[j]
        });
        RowPrior::new(mean, &covariance, unit)
    }
}
