//! Rows for ids from their entries alone, the factors of the other modes held.
//!
//! With everything but one row u (and its bias b) fixed, the model is linear in them: an entry is
//! worth c_e + b + <u, z_e>, where z_e is the core contracted with the other rows and c_e all other
//! biases. So a row is a ridge least-squares problem of its own. The ridge pulls towards what the
//! rows of the known ids look like: with their mean m and their covariance C = L L^T (of row and
//! bias together), (u, b) = m + L y, and y minimises
//!
//! sum over entries of (value - c_e - b - <u, z_e>)^2 + ridge * noise * |y|^2,
//!
//! which is the most probable row where rows are normally distributed and entries have that noise.
//! An id with few entries stays near the average id; one with many is what its entries say.
//!
//! Where values at the ends of the range say only so much ([`Ends`]), theirs is the mean of the latent value
//! behind them, given the row; the row follows from these, and so on until nothing moves: as in training.

use crate::MAX_ORDER;
use crate::model::{Ends, Model, Place, Places, TimeBias, contract};
use crate::rows::Square;
use crate::units::towards_one;
use rayon::prelude::*;

/// An entry of an id that is folded in, indices in the user's order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FoldEntry {
    /// The indices; those past the order are 0.
    pub at: [u32; MAX_ORDER],
    /// The value.
    pub value: f64,
    /// Whether it comes with the new entries, which replace older ones.
    pub new: bool,
}

/// What the rows of the known ids look like.
pub struct Prior {
    mode: usize,
    /// Mean of row and bias.
    mean: Vec<f64>,
    /// L, row-major, (r + 1) x (r + 1); the last row belongs to the bias.
    spread: Vec<f64>,
    /// ridge * noise.
    ridge: f64,
    /// Whether the mode has biases.
    biased: bool,
    /// Whether its rows are held: only the bias is free.
    held: bool,
    /// What values at the ends say.
    ends: Option<Ends>,
}

/// How often the latent values behind an id's values at the ends are found anew at most, and the change,
/// in standard deviations of the noise, at which that ends.
const ROUNDS: usize = 50;
const SETTLED: f64 = 1e-6;

/// Biases from a thousandth to a thousand are taken as they are.
const NEAR: i32 = 10;

/// The values of an id that are at the ends.
#[derive(Default)]
struct AtEnds {
    values: Vec<f64>,
    /// What the model says of them without the row's own part y, and how that changes with y.
    expected: Vec<f64>,
    along: Vec<f64>,
}

impl Prior {
    /// From the rows of `mode` that have train entries. The noise is the model's error on
    /// validation entries, or on train entries where there are none.
    pub fn new(model: &Model, mode: usize, ridge: f64) -> Self {
        let factor = &model.point.factors[mode];
        let biases = model.biases.as_ref().map(|biases| biases.modes[mode].as_slice());
        let biases = biases.filter(|biases| !biases.is_empty());
        let (rank, held) = (factor.rank(), model.is_held(mode));
        let width = rank + 1;
        let of = |index: usize, out: &mut [f64]| {
            out[..rank].copy_from_slice(factor.row(index));
            out[rank] = biases.map_or(0.0, |biases| biases[index]);
        };
        let known: Vec<usize> = (0..factor.rows()).filter(|&index| model.knows(mode, index as u32)).collect();
        let count = known.len().max(1) as f64;
        let (mut mean, mut row) = (vec![0.0; width], vec![0.0; width]);
        for &index in &known {
            of(index, &mut row);
            mean.iter_mut().zip(&row).for_each(|(sum, x)| *sum += x / count);
        }
        let mut covariance = Square::zeros(width);
        for &index in &known {
            of(index, &mut row);
            row.iter_mut().zip(&mean).for_each(|(x, mean)| *x -= mean);
            for i in 0..width {
                for j in 0..width {
                    covariance[(i, j)] += row[i] * row[j] / count;
                }
            }
        }
        // Biases have the unit of the values and rows have none: brought close to 1, or the eigenvalues of
        // the smaller ones would be noise beside those of the larger.
        let unit = towards_one(covariance[(rank, rank)].sqrt(), NEAR);
        let unit_of = |i: usize| if i == rank { unit } else { 1.0 };
        let covariance = Square::from_fn(width, |i, j| covariance[(i, j)] * unit_of(i) * unit_of(j));
        let spread = match covariance.symmetric_eigen() {
            Some((values, vectors)) => {
                let root = |j: usize| values[j].max(0.0).sqrt();
                Square::from_fn(width, |i, j| vectors[(i, j)] * root(j) / unit_of(i)).as_slice().to_vec()
            }
            None => vec![0.0; width * width],
        };
        let noise = model.about.validation_mse.unwrap_or(model.about.train_mse);
        let (ridge, ends) = (ridge * noise, model.about.ends);
        Prior { mode, mean, spread, ridge, biased: biases.is_some(), held, ends }
    }

    /// The bytes that an entry takes while its row is found.
    pub fn entry_bytes(&self) -> u64 {
        if self.ends.is_some() { ((self.mean.len() + 2) * size_of::<f64>()) as u64 } else { 0 }
    }

    /// The row and the bias of an id with these entries.
    pub fn solve(
        &self,
        model: &Model,
        places: &Places<'_>,
        first: u32,
        entries: &[FoldEntry],
    ) -> (Vec<f64>, f64) {
        let width = self.mean.len();
        let rank = width - 1;
        let order = model.point.order();
        let time = model.biases.as_ref().and_then(|biases| biases.time.as_ref());
        let mut normal = vec![0.0; width * width];
        let mut right = vec![0.0; width];
        let mut along = vec![0.0; width];
        let mut weights = vec![0.0; width];
        let mut at_ends = AtEnds::default();
        for entry in entries {
            let place = |mode: usize| places.settle(mode, Place::Index(entry.at[mode]));
            let mut rows: [Option<&[f64]>; MAX_ORDER] = [None; MAX_ORDER];
            let mut base = model.biases.as_ref().map_or(0.0, |biases| biases.mean);
            for mode in (0..order).filter(|mode| *mode != self.mode) {
                rows[mode] = places.row(mode, place(mode));
                base += places.bias(mode, place(mode));
            }
            if let Some(time) = time.filter(|time| time.of == self.mode) {
                let bucket = TimeBias::bucket(entry.at[time.clock].saturating_sub(first));
                base += time.values[bucket];
            } else if let Some(time) = time {
                base += places.time_bias(place(time.of), place(time.clock));
            }
            let z = contract(&model.point.core, &rows[..order], &[self.mode]);
            weights[..rank].copy_from_slice(&z);
            weights[rank] = f64::from(u8::from(self.biased));
            let expected: f64 = weights.iter().zip(&self.mean).map(|(w, m)| w * m).sum();
            let target = entry.value - base - expected;
            // A held row does not move: only its bias does.
            if self.held {
                weights[..rank].fill(0.0);
            }
            along.fill(0.0);
            for (&w, row) in weights.iter().zip(self.spread.chunks_exact(width)) {
                along.iter_mut().zip(row).for_each(|(a, l)| *a += w * l);
            }
            let latent = self.ends.is_some_and(|ends| ends.hold(entry.value));
            if latent {
                at_ends.values.push(entry.value);
                at_ends.expected.push(base + expected);
                at_ends.along.extend_from_slice(&along);
            }
            for i in 0..width {
                right[i] += if latent { 0.0 } else { along[i] * target };
                for j in 0..=i {
                    normal[i * width + j] += along[i] * along[j];
                }
            }
        }
        let y = match &self.ends {
            Some(ends) if !at_ends.values.is_empty() => at_ends.solve(ends, &normal, &right, self.ridge),
            _ => ridge_solve(&normal, &right, self.ridge),
        };
        let mut x = self.mean.clone();
        for (x, row) in x.iter_mut().zip(self.spread.chunks_exact(width)) {
            *x += row.iter().zip(&y).map(|(l, y)| l * y).sum::<f64>();
        }
        let bias = x[rank];
        x.truncate(rank);
        if self.held {
            x.copy_from_slice(&self.mean[..rank]);
        }
        (x, if self.biased { bias } else { 0.0 })
    }
}

impl AtEnds {
    /// y, and with it the latent values: each in turn given the other.
    fn solve(&self, ends: &Ends, normal: &[f64], right: &[f64], ridge: f64) -> Vec<f64> {
        let width = right.len();
        let mut y = vec![0.0; width];
        let mut before = vec![f64::INFINITY; self.values.len()];
        for _ in 0..ROUNDS {
            let mut right = right.to_vec();
            let mut moved: f64 = 0.0;
            let entries = self.values.iter().zip(&self.expected).zip(self.along.chunks_exact(width));
            for (((&value, &expected), along), before) in entries.zip(&mut before) {
                let mu = expected + along.iter().zip(&y).map(|(a, y)| a * y).sum::<f64>();
                let (mean, _) = ends.latent(value, mu);
                moved = moved.max((mean - *before).abs());
                *before = mean;
                right.iter_mut().zip(along).for_each(|(to, a)| *to += a * (mean - expected));
            }
            y = ridge_solve(normal, &right, ridge);
            if moved <= SETTLED * ends.noise {
                break;
            }
        }
        y
    }
}

/// Solves (A + ridge I) y = b by Cholesky, A given by its lower triangle; the ridge is raised until
/// the matrix is positive definite.
fn ridge_solve(normal: &[f64], right: &[f64], ridge: f64) -> Vec<f64> {
    let n = right.len();
    let trace: f64 = (0..n).map(|i| normal[i * n + i]).sum();
    let mut ridge = ridge.max(trace * 1e-13).max(f64::MIN_POSITIVE);
    let lower = loop {
        let mut lower = normal.to_vec();
        (0..n).for_each(|i| lower[i * n + i] += ridge);
        if cholesky(&mut lower, n) {
            break lower;
        }
        ridge *= 10.0;
    };
    let mut y = right.to_vec();
    for i in 0..n {
        let sum: f64 = (0..i).map(|j| lower[i * n + j] * y[j]).sum();
        y[i] = (y[i] - sum) / lower[i * n + i];
    }
    for i in (0..n).rev() {
        let sum: f64 = (i + 1..n).map(|j| lower[j * n + i] * y[j]).sum();
        y[i] = (y[i] - sum) / lower[i * n + i];
    }
    y
}

/// A = L L^T in place, in the lower triangle; false where A is not positive definite. NaN ends it,
/// too, with a triangle that nobody should use: it must not go on for ever.
fn cholesky(a: &mut [f64], n: usize) -> bool {
    for j in 0..n {
        for i in j..n {
            let sum: f64 = (0..j).map(|k| a[i * n + k] * a[j * n + k]).sum();
            let left = a[i * n + j] - sum;
            if i == j {
                if left <= 0.0 {
                    return false;
                }
                a[j * n + j] = left.sqrt();
            } else {
                a[i * n + j] = left / a[j * n + j];
            }
        }
    }
    true
}

/// Finds and sets the rows of some ids of the prior's mode; `entries` are sorted by id.
/// The result does not depend on the number of threads: every id is computed by itself.
pub fn fold_rows(model: &mut Model, prior: &Prior, entries: &[FoldEntry]) -> usize {
    let mode = prior.mode;
    let groups: Vec<&[FoldEntry]> = entries.chunk_by(|a, b| a.at[mode] == b.at[mode]).collect();
    let clock = model.biases.as_ref().and_then(|biases| biases.time.as_ref());
    let clock = clock.filter(|time| time.of == mode).map(|time| time.clock);
    let none = vec![false; model.point.order()];
    let places = Places::new(model, &none);
    let first = |group: &[FoldEntry]| {
        clock.and_then(|clock| group.iter().map(|entry| entry.at[clock]).min()).unwrap_or(u32::MAX)
    };
    let found: Vec<(u32, u32, Vec<f64>, f64)> = groups
        .par_iter()
        .map(|group| {
            let (row, bias) = prior.solve(model, &places, first(group), group);
            (group[0].at[mode], first(group), row, bias)
        })
        .collect();
    let count = found.len();
    // Ids come in ascending order.
    model.unseen[mode].retain(|index| found.binary_search_by_key(index, |found| found.0).is_err());
    for (index, first, row, bias) in found {
        model.point.factors[mode].row_mut(index as usize).copy_from_slice(&row);
        if let Some(biases) = &mut model.biases {
            if let Some(place) = biases.modes[mode].get_mut(index as usize) {
                *place = bias;
            }
            if let Some(time) = biases.time.as_mut().filter(|time| time.of == mode) {
                time.first[index as usize] = first;
            }
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latent_values_and_the_row_agree_in_the_end() {
        let ends = Ends { below: 1.5, above: 4.5, noise: 0.8 };
        // Three entries of a bias alone: two at the top, one at the bottom; and others that add up to 2.
        let at_ends =
            AtEnds { values: vec![5.0, 5.0, 1.0], expected: vec![3.0, 4.8, 2.0], along: vec![0.5, 0.5, 0.5] };
        let (normal, right, ridge) = (5.0, 2.0, 0.7);
        let y = at_ends.solve(&ends, &[normal], &[right], ridge)[0];
        let pull = |latent: &dyn Fn(f64, f64) -> f64| -> f64 {
            let entries = at_ends.values.iter().zip(&at_ends.expected);
            entries.map(|(&value, &expected)| 0.5 * (latent(value, expected + 0.5 * y) - expected)).sum()
        };
        let found = (right + pull(&|value, mu| ends.latent(value, mu).0)) / (normal + ridge);
        assert!((y - found).abs() < 1e-5, "{y} and {found}");
        let plain = (right + pull(&|value, _| value)) / (normal + ridge);
        assert!((y - plain).abs() > 1e-2, "values as they are give another row");
    }
}
