//! Spooled rows to a dataset: final indices, sort, duplicates, shards, manifest.

use super::absent::Absent;
use super::gather::{Gather, WRITING};
use super::merge::{Job, Layout, Merged};
use super::options::{ConvertOptions, Converted, SplitRule};
use super::order;
use super::resolve::{self, ModeIndex, Resolved};
use super::split::{Splitter, time_thresholds};
use crate::budget::Budget;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::ingest::TimesSeen;
use crate::shard::{Bins, DatasetWriter, Manifest, Mode, ModeKind, ModeStatistics, Weights, format_version};
use crate::sort::Packing;
use crate::storage::{Staging, make_dir};
use crate::times::format_time;
use crate::units;
use std::path::Path;

/// The largest value whose square can be summed up over any number of entries.
const MOST: f64 = 1e140;

pub(super) fn build(
    gather: Gather,
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
        pairs,
        times,
        bad,
        empty,
        left_out,
        first_bad,
        ..
    } = gather;
    let weighted = weight_name.is_some();
    let resolved = names.iter().zip(modes).enumerate();
    let resolved = resolved.map(|(position, (name, mode))| {
        resolve::resolve(name, position, mode, &times, spool.len(), budget, control)
    });
    let resolved = resolved.collect::<Result<Vec<Resolved>>>()?;
    let dims: Vec<u32> = resolved.iter().map(|mode| mode.dim).collect();
    let (mode_order, mode_order_reason) = order::choose(&names, &dims, &pairs);
    let level_dims: Vec<u32> = mode_order.iter().map(|&mode| dims[mode]).collect();

    let mut times_note = None;
    let (splitter, split_rule) = match options.split {
        _ if tagged => (Splitter::Given, "given files".to_string()),
        SplitRule::Shares(shares) => {
            let [train, validation, test] = shares.map(|share| 100.0 * share);
            let rule = format!("{train:.4}/{validation:.4}/{test:.4} by hash, seed {}", options.seed);
            (Splitter::by_hash(shares, options.seed), rule.replace(".0000", ""))
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
            )
        }
    };
    let absent = Absent::new(options.absent, &level_dims, pairs.entries().round(), &splitter, options.seed)?;
    let rows = spool.len();
    let packing = Packing::new(&level_dims, 2);
    let layout = Layout {
        record: spooled.bytes,
        value_at: spooled.value,
        time_at: spooled.time,
        weighted,
        modes: &resolved,
        mode_order: &mode_order,
        packing: &packing,
        splitter,
    };
    let writing = budget.reserve(DatasetWriter::memory(&level_dims, weighted) + WRITING, "writing shards");
    let writing = writing.map_err(|error| match error {
        // With more memory ids will take more, too.
        Error::Budget { budget, needed, what } => Error::Budget { budget, needed: needed / 4 * 5, what },
        error => error,
    })?;
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
    };
    let (written, merged) = match (packing.bits(), weighted) {
        (0..=64, false) => job.run::<1, f64>(spool)?,
        (65..=128, false) => job.run::<2, f64>(spool)?,
        (_, false) => job.run::<4, f64>(spool)?,
        (0..=64, true) => job.run::<1, [f64; 2]>(spool)?,
        (65..=128, true) => job.run::<2, [f64; 2]>(spool)?,
        (_, true) => job.run::<4, [f64; 2]>(spool)?,
    };
    drop((writing, sorting));
    let largest = written.largest;
    if largest > MOST {
        return Err(Error::request(format!(
            "the values are too large to be squared and summed (up to {largest:e}): scale them down"
        )));
    }

    let weights = weight_name.zip(written.weights).map(|(column, sums)| Weights {
        column,
        train: sums[0],
        validation: sums[1],
        test: sums[2],
    });
    if let Some(Weights { column, train, validation, test }) = &weights {
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
        mode_records.push(Mode { name: name.clone(), dim: mode.dim, kind, statistics });
    }
    let mut splits = written.splits.into_iter();
    let mut next = || splits.next().unwrap_or_default();
    let manifest = Manifest {
        format_version: format_version(weights.is_some()),
        written_by: concat!("tenfill ", env!("CARGO_PKG_VERSION")).into(),
        modes: mode_records,
        value: value_name,
        mode_order,
        mode_order_reason,
        duplicates: merged.duplicates,
        duplicates_rule: options.duplicates.name().into(),
        split_rule,
        values: written.values,
        absent: (merged.absent > 0).then_some(merged.absent),
        weights,
        part: None,
        train: next(),
        validation: next(),
        test: next(),
    };
    if manifest.train.entries == 0 {
        return Err(Error::request("no entry falls into train: give more rows or another `split`"));
    }
    manifest.write(disk, staging.path())?;
    let mut notes = notes(&manifest, &merged, bad, first_bad, tagged);
    notes.extend(times_note);
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
        notes.push(format!(
            "{} rows fell on an entry that was there already (`duplicates` {rule})",
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
            notes.push(format!(
                "{unseen} of {dim} ids of {name} occur only in {where_from}: they cannot be learned"
            ));
        }
        let empty = u64::from(*dim) - statistics.in_train - unseen;
        if empty > 0 {
            let why = if manifest.weights.is_some() { ", or none that has weight" } else { " at all" };
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
