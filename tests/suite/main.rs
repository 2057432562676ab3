//! All tests of the program from outside and of the engine's parts together, in one program: linking
//! is what costs. `cargo test --release --test suite NAME::` runs one module.

mod absent;
mod append;
mod auto;
mod bad_input;
mod batches;
mod bound;
mod common;
mod complete;
mod components;
mod conditions;
mod crash;
mod earlier;
mod encoding;
mod fill;
mod fill_sd;
mod found_rank;
mod guesses;
mod inside;
mod interrupted;
mod joined;
mod kill;
mod layers;
mod many_modes;
mod missing;
#[cfg(feature = "mpi")]
mod mpi;
mod objective;
mod open_files;
mod pages;
mod parquet;
mod public_api;
mod recipe;
mod refit;
mod resume;
mod roundtrip;
mod rows;
mod safety;
mod says;
mod splits;
mod stochastic;
#[cfg(feature = "stores")]
mod stores;
mod sweeps;
mod team;
mod thresholds;
mod times_split;
mod tiny;
mod traces;
mod transform;
mod uneven;
mod usage;
mod weights;
