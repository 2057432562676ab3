//! What is found out before the first sweep: counts, features of who has which entries, and first rows.

use super::cells::{Alike, pairs_of};
use super::level::{Level, Prior};
use super::row::axpy;
use super::shape::Shape;
use super::slices::{Entries, Slices};
use crate::error::{Error, Result};
use crate::manifold::{Distribution, orthonormalize};
use crate::model::RowFeatures;
use crate::reduce::{own_lanes, sum_in_order};
use crate::rows::Rows;
use crate::stream::Stream;
use crate::team::Combine;
use rand::SeedableRng;
use rand_pcg::Pcg64;

/// Entries by which the products that first rows come from are damped.
pub(super) const ROW_DAMPING: f64 = 10.0;
/// Rounds of the power iterations that they are found by.
const ROUNDS: usize = 3;
/// The size of the first rows of the second mode.
const FIRST_ROWS: f64 = 0.1;

/// Two modes are the first pair without doubt where the biases of both are damped by less than so many entries,
/// and those of any other by so many times as many.
const CLEAR: f64 = 50.0;
const APART: f64 = 3.0;
/// Random directions that pairs of modes are looked at in, and the standard deviations that tell from chance.
const PROBE: usize = 16;
const SURE: f64 = 5.0;

/// Variances of rows and of biases before anything is known, values having the variance 1: of the two
/// modes of the first pair, and the biases of the others.
const FIRST_PRIOR: (f64, f64) = (1.0, 0.2);
const SECOND_PRIOR: (f64, f64) = (0.01, 0.3);
const OTHER_PRIOR: f64 = 0.1;

/// What a look at the train entries says.
pub(super) struct Look {
    /// The weight of every row's entries, per level.
    counts: Vec<Vec<f64>>,
    /// Damped biases of every row, fitted one level after the other.
    biases: Vec<Vec<f64>>,
    /// How much those of a level are damped, in entries: the variance within rows over that between them.
    damping: Vec<f64>,
    /// The values next to the least and to the largest.
    next: (f64, f64),
}

/// Numbers of one lane: weight and residuals of every row, of level 0 those of its own slices.
struct LaneLook {
    start: usize,
    levels: Vec<Vec<[f64; 2]>>,
    squares: f64,
    next: (f64, f64),
}

/// Counts, and biases of every level: first of the one with the fewest rows, because where rows of one lie within
/// rows of another, as the few weeks of every user do, what both could explain goes to the one that needs fewer
/// numbers for it. A pass per level. Returns how many that were.
pub(super) fn look(
    stream: &Stream,
    dims: &[usize],
    (mean, scale): (f64, f64),
    per_weight: f64,
    values: (f64, f64),
) -> Result<(Look, usize)> {
    let mut look = Look {
        counts: Vec::new(),
        biases: dims.iter().map(|&dim| vec![0.0; dim]).collect(),
        damping: vec![f64::MAX; dims.len()],
        next: (0.0, 0.0),
    };
    let mut left: Vec<usize> = Vec::new();
    for pass in 0..dims.len() {
        let biases = &look.biases;
        let of = |value: f64, indices: &[u32]| {
            let biases: f64 = biases.iter().zip(indices).map(|(biases, &index)| biases[index as usize]).sum();
            (value - mean) * scale - biases
        };
        let (sums, squares, next) = sums_of(stream, dims, per_weight, values, of)?;
        if pass == 0 {
            look.next = next;
            look.counts = sums.iter().map(|sums| sums.iter().map(|sums| sums[0]).collect()).collect();
            left = (0..dims.len()).collect();
            let used = |level: usize| look.counts[level].iter().filter(|n| **n > 0.0).count();
            left.sort_by_key(|&level| std::cmp::Reverse((used(level), level)));
        }
        let Some(level) = left.pop() else { break };
        let (mut between, mut rows, mut weight) = (0.0, 0.0, 0.0);
        for &[n, sum] in sums[level].iter().filter(|sums| sums[0] > 0.0) {
            between += sum * sum / n;
            rows += 1.0;
            weight += n;
        }
        let within = (squares - between).max(0.0) / (weight - rows).max(1.0);
        let variance = (between - rows * within) / weight;
        if variance > 0.0 {
            look.damping[level] = within / variance;
            for (bias, [n, sum]) in look.biases[level].iter_mut().zip(&sums[level]) {
                *bias = sum / (n + look.damping[level]);
            }
        }
    }
    Ok((look, dims.len()))
}

/// The weight of every row's entries, per level, and between which values those at the ends are told apart. One
/// pass.
#[expect(clippy::type_complexity, reason = "used once")]
pub(super) fn counts(
    stream: &Stream,
    dims: &[usize],
    per_weight: f64,
    values: (f64, f64),
    range: Option<(f64, f64)>,
) -> Result<(Vec<Vec<f64>>, Option<(f64, f64)>)> {
    let (sums, _, next) = sums_of(stream, dims, per_weight, values, |_, _| 0.0)?;
    let counts = sums.iter().map(|sums| sums.iter().map(|sums| sums[0]).collect()).collect();
    let look = Look { counts, biases: Vec::new(), damping: Vec::new(), next };
    let thresholds = range.and_then(|range| look.thresholds(range));
    Ok((look.counts, thresholds))
}

/// The weight and the residuals of every row of every level, the squares of all residuals, and the values next to
/// the least and the largest. One pass.
#[expect(clippy::type_complexity, reason = "used once")]
fn sums_of(
    stream: &Stream,
    dims: &[usize],
    per_weight: f64,
    (least, most): (f64, f64),
    residual: impl Fn(f64, &[u32]) -> f64 + Sync + Send,
) -> Result<(Vec<Vec<[f64; 2]>>, f64, (f64, f64))> {
    let lanes = own_lanes(stream, |lane| {
        let start = lane.slices.start as usize;
        let mut levels: Vec<Vec<[f64; 2]>> = dims.iter().map(|&dim| vec![[0.0; 2]; dim]).collect();
        levels[0] = vec![[0.0; 2]; lane.slices.len()];
        let mut found = LaneLook { start, levels, squares: 0.0, next: (f64::INFINITY, f64::NEG_INFINITY) };
        stream.for_each(lane, |block| {
            block.for_each_weighted(|indices, value, weight| {
                if weight <= 0.0 {
                    return;
                }
                let (weight, residual) = (weight * per_weight, residual(value, indices));
                for (level, (numbers, &index)) in found.levels.iter_mut().zip(indices).enumerate() {
                    let index = index as usize - if level == 0 { start } else { 0 };
                    numbers[index][0] += weight;
                    numbers[index][1] += weight * residual;
                }
                found.squares += weight * residual * residual;
                if value > least {
                    found.next.0 = found.next.0.min(value);
                }
                if value < most {
                    found.next.1 = found.next.1.max(value);
                }
            });
            Ok(())
        })?;
        Ok(found)
    })?;
    let team = stream.team();
    let mut sums = Vec::new();
    for (level, &dim) in dims.iter().enumerate() {
        let mut total = vec![[0.0; 2]; dim];
        let begin = |start: usize| if level == 0 { 2 * start } else { 0 };
        let of = lanes.iter().map(|lane| (begin(lane.start), lane.levels[level].as_flattened()));
        sum_in_order(team, total.as_flattened_mut(), of);
        sums.push(total);
    }
    let mut squares = [0.0];
    sum_in_order(team, &mut squares, lanes.iter().map(|lane| (0, std::slice::from_ref(&lane.squares))));
    // Bits of numbers that are not negative are in their order: the least distance from the ends is found as one.
    let apart = |distance: f64| if distance.is_finite() { distance.max(0.0).to_bits() } else { u64::MAX };
    let low = lanes.iter().map(|lane| lane.next.0).fold(f64::INFINITY, f64::min);
    let high = lanes.iter().map(|lane| lane.next.1).fold(f64::NEG_INFINITY, f64::max);
    let mut words = [apart(low - least), apart(most - high)];
    team.combine(&mut words, Combine::Min);
    let distance = |word: u64| if word == u64::MAX { f64::INFINITY } else { f64::from_bits(word) };
    Ok((sums, squares[0], (least + distance(words[0]), most - distance(words[1]))))
}

impl Look {
    /// Halfway between the ends and the values next to them; `None` where there are not three values.
    pub(super) fn thresholds(&self, (least, most): (f64, f64)) -> Option<(f64, f64)> {
        let (low, high) = self.next;
        (low <= high && low < most).then(|| (least + (low - least) / 2.0, most - (most - high) / 2.0))
    }

    /// The two levels whose rows differ most, ascending: those whose biases are damped least. And whether there is
    /// no doubt about it.
    pub(super) fn pair(&self) -> ([usize; 2], bool) {
        let mut levels: Vec<usize> = (0..self.damping.len()).collect();
        levels.sort_by(|&a, &b| self.damping[a].total_cmp(&self.damping[b]).then(a.cmp(&b)));
        let second = self.damping[levels[1]];
        let third = levels.get(2).map_or(f64::INFINITY, |&level| self.damping[level]);
        let clear = levels.len() == 2 || second < CLEAR && third > APART * second;
        ([levels[0].min(levels[1]), levels[0].max(levels[1])], clear)
    }

    /// What biases leave of a value.
    fn left(&self, (mean, scale): (f64, f64), value: f64, indices: &[u32]) -> f64 {
        let biases: f64 =
            self.biases.iter().zip(indices).map(|(biases, &index)| biases[index as usize]).sum();
        (value - mean) * scale - biases
    }

    /// The two levels that have most to do with each other, by validation residuals of entries that share their rows of
    /// both; `None` where too few do. No pass over the train entries.
    pub(super) fn pair_by_cells(
        &self,
        validation: &Stream,
        standard: (f64, f64),
    ) -> Result<Option<[usize; 2]>> {
        let pairs = pairs_of(self.counts.len());
        let cells = Alike::new(validation, pairs.clone());
        let lanes = own_lanes(validation, |lane| {
            let mut found = cells.lane();
            validation.for_each(lane, |block| {
                block.for_each_weighted(|indices, value, weight| {
                    if weight > 0.0 {
                        cells.add(&mut found, indices, self.left(standard, value, indices));
                    }
                });
                Ok(())
            })?;
            Ok(found)
        })?;
        let found = cells.evidence(validation, lanes);
        let sure = pairs.into_iter().zip(found).filter(|(_, evidence)| evidence.is_enough());
        Ok(sure.max_by(|a, b| a.1.share.total_cmp(&b.1.share)).map(|(pair, _)| pair))
    }

    /// The two levels that have most to do with each other, by validation, where rows alone do not tell: a mode
    /// without any bias may still matter. Returns how many passes that took.
    pub(super) fn pair_by_residuals(
        &self,
        source: (&Stream, &Slices),
        validation: &Stream,
        standard: (f64, f64),
        seed: u64,
    ) -> Result<(Option<[usize; 2]>, usize)> {
        let left = |value: f64, indices: &[u32]| self.left(standard, value, indices);
        let (mut best, mut passes) = (None, 0);
        let order = self.counts.len();
        for a in 0..order {
            for b in a + 1..order {
                let (rows, of_b, made) = project(source, &self.counts, [a, b], PROBE, &left, 1, seed)?;
                passes += made;
                let share = explained(validation, [a, b], (&rows, &of_b), PROBE, &left)?;
                if share > best.map_or(0.0, |(share, _)| share) {
                    best = Some((share, [a, b]));
                }
            }
        }
        Ok((best.map(|(_, pair)| pair), passes))
    }
}

/// Residuals multiplied by random numbers of level b, added up over rows of level a, multiplied by these sums and
/// added up again: rows of both, in the directions that residuals have in common. Both are divided by their weights,
/// damped. Returns how many passes that took.
pub(super) fn project(
    (stream, slices): (&Stream, &Slices),
    counts: &[Vec<f64>],
    [a, b]: [usize; 2],
    d: usize,
    left: &(dyn Fn(f64, &[u32]) -> f64 + Sync),
    rounds: usize,
    seed: u64,
) -> Result<(Vec<f64>, Vec<f64>, usize)> {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut phi: Vec<f64> =
        (0..counts[b].len() * d).map(|_| Distribution::Gaussian.draw(&mut random)).collect();
    let (mut rows, mut passes) = (Vec::new(), 0);
    for round in 0..rounds {
        if round > 0 {
            phi = orthonormal(phi, &counts[b], d)?;
        }
        let (numbers, sums, made) = both_ways(
            (stream, slices),
            [a, b],
            counts,
            [d, d],
            &|indices, value, weight, to| {
                axpy(weight * left(value, indices), &phi[indices[b] as usize * d..][..d], to);
            },
            &|n, row| row.iter_mut().for_each(|x| *x /= n + ROW_DAMPING),
            &|indices, value, weight, from, to| axpy(weight * left(value, indices), from, to),
        )?;
        passes += made;
        phi = sums;
        for (row, n) in phi.chunks_exact_mut(d).zip(&counts[b]) {
            row.iter_mut().for_each(|x| *x /= n + ROW_DAMPING);
        }
        rows = numbers;
    }
    Ok((rows, phi, passes))
}

/// The share of the squares of validation residuals that products of such rows explain, where that is not chance;
/// zero else.
fn explained(
    validation: &Stream,
    [a, b]: [usize; 2],
    (rows, of_b): (&[f64], &[f64]),
    d: usize,
    left: &(dyn Fn(f64, &[u32]) -> f64 + Sync),
) -> Result<f64> {
    let lanes = own_lanes(validation, |lane| {
        let mut sums = [0.0; 4];
        validation.for_each(lane, |block| {
            block.for_each_weighted(|indices, value, weight| {
                if weight > 0.0 {
                    let e = left(value, indices);
                    let (p, q) =
                        (&rows[indices[a] as usize * d..][..d], &of_b[indices[b] as usize * d..][..d]);
                    let g: f64 = p.iter().zip(q).map(|(p, q)| p * q).sum();
                    (0..4).for_each(|n| sums[n] += [e * g, g * g, e * e, 1.0][n]);
                }
            });
            Ok(())
        })?;
        Ok(sums)
    })?;
    let mut total = [0.0; 4];
    sum_in_order(validation.team(), &mut total, lanes.iter().map(|lane| (0, lane.as_slice())));
    let [along, length, squares, entries] = total;
    let noise = squares / entries.max(1.0);
    let sigmas = along / (noise * length).sqrt().max(f64::MIN_POSITIVE);
    Ok(if sigmas > SURE { along * along / length / squares } else { 0.0 })
}

/// One entry: its indices, what is left of its value, its weight.
type Each<'e> = dyn Fn(&[u32], f64, f64, &mut [f64]) + Sync + Send + 'e;

/// The same, with the numbers of its row of another level.
type Scatter<'e> = dyn Fn(&[u32], f64, f64, &[f64], &mut [f64]) + Sync + 'e;

/// Adds up numbers per row of a level, entry by entry. One pass.
fn add_up(
    (stream, per_weight): (&Stream, f64),
    level: usize,
    rows: usize,
    width: usize,
    each: &Each<'_>,
) -> Result<Vec<f64>> {
    let lanes = own_lanes(stream, |lane| {
        let (start, rows) = if level == 0 { (lane.slices.start, lane.slices.len()) } else { (0, rows) };
        let mut sums = vec![0.0; rows * width];
        stream.for_each(lane, |block| {
            block.for_each_weighted(|indices, value, weight| {
                if weight > 0.0 {
                    let row = (indices[level] - start) as usize;
                    each(indices, value, weight * per_weight, &mut sums[row * width..][..width]);
                }
            });
            Ok(())
        })?;
        Ok((start as usize * width, sums))
    })?;
    let mut total = vec![0.0; rows * width];
    sum_in_order(stream.team(), &mut total, lanes.iter().map(|(begin, sums)| (*begin, sums.as_slice())));
    Ok(total)
}

/// Numbers of every row of level a, from its entries, and sums of every row of level b, from entries and those
/// numbers: one pass where a is level 0, whose entries come together, and two else. `gather` adds an entry to a
/// row of a, `finish` is given its weight, `scatter` adds an entry to a row of b.
fn both_ways(
    (stream, slices): (&Stream, &Slices),
    [a, b]: [usize; 2],
    counts: &[Vec<f64>],
    [wide_a, wide_b]: [usize; 2],
    gather: &Each<'_>,
    finish: &(dyn Fn(f64, &mut [f64]) + Sync),
    scatter: &Scatter<'_>,
) -> Result<(Vec<f64>, Vec<f64>, usize)> {
    let (rows_a, rows_b) = (counts[a].len(), counts[b].len());
    let data = (stream, slices.per_weight);
    if a > 0 {
        let mut numbers = add_up(data, a, rows_a, wide_a, gather)?;
        numbers.chunks_exact_mut(wide_a).zip(&counts[a]).for_each(|(row, &n)| finish(n, row));
        let sums = add_up(data, b, rows_b, wide_b, &|indices, value, weight, to| {
            let row = &numbers[indices[a] as usize * wide_a..][..wide_a];
            scatter(indices, value, weight, row, to);
        })?;
        return Ok((numbers, sums, 2));
    }
    let order = counts.len();
    let gather_all = |slice: u32, entries: &Entries, row: &mut [f64]| {
        entries.for_each(slice, order, |indices, value, weight| {
            gather(&indices[..order], value, weight, row);
        });
    };
    let mut large =
        slices.of_large(stream, wide_a, || (), |(), slice, entries, to| gather_all(slice, entries, to))?;
    let of_large = slices.large().iter().zip(large.chunks_exact_mut(wide_a));
    of_large.for_each(|(&slice, row)| finish(counts[0][slice as usize], row));
    let lanes = own_lanes(stream, |lane| {
        let (mut rows, mut numbers) = (Vec::new(), Vec::new());
        let mut sums = vec![0.0; rows_b * wide_b];
        slices.for_each(stream, lane, (0, 1), |slice, entries| {
            let mut row = vec![0.0; wide_a];
            match slices.number_of(slice) {
                Some(number) => row.copy_from_slice(&large[number * wide_a..][..wide_a]),
                None => {
                    gather_all(slice, entries, &mut row);
                    finish(counts[0][slice as usize], &mut row);
                }
            }
            entries.for_each(slice, order, |indices, value, weight| {
                let to = &mut sums[indices[b] as usize * wide_b..][..wide_b];
                scatter(&indices[..order], value, weight, &row, to);
            });
            rows.push(slice as usize);
            numbers.extend_from_slice(&row);
        })?;
        Ok((rows, numbers, sums))
    })?;
    let mut numbers = vec![0.0; rows_a * wide_a];
    for (rows, found, _) in &lanes {
        for (&row, found) in rows.iter().zip(found.chunks_exact(wide_a)) {
            numbers[row * wide_a..][..wide_a].copy_from_slice(found);
        }
    }
    let team = stream.team();
    if !team.is_alone() {
        // A slice belongs to one lane, and so to one process.
        let words: &mut [u64] = bytemuck::cast_slice_mut(&mut numbers);
        team.combine(words, Combine::Or);
    }
    let mut total = vec![0.0; rows_b * wide_b];
    sum_in_order(team, &mut total, lanes.iter().map(|(_, _, sums)| (0, sums.as_slice())));
    Ok((numbers, total, 1))
}

/// First levels, and how many passes they took beside the look.
///
/// Who has the same entries is found by a few steps of a power iteration: means of random numbers of one mode over
/// the rows of the other, and means of those back again. Likewise, with residuals of the biases as weights, first
/// rows: without these a component that explains much may be taken for noise and never be found.
pub(super) fn levels(
    (stream, slices): (&Stream, &Slices),
    look: Look,
    shape: &Shape,
    [a, b]: [usize; 2],
    d: usize,
    standard: (f64, f64),
    seed: u64,
) -> Result<(Vec<Level>, usize)> {
    let rank = shape.widths[b] - 1;
    let rows: Vec<usize> = look.counts.iter().map(Vec::len).collect();
    let (of_a, of_b) = (&look.counts[a], &look.counts[b]);
    let mut random = Pcg64::seed_from_u64(seed);
    let mut phi: Vec<f64> = (0..rows[b] * d).map(|_| Distribution::Gaussian.draw(&mut random)).collect();
    let left = |value: f64, indices: &[u32]| look.left(standard, value, indices);
    let mut passes = 0;
    // Beside the numbers of who has which entries, directions that residuals have in common: both begin random, and
    // a round of both is one of a power iteration.
    let mut psi: Vec<f64> = (0..rows[b] * d).map(|_| Distribution::Gaussian.draw(&mut random)).collect();
    let (mut h, mut back, mut basis) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (numbers, sums, made) = both_ways(
            (stream, slices),
            [a, b],
            &look.counts,
            [2 * d, 2 * d],
            &|indices, value, weight, to| {
                let (at, (h, t)) = (indices[b] as usize * d, to.split_at_mut(d));
                axpy(weight, &phi[at..][..d], h);
                axpy(weight * left(value, indices), &psi[at..][..d], t);
            },
            &|n, row| {
                row[..d].iter_mut().for_each(|x| *x /= n.max(f64::MIN_POSITIVE));
                row[d..].iter_mut().for_each(|x| *x /= (n + ROW_DAMPING).sqrt());
            },
            &|indices, value, weight, from, to| {
                let (h, t) = to.split_at_mut(d);
                axpy(weight, &from[..d], h);
                axpy(weight * left(value, indices), &from[d..], t);
            },
        )?;
        passes += made;
        h = numbers.chunks_exact(2 * d).flat_map(|row| &row[..d]).copied().collect();
        let half = |from: usize| sums.chunks_exact(2 * d).flat_map(move |row| &row[from..from + d]).copied();
        back = divided(half(0).collect(), of_b, d);
        basis = std::mem::replace(&mut phi, orthonormal(back.clone(), of_b, d)?);
        psi = half(d).collect();
        for (row, n) in psi.chunks_exact_mut(d).zip(of_b) {
            row.iter_mut().for_each(|x| *x /= (n + ROW_DAMPING).sqrt());
        }
        psi = orthonormal(psi, of_b, d)?;
    }
    let first = psi;
    // h of the first level is the mean of this over its entries, that of the second the mean of the first's.
    let basis: Vec<f32> = basis.into_iter().map(|x| x as f32).collect();
    let (of_a, of_b) = (standardised(h, of_a, d), RowFeatures { basis, ..standardised(back, of_b, d) });
    let mut levels = Vec::new();
    for (number, (counts, biases)) in look.counts.iter().zip(&look.biases).enumerate() {
        let k = shape.widths[number];
        let (features, (of_rows, of_bias)) = if number == a {
            (of_a.clone(), FIRST_PRIOR)
        } else if number == b {
            (of_b.clone(), SECOND_PRIOR)
        } else {
            (RowFeatures::default(), (OTHER_PRIOR, OTHER_PRIOR))
        };
        let variances: Vec<f64> =
            (0..k).map(|column| if column + 1 == k { of_bias } else { of_rows }).collect();
        let prior = Prior::new(&variances, features.count()).ok_or_else(|| Error::not_finite("a prior"))?;
        let mut means = vec![0.0; rows[number] * k];
        for (row, mean) in means.chunks_exact_mut(k).enumerate().filter(|(row, _)| counts[*row] > 0.0) {
            mean[k - 1] = biases[row];
            if number == b {
                for n in 0..rank {
                    let drawn =
                        if n < d { first[row * d + n] } else { Distribution::Gaussian.draw(&mut random) };
                    mean[n] = FIRST_ROWS * drawn;
                }
            }
        }
        let variances = vec![0.0; rows[number] * k];
        let counts = counts.clone();
        let covariances = Vec::new();
        let rows = rows[number];
        let mut level = Level { rows, width: k, means, variances, covariances, counts, features, prior };
        if number > 0 {
            level.set_covariances();
        }
        levels.push(level);
    }
    Ok((levels, passes))
}

/// Sums over weights; zeros where there are none.
fn divided(mut sums: Vec<f64>, weights: &[f64], width: usize) -> Vec<f64> {
    for (row, &weight) in sums.chunks_exact_mut(width).zip(weights) {
        row.iter_mut().for_each(|x| *x = if weight > 0.0 { *x / weight } else { 0.0 });
    }
    sums
}

/// The means of columns, all with the share of a row's entries as its weight.
fn means(rows: &[f64], weights: &[f64], width: usize) -> Vec<f64> {
    let total: f64 = weights.iter().sum();
    let mut means = vec![0.0; width];
    for (row, weight) in rows.chunks_exact(width).zip(weights) {
        means.iter_mut().zip(row).for_each(|(to, x)| *to += weight / total * x);
    }
    means
}

/// Columns less their means.
fn centred(mut rows: Vec<f64>, weights: &[f64], width: usize) -> Vec<f64> {
    let means = means(&rows, weights, width);
    for (row, _) in rows.chunks_exact_mut(width).zip(weights).filter(|(_, weight)| **weight > 0.0) {
        row.iter_mut().zip(&means).for_each(|(x, mean)| *x -= mean);
    }
    rows
}

/// Columns that are centred, orthogonal and of length 1, all with the share of a row's entries as its weight.
/// Where there are not as many directions, random ones take their place.
pub(super) fn orthonormal(rows: Vec<f64>, weights: &[f64], width: usize) -> Result<Vec<f64>> {
    let total: f64 = weights.iter().sum();
    let mut rows = centred(rows, weights, width);
    let count = weights.len();
    if weights.iter().filter(|weight| **weight > 0.0).count() <= width {
        return Ok(standard(rows, weights, width));
    }
    let share = |row: usize| (weights[row] / total).sqrt();
    let mut random = Pcg64::seed_from_u64(1);
    let scale = rows.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    let noise = if scale > f64::MIN_POSITIVE.sqrt() { 1e-9 * scale } else { 1.0 };
    for (number, row) in rows.chunks_exact_mut(width).enumerate() {
        // Far below what is there, so that dependent columns become random directions.
        row.iter_mut()
            .for_each(|x| *x = share(number) * (*x + noise * Distribution::Gaussian.draw(&mut random)));
    }
    let mut factor = Rows::from_vec(count, width, rows);
    if orthonormalize(&mut factor).is_err() {
        let drawn = (0..count * width).map(|_| Distribution::Gaussian.draw(&mut random)).collect();
        return Ok(standard(centred(drawn, weights, width), weights, width));
    }
    let mut rows = factor.into_vec();
    for (number, row) in rows.chunks_exact_mut(width).enumerate() {
        let by = if weights[number] > 0.0 { 1.0 / share(number) } else { 0.0 };
        row.iter_mut().for_each(|x| *x *= by);
    }
    Ok(rows)
}

/// The squared lengths of columns.
fn squares(rows: &[f64], weights: &[f64], width: usize) -> Vec<f64> {
    let total: f64 = weights.iter().sum();
    let mut squares = vec![0.0; width];
    for (row, weight) in rows.chunks_exact(width).zip(weights) {
        squares.iter_mut().zip(row).for_each(|(to, x)| *to += weight / total * x * x);
    }
    squares
}

/// Columns of length 1.
fn standard(mut rows: Vec<f64>, weights: &[f64], width: usize) -> Vec<f64> {
    let squares = squares(&rows, weights, width);
    for row in rows.chunks_exact_mut(width) {
        row.iter_mut()
            .zip(&squares)
            .for_each(|(x, square)| *x = if *square > 0.0 { *x / square.sqrt() } else { 0.0 });
    }
    rows
}

fn standardised(rows: Vec<f64>, weights: &[f64], width: usize) -> RowFeatures {
    let centre = means(&rows, weights, width);
    let rows = centred(rows, weights, width);
    let scale = squares(&rows, weights, width).into_iter().map(f64::sqrt).collect();
    let values = standard(rows, weights, width).into_iter().map(|x| x as f32).collect();
    RowFeatures { width, values, basis: Vec::new(), centre, scale, half: RowFeatures::HALF }
}
