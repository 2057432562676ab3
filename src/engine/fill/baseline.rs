//! What is to be had without a model: linear interpolation along a mode that has an order.

use crate::budget::Budget;
use crate::control::Control;
use crate::error::Result;
use crate::shard::{Dataset, Labels, ModeKind, Split};
use crate::sort::{Packing, Record, Sorter, Ties};
use crate::times::parse_time;
use bytemuck::Pod;
use std::path::Path;

/// Units of time, from the coarsest to the finest: modes of several of them are one line of time.
const UNITS: [&str; 8] = ["year", "month", "week", "day", "date", "hour", "minute", "second"];
/// Other names of modes along which one goes from one id to the next.
const ORDERED: [&str; 5] = ["time", "timestamp", "datetime", "t", "step"];

/// The modes along which values can be interpolated, the finest last: units of time by their names (day and
/// hour are one line of time), else the mode with bins, with a name of time or with times for ids that has
/// the most of them; of an array without names the longest axis.
pub(super) fn ordered_modes(dataset: &Dataset) -> Result<Vec<usize>> {
    let modes = &dataset.manifest().modes;
    let array = modes.iter().all(|mode| mode.name.starts_with("axis"));
    let (mut units, mut best) = (Vec::new(), None);
    for (number, mode) in modes.iter().enumerate() {
        let name = mode.name.to_lowercase();
        let times = || -> Result<bool> {
            Ok(match dataset.labels(number)? {
                Some(Labels::Text(texts)) => texts.iter().flatten().all(|text| parse_time(text).is_some()),
                _ => false,
            })
        };
        let (text, bins) =
            (matches!(mode.kind, ModeKind::Text { .. }), matches!(mode.kind, ModeKind::Bins(_)));
        let in_order = !text || times()?;
        if let Some(unit) = UNITS.iter().position(|unit| *unit == name).filter(|_| in_order) {
            units.push((unit, number));
        }
        let named = array || bins || text || ORDERED.contains(&name.as_str());
        if in_order && named && best.is_none_or(|best: usize| modes[best].dim < mode.dim) {
            best = Some(number);
        }
    }
    units.sort_unstable();
    Ok(match units.is_empty() {
        true => best.into_iter().collect(),
        false => units.into_iter().map(|(_, number)| number).collect(),
    })
}

/// The mean squared error, on a split, of values that are interpolated between the train entries beside them
/// along modes, the last running fastest: the nearest where there is none on one side, the mean where there is none at all.
pub(super) fn interpolate(
    dataset: &Dataset,
    along: &[usize],
    split: Split,
    memory: u64,
    scratch: &Path,
    control: &Control,
) -> Result<Option<f64>> {
    let manifest = dataset.manifest();
    let mut order: Vec<usize> = (0..manifest.modes.len()).filter(|other| !along.contains(other)).collect();
    order.extend(along);
    let dims: Vec<u32> = order.iter().map(|&mode| manifest.modes[mode].dim).collect();
    let packing = Packing::new(&dims, 2)?;
    let budget = Budget::new(memory)?;
    let reserved = budget.reserve(budget.free() / 2, "interpolation")?;
    let memory = reserved.bytes();
    let fixed = order.len() - along.len();
    let walk = Walk {
        dataset,
        order: &order,
        fixed,
        dims: &dims,
        packing: &packing,
        split,
        scratch,
        memory,
        control,
    };
    match packing.bits() {
        0..=64 => walk.run::<1>(),
        65..=128 => walk.run::<2>(),
        _ => walk.run::<4>(),
    }
}

struct Walk<'a> {
    dataset: &'a Dataset,
    /// The modes, those to go along last.
    order: &'a [usize],
    /// How many are not gone along.
    fixed: usize,
    dims: &'a [u32],
    packing: &'a Packing,
    split: Split,
    scratch: &'a Path,
    memory: u64,
    control: &'a Control,
}

/// A line along the mode: the train entry behind, and the values that wait for the next one.
#[derive(Default)]
struct Line {
    behind: Option<(u64, f64)>,
    waiting: Vec<(u64, f64)>,
    squares: f64,
    count: u64,
}

impl Line {
    fn settle(&mut self, ahead: Option<(u64, f64)>, mean: f64) {
        for (at, value) in self.waiting.drain(..) {
            let guess = match (self.behind, ahead) {
                (Some((left, from)), Some((right, to))) => {
                    let share = (at - left) as f64 / (right - left) as f64;
                    from + share * (to - from)
                }
                (Some((_, value)), None) | (None, Some((_, value))) => value,
                (None, None) => mean,
            };
            self.squares += (guess - value) * (guess - value);
            self.count += 1;
        }
        self.behind = ahead;
    }
}

impl Walk<'_> {
    fn run<const W: usize>(&self) -> Result<Option<f64>>
    where
        Record<W, f64>: Pod,
    {
        let manifest = self.dataset.manifest();
        let mut sorter =
            Sorter::<W, f64>::new(self.packing.bits(), Ties::Value, self.memory, self.scratch, self.control);
        for split in [Split::Train, self.split] {
            let mut failed = Ok(());
            let mut indices = vec![0; self.order.len()];
            self.dataset.for_each(split, |at, value| {
                if failed.is_ok() {
                    indices.iter_mut().zip(self.order).for_each(|(index, &mode)| *index = at[mode]);
                    let key = self.packing.pack(&indices, split as u64);
                    let value = manifest.told(value);
                    failed = sorter.push(Record { key, value }).and_then(|()| self.control.check());
                }
            })?;
            failed?;
        }
        let mean = manifest.told_mean();
        let (mut line, mut now) = (Line::default(), vec![u32::MAX; self.order.len()]);
        let mut indices = now.clone();
        let fixed = self.fixed;
        sorter.finish(|record| {
            let tag = self.packing.unpack(&record.key, &mut indices);
            if indices[..fixed] != now[..fixed] {
                line.settle(None, mean);
                now.copy_from_slice(&indices);
            }
            let along = indices[fixed..].iter().zip(&self.dims[fixed..]);
            let at = along.fold(0, |at, (&index, &dim)| at * u64::from(dim) + u64::from(index));
            match tag == Split::Train as u64 {
                true => line.settle(Some((at, record.value)), mean),
                false => line.waiting.push((at, record.value)),
            }
            Ok(())
        })?;
        line.settle(None, mean);
        Ok((line.count > 0).then(|| line.squares / line.count as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_two_values_and_beyond_them() {
        let mut line = Line::default();
        line.waiting.push((0, 1.0));
        line.settle(Some((2, 3.0)), 9.0); // 3 for 1
        line.waiting.extend([(3, 3.5), (5, 5.0)]);
        line.settle(Some((6, 5.0)), 9.0); // 3.5 and 4.5
        line.waiting.push((7, 6.0));
        line.settle(None, 9.0); // 5 for 6
        line.waiting.push((0, 8.0));
        line.settle(None, 9.0); // the mean
        assert_eq!((line.squares, line.count), (4.0 + 0.0 + 0.25 + 1.0 + 1.0, 5));
    }
}
