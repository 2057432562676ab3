//! Products of dense matrices where one side is small: rows of a factor times a matrix of the rank's size, sums of
//! products of two factors' rows, scores of candidates. Row-major throughout.
//!
//! Such products are too small for what a general library does before it begins to multiply. Here the small side is
//! laid out in panels of eight columns, zeros behind the last, and sums of a tile are kept in registers.

use super::arithmetic::Arithmetic;
use super::dispatch::{Kernel, run};

/// Columns of a panel, and of a tile.
const COLUMNS: usize = 8;
/// Rows of a tile of [`product`]: with eight columns, twelve of AVX2's sixteen registers.
const ROWS: usize = 6;
/// Columns of the left side in a tile of [`gram`].
const HEIGHT: usize = 6;
/// Numbers of the wider side that [`gram`] goes through for all its tiles: both sides stay in the first cache.
const STRETCH: usize = 2048;

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
        for (number, panel) in self.panels.chunks_exact(k).enumerate() {
            let first = number * COLUMNS;
            let mut tiles = self.out.chunks_exact_mut(ROWS * columns).zip(self.a.chunks_exact(ROWS * k));
            for (out, a) in &mut tiles {
                put::<M, ROWS>(out, columns, first, self.update, tile::<M>(a, panel));
            }
            let done = self.a.len() / (ROWS * k) * ROWS;
            let rest =
                self.out[done * columns..].chunks_exact_mut(columns).zip(self.a[done * k..].chunks_exact(k));
            for (out, a) in rest {
                put::<M, 1>(out, columns, first, self.update, [row::<M>(a, panel)]);
            }
        }
    }
}

/// The products of a tile's rows with a panel. Row by row by name: in a loop over rows the compiler asks for each number of
/// each row whether it is there.
#[inline(always)]
fn tile<M: Arithmetic>(a: &[f64], panel: &[[f64; COLUMNS]]) -> [[f64; COLUMNS]; ROWS] {
    let k = panel.len();
    let row = |n: usize| &a[n * k..][..k];
    let [a, b, c, d, e, f] = [row(0), row(1), row(2), row(3), row(4), row(5)];
    let mut sums = [[0.0; COLUMNS]; ROWS];
    for n in 0..k {
        let with = &panel[n];
        for (sums, x) in sums.iter_mut().zip([a[n], b[n], c[n], d[n], e[n], f[n]]) {
            for column in 0..COLUMNS {
                sums[column] = M::fma(x, with[column], sums[column]);
            }
        }
    }
    sums
}

/// The same for one row: the same sums in the same order.
#[inline(always)]
fn row<M: Arithmetic>(a: &[f64], panel: &[[f64; COLUMNS]]) -> [f64; COLUMNS] {
    let mut sums = [0.0; COLUMNS];
    for (x, with) in a.iter().zip(panel) {
        for column in 0..COLUMNS {
            sums[column] = M::fma(*x, with[column], sums[column]);
        }
    }
    sums
}

/// Sums of a tile to their places, from column `first` on; behind the last column there is none. Widths are constants, so that
/// rows are stored as vectors.
#[inline(always)]
fn put<M: Arithmetic, const R: usize>(
    out: &mut [f64],
    columns: usize,
    first: usize,
    update: Update,
    sums: [[f64; COLUMNS]; R],
) {
    match columns - first {
        1 => put_width::<M, R, 1>(out, columns, first, update, &sums),
        2 => put_width::<M, R, 2>(out, columns, first, update, &sums),
        3 => put_width::<M, R, 3>(out, columns, first, update, &sums),
        4 => put_width::<M, R, 4>(out, columns, first, update, &sums),
        5 => put_width::<M, R, 5>(out, columns, first, update, &sums),
        6 => put_width::<M, R, 6>(out, columns, first, update, &sums),
        7 => put_width::<M, R, 7>(out, columns, first, update, &sums),
        _ => put_width::<M, R, 8>(out, columns, first, update, &sums),
    }
}

#[inline(always)]
fn put_width<M: Arithmetic, const R: usize, const W: usize>(
    out: &mut [f64],
    columns: usize,
    first: usize,
    update: Update,
    sums: &[[f64; COLUMNS]; R],
) {
    for (row, sums) in sums.iter().enumerate() {
        let Some(to) = out[row * columns + first..].first_chunk_mut::<W>() else { return };
        match update {
            Update::Replace => to.copy_from_slice(&sums[..W]),
            Update::Add(factor) => {
                for n in 0..W {
                    to[n] = M::fma(factor, sums[n], to[n]);
                }
            }
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
    let rows = (STRETCH / left.max(right)).max(1);
    let stretches = a.chunks(rows * left).zip(b.chunks(rows * right));
    stretches.for_each(|(a, b)| run(Gram { a, b, left, right, out }));
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
        for i in (0..self.left).step_by(HEIGHT) {
            for j in (0..self.right).step_by(COLUMNS) {
                let sums = self.tile::<M>(i, j);
                let width = COLUMNS.min(self.right - j);
                for (row, sums) in sums.iter().enumerate().take(self.left - i) {
                    let out = &mut self.out[(i + row) * self.right + j..][..width];
                    out.iter_mut().zip(sums).for_each(|(out, sum)| *out += sum);
                }
            }
        }
    }
}

impl Gram<'_> {
    /// The sums of columns i.. of A with columns j.. of B. What a row lacks behind its last column is read from the row that
    /// follows, and its sums are not used; only at the end, where no row follows, there are zeros.
    #[inline(always)]
    fn tile<M: Arithmetic>(&self, i: usize, j: usize) -> [[f64; COLUMNS]; HEIGHT] {
        let (left, right) = (&self.a[i..], &self.b[j..]);
        let mut sums = [[0.0; COLUMNS]; HEIGHT];
        let rows = self.a.len() / self.left;
        // Rows that have as many numbers behind them.
        let full =
            |numbers: &[f64], size: usize, width: usize| (numbers.len() + width).saturating_sub(size) / width;
        let whole = full(left, HEIGHT, self.left).min(full(right, COLUMNS, self.right)).min(rows);
        for row in 0..whole {
            let (Some(x), Some(y)) =
                (left[row * self.left..].first_chunk(), right[row * self.right..].first_chunk())
            else {
                break;
            };
            outer::<M>(x, y, &mut sums);
        }
        for row in whole..rows {
            let (mut x, mut y) = ([0.0; HEIGHT], [0.0; COLUMNS]);
            x.iter_mut().zip(&left[row * self.left..]).for_each(|(to, from)| *to = *from);
            y.iter_mut().zip(&right[row * self.right..]).for_each(|(to, from)| *to = *from);
            outer::<M>(&x, &y, &mut sums);
        }
        sums
    }
}

/// sums += x y^T.
#[inline(always)]
fn outer<M: Arithmetic>(x: &[f64; HEIGHT], y: &[f64; COLUMNS], sums: &mut [[f64; COLUMNS]; HEIGHT]) {
    for (sums, x) in sums.iter_mut().zip(x) {
        for column in 0..COLUMNS {
            sums[column] = M::fma(*x, y[column], sums[column]);
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
