//! Checks a run: configuration, log, checkpoints, model, labels and dataset.

use super::config::Config;
use super::end::End;
use super::log::check_log;
use crate::checkpoint::Checkpoints;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::model::{Baseline, Model};
use crate::shard::{ModeKind, Verification, verify};
use crate::storage::RunLayout;
use std::path::Path;

/// What is wrong with the labels or bins of a mode.
fn check_ids(model: &Model, mode: usize) -> Result<()> {
    let labels = model.labels(mode)?;
    let about = &model.about.modes[mode];
    let order = match (&about.kind, labels) {
        (ModeKind::Bins(bins), _) if !bins.ascend(about.dim) => Err("its bins do not ascend".into()),
        // Ids that were folded in stand behind the others.
        (_, Some(labels)) => labels.check_unique(),
        _ => Ok(()),
    };
    order.map_err(|what| Error::input(model.directory(), format!("{}: {what}", about.name)))
}

/// Reads the log, and how the run ended.
fn check_story(layout: &RunLayout, found: &mut Verification) -> Result<()> {
    let (log, end) = (layout.log(), layout.end());
    let has = |path: &Path| path.symlink_metadata().is_ok();
    let mut ended = None;
    if has(&end) {
        found.files += 1;
        found.bytes += std::fs::metadata(&end).map_or(0, |data| data.len());
        match End::check(&end) {
            Ok(end) => ended = Some(end.iterations),
            Err(error) => found.note(error, &end)?,
        }
    }
    if !has(&log) {
        // A run that was ended before its first iteration has none.
        if has(&end) || layout.model_file().is_file() {
            let what = "there is no log: the run can be used, but its report has no course of errors";
            found.note(Error::input(&log, what), &log)?;
        }
        return Ok(());
    }
    found.files += 1;
    found.bytes += std::fs::metadata(&log).map_or(0, |data| data.len());
    match (check_log(&log, ended.is_some()), ended) {
        (Err(error), _) => found.note(error, &log)?,
        (Ok(newest), Some(ended)) if newest.is_none_or(|newest| newest < ended) => {
            let told = newest.map_or("without a line".into(), |newest| format!("at iteration {newest}"));
            let what = format!("the log ends {told}, and the run at iteration {ended}: put a copy back");
            found.note(Error::input(&log, what), &log)?;
        }
        _ => {}
    }
    Ok(())
}

/// Reads every byte that a run depends on.
pub fn verify_run(run: &Path, control: &Control) -> Result<Verification> {
    let config = Config::read(run)?;
    let mut found = verify(&run.join(&config.dataset), control)?;
    if let Err(error) = config.open_dataset(run) {
        found.note(error, &run.join(&config.dataset))?;
    }
    for added in &config.added {
        let more = verify(&run.join(added), control)?;
        found.files += more.files;
        found.bytes += more.bytes;
        found.problems.extend(more.problems);
    }
    found.files += 1;
    let layout = RunLayout::of(run);
    let checkpoints = Checkpoints::new(layout.checkpoints(), config.meaning());
    for iteration in checkpoints.iterations()? {
        found.files += 1;
        if let Err(error) = checkpoints.load(iteration) {
            found.note(error, &layout.checkpoints())?;
        }
    }
    check_story(&layout, &mut found)?;
    let model = layout.model();
    // A run that was ended before its first checkpoint has no model, and nothing is wrong with it.
    let read = layout.model_file().is_file().then(|| Model::read_with_uncertainty(run));
    found.files += u64::from(read.is_some());
    match read {
        None => {}
        Some(Err(error)) => found.note(error, &model)?,
        Some(Ok(read)) => {
            for mode in 0..read.about.modes.len() {
                if let Err(error) = check_ids(&read, mode) {
                    found.note(error, &model)?;
                }
            }
        }
    }
    if model.join(RunLayout::BASELINE_FILE).is_file() {
        found.files += 1;
        if let Err(error) = Baseline::read(&model) {
            found.note(error, &model)?;
        }
    }
    for folder in [layout.checkpoints(), model] {
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        found.bytes += entries
            .filter_map(|entry| entry.metadata().ok())
            .filter(|data| data.is_file())
            .map(|data| data.len())
            .sum::<u64>();
    }
    Ok(found)
}
