//! How large the values and weights of a dataset are: what errors are small beside, and what numbers are
//! multiplied by where they would not fit.

use super::manifest::{Manifest, Split};
use crate::units::towards_one;

/// Values and weights from a millionth to a million are computed with as they are.
const NEAR: i32 = 20;

impl Manifest {
    /// The mean of the train values, weighted where they have weights; 0 where there are none.
    pub fn mean(&self) -> f64 {
        match &self.weights {
            Some(weights) => weights.train.values / weights.train.sum,
            None => self.values.sum / self.train.entries.max(1) as f64,
        }
    }

    /// The variance of the train values about their mean, weighted likewise; never 0.
    pub fn variance(&self) -> f64 {
        let variance = match self.values.deviations {
            Some(deviations) => deviations / self.weight(Split::Train),
            None => self.mean_square() - self.mean().powi(2),
        };
        variance.max(f64::MIN_POSITIVE)
    }

    /// What an error is small beside: the variance of the train values; where they are all equal, their
    /// mean square; where they are all 0, 1. Never less than what the digits of a difference of sums can tell.
    pub fn spread_square(&self) -> f64 {
        let square = match self.mean_square() {
            0.0 => 1.0,
            square => square,
        };
        // Deviations that were summed as such are told down to the rounding of a value.
        let digits = if self.values.deviations.is_some() { 2f64.powi(-100) } else { 2f64.powi(-50) };
        if self.values.min == self.values.max { square } else { self.variance().max(square * digits) }
    }

    /// The mean square of the train values, weighted likewise.
    pub fn mean_square(&self) -> f64 {
        match &self.weights {
            Some(weights) => weights.train.squares / weights.train.sum,
            None => self.values.sum_of_squares / self.train.entries.max(1) as f64,
        }
    }

    /// The power of two that brings the train values close to 1: sums in single precision overflow
    /// without it where values are huge.
    pub fn value_scale(&self) -> f64 {
        towards_one(self.mean_square().sqrt(), NEAR)
    }

    /// The same for the weights, whose size says nothing: they count beside one another.
    pub fn weight_scale(&self) -> f64 {
        self.weights.as_ref().map_or(1.0, |weights| {
            let count = self.train.entries.saturating_sub(weights.train.zeros).max(1);
            towards_one(weights.train.sum / count as f64, NEAR)
        })
    }
}
