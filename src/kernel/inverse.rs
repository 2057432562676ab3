//! Inverses of small symmetric matrices, one per row of a mode.

#![allow(unsafe_code)]

use super::arithmetic::Arithmetic;
use super::dispatch::{Kernel, run};
use super::vector::Vector;

/// Rows of the matrix are filled up to a multiple of this many numbers.
const TILE: usize = 8;

/// Room for the inverse of a matrix.
#[derive(Debug, Clone, Default)]
pub struct Inverse {
    k: usize,
    /// The lower triangle, row after row, filled up to whole tiles.
    work: Vec<f64>,
    /// The column of the pivot, and what it is multiplied by.
    column: Vec<f64>,
    factors: Vec<f64>,
}

impl Inverse {
    /// For matrices of k rows.
    pub fn new(k: usize) -> Self {
        let padded = k.next_multiple_of(TILE);
        Inverse { k, work: vec![0.0; padded * padded], column: vec![0.0; padded], factors: vec![0.0; padded] }
    }

    /// The inverse of a positive definite matrix whose lower triangle is given, row-major, as a whole square.
    /// `false` where it is not positive definite, or no number.
    ///
    /// By the sweep operator: each pivot is swept out of the whole triangle, which takes as many operations as a
    /// Cholesky factor, its inverse and their product, but in rows of vectors without a division in between.
    ///
    /// ```
    /// use tenfill_kernel::Inverse;
    ///
    /// let mut to = [0.0; 4];
    /// assert!(Inverse::new(2).invert(&[2.0, 0.0, 1.0, 1.0], &mut to));
    /// assert_eq!(to, [1.0, -1.0, -1.0, 2.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the matrices have not k rows of k numbers.
    pub fn invert(&mut self, matrix: &[f64], to: &mut [f64]) -> bool {
        assert!(matrix.len() == self.k * self.k && to.len() == self.k * self.k, "k rows of k numbers");
        let mut done = false;
        run(Work { room: self, matrix, to, done: &mut done });
        done
    }
}

struct Work<'a> {
    room: &'a mut Inverse,
    matrix: &'a [f64],
    to: &'a mut [f64],
    done: &'a mut bool,
}

impl Kernel for Work<'_> {
    #[inline(always)]
    fn run<M: Arithmetic>(self) {
        let Work { room, matrix, to, done } = self;
        let (k, padded) = (room.k, room.column.len());
        for i in 0..k {
            let (row, from) = (&mut room.work[i * padded..][..padded], &matrix[i * k..][..=i]);
            row.iter_mut().zip(from).for_each(|(to, x)| *to = *x);
            // Tiles on the diagonal are whole.
            for (j, &x) in from.iter().enumerate().skip(i / TILE * TILE) {
                room.work[j * padded + i] = x;
            }
        }
        for pivot in 0..k {
            if !sweep::<M::Eight>(room, pivot) {
                return;
            }
        }
        for i in 0..k {
            for j in 0..=i {
                let x = -room.work[i * padded + j];
                to[i * k + j] = x;
                to[j * k + i] = x;
            }
        }
        *done = true;
    }
}

/// Sweeps a pivot: with d = a_pp, a_ij -= a_ip a_pj / d, a_ip /= d and a_pp = -1 / d. When all have been swept, the
/// matrix is minus its inverse. Tiles on the diagonal are kept whole, those above it are not looked at.
#[inline(always)]
fn sweep<V: Vector>(room: &mut Inverse, pivot: usize) -> bool {
    let Inverse { k, work, column, factors } = room;
    let (k, padded) = (*k, column.len());
    // The pivot's column: its row, as far as that goes, and what stands below.
    let own = pivot / TILE * TILE;
    column[..own + TILE].copy_from_slice(&work[pivot * padded..][..own + TILE]);
    for i in own + TILE..k {
        column[i] = work[i * padded + pivot];
    }
    let d = column[pivot];
    if !(d > 0.0 && d.is_finite()) {
        return false;
    }
    let by = 1.0 / d;
    factors.iter_mut().zip(&*column).for_each(|(to, x)| *to = -by * x);
    // In the pivot's own column nothing is kept of what was there: 0 a + (-a_ip / d) (-1).
    column[pivot] = -1.0;
    let mut kept = [1.0; TILE];
    kept[pivot - own] = 0.0;
    for first in (0..k).step_by(TILE) {
        let kept = if first == own { kept } else { [1.0; TILE] };
        // SAFETY: either has eight numbers there.
        let (kept, row) = unsafe { (V::load(kept.as_ptr()), V::load(column[first..][..TILE].as_ptr())) };
        let rows = work[first * padded..].chunks_exact_mut(padded);
        for (to, &x) in rows.zip(&factors[first..k]) {
            let to = &mut to[first..][..TILE];
            // SAFETY: `to` has eight numbers.
            unsafe {
                let swept = V::splat(x).fma(row, V::load(to.as_ptr()).mul(kept));
                swept.store(to.as_mut_ptr());
            }
        }
        if first <= own {
            // SAFETY: as above.
            unsafe { V::splat(by).mul(row).store(work[pivot * padded + first..][..TILE].as_mut_ptr()) };
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::limit;

    #[test]
    fn a_matrix_times_its_inverse_is_one() {
        for k in [1, 2, 7, 8, 9, 16, 23, 33] {
            let mut state = k as u64;
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as f64 / (1u64 << 31) as f64 - 0.5
            };
            let half: Vec<f64> = (0..k * k).map(|_| next()).collect();
            let product = |i: usize, j: usize| (0..k).map(|n| half[i * k + n] * half[j * k + n]).sum::<f64>();
            let of = |i: usize, j: usize| product(i, j) + if i == j { 0.1 } else { 0.0 };
            // What stands above the diagonal is not looked at.
            let matrix: Vec<f64> =
                (0..k * k).map(|n| if n % k > n / k { f64::NAN } else { of(n / k, n % k) }).collect();
            limit::with_each(|instructions| {
                let mut to = vec![f64::NAN; k * k];
                assert!(Inverse::new(k).invert(&matrix, &mut to));
                for i in 0..k {
                    for j in 0..k {
                        let sum: f64 = (0..k).map(|n| of(i, n) * to[n * k + j]).sum();
                        let one = if i == j { 1.0 } else { 0.0 };
                        assert!((sum - one).abs() < 1e-10, "{k} {instructions:?}: {i} {j} {sum}");
                        assert_eq!(to[i * k + j], to[j * k + i]);
                    }
                }
            });
        }
    }

    #[test]
    fn what_has_no_inverse_is_told() {
        let mut to = [0.0; 4];
        for matrix in [
            [1.0, 0.0, 1.0, 1.0],
            [-1.0, 0.0, 0.0, 1.0],
            [f64::NAN, 0.0, 0.0, 1.0],
            [1.0, 0.0, f64::INFINITY, 1.0],
        ] {
            assert!(!Inverse::new(2).invert(&matrix, &mut to), "{matrix:?}");
        }
    }
}
