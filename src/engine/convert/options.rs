//! What a conversion is asked for, and what it reports.

use crate::ingest::ReadOptions;
use crate::shard::Manifest;
use crate::transform::Transform;
use std::path::PathBuf;

/// What to do with rows that fall on the same entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    /// Refuse the file.
    Error,
    /// Keep the first row.
    First,
    /// Keep the last row.
    Last,
    /// Take the mean of the values; it counts as many, unless rows have weights.
    Mean,
    /// Take their sum.
    Sum,
}

impl Duplicates {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Duplicates::Error => "error",
            Duplicates::First => "first",
            Duplicates::Last => "last",
            Duplicates::Mean => "mean",
            Duplicates::Sum => "sum",
        }
    }
}

/// How entries are divided among train, validation and test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SplitRule {
    /// Shares of train, validation and test, by a seeded hash of the entry's labels.
    Shares([f64; 3]),
    /// The latest tenth to test, the tenth before it to validation.
    Time,
}

impl SplitRule {
    /// From `80/10/10`, `90/10`, `none` or `time`.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "time" => return Ok(SplitRule::Time),
            "none" => return Ok(SplitRule::Shares([1.0, 0.0, 0.0])),
            _ => {}
        }
        let wrong = || format!("'{text}' is no split: write 80/10/10 (train/validation/test), time or none");
        let parts: Vec<f64> =
            text.split('/').map(str::parse).collect::<Result<_, _>>().map_err(|_| wrong())?;
        let sum: f64 = parts.iter().sum();
        let shares = match parts.as_slice() {
            [train, test] => [*train, 0.0, *test],
            [train, validation, test] => [*train, *validation, *test],
            _ => return Err(wrong()),
        };
        if shares.iter().any(|share| !share.is_finite() || *share < 0.0) || shares[0] <= 0.0 {
            return Err(wrong());
        }
        Ok(SplitRule::Shares(shares.map(|share| share / sum)))
    }
}

/// A conversion.
#[derive(Debug, Clone)]
pub struct ConvertOptions {
    /// The files; with `validation` or `test` given, the train entries.
    pub inputs: Vec<PathBuf>,
    /// Files of validation entries.
    pub validation: Vec<PathBuf>,
    /// Files of test entries.
    pub test: Vec<PathBuf>,
    /// The dataset.
    pub output: PathBuf,
    /// Format, dialect, columns, threads.
    pub read: ReadOptions,
    /// How to split; not used where files are given.
    pub split: SplitRule,
    /// Seeds the split.
    pub seed: u64,
    /// What to do with duplicates.
    pub duplicates: Duplicates,
    /// How many absent cells per entry are drawn as zeros.
    pub absent: f64,
    /// What values are kept as; answers undo it.
    pub transform: Option<Transform>,
    /// The memory to keep to, in bytes.
    pub memory: u64,
    /// Where scratch files go; beside the output where not given.
    pub temp_dir: Option<PathBuf>,
    /// How many bad rows to leave out before giving up.
    pub skip_bad: u64,
    /// Whether to replace an existing output.
    pub force: bool,
}

impl ConvertOptions {
    /// The defaults of the command line for `inputs`, to be changed field by field.
    pub fn new(inputs: Vec<PathBuf>, output: impl Into<PathBuf>) -> Self {
        ConvertOptions {
            inputs,
            validation: Vec::new(),
            test: Vec::new(),
            output: output.into(),
            read: ReadOptions::default(),
            split: SplitRule::Shares([0.8, 0.1, 0.1]),
            seed: 1,
            duplicates: Duplicates::Mean,
            absent: 0.0,
            transform: None,
            memory: crate::budget::Budget::default_bytes(),
            temp_dir: None,
            skip_bad: 0,
            force: false,
        }
    }

    /// Whether some entries are to be for validation.
    pub fn holds_out_validation(&self) -> bool {
        match self.split {
            _ if !self.validation.is_empty() => true,
            _ if !self.test.is_empty() => false,
            SplitRule::Shares([_, validation, _]) => validation > 0.0,
            SplitRule::Time => true,
        }
    }
}

/// What a conversion did.
#[derive(Debug, Clone)]
pub struct Converted {
    /// The dataset's manifest.
    pub manifest: Manifest,
    /// Rows that were read, duplicates included.
    pub rows: u64,
    /// Rows that were left out as bad.
    pub bad_rows: u64,
    /// Rows (of a wide table, cells) that have no value.
    pub empty: u64,
    /// Rows that do not meet the conditions.
    pub left_out: u64,
    /// Absent cells that were drawn as zeros.
    pub absent: u64,
    /// Entries that stand in more than one of the given files of train, validation and test.
    pub overlap: u64,
    /// What the user should know.
    pub notes: Vec<String>,
}
