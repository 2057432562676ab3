//! Orthonormal columns from any columns.

use super::{Rows, Square};

/// The columns are (numerically) dependent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the factor's columns are linearly dependent")]
pub struct Dependent;

/// Replaces A by Q of A = Q R, Q with orthonormal columns, R upper triangular with a positive
/// diagonal; returns R.
///
/// By Cholesky of A^T A, again until Q^T Q is the identity to rounding: each round is two passes
/// over the rows and no copy of them. Where A^T A is too ill-conditioned for Cholesky, the first
/// round shifts its diagonal, which tames the condition number for the next.
///
/// # Errors
///
/// [`Dependent`], where no number of rounds helps.
pub fn orthonormalize(factor: &mut Rows) -> Result<Square, Dependent> {
    let r = factor.rank();
    let mut upper = Square::identity(r);
    for _ in 0..6 {
        let mut gram = factor.gram(factor);
        if gram.distance_from_identity() <= 8.0 * f64::EPSILON {
            return Ok(upper);
        }
        let round = match gram.cholesky() {
            Some(round) => round,
            None => {
                let trace: f64 = (0..r).map(|i| gram[(i, i)]).sum();
                let shift = 11.0 * f64::EPSILON * ((factor.rows() + r + 1) * r) as f64 * trace;
                (0..r).for_each(|i| gram[(i, i)] += shift);
                gram.cholesky().ok_or(Dependent)?
            }
        };
        factor.multiply(&round.upper_inverse());
        upper = round.times(&upper);
    }
    // Rounding may leave it a few units above the bound; far above it, columns are dependent.
    let error = factor.gram(factor).distance_from_identity();
    if error <= 1e-13 * r as f64 { Ok(upper) } else { Err(Dependent) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orthonormalize_survives_nearly_dependent_columns() {
        // Column 1 is column 0 plus 1e-9 of something else: the Gram matrix is singular to
        // rounding, the factor is not.
        let data = (0..50).flat_map(|i| {
            let x = (i as f64 * 0.7).sin();
            [x, x + 1e-9 * (i as f64 * 1.1).cos()]
        });
        let a = Rows::from_vec(50, 2, data.collect());
        let mut q = a.clone();
        let r = orthonormalize(&mut q).unwrap();
        assert!(q.gram(&q).distance_from_identity() < 1e-14);
        q.multiply(&r);
        for (x, y) in q.as_slice().iter().zip(a.as_slice()) {
            assert!((x - y).abs() < 1e-14);
        }
        let mut zero = Rows::zeros(5, 2);
        assert_eq!(orthonormalize(&mut zero), Err(Dependent));
    }

    #[test]
    fn q_is_orthonormal_and_qr_is_the_matrix() {
        for (rows, rank) in [(1, 1), (5, 5), (40, 7), (3000, 12)] {
            // Positive numbers: the columns are nearly along the same direction.
            let data = (0..rows * rank).map(|n| 0.5 + 0.5 * (1.3 * (n * n % 7919) as f64).sin());
            let a = Rows::from_vec(rows, rank, data.collect());
            let mut q = a.clone();
            let r = orthonormalize(&mut q).unwrap();
            assert!(q.gram(&q).distance_from_identity() < 1e-14, "{rows} x {rank}");
            for i in 0..rank {
                assert!(r[(i, i)] > 0.0 && (0..i).all(|j| r[(i, j)] == 0.0), "{rows} x {rank}");
            }
            q.multiply(&r);
            for (x, y) in q.as_slice().iter().zip(a.as_slice()) {
                assert!((x - y).abs() < 1e-13, "{rows} x {rank}");
            }
        }
    }
}
