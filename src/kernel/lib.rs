//! The kernels: a block of entries and the factors -> partial sums. Pure: no I/O; one thread per block, and padded rows are copied by those of the pool.
//!
//! Everything is in storage order: level 0 is the first mode of the dataset's mode order. The caller
//! permutes factors and core, scales the sums, and adds up those of its lanes.
//!
//! | kernel | adds up | for |
//! |---|---|---|
//! | [`gradient()`] | e^2, and e times everything but one factor | cost and gradient |
//! | [`step()`] | e L, L^2, e^2 | the linearised step |
//! | [`line_polynomial()`] | (X(s) - y)^2 as a polynomial in s | exact line search |
//! | [`Designs`], [`add_gram`], [`Picked`], [`Inverse`] | products of rows with themselves | rows as regressions on each other |
//! | [`product`], [`product_transposed`], [`gram()`] | products of dense rows with small matrices | everything beside the data |
//! | [`residual()`], [`residual_of_seen`], [`for_each_prediction`] | e^2, \|e\| | evaluation |
//!
//! with the residual e = X - y. Each has a twin in [`naive`] that is the formula, term by term. The
//! fast ones contract the core level by level along the block's tree (`walk`), so that what entries
//! share is computed once; the two last levels, where nearly all time goes, have kernels for ranks up
//! to 32 (`inner`, `gradient_inner`, `step_inner`), which read [`PaddedFactors`] rows (`padded`, `rows`), are
//! written in vectors (`vector`, `x86`, `neon`) and chosen by the processor's instructions (`dispatch`).
//!
//! A block's sums depend on the block, the factors and the sums before it, never on threads or on
//! what a [`Workspace`] was used for.

mod arithmetic;
mod block;
mod dense;
mod designs;
mod dispatch;
mod factors;
mod gradient;
mod gradient_inner;
mod gram;
mod inner;
mod inverse;
pub mod naive;
#[cfg(target_arch = "aarch64")]
mod neon;
mod padded_rows;
mod picked;
mod picked_rows;
mod polynomial;
mod products;
mod residual;
mod rows;
#[cfg(test)]
mod soundness;
mod step;
mod step_inner;
mod sums;
#[doc(hidden)]
pub mod testing;
#[cfg(test)]
mod tests;
mod vector;
mod walk;
mod workspace;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use block::{BlockFlaw, BlockView, Ids, MAX_BLOCK_ENTRIES, Values};
pub use dense::{Update, gram, product, product_transposed};
pub use designs::Designs;
pub use dispatch::vectorised;
pub use factors::FactorsView;
pub use gradient::gradient;
pub use gram::{PANEL_TILE, add_gram, add_right};
pub use inverse::Inverse;
pub use padded_rows::{PaddedFactors, PaddingBuffer};
pub use picked::{Group, Pick, Picked, Picks, Scales};
pub use picked_rows::add_picked;
pub use polynomial::{LinePolynomial, line_polynomial};
pub use products::add_products;
pub use residual::{Unseen, for_each_prediction, residual, residual_of_seen};
pub use rows::prefetch_all;
pub use step::step;
pub use sums::{GradientSums, Precision, ResidualSums, StepSums};
pub use workspace::Workspace;

/// The smallest number of modes a tensor may have here.
pub const MIN_ORDER: usize = 2;
/// The largest number of modes a tensor may have here.
pub const MAX_ORDER: usize = 8;
