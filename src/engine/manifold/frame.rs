//! The verbs of the geometry at one point.
//!
//! Everything is done in the eigenbases V_d of G_d G_d^T, where the Lyapunov equations of the
//! paper are divisions. Written below: lambda for the eigenvalues of G_d G_d^T, w for those of
//! the metric's A_d (see [`Geometry`](super::Geometry)), K = V^T U^T Y V for what a vector Y has
//! along its own factor.

use std::sync::OnceLock;

use super::core_tensor::Core;
use super::coupled::Coupled;
use super::point::{Point, Tangent};
use crate::rows::{Square, left_singular};

/// What the metric needs to know about one point, and the verbs that use it.
///
/// A frame is a function of the point alone: made again from the same point, it gives the same
/// bits. [`Geometry::frame`](super::Geometry::frame) makes it.
#[derive(Debug)]
pub struct Frame<'a> {
    pub(super) point: &'a Point,
    pub(super) modes: Vec<ModeFrame>,
    /// G x_1 V_1^T ... x_D V_D^T.
    core: Core,
    /// Only transport and the horizontal projection need it: steepest descent never does.
    coupled: OnceLock<Coupled>,
    guarded: usize,
}

/// One mode's share of a frame.
#[derive(Debug)]
pub(super) struct ModeFrame {
    /// V_d, the eigenvectors as columns.
    pub basis: Square,
    /// lambda, the eigenvalues of G_d G_d^T.
    pub eigenvalues: Vec<f64>,
    /// w, the eigenvalues of A_d; all positive.
    pub weights: Vec<f64>,
}

impl<'a> Frame<'a> {
    pub(super) fn new(point: &'a Point, mut weigh: impl FnMut(&mut [f64]) -> usize) -> Self {
        let mut guarded = 0;
        let mut modes = Vec::with_capacity(point.order());
        for (mode, &r) in point.ranks().iter().enumerate() {
            // No decomposition, for numbers that are not finite: a frame must exist all the same,
            // so that the solver can report what happened.
            let (eigenvalues, basis) = left_singular(point.core.unfolding_transposed(mode))
                .unwrap_or_else(|| (vec![0.0; r], Square::identity(r)));
            let mut weights = eigenvalues.clone();
            guarded += weigh(&mut weights);
            modes.push(ModeFrame { basis, eigenvalues, weights });
        }
        let core = rotate_core(&point.core, &modes);
        Frame { point, modes, core, coupled: OnceLock::new(), guarded }
    }

    /// How many eigenvalues the metric had to raise at this point; 0 in a well-conditioned run.
    pub fn guarded(&self) -> usize {
        self.guarded
    }

    /// The inner product g_x(xi, eta) = sum_d trace(xi_d^T eta_d A_d) + <xi_G, eta_G>.
    pub fn inner(&self, xi: &Tangent, eta: &Tangent) -> f64 {
        let mut sum = 0.0;
        for (mode, frame) in self.modes.iter().enumerate() {
            let gram = xi.factors[mode].gram(&eta.factors[mode]);
            let along = gram.times(&frame.basis);
            for (i, w) in frame.weights.iter().enumerate() {
                let r = frame.weights.len();
                sum += w * (0..r).map(|a| frame.basis[(a, i)] * along[(a, i)]).sum::<f64>();
            }
        }
        sum + xi.core.dot(&eta.core)
    }

    /// Shortens every row whose share of g_x(xi, xi) is above its bound, `most(mode, row)`. Rows say nothing of one another,
    /// so that processes need not either.
    pub fn bound_rows(&self, xi: &mut Tangent, most: impl Fn(usize, usize) -> f64) {
        for (mode, frame) in self.modes.iter().enumerate() {
            let (rows, r) = (&mut xi.factors[mode], frame.weights.len());
            let metric = frame.metric();
            let largest = frame.weights.iter().fold(0.0, |most: f64, &w| most.max(w));
            for index in rows.own() {
                let (row, most) = (rows.row_mut(index), most(mode, index));
                // Nearly all rows are so short that their length alone tells.
                if largest * row.iter().map(|x| x * x).sum::<f64>() <= most {
                    continue;
                }
                let along = |a: usize| (0..r).map(|b| metric[(a, b)] * row[b]).sum::<f64>();
                let change: f64 = (0..r).map(|a| row[a] * along(a)).sum();
                if change > most {
                    let share = (most / change).sqrt();
                    row.iter_mut().for_each(|x| *x *= share);
                }
            }
        }
    }

    /// Turns Euclidean partials into the Riemannian gradient, in place:
    /// Psi_x(E_1 A_1^-1, ..., E_D A_D^-1, E_G). It is horizontal as it is, because the cost does
    /// not change along the vertical space.
    ///
    /// With E the partial by U_d: grad_d = (E - U B) A^-1, B A + A B = A U^T E + E^T U A.
    pub fn gradient(&self, partials: &mut Tangent) {
        for (mode, frame) in self.modes.iter().enumerate() {
            let (u, w) = (&self.point.factors[mode], &frame.weights);
            let k = frame.basis.congruence(&u.gram(&partials.factors[mode]));
            let b = Square::from_fn(w.len(), |i, j| (w[i] * k[(i, j)] + w[j] * k[(j, i)]) / (w[i] + w[j]));
            let b = frame.turn_back(&b);
            partials.factors[mode].subtract_product_then_multiply(u, &b, &frame.inverse());
        }
    }

    /// The tangent projection Psi_x, in place: Y_d - U_d S_d A_d^-1, where S_d solves
    /// S A + A S = A (Y^T U + U^T Y) A. The core's part stays.
    pub fn project_tangent(&self, y: &mut Tangent) {
        for mode in 0..self.modes.len() {
            let k = self.along(mode, y);
            self.subtract(mode, y, &self.normal(mode, &k));
        }
    }

    /// The horizontal projection Pi_x of a tangent vector, in place:
    /// (eta_d - U_d W_d, eta_G + sum_d G x_d W_d), where the skew W_d solve the coupled Lyapunov
    /// equations: what is left is orthogonal to every vertical vector
    /// (U_d W'_d, -sum_d G x_d W'_d).
    pub fn project_horizontal(&self, eta: &mut Tangent) {
        let along: Vec<Square> = (0..self.modes.len()).map(|m| self.along(m, eta)).collect();
        let vertical = self.vertical(&along, &eta.core);
        for (mode, w) in vertical.iter().enumerate() {
            self.subtract(mode, eta, w);
        }
        self.add_vertical_core(eta, &vertical);
    }

    /// The vector transport to this point, in place: Pi_x(Psi_x(xi)) in one reading of the
    /// factors and one writing of the vector.
    pub fn transport(&self, xi: &mut Tangent) {
        let mut along = Vec::with_capacity(self.modes.len());
        let mut remove = Vec::with_capacity(self.modes.len());
        for mode in 0..self.modes.len() {
            let k = self.along(mode, xi);
            let w = &self.modes[mode].weights;
            // K of Psi(xi), skew by its formula.
            along
                .push(Square::from_fn(w.len(), |i, j| (w[j] * k[(i, j)] - w[i] * k[(j, i)]) / (w[i] + w[j])));
            remove.push(self.normal(mode, &k));
        }
        let vertical = self.vertical(&along, &xi.core);
        for (mode, w) in vertical.iter().enumerate() {
            let total = &mut remove[mode];
            for (t, w) in total.as_mut_slice().iter_mut().zip(w.as_slice()) {
                *t += w;
            }
            self.subtract(mode, xi, total);
        }
        self.add_vertical_core(xi, &vertical);
    }

    /// K = V^T U^T Y V.
    fn along(&self, mode: usize, y: &Tangent) -> Square {
        let gram = self.point.factors[mode].gram(&y.factors[mode]);
        self.modes[mode].basis.congruence(&gram)
    }

    /// The part along U that Psi removes, S A^-1 in the eigenbasis: w_i (K_ij + K_ji) / (w_i + w_j).
    fn normal(&self, mode: usize, k: &Square) -> Square {
        let w = &self.modes[mode].weights;
        Square::from_fn(w.len(), |i, j| w[i] * (k[(i, j)] + k[(j, i)]) / (w[i] + w[j]))
    }

    /// The skew matrices, in the eigenbases, of the vertical part of a tangent vector with the
    /// given K and core part.
    fn vertical(&self, along: &[Square], core: &Core) -> Vec<Square> {
        let coupled = self.coupled.get_or_init(|| Coupled::new(&self.core, &self.modes));
        let rotated = rotate_core(core, &self.modes);
        coupled.solve(&self.core, &self.modes, along, &rotated)
    }

    /// y_d = y_d - U_d V_d m V_d^T.
    fn subtract(&self, mode: usize, y: &mut Tangent, m: &Square) {
        let m = self.modes[mode].turn_back(m);
        y.factors[mode].subtract_product(&self.point.factors[mode], &m);
    }

    /// y_G = y_G + sum_d G x_d W_d.
    fn add_vertical_core(&self, y: &mut Tangent, vertical: &[Square]) {
        let mut sum = super::coupled::spread(&self.core, vertical);
        for (mode, frame) in self.modes.iter().enumerate() {
            sum = sum.mode_product(mode, &frame.basis);
        }
        y.core.axpy(1.0, &sum);
    }
}

impl ModeFrame {
    /// A, in the factor's own columns.
    fn metric(&self) -> Square {
        let (v, w) = (&self.basis, &self.weights);
        Square::from_fn(w.len(), |i, j| (0..w.len()).map(|a| v[(i, a)] * v[(j, a)] * w[a]).sum())
    }

    /// A^-1, in the factor's own columns.
    pub(super) fn inverse(&self) -> Square {
        let (v, w) = (&self.basis, &self.weights);
        Square::from_fn(w.len(), |i, j| (0..w.len()).map(|a| v[(i, a)] * v[(j, a)] / w[a]).sum())
    }

    /// V m V^T: a matrix from the eigenbasis back to the factor's own columns.
    fn turn_back(&self, m: &Square) -> Square {
        self.basis.times(&m.times(&self.basis.transpose()))
    }
}

/// The core in the eigenbases: core x_1 V_1^T ... x_D V_D^T.
fn rotate_core(core: &Core, modes: &[ModeFrame]) -> Core {
    let mut out = core.clone();
    for (mode, frame) in modes.iter().enumerate() {
        out = out.mode_product(mode, &frame.basis.transpose());
    }
    out
}
