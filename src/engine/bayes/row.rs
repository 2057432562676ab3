//! One row of a mode, given what its entries add up to.

use crate::kernel::{Inverse, vectorised};
use crate::rows::triangle_len;

/// Room for the algebra of one row of k numbers.
#[derive(Debug, Clone, Default)]
pub(super) struct RowRoom {
    /// The precision, row-major; its lower triangle is what counts.
    pub(super) factor: Vec<f64>,
    inverse: Inverse,
    /// The covariance, row-major, whole.
    pub(super) covariance: Vec<f64>,
    /// The right side, then the mean.
    pub(super) mean: Vec<f64>,
    right: Vec<f64>,
}

impl RowRoom {
    pub(super) fn new(k: usize) -> Self {
        let (square, row) = (vec![0.0; k * k], vec![0.0; k]);
        RowRoom {
            factor: square.clone(),
            inverse: Inverse::new(k),
            covariance: square,
            mean: row.clone(),
            right: row,
        }
    }

    /// Mean and covariance from the precision (its lower triangle, in `factor`) and the right side (in `mean`).
    /// `false` where the precision is not positive definite, or a number is not finite.
    pub(super) fn solve(&mut self) -> bool {
        if !self.inverse.invert(&self.factor, &mut self.covariance) {
            return false;
        }
        vectorised(
            #[inline(always)]
            || {
                let k = self.mean.len();
                self.right.copy_from_slice(&self.mean);
                for (i, to) in self.mean.iter_mut().enumerate() {
                    *to = dot(&self.covariance[i * k..][..k], &self.right);
                }
            },
        );
        self.mean.iter().all(|x| x.is_finite())
    }
}

/// In eight partial sums, so that the compiler may vectorise it.
#[inline(always)]
pub(super) fn dot(x: &[f64], y: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (xs, x_rest) = x.as_chunks::<8>();
    let (ys, y_rest) = y.as_chunks::<8>();
    for (x, y) in xs.iter().zip(ys) {
        for n in 0..8 {
            sums[n] += x[n] * y[n];
        }
    }
    let rest: f64 = x_rest.iter().zip(y_rest).map(|(x, y)| x * y).sum();
    let [a, b, c, d, e, f, g, h] = sums;
    ((a + e) + (c + g)) + ((b + f) + (d + h)) + rest
}

/// to += a x.
#[inline(always)]
pub(super) fn axpy(a: f64, x: &[f64], to: &mut [f64]) {
    to.iter_mut().zip(x).for_each(|(to, x)| *to += a * x);
}

/// The inverse of a symmetric positive definite matrix.
pub(super) fn invert(matrix: &[f64], k: usize) -> Option<Vec<f64>> {
    let mut room = RowRoom::new(k);
    room.factor.copy_from_slice(matrix);
    room.solve().then_some(room.covariance)
}

/// Where the numbers of row i begin in a packed triangle.
#[inline(always)]
pub(super) fn start(i: usize) -> usize {
    triangle_len(i)
}
