//! Latent: the mixture of low-rank tensors (R. Tomioka, K. Hayashi, H. Kashima, *Estimation of low-rank
//! tensors via convex optimization*, 2011),
//!
//! min sum_d |Z_d|_*  such that sum_d Z_d = y on Omega,
//!
//! where each Z_d has a low rank in its own mode only. Alternating directions on the dual,
//! max <y, a> such that every unfolding of a (0 off Omega) has a spectral norm of at most 1; the
//! multipliers of the copies W_d of a are the Z_d.

use super::nuclear::shrink;
use super::{Completion, Observed};
use rayon::prelude::*;
use tenfill_engine::manifold::Core;

/// The step, as a share of the largest singular value of the known entries.
const STEP: f64 = 0.1;

/// All that the next step depends on.
pub struct Latent {
    observed: Observed,
    sum: Core,
    /// Z_d.
    parts: Vec<Core>,
    /// W_d.
    copies: Vec<Core>,
    eta: f64,
    fit: f64,
}

impl Latent {
    /// Everything is 0.
    pub fn new(observed: Observed) -> Self {
        let zeros = Core::zeros(&observed.dims);
        let order = observed.dims.len();
        let fit = observed.mean_square();
        let eta = STEP * observed.scale();
        Latent {
            parts: vec![zeros.clone(); order],
            copies: vec![zeros.clone(); order],
            sum: zeros,
            eta,
            fit,
            observed,
        }
    }

    /// W_d, whose unfolding has no singular value above 1.
    pub fn copy(&self, mode: usize) -> &Core {
        &self.copies[mode]
    }
}

impl Completion for Latent {
    /// a = (y - sum_d Z_d + eta sum_d W_d) / (D eta) on Omega; then A = Z_d + eta a, Z_d = shrink_d(A, eta)
    /// and W_d = (A - Z_d) / eta, the projection of A / eta onto the ball of the spectral norm.
    fn iterate(&mut self) {
        let (order, eta) = (self.parts.len() as f64, self.eta);
        let dual: Vec<(usize, f64)> = self
            .observed
            .train
            .iter()
            .map(|&(place, y)| {
                let copies: f64 = self.copies.iter().map(|w| w.as_slice()[place]).sum();
                (place, (y - self.sum.as_slice()[place] + eta * copies) / (order * eta))
            })
            .collect();
        self.parts.par_iter_mut().zip(&mut self.copies).enumerate().for_each(|(mode, (z, w))| {
            let numbers = z.as_mut_slice();
            dual.iter().for_each(|&(place, a)| numbers[place] += eta * a);
            let shrunk = shrink(z, mode, eta).tensor;
            w.copy_from(z);
            w.axpby(-1.0 / eta, &shrunk, 1.0 / eta);
            z.copy_from(&shrunk);
        });
        self.sum.fill(0.0);
        self.parts.iter().for_each(|z| self.sum.axpy(1.0, z));
        self.fit = super::mean_squared_error(&self.sum, &self.observed.train);
    }

    fn estimate(&self) -> &Core {
        &self.sum
    }

    fn train_mse(&self) -> f64 {
        self.fit
    }
}
