//! What the kernels for the two last levels share: the contracted core as a padded matrix, and rows
//! read and written in whole vectors.
//!
//! Rows lie one after the other without padding, so that no memory is spent on it. A row of rank 5
//! is read as eight numbers all the same: the last three belong to the next row, and meet zeros of
//! the padded matrix wherever they would count. Adding to a row works likewise: the next row
//! receives zeros. The last rows of a level, with nothing behind them, are read from a copy.

use super::arithmetic::{Arithmetic, axpy_row};
use super::dispatch::MAX_RANK;
use super::factors::FactorsView;

/// How many entries are handled together, so that one load of the matrix serves them all and the
/// processor has independent chains of additions to work on.
pub(super) const TOGETHER: usize = 4;

/// The core contracted with the rows of all levels but the last two: an r_1 x r_2 matrix, padded
/// with zeros.
pub(super) struct Matrix<const P1: usize, const P2: usize> {
    /// The rows; those from r_1 on are zero.
    pub(super) rows: [[f64; P2]; P1],
    /// The columns; those from r_2 on are zero.
    pub(super) columns: [[f64; P1]; P2],
    /// The rank r_1, at most `P1`.
    pub(super) r1: usize,
    /// The rank r_2, at most `P2`.
    pub(super) r2: usize,
}

impl<const P1: usize, const P2: usize> Matrix<P1, P2> {
    /// Pads a row-major r_1 x r_2 matrix.
    #[inline(always)]
    pub(super) fn new(dense: &[f64], r1: usize, r2: usize) -> Self {
        let (r1, r2) = (r1.min(P1), r2.min(P2));
        let rows: [[f64; P2]; P1] = padded_rows(dense, r2);
        let mut columns = [[0.0; P1]; P2];
        for a in 0..P1 {
            for b in 0..P2 {
                columns[b][a] = rows[a][b];
            }
        }
        Matrix {
            rows,
            columns,
            r1,
            r2,
        }
    }
}

/// Pads a row-major matrix of r_2 columns with zeros.
#[inline(always)]
pub(super) fn padded_rows<const P1: usize, const P2: usize>(
    dense: &[f64],
    r2: usize,
) -> [[f64; P2]; P1] {
    let mut rows = [[0.0; P2]; P1];
    for (dense, row) in dense.chunks_exact(r2).zip(&mut rows) {
        for (dense, number) in dense.iter().zip(row) {
            *number = *dense;
        }
    }
    rows
}

/// The ranks of the two last levels where they have kernels of their own.
pub(super) fn inner_ranks(ranks: &[usize]) -> Option<[usize; 2]> {
    let inner = *ranks.last_chunk()?;
    inner.iter().all(|&rank| rank <= MAX_RANK).then_some(inner)
}

/// The decoded columns of the entries below one node of the level before the last two.
pub(super) struct Columns<'b> {
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
    /// The fibres: index, ids of the last level, values. Nothing where there are none.
    #[inline(always)]
    pub(super) fn fibres(&self) -> impl Iterator<Item = (u32, &[u32], &[f64])> {
        let mut from = 0;
        self.ends
            .unwrap_or(&[])
            .iter()
            .zip(self.ids1)
            .map(move |(&end, &id1)| {
                let fibre = from..usize::from(end) - self.start;
                from = fibre.end;
                (id1, &self.ids2[fibre.clone()], &self.values[fibre])
            })
    }
}

/// The rows of a level, read as whole vectors.
#[derive(Clone, Copy)]
pub(super) struct Rows<'b> {
    /// The rows, row-major, without padding.
    pub(super) all: &'b [f64],
    /// The last numbers of `all`, and zeros behind them.
    pub(super) end: &'b RowsEnd,
    pub(super) rank: usize,
}

/// The last [`MAX_RANK`] numbers of a level's rows and as many zeros.
pub(super) type RowsEnd = [f64; 2 * MAX_RANK];

/// The ends of the two last levels' rows.
pub(super) fn rows_end(factors: &FactorsView<'_>) -> [RowsEnd; 2] {
    [2, 1].map(|from_end| {
        let rows = factors.rows(factors.order() - from_end);
        let mut end = [0.0; 2 * MAX_RANK];
        let count = rows.len().min(MAX_RANK);
        end[MAX_RANK - count..MAX_RANK].copy_from_slice(&rows[rows.len() - count..]);
        end
    })
}

/// The rows of the two last levels, given their ends.
pub(super) fn inner_rows<'b>(factors: &FactorsView<'b>, ends: &'b [RowsEnd; 2]) -> [Rows<'b>; 2] {
    let first = factors.order() - 2;
    [0, 1].map(|n| Rows {
        all: factors.rows(first + n),
        end: &ends[n],
        rank: factors.ranks()[first + n],
    })
}

impl<'b> Rows<'b> {
    /// The row `index` and what follows it.
    #[inline(always)]
    pub(super) fn get<const P: usize>(&self, index: u32) -> &'b [f64; P] {
        let rows = &self.all[index as usize * self.rank..];
        match rows.first_chunk() {
            Some(row) => row,
            // Fewer than P <= MAX_RANK numbers are left: with the zeros there are enough.
            None => self.end[MAX_RANK - rows.len()..]
                .first_chunk()
                .expect("zeros follow"),
        }
    }

    /// Row `ids[n]` for every n. (A loop: `array::map` is not reliably inlined.)
    #[inline(always)]
    pub(super) fn get_all<const P: usize, const N: usize>(
        &self,
        ids: &[u32; N],
    ) -> [&'b [f64; P]; N] {
        let mut rows = [&[0.0; P]; N];
        for n in 0..N {
            rows[n] = self.get(ids[n]);
        }
        rows
    }
}

/// Adds a x to a row of sums; x is zero from the rank on, and the sums have room behind them.
#[inline(always)]
pub(super) fn add_to_row<M: Arithmetic, const P: usize>(
    sums: &mut [f64],
    start: usize,
    a: f64,
    x: &[f64; P],
) {
    let row = sums[start..]
        .first_chunk_mut()
        .expect("room behind the last row");
    axpy_row::<M, P>(a, x, row);
}
