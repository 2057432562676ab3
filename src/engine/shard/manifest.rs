//! The manifest: what a dataset holds, in JSON that people can read, with a checksum.

use super::FORMAT_VERSION;
use super::block::Recent;
use super::weights::Weights;
use crate::error::{Error, IoContext, Result};
use crate::storage::{Disk, MANIFEST_FILE, check_folders, no_dataset, read_regular, write_atomic};
use crate::times::TimeUnit;
use crate::transform::{Transform, Transformed};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What an entry is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// The model is fitted to these.
    Train = 0,
    /// Settings and the end of training are chosen on these.
    Validation = 1,
    /// The error that is reported comes from these.
    Test = 2,
}

impl Split {
    /// All splits, in the order of their numbers.
    pub const ALL: [Split; 3] = [Split::Train, Split::Validation, Split::Test];

    /// The name of its folder.
    pub fn name(self) -> &'static str {
        match self {
            Split::Train => "train",
            Split::Validation => "validation",
            Split::Test => "test",
        }
    }
}

/// One file of entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardRecord {
    /// Path within the dataset.
    pub file: String,
    /// Its number of entries.
    pub entries: u64,
    /// Its number of blocks.
    pub blocks: u64,
    /// Its length.
    pub bytes: u64,
    /// The first slice.
    pub first: u32,
    /// The last slice.
    pub last: u32,
    /// The checksum of its table, which holds those of its blocks.
    pub table_crc32c: u32,
}

/// One split.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitRecord {
    /// Its number of entries.
    pub entries: u64,
    /// Distinct indices of the first mode of the mode order.
    pub slices: u64,
    /// Distinct indices of all modes but the last.
    pub fibres: u64,
    /// Its files.
    pub shards: Vec<ShardRecord>,
}

impl SplitRecord {
    /// The length of all its files.
    pub fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.bytes).sum()
    }
}

/// Bins of a numeric or time mode: index = floor((x - origin) / width).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bins {
    /// Where bin 0 begins: the last multiple of the width that is not above the least value of the
    /// data. For times, seconds since 1970.
    pub origin: f64,
    /// The width of a bin. For times, seconds.
    pub width: f64,
    /// Whether the values are times.
    pub time: bool,
    /// How many units of the file's own numbers make a second (times only), e.g. 1000.
    pub per_second: f64,
    /// How the times of the files were written; datasets of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<TimeUnit>,
}

impl Bins {
    /// A time that is written as a number, in seconds: of the unit that the dataset was made from.
    /// `None` where that is days and this is none.
    pub fn seconds(&self, number: f64) -> Option<f64> {
        match self.unit {
            // Dates have no numbers: each is told by its size.
            Some(TimeUnit::Date) => TimeUnit::of(number).seconds(number),
            Some(unit) => unit.seconds(number),
            None => Some(number / self.per_second),
        }
    }
}

impl Bins {
    /// Whether so many bins follow one another: each begins after the one before, also the last.
    pub(crate) fn ascend(&self, dim: u32) -> bool {
        let begin = |bin: f64| self.origin + self.width * bin;
        let last = f64::from(dim);
        // Rounding is coarsest where numbers are largest: at one of the ends.
        let apart = begin(0.0) < begin(1.0) && begin(last - 1.0) < begin(last);
        self.width > 0.0 && apart && begin(last).is_finite() && (!self.time || self.per_second > 0.0)
    }
}

/// The file with a mode's labels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelsFile {
    /// Path within the dataset.
    pub file: String,
    /// Its length.
    pub bytes: u64,
    /// Its checksum.
    pub crc32c: u32,
}

/// What the indices of a mode stand for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum ModeKind {
    /// Index i stands for the number i + base.
    Range {
        /// The number of index 0.
        base: i64,
    },
    /// Integers that are no plain range, ascending.
    Integers {
        /// Where they are kept.
        labels: LabelsFile,
    },
    /// Text, sorted: numbers by value first, then the rest by bytes.
    Text {
        /// Where it is kept.
        labels: LabelsFile,
    },
    /// Intervals of numbers or times.
    Bins(Bins),
}

/// How the mode's indices are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModeStatistics {
    /// Indices with at least one train entry.
    pub in_train: u64,
    /// Indices with entries, but none in train: they cannot be learned.
    pub only_held_out: u64,
}

/// One mode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mode {
    /// Its name: the column's, or mode1, mode2, ...
    pub name: String,
    /// Its dimension.
    pub dim: u32,
    /// What its indices stand for.
    #[serde(flatten)]
    pub kind: ModeKind,
    /// How they are used.
    pub statistics: ModeStatistics,
    /// The first and the last of bins in a row that have no train entries, where some of a mode have only others:
    /// the nearest that has some stands in for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<[u32; 2]>,
}

impl Mode {
    /// For each index the one that stands in for it: itself, or of bins without train entries the nearest with
    /// some. None where all stand for themselves.
    pub fn stand_ins(&self) -> Option<Vec<u32>> {
        if self.gaps.is_empty() {
            return None;
        }
        let mut all: Vec<u32> = (0..self.dim).collect();
        for &gap in &self.gaps {
            (gap[0]..=gap[1]).for_each(|index| all[index as usize] = nearest(index, gap, self.dim));
        }
        Some(all)
    }
}

/// The index beside a gap that is nearest to one within, of two the earlier; itself where there is nothing else.
pub fn nearest(index: u32, [first, last]: [u32; 2], dim: u32) -> u32 {
    let (before, after) = (first.checked_sub(1), Some(last + 1).filter(|&after| after < dim));
    match (before, after) {
        (Some(before), Some(after)) if after - index < index - before => after,
        (before, after) => before.or(after).unwrap_or(index),
    }
}

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

/// Which part of a dataset a directory holds, where the dataset was cut for several hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its number, from 0.
    pub number: usize,
    /// The lanes that the dataset was cut by: those of a run on it.
    pub lanes: usize,
    /// The shards of every part; one at the border of two parts is in both.
    pub shards: Vec<Vec<String>>,
}

/// How entries were divided among the splits: what further rows are divided by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "lowercase")]
pub enum SplitBy {
    /// Every row came with its split.
    Given,
    /// By a hash of the ids.
    Hash {
        /// Of train, validation and test.
        shares: [f64; 3],
        /// Of the hash.
        seed: u64,
    },
    /// The latest rows are held out.
    Time {
        /// The column of times, where it is no mode.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        column: Option<String>,
    },
}

impl SplitBy {
    /// From the sentence of datasets that say no more than that.
    pub fn of_rule(rule: &str) -> Self {
        let rule = rule.split(';').next().unwrap_or_default();
        if rule.starts_with("time") {
            return SplitBy::Time { column: None };
        }
        let hash = || {
            let (shares, seed) = rule.split_once(" by hash, seed ")?;
            let shares: Vec<f64> = shares.split('/').map(str::parse).collect::<Result<_, _>>().ok()?;
            let shares: [f64; 3] = shares.try_into().ok()?;
            let sum: f64 = shares.iter().sum();
            Some(SplitBy::Hash { shares: shares.map(|share| share / sum), seed: seed.parse().ok()? })
        };
        hash().unwrap_or(SplitBy::Given)
    }
}

/// Everything about a dataset but its entries and labels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of the format.
    pub format_version: u32,
    /// The program that wrote it.
    pub written_by: String,
    /// The modes in the user's order.
    pub modes: Vec<Mode>,
    /// The name of the value column.
    pub value: String,
    /// Level l belongs to `modes[mode_order[l]]`.
    pub mode_order: Vec<usize>,
    /// Why this order, for people.
    pub mode_order_reason: String,
    /// Rows that fell on an entry that was there already.
    pub duplicates: u64,
    /// What was done with them.
    pub duplicates_rule: String,
    /// How the splits were made.
    pub split_rule: String,
    /// The train values; in a dataset with weights, those that have some.
    pub values: ValueStatistics,
    /// What the values are kept as, where that is not what they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transform: Option<Transformed>,
    /// How many of the entries are cells that had none, drawn as zeros; none where all were observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<u64>,
    /// The weights; none where every entry counts once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<Weights>,
    /// Train entries.
        if self.format_version == 0 {
            return Err("there is no format version 0".into());
        }
    pub train: SplitRecord,
    /// Validation entries.
    pub validation: SplitRecord,
    /// Test entries.
    pub test: SplitRecord,
    /// Which part of it is here; none where it is whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// The split rule for programs; datasets of earlier versions have the sentence only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_by: Option<SplitBy>,
    /// How often rows were appended. Labels of rows that came later may stand behind all others.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub appended: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The manifest's file name.
            if let ModeKind::Bins(bins) = &mode.kind
                && !bins.ascend(mode.dim)
            {
                return Err(format!("the bins of {} have no width, or do not ascend", mode.name));
            }
pub const FILE: &str = MANIFEST_FILE;
/// What the file says it is. Those of before this was said prove themselves by their checksum.
const KIND: &str = "tenfill dataset";
/// The file begins with this, the checksum of all that follows the comma and line feed, and those.
const BEGINS: &str = "{\n  \"crc32c\": \"";
const BEGIN_LENGTH: usize = BEGINS.len() + 8 + "\",\n".len();

impl Manifest {
    /// What is known of a dataset before a table is read, from its modes and whether there will be validation
    /// entries: enough to see which requests cannot be met. Dimensions that are not known are the largest.
    pub fn expected(modes: &[(String, Option<u32>)], validation: bool) -> Self {
        let mode = |(name, dim): &(String, Option<u32>)| Mode {
            name: name.clone(),
            dim: dim.unwrap_or(u32::MAX),
            kind: ModeKind::Range { base: 0 },
            statistics: ModeStatistics { in_train: u64::from(u32::MAX), only_held_out: 0 },
            gaps: Vec::new(),
        };
        let of = |entries: u64| SplitRecord { entries, ..SplitRecord::default() };
        Manifest {
            format_version: 1,
            written_by: String::new(),
            modes: modes.iter().map(mode).collect(),
            value: String::new(),
            mode_order: (0..modes.len()).collect(),
            mode_order_reason: String::new(),
            duplicates: 0,
            duplicates_rule: String::new(),
            split_rule: String::new(),
            values: ValueStatistics { min: 0.0, max: 1.0, distinct: None, ..ValueStatistics::default() },
            absent: None,
            weights: None,
            transform: None,
            train: of(u64::from(u32::MAX)),
            validation: of(u64::from(validation)),
            test: of(0),
            part: None,
            split_by: None,
            appended: 0,
        }
    }

    /// Whether an entry of this value was observed: where cells were drawn, zeros count as drawn.
    pub fn is_observed(&self, value: f64) -> bool {
        self.absent.is_none() || value != 0.0
    }

    /// How values are kept, where that is not what they were.
    pub fn transform(&self) -> Option<Transform> {
        self.transform.map(|transform| transform.by)
    }

    /// A value that is kept, in its own units.
    #[inline]
    pub fn told(&self, kept: f64) -> f64 {
        self.transform().map_or(kept, |transform| transform.undo(kept))
    }

    /// The mean of the train values in their own units.
    pub fn told_mean(&self) -> f64 {
        self.transform.map_or_else(|| self.mean(), |transform| transform.mean)
    }

    /// The entries of a split.
    pub fn split(&self, split: Split) -> &SplitRecord {
        match split {
            Split::Train => &self.train,
            Split::Validation => &self.validation,
            Split::Test => &self.test,
        }
    }

    /// The sum of the weights of a split: the number of its entries where they have none.
    pub fn weight(&self, split: Split) -> f64 {
        match &self.weights {
            Some(weights) => weights.split(split).sum,
            None => self.split(split).entries as f64,
        }
    }

    /// The dimensions in the user's order.
    pub fn dims(&self) -> Vec<u32> {
        self.modes.iter().map(|mode| mode.dim).collect()
    }

    /// The dimensions in level order.
    pub fn level_dims(&self) -> Vec<u32> {
        self.mode_order.iter().map(|&mode| self.modes[mode].dim).collect()
    }

    /// All shards' bytes over all entries.
    pub fn bytes_per_entry(&self) -> f64 {
        let (bytes, entries) = Split::ALL.iter().fold((0, 0), |(bytes, entries), &split| {
            (bytes + self.split(split).bytes(), entries + self.split(split).entries)
        });
        if entries == 0 { 0.0 } else { bytes as f64 / entries as f64 }
    }

    /// Writes the manifest: the last file of a dataset.
    pub fn write(&self, disk: &dyn Disk, directory: &Path) -> Result<()> {
        let path = directory.join(FILE);
        let body =
            serde_json::to_string_pretty(self).map_err(std::io::Error::other).context("write", &path)?;
        let rest = format!("  \"kind\": \"{KIND}\",\n{}\n", body.trim_start_matches(['{', '\n']));
        let text = format!("{BEGINS}{:08x}\",\n{rest}", crc32c::crc32c(rest.as_bytes()));
        write_atomic(disk, &path, text.as_bytes())
    }

    /// Reads and checks the manifest of the dataset in `directory`.
    pub fn read(directory: &Path) -> Result<Self> {
        let path = directory.join(FILE);
        if path.symlink_metadata().is_err() {
            return Err(Error::input(directory, no_dataset(directory)));
        }
        check_folders(directory, &["modes", "train", "validation", "test"])?;
        Self::parse(&read_regular(&path)?, &path)
    }

    /// Parses a manifest's bytes; `path` is for the errors.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Self> {
        let flaw = |at: usize, what: &str| Error::corrupt(path, at as u64, what);
        let Some((begin, rest)) = bytes.split_at_checked(BEGIN_LENGTH) else {
            return Err(flaw(bytes.len(), "the manifest is cut short"));
        };
        let expected = format!("{BEGINS}{:08x}\",\n", crc32c::crc32c(rest));
        if !begin.starts_with(BEGINS.as_bytes()) {
            return Err(flaw(0, "this is no manifest of tenfill"));
        }
        if begin != expected.as_bytes() {
            return Err(flaw(
                BEGINS.len(),
                "the checksum of the manifest does not match: it was cut or changed by hand",
            ));
        }
        #[derive(Deserialize)]
        struct Version {
            format_version: u64,
            kind: Option<String>,
        }
        let wrong =
            |error: serde_json::Error| flaw(0, &format!("the manifest cannot be understood: {error}"));
        let version: Version = serde_json::from_slice(bytes).map_err(wrong)?;
        if version.kind.is_some_and(|kind| kind != KIND) {
            return Err(flaw(0, "this is no manifest of tenfill"));
        }
        if version.format_version > u64::from(FORMAT_VERSION) {
            return Err(Error::Newer {
                file: path.into(),
                found: version.format_version,
                known: FORMAT_VERSION.into(),
            });
        }
        let manifest: Manifest = serde_json::from_slice(bytes).map_err(wrong)?;
        manifest.check().map_err(|what| flaw(0, &what))?;
        Ok(manifest)
    }

    /// The rules that the rest of the program relies on.
    fn check(&self) -> Result<(), String> {
        let order = self.modes.len();
        if !(crate::MIN_ORDER..=crate::MAX_ORDER).contains(&order) {
            return Err(format!("{order} modes are not 2 to 8"));
        }
        let mut sorted = self.mode_order.clone();
        sorted.sort_unstable();
        if sorted != (0..order).collect::<Vec<_>>() {
            return Err("the mode order is no permutation of the modes".into());
        }
        if self.modes.iter().any(|mode| mode.dim == 0) {
            return Err("a mode has dimension 0".into());
        }
        for mode in &self.modes {
            let ModeStatistics { in_train, only_held_out } = mode.statistics;
            if in_train.checked_add(only_held_out).is_none_or(|seen| seen > u64::from(mode.dim)) {
                return Err(format!("more indices of {} have entries than there are", mode.name));
            }
            if mode.gaps.iter().any(|&[first, last]| first > last || last >= mode.dim) {
                return Err(format!("the bins of {} without train entries are none", mode.name));
            }
            if let ModeKind::Integers { labels } | ModeKind::Text { labels } = &mode.kind
                && (!labels.file.starts_with("modes/") || labels.file.contains(".."))
            {
                return Err(format!("the labels of {} lie outside the dataset", mode.name));
            }
        }
        let ValueStatistics { min, max, sum, sum_of_squares, .. } = self.values;
        if !(min <= max && sum.is_finite() && sum_of_squares.is_finite()) {
            return Err(format!("the values cannot be from {min} to {max} with a sum of {sum}"));
        }
        if self.weights.is_some() != (self.format_version == FORMAT_VERSION) {
            return Err("weights and format version do not go together".into());
        }
        if self
            .weights
            .as_ref()
            .is_some_and(|weights| !(weights.train.sum > 0.0 && weights.train.sum.is_finite()))
        {
            return Err("the weights of train do not add up to anything".into());
        }
        for split in Split::ALL {
            let record = self.split(split);
            let sum = |of: fn(&ShardRecord) -> u64| {
                record.shards.iter().try_fold(0u64, |sum, shard| sum.checked_add(of(shard)))
            };
            if sum(|shard| shard.bytes).is_none() || sum(|shard| shard.blocks).is_none() {
                return Err(format!("the shards of {} are longer than any disk", split.name()));
            }
            if sum(|shard| shard.entries) != Some(record.entries) {
                return Err(format!("the shards of {} do not add up to its entries", split.name()));
            }
            let inside = |file: &str| file.starts_with(&format!("{}/", split.name())) && !file.contains("..");
            if record.shards.iter().any(|shard| !inside(&shard.file)) {
                return Err("a shard lies outside the dataset".into());
            }
        }
        if let Some(part) = &self.part
            && (part.lanes == 0 || part.number >= part.shards.len())
        {
            return Err("there is no such part of a dataset".into());
        }
        Ok(())
    }
}
