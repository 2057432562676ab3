//! The inner loops of an entry's value: plain Rust that the compiler turns into vectors.

/// The widest row that gets a loop of its own; the sums of wider ones would not stay in registers.
const WIDEST: usize = 16;

/// out_j = sum_i row_i tensor_ij, four rows at a time so that `out` is read and written less often.
pub(super) fn contract(row: &[f64], tensor: &[f64], out: &mut [f64]) {
    let width = out.len();
    out.fill(0.0);
    let fours = row.len() / 4 * 4;
    let (row_fours, row_rest) = row.split_at(fours);
    let (tensor_fours, tensor_rest) = tensor.split_at(fours * width);
    for (u, g) in row_fours.chunks_exact(4).zip(tensor_fours.chunks_exact(4 * width)) {
        let (g0, g) = g.split_at(width);
        let (g1, g) = g.split_at(width);
        let (g2, g3) = g.split_at(width);
        for ((((o, g0), g1), g2), g3) in out.iter_mut().zip(g0).zip(g1).zip(g2).zip(g3) {
            *o += (u[0] * g0 + u[1] * g1) + (u[2] * g2 + u[3] * g3);
        }
    }
    for (u, g) in row_rest.iter().zip(tensor_rest.chunks_exact(width)) {
        for (o, g) in out.iter_mut().zip(g) {
            *o += u * g;
        }
    }
}

/// u^T M v for a row-major matrix M: (u, M, v) -> number.
pub(super) type Form = fn(&[f64], &[f64], &[f64]) -> f64;

/// The form for matrices of this width.
pub(super) fn form(width: usize) -> Form {
    const FORMS: [Form; WIDEST] = [
        narrow::<1>,
        narrow::<2>,
        narrow::<3>,
        narrow::<4>,
        narrow::<5>,
        narrow::<6>,
        narrow::<7>,
        narrow::<8>,
        narrow::<9>,
        narrow::<10>,
        narrow::<11>,
        narrow::<12>,
        narrow::<13>,
        narrow::<14>,
        narrow::<15>,
        narrow::<16>,
    ];
    if (1..=WIDEST).contains(&width) { FORMS[width - 1] } else { wide }
}

/// A width known to the compiler keeps the sums u^T M in registers.
fn narrow<const WIDTH: usize>(u: &[f64], matrix: &[f64], v: &[f64]) -> f64 {
    let mut sums = [0.0; WIDTH];
    for (u, row) in u.iter().zip(matrix.as_chunks::<WIDTH>().0) {
        for k in 0..WIDTH {
            sums[k] += u * row[k];
        }
    }
    dot(&sums, &v[..WIDTH])
}

fn wide(u: &[f64], matrix: &[f64], v: &[f64]) -> f64 {
    let rows = matrix.chunks_exact(v.len());
    u.iter().zip(rows).map(|(u, row)| u * dot(row, v)).sum()
}

/// Four sums side by side, since one alone would wait for every addition.
#[inline]
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a, a_rest) = a.as_chunks::<4>();
    let (b, b_rest) = b.as_chunks::<4>();
    let mut sums = [0.0; 4];
    for (a, b) in a.iter().zip(b) {
        for k in 0..4 {
            sums[k] += a[k] * b[k];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::random::{Purpose, Random};

    #[test]
    fn every_width_agrees_with_the_definition() {
        let mut random = Random::new(1, Purpose::Core, 0);
        let mut draw = |n: usize| -> Vec<f64> { (0..n).map(|_| random.uniform()).collect() };
        for height in [1, 3, 4, 9] {
            for width in 1..=21 {
                let (u, m, v) = (draw(height), draw(height * width), draw(width));
                let column = |j: usize| -> f64 { (0..height).map(|i| u[i] * m[i * width + j]).sum() };
                let mut out = vec![f64::NAN; width];
                contract(&u, &m, &mut out);
                assert!((0..width).all(|j| (out[j] - column(j)).abs() < 1e-14));
                let expected: f64 = (0..width).map(|j| column(j) * v[j]).sum();
                assert!((form(width)(&u, &m, &v) - expected).abs() < 1e-13);
            }
        }
    }
}
