//! Where a value at an end of its range stops to be one: halfway to the value next to it.

use crate::error::Result;
use crate::kernel::Values;
use crate::reduce::{Travels, map_lanes};
use crate::stream::Stream;

/// The values next to the ends.
#[derive(Debug, Clone, Copy)]
struct Next {
    least: f64,
    most: f64,
}

impl Travels for Next {
    fn words(&self) -> Vec<u64> {
        vec![self.least.to_bits(), self.most.to_bits()]
    }
    fn set(&mut self, words: &[u64]) {
        *self = Next { least: f64::from_bits(words[0]), most: f64::from_bits(words[1]) };
    }
}

/// Whoever gives five of five stars, in half stars, has meant 4.75 or more: a threshold lies halfway between
/// an end of the range and the value next to it that occurs. Where values are continuous that is the end
/// itself, as near as makes no difference. `None` where there are not three values.
pub fn thresholds(train: &Stream, (least, most): (f64, f64)) -> Result<Option<(f64, f64)>> {
    let empty = Next { least: f64::INFINITY, most: f64::NEG_INFINITY };
    let lanes = map_lanes(train, &empty, |lane| {
        let mut next = empty;
        let mut look = |value: f64| {
            if value > least && value < next.least {
                next.least = value;
            }
            if value < most && value > next.most {
                next.most = value;
            }
        };
        train.for_each(lane, |block| {
            match (block.values(), block.weights()) {
                // A table has only values that occur.
                (Values::Codes { table, .. }, None) => table.iter().for_each(|&value| look(value)),
                _ => block.for_each_weighted(|_, value, weight| {
                    if weight > 0.0 {
                        look(value);
                    }
                }),
            }
            Ok(())
        })?;
        Ok(next)
    })?;
    let low = lanes.iter().map(|next| next.least).fold(f64::INFINITY, f64::min);
    let high = lanes.iter().map(|next| next.most).fold(f64::NEG_INFINITY, f64::max);
    // A value between the ends is next to both, or there is none.
    Ok((low <= high).then(|| (least + (low - least) / 2.0, most - (most - high) / 2.0)))
}
