//! Rows for ids from their entries alone, the factors of the other modes held.
//!
//! With everything but one row u (and its bias b) fixed, the model is linear in them: an entry is
//! worth c_e + b + <u, z_e>, where z_e is the core contracted with the other rows and c_e all other
//! biases. So a row is a least-squares problem of its own, with what the rows of the known ids look like as
//! its prior: normal with their mean and their covariance (of row and bias together), the noise of entries
//! being `ridge` times the model's error. An id with few entries stays near the average id; one with many is
//! what its entries say.
//!
//! A model that was fitted by sweeps has learned that prior: B f with f what is known of an id before its values
//! (which ids of the other mode it has entries with, and how many), the covariance V about it, and the noise. It
//! also knows how sure it is of z_e, which is added to the squares, and it learns how sure it is of the new row.
//!
//! Where values at the ends of the range say only so much ([`Ends`]), theirs is the mean of the latent value
//! behind them, given the row; the row follows from these, and so on until nothing moves: as in training.

use crate::MAX_ORDER;
use crate::model::{Ends, Model, Place, Places, Spreads, TimeBias, Uncertainty};
use crate::rows::{RowPrior, RowScratch, Square, row_posterior, triangle_len};
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
pub struct FoldPrior {
    mode: usize,
    /// Of row and bias; rows that are held do not differ in it.
    rows: RowPrior,
    /// ridge * noise.
    noise: f64,
    /// Whether it was learned by sweeps, so that the mean follows from features.
    learned: bool,
    /// Whether the mode has biases.
    biased: bool,
    /// What values at the ends say.
    ends: Option<Ends>,
}

/// How often the latent values behind an id's values at the ends are found anew at most, and the change,
/// in standard deviations of the noise, at which that ends.
const ROUNDS: usize = 50;
const SETTLED: f64 = 1e-6;

/// Biases from a thousandth to a thousand are taken as they are.
const NEAR: i32 = 10;

/// The entries of an id whose values are at the ends: what the model says of one without the id's row, and
/// what that row is multiplied by.
#[derive(Default)]
struct AtEnds {
    values: Vec<f64>,
    bases: Vec<f64>,
    weights: Vec<f64>,
}

/// A row that was found, its bias, and where the model knows how sure it is, the variances of their numbers and the
/// features that they began with.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FoldedRow {
    /// The row of the factor.
    pub row: Vec<f64>,
    /// Its bias.
    pub bias: f64,
    variances: Vec<f32>,
    features: Vec<f32>,
}

impl FoldPrior {
    /// That of the model, where it was learned; else from the rows of `mode` that have train entries. The noise is the model's error on
    /// validation entries, or on train entries where there are none.
    pub fn new(model: &Model, mode: usize, ridge: f64) -> Self {
        if let Some(uncertainty) = &model.uncertainty {
            return Self::learned(model, uncertainty, mode, ridge);
        }
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
        // Biases have the unit of the values and rows have none.
        let unit = towards_one(covariance[(rank, rank)].sqrt(), NEAR);
        let flat = || RowPrior { mean: mean.clone(), root: vec![0.0; width * width] };
        let mut rows = RowPrior::new(mean.clone(), &covariance, unit).unwrap_or_else(flat);
        if held {
            rows.root[..rank * width].fill(0.0);
        }
        let noise = ridge * model.about.validation_mse.unwrap_or(model.about.train_mse);
        FoldPrior { mode, rows, noise, learned: false, biased: biases.is_some(), ends: model.about.ends }
    }

    fn learned(model: &Model, uncertainty: &Uncertainty, mode: usize, ridge: f64) -> Self {
        let (of, unit) = (&uncertainty.modes[mode], uncertainty.unit);
        let width = model.point.ranks()[mode] + 1;
        // A number that is 1 in every row has no variance.
        let own =
            |n: usize| if n + 1 == width { Some(of.width - 1) } else { (n + 1 < of.width).then_some(n) };
        let unit_of = |n: usize| if n + 1 == width { unit } else { 1.0 };
        let covariance = Square::from_fn(width, |i, j| match (own(i), own(j)) {
            (Some(a), Some(b)) => of.covariance[a * of.width + b] * unit_of(i) * unit_of(j),
            _ => 0.0,
        });
        let mean = vec![0.0; width];
        let rows = RowPrior::new(mean.clone(), &covariance, towards_one(unit, NEAR));
        let rows = rows.unwrap_or_else(|| RowPrior { mean, root: vec![0.0; width * width] });
        let noise = ridge * uncertainty.noise * unit * unit;
        FoldPrior { mode, rows, noise, learned: true, biased: true, ends: model.about.ends }
    }

    /// What is expected of an id with these entries before their values are looked at, and h of it.
    fn expected(&self, model: &Model, entries: &[FoldEntry]) -> (Vec<f64>, Vec<f32>) {
        let Some(uncertainty) = model.uncertainty.as_ref().filter(|_| self.learned) else {
            return (self.rows.mean.clone(), Vec::new());
        };
        let of = &uncertainty.modes[self.mode];
        let partner = uncertainty.partner(self.mode);
        let others = partner.iter().flat_map(|&partner| {
            let at = entries.iter().map(move |entry| entry.at[partner]);
            at.filter(move |&index| model.knows(partner, index))
        });
        let h = uncertainty.new_row(self.mode, others).unwrap_or_else(|| vec![0.0; of.features.width]);
        let found = of.expected(&of.features_of(&h, entries.len() as f64));
        let mut mean = vec![1.0; self.rows.mean.len()];
        let last = mean.len() - 1;
        mean[..of.width - 1].copy_from_slice(&found[..of.width - 1]);
        mean[last] = uncertainty.unit * found[of.width - 1];
        (mean, h.into_iter().map(|x| x as f32).collect())
    }

    /// The bytes that an entry takes while its row is found.
    pub fn entry_bytes(&self) -> u64 {
        if self.ends.is_some() { ((self.rows.mean.len() + 2) * size_of::<f64>()) as u64 } else { 0 }
    }

    /// The row and the bias of an id with these entries.
    pub fn solve(
        &self,
        model: &Model,
        places: &Places<'_>,
        spreads: Option<&Spreads<'_>>,
        first: u32,
        entries: &[FoldEntry],
    ) -> FoldedRow {
        let width = self.rows.mean.len();
        let rank = width - 1;
        let order = model.point.order();
        let time = model.biases.as_ref().and_then(|biases| biases.time.as_ref());
        let (mut a, mut b) = (vec![0.0; triangle_len(width)], vec![0.0; width]);
        let mut weights = vec![0.0; width];
        let mut at_ends = AtEnds::default();
        let (mean, features) = self.expected(model, entries);
        let rows = RowPrior { mean, root: self.rows.root.clone() };
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
            for pair in model.biases.iter().flat_map(|biases| &biases.pairs) {
                if !pair.modes.contains(&self.mode) {
                    let mut settled = [Place::Unknown; MAX_ORDER];
                    (0..order).for_each(|mode| settled[mode] = place(mode));
                    base += places.pair_bias(pair, &settled);
                }
            }
            weights[..rank].copy_from_slice(&model.point.core.contract(&rows[..order], &[self.mode]));
            weights[rank] = f64::from(u8::from(self.biased));
            let latent = self.ends.is_some_and(|ends| ends.hold(entry.value));
            if latent {
                at_ends.values.push(entry.value);
                at_ends.bases.push(base);
                at_ends.weights.extend_from_slice(&weights);
            }
            for i in 0..width {
                b[i] += if latent { 0.0 } else { weights[i] * (entry.value - base) };
                let to = &mut a[triangle_len(i)..][..=i];
                to.iter_mut().zip(&weights).for_each(|(to, w)| *to += weights[i] * w);
            }
            if let Some(spreads) = spreads {
                let mut settled = [Place::Unknown; MAX_ORDER];
                (0..order).for_each(|mode| settled[mode] = place(mode));
                let around = spreads.around(places, &settled[..order], self.mode);
                for (i, (second, square)) in around.second.iter().zip(&around.square).enumerate() {
                    a[triangle_len(i + 1) - 1] += (second - square).max(0.0);
                }
            }
        }
        let (mut row, covariance) = match &self.ends {
            Some(ends) if !at_ends.values.is_empty() => at_ends.solve(ends, self, &rows, &a, &b),
            _ => self.row(&rows, &a, &b),
        };
        let mut variances = Vec::new();
        if let Some(uncertainty) = model.uncertainty.as_ref().filter(|_| self.learned) {
            let variance = |n: usize| covariance[triangle_len(n + 1) - 1].max(0.0);
            let components = uncertainty.modes[self.mode].width - 1;
            variances.extend((0..components).map(|n| variance(n) as f32));
            variances.push((variance(rank) / uncertainty.unit / uncertainty.unit) as f32);
        }
        let bias = if self.biased { row[rank] } else { 0.0 };
        row.truncate(rank);
        FoldedRow { row, bias, variances, features }
    }

    /// The most probable row of an id whose entries add up to these, and its covariance; the prior's mean where they say
    /// nothing that can be used.
    fn row(&self, rows: &RowPrior, a: &[f64], b: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let width = b.len();
        // Without noise, entries that contradict each other still have a row between them.
        let noise = self.noise.max(1e-13 * rows.told_by(a)).max(f64::MIN_POSITIVE);
        let (mut mean, mut covariance) = (vec![0.0; width], vec![0.0; triangle_len(width)]);
        let mut scratch = RowScratch::new(width);
        if !row_posterior(rows, noise, a, b, &mut scratch, &mut mean, &mut covariance) {
            mean.copy_from_slice(&rows.mean);
            let square = |row: &[f64]| row.iter().map(|x| x * x).sum();
            covariance.fill(0.0);
            for (n, row) in rows.root.chunks_exact(width).enumerate() {
                covariance[triangle_len(n + 1) - 1] = square(row);
            }
        }
        (mean, covariance)
    }
}

impl AtEnds {
    /// The row, and with it the latent values: each in turn given the other.
    fn solve(
        &self,
        ends: &Ends,
        prior: &FoldPrior,
        rows: &RowPrior,
        a: &[f64],
        b: &[f64],
    ) -> (Vec<f64>, Vec<f64>) {
        let width = b.len();
        let (mut row, mut covariance) = (rows.mean.clone(), Vec::new());
        let mut before = vec![f64::INFINITY; self.values.len()];
        for _ in 0..ROUNDS {
            let mut b = b.to_vec();
            let mut moved: f64 = 0.0;
            let entries = self.values.iter().zip(&self.bases).zip(self.weights.chunks_exact(width));
            for (((&value, &base), weights), before) in entries.zip(&mut before) {
                let mu = base + weights.iter().zip(&row).map(|(w, x)| w * x).sum::<f64>();
                let (mean, _) = ends.latent(value, mu);
                moved = moved.max((mean - *before).abs());
                *before = mean;
                b.iter_mut().zip(weights).for_each(|(to, w)| *to += w * (mean - base));
            }
            (row, covariance) = prior.row(rows, a, &b);
            if moved <= SETTLED * ends.noise {
                break;
            }
        }
        (row, covariance)
    }
}

/// Finds and sets the rows of some ids of the prior's mode; `entries` are sorted by id.
/// The result does not depend on the number of threads: every id is computed by itself.
pub fn fold_rows(model: &mut Model, prior: &FoldPrior, entries: &[FoldEntry]) -> usize {
    let mode = prior.mode;
    let groups: Vec<&[FoldEntry]> = entries.chunk_by(|a, b| a.at[mode] == b.at[mode]).collect();
    let clock = model.biases.as_ref().and_then(|biases| biases.time.as_ref());
    let clock = clock.filter(|time| time.of == mode).map(|time| time.clock);
    let none = vec![false; model.point.order()];
    let places = Places::new(model, &none);
    let spreads = if prior.learned { Spreads::new(model, &none).ok() } else { None };
    let first = |group: &[FoldEntry]| {
        clock.and_then(|clock| group.iter().map(|entry| entry.at[clock]).min()).unwrap_or(u32::MAX)
    };
    let found: Vec<(u32, u32, usize, FoldedRow)> = groups
        .par_iter()
        .map(|group| {
            let row = prior.solve(model, &places, spreads.as_ref(), first(group), group);
            (group[0].at[mode], first(group), group.len(), row)
        })
        .collect();
    let count = found.len();
    // Ids come in ascending order.
    model.unseen[mode].retain(|index| found.binary_search_by_key(index, |found| found.0).is_err());
    for (index, first, entries, found) in found {
        let FoldedRow { row, bias, variances, features } = found;
        model.point.factors[mode].row_mut(index as usize).copy_from_slice(&row);
        if let Some(uncertainty) = &mut model.uncertainty {
            uncertainty.modes[mode].set(index as usize, &variances, &features, entries as f64);
        }
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
        // A bias alone, of mean 0.1 and variance 4; three entries of it: two at the top, one at the bottom, and
        // others, five in all, that add up to 2.
        let rows = RowPrior { mean: vec![0.1], root: vec![2.0] };
        let prior = FoldPrior {
            mode: 0,
            rows: rows.clone(),
            noise: 0.7,
            learned: false,
            biased: true,
            ends: Some(ends),
        };
        let at_ends =
            AtEnds { values: vec![5.0, 5.0, 1.0], bases: vec![3.0, 4.8, 2.0], weights: vec![1.0, 1.0, 1.0] };
        let (a, b) = (5.0, 2.0);
        let x = at_ends.solve(&ends, &prior, &rows, &[a], &[b]).0[0];
        let right = |latent: &dyn Fn(f64, f64) -> f64| -> f64 {
            let entries = at_ends.values.iter().zip(&at_ends.bases);
            b + entries.map(|(&value, &base)| latent(value, base + x) - base).sum::<f64>()
        };
        // x (a / noise + 1 / 4) = b / noise + 0.1 / 4.
        let row = |b: f64| (b / 0.7 + 0.1 / 4.0) / (a / 0.7 + 1.0 / 4.0);
        let found = row(right(&|value, mu| ends.latent(value, mu).0));
        assert!((x - found).abs() < 1e-5, "{x} and {found}");
        let plain = row(right(&|value, _| value));
        assert!((x - plain).abs() > 1e-2, "values as they are give another row");
    }
}
