//! The manifest: what a dataset holds, in JSON that people can read, with a checksum.

use super::FORMAT_VERSION;
use super::bins::Bins;
use super::statistics::ValueStatistics;
use super::weights::Weights;
use crate::error::{Error, IoContext, Result};
use crate::storage::{Disk, MANIFEST_FILE, check_folders, no_dataset, read_regular, write_atomic};
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
    /// What stood for a missing value in the files, beside what does so everywhere: further rows may have it, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// How many of the entries are cells that had none, drawn as zeros; none where all were observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<u64>,
    /// The weights; none where every entry counts once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<Weights>,
    /// Train entries.
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

/// Names of modes that hold times, or units of time.
const TIME_NAMES: [&str; 16] = [
    "timestamp",
    "date",
    "time",
    "datetime",
    "ts",
    "t",
    "step",
    "year",
    "quarter",
    "month",
    "week",
    "day",
    "hour",
    "minute",
    "second",
    "season",
];

/// Whether a word of a name is one of times: `week`, `rating_timestamp`, `unixReviewTime`.
fn is_time_name(name: &str) -> bool {
    let lower = name.to_lowercase();
    let mut words = lower.split(|c: char| !c.is_alphanumeric());
    words.any(|word| TIME_NAMES.contains(&word) || word.ends_with("time") || word.ends_with("date"))
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The manifest's file name.
pub const FILE: &str = MANIFEST_FILE;
/// What the file says it is. Those of before this was said prove themselves by their checksum.
const KIND: &str = "tenfill dataset";
/// The file begins with this, the checksum of all that follows the comma and line feed, and those.
const BEGINS: &str = "{\n  \"crc32c\": \"";
const BEGIN_LENGTH: usize = BEGINS.len() + 8 + "\",\n".len();

impl Manifest {
    /// Whether nearly every train entry has an id of a mode that no other has, as where the mode numbers the rows.
    pub fn has_own_ids(&self, mode: &Mode) -> bool {
        mode.gaps.is_empty() && mode.statistics.in_train * 10 >= self.train.entries * 9
    }

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
            values: ValueStatistics::expected(),
            missing: Vec::new(),
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

    /// Whether the indices of a mode may be counted as time: it has bins, the name of times, or none of its own.
    pub fn may_be_time(&self, mode: usize) -> bool {
        let Mode { name, kind, .. } = &self.modes[mode];
        let made = ["mode", "axis", "column"].iter().filter_map(|made| name.strip_prefix(made));
        matches!(kind, ModeKind::Bins(_))
            || is_time_name(name)
            || made.into_iter().any(|number| number.parse::<usize>().is_ok())
    }

    /// How many rows an entry is the mean of, on average; none where hardly any were joined.
    pub fn rows_per_entry(&self) -> Option<f64> {
        let entries: u64 = Split::ALL.iter().map(|&split| self.split(split).entries).sum();
        let observed = entries.saturating_sub(self.absent.unwrap_or(0));
        let rows = (observed + self.duplicates) as f64 / observed.max(1) as f64;
        // Less is nothing to speak of.
        (self.duplicates_rule == "mean" && self.part.is_none() && rows >= 1.05).then_some(rows)
    }

    /// What is to be said of errors where entries are means of rows.
    pub fn joined(&self) -> Option<String> {
        let rows = self.rows_per_entry()?;
        let told = if rows < 10.0 { format!("{rows:.1}") } else { format!("{rows:.0}") };
        Some(format!(
            "entries are means of {told} rows on average: errors and sd are of such means, and single rows differ more"
        ))
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
        if self.format_version == 0 {
            return Err("there is no format version 0".into());
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
            if let ModeKind::Bins(bins) = &mode.kind
                && !bins.ascend(mode.dim)
            {
                return Err(format!("the bins of {} have no width, or do not ascend", mode.name));
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
