//! Components for what is left over: where validation residuals say that there is something.
//!
//! A model begins with components of two modes. What a third mode has to say shows in the residuals of entries
//! that the fit has not seen: if component a grows and shrinks with the row w of another level, the sums
//! D_w = sum of e p_a q_a over the row's entries vary more than noise makes them, which has the variance
//! sigma^2 N_w with N_w = sum of (p_a q_a)^2. What two modes have to do with each other is looked for in `cells`.

use super::both_ways::project;
use super::cells::{self, Alike};
use super::level::{Level, Prior, covariance_width};
use super::offsets::offset;
use super::row::{Turn, add_rows, start};
use super::shape::{EntryRows, Segment, Shape};
use super::sweeps::{Data, Fit, Posterior};
use super::weighted::orthonormal;
use crate::MAX_ORDER;
use crate::error::{Error, Result};
use crate::kernel::vectorised;
use crate::manifold::Distribution;
use crate::model::Clip;
use crate::reduce::{own_lanes, sum_in_order};
use crate::rows::Square;
use crate::stream::Stream;
use rand::SeedableRng;
use rand_pcg::Pcg64;
use rayon::prelude::*;

// What other values do: docs/thresholds.md.
/// A sum must be so many standard deviations above what noise makes of it.
const SURE: f64 = 5.0;
/// Where one component is sure to change with a mode, so many will do for the others.
const LIKELY: f64 = 3.0;
/// And explain this share of the noise, or it is not worth the passes.
const WORTH: f64 = 1e-3;
/// Variances and the size of new rows, values having the variance 1.
const NEW_PRIOR: (f64, f64) = (0.3, 0.01);
const NEW_ROWS: f64 = 0.1;

/// What the residuals of validation entries say of a change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evidence {
    /// How many standard deviations it is away from chance.
    pub sigmas: f64,
    /// The share of the noise that it may explain.
    pub share: f64,
}

impl Evidence {
    /// Whether a change is worth to be tried.
    pub fn is_enough(&self) -> bool {
        self.sigmas > SURE && self.share > WORTH
    }
}

impl Fit {
    /// What is left of every validation entry whose rows of some levels have train entries, in units of the values'
    /// standard deviation: `each(lane's state, indices, residual)`. Rows of other levels may have none, as days behind a
    /// split by time have: they count as zero.
    pub(super) fn residuals<T: Send>(
        &self,
        validation: &Stream,
        known: &[usize],
        state: impl Fn() -> T + Sync,
        each: impl Fn(&mut T, &[u32], f64) + Sync + Send,
    ) -> Result<Vec<T>> {
        let (posterior, terms) = (&self.posterior, &self.terms);
        let clip = terms.range.map(|range| Clip::new(range, self.model_ends()));
        own_lanes(validation, |lane| {
            let mut state = state();
            validation.for_each(lane, |block| {
                block.for_each_weighted(|indices, value, weight| {
                    let seen = |&level: &usize| posterior.levels[level].counts[indices[level] as usize] > 0.0;
                    if weight <= 0.0 || !known.iter().all(seen) {
                        return;
                    }
                    let mut rows: EntryRows<'_> = [&[]; MAX_ORDER];
                    for (row, (level, &index)) in rows.iter_mut().zip(posterior.levels.iter().zip(indices)) {
                        *row = level.mean(index as usize);
                    }
                    let (offset, _) = offset(&posterior.tables, indices, posterior.noise);
                    let said = terms.mean + terms.spread * (posterior.shape.value(&rows) + offset);
                    let said = clip.map_or(said, |clip| clip.of(said));
                    each(&mut state, indices, (value - said) / terms.spread);
                });
                Ok(())
            })?;
            Ok(state)
        })
    }

    /// What is left of a train entry, in units of the values' standard deviation.
    pub(super) fn left(&self, value: f64, indices: &[u32]) -> f64 {
        let (posterior, terms) = (&self.posterior, &self.terms);
        let mut rows: EntryRows<'_> = [&[]; MAX_ORDER];
        for (row, (level, &index)) in rows.iter_mut().zip(posterior.levels.iter().zip(indices)) {
            *row = level.mean(index as usize);
        }
        let said = posterior.shape.value(&rows) + offset(&posterior.tables, indices, posterior.noise).0;
        let value = (value - terms.mean) / terms.spread;
        let latent = self.ends().filter(|ends| ends.hold(value)).map(|ends| ends.latent(value, said).0);
        latent.unwrap_or(value) - said
    }

    /// Which components of the first pair change with the rows of another level. A pass over validation.
    pub fn components_that_change(
        &self,
        validation: &Stream,
        level: usize,
    ) -> Result<(Vec<usize>, Evidence)> {
        let nothing = Evidence { sigmas: 0.0, share: 0.0 };
        let Some(segment) = self.posterior.shape.first_pair(self.terms.pair) else {
            return Ok((Vec::new(), nothing));
        };
        let (rows, count) = (self.posterior.levels[level].rows, segment.count);
        let (one, two) = (segment.levels[0], segment.levels[1]);
        let levels = &self.posterior.levels;
        let lanes = self.residuals(
            validation,
            &[one, two, level],
            || vec![[0.0; 2]; rows * count + 1],
            |sums, indices, e| {
                let p = &levels[one].mean(indices[one] as usize)[segment.first[0]..][..count];
                let q = &levels[two].mean(indices[two] as usize)[segment.first[1]..][..count];
                let to = &mut sums[indices[level] as usize * count..][..count];
                for ((to, p), q) in to.iter_mut().zip(p).zip(q) {
                    to[0] += e * p * q;
                    to[1] += p * p * q * q;
                }
                sums[rows * count][0] += e * e;
                sums[rows * count][1] += 1.0;
            },
        )?;
        let mut total = vec![0.0; 2 * (rows * count + 1)];
        sum_in_order(validation.team(), &mut total, lanes.iter().map(|lane| (0, lane.as_flattened())));
        let sums = total.as_chunks::<2>().0;
        let [squares, entries] = sums[rows * count];
        let noise = squares / entries.max(1.0);
        let (mut chosen, mut sure, mut share) = (Vec::new(), 0.0f64, 0.0);
        for a in 0..count {
            let column = || (0..rows).map(|row| sums[row * count + a]);
            let (d, n) = column().fold((0.0, 0.0), |(d, n), [x, y]| (d + x, n + y));
            let mean = if n > 0.0 { d / n } else { 0.0 };
            let (mut more, mut squares) = (0.0, 0.0);
            column().for_each(|[d, n]| {
                more += (d - mean * n).powi(2) - noise * n;
                squares += n * n;
            });
            let sigmas = more / (noise * (2.0 * squares).sqrt()).max(f64::MIN_POSITIVE);
            if sigmas > LIKELY {
                chosen.push(a);
                sure = sure.max(sigmas);
                share += more / squares * n / (entries * noise);
            }
        }
        Ok((chosen, Evidence { sigmas: sure, share }))
    }

    /// Whether residuals of entries that share their rows of two levels are alike, for some pairs. A pass over
    /// validation.
    pub fn pairs_that_are_left(&self, validation: &Stream, pairs: &[[usize; 2]]) -> Result<Vec<Evidence>> {
        let order = self.posterior.levels.len();
        let cells = Alike::new(validation, order, pairs.to_vec());
        let all: Vec<usize> = (0..order).collect();
        let lanes =
            self.residuals(validation, &all, || cells.lane(), |lane, at, e| cells.add(lane, at, e))?;
        Ok(cells.evidence(validation, lanes))
    }

    /// Turns the components of the first pair so that the rows of its first mode have unit second moments, and
    /// those of the other are uncorrelated, all over entries. The value of no entry changes; but the columns of
    /// the second mode's rows are nearly independent then, given the entries, as they are taken to be, and
    /// components have a meaning of their own.
    pub fn turn(&mut self) -> Result<()> {
        let [a, b] = self.terms.pair;
        let posterior = &mut self.posterior;
        let Some(Segment { first, count: r, .. }) = posterior.shape.first_pair([a, b]) else { return Ok(()) };
        // M = R^T R, so that R^-T p has unit moments.
        let own = posterior.levels[a].second_moments(first[0], r);
        let Some(upper) = own.cholesky() else { return Ok(()) };
        let inverse = upper.upper_inverse();
        let gram = upper.transpose().congruence(&posterior.levels[b].second_moments(first[1], r));
        let (_, vectors) = gram.symmetric_eigen().ok_or_else(|| Error::not_finite("a row"))?;
        // The largest first. p -> U^T R^-T p, q -> U^T R q.
        let turn = Square::from_fn(r, |i, j| vectors[(j, r - 1 - i)]);
        let of_first = turn.times(&inverse.transpose());
        let of_second = turn.times(&upper);
        posterior.levels[a].multiply(first[0], &of_first)?;
        posterior.levels[b].multiply(first[1], &of_second)
    }

    /// Lets components of the first pair change with the rows of another level: their products have a third
    /// factor, which begins at 1.
    pub fn extend(&mut self, level: usize, chosen: &[usize]) -> Result<()> {
        let posterior = &mut self.posterior;
        let Segment { levels, first, count } = posterior.shape.segments[0].clone();
        let mut order: Vec<usize> = (0..count).filter(|n| !chosen.contains(n)).collect();
        order.extend_from_slice(chosen);
        let turn = Square::from_fn(count, |i, j| f64::from(u8::from(order[i] == j)));
        for (&level, &first) in levels.iter().zip(&first) {
            posterior.levels[level].multiply(first, &turn)?;
        }
        let kept = count - chosen.len();
        posterior.shape.segments[0].count = kept;
        let at = posterior.shape.widths[level] - 1;
        posterior.levels[level].widen(chosen.len(), 1.0, |_, _| 1.0, NEW_PRIOR.1)?;
        posterior.shape.widths[level] += chosen.len();
        let (mut levels, mut first): (Vec<usize>, Vec<usize>) =
            (levels, first.iter().map(|first| first + kept).collect());
        let place = levels.iter().position(|&other| other > level).unwrap_or(levels.len());
        levels.insert(place, level);
        first.insert(place, at);
        posterior.shape.segments.push(Segment { levels, first, count: chosen.len() });
        if kept == 0 {
            posterior.shape.segments.remove(0);
        }
        posterior.reset()
    }

    /// Adds components of some sets of levels, so many of each. Rows of the first level are found by the next pass;
    /// those of the others are small: of a pair, in the directions that residuals have in common, else random. Returns
    /// how many passes that took.
    pub fn add(&mut self, data: &Data<'_>, sets: &[(Vec<usize>, usize)], seed: u64) -> Result<usize> {
        let pair_of = |levels: &[usize]| if let [a, b] = *levels { Some([a, b]) } else { None };
        let pairs: Vec<[usize; 2]> = sets.iter().filter_map(|(levels, _)| pair_of(levels)).collect();
        let rows = self.posterior.rows();
        let left = |value: f64, indices: &[u32]| self.left(value, indices);
        let counts: Vec<Vec<f64>> = self.posterior.levels.iter().map(|level| level.counts.clone()).collect();
        let mut tables = cells::tables(data, &rows, &pairs, &left)?.into_iter();
        let mut passes = usize::from(tables.as_slice().iter().any(Option::is_some));
        let mut first = Vec::new();
        for (levels, count) in sets {
            first.push(match (pair_of(levels), *count) {
                (None, _) => None,
                (Some([a, b]), d) => match tables.next().flatten() {
                    Some(table) => Some(cells::directions(&table, [&counts[a], &counts[b]], d, seed)?),
                    None => {
                        let source = (data.train, data.slices);
                        let (_, rows, made) = project(source, &counts, [a, b], d, &left, 2, seed)?;
                        passes += made;
                        Some(orthonormal(rows, &counts[b], d)?)
                    }
                },
            });
        }
        for ((levels, count), first) in sets.iter().zip(first) {
            self.widen(levels, *count, first.as_deref(), seed)?;
        }
        self.posterior.reset()?;
        Ok(passes)
    }

    /// More components of the first pair, where it has all that there are. Returns how many passes that took.
    pub(super) fn more(&mut self, data: &Data<'_>, count: usize, seed: u64) -> Result<usize> {
        let passes = self.add(data, &[(self.terms.pair.to_vec(), count)], seed)?;
        // Their columns stand behind those of the others.
        self.posterior.shape.segments.pop();
        self.posterior.shape.segments[0].count += count;
        self.posterior.reset()?;
        Ok(passes)
    }

    fn widen(&mut self, levels: &[usize], count: usize, first: Option<&[f64]>, seed: u64) -> Result<()> {
        let posterior = &mut self.posterior;
        for (place, &level) in levels.iter().enumerate() {
            let mut random = Pcg64::seed_from_u64(seed.wrapping_add(level as u64));
            let variance = if place == 0 { NEW_PRIOR.0 } else { NEW_PRIOR.1 };
            let draw = |row: usize, column: usize| match first {
                _ if place == 0 => 0.0,
                Some(first) => NEW_ROWS * first[row * count + column],
                None => NEW_ROWS * Distribution::Gaussian.draw(&mut random),
            };
            posterior.levels[level].widen(count, 0.0, draw, variance)?;
        }
        posterior.shape.add(levels, count);
        Ok(())
    }
}

impl Posterior {
    /// What belongs to another shape is dropped.
    pub(super) fn reset(&mut self) -> Result<()> {
        self.sums = Vec::new();
        self.shape.check(self.levels.len())
    }
}

impl Level {
    /// The mean over entries of m m^T + S, for some columns.
    fn second_moments(&self, first: usize, r: usize) -> Square {
        let mut sum = Square::zeros(r);
        let mut weight = 0.0;
        for (row, &n) in self.counts.iter().enumerate().filter(|(_, n)| **n > 0.0) {
            let (m, s) = (&self.mean(row)[first..][..r], &self.variance(row)[first..][..r]);
            weight += n;
            for i in 0..r {
                (0..=i).for_each(|j| sum[(i, j)] += n * m[i] * m[j]);
                sum[(i, i)] += n * f64::from(s[i]);
            }
            if !self.covariances.is_empty() {
                let s = self.covariance(row);
                (0..r).for_each(|i| (0..i).for_each(|j| sum[(i, j)] += n * s[(first + i, first + j)]));
            }
        }
        Square::from_fn(r, |i, j| sum[(i.max(j), i.min(j))] / weight)
    }

    /// Multiplies some columns of every row by a matrix: row -> M row, and the prior with it.
    fn multiply(&mut self, first: usize, m: &Square) -> Result<()> {
        let (k, r, n) = (self.width, m.size(), self.features.count());
        let (mut new, mut wide) = (vec![0.0; r], vec![0.0; r]);
        // Identity but for some columns.
        let whole = |i: usize, j: usize| {
            let inside = |x: usize| (first..first + r).contains(&x);
            if inside(i) && inside(j) { m[(i - first, j - first)] } else { f64::from(u8::from(i == j)) }
        };
        if !self.covariances.is_empty() {
            let turn = Turn::new(k, whole);
            let wide = self.covariance_width();
            let rows = self.covariances.par_chunks_mut(wide).zip(self.variances.par_chunks_mut(k));
            rows.for_each_init(
                || vec![0.0; 2 * k * k],
                |room, (covariance, variances)| {
                    vectorised(
                        #[inline(always)]
                        || turn.of(covariance, room),
                    );
                    (0..k).for_each(|i| variances[i] = covariance[start(i) + i]);
                },
            );
        }
        let independent = self.covariances.is_empty();
        // M^T, so that a product is a sum of rows; and its squares.
        let turned: Vec<f64> = (0..r * r).map(|n| m[(n % r, n / r)]).collect();
        let squares: Vec<f64> = turned.iter().map(|x| x * x).collect();
        let rows = self.means.chunks_exact_mut(k).zip(self.variances.chunks_exact_mut(k));
        vectorised(
            #[inline(always)]
            || {
                for (mean, variance) in rows {
                    let (mean, variance) = (&mut mean[first..][..r], &mut variance[first..][..r]);
                    new.fill(0.0);
                    add_rows(mean, &turned, &mut new);
                    mean.copy_from_slice(&new);
                    if independent {
                        wide.iter_mut().zip(&*variance).for_each(|(to, s)| *to = f64::from(*s));
                        new.fill(0.0);
                        add_rows(&wide, &squares, &mut new);
                        variance.iter_mut().zip(&new).for_each(|(to, new)| *to = *new as f32);
                    }
                }
            },
        );
        // The same on the left of B, and on both sides of V.
        let times = |matrix: &[f64], columns: usize| -> Vec<f64> {
            let mut to = vec![0.0; k * columns];
            for i in 0..k {
                for j in 0..k {
                    let x = whole(i, j);
                    (0..columns).for_each(|c| to[i * columns + c] += x * matrix[j * columns + c]);
                }
            }
            to
        };
        let b = times(&self.prior.coefficients, n);
        let half = times(&self.prior.covariance, k);
        let transposed: Vec<f64> = (0..k * k).map(|at| half[at % k * k + at / k]).collect();
        let v = times(&transposed, k);
        self.prior = Prior::of(b, v, self.prior.ridge).ok_or_else(|| Error::not_finite("a prior"))?;
        Ok(())
    }

    /// Puts new columns before the bias: rows by `draw`, a prior of this mean and variance.
    fn widen(
        &mut self,
        count: usize,
        mean: f64,
        mut draw: impl FnMut(usize, usize) -> f64,
        variance: f64,
    ) -> Result<()> {
        let (k, n) = (self.width, self.features.count());
        let wide = k + count;
        let mut means = Vec::with_capacity(self.rows * wide);
        let mut variances = Vec::with_capacity(self.rows * wide);
        for (row, (m, s)) in self.means.chunks_exact(k).zip(self.variances.chunks_exact(k)).enumerate() {
            let known = self.counts[row] > 0.0;
            means.extend_from_slice(&m[..k - 1]);
            means.extend((0..count).map(|column| {
                let drawn = draw(row, column);
                if known { drawn } else { mean }
            }));
            means.push(m[k - 1]);
            variances.extend_from_slice(&s[..k - 1]);
            variances.extend((0..count).map(|_| 0.0f32));
            variances.push(s[k - 1]);
        }
        let old = |i: usize| if i < k - 1 { Some(i) } else { (i == wide - 1).then_some(k - 1) };
        let mut b = vec![0.0; wide * n];
        let mut v = vec![0.0; wide * wide];
        for i in 0..wide {
            match old(i) {
                Some(from) => b[i * n..][..n].copy_from_slice(&self.prior.coefficients[from * n..][..n]),
                None => b[i * n] = mean,
            }
            for j in 0..wide {
                v[i * wide + j] = match (old(i), old(j)) {
                    (Some(a), Some(b)) => self.prior.covariance[a * k + b],
                    (None, None) if i == j => variance,
                    _ => 0.0,
                };
            }
        }
        let mut covariances = Vec::new();
        if !self.covariances.is_empty() {
            let stride = covariance_width(wide);
            covariances = vec![0.0; self.rows * stride];
            for (row, to) in covariances.chunks_exact_mut(stride).enumerate() {
                let s = self.covariance(row);
                let both = |i: usize, j: usize| Some(s[(old(i)?, old(j)?)]);
                (0..wide)
                    .for_each(|i| (0..=i).for_each(|j| to[start(i) + j] = both(i, j).unwrap_or(0.0) as f32));
            }
        }
        self.covariances = covariances;
        (self.means, self.variances, self.width) = (means, variances, wide);
        self.prior = Prior::of(b, v, self.prior.ridge).ok_or_else(|| Error::not_finite("a prior"))?;
        Ok(())
    }
}

impl Shape {
    /// What is left of the components of the first pair alone.
    fn first_pair(&self, pair: [usize; 2]) -> Option<Segment> {
        self.segments.first().filter(|segment| segment.levels == pair).cloned()
    }
}
