//! What is said of a conversion in the end.

use super::merge::Merged;
use super::options::{ConvertOptions, Duplicates};
use crate::MIN_ORDER;
use crate::shard::{Bins, Manifest, Mode, ModeKind};
use crate::times::format_time;
use crate::units;

/// What is to be said of rows: where they went, and which are left out; `note` is of the split.
pub(super) fn of_rows(
    options: &ConvertOptions,
    before: Option<&Manifest>,
    merged: &Merged,
    note: Option<String>,
    (left_out, empty): (u64, u64),
) -> Vec<String> {
    let mut notes = Vec::new();
    let joined = before.is_some_and(|before| before.duplicates > 0 && before.weights.is_none());
    if joined && merged.met > 0 && options.duplicates == Duplicates::Mean {
        notes.push(
            "an entry of the dataset counts as one row of the mean, however many it was joined from".into(),
        );
    }
    notes.extend(note);
    if merged.replaced > 0 {
        notes.push(units::said(
            merged.replaced,
            "cell that was drawn as zero has an entry now",
            "cells that were drawn as zeros have entries now",
        ));
    }
    if merged.absent > 0 {
        let cells =
            units::said(merged.absent, "absent cell is drawn as zero", "absent cells are drawn as zeros");
        notes.push(format!("{cells} (`absent`)"));
    }
    if left_out > 0 {
        notes.push(format!("`where` leaves out {}", units::rows(left_out)));
    }
    if empty > 0 {
        notes.push(match options.read.columns.wide {
            Some(_) => units::said(
                empty,
                "cell has no value: this entry is missing",
                "cells have no value: these entries are missing",
            ),
            None => units::said(
                empty,
                "row has no value: this entry is missing",
                "rows have no value: these entries are missing",
            ),
        });
    }
    notes
}

/// Of fewer train entries many have ids of their own by chance.
const LEAST_ROWS: u64 = 20;

/// What is to be said of modes that nobody has named: that one of them may number the rows.
pub(super) fn of_guess(manifest: &Manifest) -> Option<String> {
    let Manifest { modes, train, .. } = manifest;
    let own = |mode: &&Mode| manifest.has_own_ids(mode) && !matches!(mode.kind, ModeKind::Bins(_));
    let Mode { name, .. } = modes.iter().find(own).filter(|_| train.entries >= LEAST_ROWS)?;
    let others: Vec<&str> =
        modes.iter().map(|mode| mode.name.as_str()).filter(|other| other != name).collect();
    let others = if others.len() < MIN_ORDER { String::new() } else { format!(" {}", others.join(",")) };
    Some(format!(
        "in {name} nearly every train entry has an id of its own, which tells nothing of other entries: if {name} numbers the \
         rows, leave it out with `modes`{others}"
    ))
}

/// What is to be said of entries and modes; `given` tells whether splits were given as files.
pub(super) fn of_entries(
    manifest: &Manifest,
    merged: &Merged,
    bad: u64,
    first_bad: Option<String>,
    given: bool,
) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(first) = first_bad {
        notes.push(match bad {
            1 => format!("1 bad row was left out: {first}"),
            _ => format!("{} bad rows were left out; the first: {first}", units::count(bad)),
        });
    }
    if merged.duplicates > 0 {
        let rule = &manifest.duplicates_rule;
        let counts = manifest.weights.as_ref().is_some_and(|weights| weights.counts);
        let many = if counts { "; a mean counts as many rows as it was taken of" } else { "" };
        notes.push(format!(
            "{} fell on an entry that was there already (`duplicates` {rule}){many}",
            units::rows(merged.duplicates)
        ));
    }
    if merged.overlap > 0 {
        let entries = units::said(merged.overlap, "entry stands", "entries stand");
        notes.push(format!("{entries} in more than one of train, validation and test"));
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
            let (occur, they, them) =
                if unseen == 1 { ("occurs", "it", "it") } else { ("occur", "they", "them") };
            notes.push(match mode.gaps.is_empty() {
                true => format!(
                    "{unseen} of {dim} ids of {name} {occur} only in {where_from}: {they} cannot be learned"
                ),
                false => format!(
                    "{unseen} of {dim} bins of {name} {occur} only in {where_from}: the nearest bin of train stands in \
                     for {them}"
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
            let have = if empty == 1 { "has" } else { "have" };
            notes.push(format!("{empty} of {dim} indices of {name} {have} no entry{why}"));
        }
        let times = ["timestamp", "date", "time", "datetime", "ts"].contains(&name.to_lowercase().as_str());
        let ids = !matches!(mode.kind, ModeKind::Bins(_) | ModeKind::Range { .. });
        if times && ids && u64::from(*dim) * 4 > manifest.train.entries {
            notes.push(format!("{name} has {dim} distinct values; `bin` {name}=7d would group them"));
        }
    }
    notes
}
