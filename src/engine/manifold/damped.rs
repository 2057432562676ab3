//! The paper's metric for a fit that is still bad.

use super::frame::Frame;
use super::geometry::{Geometry, Preconditioned};
use super::point::Point;

// What other values do: docs/thresholds.md.
/// What the eigenvalues are raised by where there are [`PLENTY`] of entries, as a share of what the
/// fit misses.
const SHARE: f64 = 2e-3;
/// So many entries per degree of freedom. The share goes with the third power of their number,
const PLENTY: f64 = 10.0;
/// and where there are many, falls with the second: so many times itself over it. What damping is for is noise of sampling.
const MANY: f64 = 40.0;

/// The paper's metric with its eigenvalues raised while the fit is bad:
///
/// A_d = G_d G_d^T + delta I,   delta = 0.002 min(p^3, 40 / p^2) |Y - X|^2,   p = |Omega| / (10 dim),
///
/// where |Y - X|^2 is what the fit misses of the whole tensor, estimated from the train entries, and dim the
/// dimension of the manifold.
///
/// A gradient in the paper's metric is divided by G_d G_d^T. As long as the right subspaces have not been
/// found, the weak directions of the core are noise: their share of the gradient is blown up by small
/// eigenvalues, the step that fits all modes together becomes short for everything else, and the search
/// crawls, how long depending on the start. Raising what is small against the error itself takes that
/// away, and since delta vanishes with the error, convergence in the end is that of the paper's metric.
/// (For matrices, such damping is what makes preconditioned descent safe where the rank is too large:
/// Zhang, Fattahi and Zhang 2021.) With few entries per degree of freedom a damped search is drawn into
/// fits of the train entries alone, so it is damped less there, and with many it may be damped more: matrices
/// need that. With very many there is hardly any noise left, and the paper's metric is nearly the Hessian: diagonal cores of
/// which 30 % of all cells are known took a third more iterations with the share that matrices need. `tenfill-bench instances` and `classes` count iterations and passes.
#[derive(Debug, Clone, Copy)]
pub struct Damped {
    entries: f64,
}

impl Damped {
    /// The metric for so many train entries.
    pub const fn new(entries: u64) -> Self {
        Damped { entries: entries as f64 }
    }

    /// delta at a point that misses `missed` of the tensor's square.
    pub(super) fn delta(&self, point: &Point, missed: f64) -> f64 {
        let plenty = self.entries / (PLENTY * point.dimension() as f64);
        SHARE * plenty.powi(3).min(MANY / plenty.powi(2)) * missed
    }
}

impl Geometry for Damped {
    fn weigh(&self, eigenvalues: &mut [f64]) -> usize {
        Preconditioned.weigh(eigenvalues)
    }

    fn frame_missing<'a>(&self, point: &'a Point, missed: f64) -> Frame<'a> {
        let delta = self.delta(point, missed);
        Frame::new(point, |eigenvalues| {
            let guarded = Preconditioned.weigh(eigenvalues);
            raise(eigenvalues, delta);
            guarded
        })
    }
}

/// Adds delta to every eigenvalue, but no more than the largest of them.
fn raise(eigenvalues: &mut [f64], delta: f64) {
    let largest = eigenvalues.iter().copied().fold(0.0, f64::max);
    // Not a number, for a cost that is none, raises nothing.
    let delta = if delta > 0.0 { delta.min(largest) } else { 0.0 };
    eigenvalues.iter_mut().for_each(|value| *value += delta);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifold::{Distribution, random_point};

    #[test]
    fn what_is_missed_raises_every_eigenvalue_alike() {
        let mut values = [4.0, 1.0, 0.0];
        raise(&mut values, 0.5);
        assert_eq!(values, [4.5, 1.5, 0.5]);
        raise(&mut values, 1e9);
        assert_eq!(values, [9.0, 6.0, 5.0]);
        raise(&mut values, f64::NAN);
        assert_eq!(values, [9.0, 6.0, 5.0]);
    }

    #[test]
    fn few_entries_damp_less_many_more_very_many_less_and_a_perfect_fit_not_at_all() {
        let point = random_point(&[300, 200, 100], &[3, 3, 2], Distribution::Uniform, 1);
        let dimension = 300 * 3 - 9 + 200 * 3 - 9 + 100 * 2 - 4 + 18;
        let with = |entries: u64| Damped::new(entries).delta(&point, 100.0);
        assert!((with(10 * dimension) - 0.2).abs() < 1e-15);
        assert!((with(20 * dimension) - 1.6).abs() < 1e-14);
        assert!((with(80 * dimension) - 0.2 * 0.625).abs() < 1e-14);
        assert!((with(400 * dimension) - 0.2 / 40.0).abs() < 1e-14);
        assert!((with(5 * dimension) - 0.2 / 8.0).abs() < 1e-15);
        assert_eq!(Damped::new(1000).delta(&point, 0.0), 0.0);
    }

    #[test]
    fn with_nothing_missed_it_is_the_papers_metric() {
        let point = random_point(&[60, 50, 40], &[2, 3, 2], Distribution::Gaussian, 3);
        let damped = Damped::new(3000);
        let mut xi = crate::manifold::Tangent::zeros_like(&point);
        xi.factors[0].row_mut(1)[0] = 1.0;
        let paper = Preconditioned.frame(&point).inner(&xi, &xi);
        assert_eq!(damped.frame_missing(&point, 0.0).inner(&xi, &xi), paper);
        assert_eq!(damped.frame(&point).inner(&xi, &xi), paper);
        let raised = damped.frame_missing(&point, 7.0).inner(&xi, &xi);
        assert!((raised - paper - damped.delta(&point, 7.0)).abs() < 1e-12 * raised);
    }
}
