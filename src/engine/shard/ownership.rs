//! What a dataset directory holds, so that only datasets are replaced.

use super::dataset::part_name;
use super::manifest::{FILE, Manifest, ModeKind, Split};
use crate::error::{Error, Result};
use crate::storage::{Kind, Listing};
use std::path::Path;

/// A dataset directory: `manifest.json`, and the files that it names.
#[derive(Debug, Clone, Copy)]
pub struct DatasetKind;

/// A directory of the parts of a dataset, `part-0`, `part-1`, ..., each a dataset directory.
#[derive(Debug, Clone, Copy)]
pub struct PartsKind;

impl Kind for DatasetKind {
    fn name(&self) -> &'static str {
        "dataset"
    }

    fn list(&self, folder: &Path) -> Result<Listing> {
        let manifest = Manifest::read(folder)?;
        let mut listing = Listing::default();
        listing.file(FILE);
        listing.folder("modes");
        for mode in &manifest.modes {
            if let ModeKind::Integers { labels } | ModeKind::Text { labels } = &mode.kind {
                listing.file(&labels.file);
            }
        }
        for split in Split::ALL {
            listing.folder(split.name());
            manifest.split(split).shards.iter().for_each(|shard| listing.file(&shard.file));
        }
        Ok(listing)
    }

    fn may_hold(&self, inside: &Path) -> bool {
        let parts: Option<Vec<&str>> = inside.iter().map(|part| part.to_str()).collect();
        let is_split = |name: &str| Split::ALL.iter().any(|split| split.name() == name);
        match parts.as_deref() {
            Some([name]) => *name == FILE || *name == "modes" || is_split(name),
            Some(["modes", file]) => file.ends_with(".arrow"),
            Some([split, file]) => is_split(split) && file.ends_with(".shard"),
            _ => false,
        }
    }
}

impl Kind for PartsKind {
    fn name(&self) -> &'static str {
        "distributed dataset"
    }

    fn list(&self, folder: &Path) -> Result<Listing> {
        let first = Manifest::read(&folder.join(part_name(0)))?;
        let Some(part) = first.part else {
            return Err(Error::input(folder, "this is no part of a dataset"));
        };
        let mut listing = Listing::default();
        for number in 0..part.shards.len() {
            // Other hosts may have the others.
            let name = part_name(number);
            if folder.join(&name).is_dir() {
                listing.nested(Path::new(&name), DatasetKind.list(&folder.join(&name))?);
            }
        }
        Ok(listing)
    }

    fn may_hold(&self, inside: &Path) -> bool {
        let Some(part) = inside.iter().next() else { return false };
        let number = part.to_str().and_then(|name| name.strip_prefix("part-"));
        let is_part = number.is_some_and(|number| number.parse::<usize>().is_ok());
        let within = inside.strip_prefix(part).unwrap_or(Path::new(""));
        is_part && (within.as_os_str().is_empty() || DatasetKind.may_hold(within))
    }
}
