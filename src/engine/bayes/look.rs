//! The first look at the data: counts, biases, and the two modes that components begin with.

use super::both_ways::project;
use super::cells::{Alike, pairs_of};
use super::slices::Slices;
use crate::error::Result;
use crate::reduce::{own_lanes, sum_in_order};
use crate::stream::Stream;
use crate::team::Combine;

// What other values do: docs/thresholds.md.
/// Two modes are the first pair without doubt where the biases of both are damped by less than so many entries,
/// and those of any other by so many times as many.
const CLEAR: f64 = 50.0;
const APART: f64 = 3.0;
/// Random directions that pairs of modes are looked at in, and the standard deviations that tell from chance.
const PROBE: usize = 16;
const SURE: f64 = 5.0;

/// What a look at the train entries says.
pub(super) struct Look {
    /// The weight of every row's entries, per level.
    pub(super) counts: Vec<Vec<f64>>,
    /// Damped biases of every row, fitted one level after the other.
    pub(super) biases: Vec<Vec<f64>>,
    /// How much those of a level are damped, in entries: the variance within rows over that between them.
    damping: Vec<f64>,
    /// Levels of which validation entries have no row of train: nobody could tell what their components are worth.
    strangers: Vec<bool>,
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
/// numbers for it. A pass per level that validation can judge. Returns how many that were.
pub(super) fn look(
    stream: &Stream,
    dims: &[usize],
    (mean, scale): (f64, f64),
    per_weight: f64,
    values: (f64, f64),
    validation: Option<&Stream>,
) -> Result<(Look, usize)> {
    let mut look = Look {
        counts: Vec::new(),
        biases: dims.iter().map(|&dim| vec![0.0; dim]).collect(),
        damping: vec![f64::MAX; dims.len()],
        strangers: vec![false; dims.len()],
        next: (0.0, 0.0),
    };
    let mut left: Vec<usize> = Vec::new();
    let mut passes = 0;
    while passes == 0 || !left.is_empty() {
        let biases = &look.biases;
        let of = |value: f64, indices: &[u32]| {
            let biases: f64 = biases.iter().zip(indices).map(|(biases, &index)| biases[index as usize]).sum();
            (value - mean) * scale - biases
        };
        let (sums, squares, next) = sums_of(stream, dims, per_weight, values, of)?;
        if passes == 0 {
            look.next = next;
            look.counts = sums.iter().map(|sums| sums.iter().map(|sums| sums[0]).collect()).collect();
            validation.map_or(Ok(()), |validation| look.find_strangers(validation))?;
            left = (0..dims.len()).filter(|&level| !look.strangers[level]).collect();
            let used = |level: usize| look.counts[level].iter().filter(|n| **n > 0.0).count();
            left.sort_by_key(|&level| std::cmp::Reverse((used(level), level)));
        }
        passes += 1;
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
    Ok((look, passes))
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
    let look = Look { counts, biases: Vec::new(), damping: Vec::new(), strangers: Vec::new(), next };
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

    /// Finds levels of which no validation entry has a row of train, as of numbers of rows, or of times of which train has only
    /// earlier ones: a row of its own explains any entry, and nobody could tell what that is worth. They have no biases, which
    /// would take a share of what other levels explain.
    fn find_strangers(&mut self, validation: &Stream) -> Result<()> {
        let lanes = own_lanes(validation, |lane| {
            let mut known = vec![0_u64; self.counts.len()];
            validation.for_each(lane, |block| {
                block.for_each(|indices, _| {
                    for ((known, counts), &index) in known.iter_mut().zip(&self.counts).zip(indices) {
                        *known += u64::from(counts[index as usize] > 0.0);
                    }
                });
                Ok(())
            })?;
            Ok(known)
        })?;
        let mut known = vec![0; self.counts.len()];
        lanes.iter().for_each(|lane| known.iter_mut().zip(lane).for_each(|(sum, n)| *sum += n));
        validation.team().combine(&mut known, Combine::Sum);
        self.strangers = known.iter().map(|&known| known == 0).collect();
        for level in (0..known.len()).filter(|&level| self.strangers[level]) {
            // Behind levels whose biases tell nothing.
            self.damping[level] = f64::INFINITY;
        }
        Ok(())
    }

    /// Pairs of levels whose components validation can judge.
    fn pairs(&self) -> Vec<[usize; 2]> {
        let mut pairs = pairs_of(self.counts.len());
        pairs.retain(|pair| !pair.iter().any(|&level| self.strangers[level]));
        pairs
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
    pub(super) fn left(&self, (mean, scale): (f64, f64), value: f64, indices: &[u32]) -> f64 {
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
        let pairs = self.pairs();
        let cells = Alike::new(validation, self.counts.len(), pairs.clone());
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
        for pair in self.pairs() {
            let (rows, of_b, made) = project(source, &self.counts, pair, PROBE, &left, 1, seed)?;
            passes += made;
            let share = explained(validation, pair, (&rows, &of_b), PROBE, &left)?;
            if share > best.map_or(0.0, |(share, _)| share) {
                best = Some((share, pair));
            }
        }
        Ok((best.map(|(_, pair)| pair), passes))
    }
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
