//! Decides which split a row belongs to.

use super::options::{ConvertOptions, SplitRule};
use super::resolve;
use super::spool::{RecordLayout, Spool};
use crate::control::Control;
use crate::error::Result;
use crate::ingest::sketch::mix;
use crate::ingest::{ColumnTimes, TimesSeen};
use crate::shard::{Manifest, Split, SplitBy};
use crate::times::format_time;

/// How the rows are split, and what is said of it.
pub(super) struct SplitPlan {
    pub(super) splitter: Splitter,
    /// The rule in words.
    rule: String,
    by: SplitBy,
    pub(super) note: Option<String>,
}

impl SplitPlan {
    /// Settles what was asked for; `tagged` rows carry their split. By time, it takes four passes over the spool.
    pub(super) fn new(
        options: &ConvertOptions,
        tagged: bool,
        time_name: Option<String>,
        times: &ColumnTimes,
        (spool, layout): (&mut Spool, &RecordLayout),
        control: &Control,
    ) -> Result<Self> {
        match options.split {
            _ if tagged => {
                let (splitter, rule) = (Splitter::Given, "given files".into());
                Ok(SplitPlan { splitter, rule, by: SplitBy::Given, note: None })
            }
            SplitRule::Shares(shares) => {
                let [train, validation, test] = shares.map(|share| 100.0 * share);
                let rule = format!("{train:.4}/{validation:.4}/{test:.4} by hash, seed {}", options.seed);
                let by = SplitBy::Hash { shares, seed: options.seed };
                let splitter = Splitter::by_hash(shares, options.seed);
                Ok(SplitPlan { splitter, rule: rule.replace(".0000", ""), by, note: None })
            }
            SplitRule::Time => {
                let unit = times.unit(TimesSeen::SPLIT);
                let unit = unit.map_err(|other| resolve::mixed("the times of `split` time are", other))?;
                let (train, validation) = time_thresholds(spool, layout.bytes, layout.time, control)?;
                let show = |time: f64| unit.seconds(time).map_or_else(String::new, format_time);
                let note = format!(
                    "the times of the split are taken as {}: train ends at {}, validation at {}",
                    unit.name(),
                    show(train),
                    show(validation)
                );
                let rule = "time: the latest tenth to test, the tenth before to validation".into();
                let splitter = Splitter::Time { train, validation };
                Ok(SplitPlan { splitter, rule, by: SplitBy::Time { column: time_name }, note: Some(note) })
            }
        }
    }

    /// Whether every entry of a dataset that rows are appended to is in the split that this puts its cell into.
    pub(super) fn is_that_of(&self, before: Option<&Manifest>) -> bool {
        before.is_some_and(|before| {
            before.split_by.as_ref() == Some(&self.by)
                && matches!(self.by, SplitBy::Hash { .. })
                // Rows that were appended by another rule are where that put them.
                && !before.split_rule.contains("; appended")
                // What was drawn is in the split of its cell, which is not that of an entry there.
                && before.absent.is_none()
        })
    }

    /// What the manifest says of it. Further rows follow the rule that the dataset began with, unless they are given
    /// another.
    pub(super) fn rules(self, before: Option<&Manifest>) -> (String, SplitBy) {
        let Some(before) = before else { return (self.rule, self.by) };
        let rules = &before.split_rule;
        let known = rules.split("; appended: ").any(|rule| rule == self.rule);
        let all = if known { rules.clone() } else { format!("{rules}; appended: {}", self.rule) };
        (all, before.split_by.clone().unwrap_or_else(|| SplitBy::of_rule(rules)))
    }
}

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
fn time_thresholds(
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
