//! Reproducible test data, streamed: where do instances with a known answer come from?
//!
//! Two kinds of tensor can be made:
//!
//! * [`TuckerSynth`]: an exact low-rank tensor as in the paper's experiments, observed at entries
//!   drawn uniformly without replacement, with noise and a condition number on demand;
//! * [`RatingsSynth`]: users x items x weeks with half-star values, Zipf activity and popularity,
//!   sessions, biases, and seasonal low-rank tastes.
//!
//! Both hand out [`Batch`]es in a fixed order, with the same bits for any number of threads, and
//! hold the generating model and a few batches in memory, however many entries are asked for.
//!
//! ```
//! use tenfill_engine::shard::Split;
//! use tenfill_engine::synth::{TuckerSpec, TuckerSynth};
//!
//! let spec = TuckerSpec { test: 100, ..TuckerSpec::new(&[30, 20, 10], &[3, 2, 2], 1000) };
//! let synth = TuckerSynth::new(spec)?;
//! let mut train = 0;
//! synth.for_each_batch(|batch| {
//!     train += batch.entries().filter(|(_, _, split)| *split == Split::Train).count();
//!     Ok::<(), std::io::Error>(())
//! }).unwrap();
//! assert_eq!(train, 1000);
//! # Ok::<(), tenfill_engine::synth::SynthError>(())
//! ```

mod batch;
mod error;
mod files;
mod permutation;
mod random;
mod ratings;
mod stream;
mod tucker;

pub use batch::Batch;
pub use error::SynthError;
pub use files::{EntryFiles, WrittenFile, WrittenFiles};
pub use permutation::Permutation;
pub use ratings::{RatingsModel, RatingsSpec, RatingsSynth};
pub use tucker::{
    Distribution, TuckerModel, TuckerSpec, TuckerSynth, degrees_of_freedom, entries_from_oversampling,
};
