//! Joins stream, kernel and reduce: what a model costs, in which direction it gets better, and how
//! far it is from entries it has not seen.
//!
//! | what | where |
//! |---|---|
//! | the mean squared residual over the train entries, its gradient, the step's sums | [`Streamed`] |
//! | the memory that takes | [`Needs`] |
//! | the same for data with noise | [`Regularised`]: with [`Coordinates`], a [`Penalty`], biases |
//! | what residuals of entries in the same fibre have in common | [`shared_fibres`] |
//! | biases and their damping, from the data | [`bias_fit`] |
//! | rows from their own entries, with what is uncertain about the others | [`rows_fit`] |
//! | what a value at an end of its range says | [`thresholds`](fn@thresholds) |
//! | errors on any split, with biases and clipping | [`score`](fn@score) |

pub mod bias_fit;
mod coordinates;
mod fibres;
mod needs;
mod penalty;
mod regularised;
mod remote_rows;
pub mod rows_fit;
mod score;
mod streamed;
mod targets;
mod thresholds;
mod unseen;

pub use coordinates::Coordinates;
pub use fibres::{Fibres, shared_fibres};
pub use needs::{GrowthMemory, Needs, RefinementMemory};
pub use penalty::{Penalty, PenaltyKind};
pub use regularised::Regularised;
pub use score::{LITTLE, Scored, Scoring, has_learned, over_biases, r2, residuals, score, varies};
pub use streamed::Streamed;
pub use thresholds::thresholds;
pub use unseen::UnseenRows;
