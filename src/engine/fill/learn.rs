//! The model of a table that is filled: what has a value becomes a dataset, and the dataset a run.

use super::{FillOptions, cells};
use crate::control::Control;
use crate::convert::{SplitRule, convert_source};
use crate::error::{Error, Result};
use crate::ingest::Source;
use crate::recipe::{BiasChoice, auto_rank, rating_range};
use crate::run::{Config, Limits, Observer, Outcome, RunDirectory, check_rank, complete};
use crate::shard::{Dataset, Manifest, Split};
use crate::solver::StoppedBy;
use crate::storage::{Output, RealDisk, RunLayout};
use crate::units::count;
use std::path::{Path, PathBuf};

/// How values are held out where nobody says: as little as tells the error.
pub const SPLIT: SplitRule = SplitRule::Shares([0.9, 0.05, 0.05]);

/// The same where that holds out nothing for validation.
const SPLIT_OF_SMALL: SplitRule = SplitRule::Shares([0.6, 0.2, 0.2]);

/// What a run is by default, as `complete` has it; the rank is found on validation where it is not given.
pub fn usual_config(dataset: &Dataset, rank: Option<&[usize]>) -> Result<Config> {
    let manifest = dataset.manifest();
    // Without validation entries nothing can be decided: biases and one component are safe.
    let plain = [1];
    let blind = rank.is_none() && manifest.validation.entries == 0;
    let rank = if blind { Some(&plain[..]) } else { rank };
    let ranks = rank.map_or_else(|| Ok(auto_rank(manifest)), |rank| check_rank(rank, manifest))?;
    let mut config = Config::new(dataset, ranks);
    config.rank_auto = rank.is_none();
    let recipe = &mut config.recipe;
    if blind {
        recipe.bias = BiasChoice::Modes;
    }
    recipe.range = rating_range(manifest);
    recipe.check(manifest, rank.is_none())?;
    config.check_method()?;
    Ok(config)
}

fn entries(manifest: &Manifest) -> u64 {
    Split::ALL.iter().map(|&split| manifest.split(split).entries).sum()
}

/// Converts the table and completes the dataset, in `place`.
pub(super) fn learn(
    options: &FillOptions,
    place: &Path,
    source: &Source,
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
    let mut converted = convert_source(&converting, source, control)?;
    if converted.manifest.validation.entries == 0 && converting.split == SPLIT {
        // A small table: more of it must be held out to tell anything.
        (converting.split, converting.force) = (SPLIT_OF_SMALL, true);
        converted = convert_source(&converting, source, control)?;
    }
    converted.notes.iter().for_each(|note| control.say(note));
    if converted.empty == 0 && !options.all_cells {
        let what =
            "no value is missing: there is nothing to fill (`all_cells` adds the cells that have no row)";
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
