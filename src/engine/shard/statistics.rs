//! Statistics of values, taken one after the other.

use super::block::Recent;
use serde::{Deserialize, Serialize};

/// Minimum, maximum, mean and the like of the train values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ValueStatistics {
    /// The least.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// The sum.
    pub sum: f64,
    /// The sum of squares.
    pub sum_of_squares: f64,
    /// The number of distinct values, up to 256; null where there are more.
    pub distinct: Option<u32>,
    /// The sum of squared deviations from the mean, each with its weight: where sums of squares do not tell it,
    /// because the mean is large beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviations: Option<f64>,
    #[serde(skip)]
    running: Running,
    #[serde(skip)]
    seen: Vec<u64>,
    #[serde(skip)]
    recent: Recent,
}

impl Default for ValueStatistics {
    fn default() -> Self {
        ValueStatistics {
            min: f64::MAX,
            max: f64::MIN,
            sum: 0.0,
            sum_of_squares: 0.0,
            distinct: Some(0),
            deviations: None,
            running: Running::default(),
            seen: Vec::new(),
            recent: Recent::default(),
        }
    }
}

/// Values that are taken into a mean together: a division for each of them takes longer than all else about it.
const TOGETHER: usize = 32;

/// A mean and the squared deviations from it, some values at a time (Chan, Golub and LeVeque).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Running {
    weight: f64,
    mean: f64,
    deviations: f64,
    /// Values and weights that wait.
    values: [f64; TOGETHER],
    weights: [f64; TOGETHER],
    count: usize,
}

impl Running {
    #[inline]
    fn add(&mut self, value: f64, weight: f64) {
        (self.values[self.count], self.weights[self.count]) = (value, weight);
        self.count += 1;
        if self.count == TOGETHER {
            self.take();
        }
    }

    /// Takes those that wait.
    fn take(&mut self) {
        let waiting = || self.values.iter().zip(&self.weights).take(self.count);
        let weight: f64 = self.weights[..self.count].iter().sum();
        if weight > 0.0 {
            let mean = waiting().map(|(value, weight)| weight * value).sum::<f64>() / weight;
            let own: f64 = waiting().map(|(value, weight)| weight * (value - mean) * (value - mean)).sum();
            let (before, apart) = (self.weight, mean - self.mean);
            self.weight += weight;
            self.mean += apart * (weight / self.weight);
            self.deviations += own + apart * apart * (before * weight / self.weight);
        }
        self.count = 0;
    }
}

impl ValueStatistics {
    /// Of values that are not known yet.
    pub(super) fn expected() -> Self {
        ValueStatistics { min: 0.0, max: 1.0, distinct: None, ..ValueStatistics::default() }
    }

    /// The statistics of all values that were taken: deviations are told where they do not follow from the sums.
    pub fn settled(mut self) -> Self {
        self.running.take();
        let Running { weight, mean, deviations, .. } = self.running;
        // Of sums of squares the last digits are rounding: of their difference nothing is left below that.
        let rounding = 1e-10 * weight * mean * mean;
        self.deviations =
            (self.min < self.max && deviations < rounding && deviations.is_finite()).then_some(deviations);
        self.running = Running::default();
        self
    }

    /// Takes one more value, which counts so much.
    pub fn add(&mut self, value: f64, weight: f64) {
        self.running.add(value, weight);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.sum += value;
        self.sum_of_squares += value * value;
        let bits = value.to_bits();
        if let Some(distinct) = &mut self.distinct
            && self.recent.find(bits).is_none()
        {
            self.recent.put(bits, 0);
            let Err(at) = self.seen.binary_search(&bits) else { return };
            if *distinct == 256 {
                self.distinct = None;
                self.seen = Vec::new();
            } else {
                *distinct += 1;
                self.seen.insert(at, bits);
            }
        }
    }
}
