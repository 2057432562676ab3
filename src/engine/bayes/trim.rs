//! Fewer components, where validation is better without some.
//!
//! A prior that is learned makes components that explain nothing small, but slowly: the evidence hardly tells a small
//! one from none. Where rows have few entries beside their numbers, what is left of them costs more than it explains.

use super::level::{Level, Prior};
use super::offsets::offset;
use super::row::start;
use super::sweeps::Fit;
use crate::error::{Error, Result};
use crate::model::Clip;
use crate::stream::Stream;

impl Fit {
    /// Drops the least components of the first pair where the validation entries are told better without them, by
    /// this share of the MSE. Returns whether any was dropped. A pass over validation.
    pub(super) fn trim(&mut self, validation: &Stream, worth: f64) -> Result<bool> {
        let [a, b] = self.terms.pair;
        let shape = &self.posterior.shape;
        let [segment] = &shape.segments[..] else { return Ok(false) };
        if segment.levels != [a, b] || segment.count < 2 {
            return Ok(false);
        }
        // The largest first.
        self.turn()?;
        let (posterior, terms) = (&self.posterior, &self.terms);
        let Some(segment) = posterior.shape.segments.first() else { return Ok(false) };
        let (count, first) = (segment.count, &segment.first);
        let clip = terms.range.map(|range| Clip::new(range, self.model_ends()));
        let said = |x: f64| clip.map_or(x, |clip| clip.of(x));
        let lanes = self.residuals(
            validation,
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
        validation.team().chain(&mut squares, |offset, to| {
            for lane in &lanes {
                to.iter_mut().zip(&lane[offset..]).for_each(|(to, from)| *to += from);
            }
        });
        let least = (1..=count).min_by(|&m, &n| squares[m].total_cmp(&squares[n])).unwrap_or(count);
        // As few as nearly as good.
        if squares[least] >= squares[count] * (1.0 - worth) {
            return Ok(false);
        }
        let first = first.clone();
        for (level, first) in [a, b].into_iter().zip(first) {
            let width = self.posterior.levels[level].width;
            let kept: Vec<usize> =
                (0..width).filter(|column| !(first + least..first + count).contains(column)).collect();
            self.posterior.levels[level].keep(&kept)?;
            self.posterior.shape.widths[level] = kept.len();
        }
        self.posterior.shape.segments[0].count = least;
        self.posterior.reset()?;
        Ok(true)
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
