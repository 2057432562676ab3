//! One row of a mode, given what its entries add up to.

use crate::kernel::{Inverse, vectorised};
use crate::rows::triangle_len;

/// Room for the algebra of one row of k numbers.
#[derive(Debug, Clone, Default)]
pub(super) struct RowRoom {
    /// The precision, row-major, whole.
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

    /// Mean and covariance from the precision (in `factor`) and the right side (in `mean`).
    /// `false` where the precision is not positive definite, or a number is not finite.
    pub(super) fn solve(&mut self) -> bool {
        if !self.inverse.invert(&self.factor, &mut self.covariance) {
            return false;
        }
        vectorised(
            #[inline(always)]
            || {
                self.right.copy_from_slice(&self.mean);
                self.mean.fill(0.0);
                add_rows(&self.right, &self.covariance, &mut self.mean);
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

/// to += M^T x for a matrix M of rows as long as `to`: four of them at a time, and nothing across a vector.
#[inline(always)]
pub(super) fn add_rows(x: &[f64], m: &[f64], to: &mut [f64]) {
    let k = to.len();
    let (fours, rest) = x.as_chunks::<4>();
    for (x, m) in fours.iter().zip(m.chunks_exact(4 * k)) {
        let (a, m) = m.split_at(k);
        let (b, m) = m.split_at(k);
        let (c, d) = m.split_at(k);
        for ((((to, a), b), c), d) in to.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            *to += (x[0] * a + x[1] * b) + (x[2] * c + x[3] * d);
        }
    }
    for (x, row) in rest.iter().zip(m[4 * fours.len() * k..].chunks_exact(k)) {
        axpy(*x, row, to);
    }
}

/// Writes the lower triangle of a square of k rows above its diagonal.
#[inline(always)]
pub(super) fn mirror(square: &mut [f64], k: usize) {
    for i in 1..k {
        let (above, row) = square.split_at_mut(i * k);
        let column = above[i..].iter_mut().step_by(k);
        column.zip(&*row).for_each(|(to, x)| *to = *x);
    }
}

/// A square matrix, row-major, and its transpose.
pub(super) struct Turn {
    rows: Vec<f64>,
    columns: Vec<f64>,
}

impl Turn {
    pub(super) fn new(k: usize, at: impl Fn(usize, usize) -> f64) -> Self {
        let of = |at: &dyn Fn(usize, usize) -> f64| (0..k * k).map(|n| at(n / k, n % k)).collect();
        Turn { rows: of(&at), columns: of(&|i, j| at(j, i)) }
    }

    /// M S M^T in the place of S, a packed triangle; `room` has two squares. With L what is below the diagonal of S and
    /// half of the diagonal itself, it is X + X^T, X being M L M^T: no triangle is written out to a whole square, which
    /// number by number takes longer than to multiply it.
    #[inline(always)]
    pub(super) fn of(&self, s: &mut [f32], room: &mut [f64]) {
        let k = self.rows.len().isqrt();
        let (product, wide) = room.split_at_mut(k * k);
        product.fill(0.0);
        for (i, to) in product.chunks_exact_mut(k).enumerate() {
            let from = &mut wide[..=i];
            from.iter_mut().zip(&s[start(i)..]).for_each(|(to, x)| *to = f64::from(*x));
            from[i] *= 0.5;
            add_rows(from, &self.columns[..(i + 1) * k], to);
        }
        let x = wide;
        x.fill(0.0);
        for (row, to) in self.rows.chunks_exact(k).zip(x.chunks_exact_mut(k)) {
            add_rows(row, product, to);
        }
        for i in 0..k {
            for (j, to) in s[start(i)..][..=i].iter_mut().enumerate() {
                *to = (x[i * k + j] + x[j * k + i]) as f32;
            }
        }
    }
}

/// The inverse of a symmetric positive definite matrix.
pub(super) fn invert(matrix: &[f64], k: usize) -> Option<Vec<f64>> {
    let mut room = RowRoom::new(k);
    room.factor.copy_from_slice(matrix);
    mirror(&mut room.factor, k);
    room.solve().then_some(room.covariance)
}

/// Where the numbers of row i begin in a packed triangle.
#[inline(always)]
pub(super) fn start(i: usize) -> usize {
    triangle_len(i)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_added_and_mirrored_as_plain_loops_say() {
        for (n, k) in [(1, 1), (4, 3), (7, 8), (34, 16), (5, 17)] {
            let m: Vec<f64> = (0..n * k).map(|n| ((n * 7 + 3) % 11) as f64 - 5.0).collect();
            let x: Vec<f64> = (0..n).map(|n| n as f64 - 2.5).collect();
            let mut to = vec![0.5; k];
            add_rows(&x, &m, &mut to);
            for (j, to) in to.iter().enumerate() {
                assert_eq!(*to, 0.5 + (0..n).map(|i| x[i] * m[i * k + j]).sum::<f64>());
            }
            let mut square: Vec<f64> = (0..k * k).map(|n| n as f64).collect();
            mirror(&mut square, k);
            let at = |i: usize, j: usize| (i.max(j) * k + i.min(j)) as f64;
            (0..k * k).for_each(|n| assert_eq!(square[n], at(n / k, n % k)));
        }
    }

    #[test]
    fn a_triangle_is_turned_as_plain_loops_say() {
        for k in [1usize, 3, 8, 17] {
            let m: Vec<f64> = (0..k * k).map(|n| ((n * 7 + 3) % 11) as f64 - 5.0).collect();
            let at = |i: usize, j: usize| ((i.max(j) * 5 + i.min(j) * 3) % 7) as f64 + 0.5;
            let mut s: Vec<f32> = vec![0.0; triangle_len(k)];
            (0..k).for_each(|i| (0..=i).for_each(|j| s[start(i) + j] = at(i, j) as f32));
            Turn::new(k, |i, j| m[i * k + j]).of(&mut s, &mut vec![0.0; 2 * k * k]);
            for i in 0..k {
                for j in 0..=i {
                    let all = (0..k * k).map(|n| m[i * k + n / k] * at(n / k, n % k) * m[j * k + n % k]);
                    let plain: f64 = all.sum();
                    assert!((f64::from(s[start(i) + j]) - plain).abs() < 1e-3, "{k}: {i} {j}");
                }
            }
        }
    }
}
