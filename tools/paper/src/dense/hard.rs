//! Hard completion (M. Signoretto, Q. Tran Dinh, L. De Lathauwer, J. Suykens, *Learning with tensors: a
//! framework based on convex optimization and spectral regularization*, 2014): the known entries are
//! kept to the letter,
//!
//! min sum_d 1/D |X_d|_*  such that X = T on Omega,
//!
//! by proximal splitting. With a copy Z_d of the tensor for every mode it is the sum of two functions
//! whose proximal operators are known, the nuclear norms and the indicator of "all copies are equal and
//! fit", and the method of Douglas and Rachford applies.

use super::nuclear::shrink;
use super::{Completion, Observed};
use rayon::prelude::*;
use tenfill_engine::manifold::Core;

/// The threshold, as a share of the largest singular value of the known entries.
const THRESHOLD: f64 = 0.05;

/// All that the next step depends on.
pub struct Hard {
    observed: Observed,
    x: Core,
    copies: Vec<Core>,
    gamma: f64,
    fit: f64,
}

impl Hard {
    /// All copies are T on Omega and 0 elsewhere.
    pub fn new(observed: Observed) -> Self {
        let x = observed.filled_with_zeros();
        let order = observed.dims.len();
        let gamma = order as f64 * THRESHOLD * observed.scale();
        let fit = observed.mean_square();
        Hard { copies: vec![x.clone(); order], x, gamma, fit, observed }
    }
}

impl Completion for Hard {
    /// X = mean of Z_d off Omega, T on it; Z_d = Z_d + shrink_d(2 X - Z_d, gamma / D) - X.
    fn iterate(&mut self) {
        let order = self.copies.len();
        let (x, tau) = (&self.x, self.gamma / order as f64);
        let fits: Vec<f64> = self
            .copies
            .par_iter_mut()
            .enumerate()
            .map(|(mode, z)| {
                let mut reflected = x.clone();
                reflected.axpby(-1.0, z, 2.0);
                let shrunk = shrink(&reflected, mode, tau).tensor;
                z.axpy(1.0, &shrunk);
                z.axpy(-1.0, x);
                super::mean_squared_error(&shrunk, &self.observed.train)
            })
            .collect();
        self.fit = fits.iter().sum::<f64>() / order as f64;
        self.x.fill(0.0);
        self.copies.iter().for_each(|z| self.x.axpy(1.0 / order as f64, z));
        self.observed.put(&mut self.x);
    }

    fn estimate(&self) -> &Core {
        &self.x
    }

    fn train_mse(&self) -> f64 {
        self.fit
    }
}
