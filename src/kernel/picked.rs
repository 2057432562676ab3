//! Sums of rows that are picked from a panel: what the entries of many slices add to the rows of another mode.
//!
//! Entry by entry such a sum is a stream: k^2 / 2 numbers are read and written again for each. So entries come
//! ordered by the row that they are added to, 128 numbers of which stay in registers while all that is added to them
//! goes by. Those columns of the panel are small enough for a processor's own cache where they lie together; so the
//! panel may have the rows of a thousand slices, and a row of the sums is read and written once for many entries.
//!
//! What limits all this is how fast the panel comes from that cache. It is only read, so its numbers are in single
//! precision; what they add up to is not.

#![allow(unsafe_code)]

use super::arithmetic::Arithmetic;
use super::dispatch::{Kernel, run};
use super::rows::prefetch_from;
use super::vector::Vector;

/// One row to be added to another. Four of them in a line of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[repr(align(16))]
pub struct Pick {
    /// The row of the panel.
    pub from: u32,
    /// The row of the scales, where there are any.
    pub by: u32,
    /// What its second part is multiplied by.
    pub value: f64,
}

/// Picks that are added to the same row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// The row of the sums.
    pub to: u32,
    /// How many they are.
    pub count: u32,
}

/// Picks, group after group.
#[derive(Debug, Clone, Copy)]
pub struct Picks<'a> {
    /// All of them.
    pub picks: &'a [Pick],
    /// What the first part of every row is multiplied by; empty where that is 1.
    pub weights: &'a [f64],
    /// As many picks as there are.
    pub groups: &'a [Group],
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

/// What the rows of a panel are multiplied by, number by number: rows as long as those of the sums, one of which every
/// pick names.
#[derive(Debug, Clone, Copy)]
pub struct Scales<'a> {
    /// The rows.
    pub rows: &'a [f64],
    /// How many numbers at the beginning of every row are 1.
    pub ones: usize,
}

impl Picked {
    /// Numbers that are added together.
    pub const TILE: usize = 8;
    /// Columns that go by at a time.
    const CHUNK: usize = MOST_TILES * Self::TILE;

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
    pub fn put(&self, row: &[f64], number: usize, panel: &mut [f32]) {
        assert!(row.len() == self.width() && number < self.rows, "a row of the panel");
        for (from, part) in [(0, self.sums), (self.sums, self.second)] {
            for (n, wide) in Self::chunks(part) {
                let to = &mut panel[(from + n) * self.rows + number * wide..][..wide];
                to.iter_mut().zip(&row[from + n..]).for_each(|(to, x)| *to = *x as f32);
            }
        }
    }

    fn check(&self, Picks { picks, weights, groups }: &Picks<'_>, panel: &[f32], to: &[f64]) {
        let whole = |n: usize| n.is_multiple_of(Self::TILE);
        assert!(
            whole(self.sums) && whole(self.second) && self.at + self.second <= self.sums,
            "whole tiles, the second part within the first"
        );
        let (rows, sums) = (panel.len() / self.width(), to.len() / self.sums);
        assert!(self.rows == 0 || self.rows <= rows, "a panel of all rows");
        let rows = if self.rows == 0 { rows } else { self.rows };
        let most = picks.iter().map(|pick| pick.from as usize + 1).max().unwrap_or(0);
        assert!(most <= rows && groups.iter().all(|group| (group.to as usize) < sums), "rows that are there");
        let count: usize = groups.iter().map(|group| group.count as usize).sum();
        assert!(
            count == picks.len() && (weights.is_empty() || weights.len() == count),
            "groups of all picks"
        );
    }

    /// to\[n\] += weight p\[n\], and to\[at + n\] += value q\[n\], for every pick with the panel's row (p | q) and the
    /// row of the sums that its group names. Picks of one row must be one group to be fast.
    ///
    /// ```
    /// use tenfill_kernel::{Group, Pick, Picked, Picks};
    ///
    /// let layout = Picked { sums: 8, second: 0, at: 0, rows: 0 };
    /// let panel: Vec<f32> = (0..16u8).map(f32::from).collect();
    /// let picks = [0, 1].map(|from| Pick { from, ..Pick::default() });
    /// let groups = [Group { to: 0, count: 2 }];
    /// let mut sums = [1.0; 8];
    /// layout.add(&panel, Picks { picks: &picks, weights: &[2.0, 2.0], groups: &groups }, &mut sums);
    /// assert_eq!(sums[3], 1.0 + 2.0 * (3.0 + 11.0));
    /// ```
    ///
    /// # Panics
    ///
    /// If parts are no whole tiles, a row is not there, or groups are not all picks.
    pub fn add(&self, panel: &[f32], picks: Picks<'_>, to: &mut [f64]) {
        self.check(&picks, panel, to);
        run(Work { layout: *self, panel, picks, scales: None, to });
    }

    /// The same with p\[n\] f\[n\] for p\[n\] and q\[n\] f\[at + n\] for q\[n\], f being the row of `scales` that the pick
    /// names.
    ///
    /// # Panics
    ///
    /// As [`Picked::add`], and if a row of `scales` is not there.
    pub fn add_scaled(&self, panel: &[f32], picks: Picks<'_>, scales: Scales<'_>, to: &mut [f64]) {
        self.check(&picks, panel, to);
        let rows = scales.rows.len() / self.sums;
        assert!(picks.picks.iter().all(|pick| (pick.by as usize) < rows), "scales of every pick");
        run(Work { layout: *self, panel, picks, scales: Some(scales), to });
    }
}

/// Rows that were checked: every pick's are there, and all of their tiles.
struct Work<'a> {
    layout: Picked,
    panel: &'a [f32],
    picks: Picks<'a>,
    scales: Option<Scales<'a>>,
    to: &'a mut [f64],
}

/// The most tiles of a row that are added together: half of the registers of AVX-512.
pub(super) const MOST_TILES: usize = 16;

/// How many groups ahead a row of the sums is asked for.
const GROUPS_AHEAD: usize = 4;

/// Columns of a panel, and where they go.
#[derive(Clone, Copy)]
struct Columns {
    /// Where those of the panel's first row begin, and how far its rows are apart.
    first: usize,
    stride: usize,
    /// Where they go in a row of the sums.
    at: usize,
}

impl Kernel for Work<'_> {
    #[inline(always)]
    fn run<M: Arithmetic>(mut self) {
        let Picked { sums, second, at, .. } = self.layout;
        let scales = self.scales;
        let weights = self.picks.weights;
        for (n, wide) in Picked::chunks(sums) {
            self.scales = scales.filter(|scales| n + wide > scales.ones);
            if weights.is_empty() {
                self.add_chunk::<M>(
                    (n, wide, n),
                    #[inline(always)]
                    |_, _| 1.0,
                );
            } else {
                self.add_chunk::<M>(
                    (n, wide, n),
                    #[inline(always)]
                    |number, _| weights[number],
                );
            }
        }
        self.scales = scales;
        for (n, wide) in Picked::chunks(second) {
            self.add_chunk::<M>(
                (sums + n, wide, at + n),
                #[inline(always)]
                |_, pick| pick.value,
            );
        }
    }
}

impl Work<'_> {
    /// Adds so many columns from the first on, to those of the sums: as many at a time as registers hold.
    #[inline(always)]
    fn add_chunk<M: Arithmetic>(
        &mut self,
        (n, wide, at): (usize, usize, usize),
        by: impl Fn(usize, &Pick) -> f64 + Copy,
    ) {
        let most = if M::Eight::REGISTERS == 1 { MOST_TILES } else { 4 };
        let (first, stride) = match self.layout.rows {
            0 => (n, self.layout.width()),
            rows => (n * rows, wide),
        };
        let tiles = wide / Picked::TILE;
        let mut tile = 0;
        while tile < tiles {
            let skipped = tile * Picked::TILE;
            let columns = Columns { first: first + skipped, stride, at: at + skipped };
            let together = together(most.min(tiles - tile));
            match together {
                1 => self.add::<M::Eight, 1>(columns, by),
                2 => self.add::<M::Eight, 2>(columns, by),
                3 => self.add::<M::Eight, 3>(columns, by),
                4 => self.add::<M::Eight, 4>(columns, by),
                5 => self.add::<M::Eight, 5>(columns, by),
                6 => self.add::<M::Eight, 6>(columns, by),
                7 => self.add::<M::Eight, 7>(columns, by),
                8 => self.add::<M::Eight, 8>(columns, by),
                _ => self.add::<M::Eight, MOST_TILES>(columns, by),
            }
            tile += together;
        }
    }

    #[inline(always)]
    fn add<V: Vector, const N: usize>(
        &mut self,
        Columns { first, stride, at }: Columns,
        by: impl Fn(usize, &Pick) -> f64,
    ) {
        const TILE: usize = Picked::TILE;
        let Work { layout, panel, picks: Picks { picks, groups, .. }, scales, to } = self;
        let mut next = 0;
        for (number, group) in groups.iter().enumerate() {
            if let Some(ahead) = groups.get(number + GROUPS_AHEAD) {
                prefetch_from(to, ahead.to as usize * layout.sums + at, N * TILE);
            }
            let to = &mut to[group.to as usize * layout.sums + at..][..N * TILE];
            let mut sums = [V::splat(0.0); N];
            for n in 0..N {
                // SAFETY: `to` has N tiles.
                sums[n] = unsafe { V::load(to.as_ptr().add(n * TILE)) };
            }
            let end = next + group.count as usize;
            for (number, pick) in (next..end).zip(&picks[next..end]) {
                let from = first + pick.from as usize * stride;
                debug_assert!(from + N * TILE <= panel.len());
                // SAFETY: `check` has found that the panel has this row, and so N tiles of its columns.
                let row = unsafe { panel.as_ptr().add(from) };
                let by = V::splat(by(number, pick));
                if let Some(scales) = scales {
                    let scales = &scales.rows[pick.by as usize * layout.sums + at..][..N * TILE];
                    for n in 0..N {
                        // SAFETY: as above; of the scales there are as many.
                        let (x, f) =
                            unsafe { (V::widen(row.add(n * TILE)), V::load(scales.as_ptr().add(n * TILE))) };
                        sums[n] = by.mul(f).fma(x, sums[n]);
                    }
                } else {
                    for n in 0..N {
                        // SAFETY: as above.
                        sums[n] = by.fma(unsafe { V::widen(row.add(n * TILE)) }, sums[n]);
                    }
                }
            }
            for n in 0..N {
                // SAFETY: `to` has N tiles.
                unsafe { sums[n].store(to.as_mut_ptr().add(n * TILE)) };
            }
            next = end;
        }
    }
}

/// As many tiles as there are, or as there is code for.
#[inline(always)]
pub(super) fn together(tiles: usize) -> usize {
    if tiles < MOST_TILES { tiles.min(8) } else { MOST_TILES }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::dispatch::limit;

    /// Numbers that look random, between -0.5 and 0.5.
    pub(crate) fn numbers(count: usize, seed: u64) -> Vec<f64> {
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
            let panel: Vec<f32> = numbers(rows * width, 1).into_iter().map(|x| x as f32).collect();
            // Room for more rows than there are.
            let layout = Picked { rows: rows + 2, ..plain_layout };
            let mut apart = vec![f32::NAN; layout.rows * width];
            for n in 0..rows {
                let row: Vec<f64> = panel[n * width..][..width].iter().map(|&x| f64::from(x)).collect();
                layout.put(&row, n, &mut apart);
            }
            let mut factors = numbers(scaled_by * sums, 2);
            // The first ones change nothing.
            let ones = sums / 2 + 3;
            factors.chunks_exact_mut(sums).for_each(|row| row[..ones].fill(1.0));
            let scales = Scales { rows: &factors, ones };
            let drawn = numbers(2 * count, 3);
            let picks: Vec<Pick> = (0..count)
                .map(|n| Pick {
                    from: (n * 5 % rows) as u32,
                    by: (n * 3 % scaled_by) as u32,
                    value: drawn[2 * n + 1],
                })
                .collect();
            // Rows of the sums that have many picks, one or two.
            let places_of: Vec<u32> =
                (0..count).map(|n| [0, 0, 1, 2, 2, 3][n * 6 / count] + (n / 58) as u32).collect();
            let mut groups: Vec<Group> = Vec::new();
            for &to in &places_of {
                match groups.last_mut() {
                    Some(group) if group.to == to => group.count += 1,
                    _ => groups.push(Group { to, count: 1 }),
                }
            }
            for weighted in [false, true] {
                let weights: Vec<f64> =
                    (0..count).map(|n| if weighted { drawn[2 * n] } else { 1.0 }).collect();
                let of =
                    Picks { picks: &picks, weights: if weighted { &weights } else { &[] }, groups: &groups };
                for scaled in [false, true] {
                    let begin = numbers(places * sums, 4);
                    let mut plain = begin.clone();
                    for ((pick, &to), &weight) in picks.iter().zip(&places_of).zip(&weights) {
                        let row = &panel[pick.from as usize * width..][..width];
                        let factor =
                            |n: usize| if scaled { factors[pick.by as usize * sums + n] } else { 1.0 };
                        let to = &mut plain[to as usize * sums..][..sums];
                        (0..sums).for_each(|n| to[n] += weight * factor(n) * f64::from(row[n]));
                        for n in 0..second {
                            to[at + n] += pick.value * factor(at + n) * f64::from(row[sums + n]);
                        }
                    }
                    limit::with_each(|instructions| {
                        for (layout, panel) in [(plain_layout, &panel), (layout, &apart)] {
                            let mut to = begin.clone();
                            match scaled {
                                true => layout.add_scaled(panel, of, scales, &mut to),
                                false => layout.add(panel, of, &mut to),
                            }
                            for (ours, plain) in to.iter().zip(&plain) {
                                assert!((ours - plain).abs() < 1e-12, "{layout:?} {scaled} {instructions:?}");
                            }
                        }
                    });
                }
            }
        }
    }

    /// A row that nearly every entry is added to has as many right digits as any other.
    #[test]
    fn a_popular_row_loses_no_digits() {
        let layout = Picked { sums: 8, second: 0, at: 0, rows: 0 };
        let panel: Vec<f32> = (0..8u8).map(|n| 0.1 + f32::from(n)).collect();
        let count = 3_000_000;
        let picks = vec![Pick::default(); count];
        let groups = [Group { to: 0, count: count as u32 }];
        let picks = Picks { picks: &picks, weights: &[], groups: &groups };
        limit::with_each(|instructions| {
            let mut sums = [0.0; 8];
            layout.add(&panel, picks, &mut sums);
            for (sum, &x) in sums.iter().zip(&panel) {
                let exact = count as f64 * f64::from(x);
                assert!((sum / exact - 1.0).abs() < 1e-9, "{sum} of {exact} with {instructions:?}");
            }
        });
    }

    #[test]
    #[should_panic(expected = "groups of all picks")]
    fn groups_are_all_picks() {
        let picks = Picks { picks: &[Pick::default()], weights: &[], groups: &[Group { to: 0, count: 2 }] };
        Picked { sums: 8, second: 0, at: 0, rows: 0 }.add(&[0.0; 8], picks, &mut [0.0; 8]);
    }
}
