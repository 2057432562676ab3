//! The coupled Lyapunov equations of the horizontal projection, for any order.
//!
//! Unknown are skew matrices W_1, ..., W_D, one number per pair i < j and mode. A vertical vector
//! is vert(W) = (U_d W_d, -sum_d G x_d W_d); the vertical part of eta solves
//!
//! g(vert(W), vert(W')) = g(eta, vert(W')) for all skew W'.
//!
//! In the eigenbases of G_d G_d^T the blocks on the diagonal are themselves diagonal, with the
//! entries (w_i + w_j) + (lambda_i + lambda_j): the block preconditioner I (x) A + A (x) I is a
//! division. Scaled by it, the matrix is (part of the factors) + (Gram matrix of D blocks, each
//! orthonormal up to scale). Where w >= lambda, as in the preconditioned metric, its eigenvalues
//! lie between 1/2 and 1/2 + D/2 whatever the core is: Cholesky cannot fail on it, and conjugate
//! gradients need a few dozen steps for all the digits there are.

use nalgebra::{Cholesky, DMatrix, DMatrixViewMut, Dyn};

use super::core_tensor::Core;
use super::frame::ModeFrame;
use crate::rows::Square;

/// Up to this number of unknowns the equations are solved directly.
pub const DIRECT_UNKNOWNS: usize = 300;

/// The residual, relative to the right side, at which conjugate gradients stop.
const TOLERANCE: f64 = 1e-14;

/// More steps than any well-posed system needs (the Euclidean metric beside a large core takes
/// hundreds, the preconditioned one dozens).
const MAX_STEPS: usize = 1000;

/// The equations at one point, ready to be solved.
#[derive(Debug)]
pub(super) struct Coupled {
    /// One over the root of the diagonal.
    scale: Vec<f64>,
    /// The factorisation of the scaled matrix; none above [`DIRECT_UNKNOWNS`].
    factor: Option<Cholesky<f64, Dyn>>,
}

impl Coupled {
    /// The equations for a core in its eigenbases.
    pub(super) fn new(core: &Core, modes: &[ModeFrame]) -> Self {
        Coupled::with_limit(core, modes, DIRECT_UNKNOWNS)
    }

    fn with_limit(core: &Core, modes: &[ModeFrame], direct: usize) -> Self {
        let mut scale = Vec::with_capacity(unknowns(modes));
        for frame in modes {
            let (w, l) = (&frame.weights, &frame.eigenvalues);
            for (i, j) in pairs(w.len()) {
                scale.push(1.0 / (w[i] + w[j] + l[i] + l[j]).sqrt());
            }
        }
        let factor = if scale.len() <= direct { matrix(core, modes, &scale).cholesky() } else { None };
        Coupled { scale, factor }
    }

    /// The skew W_d of the vertical part of a vector with K_d = V^T U^T eta_d V and the core
    /// part `rotated`, all in the eigenbases.
    pub(super) fn solve(
        &self,
        core: &Core,
        modes: &[ModeFrame],
        along: &[Square],
        rotated: &Core,
    ) -> Vec<Square> {
        let mut right = Vec::with_capacity(self.scale.len());
        for (mode, frame) in modes.iter().enumerate() {
            let (k, w) = (&along[mode], &frame.weights);
            let h = rotated.unfolding_gram(core, mode);
            for (i, j) in pairs(w.len()) {
                right.push(k[(i, j)] * w[j] - k[(j, i)] * w[i] - h[(i, j)] + h[(j, i)]);
            }
        }
        for (b, s) in right.iter_mut().zip(&self.scale) {
            *b *= s;
        }
        match &self.factor {
            Some(factor) => {
                let n = right.len();
                factor.solve_mut(&mut DMatrixViewMut::from_slice(&mut right, n, 1));
            }
            None => right = self.conjugate_gradients(core, modes, right),
        }
        for (x, s) in right.iter_mut().zip(&self.scale) {
            *x *= s;
        }
        skew(&right, modes)
    }

    /// Solves the scaled equations for `right`; the scaling is the preconditioner.
    fn conjugate_gradients(&self, core: &Core, modes: &[ModeFrame], right: Vec<f64>) -> Vec<f64> {
        let mut x = vec![0.0; right.len()];
        let mut residual = right;
        let mut direction = residual.clone();
        let mut square = dot(&residual, &residual);
        let enough = TOLERANCE * TOLERANCE * square;
        for _ in 0..MAX_STEPS {
            // Where numbers are not finite, nothing can be solved.
            if square <= enough || !square.is_finite() {
                break;
            }
            let image = self.apply(core, modes, &direction);
            let step = square / dot(&direction, &image);
            for (((x, r), d), a) in x.iter_mut().zip(&mut residual).zip(&direction).zip(image) {
                *x += step * d;
                *r -= step * a;
            }
            let next = dot(&residual, &residual);
            for (d, r) in direction.iter_mut().zip(&residual) {
                *d = r + next / square * *d;
            }
            square = next;
        }
        x
    }

    /// The scaled matrix times x, without the matrix:
    /// W -> W_d A_d + unfold_d(sum_e G x_e W_e) G_d^T, its skew part.
    fn apply(&self, core: &Core, modes: &[ModeFrame], x: &[f64]) -> Vec<f64> {
        let scaled: Vec<f64> = x.iter().zip(&self.scale).map(|(x, s)| x * s).collect();
        let matrices = skew(&scaled, modes);
        let spread = spread(core, &matrices);
        let mut out = Vec::with_capacity(x.len());
        for (mode, frame) in modes.iter().enumerate() {
            let w = &frame.weights;
            let gram = spread.unfolding_gram(core, mode);
            for (i, j) in pairs(w.len()) {
                let own = (w[i] + w[j]) * matrices[mode][(i, j)];
                out.push(own + gram[(i, j)] - gram[(j, i)]);
            }
        }
        for (o, s) in out.iter_mut().zip(&self.scale) {
            *o *= s;
        }
        out
    }
}

/// sum_d G x_d W_d.
pub(super) fn spread(core: &Core, matrices: &[Square]) -> Core {
    let mut sum = Core::zeros(core.ranks());
    for (mode, w) in matrices.iter().enumerate() {
        sum.axpy(1.0, &core.mode_product(mode, w));
    }
    sum
}

/// The scaled matrix. Its diagonal is 1. For modes d != e, with G[a, b] the core's numbers whose
/// index is a in mode d and b in mode e, the unknowns (d; i, j) and (e; k, l) meet in
/// <G x_d E_ij, G x_e E_kl> = 2 (G[j, k] . G[i, l] - G[i, k] . G[j, l]).
fn matrix(core: &Core, modes: &[ModeFrame], scale: &[f64]) -> DMatrix<f64> {
    let mut matrix = DMatrix::identity(scale.len(), scale.len());
    let mut first_row = 0;
    for e in 0..modes.len() {
        let mut first_column = 0;
        for d in 0..e {
            let re = modes[e].weights.len();
            let (rows, length) = core.pair_unfolding(d, e);
            let at = |a: usize, b: usize| &rows[(a * re + b) * length..(a * re + b + 1) * length];
            for (column, (i, j)) in (first_column..).zip(pairs(modes[d].weights.len())) {
                for (row, (k, l)) in (first_row..).zip(pairs(re)) {
                    let value = dot(at(j, k), at(i, l)) - dot(at(i, k), at(j, l));
                    matrix[(row, column)] = 2.0 * value * scale[row] * scale[column];
                }
            }
            first_column += pairs(modes[d].weights.len()).count();
        }
        first_row += pairs(modes[e].weights.len()).count();
    }
    matrix
}

fn unknowns(modes: &[ModeFrame]) -> usize {
    modes.iter().map(|m| pairs(m.weights.len()).count()).sum()
}

/// The pairs i < j below r.
fn pairs(r: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..r).flat_map(move |i| (i + 1..r).map(move |j| (i, j)))
}

/// The skew matrices of a vector of unknowns.
fn skew(x: &[f64], modes: &[ModeFrame]) -> Vec<Square> {
    let mut values = x.iter();
    let mut matrices = Vec::with_capacity(modes.len());
    for frame in modes {
        let mut w = Square::zeros(frame.weights.len());
        for ((i, j), x) in pairs(frame.weights.len()).zip(&mut values) {
            w[(i, j)] = *x;
            w[(j, i)] = -x;
        }
        matrices.push(w);
    }
    matrices
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::super::{Distribution, Euclidean, Geometry, Preconditioned, random_point};
    use super::*;

    /// The core in its eigenbases and the modes, as a frame would hold them.
    fn parts(ranks: &[usize], geometry: &dyn Geometry, seed: u64) -> (Core, Vec<ModeFrame>) {
        let point = random_point(ranks, ranks, Distribution::Uniform, seed);
        let mut core = point.core.clone();
        let mut modes = vec![];
        for mode in 0..ranks.len() {
            let unfolding = point.core.unfolding_transposed(mode);
            let (eigenvalues, basis) = crate::rows::left_singular(unfolding).unwrap();
            let mut weights = eigenvalues.clone();
            geometry.weigh(&mut weights);
            core = core.mode_product(mode, &basis.transpose());
            modes.push(ModeFrame { basis, eigenvalues, weights });
        }
        (core, modes)
    }

    fn sample(n: usize) -> Vec<f64> {
        (0..n).map(|k| (k as f64 * 0.7 + 0.1).sin()).collect()
    }

    const SHAPES: [&[usize]; 4] = [&[4, 4], &[5, 4, 3], &[3, 2, 3, 2], &[2, 3, 1, 2, 2]];

    #[test]
    fn the_matrix_is_the_operator() {
        for ranks in SHAPES {
            for geometry in [&Preconditioned as &dyn Geometry, &Euclidean] {
                let (core, modes) = parts(ranks, geometry, 3);
                let coupled = Coupled::new(&core, &modes);
                let dense = matrix(&core, &modes, &coupled.scale);
                let x = sample(coupled.scale.len());
                let image = coupled.apply(&core, &modes, &x);
                for (row, image) in image.iter().enumerate() {
                    // Only the lower triangle is filled.
                    let entry = |column: usize| dense[(row.max(column), row.min(column))];
                    let sum: f64 = (0..x.len()).map(|column| entry(column) * x[column]).sum();
                    assert!((image - sum).abs() < 1e-9, "{ranks:?}: {image} {sum}");
                }
            }
        }
    }

    #[test]
    fn direct_and_iterative_solves_agree() {
        for ranks in SHAPES {
            for geometry in [&Preconditioned as &dyn Geometry, &Euclidean] {
                let (core, modes) = parts(ranks, geometry, 5);
                let direct = Coupled::new(&core, &modes);
                let iterative = Coupled::with_limit(&core, &modes, 0);
                assert!(direct.factor.is_some() && iterative.factor.is_none());
                let along: Vec<Square> =
                    ranks.iter().map(|&r| Square::from_fn(r, |i, j| i as f64 - j as f64)).collect();
                let eta = Core::from_vec(ranks, sample(ranks.iter().product()));
                let a = direct.solve(&core, &modes, &along, &eta);
                let b = iterative.solve(&core, &modes, &along, &eta);
                for (a, b) in a.iter().zip(&b) {
                    let size = a.as_slice().iter().fold(1.0f64, |m, x| m.max(x.abs()));
                    for (x, y) in a.as_slice().iter().zip(b.as_slice()) {
                        assert!((x - y).abs() < 1e-9 * size, "{ranks:?}: {x} {y}");
                    }
                }
            }
        }
    }

    #[test]
    fn eigenvalues_of_the_scaled_matrix_are_bounded() {
        // The claim at the head of this file, for cores of any condition.
        for ranks in SHAPES {
            let (core, modes) = parts(ranks, &Preconditioned, 7);
            let coupled = Coupled::new(&core, &modes);
            let dense = matrix(&core, &modes, &coupled.scale);
            let values = dense.symmetric_eigenvalues();
            let bound = 0.5 + 0.5 * ranks.len() as f64;
            assert!(values.iter().all(|&v| v > 0.5 - 1e-6 && v < bound + 1e-6), "{values:?}");
        }
    }
}
