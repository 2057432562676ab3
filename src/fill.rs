//! A table or an array, given back with its holes filled.

use crate::completion::control;
use crate::{ConvertOptions, Result};
use std::path::{Path, PathBuf};
use tenfill_engine::fill::{FillOptions, check_split, fill, usual_config};
use tenfill_engine::run::{Limits, unobserved};

pub use tenfill_engine::fill::{Filled, HeldOut};

/// A table or an array whose missing values are wanted.
///
/// ```
/// # fn main() -> tenfill::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let (csv, out) = (folder.path().join("r.csv"), folder.path().join("filled.csv"));
/// # let value = |n: u32| if n % 7 == 0 { String::new() } else { (n % 20 + n / 20).to_string() };
/// # let rows: Vec<String> = (0..400).map(|n| format!("s{},{},{}", n % 20, n / 20, value(n))).collect();
/// # std::fs::write(&csv, format!("station,hour,reading\n{}\n", rows.join("\n"))).unwrap();
/// use tenfill::{ConvertOptions, Fill};
///
/// let table = ConvertOptions::new([&csv]).modes(["station", "hour"]).value("reading");
/// let filled = Fill::new(table).rank([2, 2]).write(&out)?;
/// assert_eq!((filled.rows, filled.filled), (400, 58));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Fill {
    table: ConvertOptions,
    rank: Option<Vec<usize>>,
    run: Option<PathBuf>,
    keep: Option<PathBuf>,
    all_cells: bool,
    sd: bool,
    force: bool,
}

impl Fill {
    /// Of the one file of `table`, which says how it is read. A tenth of its values is held out, half of it to
    /// tell the error, unless it has a split of its own.
    pub fn new(table: ConvertOptions) -> Self {
        Fill { table, rank: None, run: None, keep: None, all_cells: false, sd: false, force: false }
    }

    /// The rank, one number per mode or one for all; found on validation where it is not given.
    pub fn rank(mut self, rank: impl Into<Vec<usize>>) -> Self {
        self.rank = Some(rank.into());
        self
    }

    /// Uses the model of a run.
    pub fn run(mut self, run: impl AsRef<Path>) -> Self {
        self.run = Some(run.as_ref().into());
        self
    }

    /// Keeps the run that is made there.
    pub fn keep(mut self, run: impl AsRef<Path>) -> Self {
        self.keep = Some(run.as_ref().into());
        self
    }

    /// Whether to add a row for every cell that has none.
    pub fn all_cells(mut self, all: bool) -> Self {
        self.all_cells = all;
        self
    }

    /// Whether to tell the standard deviations of what is filled in, where the model has them: in a column `sd`, or, of a
    /// wide table or an array, in a second file beside it (`out.sd.csv`, `out.sd.npy`).
    pub fn sd(mut self, sd: bool) -> Self {
        self.sd = sd;
        self
    }

    /// Whether to replace a table that is there already.
    pub fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Writes the table with its holes filled, whole or not at all.
    ///
    /// # Errors
    ///
    /// Whatever is wrong with the table, with its line; one that has no hole; an output that exists.
    pub fn write(&self, output: impl AsRef<Path>) -> Result<Filled> {
        let convert = self.table.for_fill()?;
        let limits = Limits { memory: convert.memory, threads: convert.read.threads, ..Limits::default() };
        let seed = convert.seed;
        if self.run.is_none() {
            check_split(&convert, self.rank.as_deref())?;
        }
        let options = FillOptions {
            convert,
            output: output.as_ref().into(),
            force: self.force,
            run: self.run.clone(),
            keep: self.keep.clone(),
            all_cells: self.all_cells,
            sd: self.sd,
        };
        let configure = |dataset: &tenfill_engine::shard::Dataset| {
            let mut config = usual_config(dataset, self.rank.as_deref())?;
            config.seed = seed;
            Ok(config)
        };
        fill(&options, &configure, &limits, &control(None), &unobserved)
    }
}
