//! Cuts a dataset for several hosts: each gets the shards of a range of lanes, and nothing else.
//!
//! ```text
//! DIR/
//!   part-0/   a dataset directory: the whole manifest, which says what is in which part, the labels,
//!   part-1/   and the shards of this part
//!   ...
//! ```
//!
//! Shards are copied as they are, block by block and every checksum compared, so that a run on parts is
//! the run on the whole. One that lies across the border of two ranges is in both parts.

use crate::control::{Control, Unit};
use crate::error::{Error, IoContext, Result};
use crate::shard::{
    BlockRow, Dataset, HEAD, ModeKind, Part, PartsKind, Shard, Split, TABLE_ROW, TAIL, part_name,
};
use crate::storage::{AtomicFile, Disk, Output, Staging, make_dir, read_regular, write_atomic};
use crate::stream::{divide, is_within};
use crate::team::lanes_of;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

/// How to cut.
#[derive(Debug, Clone, Copy)]
pub struct DistributeOptions {
    /// The number of parts.
    pub hosts: usize,
    /// The lanes of the runs to come; at least as many as processes.
    pub lanes: usize,
    /// Whether to replace what is there.
    pub force: bool,
}

/// One part that was written.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct DistributedPart {
    /// Its folder.
    pub name: String,
    /// Train entries of its lanes.
    pub train_entries: u64,
    /// Its shards.
    pub shards: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// Cuts the dataset into the folders `part-0`, `part-1`, ... of a new directory.
pub fn distribute(
    disk: &dyn Disk,
    dataset: &Dataset,
    output: &Path,
    options: &DistributeOptions,
    control: &Control,
) -> Result<Vec<DistributedPart>> {
    if dataset.manifest().part.is_some() {
        let what = "this is distributed already: cut the whole dataset anew";
        return Err(Error::input(dataset.directory(), what));
    }
    let (parts, shards) = cut(dataset, options)?;
    let output = Output::new(output, options.force).apart_from([dataset.directory()]);
    let staging = Staging::create(disk, &output, &PartsKind)?;
    control.progress().stage("distribute", Unit::Bytes, parts.iter().map(|part| part.bytes).sum());
    let mut done = 0;
    for (number, part) in parts.iter().enumerate() {
        let folder = staging.path().join(&part.name);
        for split in Split::ALL {
            make_dir(disk, &folder.join(split.name()))?;
        }
        copy_labels(disk, dataset, &folder)?;
        for file in &shards[number] {
            let (from, to) = (dataset.directory().join(file), folder.join(file));
            let shard = Shard::open(&from, &dataset.manifest().level_dims())?;
            copy_shard(disk, &shard, &to, control, &mut done)?;
        }
        for split in Split::ALL {
            let path = folder.join(split.name());
            disk.sync_dir(&path).context("finish", &path)?;
        }
        let mut manifest = dataset.manifest().clone();
        manifest.part = Some(Part { number, lanes: options.lanes, shards: shards.clone() });
        manifest.write(disk, &folder)?;
    }
    staging.commit()?;
    Ok(parts)
}

/// What goes where: the lanes of a part are those of a process of a team of as many.
fn cut(dataset: &Dataset, options: &DistributeOptions) -> Result<(Vec<DistributedPart>, Vec<Vec<String>>)> {
    let empty = |number| DistributedPart { name: part_name(number), train_entries: 0, shards: 0, bytes: 0 };
    let mut parts: Vec<DistributedPart> = (0..options.hosts).map(empty).collect();
    let mut shards = vec![Vec::new(); options.hosts];
    // The last sweep reads validation entries beside the train entries of the same slices.
    let mut slices: Vec<Vec<Range<u32>>> = vec![Vec::new(); options.hosts];
    let near = dataset.manifest().modes[dataset.manifest().mode_order[0]].stand_ins();
    for split in Split::ALL {
        let tables: Vec<Vec<BlockRow>> =
            dataset.shards(split)?.iter().map(|shard| shard.blocks().to_vec()).collect();
        let blocks: Vec<(usize, usize)> = tables
            .iter()
            .enumerate()
            .flat_map(|(shard, table)| (0..table.len()).map(move |number| (shard, number)))
            .collect();
        let lanes = divide(&tables, &blocks, options.lanes);
        for (number, part) in parts.iter_mut().enumerate() {
            let own = &lanes[lanes_of(number, options.hosts, lanes.len())];
            let mut needed: BTreeSet<usize> =
                own.iter().flat_map(|lane| blocks[lane.blocks.clone()].iter().map(|block| block.0)).collect();
            if split == Split::Train {
                slices[number] = own.iter().map(|lane| lane.slices.clone()).collect();
            } else if split == Split::Validation {
                let covered = |row: &BlockRow| is_within(near.as_ref(), row, &slices[number]);
                needed.extend((0..tables.len()).filter(|&shard| tables[shard].iter().any(covered)));
            }
            for shard in needed {
                let record = &dataset.manifest().split(split).shards[shard];
                shards[number].push(record.file.clone());
                part.shards += 1;
                part.bytes += record.bytes;
            }
            if split == Split::Train {
                part.train_entries = own.iter().map(|lane| lane.entries).sum();
            }
        }
    }
    Ok((parts, shards))
}

fn copy_labels(disk: &dyn Disk, dataset: &Dataset, folder: &Path) -> Result<()> {
    for mode in &dataset.manifest().modes {
        if let ModeKind::Integers { labels } | ModeKind::Text { labels } = &mode.kind {
            let (from, to) = (dataset.labels_directory().join(&labels.file), folder.join(&labels.file));
            make_dir(disk, to.parent().unwrap_or(folder))?;
            write_atomic(disk, &to, &read_regular(&from)?)?;
        }
    }
    Ok(())
}

/// Copies a shard whose every block is what its table says.
fn copy_shard(disk: &dyn Disk, shard: &Shard, to: &Path, control: &Control, done: &mut u64) -> Result<()> {
    let mut file = AtomicFile::create(disk, to)?;
    let read = |at: u64, length: usize| {
        let mut bytes = vec![0; length];
        shard.read_at(&mut bytes, at).map(|()| bytes)
    };
    file.append(&read(0, HEAD)?)?;
    let mut buffer = Vec::new();
    for number in 0..shard.blocks().len() {
        control.check()?;
        let bytes = shard.read_block(number, &mut buffer)?;
        shard.check(number, bytes)?;
        file.append(bytes)?;
        *done += bytes.len() as u64;
        control.progress().advance(*done, &"");
    }
    let rest = shard.blocks().len() * TABLE_ROW + TAIL;
    file.append(&read(file.written(), rest)?)?;
    file.commit()
}
