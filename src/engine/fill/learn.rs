//! The model of a table that is filled: what has a value becomes a dataset, and the dataset a run.

use super::{FillOptions, cells};
use crate::control::Control;
use crate::convert::{ConvertOptions, Converted, NO_TRAIN, SplitRule, convert_source};
use crate::error::{Error, Result};
use crate::ingest::Source;
use crate::recipe::{BiasChoice, PenaltyChoice, auto_rank, rating_range};
use crate::run::{Config, Limits, Observer, Outcome, RunDirectory, check_rank, complete};
use crate::shard::{Dataset, Manifest, Split};
use crate::solver::StoppedBy;
use crate::storage::{Output, RealDisk, RunLayout};
use crate::units::{count, many};
use std::path::{Path, PathBuf};

/// How values are held out where nobody says: as little as tells the error.
pub const SPLIT: SplitRule = SplitRule::Shares([0.9, 0.05, 0.05]);

/// The same where that holds out nothing for validation.
const SPLIT_OF_SMALL: SplitRule = SplitRule::Shares([0.6, 0.2, 0.2]);

/// Nothing is held out.
const NO_SPLIT: SplitRule = SplitRule::Shares([1.0, 0.0, 0.0]);

/// Refuses a split without validation entries where these are to find the rank.
pub fn check_split(convert: &ConvertOptions, rank: Option<&[usize]>) -> Result<()> {
    // Files of entries are refused for what they are.
    let given = !convert.validation.is_empty() || !convert.test.is_empty();
    match rank.is_some() || given || convert.holds_out_validation() {
        true => Ok(()),
        false => Err(Error::request(
            "`rank` auto decides on validation entries, and this `split` has none: give three shares, like 90/5/5, \
             leave `split` out, or give `rank`",
        )),
    }
}

/// What a run is by default, as `complete` has it; the rank is found on validation where it is not given.
pub fn usual_config(dataset: &Dataset, rank: Option<&[usize]>) -> Result<Config> {
    let manifest = dataset.manifest();
    // Without validation entries nothing can be decided: biases alone are safe.
    let plain = [1];
    let blind = rank.is_none() && manifest.validation.entries == 0;
    let rank = if blind { Some(&plain[..]) } else { rank };
    let ranks = rank.map_or_else(|| Ok(auto_rank(manifest)), |rank| check_rank(rank, manifest))?;
    let mut config = Config::new(dataset, ranks);
    config.rank_auto = rank.is_none();
    let recipe = &mut config.recipe;
    if blind {
        recipe.bias = BiasChoice::Modes;
        // Far more than the whole spread of the values: the one component that a model has at least comes to nothing.
        let spread = manifest.values.max - manifest.values.min;
        recipe.penalty = PenaltyChoice::Fixed(10.0 * if spread > 0.0 { spread } else { 1.0 });
    }
    recipe.range = rating_range(manifest);
    recipe.check(manifest, rank.is_none())?;
    config.check_method()?;
    Ok(config)
}

/// Converts the table. Of few values, a hash may put none into validation, or hardly one into train: then the usual
/// split gives way to others, and in the end to none.
fn held_out(mut converting: ConvertOptions, source: &Source, control: &Control) -> Result<Converted> {
    let usual = convert_source(&converting, source, control);
    if converting.split != SPLIT {
        return usual;
    }
    let usual = match usual {
        Ok(converted) if decides(&converted.manifest) => return Ok(converted),
        Ok(converted) => is_mostly_train(&converted.manifest),
        Err(Error::Request(what)) if what == NO_TRAIN => false,
        Err(error) => return Err(error),
    };
    (converting.split, converting.force) = (SPLIT_OF_SMALL, true);
    match convert_source(&converting, source, control) {
        Ok(converted) if decides(&converted.manifest) => return Ok(converted),
        Ok(_) => {}
        Err(Error::Request(what)) if what == NO_TRAIN => {}
        Err(error) => return Err(error),
    }
    converting.split = if usual { SPLIT } else { NO_SPLIT };
    convert_source(&converting, source, control)
}

/// Whether there is something to learn from, and something to decide on.
fn decides(manifest: &Manifest) -> bool {
    manifest.validation.entries > 0 && is_mostly_train(manifest)
}

fn is_mostly_train(manifest: &Manifest) -> bool {
    2 * manifest.train.entries > entries(manifest)
}

fn entries(manifest: &Manifest) -> u64 {
    Split::ALL.iter().map(|&split| manifest.split(split).entries).sum()
}

/// Converts the table and completes the dataset, in `place`.
pub(super) fn learn(
    options: &FillOptions,
    place: &Path,
    source: &Source,
    long: bool,
    configure: &dyn Fn(&Dataset) -> Result<Config>,
    limits: &Limits,
    control: &Control,
    observe: &Observer<'_>,
) -> Result<Outcome> {
    let table = source.name();
    let output = Output::new(place, options.force).apart_from([source.path()]);
    let run = RunDirectory::create(&RealDisk, &output)?;
    let mut converting = options.convert.clone();
    converting.output = run.layout().data();
    converting.read.columns.plain_times = true;
    let converted = held_out(converting, source, control)?;
    converted.notes.iter().for_each(|note| control.say(note));
    if converted.empty == 0 && !options.all_cells {
        let what = match long {
            true => {
                "no value is missing: there is nothing to fill (`all_cells` adds the cells that have no row)"
            }
            false => {
                "no value is missing: there is nothing to fill (`missing` says what else marks a hole, like -999)"
            }
        };
        return Err(Error::input(table, what));
    }
    if options.all_cells {
        let cells = cells::product(&converted.manifest.dims());
        cells::check(cells, limits.memory)?;
        let entries = entries(&converted.manifest);
        let absent = u64::try_from(cells).unwrap_or(u64::MAX).saturating_sub(entries);
        control.say(format!("of {} cells {} have no value", count(absent + entries), count(absent)));
    }
    let values = &converted.manifest.values;
    if (values.min, values.max) == (1.0, 1.0) {
        return Err(Error::input(table, "all values are 1: there is nothing to tell apart"));
    }
    let manifest = &converted.manifest;
    if options.convert.holds_out_validation() && manifest.validation.entries == 0 {
        let told = if manifest.test.entries == 0 { ", and no error is told" } else { "" };
        control.say(format!(
            "{} are too few to hold some out for validation: without `rank`, biases alone are fitted{told}",
            many(entries(manifest), "value")
        ));
    }
    let dataset = Dataset::open(run.layout().data())?;
    let mut config = configure(&dataset)?;
    config.dataset = PathBuf::from(RunLayout::DATA);
    let outcome = complete(&run, &dataset, &config, limits, control, observe);
    // The user knows the table, not where it was converted to.
    let outcome = outcome.map_err(|error| match error {
        Error::Input { file, what } if file.starts_with(run.path()) => Error::input(table, what),
        error => error,
    })?;
    match outcome.stopped_by {
        StoppedBy::Interrupted => Err(Error::Interrupted),
        _ => Ok(outcome),
    }
}
