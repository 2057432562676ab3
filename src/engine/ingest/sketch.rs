//! Counts distinct things in four kilobytes each: HyperLogLog, the same for any order of rows.

/// log2 of the number of registers: an error of about 1.6 %.
const BITS: u32 = 12;

/// An estimate of how many distinct hashes were added.
#[derive(Debug, Clone)]
pub struct Sketch {
    registers: Vec<u8>,
}

impl Default for Sketch {
    fn default() -> Self {
        Sketch { registers: vec![0; 1 << BITS] }
    }
}

/// Scrambles 64 bits (the finaliser of SplitMix64): a bijection without visible structure.
#[inline]
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

impl Sketch {
    /// Adds a well-mixed hash.
    #[inline]
    pub fn add(&mut self, hash: u64) {
        let register = &mut self.registers[(hash >> (64 - BITS)) as usize];
        let rank = ((hash << BITS) | 1 << (BITS - 1)).leading_zeros() as u8 + 1;
        *register = (*register).max(rank);
    }

    /// The estimate.
    pub fn estimate(&self) -> f64 {
        let count = self.registers.len() as f64;
        let sum: f64 = self.registers.iter().map(|&rank| 0.5f64.powi(i32::from(rank))).sum();
        let raw = 0.7213 / (1.0 + 1.079 / count) * count * count / sum;
        let empty = self.registers.iter().filter(|&&rank| rank == 0).count();
        if raw < 2.5 * count && empty > 0 { count * (count / empty as f64).ln() } else { raw }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_is_within_five_percent() {
        for distinct in [1u64, 10, 1_000, 5_000, 20_000, 1_000_000] {
            let mut sketch = Sketch::default();
            for n in 0..distinct * 2 {
                sketch.add(mix(n % distinct + 77));
            }
            let error = (sketch.estimate() / distinct as f64 - 1.0).abs();
            assert!(error < 0.05, "{distinct}: {}", sketch.estimate());
        }
    }
}
