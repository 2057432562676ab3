//! One page that shows a run, or compares several; reads results, never alters them.
//!
//! The page is self-contained: styles and drawings are in it, and its policy forbids the browser to
//! fetch anything. Light or dark as the reader's system is; black on white on paper.

mod activity;
mod chart;
mod components;
mod latent;
mod page;
mod periods;
mod plots;
mod sure;
mod ticks;

pub use chart::{Axes, COLOURS, Figure, Scale, Series, lines};
pub use components::{Components, components};
pub use periods::{Periodogram, periodogram};

use crate::answer::coverage;
use crate::control::{Control, Unit};
use crate::error::{Error, Result};
use crate::model::{ModeIds, Model};
use crate::run::{Config, End, inputs_of, read_lines};
use crate::storage::{AtomicFile, Disk, Output};
use activity::Activity;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What the page says of one run.
struct Facts {
    name: String,
    config: Config,
    model: Model,
    ids: Vec<ModeIds>,
    /// The log's lines; empty where there is none.
    log: Vec<Value>,
    /// How it ended, where it has.
    end: Option<End>,
    /// Counts and errors; none where the dataset is not there any more.
    activity: Option<Activity>,
    entries: [u64; 3],
    /// The share of the held-out values within intervals, where the model knows how sure it is.
    covered: Option<Vec<f64>>,
}

impl Facts {
    fn read(run: &Path, control: &Control) -> Result<Self> {
        let config = Config::read(run)?;
        let model = Model::read_with_uncertainty(run)?;
        let ids = ModeIds::of_all(&model)?;
        let log = read_lines(run)?;
        let (mut activity, mut entries, mut covered) = (None, [0; 3], None);
        match config.open_datasets(run) {
            Ok(datasets) => {
                for dataset in &datasets {
                    let manifest = dataset.manifest();
                    let splits = [&manifest.train, &manifest.validation, &manifest.test];
                    entries.iter_mut().zip(splits).for_each(|(sum, split)| *sum += split.entries);
                }
                let found = activity::activity(&model, &datasets, control)?;
                if let Some(dataset) = datasets.first() {
                    covered = coverage(&model, dataset, found.split, &sure::nominal())?;
                }
                activity = Some(found);
            }
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => control.say(format!("{error}; the page goes without errors by activity")),
        }
        let name = run.file_name().unwrap_or(run.as_os_str()).to_string_lossy().into_owned();
        let end = End::read(run)?;
        Ok(Facts { name, config, model, ids, log, end, activity, entries, covered })
    }

    /// The wall time of the run, all its starts together.
    fn seconds(&self) -> Option<f64> {
        let logged = self.log.last().and_then(|line| line["seconds"].as_f64());
        // A run that goes on leaves its last end behind until it comes to another.
        let ended = self.end.as_ref().map(|end| end.seconds);
        ended.into_iter().chain(logged).max_by(f64::total_cmp)
    }
}

/// Writes the page of one run, or the page that compares several; returns its number of plots.
pub fn report(
    disk: &dyn Disk,
    runs: &[PathBuf],
    output: &Path,
    force: bool,
    control: &Control,
) -> Result<usize> {
    let output = Output::new(output, force).apart_from(runs.iter().flat_map(|run| inputs_of(run)));
    AtomicFile::check(&output)?;
    control.progress().stage("report", Unit::Rows, runs.len() as u64);
    let mut facts = Vec::with_capacity(runs.len());
    for run in runs {
        control.check()?;
        facts.push(Facts::read(run, control)?);
        control.progress().advance(facts.len() as u64, &run.display());
    }
    let sections = match facts.as_slice() {
        [one] => plots::of_one(one),
        several => plots::of_several(several),
    };
    let count = sections.iter().map(page::Section::figures).sum();
    let mut file = AtomicFile::output(disk, &output)?;
    file.append(page::page(&facts, &sections).as_bytes())?;
    file.commit()?;
    Ok(count)
}
