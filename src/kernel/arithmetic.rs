//! Dense arithmetic on rows and contracted cores, written so that the compiler vectorises it.

/// How a product is added to a sum.
pub(super) trait Arithmetic {
    /// a b + c.
    fn fma(a: f64, b: f64, c: f64) -> f64;
}

/// Multiply, round, add, round: for processors without a fused instruction, where `mul_add` would
/// be a call of a slow function.
pub(super) struct Separate;

impl Arithmetic for Separate {
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
    let mut at = 0;
    for (&u, du) in u.iter().zip(du) {
        *du += dot::<M>(&c[at..][..below.len()], below);
        axpy::<M>(u, below, &mut adjoint[at..][..below.len()]);
        at += below.len();
    }
}
