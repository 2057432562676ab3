//! The ends of a scale: what a value there says, and what is said of entries near them.
//!
//! Nobody can give more than five stars. Behind every value stands a latent one, mu plus normal noise of
//! standard deviation s; what is seen is the latent value taken into the range. So a value at an end says
//! only that the latent one is beyond a threshold, and what can be expected of an entry is the mean of
//! what the range leaves of its latent value (a Tobit model).

use serde::{Deserialize, Serialize};
use std::f64::consts::{FRAC_1_SQRT_2, PI, SQRT_2};
use std::sync::LazyLock;

/// Where the values of a scale stop to tell latent ones apart.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ends {
    /// A value of at most this much says that the latent one is not above it.
    pub below: f64,
    /// A value of at least this much says that the latent one is not below it.
    pub above: f64,
    /// The standard deviation of latent values about the model's.
    pub noise: f64,
}

impl Ends {
    /// Whether they make sense beside the range that they belong to.
    pub(super) fn fit(&self, range: Option<(f64, f64)>) -> bool {
        let within = range.is_some_and(|(least, most)| least <= self.below && self.above <= most);
        within && self.below < self.above && self.noise > 0.0 && self.noise.is_finite()
    }

    /// Whether a value is at an end.
    #[inline]
    pub fn hold(&self, value: f64) -> bool {
        value <= self.below || value >= self.above
    }

    /// Mean and variance of the latent value behind an observed one, the model saying `mu`: those of the
    /// normal distribution cut off at a threshold, or the value itself where it is at no end.
    pub fn latent(&self, value: f64, mu: f64) -> (f64, f64) {
        let s = self.noise;
        if value >= self.above {
            let (mean, variance) = beyond((self.above - mu) / s);
            (mu + s * mean, s * s * variance)
        } else if value <= self.below {
            let (mean, variance) = beyond((mu - self.below) / s);
            (mu - s * mean, s * s * variance)
        } else {
            (value, 0.0)
        }
    }
}

/// Takes what biases and tensor add up to into a range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clip {
    least: f64,
    most: f64,
    /// The standard deviation of the latent values; 0 where the sum itself is what is said.
    noise: f64,
}

impl Clip {
    /// For a range, and for ends where a model has them.
    pub fn new((least, most): (f64, f64), ends: Option<Ends>) -> Self {
        Clip { least, most, noise: ends.map_or(0.0, |ends| ends.noise) }
    }

    /// The value within the range, or, where values at the ends say only so much, the mean of what the
    /// range leaves of a latent value about it:
    ///
    /// E(clamp(mu + s e)) = mu + s psi((least - mu) / s) - s psi((mu - most) / s), e standard normal,
    ///
    /// with psi(z) = E(max(0, z + e)). It rises with mu, so that rankings stay what they are.
    #[inline]
    pub fn of(&self, mu: f64) -> f64 {
        let Clip { least, most, noise } = *self;
        let far = 12.0 * noise;
        // Also what is not finite, and where rounding would show.
        if noise == 0.0 || !(least - far..=most + far).contains(&mu) {
            return mu.clamp(least, most);
        }
        let value = mu + noise * (excess((least - mu) / noise) - excess((mu - most) / noise));
        value.clamp(least, most)
    }
}

/// E(max(0, z + e)) = density(z) + z P(e < z) for a standard normal e.
fn excess(z: f64) -> f64 {
    (density(z) + z * tail(-z)).max(0.0)
}

pub(super) fn density(z: f64) -> f64 {
    libm::exp(-0.5 * z * z) / (SQRT_2 * PI.sqrt())
}

/// P(e > z).
pub(super) fn tail(z: f64) -> f64 {
    0.5 * libm::erfc(z * FRAC_1_SQRT_2)
}

/// P(e < z).
pub(super) fn cumulative(z: f64) -> f64 {
    tail(-z)
}

/// Mean and variance of a standard normal number that is known to be above `z`.
#[inline]
fn beyond(z: f64) -> (f64, f64) {
    if z > 25.0 {
        // Quotients of nothing by nothing, and differences of what is nearly equal: series instead.
        let y = 1.0 / (z * z);
        let mean = z * (1.0 + y * (1.0 - y * (2.0 - y * (10.0 - 74.0 * y))));
        return (mean, y * (1.0 - y * (6.0 - y * (50.0 - 518.0 * y))));
    }
    let mean = if z.abs() < HAZARD_TO { HAZARD.of(z) } else { hazard(z) };
    (mean, (1.0 + z * mean - mean * mean).clamp(0.0, 1.0))
}

/// The mean of a standard normal number above `z`.
fn hazard(z: f64) -> f64 {
    density(z) / tail(z)
}

/// Values at the ends are looked at twice in every pass, and two exponentials are a tenth of its time: so the hazard is
/// kept in pieces from -8 to 8. Its derivatives follow from itself, h' = h (h - z) and h'' = h' (2 h - z) - h, and the
/// polynomials of degree five that have these at both ends of a sixteenth are within 1e-12 of it.
static HAZARD: LazyLock<Hazard> = LazyLock::new(Hazard::new);
const HAZARD_TO: f64 = 8.0;
const PIECES_PER_ONE: f64 = 16.0;

struct Hazard(Vec<[f64; 6]>);

impl Hazard {
    fn new() -> Self {
        let h = 1.0 / PIECES_PER_ONE;
        // The hazard and its derivatives at the beginning of a piece, in units of its length.
        let at = |piece: usize| {
            let z = piece as f64 * h - HAZARD_TO;
            let value = hazard(z);
            let first = value * (value - z);
            (value, h * first, h * h * (first * (2.0 * value - z) - value))
        };
        let piece = |n: usize| {
            let ((f, d, s), (g, e, t)) = (at(n), at(n + 1));
            let step = g - f;
            [
                f,
                d,
                0.5 * s,
                10.0 * step - 6.0 * d - 4.0 * e - 1.5 * s + 0.5 * t,
                -15.0 * step + 8.0 * d + 7.0 * e + 1.5 * s - t,
                6.0 * step - 3.0 * d - 3.0 * e - 0.5 * s + 0.5 * t,
            ]
        };
        Hazard((0..(2.0 * HAZARD_TO * PIECES_PER_ONE) as usize).map(piece).collect())
    }

    #[inline]
    fn of(&self, z: f64) -> f64 {
        let at = (z + HAZARD_TO) * PIECES_PER_ONE;
        let piece = at as usize;
        let (x, [a, b, c, d, e, f]) = (at - piece as f64, self.0[piece]);
        a + x * (b + x * (c + x * (d + x * (e + x * f))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The integral of a function times the standard normal density, by Simpson's rule.
    fn integral(from: f64, to: f64, f: impl Fn(f64) -> f64) -> f64 {
        let n = 20_000;
        let h = (to - from) / f64::from(n);
        let at = |k: i32| {
            let x = from + h * f64::from(k);
            f(x) * (-0.5 * x * x).exp() / (2.0 * PI).sqrt()
        };
        let inner: f64 = (1..n).map(|k| at(k) * if k % 2 == 1 { 4.0 } else { 2.0 }).sum();
        (at(0) + inner + at(n)) * h / 3.0
    }

    fn close(a: f64, b: f64, tolerance: f64) {
        assert!((a - b).abs() <= tolerance * (1.0 + b.abs()), "{a} and {b}");
    }

    #[test]
    fn latent_moments_are_the_integrals() {
        let ends = Ends { below: 0.75, above: 4.75, noise: 0.8 };
        for mu in [-3.0, 0.0, 0.7, 2.5, 4.2, 4.75, 5.5, 9.0] {
            for (value, side) in [(5.0, 1.0), (0.5, -1.0)] {
                let z =
                    if side > 0.0 { (ends.above - mu) / ends.noise } else { (mu - ends.below) / ends.noise };
                let to = z.max(0.0) + 12.0;
                let from = z.max(-12.0);
                let mass = integral(from, to, |_| 1.0);
                let mean = integral(from, to, |x| x) / mass;
                let variance = integral(from, to, |x| (x - mean).powi(2)) / mass;
                let ours = ends.latent(value, mu);
                close(ours.0, mu + side * ends.noise * mean, 1e-8);
                close(ours.1, ends.noise.powi(2) * variance, 1e-8);
                // Beyond the threshold, and never beyond what is there.
                assert!(if side > 0.0 { ours.0 >= ends.above.max(mu) } else { ours.0 <= ends.below.min(mu) });
            }
            assert_eq!(ends.latent(3.0, mu), (3.0, 0.0));
        }
    }

    #[test]
    fn pieces_of_the_hazard_are_the_hazard() {
        for n in -79_990..80_000 {
            let z = f64::from(n) * 1e-4;
            let (mean, variance) = beyond(z);
            close(mean, hazard(z), 2e-12);
            assert!(mean >= z.max(0.0) && (0.0..=1.0).contains(&variance), "{z}: {mean} {variance}");
        }
        for z in [-8.0 - 1e-9, -8.0, -8.0 + 1e-9, 8.0 - 1e-9, 8.0, 8.0 + 1e-9] {
            close(beyond(z).0, hazard(z), 2e-12);
        }
    }

    #[test]
    fn far_from_a_threshold_nothing_breaks() {
        for z in [24.0, 25.0 - 1e-9, 25.0 + 1e-9, 1e3, 1e8, 1e300] {
            let (mean, variance) = beyond(z);
            assert!(mean >= z && (0.0..1.0).contains(&variance), "{z}: {mean} {variance}");
        }
        let (left, right) = (beyond(25.0), beyond(25.0 + 1e-9));
        close(left.0, right.0, 1e-10);
        close(left.1, right.1, 1e-10);
        assert_eq!(beyond(-40.0), (0.0, 1.0));
    }

    #[test]
    fn what_is_said_is_the_mean_of_what_the_range_leaves() {
        let ends = Ends { below: 0.75, above: 4.75, noise: 0.8 };
        let clip = Clip::new((0.5, 5.0), Some(ends));
        for mu in [-2.0, 0.0, 0.5, 1.0, 2.75, 4.0, 5.0, 6.5] {
            // Kinks of the function are where the pieces meet.
            let kinks = [-12.0, (0.5 - mu) / 0.8, (5.0 - mu) / 0.8, 12.0];
            let kinks = kinks.map(|x: f64| x.clamp(-12.0, 12.0));
            let f = |x: f64| (mu + 0.8 * x).clamp(0.5, 5.0);
            let mean: f64 = kinks.windows(2).map(|pair| integral(pair[0], pair[1], f)).sum();
            close(clip.of(mu), mean, 1e-9);
        }
    }

    #[test]
    fn it_rises_within_the_range() {
        let clip = Clip::new((1.0, 5.0), Some(Ends { below: 1.5, above: 4.5, noise: 0.9 }));
        let mut last = 1.0;
        for n in -3000..=6000 {
            let value = clip.of(f64::from(n) / 300.0);
            // Up to the last bits.
            assert!((last - 1e-14..=5.0).contains(&value), "{n}: {value} after {last}");
            last = value;
        }
        assert!(clip.of(3.0) - 3.0 < 1e-12, "both ends are as far");
        assert!(clip.of(4.9) < 4.9 && clip.of(1.1) > 1.1);
        assert_eq!((clip.of(f64::INFINITY), clip.of(f64::NEG_INFINITY)), (5.0, 1.0));
        assert!(clip.of(f64::NAN).is_nan());
        let hard = Clip::new((1.0, 5.0), None);
        assert_eq!((hard.of(4.9), hard.of(5.2), hard.of(0.0)), (4.9, 5.0, 1.0));
    }

    #[test]
    fn ends_belong_to_a_range() {
        let ends = Ends { below: 1.5, above: 4.5, noise: 0.9 };
        assert!(ends.fit(Some((1.0, 5.0))));
        assert!(!ends.fit(None) && !ends.fit(Some((2.0, 5.0))) && !ends.fit(Some((1.0, 4.0))));
        for noise in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(!Ends { noise, ..ends }.fit(Some((1.0, 5.0))));
        }
        assert!(!Ends { below: 4.5, above: 1.5, noise: 0.9 }.fit(Some((1.0, 5.0))));
    }
}
