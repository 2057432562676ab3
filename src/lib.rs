//! tenfill completes huge sparse tensors: given the observed entries of a D-way array (user x
//! movie x week -> rating, sensor x place x hour -> reading), it fits a low-rank Tucker model by
//! Riemannian preconditioned conjugate gradients (Kasai and Mishra), streaming the entries from
//! disk within a fixed memory budget.
//!
//! ```
//! use tenfill::{Completion, ConvertOptions, Run};
//!
//! # fn main() -> tenfill::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let csv = folder.path().join("ratings.csv");
//! # let rows: Vec<String> = (0..400).map(|n| format!("u{},m{},{}", n % 20, n / 20, 1 + n * 7 % 5)).collect();
//! # std::fs::write(&csv, format!("user,movie,rating\n{}\n", rows.join("\n"))).unwrap();
//! # std::env::set_current_dir(folder.path()).unwrap();
//! let dataset = ConvertOptions::new(["ratings.csv"]).convert("ratings.tenfill")?;
//! let run = Completion::new(&dataset).rank([2, 2]).max_iterations(20).run("run")?;
//! let value = run.model()?.predict(&["u3", "m7"])?.value;
//! println!("u3 would give m7 about {value:.2}");
//! for best in run.recommend(&[("user", "u3")], "movie", 3)? {
//!     println!("{}: {:.2}", best.id, best.prediction.value);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | what | with |
//! |---|---|
//! | tables to a dataset | [`ConvertOptions`], [`Dataset`], [`Split`] |
//! | a dataset to a model, watched and stopped | [`Completion`], [`LogLine`], [`Outcome`] |
//! | a run, gone on with and asked | [`Run`], [`Model`], [`Prediction`], [`Recommendation`], [`Evaluation`] |
//! | a table back without its holes | [`Fill`], [`Filled`], [`HeldOut`] |
//! | the method on data of one's own | [`manifold`] |
//!
//! Everything else is in the crate `tenfill-engine`, whose interface may change from version to version.
//! The library installs no signal handler and no panic hook, and writes nothing to the terminal.

#[doc(hidden)]
pub mod cli;
mod completion;
mod dataset;
mod fill;
pub mod manifold;
mod model;
mod run;

pub use completion::{Algorithm, Completion, LogLine, Metric};
pub use dataset::{ConvertOptions, Dataset, Split, parse_size};
pub use fill::{Fill, Filled, HeldOut};
pub use model::{Model, Prediction, Recommendation};
pub use run::{DataKind, Evaluation, Format, Outcome, Run, StoppedBy};
pub use tenfill_engine::{Error, Result};
