//! What the kernels for the two last levels share: the contracted core as a padded matrix.

use crate::shard::BlockView;
use std::ops::Range;

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
        let (mut rows, mut columns) = ([[0.0; P2]; P1], [[0.0; P1]; P2]);
        for (a, (dense, row)) in dense.chunks_exact(r2).zip(&mut rows).enumerate() {
            for b in 0..r2 {
                row[b] = dense[b];
                columns[b][a] = dense[b];
            }
        }
        Matrix { rows, columns, r1, r2 }
    }
}

/// The entries below the nodes `nodes` of the level before the last.
#[inline(always)]
pub(super) fn entries_below(block: &BlockView<'_>, nodes: &Range<usize>) -> Range<usize> {
    let level = block.order - 2;
    if level >= block.flat_from || nodes.is_empty() {
        return nodes.clone();
    }
    let ends = block.ends[level];
    let start = if nodes.start == 0 { 0 } else { usize::from(ends[nodes.start - 1]) };
    start..usize::from(ends[nodes.end - 1])
}
