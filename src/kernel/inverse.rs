//! Inverses of small symmetric matrices, one per row of a mode.

#![allow(unsafe_code)]

use super::arithmetic::Arithmetic;
use super::dispatch::{Kernel, run};
use super::vector::Vector;

/// Rows of the matrix are filled up to a multiple of this many numbers.
const TILE: usize = 8;

/// The matrix is symmetric, and blocks of so many columns above the diagonal are not looked at; those on it are whole,
/// so that there is no loop over few numbers.
const BLOCK: usize = 4 * TILE;

/// Room for the inverse of a matrix.
#[derive(Debug, Clone, Default)]
pub struct Inverse {
    k: usize,
    /// Row after row, filled up to whole tiles.
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

    /// The inverse of a positive definite matrix, both row-major and whole squares. `false` where it is not positive
    /// definite, or no number.
    ///
    /// By the sweep operator: each pivot is swept out of the whole triangle, which takes as many operations as a
    /// Cholesky factor, its inverse and their product, but in rows of vectors without a division in between.
    ///
    /// ```
    /// use tenfill_kernel::Inverse;
    ///
    /// let mut to = [0.0; 4];
    /// assert!(Inverse::new(2).invert(&[2.0, 1.0, 1.0, 1.0], &mut to));
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
        if k == padded {
            // At once: short rows take a call of a function each.
            room.work.copy_from_slice(matrix);
        } else {
            for (to, from) in room.work.chunks_exact_mut(padded).zip(matrix.chunks_exact(k)) {
                to[..k].copy_from_slice(from);
            }
        }
        for pivot in 0..k {
            if !sweep::<M::Eight>(room, pivot) {
                return;
            }
        }
        for i in 0..k {
            let block = i / BLOCK * BLOCK;
            let row = &room.work[i * padded..][..k.min(block + BLOCK)];
            to[i * k..][..row.len()].iter_mut().zip(row).for_each(|(to, x)| *to = -x);
            (0..block).for_each(|j| to[j * k + i] = -row[j]);
        }
        *done = true;
    }
}

/// Sweeps a pivot: with d = a_pp, a_ij -= a_ip a_pj / d, a_ip /= d and a_pp = -1 / d. When all have been swept, the
/// matrix is minus its inverse.
#[inline(always)]
fn sweep<V: Vector>(room: &mut Inverse, pivot: usize) -> bool {
    let Inverse { k, work, column, factors } = room;
    let (k, padded) = (*k, column.len());
    let d = work[pivot * padded + pivot];
    if !(d > 0.0 && d.is_finite()) {
        return false;
    }
    let by = 1.0 / d;
    // The pivot's column: its row, as far as that goes, and what stands below.
    let there = (pivot / BLOCK * BLOCK + BLOCK).min(padded);
    let row = &work[pivot * padded..][..there];
    factors.iter_mut().zip(row).for_each(|(to, x)| *to = -by * x);
    for i in there..k {
        column[i] = work[i * padded + pivot];
        factors[i] = -by * column[i];
    }
    for first in (0..padded).step_by(BLOCK) {
        let of = Block { first, pivot, by };
        match (padded - first) / TILE {
            1 => of.sweep::<V, 1>(work, column, &factors[..k]),
            2 => of.sweep::<V, 2>(work, column, &factors[..k]),
            3 => of.sweep::<V, 3>(work, column, &factors[..k]),
            _ => of.sweep::<V, 4>(work, column, &factors[..k]),
        }
    }
    true
}

/// Columns of a block, and a pivot.
struct Block {
    first: usize,
    pivot: usize,
    by: f64,
}

/// From place 0 on a tile of ones, from 15 - n on one with a zero at n: a number written into a tile that is read at once
/// would take as long as a dozen tiles.
const KEPT: [f64; 3 * TILE] = {
    let mut kept = [1.0; 3 * TILE];
    kept[2 * TILE - 1] = 0.0;
    kept
};

impl Block {
    /// Sweeps the pivot out of so many tiles of the rows on the diagonal and below.
    #[inline(always)]
    fn sweep<V: Vector, const N: usize>(&self, work: &mut [f64], column: &[f64], factors: &[f64]) {
        let (padded, first, own) = (column.len(), self.first, self.pivot * column.len() + self.first);
        let is_there = first <= self.pivot;
        let from = if is_there { &work[own..][..N * TILE] } else { &column[first..][..N * TILE] };
        let (mut row, mut kept) = ([V::splat(0.0); N], [V::splat(1.0); N]);
        for n in 0..N {
            let at = self.pivot.wrapping_sub(first + n * TILE);
            let keep = &KEPT[if at < TILE { 2 * TILE - 1 - at } else { 0 }..][..TILE];
            // SAFETY: there are N tiles of the one, and a tile of the other.
            (row[n], kept[n]) = unsafe { (V::load(from.as_ptr().add(n * TILE)), V::load(keep.as_ptr())) };
            // In the pivot's own column nothing is kept of what was there: 0 a + (-a_ip / d) (-1).
            row[n] = row[n].fma(kept[n], kept[n].fma(V::splat(1.0), V::splat(-1.0)));
        }
        for (to, &x) in work[first * padded..].chunks_exact_mut(padded).zip(&factors[first..]) {
            let (to, x) = (to[first..][..N * TILE].as_mut_ptr(), V::splat(x));
            for n in 0..N {
                // SAFETY: N tiles follow `to`.
                unsafe {
                    let to = to.add(n * TILE);
                    x.fma(row[n], V::load(to).mul(kept[n])).store(to);
                }
            }
        }
        if is_there {
            let to = work[own..][..N * TILE].as_mut_ptr();
            for n in 0..N {
                // SAFETY: N tiles follow `to`.
                unsafe { V::splat(self.by).mul(row[n]).store(to.add(n * TILE)) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::limit;

    #[test]
    fn a_matrix_times_its_inverse_is_one() {
        for k in [1, 2, 7, 8, 9, 16, 23, 32, 33, 64, 70] {
            let mut state = k as u64;
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as f64 / (1u64 << 31) as f64 - 0.5
            };
            let half: Vec<f64> = (0..k * k).map(|_| next()).collect();
            let product = |i: usize, j: usize| (0..k).map(|n| half[i * k + n] * half[j * k + n]).sum::<f64>();
            let of = |i: usize, j: usize| product(i, j) + if i == j { 0.1 } else { 0.0 };
            // What stands above blocks on the diagonal is not looked at.
            let matrix: Vec<f64> = (0..k * k)
                .map(|n| if n % k / BLOCK > n / k / BLOCK { f64::NAN } else { of(n / k, n % k) })
                .collect();
            limit::with_each(|instructions| {
                let mut to = vec![f64::NAN; k * k];
                assert!(Inverse::new(k).invert(&matrix, &mut to));
                for i in 0..k {
                    for j in 0..k {
                        let sum: f64 = (0..k).map(|n| of(i, n) * to[n * k + j]).sum();
                        let one = if i == j { 1.0 } else { 0.0 };
                        assert!((sum - one).abs() < 1e-10, "{k} {instructions:?}: {i} {j} {sum}");
                        assert!((to[i * k + j] - to[j * k + i]).abs() < 1e-12);
                    }
                }
            });
        }
    }

    #[test]
    fn what_has_no_inverse_is_told() {
        let mut to = [0.0; 4];
        for matrix in [
            [1.0, 1.0, 1.0, 1.0],
            [-1.0, 0.0, 0.0, 1.0],
            [f64::NAN, 0.0, 0.0, 1.0],
            [1.0, f64::INFINITY, f64::INFINITY, 1.0],
        ] {
            assert!(!Inverse::new(2).invert(&matrix, &mut to), "{matrix:?}");
        }
    }
}
