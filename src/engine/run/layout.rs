//! What a run directory holds, so that only runs are replaced; and what reading one reads.

use super::config::Config;
use crate::checkpoint::Checkpoints;
use crate::error::Result;
use crate::model::Model;
use crate::shard::{DatasetKind, Manifest, ModeKind};
use crate::storage::{Kind, Listing, Lock, RunLayout};
use std::path::{Path, PathBuf};

/// A run directory: `config.json`, and what a run of that configuration writes.
#[derive(Debug, Clone, Copy)]
pub struct RunKind;

impl Kind for RunKind {
    fn name(&self) -> &'static str {
        "run"
    }

    fn list(&self, folder: &Path) -> Result<Listing> {
        let config = Config::read(folder)?;
        let layout = RunLayout::of(folder);
        let mut listing = Listing::default();
        listing.file(RunLayout::CONFIG);
        listing.file(RunLayout::LOG);
        listing.file(RunLayout::END);
        if Lock::is_file_of_ours(&layout.lock()) {
            listing.file(RunLayout::LOCK);
        }
        listing.folder(RunLayout::CHECKPOINTS);
        for name in Checkpoints::names_in(&layout.checkpoints())? {
            listing.file(Path::new(RunLayout::CHECKPOINTS).join(name));
        }
        let model = Path::new(RunLayout::MODEL);
        listing.folder(model.join("modes"));
        listing.file(model.join(RunLayout::MODEL_FILE));
        listing.file(model.join(RunLayout::BASELINE_FILE));
        for labels in label_files(folder, &config) {
            listing.file(model.join(labels));
        }
        for inside in std::iter::once(&config.dataset).chain(&config.added) {
            let own = [RunLayout::DATA, RunLayout::ADDED].map(Path::new).contains(&inside.as_path());
            if own && folder.join(inside).is_dir() {
                listing.nested(inside, DatasetKind.list(&folder.join(inside))?);
            }
        }
        Ok(listing)
    }

    fn may_hold(&self, inside: &Path) -> bool {
        let parts: Option<Vec<&str>> = inside.iter().map(|part| part.to_str()).collect();
        match parts.as_deref() {
            Some([RunLayout::CONFIG | RunLayout::LOG | RunLayout::END | RunLayout::LOCK]) => true,
            Some([RunLayout::CHECKPOINTS]) => true,
            Some([RunLayout::CHECKPOINTS, name]) => Checkpoints::is_name(name),
            Some([RunLayout::MODEL]) => true,
            Some([RunLayout::MODEL, RunLayout::MODEL_FILE | RunLayout::BASELINE_FILE | "modes"]) => true,
            Some([RunLayout::MODEL, "modes", name]) => name.ends_with(".arrow"),
            Some([RunLayout::DATA | RunLayout::ADDED]) => true,
            Some([RunLayout::DATA | RunLayout::ADDED, inside @ ..]) => {
                DatasetKind.may_hold(&inside.iter().collect::<PathBuf>())
            }
            _ => false,
        }
    }

    fn lock(&self, folder: &Path) -> Result<Option<Lock>> {
        Lock::of_run(folder, &RunLayout::of(folder).lock()).map(Some)
    }
}

/// The labels beside the model: those that it names, or, where there is none that can be read, those of the
/// dataset that they were copied from.
fn label_files(run: &Path, config: &Config) -> Vec<String> {
    Model::label_files(&RunLayout::of(run).model_file()).unwrap_or_else(|_| {
        let modes = Manifest::read(&run.join(&config.dataset)).map_or(Vec::new(), |manifest| manifest.modes);
        let named = modes.into_iter().filter_map(|mode| match mode.kind {
            ModeKind::Integers { labels } | ModeKind::Text { labels } => Some(labels.file),
            ModeKind::Range { .. } | ModeKind::Bins(_) => None,
        });
        named.collect()
    })
}

/// What is read by whoever reads a run: its folder and its datasets.
pub fn inputs_of(run: &Path) -> Vec<PathBuf> {
    let mut inputs = vec![run.to_path_buf()];
    if let Ok(config) = Config::read(run) {
        inputs.extend(std::iter::once(&config.dataset).chain(&config.added).map(|inside| run.join(inside)));
    }
    inputs
}
