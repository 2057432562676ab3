//! The reference objective: entries in memory, every formula written out.

use std::convert::Infallible;

use super::objective::{Cost, LinearisedStep, Objective};
use crate::manifold::{Core, Point, Tangent};
use crate::rows::Rows;

/// A list of entries (coordinates and value) of a tensor of any order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Entries {
    /// D indices per entry, one entry after another.
    pub indices: Vec<u32>,
    /// One value per entry.
    pub values: Vec<f64>,
}

impl Entries {
    /// Adds an entry.
    pub fn push(&mut self, index: &[u32], value: f64) {
        self.indices.extend_from_slice(index);
        self.values.push(value);
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Every entry as (indices, value).
    fn iter(&self, order: usize) -> impl Iterator<Item = (&[u32], f64)> {
        self.indices.chunks_exact(order).zip(self.values.iter().copied())
    }
}

/// The mean squared residual over entries in memory, by the plain formulas: O(r_1 ... r_D) per
/// entry and mode, one thread. It is what faster objectives are compared with, and quite enough
/// for small data.
#[derive(Debug, Clone)]
pub struct InMemory {
    /// Omega: what is fitted.
    pub train: Entries,
    /// What validation measures; may be empty.
    pub validation: Entries,
}

impl InMemory {
    /// An objective over train entries, without validation entries.
    pub fn new(train: Entries) -> Self {
        InMemory { train, validation: Entries::default() }
    }

    /// The mean squared error of a point over any entries.
    pub fn mean_squared_error(point: &Point, entries: &Entries) -> f64 {
        let mut sum = 0.0;
        for (index, value) in entries.iter(point.order()) {
            let rows = gather(&point.factors, index);
            let residual = contract(&point.core, &rows) - value;
            sum += residual * residual;
        }
        sum / entries.len() as f64
    }
}

impl Objective for InMemory {
    type Error = Infallible;

    fn cost_and_gradient(&mut self, point: &Point, partials: &mut Tangent) -> Result<Cost, Infallible> {
        let order = point.order();
        let count = self.train.len() as f64;
        partials.fill(0.0);
        let (mut sum, mut absolute) = (0.0, 0.0);
        for (index, value) in self.train.iter(order) {
            let rows = gather(&point.factors, index);
            let residual = contract(&point.core, &rows) - value;
            sum += residual * residual;
            absolute += residual.abs();
            let s = 2.0 * residual / count;
            for mode in 0..order {
                let row = contract_all_but(&point.core, &rows, mode);
                let out = partials.factors[mode].row_mut(index[mode] as usize);
                for (o, x) in out.iter_mut().zip(row) {
                    *o += s * x;
                }
            }
            let mut digits = vec![0; order];
            for o in partials.core.as_mut_slice() {
                *o += s * (0..order).map(|d| rows[d][digits[d]]).product::<f64>();
                count_up(&mut digits, point.core.ranks());
            }
        }
        Ok(Cost::plain(sum / count, absolute / count))
    }

    fn step_sums(&mut self, point: &Point, direction: &Tangent) -> Result<LinearisedStep, Infallible> {
        let (mut slope, mut curvature) = (0.0, 0.0);
        for (index, value) in self.train.iter(point.order()) {
            let rows = gather(&point.factors, index);
            let along = gather(&direction.factors, index);
            let residual = contract(&point.core, &rows) - value;
            let mut change = contract(&direction.core, &rows);
            for mode in 0..point.order() {
                let row = contract_all_but(&point.core, &rows, mode);
                change += row.iter().zip(along[mode]).map(|(a, b)| a * b).sum::<f64>();
            }
            slope += residual * change;
            curvature += change * change;
        }
        let count = self.train.len() as f64;
        Ok(LinearisedStep { slope: slope / count, curvature: curvature / count })
    }

    fn line_polynomial(&mut self, point: &Point, direction: &Tangent) -> Result<Vec<f64>, Infallible> {
        let order = point.order();
        let mut sums = vec![0.0; 2 * (order + 1) + 1];
        for (index, value) in self.train.iter(order) {
            let rows = gather(&point.factors, index);
            let along = gather(&direction.factors, index);
            let mut residual = vec![0.0; order + 2];
            let mut digits = vec![0; order];
            let numbers = point.core.as_slice().iter().zip(direction.core.as_slice());
            for (&g, &xi) in numbers {
                // (g + s xi) (u_1 + s xi_1) ... (u_D + s xi_D)
                let mut product = vec![g, xi];
                for d in 0..order {
                    let (u, x) = (rows[d][digits[d]], along[d][digits[d]]);
                    product.push(0.0);
                    for k in (0..product.len()).rev() {
                        let below = if k > 0 { product[k - 1] } else { 0.0 };
                        product[k] = product[k] * u + below * x;
                    }
                }
                for (r, p) in residual.iter_mut().zip(product) {
                    *r += p;
                }
                count_up(&mut digits, point.core.ranks());
            }
            residual[0] -= value;
            for (i, a) in residual.iter().enumerate() {
                for (j, b) in residual.iter().enumerate() {
                    sums[i + j] += a * b;
                }
            }
        }
        let count = self.train.len() as f64;
        Ok(sums.into_iter().map(|s| s / count).collect())
    }

    fn validation(&mut self, point: &Point) -> Result<Option<f64>, Infallible> {
        let some = !self.validation.is_empty();
        Ok(some.then(|| InMemory::mean_squared_error(point, &self.validation)))
    }
}

/// The entry's row of each factor.
fn gather<'a>(factors: &'a [Rows], index: &[u32]) -> Vec<&'a [f64]> {
    let pairs = factors.iter().zip(index);
    pairs.map(|(u, &i)| u.row(i as usize)).collect()
}

/// core x_1 u_1 ... x_D u_D for one row per mode.
fn contract(core: &Core, rows: &[&[f64]]) -> f64 {
    let mut digits = vec![0; rows.len()];
    let mut sum = 0.0;
    for g in core.as_slice() {
        sum += g * (0..rows.len()).map(|d| rows[d][digits[d]]).product::<f64>();
        count_up(&mut digits, core.ranks());
    }
    sum
}

/// The same with mode d left open.
fn contract_all_but(core: &Core, rows: &[&[f64]], mode: usize) -> Vec<f64> {
    let mut digits = vec![0; rows.len()];
    let mut out = vec![0.0; core.ranks()[mode]];
    for g in core.as_slice() {
        let others = (0..rows.len()).filter(|&d| d != mode);
        out[digits[mode]] += g * others.map(|d| rows[d][digits[d]]).product::<f64>();
        count_up(&mut digits, core.ranks());
    }
    out
}

/// The next index of a core in row-major order.
fn count_up(digits: &mut [usize], ranks: &[usize]) {
    for d in (0..digits.len()).rev() {
        digits[d] += 1;
        if digits[d] < ranks[d] {
            return;
        }
        digits[d] = 0;
    }
}
