//! The recipe: which method the data ask for, with which biases, how much penalty, how high a rank.
//!
//! | question | where |
//! |---|---|
//! | what did the user ask for, what is left to decide? | [`Recipe`] |
//! | is the plain method the right one? | [`Plan`], a state machine that goes into checkpoints |
//! | what do counts and biases say before the first iteration? | `prepare` |
//! | are the data low-rank, and of what rank, where none is given? | `cut` |
//! | what if the plain method stalls, with components missing? | `missing`, `spectrum` |
//! | how are noisy data fitted in a few passes? | `sweeping` |
//! | what does a stage set up, and start from? | `fitting`, `first` |
//! | who moves solver, biases and plan on together? | [`Trainer`] |
//!
//! Where a rank is given, the paper's method has its turn first: where that explains the validation entries far better
//! than biases do, the data are low-rank as they are, and it stays. Where the rank is left to the data, a sample tells what
//! comes first: components of all modes, one by one, where rows by themselves explain hardly anything; else a rank that may be
//! too high, which is cut. Sweeps begin with what rows and pairs of them have in common, which such data need not have. Otherwise
//! there are sweeps over rows, with priors that are learned ([`bayes`](crate::bayes)). Biases and a penalty that are
//! given are fitted as they are, by conjugate gradients in coordinates that are smoothed by counts.

mod again;
mod cut;
mod first;
mod fitted;
mod fitting;
mod missing;
mod plan;
mod prepare;
mod settings;
mod spectrum;
mod sweeping;
mod tell;
#[cfg(test)]
mod tests;
mod trainer;

pub use cut::Cut;
pub use fitted::{Fitted, fitted};
pub use missing::{Growth, LEAST_GROWN_RANK, MOST_GROWN_RANK};
pub use plan::{Move, Plan, Stage, Tried};
pub use settings::{BiasChoice, PenaltyChoice, Recipe, auto_rank, rating_range};
pub use sweeping::{AUTO_RANK, MOST_AUTO_RANK};
pub use trainer::{Extra, Setup, Sweeping, Trainer};
