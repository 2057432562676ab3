//! Times that a file writes in another unit than the data of the model.

use crate::error::{Error, Result};
use crate::ingest::{ColumnTimes, TimesSeen};
use crate::model::{Found, ModeIds};
use crate::shard::Bins;
use crate::times::TimeUnit;
use std::path::Path;

/// Where the times of a mode were found.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Met {
    inside: bool,
    outside: bool,
}

impl Met {
    #[inline]
    pub(super) fn add(&mut self, found: Found) {
        self.inside |= matches!(found, Found::Index(_));
        self.outside |= matches!(found, Found::Nearest(_));
    }

    /// Whether all of them may be in another unit: with times of its own, some would lie within the bins or be of the
    /// same size as those of the data.
    pub(super) fn is_doubtful(self, ids: &ModeIds) -> bool {
        self.outside && !self.inside && ids.bins().is_some_and(|bins| bins.time)
    }
}

/// Refuses times that all lie outside the bins and are, by their size, of another unit than those of the data.
pub(super) fn check_unit(ids: &ModeIds, times: &ColumnTimes, mode: usize, file: &Path) -> Result<()> {
    let bins = ids.bins();
    let other = |bins: &&Bins| times.unit(mode).ok().filter(|&unit| bins.is_other(unit));
    let Some((bins, unit)) = bins.and_then(|bins| Some((bins, other(&bins)?))) else { return Ok(()) };
    let (name, unit) = (ids.name(), unit.name());
    let own = bins.unit.map_or("in another unit", TimeUnit::name);
    let what = format!(
        "the times of {name} are {unit}, those that the model learned from {own}: write them in one way, best as 2021-01-15"
    );
    Err(Error::input(file, what))
}

/// The times of one column, cell by cell: a number, or a date.
pub(super) fn times_of(cells: impl Iterator<Item = Option<f64>>, file: &Path) -> ColumnTimes {
    let (mut seen, mut times) = (TimesSeen::default(), ColumnTimes::default());
    cells.zip(1..).for_each(|(number, line)| seen.add(0, number.unwrap_or(0.0), number.is_none(), line));
    times.join(&seen, file);
    times
}
