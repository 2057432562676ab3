//! Points of the total space and vectors of the same shape.

use super::core_tensor::Core;
use crate::rows::Rows;
use crate::rows::Square;
use crate::team::Team;

/// A point x = (U_1, ..., U_D, G): it stands for the tensor G x_1 U_1 x_2 ... x_D U_D.
///
/// The factors have orthonormal columns; the core is any tensor. Points that differ by rotations,
/// (U_d O_d, G x_d O_d^T), stand for the same tensor and are one point of the quotient manifold.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// U_d, n_d x r_d, one per mode.
    pub factors: Vec<Rows>,
    /// G, r_1 x ... x r_D.
    pub core: Core,
}

/// A vector of a point's shape: Euclidean partials, a tangent vector, a gradient, a direction.
#[derive(Debug, Clone, PartialEq)]
pub struct Tangent {
    /// The factors' parts, n_d x r_d each.
    pub factors: Vec<Rows>,
    /// The core's part, r_1 x ... x r_D.
    pub core: Core,
}

/// The dimension of the set of tensors of these ranks: sum over modes of n r - r^2, plus the product of the ranks.
pub fn dimension(dims: impl IntoIterator<Item = u32>, ranks: &[usize]) -> f64 {
    let factor = |(n, &r): (u32, &usize)| f64::from(n) * r as f64 - (r * r) as f64;
    dims.into_iter().zip(ranks).map(factor).sum::<f64>()
        + ranks.iter().map(|&rank| rank as f64).product::<f64>()
}

impl Point {
    /// The point of zeros: room for a result, not a point of the manifold.
    pub fn zeros(dims: &[usize], ranks: &[usize]) -> Self {
        Point { factors: zero_factors(dims, ranks), core: Core::zeros(ranks) }
    }

    /// The same of a point's shape, its rows divided as that one's are.
    pub fn zeros_like(point: &Point) -> Self {
        Point { factors: zeros_like(point), core: Core::zeros(point.ranks()) }
    }

    /// The rows that a member of a team owns, out of all of them.
    pub fn divided(mut self, team: Team) -> Self {
        self.factors = self.factors.into_iter().map(|rows| rows.divided(team)).collect();
        self
    }

    /// Who has the rows: this process alone, or several, each some.
    pub fn team(&self) -> Team {
        self.factors.first().map_or(Team::alone(), Rows::team)
    }

    /// The number D of modes.
    pub fn order(&self) -> usize {
        self.factors.len()
    }

    /// The dimensions n_1, ..., n_D.
    pub fn dims(&self) -> Vec<usize> {
        self.factors.iter().map(Rows::rows).collect()
    }

    /// The ranks r_1, ..., r_D.
    pub fn ranks(&self) -> &[usize] {
        self.core.ranks()
    }

    /// The number of cells of the tensor, n_1 ... n_D.
    pub fn cells(&self) -> f64 {
        self.factors.iter().map(|rows| rows.rows() as f64).product()
    }

    /// The dimension of the manifold: sum_d (n_d r_d - r_d^2) + r_1 ... r_D.
    pub fn dimension(&self) -> usize {
        dimension(self.dims().into_iter().map(|n| n as u32), self.ranks()) as usize
    }

    /// self = other.
    pub fn copy_from(&mut self, other: &Point) {
        for (own, other) in self.factors.iter_mut().zip(&other.factors) {
            own.copy_from(other);
        }
        self.core.copy_from(&other.core);
    }

    /// The same tensor in other coordinates: (U_d O_d, G x_d O_d^T) for orthogonal O_d.
    pub fn rotated(&self, rotations: &[Square]) -> Point {
        let mut out = self.clone();
        for (mode, o) in rotations.iter().enumerate() {
            out.factors[mode].multiply(o);
            out.core = out.core.mode_product(mode, &o.transpose());
        }
        out
    }

    /// The largest entry of |U_d^T U_d - I| over all modes: rounding, if all is well.
    pub fn orthonormality_error(&self) -> f64 {
        let errors = self.factors.iter().map(|u| u.gram(u).distance_from_identity());
        errors.fold(0.0, f64::max)
    }

    /// The tensor's value at one index per mode, by the plain sum over the core.
    pub fn value_at(&self, index: &[usize]) -> f64 {
        let rows: Vec<&[f64]> = self.factors.iter().zip(index).map(|(u, &i)| u.row(i)).collect();
        self.core.value_at(&rows)
    }
}

impl Tangent {
    /// The zero vector.
    pub fn zeros(dims: &[usize], ranks: &[usize]) -> Self {
        Tangent { factors: zero_factors(dims, ranks), core: Core::zeros(ranks) }
    }

    /// The zero vector of a point's shape.
    pub fn zeros_like(point: &Point) -> Self {
        Tangent { factors: zeros_like(point), core: Core::zeros(point.ranks()) }
    }

    /// Sets every number to `value`.
    pub fn fill(&mut self, value: f64) {
        self.factors.iter_mut().for_each(|x| x.fill(value));
        self.core.fill(value);
    }

    /// self = other.
    pub fn copy_from(&mut self, other: &Tangent) {
        for (own, other) in self.factors.iter_mut().zip(&other.factors) {
            own.copy_from(other);
        }
        self.core.copy_from(&other.core);
    }

    /// self = a * self.
    pub fn scale(&mut self, a: f64) {
        self.factors.iter_mut().for_each(|x| x.scale(a));
        self.core.scale(a);
    }

    /// self = self + a * x.
    pub fn axpy(&mut self, a: f64, x: &Tangent) {
        self.axpby(a, x, 1.0);
    }

    /// self = a * x + b * self.
    pub fn axpby(&mut self, a: f64, x: &Tangent, b: f64) {
        for (own, x) in self.factors.iter_mut().zip(&x.factors) {
            own.axpby(a, x, b);
        }
        self.core.axpby(a, &x.core, b);
    }
}

fn zeros_like(point: &Point) -> Vec<Rows> {
    point.factors.iter().map(|rows| rows.zeros_like(rows.rank())).collect()
}

fn zero_factors(dims: &[usize], ranks: &[usize]) -> Vec<Rows> {
    assert_eq!(dims.len(), ranks.len(), "a rank for each dimension");
    let pairs = dims.iter().zip(ranks);
    pairs.map(|(&n, &r)| Rows::zeros(n, r)).collect()
}
