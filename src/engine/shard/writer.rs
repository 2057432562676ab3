//! Writes sorted entries as shards, and the dataset around them.

use super::block::BlockBuilder;
use super::manifest::{ShardRecord, Split, SplitRecord};
use super::statistics::ValueStatistics;
use super::weights::WeightSums;
use super::{HEAD, HEAD_MAGIC, TABLE_ROW, TAIL, TAIL_MAGIC, format_version};
use crate::error::{Error, IoContext, Result};
use crate::kernel::MAX_BLOCK_ENTRIES;
use crate::storage::{AtomicFile, Disk};
use crate::{MAX_ORDER, MIN_ORDER};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Writes one shard front to back.
pub struct ShardWriter<'d> {
    file: AtomicFile<'d>,
    order: usize,
    weighted: bool,
    /// Whether a block in which all weights are 1 has none.
    counts: bool,
    block: BlockBuilder,
    block_entries: usize,
    bytes: Vec<u8>,
    table: Vec<u8>,
    blocks: u64,
    entries: u64,
    first: u32,
    last: u32,
}

impl<'d> ShardWriter<'d> {
    /// Begins a shard; `dims` in level order, blocks of at most `block_entries` entries.
    /// With `weighted` every entry has a weight.
    pub fn create(
        disk: &'d dyn Disk,
        path: &Path,
        dims: &[u32],
        block_entries: usize,
        weighted: bool,
    ) -> Result<Self> {
        let order = dims.len();
        if !(MIN_ORDER..=MAX_ORDER).contains(&order) {
            return Err(Error::request(format!("a tensor of order {order} cannot be stored, only 2 to 8")));
        }
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(HEAD_MAGIC);
        head[8..12].copy_from_slice(&format_version(weighted).to_le_bytes());
        head[12..16].copy_from_slice(&(order as u32).to_le_bytes());
        for (level, dim) in dims.iter().enumerate() {
            head[16 + 4 * level..20 + 4 * level].copy_from_slice(&dim.to_le_bytes());
        }
        let crc = crc32c::crc32c(&head[..60]);
        head[60..].copy_from_slice(&crc.to_le_bytes());
        let mut file = AtomicFile::create(disk, path)?;
        file.append(&head)?;
        Ok(ShardWriter {
            file,
            order,
            weighted,
            counts: false,
            block: BlockBuilder::new(order),
            block_entries: block_entries.clamp(1, MAX_BLOCK_ENTRIES),
            bytes: Vec::new(),
            table: Vec::new(),
            blocks: 0,
            entries: 0,
            first: 0,
            last: 0,
        })
    }

    /// Adds an entry, with its weight in a weighted shard; indices in level order, entries ascending.
    pub fn push(&mut self, indices: &[u32], value: f64, weight: Option<f64>) -> Result<()> {
        debug_assert_eq!(indices.len(), self.order);
        debug_assert_eq!(weight.is_some(), self.weighted);
        if self.entries == 0 {
            self.first = indices[0];
        }
        self.last = indices[0];
        self.entries += 1;
        match weight {
            Some(weight) => self.block.push_weighted(indices, value, weight),
            None => self.block.push(indices, value),
        }
        if self.block.len() == self.block_entries { self.end_block() } else { Ok(()) }
    }

    /// Adds the entries `range` of columns, as many times [`Self::push`].
    fn push_many(&mut self, entries: &Columns<'_>, range: Range<usize>) -> Result<()> {
        if self.entries == 0 {
            self.first = entries.levels[0][range.start];
        }
        self.last = entries.levels[0][range.end - 1];
        self.entries += range.len() as u64;
        let mut from = range.start;
        while from < range.end {
            let upto = range.end.min(from + self.block_entries - self.block.len());
            self.block.extend(entries.levels, entries.values, entries.weights, from..upto);
            if self.block.len() == self.block_entries {
                self.end_block()?;
            }
            from = upto;
        }
        Ok(())
    }

    /// The number of entries so far.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    fn end_block(&mut self) -> Result<()> {
        let (first, last) = self.block.span();
        let entries = self.block.len() as u32;
        if self.counts {
            self.block.forget_ones();
        }
        self.bytes.clear();
        self.block.encode(&mut self.bytes);
        self.table.extend_from_slice(&self.file.written().to_le_bytes());
        let crc = crc32c::crc32c(&self.bytes);
        for number in [self.bytes.len() as u32, entries, first, last, crc, 0] {
            self.table.extend_from_slice(&number.to_le_bytes());
        }
        self.blocks += 1;
        self.file.append(&self.bytes)
    }

    /// Completes the shard and gives it its name.
    pub fn finish(mut self, name: String) -> Result<ShardRecord> {
        if !self.block.is_empty() {
            self.end_block()?;
        }
        let table_at = self.file.written();
        let length = table_at + (self.table.len() + TAIL) as u64;
        debug_assert_eq!(self.table.len() as u64, self.blocks * TABLE_ROW as u64);
        let mut tail = [0; TAIL];
        for (at, number) in [(0, self.entries), (8, self.blocks), (16, table_at), (24, length)] {
            tail[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        let table_crc = crc32c::crc32c(&self.table);
        tail[52..56].copy_from_slice(&table_crc.to_le_bytes());
        let crc = crc32c::crc32c(&tail[..56]);
        tail[56..60].copy_from_slice(&crc.to_le_bytes());
        tail[60..].copy_from_slice(TAIL_MAGIC);
        self.file.append(&self.table)?;
        self.file.append(&tail)?;
        self.file.commit()?;
        Ok(ShardRecord {
            file: name,
            entries: self.entries,
            blocks: self.blocks,
            bytes: length,
            first: self.first,
            last: self.last,
            table_crc32c: table_crc,
        })
    }
}

/// Entries as columns: indices by level, values, and weights where entries have some.
#[derive(Clone, Copy)]
struct Columns<'a> {
    levels: &'a [Vec<u32>],
    values: &'a [f64],
    weights: Option<&'a [f64]>,
}

/// Sizes of blocks and shards, from the number of entries alone, so that the same entries always
/// give the same files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cut {
    block: usize,
    shard: u64,
}

impl Cut {
    /// Small data still gets enough blocks to share among threads; large data gets shards of at
    /// most eight million entries, the unit in which it is moved, checked and assigned.
    fn of(entries: u64) -> Self {
        let block = (entries / 64).clamp(4096, MAX_BLOCK_ENTRIES as u64);
        Cut { block: block as usize, shard: (entries / 16).clamp(4 * block, 8 << 20) }
    }
}

/// The shards of one split.
struct SplitWriter<'d> {
    disk: &'d dyn Disk,
    directory: PathBuf,
    split: Split,
    dims: Vec<u32>,
    cut: Cut,
    shard: Option<ShardWriter<'d>>,
    record: SplitRecord,
    /// Of the train values; of other splits nobody asks for them.
    values: Option<ValueStatistics>,
    /// The largest of all values, those without weight included.
    largest: f64,
    /// In a dataset that has weights, or may.
    weights: Option<WeightSums>,
    /// Whether weights are counts of rows: until one is not 1, entries are written without.
    counts: bool,
    met: bool,
    previous: [u32; MAX_ORDER],
    /// Where fibres begin among the entries that are counted.
    begins: Vec<bool>,
    seen: Vec<Vec<u64>>,
}

impl SplitWriter<'_> {
    /// Adds entries, ascending, behind those that are there.
    fn push(&mut self, entries: &Columns<'_>) -> Result<()> {
        let total = entries.values.len();
        if !self.counts {
            return self.push_range(entries, 0..total);
        }
        let ones = |weights: &[f64]| weights.iter().position(|&weight| weight != 1.0).unwrap_or(total);
        let plain = if self.met { 0 } else { entries.weights.map_or(total, ones) };
        self.push_range(&Columns { weights: None, ..*entries }, 0..plain)?;
        if plain < total {
            if !self.met {
                // What is written so far is as it would be without.
                self.end_shard()?;
                self.met = true;
            }
            let ones = if entries.weights.is_none() { vec![1.0; total] } else { Vec::new() };
            let weights = Some(entries.weights.unwrap_or(&ones));
            self.push_range(&Columns { weights, ..*entries }, plain..total)?;
        }
        Ok(())
    }

    fn push_range(&mut self, entries: &Columns<'_>, range: Range<usize>) -> Result<()> {
        let (total, slices) = (range.end, &entries.levels[0]);
        let mut from = range.start;
        while from < total {
            let full = self.shard.as_ref().map_or(0, ShardWriter::entries);
            // A new shard at the next slice; within a slice only when it is a huge one.
            let room = if full < self.cut.shard {
                self.cut.shard - full
            } else if slices[from] != self.previous[0] || full >= 2 * self.cut.shard {
                self.end_shard()?;
                self.cut.shard
            } else {
                let slice =
                    slices[from..total].iter().take_while(|&&index| index == self.previous[0]).count();
                (slice as u64).min(2 * self.cut.shard - full)
            };
            let upto = total.min(from + usize::try_from(room).unwrap_or(total));
            self.push_to_shard(entries, from..upto)?;
            from = upto;
        }
        Ok(())
    }

    /// Adds entries that belong into the shard that is being written.
    fn push_to_shard(&mut self, entries: &Columns<'_>, range: Range<usize>) -> Result<()> {
        self.count(entries, range.clone());
        let shard = match &mut self.shard {
            Some(shard) => shard,
            None => {
                let path = self.directory.join(self.split.name()).join(shard_name(self.record.shards.len()));
                let weighted = entries.weights.is_some();
                let new = ShardWriter::create(self.disk, &path, &self.dims, self.cut.block, weighted)?;
                self.shard.insert(ShardWriter { counts: self.counts, ..new })
            }
        };
        shard.push_many(entries, range.clone())?;
        for (previous, column) in self.previous.iter_mut().zip(entries.levels) {
            *previous = column[range.end - 1];
        }
        self.record.entries += range.len() as u64;
        Ok(())
    }

    /// Counts slices, fibres, and what occurs.
    fn count(&mut self, entries: &Columns<'_>, range: Range<usize>) {
        let (first, order) = (range.start, entries.levels.len());
        let begun = self.record.entries > 0;
        let changes = |level: usize| entries.levels[level][first] != self.previous[level];
        debug_assert!(!begun || (0..order).any(changes), "entries must come sorted");
        self.record.slices += u64::from(!begun || changes(0));
        self.record.fibres += u64::from(!begun || (0..order - 1).any(changes));
        // Level by level, because that is done in vectors.
        self.begins.clear();
        self.begins.resize(range.len() - 1, false);
        let count = |begins: &[bool]| begins.iter().filter(|&&begins| begins).count() as u64;
        for (level, column) in entries.levels[..order - 1].iter().enumerate() {
            for (begins, pair) in self.begins.iter_mut().zip(column[range.clone()].windows(2)) {
                *begins |= pair[0] != pair[1];
            }
            if level == 0 {
                self.record.slices += count(&self.begins);
            }
        }
        self.record.fibres += count(&self.begins);
        let values = &entries.values[range.clone()];
        self.largest = values.iter().fold(self.largest, |largest, value| largest.max(value.abs()));
        match entries.weights {
            None => {
                for (seen, column) in self.seen.iter_mut().zip(entries.levels) {
                    for &index in &column[range.clone()] {
                        seen[index as usize / 64] |= 1 << (index % 64);
                    }
                }
                for &value in values {
                    self.weights.iter_mut().for_each(|sums| sums.add(value, 1.0));
                    self.values.iter_mut().for_each(|values| values.add(value, 1.0));
                }
            }
            Some(weights) => {
                for n in range {
                    let (value, weight) = (entries.values[n], weights[n]);
                    self.weights.iter_mut().for_each(|sums| sums.add(value, weight));
                    // Nothing is learned from an entry without weight, neither of its ids nor of its value.
                    if weight > 0.0 {
                        for (seen, column) in self.seen.iter_mut().zip(entries.levels) {
                            seen[column[n] as usize / 64] |= 1 << (column[n] % 64);
                        }
                        self.values.iter_mut().for_each(|values| values.add(value, weight));
                    }
                }
            }
        }
    }

    fn end_shard(&mut self) -> Result<()> {
        if let Some(shard) = self.shard.take() {
            let name = format!("{}/{}", self.split.name(), shard_name(self.record.shards.len()));
            self.record.shards.push(shard.finish(name)?);
        }
        Ok(())
    }
}

fn shard_name(number: usize) -> String {
    format!("{number:05}.shard")
}

/// What entries weigh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weighing {
    /// All the same.
    Alike,
    /// What a column says.
    Column,
    /// As many rows as were joined: weights are written only where one is not 1.
    Counts,
}

/// Writes the shards of all splits; the manifest is the caller's, from what this returns.
pub struct DatasetWriter<'d> {
    splits: Vec<SplitWriter<'d>>,
}

/// What [`DatasetWriter::finish`] knows of the entries it has seen.
pub struct Written {
    /// A record per split.
    pub splits: Vec<SplitRecord>,
    /// The train values.
    pub values: ValueStatistics,
    /// The largest absolute value of all splits.
    pub largest: f64,
    /// What the weights of every split add up to, where there are any.
    pub weights: Option<Vec<WeightSums>>,
    /// Per level: how many indices have train entries, and how many only others.
    pub seen: Vec<(u64, u64)>,
    /// Per level, a bit for every index that has train entries.
    pub in_train: Vec<Vec<u64>>,
}

impl<'d> DatasetWriter<'d> {
    /// Begins the shards in `directory`; `expected` entries in all, `dims` in level order.
    /// What entries weigh is said by `weighing`.
    pub fn create(
        disk: &'d dyn Disk,
        directory: &Path,
        dims: &[u32],
        expected: u64,
        weighing: Weighing,
    ) -> Result<Self> {
        let splits = Split::ALL.map(|split| SplitWriter {
            disk,
            directory: directory.into(),
            split,
            dims: dims.to_vec(),
            cut: Cut::of(expected),
            shard: None,
            record: SplitRecord::default(),
            values: (split == Split::Train).then(ValueStatistics::default),
            largest: 0.0,
            weights: (weighing != Weighing::Alike).then(WeightSums::default),
            counts: weighing == Weighing::Counts,
            met: false,
            previous: [0; MAX_ORDER],
            begins: Vec::new(),
            seen: dims.iter().map(|&dim| vec![0; (dim as usize).div_ceil(64)]).collect(),
        });
        for split in Split::ALL {
            let path = directory.join(split.name());
            disk.create_dir(&path).context("create", &path)?;
        }
        Ok(DatasetWriter { splits: splits.into() })
    }

    /// Bytes of memory that a writer for such dimensions holds.
    pub fn memory(dims: &[u32], weighted: bool) -> u64 {
        let seen: u64 = dims.iter().map(|&dim| u64::from(dim) + 64).sum();
        let block = MAX_BLOCK_ENTRIES * (dims.len() * 4 + 8 + 8 * usize::from(weighted)) * 2 + (1 << 18);
        Self::memory_per_index(seen) + 3 * block as u64
    }

    /// Further bytes where rows, of which there are so many, may turn out to be joined: of a block of each split.
    pub fn counting(expected: u64) -> u64 {
        3 * 9 * Cut::of(expected).block as u64
    }

    /// The part of them that grows with the dimensions: a bit for each index and split.
    pub fn memory_per_index(indices: u64) -> u64 {
        3 * (indices / 8)
    }

    /// Adds entries, with their weights in a weighted dataset: a column of indices per level, entries ascending within
    /// a split.
    pub fn push(
        &mut self,
        split: Split,
        levels: &[Vec<u32>],
        values: &[f64],
        weights: Option<&[f64]>,
    ) -> Result<()> {
        self.splits[split as usize].push(&Columns { levels, values, weights })
    }

    /// Completes all shards.
    pub fn finish(mut self) -> Result<Written> {
        for split in &mut self.splits {
            split.end_shard()?;
            let path = split.directory.join(split.split.name());
            split.disk.sync_dir(&path).context("finish", &path)?;
        }
        let ones = |bits: &[u64]| bits.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        let levels = self.splits[0].seen.len();
        let seen = (0..levels).map(|level| {
            let train = &self.splits[0].seen[level];
            let others: Vec<u64> = (0..train.len())
                .map(|word| {
                    (self.splits[1].seen[level][word] | self.splits[2].seen[level][word]) & !train[word]
                })
                .collect();
            (ones(train), ones(&others))
        });
        let seen: Vec<(u64, u64)> = seen.collect();
        let values = self.splits[0].values.take().unwrap_or_default().settled();
        let counts = self.splits[0].counts;
        let weighted = !counts || self.splits.iter().any(|split| split.met);
        let in_train = std::mem::take(&mut self.splits[0].seen);
        let largest = self.splits.iter().map(|split| split.largest).fold(0.0, f64::max);
        let weights = self.splits.iter().map(|split| split.weights.filter(|_| weighted)).collect();
        Ok(Written {
            largest,
            weights,
            splits: self.splits.into_iter().map(|split| split.record).collect(),
            values,
            seen,
            in_train,
        })
    }
}
