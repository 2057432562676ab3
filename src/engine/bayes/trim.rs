//! Fewer components, where validation is better without some; and whether more of them may pay.
//!
//! A prior that is learned makes components that explain nothing small, but slowly: the evidence hardly tells a small
//! one from none. Where rows have few entries beside their numbers, what is left of them costs more than it explains.

use super::level::{Level, Prior};
use super::offsets::offset;
use super::row::start;
use super::shape::Segment;
use super::sweeps::Fit;
use crate::error::{Error, Result};
use crate::model::Clip;
use crate::reduce::sum_in_order;
use crate::stream::Stream;

impl Fit {
    /// Drops the least components of the first pair where the validation entries are told better without them, by
    /// this share of the MSE. Returns how many are left where any was dropped, and by what share it is better. A pass over
    /// validation.
    pub(super) fn trim(&mut self, validation: &Stream, worth: f64) -> Result<Option<(usize, f64)>> {
        self.turn()?;
        let squares = self.squares_by_components(validation)?;
        let count = squares.len().saturating_sub(1);
        let Some(least) = (1..=count).min_by(|&m, &n| squares[m].total_cmp(&squares[n])) else {
            return Ok(None);
        };
        // As few as nearly as good. Where no validation entry has both its rows in train, as behind a split by time, nothing
        // is told (0 / 0).
        let gain = 1.0 - squares[least] / squares[count];
        if gain.is_nan() || gain <= worth {
            return Ok(None);
        }
        self.shrink(least)?;
        Ok(Some((least, gain)))
    }

    /// The squares of what is left of the validation entries without any component of the first pair, with the first, with
    /// the first two and so on, which are the largest when they were turned. Nothing where there are other components. A
    /// pass over validation.
    pub(super) fn squares_by_components(&self, validation: &Stream) -> Result<Vec<f64>> {
        let [a, b] = self.terms.pair;
        let (posterior, terms) = (&self.posterior, &self.terms);
        let [segment] = &posterior.shape.segments[..] else { return Ok(Vec::new()) };
        if segment.levels != [a, b] {
            return Ok(Vec::new());
        }
        let (count, first) = (segment.count, &segment.first);
        let clip = terms.range.map(|range| Clip::new(range, self.model_ends()));
        let said = |x: f64| clip.map_or(x, |clip| clip.of(x));
        let lanes = self.residuals(
            validation,
            &[a, b],
            || vec![0.0; count + 1],
            |squares, indices, left| {
                let p = &posterior.levels[a].mean(indices[a] as usize)[first[0]..][..count];
                let q = &posterior.levels[b].mean(indices[b] as usize)[first[1]..][..count];
                // What is left of the value beside all components, in its own unit; then one after the other goes.
                let levels = posterior.levels.iter().zip(indices);
                let biases: f64 = levels.map(|(level, &i)| level.mean(i as usize)[level.width - 1]).sum();
                let biases = biases + offset(&posterior.tables, indices, posterior.noise).0;
                let products: f64 = p.iter().zip(q).map(|(p, q)| p * q).sum();
                let mut sum = biases + products;
                let of = |sum: f64| said(terms.mean + terms.spread * sum) / terms.spread;
                let value = left + of(sum);
                for n in (0..=count).rev() {
                    squares[n] += (value - of(sum)).powi(2);
                    if n > 0 {
                        sum -= p[n - 1] * q[n - 1];
                    }
                }
            },
        )?;
        let mut squares = vec![0.0; count + 1];
        sum_in_order(validation.team(), &mut squares, lanes.iter().map(|lane| (0, lane.as_slice())));
        Ok(squares)
    }

    /// Keeps the first components of the first pair, which are the largest when they were turned.
    pub(super) fn shrink(&mut self, to: usize) -> Result<()> {
        let Segment { levels, first, count } = self.posterior.shape.segments[0].clone();
        for (&level, first) in levels.iter().zip(first) {
            let (shape, gone) = (&mut self.posterior.shape, first + to..first + count);
            let kept: Vec<usize> = (0..shape.widths[level]).filter(|column| !gone.contains(column)).collect();
            self.posterior.levels[level].keep(&kept)?;
            shape.widths[level] = kept.len();
            for segment in &mut shape.segments[1..] {
                let behind = segment.position(level).filter(|&at| segment.first[at] >= gone.end);
                behind.into_iter().for_each(|at| segment.first[at] -= gone.len());
            }
        }
        self.posterior.shape.segments[0].count = to;
        self.posterior.reset()
    }

    /// How many components the first pair, and each of some further pairs, may have where modes have no more than these
    /// ranks: all as many as there is room for. `None` where there is room for none.
    pub(super) fn room_for(&self, pairs: &[[usize; 2]], ranks: &[usize]) -> Option<(usize, Vec<usize>)> {
        let (shape, first) = (&self.posterior.shape, self.terms.pair);
        let own = shape.segments.first().filter(|segment| segment.levels == first)?.count;
        let all = || pairs.iter().chain([&first]);
        let share = |level: usize| {
            let of = all().filter(|pair| pair.contains(&level)).count();
            // The columns that are there beside those of the first pair, and a constant one for what leaves the mode out.
            let others = shape.widths[level] - 1 - if first.contains(&level) { own } else { 0 };
            let constant = usize::from(
                shape.segments[1..].iter().any(|s| s.position(level).is_none()) || of < pairs.len() + 1,
            );
            ranks[self.terms.mode_order[level]].saturating_sub(others + constant) / of.max(1)
        };
        let count = |pair: &[usize; 2]| pair.iter().map(|&level| share(level)).min().unwrap_or(0);
        let counts: Vec<usize> = pairs.iter().map(count).collect();
        let kept = count(&first).min(own);
        (kept > 0 && !counts.contains(&0)).then_some((kept, counts))
    }
}

impl Level {
    /// Keeps some columns of every row.
    fn keep(&mut self, columns: &[usize]) -> Result<()> {
        let (k, n) = (self.width, self.features.count());
        let of = |row: &[f64]| columns.iter().map(|&c| row[c]).collect::<Vec<f64>>();
        let means = self.means.chunks_exact(k).flat_map(of).collect();
        let variances =
            self.variances.chunks_exact(k).flat_map(|row| columns.iter().map(|&c| row[c])).collect();
        let mut covariances = Vec::new();
        if !self.covariances.is_empty() {
            let stride = Level::covariance_numbers(columns.len());
            covariances = vec![0.0; self.rows * stride];
            for (row, to) in covariances.chunks_exact_mut(stride).enumerate() {
                let s = self.covariance(row);
                for (i, &a) in columns.iter().enumerate() {
                    (0..=i).for_each(|j| to[start(i) + j] = s[(a, columns[j])] as f32);
                }
            }
        }
        let b = columns.iter().flat_map(|&c| &self.prior.coefficients[c * n..][..n]).copied().collect();
        let v = columns.iter().flat_map(|&c| of(&self.prior.covariance[c * k..][..k])).collect();
        self.prior = Prior::of(b, v, self.prior.ridge).ok_or_else(|| Error::not_finite("a prior"))?;
        (self.means, self.variances, self.covariances) = (means, variances, covariances);
        self.width = columns.len();
        Ok(())
    }
}
