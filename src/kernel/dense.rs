//! Products of dense matrices where one side is small: rows of a factor times a matrix of the rank's size, sums of
//! products of two factors' rows, scores of candidates. Row-major throughout.
//!
//! Such products are too small for what a general library does before it begins to multiply. Here the small side is
//! laid out in panels of eight columns, zeros behind the last, and sums of a tile are kept in registers.

use super::arithmetic::Arithmetic;
use super::dispatch::{Kernel, run};

/// Columns of a panel, and of a tile.
const COLUMNS: usize = 8;
/// Rows of a tile of [`product`].
const ROWS: usize = 4;
/// Rows that [`gram`] lays out at a time: both sides stay in the first cache.
const STRETCH: usize = 64;

/// How a product meets what is there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Update {
    /// It takes its place.
    Replace,
    /// It is added, times a factor.
    Add(f64),
}

/// out = A B, or out + factor A B: A has rows of k numbers, B has k rows of as many numbers as `out` has.
///
/// ```
/// use tenfill_kernel::{Update, product};
///
/// let mut out = [1.0; 4];
/// product(&mut out, Update::Add(-1.0), &[1.0, 2.0, 3.0, 4.0], &[1.0, 0.0, 0.0, 10.0], (2, 2));
/// assert_eq!(out, [0.0, -19.0, -2.0, -39.0]);
/// ```
///
/// # Panics
///
/// If the sizes (k, columns of B) do not fit together.
pub fn product(out: &mut [f64], update: Update, a: &[f64], b: &[f64], (k, columns): (usize, usize)) {
    assert_eq!(b.len(), k * columns, "k rows of B");
    let panels = panels(k, columns, |row, column| b[row * columns + column]);
    multiply(out, update, a, &panels, (k, columns));
}

/// out = A B^T: A and B have rows of k numbers, and `out` a column for every row of B.
///
/// # Panics
///
/// If the sizes do not fit together.
pub fn product_transposed(out: &mut [f64], update: Update, a: &[f64], b: &[f64], k: usize) {
    assert!(k > 0 && b.len().is_multiple_of(k), "rows of k numbers");
    let columns = b.len() / k;
    let panels = panels(k, columns, |row, column| b[column * k + row]);
    multiply(out, update, a, &panels, (k, columns));
}

/// Panels of eight columns, one after another, each with all k rows.
fn panels(k: usize, columns: usize, entry: impl Fn(usize, usize) -> f64) -> Vec<[f64; COLUMNS]> {
    let mut panels = vec![[0.0; COLUMNS]; columns.div_ceil(COLUMNS) * k];
    for (number, panel) in panels.iter_mut().enumerate() {
        let (first, row) = (number / k * COLUMNS, number % k);
        for (n, to) in panel.iter_mut().enumerate().take(columns - first) {
            *to = entry(row, first + n);
        }
    }
    panels
}

fn multiply(
    out: &mut [f64],
    update: Update,
    a: &[f64],
    panels: &[[f64; COLUMNS]],
    (k, columns): (usize, usize),
) {
    if columns == 0 || k == 0 {
        assert!(out.is_empty() || k == 0, "a column of B per column of the product");
        if update == Update::Replace {
            out.fill(0.0);
        }
        return;
    }
    assert_eq!(out.len() / columns * k, a.len(), "a row of A per row of the product");
    assert!(out.len().is_multiple_of(columns), "whole rows");
    run(Product { out, update, a, panels, k, columns });
}

struct Product<'a> {
    out: &'a mut [f64],
    update: Update,
    a: &'a [f64],
    panels: &'a [[f64; COLUMNS]],
    k: usize,
    columns: usize,
}

impl Kernel for Product<'_> {
    #[inline(always)]
    fn run<M: Arithmetic>(self) {
        let (k, columns) = (self.k, self.columns);
        let tiles = self.out.chunks_mut(ROWS * columns).zip(self.a.chunks(ROWS * k));
        for (out, a) in tiles {
            for (number, panel) in self.panels.chunks_exact(k).enumerate() {
                let sums = if a.len() == ROWS * k { tile::<M, ROWS>(a, panel) } else { rest::<M>(a, panel) };
                let first = number * COLUMNS;
                let width = COLUMNS.min(columns - first);
                for (out, sums) in out.chunks_exact_mut(columns).zip(&sums) {
                    put::<M>(&mut out[first..][..width], self.update, sums);
                }
            }
        }
    }
}

/// The products of R rows with a panel.
#[inline(always)]
fn tile<M: Arithmetic, const R: usize>(a: &[f64], panel: &[[f64; COLUMNS]]) -> [[f64; COLUMNS]; R] {
    let k = panel.len();
    let mut sums = [[0.0; COLUMNS]; R];
    for (n, b) in panel.iter().enumerate() {
        for (row, sums) in sums.iter_mut().enumerate() {
            let x = a[row * k + n];
            for c in 0..COLUMNS {
                sums[c] = M::fma(x, b[c], sums[c]);
            }
        }
    }
    sums
}

/// The same for the rows that are left: the same sums in the same order.
#[inline(always)]
fn rest<M: Arithmetic>(a: &[f64], panel: &[[f64; COLUMNS]]) -> [[f64; COLUMNS]; ROWS] {
    let mut sums = [[0.0; COLUMNS]; ROWS];
    for (a, sums) in a.chunks_exact(panel.len()).zip(&mut sums) {
        [*sums] = tile::<M, 1>(a, panel);
    }
    sums
}

#[inline(always)]
fn put<M: Arithmetic>(out: &mut [f64], update: Update, sums: &[f64; COLUMNS]) {
    match update {
        Update::Replace => out.iter_mut().zip(sums).for_each(|(out, sum)| *out = *sum),
        Update::Add(factor) => {
            out.iter_mut().zip(sums).for_each(|(out, sum)| *out = M::fma(factor, *sum, *out))
        }
    }
}

/// out += A^T B: A and B have as many rows, of `left` and of `right` numbers.
///
/// ```
/// let mut out = [0.0; 2];
/// tenfill_kernel::gram(&[1.0, 2.0], &[3.0, 4.0, 5.0, 6.0], (1, 2), &mut out);
/// assert_eq!(out, [13.0, 16.0]);
/// ```
///
/// # Panics
///
/// If the sizes do not fit together.
pub fn gram(a: &[f64], b: &[f64], (left, right): (usize, usize), out: &mut [f64]) {
    assert!(left > 0 && right > 0 && out.len() == left * right, "a number per pair of columns");
    assert!(a.len().is_multiple_of(left) && b.len() == a.len() / left * right, "as many rows");
    run(Gram { a, b, left, right, out });
}

struct Gram<'a> {
    a: &'a [f64],
    b: &'a [f64],
    left: usize,
    right: usize,
    out: &'a mut [f64],
}

impl Kernel for Gram<'_> {
    #[inline(always)]
    fn run<M: Arithmetic>(self) {
        let (left, right) = (self.left, self.right);
        let mut padded = [Vec::new(), Vec::new()];
        let stretches = self.a.chunks(STRETCH * left).zip(self.b.chunks(STRETCH * right));
        for (a, b) in stretches {
            lay_out(a, left, &mut padded[0]);
            lay_out(b, right, &mut padded[1]);
            let rows = a.len() / left;
            let [a, b] = &padded;
            for (i, a) in a.chunks_exact(rows).enumerate() {
                for (j, b) in b.chunks_exact(rows).enumerate() {
                    let mut sums = [[0.0; COLUMNS]; COLUMNS];
                    for (a, b) in a.iter().zip(b) {
                        for (x, sums) in a.iter().zip(&mut sums) {
                            for c in 0..COLUMNS {
                                sums[c] = M::fma(*x, b[c], sums[c]);
                            }
                        }
                    }
                    let (first, column) = (i * COLUMNS, j * COLUMNS);
                    let width = COLUMNS.min(right - column);
                    for (row, sums) in sums.iter().enumerate().take(left - first) {
                        let out = &mut self.out[(first + row) * right + column..][..width];
                        out.iter_mut().zip(sums).for_each(|(out, sum)| *out += sum);
                    }
                }
            }
        }
    }
}

/// Panels of eight columns, one after another, of rows of `width` numbers.
#[inline(always)]
fn lay_out(rows: &[f64], width: usize, to: &mut Vec<[f64; COLUMNS]>) {
    to.clear();
    for first in (0..width).step_by(COLUMNS) {
        let columns = COLUMNS.min(width - first);
        for row in rows.chunks_exact(width) {
            let mut panel = [0.0; COLUMNS];
            panel[..columns].copy_from_slice(&row[first..][..columns]);
            to.push(panel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(count: usize, seed: f64) -> Vec<f64> {
        (0..count).map(|n| ((n as f64 + 1.0) * seed).sin()).collect()
    }

    fn close(a: &[f64], b: &[f64], k: usize) {
        for (a, b) in a.iter().zip(b) {
            // Every term is at most 1 in size.
            assert!((a - b).abs() <= f64::EPSILON * (k + 2) as f64 * (k + 2) as f64, "{a} and {b}");
        }
    }

    proptest! {
        #[test]
        fn products_are_their_formulas(n in 0usize..30, k in 1usize..40, m in 1usize..40, add in any::<bool>()) {
            let (a, b, before) = (sample(n * k, 0.7), sample(k * m, 1.3), sample(n * m, 2.1));
            let update = if add { Update::Add(-0.5) } else { Update::Replace };
            let expected: Vec<f64> = (0..n * m)
                .map(|at| {
                    let (i, j) = (at / m, at % m);
                    let sum: f64 = (0..k).map(|l| a[i * k + l] * b[l * m + j]).sum();
                    if add { before[at] - 0.5 * sum } else { sum }
                })
                .collect();
            let mut out = before.clone();
            product(&mut out, update, &a, &b, (k, m));
            close(&out, &expected, k);
            let transposed: Vec<f64> = (0..m * k).map(|at| b[at % k * m + at / k]).collect();
            let mut other = before.clone();
            product_transposed(&mut other, update, &a, &transposed, k);
            prop_assert_eq!(out, other);
        }

        #[test]
        fn sums_of_rows_are_their_formula(n in 0usize..200, left in 1usize..20, right in 1usize..20) {
            let (a, b) = (sample(n * left, 0.7), sample(n * right, 1.3));
            let mut out = vec![1.0; left * right];
            gram(&a, &b, (left, right), &mut out);
            let expected: Vec<f64> = (0..left * right)
                .map(|at| 1.0 + (0..n).map(|row| a[row * left + at / right] * b[row * right + at % right]).sum::<f64>())
                .collect();
            close(&out, &expected, n);
        }
    }

    #[test]
    fn an_infinite_bias_stays_one() {
        // Candidates that must not come have a bias of -inf, which counts once: 0 times it would be NaN.
        let mut out = [0.0; 9];
        let mut candidates = vec![0.5; 18];
        candidates[5] = f64::NEG_INFINITY;
        product_transposed(&mut out, Update::Replace, &[0.0, 1.0], &candidates, 2);
        assert_eq!(out[2], f64::NEG_INFINITY);
        assert!(out.iter().all(|x| !x.is_nan()));
    }
}
