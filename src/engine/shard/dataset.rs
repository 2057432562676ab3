//! An open dataset: its manifest, its shards and labels on demand.

use super::labels::{Labels, read_labels};
use super::manifest::{FILE, Manifest, ModeKind, ShardRecord, Split};
use super::reader::Shard;
use crate::error::{Error, Result};
use crate::team::Team;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A dataset directory whose manifest has been read and checked; or the parts of one that are here.
#[derive(Debug, Clone)]
pub struct Dataset {
    directory: PathBuf,
    manifest: Manifest,
    /// Where parts lie, and which; empty for a whole dataset.
    parts: Vec<(PathBuf, usize)>,
}

/// The folder of a part.
pub(crate) fn part_name(number: usize) -> String {
    format!("part-{number}")
}

/// Whether there is something of a manifest's name; what it is shows when it is read.
fn has_manifest(directory: &Path) -> bool {
    directory.join(FILE).symlink_metadata().is_ok()
}

/// The parts in a folder that `distribute` made, or that holds some of what it made.
pub(super) fn parts_in(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let number =
        |path: &PathBuf| -> Option<usize> { path.file_name()?.to_str()?.strip_prefix("part-")?.parse().ok() };
    let mut parts: Vec<(usize, PathBuf)> = entries
        .filter_map(|entry| Some((number(&entry.path())?, entry.path())))
        .filter(|(_, path)| has_manifest(path))
        .collect();
    parts.sort();
    parts.into_iter().map(|(_, path)| path).collect()
}

impl Dataset {
    /// Whether there is one in `directory`, whole or in parts.
    pub fn is_in(directory: &Path) -> bool {
        has_manifest(directory) || !parts_in(directory).is_empty()
    }

    /// Opens the dataset in `directory`, or the parts of one in its folders `part-0`, `part-1`, ...
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self> {
        let directory = directory.into();
        let mut places = vec![directory.clone()];
        if !has_manifest(&directory) {
            let parts = parts_in(&directory);
            places = if parts.is_empty() { places } else { parts };
        }
        let mut found: Option<Manifest> = None;
        let mut parts = Vec::new();
        for place in places {
            let mut manifest = Manifest::read(&place)?;
            parts.extend(manifest.part.as_ref().map(|part| (place.clone(), part.number)));
            match &mut found {
                None => found = Some(manifest),
                Some(first) => {
                    manifest.part.clone_from(&first.part);
                    if manifest != *first {
                        let what = "this is a part of another dataset than those beside it";
                        return Err(Error::input(place, what));
                    }
                }
            }
        }
        let manifest = found.ok_or_else(|| Error::input(&directory, "there is no such dataset"))?;
        Ok(Dataset { directory, manifest, parts })
    }

    /// Where it lies.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where its labels lie: every part has them.
    pub fn labels_directory(&self) -> &Path {
        self.parts.first().map_or(&self.directory, |(place, _)| place)
    }

    /// What it holds.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Where a file of entries is, if it is in a part that is here.
    pub fn place(&self, record: &ShardRecord) -> Option<PathBuf> {
        let Some(part) = self.manifest.part.as_ref().filter(|_| !self.parts.is_empty()) else {
            return Some(self.directory.join(&record.file));
        };
        let holds = |number: usize| part.shards.get(number).is_some_and(|files| files.contains(&record.file));
        let places = self.parts.iter().filter(|(_, number)| holds(*number));
        places.map(|(place, _)| place.join(&record.file)).find(|path| path.is_file())
    }

    /// Opens the shards of a split that are here, each checked against the manifest. Those of a whole
    /// dataset must all be here.
    pub fn shards_here(&self, split: Split) -> Result<Vec<Option<Shard>>> {
        self.manifest.split(split).shards.iter().map(|record| self.shard(record)).collect()
    }

    /// Opens one, if it is here.
    fn shard(&self, record: &ShardRecord) -> Result<Option<Shard>> {
        self.own_shard(record).map_err(|error| self.replaced().unwrap_or(error))
    }

    /// What to say where another dataset has taken its place since it was opened.
    fn replaced(&self) -> Option<Error> {
        let now = Manifest::read(self.labels_directory()).ok()?;
        let what = "the dataset was replaced by another (`in_place`, or `force`) after this had begun with it: begin again \
                    with the new one";
        let same = Manifest { part: self.manifest.part.clone(), ..now } == self.manifest;
        (!same).then(|| Error::input(&self.directory, what))
    }

    fn own_shard(&self, record: &ShardRecord) -> Result<Option<Shard>> {
        let Some(path) = self.place(record) else { return Ok(None) };
        let shard = Shard::open(&path, &self.manifest.level_dims())?;
        let other_kind = match &self.manifest.weights {
            Some(weights) => !shard.weighted() && !weights.counts,
            None => shard.weighted(),
        };
        if shard.table_crc() != record.table_crc32c || shard.entries() != record.entries || other_kind {
            return Err(Error::corrupt(&path, 0, "this is not the shard that the manifest names"));
        }
        Ok(Some(shard))
    }

    /// Opens all shards of a split.
    pub fn shards(&self, split: Split) -> Result<Vec<Shard>> {
        let here = self.shards_here(split)?.into_iter().enumerate();
        here.map(|(number, shard)| shard.ok_or_else(|| self.missing(split, number))).collect()
    }

    /// Whether a file of entries is in a part that this process of a team is expected to have.
    pub(crate) fn expects(&self, record: &ShardRecord, team: Team) -> bool {
        let parts = self.manifest.part.as_ref().map_or(&[][..], |part| &part.shards);
        let own = team.lanes_of(team.process(), parts.len());
        parts
            .get(own.start..own.end.max(own.start + 1))
            .is_none_or(|own| own.iter().any(|files| files.contains(&record.file)))
    }

    /// What to say of a shard that is needed and not here.
    pub fn missing(&self, split: Split, shard: usize) -> Error {
        let file = &self.manifest.split(split).shards[shard].file;
        let parts = self.manifest.part.as_ref().map_or(&[][..], |part| &part.shards);
        let holding: Vec<String> =
            (0..parts.len()).filter(|&number| parts[number].contains(file)).map(part_name).collect();
        let what = format!(
            "{file} is not here: copy {} of the {} parts that `tenfill distribute` made to this host",
            holding.join(" or "),
            parts.len()
        );
        Error::input(&self.directory, what)
    }

    /// The labels of a mode; `None` where they follow from the index.
    pub fn labels(&self, mode: usize) -> Result<Option<Labels>> {
        let mode = &self.manifest.modes[mode];
        match &mode.kind {
            ModeKind::Integers { labels } | ModeKind::Text { labels } => {
                read_labels(self.labels_directory(), labels, mode.dim).map(Some)
            }
            ModeKind::Range { .. } | ModeKind::Bins(_) => Ok(None),
        }
    }

    /// Calls `each(indices, value)` for all entries of a split in storage order, the indices in the
    /// user's mode order. One block is in memory at a time.
    pub fn for_each(&self, split: Split, each: impl FnMut(&[u32], f64)) -> Result<()> {
        self.for_each_within(split, None, each)
    }

    /// The same with the weight of every entry: 1 where entries have none.
    pub fn for_each_weighted(&self, split: Split, each: impl FnMut(&[u32], f64, f64)) -> Result<()> {
        self.for_each_weighted_within(split, None, each)
    }

    /// The same for the entries whose index in a mode lies in a range. Where the dataset is sorted by
    /// that mode only the blocks of that range are read.
    pub fn for_each_within(
        &self,
        split: Split,
        within: Option<(usize, Range<u32>)>,
        mut each: impl FnMut(&[u32], f64),
    ) -> Result<()> {
        self.for_each_weighted_within(split, within, |indices, value, _| each(indices, value))
    }

    fn for_each_weighted_within(
        &self,
        split: Split,
        within: Option<(usize, Range<u32>)>,
        mut each: impl FnMut(&[u32], f64, f64),
    ) -> Result<()> {
        let order = &self.manifest.mode_order;
        let mut buffer = Vec::new();
        let mut indices = vec![0; order.len()];
        // One after the other: a dataset may have more of them than may be open at once.
        for (place, record) in self.manifest.split(split).shards.iter().enumerate() {
            let shard = self.shard(record)?.ok_or_else(|| self.missing(split, place))?;
            for (number, row) in shard.blocks().iter().enumerate() {
                if let Some((mode, range)) = &within
                    && order[0] == *mode
                    && (row.last < range.start || row.first >= range.end)
                {
                    continue;
                }
                let bytes = shard.read_block(number, &mut buffer)?;
                shard.check(number, bytes)?;
                shard.view(number, bytes)?.for_each_weighted(|levels, value, weight| {
                    for (level, &index) in levels.iter().enumerate() {
                        indices[order[level]] = index;
                    }
                    if within.as_ref().is_none_or(|(mode, range)| range.contains(&indices[*mode])) {
                        each(&indices, value, weight);
                    }
                });
            }
        }
        Ok(())
    }
}
