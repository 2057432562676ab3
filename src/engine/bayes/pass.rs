//! One pass over the train entries: every row of level 0 is fitted as its entries go by, and the entries are
//! added to the sums that rows of another level will be fitted to.

use super::level::{Covariance, Level, Moments};
use super::row::{RowRoom, axpy, dot, start};
use super::shape::{EntryRows, EntryVariances, Shape, product_but};
use super::slices::{Entries, Pending, Slices};
use crate::MAX_ORDER;
use crate::error::{Error, Result};
use crate::kernel::{PANEL_TILE, add_gram, vectorised};
use crate::model::Ends;
use crate::rows::triangle_len;
use crate::stream::{Lane, Stream};
use crate::team::Combine;
use rayon::prelude::*;
use std::ops::Range;

/// Entries whose z are together in memory.
const PANEL: usize = 1024;

/// The numbers of one row's sums: A packed, and b.
pub(super) fn sums_width(k: usize) -> usize {
    triangle_len(k) + k
}

/// What a pass works with; all values in units of their standard deviation, less the mean.
pub(super) struct Pass<'a> {
    pub(super) shape: &'a Shape,
    pub(super) levels: &'a [Level],
    pub(super) noise: f64,
    pub(super) mean: f64,
    /// One over the standard deviation of the values.
    pub(super) scale: f64,
    /// What values at the ends of their range say, where that is not the values themselves.
    pub(super) ends: Option<Ends>,
    /// The level whose sums are taken, and of which rows.
    pub(super) target: usize,
    pub(super) rows: Range<usize>,
}

/// What a pass has found.
pub(super) struct Passed {
    /// What the rows of level 0 add up to.
    pub(super) moments: Moments,
    /// The sums of the target's rows.
    pub(super) sums: Vec<f64>,
}

/// What one lane has found.
struct LaneFound {
    slices: Vec<u32>,
    means: Vec<f64>,
    variances: Vec<f32>,
    moments: Moments,
    sums: Vec<f64>,
}

/// Goes through a part of every lane. Returns what was found and, apart, the new rows of level 0: their
/// indices, means and variances.
pub(super) fn run(
    pass: &Pass<'_>,
    (stream, slices): (&Stream, &Slices),
    pending: &mut [Pending],
    part: (usize, usize),
) -> Result<(Passed, NewRows)> {
    let team = stream.team();
    let (k, width) = (pass.levels[0].width, sums_width(pass.levels[pass.target].width));
    let features = pass.levels[0].features.count();
    let work = |(lane, pending): (&Lane, &mut Pending)| -> Result<LaneFound> {
        let mut worker = Worker::new(pass);
        let mut broken = false;
        slices.for_each(stream, lane, part, pending, |slice, entries| {
            broken |= !worker.slice(slice, entries)
        })?;
        if broken {
            return Err(Error::not_finite("a row"));
        }
        Ok(worker.found)
    };
    let mut passed = Passed { moments: Moments::new(k, features), sums: vec![0.0; pass.rows.len() * width] };
    let mut new = NewRows::default();
    let mut parts = Vec::new();
    // As many lanes at a time as there are threads: that many sums are in memory. Of several processes each
    // has few lanes, and sums travel in their order.
    let together = if team.is_alone() { rayon::current_num_threads() } else { stream.lanes().len().max(1) };
    let mut found = Ok(());
    for (lanes, pending) in stream.lanes().chunks(together).zip(pending.chunks_mut(together)) {
        let wave: Result<Vec<LaneFound>> = lanes.par_iter().zip(pending).map(work).collect();
        match wave {
            Err(error) => found = Err(error),
            Ok(wave) => {
                for mut lane in wave {
                    new.add(&lane);
                    if team.is_alone() {
                        axpy(1.0, &lane.sums, &mut passed.sums);
                        passed.moments.add(&lane.moments);
                    } else {
                        (lane.means, lane.variances) = (Vec::new(), Vec::new());
                        parts.push(lane);
                    }
                }
            }
        }
    }
    team.agree(found)?;
    if !team.is_alone() {
        team.chain(&mut passed.sums, |offset, to| {
            parts.iter().for_each(|lane| axpy(1.0, &lane.sums[offset..][..to.len()], to));
        });
        let mut few = vec![0.0; Moments::new(k, features).words().len()];
        team.chain(&mut few, |offset, to| {
            for lane in &parts {
                let words = lane.moments.words();
                let numbers: Vec<f64> = words.iter().map(|&word| f64::from_bits(word)).collect();
                axpy(1.0, &numbers[offset..][..to.len()], to);
            }
        });
        let words: Vec<u64> = few.iter().map(|x| x.to_bits()).collect();
        passed.moments.set(&words);
    }
    Ok((passed, new))
}

/// Rows of level 0 that were fitted in a pass.
#[derive(Default)]
pub(super) struct NewRows {
    slices: Vec<u32>,
    means: Vec<f64>,
    variances: Vec<f32>,
}

impl NewRows {
    fn add(&mut self, lane: &LaneFound) {
        self.slices.extend_from_slice(&lane.slices);
        self.means.extend_from_slice(&lane.means);
        self.variances.extend_from_slice(&lane.variances);
    }

    /// Puts them in their place; those of other processes, too.
    pub(super) fn put(&self, team: crate::team::Team, level: &mut Level) {
        let k = level.width;
        let rows = self.means.chunks_exact(k).zip(self.variances.chunks_exact(k));
        if team.is_alone() {
            for (&slice, (mean, variance)) in self.slices.iter().zip(rows) {
                level.means[slice as usize * k..][..k].copy_from_slice(mean);
                level.variances[slice as usize * k..][..k].copy_from_slice(variance);
            }
            return;
        }
        // A row is fitted by one process: the others have nothing to say of it.
        let mut fitted: Vec<u64> = vec![0; level.rows.div_ceil(64)];
        self.slices.iter().for_each(|&slice| fitted[slice as usize / 64] |= 1 << (slice % 64));
        team.combine(&mut fitted, Combine::Or);
        let mut words = vec![0u64; level.rows * k];
        for (&slice, (mean, _)) in self.slices.iter().zip(rows.clone()) {
            words[slice as usize * k..][..k].iter_mut().zip(mean).for_each(|(to, x)| *to = x.to_bits());
        }
        team.combine(&mut words, Combine::Or);
        let mut variances = vec![0u64; level.rows * k];
        for (&slice, (_, variance)) in self.slices.iter().zip(rows) {
            let to = &mut variances[slice as usize * k..][..k];
            to.iter_mut().zip(variance).for_each(|(to, x)| *to = u64::from(x.to_bits()));
        }
        team.combine(&mut variances, Combine::Or);
        for row in (0..level.rows).filter(|row| fitted[row / 64] >> (row % 64) & 1 == 1) {
            for n in row * k..(row + 1) * k {
                level.means[n] = f64::from_bits(words[n]);
                level.variances[n] = f32::from_bits(variances[n] as u32);
            }
        }
    }
}

/// What a lane works in.
struct Worker<'a> {
    pass: &'a Pass<'a>,
    found: LaneFound,
    room: RowRoom,
    /// z of some entries, padded.
    panel: Vec<f64>,
    /// Sums of the slice: A padded, variances of z, b.
    square: Vec<f64>,
    spread: Vec<f64>,
    right: Vec<f64>,
    features: Vec<f64>,
    expected: Vec<f64>,
    variances: Vec<f32>,
    /// Of the target: what of z comes from level 0, E of its products, and the covariance with its bias.
    x: Vec<f64>,
    products: Vec<f64>,
    cross: Vec<f64>,
    /// What of z comes from other levels, and how uncertain that is.
    others: Vec<f64>,
    others_spread: Vec<f64>,
    /// What multiplies level 0's row in terms without the target.
    beside: Vec<f64>,
}

impl<'a> Worker<'a> {
    fn new(pass: &'a Pass<'a>) -> Self {
        let (k, e) = (pass.levels[0].width, pass.levels[pass.target].width);
        let (padded, features) = (k.next_multiple_of(PANEL_TILE), pass.levels[0].features.count());
        Worker {
            pass,
            found: LaneFound {
                slices: Vec::new(),
                means: Vec::new(),
                variances: Vec::new(),
                moments: Moments::new(k, features),
                sums: vec![0.0; pass.rows.len() * sums_width(e)],
            },
            room: RowRoom::new(k),
            panel: Vec::new(),
            square: vec![0.0; padded * padded],
            spread: vec![0.0; k],
            right: vec![0.0; k],
            features: vec![0.0; features],
            expected: vec![0.0; k],
            variances: vec![0.0; k],
            x: vec![0.0; e],
            products: vec![0.0; triangle_len(e)],
            cross: vec![0.0; e],
            others: vec![1.0; e],
            others_spread: vec![0.0; e],
            beside: vec![0.0; k],
        }
    }

    /// Fits the row of a slice and adds its entries to the sums of the target. `false` where a number is not
    /// finite.
    fn slice(&mut self, slice: u32, entries: &Entries) -> bool {
        self.square.fill(0.0);
        self.spread.fill(0.0);
        self.right.fill(0.0);
        for from in (0..entries.len()).step_by(PANEL) {
            vectorised(
                #[inline(always)]
                || self.gather(slice, entries, from..entries.len().min(from + PANEL)),
            );
            let weights = &entries.weights[from..entries.len().min(from + PANEL)];
            add_gram(&self.panel, weights, self.square.len().isqrt(), &mut self.square);
        }
        self.found.moments.weight += entries.weights.iter().sum::<f64>();
        if !self.fit(slice) {
            return false;
        }
        vectorised(
            #[inline(always)]
            || self.spread_out(slice, entries),
        );
        true
    }

    /// z of some entries, and what they add to the slice's sums.
    #[inline(always)]
    fn gather(&mut self, slice: u32, entries: &Entries, range: Range<usize>) {
        let Pass { shape, levels, .. } = self.pass;
        let order = levels.len();
        let (k, padded) = (levels[0].width, self.square.len().isqrt());
        self.panel.clear();
        self.panel.resize(range.len() * padded, 0.0);
        let mut panel = self.panel.chunks_exact_mut(padded);
        let own = levels[0].mean(slice as usize);
        let (mut squares, mut variance_of_rest) = (0.0, 0.0);
        entries.for_each_of(range, slice, order, |indices, value, weight| {
            let (rows, variances) = entry_rows(levels, indices);
            let Some(z) = panel.next().map(|z| &mut z[..k]) else { return };
            shape.design(0, &rows, z);
            shape.design_variance(0, &rows, &variances, weight, &mut self.spread);
            let rest = shape.rest(0, &rows);
            let (t, variance) = self.pass.target(value, rest, own, z);
            axpy(weight * t, z, &mut self.right);
            squares += weight * t * t;
            variance_of_rest += weight * (variance + shape.rest_variance(0, &rows, &variances));
        });
        self.found.moments.squares += squares + variance_of_rest;
        self.found.moments.residuals += squares;
    }

    /// The row of a slice.
    fn fit(&mut self, slice: u32) -> bool {
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
        let (mut residuals, mut uncertain) = (-2.0 * dot(&room.mean, &self.right), 0.0);
        for i in 0..k {
            let (row, s) = (&self.square[i * padded..][..=i], &room.covariance[i * k..][..=i]);
            residuals += room.mean[i] * (2.0 * dot(&row[..i], &room.mean[..i]) + row[i] * room.mean[i]);
            uncertain += 2.0 * dot(&row[..i], &s[..i]) + row[i] * s[i];
        }
        let spread: f64 = (0..k).map(|i| self.spread[i] * room.mean[i] * room.mean[i]).sum();
        found.moments.squares += residuals + uncertain;
        found.moments.residuals += residuals - spread;
        found.slices.push(slice);
        found.means.extend_from_slice(&room.mean);
        (0..k).for_each(|i| self.variances[i] = room.covariance[i * k + i] as f32);
        found.variances.extend_from_slice(&self.variances);
        true
    }

    /// Adds the entries of a slice to the sums of the target, the slice's row being fitted.
    #[inline(always)]
    fn spread_out(&mut self, slice: u32, entries: &Entries) {
        let Pass { shape, levels, target, .. } = self.pass;
        let (k, e) = (levels[0].width, levels[*target].width);
        let same = e == 1 || shape.is_simple(*target);
        self.look_along();
        let (length, stride) = (triangle_len(e), sums_width(e));
        entries.for_each(slice, levels.len(), |indices, value, weight| {
            let index = indices[*target] as usize;
            if !self.pass.rows.contains(&index) {
                return;
            }
            let (mut rows, mut variances) = entry_rows(levels, indices);
            (rows[0], variances[0]) = (&self.room.mean, &self.variances);
            let own = rows[*target];
            let rest = shape.rest(*target, &rows);
            if !same {
                other_products(shape, *target, &rows, &variances, &mut self.others, &mut self.others_spread);
            }
            let prediction = if same { dot(&self.x, own) } else { triple_dot(&self.x, &self.others, own) };
            let (t, _) = self.pass.target_at(value, rest, prediction);
            let to = &mut self.found.sums[(index - self.pass.rows.start) * stride..][..stride];
            let (a, b) = to.split_at_mut(length);
            if same {
                axpy(weight, &self.products, a);
                for ((to, x), cross) in b.iter_mut().zip(&self.x).zip(&self.cross) {
                    *to += weight * (t * x - cross);
                }
            } else {
                beside(shape, *target, &rows, &mut self.beside);
                for i in 0..e {
                    let by = weight * self.others[i];
                    let to = &mut a[start(i)..][..=i];
                    let from = &self.products[start(i)..][..=i];
                    to.iter_mut().zip(from).zip(&self.others).for_each(|((to, p), g)| *to += by * g * p);
                    to[i] += weight * self.others_spread[i] * from[i];
                    b[i] += by * t * self.x[i];
                }
                for segment in shape.segments.iter().filter(|segment| segment.levels[0] == 0) {
                    let Some(own) = segment.position(*target) else { continue };
                    for n in 0..segment.count {
                        let (c, row) = (segment.first[own] + n, (segment.first[0] + n) * k);
                        let cross = dot(&self.room.covariance[row..][..k], &self.beside);
                        b[c] -= weight * self.others[c] * cross;
                    }
                }
            }
        });
    }

    /// What the slice's row gives to z of the target: x, and E(x x^T).
    #[inline(always)]
    fn look_along(&mut self) {
        let Pass { shape, levels, target, .. } = self.pass;
        let (k, e) = (levels[0].width, levels[*target].width);
        self.x.fill(1.0);
        self.cross.fill(0.0);
        for segment in shape.segments.iter().filter(|segment| segment.levels[0] == 0) {
            let Some(own) = segment.position(*target) else { continue };
            for n in 0..segment.count {
                let (c, from) = (segment.first[own] + n, segment.first[0] + n);
                self.x[c] = self.room.mean[from];
                self.cross[c] = self.room.covariance[(k - 1) * k + from];
            }
        }
        for i in 0..e {
            let to = &mut self.products[start(i)..][..=i];
            to.iter_mut().zip(&self.x).for_each(|(to, x)| *to = self.x[i] * x);
        }
        let of_both = || shape.segments.iter().filter(|segment| segment.levels[0] == 0);
        for one in of_both() {
            let Some(own) = one.position(*target) else { continue };
            for other in of_both() {
                let Some(theirs) = other.position(*target) else { continue };
                for n in 0..one.count {
                    let (i, row) = (one.first[own] + n, one.first[0] + n);
                    for m in 0..other.count {
                        let (j, column) = (other.first[theirs] + m, other.first[0] + m);
                        if j <= i {
                            self.products[start(i) + j] += self.room.covariance[row * k + column];
                        }
                    }
                }
            }
        }
    }
}

impl Pass<'_> {
    /// The target of an entry: what is left of its value for <m, z>, and its variance where it is latent.
    #[inline(always)]
    fn target(&self, value: f64, rest: f64, own: &[f64], z: &[f64]) -> (f64, f64) {
        let at_end = self.ends.is_some_and(|ends| ends.hold((value - self.mean) * self.scale));
        self.target_at(value, rest, if at_end { dot(own, z) } else { 0.0 })
    }

    /// The same where <m, z> is known.
    #[inline(always)]
    fn target_at(&self, value: f64, rest: f64, prediction: f64) -> (f64, f64) {
        let value = (value - self.mean) * self.scale;
        match self.ends.filter(|ends| ends.hold(value)) {
            Some(ends) => {
                let (mean, variance) = ends.latent(value, rest + prediction);
                (mean - rest, variance)
            }
            None => (value - rest, 0.0),
        }
    }
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

/// What the rows of all levels but 0 and the target give to z of the target, and its variance.
#[inline(always)]
fn other_products(
    shape: &Shape,
    target: usize,
    rows: &EntryRows<'_>,
    variances: &EntryVariances<'_>,
    to: &mut [f64],
    spread: &mut [f64],
) {
    for segment in &shape.segments {
        let Some(own) = segment.position(target) else { continue };
        for n in 0..segment.count {
            let (mut product, mut square, mut second) = (1.0, 1.0, 1.0);
            for (at, &level) in segment.levels.iter().enumerate().filter(|(at, l)| *at != own && **l != 0) {
                let m = rows[level][segment.first[at] + n];
                product *= m;
                square *= m * m;
                second *= m * m + f64::from(variances[level][segment.first[at] + n]);
            }
            to[segment.first[own] + n] = product;
            spread[segment.first[own] + n] = second - square;
        }
    }
}

/// What multiplies level 0's row in terms without the target.
#[inline(always)]
fn beside(shape: &Shape, target: usize, rows: &EntryRows<'_>, to: &mut [f64]) {
    to.fill(0.0);
    to[shape.widths[0] - 1] = 1.0;
    for segment in shape.segments.iter().filter(|segment| segment.levels[0] == 0) {
        if segment.position(target).is_none() {
            product_but(segment, 0, rows, &mut to[segment.first[0]..][..segment.count]);
        }
    }
}
