//! The Tucker manifold: tensors of fixed multilinear rank, of any order from 2 to 8.
//!
//! A tensor is written G x_1 U_1 x_2 ... x_D U_D with orthonormal factors U_d (n_d x r_d) and a
//! core G (r_1 x ... x r_D). Turning a factor by an orthogonal matrix and the core by its inverse
//! changes nothing, so the manifold is the quotient by O(r_1) x ... x O(r_D), and its tangent
//! vectors are written as the horizontal ones of the total space.
//!
//! | what | where |
//! |---|---|
//! | a point, a vector of its shape | [`Point`], [`Tangent`], made of [`Rows`](crate::rows::Rows) and a [`Core`] |
//! | which metric | [`Geometry`]: [`Preconditioned`] (the paper's), [`Damped`] or [`Euclidean`] |
//! | the same tensors as a surface among all tensors | [`Embedded`] (geomCG's) |
//! | inner product, gradient, projections, transport | [`Frame`], one per point |
//! | moving along a direction | [`retract`], [`retract_absorbing`] |
//! | where to start | [`random_point`], [`orthonormalize`] |
//!
//! ```
//! use tenfill_engine::manifold::{Distribution, Geometry, Preconditioned, Tangent, random_point, retract};
//!
//! let point = random_point(&[6, 5, 4], &[2, 2, 2], Distribution::Uniform, 1);
//! let mut partials = Tangent::zeros_like(&point);
//! partials.factors[0].row_mut(3)[1] = 1.0; // the cost falls when U_1[3, 1] does
//!
//! let frame = Preconditioned.frame(&point);
//! let mut direction = partials;
//! frame.gradient(&mut direction);
//! direction.scale(-1.0);
//! let mut next = point.clone();
//! retract(&point, &direction, 0.1, &mut next).unwrap();
//! assert!(next.orthonormality_error() < 1e-14);
//! ```

mod core_tensor;
mod coupled;
mod damped;
mod embedded;
mod frame;
mod geometry;
mod point;
mod random;
mod retraction;
mod sparse_core;
#[cfg(test)]
mod tests;

pub use crate::rows::{Dependent, orthonormalize};
pub use core_tensor::Core;
pub use coupled::DIRECT_UNKNOWNS;
pub use damped::Damped;
pub use embedded::Embedded;
pub use frame::Frame;
pub use geometry::{Euclidean, GUARD, Geometry, Preconditioned};
pub use point::{Point, Tangent, dimension};
pub use random::{Distribution, random_ambient, random_point, random_point_on, random_rotations};
pub use retraction::{StepTooLong, retract, retract_absorbing};
