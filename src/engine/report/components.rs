//! The components of a model in the one form that does not depend on rotations.
//!
//! A Tucker model is the same tensor in infinitely many coordinates. Here it is brought to the one
//! of the higher-order singular value decomposition: factors with orthonormal columns, a core whose
//! slices are orthogonal, components ordered by their magnitude.

use crate::manifold::Core;
use crate::model::Model;
use crate::rows::Square;

/// One mode.
pub struct Components {
    /// The magnitude of every component: the norm of its slice of the core, descending.
    pub magnitudes: Vec<f64>,
    /// Turns a row of the model's factor into loadings: row times this, row-major r x r.
    turn: Square,
    /// Loadings are scaled so that their mean square over the known ids is 1.
    scales: Vec<f64>,
}

impl Components {
    /// The loadings of an index.
    pub fn loadings(&self, model: &Model, mode: usize, index: u32) -> Vec<f64> {
        let row = model.point.factors[mode].row(index as usize);
        (0..row.len())
            .map(|k| (0..row.len()).map(|j| row[j] * self.turn[(j, k)]).sum::<f64>() * self.scales[k])
            .collect()
    }
}

/// The components of every mode; `None` where the model has numbers that are not finite.
pub fn components(model: &Model) -> Option<Vec<Components>> {
    let order = model.point.order();
    let mut core = model.point.core.clone();
    let (mut turns, mut grams, mut roots) = (Vec::new(), Vec::new(), Vec::new());
    // U = Q B with Q^T Q = I: B = L^(1/2) V^T from U^T U = V L V^T, and B goes into the core.
    for mode in 0..order {
        let factor = &model.point.factors[mode];
        let gram = factor.gram(factor);
        let (values, vectors) = gram.symmetric_eigen()?;
        let least = values.iter().copied().fold(0.0, f64::max) * 1e-14;
        let root = |j: usize| values[j].max(0.0).sqrt();
        let inverse = |j: usize| if values[j] > least { 1.0 / root(j) } else { 0.0 };
        let n = values.len();
        let half = Square::from_fn(n, |i, j| root(i) * vectors[(j, i)]);
        if core.places().is_none() {
            core = core.mode_product(mode, &half);
        }
        grams.push(gram);
        roots.push(half);
        turns.push(Square::from_fn(n, |i, j| vectors[(i, j)] * inverse(j)));
    }
    let whole = core.clone();
    let mut all = Vec::with_capacity(order);
    for (mode, turn) in turns.into_iter().enumerate() {
        let unfolded = match whole.places() {
            None => whole.unfolding_gram(&whole, mode),
            Some(_) => sparse_unfolding_gram(&whole, &grams, &roots[mode], mode),
        };
        let (magnitudes, vectors) = directions(&unfolded)?;
        let turn = turn.times(&vectors);
        let mut found = Components { scales: vec![1.0; magnitudes.len()], magnitudes, turn };
        found.scale(model, mode);
        all.push(found);
    }
    Some(all)
}

/// The product of an unfolding and its transpose, of a sparse core G that is to be multiplied by B_d in every mode, where
/// B_d^T B_d is the gram matrix of a factor: B_d (sum over numbers s, t of s t times the gram matrices of the other
/// modes, at the places of s and t) B_d^T.
fn sparse_unfolding_gram(core: &Core, grams: &[Square], root: &Square, mode: usize) -> Square {
    let mut inner = Square::zeros(root.size());
    core.for_each_nonzero(|p, s| {
        core.for_each_nonzero(|q, t| {
            let others = (0..p.len()).filter(|&other| other != mode);
            let product: f64 =
                others.map(|other| grams[other][(p[other] as usize, q[other] as usize)]).product();
            inner[(p[mode] as usize, q[mode] as usize)] += s * t * product;
        });
    });
    root.times(&inner).times(&root.transpose())
}

/// Singular values, descending, and left singular vectors of an unfolding, from the product with its transpose.
fn directions(gram: &Square) -> Option<(Vec<f64>, Square)> {
    let (values, vectors) = gram.symmetric_eigen()?;
    let n = values.len();
    let magnitudes = values.iter().rev().map(|value| value.max(0.0).sqrt()).collect();
    Some((magnitudes, Square::from_fn(n, |i, j| vectors[(i, n - 1 - j)])))
}

impl Components {
    /// Mean square 1 over the known ids, and a sign that does not depend on chance.
    fn scale(&mut self, model: &Model, mode: usize) {
        let known = (0..model.about.modes[mode].dim).filter(|&index| model.knows(mode, index));
        let (mut squares, mut cubes, mut count) =
            (vec![0.0; self.scales.len()], vec![0.0; self.scales.len()], 0u64);
        for index in known {
            for (k, x) in self.loadings(model, mode, index).into_iter().enumerate() {
                squares[k] += x * x;
                cubes[k] += x * x * x;
            }
            count += 1;
        }
        for (k, scale) in self.scales.iter_mut().enumerate() {
            let size = (squares[k] / count.max(1) as f64).sqrt();
            let sign = if cubes[k] < 0.0 { -1.0 } else { 1.0 };
            *scale = if size > 0.0 { sign / size } else { 1.0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifold::{Distribution, random_point};

    #[test]
    fn magnitudes_do_not_depend_on_rotations() {
        let point = random_point(&[9, 8, 7], &[3, 2, 2], Distribution::Gaussian, 3);
        let turn = |n: usize, seed| {
            let rows = random_point(&[n, 9], &[n, n], Distribution::Gaussian, seed).factors[0].clone();
            Square::from_vec(n, rows.into_vec())
        };
        let turned = point.rotated(&[turn(3, 5), turn(2, 6), turn(2, 7)]);
        for mode in 0..3 {
            let of = |core: &Core| directions(&core.unfolding_gram(core, mode)).unwrap();
            let (a, b) = (of(&point.core), of(&turned.core));
            // The same without its zeros, of which there are none.
            let (mut places, mut numbers) = (Vec::new(), Vec::new());
            point.core.for_each_nonzero(|place, number| {
                places.extend_from_slice(place);
                numbers.push(number);
            });
            let sparse = Core::sparse(point.ranks(), places, numbers);
            let grams: Vec<Square> = point.factors.iter().map(|factor| factor.gram(factor)).collect();
            let one = Square::identity(point.ranks()[mode]);
            let c = directions(&sparse_unfolding_gram(&sparse, &grams, &one, mode)).unwrap();
            for (a, c) in a.0.iter().zip(&c.0) {
                assert!((a - c).abs() < 1e-12 * (1.0 + a), "{a} {c}");
            }
            for (a, b) in a.0.iter().zip(&b.0) {
                assert!((a - b).abs() < 1e-12 * (1.0 + a), "{a} {b}");
            }
        }
    }
}
