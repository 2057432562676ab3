//! Fits biases to what the tensor leaves over: streamed, in one order, damped by what the data say.

use super::remote_rows::RemoteRows;
use super::streamed::Stored;
use super::targets::Targets;
use crate::error::Result;
use crate::kernel::{self, BlockView, Values, Workspace};
use crate::manifold::Point;
use crate::model::{Biases, TimeBias};
use crate::reduce::{Exchange, map_lanes, own_lanes, sum_in_order};
use crate::shard::Manifest;
use crate::stream::Stream;
use crate::team::{Combine, Team};
use std::sync::atomic::{AtomicU32, Ordering};

/// How much weight an index has in train, and since when it occurs: what biases and coordinates are
/// made from. Without weights every entry counts 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Counts {
    /// The weight of every index, modes in the user's order.
    pub modes: Vec<Vec<f64>>,
    /// For a time bias, that of every bucket.
    pub buckets: Vec<f64>,
    /// How many entries make a weight of 1, on average: 1 without weights.
    pub per_weight: f64,
}

/// The weight of the prior of each group of biases: sigma^2 / tau^2, the variance within an index
/// over that between indices, in entries (of weight 1). A bias is the sum of residuals over n + damping.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Damping {
    /// Per mode; the largest number for a mode whose indices do not differ.
    pub modes: Vec<f64>,
    /// Of the time bias.
    pub time: f64,
}

// What other values do: docs/thresholds.md.
/// A damping above this many entries is none at all: no bias would come from it.
const MOST_ENTRIES: f64 = 1e12;

impl Counts {
    /// The same as a weight.
    fn most_damping(&self) -> f64 {
        MOST_ENTRIES / self.per_weight
    }
}

/// Rounds over all modes when biases are fitted alone.
pub const ROUNDS: usize = 3;

/// The same where they are what a model is compared with: further ones change the third digit of an error.
pub const ROUNDS_ALONE: usize = 2;

/// One number per index of every mode, and per bucket of time.
struct Sums {
    modes: Vec<Vec<f64>>,
    time: Vec<f64>,
    squares: f64,
}

/// Counts entries, or adds up their weights, in one pass; in two where a time bias needs every id's
/// first entry.
pub fn count(
    manifest: &Manifest,
    train: &Stream,
    time: Option<(usize, usize)>,
) -> Result<(Counts, Option<TimeBias>)> {
    let order = &manifest.mode_order;
    let dims: Vec<usize> = manifest.modes.iter().map(|mode| mode.dim as usize).collect();
    let per_weight = match &manifest.weights {
        Some(weights) => {
            let sum = weights.train.sum * train.weight_scale();
            (manifest.train.entries - weights.train.zeros) as f64 / sum
        }
        None => 1.0,
    };
    let levels = time.map(|(of, clock)| (level_of(order, of), level_of(order, clock)));
    let first: Vec<AtomicU32> = match time {
        Some((of, _)) => (0..dims[of]).map(|_| AtomicU32::new(u32::MAX)).collect(),
        None => Vec::new(),
    };
    let found = tally(train, order, &dims, None, None, |block, tally, _| {
        block.for_each_weighted(|indices, _, weight| {
            if let Some((of, clock)) = levels.filter(|_| weight > 0.0) {
                // Whole numbers: the order does not matter.
                first[indices[of] as usize].fetch_min(indices[clock], Ordering::Relaxed);
            }
            tally.add(indices, weight, 0.0);
        });
    })?;
    let Some((of, clock)) = time else {
        return Ok((Counts { modes: found.modes, buckets: Vec::new(), per_weight }, None));
    };
    let mut first: Vec<u32> = first.into_iter().map(AtomicU32::into_inner).collect();
    earliest(train.team(), &mut first);
    let bias = TimeBias { of, clock, first, values: vec![0.0; TimeBias::buckets(manifest.modes[clock].dim)] };
    let found = tally(train, order, &dims, Some(&bias), None, |block, tally, _| {
        block.for_each_weighted(|indices, _, weight| tally.add(indices, weight, 0.0));
    })?;
    Ok((Counts { modes: found.modes, buckets: found.time, per_weight }, Some(bias)))
}

fn level_of(mode_order: &[usize], mode: usize) -> usize {
    mode_order.iter().position(|&other| other == mode).unwrap_or(0)
}

/// One lane's sums on their way.
struct Tally<'a> {
    /// Of level 0 a lane has its own slices only: the first of them.
    start: usize,
    by_level: Vec<Vec<f64>>,
    /// The time bias with the levels of its two modes.
    time: Option<(&'a TimeBias, usize, usize)>,
    by_bucket: Vec<f64>,
    squares: f64,
    /// The one level whose sums are wanted, where that is all.
    only: Option<usize>,
}

impl Tally<'_> {
    /// Adds a number to the sums of an entry's indices and bucket, and another to the squares.
    #[inline]
    fn add(&mut self, indices: &[u32], number: f64, square: f64) {
        self.squares += square;
        if let Some(level) = self.only {
            let start = if level == 0 { self.start } else { 0 };
            self.by_level[level][indices[level] as usize - start] += number;
            return;
        }
        self.by_level[0][indices[0] as usize - self.start] += number;
        for level in 1..indices.len() {
            self.by_level[level][indices[level] as usize] += number;
        }
        if let Some((time, of, clock)) = self.time
            && let Some(bucket) = time.bucket_of(indices[of], indices[clock])
        {
            self.by_bucket[bucket] += number;
        }
    }
}

/// What a lane works in.
#[derive(Default)]
struct Scratch {
    workspace: Workspace,
    values: Vec<f64>,
}

/// Adds up numbers per index of every mode and bucket of time, in one pass and in one order: lane
/// after lane.
fn tally(
    train: &Stream,
    mode_order: &[usize],
    dims: &[usize],
    time: Option<&TimeBias>,
    only: Option<usize>,
    each: impl Fn(&BlockView<'_>, &mut Tally<'_>, &mut Scratch) + Sync + Send,
) -> Result<Sums> {
    let buckets = time.map_or(0, |time| time.values.len());
    let time = time.map(|time| (time, level_of(mode_order, time.of), level_of(mode_order, time.clock)));
    let lanes = own_lanes(train, |lane| {
        let start = lane.slices.start as usize;
        let slices = (lane.slices.end - lane.slices.start) as usize;
        let by_level = mode_order.iter().enumerate().map(|(level, &mode)| match (only, level) {
            (Some(only), _) if only != level => Vec::new(),
            (_, 0) => vec![0.0; slices],
            _ => vec![0.0; dims[mode]],
        });
        let by_bucket = vec![0.0; buckets];
        let mut tally = Tally { start, by_level: by_level.collect(), time, by_bucket, squares: 0.0, only };
        let mut scratch = Scratch::default();
        train.for_each(lane, |block| {
            each(block, &mut tally, &mut scratch);
            Ok(())
        })?;
        Ok(tally)
    })?;
    let mut total = Sums {
        modes: dims.iter().map(|&dim| vec![0.0; dim]).collect(),
        time: vec![0.0; buckets],
        squares: 0.0,
    };
    let team = train.team();
    for (level, &mode) in mode_order.iter().enumerate() {
        let first = |start: usize| if level == 0 { start } else { 0 };
        let of = lanes.iter().map(|lane| (first(lane.start), lane.by_level[level].as_slice()));
        sum_in_order(team, &mut total.modes[mode], of);
    }
    sum_in_order(team, &mut total.time, lanes.iter().map(|lane| (0, lane.by_bucket.as_slice())));
    let squares = std::slice::from_mut(&mut total.squares);
    sum_in_order(team, squares, lanes.iter().map(|lane| (0, std::slice::from_ref(&lane.squares))));
    Ok(total)
}

/// The smallest number of all processes, place by place.
fn earliest(team: Team, first: &mut [u32]) {
    if team.is_alone() {
        return;
    }
    for part in first.chunks_mut(1 << 16) {
        let mut words: Vec<u64> = part.iter().map(|&time| time.into()).collect();
        team.combine(&mut words, Combine::Min);
        part.iter_mut().zip(words).for_each(|(time, word)| *time = word as u32);
    }
}

/// The biases of the values alone, mode after mode and damped, in a few passes.
///
/// The damping comes from the variances within and between indices (a one-way analysis of variance
/// of each mode's own residuals): with S_b = sum of s_i^2 / n_i over k indices, m entries in all,
/// sigma^2 = (S - S_b) / (m - k) and tau^2 = (S_b - k sigma^2) / m.
pub fn fit(
    train: &Stream,
    mode_order: &[usize],
    counts: &Counts,
    mean: f64,
    time: Option<TimeBias>,
) -> Result<(Biases, Damping)> {
    fit_rounds(train, mode_order, counts, mean, time, ROUNDS)
}

/// The memory that [`alone`] takes, of so many lanes.
pub fn alone_bytes(manifest: &Manifest, lanes: usize) -> u64 {
    let rows: u64 = manifest.modes.iter().map(|mode| u64::from(mode.dim)).sum();
    // A sum per lane; counts, sums and biases.
    rows * 8 * (lanes as u64 + 4)
}

/// What a model is compared with: a mean and a damped bias per index of every mode. One pass counts, and there are two
/// per mode.
pub fn alone(manifest: &Manifest, train: &Stream) -> Result<Biases> {
    let (counts, _) = count(manifest, train, None)?;
    let fitted = fit_rounds(train, &manifest.mode_order, &counts, manifest.mean(), None, ROUNDS_ALONE)?;
    Ok(fitted.0)
}

fn fit_rounds(
    train: &Stream,
    mode_order: &[usize],
    counts: &Counts,
    mean: f64,
    time: Option<TimeBias>,
    rounds: usize,
) -> Result<(Biases, Damping)> {
    let order = mode_order.len();
    let mut biases = Biases::mean_only(mean, order);
    for (values, counts) in biases.modes.iter_mut().zip(&counts.modes) {
        *values = vec![0.0; counts.len()];
    }
    biases.time = time;
    let mut damping = Damping { modes: vec![f64::MAX; order], time: f64::MAX };
    // The mode with the fewest indices first: where one mode lies within another, as every user's
    // few weeks do, what both could explain goes to the one that needs fewer numbers for it.
    let mut modes: Vec<usize> = (0..order).collect();
    let used = |mode: usize| counts.modes[mode].iter().filter(|&&n| n > 0.0).count();
    modes.sort_by_key(|&mode| (used(mode), mode));
    for _ in 0..rounds {
        for &mode in &modes {
            let sums = sums(train, None, mode_order, &biases, Some(mode))?;
            let (values, weights) = (&mut biases.modes[mode], &counts.modes[mode]);
            damping.modes[mode] =
                estimate(values, &sums.modes[mode], weights, counts.per_weight, sums.squares);
            step(values, &sums.modes[mode], weights, damping.modes[mode], counts.most_damping());
        }
        if biases.time.is_some() {
            let sums = sums(train, None, mode_order, &biases, None)?;
            if let Some(time) = &mut biases.time {
                damping.time =
                    estimate(&time.values, &sums.time, &counts.buckets, counts.per_weight, sums.squares);
                step(&mut time.values, &sums.time, &counts.buckets, damping.time, counts.most_damping());
            }
        }
    }
    Ok((biases, damping))
}

/// One damped step of all biases at once on y - X: each takes what its own least squares ask for,
/// and the length of the common step is the best one. Two passes, one of them without the tensor.
pub fn refit(
    train: &Stream,
    exchange: &Exchange,
    mode_order: &[usize],
    point: &Point,
    counts: &Counts,
    damping: &Damping,
    biases: &mut Biases,
) -> Result<()> {
    let sums = sums(train, Some((point, exchange)), mode_order, biases, None)?;
    let mut change = Biases { mean: 0.0, ..biases.clone() };
    let (mut along, mut prior) = (0.0, 0.0);
    let most = counts.most_damping();
    let mut take_step = |values: &mut [f64], sums: &[f64], counts: &[f64], damping: f64| {
        for ((value, sum), &n) in values.iter_mut().zip(sums).zip(counts) {
            let bias = *value;
            *value = if damping < most { (sum - damping * bias) / (n + damping) } else { 0.0 };
            if damping < most {
                along += *value * (sum - damping * bias);
                prior += damping * *value * *value;
            }
        }
    };
    for (mode, values) in change.modes.iter_mut().enumerate() {
        take_step(values, &sums.modes[mode], &counts.modes[mode], damping.modes[mode]);
    }
    if let Some(time) = &mut change.time {
        take_step(&mut time.values, &sums.time, &counts.buckets, damping.time);
    }
    let squares = squared_length(train, mode_order, &change)? + prior;
    let length = along / squares;
    if !(length.is_finite() && length > 0.0) {
        return Ok(());
    }
    let add = |to: &mut Vec<f64>, from: &Vec<f64>| {
        to.iter_mut().zip(from).for_each(|(to, from)| *to += length * from)
    };
    for (to, from) in biases.modes.iter_mut().zip(&change.modes) {
        add(to, from);
    }
    if let (Some(to), Some(from)) = (&mut biases.time, &change.time) {
        add(&mut to.values, &from.values);
    }
    Ok(())
}

/// sigma^2 / tau^2 of one group, from what the others leave over: the residuals with the group's own
/// biases put back. Of weights, what counts beside one another; of `per_weight` of them, entries.
fn estimate(biases: &[f64], sums: &[f64], weights: &[f64], per_weight: f64, squares: f64) -> f64 {
    let (mut between, mut groups, mut weight, mut total) = (0.0, 0.0, 0.0, squares);
    for ((bias, sum), &n) in biases.iter().zip(sums).zip(weights).filter(|(_, n)| **n > 0.0) {
        let own = sum + n * bias;
        total += bias * (sum + own);
        between += own * own / n;
        groups += 1.0;
        weight += n;
    }
    let within = (total - between).max(0.0) / (per_weight * weight - groups).max(1.0);
    let variance = (between - groups * within) / weight;
    if variance > 0.0 { within / variance } else { f64::MAX }
}

/// Sets every bias to what its own damped least squares ask for.
fn step(biases: &mut [f64], sums: &[f64], counts: &[f64], damping: f64, most: f64) {
    for ((bias, sum), &n) in biases.iter_mut().zip(sums).zip(counts) {
        *bias = if damping < most && n > 0.0 { (sum + n * *bias) / (n + damping) } else { 0.0 };
    }
}

/// The (weighted) sums of y - X - biases over the entries of every index, or of those of one mode only. One pass.
fn sums(
    train: &Stream,
    point: Option<(&Point, &Exchange)>,
    mode_order: &[usize],
    biases: &Biases,
    only: Option<usize>,
) -> Result<Sums> {
    let only = only.map(|mode| level_of(mode_order, mode));
    let targets = Targets::new(Some(biases), mode_order);
    let stored = point.map(|(point, _)| Stored::new(&point.core, mode_order));
    let mut scratch = RemoteRows::default();
    let rows = point.map(|(point, exchange)| scratch.of(&point.factors, mode_order, exchange));
    let view = stored.as_ref().zip(rows).map(|(stored, rows)| stored.view(&rows));
    let dims: Vec<usize> = biases.modes.iter().map(Vec::len).collect();
    tally(
        train,
        mode_order,
        &dims,
        biases.time.as_ref(),
        only,
        |block, tally, Scratch { workspace, values }| {
            let block = targets.view(block, values);
            let mut each = |indices: &[u32], residual: f64, weight: f64| {
                tally.add(indices, weight * residual, weight * residual * residual);
            };
            match &view {
                Some(view) => kernel::for_each_prediction(&block, view, workspace, |indices, y, w, x| {
                    each(indices, y - x, w);
                }),
                None => block.for_each_weighted(|indices, y, w| each(indices, y, w)),
            }
        },
    )
}

/// The (weighted) sum over all entries of the squared sum of their biases.
fn squared_length(train: &Stream, mode_order: &[usize], biases: &Biases) -> Result<f64> {
    let targets = Targets::new(Some(biases), mode_order);
    let lanes = map_lanes(train, &0.0, |lane| {
        let (mut sum, mut zeros, mut values) = (0.0, Vec::new(), Vec::new());
        train.for_each(lane, |block| {
            zeros.resize(block.entries().max(zeros.len()), 0.0);
            let bare = block.with_values(Values::F64(&zeros[..block.entries()]));
            if let Values::F64(values) = targets.view(&bare, &mut values).values() {
                sum += match block.weights() {
                    None => values.iter().map(|y| y * y).sum::<f64>(),
                    Some(weights) => values.iter().enumerate().map(|(n, y)| weights.get(n) * y * y).sum(),
                };
            }
            Ok(())
        })?;
        Ok(sum)
    })?;
    Ok(lanes.iter().sum())
}
