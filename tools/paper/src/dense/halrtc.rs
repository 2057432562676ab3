//! HaLRTC (J. Liu, P. Musialski, P. Wonka, J. Ye, *Tensor completion for estimating missing values in
//! visual data*, 2013, their last algorithm): alternating directions on
//!
//! min sum_d 1/D |M_d|_*  such that X = M_d for every d, X = T on Omega,
//!
//! where |M_d|_* is the nuclear norm of the mode-d unfolding of the tensor M_d.

use super::nuclear::shrink;
use super::{Completion, Observed};
use rayon::prelude::*;
use tenfill_engine::manifold::Core;

/// How much the penalty grows with each step; between 1.1 and 1.2 in the publication.
const GROWTH: f64 = 1.1;

/// All that the next step depends on.
pub struct HaLrtc {
    observed: Observed,
    x: Core,
    /// Y_d, the multipliers of X = M_d.
    multipliers: Vec<Core>,
    rho: f64,
    fit: f64,
}

impl HaLrtc {
    /// X = T on Omega and 0 elsewhere; the first thresholds are as large as the largest singular value.
    pub fn new(observed: Observed) -> Self {
        let x = observed.filled_with_zeros();
        let order = observed.dims.len();
        let rho = 1.0 / (order as f64 * observed.scale());
        let fit = observed.mean_square();
        HaLrtc { multipliers: vec![Core::zeros(&observed.dims); order], x, rho, fit, observed }
    }
}

impl Completion for HaLrtc {
    /// M_d = shrink_d(X + Y_d / rho, 1/(D rho)); X = mean of M_d - Y_d / rho off Omega;
    /// Y_d = Y_d - rho (M_d - X); rho grows.
    fn iterate(&mut self) {
        let order = self.multipliers.len();
        let (x, rho) = (&self.x, self.rho);
        let parts: Vec<Core> = self
            .multipliers
            .par_iter()
            .enumerate()
            .map(|(mode, y)| {
                let mut moved = x.clone();
                moved.axpy(1.0 / rho, y);
                shrink(&moved, mode, 1.0 / (order as f64 * rho)).tensor
            })
            .collect();
        self.x.fill(0.0);
        for (m, y) in parts.iter().zip(&self.multipliers) {
            self.x.axpy(1.0 / order as f64, m);
            self.x.axpy(-1.0 / (order as f64 * rho), y);
        }
        self.fit = super::mean_squared_error(&self.x, &self.observed.train);
        self.observed.put(&mut self.x);
        let x = &self.x;
        self.multipliers.par_iter_mut().zip(&parts).for_each(|(y, m)| {
            y.axpy(-rho, m);
            y.axpy(rho, x);
        });
        self.rho *= GROWTH;
    }

    fn estimate(&self) -> &Core {
        &self.x
    }

    fn train_mse(&self) -> f64 {
        self.fit
    }
}
