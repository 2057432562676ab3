//! The proximal operator of the nuclear norm of an unfolding.

use tenfill_engine::manifold::Core;
use tenfill_engine::rows::Square;

/// What [`shrink`] gives.
pub struct Shrunk {
    /// argmin over P of tau |P_d|_* + 1/2 |P - A|^2.
    pub tensor: Core,
    /// |P_d|_*, the sum of the singular values of its unfolding.
    pub nuclear_norm: f64,
    /// The rank of its unfolding.
    pub rank: usize,
}

/// Lowers the singular values of the mode-d unfolding A_d by tau, those below it to 0.
///
/// With A_d A_d^T = V diag(s^2) V^T the result is A x_d V diag(max(0, 1 - tau / s)) V^T: the short side of
/// the unfolding is all that is ever decomposed.
pub fn shrink(a: &Core, mode: usize, tau: f64) -> Shrunk {
    let (values, vectors) = eigen(a, mode);
    let n = values.len();
    let singular: Vec<f64> = values.iter().map(|value| value.max(0.0).sqrt()).collect();
    let factor = |s: f64| if s > tau { 1.0 - tau / s } else { 0.0 };
    let kept: Vec<usize> = (0..n).filter(|&k| singular[k] > tau).collect();
    let matrix = Square::from_fn(n, |i, j| {
        kept.iter().map(|&k| vectors[(i, k)] * factor(singular[k]) * vectors[(j, k)]).sum()
    });
    let nuclear_norm = kept.iter().map(|&k| singular[k] - tau).sum();
    Shrunk { tensor: a.mode_product(mode, &matrix), nuclear_norm, rank: kept.len() }
}

/// The largest singular value of the mode-d unfolding.
pub fn largest_singular_value(a: &Core, mode: usize) -> f64 {
    eigen(a, mode).0.into_iter().fold(0.0, f64::max).sqrt()
}

/// Numbers that are not finite have no decomposition; the run then shows it in its errors.
fn eigen(a: &Core, mode: usize) -> (Vec<f64>, Square) {
    let n = a.ranks()[mode];
    a.unfolding_gram(a, mode).symmetric_eigen().unwrap_or_else(|| (vec![f64::NAN; n], Square::identity(n)))
}
