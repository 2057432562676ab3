//! Products of one row with many: what a slice's row says of its entries.

#![allow(unsafe_code)]

use super::arithmetic::Arithmetic;
use super::dispatch::{Kernel, run};
use super::vector::{Four, Vector};

/// Numbers of a tile, and those that are multiplied at a time.
const TILE: usize = 8;
const MOST: usize = 4 * TILE;

/// to\[n\] += <x, y>, y being the row `at\[n\]` of `rows`, which begin `stride` numbers apart.
///
/// ```
/// use tenfill_kernel::add_products;
///
/// let rows = [1.0, 2.0, 9.0, 3.0, 4.0];
/// let mut to = [0.5; 3];
/// add_products(&rows, 3, &[1, 0, 1], &[1.0, 10.0], &mut to);
/// assert_eq!(to, [43.5, 21.5, 43.5]);
/// ```
///
/// # Panics
///
/// If a row is not there, or there are not as many sums as rows.
pub fn add_products(rows: &[f64], stride: usize, at: &[u32], x: &[f64], to: &mut [f64]) {
    assert!(at.len() == to.len(), "a sum per row");
    let is_there = |row: u32| {
        (row as usize)
            .checked_mul(stride)
            .and_then(|n| n.checked_add(x.len()))
            .is_some_and(|n| n <= rows.len())
    };
    assert!(at.iter().all(|&row| is_there(row)), "rows that are there");
    for (number, x) in x.chunks(MOST).enumerate() {
        let mut padded = [0.0; MOST];
        padded[..x.len()].copy_from_slice(x);
        run(Work { rows, stride, first: number * MOST, at, x: &padded, count: x.len(), to });
    }
}

/// Rows that were checked: `count` numbers from `first` on are there of each.
struct Work<'a> {
    rows: &'a [f64],
    stride: usize,
    first: usize,
    at: &'a [u32],
    x: &'a [f64; MOST],
    count: usize,
    to: &'a mut [f64],
}

impl Kernel for Work<'_> {
    #[inline(always)]
    fn run<M: Arithmetic>(mut self) {
        match self.count.div_ceil(TILE) {
            1 => self.add::<M::Eight, 1>(),
            2 => self.add::<M::Eight, 2>(),
            3 => self.add::<M::Eight, 3>(),
            _ => self.add::<M::Eight, 4>(),
        }
    }
}

impl Work<'_> {
    #[inline(always)]
    fn add<V: Vector, const N: usize>(&mut self) {
        let Work { rows, stride, first, at, x, count, to } = self;
        let mut of_x = [V::splat(0.0); N];
        for n in 0..N {
            // SAFETY: x has four tiles, and N is no more.
            of_x[n] = unsafe { V::load(x.as_ptr().add(n * TILE)) };
        }
        // Tiles may reach into the next row, which is multiplied by zeros; behind the last one there is nothing.
        let mut last = [0.0; MOST];
        for (at, to) in at.chunks(4).zip(to.chunks_mut(4)) {
            let mut sums = [V::Four::splat(0.0); 4];
            for (sum, &row) in sums.iter_mut().zip(at) {
                let row = &rows[row as usize * *stride + *first..];
                let row = if row.len() >= N * TILE {
                    row
                } else {
                    last[..*count].copy_from_slice(&row[..*count]);
                    &last[..]
                };
                let mut product = V::splat(0.0);
                for n in 0..N {
                    // SAFETY: `row` has N tiles.
                    product = of_x[n].fma(unsafe { V::load(row.as_ptr().add(n * TILE)) }, product);
                }
                *sum = product.fold();
            }
            let sums = Four::sums(sums).array();
            to.iter_mut().zip(sums).for_each(|(to, sum)| *to += sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::limit;

    #[test]
    fn products_are_what_plain_loops_say() {
        for (k, stride, rows) in
            [(1, 1, 3), (3, 4, 5), (8, 8, 4), (15, 16, 9), (31, 31, 5), (33, 40, 7), (70, 71, 3)]
        {
            let number = |n: usize| ((n * 37) % 101) as f64 / 101.0 - 0.5;
            let x: Vec<f64> = (0..k).map(|n| number(n + 7)).collect();
            // The last row ends where its numbers do.
            let numbers: Vec<f64> = (0..(rows - 1) * stride + k).map(number).collect();
            let at: Vec<u32> = (0..11).map(|n| (n * 5 % rows) as u32).collect();
            limit::with_each(|instructions| {
                let mut to = vec![0.25; at.len()];
                add_products(&numbers, stride, &at, &x, &mut to);
                for (&row, to) in at.iter().zip(to) {
                    let row = &numbers[row as usize * stride..][..k];
                    let plain: f64 = row.iter().zip(&x).map(|(x, y)| x * y).sum();
                    assert!((to - 0.25 - plain).abs() < 1e-13, "{k} {instructions:?}");
                }
            });
        }
    }

    #[test]
    #[should_panic(expected = "rows that are there")]
    fn a_row_that_is_not_there_is_told() {
        add_products(&[1.0; 8], 4, &[0, 2], &[1.0; 4], &mut [0.0; 2]);
    }
}
