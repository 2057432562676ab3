//! What the entries of a row are regressed on: rows of another mode, changed by those of a third.

#![allow(unsafe_code)]

use super::arithmetic::Arithmetic;
use super::dispatch::{Kernel, run};
use super::gram::PANEL_TILE;
use super::rows::prefetch_from;
use super::vector::Vector;

/// z = m g + e, number by number, with the variance v q + m^2 s: m and v are a row of a mode and its variances,
/// (g | q | s) a row of what they are changed by, and e is 1 in the column of the bias. Where m g is a product of
/// independent numbers, q is E(g^2) and s the variance of g; g = q = 1 and s = 0 is no change, and all of them 0 in
/// columns that have nothing to do with m.
#[derive(Debug, Clone, Copy)]
pub struct Designs<'a> {
    /// m, row after row of `stride` numbers.
    pub means: &'a [f64],
    /// v, likewise.
    pub variances: &'a [f32],
    /// Numbers of a row of these.
    pub stride: usize,
    /// g, q and s: each as many numbers as z has, filled up to whole tiles.
    pub changes: &'a [f64],
    /// The column of the bias.
    pub bias: usize,
}

/// How many entries ahead rows are asked for.
const AHEAD: usize = 16;

impl Designs<'_> {
    /// Numbers of z, filled up.
    fn width(&self) -> usize {
        (self.bias + 1).next_multiple_of(PANEL_TILE)
    }

    /// Asks for a row.
    #[inline(always)]
    fn ask(&self, row: u32) {
        prefetch_from(self.means, row as usize * self.stride, self.stride);
        prefetch_from(self.variances, row as usize * self.stride, self.stride);
    }

    /// Writes z of entries, their rows being `at` and those that change them `by`, row after row to `panel`, and adds
    /// the variances, by weights, to `spread`.
    ///
    /// # Panics
    ///
    /// If a row is not there, or there is no room.
    pub fn lay(&self, at: &[u32], by: &[u32], weights: &[f64], panel: &mut [f64], spread: &mut [f64]) {
        let width = self.width();
        assert!(
            at.len() == by.len() && at.len() == weights.len() && panel.len() == at.len() * width,
            "a row of the panel per entry"
        );
        assert!(self.means.len() == self.variances.len() && spread.len() == width, "numbers of a row");
        run(Work { designs: *self, at, by, weights, panel, spread });
    }
}

struct Work<'a> {
    designs: Designs<'a>,
    at: &'a [u32],
    by: &'a [u32],
    weights: &'a [f64],
    panel: &'a mut [f64],
    spread: &'a mut [f64],
}

impl Kernel for Work<'_> {
    #[inline(always)]
    fn run<M: Arithmetic>(mut self) {
        // Where nothing but the one mode has a part in z, one row of changes is read once for all entries.
        if self.designs.changes.len() == 3 * self.designs.width() {
            self.lay_all::<M::Eight, true>();
        } else {
            self.lay_all::<M::Eight, false>();
        }
    }
}

impl Work<'_> {
    /// All tiles; `ONE` where there is one row of changes.
    #[inline(always)]
    fn lay_all<V: Vector, const ONE: bool>(&mut self) {
        let tiles = self.designs.width() / PANEL_TILE;
        for tile in (0..tiles).step_by(4) {
            match tiles - tile {
                1 => self.lay::<V, 1, ONE>(tile),
                2 => self.lay::<V, 2, ONE>(tile),
                3 => self.lay::<V, 3, ONE>(tile),
                _ => self.lay::<V, 4, ONE>(tile),
            }
        }
    }

    /// So many tiles of all entries, from one on.
    #[inline(always)]
    fn lay<V: Vector, const N: usize, const ONE: bool>(&mut self, tile: usize) {
        let Work { designs, at, by, weights, panel, spread } = self;
        let Designs { means, variances, stride, changes, bias } = *designs;
        let (width, first) = (designs.width(), tile * PANEL_TILE);
        let (spread, size) = (&mut spread[first..][..N * PANEL_TILE], N * PANEL_TILE);
        let mut units = [0.0; 4 * PANEL_TILE];
        if let Some(unit) = bias.checked_sub(first).and_then(|n| units.get_mut(n)) {
            *unit = 1.0;
        }
        let (mut unit, mut sums) = ([V::splat(0.0); N], [V::splat(0.0); N]);
        for n in 0..N {
            // SAFETY: there are N tiles of either.
            (unit[n], sums[n]) = unsafe {
                let n = n * PANEL_TILE;
                (V::load(units.as_ptr().add(n)), V::load(spread.as_ptr().add(n)))
            };
        }
        let mut change = [[V::splat(0.0); 3]; N];
        if ONE {
            let changes = &changes[first..][..2 * width + size];
            for n in 0..N {
                // SAFETY: N tiles of all three are there.
                change[n] = unsafe { load_change(changes.as_ptr().add(n * PANEL_TILE), width) };
            }
        }
        // Tiles may reach into the next row; behind the last one there is nothing.
        let (mut last, mut last_variances) = ([0.0; 4 * PANEL_TILE], [0.0; 4 * PANEL_TILE]);
        for &row in at.iter().take(if tile == 0 { AHEAD } else { 0 }) {
            designs.ask(row);
        }
        let entries = at.iter().zip(*by).zip(*weights).zip(panel.chunks_exact_mut(width));
        for (number, (((&row, &by), &weight), z)) in entries.enumerate() {
            if tile == 0
                && let Some(&ahead) = at.get(number + AHEAD)
            {
                designs.ask(ahead);
            }
            let row = row as usize * stride + first;
            let (m, v) = if row + size <= means.len() {
                (&means[row..][..size], &variances[row..][..size])
            } else {
                let there = means.len().saturating_sub(row);
                last.fill(0.0);
                last_variances.fill(0.0);
                last[..there].copy_from_slice(&means[means.len() - there..]);
                last_variances[..there].copy_from_slice(&variances[means.len() - there..]);
                (&last[..size], &last_variances[..size])
            };
            let changes = match ONE {
                true => changes,
                false => &changes[by as usize * 3 * width + first..][..2 * width + size],
            };
            let z = &mut z[first..][..size];
            let weight = V::splat(weight);
            for n in 0..N {
                let at = n * PANEL_TILE;
                // SAFETY: of all of them, N tiles follow what is pointed to.
                unsafe {
                    let (m, v) = (V::load(m.as_ptr().add(at)), V::widen(v.as_ptr().add(at)));
                    let [g, q, s] = match ONE {
                        true => change[n],
                        false => load_change(changes.as_ptr().add(at), width),
                    };
                    m.fma(g, unit[n]).store(z.as_mut_ptr().add(at));
                    sums[n] = weight.fma(m.mul(m).fma(s, v.mul(q)), sums[n]);
                }
            }
        }
        for n in 0..N {
            // SAFETY: N tiles.
            unsafe { sums[n].store(spread.as_mut_ptr().add(n * PANEL_TILE)) };
        }
    }
}

/// A tile of g, q and s.
///
/// # Safety
///
/// A tile can be read at `from`, and `width` and twice `width` numbers behind it.
#[inline(always)]
unsafe fn load_change<V: Vector>(from: *const f64, width: usize) -> [V; 3] {
    // SAFETY: as the caller promises.
    unsafe { [V::load(from), V::load(from.add(width)), V::load(from.add(2 * width))] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::limit;
    use crate::gram::{add_gram, add_right};

    #[test]
    fn panels_and_their_sums_are_what_plain_loops_say() {
        for (k, stride, rows) in
            [(1, 1, 3), (3, 3, 5), (8, 8, 4), (9, 11, 6), (16, 16, 9), (21, 21, 7), (32, 33, 5), (33, 33, 6)]
        {
            let width = usize::next_multiple_of(k, PANEL_TILE);
            let mut state = k as u64;
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as f64 / (1u64 << 31) as f64 - 0.5
            };
            let means: Vec<f64> = (0..rows * stride).map(|_| next()).collect();
            let variances: Vec<f32> = (0..rows * stride).map(|_| next().abs() as f32).collect();
            // One row of changes, or two.
            let kinds = 1 + k % 2;
            let mut changes = vec![0.0; kinds * 3 * width];
            for by in 0..kinds {
                for n in 0..k - 1 {
                    let (g, s) = if by + 1 < kinds { (1.0, 0.0) } else { (next(), next().abs()) };
                    let to = &mut changes[by * 3 * width..];
                    (to[n], to[width + n], to[2 * width + n]) = (g, g * g + s, s);
                }
            }
            let count = 23;
            let at: Vec<u32> = (0..count).map(|n| (n * 7 % rows) as u32).collect();
            let by: Vec<u32> = (0..count).map(|n| (n % 3 / 2 % kinds) as u32).collect();
            let weights: Vec<f64> = (0..count).map(|_| next().abs()).collect();
            let right: Vec<f64> = (0..count).map(|_| next()).collect();
            let designs =
                Designs { means: &means, variances: &variances, stride, changes: &changes, bias: k - 1 };
            limit::with_each(|instructions| {
                let mut panel = vec![f64::NAN; count * width];
                let (mut spread, mut square, mut sums) =
                    (vec![0.5; width], vec![0.25; width * width], vec![1.0; width]);
                designs.lay(&at, &by, &weights, &mut panel, &mut spread);
                add_gram(&panel, &weights, width, &mut square);
                add_right(&panel, &right, &mut sums);
                let z = |n: usize, c: usize| {
                    let m = means[at[n] as usize * stride + c];
                    if c + 1 == k { 1.0 } else { m * changes[by[n] as usize * 3 * width + c] }
                };
                let close = |ours: f64, plain: f64| {
                    assert!((ours - plain).abs() < 1e-13, "{k} {instructions:?}: {ours} {plain}");
                };
                for i in 0..k {
                    let variance = |n: usize| {
                        let (place, change) = (at[n] as usize * stride + i, by[n] as usize * 3 * width);
                        let (m, v) = (means[place], f64::from(variances[place]));
                        v * changes[change + width + i] + m * m * changes[change + 2 * width + i]
                    };
                    close(spread[i], 0.5 + (0..count).map(|n| weights[n] * variance(n)).sum::<f64>());
                    close(sums[i], 1.0 + (0..count).map(|n| right[n] * z(n, i)).sum::<f64>());
                    for j in 0..=i {
                        let sum: f64 = (0..count).map(|n| weights[n] * z(n, i) * z(n, j)).sum();
                        close(square[i * width + j], 0.25 + sum);
                    }
                }
                for n in 0..count {
                    assert!(panel[n * width + k..(n + 1) * width].iter().all(|&x| x == 0.0));
                }
            });
        }
    }
}
