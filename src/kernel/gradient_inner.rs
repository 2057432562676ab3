//! The gradient on the two last levels, for padded rows of fixed width.
//!
//! With the contracted core C (r_1 x r_2), the rows u and v of an entry and its residual
//! e = u^T C v - y: the row of u receives e C v, that of v e C^T u, and the adjoint of C receives
//! e u v^T.

use super::arithmetic::{Arithmetic, axpy_row, dot_row};
use super::inner::{Matrix, TOGETHER};

/// The rows to read and the sums to add to, of the level before the last (1) and the last (2).
pub(super) struct Buffers<'b, const P1: usize, const P2: usize> {
    pub(super) rows1: &'b [[f64; P1]],
    pub(super) rows2: &'b [[f64; P2]],
    /// The index of the first row of `d1`.
    pub(super) first1: usize,
    pub(super) d1: &'b mut [[f64; P1]],
    pub(super) d2: &'b mut [[f64; P2]],
    /// The sum of e u v^T.
    pub(super) outer: [[f64; P2]; P1],
}

/// Entries that share nothing: both products with C per entry. Returns the sum of e^2.
#[inline(always)]
pub(super) fn flat<M: Arithmetic, const P1: usize, const P2: usize>(
    matrix: &Matrix<P1, P2>,
    buffers: &mut Buffers<'_, P1, P2>,
    ids1: &[u32],
    ids2: &[u32],
    values: &[f64],
) -> f64 {
    let mut squares = 0.0;
    let (chunks1, rest1) = ids1.as_chunks::<TOGETHER>();
    let (chunks2, rest2) = ids2.as_chunks::<TOGETHER>();
    let (chunks, rest) = values.as_chunks::<TOGETHER>();
    for ((ids1, ids2), values) in chunks1.iter().zip(chunks2).zip(chunks) {
        squares += together::<M, P1, P2, TOGETHER>(matrix, buffers, ids1, ids2, values);
    }
    for ((&id1, &id2), &value) in rest1.iter().zip(rest2).zip(rest) {
        squares += together::<M, P1, P2, 1>(matrix, buffers, &[id1], &[id2], &[value]);
    }
    squares
}

#[inline(always)]
fn together<M: Arithmetic, const P1: usize, const P2: usize, const N: usize>(
    matrix: &Matrix<P1, P2>,
    buffers: &mut Buffers<'_, P1, P2>,
    ids1: &[u32; N],
    ids2: &[u32; N],
    values: &[f64; N],
) -> f64 {
    let mut u = [[0.0; P1]; N];
    let mut v = [[0.0; P2]; N];
    for n in 0..N {
        u[n] = buffers.rows1[ids1[n] as usize];
        v[n] = buffers.rows2[ids2[n] as usize];
    }
    let mut cu = [[0.0; P2]; N];
    for a in 0..matrix.r1.min(P1) {
        for n in 0..N {
            axpy_row::<M, P2>(u[n][a], &matrix.rows[a], &mut cu[n]);
        }
    }
    let mut cv = [[0.0; P1]; N];
    for b in 0..matrix.r2.min(P2) {
        for n in 0..N {
            axpy_row::<M, P1>(v[n][b], &matrix.columns[b], &mut cv[n]);
        }
    }
    let mut squares = 0.0;
    for n in 0..N {
        let e = dot_row::<M, P2>(&cu[n], &v[n]) - values[n];
        squares = M::fma(e, e, squares);
        axpy_row::<M, P2>(e, &cu[n], &mut buffers.d2[ids2[n] as usize]);
        axpy_row::<M, P1>(e, &cv[n], &mut buffers.d1[ids1[n] as usize - buffers.first1]);
        for a in 0..P1 {
            u[n][a] *= e;
        }
    }
    for a in 0..matrix.r1.min(P1) {
        for n in 0..N {
            axpy_row::<M, P2>(u[n][a], &v[n], &mut buffers.outer[a]);
        }
    }
    squares
}

/// Entries in fibres: C^T u once per fibre, and back once per fibre. Fibre `f` has the entries up
/// to `ends[f]`, counted from `start`. Returns the sum of e^2.
#[inline(always)]
pub(super) fn fibres<M: Arithmetic, const P1: usize, const P2: usize>(
    matrix: &Matrix<P1, P2>,
    buffers: &mut Buffers<'_, P1, P2>,
    ends: &[u16],
    start: usize,
    ids1: &[u32],
    ids2: &[u32],
    values: &[f64],
) -> f64 {
    let mut squares = 0.0;
    let mut from = 0;
    for (&end, &id1) in ends.iter().zip(ids1) {
        let to = usize::from(end) - start;
        let u = &buffers.rows1[id1 as usize];
        let mut cu = [0.0; P2];
        for a in 0..matrix.r1.min(P1) {
            axpy_row::<M, P2>(u[a], &matrix.rows[a], &mut cu);
        }
        // The sum of e v.
        let mut ev = [0.0; P2];
        for (&id2, &value) in ids2[from..to].iter().zip(&values[from..to]) {
            let v = &buffers.rows2[id2 as usize];
            let e = dot_row::<M, P2>(&cu, v) - value;
            squares = M::fma(e, e, squares);
            axpy_row::<M, P2>(e, v, &mut ev);
            axpy_row::<M, P2>(e, &cu, &mut buffers.d2[id2 as usize]);
        }
        from = to;
        let mut cv = buffers.d1[id1 as usize - buffers.first1];
        for b in 0..matrix.r2.min(P2) {
            axpy_row::<M, P1>(ev[b], &matrix.columns[b], &mut cv);
        }
        buffers.d1[id1 as usize - buffers.first1] = cv;
        for a in 0..matrix.r1.min(P1) {
            axpy_row::<M, P2>(u[a], &ev, &mut buffers.outer[a]);
        }
    }
    squares
}
