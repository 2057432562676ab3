//! What a model keeps of a fit beside its means: how sure it is of them.

use super::sweeps::{Posterior, Terms};
use crate::model::{ModeUncertainty, Tails, Uncertainty};

impl Posterior {
    /// Variances, priors and noise, with modes in the user's order. Counts and features, which never change, are
    /// [put in](Self::keep_features) when a model is written.
    pub fn uncertainty(&self, terms: &Terms) -> Uncertainty {
        let mut modes = vec![ModeUncertainty::default(); self.levels.len()];
        for (level, &mode) in self.levels.iter().zip(&terms.mode_order) {
            let k = level.width;
            let (mut unknown, mut rows) = (vec![0.0; k], 0.0);
            for row in (0..level.rows).filter(|&row| level.counts[row] > 0.0) {
                let numbers = level.mean(row).iter().zip(level.variance(row));
                unknown.iter_mut().zip(numbers).for_each(|(to, (m, s))| *to += m * m + f64::from(*s));
                rows += 1.0;
            }
            unknown.iter_mut().for_each(|sum| *sum /= f64::max(rows, 1.0));
            modes[mode] = ModeUncertainty {
                width: k,
                variances: level.variances.clone(),
                unknown,
                coefficients: level.prior.coefficients.clone(),
                covariance: level.prior.covariance.clone(),
                ridge: level.prior.ridge,
                ..ModeUncertainty::default()
            };
        }
        let pair = terms.pair.map(|level| terms.mode_order[level]);
        let (noise, tails) = (self.noise, Tails::Normal);
        Uncertainty { unit: terms.spread, noise, held_out_noise: noise, tails, pair, modes }
    }

    /// Puts in what is known of rows before their values.
    pub fn keep_features(&self, terms: &Terms, uncertainty: &mut Uncertainty) {
        for (level, &mode) in self.levels.iter().zip(&terms.mode_order) {
            let (to, from) = (&mut uncertainty.modes[mode], &level.features);
            to.counts.clone_from(&level.counts);
            to.features.clone_from(from);
        }
    }
}
