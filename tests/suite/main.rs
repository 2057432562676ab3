//! All tests of the program from outside and of the engine's parts together, in one program: linking
//! is what costs. `cargo test --release --test suite NAME::` runs one module.

mod auto;
mod bad_input;
mod batches;
mod common;
mod complete;
mod crash;
mod interrupted;
mod kill;
mod layers;
#[cfg(feature = "mpi")]
mod mpi;
mod objective;
mod public_api;
mod recipe;
mod resume;
mod roundtrip;
mod rows_fit;
mod safety;
mod splits;
mod stochastic;
mod sweeps;
mod team;
mod traces;
mod usage;
mod weights;
