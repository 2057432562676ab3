//! What a lane does in a pass: rows of level 0 from their entries, and the entries into the sums of the target.

use super::along::Along;
use super::batch::{Aligned, Batch, SCALED};
use super::level::{Covariance, Moments};
use super::pass::{Pass, sums_width};
use super::rests::{Of, Rests, entry_rows};
use super::row::{RowRoom, dot, start};
use super::slices::Entries;
use crate::MAX_ORDER;
use crate::kernel::{PANEL_TILE, Pick, Picked, Scales, add_gram, add_right, prefetch_all, vectorised};
use std::ops::Range;

/// Entries whose z are together in memory: what a processor's first cache holds.
const PANEL: usize = 128;

/// How many entries ahead rows are asked for.
const AHEAD: usize = 8;

/// What one lane has found.
pub(super) struct LaneFound {
    pub(super) slices: Vec<u32>,
    pub(super) means: Vec<f64>,
    pub(super) variances: Vec<f32>,
    pub(super) moments: Moments,
    pub(super) sums: Vec<f64>,
}

/// What covariances add to the sums of a slice.
#[derive(Default)]
struct Uncertain {
    /// To A, below and on its diagonal.
    square: Vec<(usize, usize, f64)>,
    /// Taken away from b.
    right: Vec<(usize, f64)>,
}

/// What the entries of a slice add up to, as far as they have been seen.
struct Own {
    /// A, padded; variances of z; b.
    square: Vec<f64>,
    spread: Vec<f64>,
    right: Vec<f64>,
    /// Sums of whole covariances, level after level.
    covariances: Vec<f64>,
    /// The weight of entries, their expected squares and their squares, given what the slice's row has no part in.
    few: [f64; 3],
}

impl Own {
    fn parts(&mut self) -> [&mut [f64]; 5] {
        [&mut self.square, &mut self.spread, &mut self.right, &mut self.covariances, &mut self.few]
    }
}

/// What a lane works in.
pub(super) struct Worker<'a> {
    pass: &'a Pass<'a>,
    along: &'a Along,
    found: LaneFound,
    room: RowRoom,
    /// z of some entries, padded.
    panel: Aligned,
    own: Own,
    picks: Vec<Pick>,
    /// Of some entries: what of their values comes from elsewhere, and targets times weights.
    rests: Rests,
    targets: Vec<f64>,
    /// The rows of no level.
    zeros: Vec<u32>,
    features: Vec<f64>,
    expected: Vec<f64>,
    variances: Vec<f32>,
    /// Entries on their way into the sums of the target.
    batch: Batch,
    /// What the slice gives to its entries.
    given: Vec<f64>,
    /// Of one entry: what of the target's z comes from other levels, and how uncertain that is.
    others: Vec<f64>,
    others_spread: Vec<f64>,
    /// Both, as factors of some entries.
    factors: Vec<f64>,
    /// What multiplies level 0's row in terms without the target.
    beside: Vec<f64>,
}

/// The row of a slice that comes in windows, and what it gives to its entries.
pub(super) struct Given {
    mean: Vec<f64>,
    covariance: Vec<f64>,
    given: Vec<f64>,
}

impl Given {
    /// All numbers, one after the other.
    pub(super) fn to_numbers(&self) -> Vec<f64> {
        [&self.mean[..], &self.covariance, &self.given].concat()
    }

    /// From such numbers, the row having k.
    pub(super) fn of(numbers: &[f64], k: usize) -> Self {
        let (mean, rest) = numbers.split_at(k);
        let (covariance, given) = rest.split_at(k * k);
        Given { mean: mean.to_vec(), covariance: covariance.to_vec(), given: given.to_vec() }
    }
}

impl<'a> Worker<'a> {
    /// With sums of the target that are zero; without any it may look at slices only.
    pub(super) fn new(pass: &'a Pass<'a>, along: &'a Along, sums: Vec<f64>, batch: Batch) -> Self {
        let (k, e) = (pass.levels[0].width, pass.levels[pass.target].width);
        let (padded, features) = (k.next_multiple_of(PANEL_TILE), pass.levels[0].features.count());
        Worker {
            pass,
            along,
            found: LaneFound {
                slices: Vec::new(),
                means: Vec::new(),
                variances: Vec::new(),
                moments: Moments::new(k, features),
                sums,
            },
            room: RowRoom::new(k),
            panel: Aligned::new(PANEL * padded, 0.0),
            own: Own {
                square: vec![0.0; padded * padded],
                spread: vec![0.0; padded],
                right: vec![0.0; padded],
                covariances: vec![
                    0.0;
                    along
                        .whole
                        .iter()
                        .map(|(other, _)| pass.levels[*other].covariance_width())
                        .sum()
                ],
                few: [0.0; 3],
            },
            picks: Vec::new(),
            rests: Rests::default(),
            targets: Vec::new(),
            zeros: vec![0; PANEL],
            features: vec![0.0; features],
            expected: vec![0.0; k],
            variances: vec![0.0; k],
            given: vec![0.0; batch.layout.width()],
            batch,
            others: vec![1.0; e],
            others_spread: vec![0.0; e],
            factors: if along.same || along.scaled.is_some() {
                Vec::new()
            } else {
                vec![1.0; SCALED * sums_width(e)]
            },
            beside: vec![0.0; k],
        }
    }

    /// What was found, when no slice is left, and the batch for the next lane.
    pub(super) fn end(mut self) -> (LaneFound, Batch) {
        self.flush(false);
        (self.found, self.batch)
    }

    /// Fits the row of a slice and adds its entries to the sums of the target. `false` where a number is not
    /// finite.
    pub(super) fn slice(&mut self, slice: u32, entries: &Entries) -> bool {
        self.begin();
        self.add(slice, entries);
        if !self.fit(slice) {
            return false;
        }
        self.look_along();
        self.spread(slice, entries);
        true
    }

    /// Before the first entries of a slice.
    pub(super) fn begin(&mut self) {
        self.own.parts().into_iter().for_each(|part| part.fill(0.0));
    }

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

    /// The sums of a slice, to be added to those of its other windows.
    pub(super) fn numbers(&mut self) -> Vec<f64> {
        self.own.parts().concat()
    }

    /// The row of a slice from such sums, and what it gives to its entries.
    pub(super) fn give(&mut self, slice: u32, mut numbers: &[f64]) -> Option<Given> {
        for part in self.own.parts() {
            let (own, rest) = numbers.split_at(part.len());
            part.copy_from_slice(own);
            numbers = rest;
        }
        if !self.fit(slice) {
            return None;
        }
        self.look_along();
        let RowRoom { mean, covariance, .. } = &self.room;
        Some(Given { mean: mean.clone(), covariance: covariance.clone(), given: self.given.clone() })
    }

    /// Adds a window of a slice to the sums of the target, its row being known.
    pub(super) fn window(&mut self, slice: u32, given: &Given, entries: &Entries) {
        self.room.mean.copy_from_slice(&given.mean);
        self.room.covariance.copy_from_slice(&given.covariance);
        self.given.copy_from_slice(&given.given);
        self.spread(slice, entries);
    }

    /// Puts entries on their way to the sums of the target.
    fn spread(&mut self, slice: u32, entries: &Entries) {
        if self.batch.is_full() {
            self.flush(false);
        }
        let number = self.batch.slice(&self.given);
        let mut from = 0;
        while from < entries.len() {
            let to = entries.len().min(from + self.batch.room().min(PANEL));
            vectorised(
                #[inline(always)]
                || self.spread_out(slice, entries, from..to, number),
            );
            if self.batch.room() == 0 {
                self.flush(to < entries.len());
            }
            from = to;
        }
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
        let (mut squares, mut variance_of_rest) = (0.0, 0.0);
        let own = levels[0].mean(slice as usize);
        self.targets.clear();
        let rests = self.rests.means.iter().zip(&self.rests.variances);
        let values = entries.values[range].iter().zip(weights);
        for (((&rest, &unsure), (&value, &weight)), z) in
            rests.zip(values).zip(self.panel.numbers().chunks_exact(padded))
        {
            let (t, variance) = pass.target(value, rest, || dot(own, &z[..k]));
            self.targets.push(weight * t);
            squares += weight * t * t;
            variance_of_rest += weight * (variance + unsure);
        }
        self.own.few[1] += squares + variance_of_rest;
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
            let at = entries.at[*other].iter().zip(&entries.weights);
            self.picks.clear();
            self.picks.extend(at.map(|(&from, &weight)| Pick { from, weight, ..Pick::default() }));
            let layout = Picked { sums: sums.len(), second: 0, at: 0, rows: 0 };
            layout.add(&level.covariances, &self.picks, sums);
        }
    }

    /// Takes these sums into those of the slice: covariances of z, and of z with the bias, which t has in it.
    fn take_covariances(&mut self) -> Uncertain {
        let Own { square, right, covariances, .. } = &mut self.own;
        let padded = right.len();
        let mut added = Uncertain::default();
        let mut from = &covariances[..];
        for (other, columns) in &self.along.whole {
            let level = &self.pass.levels[*other];
            let (sums, rest) = from.split_at(level.covariance_width());
            from = rest;
            for (i, a) in columns {
                let x = sums[start(level.width - 1) + a];
                right[*i] -= x;
                added.right.push((*i, x));
                for (j, b) in columns.iter().filter(|(j, _)| j <= i) {
                    let x = sums[start(*a.max(b)) + a.min(b)];
                    square[i * padded + j] += x;
                    added.square.push((*i, *j, x));
                }
            }
        }
        added
    }

    /// The row of a slice, from its sums. `false` where a number is not finite.
    fn fit(&mut self, slice: u32) -> bool {
        let added = self.take_covariances();
        let mut done = false;
        vectorised(
            #[inline(always)]
            || done = self.fit_here(slice, &added),
        );
        done
    }

    #[inline(always)]
    fn fit_here(&mut self, slice: u32, added: &Uncertain) -> bool {
        let level = &self.pass.levels[0];
        let Own { square, spread, right, few, .. } = &mut self.own;
        let (k, padded) = (level.width, right.len());
        (0..k).for_each(|i| square[i * padded + i] += spread[i]);
        let right = &right[..k];
        level.features.of(slice as usize, level.counts[slice as usize], &mut self.features);
        level.prior.mean(&self.features, &mut self.expected);
        let room = &mut self.room;
        level.prior.posterior(
            &self.expected,
            self.pass.noise,
            |i, j| square[i * padded + j],
            right,
            &mut room.factor,
            &mut room.mean,
        );
        if !room.solve() {
            return false;
        }
        let found = &mut self.found;
        found.moments.weight += few[0];
        found.moments.squares += few[1];
        found.moments.residuals += few[2];
        found.moments.add_row(&room.mean, &self.features, Covariance::Whole(&room.covariance));
        let mut of_rows: f64 = (0..k).map(|i| spread[i] * room.mean[i] * room.mean[i]).sum();
        for &(i, j, x) in &added.square {
            of_rows += if i == j { 1.0 } else { 2.0 } * x * room.mean[i] * room.mean[j];
        }
        for &(i, x) in &added.right {
            of_rows += 2.0 * x * room.mean[i];
        }
        let (mut residuals, mut uncertain) = (-2.0 * dot(&room.mean, right), 0.0);
        for i in 0..k {
            let (row, s) = (&square[i * padded..][..=i], &room.covariance[i * k..][..=i]);
            residuals += room.mean[i] * (2.0 * dot(&row[..i], &room.mean[..i]) + row[i] * room.mean[i]);
            uncertain += 2.0 * dot(&row[..i], &s[..i]) + row[i] * s[i];
        }
        found.moments.squares += residuals + uncertain;
        found.moments.residuals += residuals - of_rows;
        found.slices.push(slice);
        found.means.extend_from_slice(&room.mean);
        (0..k).for_each(|i| self.variances[i] = room.covariance[i * k + i] as f32);
        found.variances.extend_from_slice(&self.variances);
        true
    }

    /// What the slice's row x gives to the sums of the target: E(x x^T), what its covariance with the bias takes away,
    /// and x.
    fn look_along(&mut self) {
        vectorised(
            #[inline(always)]
            || self.look_along_here(),
        );
    }

    #[inline(always)]
    fn look_along_here(&mut self) {
        let RowRoom { mean, covariance, .. } = &self.room;
        let (k, from) = (mean.len(), &self.along.from);
        let layout = self.batch.layout;
        let (sums, x) = self.given.split_at_mut(layout.sums);
        for (x, from) in x.iter_mut().zip(from) {
            *x = from.map_or(1.0, |from| mean[from]);
        }
        // Columns in the same order as those of level 0, as nearly always, are read one after the other.
        let aligned = from.iter().enumerate().take_while(|(c, from)| **from == Some(*c)).count();
        for i in 0..from.len() {
            let row = &mut sums[start(i)..][..=i];
            row.iter_mut().zip(&*x).for_each(|(to, y)| *to = x[i] * y);
            let Some(a) = from[i] else {
                sums[layout.at + i] = 0.0;
                continue;
            };
            let covariance = &covariance[a * k..][..k];
            let (first, rest) = row.split_at_mut(aligned.min(i + 1));
            first.iter_mut().zip(covariance).for_each(|(to, s)| *to += s);
            for (to, from) in rest.iter_mut().zip(&from[aligned.min(i + 1)..]) {
                *to += from.map_or(0.0, |b| covariance[b]);
            }
            sums[layout.at + i] = if self.along.beside { 0.0 } else { -covariance[k - 1] };
        }
    }

    #[inline(always)]
    fn spread_out(&mut self, slice: u32, entries: &Entries, range: Range<usize>, number: u32) {
        let Pass { levels, target, rows: wanted, .. } = self.pass;
        let (k, e) = (levels[0].width, levels[*target].width);
        let Along { slice: of_slice, target: of_target, same, beside, from, scaled, .. } = self.along;
        let layout = self.batch.layout;
        let of = Of {
            slice,
            entries,
            range: range.clone(),
            level: *target,
            design: of_target,
            own: Some(&self.room.mean),
        };
        self.rests.fill(self.pass, self.along, &of);
        let at = &entries.at[*target][range.clone()];
        let mut indices = [0; MAX_ORDER];
        indices[0] = slice;
        for ((entry, &index), &rest) in range.zip(at).zip(&self.rests.means) {
            let index = index as usize;
            if !wanted.contains(&index) {
                continue;
            }
            let by = scaled.as_ref().map_or(0, |by| entries.at[by.level][entry]);
            if !*same && scaled.is_none() || *beside {
                indices[1..levels.len()]
                    .iter_mut()
                    .zip(&entries.at[1..])
                    .for_each(|(to, at)| *to = at[entry]);
            }
            let (t, _) = self.pass.target(entries.values[entry], rest, || {
                let (x, row) = (&self.given[layout.sums..][..e], levels[*target].mean(index));
                if *same {
                    return dot(x, row);
                }
                if let Some(table) = scaled {
                    let scales = &table.rows.numbers()[by as usize * layout.sums + layout.at..];
                    return triple_dot(x, &scales[..e], row);
                }
                of_target.z(&entry_rows(levels, &indices).0, &mut self.others);
                triple_dot(x, &self.others, row)
            });
            let (to, weight) = ((index - wanted.start) as u32, entries.weights[entry]);
            let by = if scaled.is_some() { by } else { self.batch.picks.len() as u32 };
            self.batch.picks.push(Pick { to, from: number, by, weight, value: weight * t });
            if !*same && scaled.is_none() {
                self.batch.at.extend_from_slice(&indices[1..levels.len()]);
            }
            if *beside {
                // The covariance with what else of the slice's row is in the value: not the same for all entries.
                let (mut rows, _) = entry_rows(levels, &indices);
                rows[0] = &self.room.mean;
                of_slice.z_beside(*target, &rows, &mut self.beside);
                of_target.z(&rows, &mut self.others);
                let b = &mut self.found.sums[to as usize * layout.sums + layout.at..][..e];
                for (c, from) in from.iter().enumerate() {
                    if let Some(from) = from {
                        let cross = dot(&self.room.covariance[from * k..][..k], &self.beside);
                        b[c] -= weight * self.others[c] * cross;
                    }
                }
            }
        }
    }

    /// Adds the entries that wait to the sums. `within` a slice it may go on.
    fn flush(&mut self, within: bool) {
        self.batch.sort(self.pass.rows.len());
        let Batch { layout, picks, at, panel, .. } = &mut self.batch;
        let (panel, sums) = (panel.numbers(), &mut self.found.sums);
        if self.along.same {
            layout.add(panel, picks, sums);
        } else if let Some(by) = &self.along.scaled {
            let scales = Scales { rows: by.rows.numbers(), ones: self.along.ones };
            layout.add_scaled(panel, picks, scales, sums);
        } else {
            let (levels, width) = (self.pass.levels, self.pass.levels.len() - 1);
            for picks in picks.chunks_mut(SCALED) {
                vectorised(
                    #[inline(always)]
                    || {
                        let rows = self.factors.chunks_exact_mut(layout.sums);
                        for ((row, pick), to) in picks.iter_mut().enumerate().zip(rows) {
                            let mut indices = [0; MAX_ORDER];
                            indices[1..=width].copy_from_slice(&at[pick.by as usize * width..][..width]);
                            let (rows, variances) = entry_rows(levels, &indices);
                            let room = (&mut self.others[..], &mut self.others_spread[..]);
                            self.along.factors((&rows, &variances), room, to);
                            pick.by = row as u32;
                        }
                    },
                );
                let scales = Scales { rows: &self.factors, ones: self.along.ones };
                layout.add_scaled(panel, picks, scales, sums);
            }
        }
        self.batch.clear(within);
    }
}

/// sum of x g m.
#[inline(always)]
fn triple_dot(x: &[f64], g: &[f64], m: &[f64]) -> f64 {
    x.iter().zip(g).zip(m).map(|((x, g), m)| x * g * m).sum()
}
