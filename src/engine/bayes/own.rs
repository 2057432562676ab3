//! What the entries of a slice add up to, and the row of level 0 that is fitted to it.

use super::entries::Entries;
use super::moments::Covariance;
use super::rests::{Of, Rests, entry_rows};
use super::row::{add_rows, axpy, dot, mirror, start};
use super::worker::{PANEL, Worker};
use crate::MAX_ORDER;
use crate::kernel::{add_gram, add_picked, add_right, prefetch_all, vectorised};
use std::ops::Range;

/// How many entries ahead rows are asked for.
const AHEAD: usize = 8;

/// What the entries of a slice add up to, as far as they have been seen.
pub(super) struct Own {
    /// The sum of z z^T, padded, below and on its diagonal; variances of z; the sum of t z.
    square: Vec<f64>,
    spread: Vec<f64>,
    right: Vec<f64>,
    /// Sums of whole covariances, level after level.
    covariances: Vec<f64>,
    /// The weight of entries, their expected squares and their squares, given what the slice's row has no part in.
    few: [f64; 3],
}

impl Own {
    /// Of rows of k numbers, filled up, with so many numbers of whole covariances.
    pub(super) fn new(padded: usize, covariances: usize) -> Self {
        Own {
            square: vec![0.0; padded * padded],
            spread: vec![0.0; padded],
            right: vec![0.0; padded],
            covariances: vec![0.0; covariances],
            few: [0.0; 3],
        }
    }

    pub(super) fn parts(&mut self) -> [&mut [f64]; 5] {
        [&mut self.square, &mut self.spread, &mut self.right, &mut self.covariances, &mut self.few]
    }
}

/// Room for the equations of a slice's row, squares of k rows.
pub(super) struct Equations {
    /// The sum of z z^T, and that of E(z z^T).
    known: Vec<f64>,
    expected: Vec<f64>,
    /// The right side, less what covariances with biases take away; a product of a square and the row.
    right: Vec<f64>,
    product: Vec<f64>,
}

impl Equations {
    pub(super) fn new(k: usize) -> Self {
        let (square, row) = (vec![0.0; k * k], vec![0.0; k]);
        Equations { known: square.clone(), expected: square, right: row.clone(), product: row }
    }

    /// <x, M x> for a square M.
    #[inline(always)]
    fn square_of(x: &[f64], m: &[f64], product: &mut [f64]) -> f64 {
        product.fill(0.0);
        add_rows(x, m, product);
        dot(x, product)
    }
}

impl Worker<'_> {
    /// What entries of a slice add to its sums, all of them or a window of them.
    pub(super) fn add(&mut self, slice: u32, entries: &Entries) {
        let padded = self.own.right.len();
        for from in (0..entries.len()).step_by(PANEL) {
            let range = from..entries.len().min(from + PANEL);
            vectorised(
                #[inline(always)]
                || self.gather(slice, entries, range.clone()),
            );
            let panel = &self.panel.numbers()[..range.len() * padded];
            add_gram(panel, &entries.weights[range], padded, &mut self.own.square);
            add_right(panel, &self.targets, &mut self.own.right);
        }
        self.own.few[0] += entries.weights.iter().sum::<f64>();
        self.add_covariances(entries);
    }

    /// z of some entries, their targets, and what they add to the slice's sums.
    #[inline(always)]
    fn gather(&mut self, slice: u32, entries: &Entries, range: Range<usize>) {
        let (pass, along, levels) = (self.pass, self.along, self.pass.levels);
        let (k, padded) = (levels[0].width, self.own.right.len());
        let weights = &entries.weights[range.clone()];
        let panel = &mut self.panel.numbers_mut()[..range.len() * padded];
        match &along.lead {
            Some(lead) => {
                let by =
                    lead.other.map_or(&self.zeros[..range.len()], |other| &entries.at[other][range.clone()]);
                let at = &entries.at[lead.level][range.clone()];
                lead.designs(levels).lay(at, by, weights, panel, &mut self.own.spread);
            }
            None => {
                let mut panel = panel.chunks_exact_mut(padded);
                let mut to_come = range.start + AHEAD..entries.len();
                entries.for_each_of(
                    range.clone(),
                    slice,
                    levels.len(),
                    #[inline(always)]
                    |indices: &[u32; MAX_ORDER], _, weight: f64| {
                        if let Some(ahead) = to_come.next() {
                            for &level in &along.far {
                                let row = entries.at[level][ahead] as usize;
                                prefetch_all(levels[level].mean(row));
                                prefetch_all(levels[level].variance(row));
                            }
                        }
                        let (rows, variances) = entry_rows(levels, indices);
                        let Some(z) = panel.next() else { return };
                        along.slice.z(&rows, &mut z[..k]);
                        along.slice.add_spread(&rows, &variances, weight, &mut self.own.spread);
                    },
                );
            }
        }
        let of = Of { slice, entries, range: range.clone(), level: 0, design: &along.slice, own: None };
        self.rests.fill(pass, along, &of);
        let values = &entries.values[range];
        let Rests { means, variances } = &mut self.rests;
        self.targets.clear();
        if pass.ends.is_none() {
            // No entry asks for what the model says of it: in whole vectors.
            let rests = means.iter_mut().zip(values);
            rests.for_each(|(rest, value)| *rest = (value - pass.mean) * pass.scale - *rest);
            self.targets.extend(means.iter().zip(weights).map(|(t, weight)| weight * t));
        } else {
            let own = levels[0].mean(slice as usize);
            let of = means.iter_mut().zip(&mut *variances).zip(values.iter().zip(weights));
            for (((rest, unsure), (&value, &weight)), z) in of.zip(self.panel.numbers().chunks_exact(padded))
            {
                let (t, variance) = pass.target(value, *rest, || dot(own, &z[..k]));
                (*rest, *unsure) = (t, variance + *unsure);
                self.targets.push(weight * t);
            }
        }
        let squares = dot(&self.targets, means);
        self.own.few[1] += squares + dot(weights, variances);
        self.own.few[2] += squares;
    }

    /// Adds up covariances of other levels, where they are whole.
    fn add_covariances(&mut self, entries: &Entries) {
        let levels = self.pass.levels;
        let mut to = &mut self.own.covariances[..];
        for (other, _) in &self.along.whole {
            let level = &levels[*other];
            let (sums, rest) = to.split_at_mut(level.covariance_width());
            to = rest;
            add_picked(&level.covariances, &entries.at[*other], &entries.weights, sums);
        }
    }

    /// Takes what a slice adds up to into equations: covariances of z, and of z with the bias, which t has in it.
    #[inline(always)]
    fn set_equations(&mut self) {
        let Own { square, spread, right, covariances, .. } = &self.own;
        let Equations { known, expected, right: taken, .. } = &mut self.equations;
        let (k, padded) = (taken.len(), right.len());
        if k == padded {
            // At once: short rows take a call of a function each.
            known.copy_from_slice(square);
        } else {
            for (i, to) in known.chunks_exact_mut(k).enumerate() {
                to[..=i].copy_from_slice(&square[i * padded..][..=i]);
            }
        }
        mirror(known, k);
        taken.copy_from_slice(&right[..k]);
        if self.along.whole.is_empty() {
            expected.copy_from_slice(known);
        } else {
            expected.fill(0.0);
            let mut from = &covariances[..];
            for (other, columns) in &self.along.whole {
                let level = &self.pass.levels[*other];
                let (sums, rest) = from.split_at(level.covariance_width());
                from = rest;
                let of_bias = &sums[start(level.width - 1)..];
                columns.iter().for_each(|&(i, a)| taken[i] -= of_bias[a]);
                let &(i, a) = columns.first().unwrap_or(&(0, 0));
                if columns.iter().enumerate().all(|(n, column)| *column == (i + n, a + n)) {
                    // Side by side, as nearly always: row by row.
                    for n in 0..columns.len() {
                        let row = &sums[start(a + n) + a..][..=n];
                        axpy(1.0, row, &mut expected[(i + n) * k + i..][..=n]);
                    }
                } else {
                    for &(i, a) in columns {
                        for &(j, b) in columns.iter().filter(|(j, _)| *j <= i) {
                            expected[i * k + j] += sums[start(a.max(b)) + a.min(b)];
                        }
                    }
                }
            }
            mirror(expected, k);
            axpy(1.0, known, expected);
        }
        (0..k).for_each(|i| expected[i * k + i] += spread[i]);
    }

    /// The row of a slice, from its sums. `false` where a number is not finite.
    pub(super) fn fit(&mut self, slice: u32) -> bool {
        let mut done = false;
        vectorised(
            #[inline(always)]
            || done = self.fit_here(slice),
        );
        done
    }

    #[inline(always)]
    fn fit_here(&mut self, slice: u32) -> bool {
        self.set_equations();
        let (level, noise) = (&self.pass.levels[0], self.pass.noise);
        let Own { right: all, few, .. } = &self.own;
        let Equations { known, expected, right, product } = &mut self.equations;
        let (k, room) = (right.len(), &mut self.room);
        level.features.of(slice as usize, level.counts[slice as usize], &mut self.features);
        room.mean.iter_mut().zip(&*right).for_each(|(to, b)| *to = b / noise);
        add_rows(&self.features, &self.along.pull, &mut room.mean);
        level.prior.precision_with(noise, expected, &mut room.factor);
        if !room.solve() {
            return false;
        }
        let found = &mut self.found;
        self.products.add(&room.mean, &self.features, Covariance::Whole(&room.covariance));
        // Squares of t - <m, z>, as expected and as they are.
        let said = Equations::square_of(&room.mean, expected, product) - 2.0 * dot(&room.mean, right);
        let known = Equations::square_of(&room.mean, known, product) - 2.0 * dot(&room.mean, &all[..k]);
        found.moments.weight += few[0];
        found.moments.squares += few[1] + said + dot(expected, &room.covariance);
        found.moments.residuals += few[2] + known;
        found.slices.push(slice);
        found.means.extend_from_slice(&room.mean);
        found.variances.extend(room.covariance.iter().step_by(k + 1).map(|s| *s as f32));
        true
    }
}
