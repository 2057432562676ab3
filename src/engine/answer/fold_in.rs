//! Makes a run whose model knows more ids than it was trained with.
//!
//! ```text
//! RUN2/
//!   config.json     that of RUN, with the dataset's place and what was added
//!   log.jsonl       that of RUN
//!   model/          the model with the new rows
//!   added.tenfill/  the new entries, in the model's indices
//! ```

use super::entries::{read_entries, read_entries_as, say_empty};
use super::{FoldEntry, FoldPrior, fold_rows};
use crate::MAX_ORDER;
use crate::budget::Budget;
use crate::control::{Control, Unit};
use crate::convert::{ConvertOptions, Duplicates, SplitRule, convert_entries};
use crate::error::{Error, IoContext, Result};
use crate::ingest::source::display_name;
use crate::ingest::{Encoding, Source};
use crate::model::{Found, ModeIds, Model, sort_ids};
use crate::run::{Config, RunKind, inputs_of, log_path};
use crate::shard::{Dataset, Split};
use crate::storage::{Lock, Output, RealDisk, RunLayout, Staging, make_dir, read_regular, write_atomic};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Entries that are held at a time: at the most, and at the least.
const MOST_ENTRIES: u64 = 1 << 20;
const LEAST_ENTRIES: u64 = 1 << 12;

/// How to fold in.
#[derive(Debug, Clone)]
pub struct FoldOptions {
    /// The mode whose ids are new; where not said, all with ids that the model lacks.
    pub mode: Option<String>,
    /// How strongly rows are pulled towards the average row; 1 is what the known rows suggest.
    pub ridge: f64,
    /// Memory to keep to.
    pub memory: u64,
    /// Threads.
    pub threads: usize,
    /// Whether to replace a run that exists.
    pub force: bool,
    /// The encoding of the new entries, where they are text; found where not given.
    pub encoding: Option<Encoding>,
}

impl Default for FoldOptions {
    fn default() -> Self {
        FoldOptions {
            mode: None,
            ridge: 1.0,
            memory: Budget::default_bytes(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            force: false,
            encoding: None,
        }
    }
}

/// How often the rows of several modes are found in turn, each given the others.
const TURNS: usize = 4;

/// New ids of a mode, and the first index that they get.
struct Added {
    mode: usize,
    before: u32,
    ids: Vec<String>,
}

/// What was folded into a mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoldedMode {
    /// The mode.
    pub mode: String,
    /// Ids that are new.
    pub new_ids: u64,
    /// Ids that were there, whose rows were found anew.
    pub updated_ids: u64,
}

/// What was folded in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folded {
    /// Per mode.
    pub modes: Vec<FoldedMode>,
    /// Entries that were used.
    pub entries: u64,
    /// Entries that were left out, because another mode's id is not known.
    pub left_out: u64,
    /// Entries with a time outside the bins, taken as the nearest.
    pub outside_bins: u64,
}

/// Reads new entries, finds the rows of their ids, and writes a run with them. Where ids of several modes are
/// new, the rows of these modes are found in turn, each given those of the others.
pub fn fold_in(
    run: &Path,
    new: &Path,
    output: &Path,
    options: &FoldOptions,
    control: &Control,
) -> Result<Folded> {
    let mut config = Config::read(run)?;
    let mut model = Model::read_with_uncertainty(run)?;
    let datasets = config.open_datasets(run)?;
    let disk = RealDisk;
    let inputs = inputs_of(run).into_iter().chain([new.to_path_buf()]);
    let output = Output::new(output, options.force).apart_from(inputs);
    let staging = Staging::create(&disk, &output, &RunKind)?;
    let layout = RunLayout::of(staging.path());
    let _lock = Lock::of_run(&output.path, &layout.lock())?;

    // It is read twice.
    let new = &Source::again(new, staging.path(), control)?.encoded(options.encoding);
    let all = look(&model, new, options, control)?;
    for Added { mode, before, ids } in &all {
        if u32::try_from(ids.len()).ok().and_then(|more| before.checked_add(more)).is_none() {
            return Err(Error::request(format!(
                "{} has more ids than indices",
                model.about.modes[*mode].name
            )));
        }
    }
    let ids = ModeIds::of_all(&model)?;
    // What rows are like is what those of the model are like.
    let priors: Vec<FoldPrior> =
        all.iter().map(|added| FoldPrior::new(&model, added.mode, options.ridge)).collect();
    all.iter().for_each(|added| model.grow(added.mode, added.ids.len()));
    let mut folded = Folded { modes: Vec::new(), entries: 0, left_out: 0, outside_bins: 0 };
    let place = layout.added();
    collect(&model, &ids, new, &all, &place, options, control, &mut folded)?;
    drop(ids);
    let fresh = Dataset::open(&place)?;
    for turn in 0..if all.len() > 1 { TURNS } else { 1 } {
        for (added, prior) in all.iter().zip(&priors) {
            let updated = solve(&mut model, prior, added, &datasets, &fresh, options, control)?;
            if turn == 0 {
                folded.modes.push(FoldedMode {
                    mode: model.about.modes[added.mode].name.clone(),
                    new_ids: added.ids.len() as u64,
                    updated_ids: updated,
                });
            }
        }
    }

    config.dataset = absolute(&run.join(&config.dataset))?;
    for added in &mut config.added {
        *added = absolute(&run.join(&*added))?;
    }
    config.added.push(RunLayout::ADDED.into());
    config.write(&disk, staging.path())?;
    let (from, to) = (log_path(run), log_path(staging.path()));
    if from.is_file() {
        write_atomic(&disk, &to, &read_regular(&from)?)?;
    }
    let directory = layout.model();
    make_dir(&disk, &directory)?;
    let added: Vec<(usize, &[String])> = all.iter().map(|added| (added.mode, &added.ids[..])).collect();
    model.write_extended(&disk, &directory, &added)?;
    staging.commit()?;
    Ok(folded)
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::fs::canonicalize(path).context("find", path)
}

/// The first reading: which modes have ids that the model lacks, and which.
fn look(model: &Model, new: &Source, options: &FoldOptions, control: &Control) -> Result<Vec<Added>> {
    let ids = ModeIds::of_all(model)?;
    let names = || ids.iter().map(ModeIds::name).collect::<Vec<_>>().join(", ");
    let wanted = match &options.mode {
        None => None,
        Some(name) => Some(ids.iter().position(|mode| mode.name() == name).ok_or_else(|| {
            Error::request(format!("there is no mode '{name}': the modes are {}", names()))
        })?),
    };
    if let Some(mode) = wanted.filter(|&mode| ids[mode].bins().is_some()) {
        let what = format!("{} has bins, which have no rows of their own to fold in", ids[mode].name());
        return Err(Error::request(what));
    }
    let budget = Budget::new(options.memory)?;
    let mut memory = budget.reserve(0, "the new ids")?;
    let mut held = 0u64;
    let mut strangers: Vec<HashSet<String>> = ids.iter().map(|_| HashSet::new()).collect();
    control.progress().stage("ids", Unit::Rows, 0);
    let empty = read_entries(model, &ids, new, options.threads, control, |row| {
        for (mode, found) in row.found.iter().enumerate() {
            if *found == Found::Unknown && wanted.is_none_or(|wanted| wanted == mode) {
                let id = row.id(mode);
                if !strangers[mode].contains(&id) {
                    held += id.len() as u64 + 64;
                    if held > memory.bytes() {
                        memory.resize(held + (1 << 20))?;
                    }
                    strangers[mode].insert(id);
                }
            }
        }
        Ok(())
    })?;
    say_empty(empty, control);
    let with = (0..ids.len()).filter(|&mode| !strangers[mode].is_empty() && ids[mode].bins().is_none());
    let modes = wanted.map_or_else(|| with.collect::<Vec<usize>>(), |mode| vec![mode]);
    if modes.is_empty() {
        let what = format!(
            "the model knows all ids of this file: say with `mode` whose rows are to be found anew ({})",
            names()
        );
        return Err(Error::input(display_name(new.path()), what));
    }
    let added = modes.into_iter().map(|mode| {
        let mut added: Vec<String> = std::mem::take(&mut strangers[mode]).into_iter().collect();
        sort_ids(&mut added);
        Added { mode, before: model.about.modes[mode].dim, ids: added }
    });
    Ok(added.collect())
}

/// The second reading: the entries as a dataset in the model's indices.
fn collect(
    model: &Model,
    ids: &[ModeIds],
    new: &Source,
    all: &[Added],
    place: &Path,
    options: &FoldOptions,
    control: &Control,
    folded: &mut Folded,
) -> Result<()> {
    let names: Vec<String> = ids.iter().map(|mode| mode.name().to_string()).collect();
    let dims: Vec<u32> = model.point.factors.iter().map(|factor| factor.rows() as u32).collect();
    let mut positions: Vec<HashMap<&str, u32>> = vec![HashMap::new(); ids.len()];
    for Added { mode, before, ids } in all {
        positions[*mode] = ids.iter().map(String::as_str).zip(*before..).collect();
    }
    let convert = ConvertOptions {
        split: SplitRule::Shares([1.0, 0.0, 0.0]),
        duplicates: Duplicates::Last,
        memory: options.memory,
        ..ConvertOptions::new(vec![new.path().into()], place)
    };
    control.progress().stage("entries", Unit::Rows, 0);
    let converted = convert_entries(&convert, &names, &dims, control, |gather| {
        let (mut indices, mut values) = (Vec::new(), Vec::new());
        let mut give = |indices: &mut Vec<u32>, values: &mut Vec<f64>| {
            let given = gather.entries(indices, values, std::iter::repeat(Split::Train));
            indices.clear();
            values.clear();
            given
        };
        let transform = model.about.transform();
        read_entries_as(model, ids, new, transform, options.threads, control, |row| {
            let at = indices.len();
            for (mode, found) in row.found.iter().enumerate() {
                let index = match found.index() {
                    None if !positions[mode].is_empty() => {
                        positions[mode].get(row.id(mode).as_str()).copied()
                    }
                    index => index,
                };
                match index {
                    Some(index) => indices.push(index),
                    None => {
                        indices.truncate(at);
                        folded.left_out += 1;
                        return Ok(());
                    }
                }
            }
            let kept = transform.map_or(Ok(row.value), |transform| transform.apply(row.value));
            values.push(kept.map_err(Error::request)?);
            let outside = row.found.iter().any(|found| matches!(found, Found::Nearest(_)));
            folded.outside_bins += u64::from(outside);
            if values.len() == 1 << 14 { give(&mut indices, &mut values) } else { Ok(()) }
        })?;
        give(&mut indices, &mut values)
    });
    let converted = converted.map_err(|error| match error {
        Error::Input { what, .. } | Error::Request(what) if folded.left_out > 0 => Error::input(
            display_name(new.path()),
            format!("no entry is left, since the model knows no other id of any ({what})"),
        ),
        error => error,
    })?;
    folded.entries = converted.manifest.train.entries;
    Ok(())
}

/// Finds the rows, a range of ids at a time; returns how many ids were there before.
fn solve(
    model: &mut Model,
    prior: &FoldPrior,
    &Added { mode, before, .. }: &Added,
    datasets: &[Dataset],
    fresh: &Dataset,
    options: &FoldOptions,
    control: &Control,
) -> Result<u64> {
    let budget = Budget::new(options.memory)?;
    let numbers = model.point.dims().into_iter().zip(model.point.ranks()).map(|(dim, rank)| dim * (rank + 1));
    let sure = model.uncertainty.as_ref().map_or(0, crate::model::Uncertainty::bytes);
    let _model = budget.reserve(8 * numbers.sum::<usize>() as u64 + sure, "the model")?;
    // Sorting may need as much again.
    let entry = 2 * size_of::<FoldEntry>() as u64 + prior.entry_bytes();
    let most = (budget.free() / 2 / entry).clamp(LEAST_ENTRIES, MOST_ENTRIES);
    let _entries = budget.reserve(most * entry, "the entries of some ids")?;
    let dim = model.point.factors[mode].rows() as u32;
    let mut counts = vec![0u32; dim as usize];
    fresh.for_each(Split::Train, |at, _| counts[at[mode] as usize] += 1)?;
    let touched: Vec<bool> = counts.iter().map(|&count| count > 0).collect();
    let updated = touched[..before as usize].iter().filter(|&&touched| touched).count();
    if updated > 0 {
        for dataset in datasets {
            dataset.for_each(Split::Train, |at, _| {
                let id = at[mode] as usize;
                counts[id] += u32::from(touched[id]);
            })?;
        }
    }
    let mut ranges: Vec<Range<u32>> = Vec::new();
    let (mut begin, mut held) = (0, 0);
    for (id, &count) in counts.iter().enumerate() {
        if held > 0 && held + u64::from(count) > most {
            ranges.push(begin..id as u32);
            (begin, held) = (id as u32, 0);
        }
        held += u64::from(count);
    }
    ranges.push(begin..dim);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads.max(1)).build();
    let pool = pool.map_err(|error| Error::request(format!("threads cannot be started: {error}")))?;
    control.progress().stage("rows", Unit::Rows, dim.into());
    for range in ranges {
        control.check()?;
        let mut entries = Vec::new();
        let mut take = |at: &[u32], value: f64, new: bool| {
            let mut entry = FoldEntry { at: [0; MAX_ORDER], value, new };
            entry.at[..at.len()].copy_from_slice(at);
            entries.push(entry);
        };
        let within = Some((mode, range.clone()));
        fresh.for_each_within(Split::Train, within.clone(), |at, value| take(at, value, true))?;
        if touched[range.start as usize..range.end.min(before).max(range.start) as usize].contains(&true) {
            for dataset in datasets {
                dataset.for_each_within(Split::Train, within.clone(), |at, value| {
                    if touched[at[mode] as usize] {
                        take(at, value, false);
                    }
                })?;
            }
        }
        // New entries before old ones at the same place, which they replace.
        entries.sort_by(|a, b| (a.at[mode], &a.at, !a.new).cmp(&(b.at[mode], &b.at, !b.new)));
        entries.dedup_by_key(|entry| entry.at);
        pool.install(|| fold_rows(model, prior, &entries));
        control.progress().advance(range.end.into(), &"");
    }
    Ok(updated as u64)
}
