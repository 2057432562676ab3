//! The formulas themselves, term by term: what every fast kernel must agree with.
//!
//! Plain loops over all r_0 r_1 ... r_{D-1} terms of every entry.

use super::factors::FactorsView;
use super::polynomial::{LinePolynomial, MAX_ENTRY};
use super::sums::{GradientSums, ResidualSums, StepSums};
use crate::MAX_ORDER;
use crate::shard::BlockView;

/// Calls `each(position, term)` for every term (a_0, ..., a_{D-1}) of the sum over the ranks, in
/// the order of the core's numbers.
#[inline]
fn for_each_term(ranks: &[usize], mut each: impl FnMut(usize, &[usize; MAX_ORDER])) {
    let mut term = [0; MAX_ORDER];
    for position in 0..ranks.iter().product() {
        each(position, &term);
        for level in (0..ranks.len()).rev() {
            term[level] += 1;
            if term[level] < ranks[level] {
                break;
            }
            term[level] = 0;
        }
    }
}

/// The rows of an entry.
#[inline]
fn rows_of<'a>(factors: &FactorsView<'a>, indices: &[u32]) -> [&'a [f64]; MAX_ORDER] {
    let mut rows: [&[f64]; MAX_ORDER] = [&[]; MAX_ORDER];
    for (level, &index) in indices.iter().enumerate() {
        rows[level] = factors.row(level, index as usize);
    }
    rows
}

/// The prediction X = sum over all terms of G\[a_0, ...\] u_0\[a_0\] ... u_{D-1}\[a_{D-1}\].
pub fn predict(factors: &FactorsView<'_>, indices: &[u32]) -> f64 {
    let rows = rows_of(factors, indices);
    let mut prediction = 0.0;
    for_each_term(factors.ranks(), |position, term| {
        let mut product = factors.core()[position];
        for level in 0..indices.len() {
            product *= rows[level][term[level]];
        }
        prediction += product;
    });
    prediction
}

/// Twin of [`gradient`](super::gradient()): with e = X - y, adds e^2, e u_0 (x) ... (x) u_{D-1},
/// and to row i_l of every level l, at a_l, e G\[a_0, ...\] times the product of u_m\[a_m\] over all
/// m but l.
pub fn gradient(block: &BlockView<'_>, factors: &FactorsView<'_>, sums: &mut GradientSums) {
    block.for_each(|indices, value| {
        let residual = predict(factors, indices) - value;
        let rows = rows_of(factors, indices);
        sums.squares += residual * residual;
        sums.entries += 1;
        for_each_term(factors.ranks(), |position, term| {
            let mut product = residual;
            for level in 0..indices.len() {
                product *= rows[level][term[level]];
            }
            sums.core[position] += product;
            for level in 0..indices.len() {
                let mut product = residual * factors.core()[position];
                for other in 0..indices.len() {
                    if other != level {
                        product *= rows[other][term[other]];
                    }
                }
                sums.rows[level].row_mut(indices[level] as usize)[term[level]] += product;
            }
        });
    });
}

/// Twin of [`step`](super::step()): adds e L, L^2 and e^2, where L is the sum over all terms of
/// xi_G\[a\] u_0\[a_0\] ... and, for every level l, of G\[a\] times the product of the u_m\[a_m\]
/// with u_l\[a_l\] replaced by xi_l\[a_l\].
pub fn step(
    block: &BlockView<'_>,
    point: &FactorsView<'_>,
    direction: &FactorsView<'_>,
    sums: &mut StepSums,
) {
    block.for_each(|indices, value| {
        let (rows, changes) = (rows_of(point, indices), rows_of(direction, indices));
        let (mut residual, mut change) = (-value, 0.0);
        for_each_term(point.ranks(), |position, term| {
            let (mut product, mut core_changed) = (point.core()[position], direction.core()[position]);
            for level in 0..indices.len() {
                product *= rows[level][term[level]];
                core_changed *= rows[level][term[level]];
            }
            residual += product;
            change += core_changed;
            for changed in 0..indices.len() {
                let mut product = point.core()[position];
                for level in 0..indices.len() {
                    let from = if level == changed { &changes } else { &rows };
                    product *= from[level][term[level]];
                }
                change += product;
            }
        });
        sums.residual_change += residual * change;
        sums.change_change += change * change;
        sums.squares += residual * residual;
        sums.entries += 1;
    });
}

/// Twin of [`line_polynomial`](super::line_polynomial()): every term of X(s) is the product of the
/// linear polynomials G\[a\] + s xi_G\[a\] and u_l\[a_l\] + s xi_l\[a_l\]; adds (X(s) - y)^2.
pub fn line_polynomial(
    block: &BlockView<'_>,
    point: &FactorsView<'_>,
    direction: &FactorsView<'_>,
    sum: &mut LinePolynomial,
) {
    block.for_each(|indices, value| {
        let (rows, changes) = (rows_of(point, indices), rows_of(direction, indices));
        let mut entry = [0.0; MAX_ENTRY];
        entry[0] = -value;
        for_each_term(point.ranks(), |position, term| {
            let mut product = [0.0; MAX_ENTRY];
            product[0] = point.core()[position];
            product[1] = direction.core()[position];
            for level in 0..indices.len() {
                let (u, xi) = (rows[level][term[level]], changes[level][term[level]]);
                for k in (0..MAX_ENTRY).rev() {
                    product[k] = product[k] * u + if k > 0 { product[k - 1] * xi } else { 0.0 };
                }
            }
            for (entry, product) in entry.iter_mut().zip(product) {
                *entry += product;
            }
        });
        sum.add_square(&entry[..indices.len() + 2]);
    });
}

/// Twin of [`residual`](super::residual()): adds e^2 and |e|.
pub fn residual(block: &BlockView<'_>, factors: &FactorsView<'_>, sums: &mut ResidualSums) {
    block.for_each(|indices, value| sums.add_entry(predict(factors, indices) - value));
}
