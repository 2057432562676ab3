//! What a model costs beside its error: a penalty on the core, which no pass over the data needs.

use crate::manifold::Core;
use crate::rows::Square;
use serde::{Deserialize, Serialize};

/// Which norm of the core is penalised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PenaltyKind {
    /// lambda * sum over modes d of the nuclear norm of G_d: drives whole directions to zero.
    #[default]
    Nuclear,
    /// lambda^2 * sum over modes and singular values of log(1 + sigma / lambda): as the nuclear norm
    /// for what is small, so that noise is kept out, and less and less for what is large.
    Log,
    /// lambda * |G|_F^2: shrinks all directions alike.
    Frobenius,
}

/// A penalty on the core. In orthonormal factors the singular values of an unfolding of the core
/// are those of the tensor's, so this is a penalty on the tensor.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Penalty {
    /// The norm.
    pub kind: PenaltyKind,
    /// Its weight beside the mean squared error; 0 for none.
    pub lambda: f64,
    /// epsilon: the nuclear norm is taken as the trace of (G_d G_d^T + epsilon I)^(1/2), which has
    /// a gradient everywhere. Tiny beside the variance of the values.
    pub smoothing: f64,
}

/// Halvings of the interval that holds the best step.
const HALVINGS: usize = 30;

impl Penalty {
    /// None.
    pub fn none() -> Self {
        Penalty::default()
    }

    /// Its value at a core.
    pub fn value(&self, core: &Core) -> f64 {
        if self.lambda == 0.0 {
            return 0.0;
        }
        if self.kind == PenaltyKind::Frobenius {
            return self.lambda * core.dot(core);
        }
        let of_one = |v: &f64| match self.kind {
            PenaltyKind::Log => self.lambda * self.lambda * (v.sqrt() / self.lambda).ln_1p(),
            _ => self.lambda * v.sqrt(),
        };
        let of_mode = |mode: usize| self.spectrum(core, mode).0.iter().map(of_one).sum::<f64>();
        (0..core.order()).map(of_mode).sum()
    }

    /// Adds its gradient to `to`: lambda * sum_d (G_d G_d^T + epsilon I)^(-1/2) G_d, folded, with
    /// lambda / (lambda + sigma) beside every singular value for the logarithm; or 2 lambda G.
    pub fn add_gradient(&self, core: &Core, to: &mut Core) {
        if self.lambda == 0.0 {
            return;
        }
        match self.kind {
            PenaltyKind::Frobenius => to.axpy(2.0 * self.lambda, core),
            PenaltyKind::Nuclear | PenaltyKind::Log => {
                for mode in 0..core.order() {
                    let (values, basis) = self.spectrum(core, mode);
                    let weight = |v: &f64| match self.kind {
                        PenaltyKind::Log => self.lambda / (self.lambda + v.sqrt()) / v.sqrt(),
                        _ => 1.0 / v.sqrt(),
                    };
                    let weights: Vec<f64> = values.iter().map(weight).collect();
                    let root = Square::from_fn(values.len(), |i, j| {
                        (0..values.len()).map(|a| basis[(i, a)] * basis[(j, a)] * weights[a]).sum()
                    });
                    to.axpy(self.lambda, &core.mode_product(mode, &root));
                }
            }
        }
    }

    /// Half the slope, and half the curvature that makes -slope / curvature the best step, of
    ///
    /// 2 s t + c t^2 + penalty(G + t xi),
    ///
    /// given the error's own s and c. The sum is convex in t for the norms, and nearly so for the
    /// logarithm: its best step is found by bisection of the slope, on cores alone.
    pub fn step(&self, core: &Core, xi: &Core, s: f64, c: f64) -> (f64, f64) {
        if self.lambda == 0.0 {
            return (s, c);
        }
        if self.kind == PenaltyKind::Frobenius {
            return (s + self.lambda * core.dot(xi), c + self.lambda * xi.dot(xi));
        }
        let slope = |t: f64| {
            let mut at = core.clone();
            at.axpy(t, xi);
            let mut gradient = Core::zeros(core.ranks());
            self.add_gradient(&at, &mut gradient);
            s + c * t + gradient.dot(xi) / 2.0
        };
        let first = slope(0.0);
        if first >= 0.0 || !first.is_finite() {
            return (first, c);
        }
        let mut high = -first / c;
        // The penalty's slope only rises, so this end is at or behind the best step; it is where
        // the penalty is linear along the line.
        let mut low = 0.0;
        if !(high.is_finite() && slope(high) > 0.0) {
            return (first, c);
        }
        for _ in 0..HALVINGS {
            let middle = 0.5 * (low + high);
            if slope(middle) > 0.0 {
                high = middle;
            } else {
                low = middle;
            }
            if high - low <= 1e-3 * high {
                break;
            }
        }
        (first, -first / (0.5 * (low + high)))
    }

    /// The eigenvalues of G_d G_d^T + epsilon I, none below epsilon, and the eigenvectors.
    fn spectrum(&self, core: &Core, mode: usize) -> (Vec<f64>, Square) {
        let gram = core.unfolding_gram(core, mode);
        let r = gram.size();
        let (mut values, basis) =
            gram.symmetric_eigen().unwrap_or_else(|| (vec![f64::NAN; r], Square::identity(r)));
        values.iter_mut().for_each(|v| *v = v.max(0.0) + self.smoothing);
        (values, basis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core(seed: f64) -> Core {
        Core::from_vec(&[3, 2, 4], (0..24).map(|k| (k as f64 * seed).sin()).collect())
    }

    fn penalties() -> [Penalty; 3] {
        [PenaltyKind::Nuclear, PenaltyKind::Log, PenaltyKind::Frobenius].map(|kind| Penalty {
            kind,
            lambda: 0.3,
            smoothing: 1e-6,
        })
    }

    fn moved(core: &Core, t: f64, xi: &Core) -> Core {
        let mut out = core.clone();
        out.axpy(t, xi);
        out
    }

    #[test]
    fn the_gradient_is_that_of_the_value() {
        let (g, xi) = (core(0.7), core(1.9));
        for penalty in penalties() {
            let mut gradient = Core::zeros(g.ranks());
            penalty.add_gradient(&g, &mut gradient);
            let h = 1e-5;
            let difference = penalty.value(&moved(&g, h, &xi)) - penalty.value(&moved(&g, -h, &xi));
            let (numeric, exact) = (difference / (2.0 * h), gradient.dot(&xi));
            assert!((numeric / exact - 1.0).abs() < 1e-6, "{numeric} {exact}");
        }
    }

    #[test]
    fn a_diagonal_core_has_the_sum_of_its_numbers() {
        let mut g = Core::zeros(&[2, 2]);
        g.as_mut_slice().copy_from_slice(&[3.0, 0.0, 0.0, -0.5]);
        let penalty = Penalty { kind: PenaltyKind::Nuclear, lambda: 2.0, smoothing: 0.0 };
        assert!((penalty.value(&g) - 2.0 * 2.0 * 3.5).abs() < 1e-12);
    }

    #[test]
    fn the_step_is_the_best_of_all() {
        let (g, mut xi) = (core(0.7), core(1.9));
        xi.scale(-0.4);
        for penalty in penalties() {
            let (s, c) = (-0.9, 0.8);
            let (slope, curvature) = penalty.step(&g, &xi, s, c);
            let best = -slope / curvature;
            let cost = |t: f64| 2.0 * s * t + c * t * t + penalty.value(&moved(&g, t, &xi));
            assert!(best > 0.0 && cost(best) < cost(0.0));
            for t in [0.9 * best, 0.99 * best, 1.01 * best, 1.1 * best] {
                assert!(cost(t) > cost(best) - 1e-7, "{t} against {best}");
            }
        }
    }

    #[test]
    fn turning_the_core_changes_nothing() {
        let mut rng = <rand_pcg::Pcg64 as rand::SeedableRng>::seed_from_u64(4);
        let turns = crate::manifold::random_rotations(&[3, 2, 4], &mut rng);
        for penalty in penalties() {
            let (a, b) = (penalty.value(&core(0.7)), penalty.value(&core(0.7).product(&turns)));
            assert!((a - b).abs() < 1e-12);
        }
    }
}
