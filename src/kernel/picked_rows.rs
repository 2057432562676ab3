//! Sums of rows of a panel: of whole covariances, those of the rows that a slice has entries with.

#![allow(unsafe_code)]

use super::arithmetic::Arithmetic;
use super::dispatch::{Kernel, run};
use super::picked::{MOST_TILES, Picked, together};
use super::rows::prefetch_from;
use super::vector::Vector;

/// How many rows ahead one is asked for.
const AHEAD: usize = 8;

/// to += the sum of weight p over some rows p of a panel, which has row after row as long as `to`.
///
/// ```
/// use tenfill_kernel::add_picked;
///
/// let panel: Vec<f32> = (0..16u8).map(f32::from).collect();
/// let mut sums = [1.0; 8];
/// add_picked(&panel, &[1, 0, 1], &[1.0, 2.0, 1.0], &mut sums);
/// assert_eq!(sums[3], 1.0 + 2.0 * 3.0 + 2.0 * 11.0);
/// ```
///
/// # Panics
///
/// If rows are no whole tiles, one is not there, or there are not as many weights.
pub fn add_picked(panel: &[f32], rows: &[u32], weights: &[f64], to: &mut [f64]) {
    assert!(
        to.len().is_multiple_of(Picked::TILE) && rows.len() == weights.len(),
        "whole tiles, and a weight per row"
    );
    let there = panel.len() / to.len().max(1);
    assert!(to.is_empty() || rows.iter().all(|&row| (row as usize) < there), "rows that are there");
    run(Rows { panel, rows, weights, to });
}

/// Rows that were checked: all of them are there.
struct Rows<'a> {
    panel: &'a [f32],
    rows: &'a [u32],
    weights: &'a [f64],
    to: &'a mut [f64],
}

impl Kernel for Rows<'_> {
    #[inline(always)]
    fn run<M: Arithmetic>(mut self) {
        let most = if M::Eight::REGISTERS == 1 { MOST_TILES } else { 4 };
        let (tiles, mut tile) = (self.to.len() / Picked::TILE, 0);
        while tile < tiles {
            let together = together(most.min(tiles - tile));
            match together {
                1 => self.add::<M::Eight, 1>(tile),
                2 => self.add::<M::Eight, 2>(tile),
                3 => self.add::<M::Eight, 3>(tile),
                4 => self.add::<M::Eight, 4>(tile),
                5 => self.add::<M::Eight, 5>(tile),
                6 => self.add::<M::Eight, 6>(tile),
                7 => self.add::<M::Eight, 7>(tile),
                8 => self.add::<M::Eight, 8>(tile),
                _ => self.add::<M::Eight, MOST_TILES>(tile),
            }
            tile += together;
        }
    }
}

impl Rows<'_> {
    /// So many tiles of all rows, from one on.
    #[inline(always)]
    fn add<V: Vector, const N: usize>(&mut self, tile: usize) {
        const TILE: usize = Picked::TILE;
        let Rows { panel, rows, weights, to } = self;
        let (width, first) = (to.len(), tile * TILE);
        let to = &mut to[first..][..N * TILE];
        let mut sums = [V::splat(0.0); N];
        for n in 0..N {
            // SAFETY: `to` has N tiles.
            sums[n] = unsafe { V::load(to.as_ptr().add(n * TILE)) };
        }
        for (number, (&row, &weight)) in rows.iter().zip(*weights).enumerate() {
            // These rows are too many for the cache.
            if let Some(&ahead) = rows.get(number + AHEAD) {
                prefetch_from(panel, ahead as usize * width + first, N * TILE);
            }
            let from = row as usize * width + first;
            debug_assert!(from + N * TILE <= panel.len());
            let weight = V::splat(weight);
            for n in 0..N {
                // SAFETY: `add_picked` has found that the panel has this row, and so N tiles of its columns.
                sums[n] = weight.fma(unsafe { V::widen(panel.as_ptr().add(from + n * TILE)) }, sums[n]);
            }
        }
        for n in 0..N {
            // SAFETY: `to` has N tiles.
            unsafe { sums[n].store(to.as_mut_ptr().add(n * TILE)) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::limit;
    use crate::picked::tests::numbers;

    #[test]
    fn a_panel_in_single_precision_adds_up_in_double() {
        for width in [40, 136, 528] {
            let panel: Vec<f32> = numbers(5 * width, 1).into_iter().map(|x| x as f32).collect();
            let rows: Vec<u32> = (0..1000).map(|n| n * 7 % 5).collect();
            let weights: Vec<f64> = (0..1000).map(|n| 0.1 + f64::from(n)).collect();
            limit::with_each(|instructions| {
                let mut sums = vec![0.0; width];
                add_picked(&panel, &rows, &weights, &mut sums);
                for (n, sum) in sums.iter().enumerate() {
                    let of =
                        |(&row, weight): (&u32, &f64)| weight * f64::from(panel[row as usize * width + n]);
                    let plain: f64 = rows.iter().zip(&weights).map(of).sum();
                    assert!((sum / plain - 1.0).abs() < 1e-11, "{sum} {plain} {instructions:?}");
                }
            });
        }
    }

    #[test]
    #[should_panic(expected = "rows that are there")]
    fn a_row_that_is_not_there_is_told() {
        add_picked(&[0.0; 16], &[0, 2], &[1.0, 1.0], &mut [0.0; 8]);
    }
}
