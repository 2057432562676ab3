//! What a run is asked to do.

use serde::{Deserialize, Serialize};

// What other values do: docs/thresholds.md.
/// The Armijo constant: a step s along d is taken when it lowers the cost by at least
/// `ARMIJO * s * |<grad, d>|`.
pub const ARMIJO: f64 = 1e-4;

/// A step is halved until it is taken, and at most this many steps are tried.
pub const MAX_TRIES: usize = 25;

/// The cosine from which on two gradients in succession do not count as nearly orthogonal.
pub const ORTHOGONAL: f64 = 0.1;

/// The share of the whole step that leaves the damping of a metric as it is.
pub(super) const MODERATE: f64 = 0.2;

/// How fast damping follows the steps: it changes by the ratio of the two to this power.
pub(super) const ADAPTATION: f64 = 0.2;

/// Where that ends.
pub(super) const LEAST_DAMPING: f64 = 1e-3;
pub(super) const MOST_DAMPING: f64 = 100.0;

/// How directions follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// d = -g+ + beta T(d).
    #[default]
    ConjugateGradient,
    /// d = -g+.
    SteepestDescent,
    /// Steps from chunks of the data with momentum, and then conjugate gradients.
    Stochastic,
    /// Few passes: steps from chunks until they have found the way down, conjugate gradients until their
    /// steps hardly change, and then steps of one pass each; conjugate gradients again where that fails.
    Auto,
    /// Conjugate gradients with the restart rule of geomCG (Kressner, Steinlechner and Vandereycken
    /// 2014): d = -g+ wherever |<g+, T(g)>| is [`ORTHOGONAL`] times <g+, g+> or more. Their method is
    /// this with [`Beta::PolakRibiere`] in the [`Embedded`](crate::manifold::Embedded) geometry.
    #[serde(rename = "geomcg")]
    GeomCg,
}

/// The factor beta of conjugate gradients. With g+ the new gradient, T the transport to the new
/// point, y = g+ - T(g), and all inner products in the metric at the new point:
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Beta {
    /// Hestenes and Stiefel: max(0, <g+, y> / <y, T(d)>).
    #[default]
    HestenesStiefel,
    /// Polak and Ribiere: max(0, <g+, y> / <g, g>), the last at the old point.
    PolakRibiere,
    /// max(0, min(HS, DY)), Dai and Yuan's being <g+, g+> / <y, T(d)>: for costs that are far
    /// from exactly low-rank.
    HestenesStiefelDaiYuan,
}

/// How long a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepRule {
    /// t = -<r, L> / <L, L>, the minimum of the linearised cost; the paper's retraction.
    #[default]
    Linearised,
    /// The least minimum of the cost along the line (G + s xi_G) x_d (U_d + s xi_d), a polynomial
    /// of degree 2 (D + 1); the retraction that absorbs the polar factor, so that the point stays
    /// on that line.
    Exact,
}

/// What a run is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// How directions follow one another.
    pub algorithm: Algorithm,
    /// The factor beta of conjugate gradients.
    pub beta: Beta,
    /// How long a step is.
    pub step: StepRule,
    /// Stop when the train MSE is at most this; 0 switches it off.
    pub tolerance: f64,
    /// Stop when the gradient norm is at most this times the first; 0 leaves only a gradient that
    /// is exactly zero.
    pub gradient_tolerance: f64,
    /// Stop after this many iterations.
    pub max_iterations: usize,
    /// Stop when this many iterations have not improved the validation MSE; 0 switches it off.
    pub patience: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            algorithm: Algorithm::default(),
            beta: Beta::default(),
            step: StepRule::default(),
            tolerance: 1e-12,
            gradient_tolerance: 1e-14,
            max_iterations: 250,
            patience: 0,
        }
    }
}
