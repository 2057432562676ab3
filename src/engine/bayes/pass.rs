//! One pass over the train entries: every row of level 0 is fitted as its entries go by, and the entries are
//! added to the sums that rows of another level will be fitted to.

use super::along::Along;
use super::batch::{Batch, layout};
use super::beside::Beside;
use super::entries::Entries;
use super::level::Level;
use super::offsets::OffsetTable;
use super::row::axpy;
use super::shape::Shape;
use super::slices::Slices;
use super::worker::{Given, LaneFound, Worker};
use crate::error::{Error, Result};
use crate::kernel::Picked;
use crate::model::Ends;
use crate::reduce::{own_lanes, sum_in_order};
use crate::rows::triangle_len;
use crate::stream::{Lane, Stream};
use crate::team::{Combine, Team};
use rayon::prelude::*;
use std::ops::Range;

/// The numbers of one row's sums: A packed, and b, both filled up to whole tiles.
pub(super) fn sums_width(k: usize) -> usize {
    (triangle_len(k) + k.next_multiple_of(Picked::TILE)).next_multiple_of(Picked::TILE)
}

/// What a pass works with; all values in units of their standard deviation, less the mean.
pub(super) struct Pass<'a> {
    pub(super) shape: &'a Shape,
    pub(super) levels: &'a [Level],
    /// What is added to values beside their rows.
    pub(super) tables: &'a [OffsetTable],
    pub(super) noise: f64,
    pub(super) mean: f64,
    /// One over the standard deviation of the values.
    pub(super) scale: f64,
    /// What values at the ends of their range say, where that is not the values themselves.
    pub(super) ends: Option<Ends>,
    /// The level whose sums are taken, and of which rows.
    pub(super) target: usize,
    pub(super) rows: Range<usize>,
    /// Entries that are fitted to beside those of train.
    pub(super) beside: Option<&'a Stream>,
}

/// What a wave of lanes has found.
pub(super) struct Wave {
    /// Lane by lane, in their order; before the first of a pass, what slices that come in windows have.
    pub(super) lanes: Vec<LaneFound>,
    /// The rows of these, in the first wave of a pass.
    pub(super) given: Option<Vec<f64>>,
    /// Lanes of the part that are done, of all processes.
    pub(super) done: usize,
}

/// Goes through a part of some lanes, from one on: as many at a time as there are threads and room for sums. Of several
/// processes each has few lanes, and goes through all of them: sums travel in their order. What is `given` is not known
/// before the first wave of a pass.
pub(super) fn run(
    pass: &Pass<'_>,
    (stream, slices): (&Stream, &Slices),
    part: (usize, usize),
    done: usize,
    given: Option<&[f64]>,
) -> Result<Wave> {
    let team = stream.team();
    let k = pass.levels[0].width;
    let width = sums_width(pass.levels[pass.target].width);
    let along = Along::new(pass);
    let mut wave = Wave { lanes: Vec::new(), given: None, done };
    if given.is_none() {
        let (numbers, found) = large_rows((pass, &along), (stream, slices))?;
        wave.lanes.extend(found);
        wave.given = Some(numbers);
    }
    let wide = k * (k + 1) + layout(pass.levels[pass.target].width, 0).width();
    let numbers = wave.given.as_deref().or(given).unwrap_or_default();
    if numbers.len() != slices.large().len() * wide {
        // They may come from a file.
        return team.agree(Err(Error::request("the rows of a sweep do not go with its slices")));
    }
    let given: Vec<Given> = numbers.chunks_exact(wide).map(|numbers| Given::of(numbers, k)).collect();
    let work = |lane: &Lane| -> Result<LaneFound> {
        // Rows that are nothing but biases need none.
        let wide = pass.levels[pass.target].width > 1;
        let batch = wide.then(|| slices.batch(|batch| pass.can_use(batch)).unwrap_or_else(|| pass.batch()));
        let mut worker = Worker::new(pass, &along, slices.zeros(pass.rows.len() * width), batch);
        let mut beside = pass.beside(slices);
        if part.0 == 0 {
            beside_large(&mut beside, (stream, slices), lane, |slice, number, entries| {
                worker.window(slice, &given[number], entries);
            })?;
        }
        let (mut broken, mut failed) = (false, Ok(()));
        slices.for_each(stream, lane, part, |slice, entries| match slices.number_of(slice) {
            Some(number) => worker.window(slice, &given[number], entries),
            None => {
                if let Some(beside) = beside.as_mut().filter(|_| failed.is_ok()) {
                    failed = beside.take(slice, |more, range| entries.add(more, range));
                }
                broken |= !worker.slice(slice, entries);
            }
        })?;
        failed?;
        if broken {
            return Err(Error::not_finite("a row"));
        }
        let (found, batch) = worker.end();
        batch.into_iter().for_each(|batch| slices.give_batch_back(batch));
        Ok(found)
    };
    let (own, all) = (stream.lanes(), stream.all_lanes());
    let before = all.iter().position(|lane| Some(lane) == own.first()).unwrap_or(0);
    let lanes = &own[done.saturating_sub(before).min(own.len())..];
    let together = match team.is_alone() {
        true => rayon::current_num_threads().min(slices.room.lanes).clamp(1, lanes.len().max(1)),
        false => lanes.len(),
    };
    let found: Result<Vec<LaneFound>> = lanes.par_iter().take(together).map(work).collect();
    wave.lanes.extend(team.agree(found)?);
    wave.done = if team.is_alone() { done.saturating_add(together) } else { all.len() };
    Ok(wave)
}

/// Numbers that are added by one thread at a time: those of a few lanes are in its own cache.
const PIECE: usize = 1 << 13;

impl Wave {
    /// Adds what was found to the sums of the target's rows and to what rows of level 0 add up to: lane by lane, and
    /// so from process to process. Sums of the lanes are zero after that.
    pub(super) fn add_to(&mut self, team: Team, sums: &mut [f64], moments: &mut [f64]) {
        let of_lanes: Vec<Vec<f64>> = self.lanes.iter().map(|lane| lane.moments.to_numbers()).collect();
        if team.is_alone() {
            let mut pieces: Vec<Vec<&mut [f64]>> = sums.chunks(PIECE).map(|_| Vec::new()).collect();
            for lane in &mut self.lanes {
                let of_lane = pieces.iter_mut().zip(lane.sums.chunks_mut(PIECE));
                of_lane.for_each(|(piece, sums)| piece.push(sums));
            }
            sums.par_chunks_mut(PIECE).zip(&mut pieces).with_min_len(8).for_each(|(to, piece)| {
                for from in piece {
                    axpy(1.0, from, to);
                    from.fill(0.0);
                }
            });
            of_lanes.iter().for_each(|numbers| axpy(1.0, numbers, moments));
            return;
        }
        let with_sums: Vec<&[f64]> =
            self.lanes.iter().map(|lane| &lane.sums[..]).filter(|sums| !sums.is_empty()).collect();
        let of_moments: Vec<&[f64]> = of_lanes.iter().map(|numbers| &numbers[..]).collect();
        for (to, parts) in [(sums, with_sums), (moments, of_moments)] {
            let before = to.to_vec();
            team.chain(to, |offset, to| {
                if team.is_first() {
                    to.copy_from_slice(&before[offset..][..to.len()]);
                }
                parts.iter().for_each(|part| axpy(1.0, &part[offset..][..to.len()], to));
            });
        }
        self.lanes.par_iter_mut().for_each(|lane| lane.sums.fill(0.0));
    }

    /// Gives the memory of the lanes' sums, which are zero, back for the next ones.
    pub(super) fn end(self, slices: &Slices) {
        self.lanes.into_iter().for_each(|lane| slices.give_back(lane.sums));
    }
}

/// The rows of slices that come in windows, which are fitted before all others, as numbers; and what was found of them,
/// which the first process has.
fn large_rows(
    (pass, along): (&Pass<'_>, &Along),
    (stream, slices): (&Stream, &Slices),
) -> Result<(Vec<f64>, Option<LaneFound>)> {
    let (large, team) = (slices.large(), stream.team());
    if large.is_empty() {
        return Ok((Vec::new(), None));
    }
    let new = || Worker::new(pass, along, Vec::new(), None);
    let mut worker = new();
    let width = worker.numbers().len();
    let add = |worker: &mut Worker<'_>, slice: u32, entries: &Entries, to: &mut [f64]| {
        worker.begin();
        worker.add(slice, entries);
        axpy(1.0, &worker.numbers(), to);
    };
    let mut sums = slices.of_large(stream, width, new, add)?;
    if pass.beside.is_some() {
        let lanes = own_lanes(stream, |lane| {
            let (mut worker, mut sums) = (new(), vec![0.0; large.len() * width]);
            beside_large(&mut pass.beside(slices), (stream, slices), lane, |slice, number, entries| {
                add(&mut worker, slice, entries, &mut sums[number * width..][..width]);
            })?;
            Ok(sums)
        })?;
        let mut more = vec![0.0; sums.len()];
        sum_in_order(team, &mut more, lanes.iter().map(|sums| (0, sums.as_slice())));
        axpy(1.0, &more, &mut sums);
    }
    let mut numbers = Vec::new();
    for (&slice, sums) in large.iter().zip(sums.chunks_exact(width)) {
        match worker.give(slice, sums) {
            Some(given) => numbers.extend(given.to_numbers()),
            None => return team.agree(Err(Error::not_finite("a row"))),
        }
    }
    Ok((numbers, team.is_first().then(|| worker.end().0)))
}

/// Calls `each` with what another split has of slices that come in windows: in the first of the lanes that have them.
fn beside_large(
    beside: &mut Option<Beside<'_>>,
    (stream, slices): (&Stream, &Slices),
    lane: &Lane,
    mut each: impl FnMut(u32, usize, &Entries),
) -> Result<()> {
    let Some(beside) = beside else { return Ok(()) };
    for (number, &slice) in slices.large().iter().enumerate() {
        if stream.all_lanes().iter().find(|lane| lane.slices.contains(&slice)) == Some(lane) {
            beside.take(slice, |entries, range| {
                let mut window = Entries::default();
                window.add(entries, range);
                each(slice, number, &window);
            })?;
        }
    }
    Ok(())
}

impl Wave {
    /// Puts new rows of level 0 in their place; those of other processes, too.
    pub(super) fn put(&self, team: Team, level: &mut Level) {
        let k = level.width;
        let rows = || {
            self.lanes.iter().flat_map(|lane| {
                let rows = lane.means.chunks_exact(k).zip(lane.variances.chunks_exact(k));
                lane.slices.iter().map(|&slice| slice as usize).zip(rows)
            })
        };
        if team.is_alone() {
            for (slice, (mean, variance)) in rows() {
                level.means[slice * k..][..k].copy_from_slice(mean);
                level.variances[slice * k..][..k].copy_from_slice(variance);
            }
            return;
        }
        // A row is fitted by one process: the others have nothing to say of it.
        let mut fitted: Vec<u64> = vec![0; level.rows.div_ceil(64)];
        rows().for_each(|(slice, _)| fitted[slice / 64] |= 1 << (slice % 64));
        team.combine(&mut fitted, Combine::Or);
        let mut words = vec![0u64; level.rows * k];
        for (slice, (mean, _)) in rows() {
            words[slice * k..][..k].iter_mut().zip(mean).for_each(|(to, x)| *to = x.to_bits());
        }
        team.combine(&mut words, Combine::Or);
        let mut variances = vec![0u64; level.rows * k];
        for (slice, (_, variance)) in rows() {
            let to = &mut variances[slice * k..][..k];
            to.iter_mut().zip(variance).for_each(|(to, x)| *to = u64::from(x.to_bits()));
        }
        team.combine(&mut variances, Combine::Or);
        for row in (0..level.rows).filter(|row| fitted[row / 64] >> (row % 64) & 1 == 1) {
            for n in row * k..(row + 1) * k {
                level.means[n] = f64::from_bits(words[n]);
                level.variances[n] = f32::from_bits(variances[n] as u32);
            }
        }
    }
}

impl<'a> Pass<'a> {
    /// What is fitted to beside the train entries.
    fn beside(&self, slices: &Slices) -> Option<Beside<'a>> {
        self.beside.map(|stream| Beside::new(stream, self.levels, slices.per_weight))
    }

    /// An empty batch for the target.
    fn batch(&self) -> Batch {
        Batch::new(self.rows.len(), self.levels[self.target].width)
    }

    /// Whether a batch that was for another lane does; it may be left from a pass that was not ended.
    fn can_use(&self, batch: &Batch) -> bool {
        batch.is_for(self.rows.len(), self.levels[self.target].width)
    }

    /// The target of an entry: what is left of its value for <m, z>, which the model says is `prediction`, and its
    /// variance where it is latent.
    #[inline(always)]
    pub(super) fn target(&self, value: f64, rest: f64, prediction: impl FnOnce() -> f64) -> (f64, f64) {
        let value = (value - self.mean) * self.scale;
        match self.ends.filter(|ends| ends.hold(value)) {
            Some(ends) => {
                let (mean, variance) = ends.latent(value, rest + prediction());
                (mean - rest, variance)
            }
            None => (value - rest, 0.0),
        }
    }
}
