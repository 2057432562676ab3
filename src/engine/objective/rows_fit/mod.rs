//! Fits every row of the two main modes to its own entries, with what is uncertain about the others.
//!
//! With all else held, an entry is worth c + b + <u, z>: z is the core contracted with its other rows, b
//! the bias of the row u, c all other biases. Rows of a mode (with their biases) are taken for normally
//! distributed, and entries for having normal noise, so that the row given its entries is normal too: a
//! ridge regression with its own ridge in every direction. As the rows behind z are known only so well
//! themselves, E(z z^T) has their covariance in it: variational Bayes, with the factors of the two modes
//! independent of each other. Without that the rows of ids with few entries follow the noise, and the
//! more so from sweep to sweep.
//!
//! Where values at the ends of their range say only so much ([`Ends`]), the latent values behind them are
//! unknown, too, and independent of the rows in the same sense: the target of such an entry is the mean of
//! its latent value given the present prediction, and its variance is part of the noise.
//!
//! Rows of further modes may be fitted, too, with what is uncertain about one of the two main ones: they have
//! so many entries each, as a rule, that they are certain themselves.
//!
//! A sweep fits the rows of one mode and then those of the other, and after each the mean and the
//! covariance of its rows and the variance of the noise: nothing is left to choose. The model stays what
//! it is, a Tucker tensor with biases; only its rows are better ones.

mod moments;
mod sums;

use super::bias_fit::Counts;
use crate::error::Result;
use crate::manifold::Point;
use crate::model::{Biases, Ends};
use crate::reduce::Exchange;
use crate::rows::{RowPrior, RowScratch, row_posterior, triangle_len};
use crate::stream::Stream;
use crate::team::Team;
use crate::units::towards_one;
use moments::Moments;
use rayon::prelude::*;

/// Rows whose moments are added up together: a constant of the results, so that batches, which are made
/// of whole chunks, do not change a bit.
const CHUNK: usize = 256;

/// So many sweeps fit the rows of further modes. They have many entries each, so that they hardly change any
/// more then, and a pass for them costs as much as several for the main modes.
const OTHERS: usize = 4;

/// Biases from a sixteenth to sixteen, as those of ratings are, are taken as they are.
const NEAR: i32 = 4;

/// What is known of the rows of a mode.
struct Known {
    mode: usize,
    level: usize,
    rank: usize,
    /// The rank, and one more where the mode has biases: the last component is the bias then.
    k: usize,
    prior: RowPrior,
    /// The covariance of every row, its triangle, of biases times `unit`; empty before the first sweep.
    covariances: Vec<f32>,
    /// A power of two that brings biases close to 1, which have the unit of the values: beside rows, which
    /// have none, and in single precision. 1 where there are none.
    unit: f64,
}

impl Known {
    /// From the rows as they are; `None` where they are not finite.
    fn of(
        mode: usize,
        mode_order: &[usize],
        counts: &Counts,
        point: &Point,
        biases: Option<&Biases>,
        spread: f64,
    ) -> Option<Self> {
        let rank = point.factors[mode].rank();
        let biased = biases.is_some_and(|biases| !biases.modes[mode].is_empty());
        let level = mode_order.iter().position(|&other| other == mode).unwrap_or(0);
        let k = rank + usize::from(biased);
        let unit = if biased { towards_one(spread, NEAR) } else { 1.0 };
        let prior = moments(point, biases, counts, mode, k).prior(unit)?;
        Some(Known { mode, level, rank, k, prior, covariances: Vec::new(), unit })
    }

    fn covariance(&self, row: usize) -> Option<&[f32]> {
        let length = triangle_len(self.k);
        self.covariances.get(row * length..(row + 1) * length)
    }
}

/// The fit on its way from sweep to sweep.
pub struct RowsFit<'a> {
    team: Team,
    mode_order: &'a [usize],
    counts: &'a Counts,
    known: [Known; 2],
    /// Further modes; their covariances are not kept.
    others: Vec<Known>,
    /// In how many more sweeps they are fitted.
    others_left: usize,
    /// The variance of the noise.
    noise: f64,
    /// The standard deviation of the values, or about that much.
    spread: f64,
    /// Below and above which values say only that much.
    thresholds: Option<(f64, f64)>,
    /// Memory for sums.
    room: u64,
}

/// Bytes that the covariances of so many rows take, with biases.
pub fn covariance_bytes(rows: u64, rank: usize) -> u64 {
    rows * (triangle_len(rank + 1) * size_of::<f32>()) as u64
}

impl<'a> RowsFit<'a> {
    /// From a model in its own factors: the rows of the two modes `main` as they are, `noise` its mean
    /// squared error on the train entries, `spread` the standard deviation of their values. Sums take about `room` bytes, in more passes where that is
    /// little. `None` where the model is not finite.
    pub fn new(
        team: Team,
        mode_order: &'a [usize],
        counts: &'a Counts,
        main: [usize; 2],
        point: &Point,
        biases: Option<&Biases>,
        noise: f64,
        spread: f64,
        room: u64,
    ) -> Option<Self> {
        let known = |mode: usize| Known::of(mode, mode_order, counts, point, biases, spread);
        let known = [known(main[0])?, known(main[1])?];
        let noise = if noise.is_finite() { noise.max(f64::MIN_POSITIVE) } else { return None };
        Some(RowsFit {
            team,
            mode_order,
            counts,
            known,
            others: Vec::new(),
            others_left: 0,
            noise,
            spread,
            thresholds: None,
            room,
        })
    }

    /// The next sweeps fit the rows of these modes, too: of those that the model has at present. `false`
    /// where they are not finite, and none are.
    pub fn fit_others(&mut self, modes: &[usize], point: &Point, biases: Option<&Biases>) -> bool {
        let (order, counts, spread) = (self.mode_order, self.counts, self.spread);
        let known = |&mode: &usize| Known::of(mode, order, counts, point, biases, spread);
        let others: Option<Vec<Known>> = modes.iter().map(known).collect();
        self.others = others.unwrap_or_default();
        self.others_left = OTHERS;
        self.others.len() == modes.len()
    }

    /// From now on a value of at most the first, or at least the second, says only that.
    pub fn censor(&mut self, thresholds: (f64, f64)) {
        self.thresholds = Some(thresholds);
    }

    /// What values at the ends say at present; `None` where they are what they are.
    pub fn ends(&self) -> Option<Ends> {
        self.thresholds.map(|(below, above)| Ends { below, above, noise: self.noise.sqrt() })
    }

    /// Fits the rows of both modes, and of the others that were asked for. Returns how many passes that
    /// took; `None` where a number is not finite, and the model must not be used.
    pub fn sweep(
        &mut self,
        train: &Stream,
        exchange: &Exchange,
        point: &mut Point,
        biases: &mut Option<Biases>,
    ) -> Result<Option<usize>> {
        let mut passes = 0;
        for which in 0..2 {
            match self.fit(which, train, exchange, point, biases)? {
                Some(made) => passes += made,
                None => return Ok(None),
            }
        }
        // The main mode of more rows is the less certain: what is known of it goes in.
        let rows = |which: usize| point.factors[self.known[which].mode].rows();
        let place = usize::from(rows(0) >= rows(1));
        let others = if self.others_left > 0 { self.others.len() } else { 0 };
        self.others_left = self.others_left.saturating_sub(1);
        for other in 0..others {
            let noise = self.noise;
            std::mem::swap(&mut self.known[place], &mut self.others[other]);
            let made = self.fit(place, train, exchange, point, biases);
            std::mem::swap(&mut self.known[place], &mut self.others[other]);
            self.others[other].covariances = Vec::new();
            // That of the main modes has what is uncertain about both in it.
            self.noise = noise;
            match made? {
                Some(made) => passes += made,
                None => return Ok(None),
            }
        }
        Ok(Some(passes))
    }

    /// Fits the rows of one of the two modes.
    fn fit(
        &mut self,
        which: usize,
        train: &Stream,
        exchange: &Exchange,
        point: &mut Point,
        biases: &mut Option<Biases>,
    ) -> Result<Option<usize>> {
        let Known { mode, level, rank, k, unit, .. } = self.known[which];
        let dim = point.factors[mode].rows();
        let (length, stride) = (triangle_len(k), sums::width(k));
        let mut covariances = std::mem::take(&mut self.known[which].covariances);
        covariances.resize(dim * length, 0.0);
        let mut total = Moments::new(k);
        let batch = self.batch(level, stride, train.lanes().len());
        let (mut begin, mut passes) = (0, 0);
        while begin < dim {
            let rows = begin..dim.min(begin + batch);
            let sums = sums::sums(self, which, rows.clone(), (train, exchange), point, biases.as_ref())?;
            // Batches of the first level skip what is not theirs: together they are one pass.
            passes += usize::from(level > 0 || begin == 0);
            let weights = &self.counts.modes[mode][rows.clone()];
            let mut means = vec![0.0; rows.len() * k];
            let (prior, noise) = (&self.known[which].prior, self.noise / self.counts.per_weight);
            let chunks: Vec<Option<Moments>> = means
                .par_chunks_mut(CHUNK * k)
                .zip(covariances[rows.start * length..rows.end * length].par_chunks_mut(CHUNK * length))
                .zip(sums.par_chunks(CHUNK * stride).zip(weights.par_chunks(CHUNK)))
                .map(|((means, covariances), (sums, weights))| {
                    fit_chunk(prior, noise, sums, weights, means, covariances, (rank, unit))
                })
                .collect();
            for chunk in chunks {
                match chunk {
                    Some(chunk) => total.add(&chunk),
                    None => return Ok(None),
                }
            }
            let factor = &mut point.factors[mode];
            let (own, mut bias) = (factor.own(), biases.as_mut().map(|biases| &mut biases.modes[mode]));
            for (index, mean) in rows.clone().zip(means.chunks_exact(k)) {
                if own.contains(&index) {
                    factor.row_mut(index).copy_from_slice(&mean[..rank]);
                }
                if let Some(bias) = bias.as_mut().and_then(|bias| bias.get_mut(index)) {
                    *bias = mean[rank];
                }
            }
            begin = rows.end;
        }
        let known = &mut self.known[which];
        known.covariances = covariances;
        let Some(prior) = total.prior(unit) else { return Ok(None) };
        known.prior = prior;
        self.noise = (total.squares / total.weight).max(f64::MIN_POSITIVE);
        Ok(self.noise.is_finite().then_some(passes))
    }

    /// How many rows there is room for at a time: whole chunks.
    fn batch(&self, level: usize, stride: usize, lanes: usize) -> usize {
        let lanes = match self.team.is_alone() {
            // Of the first level all lanes together have the rows once.
            _ if level == 0 => 1,
            true => rayon::current_num_threads().min(lanes),
            false => lanes,
        };
        let row = ((1 + lanes) * stride * 8) as u64;
        ((self.room / row) as usize / CHUNK).max(1) * CHUNK
    }
}

/// Fits a chunk of rows, of so many numbers, and their biases times a unit where they are kept; those without
/// entries become zero. `None` where a number is not finite.
fn fit_chunk(
    prior: &RowPrior,
    noise: f64,
    sums: &[f64],
    weights: &[f64],
    means: &mut [f64],
    covariances: &mut [f32],
    (rank, unit): (usize, f64),
) -> Option<Moments> {
    let k = prior.mean.len();
    let (length, mut room) = (triangle_len(k), RowScratch::new(k));
    let mut found = Moments::new(k);
    let mut covariance = vec![0.0; length];
    let rows = means.chunks_exact_mut(k).zip(covariances.chunks_exact_mut(length));
    for ((mean, kept), (sums, &weight)) in rows.zip(sums.chunks_exact(sums::width(k)).zip(weights)) {
        if weight == 0.0 {
            kept.fill(0.0);
            continue;
        }
        let (a, rest) = sums.split_at(length);
        let (b, squares) = rest.split_at(k);
        if !row_posterior(prior, noise, a, b, &mut room, mean, &mut covariance) {
            return None;
        }
        found.rows += 1.0;
        found.weight += weight;
        found.squares += squares[0];
        for i in 0..k {
            found.mean[i] += mean[i];
            found.squares -= 2.0 * mean[i] * b[i];
            for j in 0..=i {
                let at = triangle_len(i) + j;
                let second = mean[i] * mean[j] + covariance[at];
                found.second[at] += second;
                found.squares += if i == j { 1.0 } else { 2.0 } * a[at] * second;
            }
        }
        // The last row of the padded triangle is that of the bias, where there is one.
        if k > rank && unit != 1.0 {
            covariance[triangle_len(rank)..].iter_mut().for_each(|of_bias| *of_bias *= unit);
            covariance[triangle_len(rank) + rank] *= unit;
        }
        kept.iter_mut().zip(&covariance).for_each(|(to, from)| *to = *from as f32);
    }
    Some(found)
}

/// The moments of the rows as they are, those without entries left out.
fn moments(point: &Point, biases: Option<&Biases>, counts: &Counts, mode: usize, k: usize) -> Moments {
    let factor = &point.factors[mode];
    // One column more, of ones, so that one product has means and covariances, whoever owns the rows.
    let mut rows = factor.zeros_like(k + 1);
    let rank = factor.rank();
    for index in rows.own().filter(|&index| counts.modes[mode][index] > 0.0) {
        let row = rows.row_mut(index);
        row[..rank].copy_from_slice(factor.row(index));
        if let Some(biases) = biases.filter(|_| k > rank) {
            row[rank] = biases.modes[mode][index];
        }
        row[k] = 1.0;
    }
    let gram = rows.gram(&rows);
    let mut found = Moments::new(k);
    found.rows = gram[(k, k)];
    for i in 0..k {
        found.mean[i] = gram[(k, i)];
        (0..=i).for_each(|j| found.second[triangle_len(i) + j] = gram[(i, j)]);
    }
    found
}
