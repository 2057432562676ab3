//! Bins of a mode, and which of them stand in for those without train entries.

use super::manifest::Mode;
use crate::times::TimeUnit;
use serde::{Deserialize, Serialize};

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

    /// Whether times of this unit are not those of the dataset. Dates say themselves what they are.
    pub(crate) fn is_other(&self, unit: TimeUnit) -> bool {
        let dates = unit == TimeUnit::Date || self.unit == Some(TimeUnit::Date);
        let same = self.unit.map_or(self.per_second == unit.per_second(), |own| own == unit);
        self.time && !dates && !same
    }

    /// Whether so many bins follow one another: each begins after the one before, also the last.
    pub(crate) fn ascend(&self, dim: u32) -> bool {
        let begin = |bin: f64| self.origin + self.width * bin;
        let last = f64::from(dim);
        // Rounding is coarsest where numbers are largest: at one of the ends.
        let apart = begin(0.0) < begin(1.0) && begin(last - 1.0) < begin(last);
        self.width > 0.0 && apart && begin(last).is_finite() && (!self.time || self.per_second > 0.0)
    }
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
