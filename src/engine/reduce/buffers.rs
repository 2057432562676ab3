//! The gradient sums of lanes, and how they become one.

use super::exchange::Exchange;
use super::sum_in_order;
use crate::error::Result;
use crate::kernel::{GradientSums, Precision};
use crate::rows::Rows;
use crate::stream::{Lane, Stream};
use rayon::prelude::*;

/// Numbers of a factor that one task adds up.
const CHUNK: usize = 1 << 15;

/// A lane's sums, made anew for the lane's own slices or cleared.
pub struct Buffers {
    sums: Vec<GradientSums>,
    dims: Vec<usize>,
    ranks: Vec<usize>,
    precision: Precision,
}

impl Buffers {
    /// At most `count` buffers for a tensor of these (storage-order) dimensions and ranks.
    pub fn new(count: usize, dims: &[usize], ranks: &[usize], precision: Precision) -> Self {
        let sums = Vec::with_capacity(count.max(1));
        Buffers { sums, dims: dims.into(), ranks: ranks.into(), precision }
    }

    /// How many there may be.
    pub fn count(&self) -> usize {
        self.sums.capacity()
    }

    /// Runs `work` on every lane into sums of its own and adds them up, core and rows. Returns the sums
    /// of e^2 and of |e|. With several processes each gets the rows that it owns.
    pub fn sum(
        &mut self,
        stream: &Stream,
        exchange: &Exchange,
        rows: &mut [&mut Rows],
        core: &mut [f64],
        work: impl Fn(&Lane, &mut GradientSums) -> Result<()> + Sync,
    ) -> Result<[f64; 2]> {
        if !stream.team().is_alone() {
            return self.sum_of_all(stream, exchange, rows, core, work);
        }
        let wave = self.sums.capacity();
        let mut errors = [0.0; 2];
        core.fill(0.0);
        rows.par_iter_mut().for_each(|rows| rows.fill(0.0));
        for lanes in stream.lanes().chunks(wave) {
            self.run(lanes, &work)?;
            let sums = &self.sums[..lanes.len()];
            for lane in sums {
                errors[0] += lane.squares();
                errors[1] += lane.absolute();
                core.iter_mut().zip(lane.core()).for_each(|(to, from)| *to += from);
            }
            for (level, rows) in rows.iter_mut().enumerate() {
                add_rows(rows, level, self.ranks[level], sums);
            }
        }
        Ok(errors)
    }

    /// The same with other processes: all lanes of this one at once, because their sums wait for those
    /// of the lanes before.
    fn sum_of_all(
        &mut self,
        stream: &Stream,
        exchange: &Exchange,
        rows: &mut [&mut Rows],
        core: &mut [f64],
        work: impl Fn(&Lane, &mut GradientSums) -> Result<()> + Sync,
    ) -> Result<[f64; 2]> {
        let (team, lanes) = (stream.team(), stream.lanes());
        team.agree(self.run(lanes, &work))?;
        let sums = &self.sums[..lanes.len()];
        sum_in_order(team, core, sums.iter().map(|lane| (0, lane.core())));
        let of_lanes: Vec<[f64; 2]> = sums.iter().map(|lane| [lane.squares(), lane.absolute()]).collect();
        let mut errors = [0.0; 2];
        sum_in_order(team, &mut errors, of_lanes.iter().map(|numbers| (0, numbers.as_slice())));
        for (level, rows) in rows.iter_mut().enumerate() {
            exchange.sum(level, sums, rows);
        }
        Ok(errors)
    }

    fn run(
        &mut self,
        lanes: &[Lane],
        work: &(impl Fn(&Lane, &mut GradientSums) -> Result<()> + Sync),
    ) -> Result<()> {
        self.prepare(lanes);
        let both = self.sums[..lanes.len()].par_iter_mut().zip(lanes);
        both.try_for_each(|(sums, lane)| work(lane, sums))
    }

    /// Sums for these lanes: kept where the range of slices is the same, which it is when every
    /// lane has its buffer.
    fn prepare(&mut self, lanes: &[Lane]) {
        for (position, lane) in lanes.iter().enumerate() {
            let slices = lane.slices.start as usize..lane.slices.end as usize;
            match self.sums.get_mut(position) {
                Some(sums) if sums.range(0) == slices => {}
                Some(sums) => *sums = GradientSums::new(&self.dims, &self.ranks, slices, self.precision),
                None => self.sums.push(GradientSums::new(&self.dims, &self.ranks, slices, self.precision)),
            }
        }
        self.sums[..lanes.len()].par_iter_mut().for_each(GradientSums::clear);
    }
}

fn add_rows(to: &mut Rows, level: usize, rank: usize, sums: &[GradientSums]) {
    let rows = (CHUNK / rank).max(1);
    to.as_mut_slice().par_chunks_mut(rows * rank).enumerate().for_each(|(number, to)| {
        sums.iter().for_each(|lane| lane.add_rows(level, number * rows, to));
    });
}
