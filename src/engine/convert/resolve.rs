//! When all rows are in: labels sorted, bins fixed, provisional numbers to indices.

use super::before::Before;
use super::gather::{IdsSoFar, ModeGather, Span};
use super::ids::Ids;
use crate::budget::Budget;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::ingest::ColumnTimes;
use crate::ingest::columns::Binning;
use crate::ingest::label::{Label, OwnedKey, hash_integer};
use crate::ingest::sketch::mix;
use crate::ingest::times::OtherUnit;
use crate::shard::{Bins, LABELS_PER_BATCH, ModeKind, write_label_parts};
use crate::storage::Disk;
use crate::times::{TimeUnit, day_seconds, format_time};
use crate::units::count;
use arrow_array::builder::{ArrayBuilder, LargeStringBuilder};
use arrow_array::{ArrayRef, Int64Array};
use arrow_schema::DataType;
use std::path::Path;
use std::sync::Arc;

/// The way from a spooled cell to an index and a hash of its label.
pub(super) enum ModeIndex {
    Ids(Box<Ids>),
    /// Index 0 of the rows stands for the number `base`; of the dataset that they are appended to,
    /// `before` come before it.
    Indices {
        base: i64,
        before: u32,
    },
    /// Bin `b` stands for the numbers from `origin + b width` on; it is bin `first + b` from 0 on.
    Bins {
        days: bool,
        origin: f64,
        width: f64,
        first: i64,
    },
}

/// A mode whose indices are fixed.
pub(super) struct Resolved {
    pub dim: u32,
    pub index: ModeIndex,
    pub bins: Option<Bins>,
    /// Where the mode has ids of a dataset that rows are appended to.
    pub before: Option<Before>,
}

impl Resolved {
    fn new(dim: u32, index: ModeIndex, bins: Option<Bins>) -> Self {
        Resolved { dim, index, bins, before: None }
    }

    /// Reads the cell at the start of `cell`.
    #[inline]
    pub(super) fn read(&self, cell: &[u8]) -> (u32, u64) {
        let (index, hash) = self.index.read(cell);
        (self.before.as_ref().map_or(index, |before| before.place(index)), hash)
    }

    /// All labels of a mode of ids, in the order of their indices: those of the dataset that rows are
    /// appended to first.
    pub(super) fn labels<'a>(
        &'a self,
        ids: &'a Ids,
    ) -> Result<Box<dyn Iterator<Item = Result<OwnedKey>> + 'a>> {
        let own = ids.labels()?;
        Ok(match &self.before {
            None => Box::new(own),
            Some(before) => Box::new(before.labels().map(Ok).chain(before.added(own))),
        })
    }
}

impl ModeIndex {
    #[inline]
    fn read(&self, cell: &[u8]) -> (u32, u64) {
        match self {
            ModeIndex::Ids(ids) => ids.index(u32_of(cell)),
            ModeIndex::Indices { base, before } => {
                let index = u32_of(cell);
                (index + before, hash_integer(i64::from(index) + base))
            }
            ModeIndex::Bins { days, origin, width, first } => {
                let number = f64_of(cell);
                let number = if *days { day_seconds(number).unwrap_or(number) } else { number };
                let bin = bin(number, *origin, *width);
                // Counted from 0, not from the least: the same whatever other rows there are.
                (bin, mix((first + i64::from(bin)) as u64))
            }
        }
    }

    /// Makes sure that the cell of a row can be read, and tells the first row after it that needs another
    /// call.
    pub(super) fn bring(&self, row: u64) -> Result<u64> {
        if let ModeIndex::Ids(ids) = self { ids.bring(row) } else { Ok(u64::MAX) }
    }

    pub(super) fn width(&self) -> usize {
        if matches!(self, ModeIndex::Bins { .. }) { 8 } else { 4 }
    }
}

#[inline]
fn bin(x: f64, origin: f64, width: f64) -> u32 {
    ((x - origin) / width).floor() as u32
}

#[inline]
pub(super) fn u32_of(cell: &[u8]) -> u32 {
    u32::from_le_bytes([cell[0], cell[1], cell[2], cell[3]])
}

#[inline]
pub(super) fn f64_of(cell: &[u8]) -> f64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&cell[..8]);
    f64::from_le_bytes(bytes)
}

/// Fixes the indices of a mode.
pub(super) fn resolve(
    name: &str,
    position: usize,
    mode: ModeGather,
    times: &ColumnTimes,
    rows: u64,
    budget: &Budget,
    control: &Control,
) -> Result<Resolved> {
    match mode {
        ModeGather::Ids(ids) => {
            let IdsSoFar { dictionary, spill, .. } = *ids;
            let ids = Ids::new(dictionary, spill, rows, budget, control)?;
            let dim = u32::try_from(ids.len())
                .map_err(|_| Error::request(format!("mode {name} has more than {} ids", u32::MAX)))?;
            Ok(Resolved::new(dim, ModeIndex::Ids(Box::new(ids)), None))
        }
        ModeGather::Indices { base, dim, largest } => {
            Ok(Resolved::new(dim.unwrap_or(largest + 1), ModeIndex::Indices { base, before: 0 }, None))
        }
        ModeGather::Bins { binning, span } => {
            let unit = match binning.time {
                true => Some(times.unit(position).map_err(|other| mixed(&format!("{name} holds"), other))?),
                false => None,
            };
            let per_second = unit.map_or(1.0, TimeUnit::per_second);
            let days = unit == Some(TimeUnit::Day);
            let span = match days {
                true => span.map(|number| day_seconds(number).unwrap_or(number)),
                false => span,
            };
            let width = binning.width * per_second;
            // Bins begin at multiples of their width, so that further rows leave them as they are.
            let first = (span.least / width).floor();
            let origin = (first * width).min(span.least);
            let bins = ((span.most - origin) / width).floor() + 1.0;
            if bins >= f64::from(u32::MAX) || first.abs() + bins > 9e15 {
                let what = format!(
                    "mode {name} would have {bins:.0} bins from {} to {}: choose wider ones",
                    span.least, span.most
                );
                return Err(Error::request(what));
            }
            say_many(name, &binning, span, bins, control);
            if bins <= 1.0 && span.least < span.most {
                let show = |number: f64| match unit {
                    Some(_) => format_time(number / per_second),
                    None => number.to_string(),
                };
                let (from, to) = (show(span.least), show(span.most));
                let taken = unit.map_or(String::new(), |unit| format!(", taken as {}", unit.name()));
                return Err(Error::request(format!(
                    "`bin` puts all rows of {name} into one index: the column goes from {from} to {to}{taken}; choose \
                     narrower bins, or leave {name} out of the modes"
                )));
            }
            let bins_record = Bins {
                origin: origin / per_second,
                width: binning.width,
                time: binning.time,
                per_second,
                unit,
            };
            let index = ModeIndex::Bins { days, origin, width, first: first as i64 };
            Ok(Resolved::new(bins as u32, index, Some(bins_record)))
        }
    }
}

/// More bins than anybody wants of times.
const MANY_BINS: f64 = 1e6;

/// Says what a width without a unit means on a column of times, where that makes very many bins.
fn say_many(name: &str, binning: &Binning, span: Span, bins: f64, control: &Control) {
    let unit = TimeUnit::of(span.least);
    // Numbers of the years 1990 to 2100, in whichever unit.
    let recent = |x: f64| (6e8..4.2e9).contains(&(x / unit.per_second()));
    if binning.time
        || bins <= MANY_BINS
        || unit == TimeUnit::Day
        || !(recent(span.least) && recent(span.most))
    {
        return;
    }
    let (width, unit, bins) = (binning.width, unit.name(), count(bins as u64));
    control.say(format!(
        "{name} looks like times in {unit}, and `bin` {name}={width} makes {bins} bins of {width} of them: for days write \
         {name}={width}d"
    ));
}

/// A column of times in two units, as an error of the first row of the other one.
pub(super) fn mixed(holds: &str, other: OtherUnit) -> Error {
    Error::Row { file: other.file, line: other.line, what: format!("{holds} {}", other.what) }
}

/// What the indices stand for, with the labels written where they are no plain range.
pub(super) fn kind(
    resolved: &Resolved,
    name: &str,
    position: usize,
    disk: &dyn Disk,
    directory: &Path,
) -> Result<ModeKind> {
    let ids = match (&resolved.index, &resolved.bins) {
        (_, Some(bins)) => return Ok(ModeKind::Bins(bins.clone())),
        (ModeIndex::Indices { base, before }, _) => {
            return Ok(ModeKind::Range { base: base - i64::from(*before) });
        }
        (ModeIndex::Ids(ids), _) => ids,
        (ModeIndex::Bins { .. }, None) => return Err(Error::request("a binned mode has lost its bins")),
    };
    // A file name that every system takes, and that two modes never share.
    let plain: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' })
        .collect();
    let file = if plain == name {
        format!("modes/{plain}.arrow")
    } else {
        format!("modes/{plain}.{}.arrow", position + 1)
    };
    let integers = ids.all_integers() && resolved.before.as_ref().is_none_or(Before::all_integers);
    if !integers {
        let parts = text_parts(resolved.labels(ids)?);
        let labels = write_label_parts(disk, directory, file, &DataType::LargeUtf8, parts)?;
        return Ok(ModeKind::Text { labels });
    }
    if let Some(base) = plain_range(resolved.labels(ids)?)? {
        return Ok(ModeKind::Range { base });
    }
    let parts = integer_parts(resolved.labels(ids)?);
    let labels = write_label_parts(disk, directory, file, &DataType::Int64, parts)?;
    Ok(ModeKind::Integers { labels })
}

fn integer(label: Label<'_>) -> i64 {
    if let Label::Integer(value) = label { value } else { 0 }
}

/// The first of integers that follow one another without a gap.
fn plain_range(labels: impl Iterator<Item = Result<OwnedKey>>) -> Result<Option<i64>> {
    let mut base = None;
    for (number, key) in labels.enumerate() {
        let value = integer(key?.label());
        if value.checked_sub(number as i64) != Some(*base.get_or_insert(value)) {
            return Ok(None);
        }
    }
    Ok(Some(base.unwrap_or(0)))
}

fn integer_parts(
    mut labels: impl Iterator<Item = Result<OwnedKey>>,
) -> impl Iterator<Item = Result<ArrayRef>> {
    std::iter::from_fn(move || {
        let part = labels.by_ref().take(LABELS_PER_BATCH).map(|key| Ok(integer(key?.label())));
        match part.collect::<Result<Vec<i64>>>() {
            Ok(part) if part.is_empty() => None,
            part => Some(part.map(|part| -> ArrayRef { Arc::new(Int64Array::from(part)) })),
        }
    })
}

fn text_parts(mut labels: impl Iterator<Item = Result<OwnedKey>>) -> impl Iterator<Item = Result<ArrayRef>> {
    /// Bytes of text in a part, about: labels may be long.
    const MOST: usize = 4 << 20;
    std::iter::from_fn(move || {
        let mut part = LargeStringBuilder::new();
        while part.len() < LABELS_PER_BATCH && part.values_slice().len() < MOST {
            match labels.next() {
                Some(Ok(key)) => part.append_value(key.label().to_text()),
                Some(Err(error)) => return Some(Err(error)),
                None => break,
            }
        }
        if part.is_empty() { None } else { Some(Ok(Arc::new(part.finish()) as ArrayRef)) }
    })
}
