//! The entries of a file, with the model's indices of their ids.

use super::units::{Met, check_unit};
use crate::MAX_ORDER;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::ingest::columns::{Binning, ColumnRequest, ONES_NAME};
use crate::ingest::{self, Cell, ColumnTimes, ModeCells, ReadOptions, RowBatch, Source};
use crate::model::{Found, ModeIds, Model};
use crate::run::Config;
use crate::times::TimeUnit;
use crate::transform::Transform;
use std::path::Path;

/// One row of a file.
pub struct EntryRow<'b> {
    /// What was found of each mode.
    pub found: &'b [Found],
    /// The value.
    pub value: f64,
    batch: &'b RowBatch,
    row: usize,
}

impl EntryRow<'_> {
    /// The id of a mode as it stands in the file; of binned modes the number.
    pub fn id(&self, mode: usize) -> String {
        match &self.batch.modes[mode] {
            ModeCells::Ids(cells) => match cells[self.row] {
                Cell::Integer(id) => id.to_string(),
                Cell::Text { start, length } => {
                    String::from_utf8_lossy(self.batch.text_of(start, length)).into_owned()
                }
            },
            ModeCells::Numbers(numbers) => numbers[self.row].to_string(),
        }
    }
}

/// Reads a file with the columns of the model's modes and value, and tells how many rows have no value.
pub fn read_entries(
    model: &Model,
    ids: &[ModeIds],
    source: &Source,
    threads: usize,
    control: &Control,
    each: impl FnMut(&EntryRow<'_>) -> Result<()>,
) -> Result<u64> {
    read_entries_as(model, ids, source, None, threads, control, each)
}

/// The same where a value that a transform does not take is an error.
pub(super) fn read_entries_as(
    model: &Model,
    ids: &[ModeIds],
    source: &Source,
    transform: Option<Transform>,
    threads: usize,
    control: &Control,
    mut each: impl FnMut(&EntryRow<'_>) -> Result<()>,
) -> Result<u64> {
    let about = &model.about;
    let bins = ids.iter().filter_map(|mode| {
        mode.bins().map(|bins| (plain_column(mode.name()), Binning { width: bins.width, time: bins.time }))
    });
    let ones = is_of_ones(model);
    let options = ReadOptions {
        columns: ColumnRequest {
            modes: Some(ids.iter().map(|mode| plain_column(mode.name())).collect()),
            value: (!ones).then(|| plain_column(&about.value)),
            ones,
            bins: bins.collect(),
            missing: about.missing.clone(),
            transform,
            ..ColumnRequest::default()
        },
        threads,
        ..ReadOptions::default()
    };
    let input = ingest::open_source(source, &options, control)?;
    if input.plan().ones {
        control.say_once("there is no column of values: every row is a 1, as in the dataset (`absent`)");
    }
    let mut times = ColumnTimes::default();
    let mut empty = 0;
    let mut met = [Met::default(); MAX_ORDER];
    ingest::read_rows(input, &options, control, |batch| {
        empty += batch.empty;
        if let Some(bad) = batch.bad.first() {
            return Err(Error::Row { file: batch.file.clone(), line: bad.line, what: bad.what.clone() });
        }
        times.join(&batch.times_seen, &batch.file);
        for (mode, ids) in ids.iter().enumerate() {
            check_times(ids, mode, &batch, &times)?;
        }
        let mut found = [Found::Unknown; MAX_ORDER];
        for row in 0..batch.len() {
            for (mode, (cells, ids)) in batch.modes.iter().zip(ids).enumerate() {
                found[mode] = match cells {
                    ModeCells::Ids(cells) => match cells[row] {
                        Cell::Integer(id) => ids.integer(id),
                        Cell::Text { start, length } => {
                            match std::str::from_utf8(batch.text_of(start, length)) {
                                Ok(text) => ids.find(text).unwrap_or(Found::Unknown),
                                Err(_) => Found::Unknown,
                            }
                        }
                    },
                    ModeCells::Numbers(numbers) => match ids.bins() {
                        Some(bins) if bins.time && !batch.times_seen.has_dates(mode) => {
                            bins.seconds(numbers[row]).map_or(Found::Unknown, |seconds| ids.moment(seconds))
                        }
                        _ => ids.moment(numbers[row]),
                    },
                };
                met[mode].add(found[mode]);
            }
            each(&EntryRow { found: &found[..ids.len()], value: batch.values[row], batch: &batch, row })?;
        }
        for (mode, ids) in ids.iter().enumerate().filter(|&(mode, ids)| met[mode].is_doubtful(ids)) {
            check_unit(ids, &times, mode, &batch.file)?;
        }
        Ok(())
    })?;
    Ok(empty)
}

/// Whether rows without a value were ones to the model, as `append` has it: those of a dataset with absent cells. Where the
/// dataset is gone, nobody knows.
fn is_of_ones(model: &Model) -> bool {
    let dataset = || Config::read(model.run()).and_then(|config| config.open_dataset(model.run()));
    model.about.value == ONES_NAME && dataset().is_ok_and(|dataset| dataset.manifest().absent.is_some())
}

/// Says how many rows were no entries.
pub(super) fn say_empty(empty: u64, control: &Control) {
    if empty > 0 {
        let (one, several) = ("row has no value and is left out", "rows have no value and are left out");
        control.say(crate::units::said(empty, one, several));
    }
}

/// Whether the times so far are of one kind, and days where the dataset's are.
fn check_times(ids: &ModeIds, mode: usize, batch: &RowBatch, times: &ColumnTimes) -> Result<()> {
    let Some(bins) = ids.bins().filter(|bins| bins.time) else { return Ok(()) };
    let wrong = |file: &Path, line, what: String| {
        Err(Error::Row { file: file.into(), line, what: format!("{} {what}", ids.name()) })
    };
    if let (Some(TimeUnit::Day), Some(line)) = (bins.unit, batch.times_seen.first_no_day(mode)) {
        let what = "is a number that is no day (YYYYMMDD), as the dataset's times are";
        return wrong(&batch.file, line, what.into());
    }
    match times.unit(mode) {
        // Of numbers alone the dataset says the unit; one that wrote dates does not.
        Err(other) if times.has_dates(mode) || bins.unit == Some(TimeUnit::Date) => {
            wrong(&other.file, other.line, format!("holds {}", other.what))
        }
        _ => Ok(()),
    }
}

/// `column3` and `mode3` were made from a column's number: files without a header have no names.
fn plain_column(name: &str) -> String {
    let number = name.strip_prefix("column").or_else(|| name.strip_prefix("mode"));
    number.filter(|number| number.parse::<usize>().is_ok()).map_or_else(|| name.to_string(), str::to_string)
}
