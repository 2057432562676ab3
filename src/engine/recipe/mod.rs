//! The recipe for data with noise: which biases, how much penalty, how high a rank. Validation
//! decides, not the user.
//!
//! | question | where |
//! |---|---|
//! | what did the user ask for, what is left to decide? | [`Recipe`] |
//! | did it help, and which of several helped most? | [`Plan`], a state machine that goes into checkpoints |
//! | what can be tried next? | `moves` |
//! | what does a stage set up, and start from? | `fitting` |
//! | what follows a stage? | `stages` |
//! | what do counts and biases say before the first iteration? | `prepare` |
//! | what does a model of higher rank start from? | `grow` |
//! | what if the plain method stalls, with components missing? | `missing`, `spectrum` |
//! | can the rows of the best model be better ones? | `refine` |
//! | how are noisy data fitted in a few passes? | `sweeping` |
//! | who moves solver, biases and plan on together? | [`Trainer`] |
//!
//! A plan goes through stages. First the paper's method at full rank, where nothing was fixed by
//! the user: where that explains the validation entries far better than biases do, the data are
//! low-rank as they are, and it stays. Otherwise a small model with biases, coordinates smoothed by
//! counts and a nuclear penalty is fitted, and then changed as long as validation improves: less or
//! more penalty, or, of the modes that could be freed or get a higher rank, the one that helps most. What does
//! not help is taken back. When nothing is left to try, or the iterations are used up, the rows of the best
//! model are fitted to their own entries
//! ([`rows_fit`](crate::objective::rows_fit)), if that helps.

mod fitted;
mod fitting;
mod grow;
mod missing;
mod moves;
mod plan;
mod prepare;
mod refine;
mod settings;
mod spectrum;
mod stages;
mod sweeping;
mod tell;
#[cfg(test)]
mod tests;
mod trainer;

pub use fitted::{Fitted, fitted};
pub use missing::Growth;
pub use plan::{Leader, Move, Next, Plan, Stage, Tried};
pub use refine::Refined;
pub use settings::{BiasChoice, PenaltyChoice, Recipe, auto_rank, rating_range};
pub use sweeping::AUTO_RANK;
pub use trainer::{Extra, Setup, Sweeping, Trainer};
