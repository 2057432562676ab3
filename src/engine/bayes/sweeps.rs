//! The fit on its way from sweep to sweep.

use super::course::FEW_MODES;
use super::inside::Inside;
use super::level::Level;
use super::look;
use super::moments::{Covariance, Moments, RowProducts};
use super::offsets::{Cells, OffsetTable};
use super::pass::sums_width;
use super::row::{RowRoom, add_rows, mirror, start};
use super::shape::Shape;
use super::slices::Slices;
use super::start;
use crate::error::{Error, Result};
use crate::kernel::vectorised;
use crate::manifold::{Core, Point};
use crate::model::{Biases, Ends, PairBias, TimeBias};
use crate::rows::{self, triangle_len};
use crate::shard::Manifest;
use crate::stream::Stream;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::ops::Range;

// What other values do: docs/thresholds.md.
/// Rows whose moments are added up together: a constant of the results.
pub(super) const CHUNK: usize = 256;
/// From this sweep on values at the ends say only so much.
const ENDS_FROM: usize = 2;
/// The variance of the noise to begin with, values having the variance 1.
const FIRST_NOISE: f64 = 0.8;

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
    pub tables: Vec<OffsetTable>,
    /// The variance of the noise, values having the variance 1.
    pub noise: f64,
    /// Sweeps so far.
    pub sweep: usize,
    /// The sums of the second mode, while they are carried from sweep to sweep.
    pub sums: Vec<f64>,
    /// The sweep that is on its way, if any.
    pub inside: Option<Box<Inside>>,
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
    /// Entries of another split that rows are fitted to as well, but for those of slices that train lacks.
    pub beside: Option<&'a Stream>,
}

impl<'a> Data<'a> {
    /// The train entries, and nothing beside them.
    pub fn of(train: &'a Stream, slices: &'a Slices) -> Self {
        Data { train, slices, beside: None }
    }
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
        let (look, looks) =
            look::look(data.train, &dims, standard, data.slices.per_weight, values, validation)?;
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
        let (levels, passes) = start::levels(source, look, &shape, pair, features, standard, seed)?;
        let terms = Terms { mode_order, mean, spread, thresholds, range, pair, time: None };
        let (tables, sums) = (Vec::new(), Vec::new());
        let posterior = Posterior {
            shape,
            levels,
            tables,
            noise: FIRST_NOISE,
            sweep: 0,
            sums,
            inside: None,
            residuals: 0.0,
        };
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

/// The numbers of a level's rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RowNumbers {
    /// Means, row after row.
    pub means: Vec<f64>,
    /// Their variances.
    pub variances: Vec<f32>,
    /// Covariances, packed, where they are whole.
    pub covariances: Vec<f32>,
}

impl Level {
    /// The rows, which are put back later.
    pub(super) fn take_rows(&mut self) -> RowNumbers {
        let Level { means, variances, covariances, .. } = self;
        RowNumbers {
            means: std::mem::take(means),
            variances: std::mem::take(variances),
            covariances: std::mem::take(covariances),
        }
    }

    pub(super) fn clone_rows(&self) -> RowNumbers {
        let Level { means, variances, covariances, .. } = self;
        RowNumbers { means: means.clone(), variances: variances.clone(), covariances: covariances.clone() }
    }

    pub(super) fn put_rows(&mut self, rows: RowNumbers) {
        (self.means, self.variances, self.covariances) = (rows.means, rows.variances, rows.covariances);
    }

    /// Fits some of the rows to their sums, and adds up what they come to.
    pub(super) fn fit(
        &self,
        to: &mut RowNumbers,
        rows: Range<usize>,
        sums: &[f64],
        noise: f64,
        total: &mut Moments,
    ) -> Result<()> {
        let (k, features, wide) = (self.width, self.features.count(), self.covariance_width());
        let Level { counts, features: of_rows, prior, .. } = self;
        let RowNumbers { means, variances, covariances } = to;
        let span = rows.start * k..rows.end * k;
        let pull = prior.pull();
        let mut of_chunks: Vec<&mut [f32]> = match covariances.is_empty() {
            true => rows.clone().step_by(CHUNK).map(|_| <&mut [f32]>::default()).collect(),
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
                let (mut found, mut products) = (Moments::new(k, features), RowProducts::new(k, features));
                let (mut room, mut square) = (RowRoom::new(k), vec![0.0; k * k]);
                let (mut f, mut s) = (vec![0.0; features], vec![0.0; k]);
                let rows = means.chunks_exact_mut(k).zip(variances.chunks_exact_mut(k));
                let mut done = true;
                vectorised(
                    #[inline(always)]
                    || {
                        for (row, ((mean, variance), sums)) in
                            rows.zip(sums.chunks_exact(sums_width(k))).enumerate()
                        {
                            let count = counts[first + row];
                            if count == 0.0 {
                                continue;
                            }
                            let (a, b) = sums[..triangle_len(k) + k].split_at(triangle_len(k));
                            of_rows.of(first + row, count, &mut f);
                            room.mean.iter_mut().zip(b).for_each(|(to, b)| *to = b / noise);
                            add_rows(&f, &pull, &mut room.mean);
                            for i in 0..k {
                                square[i * k..][..=i].copy_from_slice(&a[start(i)..][..=i]);
                            }
                            mirror(&mut square, k);
                            prior.precision_with(noise, &square, &mut room.factor);
                            // Of a row whose columns are independent, the variances are these.
                            (0..k).for_each(|i| s[i] = 1.0 / room.factor[i * k + i]);
                            let whole = !covariances.is_empty();
                            if !room.solve() {
                                done = false;
                                return;
                            }
                            mean.copy_from_slice(&room.mean);
                            if whole {
                                let to = &mut covariances[row * wide..][..wide];
                                for i in 0..k {
                                    let from = &room.covariance[i * k..][..=i];
                                    to[start(i)..][..=i]
                                        .iter_mut()
                                        .zip(from)
                                        .for_each(|(to, x)| *to = *x as f32);
                                    s[i] = from[i];
                                }
                                products.add(mean, &f, Covariance::Whole(&room.covariance));
                            } else {
                                products.add(mean, &f, Covariance::Diagonal(&s));
                            }
                            variance.iter_mut().zip(&s).for_each(|(to, s)| *to = *s as f32);
                        }
                    },
                );
                products.end(&mut found);
                done.then_some(found)
            })
            .collect();
        for chunk in chunks {
            total.add(&chunk.ok_or_else(broken)?);
        }
        Ok(())
    }
}

pub(super) fn broken() -> Error {
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
    /// The model: a tensor in the values' own unit, its biases, and the modes it holds constant.
    pub fn model(&self, terms: &Terms) -> (Point, Biases, Vec<bool>) {
        let order = self.levels.len();
        let rank = |level: usize| self.shape.rank(level);
        let constant: Vec<bool> = (0..order).map(|level| self.shape.has_constant(level)).collect();
        let (mut factors, mut ranks, mut held, mut biases) = (
            vec![rows::Rows::zeros(1, 1); order],
            vec![0; order],
            vec![false; order],
            vec![Vec::new(); order],
        );
        for (level, &mode) in terms.mode_order.iter().enumerate() {
            let (rows, k) = (&self.levels[level], self.shape.widths[level]);
            let mut data = Vec::with_capacity(rows.rows * rank(level));
            for row in rows.means.chunks_exact(k) {
                data.extend_from_slice(&row[..k - 1]);
                data.extend(constant[level].then_some(1.0));
            }
            biases[mode] = rows.means.chunks_exact(k).map(|row| terms.spread * row[k - 1]).collect();
            factors[mode] = rows::Rows::from_vec(rows.rows, rank(level), data);
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
