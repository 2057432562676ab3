//! Rows of a level, read and added to as vectors.
//!
//! Rows lie one after the other without padding, so that no memory is spent on it: a row of rank 5 is
//! read under a mask, as eight numbers of which three are zero.

#![allow(unsafe_code)]

use super::dispatch::MAX_RANK;
use super::factors::FactorsView;
use super::inner::TOGETHER;
use super::sums::RowSums;
use super::vector::Vector;

/// How many entries ahead rows are asked for: some 50 to 200 ns, the time that memory needs.
const AHEAD: usize = 16;

/// From which size on a level's rows are asked for ahead, in numbers: below 512 kB the second cache has
/// them, and asking costs more than it saves (5.9 ns against 5.4 for the ratings' gradient at rank 4).
const FAR: usize = 1 << 16;

/// The rows of a level.
#[derive(Clone, Copy)]
pub(super) struct Rows<'b> {
    /// The rows, row-major, without padding.
    all: &'b [f64],
    rank: usize,
    count: usize,
}

impl<'b> Rows<'b> {
    /// The rows of a level of rank at most [`MAX_RANK`].
    pub(super) fn new(factors: &FactorsView<'b>, level: usize) -> Self {
        let rank = factors.ranks()[level];
        assert!(rank <= MAX_RANK, "a row fits a vector");
        Rows { all: factors.rows(level), rank, count: factors.dim(level) }
    }

    /// The rank: how long a row is.
    #[inline(always)]
    pub(super) fn rank(&self) -> usize {
        self.rank.min(MAX_RANK)
    }

    /// The row `id`, number by number.
    #[inline(always)]
    pub(super) fn row(&self, id: u32) -> &'b [f64] {
        assert!((id as usize) < self.count);
        // SAFETY: there are `count` rows of `rank` numbers, and `id` is one of them.
        unsafe { self.all.get_unchecked(id as usize * self.rank..(id as usize + 1) * self.rank) }
    }

    /// Four rows, number by number. (A loop: `array::map` is not reliably inlined.)
    #[inline(always)]
    pub(super) fn rows(&self, ids: &[u32; TOGETHER]) -> [&'b [f64]; TOGETHER] {
        let mut rows: [&[f64]; TOGETHER] = [&[]; TOGETHER];
        for n in 0..TOGETHER {
            rows[n] = self.row(ids[n]);
        }
        rows
    }

    /// The rows as vectors, which `run_for_rank` chose for this rank.
    #[inline(always)]
    pub(super) fn as_vectors<V: Vector>(self) -> RowVectors<'b, V> {
        assert!(V::fits(self.rank), "a vector for rank {}", self.rank);
        RowVectors { rows: self, mask: V::mask(self.rank) }
    }

    /// Asks for the rows of entries to come.
    #[inline(always)]
    pub(super) fn prefetch(&self, ids: &[u32], entry: usize) {
        prefetch(self.all, ids, entry, 0, self.rank);
    }
}

/// The rows of a level, to read as vectors.
#[derive(Clone, Copy)]
pub(super) struct RowVectors<'b, V: Vector> {
    rows: Rows<'b>,
    /// Made for the rank, which it contains no more lanes than.
    mask: V::Mask,
}

impl<V: Vector> RowVectors<'_, V> {
    /// Four rows.
    #[inline(always)]
    pub(super) fn four(&self, ids: &[u32; TOGETHER]) -> [V; TOGETHER] {
        let mut four = [V::splat(0.0); TOGETHER];
        for n in 0..TOGETHER {
            // SAFETY: the row has all numbers in the mask.
            four[n] = unsafe { V::load_row(self.rows.row(ids[n]).as_ptr(), self.mask) };
        }
        four
    }
}

/// The sums of a level's gradient rows, to add to.
pub(super) struct RowAdder<'b> {
    /// The rows, and [`MAX_RANK`] numbers behind them.
    data: &'b mut [f64],
    first: usize,
    rank: usize,
    count: usize,
}

impl<'b> RowAdder<'b> {
    pub(super) fn new(sums: &'b mut RowSums) -> Self {
        let RowSums { first, rank, ref mut data } = *sums;
        let count = (data.len() - MAX_RANK) / rank;
        RowAdder { data, first, rank, count }
    }

    /// Adds a x to the row `id` from its number `from` on, which exists; x is zero beyond the rank,
    /// and `mask` leaves none of its other numbers out.
    #[inline(always)]
    pub(super) fn add<V: Vector>(&mut self, id: u32, from: usize, a: f64, x: V, mask: V::Mask) {
        let row = (id as usize).wrapping_sub(self.first);
        assert!(row < self.count && from < self.rank && V::LANES <= MAX_RANK);
        // SAFETY: `count` rows of `rank` numbers and MAX_RANK more are there, and this starts inside
        // one of these rows.
        unsafe { x.add_to_row(a, self.data.as_mut_ptr().add(row * self.rank + from), mask) }
    }

    /// Asks for the rows of entries to come.
    #[inline(always)]
    pub(super) fn prefetch(&self, ids: &[u32], entry: usize) {
        prefetch(self.data, ids, entry, self.first, self.rank);
    }
}

/// Asks for the rows of four of the entries after `entry`, to be used soon.
#[inline(always)]
fn prefetch(numbers: &[f64], ids: &[u32], entry: usize, first: usize, rank: usize) {
    if numbers.len() < FAR {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(ids) = ids.get(entry + AHEAD..entry + AHEAD + TOGETHER) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        for &id in ids {
            let start = (id as usize).wrapping_sub(first).wrapping_mul(rank);
            // SAFETY: part of every x86-64 processor, the instruction reads nothing and ignores
            // addresses that are not mapped; this one is not claimed to be inside the slice.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(numbers.as_ptr().wrapping_add(start).cast()) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (ids, entry, first, rank, AHEAD);
}
