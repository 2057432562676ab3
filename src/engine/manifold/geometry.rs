//! The verbs that a solver moves with. The two metrics of the quotient differ in nothing but the weight
//! that they give to a change of a factor; [`Embedded`](super::Embedded) has verbs of its own.

use super::frame::Frame;
use super::point::{Point, Tangent};
use super::retraction::{StepTooLong, retract};

/// Eigenvalues of G_d G_d^T below this share of the largest are raised to it in the
/// preconditioned metric.
pub const GUARD: f64 = 1e-14;

/// A Riemannian metric on the Tucker manifold,
///
/// g_x(xi, eta) = sum_d <xi_d, eta_d A_d> + <xi_G, eta_G>,
///
/// where A_d is symmetric positive definite, shares its eigenvectors with G_d G_d^T and turns
/// with the point's representation, so that the metric descends to the quotient.
pub trait Geometry: Send + Sync {
    /// Turns the eigenvalues of G_d G_d^T into those of A_d, all positive; returns how many had to
    /// be guarded because the metric would have been (nearly) singular.
    fn weigh(&self, eigenvalues: &mut [f64]) -> usize;

    /// What the metric needs to know about one point, computed once: all verbs (inner product,
    /// gradient, projections, transport) are the frame's.
    fn frame<'a>(&self, point: &'a Point) -> Frame<'a> {
        Frame::new(point, |values| self.weigh(values))
    }

    /// The same at a point of which it is known how much it misses: an estimate of |Y - X|^2 over the
    /// whole tensor. Most metrics do not ask.
    fn frame_missing<'a>(&self, point: &'a Point, missed: f64) -> Frame<'a> {
        let _ = missed;
        self.frame(point)
    }

    /// Turns Euclidean partials at the frame's point into the Riemannian gradient, in place.
    fn gradient(&self, frame: &Frame<'_>, partials: &mut Tangent) {
        frame.gradient(partials);
    }

    /// The vector transport of xi, which belongs to the point `from`, to the frame's point, in place.
    fn transport(&self, frame: &Frame<'_>, from: &Point, xi: &mut Tangent) {
        let _ = from; // In the quotient a vector is projected as the matrices that it consists of.
        frame.transport(xi);
    }

    /// The point a step along a direction, into `out`.
    ///
    /// # Errors
    ///
    /// [`StepTooLong`]; `out` then holds nothing of use.
    fn retract(
        &self,
        point: &Point,
        direction: &Tangent,
        step: f64,
        out: &mut Point,
    ) -> Result<(), StepTooLong> {
        retract(point, direction, step, out)
    }
}

/// The paper's metric, A_d = G_d G_d^T: the block diagonal of the Hessian of the fully sampled
/// problem. A gradient in it is already preconditioned.
///
/// Where G_d G_d^T is singular or nearly so, eigenvalues below [`GUARD`] times the largest are
/// raised to that; a zero core gets A_d = I. Otherwise no bit is changed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Preconditioned;

/// The conventional metric, A_d = I: the natural metrics of the Stiefel manifolds and of
/// R^{r_1 x ... x r_D} (case S1 of the paper).
#[derive(Debug, Clone, Copy, Default)]
pub struct Euclidean;

impl Geometry for Preconditioned {
    fn weigh(&self, eigenvalues: &mut [f64]) -> usize {
        let largest = eigenvalues.iter().copied().fold(0.0, f64::max);
        let floor = GUARD * largest;
        if floor <= 0.0 || !largest.is_finite() {
            eigenvalues.fill(1.0);
            return eigenvalues.len();
        }
        let mut guarded = 0;
        for value in eigenvalues {
            if *value < floor || value.is_nan() {
                *value = floor;
                guarded += 1;
            }
        }
        guarded
    }
}

impl Geometry for Euclidean {
    fn weigh(&self, eigenvalues: &mut [f64]) -> usize {
        eigenvalues.fill(1.0);
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guard_acts_only_below_its_floor() {
        let mut good = [3.0, 1e-13, 2e-14];
        assert_eq!(Preconditioned.weigh(&mut good), 1);
        assert_eq!(good, [3.0, 1e-13, 3e-14]);
        let mut zero = [0.0; 3];
        assert_eq!(Preconditioned.weigh(&mut zero), 3);
        assert_eq!(zero, [1.0; 3]);
        let mut broken = [f64::NAN, 1.0];
        assert_eq!(Preconditioned.weigh(&mut broken), 1);
        assert_eq!(broken, [1e-14, 1.0]);
    }
}
