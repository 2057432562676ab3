//! Does the gradient belong to the cost? A tool for whoever writes an objective.

use rand::SeedableRng;
use rand_pcg::Pcg64;

use super::objective::Objective;
use crate::manifold::{Geometry, Point, Tangent, random_ambient};

/// What [`check_gradient`] found along one random horizontal direction of length 1.
#[derive(Debug, Clone, PartialEq)]
pub struct GradientCheck {
    /// h and |f(R(h xi)) - f - h <grad, xi>|, for h from 1 down to 1e-8.
    pub errors: Vec<(f64, f64)>,
    /// The steepest stretch of log(error) over log(h): 2 for a right gradient, 1 for a wrong one.
    pub slope: f64,
    /// The relative error of <grad, xi> against the best central difference.
    pub relative_error: f64,
}

/// Compares the Riemannian gradient with finite differences of the cost along a random
/// horizontal vector: `f(R(h xi)) = f + h <grad, xi> + O(h^2)`.
///
/// # Errors
///
/// The objective's own.
pub fn check_gradient<O: Objective>(
    geometry: &impl Geometry,
    objective: &mut O,
    point: &Point,
    seed: u64,
) -> Result<GradientCheck, O::Error> {
    let mut gradient = Tangent::zeros_like(point);
    let cost = objective.cost_and_gradient(point, &mut gradient)?.total;
    let frame = geometry.frame(point);
    geometry.gradient(&frame, &mut gradient);
    let mut xi = random_ambient(point, &mut Pcg64::seed_from_u64(seed));
    geometry.transport(&frame, point, &mut xi);
    xi.scale(1.0 / frame.inner(&xi, &xi).sqrt());
    let expected = frame.inner(&gradient, &xi);

    let mut trial = point.clone();
    let mut unused = Tangent::zeros_like(point);
    let mut at = |h: f64| match geometry.retract(point, &xi, h, &mut trial) {
        Ok(()) => Ok(objective.cost_and_gradient(&trial, &mut unused)?.total),
        Err(_) => Ok(f64::NAN),
    };
    let mut errors = vec![];
    let mut relative_error = f64::INFINITY;
    for k in 0..=16 {
        let h = 10f64.powf(-f64::from(k) / 2.0);
        let (forth, back) = (at(h)?, at(-h)?);
        errors.push((h, (forth - cost - h * expected).abs()));
        let central = (forth - back) / (2.0 * h);
        relative_error = relative_error.min((central - expected).abs() / expected.abs());
    }
    // Over a factor of 10 in h; rounding takes over where the error is that of the cost itself.
    let noise = 1e3 * f64::EPSILON * cost.abs();
    let slopes = errors.windows(3).filter(|w| w[2].1 > noise);
    let slopes = slopes.map(|w| (w[0].1 / w[2].1).log10());
    let slope = slopes.fold(f64::NEG_INFINITY, f64::max);
    Ok(GradientCheck { errors, slope, relative_error })
}
