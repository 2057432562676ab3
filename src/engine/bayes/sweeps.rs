//! The fit on its way from sweep to sweep.

use super::batch::batch_bytes;
use super::cells::pairs_of;
use super::course::{FEW_MODES, MOST_ROWS_TO_GROW, most_more};
use super::level::{Covariance, Level, Moments, covariance_bytes};
use super::offsets::{Cells, MOST_IN_TABLES, Table};
use super::pass::{self, Pass, sums_width};
use super::row::{RowRoom, start};
use super::shape::Shape;
use super::slices::{Pending, Slices, window_bytes};
use super::start as begin;
use crate::error::{Error, Result};
use crate::manifold::{Core, Point};
use crate::model::{Biases, Ends, PairBias, TimeBias};
use crate::rows::{Rows, triangle_len};
use crate::shard::Manifest;
use crate::stream::Stream;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Rows whose moments are added up together: a constant of the results.
const CHUNK: usize = 256;
/// In the first sweeps the second mode is fitted anew after each of so many parts of the data.
const WARM_SWEEPS: usize = 3;
const PARTS: usize = 4;
/// Where there are so many rows of the first mode, that is: a few of them say nothing of those that follow.
const FEWEST_TO_WARM: usize = 256;
/// From this sweep on values at the ends say only so much.
const ENDS_FROM: usize = 2;
/// From this sweep on there is a time bias, where one was asked for.
const TIME_FROM: usize = 3;
/// From this sweep on the features' ridge is learned.
const RIDGE_FROM: usize = 5;
/// Biases of further modes, and of time, are fitted in every so many sweeps: a pass each.
const OTHERS_EVERY: usize = 2;
/// The variance of the noise to begin with, values having the variance 1.
const FIRST_NOISE: f64 = 0.8;

/// The most memory that the sums of a level's rows take, of a lane or of all: where they would take more, a pass
/// is made for every part of the rows.
const SUMS: u64 = 128 << 20;

/// What does not change from sweep to sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// Level l belongs to mode `mode_order[l]`.
    pub mode_order: Vec<usize>,
    /// The mean of the train values, and their standard deviation.
    pub mean: f64,
    /// Likewise.
    pub spread: f64,
    /// Values of at most the first, or at least the second, say only that.
    pub thresholds: Option<(f64, f64)>,
    /// Where predictions are clipped.
    pub range: Option<(f64, f64)>,
    /// The levels of the first pair, ascending: those whose rows differ most.
    pub pair: [usize; 2],
    /// The level whose rows have a first entry, and the one that tells the time since, where there is a time bias.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<[usize; 2]>,
}

/// All that a next sweep starts from.
#[derive(Debug, Clone, PartialEq)]
pub struct Posterior {
    /// What values are made of.
    pub shape: Shape,
    /// The rows, in storage order.
    pub levels: Vec<Level>,
    /// What is added to values beside their rows.
    pub tables: Vec<Table>,
    /// The variance of the noise, values having the variance 1.
    pub noise: f64,
    /// Sweeps so far.
    pub sweep: usize,
    /// The sums of the second mode, while they are carried from sweep to sweep.
    pub sums: Vec<f64>,
    /// The mean squared distance of (latent) train values from the model, in the newest pass.
    pub residuals: f64,
}

/// What sweeps go through.
#[derive(Clone, Copy)]
pub struct Data<'a> {
    /// The train entries.
    pub train: &'a Stream,
    /// Their slices.
    pub slices: &'a Slices,
}

/// A fit on its way from sweep to sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// What does not change.
    pub terms: Terms,
    /// What does.
    pub posterior: Posterior,
}

impl Fit {
    /// Looks at the data and makes first rows: components of the two modes whose rows differ most, as many as
    /// `rank` says for these; where that is in doubt, validation tells which two have most to do with each other.
    /// Returns how many passes that took.
    pub fn begin(
        manifest: &Manifest,
        data: &Data<'_>,
        validation: Option<&Stream>,
        rank: impl Fn([usize; 2]) -> usize,
        range: Option<(f64, f64)>,
        seed: u64,
    ) -> Result<(Self, usize)> {
        let mode_order = manifest.mode_order.clone();
        let dims: Vec<usize> = manifest.level_dims().iter().map(|&dim| dim as usize).collect();
        let (mean, spread) = (manifest.mean(), manifest.spread_square().sqrt());
        let standard = (mean, 1.0 / spread);
        let values = (manifest.values.min, manifest.values.max);
        let (look, looks) = begin::look(data.train, &dims, standard, data.slices.per_weight, values)?;
        let thresholds = range.and_then(|range| look.thresholds(range));
        let source = (data.train, data.slices);
        let (mut pair, clear) = look.pair();
        let mut probes = 0;
        if let Some(validation) = validation.filter(|_| !clear) {
            // Of many modes there are many pairs, and each takes passes of its own where cells do not tell.
            let by_cells = match dims.len() > FEW_MODES {
                true => look.pair_by_cells(validation, standard)?,
                false => None,
            };
            let found;
            (found, probes) = match by_cells {
                Some(pair) => (Some(pair), 0),
                None => look.pair_by_residuals(source, validation, standard, seed)?,
            };
            pair = found.unwrap_or(pair);
        }
        let mut shape = Shape::of_biases(dims.len());
        let most = pair.iter().map(|&level| dims[level]).min().unwrap_or(1).saturating_sub(1).max(1);
        let rank = rank(pair.map(|level| mode_order[level])).clamp(1, most);
        shape.add(&pair, rank);
        let features = (rank + 1).min(most);
        let (levels, passes) = begin::levels(source, look, &shape, pair, features, standard, seed)?;
        let terms = Terms { mode_order, mean, spread, thresholds, range, pair, time: None };
        let (tables, sums) = (Vec::new(), Vec::new());
        let posterior =
            Posterior { shape, levels, tables, noise: FIRST_NOISE, sweep: 0, sums, residuals: 0.0 };
        Ok((Fit { terms, posterior }, looks + probes + passes))
    }

    pub(super) fn ends(&self) -> Option<Ends> {
        let scale = |x: f64| (x - self.terms.mean) / self.terms.spread;
        let of = |(below, above)| Ends {
            below: scale(below),
            above: scale(above),
            noise: self.posterior.noise.sqrt(),
        };
        self.terms.thresholds.filter(|_| self.posterior.sweep >= ENDS_FROM).map(of)
    }

    /// What values at the ends say, in the values' own unit.
    pub fn model_ends(&self) -> Option<Ends> {
        let noise = self.posterior.noise.sqrt() * self.terms.spread;
        let known = self.terms.thresholds.filter(|_| self.posterior.sweep >= ENDS_FROM);
        known.map(|(below, above)| Ends { below, above, noise })
    }

    /// One sweep: rows of level 0 and of the first pair, and of the others every other time. Returns how many
    /// passes it took.
    pub fn sweep(&mut self, data: &Data<'_>) -> Result<usize> {
        self.posterior.sweep += 1;
        let (sweep, pair) = (self.posterior.sweep, self.terms.pair);
        if sweep > WARM_SWEEPS {
            self.turn()?;
        }
        let mut passes = 0;
        for level in 1..self.posterior.levels.len() {
            let wide = self.posterior.levels[level].width > 1;
            if !pair.contains(&level) && !wide && !sweep.is_multiple_of(OTHERS_EVERY) {
                continue;
            }
            let ranges = self.ranges(level);
            if sweep <= WARM_SWEEPS && pair == [0, level] && ranges.len() == 1 && self.is_warmed(data) {
                self.warm_sweep(data, level)?;
                passes += 1;
                continue;
            }
            for rows in ranges {
                self.exact_pass(data, level, rows)?;
                passes += 1;
            }
        }
        if let Some(levels) = self.terms.time.filter(|_| sweep == TIME_FROM) {
            passes += self.add_time(data, levels)?;
        } else if self.posterior.has_pairs() || sweep.is_multiple_of(OTHERS_EVERY) {
            passes += self.fit_tables(data)?;
        }
        Ok(passes)
    }

    /// Whether the first sweeps are made from parts of the data.
    fn is_warmed(&self, data: &Data<'_>) -> bool {
        data.slices.large().is_empty()
            && self.posterior.levels[0].counts.iter().filter(|n| **n > 0.0).count() >= FEWEST_TO_WARM
    }

    /// The rows of a level, as many at a time as there is room for the sums of: a matter of the data, so that the
    /// result does not depend on the machine.
    fn ranges(&self, level: usize) -> Vec<Range<usize>> {
        let level = &self.posterior.levels[level];
        let most = rows_at_a_time(level.width);
        (0..level.rows).step_by(most).map(|from| from..level.rows.min(from + most)).collect()
    }

    /// A pass in which all rows stay what they are until its end, but for those of level 0.
    fn exact_pass(&mut self, data: &Data<'_>, target: usize, rows: Range<usize>) -> Result<()> {
        let mut pending = vec![Pending::default(); data.train.lanes().len()];
        let (sums, _) = self.pass(data, target, rows.clone(), &mut pending, (0, 1))?;
        self.fit(target, rows, &sums)
    }

    /// A pass in which the second mode is fitted after every part of the data, to sums of what was seen.
    fn warm_sweep(&mut self, data: &Data<'_>, second: usize) -> Result<()> {
        let rows = 0..self.posterior.levels[second].rows;
        let mut pending = vec![Pending::default(); data.train.lanes().len()];
        let sweep = self.posterior.sweep;
        let total: f64 = self.posterior.levels[0].counts.iter().sum();
        let mut seen = 0.0;
        for part in 0..PARTS {
            let (new, weight) = self.pass(data, second, rows.clone(), &mut pending, (part, PARTS))?;
            if weight == 0.0 {
                // Lanes of few blocks have nothing in some parts.
                continue;
            }
            seen += weight;
            let mut sums = std::mem::take(&mut self.posterior.sums);
            sums.resize(new.len(), 0.0);
            // What is older is forgotten: it comes from rows that are not what they were.
            let kept = if sweep == 1 { 1.0 } else { 1.0 - weight / total };
            sums.iter_mut().zip(&new).for_each(|(to, new)| *to = kept * *to + new);
            drop(new);
            if sweep == 1 && seen < total {
                let scaled: Vec<f64> = sums.iter().map(|x| total / seen * x).collect();
                self.fit(second, rows.clone(), &scaled)?;
            } else {
                self.fit(second, rows.clone(), &sums)?;
            }
            self.posterior.sums = sums;
        }
        if sweep == WARM_SWEEPS {
            self.posterior.sums = Vec::new();
        }
        Ok(())
    }

    /// Goes through a part of the data: new rows of level 0, and the sums of the target's with the weight of the
    /// entries behind them.
    fn pass(
        &mut self,
        data: &Data<'_>,
        target: usize,
        rows: Range<usize>,
        pending: &mut [Pending],
        part: (usize, usize),
    ) -> Result<(Vec<f64>, f64)> {
        let Posterior { shape, levels, tables, noise, sweep, .. } = &self.posterior;
        let pass = Pass {
            shape,
            levels,
            tables,
            noise: *noise,
            mean: self.terms.mean,
            scale: 1.0 / self.terms.spread,
            ends: self.ends(),
            target,
            rows,
        };
        let (passed, new) = pass::run(&pass, (data.train, data.slices), pending, part)?;
        let learn = *sweep >= RIDGE_FROM;
        let prior = passed.moments.prior(&levels[0].prior, learn).ok_or_else(broken)?;
        let team = data.train.team();
        let posterior = &mut self.posterior;
        new.put(team, &mut posterior.levels[0]);
        posterior.levels[0].prior = prior;
        posterior.set_noise(&passed.moments)?;
        Ok((passed.sums, passed.moments.weight))
    }

    /// Fits rows of a level to their sums.
    fn fit(&mut self, target: usize, rows: Range<usize>, sums: &[f64]) -> Result<()> {
        let learn = self.posterior.sweep >= RIDGE_FROM;
        let whole = rows.len() == self.posterior.levels[target].rows;
        let noise = self.posterior.noise;
        let level = &mut self.posterior.levels[target];
        let (k, features) = (level.width, level.features.count());
        let wide = level.covariance_width();
        let Level { means, variances, covariances, counts, features: of_rows, prior, .. } = level;
        let span = rows.start * k..rows.end * k;
        let mut of_chunks: Vec<&mut [f64]> = match covariances.is_empty() {
            true => rows.clone().step_by(CHUNK).map(|_| <&mut [f64]>::default()).collect(),
            false => covariances[rows.start * wide..rows.end * wide].chunks_mut(CHUNK * wide).collect(),
        };
        let chunks: Vec<Option<Moments>> = means[span.clone()]
            .par_chunks_mut(CHUNK * k)
            .zip(variances[span].par_chunks_mut(CHUNK * k))
            .zip(sums.par_chunks(CHUNK * sums_width(k)))
            .zip(of_chunks.par_iter_mut())
            .enumerate()
            .map(|(number, (((means, variances), sums), covariances))| {
                let first = rows.start + number * CHUNK;
                let mut found = Moments::new(k, features);
                let mut room = RowRoom::new(k);
                let (mut f, mut expected, mut s) = (vec![0.0; features], vec![0.0; k], vec![0.0; k]);
                let rows = means.chunks_exact_mut(k).zip(variances.chunks_exact_mut(k));
                for (row, ((mean, variance), sums)) in rows.zip(sums.chunks_exact(sums_width(k))).enumerate()
                {
                    let count = counts[first + row];
                    if count == 0.0 {
                        continue;
                    }
                    let (a, b) = sums[..triangle_len(k) + k].split_at(triangle_len(k));
                    of_rows.of(first + row, count, &mut f);
                    prior.mean(&f, &mut expected);
                    let of = |i: usize, j: usize| a[start(i) + j];
                    prior.posterior(&expected, noise, of, b, &mut room.factor, &mut room.mean);
                    // Of a row whose columns are independent, the variances are these.
                    (0..k).for_each(|i| s[i] = 1.0 / room.factor[i * k + i]);
                    let whole = !covariances.is_empty();
                    if !room.solve() {
                        return None;
                    }
                    mean.copy_from_slice(&room.mean);
                    if whole {
                        let to = &mut covariances[row * wide..][..wide];
                        for i in 0..k {
                            let from = &room.covariance[i * k..][..=i];
                            to[start(i)..][..=i].copy_from_slice(from);
                            s[i] = from[i];
                        }
                        found.add_row(mean, &f, Covariance::Whole(&room.covariance));
                    } else {
                        found.add_row(mean, &f, Covariance::Diagonal(&s));
                    }
                    variance.iter_mut().zip(&s).for_each(|(to, s)| *to = *s as f32);
                }
                Some(found)
            })
            .collect();
        let mut total = Moments::new(k, features);
        for chunk in chunks {
            total.add(&chunk.ok_or_else(broken)?);
        }
        if whole {
            let new = total.prior(prior, learn).ok_or_else(broken)?;
            *prior = new;
        }
        Ok(())
    }

    /// The model: a tensor in the values' own unit, its biases, and the modes it holds constant.
    pub fn model(&self) -> (Point, Biases, Vec<bool>) {
        self.posterior.model(&self.terms)
    }

    /// The ranks of that tensor, and the modes it holds constant.
    pub fn ranks(&self) -> (Vec<usize>, Vec<usize>) {
        let shape = &self.posterior.shape;
        let mut ranks = vec![0; shape.order()];
        let mut held = Vec::new();
        for (level, &mode) in self.terms.mode_order.iter().enumerate() {
            ranks[mode] = shape.rank(level);
            held.extend((shape.widths[level] == 1).then_some(mode));
        }
        held.sort_unstable();
        (ranks, held)
    }
}

/// The rows of k numbers whose sums are taken in one pass.
fn rows_at_a_time(k: usize) -> usize {
    ((SUMS as usize / (sums_width(k) * size_of::<f64>())) / CHUNK).max(1) * CHUNK
}

/// What a sweep takes beside one pass, for dimensions in storage order and so many components: the level with the most
/// sums, the memory of all of them, and the passes that they are taken in.
pub fn sums(dims: &[u64], rank: usize) -> (usize, u64, u64) {
    let (level, rows) =
        (1..dims.len()).map(|level| (level, dims[level])).max_by_key(|of| of.1).unwrap_or((0, 0));
    let bytes = rows * (sums_width(rank + 1) * size_of::<f64>()) as u64;
    (level, bytes, rows.div_ceil(rows_at_a_time(rank + 1) as u64))
}

/// The memory that a fit takes, for dimensions in storage order, so many entries and so many components: first its
/// rows, those of a trial and of the best model, then sums of so many lanes at a time; with room for more components
/// where their number is left to the data.
pub fn bytes(dims: &[u64], entries: u64, rank: usize, lanes: u64, grows: bool) -> [u64; 2] {
    let more = dims.len() > 2 && dims.iter().sum::<u64>() <= MOST_ROWS_TO_GROW;
    let grows = more && (grows || dims.len() > FEW_MODES);
    let rank = rank + if grows { most_more(dims.len()) } else { 0 };
    // Sums of pairs of modes, when none of rows are there; and tables with their numbers, in a model and in what a trial
    // may go back to.
    let cells =
        if more { cells_of_pairs(dims).min(MOST_IN_TABLES as u64) * size_of::<f64>() as u64 } else { 0 };
    let tables = if dims.len() > FEW_MODES { 6 * cells } else { 0 };
    let k = rank as u64 + 1;
    // Means, variances, counts and features; means and biases of a model, and how sure it is.
    let row = 2 * (12 * k + 8 + 8 * k) + 2 * 8 * (k + 1) + 4 * 4 * k + 8;
    let most = dims.iter().skip(1).max().copied().unwrap_or(0);
    let sums = (most * (sums_width(rank + 1) * size_of::<f64>()) as u64).min(SUMS);
    let covariances: u64 =
        dims.iter().skip(1).map(|&rows| 2 * covariance_bytes(rows, entries, rank + 1)).sum();
    let state = dims.iter().sum::<u64>() * row + covariances + tables;
    let waiting = batch_bytes(most, rank + 1) + window_bytes(dims.len(), entries);
    [state, sums.max(cells) * (2 + lanes) + waiting * lanes]
}

fn cells_of_pairs(dims: &[u64]) -> u64 {
    pairs_of(dims.len())
        .into_iter()
        .fold(0, |sum: u64, [a, b]| sum.saturating_add(dims[a].saturating_mul(dims[b])))
}

fn broken() -> Error {
    Error::not_finite("a row")
}

/// What weights are multiplied by, so that they are 1 on average.
pub fn per_weight(manifest: &Manifest, train: &Stream) -> f64 {
    match &manifest.weights {
        Some(weights) => {
            let sum = weights.train.sum * train.weight_scale();
            (manifest.train.entries - weights.train.zeros) as f64 / sum
        }
        None => 1.0,
    }
}

impl Posterior {
    /// The noise that makes the residuals most likely.
    fn set_noise(&mut self, moments: &Moments) -> Result<()> {
        if moments.weight > 0.0 {
            self.noise = (moments.squares / moments.weight).max(1e-20);
            self.residuals = moments.residuals / moments.weight;
        }
        if self.noise.is_finite() { Ok(()) } else { Err(broken()) }
    }

    /// The model: a tensor in the values' own unit, its biases, and the modes it holds constant.
    pub fn model(&self, terms: &Terms) -> (Point, Biases, Vec<bool>) {
        let order = self.levels.len();
        let rank = |level: usize| self.shape.rank(level);
        let constant: Vec<bool> = (0..order).map(|level| self.shape.has_constant(level)).collect();
        let (mut factors, mut ranks, mut held, mut biases) =
            (vec![Rows::zeros(1, 1); order], vec![0; order], vec![false; order], vec![Vec::new(); order]);
        for (level, &mode) in terms.mode_order.iter().enumerate() {
            let (rows, k) = (&self.levels[level], self.shape.widths[level]);
            let mut data = Vec::with_capacity(rows.rows * rank(level));
            for row in rows.means.chunks_exact(k) {
                data.extend_from_slice(&row[..k - 1]);
                data.extend(constant[level].then_some(1.0));
            }
            biases[mode] = rows.means.chunks_exact(k).map(|row| terms.spread * row[k - 1]).collect();
            factors[mode] = Rows::from_vec(rows.rows, rank(level), data);
            ranks[mode] = rank(level);
            held[mode] = k == 1;
        }
        let mut places = Vec::new();
        for segment in &self.shape.segments {
            for n in 0..segment.count {
                let mut at = vec![0; order];
                for (level, &mode) in terms.mode_order.iter().enumerate() {
                    let own = segment.position(level).map(|own| segment.first[own] + n);
                    at[mode] = own.unwrap_or(rank(level) - 1) as u32;
                }
                places.extend(at);
            }
        }
        let numbers = vec![terms.spread; places.len() / order];
        // It has the product of all ranks as its size, and nearly all of it is zero.
        let core = match order > FEW_MODES {
            true => Core::sparse(&ranks, places, numbers),
            false => Core::scattered(&ranks, &places, &numbers),
        };
        let held = if held.contains(&true) { held } else { Vec::new() };
        let mut all = Biases { mean: terms.mean, modes: biases, time: None, pairs: Vec::new() };
        for table in &self.tables {
            let values = table.values.iter().map(|value| terms.spread * value).collect();
            let mode = |level: &usize| terms.mode_order[*level];
            match &table.cells {
                Cells::Pair { levels: [a, b], width } => {
                    all.pairs.push(PairBias { modes: [mode(a), mode(b)], width: *width, values });
                }
                Cells::Time { of, clock, first } => {
                    let (of, clock, first) = (mode(of), mode(clock), first.clone());
                    all.time = Some(TimeBias { of, clock, first, values });
                }
            }
        }
        (Point { factors, core }, all, held)
    }
}
