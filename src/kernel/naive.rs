//! The formulas themselves, term by term: what every fast kernel must agree with.
//!
//! Plain loops over all r_0 r_1 ... r_{D-1} terms of every entry. Order 3, which speeds are compared
//! at, has its own: counting through the terms of any order takes three to four times as long as the
//! sums, and a ratio to that would flatter the fast kernels.

use super::factors::FactorsView;
use super::polynomial::{LinePolynomial, MAX_ENTRY};
use super::sums::{GradientSums, ResidualSums, StepSums};
use crate::MAX_ORDER;
use crate::block::BlockView;

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
    if let &[r0, r1, r2] = factors.ranks() {
        let [u, v, w, ..] = rows;
        let core = factors.core();
        for a in 0..r0 {
            for b in 0..r1 {
                for c in 0..r2 {
                    prediction += core[(a * r1 + b) * r2 + c] * u[a] * v[b] * w[c];
                }
            }
        }
        return prediction;
    }
    for_each_term(factors.ranks(), |position, term| {
        let mut product = factors.core()[position];
        for level in 0..indices.len() {
            product *= rows[level][term[level]];
        }
        prediction += product;
    });
    prediction
}

/// Twin of [`gradient`](super::gradient()): with e = X - y, adds e^2, |e|, e u_0 (x) ... (x) u_{D-1},
/// and to row i_l of every level l, at a_l, e G\[a_0, ...\] times the product of u_m\[a_m\] over all
/// m but l.
pub fn gradient(block: &BlockView<'_>, factors: &FactorsView<'_>, sums: &mut GradientSums) {
    block.for_each_weighted(|indices, value, weight| {
        let plain = predict(factors, indices) - value;
        let residual = weight * plain;
        let rows = rows_of(factors, indices);
        sums.squares += residual * plain;
        sums.absolute += residual.abs();
        sums.entries += 1;
        if let &[r0, r1, r2] = factors.ranks() {
            return add_gradient_3(sums, [r0, r1, r2], factors.core(), rows, indices, residual);
        }
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

/// The sum of the absolute values of what entries add to every row: what rounding of sums is measured by.
#[cfg(test)]
pub(super) fn gradient_sizes(block: &BlockView<'_>, factors: &FactorsView<'_>, sums: &mut GradientSums) {
    block.for_each_weighted(|indices, value, weight| {
        let residual = weight * (predict(factors, indices) - value);
        let rows = rows_of(factors, indices);
        for level in 0..indices.len() {
            let mut added = vec![0.0; factors.ranks()[level]];
            for_each_term(factors.ranks(), |position, term| {
                let others = (0..indices.len()).filter(|&other| other != level);
                let product: f64 = others.map(|other| rows[other][term[other]]).product();
                added[term[level]] += residual * factors.core()[position] * product;
            });
            let to = sums.rows[level].row_mut(indices[level] as usize);
            to.iter_mut().zip(&added).for_each(|(to, added)| *to += added.abs());
        }
    });
}

/// What [`gradient`] adds for an entry of order 3.
fn add_gradient_3(
    sums: &mut GradientSums,
    [r0, r1, r2]: [usize; 3],
    core: &[f64],
    [u, v, w, ..]: [&[f64]; MAX_ORDER],
    indices: &[u32],
    e: f64,
) {
    let [d0, d1, d2] = &mut sums.rows[..] else { unreachable!("sums of order 3") };
    let d0 = d0.row_mut(indices[0] as usize);
    let d1 = d1.row_mut(indices[1] as usize);
    let d2 = d2.row_mut(indices[2] as usize);
    for a in 0..r0 {
        for b in 0..r1 {
            for c in 0..r2 {
                let position = (a * r1 + b) * r2 + c;
                let g = core[position];
                sums.core[position] += e * u[a] * v[b] * w[c];
                d0[a] += e * g * v[b] * w[c];
                d1[b] += e * g * u[a] * w[c];
                d2[c] += e * g * u[a] * v[b];
            }
        }
    }
}

/// The prediction and the linearised change of an entry of any order.
fn changes_any(
    point: &FactorsView<'_>,
    direction: &FactorsView<'_>,
    rows: [&[f64]; MAX_ORDER],
    changes: [&[f64]; MAX_ORDER],
) -> (f64, f64) {
    let order = point.order();
    let (mut prediction, mut change) = (0.0, 0.0);
    for_each_term(point.ranks(), |position, term| {
        let (mut product, mut core_changed) = (point.core()[position], direction.core()[position]);
        for level in 0..order {
            product *= rows[level][term[level]];
            core_changed *= rows[level][term[level]];
        }
        prediction += product;
        change += core_changed;
        for changed in 0..order {
            let mut product = point.core()[position];
            for level in 0..order {
                let from = if level == changed { &changes } else { &rows };
                product *= from[level][term[level]];
            }
            change += product;
        }
    });
    (prediction, change)
}

/// The prediction and the linearised change of an entry of order 3.
fn changes_3(
    [r0, r1, r2]: [usize; 3],
    [core, core_change]: [&[f64]; 2],
    [u, v, w, ..]: [&[f64]; MAX_ORDER],
    [du, dv, dw, ..]: [&[f64]; MAX_ORDER],
) -> (f64, f64) {
    let (mut prediction, mut change) = (0.0, 0.0);
    for a in 0..r0 {
        for b in 0..r1 {
            for c in 0..r2 {
                let g = core[(a * r1 + b) * r2 + c];
                prediction += g * u[a] * v[b] * w[c];
                change += core_change[(a * r1 + b) * r2 + c] * u[a] * v[b] * w[c]
                    + g * du[a] * v[b] * w[c]
                    + g * u[a] * dv[b] * w[c]
                    + g * u[a] * v[b] * dw[c];
            }
        }
    }
    (prediction, change)
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
    block.for_each_weighted(|indices, value, weight| {
        let (rows, changes) = (rows_of(point, indices), rows_of(direction, indices));
        let (prediction, change) = if let &[r0, r1, r2] = point.ranks() {
            changes_3([r0, r1, r2], [point.core(), direction.core()], rows, changes)
        } else {
            changes_any(point, direction, rows, changes)
        };
        let residual = prediction - value;
        sums.residual_change += weight * residual * change;
        sums.change_change += weight * change * change;
        sums.squares += weight * residual * residual;
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
    block.for_each_weighted(|indices, value, weight| {
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
        sum.add_square(&entry[..indices.len() + 2], weight);
    });
}

/// Twin of [`residual`](super::residual()): adds e^2 and |e|.
pub fn residual(block: &BlockView<'_>, factors: &FactorsView<'_>, sums: &mut ResidualSums) {
    block.for_each_weighted(|indices, value, weight| {
        sums.add_entry(predict(factors, indices) - value, weight)
    });
}
