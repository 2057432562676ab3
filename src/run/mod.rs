//! A run: configuration, log, checkpoints and model in one directory.
//!
//! ```text
//! RUN/
//!   config.json     everything that determines the result
//!   log.jsonl       a line per iteration
//!   checkpoints/    the newest two
//!   model/          the best model so far by validation, or the last
//!   data.tenfill/   the dataset, where a raw file was completed
//! ```

mod config;
mod log;
mod train;
mod verify;

pub use config::{Config, GeometryKind, Init, check_rank};
pub use log::{Log, LogLine};
pub use train::{Every, Limits, Outcome, complete, resume};
pub use verify::verify_run;
