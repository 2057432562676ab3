//! Finds the unit of a column of times from all its rows, and the first row of another one.
//!
//! A number says by its size which units it can be of: 1.6e9 is a moment of our time in seconds, and
//! nothing of interest in milliseconds; 0 can be of any. What all numbers of a column have in common
//! is its unit. So of a column there is kept, for each kind of number, how many there were and where
//! the first stood: the same memory for any number of rows.

use crate::MAX_ORDER;
use crate::times::{TimeUnit, day_seconds};
use std::path::PathBuf;

/// The kinds of cells: dates, days, and numbers by their size.
const KINDS: usize = 10;
const DATE: usize = 0;
const DAY: usize = 1;
/// Near 0 and no day: any epoch's unit.
const SMALL: usize = 2;

/// Units, best first: where a column can be of several, the first is taken.
const UNITS: [TimeUnit; 6] = [
    TimeUnit::Date,
    TimeUnit::Day,
    TimeUnit::Seconds,
    TimeUnit::Milliseconds,
    TimeUnit::Microseconds,
    TimeUnit::Nanoseconds,
];

/// The units that a kind can be of, as bits in the order of [`UNITS`].
const FITS: [u8; KINDS] = [
    0b000001, // dates
    0b000010, // days
    0b111100, // up to 1e8: near 1970 in any unit
    0b000100, // to 4.2e9: the years 1973 to 2103 in seconds
    0b001100, // to 1e11: later in seconds, or 1970 to 1973 in milliseconds
    0b001000, // to 4.2e12: 1973 to 2103 in milliseconds
    0b011000, // to 1e14
    0b010000, // to 4.2e15: the same in microseconds
    0b110000, // to 1e17
    0b100000, // above: in nanoseconds
];
const BOUNDS: [f64; 7] = [1e8, 4.2e9, 1e11, 4.2e12, 1e14, 4.2e15, 1e17];

fn kind(number: f64) -> usize {
    if day_seconds(number).is_some() {
        return DAY;
    }
    SMALL + BOUNDS.iter().take_while(|bound| number.abs() >= **bound).count()
}

/// One kind of cells of one column of a batch.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    count: u64,
    first: u64,
}

/// How the times of a batch were written: per mode, and for the column that a split goes by.
#[derive(Debug, Clone, Default)]
pub struct TimesSeen {
    columns: [[Seen; KINDS]; MAX_ORDER + 1],
}

impl TimesSeen {
    /// The place of the column that a split by time goes by; modes have their own positions.
    pub const SPLIT: usize = MAX_ORDER;

    /// Takes a cell of a row that is used: `date` tells that it was a date and is in seconds now.
    #[inline]
    pub fn add(&mut self, column: usize, number: f64, date: bool, line: u64) {
        let seen = &mut self.columns[column][if date { DATE } else { kind(number) }];
        if seen.count == 0 {
            seen.first = line;
        }
        seen.count += 1;
    }

    /// Whether a column of this batch has dates.
    pub fn has_dates(&self, column: usize) -> bool {
        self.columns[column][DATE].count > 0
    }

    /// The first number of a column that is no day.
    pub fn first_no_day(&self, column: usize) -> Option<u64> {
        self.columns[column][SMALL..].iter().filter(|seen| seen.count > 0).map(|seen| seen.first).min()
    }
}

/// One kind of cells of one column of all files.
#[derive(Debug, Clone, Default)]
struct SeenInFiles {
    count: u64,
    /// The number of the batch, its file, and the line.
    first: Option<(u64, PathBuf, u64)>,
}

/// How the times of all files were written.
#[derive(Debug, Clone, Default)]
pub struct ColumnTimes {
    columns: [[SeenInFiles; KINDS]; MAX_ORDER + 1],
    batches: u64,
}

/// A cell whose unit is not that of the cells before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherUnit {
    /// Where it stands.
    pub file: PathBuf,
    /// Its line or row, from 1.
    pub line: u64,
    /// What the column holds, to follow its name: `holds both epoch seconds and ...`.
    pub what: String,
}

impl ColumnTimes {
    /// Takes in what the next batch of a file saw.
    pub fn join(&mut self, seen: &TimesSeen, file: &std::path::Path) {
        self.batches += 1;
        for (all, batch) in self.columns.iter_mut().flatten().zip(seen.columns.iter().flatten()) {
            if batch.count > 0 {
                all.count += batch.count;
                all.first.get_or_insert_with(|| (self.batches, file.to_path_buf(), batch.first));
            }
        }
    }

    /// Whether a column has dates.
    pub fn has_dates(&self, column: usize) -> bool {
        self.columns[column][DATE].count > 0
    }

    /// Whether it is certain already that a column mixes units: days may yet turn out to be none.
    pub fn check(&self, column: usize) -> Result<(), OtherUnit> {
        if self.columns[column][DAY].count > 0 { Ok(()) } else { self.unit(column).map(drop) }
    }

    /// The unit of a column; an error that names the first cell of another one.
    pub fn unit(&self, column: usize) -> Result<TimeUnit, OtherUnit> {
        let seen = &self.columns[column];
        let mut kinds: Vec<usize> = (0..KINDS).filter(|&kind| seen[kind].count > 0).collect();
        kinds.sort_by_key(|&kind| seen[kind].first.as_ref().map(|(batch, _, line)| (*batch, *line)));
        // Of small numbers one in thirty looks like a day by chance.
        let by_chance = 4 * seen[DAY].count <= seen[SMALL].count;
        let fits = |kind: usize| match kind {
            DAY if by_chance => FITS[SMALL],
            _ => FITS[kind] | later(seen, kind),
        };
        let mut units = u8::MAX;
        for kind in kinds {
            let both = units & fits(kind);
            if both == 0 {
                let (_, file, line) = seen[kind].first.clone().unwrap_or_default();
                return Err(OtherUnit { file, line, what: mixture(units, fits(kind)) });
            }
            units = both;
        }
        Ok(best(units))
    }
}

/// Finer units that a kind can be of, because a column that begins in 1970 has numbers of all sizes: of
/// milliseconds there are more between those that look like seconds and those that do not than look like seconds,
/// and where units are mixed there are none between.
fn later(seen: &[SeenInFiles; KINDS], kind: usize) -> u8 {
    if kind <= SMALL || kind + 1 >= KINDS || seen[kind + 1].count == 0 {
        return 0;
    }
    let between = (kind - SMALL).is_multiple_of(2);
    if !between && seen[kind + 1].count < seen[kind].count {
        return 0;
    }
    FITS[kind + 1] | later(seen, kind + 1)
}

fn best(units: u8) -> TimeUnit {
    UNITS[(units.trailing_zeros() as usize).min(UNITS.len() - 1)]
}

fn mixture(before: u8, here: u8) -> String {
    let dates = FITS[DATE];
    let name = |units: u8, other: u8| match best(units) {
        unit if units == dates => unit.name(),
        _ if other == dates => "numbers",
        unit => unit.name(),
    };
    format!(
        "both {} and {}, and this is the first of the latter: write all times in one way, best as 2021-01-15",
        name(before, here),
        name(here, before)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// The unit of a column of numbers on lines 1, 2, ..., in batches of three.
    fn unit(numbers: &[f64]) -> Result<TimeUnit, OtherUnit> {
        let mut all = ColumnTimes::default();
        for (batch, part) in numbers.chunks(3).enumerate() {
            let mut seen = TimesSeen::default();
            part.iter()
                .zip(1..)
                .for_each(|(&number, row)| seen.add(0, number, false, 3 * batch as u64 + row));
            all.join(&seen, Path::new("file"));
        }
        all.unit(0)
    }

    #[test]
    fn units_are_told_by_what_all_numbers_have_in_common() {
        for (numbers, expected) in [
            (&[0.0, 1.0, 500.0][..], TimeUnit::Seconds),
            (&[964982703.0, 1.6e9, 0.0, -5.0], TimeUnit::Seconds),
            (&[1.6e12, 0.0], TimeUnit::Milliseconds),
            (&[5e10], TimeUnit::Seconds),
            (&[5e10, 1.6e12], TimeUnit::Milliseconds),
            (&[-3e11, 9e11, 2e10], TimeUnit::Milliseconds),
            (&[1.6e15, 0.0, 1.5e15], TimeUnit::Microseconds),
            (&[1.6e18], TimeUnit::Nanoseconds),
            (&[20210115.0, 19991231.0], TimeUnit::Day),
            (&[20210115.0, 4e7, 5e7, 6e7, 7e7], TimeUnit::Seconds),
            // A column that begins in 1970.
            (&[8e8, 5e9, 6e10, 9e10, 4e11, 1.6e12], TimeUnit::Milliseconds),
            (&[5e10, 2e12, 3e13, 9e13, 1e15, 1.6e15], TimeUnit::Microseconds),
            (&[0.0, 8e8, 1.6e9], TimeUnit::Seconds),
            (&[], TimeUnit::Date),
        ] {
            assert_eq!(unit(numbers), Ok(expected), "{numbers:?}");
        }
    }

    #[test]
    fn the_first_of_another_unit_is_named() {
        for (numbers, line, what) in [
            (
                &[1.6e9, 1.6e9, 1.6e9, 1.6e9, 1.6e12, 1.6e9][..],
                5,
                "both epoch seconds and epoch milliseconds",
            ),
            (&[1.6e18, 1.6e9], 2, "both epoch nanoseconds and epoch seconds"),
            (&[0.0, 1.6e15, 1.6e12], 3, "both epoch microseconds and epoch milliseconds"),
            (&[1.6e9, 1.6e9, 1e10, 1.6e12], 4, "both epoch seconds and epoch milliseconds"),
            (&[20210115.0, 20210230.0], 2, "both days (YYYYMMDD) and epoch seconds"),
            (&[1.6e9, 1.6e9, 20210115.0], 3, "both epoch seconds and days (YYYYMMDD)"),
        ] {
            let other = unit(numbers).unwrap_err();
            assert_eq!(other.line, line, "{numbers:?}");
            assert!(other.what.starts_with(what), "{}", other.what);
        }
    }
}
