//! Rows appended to a dataset: its entries are merged with them, not sorted again.

use super::options::{ConvertOptions, Converted, Duplicates, SplitRule};
use super::{Handed, build, check_inputs, gather_all, inputs, scratch_directory};
use crate::budget::Budget;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::ingest::Batches;
use crate::ingest::columns::{Binning, ColumnRequest, ONES_NAME};
use crate::message::list;
use crate::shard::{Dataset, DatasetKind, Manifest, ModeKind, Split, SplitBy, Weights};
use crate::storage::{Disk, Output, RealDisk, Staging};
use crate::transform::Transform;
use crate::units;
use std::path::PathBuf;

/// What is appended to what.
#[derive(Debug, Clone)]
pub struct AppendOptions {
    /// The dataset.
    pub dataset: PathBuf,
    /// The rows, how they are read, and the dataset to write. What it says of columns goes before what the
    /// dataset says; of its split, seed and duplicates the fields below say what is to be changed.
    pub rows: ConvertOptions,
    /// Another split of the new entries than that of the dataset.
    pub split: Option<SplitRule>,
    /// Another seed of it.
    pub seed: Option<u64>,
    /// The column of times of a split by time, where it is another one.
    pub time_column: Option<String>,
    /// Another rule for rows that fall on the same entry.
    pub duplicates: Option<Duplicates>,
    /// Whether the dataset itself is replaced; nothing is written beside it then.
    pub in_place: bool,
}

impl AppendOptions {
    /// The rows of `rows` appended to a dataset by its own rules.
    pub fn new(dataset: impl Into<PathBuf>, rows: ConvertOptions) -> Self {
        let (split, seed, time_column, duplicates) = (None, None, None, None);
        AppendOptions { dataset: dataset.into(), rows, split, seed, time_column, duplicates, in_place: false }
    }
}

/// Appends rows to a dataset.
pub fn append(options: &AppendOptions, control: &Control) -> Result<Converted> {
    append_on(&RealDisk, options, Vec::new(), control)
}

/// The same with batches before the files of their split.
pub fn append_batches(
    options: &AppendOptions,
    batches: Vec<(Split, Batches)>,
    control: &Control,
) -> Result<Converted> {
    append_on(&RealDisk, options, batches, control)
}

/// The same on a given disk.
pub fn append_on(
    disk: &dyn Disk,
    options: &AppendOptions,
    batches: Vec<(Split, Batches)>,
    control: &Control,
) -> Result<Converted> {
    check_inputs(&options.rows)?;
    let dataset = Dataset::open(&options.dataset)?;
    let manifest = dataset.manifest();
    if manifest.part.is_some() {
        let what = "this is a part of a dataset: append to the whole, and distribute it again";
        return Err(Error::input(dataset.directory(), what));
    }
    let mut rows = options.rows.clone();
    rows.absent = absent(rows.absent, &dataset)?;
    let by = manifest.split_by.clone().unwrap_or_else(|| SplitBy::of_rule(&manifest.split_rule));
    let files = !rows.validation.is_empty() || !rows.test.is_empty();
    let files = files || batches.iter().any(|(split, _)| *split != Split::Train);
    let mut given = files;
    match (options.split, &by) {
        (Some(split), _) => rows.split = split,
        (None, SplitBy::Hash { shares, .. }) => rows.split = SplitRule::Shares(*shares),
        (None, SplitBy::Time { .. }) => rows.split = SplitRule::Time,
        (None, SplitBy::Given) => given = true,
    }
    rows.seed = match (options.seed, &by) {
        (Some(seed), _) => seed,
        (None, SplitBy::Hash { seed, .. }) => *seed,
        _ => rows.seed,
    };
    if rows.transform.is_some_and(|asked| Some(asked) != manifest.transform()) {
        let kept = manifest.transform().map_or("as they are", Transform::name);
        return Err(Error::request(format!(
            "`transform`: the values of the dataset are kept {kept}, which stays"
        )));
    }
    rows.transform = manifest.transform();
    rows.duplicates = options.duplicates.unwrap_or_else(|| duplicates(manifest));
    let column = match by {
        SplitBy::Time { column } => options.time_column.clone().or(column),
        _ => options.time_column.clone(),
    };
    let time = (rows.split == SplitRule::Time && !given).then_some(column);
    rows.read.columns = columns(rows.read.columns, time, manifest)?;
    rows.force |= options.in_place;
    if options.in_place {
        rows.output.clone_from(&options.dataset);
    }
    let output = Output::new(&rows.output, rows.force).apart_from(inputs(&rows));
    let output = if options.in_place { output } else { output.apart_from([&options.dataset]) };
    let staging = Staging::create(disk, &output, &DatasetKind)?;
    let budget = Budget::new(rows.memory)?;
    let scratch = scratch_directory(rows.temp_dir.as_deref(), &rows.output)?;
    let whole = |kind: &ModeKind| matches!(kind, ModeKind::Range { .. } | ModeKind::Integers { .. });
    let whole = manifest.modes.iter().map(|mode| whole(&mode.kind)).collect();
    let handed = Handed { batches, source: None, whole };
    let mut gather = gather_all(&rows, handed, given, &budget, &scratch, control)?;
    gather.names = manifest.modes.iter().map(|mode| mode.name.clone()).collect();
    gather.value_name.clone_from(&manifest.value);
    gather.weight_name = weight_column(manifest).cloned();
    let mut appended = build::build(gather, Some(&dataset), &rows, staging, &budget, &scratch, control)?;
    if given && !files {
        appended.notes.push(
            "the splits of the dataset were given as files, so that all new entries are for train".into(),
        );
    }
    Ok(appended)
}

/// How many absent cells per new entry are drawn: as many as the dataset has, where nothing is asked for.
fn absent(asked: f64, dataset: &Dataset) -> Result<f64> {
    let manifest = dataset.manifest();
    let Some(drawn) = manifest.absent else {
        if asked != 0.0 {
            // Its zeros are observed, and could not be told from what is drawn now.
            let what = "the dataset was converted without `absent`, and stays so: convert all rows together";
            return Err(Error::input(dataset.directory(), what));
        }
        return Ok(0.0);
    };
    let entries: u64 = Split::ALL.iter().map(|&split| manifest.split(split).entries).sum();
    let observed = entries.saturating_sub(drawn).max(1);
    Ok(if asked != 0.0 { asked } else { drawn as f64 / observed as f64 })
}

/// The column of the dataset's weights.
fn weight_column(manifest: &Manifest) -> Option<&String> {
    manifest.weights.as_ref().and_then(Weights::given)
}

/// The rule of the dataset.
fn duplicates(manifest: &Manifest) -> Duplicates {
    let all = [Duplicates::Error, Duplicates::First, Duplicates::Last, Duplicates::Sum];
    all.into_iter().find(|rule| rule.name() == manifest.duplicates_rule).unwrap_or(Duplicates::Mean)
}

/// The columns of new rows: those of the dataset, where nothing else is said.
fn columns(asked: ColumnRequest, time: Option<Option<String>>, manifest: &Manifest) -> Result<ColumnRequest> {
    let own: Vec<String> = manifest.modes.iter().map(|mode| mode.name.clone()).collect();
    let modes = asked.modes.unwrap_or_else(|| own.clone());
    if modes.len() != own.len() {
        let (given, own) = (modes.len(), list(&own));
        return Err(Error::request(format!(
            "`modes` names {given} columns, and the dataset has the modes {own}"
        )));
    }
    let kinds = || modes.iter().zip(&manifest.modes);
    for (name, binning) in &asked.bins {
        let bins = kinds().find(|(column, mode)| *column == name || mode.name == *name);
        let same = matches!(bins.map(|(_, mode)| &mode.kind), Some(ModeKind::Bins(bins))
            if bins.width == binning.width && bins.time == binning.time);
        if !same {
            let has = match bins.map(|(_, mode)| &mode.kind) {
                Some(ModeKind::Bins(bins)) if bins.time => format!("bins of {}", units::width(bins.width)),
                Some(ModeKind::Bins(bins)) => format!("bins of {}", bins.width),
                _ => "no bins".into(),
            };
            return Err(Error::request(format!("`bin` {name}: the dataset has {has} there, which stay")));
        }
    }
    let bins = kinds().filter_map(|(column, mode)| match &mode.kind {
        ModeKind::Bins(bins) => Some((column.clone(), Binning { width: bins.width, time: bins.time })),
        _ => None,
    });
    let bins = bins.collect();
    let weight = match (weight_column(manifest), asked.weight) {
        (None, Some(column)) => {
            let what = format!("`weights` {column}: the entries of the dataset have no weights");
            return Err(Error::request(what));
        }
        (weights, asked) => asked.or_else(|| weights.cloned()),
    };
    let mut missing = manifest.missing.clone();
    missing.extend(asked.missing.into_iter().filter(|sign| !manifest.missing.contains(sign)));
    let from_zero = manifest.modes.iter().all(|mode| mode.kind == ModeKind::Range { base: 0 });
    // Rows that happened may have no value: every one of them is a 1 then.
    let ones = manifest.absent.is_some();
    let valued = !(ones && manifest.value == ONES_NAME);
    Ok(ColumnRequest {
        modes: Some(modes),
        value: asked.value.or_else(|| valued.then(|| manifest.value.clone())),
        ones,
        weight,
        bins,
        time,
        missing,
        zero_based: asked.zero_based || from_zero,
        transform: manifest.transform(),
        ..asked
    })
}
