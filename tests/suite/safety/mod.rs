//! Nothing of the user's is lost, and nothing lies: each case by name.

mod formats;
mod limits;
mod limits_files;
mod numbers;
mod outputs;
mod outputs_generator;
