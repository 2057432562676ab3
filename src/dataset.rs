//! A dataset: made from tables, opened, looked at.

use crate::Result;
use std::path::{Path, PathBuf};
use tenfill_engine::control::Control;
use tenfill_engine::convert::{self, Duplicates, SplitRule, convert};
use tenfill_engine::error::Error;
use tenfill_engine::ingest::columns::Binning;
use tenfill_engine::ingest::{Condition, Encoding, WideRequest};
use tenfill_engine::transform::Transform;
use tenfill_engine::{shard, units};

pub use tenfill_engine::shard::Split;

/// Tables on their way to a [`Dataset`]: CSV, TSV, `a::b::c` text, FROSTT `.tns` or Parquet, plain or
/// compressed. What is not said is found from the file, as on the command line.
///
/// ```
/// # fn main() -> tenfill::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let (csv, data) = (folder.path().join("r.csv"), folder.path().join("r.tenfill"));
/// # std::fs::write(&csv, "user,movie,day,stars\na,x,2004-05-01,4\nb,x,2004-05-02,3\na,y,2004-05-09,5\n").unwrap();
/// use tenfill::ConvertOptions;
///
/// let dataset = ConvertOptions::new([&csv])
///     .modes(["user", "movie", "day"])
///     .value("stars")
///     .bin("day", "7d")
///     .split("none")
///     .convert(&data)?;
/// assert_eq!(dataset.dims(), [2, 2, 2]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ConvertOptions {
    options: convert::ConvertOptions,
    has_split: bool,
    wrong: Option<String>,
}

impl ConvertOptions {
    /// These files, with the defaults of the command line.
    pub fn new<P: AsRef<Path>>(inputs: impl IntoIterator<Item = P>) -> Self {
        let inputs = inputs.into_iter().map(|path| path.as_ref().to_path_buf()).collect();
        let options = convert::ConvertOptions::new(inputs, PathBuf::new());
        ConvertOptions { options, has_split: false, wrong: None }
    }

    /// The columns of ids, by header name or number from 1.
    pub fn modes<S: Into<String>>(mut self, columns: impl IntoIterator<Item = S>) -> Self {
        self.options.read.columns.modes = Some(columns.into_iter().map(Into::into).collect());
        self
    }

    /// The column of values.
    pub fn value(mut self, column: impl Into<String>) -> Self {
        self.options.read.columns.value = Some(column.into());
        self
    }

    /// The column of weights: an entry of weight 2 counts as two.
    pub fn weights(mut self, column: impl Into<String>) -> Self {
        self.options.read.columns.weight = Some(column.into());
        self
    }

    /// Takes only rows that meet a condition, like `rating > 0`; all of them where it is called again.
    pub fn only_where(mut self, condition: &str) -> Self {
        match Condition::parse(condition) {
            Ok(conditions) => self.options.read.columns.conditions.extend(conditions),
            Err(what) => self.wrong = self.wrong.or(Some(what)),
        }
        self
    }

    /// Whether a missing value is an error, instead of a missing entry.
    pub fn strict(mut self, strict: bool) -> Self {
        self.options.read.columns.strict = strict;
        self
    }

    /// A wide table: `ids` name its rows, and all other columns are the ids of the mode `name`.
    pub fn wide<S: Into<String>>(
        mut self,
        ids: impl IntoIterator<Item = S>,
        name: impl Into<String>,
    ) -> Self {
        let ids = Some(ids.into_iter().map(Into::into).collect());
        self.options.read.columns.wide = Some(WideRequest { ids, mode: Some(name.into()) });
        self
    }

    /// Draws so many cells that have no entry, per entry, as zeros; a table without a value has 1 in every row.
    pub fn absent(mut self, per_entry: f64) -> Self {
        if per_entry.is_finite() && per_entry > 0.0 {
            (self.options.absent, self.options.read.columns.ones) = (per_entry, true);
        } else {
            self.wrong = self.wrong.or(Some(format!("`absent` {per_entry} is no number above 0")));
        }
        self
    }

    /// Fits the logarithm or logit of values (`log1p`, `log`, `logit`); all answers and errors undo it.
    pub fn transform(mut self, name: &str) -> Self {
        match Transform::parse(name) {
            Ok(transform) => self.options.transform = Some(transform),
            Err(what) => self.wrong = self.wrong.or(Some(what)),
        }
        self
    }

    /// The encoding of text (`latin1`, `utf-16`, ...); it is found where not given.
    pub fn encoding(mut self, name: &str) -> Self {
        match Encoding::parse(name) {
            Ok(encoding) => self.options.read.dialect.encoding = Some(encoding),
            Err(what) => self.wrong = self.wrong.or(Some(what)),
        }
        self
    }

    /// Cuts a mode into bins: `7d` or `12h` of times, `10` of numbers.
    pub fn bin(mut self, mode: impl Into<String>, width: &str) -> Self {
        match Binning::parse(width) {
            Ok(binning) => self.options.read.columns.bins.push((mode.into(), binning)),
            Err(what) => self.wrong = self.wrong.or(Some(what)),
        }
        self
    }

    /// Shares of train, validation and test (`80/10/10`), `time`, or `none`.
    pub fn split(mut self, rule: &str) -> Self {
        self.has_split = true;
        match SplitRule::parse(rule) {
            Ok(rule) => self.options.split = rule,
            Err(what) => self.wrong = self.wrong.or(Some(what)),
        }
        self
    }

    /// Files of validation entries; there is no split then.
    pub fn validation<P: AsRef<Path>>(mut self, files: impl IntoIterator<Item = P>) -> Self {
        self.options.validation = files.into_iter().map(|path| path.as_ref().to_path_buf()).collect();
        self
    }

    /// Files of test entries; there is no split then.
    pub fn test<P: AsRef<Path>>(mut self, files: impl IntoIterator<Item = P>) -> Self {
        self.options.test = files.into_iter().map(|path| path.as_ref().to_path_buf()).collect();
        self
    }

    /// What becomes of rows with the same ids: `mean` (the default), `first`, `last`, `sum` or `error`.
    pub fn duplicates(mut self, rule: &str) -> Self {
        let rules =
            [Duplicates::Mean, Duplicates::First, Duplicates::Last, Duplicates::Sum, Duplicates::Error];
        match rules.into_iter().find(|known| known.name() == rule) {
            Some(known) => self.options.duplicates = known,
            None => self.wrong = self.wrong.or(Some(format!("'{rule}' is no rule for duplicates"))),
        }
        self
    }

    /// Seeds the split.
    pub fn seed(mut self, seed: u64) -> Self {
        self.options.seed = seed;
        self
    }

    /// The memory to keep to, in bytes.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.options.memory = bytes;
        self
    }

    /// Threads that read.
    pub fn threads(mut self, threads: usize) -> Self {
        self.options.read.threads = threads.max(1);
        self
    }

    /// Whether to replace a dataset that is there already.
    pub fn force(mut self, force: bool) -> Self {
        self.options.force = force;
        self
    }

    /// The same for a table that is filled: as little is held out as tells the error.
    pub(crate) fn for_fill(&self) -> Result<convert::ConvertOptions> {
        if let Some(what) = &self.wrong {
            return Err(Error::request(what.clone()));
        }
        let mut options = self.options.clone();
        if !self.has_split {
            options.split = tenfill_engine::fill::SPLIT;
        }
        Ok(options)
    }

    /// Writes the dataset, whole or not at all, and opens it.
    ///
    /// # Errors
    ///
    /// Whatever is wrong with the files, with their file and line; an output that exists.
    pub fn convert(&self, output: impl AsRef<Path>) -> Result<Dataset> {
        if let Some(what) = &self.wrong {
            return Err(Error::request(what.clone()));
        }
        let options = convert::ConvertOptions { output: output.as_ref().into(), ..self.options.clone() };
        convert(&options, &Control::default())?;
        Dataset::open(output)
    }
}

/// A dataset on disk. Only its description is in memory.
#[derive(Debug, Clone)]
pub struct Dataset(pub(crate) shard::Dataset);

impl Dataset {
    /// Opens a dataset directory.
    ///
    /// # Errors
    ///
    /// Where there is none, or it is damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        shard::Dataset::open(path.as_ref()).map(Dataset)
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        self.0.directory()
    }

    /// The number of indices of each mode.
    pub fn dims(&self) -> Vec<u32> {
        self.0.manifest().dims()
    }

    /// The names of the modes.
    pub fn modes(&self) -> Vec<&str> {
        self.0.manifest().modes.iter().map(|mode| mode.name.as_str()).collect()
    }

    /// The number of entries of a split.
    pub fn entries(&self, split: Split) -> u64 {
        self.0.manifest().split(split).entries
    }

    /// Calls `each(indices, value)` for every entry of a split, values in their own units; one block is in memory at a
    /// time.
    ///
    /// # Errors
    ///
    /// Where a shard cannot be read or is damaged.
    pub fn for_each(&self, split: Split, each: impl FnMut(&[u32], f64)) -> Result<()> {
        let (manifest, mut each) = (self.0.manifest(), each);
        self.0.for_each(split, |indices, value| each(indices, manifest.told(value)))
    }
}

/// A size in bytes from `512M` or `2G`, as the command line takes it.
///
/// # Errors
///
/// Where it is no size.
pub fn parse_size(text: &str) -> Result<u64> {
    units::parse_size(text).map_err(Error::request)
}
