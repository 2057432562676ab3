//! Dense arithmetic on rows and contracted cores, written so that the compiler vectorises it.

#![allow(unsafe_code)]

#[cfg(target_arch = "aarch64")]
use super::neon::Neon4;
use super::vector::{Four, Pair, Portable, Vector};
#[cfg(target_arch = "x86_64")]
use super::x86::{Wide4, Wide8};

/// How a product is added to a sum.
pub(super) trait Arithmetic {
    /// Four numbers.
    type Four: Four;
    /// Eight numbers: a tile of the rows that sweeps go through.
    type Eight: Vector;
    /// a b + c.
    fn fma(a: f64, b: f64, c: f64) -> f64;
}

/// Multiply, round, add, round: for processors without a fused instruction, where `mul_add` would
/// be a call of a slow function.
pub(super) struct Separate;

impl Arithmetic for Separate {
    type Four = Portable;
    type Eight = Pair<Portable, Portable>;
    #[inline(always)]
    fn fma(a: f64, b: f64, c: f64) -> f64 {
        a * b + c
    }
}

/// One fused instruction.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) struct Fused;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
impl Arithmetic for Fused {
    // Whoever names `Fused` has detected what these need.
    #[cfg(target_arch = "aarch64")]
    type Four = Neon4;
    #[cfg(target_arch = "x86_64")]
    type Four = Wide4;
    type Eight = Pair<Self::Four, Self::Four>;
    #[inline(always)]
    fn fma(a: f64, b: f64, c: f64) -> f64 {
        a.mul_add(b, c)
    }
}

/// The same with AVX-512, where eight numbers are one register.
#[cfg(target_arch = "x86_64")]
pub(super) struct FusedWide;

#[cfg(target_arch = "x86_64")]
impl Arithmetic for FusedWide {
    // Whoever names `FusedWide` has detected what these need.
    type Four = Wide4;
    type Eight = Wide8;
    #[inline(always)]
    fn fma(a: f64, b: f64, c: f64) -> f64 {
        a.mul_add(b, c)
    }
}

/// y += a x.
#[inline(always)]
pub(super) fn axpy<M: Arithmetic>(a: f64, x: &[f64], y: &mut [f64]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y = M::fma(a, x, *y);
    }
}

/// The sum of x_i y_i, in eight partial sums.
#[inline(always)]
pub(super) fn dot<M: Arithmetic>(x: &[f64], y: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (xs, x_rest) = x.as_chunks::<8>();
    let (ys, y_rest) = y.as_chunks::<8>();
    for (x, y) in xs.iter().zip(ys) {
        for n in 0..8 {
            sums[n] = M::fma(x[n], y[n], sums[n]);
        }
    }
    let mut rest = 0.0;
    for (&x, &y) in x_rest.iter().zip(y_rest) {
        rest = M::fma(x, y, rest);
    }
    let [a, b, c, d, e, f, g, h] = sums;
    let [a, b, c, d] = [a + e, b + f, c + g, d + h];
    (a + c) + (b + d) + rest
}

/// y += a x over a padded row.
#[inline(always)]
pub(super) fn axpy_row<M: Arithmetic, const P: usize>(a: f64, x: &[f64; P], y: &mut [f64; P]) {
    for n in 0..P {
        y[n] = M::fma(a, x[n], y[n]);
    }
}

/// How many numbers of a contracted core are summed up together, in registers.
const BLOCK: usize = 8;

/// out = u^T C, where C has `u.len()` rows of `out.len()` numbers.
#[inline(always)]
pub(super) fn contract<M: Arithmetic>(u: &[f64], c: &[f64], out: &mut [f64]) {
    if let (Ok(u), Ok(c), Ok(out)) =
        (<&[f64; 4]>::try_from(u), <&[f64; 64]>::try_from(c), <&mut [f64; 16]>::try_from(&mut *out))
    {
        // Ranks of four: lengths that the compiler knows. The same sums in the same order.
        let mut sums = [0.0; 16];
        for (u, c) in u.iter().zip(c.as_chunks().0) {
            axpy_row::<M, 16>(*u, c, &mut sums);
        }
        *out = sums;
        return;
    }
    out.fill(0.0);
    contract_add::<M>(u, c, out);
}

/// out += u^T C.
#[inline(always)]
pub(super) fn contract_add<M: Arithmetic>(u: &[f64], c: &[f64], out: &mut [f64]) {
    let columns = out.len();
    assert_eq!(c.len(), u.len() * columns, "a row of C per number of u");
    let (blocks, rest) = out.as_chunks_mut::<BLOCK>();
    let mut start = 0;
    for block in blocks {
        let mut sums = *block;
        // By position: `chunks_exact` would divide, which takes as long as a dozen entries.
        let mut at = start;
        for &u in u {
            if let Some(row) = c[at..].first_chunk() {
                axpy_row::<M, BLOCK>(u, row, &mut sums);
            }
            at += columns;
        }
        *block = sums;
        start += BLOCK;
    }
    if !rest.is_empty() {
        let mut at = start;
        for &u in u {
            axpy::<M>(u, &c[at..][..rest.len()], rest);
            at += columns;
        }
    }
}

/// The way back through [`contract`]: with A the adjoint of u^T C, `du += C A` is what u receives
/// and `adjoint += u (x) A` what C does.
#[inline(always)]
pub(super) fn back<M: Arithmetic>(u: &[f64], c: &[f64], below: &[f64], du: &mut [f64], adjoint: &mut [f64]) {
    if let (Ok(u), Ok(c), Ok(below), Ok(du), Ok(adjoint)) = (
        u.try_into(),
        c.try_into(),
        below.try_into(),
        <&mut [f64; 4]>::try_from(&mut *du),
        <&mut [f64; 64]>::try_from(&mut *adjoint),
    ) {
        return back_of_four::<M::Four>(u, c, below, du, adjoint);
    }
    let mut at = 0;
    for (&u, du) in u.iter().zip(du) {
        *du += dot::<M>(&c[at..][..below.len()], below);
        axpy::<M>(u, below, &mut adjoint[at..][..below.len()]);
        at += below.len();
    }
}

/// [`back`] for ranks of four, in vectors: left to itself the compiler takes pairs of numbers.
#[inline(always)]
fn back_of_four<F: Four>(
    u: &[f64; 4],
    c: &[f64; 64],
    below: &[f64; 16],
    du: &mut [f64; 4],
    adjoint: &mut [f64; 64],
) {
    // SAFETY: everything read and written is four numbers that start within an array of fours.
    unsafe {
        let four = |numbers: &[f64], n: usize| F::load(numbers[4 * n..][..4].as_ptr());
        let a = [four(below, 0), four(below, 1), four(below, 2), four(below, 3)];
        let mut sums = [F::splat(0.0); 4];
        for i in 0..4 {
            for n in 0..4 {
                sums[i] = four(c, 4 * i + n).fma(a[n], sums[i]);
                let to = four(adjoint, 4 * i + n);
                F::splat(u[i]).fma(a[n], to).store(adjoint[16 * i + 4 * n..][..4].as_mut_ptr());
            }
        }
        F::sums(sums).add(F::load(du.as_ptr())).store(du.as_mut_ptr());
    }
}
