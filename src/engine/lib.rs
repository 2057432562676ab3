//! tenfill completes huge sparse tensors: given the observed entries of a D-way array (user x
//! movie x week -> rating, sensor x place x hour -> reading), it fits a low-rank Tucker model by
//! Riemannian preconditioned conjugate gradients (Kasai and Mishra), streaming the entries from
//! disk within a fixed memory budget.
//!
//! # From a program
//!
//! ```
//! use tenfill_engine::convert::{ConvertOptions, convert};
//! use tenfill_engine::run::{Config, Limits, RunDirectory, complete};
//! use tenfill_engine::storage::RealDisk;
//! use tenfill_engine::{Control, Dataset, Model};
//!
//! # fn main() -> tenfill_engine::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let (csv, data, run) = (folder.path().join("r.csv"), folder.path().join("d"), folder.path().join("run"));
//! # let rows: Vec<String> = (0..400).map(|n| format!("u{},m{},{}", n % 20, n / 20, 1 + n * 7 % 5)).collect();
//! # std::fs::write(&csv, format!("user,movie,rating\n{}\n", rows.join("\n"))).unwrap();
//! let control = Control::default();
//! convert(&ConvertOptions::new(vec![csv], &data), &control)?;
//! let dataset = Dataset::open(&data)?;
//! let mut config = Config::new(&dataset, vec![2, 2]);
//! config.solver.max_iterations = 20;
//! let directory = RunDirectory::create(&RealDisk, &run, false)?;
//! let outcome = complete(&directory, &dataset, &config, &Limits::default(), &control)?;
//! println!("test MSE {:?}, stopped by {}", outcome.test_mse, outcome.stopped_by);
//! let model = Model::read(&run)?;
//! println!("entry (0, 0) is about {}", model.predict(&[Some(0), Some(0)]).value);
//! # Ok(())
//! # }
//! ```
//!
//! # The folders are the way of the data
//!
//! | folder | question |
//! |---|---|
//! | [`ingest`] | what does a line of the file say? |
//! | [`sort`] | in which order do the rows come? |
//! | [`convert`] | which entry, which split, which duplicate? Joins the first three stages |
//! | [`shard`] | how do entries lie on disk? |
//! | [`stream`] | how do their bytes get into memory? |
//! | [`kernel`] | what does a block of entries add to a sum? |
//! | [`reduce`] | how do many sums become one, always the same? Of lanes, threads and processes |
//! | [`objective`] | what is the cost, its gradient, the length of a step? Joins the three above |
//! | [`manifold`] | what is a point, a tangent vector, a step, on the set of Tucker tensors? |
//! | [`solver`] | where to go next, and when to stop? |
//! | [`recipe`] | which biases, how much penalty, how high a rank? Validation decides |
//! | [`checkpoint`] | how does a run survive? |
//! | [`run`] | what is in a run's directory? Joins solver, objective, checkpoint and log |
//! | [`model`] | what does the completed tensor say? |
//! | [`report`] | what does a run look like? |
//! | [`table`] | how do questions come in and answers go out, row by row? |
//! | [`synth`] | what data can we test on? |
//! | [`storage`] | how is a file written so that it is whole or absent? |
//!
//! [`budget`] hands out the memory, [`error`] has the sentences a user meets, [`control`] carries
//! progress out and Ctrl-C in.

pub mod answer;
pub mod budget;
pub mod checkpoint;
pub mod control;
pub mod convert;
pub mod distribute;
pub mod error;
pub mod ingest;
pub mod manifold;
pub mod model;
pub mod objective;
pub mod recipe;
pub mod reduce;
pub mod report;
pub mod rows;
pub mod run;
pub mod shard;
pub mod solver;
pub mod sort;
pub mod storage;
pub mod stream;
pub mod synth;
pub mod table;
pub mod team;
pub mod units;
pub mod usage;

pub use control::Control;
pub use error::{Error, Result};
pub use model::Model;
pub use shard::Dataset;
pub use tenfill_kernel as kernel;
pub use tenfill_kernel::{MAX_ORDER, MIN_ORDER};
