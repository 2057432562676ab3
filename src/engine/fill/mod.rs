//! A table or an array, given back with its holes filled.
//!
//! What has a value becomes a dataset, the dataset a run, and then the table is read once more: `text` copies
//! its bytes, `columns` its columns and `array` its cells, and what the model says stands where nothing
//! stood. `baseline` says what is to be had without a model.

mod array;
mod ask;
mod baseline;
mod cells;
mod columns;
mod learn;
mod text;

pub use learn::{SPLIT, check_split, usual_config};

use crate::answer::{evaluate_split, why_unsure};
use crate::control::Control;
use crate::convert::ConvertOptions;
use crate::error::{Error, Result};
use crate::ingest::npy::header_of;
use crate::ingest::source::plain_name;
use crate::ingest::{self, Binning, ReadOptions, Source, WideRequest};
use crate::model::{ModeIds, Model};
use crate::objective::over_biases;
use crate::remote::is_remote;
use crate::run::{Config, Limits, Observer, Outcome, RunKind, in_pool, inputs_of};
use crate::shard::{Dataset, Split};
use crate::storage::{AtomicFile, Kind, Listing, Output, RealDisk, Staging};
use crate::table::{Kind as TableKind, Target};
use std::path::{Path, PathBuf};

/// Where the run is of a table that is filled without keeping it.
struct HomeKind;

impl HomeKind {
    const RUN: &str = "run";
}

impl Kind for HomeKind {
    fn name(&self) -> &'static str {
        "run of a table that is filled"
    }

    fn list(&self, folder: &Path) -> Result<Listing> {
        Err(Error::input(folder, "a folder for what is needed meanwhile is never finished"))
    }

    fn may_hold(&self, inside: &Path) -> bool {
        let run = inside.strip_prefix(Self::RUN);
        run.is_ok_and(|inside| inside == Path::new("") || RunKind.may_hold(inside))
    }
}

/// What is to be filled, and how.
#[derive(Debug, Clone)]
pub struct FillOptions {
    /// How the table, its only input, is read and split; its output is not looked at.
    pub convert: ConvertOptions,
    /// The table to write.
    pub output: PathBuf,
    /// Whether to replace a table that exists, and a run that is kept.
    pub force: bool,
    /// A run whose model is used, instead of a new one.
    pub run: Option<PathBuf>,
    /// Where the run is kept; a temporary place where not given.
    pub keep: Option<PathBuf>,
    /// Whether to add a row for every cell that has none.
    pub all_cells: bool,
    /// Whether to tell the standard deviations of what is filled in, where the model has them: in a column `sd` of a long
    /// table, else in a [second file](sd_path).
    pub sd: bool,
}

/// How far the model is from values that it has not seen, and what is to be had without it.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldOut {
    /// The split.
    pub split: Split,
    /// The values that were held out.
    pub entries: u64,
    /// The model's RMSE on them.
    pub rmse: f64,
    /// That of the mean of all values.
    pub mean_rmse: Option<f64>,
    /// That of biases alone: a mean and a number per id.
    pub biases_rmse: Option<f64>,
    /// That of linear interpolation along the modes that have an order, which are named.
    pub interpolation: Option<(String, f64)>,
}

impl HeldOut {
    /// How much lower the RMSE is than that of biases alone, as a share of it.
    pub fn over_biases(&self) -> Option<f64> {
        over_biases(self.rmse * self.rmse, self.biases_rmse.map(|rmse| rmse * rmse))
    }
}

/// What was filled.
#[derive(Debug, Clone, Default)]
pub struct Filled {
    /// Rows of the table; cells of an array.
    pub rows: u64,
    /// Values that were missing and are there now; those of added rows not included.
    pub filled: u64,
    /// Of all that the model was asked for, values by biases or the mean alone: an id had no entry.
    pub unknown: u64,
    /// Values with a number or a time outside the bins.
    pub outside_bins: u64,
    /// Rows that were added (`all_cells`).
    pub added: u64,
    /// Whether there are standard deviations of what was filled.
    pub sd: bool,
    /// The error.
    pub held_out: Option<HeldOut>,
    /// How the run ended, where there was one.
    pub outcome: Option<Outcome>,
}

/// What all ways to fill have in common.
struct Filling<'a> {
    options: &'a FillOptions,
    /// The table, and what to call it in messages.
    source: &'a Source,
    name: &'a Path,
    model: &'a Model,
    ids: &'a [ModeIds],
    output: Output,
    memory: u64,
    /// Whether standard deviations are told.
    sd: bool,
    control: &'a Control,
}

impl Filling<'_> {
    /// Where standard deviations go that have no place in the output, where they are told.
    fn sd_output(&self) -> Option<Output> {
        self.sd.then(|| self.output.beside(sd_path(&self.output.path)))
    }
}

/// Fills a table; `configure` says what the run is to be.
pub fn fill(
    options: &FillOptions,
    configure: &dyn Fn(&Dataset) -> Result<Config>,
    limits: &Limits,
    control: &Control,
    observe: &Observer<'_>,
) -> Result<Filled> {
    let output = check(options, control)?;
    let scratch = options.convert.temp_dir.clone().unwrap_or_else(|| beside(&options.output));
    let source = open(options, &scratch, control)?;
    let name = source.name();
    let long = check_kind(options, &source, &output, control)?;
    let mut filled = Filled::default();
    let mut home = None;
    let place = match (&options.run, &options.keep) {
        (Some(run), _) => run.clone(),
        (None, Some(keep)) => keep.clone(),
        (None, None) => {
            let name = scratch.join(options.output.file_name().unwrap_or_default());
            home.insert(Staging::scratch(&RealDisk, &name, &HomeKind)?).path().join(HomeKind::RUN)
        }
    };
    if options.run.is_none() {
        filled.outcome =
            Some(learn::learn(options, &place, &source, long, configure, limits, control, observe)?);
    }
    let model = if options.sd { Model::read_with_uncertainty(&place) } else { Model::read(&place) }?;
    filled.sd = options.sd && model.uncertainty.is_some();
    if options.sd && !filled.sd {
        control.say(format!("{}: there is no sd", why_unsure(&model)));
    }
    filled.held_out = held_out(&place, &model, options, &scratch, limits.memory, control)?;
    let ids = ModeIds::of_all(&model)?;
    let read = reading(options, &model, &ids);
    let (sd, memory) = (filled.sd, limits.memory);
    let filling = Filling {
        options,
        source: &source,
        name: &name,
        model: &model,
        ids: &ids,
        output,
        memory,
        sd,
        control,
    };
    in_pool(limits, || write(&filling, &read, &mut filled))?;
    Ok(filled)
}

/// The file of standard deviations beside a wide table or an array: `out.sd.npy` beside `out.npy`.
pub fn sd_path(output: &Path) -> PathBuf {
    let name = output.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let plain = plain_name(output);
    // What comes behind the stem may be two endings, of the kind and of the packing.
    let packing = name.len() - plain.len().min(name.len());
    let (kind, packed) = name.split_at(name.len() - packing);
    let (stem, ending) = kind.rsplit_once('.').unwrap_or((kind, ""));
    output.with_file_name(format!("{stem}.sd.{ending}{packed}"))
}

/// What can be said before the table is looked at; the output.
fn check(options: &FillOptions, control: &Control) -> Result<Output> {
    let [table] = options.convert.inputs.as_slice() else {
        return Err(Error::request("one table is filled at a time"));
    };
    if options.convert.absent != 0.0 {
        return Err(Error::request(
            "`absent` does not go with a table that is filled: what is missing is no zero",
        ));
    }
    if !options.convert.validation.is_empty() || !options.convert.test.is_empty() {
        return Err(Error::request("`validation` and `test` do not go with a table that is filled"));
    }
    let inputs = options.run.iter().flat_map(|run| inputs_of(run)).chain([table.clone()]);
    let output = Output::new(&options.output, options.force).apart_from(inputs);
    Target::check(&output, control)?;
    Ok(output)
}

/// The table, to be read twice: what flows by is copied first. Stores give it twice.
fn open(options: &FillOptions, scratch: &Path, control: &Control) -> Result<Source> {
    let table = options.convert.inputs[0].as_path();
    let source = match is_remote(table) {
        true => Source::from(table),
        false => Source::again(table, scratch, control)?,
    };
    Ok(source.encoded(options.convert.read.dialect.encoding))
}

/// What can be said when it is known what the table is, before any work is done. Whether it is a long one.
fn check_kind(options: &FillOptions, source: &Source, output: &Output, control: &Control) -> Result<bool> {
    let table = source.name();
    let is_array = header_of(source, control)?;
    if options.sd && (is_array.is_some() || options.convert.read.columns.wide.is_some()) {
        Target::check(&output.beside(sd_path(&options.output)), control)?;
    }
    match (&is_array, options.output.extension().is_some_and(|ending| ending == "npy")) {
        (Some(header), true) if !header.has_nan() => {
            let what =
                "an array of integers cannot hold what is filled in: convert it to floats first (f4 or f8)";
            return Err(Error::input(table, what));
        }
        // Arrays are not written to stores.
        (Some(_), true) => AtomicFile::check(output)?,
        (Some(_), false) => {
            return Err(Error::request("an array is written as an array: end the output with .npy"));
        }
        (None, true) => {
            return Err(Error::request("a table is no array: end the output with .csv or .parquet"));
        }
        (None, false) => drop(TableKind::of(&options.output)?),
    }
    let long = is_array.is_none() && options.convert.read.columns.wide.is_none();
    if options.all_cells && !long {
        return Err(Error::request(
            "`all_cells` is for long tables: a wide one or an array has a place for all",
        ));
    }
    Ok(long)
}

fn beside(output: &Path) -> PathBuf {
    if is_remote(output) {
        return std::env::temp_dir();
    }
    let parent = output.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new(".")).into()
}

/// The error on what the model has not seen; none where nothing was held out, or the data are gone.
fn held_out(
    run: &Path,
    model: &Model,
    options: &FillOptions,
    scratch: &Path,
    memory: u64,
    control: &Control,
) -> Result<Option<HeldOut>> {
    let dataset = match Config::read(run).and_then(|config| config.open_dataset(run)) {
        Ok(dataset) => dataset,
        // A model of another place may have come without its data.
        Err(_) if options.run.is_some() => return Ok(None),
        Err(error) => return Err(error),
    };
    let manifest = dataset.manifest();
    manifest.joined().iter().for_each(|what| control.say(what));
    let splits = [Split::Test, Split::Validation].into_iter();
    let Some(split) = splits.clone().find(|&split| manifest.split(split).entries > 0) else {
        return Ok(None);
    };
    let errors = evaluate_split(model, &dataset, split)?;
    let along = baseline::ordered_modes(&dataset)?;
    let mut interpolation = None;
    if !along.is_empty() {
        let names: Vec<&str> = along.iter().map(|&mode| manifest.modes[mode].name.as_str()).collect();
        let mse = baseline::interpolate(&dataset, &along, split, memory, scratch, control)?;
        interpolation = mse.map(|mse| (names.join(" and "), mse.sqrt()));
    }
    Ok(Some(HeldOut {
        split,
        entries: errors.entries,
        rmse: errors.rmse(),
        mean_rmse: errors.mean_mse.map(f64::sqrt),
        biases_rmse: errors.biases_mse.map(f64::sqrt),
        interpolation,
    }))
}

/// How the table is read when it is filled: by the names of the model's modes, where a run is given, and with its signs of
/// missing values.
fn reading(options: &FillOptions, model: &Model, ids: &[ModeIds]) -> ReadOptions {
    let mut read = options.convert.read.clone();
    let columns = &mut read.columns;
    columns.plain_times = true;
    if options.run.is_some() {
        columns.missing.extend(model.about.missing.iter().cloned());
    }
    let array = model.about.modes.iter().all(|mode| mode.name.starts_with("axis"));
    if options.run.is_none() || array {
        return read;
    }
    let names: Vec<String> = ids.iter().map(|mode| mode.name().to_string()).collect();
    columns.bins = ids
        .iter()
        .filter_map(|mode| {
            let bins = mode.bins()?;
            Some((mode.name().to_string(), Binning { width: bins.width, time: bins.time }))
        })
        .collect();
    match &mut columns.wide {
        Some(wide) => {
            let (last, rows) = names.split_last().map_or((None, &[][..]), |(last, rows)| (Some(last), rows));
            *wide = WideRequest {
                ids: wide.ids.take().or_else(|| Some(rows.to_vec())),
                mode: wide.mode.take().or(last.cloned()),
            };
        }
        None => {
            columns.modes.get_or_insert(names);
            columns.value.get_or_insert_with(|| model.about.value.clone());
        }
    }
    read
}

fn write(filling: &Filling<'_>, read: &ReadOptions, filled: &mut Filled) -> Result<()> {
    let input = ingest::open_source(filling.source, read, filling.control)?;
    let plan = input.plan().clone();
    if plan.modes.len() != filling.ids.len() {
        let what = format!("the table has {} modes, the model {}", plan.modes.len(), filling.ids.len());
        return Err(Error::input(filling.name, what));
    }
    match (input.delimiter(), TableKind::of(&filling.options.output)) {
        (_, Err(_)) => match input.into_cells() {
            Some(cells) => array::fill(filling, &plan.rules.missing, cells, filled),
            None => Err(Error::request("an array is filled from an array")),
        },
        (Some(delimiter), Ok(TableKind::Text(wanted))) if text::stays(delimiter, wanted) => {
            let Some(text) = input.into_text() else {
                return Err(Error::input(filling.name, "this is no text"));
            };
            text::fill(filling, &plan, text, filled)
        }
        (delimiter, Ok(kind)) => {
            let header = input.into_text().map(|text| text.header);
            columns::fill(filling, &plan, delimiter, header, kind, filled)
        }
    }
}
