//! One pass over the train entries: every row of level 0 is fitted as its entries go by, and the entries are
//! added to the sums that rows of another level will be fitted to.

use super::along::Along;
use super::level::{Level, Moments};
use super::offsets::Table;
use super::row::axpy;
use super::shape::Shape;
use super::slices::{Pending, Slices};
use super::worker::{Given, LaneFound, Worker};
use crate::error::{Error, Result};
use crate::kernel::Picked;
use crate::model::Ends;
use crate::rows::triangle_len;
use crate::stream::{Lane, Stream};
use crate::team::Combine;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// The numbers of one row's sums: A packed, and b, both filled up to whole tiles.
pub(super) fn sums_width(k: usize) -> usize {
    (triangle_len(k) + k.next_multiple_of(Picked::TILE)).next_multiple_of(Picked::TILE)
}

/// What a pass works with; all values in units of their standard deviation, less the mean.
pub(super) struct Pass<'a> {
    pub(super) shape: &'a Shape,
    pub(super) levels: &'a [Level],
    /// What is added to values beside their rows.
    pub(super) tables: &'a [Table],
    pub(super) noise: f64,
    pub(super) mean: f64,
    /// One over the standard deviation of the values.
    pub(super) scale: f64,
    /// What values at the ends of their range say, where that is not the values themselves.
    pub(super) ends: Option<Ends>,
    /// The level whose sums are taken, and of which rows.
    pub(super) target: usize,
    pub(super) rows: Range<usize>,
}

/// What a pass has found.
pub(super) struct Passed {
    /// What the rows of level 0 add up to.
    pub(super) moments: Moments,
    /// The sums of the target's rows.
    pub(super) sums: Vec<f64>,
}

/// Goes through a part of every lane. Returns what was found and, apart, the new rows of level 0: their
/// indices, means and variances.
pub(super) fn run(
    pass: &Pass<'_>,
    (stream, slices): (&Stream, &Slices),
    pending: &mut [Pending],
    part: (usize, usize),
) -> Result<(Passed, NewRows)> {
    let team = stream.team();
    let (k, width) = (pass.levels[0].width, sums_width(pass.levels[pass.target].width));
    let features = pass.levels[0].features.count();
    let along = Along::new(pass);
    // Memory that was given back costs as much to get again as a batch of entries.
    let spare = Mutex::new(Vec::<Vec<f64>>::new());
    let (given, of_large) = large_rows((pass, &along), (stream, slices))?;
    let work = |(lane, pending): (&Lane, &mut Pending)| -> Result<LaneFound> {
        let sums = spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let sums = sums.unwrap_or_else(|| vec![0.0; pass.rows.len() * width]);
        let mut worker = Worker::new(pass, &along, sums);
        let mut broken = false;
        slices.for_each(stream, lane, part, pending, |slice, entries| match slices.number_of(slice) {
            Some(number) => worker.window(slice, &given[number], entries),
            None => broken |= !worker.slice(slice, entries),
        })?;
        if broken {
            return Err(Error::not_finite("a row"));
        }
        Ok(worker.end())
    };
    let mut passed = Passed { moments: Moments::new(k, features), sums: vec![0.0; pass.rows.len() * width] };
    let mut new = NewRows::default();
    let mut parts = Vec::new();
    if let Some(found) = of_large {
        new.add(&found);
        if team.is_alone() {
            passed.moments.add(&found.moments);
        } else {
            parts.push(found);
        }
    }
    // As many lanes at a time as there are threads: that many sums are in memory. Of several processes each
    // has few lanes, and sums travel in their order.
    let together = if team.is_alone() { rayon::current_num_threads() } else { stream.lanes().len().max(1) };
    let mut found = Ok(());
    for (lanes, pending) in stream.lanes().chunks(together).zip(pending.chunks_mut(together)) {
        let wave: Result<Vec<LaneFound>> = lanes.par_iter().zip(pending).map(work).collect();
        match wave {
            Err(error) => found = Err(error),
            Ok(wave) => {
                for mut lane in wave {
                    new.add(&lane);
                    if team.is_alone() {
                        axpy(1.0, &lane.sums, &mut passed.sums);
                        passed.moments.add(&lane.moments);
                        lane.sums.fill(0.0);
                        spare.lock().unwrap_or_else(PoisonError::into_inner).push(lane.sums);
                    } else {
                        (lane.means, lane.variances) = (Vec::new(), Vec::new());
                        parts.push(lane);
                    }
                }
            }
        }
    }
    team.agree(found)?;
    if !team.is_alone() {
        team.chain(&mut passed.sums, |offset, to| {
            let with_sums = parts.iter().filter(|lane| !lane.sums.is_empty());
            with_sums.for_each(|lane| axpy(1.0, &lane.sums[offset..][..to.len()], to));
        });
        let mut few = vec![0.0; Moments::new(k, features).words().len()];
        team.chain(&mut few, |offset, to| {
            for lane in &parts {
                let words = lane.moments.words();
                let numbers: Vec<f64> = words.iter().map(|&word| f64::from_bits(word)).collect();
                axpy(1.0, &numbers[offset..][..to.len()], to);
            }
        });
        let words: Vec<u64> = few.iter().map(|x| x.to_bits()).collect();
        passed.moments.set(&words);
    }
    Ok((passed, new))
}

/// The rows of slices that come in windows, which are fitted before all others; and what was found of them, which the
/// first process has.
fn large_rows(
    (pass, along): (&Pass<'_>, &Along),
    (stream, slices): (&Stream, &Slices),
) -> Result<(Vec<Given>, Option<LaneFound>)> {
    let large = slices.large();
    if large.is_empty() {
        return Ok((Vec::new(), None));
    }
    let mut worker = Worker::new(pass, along, Vec::new());
    let width = worker.numbers().len();
    let sums = slices.of_large(
        stream,
        width,
        || Worker::new(pass, along, Vec::new()),
        |worker, slice, entries, to| {
            worker.begin();
            worker.add(slice, entries);
            axpy(1.0, &worker.numbers(), to);
        },
    )?;
    let rows = large.iter().zip(sums.chunks_exact(width)).map(|(&slice, sums)| worker.give(slice, sums));
    let given: Option<Vec<Given>> = rows.collect();
    let team = stream.team();
    let given = team.agree(given.ok_or_else(|| Error::not_finite("a row")))?;
    Ok((given, team.is_first().then(|| worker.end())))
}

/// Rows of level 0 that were fitted in a pass.
#[derive(Default)]
pub(super) struct NewRows {
    slices: Vec<u32>,
    means: Vec<f64>,
    variances: Vec<f32>,
}

impl NewRows {
    fn add(&mut self, lane: &LaneFound) {
        self.slices.extend_from_slice(&lane.slices);
        self.means.extend_from_slice(&lane.means);
        self.variances.extend_from_slice(&lane.variances);
    }

    /// Puts them in their place; those of other processes, too.
    pub(super) fn put(&self, team: crate::team::Team, level: &mut Level) {
        let k = level.width;
        let rows = self.means.chunks_exact(k).zip(self.variances.chunks_exact(k));
        if team.is_alone() {
            for (&slice, (mean, variance)) in self.slices.iter().zip(rows) {
                level.means[slice as usize * k..][..k].copy_from_slice(mean);
                level.variances[slice as usize * k..][..k].copy_from_slice(variance);
            }
            return;
        }
        // A row is fitted by one process: the others have nothing to say of it.
        let mut fitted: Vec<u64> = vec![0; level.rows.div_ceil(64)];
        self.slices.iter().for_each(|&slice| fitted[slice as usize / 64] |= 1 << (slice % 64));
        team.combine(&mut fitted, Combine::Or);
        let mut words = vec![0u64; level.rows * k];
        for (&slice, (mean, _)) in self.slices.iter().zip(rows.clone()) {
            words[slice as usize * k..][..k].iter_mut().zip(mean).for_each(|(to, x)| *to = x.to_bits());
        }
        team.combine(&mut words, Combine::Or);
        let mut variances = vec![0u64; level.rows * k];
        for (&slice, (_, variance)) in self.slices.iter().zip(rows) {
            let to = &mut variances[slice as usize * k..][..k];
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

impl Pass<'_> {
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
