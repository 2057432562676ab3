//! The solver on data of one's own: implement [`Objective`], take a [`Solver`].
//!
//! A tensor is a [`Point`] on the Tucker manifold; the cost of a point, and its partial derivatives as a
//! [`Tangent`], are the caller's. `examples/custom_objective.rs` fits counts that way.

pub use tenfill_engine::manifold::{Core, Distribution, Point, Preconditioned, Tangent, random_point};
pub use tenfill_engine::rows::Rows;
pub use tenfill_engine::solver::{
    Cost, GradientCheck, LinearisedStep, Objective, Options, Solver, State, check_gradient,
};
