//! The linearised change on the two last levels, for rows of fixed width.
//!
//! With the contracted core C, its derivative dC, the rows u, v of an entry and their changes
//! xi_u, xi_v: s = C^T u, ds = dC^T u + C^T xi_u, X = s . v and L = ds . v + s . xi_v.

use super::arithmetic::{Arithmetic, axpy_row, dot_row, dots_row};
use super::dispatch::RankJob;
use super::inner::{Columns, Rows, TOGETHER, padded_rows};
use super::sums::StepSums;

/// The entries below one node of the level before the last two, and what is read for them.
pub(super) struct StepInner<'b> {
    pub(super) columns: Columns<'b>,
    /// The contracted core, r_1 x r_2.
    pub(super) contracted: &'b [f64],
    /// Its derivative.
    pub(super) changed: &'b [f64],
    pub(super) rows: [Rows<'b>; 2],
    /// The rows of the direction.
    pub(super) changes: [Rows<'b>; 2],
    pub(super) sums: &'b mut StepSums,
}

impl RankJob for StepInner<'_> {
    #[inline(always)]
    fn run<M: Arithmetic, const R1: usize, const P1: usize, const R2: usize, const P2: usize>(self) {
        let line = Line::<P1, P2> {
            matrix: padded_rows(self.contracted, self.rows[1].rank),
            changed: padded_rows(self.changed, self.rows[1].rank),
            rows: self.rows,
            changes: self.changes,
        };
        let mut sums = StepSums::default();
        if self.columns.ends.is_some() {
            for (id1, ids2, values) in self.columns.fibres() {
                let ([s], [ds]) = line.products::<M, R1, 1>(&[id1]);
                for (&id2, &value) in ids2.iter().zip(values) {
                    line.add::<M>(&s, &ds, id2, value, &mut sums);
                }
            }
        } else {
            let Columns { ids1, ids2, values, .. } = self.columns;
            // Four entries together pay only at this width. Measured with AVX-512: 16 ns against 22
            // at rank 5, but 173 against 44 at rank 10, where the compiler's code falls apart.
            let together = if P2 == 8 { values.len() - values.len() % TOGETHER } else { 0 };
            let (ids1, rest1) = ids1.split_at(together);
            let (ids2, rest2) = ids2.split_at(together);
            let (values, rest) = values.split_at(together);
            if P2 == 8 {
                let (ids1, _) = ids1.as_chunks::<TOGETHER>();
                for (chunk, ids1) in ids1.iter().enumerate() {
                    let (s, ds) = line.products::<M, R1, TOGETHER>(ids1);
                    for n in 0..TOGETHER {
                        let entry = TOGETHER * chunk + n;
                        line.add::<M>(&s[n], &ds[n], ids2[entry], values[entry], &mut sums);
                    }
                }
            }
            for ((&id1, &id2), &value) in rest1.iter().zip(rest2).zip(rest) {
                let ([s], [ds]) = line.products::<M, R1, 1>(&[id1]);
                line.add::<M>(&s, &ds, id2, value, &mut sums);
            }
        }
        self.sums.add(&sums);
    }
}

struct Line<'b, const P1: usize, const P2: usize> {
    matrix: [[f64; P2]; P1],
    changed: [[f64; P2]; P1],
    rows: [Rows<'b>; 2],
    changes: [Rows<'b>; 2],
}

impl<const P1: usize, const P2: usize> Line<'_, P1, P2> {
    /// s = C^T u and ds = dC^T u + C^T xi_u for several rows.
    #[inline(always)]
    fn products<M: Arithmetic, const R1: usize, const N: usize>(
        &self,
        ids1: &[u32; N],
    ) -> ([[f64; P2]; N], [[f64; P2]; N]) {
        let u: [&[f64; P1]; N] = self.rows[0].get_all(ids1);
        let xi: [&[f64; P1]; N] = self.changes[0].get_all(ids1);
        let (mut s, mut ds) = ([[0.0; P2]; N], [[0.0; P2]; N]);
        for a in 0..R1 {
            for n in 0..N {
                axpy_row::<M, P2>(u[n][a], &self.matrix[a], &mut s[n]);
                axpy_row::<M, P2>(u[n][a], &self.changed[a], &mut ds[n]);
                axpy_row::<M, P2>(xi[n][a], &self.matrix[a], &mut ds[n]);
            }
        }
        (s, ds)
    }

    /// One entry.
    #[inline(always)]
    fn add<M: Arithmetic>(&self, s: &[f64; P2], ds: &[f64; P2], id2: u32, value: f64, sums: &mut StepSums) {
        let (v, xi) = (self.rows[1].get::<P2>(id2), self.changes[1].get::<P2>(id2));
        let e = dot_row::<M, P2>(s, v) - value;
        let l = dots_row::<M, P2>(ds, v, s, xi);
        sums.residual_change = M::fma(e, l, sums.residual_change);
        sums.change_change = M::fma(l, l, sums.change_change);
        sums.squares = M::fma(e, e, sums.squares);
    }
}
