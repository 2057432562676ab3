//! What the entries of every row of a mode add up to, in one pass.
//!
//! Of the two modes, one comes first in the order that entries are stored in. Entries that follow one
//! another with the same row of that one, and the same rows of all modes but these two, are a group: the
//! core contracted with the latter is one matrix C for all of them, so that z = C v. Where rows of the
//! first mode are fitted, sum of C (v v^T + S) C^T is made from the sum of v v^T + S, once per group;
//! where those of the other are, z and z z^T + C^T S C are the same for the whole group.

use super::{Known, RowsFit};
use crate::MAX_ORDER;
use crate::error::Result;
use crate::kernel::{BlockView, FactorsView, vectorised};
use crate::manifold::Point;
use crate::model::{Biases, Ends};
use crate::objective::remote_rows::RemoteRows;
use crate::objective::streamed::Stored;
use crate::objective::targets::Targets;
use crate::reduce::{Exchange, own_lanes};
use crate::rows::triangle_len;
use crate::stream::{Lane, Stream};
use rayon::prelude::*;
use std::ops::Range;

/// The numbers of one row's sums: A padded, b, and the sum of w E(t^2).
pub(super) fn width(k: usize) -> usize {
    triangle_len(k) + k + 1
}

/// The sums of some rows of the mode `known[which]`, row after row.
pub(super) fn sums(
    fit: &RowsFit<'_>,
    which: usize,
    rows: Range<usize>,
    (train, exchange): (&Stream, &Exchange),
    point: &Point,
    biases: Option<&Biases>,
) -> Result<Vec<f64>> {
    let (own, other) = (&fit.known[which], &fit.known[1 - which]);
    let targets = Targets::new(biases, fit.mode_order);
    let stored = Stored::new(&point.core, fit.mode_order);
    let mut room = RemoteRows::default();
    let view = stored.view(&room.of(&point.factors, fit.mode_order, exchange));
    let own_biases = biases.map_or(&[][..], |biases| &biases.modes[own.mode]);
    let stride = width(own.k);
    // Of level 0 a lane has its own slices only.
    let part = |lane: &Lane| match own.level {
        0 => {
            let start = rows.start.max(lane.slices.start as usize);
            start..rows.end.min(lane.slices.end as usize).max(start)
        }
        _ => rows.clone(),
    };
    let work = |lane: &Lane| -> Result<(usize, Vec<f64>)> {
        let rows = part(lane);
        let start = rows.start;
        if rows.is_empty() {
            return Ok((start, Vec::new()));
        }
        let mut pass = EntrySums::new(own, other, &view, own_biases, fit.ends(), rows);
        let mut values = Vec::new();
        train.for_each(lane, |block| {
            if pass.may_have_rows(block) {
                pass.add(block, &targets.view(block, &mut values));
            }
            Ok(())
        })?;
        Ok((start, pass.sums))
    };
    let mut total = vec![0.0; rows.len() * stride];
    let team = fit.team;
    let place = |start: usize, sums: &[f64]| {
        let begin = (start - rows.start) * stride;
        begin..begin + sums.len()
    };
    if team.is_alone() {
        // As many lanes at a time as there are threads: that many sums are in memory.
        for lanes in train.lanes().chunks(rayon::current_num_threads()) {
            let parts = lanes.par_iter().map(work).collect::<Result<Vec<_>>>()?;
            for (start, sums) in &parts {
                let to = &mut total[place((*start).min(rows.end), sums)];
                to.iter_mut().zip(sums).for_each(|(to, from)| *to += from);
            }
        }
        return Ok(total);
    }
    let parts = own_lanes(train, work)?;
    team.chain(&mut total, |offset, to| {
        for (start, sums) in &parts {
            let at = place((*start).min(rows.end), sums);
            let (low, high) = (offset.max(at.start), (offset + to.len()).min(at.end));
            if low < high {
                let from = &sums[low - at.start..high - at.start];
                to[low - offset..high - offset].iter_mut().zip(from).for_each(|(to, from)| *to += from);
            }
        }
    });
    Ok(total)
}

/// One lane's sums on their way.
struct EntrySums<'a> {
    own: &'a Known,
    other: &'a Known,
    factors: &'a FactorsView<'a>,
    /// The biases of the mode that is fitted: they are put back to the targets.
    biases: &'a [f64],
    ends: Option<Ends>,
    rows: Range<usize>,
    sums: Vec<f64>,
    /// The indices of the group, in storage order; that of the second of the two modes is of no meaning.
    at: [u32; MAX_ORDER],
    /// C, first mode x second mode, row-major.
    c: Vec<f64>,
    spare: Vec<f64>,
    /// For rows of the first mode: sums over the group's entries of w (v v^T + S), padded; w v; and
    /// w (v t - S's column of the bias). For those of the second: E(z z^T), padded; z; C^T times S's
    /// column of the bias.
    square: Vec<f64>,
    line: Vec<f64>,
    right: Vec<f64>,
    /// C^T u, u the row of the first mode, where the tensor's own value is asked for.
    along: Vec<f64>,
    /// Sums of w, w t and w E(t^2) over the group, for the first mode.
    weights: [f64; 3],
    open: bool,
}

impl<'a> EntrySums<'a> {
    fn new(
        own: &'a Known,
        other: &'a Known,
        factors: &'a FactorsView<'a>,
        biases: &'a [f64],
        ends: Option<Ends>,
        rows: Range<usize>,
    ) -> Self {
        // What is summed up within a group: over the other mode's components, or about the own.
        let r = if own.level < other.level { other.rank } else { own.rank };
        EntrySums {
            own,
            other,
            factors,
            biases,
            ends,
            sums: vec![0.0; rows.len() * width(own.k)],
            rows,
            at: [u32::MAX; MAX_ORDER],
            c: Vec::new(),
            spare: Vec::new(),
            square: vec![0.0; triangle_len(r)],
            line: vec![0.0; r],
            right: vec![0.0; r],
            along: Vec::new(),
            weights: [0.0; 3],
            open: false,
        }
    }

    /// Whether a block may hold entries of the rows: all may, unless the mode is the first one.
    fn may_have_rows(&self, block: &BlockView<'_>) -> bool {
        let ids = &block.ids()[0];
        let (first, last) = (ids.get(0) as usize, ids.get(ids.len() - 1) as usize);
        self.own.level > 0 || first < self.rows.end && last >= self.rows.start
    }

    /// Adds a block, given its targets, too.
    fn add(&mut self, block: &BlockView<'_>, targets: &BlockView<'_>) {
        let (own, other) = (self.own.level, self.other.level);
        let second = own.max(other);
        let mut entries = 0..;
        targets.for_each_weighted(|indices, y, weight| {
            let entry = entries.next().unwrap_or(0);
            let row = indices[own] as usize;
            if !self.rows.contains(&row) || weight == 0.0 {
                return;
            }
            let same = |level: usize| level == second || self.at[level] == indices[level];
            if !(self.open && (0..indices.len()).all(same)) {
                vectorised(
                    #[inline(always)]
                    || {
                        self.close();
                        self.begin(indices);
                    },
                );
            }
            let (y, variance) = match self.ends.filter(|ends| ends.hold(block.values().get(entry))) {
                Some(ends) => self.latent(&ends, indices[second] as usize, block.values().get(entry), y),
                None => (y, 0.0),
            };
            let t = y + self.biases.get(row).copied().unwrap_or(0.0);
            if own < other {
                self.gather(indices[other] as usize, t, variance, weight);
            } else {
                self.spread(row, t, variance, weight);
            }
        });
        // Groups end with their block: how entries lie in blocks belongs to the data.
        self.close();
    }

    /// Begins a group.
    #[inline(always)]
    fn begin(&mut self, indices: &[u32]) {
        let levels = [self.own.level.min(self.other.level), self.own.level.max(self.other.level)];
        let is_other = |level: &usize| !levels.contains(level);
        let known =
            !self.c.is_empty() && (0..indices.len()).filter(is_other).all(|l| self.at[l] == indices[l]);
        if !known {
            self.contract(indices, levels);
        }
        self.at[..indices.len()].copy_from_slice(indices);
        self.open = true;
        self.square.fill(0.0);
        self.line.fill(0.0);
        self.right.fill(0.0);
        self.weights = [0.0; 3];
        if self.ends.is_some() {
            let u = self.factors.row(levels[0], indices[levels[0]] as usize);
            let n = self.c.len() / u.len();
            self.along.clear();
            self.along.resize(n, 0.0);
            for (x, c) in u.iter().zip(self.c.chunks_exact(n)) {
                self.along.iter_mut().zip(c).for_each(|(to, c)| *to += x * c);
            }
        }
        if self.own.level > self.other.level {
            self.look_along(indices[self.other.level] as usize);
        }
    }

    /// Mean and variance of the target behind a value at an end, `second` the entry's index in the second
    /// mode: the rows as they are say what the model makes of it.
    fn latent(&self, ends: &Ends, second: usize, value: f64, y: f64) -> (f64, f64) {
        let v = self.factors.row(self.own.level.max(self.other.level), second);
        let base = value - y;
        let tensor: f64 = self.along.iter().zip(v).map(|(z, v)| z * v).sum();
        let (mean, variance) = ends.latent(value, base + tensor);
        (mean - base, variance)
    }

    /// C: the core contracted with the rows of all levels but two.
    #[inline(always)]
    fn contract(&mut self, indices: &[u32], levels: [usize; 2]) {
        let ranks = self.factors.ranks();
        self.c.clear();
        self.c.extend_from_slice(self.factors.core());
        let mut after = 1;
        for level in (0..ranks.len()).rev() {
            if levels.contains(&level) {
                after *= ranks[level];
                continue;
            }
            let row = self.factors.row(level, indices[level] as usize);
            let before = self.c.len() / (after * ranks[level]);
            self.spare.clear();
            self.spare.resize(before * after, 0.0);
            for (to, from) in
                self.spare.chunks_exact_mut(after).zip(self.c.chunks_exact(after * ranks[level]))
            {
                for (x, from) in row.iter().zip(from.chunks_exact(after)) {
                    to.iter_mut().zip(from).for_each(|(to, from)| *to += x * from);
                }
            }
            std::mem::swap(&mut self.c, &mut self.spare);
        }
    }

    /// For rows of the second mode, a group's z = C^T u and E(z z^T) = z z^T + C^T S C.
    #[inline(always)]
    fn look_along(&mut self, first: usize) {
        let (r, u) = (self.own.rank, self.factors.row(self.other.level, first));
        let covariance = self.other.covariance(first);
        for (x, c) in u.iter().zip(self.c.chunks_exact(r)) {
            self.line.iter_mut().zip(c).for_each(|(to, c)| *to += x * c);
        }
        for i in 0..r {
            let x = self.line[i];
            self.square[triangle_len(i)..][..=i].iter_mut().zip(&self.line).for_each(|(to, z)| *to += x * z);
        }
        let Some(covariance) = covariance else { return };
        let n = self.other.rank;
        add_congruence(covariance, n, |a, i| self.c[a * r + i], r, &mut self.spare, &mut self.square);
        if self.other.k > n {
            let unit = self.other.unit;
            for (x, c) in covariance[triangle_len(n)..][..n].iter().zip(self.c.chunks_exact(r)) {
                let x = f64::from(*x) / unit;
                self.right.iter_mut().zip(c).for_each(|(to, c)| *to += x * c);
            }
            self.weights[0] = f64::from(covariance[triangle_len(n) + n]) / (unit * unit);
        }
    }

    /// An entry of a row of the second mode.
    #[inline]
    fn spread(&mut self, row: usize, t: f64, variance: f64, w: f64) {
        let (r, k) = (self.own.rank, self.own.k);
        let stride = width(k);
        let to = &mut self.sums[(row - self.rows.start) * stride..][..stride];
        let (a, rest) = to.split_at_mut(triangle_len(k));
        let (b, squares) = rest.split_at_mut(k);
        a.iter_mut().zip(&self.square).for_each(|(to, x)| *to += w * x);
        for ((to, z), cross) in b.iter_mut().zip(&self.line).zip(&self.right) {
            *to += w * (t * z - cross);
        }
        if k > r {
            a[triangle_len(r)..].iter_mut().zip(&self.line).for_each(|(to, z)| *to += w * z);
            a[triangle_len(r) + r] += w;
            b[r] += w * t;
        }
        squares[0] += w * (t * t + variance + self.weights[0]);
    }

    /// An entry of a row of the first mode.
    #[inline]
    fn gather(&mut self, second: usize, t: f64, mut variance: f64, w: f64) {
        let n = self.other.rank;
        let v = self.factors.row(self.other.level, second);
        for i in 0..n {
            let x = w * v[i];
            self.square[triangle_len(i)..][..=i].iter_mut().zip(v).for_each(|(to, v)| *to += x * v);
            self.line[i] += x;
            self.right[i] += x * t;
        }
        if let Some(covariance) = self.other.covariance(second) {
            self.square.iter_mut().zip(covariance).for_each(|(to, s)| *to += w * f64::from(*s));
            if self.other.k > n {
                let (column, unit) = (&covariance[triangle_len(n)..], self.other.unit);
                self.right.iter_mut().zip(column).for_each(|(to, s)| *to -= w * (f64::from(*s) / unit));
                variance += f64::from(column[n]) / (unit * unit);
            }
        }
        let [weight, sum, squares] = &mut self.weights;
        *weight += w;
        *sum += w * t;
        *squares += w * (t * t + variance);
    }

    /// Ends a group.
    #[inline(always)]
    fn close(&mut self) {
        if !std::mem::take(&mut self.open) || self.own.level > self.other.level {
            return;
        }
        let (r, k, n) = (self.own.rank, self.own.k, self.other.rank);
        let stride = width(k);
        let row = self.at[self.own.level] as usize - self.rows.start;
        let to = &mut self.sums[row * stride..][..stride];
        let (a, rest) = to.split_at_mut(triangle_len(k));
        let (b, squares) = rest.split_at_mut(k);
        add_congruence(&self.square, n, |j, i| self.c[i * n + j], r, &mut self.spare, a);
        let [weight, sum, square] = self.weights;
        for (i, c) in self.c.chunks_exact(n).enumerate() {
            let dot = |x: &[f64]| c.iter().zip(x).map(|(c, x)| c * x).sum::<f64>();
            b[i] += dot(&self.right);
            if k > r {
                a[triangle_len(r) + i] += dot(&self.line);
            }
        }
        if k > r {
            a[triangle_len(r) + r] += weight;
            b[r] += sum;
        }
        squares[0] += square;
    }
}

/// to += M^T S M, padded, for a padded S of n rows and M of n rows and r columns.
#[inline(always)]
fn add_congruence<T: Copy + Into<f64>>(
    s: &[T],
    n: usize,
    m: impl Fn(usize, usize) -> f64,
    r: usize,
    spare: &mut Vec<f64>,
    to: &mut [f64],
) {
    spare.clear();
    spare.resize(2 * n * r, 0.0);
    let (product, matrix) = spare.split_at_mut(n * r);
    for (a, row) in matrix.chunks_exact_mut(r).enumerate() {
        row.iter_mut().enumerate().for_each(|(i, to)| *to = m(a, i));
    }
    for a in 0..n {
        for b in 0..n {
            let x: f64 = s[triangle_len(a.max(b)) + a.min(b)].into();
            let from = &matrix[b * r..][..r];
            product[a * r..][..r].iter_mut().zip(from).for_each(|(to, m)| *to += x * m);
        }
    }
    for (row, product) in matrix.chunks_exact(r).zip(product.chunks_exact(r)) {
        for i in 0..r {
            let x = row[i];
            to[triangle_len(i)..][..=i].iter_mut().zip(product).for_each(|(to, p)| *to += x * p);
        }
    }
}
