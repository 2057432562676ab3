//! One row of a mode, given what its entries add up to.

use crate::kernel::vectorised;
use crate::rows::triangle_len;

/// Room for the algebra of one row of k numbers.
#[derive(Debug, Clone, Default)]
pub(super) struct RowRoom {
    /// The precision, then its Cholesky factor, row-major.
    pub(super) factor: Vec<f64>,
    /// The inverse of that factor, row-major.
    inverse: Vec<f64>,
    /// The covariance, row-major, whole.
    pub(super) covariance: Vec<f64>,
    /// The right side, then the mean.
    pub(super) mean: Vec<f64>,
}

impl RowRoom {
    pub(super) fn new(k: usize) -> Self {
        let square = vec![0.0; k * k];
        RowRoom { factor: square.clone(), inverse: square.clone(), covariance: square, mean: vec![0.0; k] }
    }

    /// Factors the precision. `false` where it is not positive definite, or no number.
    #[inline(always)]
    fn factorise(&mut self) -> bool {
        let k = self.mean.len();
        for i in 0..k {
            let (before, rest) = self.factor.split_at_mut(i * k);
            let row = &mut rest[..k];
            for j in 0..i {
                let earlier = &before[j * k..][..k];
                let sum = dot(&row[..j], &earlier[..j]);
                row[j] = (row[j] - sum) / earlier[j];
            }
            let left = row[i] - dot(&row[..i], &row[..i]);
            if !(left > 0.0 && left.is_finite()) {
                return false;
            }
            row[i] = left.sqrt();
        }
        true
    }

    /// Mean and covariance from the precision (its lower triangle, in `factor`) and the right side (in `mean`).
    pub(super) fn solve(&mut self) -> bool {
        let mut done = false;
        vectorised(
            #[inline(always)]
            || done = self.solve_here(),
        );
        done
    }

    #[inline(always)]
    fn solve_here(&mut self) -> bool {
        if !self.factorise() {
            return false;
        }
        let k = self.mean.len();
        // Row i of the inverse W from the rows before it; then S = W^T W.
        self.covariance.fill(0.0);
        for i in 0..k {
            let (before, rest) = self.inverse.split_at_mut(i * k);
            let row = &mut rest[..k];
            row.fill(0.0);
            row[i] = 1.0;
            for (n, earlier) in before.chunks_exact(k).enumerate() {
                let x = self.factor[i * k + n];
                row[..=n].iter_mut().zip(&earlier[..=n]).for_each(|(to, from)| *to -= x * from);
            }
            let by = 1.0 / self.factor[i * k + i];
            row[..=i].iter_mut().for_each(|x| *x *= by);
            for j in 0..=i {
                let x = row[j];
                let to = &mut self.covariance[j * k..][..=j];
                to.iter_mut().zip(&row[..=j]).for_each(|(to, w)| *to += x * w);
            }
        }
        for i in 0..k {
            (0..i).for_each(|j| self.covariance[j * k + i] = self.covariance[i * k + j]);
        }
        let mut sum = std::mem::take(&mut self.mean);
        let right = &mut self.inverse[..k];
        right.copy_from_slice(&sum);
        for (i, to) in sum.iter_mut().enumerate() {
            *to = dot(&self.covariance[i * k..][..k], right);
        }
        self.mean = sum;
        self.mean.iter().all(|x| x.is_finite())
    }

    /// The mean alone.
    pub(super) fn solve_mean(&mut self) -> bool {
        let mut done = false;
        vectorised(
            #[inline(always)]
            || done = self.solve_mean_here(),
        );
        done
    }

    #[inline(always)]
    fn solve_mean_here(&mut self) -> bool {
        if !self.factorise() {
            return false;
        }
        let k = self.mean.len();
        for i in 0..k {
            let sum = dot(&self.factor[i * k..][..i], &self.mean[..i]);
            self.mean[i] = (self.mean[i] - sum) / self.factor[i * k + i];
        }
        for i in (0..k).rev() {
            let x = self.mean[i] / self.factor[i * k + i];
            self.mean[i] = x;
            let row = &self.factor[i * k..][..i];
            self.mean[..i].iter_mut().zip(row).for_each(|(to, l)| *to -= x * l);
        }
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
