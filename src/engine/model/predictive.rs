//! The distribution of an observation: about what the model says, and taken into the range where values at its ends
//! are censored.

use super::Ends;
use super::ends::{cumulative, density, tail};
use crate::transform::Transform;
use serde::{Deserialize, Serialize};
use std::f64::consts::PI;

/// How often a number lies far off, its variance being 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tails {
    /// As often as normal numbers do.
    Normal,
    /// More often, and more often near: a Student distribution of so many degrees of freedom.
    Student(u32),
}

impl Tails {
    pub(super) fn are_sensible(self) -> bool {
        match self {
            Tails::Normal => true,
            Tails::Student(degrees) => (3..=1000).contains(&degrees),
        }
    }

    /// The probability of a distance of at most `z` standard deviations.
    pub fn within(self, z: f64) -> f64 {
        let degrees = match self {
            Tails::Normal => return 1.0 - 2.0 * tail(z.max(0.0)),
            Tails::Student(degrees) => degrees,
        };
        // For whole numbers of degrees a finite sum, in the angle of t / sqrt(n); the variance is n / (n - 2).
        let n = f64::from(degrees);
        let angle = (z.max(0.0) / (n - 2.0).sqrt()).atan();
        let (sine, cosine) = angle.sin_cos();
        let odd = degrees % 2 == 1;
        let mut term = if odd { cosine } else { 1.0 };
        let mut sum = if degrees > 1 { term } else { 0.0 };
        let mut power = if odd { 3 } else { 2 };
        while power < degrees {
            let k = f64::from(power);
            term *= cosine * cosine * (k - 1.0) / k;
            sum += term;
            power += 2;
        }
        if odd { 2.0 / PI * (angle + sine * sum) } else { sine * sum }
    }

    /// The probability of a number below `z`.
    fn below(self, z: f64) -> f64 {
        match self {
            Tails::Normal => cumulative(z),
            Tails::Student(_) => 0.5 + 0.5 * z.signum() * self.within(z.abs()),
        }
    }
}

/// The distribution of an observation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Predictive {
    /// The latent mean.
    pub mean: f64,
    /// The latent variance.
    pub variance: f64,
    range: Option<(f64, f64)>,
    ends: Option<(f64, f64)>,
    /// The distance of values from each other, where they are on a grid; else 0.
    step: f64,
    tails: Tails,
    /// What the latent value is of an observation.
    transform: Option<Transform>,
}

impl Predictive {
    /// Of a latent value with this mean and variance, in a range whose ends may be censored.
    pub fn new(
        mean: f64,
        variance: f64,
        range: Option<(f64, f64)>,
        ends: Option<Ends>,
        tails: Tails,
    ) -> Self {
        let step = range.zip(ends).map_or(0.0, |((least, most), ends)| {
            (2.0 * (ends.below - least)).min(2.0 * (most - ends.above)).max(0.0)
        });
        let range = range.filter(|_| ends.is_some());
        Predictive {
            mean,
            variance,
            range,
            ends: ends.map(|ends| (ends.below, ends.above)),
            step,
            tails,
            transform: None,
        }
    }

    /// The same of observations that were transformed.
    pub fn transformed(self, transform: Option<Transform>) -> Self {
        Predictive { transform, ..self }
    }

    /// The standard deviation of what is observed. Of transformed values, half of the interval that a standard
    /// deviation on both sides of the latent mean makes: that of 68 % of the observations. A true one would be
    /// that of few large values, and may not exist.
    pub fn sd(&self) -> f64 {
        let s = self.variance.sqrt();
        if let Some(transform) = self.transform {
            return 0.5 * (transform.undo(self.mean + s) - transform.undo(self.mean - s));
        }
        match self.range {
            Some(range) if s > 0.0 => clamped_variance(self.mean, s, range).sqrt(),
            _ => s,
        }
    }

    /// The probabilities of an observation below a value, and of one that is not above it. They differ where values
    /// are on a grid: a value stands for all that would be rounded to it, and one at an end for all beyond.
    pub fn below(&self, value: f64) -> (f64, f64) {
        let (above_least, below_most) =
            self.ends.map_or((true, true), |(below, above)| (value > below, value < above));
        // Rounding has its part in the noise that was learned (Sheppard): half of it at most.
        let s = (self.variance - self.step * self.step / 12.0).max(0.5 * self.variance).sqrt();
        let at = |x: f64| self.tails.below((x - self.mean) / s);
        let half = 0.5 * self.step;
        (if above_least { at(value - half) } else { 0.0 }, if below_most { at(value + half) } else { 1.0 })
    }

    /// How much of what lies between two such probabilities is within the central interval of a probability: all or
    /// nothing of a number, and a share of a value on a grid.
    pub fn covered((from, to): (f64, f64), probability: f64) -> f64 {
        let (low, high) = (0.5 - 0.5 * probability, 0.5 + 0.5 * probability);
        if to - from < 1e-9 {
            let middle = 0.5 * (from + to);
            return f64::from(u8::from(low <= middle && middle <= high));
        }
        ((to.min(high) - from.max(low)) / (to - from)).clamp(0.0, 1.0)
    }
}

/// The variance of a normal number of mean mu and standard deviation s that is taken into a range.
fn clamped_variance(mu: f64, s: f64, (least, most): (f64, f64)) -> f64 {
    let (a, b) = ((least - mu) / s, (most - mu) / s);
    // About the nearest number within the range, so that differences of what is large do not cancel.
    let centre = mu.clamp(least, most);
    let (below, above) = (tail(-a), tail(b));
    let inside = if b < 0.0 { tail(-b) - tail(-a) } else { tail(a) - tail(b) };
    let (at_a, at_b) = (density(a), density(b));
    let times = |x: f64, density: f64| if density > 0.0 { x * density } else { 0.0 };
    let shift = mu - centre;
    let first = (least - centre) * below + (most - centre) * above + shift * inside - s * (at_b - at_a);
    let second = (least - centre).powi(2) * below
        + (most - centre).powi(2) * above
        + shift * shift * inside
        + 2.0 * shift * s * (at_a - at_b)
        + s * s * (inside - times(b, at_b) + times(a, at_a));
    (second - first * first).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn students_tables_are_met() {
        // Quantiles of 75 and 97.5 %, from tables.
        for (degrees, middle, far) in
            [(4, 0.7407, 2.7764), (5, 0.7267, 2.5706), (9, 0.7027, 2.2622), (30, 0.6828, 2.0423)]
        {
            let (tails, size) =
                (Tails::Student(degrees), (f64::from(degrees) / f64::from(degrees - 2)).sqrt());
            assert!((tails.within(middle / size) - 0.5).abs() < 1e-4, "{degrees}");
            assert!((tails.within(far / size) - 0.95).abs() < 1e-4, "{degrees}");
        }
        assert!((Tails::Student(1000).within(1.0) - Tails::Normal.within(1.0)).abs() < 1e-3);
        assert!((Tails::Normal.within(1.959_964) - 0.95).abs() < 1e-6);
    }

    #[test]
    fn a_clamped_normal_has_the_variance_of_its_integral() {
        for (mu, s) in [(3.0, 0.8), (4.6, 0.5), (5.5, 1.0), (0.2, 2.0), (7.0, 0.9), (3.0, 1e-3)] {
            let (n, h) = (200_000, 20.0 / 200_000.0);
            let (mut mass, mut first, mut second) = (0.0, 0.0, 0.0);
            for k in 0..=n {
                let e = -10.0 + h * f64::from(k);
                let (w, x) = (density(e) * h, (mu + s * e).clamp(0.5, 5.0) - 3.0);
                mass += w;
                first += w * x;
                second += w * x * x;
            }
            let variance: f64 = second / mass - (first / mass).powi(2);
            let ours = clamped_variance(mu, s, (0.5, 5.0));
            assert!((ours - variance).abs() < 1e-7 * (1.0 + variance), "{mu} {s}: {ours} {variance}");
        }
        assert_eq!(clamped_variance(1e6, 0.5, (1.0, 5.0)), 0.0);
        assert!((clamped_variance(0.0, 1.0, (-1e9, 1e9)) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn cells_of_a_grid_share_the_line() {
        for tails in [Tails::Normal, Tails::Student(5)] {
            cells_share_the_line(tails);
        }
        let plain = Predictive::new(1.0, 4.0, None, None, Tails::Normal);
        let covers = |value: f64| Predictive::covered(plain.below(value), 0.5);
        assert_eq!((covers(1.0 + 1.3), covers(1.0 + 1.4)), (1.0, 0.0));
        assert_eq!(plain.sd(), 2.0);
    }

    fn cells_share_the_line(tails: Tails) {
        let ends = Ends { below: 1.5, above: 4.5, noise: 0.9 };
        let predictive = Predictive::new(3.3, 0.9, Some((1.0, 5.0)), Some(ends), tails);
        let mut last = 0.0;
        for value in 1..=5 {
            let (from, to) = predictive.below(f64::from(value));
            assert!((from - last).abs() < 1e-14 && to > from);
            last = to;
        }
        assert_eq!(last, 1.0);
        // What intervals cover of all values, each with its probability, is what they say.
        for p in [0.1, 0.5, 0.8, 0.95] {
            let cell = |value: i32| {
                let (from, to) = predictive.below(f64::from(value));
                (to - from) * Predictive::covered((from, to), p)
            };
            assert!(((1..=5).map(cell).sum::<f64>() - p).abs() < 1e-12);
        }
    }
}
