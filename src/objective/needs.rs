//! The memory that a run needs, known before it starts.

use crate::error::{Error, Result};
use crate::kernel::{GradientSums, Packing, Precision};
use crate::shard::Dataset;
use crate::stream::{Access, LANES};

/// The program and its libraries, files, small matrices, as measured on small runs.
const CONSTANT: u64 = 2 << 20;
/// A thread's stack, workspace and allocator arena.
const PER_THREAD: u64 = 512 << 10;

/// What a run of a given rank needs, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// One dense copy of all factors and the core.
    pub copy: u64,
    /// Copies that the solver holds.
    pub copies: u64,
    /// The gradient sums of one lane.
    pub lane: u64,
    /// Lanes that there are.
    pub lanes: u64,
    /// The packed rows that the kernels read.
    pub packed: u64,
    /// Everything that does not grow: the program, its stacks, small matrices, read windows.
    pub constant: u64,
}

impl Needs {
    /// For a dataset and ranks in the user's order; `threads` lanes are read at a time.
    pub fn of(
        dataset: &Dataset,
        ranks: &[usize],
        precision: Precision,
        access: Option<Access>,
        threads: usize,
    ) -> Self {
        let manifest = dataset.manifest();
        let factor = |mode: usize| u64::from(manifest.modes[mode].dim) * ranks[mode] as u64 * 8;
        let core = ranks.iter().product::<usize>() as u64 * 8;
        let copy = (0..ranks.len()).map(factor).sum::<u64>() + core;
        // Point, gradient, direction, trial and transported; the best model where one is chosen.
        let copies = if manifest.validation.entries > 0 { 6 } else { 5 };
        let blocks: u64 = manifest.train.shards.iter().map(|shard| shard.blocks).sum();
        let lanes = (LANES as u64).min(blocks.max(1));
        let (dims, stored) = in_levels(dataset, ranks);
        // A lane has its own part of the first level and all rows of the others.
        let slices = dims[0].div_ceil(lanes as usize);
        let lane = GradientSums::bytes(&dims, &stored, slices, precision) + 65_536;
        // A point with its direction, and a point of its own for a look at validation.
        let halves = if manifest.validation.entries > 0 { 3 } else { 2 };
        let packed = Packing::bytes(&dims, &stored) / 2 * halves;
        let flags: u64 = manifest.modes.iter().map(|mode| u64::from(mode.dim)).sum();
        let window = access.map_or(0, Access::lane_memory);
        let constant = CONSTANT + flags + threads as u64 * (window + PER_THREAD);
        Needs { copy, copies, lane, lanes, packed, constant }
    }

    /// For a run with biases, smoothed coordinates and trials: a copy to go back to, the model's
    /// own factors of a point and a direction, a point that grows; and for every index biases,
    /// counts, scales, and a sum per lane.
    pub fn with_recipe(self, dataset: &Dataset) -> Self {
        let rows: u64 = dataset.manifest().modes.iter().map(|mode| u64::from(mode.dim)).sum();
        let constant = self.constant + rows * (8 * self.lanes + 64);
        Needs { copies: self.copies + 4, constant, ..self }
    }

    /// For steps from chunks of the data: the two points that an epoch may go back to.
    pub fn with_chunks(self) -> Self {
        Needs { copies: self.copies + 2, ..self }
    }

    /// A copy of the solver's state, so that it is written while the next pass computes: all but the
    /// trial point and its partials. Done without where the budget has no room for it.
    pub fn snapshot(&self) -> u64 {
        self.copy * (self.copies - 2)
    }

    /// What a run takes where the budget leaves nothing to wish for.
    pub fn most(&self) -> u64 {
        self.total(self.lanes) + self.snapshot()
    }

    /// With this many lane buffers.
    pub fn total(&self, buffers: u64) -> u64 {
        let held = self.copy * self.copies + self.lane * buffers + self.packed;
        // A twentieth for what the allocator rounds up and keeps.
        held / 20 * 21 + self.constant
    }

    /// How many lane buffers fit into a budget: all lanes', or as many as there is room for.
    pub fn buffers(&self, budget: u64) -> Result<u64> {
        match (1..=self.lanes).rev().find(|&buffers| self.total(buffers) <= budget) {
            Some(buffers) => Ok(buffers),
            None => {
                let what = "a run of this rank (factors, gradient, directions and one lane)".into();
                Err(Error::Budget { budget, needed: self.total(1), what })
            }
        }
    }
}

/// Dimensions and ranks in storage order.
pub(super) fn in_levels(dataset: &Dataset, ranks: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let manifest = dataset.manifest();
    let dims = manifest.level_dims().iter().map(|&dim| dim as usize).collect();
    (dims, manifest.mode_order.iter().map(|&mode| ranks[mode]).collect())
}
