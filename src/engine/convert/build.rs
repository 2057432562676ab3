//! Spooled rows to a dataset: final indices, sort, duplicates, shards, manifest.

use super::absent::Absent;
use super::before;
use super::gather::{Gather, WRITING};
use super::merge::{Job, Layout, Merged};
use super::old::Old;
use super::options::{ConvertOptions, Converted, Duplicates, SplitRule};
use super::order;
use super::resolve::{self, ModeIndex, Resolved};
use super::split::{Splitter, time_thresholds};
use crate::budget::Budget;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::ingest::TimesSeen;
use crate::shard::{
    Bins, Dataset, DatasetWriter, Manifest, Mode, ModeKind, ModeStatistics, Split, SplitBy, Weighing,
    Weights, format_version,
};
use crate::sort::Packing;
use crate::storage::{Staging, make_dir};
use crate::times::format_time;
use crate::transform::{Transform, Transformed};
use crate::units;
use std::path::Path;

/// The largest value whose square can be summed up over any number of entries.
const MOST: f64 = 1e140;

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
        time_name,
        pairs,
        times,
        bad,
        empty,
        left_out,
        first_bad,
        ..
    } = gather;
    // Where the dataset counts rows, so do its entries; others count once they are joined by their mean.
    let counted = onto.is_some_and(|dataset| dataset.manifest().weights.as_ref().is_some_and(|w| w.counts));
    let weighing = match (&weight_name, options.duplicates) {
        (Some(_), _) => Weighing::Column,
        (None, Duplicates::Mean) => Weighing::Counts,
        (None, _) if counted => Weighing::Counts,
        (None, _) => Weighing::Alike,
    };
    let weighted = weight_name.is_some() || counted;
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
    let (mode_order, mode_order_reason) = match onto.map(Dataset::manifest) {
        // Its entries are sorted already.
        Some(old) => (old.mode_order.clone(), old.mode_order_reason.clone()),
        None => order::choose(&names, &dims, &pairs),
    };
    let old = onto.zip(shifts).map(|(dataset, shifts)| {
        let shifts = mode_order.iter().map(|&mode| shifts[mode]).collect();
        Old { dataset, shifts }
    });
    let level_dims: Vec<u32> = mode_order.iter().map(|&mode| dims[mode]).collect();

    let mut times_note = None;
    let (splitter, split_rule, split_by) = match options.split {
        _ if tagged => (Splitter::Given, "given files".to_string(), SplitBy::Given),
        SplitRule::Shares(shares) => {
            let [train, validation, test] = shares.map(|share| 100.0 * share);
            let rule = format!("{train:.4}/{validation:.4}/{test:.4} by hash, seed {}", options.seed);
            let by = SplitBy::Hash { shares, seed: options.seed };
            (Splitter::by_hash(shares, options.seed), rule.replace(".0000", ""), by)
        }
        SplitRule::Time => {
            let unit = times.unit(TimesSeen::SPLIT);
            let unit = unit.map_err(|other| resolve::mixed("the times of `split` time are", other))?;
            let (train, validation) = time_thresholds(&mut spool, spooled.bytes, spooled.time, control)?;
            let show = |time: f64| unit.seconds(time).map_or_else(String::new, format_time);
            times_note = Some(format!(
                "the times of the split are taken as {}: train ends at {}, validation at {}",
                unit.name(),
                show(train),
                show(validation)
            ));
            (
                Splitter::Time { train, validation },
                "time: the latest tenth to test, the tenth before to validation".into(),
                SplitBy::Time { column: time_name },
            )
        }
    };
    let same_splits = onto.is_some_and(|dataset| dataset.manifest().split_by.as_ref() == Some(&split_by));
    // Rows that were appended by another rule are where that put them.
    let same_splits = same_splits
        && matches!(split_by, SplitBy::Hash { .. })
        && onto.is_some_and(|dataset| !dataset.manifest().split_rule.contains("; appended"))
        // What was drawn is in the split of its cell, which is not that of an entry there.
        && onto.is_some_and(|dataset| dataset.manifest().absent.is_none());
    let (others, times) = onto.map(Dataset::manifest).map_or((0, 0), |old| {
        (Split::ALL.iter().map(|&split| old.split(split).entries).sum::<u64>(), old.appended + 1)
    });
    // Other cells than those that were drawn before.
    let seed = options.seed ^ times << 32;
    let entries = pairs.entries().round();
    let absent = Absent::new(options.absent, &level_dims, entries, others as f64, &splitter, seed)?;
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
        splitter,
    };
    let counting = if weighing == Weighing::Counts { DatasetWriter::counting(rows) } else { 0 };
    let writing = DatasetWriter::memory(&level_dims, weighted) + counting + WRITING;
    let writing = budget.reserve(writing, "writing shards");
    let writing = writing.map_err(|error| match error {
        // With more memory ids will take more, too.
        Error::Budget { budget, needed, what } => Error::Budget { budget, needed: needed / 4 * 5, what },
        error => error,
    })?;
    let record = 8 * (packing.bits().div_ceil(64).next_power_of_two() as usize + 1 + usize::from(weighted));
    let reading = old.as_ref().map_or(Ok(0), |old| old.memory(record))?;
    let reading = budget.reserve(reading, "reading the dataset")?;
    let sorting = budget.reserve(budget.free() * 9 / 10, "sorting")?;
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
        memory: sorting.bytes(),
        old: old.as_ref(),
        same_splits,
        weighing,
    };
    let (written, own_mean, merged) = match (packing.bits(), weighted) {
        (0..=64, false) => job.run::<1, f64>(spool)?,
        (65..=128, false) => job.run::<2, f64>(spool)?,
        (_, false) => job.run::<4, f64>(spool)?,
        (0..=64, true) => job.run::<1, [f64; 2]>(spool)?,
        (65..=128, true) => job.run::<2, [f64; 2]>(spool)?,
        (_, true) => job.run::<4, [f64; 2]>(spool)?,
    };
    drop((writing, reading, sorting));
    let largest = written.largest;
    if largest > MOST {
        return Err(Error::request(format!(
            "the values are too large to be squared and summed (up to {largest:e}): scale them down"
        )));
    }

    let counts = weight_name.is_none();
    let column = weight_name.unwrap_or_else(|| Weights::ROWS.into());
    let weights = written.weights.map(|sums| Weights {
        column,
        counts,
        train: sums[0],
        validation: sums[1],
        test: sums[2],
    });
    if let Some(Weights { column, train, validation, test, .. }) = &weights {
        for sums in [train, validation, test] {
            if !sums.squares.is_finite() || !sums.sum.is_finite() {
                return Err(Error::request(format!(
                    "the weights ({column}, up to {:e}) are too large to be summed: scale them down",
                    sums.max
                )));
            }
        }
        if train.sum == 0.0 && written.splits[0].entries > 0 {
            return Err(Error::request(format!(
                "all train entries have the weight ({column}) 0: there is nothing to fit"
            )));
        }
    }

    let disk = staging.disk();
    let labels_directory = staging.path().join("modes");
    let mut mode_records = Vec::new();
    for (position, (name, mode)) in names.iter().zip(&resolved).enumerate() {
        if matches!(mode.index, ModeIndex::Ids(_)) {
            make_dir(disk, &labels_directory)?;
        }
        let kind = resolve::kind(mode, name, position, disk, staging.path())?;
        let level = mode_order.iter().position(|&other| other == position).unwrap_or(0);
        let (in_train, only_held_out) = written.seen[level];
        let statistics = ModeStatistics { in_train, only_held_out };
        let bins = matches!(kind, ModeKind::Bins(_)) && only_held_out > 0;
        let gaps = if bins { gaps(&written.in_train[level], mode.dim) } else { Vec::new() };
        mode_records.push(Mode { name: name.clone(), dim: mode.dim, kind, statistics, gaps });
    }
    let mut splits = written.splits.into_iter();
    let mut next = || splits.next().unwrap_or_default();
    let before = onto.map(Dataset::manifest);
    let (split_rule, split_by) = match before {
        None => (split_rule, split_by),
        Some(before) => {
            // Further rows follow the rule that the dataset began with, unless they are given another.
            let rules = &before.split_rule;
            let known = rules.split("; appended: ").any(|rule| rule == split_rule);
            let all = if known { rules.clone() } else { format!("{rules}; appended: {split_rule}") };
            (all, before.split_by.clone().unwrap_or_else(|| SplitBy::of_rule(rules)))
        }
    };
    let manifest = Manifest {
        format_version: format_version(weights.is_some()),
        written_by: concat!("tenfill ", env!("CARGO_PKG_VERSION")).into(),
        modes: mode_records,
        value: value_name,
        mode_order,
        mode_order_reason,
        duplicates: merged.duplicates + before.map_or(0, |before| before.duplicates),
        duplicates_rule: options.duplicates.name().into(),
        split_rule,
        values: written.values,
        transform: options.transform.map(|by| Transformed { by, mean: own_mean }),
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
        return Err(Error::request("no entry falls into train: give more rows or another `split`"));
    }
    manifest.write(disk, staging.path())?;
    let mut notes = notes(&manifest, &merged, bad, first_bad, tagged);
    let joined = before.is_some_and(|before| before.duplicates > 0 && before.weights.is_none());
    if joined && merged.met > 0 && options.duplicates == Duplicates::Mean {
        notes.push(
            "an entry of the dataset counts as one row of the mean, however many it was joined from".into(),
        );
    }
    notes.extend(times_note);
    if merged.replaced > 0 {
        let cells = units::count(merged.replaced);
        notes.push(format!("{cells} cells that were drawn as zeros have entries now"));
    }
    if merged.absent > 0 {
        notes.push(format!("{} absent cells are drawn as zeros (`absent`)", units::count(merged.absent)));
    }
    if left_out > 0 {
        notes.push(format!("`where` leaves out {} rows", units::count(left_out)));
    }
    if empty > 0 {
        let rows = if options.read.columns.wide.is_some() { "cells" } else { "rows" };
        notes.push(format!("{} {rows} have no value: these entries are missing", units::count(empty)));
    }
    staging.commit()?;
    let (absent, overlap) = (merged.absent, merged.overlap);
    Ok(Converted { manifest, rows, bad_rows: bad, empty, left_out, absent, overlap, notes })
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

fn notes(
    manifest: &Manifest,
    merged: &Merged,
    bad: u64,
    first_bad: Option<String>,
    given: bool,
) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(first) = first_bad {
        notes.push(format!("{bad} bad rows were left out; the first: {first}"));
    }
    if merged.duplicates > 0 {
        let rule = &manifest.duplicates_rule;
        let counts = manifest.weights.as_ref().is_some_and(|weights| weights.counts);
        let many = if counts { "; a mean counts as many rows as it was taken of" } else { "" };
        notes.push(format!(
            "{} rows fell on an entry that was there already (`duplicates` {rule}){many}",
            merged.duplicates
        ));
    }
    if merged.overlap > 0 {
        notes
            .push(format!("{} entries stand in more than one of train, validation and test", merged.overlap));
    }
    for mode in &manifest.modes {
        let Mode { name, dim, statistics, .. } = mode;
        if let ModeKind::Bins(Bins { origin, width, unit: Some(unit), .. }) = &mode.kind {
            notes.push(format!(
                "the times of {name} are taken as {}: {} bins of {}, the first from {}, the last from {}",
                unit.name(),
                units::count((*dim).into()),
                units::width(*width),
                format_time(*origin),
                format_time(origin + width * f64::from(dim - 1))
            ));
        }
        let unseen = statistics.only_held_out;
        if unseen > 0 {
            let where_from =
                if given { "the given validation and test files" } else { "validation and test" };
            notes.push(match mode.gaps.is_empty() {
                true => format!(
                    "{unseen} of {dim} ids of {name} occur only in {where_from}: they cannot be learned"
                ),
                false => format!(
                    "{unseen} of {dim} bins of {name} occur only in {where_from}: the nearest bin of train stands in \
                     for them"
                ),
            });
        }
        let empty = u64::from(*dim) - statistics.in_train - unseen;
        if empty > 0 {
            let why = if manifest.weights.as_ref().is_some_and(|weights| !weights.counts) {
                ", or none that has weight"
            } else {
                " at all"
            };
            notes.push(format!("{empty} of {dim} indices of {name} have no entry{why}"));
        }
        let times = ["timestamp", "date", "time", "datetime", "ts"].contains(&name.to_lowercase().as_str());
        let ids = !matches!(mode.kind, ModeKind::Bins(_) | ModeKind::Range { .. });
        if times && ids && u64::from(*dim) * 4 > manifest.train.entries {
            notes.push(format!("{name} has {dim} distinct values; `bin` {name}=7d would group them"));
        }
    }
    notes
}
