//! What a model with biases or a penalty starts from: the directions that the residual itself points to.

use super::spectrum::for_each_index;
use crate::error::Result;
use crate::manifold::{Core, Distribution, Point, Tangent, orthonormalize};
use crate::objective::{Coordinates, Regularised};
use crate::rows::Rows;
use crate::solver::Objective;
use crate::team::Team;
use rand::SeedableRng;
use rand_pcg::Pcg64;

// What other values do: docs/thresholds.md.
/// Rounds of power iteration that turn random directions to the residual's own.
const ROUNDS: usize = 2;
/// The core's new numbers while directions are looked for, beside the spread of the values: small
/// enough that the residual stays what it is.
const PROBE: f64 = 1e-3;
/// The share of its least-squares value that a new number of the core starts with.
const SHARE: f64 = 0.5;

/// Passes over the data that [`first_point`] makes.
pub(super) const PASSES: usize = ROUNDS + 1;

/// U = 1 for all rows, which is V = p^(1/2), of length 1; rows without entries are zero.
fn constant_column(team: Team, dim: usize, coordinates: &Coordinates, mode: usize) -> Rows {
    let mut column = Rows::zeros_on(team, dim, 1);
    column.fill(1.0);
    coordinates.unscale_in_place(mode, &mut column);
    let length = column.gram(&column)[(0, 0)].sqrt();
    column.scale(1.0 / length);
    column
}

/// A point of these ranks. Every mode but the two `main` ones has the constant vector for its first column, so that what
/// these have in common does not depend on the others from the start. The other columns are turned to where the
/// residual is largest by power iteration through the gradient, and the core is set to a part of its least-squares
/// values.
///
/// `spread` is the standard deviation of the values.
pub(super) fn first_point(
    objective: &mut Regularised,
    coordinates: &Coordinates,
    dims: &[usize],
    ranks: &[usize],
    main: [usize; 2],
    spread: f64,
    seed: u64,
) -> Result<Point> {
    let team = objective.data.team();
    let keep: Vec<usize> =
        (0..ranks.len()).map(|mode| usize::from(!main.contains(&mode) || ranks[mode] == 1)).collect();
    let mut rng = Pcg64::seed_from_u64(seed);
    objective.data.set_ranks(dims, ranks);
    let mut point = Point { factors: Vec::new(), core: Core::zeros(ranks) };
    for mode in 0..dims.len() {
        let constant = constant_column(team, dims[mode], coordinates, mode);
        let mut rows = constant.zeros_like(ranks[mode]);
        let own = rows.own();
        for index in 0..dims[mode] {
            let scale = coordinates.scales(mode)[index];
            for column in 0..ranks[mode] {
                // Of a row of another process, the same is drawn there.
                let number = match column < keep[mode] {
                    true if own.contains(&index) => constant.row(index)[column],
                    true => 0.0,
                    false => Distribution::Gaussian.draw(&mut rng) / scale,
                };
                if own.contains(&index) && (scale > 0.0 || column < keep[mode]) {
                    rows.row_mut(index)[column] = number;
                }
            }
        }
        point.factors.push(orthonormal(rows, &mut rng, coordinates, mode));
    }
    // The numbers of the core but the constant one, which begins with nothing.
    let fill = |core: &mut Core, mut number: Box<dyn FnMut(usize) -> f64>| {
        for_each_index(ranks, |position, index| {
            let constant = index.iter().zip(&keep).all(|(i, keep)| i < keep);
            core.as_mut_slice()[position] = if constant { 0.0 } else { number(position) };
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
