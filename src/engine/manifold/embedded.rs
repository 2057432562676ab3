//! The tensors of fixed multilinear rank as a surface in the space of all tensors, as geomCG has them
//! (Kressner, Steinlechner and Vandereycken, *Low-rank tensor completion by Riemannian optimization*,
//! 2014): the inner product is that of the tensors.
//!
//! A tangent vector at G x_d U_d is the tensor
//!
//! xi = xi_G x_d U_d + sum_d G x_d xi_d x_{e != d} U_e,  with U_d^T xi_d = 0,
//!
//! so that <xi, eta> = <xi_G, eta_G> + sum_d trace(xi_d^T eta_d G_d G_d^T): the formula of the
//! preconditioned metric. What differs are the choice of xi_d (orthogonal to U_d instead of horizontal),
//! the transport and the retraction. Nothing of the size of the tensor is ever formed.

use nalgebra::DMatrix;

use super::core_tensor::Core;
use super::frame::Frame;
use super::geometry::{Geometry, Preconditioned};
use super::point::{Point, Tangent};
use super::retraction::StepTooLong;
use crate::rows::{Rows, Square, left_singular, orthonormalize};

/// The geometry of geomCG. Singular G_d G_d^T are guarded as in [`Preconditioned`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Embedded;

impl Geometry for Embedded {
    fn weigh(&self, eigenvalues: &mut [f64]) -> usize {
        Preconditioned.weigh(eigenvalues)
    }

    /// The orthogonal projection of the tensor S of residuals onto the tangent space. With
    /// E_d = S_d (x_{e != d} U_e) G_d^T the partial by U_d: xi_d = (I - U_d U_d^T) E_d (G_d G_d^T)^-1,
    /// and xi_G = S x_d U_d^T is the partial by G.
    fn gradient(&self, frame: &Frame<'_>, partials: &mut Tangent) {
        for (mode, own) in frame.modes.iter().enumerate() {
            remove_and_divide(&frame.point.factors[mode], &mut partials.factors[mode], &own.inverse());
        }
    }

    /// The orthogonal projection of the tensor xi, tangent at `from` = (U, G), onto the tangent space
    /// at the frame's point (V, H). With B_d = V_d^T U_d and C_d = V_d^T xi_d:
    ///
    /// - core: xi_G x_d B_d + sum_d G x_d C_d x_{e != d} B_e;
    /// - factor d: (I - V_d V_d^T) (U_d M_d + xi_d N_d) H_d^T (H_d H_d^T)^-1, where
    ///   M_d = xi_G x_{e != d} B_e + sum_{f != d} G x_f C_f x_{e != d, f} B_e and
    ///   N_d = G x_{e != d} B_e, unfolded by d.
    ///
    /// A vector that is no tangent one, U_d^T xi_d != 0, stands for the tensor above all the same: from
    /// a point to itself this finds its tangent form.
    fn transport(&self, frame: &Frame<'_>, from: &Point, xi: &mut Tangent) {
        let to = frame.point;
        let order = to.order();
        let turn: Vec<Square> = (0..order).map(|d| to.factors[d].gram(&from.factors[d])).collect();
        let turned: Vec<Square> = (0..order).map(|d| to.factors[d].gram(&xi.factors[d])).collect();
        for mode in 0..order {
            let others: Vec<usize> = (0..order).filter(|&e| e != mode).collect();
            let along = spread(&from.core, &xi.core, &turn, &turned, &others);
            let still = product(&from.core, &turn, &others, None);
            let rows = &mut xi.factors[mode];
            rows.multiply(&still.unfolding_gram(&to.core, mode));
            rows.subtract_product(&from.factors[mode], &negated(along.unfolding_gram(&to.core, mode)));
            remove_and_divide(&to.factors[mode], rows, &frame.modes[mode].inverse());
        }
        let all: Vec<usize> = (0..order).collect();
        xi.core = spread(&from.core, &xi.core, &turn, &turned, &all);
    }

    /// The truncated higher-order singular value decomposition of X + s xi.
    ///
    /// With xi_d = Q_d R_d that tensor is S x_d [U_d Q_d], where S has 2 r_d indices in mode d, but
    /// numbers only in D + 1 of its 2^D blocks: G + s xi_G where every index is of the first half, and
    /// s G x_d R_d where that of mode d alone is of the second.
    fn retract(
        &self,
        point: &Point,
        direction: &Tangent,
        step: f64,
        out: &mut Point,
    ) -> Result<(), StepTooLong> {
        let order = point.order();
        let mut still = point.core.clone();
        still.axpy(step, &direction.core);
        let mut moved = Vec::with_capacity(order);
        for mode in 0..order {
            let upper = split(&direction.factors[mode], &mut out.factors[mode])?;
            let mut block = point.core.mode_product(mode, &upper);
            block.scale(step);
            moved.push(block);
        }
        // W_d, the r_d strongest left singular vectors of S_d, in its two halves.
        let (mut first, mut second) = (Vec::with_capacity(order), Vec::with_capacity(order));
        for (mode, &r) in point.ranks().iter().enumerate() {
            let (_, basis) = left_singular(unfolding(&still, &moved, mode)).ok_or(StepTooLong)?;
            first.push(Square::from_fn(r, |i, j| basis[(i, j)]));
            second.push(Square::from_fn(r, |i, j| basis[(r + i, j)]));
        }
        let transposed: Vec<Square> = first.iter().map(Square::transpose).collect();
        let mut core = still.product(&transposed);
        for mode in 0..order {
            let others: Vec<usize> = (0..order).filter(|&e| e != mode).collect();
            let block = moved[mode].mode_product(mode, &second[mode].transpose());
            core.axpy(1.0, &product(&block, &transposed, &others, None));
        }
        for mode in 0..order {
            let factor = &mut out.factors[mode];
            factor.multiply(&second[mode]);
            factor.subtract_product(&point.factors[mode], &negated(first[mode].clone()));
            // What rounding has added to the columns would build up over iterations.
            let upper = orthonormalize(factor).map_err(|_| StepTooLong)?;
            core = core.mode_product(mode, &upper);
        }
        out.core = core;
        if out.core.as_slice().iter().all(|x| x.is_finite()) { Ok(()) } else { Err(StepTooLong) }
    }
}

/// rows = (I - U U^T) rows p.
fn remove_and_divide(u: &Rows, rows: &mut Rows, p: &Square) {
    let along = u.gram(rows);
    rows.subtract_product_then_multiply(u, &along, p);
}

/// core x_e m_e over the modes listed, but for `skip`.
fn product(core: &Core, matrices: &[Square], modes: &[usize], skip: Option<usize>) -> Core {
    let mut out = core.clone();
    for &mode in modes.iter().filter(|&&mode| Some(mode) != skip) {
        out = out.mode_product(mode, &matrices[mode]);
    }
    out
}

/// change x_e B_e + sum_f core x_f C_f x_{e != f} B_e over the modes listed.
fn spread(core: &Core, change: &Core, turn: &[Square], turned: &[Square], modes: &[usize]) -> Core {
    let mut sum = product(change, turn, modes, None);
    for &f in modes {
        sum.axpy(1.0, &product(&core.mode_product(f, &turned[f]), turn, modes, Some(f)));
    }
    sum
}

fn negated(mut matrix: Square) -> Square {
    matrix.as_mut_slice().iter_mut().for_each(|x| *x = -*x);
    matrix
}

/// Writes Q of xi = Q R into `out` and returns R.
fn split(xi: &Rows, out: &mut Rows) -> Result<Square, StepTooLong> {
    out.copy_from(xi);
    if let Ok(upper) = orthonormalize(out) {
        return Ok(upper);
    }
    // Dependent columns, as always where 2 r > n: reflections do not mind.
    let (n, r) = (xi.rows(), xi.rank());
    if xi.as_slice().iter().any(|x| !x.is_finite()) {
        return Err(StepTooLong);
    }
    let (q, upper) = DMatrix::from_fn(n, r, |i, j| xi.row(i)[j]).qr().unpack();
    for i in 0..n {
        out.row_mut(i).iter_mut().enumerate().for_each(|(j, x)| *x = q[(i, j)]);
    }
    Ok(Square::from_fn(r, |i, j| if j >= i { upper[(i, j)] } else { 0.0 }))
}

/// The transpose of S_d without the columns of S_d that are zero.
fn unfolding(still: &Core, moved: &[Core], mode: usize) -> DMatrix<f64> {
    let r = still.ranks()[mode];
    let own = moved[mode].unfolding_transposed(mode);
    let mut blocks = vec![still.unfolding_transposed(mode)];
    for (_, block) in moved.iter().enumerate().filter(|(e, _)| *e != mode) {
        blocks.push(block.unfolding_transposed(mode));
    }
    let fibres = own.nrows();
    DMatrix::from_fn(fibres * blocks.len(), 2 * r, |k, a| {
        let (block, fibre) = (k / fibres, k % fibres);
        match (a < r, block) {
            (true, _) => blocks[block][(fibre, a)],
            (false, 0) => own[(fibre, a - r)],
            (false, _) => 0.0,
        }
    })
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_pcg::Pcg64;

    use super::super::{Distribution, random_ambient, random_point};
    use super::*;

    /// Orders 2 to 5, some modes with n < 2 r or n = r.
    fn shapes() -> [(Vec<usize>, Vec<usize>); 4] {
        [
            (vec![9, 8], vec![3, 3]),
            (vec![8, 5, 6], vec![3, 3, 2]),
            (vec![6, 5, 2, 5], vec![2, 3, 2, 2]),
            (vec![4, 3, 5, 3, 4], vec![2, 2, 3, 1, 2]),
        ]
    }

    /// All numbers of the tensor, last mode fastest.
    fn dense(point: &Point) -> Vec<f64> {
        let dims = point.dims();
        let total: usize = dims.iter().product();
        let cell = |mut k: usize| {
            let mut index = vec![0; dims.len()];
            for d in (0..dims.len()).rev() {
                index[d] = k % dims[d];
                k /= dims[d];
            }
            point.value_at(&index)
        };
        (0..total).map(cell).collect()
    }

    /// All numbers of the tensor that xi stands for at a point.
    fn dense_tangent(point: &Point, xi: &Tangent) -> Vec<f64> {
        let mut part = Point { core: xi.core.clone(), ..point.clone() };
        let mut sum = dense(&part);
        for mode in 0..point.order() {
            part = point.clone();
            part.factors[mode].copy_from(&xi.factors[mode]);
            sum.iter_mut().zip(dense(&part)).for_each(|(s, x)| *s += x);
        }
        sum
    }

    fn dot(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    fn distance(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
    }

    /// A tangent vector at a point.
    fn tangent(point: &Point, rng: &mut Pcg64) -> Tangent {
        let mut xi = random_ambient(point, rng);
        Embedded.transport(&Embedded.frame(point), point, &mut xi);
        xi
    }

    fn everywhere(law: impl Fn(&str, &Point, &mut Pcg64)) {
        for (n, (dims, ranks)) in shapes().iter().enumerate() {
            let point = random_point(dims, ranks, Distribution::Gaussian, n as u64);
            law(&format!("{dims:?}"), &point, &mut Pcg64::seed_from_u64(17));
        }
    }

    #[test]
    fn the_inner_product_is_that_of_the_tensors() {
        everywhere(|label, point, rng| {
            let (xi, eta) = (tangent(point, rng), tangent(point, rng));
            let found = Embedded.frame(point).inner(&xi, &eta);
            let expected = dot(&dense_tangent(point, &xi), &dense_tangent(point, &eta));
            assert!((found - expected).abs() < 1e-10 * (1.0 + expected.abs()), "{label}: {found} {expected}");
        });
    }

    #[test]
    fn transport_is_the_orthogonal_projection_of_the_tensor() {
        everywhere(|label, point, rng| {
            let to = random_point(&point.dims(), point.ranks(), Distribution::Gaussian, 99);
            let frame = Embedded.frame(&to);
            let xi = random_ambient(point, rng);
            let mut moved = xi.clone();
            Embedded.transport(&frame, point, &mut moved);
            for (v, rows) in to.factors.iter().zip(&moved.factors) {
                let along = v.gram(rows);
                assert!(along.as_slice().iter().all(|x| x.abs() < 1e-10), "{label}: not orthogonal to V");
            }
            let before = dense_tangent(point, &xi);
            let after = dense_tangent(&to, &moved);
            let lost: Vec<f64> = before.iter().zip(&after).map(|(a, b)| a - b).collect();
            for _ in 0..5 {
                let eta = dense_tangent(&to, &tangent(&to, rng));
                let size = (dot(&before, &before) * dot(&eta, &eta)).sqrt();
                assert!(dot(&lost, &eta).abs() < 1e-12 * size, "{label}: not orthogonal");
            }
            // What is tangent stays as it is.
            let mut again = moved.clone();
            Embedded.transport(&frame, &to, &mut again);
            let size = dot(&after, &after).sqrt();
            assert!(distance(&after, &dense_tangent(&to, &again)) < 1e-12 * size, "{label}: twice");
        });
    }

    #[test]
    fn the_gradient_is_the_projection_of_the_residuals() {
        everywhere(|label, point, rng| {
            // Any tensor S; its partials are <S, d(G x U)> by the numbers of G and U.
            let s = dense(&random_point(&point.dims(), point.ranks(), Distribution::Gaussian, 5));
            let mut partials = Tangent::zeros_like(point);
            for mode in 0..point.order() {
                for k in 0..partials.factors[mode].as_slice().len() {
                    let mut part = point.clone();
                    part.factors[mode].fill(0.0);
                    part.factors[mode].as_mut_slice()[k] = 1.0;
                    partials.factors[mode].as_mut_slice()[k] = dot(&s, &dense(&part));
                }
            }
            for k in 0..partials.core.as_slice().len() {
                let mut part = point.clone();
                part.core.fill(0.0);
                part.core.as_mut_slice()[k] = 1.0;
                partials.core.as_mut_slice()[k] = dot(&s, &dense(&part));
            }
            let frame = Embedded.frame(point);
            Embedded.gradient(&frame, &mut partials);
            let projected = dense_tangent(point, &partials);
            for _ in 0..5 {
                let eta = dense_tangent(point, &tangent(point, rng));
                let (found, expected) = (dot(&projected, &eta), dot(&s, &eta));
                let size = (dot(&s, &s) * dot(&eta, &eta)).sqrt();
                assert!((found - expected).abs() < 1e-11 * size, "{label}: {found} {expected}");
            }
        });
    }

    /// The truncated HOSVD of a full tensor, by the singular vectors of its unfoldings.
    fn naive_hosvd(full: &[f64], dims: &[usize], ranks: &[usize]) -> Vec<f64> {
        let mut core = Core::from_vec(dims, full.to_vec());
        for (mode, (&n, &r)) in dims.iter().zip(ranks).enumerate() {
            let unfolded = Core::from_vec(dims, full.to_vec()).unfolding_transposed(mode);
            let (_, basis) = left_singular(unfolded).unwrap();
            let sum = |i: usize, j: usize| (0..r).map(|a| basis[(i, a)] * basis[(j, a)]).sum();
            core = core.mode_product(mode, &Square::from_fn(n, sum));
        }
        core.as_slice().to_vec()
    }

    #[test]
    fn retraction_is_the_truncated_hosvd_of_the_moved_tensor() {
        everywhere(|label, point, rng| {
            let xi = tangent(point, rng);
            let (still, along) = (dense(point), dense_tangent(point, &xi));
            let mut out = Point::zeros(&point.dims(), point.ranks());
            for step in [0.0, 0.01, 1.0, 30.0] {
                Embedded.retract(point, &xi, step, &mut out).unwrap();
                assert!(out.orthonormality_error() < 1e-14, "{label}");
                let moved: Vec<f64> = still.iter().zip(&along).map(|(x, y)| x + step * y).collect();
                let expected = naive_hosvd(&moved, &point.dims(), point.ranks());
                let size = dot(&moved, &moved).sqrt();
                assert!(distance(&dense(&out), &expected) < 1e-11 * size, "{label}, step {step}");
            }
        });
    }

    #[test]
    fn retraction_agrees_with_the_tangent_to_second_order() {
        everywhere(|label, point, rng| {
            let xi = tangent(point, rng);
            let (still, along) = (dense(point), dense_tangent(point, &xi));
            let mut out = Point::zeros(&point.dims(), point.ranks());
            let mut error = |step: f64| {
                Embedded.retract(point, &xi, step, &mut out).unwrap();
                let line: Vec<f64> = still.iter().zip(&along).map(|(x, y)| x + step * y).collect();
                distance(&dense(&out), &line)
            };
            let scale = (dot(&still, &still) / dot(&along, &along)).sqrt();
            let (far, near) = (error(1e-3 * scale), error(1e-4 * scale));
            assert!((far / near).log10() > 1.9, "{label}: {far:e} {near:e}");
        });
    }

    #[test]
    fn directions_that_vanish_or_are_not_finite() {
        let point = random_point(&[6, 5, 4], &[3, 2, 2], Distribution::Gaussian, 1);
        let mut out = Point::zeros(&[6, 5, 4], &[3, 2, 2]);
        let zero = Tangent::zeros_like(&point);
        Embedded.retract(&point, &zero, 1.0, &mut out).unwrap();
        assert!(distance(&dense(&out), &dense(&point)) < 1e-13);
        let mut broken = random_ambient(&point, &mut Pcg64::seed_from_u64(1));
        for step in [f64::INFINITY, f64::NAN] {
            assert_eq!(Embedded.retract(&point, &broken, step, &mut out), Err(StepTooLong));
        }
        broken.factors[0].row_mut(0)[0] = f64::NAN;
        assert_eq!(Embedded.retract(&point, &broken, 1.0, &mut out), Err(StepTooLong));
    }
}
