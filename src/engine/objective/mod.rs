//! Joins stream, kernel and reduce: what a model costs, in which direction it gets better, and how
//! far it is from entries it has not seen.
//!
//! | what | where |
//! |---|---|
//! | the mean squared residual over the train entries, its gradient, the step's sums | [`Streamed`] |
//! | the memory that takes | [`Needs`] |
//! | the same where entries are spread unevenly, or data have noise | [`Regularised`]: with [`Coordinates`], a [`Penalty`], biases |
//! | how much rows explain by themselves | [`main_effects`](fn@main_effects) |
//! | whether entries are spread unevenly over rows | [`may_be_uneven`], [`is_uneven`] |
//! | what residuals of entries in the same fibre have in common | [`shared_fibres`] |
//! | biases and their damping, from the data | [`bias_fit`] |
//! | errors on any split, with biases and clipping | [`score`](fn@score) |

pub mod bias_fit;
mod coordinates;
mod evenness;
mod fibres;
mod main_effects;
mod needs;
mod penalty;
mod regularised;
mod remote_rows;
mod score;
mod streamed;
mod targets;
mod unseen;

pub use coordinates::Coordinates;
pub use evenness::{is_uneven, may_be_uneven};
pub use fibres::{Fibres, shared_fibres};
pub use main_effects::main_effects;
pub use needs::{GrowthMemory, Needs};
pub use penalty::{Penalty, PenaltyKind};
pub use regularised::Regularised;
pub use score::{LITTLE, Scored, Scoring, has_learned, over_biases, r2, residuals, score, varies};
pub use streamed::Streamed;
pub use unseen::UnseenRows;
