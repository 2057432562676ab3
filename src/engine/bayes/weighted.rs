//! Columns of numbers per row, whose entries are its weight.

use crate::error::Result;
use crate::manifold::{Distribution, orthonormalize};
use crate::model::RowFeatures;
use crate::rows::Rows;
use rand::SeedableRng;
use rand_pcg::Pcg64;

/// Sums over weights; zeros where there are none.
pub(super) fn divided(mut sums: Vec<f64>, weights: &[f64], width: usize) -> Vec<f64> {
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

pub(super) fn standardised(rows: Vec<f64>, weights: &[f64], width: usize) -> RowFeatures {
    let centre = means(&rows, weights, width);
    let rows = centred(rows, weights, width);
    let scale = squares(&rows, weights, width).into_iter().map(f64::sqrt).collect();
    let values = standard(rows, weights, width).into_iter().map(|x| x as f32).collect();
    RowFeatures { width, values, basis: Vec::new(), centre, scale, half: RowFeatures::HALF }
}
