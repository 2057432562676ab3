//! Conjugate gradients and steepest descent on the Tucker manifold: steps, stopping, state.
//!
//! The solver speaks to the data through [`Objective`] and to the manifold in its verbs. It is a
//! state machine: [`Solver::start`] makes a [`State`], [`Solver::iterate`] takes it one step
//! further, and whoever saves the state's fields and restores them goes on to the same bits.
//!
//! Completing a small tensor from half of its entries:
//!
//! ```
//! use std::ops::ControlFlow;
//! use tenfill_engine::manifold::{Distribution, Preconditioned, random_point};
//! use tenfill_engine::solver::{Entries, InMemory, Options, Solver, StoppedBy};
//!
//! let truth = random_point(&[12, 10, 8], &[2, 2, 2], Distribution::Uniform, 1);
//! let (mut train, mut test) = (Entries::default(), Entries::default());
//! for i in 0..12u32 {
//!     for j in 0..10u32 {
//!         for k in 0..8u32 {
//!             let seen = (i * 5 + j * 3 + k * 7) % 11 < 5;
//!             let value = truth.value_at(&[i as usize, j as usize, k as usize]);
//!             (if seen { &mut train } else { &mut test }).push(&[i, j, k], value);
//!         }
//!     }
//! }
//!
//! let mut objective = InMemory::new(train);
//! let mut solver = Solver::new(Preconditioned, Options::default());
//! let start = random_point(&[12, 10, 8], &[2, 2, 2], Distribution::Uniform, 2);
//! let mut state = solver.start(&mut objective, start).unwrap();
//! let reason = solver.run(&mut state, &mut objective, |_, _| ControlFlow::Continue(())).unwrap();
//! assert_eq!(reason, StoppedBy::Tolerance);
//! assert!(InMemory::mean_squared_error(state.model(), &test) < 1e-10);
//! ```

mod check;
mod in_memory;
mod iterate;
mod objective;
mod options;
mod polynomial;
mod secant;
mod state;
mod stochastic;
#[cfg(test)]
mod tests;

pub use check::{GradientCheck, check_gradient};
pub use in_memory::{Entries, InMemory};
pub use iterate::Solver;
pub use objective::{Cost, LinearisedStep, Objective};
pub use options::{ARMIJO, Algorithm, Beta, MAX_TRIES, ORTHOGONAL, Options, StepRule};
pub use polynomial::least_minimum;
pub use secant::{Ahead, Secant, SecantAbout};
pub use state::{Best, Iteration, Phase, State, StoppedBy};
pub use stochastic::{CHUNKS, LEAST_CHUNKS, Stochastic, StochasticAbout};
