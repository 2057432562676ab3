//! tenfill completes huge sparse tensors: given the observed entries of a D-way array (user x
//! movie x week -> rating, sensor x place x hour -> reading), it fits a low-rank Tucker model by
//! Riemannian preconditioned conjugate gradients (Kasai and Mishra), streaming the entries from
//! disk within a fixed memory budget.
//!
//! This crate is what is inside. Programs use the crate `tenfill`, whose interface is small and kept; what
//! is public here may change from version to version.
//!
//! # The folders are layers
//!
//! Each knows only what stands above it in this list; a test keeps it so.
//!
//! | folder | question |
//! |---|---|
//! | [`units`], [`times`], [`usage`] | how are sizes and moments written? what does the process use? |
//! | [`message`] | how do ids and names of others stand in a message? |
//! | [`error`] | what does a user read when something goes wrong? |
//! | [`storage`] | how is a file written so that it is whole or absent, and provably ours? |
//! | [`budget`], [`control`] | who may take how much memory? progress out, Ctrl-C in |
//! | [`remote`] | what lies in an object store? |
//! | [`team`] | which processes work on a run together, and what do they agree on? |
//! | [`rows`] | what is a factor, also where processes divide its rows? |
//! | [`ingest`] | what does a line of the file say? |
//! | [`sort`] | in which order do the rows come? |
//! | [`shard`] | how do entries lie on disk? |
//! | [`convert`] | which entry, which split, which duplicate? Joins the last three |
//! | [`fetch`] | how does a dataset come from a store? |
//! | [`table`] | how do questions come in and answers go out, row by row? |
//! | [`stream`] | how do a shard's bytes get into memory? |
//! | [`kernel`] | what does a block of entries add to a sum? A crate of its own |
//! | [`distribute`] | which host gets which shards? |
//! | [`reduce`] | how do many sums become one, always the same? Of lanes, threads and processes |
//! | [`synth`] | what data can we test on? |
//! | [`manifold`] | what is a point, a tangent vector, a step, on the set of Tucker tensors? |
//! | [`solver`] | where to go next, and when to stop? |
//! | [`model`] | what is a completed tensor? |
//! | [`objective`] | what is the cost, its gradient, the length of a step? Joins stream, kernel, reduce |
//! | [`recipe`] | which method: the plain one, sweeps, or biases and a penalty that are given? |
//! | [`checkpoint`] | how does a run survive? |
//! | [`run`] | what is in a run's directory? Joins solver, objective, checkpoint and log |
//! | [`answer`] | what does the completed tensor say? |
//! | [`fill`] | what does a table look like without its holes? |
//! | [`report`] | what does a run look like? |

pub mod answer;
pub mod bayes;
pub mod budget;
pub mod checkpoint;
pub mod control;
pub mod convert;
pub mod distribute;
pub mod error;
pub mod fetch;
pub mod fill;
pub mod ingest;
pub mod manifold;
pub mod message;
pub mod model;
pub mod objective;
pub mod recipe;
pub mod reduce;
pub mod remote;
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
pub mod times;
pub mod transform;
pub mod units;
pub mod usage;

pub use control::Control;
pub use error::{Error, Result};
pub use model::Model;
pub use shard::Dataset;
pub use tenfill_kernel as kernel;
pub use tenfill_kernel::{MAX_ORDER, MIN_ORDER};
