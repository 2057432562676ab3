//! Sums of rows that are picked from a panel: what the entries of many slices add to the rows of another mode.
//!
//! Entry by entry such a sum is a stream: k^2 / 2 numbers are read and written again for each. So entries come
//! ordered by the row that they are added to, 32 numbers of which stay in registers while all that is added to them
//! goes by. Those columns of the panel are small enough for a processor's own cache where they lie together; so the
//! panel may have the rows of a thousand slices, and a row of the sums is read and written once for many entries.

use super::arithmetic::Arithmetic;
use super::dispatch::{Kernel, run};
use super::rows::prefetch_all;

/// One row to be added to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pick {
    /// The row of the sums.
    pub to: u32,
    /// The row of the panel.
    pub from: u32,
    /// What its first part is multiplied by.
    pub weight: f64,
    /// What its second part is multiplied by.
    pub value: f64,
}

/// Rows of a panel and of sums. All numbers are multiples of [`Picked::TILE`], but for `at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Picked {
    /// Numbers of a row of the sums, and of the first part of a row of the panel.
    pub sums: usize,
    /// Numbers of the second part of a row of the panel.
    pub second: usize,
    /// Where the second part goes in a row of the sums.
    pub at: usize,
    /// Rows of a panel whose columns lie [apart](Picked::put), some after the others, so that those that are added
    /// together are in a processor's own cache; 0 where row lies after row.
    pub rows: usize,
}

/// What the rows of a panel are multiplied by, number by number: rows as long as those of the sums, and for every
/// pick which of them.
#[derive(Debug, Clone, Copy)]
pub struct Scales<'a> {
    /// The rows.
    pub rows: &'a [f64],
    /// Per pick, the number of its row.
    pub by: &'a [u32],
    /// How many numbers at the beginning of every row are 1.
    pub ones: usize,
}

/// A number of a panel: rows that are only read may be in single precision, what they add up to is not.
pub trait PanelNumber: Copy + Into<f64> {}

impl PanelNumber for f64 {}
impl PanelNumber for f32 {}

impl Picked {
    /// Numbers that are added together.
    pub const TILE: usize = 8;
    /// Columns that go by at a time.
    const CHUNK: usize = 4 * Self::TILE;

    /// Numbers of a row of the panel.
    pub fn width(&self) -> usize {
        self.sums + self.second
    }

    /// Where columns begin that go by together, and how many; of the first part or of the second.
    fn chunks(numbers: usize) -> impl Iterator<Item = (usize, usize)> {
        (0..numbers).step_by(Self::CHUNK).map(move |n| (n, Self::CHUNK.min(numbers - n)))
    }

    /// Writes a row into a panel whose columns lie apart.
    ///
    /// # Panics
    ///
    /// If there is no such row, or it is not as long.
    pub fn put(&self, row: &[f64], number: usize, panel: &mut [f64]) {
        assert!(row.len() == self.width() && number < self.rows, "a row of the panel");
        for (from, part) in [(0, self.sums), (self.sums, self.second)] {
            for (n, wide) in Self::chunks(part) {
                let to = &mut panel[(from + n) * self.rows + number * wide..][..wide];
                to.copy_from_slice(&row[from + n..][..wide]);
            }
        }
    }

    fn check<P>(&self, picks: &[Pick], panel: &[P], to: &[f64]) {
        let whole = |n: usize| n.is_multiple_of(Self::TILE);
        assert!(
            whole(self.sums) && whole(self.second) && self.at + self.second <= self.sums,
            "whole tiles, the second part within the first"
        );
        let (rows, sums) = (panel.len() / self.width(), to.len() / self.sums);
        assert!(self.rows == 0 || self.rows <= rows, "a panel of all rows");
        let rows = if self.rows == 0 { rows } else { self.rows };
        assert!(
            picks.iter().all(|pick| (pick.from as usize) < rows && (pick.to as usize) < sums),
            "rows that are there"
        );
    }

    /// to\[n\] += weight p\[n\], and to\[at + n\] += value q\[n\], for every pick with the panel's row (p | q).
    /// Picks of the same row of the sums must be neighbours to be fast.
    ///
    /// ```
    /// use tenfill_kernel::{Pick, Picked};
    ///
    /// let layout = Picked { sums: 8, second: 0, at: 0, rows: 0 };
    /// let panel: Vec<f64> = (0..16).map(f64::from).collect();
    /// let picks = [0, 1].map(|from| Pick { to: 0, from, weight: 2.0, value: 0.0 });
    /// let mut sums = [1.0; 8];
    /// layout.add(&panel, &picks, &mut sums);
    /// assert_eq!(sums[3], 1.0 + 2.0 * (3.0 + 11.0));
    /// ```
    ///
    /// # Panics
    ///
    /// If parts are no whole tiles, or a row is not there.
    pub fn add<P: PanelNumber>(&self, panel: &[P], picks: &[Pick], to: &mut [f64]) {
        self.check(picks, panel, to);
        run(Work { layout: *self, panel, picks, groups: &groups(picks), scales: None, to });
    }

    /// The same with p\[n\] f\[n\] for p\[n\] and q\[n\] f\[at + n\] for q\[n\], f being the row of `scales` that the pick
    /// names.
    ///
    /// # Panics
    ///
    /// As [`Picked::add`], and if a row of `scales` is not there.
    pub fn add_scaled(&self, panel: &[f64], picks: &[Pick], scales: Scales<'_>, to: &mut [f64]) {
        self.check(picks, panel, to);
        let rows = scales.rows.len() / self.sums;
        assert!(
            scales.by.len() == picks.len() && scales.by.iter().all(|&by| (by as usize) < rows),
            "scales of every pick"
        );
        run(Work { layout: *self, panel, picks, groups: &groups(picks), scales: Some(scales), to });
    }
}

/// Neighbours that are added to the same row: the row, and where the next ones begin. Found once for all columns.
fn groups(picks: &[Pick]) -> Vec<(usize, usize)> {
    let mut end = 0;
    let of = |group: &[Pick]| {
        end += group.len();
        (group[0].to as usize, end)
    };
    picks.chunk_by(|a, b| a.to == b.to).map(of).collect()
}

struct Work<'a, P> {
    layout: Picked,
    panel: &'a [P],
    picks: &'a [Pick],
    groups: &'a [(usize, usize)],
    scales: Option<Scales<'a>>,
    to: &'a mut [f64],
}

/// How many groups ahead a row of the sums is asked for, and how many picks ahead one of the panel.
const GROUPS_AHEAD: usize = 2;
const AHEAD: usize = 12;

impl<P: PanelNumber> Kernel for Work<'_, P> {
    #[inline(always)]
    fn run<M: Arithmetic>(mut self) {
        let Picked { sums, second, at, .. } = self.layout;
        let scales = self.scales;
        for (n, wide) in Picked::chunks(sums) {
            self.scales = scales.filter(|scales| n + wide > scales.ones);
            self.add_chunk::<M>(
                (n, wide, n),
                #[inline(always)]
                |pick| pick.weight,
            );
        }
        self.scales = scales;
        for (n, wide) in Picked::chunks(second) {
            self.add_chunk::<M>(
                (sums + n, wide, at + n),
                #[inline(always)]
                |pick| pick.value,
            );
        }
    }
}

impl<P: PanelNumber> Work<'_, P> {
    /// Adds so many columns from the first on, to those of the sums.
    #[inline(always)]
    fn add_chunk<M: Arithmetic>(&mut self, columns: (usize, usize, usize), by: impl Fn(&Pick) -> f64 + Copy) {
        const TILE: usize = Picked::TILE;
        match columns.1 / TILE {
            1 => self.add::<M, TILE>(columns, by),
            2 => self.add::<M, { 2 * TILE }>(columns, by),
            3 => self.add::<M, { 3 * TILE }>(columns, by),
            _ => self.add::<M, { 4 * TILE }>(columns, by),
        }
    }

    #[inline(always)]
    fn add<M: Arithmetic, const B: usize>(
        &mut self,
        (n, wide, at): (usize, usize, usize),
        by: impl Fn(&Pick) -> f64 + Copy,
    ) {
        let Work { layout, panel, picks, groups, scales, to } = self;
        let (panel, stride) = match layout.rows {
            0 => (&panel[n..], layout.width()),
            rows => (&panel[n * rows..][..rows * wide], wide),
        };
        let mut next = 0;
        for (number, &(row, end)) in groups.iter().enumerate() {
            if let Some(&(ahead, _)) = groups.get(number + GROUPS_AHEAD) {
                prefetch_all(&to[ahead * layout.sums + at..][..wide]);
            }
            let Some(to) = to[row * layout.sums + at..].first_chunk_mut::<B>() else { return };
            let mut sums = *to;
            for (number, pick) in picks[next..end].iter().enumerate() {
                // Rows that lie one after the other are too many for the cache.
                if layout.rows == 0
                    && let Some(ahead) = picks.get(next + number + AHEAD)
                {
                    prefetch_all(&panel[ahead.from as usize * stride..][..wide]);
                }
                let Some(row) = panel[pick.from as usize * stride..].first_chunk::<B>() else { return };
                let by = by(pick);
                if let Some(scales) = scales {
                    let from = scales.by[next + number] as usize * layout.sums + at;
                    let Some(scales) = scales.rows[from..].first_chunk::<B>() else { return };
                    for n in 0..B {
                        sums[n] = M::fma(by * scales[n], row[n].into(), sums[n]);
                    }
                } else {
                    for n in 0..B {
                        sums[n] = M::fma(by, row[n].into(), sums[n]);
                    }
                }
            }
            *to = sums;
            next = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::limit;

    fn numbers(count: usize, seed: u64) -> Vec<f64> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / (1u64 << 31) as f64 - 0.5
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn picked_rows_add_up_to_what_plain_loops_say() {
        for (sums, second, at) in
            [(8, 0, 0), (8, 8, 0), (40, 16, 23), (152, 16, 136), (24, 8, 15), (600, 40, 560)]
        {
            let plain_layout = Picked { sums, second, at, rows: 0 };
            let (rows, places, count, scaled_by) = (7, 5, 60, 4);
            let width = plain_layout.width();
            let panel = numbers(rows * width, 1);
            // Room for more rows than there are.
            let layout = Picked { rows: rows + 2, ..plain_layout };
            let mut apart = vec![f64::NAN; layout.rows * width];
            (0..rows).for_each(|n| layout.put(&panel[n * width..][..width], n, &mut apart));
            let mut factors = numbers(scaled_by * sums, 2);
            // The first ones change nothing.
            let ones = sums / 2 + 3;
            factors.chunks_exact_mut(sums).for_each(|row| row[..ones].fill(1.0));
            let by: Vec<u32> = (0..count as u32).map(|n| n * 3 % scaled_by as u32).collect();
            let scales = Scales { rows: &factors, by: &by, ones };
            let drawn = numbers(2 * count, 3);
            let picks: Vec<Pick> = (0..count)
                .map(|n| Pick {
                    to: (n * places / count) as u32,
                    from: (n * 5 % rows) as u32,
                    weight: drawn[2 * n],
                    value: drawn[2 * n + 1],
                })
                .collect();
            for scaled in [false, true] {
                let begin = numbers(places * sums, 4);
                let mut plain = begin.clone();
                for (number, pick) in picks.iter().enumerate() {
                    let row = &panel[pick.from as usize * width..][..width];
                    let factor =
                        |n: usize| if scaled { factors[by[number] as usize * sums + n] } else { 1.0 };
                    let to = &mut plain[pick.to as usize * sums..][..sums];
                    (0..sums).for_each(|n| to[n] += pick.weight * factor(n) * row[n]);
                    (0..second).for_each(|n| to[at + n] += pick.value * factor(at + n) * row[sums + n]);
                }
                limit::with_each(|instructions| {
                    for (layout, panel) in [(plain_layout, &panel), (layout, &apart)] {
                        let mut to = begin.clone();
                        match scaled {
                            true => layout.add_scaled(panel, &picks, scales, &mut to),
                            false => layout.add(panel, &picks, &mut to),
                        }
                        for (ours, plain) in to.iter().zip(&plain) {
                            assert!((ours - plain).abs() < 1e-12, "{layout:?} {scaled} {instructions:?}");
                        }
                    }
                });
            }
        }
    }

    #[test]
    fn a_panel_in_single_precision_adds_up_in_double() {
        let layout = Picked { sums: 40, second: 0, at: 0, rows: 0 };
        let panel: Vec<f32> = numbers(5 * 40, 1).into_iter().map(|x| x as f32).collect();
        let picks: Vec<Pick> = (0..1000)
            .map(|n| Pick { to: 0, from: n * 7 % 5, weight: 0.1 + f64::from(n), value: 0.0 })
            .collect();
        limit::with_each(|instructions| {
            let mut sums = [0.0; 40];
            layout.add(&panel, &picks, &mut sums);
            for (n, sum) in sums.iter().enumerate() {
                let plain: f64 = picks
                    .iter()
                    .map(|pick| pick.weight * f64::from(panel[pick.from as usize * 40 + n]))
                    .sum();
                assert!((sum / plain - 1.0).abs() < 1e-11, "{sum} {plain} {instructions:?}");
            }
        });
    }

    /// A row that nearly every entry is added to has as many right digits as any other.
    #[test]
    fn a_popular_row_loses_no_digits() {
        let layout = Picked { sums: 8, second: 0, at: 0, rows: 0 };
        let panel: Vec<f64> = (0..8).map(|n| 0.1 + f64::from(n)).collect();
        let count = 3_000_000;
        let picks = vec![Pick { to: 0, from: 0, weight: 1.0, value: 0.0 }; count];
        limit::with_each(|instructions| {
            let mut sums = [0.0; 8];
            layout.add(&panel, &picks, &mut sums);
            for (sum, x) in sums.iter().zip(&panel) {
                let exact = count as f64 * x;
                assert!((sum / exact - 1.0).abs() < 1e-9, "{sum} of {exact} with {instructions:?}");
            }
        });
    }
}
