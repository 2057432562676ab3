//! Hands out the blocks of a split, lane by lane; knows no mathematics.
//!
//! The blocks are divided among a fixed number of lanes, contiguous and with about as many entries
//! each. Lanes are a property of the run, not of the machine: whoever adds up per lane, and the
//! lanes in order, gets the same bits for any number of threads. With several processes each goes
//! through a range of the lanes, and needs the shards of these only.
//!
//! Data that the machine can keep in its page cache is copied from there, block by block; other data is
//! read ahead of the computation by a thread per busy lane, and dropped from the page cache behind it.
//!
//! Files are not mapped into memory. Another program may write to a shard or cut it short during a run:
//! in a map the bytes would change under a kernel that has checked them, and a page that is gone would end
//! the program by a signal. A copy is checked and then stays as it is, in every pass.

mod ahead;

use crate::control::Control;
use crate::error::{Error, Result};
use crate::kernel::{BlockView, Ids, Values};
use crate::shard::{BlockRow, Dataset, Manifest, Shard, Split};
use crate::team::{Combine, Team};
use crate::usage::most_open_files;
use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How many lanes there are where nobody asks for another number, and where there are that many blocks.
pub const LANES: usize = 8;

/// Who goes through a split: in how many lanes, and which processes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Lanes of all processes together.
    pub lanes: usize,
    /// The processes.
    pub team: Team,
}

impl Default for Share {
    fn default() -> Self {
        Share { lanes: LANES, team: Team::alone() }
    }
}

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
    /// Through the page cache: the system keeps what it can.
    Cached,
    /// Read ahead into buffers, and dropped behind.
    ReadAhead,
}

impl Access {
    /// What the machine's free memory suggests for so many bytes of shards.
    pub fn usual(bytes: u64) -> Self {
        // Half of what is free: the other half is for everybody else.
        let fits = crate::usage::System::default().available_bytes().is_none_or(|free| bytes < free / 2);
        if fits { Access::Cached } else { Access::ReadAhead }
    }

    /// Memory that a lane's buffers take while a dataset is read.
    pub fn lane_memory(self, manifest: &Manifest) -> u64 {
        match self {
            Access::Cached => {
                let shards = Split::ALL.iter().flat_map(|&split| &manifest.split(split).shards);
                // Blocks of a shard have about as many bytes each.
                let block = shards.map(|shard| shard.bytes.min(2 * (shard.bytes / shard.blocks.max(1))));
                block.max().unwrap_or(0)
            }
            Access::ReadAhead => ahead::MEMORY,
        }
    }
}

/// A split that can be gone through again and again.
#[derive(Debug)]
pub struct Stream {
    share: Share,
    /// Those that this process needs; of the others only the tables are known.
    shards: Arc<[Option<Shard>]>,
    tables: Arc<[Vec<BlockRow>]>,
    readers: Arc<[Option<ahead::Reader>]>,
    access: Access,
    /// Shard and number of every block.
    blocks: Vec<(usize, usize)>,
    checked: Vec<AtomicBool>,
    lanes: Vec<Lane>,
    own: Range<usize>,
    entries: u64,
    /// What weights are multiplied by: only their ratios mean anything, and sums of huge ones overflow.
    weight_scale: f64,
    /// Per level, what stands in for bins without train entries, where this is no train split.
    stand_ins: Arc<Vec<Option<Vec<u32>>>>,
    bytes_read: Arc<AtomicU64>,
    control: Control,
}

impl Stream {
    /// Opens a split; `None` leaves the access to what the machine's free memory suggests.
    pub fn open(dataset: &Dataset, split: Split, access: Option<Access>) -> Result<Self> {
        Self::open_share(dataset, split, access, Share::default())
    }

    /// Opens what one of several processes goes through. All of them must call it.
    pub fn open_share(dataset: &Dataset, split: Split, access: Option<Access>, share: Share) -> Result<Self> {
        Self::open_covering(dataset, split, access, share, &[])
    }

    /// The same, and what lies in these slices may be read, too.
    pub fn open_covering(
        dataset: &Dataset,
        split: Split,
        access: Option<Access>,
        share: Share,
        slices: &[Range<u32>],
    ) -> Result<Self> {
        let team = share.team;
        let mut shards = team.agree(dataset.shards_here(split))?;
        let tables = team.agree(tables(dataset, split, &shards, team))?;
        let blocks: Vec<(usize, usize)> = tables
            .iter()
            .enumerate()
            .flat_map(|(shard, table)| (0..table.len()).map(move |number| (shard, number)))
            .collect();
        let mut lanes = divide(&tables, &blocks, share.lanes.max(1));
        let manifest = dataset.manifest();
        let stand_in = |&mode: &usize| manifest.modes[mode].stand_ins().filter(|_| split != Split::Train);
        let stand_ins: Vec<Option<Vec<u32>>> = manifest.mode_order.iter().map(stand_in).collect();
        if let Some(Some(near)) = stand_ins.first() {
            // They ascend as the slices do.
            for lane in &mut lanes {
                lane.slices = near[lane.slices.start as usize]..near[lane.slices.end as usize - 1] + 1;
            }
        }
        let own = team.lanes_of(team.process(), lanes.len());
        let near = stand_ins.first().and_then(Option::as_ref);
        let covered = |row: &BlockRow| is_within(near, row, slices);
        let needed = |shard: usize| {
            let own = &lanes[own.clone()];
            own.iter().any(|lane| blocks[lane.blocks.clone()].iter().any(|block| block.0 == shard))
                || tables[shard].iter().any(covered)
        };
        let needed: Vec<bool> = (0..shards.len()).map(needed).collect();
        let missing = (0..shards.len()).find(|&shard| needed[shard] && shards[shard].is_none());
        team.agree(missing.map_or(Ok(()), |shard| Err(dataset.missing(split, shard))))?;
        let mut bytes = 0;
        for (shard, _) in needed.iter().enumerate().filter(|(_, needed)| !**needed) {
            shards[shard] = None;
        }
        for (shard, record) in dataset.manifest().split(split).shards.iter().enumerate() {
            bytes += if needed[shard] { record.bytes } else { 0 };
        }
        let access = access.unwrap_or_else(|| Access::usual(bytes));
        // Direct reads open every shard once more, which must leave some files to the other splits and the run.
        let open = shards.iter().flatten().count() as u64;
        let twice = most_open_files().is_none_or(|most| 4 * open <= most);
        let reader = |shard: &Option<Shard>| {
            let shard = shard.as_ref().filter(|_| access == Access::ReadAhead);
            shard.map(|shard| ahead::Reader::new(shard, twice))
        };
        let readers = shards.iter().map(reader).collect();
        let checked = blocks.iter().map(|_| AtomicBool::new(false)).collect();
        let entries = dataset.manifest().split(split).entries;
        let any = stand_ins.iter().any(Option::is_some);
        Ok(Stream {
            share,
            stand_ins: Arc::new(if any { stand_ins } else { Vec::new() }),
            shards: shards.into(),
            tables: tables.into(),
            readers,
            access,
            blocks,
            checked,
            lanes,
            own,
            entries,
            weight_scale: dataset.manifest().weight_scale(),
            bytes_read: Arc::default(),
            control: Control::default(),
        })
    }

    /// Goes through the page cache from here on, for want of memory to read ahead into.
    pub fn do_without_reading_ahead(&mut self) {
        self.access = Access::Cached;
        self.readers = self.readers.iter().map(|_| None).collect();
    }

    /// Cuts passes short, with [`Error::Interrupted`], when this says so: between blocks, and wherever whoever
    /// goes through them looks at [`check`](Self::check).
    pub fn watch(&mut self, control: &Control) {
        self.control = control.clone();
    }

    /// An error when the pass is to end here.
    pub fn check(&self) -> Result<()> {
        self.control.check()
    }

    /// The split cut into at most `count` parts of whole blocks with about as many entries each. A part has a
    /// stretch of every lane, or of some where there are few blocks, so that all lanes, and with them all
    /// processes, are at work on it. It is a stream of its own over the same open files.
    pub fn parts(&self, count: usize) -> Vec<Stream> {
        let count = count.min(self.blocks.len()).max(1);
        let stretches = count * (self.blocks.len() / count).clamp(1, self.lanes.len());
        let mut parts = vec![Vec::new(); count];
        for (number, stretch) in divide(&self.tables, &self.blocks, stretches).into_iter().enumerate() {
            parts[number % count].extend(stretch.blocks);
        }
        parts.retain(|blocks| !blocks.is_empty());
        parts.into_iter().map(|blocks| self.part(&blocks)).collect()
    }

    /// Some of the blocks, in order.
    fn part(&self, positions: &[usize]) -> Stream {
        let blocks: Vec<(usize, usize)> = positions.iter().map(|&position| self.blocks[position]).collect();
        let mut lanes = Vec::new();
        let mut own = 0..0;
        for (number, lane) in self.lanes.iter().enumerate() {
            let place = |block: usize| positions.partition_point(|&position| position < block);
            let within = place(lane.blocks.start)..place(lane.blocks.end);
            if !within.is_empty() {
                let entries = blocks[within.clone()].iter();
                let entries =
                    entries.map(|&(shard, number)| u64::from(self.tables[shard][number].entries)).sum();
                // The whole lane's slices: sums for them are there already.
                lanes.push(Lane { blocks: within, slices: lane.slices.clone(), entries });
            }
            if number + 1 == self.own.start {
                own.start = lanes.len();
            }
            if number + 1 == self.own.end {
                own.end = lanes.len();
            }
        }
        Stream {
            share: self.share,
            shards: Arc::clone(&self.shards),
            tables: Arc::clone(&self.tables),
            readers: Arc::clone(&self.readers),
            stand_ins: Arc::clone(&self.stand_ins),
            access: self.access,
            checked: blocks.iter().map(|_| AtomicBool::new(false)).collect(),
            blocks,
            own: own.start..own.end.max(own.start),
            entries: lanes.iter().map(|lane| lane.entries).sum(),
            lanes,
            weight_scale: self.weight_scale,
            bytes_read: Arc::clone(&self.bytes_read),
            control: self.control.clone(),
        }
    }

    /// The lanes that this process goes through, in order.
    pub fn lanes(&self) -> &[Lane] {
        &self.lanes[self.own.clone()]
    }

    /// The lanes of all processes, in order.
    pub fn all_lanes(&self) -> &[Lane] {
        &self.lanes
    }

    /// What is known of a block without reading it.
    pub fn block_row(&self, position: usize) -> &BlockRow {
        let (shard, number) = self.blocks[position];
        &self.tables[shard][number]
    }

    /// The same of all blocks, in order.
    pub fn table(&self) -> impl Iterator<Item = &BlockRow> {
        (0..self.blocks.len()).map(|position| self.block_row(position))
    }

    /// The number of blocks.
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// The first and the last slice of a block as it is handed out.
    pub fn slices_of(&self, position: usize) -> [u32; 2] {
        standing_in(self.stand_ins.first().and_then(Option::as_ref), self.block_row(position))
    }

    /// The processes that go through the split together.
    pub fn team(&self) -> Team {
        self.share.team
    }

    /// The number of entries.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// What the dataset's weights were multiplied by in the blocks that this hands out: a power of two.
    pub fn weight_scale(&self) -> f64 {
        self.weight_scale
    }

    /// Whether the data is cached or read ahead.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Whether reads go past the page cache.
    pub fn is_direct(&self) -> bool {
        let mut readers = self.readers.iter().flatten().peekable();
        readers.peek().is_some() && readers.all(ahead::Reader::is_direct)
    }

    /// How many bytes of blocks were handed out so far, those of its parts included.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// Calls `each` with every block of a lane, in order. Checksums are compared every time: a file may have
    /// been changed since the last pass.
    pub fn for_each(&self, lane: &Lane, each: impl FnMut(&BlockView<'_>) -> Result<()>) -> Result<()> {
        self.for_each_of(lane.blocks.clone(), each)
    }

    /// Calls `each(position, block)` with some blocks, spread evenly over the split: a sample of its
    /// entries. Of several processes each gets the blocks that are its own.
    pub fn for_each_sampled(
        &self,
        most: usize,
        mut each: impl FnMut(usize, &BlockView<'_>) -> Result<()>,
    ) -> Result<()> {
        let step = self.blocks.len().div_ceil(most.max(1)).max(1);
        for (sample, position) in (0..self.blocks.len()).step_by(step).enumerate() {
            if self.lanes().iter().any(|lane| lane.blocks.contains(&position)) {
                self.for_each_of(position..position + 1, |block| each(sample, block))?;
            }
        }
        Ok(())
    }

    fn for_each_of(
        &self,
        blocks: Range<usize>,
        mut each: impl FnMut(&BlockView<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut weights = Vec::new();
        let mut each = |block: &BlockView<'_>| match self.weight_scale != 1.0 {
            // Of weights that are counts, a block may have none: all are 1.
            true => {
                weights.clear();
                weights.extend((0..block.entries()).map(|entry| self.weight_scale * block.weight(entry)));
                each(&block.with_weights(Values::F64(&weights)))
            }
            false => each(block),
        };
        let mut each = |block: &BlockView<'_>| stood_in(block, &self.stand_ins, &mut each);
        let mut visit = |position: usize, bytes: &[u8]| -> Result<()> {
            self.check()?;
            let (shard, number) = self.blocks[position];
            let shard = here(&self.shards[shard])?;
            let known = self.checked[position].load(Ordering::Relaxed);
            shard.check(number, bytes).map_err(|error| match error {
                Error::Corrupt { file, offset, .. } if known => {
                    let what = format!("block {number} was changed while the shard was in use");
                    Error::Corrupt { file, offset, what }
                }
                error => error,
            })?;
            self.bytes_read.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            if known {
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
                |offset, bytes| visit(blocks.start + offset, bytes),
            );
        }
        let mut buffer = BUFFER.take();
        let done = blocks.into_iter().try_for_each(|position| {
            let (shard, number) = self.blocks[position];
            visit(position, here(&self.shards[shard])?.read_block(number, &mut buffer)?)
        });
        BUFFER.set(buffer);
        done
    }
}

/// Whether a block may have entries of these slices.
pub(crate) fn is_within(near: Option<&Vec<u32>>, row: &BlockRow, slices: &[Range<u32>]) -> bool {
    let [first, last] = standing_in(near, row);
    slices.iter().any(|slices| first < slices.end && slices.start <= last)
}

/// The first and the last slice of a block, or what stands in for them.
fn standing_in(near: Option<&Vec<u32>>, row: &BlockRow) -> [u32; 2] {
    [row.first, row.last].map(|slice| near.map_or(slice, |near| near[slice as usize]))
}

/// Hands on a block with the nearest bins of train in the place of those that train lacks.
fn stood_in(
    block: &BlockView<'_>,
    stand_ins: &[Option<Vec<u32>>],
    each: &mut impl FnMut(&BlockView<'_>) -> Result<()>,
) -> Result<()> {
    if stand_ins.is_empty() {
        return each(block);
    }
    let own = |(ids, stand_in): (&Ids<'_>, &Option<Vec<u32>>)| -> Option<Vec<u32>> {
        let stand_in = stand_in.as_ref()?;
        Some((0..ids.len()).map(|node| stand_in[ids.get(node) as usize]).collect())
    };
    let near: Vec<Option<Vec<u32>>> = block.ids().iter().zip(stand_ins).map(own).collect();
    let ids = block.ids().iter().zip(&near).map(|(ids, near)| near.as_deref().map_or(*ids, Ids::U32));
    let ids: Vec<Ids<'_>> = ids.collect();
    let block = BlockView::new(&ids, block.ends(), block.values(), block.weights());
    each(&block.map_err(|flaw| Error::request(format!("a block has lost its order ({flaw:?})")))?)
}

thread_local! {
    /// Room for a block, kept from pass to pass: fresh memory costs as much as reading into it.
    static BUFFER: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
}

/// What this process goes through was opened when the stream was.
fn here<T>(opened: &Option<T>) -> Result<&T> {
    opened.as_ref().ok_or_else(|| Error::request("a shard of another process was asked for"))
}

/// The tables of all shards; those that are not here come from processes that have them.
fn tables(
    dataset: &Dataset,
    split: Split,
    shards: &[Option<Shard>],
    team: Team,
) -> Result<Vec<Vec<BlockRow>>> {
    let records = &dataset.manifest().split(split).shards;
    let mut partial = [u64::from(shards.iter().any(Option::is_none))];
    team.combine(&mut partial, Combine::Or);
    let own = |shard: &Option<Shard>| shard.as_ref().map_or(Vec::new(), |shard| shard.blocks().to_vec());
    if partial == [0] {
        return Ok(shards.iter().map(own).collect());
    }
    // Whoever has a table says the same of it; the others say nothing, which is zero.
    let mut words = Vec::new();
    for (shard, record) in shards.iter().zip(records) {
        match shard {
            Some(shard) => words.extend(shard.blocks().iter().flat_map(|row| row.to_words())),
            None => words.resize(words.len() + record.blocks as usize * BlockRow::WORDS, 0),
        }
    }
    team.combine(&mut words, Combine::Or);
    let mut rows = words.chunks_exact(BlockRow::WORDS).map(BlockRow::from_words);
    let tables: Vec<Vec<BlockRow>> =
        records.iter().map(|record| rows.by_ref().take(record.blocks as usize).collect()).collect();
    let entries = |table: &[BlockRow]| table.iter().map(|row| u64::from(row.entries)).sum::<u64>();
    match (0..tables.len()).find(|&shard| entries(&tables[shard]) != records[shard].entries) {
        // Nobody has it; the process that should have it says so.
        Some(shard) if dataset.expects(&records[shard], team) => Err(dataset.missing(split, shard)),
        _ => Ok(tables),
    }
}

/// Lanes with about as many entries each; a block goes where its middle falls.
pub(crate) fn divide(tables: &[Vec<BlockRow>], blocks: &[(usize, usize)], lanes: usize) -> Vec<Lane> {
    let count = lanes.min(blocks.len());
    // Of the blocks at hand: a part of a split has its own lanes.
    let entries: u64 = blocks.iter().map(|&(shard, number)| u64::from(tables[shard][number].entries)).sum();
    let mut lanes: Vec<Lane> = vec![Lane { blocks: 0..0, slices: 0..0, entries: 0 }; count];
    let mut before = 0;
    for (position, &(shard, number)) in blocks.iter().enumerate() {
        let row = tables[shard][number];
        let middle = before + u64::from(row.entries) / 2;
        let lane = (middle as u128 * count as u128 / u128::from(entries.max(1))) as usize;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A split of so many blocks, nothing of which can be read.
    fn stream(blocks: u32, lanes: usize, team: Team) -> Stream {
        let row = |block: u32| BlockRow {
            offset: 0,
            bytes: 64,
            entries: 1000 + block % 7,
            first: block / 2,
            last: block / 2 + 1,
            crc: 0,
        };
        let half = blocks / 2;
        let tables: Vec<Vec<BlockRow>> =
            [0..half, half..blocks].map(|blocks: Range<u32>| blocks.map(row).collect()).into();
        let of = |shard: usize| (0..tables[shard].len()).map(move |block| (shard, block));
        let blocks: Vec<(usize, usize)> = of(0).chain(of(1)).collect();
        let lanes = divide(&tables, &blocks, lanes);
        Stream {
            share: Share { lanes: lanes.len(), team },
            shards: Arc::new([None, None]),
            tables: tables.into(),
            readers: Arc::new([None, None]),
            stand_ins: Arc::default(),
            access: Access::Cached,
            checked: Vec::new(),
            own: team.lanes_of(team.process(), lanes.len()),
            entries: lanes.iter().map(|lane| lane.entries).sum(),
            blocks,
            lanes,
            weight_scale: 1.0,
            bytes_read: Arc::default(),
            control: Control::default(),
        }
    }

    #[test]
    fn parts_have_every_block_once_and_all_lanes_at_work() {
        for (blocks, lanes, count) in
            [(160, 8, 16), (64, 8, 16), (37, 5, 16), (9, 8, 16), (3, 8, 16), (64, 3, 4)]
        {
            let whole = stream(blocks, lanes, Team::alone());
            let parts = whole.parts(count);
            assert_eq!(parts.len(), count.min(blocks as usize));
            let mut seen: Vec<(usize, usize)> = parts.iter().flat_map(|part| part.blocks.clone()).collect();
            seen.sort_unstable();
            assert_eq!(seen, whole.blocks);
            assert_eq!(parts.iter().map(|part| part.entries).sum::<u64>(), whole.entries);
            let mean = whole.entries / parts.len() as u64;
            for part in &parts {
                assert!(part.entries.abs_diff(mean) <= 1010 + mean / 2, "{} of {mean}", part.entries);
                let own: u64 = part.lanes().iter().map(|lane| lane.entries).sum();
                assert_eq!((own, part.lanes().len()), (part.entries, part.lanes.len()));
                // A lane has no block that the lane of the whole has not.
                for lane in &part.lanes {
                    let own = &part.blocks[lane.blocks.clone()];
                    assert!(whole.lanes.iter().any(|of| {
                        let of_whole = &whole.blocks[of.blocks.clone()];
                        of.slices == lane.slices && own.iter().all(|block| of_whole.contains(block))
                    }));
                }
                assert!(part.lanes.len() >= whole.lanes.len().min(blocks as usize / parts.len()).max(1));
            }
        }
    }

    #[test]
    fn the_parts_of_several_processes_are_those_of_one() {
        let alone = stream(160, 8, Team::alone()).parts(16);
        let teams = Team::of_threads(3).into_iter().map(|team| stream(160, 8, team).parts(16));
        let teams: Vec<Vec<Stream>> = teams.collect();
        for (number, part) in alone.iter().enumerate() {
            let lanes: Vec<Range<usize>> = teams
                .iter()
                .flat_map(|team| team[number].lanes().iter().map(|lane| lane.blocks.clone()))
                .collect();
            assert_eq!(lanes, part.lanes.iter().map(|lane| lane.blocks.clone()).collect::<Vec<_>>());
        }
    }
}
