//! A run: configuration, log, checkpoints and model in one directory.
//!
//! ```text
//! RUN/
//!   config.json     everything that determines the result
//!   log.jsonl       a line per iteration
//!   checkpoints/    the newest two
//!   model/          the best model so far by validation, or the last; at the end, biases alone beside it
//!   end.json        how it ended
//!   data.tenfill/   the dataset, where a raw file was completed
//!   added.tenfill/ entries that were folded in
//!   .lock           held by the process that works on the run
//! ```

mod config;
mod directory;
mod end;
mod finish;
mod kind;
mod layout;
mod limits;
mod log;
mod save;
mod start;
mod train;
mod verify;

pub use config::{Config, GeometryKind, Init, RELATIVE_TOLERANCE, check_rank, largest_rank};
pub use directory::RunDirectory;
pub use end::{End, EndErrors};
pub use kind::DataKind;
pub use layout::{RunKind, inputs_of};
pub use limits::{Every, Limits};
pub use log::{Log, LogLine, MEASURED, Observer, gradient_norm, log_path, read_lines, read_log, unobserved};
pub use start::{check_start, sweep_passes, with_more};
pub(crate) use train::in_pool;
pub use train::{Outcome, SplitErrors, complete, resume};
pub use verify::verify_run;
