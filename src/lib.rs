//! tenfill completes huge sparse tensors, streamed from disk within a fixed memory budget.

pub mod budget;
pub mod checkpoint;
pub mod cli;
pub mod control;
pub mod convert;
pub mod error;
pub mod ingest;
pub mod kernel;
pub mod manifold;
pub mod model;
pub mod objective;
pub mod reduce;
pub mod run;
pub mod shard;
pub mod solver;
pub mod sort;
pub mod storage;
pub mod stream;
pub mod synth;
pub mod units;
pub mod usage;

pub use error::{Error, Result};

/// The smallest number of modes a tensor may have here.
pub const MIN_ORDER: usize = 2;
/// The largest number of modes a tensor may have here.
pub const MAX_ORDER: usize = 8;
