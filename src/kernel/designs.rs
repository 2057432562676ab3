//! What the entries of a row are regressed on: rows of another mode, changed by those of a third.

use super::arithmetic::Arithmetic;
use super::dispatch::{Kernel, run};
use super::gram::PANEL_TILE;
use super::rows::prefetch_all;

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

/// Eight numbers from a place on, which may reach into the next row; behind the last one there is nothing.
#[inline(always)]
pub(super) fn tile<T: Copy + Default>(from: &[T], at: usize) -> [T; PANEL_TILE] {
    if let Some(tile) = from[at..].first_chunk() {
        return *tile;
    }
    let mut tile = [T::default(); PANEL_TILE];
    tile.iter_mut().zip(&from[at..]).for_each(|(to, from)| *to = *from);
    tile
}

impl Kernel for Work<'_> {
    #[inline(always)]
    fn run<M: Arithmetic>(self) {
        let Work { designs, at, by, weights, panel, spread } = self;
        let Designs { means, variances, stride, changes, bias } = designs;
        let width = designs.width();
        let ask = |row: u32| {
            prefetch_all(&means[row as usize * stride..][..stride]);
            prefetch_all(&variances[row as usize * stride..][..stride]);
        };
        at.iter().take(AHEAD).for_each(|&row| ask(row));
        for (first, spread) in (0..width).step_by(PANEL_TILE).zip(spread.as_chunks_mut().0) {
            let mut unit = [0.0; PANEL_TILE];
            if let Some(unit) = bias.checked_sub(first).and_then(|n| unit.get_mut(n)) {
                *unit = 1.0;
            }
            let mut sums: [f64; PANEL_TILE] = *spread;
            let entries = at.iter().zip(by).zip(weights);
            for (n, (((&at_row, &by), &weight), z)) in entries.zip(panel.chunks_exact_mut(width)).enumerate()
            {
                if first == 0
                    && let Some(&ahead) = at.get(n + AHEAD)
                {
                    ask(ahead);
                }
                let row = at_row as usize * stride + first;
                let (m, v) = (tile(means, row), tile(variances, row));
                let changes = &changes[by as usize * 3 * width + first..];
                let (Some(g), Some(q), Some(s)) = (
                    changes.first_chunk::<PANEL_TILE>(),
                    changes[width..].first_chunk::<PANEL_TILE>(),
                    changes[2 * width..].first_chunk::<PANEL_TILE>(),
                ) else {
                    return;
                };
                let Some(z) = z[first..].first_chunk_mut::<PANEL_TILE>() else { return };
                for n in 0..PANEL_TILE {
                    z[n] = M::fma(m[n], g[n], unit[n]);
                    let variance = M::fma(m[n] * m[n], s[n], f64::from(v[n]) * q[n]);
                    sums[n] = M::fma(weight, variance, sums[n]);
                }
            }
            *spread = sums;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::limit;
    use crate::gram::{add_gram, add_right};

    #[test]
    fn panels_and_their_sums_are_what_plain_loops_say() {
        for (k, stride, rows) in
            [(1, 1, 3), (3, 3, 5), (8, 8, 4), (9, 11, 6), (16, 16, 9), (21, 21, 7), (32, 33, 5)]
        {
            let width = usize::next_multiple_of(k, PANEL_TILE);
            let mut state = k as u64;
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as f64 / (1u64 << 31) as f64 - 0.5
            };
            let means: Vec<f64> = (0..rows * stride).map(|_| next()).collect();
            let variances: Vec<f32> = (0..rows * stride).map(|_| next().abs() as f32).collect();
            let mut changes = vec![0.0; 2 * 3 * width];
            for by in 0..2 {
                for n in 0..k - 1 {
                    let (g, s) = if by == 0 { (1.0, 0.0) } else { (next(), next().abs()) };
                    let to = &mut changes[by * 3 * width..];
                    (to[n], to[width + n], to[2 * width + n]) = (g, g * g + s, s);
                }
            }
            let count = 23;
            let at: Vec<u32> = (0..count).map(|n| (n * 7 % rows) as u32).collect();
            let by: Vec<u32> = (0..count).map(|n| (n % 3 / 2) as u32).collect();
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
