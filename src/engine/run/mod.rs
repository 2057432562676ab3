//! A run: configuration, log, checkpoints and model in one directory.
//!
//! ```text
//! RUN/
//!   config.json     everything that determines the result
//!   log.jsonl       a line per iteration
//!   checkpoints/    the newest two
//!   model/          the best model so far by validation, or the last
//!   data.tenfill/   the dataset, where a raw file was completed
//!   added.tenfill/ entries that were folded in
//!   .lock           held by the process that works on the run
//! ```

mod config;
mod directory;
mod finish;
mod limits;
mod log;
mod save;
mod start;
mod train;
mod verify;

pub use config::{CONFIG_FILE, Config, GeometryKind, Init, RELATIVE_TOLERANCE, check_rank};
pub use directory::RunDirectory;
pub use limits::{Every, Limits};
pub use log::{Log, LogLine, MEASURED, log_path};
pub use train::{Outcome, SplitErrors, complete, resume};
pub use verify::verify_run;
