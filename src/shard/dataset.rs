//! An open dataset: its manifest, its shards and labels on demand.

use super::labels::{Labels, read_labels};
use super::manifest::{Manifest, ModeKind, Split};
use super::reader::Shard;
use crate::error::{Error, Result};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A dataset directory whose manifest has been read and checked.
#[derive(Debug, Clone)]
pub struct Dataset {
    directory: PathBuf,
    manifest: Manifest,
}

impl Dataset {
    /// Opens the dataset in `directory`.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self> {
        let directory = directory.into();
        let manifest = Manifest::read(&directory)?;
        Ok(Dataset { directory, manifest })
    }

    /// Where it lies.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What it holds.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Opens the shards of a split, each checked against the manifest.
    pub fn shards(&self, split: Split) -> Result<Vec<Shard>> {
        let dims = self.manifest.level_dims();
        let records = &self.manifest.split(split).shards;
        records
            .iter()
            .map(|record| {
                let path = self.directory.join(&record.file);
                let shard = Shard::open(&path, &dims)?;
                let other_kind = shard.weighted() != self.manifest.weights.is_some();
                if shard.table_crc() != record.table_crc32c || shard.entries() != record.entries || other_kind
                {
                    return Err(Error::corrupt(&path, 0, "this is not the shard that the manifest names"));
                }
                Ok(shard)
            })
            .collect()
    }

    /// The labels of a mode; `None` where they follow from the index.
    pub fn labels(&self, mode: usize) -> Result<Option<Labels>> {
        let mode = &self.manifest.modes[mode];
        match &mode.kind {
            ModeKind::Integers { labels } | ModeKind::Text { labels } => {
                read_labels(&self.directory, labels, mode.dim).map(Some)
            }
            ModeKind::Range { .. } | ModeKind::Bins(_) => Ok(None),
        }
    }

    /// Calls `each(indices, value)` for all entries of a split in storage order, the indices in the
    /// user's mode order. One block is in memory at a time.
    pub fn for_each(&self, split: Split, each: impl FnMut(&[u32], f64)) -> Result<()> {
        self.for_each_within(split, None, each)
    }

    /// The same for the entries whose index in a mode lies in a range. Where the dataset is sorted by
    /// that mode only the blocks of that range are read.
    pub fn for_each_within(
        &self,
        split: Split,
        within: Option<(usize, Range<u32>)>,
        mut each: impl FnMut(&[u32], f64),
    ) -> Result<()> {
        let order = &self.manifest.mode_order;
        let mut buffer = Vec::new();
        let mut indices = vec![0; order.len()];
        for shard in self.shards(split)? {
            for (number, row) in shard.blocks().iter().enumerate() {
                if let Some((mode, range)) = &within
                    && order[0] == *mode
                    && (row.last < range.start || row.first >= range.end)
                {
                    continue;
                }
                let bytes = shard.read_block(number, &mut buffer)?;
                shard.check(number, bytes)?;
                shard.view(number, bytes)?.for_each(|levels, value| {
                    for (level, &index) in levels.iter().enumerate() {
                        indices[order[level]] = index;
                    }
                    if within.as_ref().is_none_or(|(mode, range)| range.contains(&indices[*mode])) {
                        each(&indices, value);
                    }
                });
            }
        }
        Ok(())
    }
}
