//! Noisy data in a few passes: rows with a prior that is learned from all of them (variational Bayes).
//!
//! | question | where |
//! |---|---|
//! | what is a value made of? | [`Shape`]: biases, and products of columns of rows |
//! | what is known of the rows of a mode? | [`Level`]: means, variances, features, and their [`Prior`] |
//! | how do the entries of a row come together? | [`Slices`], as columns (`entries`) |
//! | what is a row multiplied by, and what of a value comes from elsewhere? | `design`, `rests` |
//! | where do entries come from that are fitted to in the end only? | `beside` |
//! | what is one row, given what its entries add up to? | `row` |
//! | what happens in a pass over the data? | `pass`, and `worker` for a lane: rows of the first level are fitted to their `own` sums, and entries go `toward` those of another, by the `batch` |
//! | what do all rows of a mode add up to? | `moments`, which its prior follows from |
//! | what is added to values beside their rows? | [`OffsetTable`]: a number per cell of two modes, or per time since the first entry |
//! | what do the data look like, and which two modes come first? | `look` |
//! | what is there before the first sweep? | `start`, by sums `both_ways` |
//! | what is there where another fit is the beginning? | `onto` |
//! | what is a sweep, and where may it be left and gone on with? | [`Fit::advance`], [`Inside`] |
//! | which components are missing? | `grow`, which asks the residuals of validation entries; of pairs of modes `cells` |
//! | which components are too many? | `trim`, which asks them, too |
//! | what follows a sweep? | [`Course`] |
//! | is it as sure as it may be? | [`Fit::calibrate`], by validation entries |
//! | what does a model keep of it? | `keep` |
//! | how much memory does it take, and how many passes? | [`Sizes`] |
//!
//! Rows of different levels are taken as independent given the data, and so are the columns of all rows but
//! those of the first level, whose covariances are whole, and of levels whose rows have few entries. Everything is in units of the values' standard
//! deviation, less their mean, so that nothing depends on the unit of the data.

mod along;
mod batch;
mod beside;
mod both_ways;
mod calibrate;
mod cells;
mod course;
mod design;
mod entries;
mod grow;
mod inside;
mod keep;
mod level;
mod look;
mod memory;
mod moments;
mod offsets;
mod onto;
mod own;
mod pass;
mod rests;
mod row;
mod shape;
mod slices;
mod start;
mod sweeps;
mod toward;
mod trim;
mod weighted;
mod worker;

pub use course::{Change, Course, CourseLimits, FEW_MODES, Trial};
pub use grow::Evidence;
pub use inside::{Aside, Inside, Position};
pub use level::{Level, Prior};
pub use memory::{Room, Sizes};
pub use offsets::{Cells, OffsetTable};
pub use onto::Origins;
pub use shape::{Segment, Shape};
pub use slices::Slices;
pub use sweeps::{Data, Fit, Posterior, RowNumbers, Terms, per_weight};
