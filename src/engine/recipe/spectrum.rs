//! One component more, from the spectrum of the residual.

use crate::error::Result;
use crate::manifold::{Core, Distribution, Point, Tangent, orthonormalize};
use crate::objective::{Regularised, shared_fibres};
use crate::rows::Rows;
use crate::solver::Objective;
use rand::SeedableRng;
use rand_pcg::Pcg64;

// What other values do: docs/thresholds.md.
/// Passes over the train entries that [`append`] makes.
pub(super) const PASSES: usize = 4;
/// A component is one where the product over the modes of what eigenvalues are beside those of chance is at least this. Of missing
/// components it was 0.95 once and 1.00 and more otherwise (`synth --dims 300,300,300 --rank 5 --condition 5 --entries 20785`, seeds 1
/// to 3 and 11 to 33; with more entries, or Gaussian factors, 1.06 and more), of noise 0.76 to 1.19, in six of twelve cases
/// less than this (1000^3 at an oversampling of 10, noise a tenth of the values, seeds 1 to 3).
const BEYOND_CHANCE: f64 = 0.9;
/// Modes of so few rows have no spectrum to speak of.
const FEW_ROWS: usize = 8;
/// The least part of a new column in what new numbers of the core would change.
const PART: f64 = 0.1;

/// The point with one column more in every mode whose rank is below `ranks`, or none where the residual does not say
/// which: its entries hardly share fibres, or have nothing in common.
///
/// In every mode but the first on disk the column is the leading eigenvector of [`shared_fibres`]; there it is the
/// residual projected on the others' columns. The core's new numbers are the residual projected on the new
/// columns, all scaled by one least-squares step. `rms` is the root mean square of the residual. Where this is `selective`,
/// modes whose new columns have hardly any part in that keep the columns that they have.
pub(super) fn append(
    objective: &mut Regularised,
    from: &Point,
    have: &[usize],
    ranks: &[usize],
    rms: f64,
    most: usize,
    seed: u64,
    selective: bool,
) -> Result<Option<Point>> {
    let (dims, levels) = (from.dims(), objective.data.mode_order().to_vec());
    let mut fibres = match &objective.coordinates {
        None => shared_fibres(&objective.data, from, None, rms, most)?,
        some => shared_fibres(&objective.data, &objective.model(from), some.as_ref(), rms, most)?,
    };
    let (mut factors, mut beyond_chance): (Vec<Rows>, f64) = (Vec::new(), 1.0);
    for mode in 0..dims.len() {
        let mut rows = widened(&from.factors[mode], have[mode], ranks[mode]);
        let level = levels.iter().position(|&m| m == mode).unwrap_or(0);
        if ranks[mode] > have[mode] && level > 0 {
            let seed = seed.wrapping_add(level as u64);
            if dims[mode] <= FEW_ROWS {
                // Any column will do: the fit turns it.
                let mut rng = Pcg64::seed_from_u64(seed);
                let column: Vec<f64> =
                    (0..dims[mode]).map(|_| Distribution::Gaussian.draw(&mut rng)).collect();
                rows.own().for_each(|row| rows.row_mut(row)[have[mode]] = column[row]);
            } else {
                let Some((column, times)) = fibres[level - 1].leading(dims[mode], seed) else {
                    return Ok(None);
                };
                beyond_chance *= times;
                rows.own().for_each(|row| rows.row_mut(row)[have[mode]] = column[row]);
            }
            if orthonormalize(&mut rows).is_err() {
                return Ok(None);
            }
        }
        factors.push(rows);
    }
    if beyond_chance < BEYOND_CHANCE {
        return Ok(None);
    }
    drop(fibres);
    objective.data.set_ranks(&dims, ranks);
    let mut point = Point { factors, core: Core::zeros(ranks) };
    let is_old = |index: &[usize]| index.iter().zip(have).all(|(i, have)| i < have);
    for_each_index(ranks, |position, index| {
        if is_old(index) {
            point.core.as_mut_slice()[position] = from.core.as_slice()[position_in(from.ranks(), index)];
        }
    });
    let mut partials = Tangent::zeros_like(&point);
    let first = levels[0];
    if ranks[first] > have[first] {
        // The new column is zero so far: these numbers of the core change no prediction, and the gradient by the column
        // is the residual projected on what they stand for. Of modes that have all their columns, on a random one.
        let mut rng = Pcg64::seed_from_u64(seed);
        let mut probe = point.clone();
        for_each_index(ranks, |position, index| {
            let new = |mode: usize| ranks[mode] == have[mode] || index[mode] == have[mode];
            if index[first] == have[first] && (0..ranks.len()).all(new) {
                probe.core.as_mut_slice()[position] = rms * Distribution::Gaussian.draw(&mut rng);
            }
        });
        objective.cost_and_gradient(&probe, &mut partials)?;
        let rows = &mut point.factors[first];
        for row in rows.own() {
            rows.row_mut(row)[have[first]] = partials.factors[first].row(row)[have[first]];
        }
        // A gradient may be of any size.
        let length = rows.gram(rows)[(have[first], have[first])].sqrt();
        if !(length > 0.0 && length.is_finite()) {
            return Ok(None);
        }
        rows.own().for_each(|row| rows.row_mut(row)[have[first]] /= length);
        if orthonormalize(rows).is_err() {
            return Ok(None);
        }
    }
    objective.cost_and_gradient(&point, &mut partials)?;
    let wanted = if selective { wanted(&partials.core, have) } else { ranks.to_vec() };
    if wanted != ranks {
        let core = narrowed_core(&partials.core, &wanted);
        point = narrowed(&point, &wanted);
        partials = Tangent::zeros_like(&point);
        partials.core = core;
        objective.data.set_ranks(&dims, &wanted);
    }
    let ranks = &wanted;
    let mut along = Tangent::zeros_like(&point);
    for_each_index(ranks, |position, index| {
        if !is_old(index) {
            along.core.as_mut_slice()[position] = -partials.core.as_slice()[position];
        }
    });
    let sums = objective.step_sums(&point, &along)?;
    let step = -sums.slope / sums.curvature;
    if !(step > 0.0 && step.is_finite()) {
        return Ok(None);
    }
    point.core.axpy(step, &along.core);
    Ok(Some(point))
}

/// The ranks without the new columns that have hardly any part in the gradient by the core's new numbers. What a fit that has
/// come to its end misses in one mode alone lies within the columns of the others.
fn wanted(gradient: &Core, have: &[usize]) -> Vec<usize> {
    let (mut all, mut of_mode) = (0.0, vec![0.0; have.len()]);
    for_each_index(gradient.ranks(), |position, index| {
        let square = gradient.as_slice()[position].powi(2);
        let new = |mode: usize| index[mode] == have[mode];
        all += if (0..have.len()).any(new) { square } else { 0.0 };
        (0..have.len()).filter(|&mode| new(mode)).for_each(|mode| of_mode[mode] += square);
    });
    let wanted: Vec<usize> = gradient
        .ranks()
        .iter()
        .zip(have)
        .zip(of_mode)
        .map(|((&rank, &have), part)| if part >= PART * all { rank } else { have })
        .collect();
    if are_possible(&wanted) { wanted } else { gradient.ranks().to_vec() }
}

/// Whether no rank is above the product of the others.
pub(super) fn are_possible(ranks: &[usize]) -> bool {
    let product = |mode: usize| -> usize {
        ranks.iter().enumerate().filter(|(other, _)| *other != mode).map(|(_, &rank)| rank).product()
    };
    (0..ranks.len()).all(|mode| ranks[mode] <= product(mode))
}

/// The point's first columns and the numbers of the core that belong to them.
pub(super) fn narrowed(from: &Point, ranks: &[usize]) -> Point {
    let factors = from.factors.iter().zip(ranks).map(|(factor, &rank)| {
        let mut rows: Rows = factor.zeros_like(rank);
        for row in rows.own() {
            rows.row_mut(row).copy_from_slice(&factor.row(row)[..rank]);
        }
        rows
    });
    Point { factors: factors.collect(), core: narrowed_core(&from.core, ranks) }
}

fn narrowed_core(from: &Core, ranks: &[usize]) -> Core {
    let mut core = Core::zeros(ranks);
    for_each_index(ranks, |position, index| {
        core.as_mut_slice()[position] = from.as_slice()[position_in(from.ranks(), index)];
    });
    core
}

/// The first columns of a factor, and zeros behind them.
fn widened(from: &Rows, have: usize, rank: usize) -> Rows {
    let mut rows = from.zeros_like(rank);
    for row in rows.own() {
        rows.row_mut(row)[..have].copy_from_slice(&from.row(row)[..have]);
    }
    rows
}

/// Calls `each(position, index)` for every number of a core.
pub(super) fn for_each_index(ranks: &[usize], mut each: impl FnMut(usize, &[usize])) {
    let mut index = vec![0; ranks.len()];
    for position in 0..ranks.iter().product() {
        each(position, &index);
        for mode in (0..ranks.len()).rev() {
            index[mode] += 1;
            if index[mode] < ranks[mode] {
                break;
            }
            index[mode] = 0;
        }
    }
}

fn position_in(ranks: &[usize], index: &[usize]) -> usize {
    index.iter().zip(ranks).fold(0, |position, (i, rank)| position * rank + i)
}
