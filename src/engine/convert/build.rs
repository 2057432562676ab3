//! Spooled rows to a dataset: final indices, sort, duplicates, shards, manifest.

use super::absent::Absent;
use super::before;
use super::gather::{Gather, WRITING};
use super::merge::{Job, Layout, Merged};
use super::notes::{of_entries, of_guess, of_rows};
use super::old::Old;
use super::options::{ConvertOptions, Converted, Duplicates};
use super::order;
use super::resolve::{self, ModeIndex, Resolved};
use super::split::{SplitPlan, Splitter};
use super::spool::Spool;
use crate::budget::{Budget, Reservation};
use crate::control::Control;
use crate::error::{Error, Result};
use crate::shard::{
    Dataset, DatasetWriter, Manifest, Mode, ModeKind, ModeStatistics, Split, Weighing, WeightSums, Weights,
    Written, format_version,
};
use crate::sort::Packing;
use crate::storage::{Staging, make_dir};
use crate::transform::{Transform, Transformed};
use std::path::Path;

/// The largest value whose square can be summed up over any number of entries.
const MOST: f64 = 1e140;

/// What is said where a split leaves nothing to learn from.
pub const NO_TRAIN: &str = "no entry falls into train: give more rows or another `split`";

/// Writes the dataset of the rows, or with `onto` the one that has them beside its own entries.
pub(super) fn build(
    gather: Gather,
    onto: Option<&Dataset>,
    options: &ConvertOptions,
    staging: Staging<'_>,
    budget: &Budget,
    scratch: &Path,
    control: &Control,
) -> Result<Converted> {
    let spooled = gather.layout();
    let Gather {
        names,
        value_name,
        weight_name,
        modes,
        mut spool,
        tagged,
        guessed,
        time_name,
        pairs,
        times,
        bad,
        empty,
        left_out,
        first_bad,
        ..
    } = gather;
    let before = onto.map(Dataset::manifest);
    let (weighing, weighted) = weighing(weight_name.is_some(), before, options.duplicates);
    if options.absent != 0.0 && matches!(options.transform, Some(Transform::Log | Transform::Logit)) {
        return Err(Error::request("`absent` draws zeros, which only the `transform` log1p takes"));
    }
    let resolved = names.iter().zip(modes).enumerate();
    let resolved = resolved.map(|(position, (name, mode))| {
        resolve::resolve(name, position, mode, &times, spool.len(), budget, control)
    });
    let mut resolved = resolved.collect::<Result<Vec<Resolved>>>()?;
    let shifts = onto.map(|dataset| before::extend(&mut resolved, dataset, budget)).transpose()?;
    let dims: Vec<u32> = resolved.iter().map(|mode| mode.dim).collect();
    let (mode_order, mode_order_reason) = match before {
        // Its entries are sorted already.
        Some(old) => (old.mode_order.clone(), old.mode_order_reason.clone()),
        None => order::choose(&names, &dims, &pairs),
    };
    let old = onto.zip(shifts).map(|(dataset, shifts)| {
        let shifts = mode_order.iter().map(|&mode| shifts[mode]).collect();
        Old { dataset, shifts }
    });
    let level_dims: Vec<u32> = mode_order.iter().map(|&mode| dims[mode]).collect();
    let split = SplitPlan::new(options, tagged, time_name, &times, (&mut spool, &spooled), control)?;
    let absent = draws(options, before, &level_dims, pairs.entries().round(), &split.splitter)?;
    let rows = spool.len();
    let packing = Packing::new(&level_dims, 2)?;
    let layout = Layout {
        record: spooled.bytes,
        value_at: spooled.value,
        time_at: spooled.time,
        weighted: weight_name.is_some(),
        modes: &resolved,
        mode_order: &mode_order,
        packing: &packing,
        splitter: split.splitter,
    };
    let reserved = Reserved::new(budget, &packing, &level_dims, rows, (weighing, weighted), old.as_ref())?;
    let job = Job {
        layout,
        absent,
        options,
        names: &names,
        level_dims: &level_dims,
        staging: &staging,
        scratch,
        control,
        rows,
        memory: reserved.sorting.bytes(),
        old: old.as_ref(),
        same_splits: split.is_that_of(before),
        weighing,
    };
    let (written, own_mean, merged) = sort_and_write(&job, spool, weighted)?;
    drop(reserved);
    let largest = written.largest;
    if largest > MOST {
        return Err(Error::request(format!(
            "the values are too large to be squared and summed (up to {largest:e}): scale them down"
        )));
    }
    let weights = weights(weight_name, written.weights, written.splits[0].entries)?;
    let modes = mode_records(&names, &resolved, &mode_order, (&written.seen, &written.in_train), &staging)?;
    let note = split.note.clone();
    let (split_rule, split_by) = split.rules(before);
    let mut splits = written.splits.into_iter();
    let mut next = || splits.next().unwrap_or_default();
    let manifest = Manifest {
        format_version: format_version(weights.is_some()),
        written_by: concat!("tenfill ", env!("CARGO_PKG_VERSION")).into(),
        modes,
        value: value_name,
        mode_order,
        mode_order_reason,
        duplicates: merged.duplicates + before.map_or(0, |before| before.duplicates),
        duplicates_rule: options.duplicates.name().into(),
        split_rule,
        values: written.values,
        transform: options.transform.map(|by| Transformed { by, mean: own_mean }),
        missing: options.read.columns.missing.clone(),
        absent: absent_cells(before, &merged),
        weights,
        part: None,
        split_by: Some(split_by),
        appended: before.map_or(0, |before| before.appended + 1),
        train: next(),
        validation: next(),
        test: next(),
    };
    if manifest.train.entries == 0 {
        return Err(Error::request(NO_TRAIN));
    }
    manifest.write(staging.disk(), staging.path())?;
    let mut notes = of_entries(&manifest, &merged, bad, first_bad, tagged);
    notes.extend(of_guess(&manifest).filter(|_| guessed));
    notes.extend(of_rows(options, before, &merged, note, (left_out, empty)));
    staging.commit()?;
    let (absent, overlap) = (merged.absent, merged.overlap);
    Ok(Converted { manifest, rows, bad_rows: bad, empty, left_out, absent, overlap, notes })
}

/// What entries weigh, and whether their weights are sorted with them.
fn weighing(column: bool, before: Option<&Manifest>, duplicates: Duplicates) -> (Weighing, bool) {
    // Where the dataset counts rows, so do its entries; others count once they are joined by their mean.
    let counted = before.is_some_and(|before| before.weights.as_ref().is_some_and(|w| w.counts));
    let weighing = match (column, duplicates) {
        (true, _) => Weighing::Column,
        (false, Duplicates::Mean) => Weighing::Counts,
        (false, _) if counted => Weighing::Counts,
        (false, _) => Weighing::Alike,
    };
    (weighing, column || counted)
}

/// The cells that are drawn as zeros, where that is asked for.
fn draws(
    options: &ConvertOptions,
    before: Option<&Manifest>,
    level_dims: &[u32],
    entries: f64,
    splitter: &Splitter,
) -> Result<Option<Absent>> {
    let (others, times) = before.map_or((0, 0), |old| {
        (Split::ALL.iter().map(|&split| old.split(split).entries).sum::<u64>(), old.appended + 1)
    });
    // Other cells than those that were drawn before.
    let seed = options.seed ^ times << 32;
    Absent::new(options.absent, level_dims, entries, others as f64, splitter, seed)
}

/// The memory that is set aside for the way from rows to shards.
struct Reserved {
    sorting: Reservation,
    _writing: Reservation,
    /// For the dataset that rows are appended to.
    _reading: Reservation,
}

impl Reserved {
    fn new(
        budget: &Budget,
        packing: &Packing,
        level_dims: &[u32],
        rows: u64,
        (weighing, weighted): (Weighing, bool),
        old: Option<&Old<'_>>,
    ) -> Result<Self> {
        let counting = if weighing == Weighing::Counts { DatasetWriter::counting(rows) } else { 0 };
        let writing = DatasetWriter::memory(level_dims, weighted) + counting + WRITING;
        let writing = budget.reserve(writing, "writing shards");
        let writing = writing.map_err(|error| match error {
            // With more memory ids will take more, too.
            Error::Budget { budget, needed, what } => Error::Budget { budget, needed: needed / 4 * 5, what },
            error => error,
        })?;
        let words = packing.bits().div_ceil(64).next_power_of_two() as usize;
        let record = 8 * (words + 1 + usize::from(weighted));
        let reading = old.map_or(Ok(0), |old| old.memory(record))?;
        let reading = budget.reserve(reading, "reading the dataset")?;
        // What is left, but for a little.
        let sorting = budget.reserve(budget.free() * 9 / 10, "sorting")?;
        Ok(Reserved { sorting, _writing: writing, _reading: reading })
    }
}

/// Sorts records of the length that is needed.
fn sort_and_write(job: &Job<'_>, spool: Spool, weighted: bool) -> Result<(Written, f64, Merged)> {
    match (job.layout.packing.bits(), weighted) {
        (0..=64, false) => job.run::<1, f64>(spool),
        (65..=128, false) => job.run::<2, f64>(spool),
        (_, false) => job.run::<4, f64>(spool),
        (0..=64, true) => job.run::<1, [f64; 2]>(spool),
        (65..=128, true) => job.run::<2, [f64; 2]>(spool),
        (_, true) => job.run::<4, [f64; 2]>(spool),
    }
}

/// What the manifest says of weights: those of a column, or counts of rows.
fn weights(
    column: Option<String>,
    sums: Option<Vec<WeightSums>>,
    train_entries: u64,
) -> Result<Option<Weights>> {
    let Some(sums) = sums else { return Ok(None) };
    let counts = column.is_none();
    let column = column.unwrap_or_else(|| Weights::ROWS.into());
    for sums in &sums {
        if !sums.squares.is_finite() || !sums.sum.is_finite() {
            return Err(Error::request(format!(
                "the weights ({column}, up to {:e}) are too large to be summed: scale them down",
                sums.max
            )));
        }
    }
    if sums[0].sum == 0.0 && train_entries > 0 {
        return Err(Error::request(format!(
            "all train entries have the weight ({column}) 0: there is nothing to fit"
        )));
    }
    Ok(Some(Weights { column, counts, train: sums[0], validation: sums[1], test: sums[2] }))
}

/// What the manifest says of modes, whose labels are written; `seen` and `in_train` are those of [`Written`].
fn mode_records(
    names: &[String],
    resolved: &[Resolved],
    mode_order: &[usize],
    (seen, in_train): (&[(u64, u64)], &[Vec<u64>]),
    staging: &Staging<'_>,
) -> Result<Vec<Mode>> {
    let disk = staging.disk();
    let mut records = Vec::new();
    for (position, (name, mode)) in names.iter().zip(resolved).enumerate() {
        if matches!(mode.index, ModeIndex::Ids(_)) {
            make_dir(disk, &staging.path().join("modes"))?;
        }
        let kind = resolve::kind(mode, name, position, disk, staging.path())?;
        let level = mode_order.iter().position(|&other| other == position).unwrap_or(0);
        let statistics = ModeStatistics { in_train: seen[level].0, only_held_out: seen[level].1 };
        let bins = matches!(kind, ModeKind::Bins(_)) && statistics.only_held_out > 0;
        let gaps = if bins { gaps(&in_train[level], mode.dim) } else { Vec::new() };
        records.push(Mode { name: name.clone(), dim: mode.dim, kind, statistics, gaps });
    }
    Ok(records)
}

/// How many cells are drawn as zeros in the end.
fn absent_cells(before: Option<&Manifest>, merged: &Merged) -> Option<u64> {
    let drawn = before.and_then(|before| before.absent);
    let all = drawn.unwrap_or(0).saturating_sub(merged.replaced) + merged.absent;
    // A dataset of which all were replaced still draws for rows to come.
    (all > 0 || drawn.is_some()).then_some(all)
}

/// Runs of indices whose bit is not set: the first and the last of each.
fn gaps(bits: &[u64], dim: u32) -> Vec<[u32; 2]> {
    let mut gaps: Vec<[u32; 2]> = Vec::new();
    for index in (0..dim).filter(|&index| bits[index as usize / 64] >> (index % 64) & 1 == 0) {
        match gaps.last_mut() {
            Some(gap) if gap[1] + 1 == index => gap[1] = index,
            _ => gaps.push([index, index]),
        }
    }
    gaps
}
