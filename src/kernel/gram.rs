//! Sums of products of rows with themselves: what a regression of every row of a mode is made from.

#![allow(unsafe_code)]

use super::arithmetic::Arithmetic;
use super::dispatch::{Kernel, run};
use super::vector::Vector;

/// Rows of a panel have a multiple of this many numbers: sums are taken tile by tile, in registers.
pub const PANEL_TILE: usize = 8;

/// to += Z^T diag(w) Z for a panel Z of rows of `width` numbers: the tiles on and below the diagonal of a
/// square of `width`, row-major.
///
/// ```
/// use tenfill_kernel::add_gram;
///
/// let mut panel = [0.0; 16];
/// (panel[0], panel[1], panel[8]) = (2.0, 3.0, 1.0);
/// let mut square = [0.0; 64];
/// add_gram(&panel, &[1.0, 10.0], 8, &mut square);
/// assert_eq!((square[0], square[8], square[9]), (14.0, 6.0, 9.0));
/// ```
///
/// # Panics
///
/// If the width is no multiple of [`PANEL_TILE`], or the square is none of that width.
pub fn add_gram(panel: &[f64], weights: &[f64], width: usize, to: &mut [f64]) {
    assert!(width.is_multiple_of(PANEL_TILE) && to.len() == width * width, "whole tiles");
    run(Gram { panel, weights, width, to });
}

/// to += Z^T v for a panel Z of rows as long as `to`.
///
/// # Panics
///
/// If their length is no multiple of [`PANEL_TILE`].
pub fn add_right(panel: &[f64], v: &[f64], to: &mut [f64]) {
    assert!(to.len().is_multiple_of(PANEL_TILE), "whole tiles");
    run(Right { panel, v, to });
}

struct Right<'a> {
    panel: &'a [f64],
    v: &'a [f64],
    to: &'a mut [f64],
}

impl Kernel for Right<'_> {
    #[inline(always)]
    fn run<M: Arithmetic>(mut self) {
        let tiles = self.to.len() / PANEL_TILE;
        for tile in (0..tiles).step_by(4) {
            match tiles - tile {
                1 => self.add::<M::Eight, 1>(tile),
                2 => self.add::<M::Eight, 2>(tile),
                3 => self.add::<M::Eight, 3>(tile),
                _ => self.add::<M::Eight, 4>(tile),
            }
        }
    }
}

impl Right<'_> {
    /// So many tiles, from one on.
    #[inline(always)]
    fn add<V: Vector, const N: usize>(&mut self, tile: usize) {
        let (width, first, size) = (self.to.len(), tile * PANEL_TILE, N * PANEL_TILE);
        let to = &mut self.to[first..][..size];
        let mut sums = [V::splat(0.0); N];
        for n in 0..N {
            // SAFETY: `to` has N tiles.
            sums[n] = unsafe { V::load(to.as_ptr().add(n * PANEL_TILE)) };
        }
        for (row, &v) in self.panel.chunks_exact(width).zip(self.v) {
            let (row, v) = (&row[first..][..size], V::splat(v));
            for n in 0..N {
                // SAFETY: `row` has N tiles.
                sums[n] = v.fma(unsafe { V::load(row.as_ptr().add(n * PANEL_TILE)) }, sums[n]);
            }
        }
        for n in 0..N {
            // SAFETY: `to` has N tiles.
            unsafe { sums[n].store(to.as_mut_ptr().add(n * PANEL_TILE)) };
        }
    }
}

struct Gram<'a> {
    panel: &'a [f64],
    weights: &'a [f64],
    width: usize,
    to: &'a mut [f64],
}

impl Kernel for Gram<'_> {
    #[inline(always)]
    fn run<M: Arithmetic>(self) {
        for i in (0..self.width).step_by(PANEL_TILE) {
            for j in (0..=i).step_by(PANEL_TILE) {
                add_tile::<M>(self.panel, self.weights, self.width, (i, j), self.to);
            }
        }
    }
}

#[inline(always)]
fn add_tile<M: Arithmetic>(
    panel: &[f64],
    weights: &[f64],
    width: usize,
    (i, j): (usize, usize),
    to: &mut [f64],
) {
    const TILE: usize = PANEL_TILE;
    let mut sums = [[0.0; TILE]; TILE];
    for (row, &weight) in panel.chunks_exact(width).zip(weights) {
        let (Some(left), Some(right)) = (row[i..].first_chunk::<TILE>(), row[j..].first_chunk::<TILE>())
        else {
            return;
        };
        // What is the same for all rows of the tile is one vector; what is not is broadcast on its way from memory.
        let weighted = right.map(|x| weight * x);
        for a in 0..TILE {
            for b in 0..TILE {
                sums[a][b] = M::fma(left[a], weighted[b], sums[a][b]);
            }
        }
    }
    for (a, sums) in sums.iter().enumerate() {
        let to = &mut to[(i + a) * width + j..][..TILE];
        to.iter_mut().zip(sums).for_each(|(to, sum)| *to += sum);
    }
}
