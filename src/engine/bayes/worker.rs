//! What a lane does in a pass: rows of level 0 from their entries, and the entries into the sums of the target.

use super::batch::{Batch, SCALED, factors};
use super::design::Design;
use super::level::{Covariance, Level, Moments};
use super::offsets::offset;
use super::pass::{Pass, sums_width};
use super::row::{RowRoom, axpy, dot, start};
use super::shape::{EntryRows, EntryVariances};
use super::slices::Entries;
use crate::MAX_ORDER;
use crate::kernel::{PANEL_TILE, Pick, Picked, add_gram, prefetch_all, vectorised};
use std::ops::Range;

/// Entries whose z are together in memory: what a processor's first cache holds.
const PANEL: usize = 128;

/// How many entries ahead rows are asked for, and from which size of a level on.
const AHEAD: usize = 8;
const FAR: usize = 256 << 10;

/// What one lane has found.
pub(super) struct LaneFound {
    pub(super) slices: Vec<u32>,
    pub(super) means: Vec<f64>,
    pub(super) variances: Vec<f32>,
    pub(super) moments: Moments,
    pub(super) sums: Vec<f64>,
}

/// How the levels of a pass go together: the same for all lanes.
pub(super) struct Along {
    /// Of level 0.
    slice: Design,
    /// Of the target, without what comes from level 0.
    target: Design,
    /// The column of level 0 that a column of the target is multiplied by, if any.
    from: Vec<Option<usize>>,
    /// The columns of the target that other levels than 0 have to do with.
    varied: Vec<usize>,
    /// Whether an entry adds the same to the target's sums as all others of its slice.
    same: bool,
    /// Whether level 0 has components without the target.
    beside: bool,
    /// Levels with whole covariances that level 0 alone is multiplied by: their columns beside those of level 0.
    whole: Vec<(usize, Vec<(usize, usize)>)>,
    /// Levels whose rows do not fit into a processor's own cache, and are asked for ahead.
    far: Vec<usize>,
}

impl Along {
    pub(super) fn new(pass: &Pass<'_>) -> Self {
        let Pass { shape, levels, target, .. } = pass;
        let is_whole: Vec<bool> = levels.iter().map(|level| !level.covariances.is_empty()).collect();
        let mut from = vec![None; levels[*target].width];
        for segment in shape.segments.iter().filter(|segment| segment.levels[0] == 0) {
            if let Some(own) = segment.position(*target) {
                (0..segment.count).for_each(|n| from[segment.first[own] + n] = Some(segment.first[0] + n));
            }
        }
        let mut whole = Vec::new();
        for other in (1..levels.len()).filter(|&other| is_whole[other]) {
            let pairs = shape.segments.iter().filter(|segment| segment.levels == [0, other]);
            let columns: Vec<(usize, usize)> = pairs
                .flat_map(|pair| (0..pair.count).map(|n| (pair.first[0] + n, pair.first[1] + n)))
                .collect();
            if !columns.is_empty() {
                whole.push((other, columns));
            }
        }
        let slice = Design::new(shape, 0, None, &is_whole);
        let far = |&level: &usize| size_of_val(&levels[level].means[..]) >= FAR;
        let of_target = Design::new(shape, *target, Some(0), &vec![false; levels.len()]);
        Along {
            varied: of_target.varied(),
            far: (1..levels.len()).filter(far).collect(),
            beside: slice.has_beside(*target) && levels[*target].width > 1,
            slice,
            target: of_target,
            from,
            same: levels[*target].width == 1 || shape.is_simple(*target),
            whole,
        }
    }
}

/// What covariances add to the sums of a slice.
#[derive(Default)]
struct Uncertain {
    /// To A, below and on its diagonal.
    square: Vec<(usize, usize, f64)>,
    /// Taken away from b.
    right: Vec<(usize, f64)>,
}

/// What a lane works in.
pub(super) struct Worker<'a> {
    pass: &'a Pass<'a>,
    along: &'a Along,
    found: LaneFound,
    room: RowRoom,
    /// z of some entries, padded.
    panel: Vec<f64>,
    /// Sums of the slice: A padded, variances of z, b.
    square: Vec<f64>,
    spread: Vec<f64>,
    right: Vec<f64>,
    /// Sums of covariances, and which rows they are of.
    covariances: Vec<f64>,
    picks: Vec<Pick>,
    features: Vec<f64>,
    expected: Vec<f64>,
    variances: Vec<f32>,
    /// Entries on their way into the sums of the target.
    batch: Batch,
    /// Of one entry: what of the target's z comes from other levels, and how uncertain that is.
    others: Vec<f64>,
    others_spread: Vec<f64>,
    /// Both, as factors of some entries.
    factors: Vec<f64>,
    /// What multiplies level 0's row in terms without the target.
    beside: Vec<f64>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(pass: &'a Pass<'a>, along: &'a Along) -> Self {
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
                sums: vec![0.0; pass.rows.len() * sums_width(e)],
            },
            room: RowRoom::new(k),
            panel: vec![0.0; PANEL * padded],
            square: vec![0.0; padded * padded],
            spread: vec![0.0; k],
            right: vec![0.0; k],
            covariances: Vec::new(),
            picks: Vec::new(),
            features: vec![0.0; features],
            expected: vec![0.0; k],
            variances: vec![0.0; k],
            batch: Batch::new(e),
            others: vec![1.0; e],
            others_spread: vec![0.0; e],
            factors: vec![1.0; SCALED * sums_width(e)],
            beside: vec![0.0; k],
        }
    }

    /// What was found, when no slice is left.
    pub(super) fn end(mut self) -> LaneFound {
        self.flush(false);
        self.found
    }

    /// Fits the row of a slice and adds its entries to the sums of the target. `false` where a number is not
    /// finite.
    pub(super) fn slice(&mut self, slice: u32, entries: &Entries) -> bool {
        self.square.fill(0.0);
        self.spread.fill(0.0);
        self.right.fill(0.0);
        let padded = self.square.len().isqrt();
        for from in (0..entries.len()).step_by(PANEL) {
            let range = from..entries.len().min(from + PANEL);
            vectorised(
                #[inline(always)]
                || self.gather(slice, entries, range.clone()),
            );
            let panel = &self.panel[..range.len() * padded];
            add_gram(panel, &entries.weights[range], padded, &mut self.square);
        }
        let added = self.add_covariances(entries);
        self.found.moments.weight += entries.weights.iter().sum::<f64>();
        let mut done = false;
        vectorised(
            #[inline(always)]
            || done = self.fit(slice, &added),
        );
        if !done {
            return false;
        }
        if self.batch.is_full() {
            self.flush(false);
        }
        let mut number = 0;
        vectorised(
            #[inline(always)]
            || number = self.look_along(),
        );
        let mut from = 0;
        while from < entries.len() {
            let to = entries.len().min(from + self.batch.room());
            vectorised(
                #[inline(always)]
                || self.spread_out(slice, entries, from..to, number),
            );
            if to < entries.len() {
                self.flush(true);
            }
            from = to;
        }
        true
    }

    /// z of some entries, and what they add to the slice's sums.
    #[inline(always)]
    fn gather(&mut self, slice: u32, entries: &Entries, range: Range<usize>) {
        let (levels, design) = (self.pass.levels, &self.along.slice);
        let (k, padded) = (levels[0].width, self.square.len().isqrt());
        let mut panel = self.panel.chunks_exact_mut(padded);
        let own = levels[0].mean(slice as usize);
        let (mut squares, mut variance_of_rest) = (0.0, 0.0);
        let mut to_come =
            entries.at[range.start * (levels.len() - 1)..].chunks_exact(levels.len() - 1).skip(AHEAD);
        entries.for_each_of(
            range,
            slice,
            levels.len(),
            #[inline(always)]
            |indices: &[u32; MAX_ORDER], value: f64, weight: f64| {
                if let Some(at) = to_come.next() {
                    for &level in &self.along.far {
                        prefetch_all(levels[level].mean(at[level - 1] as usize));
                        prefetch_all(levels[level].variance(at[level - 1] as usize));
                    }
                }
                let (rows, variances) = entry_rows(levels, indices);
                let Some(z) = panel.next().map(|z| &mut z[..k]) else { return };
                design.z(&rows, z);
                design.add_spread(&rows, &variances, weight, &mut self.spread);
                let (shift, unsure) = offset(self.pass.tables, indices, self.pass.noise);
                let rest = design.rest(&rows) + shift;
                let (t, variance) = self.pass.target(value, rest, || dot(own, z));
                axpy(weight * t, z, &mut self.right);
                squares += weight * t * t;
                variance_of_rest += weight * (variance + unsure + design.rest_variance(&rows, &variances));
            },
        );
        self.found.moments.squares += squares + variance_of_rest;
        self.found.moments.residuals += squares;
    }

    /// Adds covariances of other levels, where they are whole: those of z, and of z with the bias, which t has in it.
    fn add_covariances(&mut self, entries: &Entries) -> Uncertain {
        let (levels, padded) = (self.pass.levels, self.square.len().isqrt());
        let mut added = Uncertain::default();
        for (other, columns) in &self.along.whole {
            let level = &levels[*other];
            let stride = level.covariance_width();
            let at = entries.at[other - 1..].iter().step_by(levels.len() - 1);
            self.picks.clear();
            self.picks.extend((at.zip(&entries.weights)).map(|(&from, &weight)| Pick {
                to: 0,
                from,
                weight,
                value: 0.0,
            }));
            self.covariances.clear();
            self.covariances.resize(stride, 0.0);
            let layout = Picked { sums: stride, second: 0, at: 0 };
            layout.add(&level.covariances, &self.picks, &mut self.covariances);
            for (i, a) in columns {
                let x = self.covariances[start(level.width - 1) + a];
                self.right[*i] -= x;
                added.right.push((*i, x));
                for (j, b) in columns.iter().filter(|(j, _)| j <= i) {
                    let x = self.covariances[start(*a.max(b)) + a.min(b)];
                    self.square[i * padded + j] += x;
                    added.square.push((*i, *j, x));
                }
            }
        }
        added
    }

    /// The row of a slice.
    #[inline(always)]
    fn fit(&mut self, slice: u32, added: &Uncertain) -> bool {
        let level = &self.pass.levels[0];
        let (k, padded) = (level.width, self.square.len().isqrt());
        (0..k).for_each(|i| self.square[i * padded + i] += self.spread[i]);
        level.features.of(slice as usize, level.counts[slice as usize], &mut self.features);
        level.prior.mean(&self.features, &mut self.expected);
        let room = &mut self.room;
        let square = &self.square;
        level.prior.posterior(
            &self.expected,
            self.pass.noise,
            |i, j| square[i * padded + j],
            &self.right,
            &mut room.factor,
            &mut room.mean,
        );
        if !room.solve() {
            return false;
        }
        let found = &mut self.found;
        found.moments.add_row(&room.mean, &self.features, Covariance::Whole(&room.covariance));
        let mut of_rows: f64 = (0..k).map(|i| self.spread[i] * room.mean[i] * room.mean[i]).sum();
        for &(i, j, x) in &added.square {
            of_rows += if i == j { 1.0 } else { 2.0 } * x * room.mean[i] * room.mean[j];
        }
        for &(i, x) in &added.right {
            of_rows += 2.0 * x * room.mean[i];
        }
        let (mut residuals, mut uncertain) = (-2.0 * dot(&room.mean, &self.right), 0.0);
        for i in 0..k {
            let (row, s) = (&self.square[i * padded..][..=i], &room.covariance[i * k..][..=i]);
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
    /// and x. Returns the number of the slice in the batch.
    #[inline(always)]
    fn look_along(&mut self) -> u32 {
        let RowRoom { mean, covariance, .. } = &self.room;
        let (k, from) = (mean.len(), &self.along.from);
        let layout = self.batch.layout;
        let (number, to) = self.batch.slice();
        let (sums, x) = to.split_at_mut(layout.sums);
        let of = |c: usize| from[c].map_or(1.0, |from| mean[from]);
        for i in 0..from.len() {
            x[i] = of(i);
            let row = &mut sums[start(i)..][..=i];
            for (j, to) in row.iter_mut().enumerate() {
                *to = x[i] * x[j];
                if let (Some(a), Some(b)) = (from[i], from[j]) {
                    *to += covariance[a * k + b];
                }
            }
            let cross = from[i].map_or(0.0, |from| covariance[(k - 1) * k + from]);
            sums[layout.at + i] = if self.along.beside { 0.0 } else { -cross };
        }
        number
    }

    /// Puts entries of a slice on their way to the sums of the target, the slice's row being fitted.
    #[inline(always)]
    fn spread_out(&mut self, slice: u32, entries: &Entries, range: Range<usize>, number: u32) {
        let Pass { levels, target, .. } = self.pass;
        let (k, e) = (levels[0].width, levels[*target].width);
        let Along { slice: of_slice, target: of_target, same, beside, from, .. } = self.along;
        let layout = self.batch.layout;
        entries.for_each_of(
            range,
            slice,
            levels.len(),
            #[inline(always)]
            |indices: &[u32; MAX_ORDER], value: f64, weight: f64| {
                let index = indices[*target] as usize;
                if !self.pass.rows.contains(&index) {
                    return;
                }
                let (mut rows, _) = entry_rows(levels, indices);
                rows[0] = &self.room.mean;
                let rest = of_target.rest(&rows) + offset(self.pass.tables, indices, self.pass.noise).0;
                let (t, _) = self.pass.target(value, rest, || {
                    let x = &self.batch.panel[number as usize * layout.width() + layout.sums..][..e];
                    if *same {
                        return dot(x, rows[*target]);
                    }
                    of_target.z(&rows, &mut self.others);
                    triple_dot(x, &self.others, rows[*target])
                });
                let to = (index - self.pass.rows.start) as u32;
                self.batch.push(Pick { to, from: number, weight, value: weight * t });
                if !same {
                    self.batch.at.extend_from_slice(&indices[1..levels.len()]);
                }
                if *beside {
                    // The covariance with what else of the slice's row is in the value: not the same for all entries.
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
            },
        );
    }

    /// Adds the entries that wait to the sums. `within` a slice it may go on.
    fn flush(&mut self, within: bool) {
        self.batch.sort(self.pass.rows.len());
        let Batch { layout, panel, sorted, .. } = &self.batch;
        if self.along.same {
            layout.add(panel, sorted, &mut self.found.sums);
        } else {
            let numbers: Vec<usize> = self.batch.numbers().collect();
            for (picks, numbers) in sorted.chunks(SCALED).zip(numbers.chunks(SCALED)) {
                vectorised(
                    #[inline(always)]
                    || {
                        let rows = self.factors.chunks_exact_mut(layout.sums);
                        for (&number, to) in numbers.iter().zip(rows) {
                            factors_of(
                                (self.pass, self.along),
                                (&self.batch.at, number),
                                (&mut self.others, &mut self.others_spread),
                                to,
                            );
                        }
                    },
                );
                layout.add_scaled(panel, picks, &self.factors, &mut self.found.sums);
            }
        }
        self.batch.clear(within);
    }
}

/// What the rows of other levels than 0 and the target give to an entry.
#[inline(always)]
fn factors_of(
    (pass, along): (&Pass<'_>, &Along),
    (at, number): (&[u32], usize),
    (others, spread): (&mut [f64], &mut [f64]),
    to: &mut [f64],
) {
    let (levels, width) = (pass.levels, pass.levels.len() - 1);
    let mut indices = [0; MAX_ORDER];
    for (index, at) in indices[1..].iter_mut().zip(&at[number * width..][..width]) {
        *index = *at;
    }
    let (rows, variances) = entry_rows(levels, &indices);
    along.target.z(&rows, others);
    for &column in &along.varied {
        spread[column] = 0.0;
    }
    along.target.add_spread(&rows, &variances, 1.0, spread);
    factors(&along.varied, others, spread, to);
}

#[inline(always)]
fn entry_rows<'l>(levels: &'l [Level], indices: &[u32; MAX_ORDER]) -> (EntryRows<'l>, EntryVariances<'l>) {
    let (mut rows, mut variances): (EntryRows<'l>, EntryVariances<'l>) = ([&[]; MAX_ORDER], [&[]; MAX_ORDER]);
    for (number, level) in levels.iter().enumerate() {
        rows[number] = level.mean(indices[number] as usize);
        variances[number] = level.variance(indices[number] as usize);
    }
    (rows, variances)
}

/// sum of x g m.
#[inline(always)]
fn triple_dot(x: &[f64], g: &[f64], m: &[f64]) -> f64 {
    x.iter().zip(g).zip(m).map(|((x, g), m)| x * g * m).sum()
}
