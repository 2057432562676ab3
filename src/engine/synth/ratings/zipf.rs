//! A few do much and many do little: weights by place, and how to draw and share by them.

use crate::synth::random::Random;

/// The weight of place k = 0, 1, ...: 1 / (k + shift), the law of Zipf with Mandelbrot's shift,
/// which keeps the very first places from taking everything.
pub(super) fn weight(place: u64, shift: f64) -> f64 {
    1.0 / (place as f64 + shift)
}

/// Shares `total` among the weights: everyone gets `floor`, the rest goes by weight, nobody gets
/// more than `cap`; what the capped leave goes to the others, and the sum is exact.
///
/// # Panics
/// If all at the cap cannot hold `total`, or all at the floor exceed it, in debug builds.
pub(super) fn shares(total: u64, weights: &[f64], floor: u32, cap: u32) -> Vec<u32> {
    let people = weights.len() as u64;
    debug_assert!(people * floor as u64 <= total && total <= people * cap as u64);
    let share = |scale: f64, weight: f64| {
        // `as` saturates, and the cap is below that.
        floor.saturating_add((scale * weight) as u32).min(cap)
    };
    let sum = |scale: f64| -> u64 { weights.iter().map(|&w| share(scale, w) as u64).sum() };
    // At `high` everyone has the cap; at `low` the sum never exceeds the total.
    let lightest = weights.iter().copied().fold(f64::INFINITY, f64::min);
    let (mut low, mut high) = (0.0, (cap as f64 + 1.0) / lightest);
    for _ in 0..64 {
        let middle = 0.5 * (low + high);
        if sum(middle) <= total {
            low = middle;
        } else {
            high = middle;
        }
    }
    let mut shares: Vec<u32> = weights.iter().map(|&w| share(low, w)).collect();
    let mut left = total - shares.iter().map(|&s| s as u64).sum::<u64>();
    while left > 0 {
        for share in shares.iter_mut().filter(|share| **share < cap) {
            if left == 0 {
                break;
            }
            *share += 1;
            left -= 1;
        }
    }
    shares
}

/// Draws numbers in proportion to weights, in constant time (Walker's alias method).
#[derive(Clone, Debug)]
pub(super) struct AliasTable {
    /// With this probability a slot stands for itself, otherwise for its alias.
    slots: Vec<(f64, u32)>,
}

impl AliasTable {
    /// A table for these positive weights, at most 2^32 of them.
    pub fn new(weights: &[f64]) -> Self {
        let mean = weights.iter().sum::<f64>() / weights.len() as f64;
        let mut slots: Vec<(f64, u32)> =
            weights.iter().enumerate().map(|(i, w)| (w / mean, i as u32)).collect();
        let (mut light, mut heavy): (Vec<u32>, Vec<u32>) =
            (0..slots.len() as u32).partition(|&i| slots[i as usize].0 < 1.0);
        while let (Some(&to), Some(from)) = (heavy.last(), light.pop()) {
            slots[from as usize].1 = to;
            // The heavy slot fills what the light one lacks.
            slots[to as usize].0 -= 1.0 - slots[from as usize].0;
            if slots[to as usize].0 < 1.0 {
                heavy.pop();
                light.push(to);
            }
        }
        // What is left over is 1 but for rounding, and its alias is itself.
        AliasTable { slots }
    }

    /// A number in proportion to its weight.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> u32 {
        let (slot, fraction) = random.slot(self.slots.len() as u64);
        let (keep, alias) = self.slots[slot as usize];
        if fraction < keep { slot as u32 } else { alias }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::random::Purpose;

    #[test]
    fn shares_are_exact_and_capped() {
        let weights: Vec<f64> = (0..1000).map(|k| weight(k, 3.0)).collect();
        for (total, floor, cap) in [
            (0, 0, 5),
            (1, 0, 5),
            (999, 0, 5),
            (50_000, 20, 300),
            (299_999, 0, 300),
            (300_000, 0, 300),
            (123_456, 7, u32::MAX),
        ] {
            let shares = shares(total, &weights, floor, cap);
            assert_eq!(shares.iter().map(|&s| s as u64).sum::<u64>(), total);
            assert!(shares.iter().all(|s| (floor..=cap).contains(s)));
            assert!(shares.is_sorted_by(|a, b| a >= b), "{total}");
        }
    }

    #[test]
    fn draws_follow_the_weights() {
        let weights: Vec<f64> = (0..40).map(|k| weight(k, 1.0)).collect();
        let table = AliasTable::new(&weights);
        let mut random = Random::new(5, Purpose::Items, 0);
        let mut counts = [0.0; 40];
        let draws = 400_000;
        for _ in 0..draws {
            counts[table.draw(&mut random) as usize] += 1.0;
        }
        let total: f64 = weights.iter().sum();
        let chi: f64 = counts
            .iter()
            .zip(&weights)
            .map(|(c, w)| {
                let mean = draws as f64 * w / total;
                (c - mean) * (c - mean) / mean
            })
            .sum();
        assert!(chi < 39.0 + 5.0 * 78.0_f64.sqrt(), "{chi}");
    }
}
