//! Sums of rows that are picked from a panel: what the entries of many slices add to the rows of another mode.
//!
//! Entry by entry such a sum is a stream: k^2 / 2 numbers are read and written again for each. So entries come
//! ordered by the row that they are added to, which stays in registers while all that is added to it goes by, and
//! the panel is small enough for a processor's own cache.

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
}

impl Picked {
    /// Numbers that are added together.
    pub const TILE: usize = 8;

    /// Numbers of a row of the panel.
    pub fn width(&self) -> usize {
        self.sums + self.second
    }

    fn check(&self, picks: &[Pick], panel: &[f64], to: &[f64]) {
        let whole = |n: usize| n.is_multiple_of(Self::TILE);
        assert!(
            whole(self.sums) && whole(self.second) && self.at + self.second <= self.sums,
            "whole tiles, the second part within the first"
        );
        let (rows, sums) = (panel.len() / self.width(), to.len() / self.sums);
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
    /// let layout = Picked { sums: 8, second: 0, at: 0 };
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
    pub fn add(&self, panel: &[f64], picks: &[Pick], to: &mut [f64]) {
        self.check(picks, panel, to);
        run(Work { layout: *self, panel, picks, factors: None, to });
    }

    /// The same with p\[n\] f\[n\] for p\[n\] and q\[n\] f\[at + n\] for q\[n\], f being the row of `factors` that has the
    /// number of the pick.
    ///
    /// # Panics
    ///
    /// As [`Picked::add`], and if a row of `factors` is not there.
    pub fn add_scaled(&self, panel: &[f64], picks: &[Pick], factors: &[f64], to: &mut [f64]) {
        self.check(picks, panel, to);
        assert!(factors.len() >= picks.len() * self.sums, "factors of every pick");
        run(Work { layout: *self, panel, picks, factors: Some(factors), to });
    }
}

struct Work<'a> {
    layout: Picked,
    panel: &'a [f64],
    picks: &'a [Pick],
    factors: Option<&'a [f64]>,
    to: &'a mut [f64],
}

/// Numbers of the next row that are asked for ahead; the processor goes on by itself.
const MOST_AHEAD: usize = 256;
/// Numbers that are in registers at a time.
const BLOCK: usize = 4 * Picked::TILE;

impl Kernel for Work<'_> {
    #[inline(always)]
    fn run<M: Arithmetic>(self) {
        let Picked { sums, second, at } = self.layout;
        let mut from = 0;
        while let Some(first) = self.picks.get(from) {
            let same = self.picks[from..].iter().take_while(|pick| pick.to == first.to).count();
            let group = Group {
                width: self.layout.width(),
                sums,
                panel: self.panel,
                picks: &self.picks[from..from + same],
                factors: self.factors.map(|factors| &factors[from * sums..]),
            };
            if let Some(next) = self.picks.get(from + same) {
                prefetch_all(&self.to[next.to as usize * sums..][..sums.min(MOST_AHEAD)]);
            }
            let to = &mut self.to[first.to as usize * sums..][..sums];
            let mut n = 0;
            while n + BLOCK <= sums {
                group.add::<M, BLOCK>(n, n, |pick| pick.weight, &mut to[n..]);
                n += BLOCK;
            }
            while n < sums {
                group.add::<M, { Picked::TILE }>(n, n, |pick| pick.weight, &mut to[n..]);
                n += Picked::TILE;
            }
            for n in (0..second).step_by(Picked::TILE) {
                group.add::<M, { Picked::TILE }>(sums + n, at + n, |pick| pick.value, &mut to[at + n..]);
            }
            from += same;
        }
    }
}

/// Picks of one row of the sums.
struct Group<'a> {
    width: usize,
    sums: usize,
    panel: &'a [f64],
    picks: &'a [Pick],
    factors: Option<&'a [f64]>,
}

impl Group<'_> {
    /// Adds numbers `n..` of the panel's rows, times those of the factors at `f..`.
    #[inline(always)]
    fn add<M: Arithmetic, const B: usize>(
        &self,
        n: usize,
        f: usize,
        by: impl Fn(&Pick) -> f64,
        to: &mut [f64],
    ) {
        let Some(to) = to.first_chunk_mut::<B>() else { return };
        let mut sums = *to;
        if let Some(factors) = self.factors {
            let mut at = f;
            for pick in self.picks {
                let row = self.panel[pick.from as usize * self.width + n..].first_chunk::<B>();
                let (Some(row), Some(factors)) = (row, factors[at..].first_chunk::<B>()) else { return };
                let by = by(pick);
                for n in 0..B {
                    sums[n] = M::fma(by * factors[n], row[n], sums[n]);
                }
                at += self.sums;
            }
        } else {
            for pick in self.picks {
                let row = self.panel[pick.from as usize * self.width + n..].first_chunk::<B>();
                let Some(row) = row else { return };
                let by = by(pick);
                for n in 0..B {
                    sums[n] = M::fma(by, row[n], sums[n]);
                }
            }
        }
        *to = sums;
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
        for (sums, second, at) in [(8, 0, 0), (8, 8, 0), (40, 16, 23), (152, 16, 136), (24, 8, 15)] {
            let layout = Picked { sums, second, at };
            let (rows, places, count) = (7, 5, 60);
            let panel = numbers(rows * layout.width(), 1);
            let factors = numbers(count * sums, 2);
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
                    let row = &panel[pick.from as usize * layout.width()..][..layout.width()];
                    let factor = |n: usize| if scaled { factors[number * sums + n] } else { 1.0 };
                    let to = &mut plain[pick.to as usize * sums..][..sums];
                    (0..sums).for_each(|n| to[n] += pick.weight * factor(n) * row[n]);
                    (0..second).for_each(|n| to[at + n] += pick.value * factor(at + n) * row[sums + n]);
                }
                limit::with_each(|instructions| {
                    let mut to = begin.clone();
                    match scaled {
                        true => layout.add_scaled(&panel, &picks, &factors, &mut to),
                        false => layout.add(&panel, &picks, &mut to),
                    }
                    for (ours, plain) in to.iter().zip(&plain) {
                        assert!((ours - plain).abs() < 1e-12, "{layout:?} {scaled} {instructions:?}");
                    }
                });
            }
        }
    }
}
