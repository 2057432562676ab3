//! What the kernels for the two last levels share: the contracted core as padded rows, and columns.

use super::dispatch::MAX_RANK;
use super::factors::FactorsView;
use super::rows::Rows;
use super::vector::Vector;
use std::ops::Range;

/// How many entries are handled together: one load of the matrix serves them all, their dot products
/// are reduced by one transposition, and the processor has independent chains of additions to work on.
pub(super) const TOGETHER: usize = 4;

/// A matrix of at most [`MAX_RANK`] rows, padded with zeros to whole vectors.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Padded(pub(super) [[f64; WIDTH]; MAX_RANK]);

/// The width of a padded row: two vectors of twelve numbers, the most that a rank of 16 needs.
const WIDTH: usize = 24;

impl Default for Padded {
    fn default() -> Self {
        Padded([[0.0; WIDTH]; MAX_RANK])
    }
}

// Not inlined, because they would be compiled for every vector. What lies behind the rows that the
// matrix has is never read, so it is not cleared: that took longer than the first dozen entries.
impl Padded {
    /// Takes over the rows of a row-major matrix.
    #[inline(never)]
    pub(super) fn set_rows(&mut self, dense: &[f64], columns: usize) {
        for (dense, row) in dense.chunks_exact(columns).zip(&mut self.0) {
            *row = [0.0; WIDTH];
            for (number, dense) in row.iter_mut().zip(dense) {
                *number = *dense;
            }
        }
    }

    /// Takes over the columns of a row-major matrix, as rows.
    #[inline(never)]
    pub(super) fn set_columns(&mut self, dense: &[f64], columns: usize) {
        self.clear(columns);
        for (a, dense) in dense.chunks_exact(columns).enumerate() {
            for (column, dense) in self.0.iter_mut().zip(dense) {
                column[a] = *dense;
            }
        }
    }

    /// Sets the first rows to zero.
    #[inline(never)]
    pub(super) fn clear(&mut self, rows: usize) {
        for row in self.0.iter_mut().take(rows) {
            *row = [0.0; WIDTH];
        }
    }

    /// Adds to a row-major matrix.
    #[inline(never)]
    pub(super) fn add_to(&self, dense: &mut [f64], columns: usize) {
        for (dense, row) in dense.chunks_exact_mut(columns).zip(&self.0) {
            for (dense, number) in dense.iter_mut().zip(row) {
                *dense += *number;
            }
        }
    }
}

/// The sum of x_n\[a\] C\[a\] over the rows a of C, for several x (one per entry): the numbers from
/// `from` on.
#[inline(always)]
pub(super) fn combine<V: Vector, const N: usize>(
    c: &Padded,
    from: usize,
    rank: usize,
    x: [&[f64]; N],
) -> [V; N] {
    let rank = rank.min(MAX_RANK);
    let mut numbers: [&[f64]; N] = [&[]; N];
    for n in 0..N {
        numbers[n] = &x[n][..rank];
    }
    let mut sums = [V::splat(0.0); N];
    for a in 0..rank {
        let row = V::load(&c.0[a][from..]);
        for n in 0..N {
            sums[n] = V::splat(numbers[n][a]).fma(row, sums[n]);
        }
    }
    sums
}

/// [`combine`] for four, as many at a time as registers suffice for.
#[inline(always)]
pub(super) fn combine_four<V: Vector>(c: &Padded, from: usize, rank: usize, x: [&[f64]; 4]) -> [V; 4] {
    if 4 * V::REGISTERS <= V::HELD {
        return combine(c, from, rank, x);
    }
    let [first, second] = combine(c, from, rank, [x[0], x[1]]);
    let [third, fourth] = combine(c, from, rank, [x[2], x[3]]);
    [first, second, third, fourth]
}

/// Four numbers from `start` on.
#[inline(always)]
pub(super) fn four_from<T: Copy>(numbers: &[T], start: usize) -> [T; TOGETHER] {
    *numbers[start..].first_chunk().expect("columns have room behind them")
}

/// Whether the two last levels have kernels of their own.
pub(super) fn has_inner(ranks: &[usize]) -> bool {
    ranks.iter().rev().take(2).all(|&rank| rank <= MAX_RANK)
}

/// The decoded columns of the entries below one node of the level before the last two. Behind them
/// are [`TOGETHER`] ids and values more, so that the last entries can be read like the others.
pub(super) struct Columns<'b> {
    /// The number of entries.
    pub(super) entries: usize,
    /// The ids of the nodes of the level before the last: of fibres, or of entries.
    pub(super) ids1: &'b [u32],
    /// The entries' ids on the last level.
    pub(super) ids2: &'b [u32],
    pub(super) values: &'b [f64],
    /// Where entries come in fibres, the last entry (exclusive) of each fibre, in the block.
    pub(super) ends: Option<&'b [u16]>,
    /// The number of the first entry in the block.
    pub(super) start: usize,
}

impl Columns<'_> {
    /// The fibres: index on the level before the last, and entries. Nothing where there are none.
    #[inline(always)]
    pub(super) fn fibres(&self) -> impl Iterator<Item = (u32, Range<usize>)> {
        let mut from = 0;
        self.ends.unwrap_or(&[]).iter().zip(self.ids1).map(move |(&end, &id1)| {
            let fibre = from..usize::from(end) - self.start;
            from = fibre.end;
            (id1, fibre)
        })
    }
}

/// The rows of the two last levels.
pub(super) fn inner_rows<'b>(factors: &FactorsView<'b>) -> [Rows<'b>; 2] {
    [2, 1].map(|from_end| Rows::new(factors, factors.order() - from_end))
}
