//! Decides which split a row belongs to.

use super::spool::Spool;
use crate::control::Control;
use crate::error::Result;
use crate::ingest::sketch::mix;
use crate::shard::Split;

/// The rule, settled.
#[derive(Debug, Clone, Copy)]
pub(super) enum Splitter {
    /// Every row carries its split.
    Given,
    /// By a hash of the labels: below `train`, below `validation`, or above.
    Hash { seed: u64, train: f64, validation: f64 },
    /// By time: up to `train`, up to `validation`, or later.
    Time { train: f64, validation: f64 },
}

impl Splitter {
    pub(super) fn by_hash(shares: [f64; 3], seed: u64) -> Self {
        Splitter::Hash {
            seed: mix(seed ^ 0x7465_6e66_696c_6c21),
            train: if shares[1] + shares[2] == 0.0 { f64::INFINITY } else { shares[0] },
            // The sum of two shares may fall short of 1 by a rounding.
            validation: if shares[2] == 0.0 { f64::INFINITY } else { shares[0] + shares[1] },
        }
    }

    /// The split of an entry with these label hashes (in the user's mode order).
    #[inline]
    pub(super) fn of_hashes(seed: u64, train: f64, validation: f64, hashes: &[u64]) -> Split {
        let hash = hashes.iter().fold(seed, |sum, &hash| mix(sum.rotate_left(5) ^ hash));
        let unit = (hash >> 11) as f64 / (1u64 << 53) as f64;
        pick(unit < train, unit < validation)
    }

    #[inline]
    pub(super) fn of_time(train: f64, validation: f64, time: f64) -> Split {
        pick(time <= train, time <= validation)
    }
}

fn pick(train: bool, validation: bool) -> Split {
    match (train, validation) {
        (true, _) => Split::Train,
        (false, true) => Split::Validation,
        (false, false) => Split::Test,
    }
}

/// Order-preserving map from finite floats to integers.
fn ordered(x: f64) -> u64 {
    let bits = x.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

fn unordered(x: u64) -> f64 {
    f64::from_bits(if x >> 63 == 1 { x & !(1 << 63) } else { !x })
}

/// The times at or below which four fifths and nine tenths of the rows lie, exactly, in four
/// passes over the spool and a fixed amount of memory.
pub(super) fn time_thresholds(
    spool: &mut Spool,
    record: usize,
    time_at: usize,
    control: &Control,
) -> Result<(f64, f64)> {
    let rows = spool.len();
    let mut wanted = [rows - rows / 5, rows - rows / 10].map(Quantile::new);
    for shift in [48, 32, 16, 0] {
        spool.for_each_piece(|piece| {
            control.check()?;
            for row in piece.chunks_exact(record) {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(&row[time_at..time_at + 8]);
                let key = ordered(f64::from_le_bytes(bytes));
                wanted.iter_mut().for_each(|quantile| quantile.count(key, shift));
            }
            Ok(())
        })?;
        wanted.iter_mut().for_each(Quantile::settle);
    }
    let [train, validation] = wanted.map(|quantile| unordered(quantile.prefix));
    Ok((train, validation))
}

/// The time of a rank, sixteen bits per pass.
struct Quantile {
    /// The bits that are known.
    prefix: u64,
    /// Its rank, from 1, among the times that begin with these.
    rank: u64,
    /// How many times go on with which bits.
    counts: Vec<u64>,
}

impl Quantile {
    fn new(rank: u64) -> Self {
        Quantile { prefix: 0, rank: rank.max(1), counts: vec![0; 1 << 16] }
    }

    #[inline]
    fn count(&mut self, key: u64, shift: u32) {
        if shift == 48 || key >> (shift + 16) == self.prefix {
            self.counts[(key >> shift) as usize & 0xffff] += 1;
        }
    }

    fn settle(&mut self) {
        let mut digit = 0;
        while digit < 0xffff && self.counts[digit] < self.rank {
            self.rank -= self.counts[digit];
            digit += 1;
        }
        self.prefix = self.prefix << 16 | digit as u64;
        self.counts.fill(0);
    }
}
