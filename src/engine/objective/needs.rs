//! The memory that a run needs, known before it starts.

use super::fibres::RECORD;
use crate::error::{Error, Result};
use crate::kernel::{GradientSums, PaddingBuffer, Precision};
use crate::shard::{Dataset, Manifest};
use crate::stream::{Access, LANES};
use crate::team::CHUNK_ROWS;

/// The program and its libraries, files, small matrices, as measured on small runs.
const CONSTANT: u64 = 2 << 20;
/// A thread's stack, workspace and allocator arena.
const PER_THREAD: u64 = 512 << 10;

/// What a process of a run of a given rank needs, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// One dense copy of all factors and the core: of several processes, of the rows that one owns.
    pub copy: u64,
    /// Copies that the solver holds,
    pub copies: u64,
    /// and how many of these are no part of its state: they are made anew in every pass.
    pub scratch: u64,
    /// The gradient sums of one lane.
    pub lane: u64,
    /// Lanes that this process goes through.
    pub lanes: u64,
    /// The padded rows that the kernels read.
    pub padded: u64,
    /// The rows of a point and a direction that a process reads and others own.
    pub views: u64,
    /// How many processes there are.
    pub processes: usize,
    /// What a copy of the state of sweeps takes.
    pub swept: u64,
    /// How many lanes of a sweep there is room for at a time, and the bytes of the sums of its rows.
    pub sweep_room: (usize, u64),
    /// Everything that does not grow: the program, its stacks, small matrices, read windows.
    pub constant: u64,
}

/// What MPI itself takes, and messages under way, as measured on small runs.
const MESSAGES: u64 = 24 << 20;

impl Needs {
    /// For a dataset and ranks in the user's order, in one process; `threads` lanes are read at a time.
    pub fn of(
        dataset: &Dataset,
        ranks: &[usize],
        precision: Precision,
        access: Option<Access>,
        threads: usize,
    ) -> Self {
        Self::of_several(dataset.manifest(), ranks, precision, access, threads, LANES, 1)
    }

    /// For one of several processes, the one that needs the most, whatever rows its entries touch.
    pub fn of_several(
        manifest: &Manifest,
        ranks: &[usize],
        precision: Precision,
        access: Option<Access>,
        threads: usize,
        lanes: usize,
        processes: usize,
    ) -> Self {
        let several = processes > 1;
        let own = |dim: u32| {
            let chunks = u64::from(dim).div_ceil(CHUNK_ROWS as u64).div_ceil(processes as u64);
            u64::from(dim).min(chunks * CHUNK_ROWS as u64)
        };
        let factor = |mode: usize| own(manifest.modes[mode].dim) * ranks[mode] as u64 * 8;
        let core = ranks.iter().product::<usize>() as u64 * 8;
        let copy = (0..ranks.len()).map(factor).sum::<u64>() + core;
        // Point, gradient, direction, trial and transported; the best model where one is chosen; of
        // several processes, complete sums that have come from others.
        let validated = manifest.validation.entries > 0;
        let copies = 5 + u64::from(validated) + u64::from(several);
        let scratch = 2 + u64::from(several);
        let blocks: u64 = manifest.train.shards.iter().map(|shard| shard.blocks).sum();
        let all = (lanes as u64).min(blocks.max(1));
        let lanes = all.div_ceil(processes as u64);
        let (dims, stored) = levels(manifest, ranks);
        // A lane has its own part of the first level and all rows of the others.
        let slices = dims[0].div_ceil(all as usize);
        let lane = GradientSums::bytes(&dims, &stored, slices, precision) + 65_536;
        // A point with its direction, and a point of its own for a look at validation.
        let halves = if validated { 3 } else { 2 };
        let padded = PaddingBuffer::bytes(&dims, &stored) / 2 * halves;
        let read = dims.iter().zip(&stored).enumerate().map(|(level, (&dim, &rank))| {
            let rows = if level == 0 { dim.min(slices * lanes as usize) } else { dim };
            (rows * rank * 8) as u64
        });
        // Which rows travel is a bit per row, or a range where they are few.
        let views = if several { read.sum::<u64>() * halves } else { 0 };
        let flags: u64 = manifest.modes.iter().map(|mode| u64::from(mode.dim)).sum();
        let window = access.map_or(0, |access| access.lane_memory(manifest));
        let constant = CONSTANT
            + flags * if several { 3 } else { 1 }
            + if several { MESSAGES } else { 0 }
            + threads as u64 * (window + PER_THREAD);
        let (swept, sweep_room) = (0, (0, 0));
        Needs { copy, copies, scratch, lane, lanes, padded, views, processes, swept, sweep_room, constant }
    }

    /// Whether there are other processes.
    pub fn several(&self) -> bool {
        self.processes > 1
    }

    /// For biases: for every index these, counts, scales, and a sum per lane.
    pub fn with_biases(self, dataset: &Dataset) -> Self {
        let rows: u64 = dataset.manifest().modes.iter().map(|mode| u64::from(mode.dim)).sum();
        Needs { constant: self.constant + rows * (8 * self.lanes + 64), ..self }
    }

    /// For biases or a penalty that are given: the model to start from, a first point with its gradient, the model's own
    /// factors of a point and a direction.
    pub fn with_recipe(self) -> Self {
        Needs { copies: self.copies + 4, scratch: self.scratch + 4, ..self }
    }

    /// For sweeps over rows: what their state takes, their sums, and those that are part of a copy of the state.
    pub fn with_sweeps(self, [state, sums, carried]: [u64; 3], sweep_room: (usize, u64)) -> Self {
        let constant = self.constant + state + sums;
        Needs { constant, swept: state + carried, sweep_room, ..self }
    }

    /// For steps from chunks of the data, the two points that an epoch may go back to; or for steps of one pass,
    /// which may follow, the offset and the gradient without it.
    pub fn with_chunks(self) -> Self {
        Needs { copies: self.copies + 2, ..self }
    }

    /// For growth from what is missing, where the plain method may stall: a point to go back to, one that grows with its
    /// gradient, and the entries that share fibres, which every process has all of.
    pub fn with_growth(self, manifest: &Manifest, ranks: &[usize], threads: usize) -> Self {
        let most = GrowthMemory::of(manifest, ranks).entries as u64 * (ranks.len() as u64 - 1);
        // Of several processes they travel as words: what was collected, what is sent, what has come.
        let kept = most * if self.several() { 3 * RECORD } else { RECORD };
        let block = manifest.train.entries.min(65_535) * 16 * (ranks.len() as u64 - 1);
        let constant = self.constant + kept + block * (threads as u64).min(self.lanes);
        Needs { copies: self.copies + 2, scratch: self.scratch + 1, constant, ..self }
    }

    /// For coordinates in which entries are spread evenly, where they are not as they are: three copies of a scale per row; of a
    /// point the model's own factors, those of a direction, and those of a model that is scored. While entries are counted, a
    /// sum per lane and row is where these copies, the trial point and its partials will be.
    pub fn with_coordinates(self, manifest: &Manifest) -> Self {
        let rows: u64 = manifest.modes.iter().map(|mode| u64::from(mode.dim)).sum();
        let (copies, scratch) = (self.copies + 3, self.scratch + 3);
        let counted = (8 * rows * self.lanes).saturating_sub(self.copy * scratch);
        Needs { copies, scratch, constant: self.constant + 24 * rows + counted, ..self }
    }

    /// Where something else comes first and gives its memory back, as much as the more demanding one takes.
    pub fn after(self, first: &Needs) -> Self {
        let (copies, constant) = (self.copies.max(first.copies), self.constant.max(first.constant));
        let scratch = copies - self.state_copies().max(first.state_copies());
        Needs { copies, scratch, constant, ..self }
    }

    /// Where something of other ranks comes first, likewise.
    pub fn after_other(self, first: &Needs) -> Self {
        let (fewest, whole) = (first.fewest(), self.total(self.fewest()));
        let constant = first.constant.max(whole.saturating_sub(first.total(fewest) - first.constant));
        let swept = self.snapshot().saturating_sub(first.snapshot());
        Needs { constant, swept, sweep_room: self.sweep_room, ..*first }
    }

    /// Copies that are part of the solver's state.
    fn state_copies(&self) -> u64 {
        self.copies - self.scratch
    }

    /// A copy of the solver's state, to go back to where a pass is cut short, and to be written while the next
    /// one computes. Done without where the budget has no room for it.
    pub fn snapshot(&self) -> u64 {
        self.copy * self.state_copies() + self.swept
    }

    /// What a run takes where the budget leaves nothing to wish for.
    pub fn most(&self) -> u64 {
        self.total(self.lanes) + self.snapshot()
    }

    /// With this many lane buffers.
    pub fn total(&self, buffers: u64) -> u64 {
        let held = self.copy * self.copies + self.lane * buffers + self.padded + self.views;
        // A twentieth for what the allocator rounds up and keeps.
        held / 20 * 21 + self.constant
    }

    /// The fewest lane buffers that will do: one, but of several processes each needs all of its lanes',
    /// because their sums wait for those of the lanes before.
    pub fn fewest(&self) -> u64 {
        if self.several() { self.lanes } else { 1 }
    }

    /// How many lane buffers fit into a budget: all lanes', or as many as there is room for.
    pub fn buffers(&self, budget: u64) -> Result<u64> {
        match (self.fewest()..=self.lanes).rev().find(|&buffers| self.total(buffers) <= budget) {
            Some(buffers) => Ok(buffers),
            None => {
                let what = match self.several() {
                    false => "a run of this rank (factors, gradient, directions and one lane)".into(),
                    true => format!(
                        "a process of this run (its rows of factors, gradient and directions, and {} lanes)",
                        self.lanes
                    ),
                };
                Err(Error::Budget { budget, needed: self.total(self.fewest()), what })
            }
        }
    }
}

/// How many entries that share fibres are looked at when a model grows: a matter of data and ranks, not of a machine or
/// its budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrowthMemory {
    /// Entries per mode.
    pub entries: usize,
}

impl GrowthMemory {
    /// Copies of all factors that they may take, beside a constant.
    const COPIES: u64 = 16;
    const CONSTANT: u64 = 4 << 20;

    /// Where ranks do not go above these.
    pub fn of(manifest: &Manifest, ranks: &[usize]) -> Self {
        let rows = |mode: usize| u64::from(manifest.modes[mode].dim);
        let copy: u64 = (0..ranks.len()).map(|mode| rows(mode) * ranks[mode] as u64 * 8).sum();
        let most = (Self::CONSTANT + Self::COPIES * copy) / RECORD / (ranks.len() as u64 - 1).max(1);
        // Ends of fibres are counted in 32 bits.
        GrowthMemory { entries: most.min(manifest.train.entries).min(1 << 30) as usize }
    }
}

/// Dimensions and ranks in storage order.
pub(super) fn in_levels(dataset: &Dataset, ranks: &[usize]) -> (Vec<usize>, Vec<usize>) {
    levels(dataset.manifest(), ranks)
}

fn levels(manifest: &Manifest, ranks: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let dims = manifest.level_dims().iter().map(|&dim| dim as usize).collect();
    (dims, manifest.mode_order.iter().map(|&mode| ranks[mode]).collect())
}
