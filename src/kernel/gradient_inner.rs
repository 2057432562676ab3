//! The gradient on the two last levels, for rows padded to a fixed width.
//!
//! With the contracted core C (r_1 x r_2), the rows u and v of an entry and its residual
//! e = u^T C v - y: the row of u receives e C v, that of v e C^T u, and the adjoint of C receives
//! e u v^T.

use super::arithmetic::{Arithmetic, axpy_row, dot_row};
use super::dispatch::RankJob;
use super::inner::{Columns, Matrix, Rows, TOGETHER, add_to_row};
use super::sums::RowSums;

/// The entries below one node of the level before the last two, what is read for them and what is
/// added to; 1 is the level before the last, 2 the last.
pub(super) struct GradientInner<'b> {
    pub(super) columns: Columns<'b>,
    /// The contracted core, r_1 x r_2.
    pub(super) contracted: &'b [f64],
    pub(super) rows: [Rows<'b>; 2],
    pub(super) sums1: &'b mut RowSums,
    pub(super) sums2: &'b mut RowSums,
    /// Receives the sum of e u v^T, r_1 x r_2.
    pub(super) adjoint: &'b mut [f64],
    /// Receives the sum of e^2.
    pub(super) squares: &'b mut f64,
}

impl RankJob for GradientInner<'_> {
    #[inline(always)]
    fn run<M: Arithmetic, const R1: usize, const P1: usize, const R2: usize, const P2: usize>(
        self,
    ) {
        let matrix = Matrix::new(self.contracted, self.sums1.rank, self.sums2.rank);
        let mut buffers = Buffers::<P1, P2> {
            rows1: self.rows[0],
            rows2: self.rows[1],
            first1: self.sums1.first,
            d1: &mut self.sums1.data,
            d2: &mut self.sums2.data,
            outer: [[0.0; P2]; P1],
        };
        *self.squares += match self.columns.ends {
            Some(_) => fibres::<M, R1, P1, R2, P2>(&matrix, &mut buffers, &self.columns),
            None => flat::<M, R1, P1, R2, P2>(&matrix, &mut buffers, &self.columns),
        };
        for (to, from) in self.adjoint.chunks_exact_mut(matrix.r2).zip(&buffers.outer) {
            for (to, from) in to.iter_mut().zip(from) {
                *to += from;
            }
        }
    }
}

struct Buffers<'b, const P1: usize, const P2: usize> {
    rows1: Rows<'b>,
    rows2: Rows<'b>,
    /// The index of the first row of `d1`.
    first1: usize,
    d1: &'b mut [f64],
    d2: &'b mut [f64],
    /// The sum of e u v^T.
    outer: [[f64; P2]; P1],
}

/// Entries that share nothing: both products with C per entry. Returns the sum of e^2.
#[inline(always)]
fn flat<M: Arithmetic, const R1: usize, const P1: usize, const R2: usize, const P2: usize>(
    matrix: &Matrix<P1, P2>,
    buffers: &mut Buffers<'_, P1, P2>,
    columns: &Columns<'_>,
) -> f64 {
    let mut squares = 0.0;
    let (chunks1, rest1) = columns.ids1.as_chunks::<TOGETHER>();
    let (chunks2, rest2) = columns.ids2.as_chunks::<TOGETHER>();
    let (chunks, rest) = columns.values.as_chunks::<TOGETHER>();
    for ((ids1, ids2), values) in chunks1.iter().zip(chunks2).zip(chunks) {
        squares += together::<M, R1, P1, R2, P2, TOGETHER>(matrix, buffers, ids1, ids2, values);
    }
    for ((&id1, &id2), &value) in rest1.iter().zip(rest2).zip(rest) {
        squares += together::<M, R1, P1, R2, P2, 1>(matrix, buffers, &[id1], &[id2], &[value]);
    }
    squares
}

#[inline(always)]
fn together<
    M: Arithmetic,
    const R1: usize,
    const P1: usize,
    const R2: usize,
    const P2: usize,
    const N: usize,
>(
    matrix: &Matrix<P1, P2>,
    buffers: &mut Buffers<'_, P1, P2>,
    ids1: &[u32; N],
    ids2: &[u32; N],
    values: &[f64; N],
) -> f64 {
    let u: [&[f64; P1]; N] = buffers.rows1.get_all(ids1);
    let v: [&[f64; P2]; N] = buffers.rows2.get_all(ids2);
    let mut cu = [[0.0; P2]; N];
    for a in 0..R1 {
        for n in 0..N {
            axpy_row::<M, P2>(u[n][a], &matrix.rows[a], &mut cu[n]);
        }
    }
    let mut cv = [[0.0; P1]; N];
    for b in 0..R2 {
        for n in 0..N {
            axpy_row::<M, P1>(v[n][b], &matrix.columns[b], &mut cv[n]);
        }
    }
    let mut squares = 0.0;
    let mut ev = [[0.0; P2]; N];
    for n in 0..N {
        let e = dot_row::<M, P2>(&cu[n], v[n]) - values[n];
        squares = M::fma(e, e, squares);
        for b in 0..P2 {
            ev[n][b] = e * v[n][b];
        }
        add_to_row::<M, P2>(buffers.d2, ids2[n] as usize * matrix.r2, e, &cu[n]);
        add_to_row::<M, P1>(
            buffers.d1,
            (ids1[n] as usize - buffers.first1) * matrix.r1,
            e,
            &cv[n],
        );
    }
    for a in 0..R1 {
        let mut row = buffers.outer[a];
        for n in 0..N {
            axpy_row::<M, P2>(u[n][a], &ev[n], &mut row);
        }
        buffers.outer[a] = row;
    }
    squares
}

/// Entries in fibres: C^T u once per fibre, and back once per fibre. Returns the sum of e^2.
#[inline(always)]
fn fibres<M: Arithmetic, const R1: usize, const P1: usize, const R2: usize, const P2: usize>(
    matrix: &Matrix<P1, P2>,
    buffers: &mut Buffers<'_, P1, P2>,
    columns: &Columns<'_>,
) -> f64 {
    let mut squares = 0.0;
    for (id1, ids2, values) in columns.fibres() {
        let u = buffers.rows1.get::<P1>(id1);
        let mut cu = [0.0; P2];
        for a in 0..R1 {
            axpy_row::<M, P2>(u[a], &matrix.rows[a], &mut cu);
        }
        // The sum of e v.
        let mut ev = [0.0; P2];
        for (&id2, &value) in ids2.iter().zip(values) {
            let v = buffers.rows2.get::<P2>(id2);
            let e = dot_row::<M, P2>(&cu, v) - value;
            squares = M::fma(e, e, squares);
            axpy_row::<M, P2>(e, v, &mut ev);
            add_to_row::<M, P2>(buffers.d2, id2 as usize * matrix.r2, e, &cu);
        }
        let mut cv = [0.0; P1];
        for b in 0..R2 {
            axpy_row::<M, P1>(ev[b], &matrix.columns[b], &mut cv);
        }
        add_to_row::<M, P1>(
            buffers.d1,
            (id1 as usize - buffers.first1) * matrix.r1,
            1.0,
            &cv,
        );
        for a in 0..R1 {
            axpy_row::<M, P2>(u[a], &ev, &mut buffers.outer[a]);
        }
    }
    squares
}
