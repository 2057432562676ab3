//! Hands out the blocks of a split, lane by lane; knows no mathematics.
//!
//! The blocks are divided among a fixed number of lanes, contiguous and with about as many entries
//! each. Lanes are a property of the data, not of the machine: whoever adds up per lane, and the
//! lanes in order, gets the same bits for any number of threads.
//!
//! Data that the machine can keep in memory is mapped; other data is read ahead of the
//! computation by a thread per busy lane, and dropped from the page cache behind it.

mod ahead;
mod map;

use crate::error::Result;
use crate::shard::{BlockView, Dataset, Shard, Split};
use map::Map;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How many lanes there are, where there are that many blocks.
pub const LANES: usize = 8;

/// A contiguous part of a split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lane {
    /// Blocks, counted over all shards of the split.
    pub blocks: Range<usize>,
    /// The indices of level 0 that occur in it lie in this range.
    pub slices: Range<u32>,
    /// Its number of entries.
    pub entries: u64,
}

/// How the bytes get into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Mapped: the system keeps what it can.
    Mapped,
    /// Read ahead into buffers, and dropped behind.
    ReadAhead,
}

impl Access {
    /// What the machine's free memory suggests for so many bytes of shards.
    pub fn usual(bytes: u64) -> Self {
        // Half of what is free: the other half is for everybody else.
        let fits = crate::usage::available_bytes().is_none_or(|free| bytes < free / 2);
        if fits { Access::Mapped } else { Access::ReadAhead }
    }

    /// Memory that a lane's buffers take while it is read.
    pub fn lane_memory(self) -> u64 {
        match self {
            Access::Mapped => 0,
            Access::ReadAhead => ahead::MEMORY,
        }
    }
}

/// A split that can be gone through again and again.
#[derive(Debug)]
pub struct Stream {
    shards: Arc<[Shard]>,
    maps: Arc<[Map]>,
    readers: Arc<[ahead::Reader]>,
    /// Shard and number of every block.
    blocks: Vec<(usize, usize)>,
    checked: Vec<AtomicBool>,
    lanes: Vec<Lane>,
    entries: u64,
    bytes_read: Arc<AtomicU64>,
}

impl Stream {
    /// Opens a split; `None` leaves the access to what the machine's free memory suggests.
    pub fn open(dataset: &Dataset, split: Split, access: Option<Access>) -> Result<Self> {
        let shards = dataset.shards(split)?;
        let bytes = dataset.manifest().split(split).bytes();
        let access = access.unwrap_or_else(|| Access::usual(bytes));
        let maps = match access {
            Access::Mapped => shards.iter().map(Map::new).collect::<Result<Vec<_>>>()?,
            Access::ReadAhead => Vec::new(),
        };
        let readers = match access {
            Access::Mapped => Vec::new(),
            Access::ReadAhead => shards.iter().map(ahead::Reader::new).collect(),
        };
        let blocks: Vec<(usize, usize)> = shards
            .iter()
            .enumerate()
            .flat_map(|(shard, open)| (0..open.blocks().len()).map(move |number| (shard, number)))
            .collect();
        let checked = blocks.iter().map(|_| AtomicBool::new(false)).collect();
        let entries = shards.iter().map(Shard::entries).sum();
        let mut stream = Stream {
            shards: shards.into(),
            maps: maps.into(),
            readers: readers.into(),
            blocks,
            checked,
            lanes: Vec::new(),
            entries,
            bytes_read: Arc::default(),
        };
        stream.lanes = stream.divide(LANES);
        Ok(stream)
    }

    /// The split cut into at most `count` parts of whole blocks, contiguous and with about as many
    /// entries each, whatever files they lie in. A part is a stream of its own over the same open files.
    pub fn parts(&self, count: usize) -> Vec<Stream> {
        let part = |part: Lane| {
            let blocks = self.blocks[part.blocks].to_vec();
            let mut stream = Stream {
                shards: Arc::clone(&self.shards),
                maps: Arc::clone(&self.maps),
                readers: Arc::clone(&self.readers),
                checked: blocks.iter().map(|_| AtomicBool::new(false)).collect(),
                blocks,
                lanes: Vec::new(),
                entries: part.entries,
                bytes_read: Arc::clone(&self.bytes_read),
            };
            stream.lanes = stream.divide(LANES);
            stream
        };
        self.divide(count).into_iter().map(part).collect()
    }

    /// Lanes with about as many entries each; a block goes where its middle falls.
    fn divide(&self, most: usize) -> Vec<Lane> {
        let count = most.min(self.blocks.len());
        let mut lanes: Vec<Lane> = vec![Lane { blocks: 0..0, slices: 0..0, entries: 0 }; count];
        let mut before = 0;
        for (position, &(shard, number)) in self.blocks.iter().enumerate() {
            let row = self.shards[shard].blocks()[number];
            let middle = before + u64::from(row.entries) / 2;
            let lane = (middle as u128 * count as u128 / u128::from(self.entries.max(1))) as usize;
            let lane = &mut lanes[lane.min(count - 1)];
            if lane.entries == 0 {
                lane.blocks = position..position;
                lane.slices = row.first..row.first;
            }
            lane.blocks.end = position + 1;
            lane.slices.end = row.last + 1;
            lane.entries += u64::from(row.entries);
            before += u64::from(row.entries);
        }
        lanes.retain(|lane| lane.entries > 0);
        lanes
    }

    /// The lanes, in order.
    pub fn lanes(&self) -> &[Lane] {
        &self.lanes
    }

    /// The number of entries.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Whether the data is mapped or read ahead.
    pub fn access(&self) -> Access {
        if self.maps.is_empty() && !self.shards.is_empty() { Access::ReadAhead } else { Access::Mapped }
    }

    /// Whether reads go past the page cache.
    pub fn is_direct(&self) -> bool {
        !self.readers.is_empty() && self.readers.iter().all(ahead::Reader::is_direct)
    }

    /// How many bytes of blocks were handed out so far, those of its parts included.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// Calls `each` with every block of a lane, in order. Checksums are compared when bytes come
    /// from disk: the first time where they are mapped, every time where they are read.
    pub fn for_each(&self, lane: &Lane, each: impl FnMut(&BlockView<'_>) -> Result<()>) -> Result<()> {
        self.for_each_of(lane.blocks.clone(), each)
    }

    /// Calls `each` with some blocks, spread evenly over the split: a sample of its entries.
    pub fn for_each_sampled(
        &self,
        most: usize,
        mut each: impl FnMut(&BlockView<'_>) -> Result<()>,
    ) -> Result<()> {
        let step = self.blocks.len().div_ceil(most.max(1)).max(1);
        for position in (0..self.blocks.len()).step_by(step) {
            self.for_each_of(position..position + 1, &mut each)?;
        }
        Ok(())
    }

    fn for_each_of(
        &self,
        blocks: Range<usize>,
        mut each: impl FnMut(&BlockView<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut visit = |position: usize, bytes: &[u8], fresh: bool| -> Result<()> {
            let (shard, number) = self.blocks[position];
            let shard = &self.shards[shard];
            let first = !self.checked[position].load(Ordering::Relaxed);
            if fresh || first {
                shard.check(number, bytes)?;
            }
            self.bytes_read.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            if !first {
                return each(&shard.view_again(number, bytes)?);
            }
            let view = shard.view(number, bytes)?;
            self.checked[position].store(true, Ordering::Relaxed);
            each(&view)
        };
        if self.access() == Access::ReadAhead {
            return ahead::read(
                &self.shards,
                &self.readers,
                &self.blocks[blocks.clone()],
                |offset, bytes| visit(blocks.start + offset, bytes, true),
            );
        }
        for position in blocks {
            let (shard, number) = self.blocks[position];
            let row = self.shards[shard].blocks()[number];
            visit(position, self.maps[shard].bytes(row.offset, row.bytes), false)?;
        }
        Ok(())
    }
}
