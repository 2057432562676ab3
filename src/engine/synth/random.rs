//! Seeded randomness: every batch, user and factor has a generator of its own, so that nothing
//! depends on which thread came first.

use rand::Rng;
use rand_pcg::Pcg64Mcg;

/// What a generator is for; generators of different purposes share no numbers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    /// The order of the cells.
    Cells = 1,
    /// A factor, by mode.
    Factor,
    /// The core.
    Core,
    /// The noise of a batch.
    Noise,
    /// What a user is like.
    User,
    /// What a user does.
    History,
    /// What items are like.
    Items,
    /// Which user has which place in activity.
    UserOrder,
    /// Which item has which place in popularity.
    ItemOrder,
    /// Phases of the seasons.
    Seasons,
    /// Which rating belongs to which split.
    Parts,
}

/// The distance of neighbouring uniform numbers.
const UNIT: f64 = 1.0 / (1_u64 << 53) as f64;

/// The next number of SplitMix64; for seeding only.
pub(super) fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A fast hash whose high bits depend on all bits of x. One multiplication alone would be linear,
/// and a network of linear rounds no better than one; the shift between two breaks that.
#[inline]
pub(super) fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (x ^ (x >> 32)).wrapping_mul(0xA076_1D64_78BD_642F)
}

/// A seed for one purpose and number, from the user's seed.
pub(super) fn derive_seed(seed: u64, purpose: Purpose, number: u64) -> u64 {
    let mut state = seed;
    let mut derived = split_mix(&mut state);
    for split in [purpose as u64, number] {
        state = derived ^ split;
        derived = split_mix(&mut state);
    }
    derived
}

/// A generator with the distributions used here.
pub(super) struct Random {
    bits: Pcg64Mcg,
    /// Normals come in pairs; the second waits here.
    spare: Option<f64>,
}

impl Random {
    /// The generator of one purpose and number under the user's seed.
    pub fn new(seed: u64, purpose: Purpose, number: u64) -> Self {
        let mut state = derive_seed(seed, purpose, number);
        let high = split_mix(&mut state) as u128;
        let low = split_mix(&mut state) as u128;
        Random { bits: Pcg64Mcg::new(high << 64 | low), spare: None }
    }

    /// Uniform in [0, 1), a multiple of 2^-53.
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        (self.bits.next_u64() >> 11) as f64 * UNIT
    }

    /// Uniform in (0, 1], whose logarithm is finite.
    #[inline]
    pub fn positive(&mut self) -> f64 {
        1.0 - self.uniform()
    }

    /// Uniform in 0..n; the bias of n / 2^64 is far below what any sample could show.
    #[inline]
    pub fn below(&mut self, n: u32) -> u32 {
        ((self.bits.next_u64() as u128 * n as u128) >> 64) as u32
    }

    /// Uniform in 0..n and, from the same bits, uniform in [0, 1).
    #[inline]
    pub fn slot(&mut self, n: u64) -> (u64, f64) {
        let wide = self.bits.next_u64() as u128 * n as u128;
        ((wide >> 64) as u64, (wide as u64 >> 11) as f64 * UNIT)
    }

    /// Standard normal, by Box and Muller.
    #[inline]
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let radius = (-2.0 * self.positive().ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * self.uniform()).sin_cos();
        self.spare = Some(radius * sin);
        radius * cos
    }

    /// Exponential with mean 1.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        -self.positive().ln()
    }

    /// Geometric on 1, 2, 3, ... with this mean of at least 1.
    pub fn geometric(&mut self, mean: f64) -> u64 {
        if mean <= 1.0 {
            return 1;
        }
        // P(more than k) = (1 - 1/mean)^k, inverted; `as` saturates where the draw is huge.
        1 + (self.positive().ln() / (-1.0 / mean).ln_1p()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments() {
        let mut random = Random::new(3, Purpose::Noise, 0);
        let n = 400_000;
        let mean = |f: &mut dyn FnMut() -> f64| (0..n).map(|_| f()).sum::<f64>() / n as f64;
        assert!((mean(&mut || random.uniform()) - 0.5).abs() < 3e-3);
        assert!(mean(&mut || random.normal()).abs() < 1e-2);
        assert!((mean(&mut || random.normal().powi(2)) - 1.0).abs() < 1.5e-2);
        assert!((mean(&mut || random.exponential()) - 1.0).abs() < 1e-2);
        assert!((mean(&mut || random.geometric(12.0) as f64) - 12.0).abs() < 0.15);
        assert!((mean(&mut || random.below(7) as f64) - 3.0).abs() < 2e-2);
        assert_eq!(random.geometric(1.0), 1);
    }

    #[test]
    fn purposes_and_numbers_differ() {
        let seeds = [
            derive_seed(1, Purpose::Cells, 0),
            derive_seed(1, Purpose::Factor, 0),
            derive_seed(1, Purpose::Factor, 1),
            derive_seed(2, Purpose::Factor, 1),
        ];
        for (i, a) in seeds.iter().enumerate() {
            assert!(seeds[i + 1..].iter().all(|b| a != b));
        }
    }
}
