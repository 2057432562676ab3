//! A random order of 0..N that needs no memory: which cell is the t-th to be drawn?
//!
//! The number x = L b + R, with L < a and R < b, goes through a Feistel network over
//! Z_a x Z_b: L <- L + f_1(R) mod a, R <- R + f_2(L) mod b, ... Each round can be undone, so the
//! network permutes 0..ab; a result of N or more is sent through again (cycle walking) until it
//! falls below N, which permutes 0..N. With a = ceil(sqrt N) and b = ceil(N / a), ab exceeds N by
//! less than a, so a second walk is rare, unlike with halves of whole bits.

use super::random::{mix, split_mix};

/// Rounds of the network; four already pass for random to an observer of few values, eight leave a
/// margin for round functions that are fast rather than cryptographic.
const ROUNDS: usize = 8;

/// A keyed pseudo-random permutation of 0..N.
///
/// ```
/// use tenfill_engine::synth::Permutation;
///
/// let order = Permutation::new(10, 42);
/// let mut drawn: Vec<u128> = (0..10).map(|t| order.at(t)).collect();
/// drawn.sort();
/// assert_eq!(drawn, (0..10).collect::<Vec<u128>>());
/// ```
#[derive(Clone, Debug)]
pub struct Permutation {
    len: u128,
    /// The ranges of the left and the right half.
    left: u64,
    right: u64,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// The largest N, so that halves can be added in 64 bits.
    pub const MAX_LEN: u128 = 1 << 126;

    /// The permutation of `0..len` with this seed.
    ///
    /// # Panics
    /// If `len` is 0 or above [`Self::MAX_LEN`].
    pub fn new(len: u128, seed: u64) -> Self {
        assert!((1..=Self::MAX_LEN).contains(&len), "cannot permute {len} numbers");
        let floor = len.isqrt();
        let left = if floor * floor == len { floor } else { floor + 1 };
        let right = len.div_ceil(left);
        let mut state = seed;
        Permutation {
            len,
            left: left as u64,
            right: right as u64,
            keys: std::array::from_fn(|_| split_mix(&mut state)),
        }
    }

    /// The number at place `t`.
    ///
    /// # Panics
    /// If `t` is not below the length, in debug builds.
    #[inline]
    pub fn at(&self, t: u64) -> u128 {
        debug_assert!((t as u128) < self.len, "place {t} of {}", self.len);
        let (mut l, mut r) = (t / self.right, t % self.right);
        loop {
            for keys in self.keys.chunks_exact(2) {
                l = add_mod(l, scramble(r, keys[0], self.left), self.left);
                r = add_mod(r, scramble(l, keys[1], self.right), self.right);
            }
            let x = l as u128 * self.right as u128 + r as u128;
            if x < self.len {
                return x;
            }
        }
    }
}

/// (x + y) mod n for x, y < n < 2^63.
#[inline]
fn add_mod(x: u64, y: u64, n: u64) -> u64 {
    let sum = x + y;
    if sum >= n { sum - n } else { sum }
}

/// A keyed hash of `x` below `n`: the high word of hash times n.
#[inline]
fn scramble(x: u64, key: u64, n: u64) -> u64 {
    ((mix(x ^ key) as u128 * n as u128) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_once() {
        for len in (1..200).chain([1023, 1024, 1025, 65_536, 99_991]) {
            for seed in 0..3 {
                let order = Permutation::new(len, seed);
                let mut seen = vec![false; len as usize];
                for t in 0..len as u64 {
                    let x = order.at(t) as usize;
                    assert!(!seen[x], "{x} twice, length {len}, seed {seed}");
                    seen[x] = true;
                }
            }
        }
    }

    /// Sum of (count - mean)^2 / mean, as standard deviations from its mean.
    fn chi_square_score(counts: &[u64]) -> f64 {
        let mean = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
        let chi: f64 = counts.iter().map(|&c| (c as f64 - mean).powi(2) / mean).sum();
        let freedom = (counts.len() - 1) as f64;
        (chi - freedom) / (2.0 * freedom).sqrt()
    }

    #[test]
    fn every_place_gets_every_number_equally_often() {
        // Over seeds, place and number must be independent: 24 numbers as in a 2 x 3 x 4 tensor.
        for place in [0, 1, 23] {
            let mut counts = vec![0; 24];
            for seed in 0..24_000 {
                counts[Permutation::new(24, seed).at(place) as usize] += 1;
            }
            let score = chi_square_score(&counts);
            assert!(score.abs() < 5.0, "place {place}: {score}");
        }
    }

    #[test]
    fn neighbours_are_independent() {
        // Neighbouring places, each number in one of 16 classes: 256 pairs of classes.
        for (len, seed) in [(1_000_000_u128, 1), (10_u128.pow(12), 2), (1 << 126, 3)] {
            let order = Permutation::new(len, seed);
            let class = |t| (order.at(t) / len.div_ceil(16)) as usize;
            let mut counts = vec![0; 256];
            for t in 0..200_000 {
                counts[class(t) * 16 + class(t + 1)] += 1;
            }
            let score = chi_square_score(&counts);
            assert!(score.abs() < 5.0, "length {len}: {score}");
        }
    }

    #[test]
    fn low_digits_are_uniform_too() {
        let order = Permutation::new(10_u128.pow(12), 7);
        let mut counts = vec![0; 1000];
        for t in 0..500_000 {
            counts[(order.at(t) % 1000) as usize] += 1;
        }
        let score = chi_square_score(&counts);
        assert!(score.abs() < 5.0, "{score}");
    }

    #[test]
    fn seeds_differ() {
        let (a, b) = (Permutation::new(1 << 60, 1), Permutation::new(1 << 60, 2));
        assert!((0..1000).all(|t| a.at(t) != b.at(t)));
    }
}
