//! The kernels: a block of entries and the factors -> partial sums. Pure: no I/O, no threads.

mod arithmetic;
mod dispatch;
mod factors;
mod gradient;
mod gradient_inner;
mod inner;
pub mod naive;
mod sums;
#[doc(hidden)]
pub mod testing;
mod walk;
mod workspace;

pub use factors::FactorsView;
pub use gradient::gradient;
pub use sums::{GradientSums, ResidualSums, StepSums};
pub use workspace::Workspace;
