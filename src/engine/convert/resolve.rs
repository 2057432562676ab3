//! When all rows are in: labels sorted, bins fixed, provisional numbers to indices.

use super::gather::{ModeGather, per_second};
use crate::error::{Error, Result};
use crate::ingest::dictionary::hash_integer;
use crate::ingest::sketch::mix;
use crate::ingest::{Collected, TimesSeen};
use crate::shard::{Bins, LABELS_PER_BATCH, ModeKind, write_label_parts};
use crate::storage::Disk;
use arrow_array::{ArrayRef, Int64Array, LargeStringArray};
use arrow_schema::DataType;
use std::path::Path;
use std::sync::Arc;

/// The way from a spooled cell to an index and a hash of its label.
pub(super) enum ModeIndex {
    Ids(Collected),
    Indices {
        base: i64,
    },
    /// Bin `b` stands for the numbers from `origin + b width` on; it is bin `first + b` from 0 on.
    Bins {
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
}

impl ModeIndex {
    /// Reads the cell at the start of `cell`.
    #[inline]
    pub(super) fn read(&self, cell: &[u8]) -> (u32, u64) {
        match self {
            ModeIndex::Ids(collected) => collected.index(u32_of(cell)),
            ModeIndex::Indices { base } => {
                let index = u32_of(cell);
                (index, hash_integer(i64::from(index) + base))
            }
            ModeIndex::Bins { origin, width, first } => {
                let bin = bin(f64_of(cell), *origin, *width);
                // Counted from 0, not from the least: the same whatever other rows there are.
                (bin, mix((first + i64::from(bin)) as u64))
            }
        }
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
    times_seen: &TimesSeen,
) -> Result<Resolved> {
    match mode {
        ModeGather::Ids(dictionary) => {
            let collected = dictionary.finish();
            let dim = u32::try_from(collected.len())
                .map_err(|_| Error::request(format!("mode {name} has more than {} ids", u32::MAX)))?;
            Ok(Resolved { dim, index: ModeIndex::Ids(collected), bins: None })
        }
        ModeGather::Indices { base, dim, largest } => {
            Ok(Resolved { dim: dim.unwrap_or(largest + 1), index: ModeIndex::Indices { base }, bins: None })
        }
        ModeGather::Bins { binning, span } => {
            if binning.time && times_seen.is_mixed(position) {
                let what =
                    format!("mode {name} holds both dates and numbers: write all its times in one way");
                return Err(Error::request(what));
            }
            let per_second = match binning.time && !times_seen.has_dates(position) {
                true => per_second(span.most.abs().max(span.least.abs())),
                false => 1.0,
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
            let bins_record =
                Bins { origin: origin / per_second, width: binning.width, time: binning.time, per_second };
            let index = ModeIndex::Bins { origin, width, first: first as i64 };
            Ok(Resolved { dim: bins as u32, index, bins: Some(bins_record) })
        }
    }
}

/// What the indices stand for, with the labels written where they are no plain range.
pub(super) fn kind(
    resolved: &Resolved,
    name: &str,
    position: usize,
    disk: &dyn Disk,
    directory: &Path,
) -> Result<ModeKind> {
    let collected = match (&resolved.index, &resolved.bins) {
        (_, Some(bins)) => return Ok(ModeKind::Bins(bins.clone())),
        (ModeIndex::Indices { base }, _) => return Ok(ModeKind::Range { base: *base }),
        (ModeIndex::Ids(collected), _) => collected,
        (ModeIndex::Bins { .. }, None) => return Err(Error::request("a binned mode has lost its bins")),
    };
    let codes = collected.codes();
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
    let parts = codes.chunks(LABELS_PER_BATCH);
    if collected.all_integers() {
        let integer = |&code: &u32| collected.integer(code);
        let base = codes.first().map_or(0, integer);
        if codes.iter().map(integer).zip(base..).all(|(value, expected)| value == expected) {
            return Ok(ModeKind::Range { base });
        }
        let parts = parts
            .map(|part| -> ArrayRef { Arc::new(Int64Array::from_iter_values(part.iter().map(integer))) });
        let labels = write_label_parts(disk, directory, file, &DataType::Int64, parts)?;
        return Ok(ModeKind::Integers { labels });
    }
    let parts = parts.map(|part| -> ArrayRef {
        Arc::new(LargeStringArray::from_iter_values(part.iter().map(|&code| collected.label(code))))
    });
    let labels = write_label_parts(disk, directory, file, &DataType::LargeUtf8, parts)?;
    Ok(ModeKind::Text { labels })
}
