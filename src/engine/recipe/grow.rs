//! What a model of higher rank starts from: the directions that the residual itself points to.

use super::spectrum::{for_each_index, position_in};
use crate::error::Result;
use crate::manifold::{Core, Distribution, Point, Tangent, orthonormalize};
use crate::objective::{Coordinates, Regularised};
use crate::rows::Rows;
use crate::solver::Objective;
use crate::team::Team;
use rand::SeedableRng;
use rand_pcg::Pcg64;

/// Rounds of power iteration that turn random directions to the residual's own.
const ROUNDS: usize = 2;
/// The core's new numbers while directions are looked for, beside the spread of the values: small
/// enough that the residual stays what it is.
const PROBE: f64 = 1e-3;
/// The share of its least-squares value that a new number of the core starts with.
const SHARE: f64 = 0.5;

/// Passes over the data that [`enlarge`] makes.
pub(super) const PASSES: usize = ROUNDS + 1;

/// A point of no direction at all but the constant ones of held modes: what a first model grows
/// from. Its core is zero.
pub(super) fn seed_point(team: Team, dims: &[usize], coordinates: &Coordinates) -> Point {
    let ones: Vec<usize> = vec![1; dims.len()];
    let factors = dims.iter().map(|&dim| Rows::zeros_on(team, dim, 1)).collect();
    let mut point = Point { factors, core: Core::zeros(&ones) };
    for (mode, factor) in point.factors.iter_mut().enumerate() {
        // U = 1 for all rows, which is V = p^(1/2); rows without entries are zero.
        factor.fill(1.0);
        coordinates.unscale_in_place(mode, factor);
        normalise(factor);
    }
    point
}

/// How many columns of a first model are the constant one: one in every mode but the two main ones,
/// so that what these have in common does not depend on the others from the start.
pub(super) fn first_columns(main: [usize; 2], ranks: &[usize]) -> Vec<usize> {
    (0..ranks.len()).map(|mode| usize::from(!main.contains(&mode) || ranks[mode] == 1)).collect()
}

fn normalise(factor: &mut Rows) {
    let length = factor.gram(factor)[(0, 0)].sqrt();
    factor.scale(1.0 / length);
}

/// The point with `ranks` columns per mode, of which the first `keep[d]` are those it has: the
/// others are turned to where the residual is largest by power iteration through the gradient, and
/// the core's new numbers are set to a part of their least-squares values.
///
/// `spread` is the standard deviation of the values.
pub(super) fn enlarge(
    objective: &mut Regularised,
    coordinates: &Coordinates,
    from: &Point,
    keep: &[usize],
    ranks: &[usize],
    spread: f64,
    seed: u64,
) -> Result<Point> {
    let dims = from.dims();
    let mut rng = Pcg64::seed_from_u64(seed);
    objective.data.set_ranks(&dims, ranks);
    let mut point = Point { factors: Vec::new(), core: Core::zeros(ranks) };
    for mode in 0..dims.len() {
        let fresh = |rng: &mut Pcg64| Distribution::Gaussian.draw(rng);
        let mut rows = from.factors[mode].zeros_like(ranks[mode]);
        let own = rows.own();
        for index in 0..dims[mode] {
            let new = keep[mode]..ranks[mode];
            if !own.contains(&index) {
                // Another process draws the same for its row.
                for _ in new {
                    let _ = fresh(&mut rng);
                }
                continue;
            }
            let scale = coordinates.scales(mode)[index];
            let row = rows.row_mut(index);
            row[..keep[mode]].copy_from_slice(&from.factors[mode].row(index)[..keep[mode]]);
            for x in &mut row[new] {
                let drawn = fresh(&mut rng);
                *x = if scale > 0.0 { drawn / scale } else { 0.0 };
            }
        }
        point.factors.push(orthonormal(rows, &mut rng, coordinates, mode));
    }
    let fill = |core: &mut Core, mut number: Box<dyn FnMut(usize) -> f64>| {
        for_each_index(ranks, |position, index| {
            let old = index.iter().zip(keep).all(|(i, keep)| i < keep);
            core.as_mut_slice()[position] =
                if old { from.core.as_slice()[position_in(from.ranks(), index)] } else { number(position) };
        });
    };
    let draws: Vec<f64> =
        (0..ranks.iter().product()).map(|_| PROBE * spread * Distribution::Gaussian.draw(&mut rng)).collect();
    fill(&mut point.core, Box::new(move |position| draws[position]));
    let mut partials = Tangent::zeros_like(&point);
    let penalty = std::mem::take(&mut objective.penalty);
    for _ in 0..ROUNDS {
        objective.cost_and_gradient(&point, &mut partials)?;
        for mode in 0..dims.len() {
            if keep[mode] < ranks[mode] {
                let mut rows = point.factors[mode].clone();
                for index in rows.own() {
                    rows.row_mut(index)[keep[mode]..]
                        .copy_from_slice(&partials.factors[mode].row(index)[keep[mode]..]);
                }
                scale_columns(&mut rows, keep[mode]);
                point.factors[mode] = orthonormal(rows, &mut rng, coordinates, mode);
            }
        }
    }
    fill(&mut point.core, Box::new(|_| 0.0));
    objective.cost_and_gradient(&point, &mut partials)?;
    // Over entries drawn with the coordinates' weights, the products of columns are orthonormal, so
    // that half the gradient is what least squares would take off.
    let slopes = partials.core.as_slice().to_vec();
    fill(&mut point.core, Box::new(move |position| -0.5 * SHARE * slopes[position]));
    objective.penalty = penalty;
    Ok(point)
}

/// Columns from `first` on, each to length 1: gradients may be of any size.
fn scale_columns(rows: &mut Rows, first: usize) {
    let gram = rows.gram(rows);
    let lengths: Vec<f64> = (0..rows.rank()).map(|column| gram[(column, column)].sqrt()).collect();
    for index in rows.own() {
        for (x, length) in rows.row_mut(index).iter_mut().zip(&lengths).skip(first) {
            if *length > 0.0 {
                *x /= length;
            }
        }
    }
}

/// The columns made orthonormal, the first ones kept; where they are dependent, as where a mode has
/// hardly more rows with entries than columns, with random ones mixed in.
fn orthonormal(rows: Rows, rng: &mut Pcg64, coordinates: &Coordinates, mode: usize) -> Rows {
    let mut tried = rows.clone();
    let mut share = 1e-6;
    while orthonormalize(&mut tried).is_err() {
        tried = rows.clone();
        let own = tried.own();
        for index in 0..tried.rows() {
            let seen = coordinates.scales(mode)[index] > 0.0;
            // A mode with too few seen rows takes the others' too: their scale is zero, so that
            // they add nothing to the model.
            let size = if seen || share > 1e-3 { share } else { 0.0 };
            for column in 0..tried.rank() {
                let drawn = size * Distribution::Gaussian.draw(rng);
                if own.contains(&index) {
                    tried.row_mut(index)[column] += drawn;
                }
            }
        }
        share *= 10.0;
    }
    tried
}
