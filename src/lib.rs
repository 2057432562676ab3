//! tenfill completes huge sparse tensors: given the observed entries of a D-way array (user x
//! movie x week -> rating, sensor x place x hour -> reading), it fits a low-rank Tucker model by
//! Riemannian preconditioned conjugate gradients (Kasai and Mishra), streaming the entries from
//! disk within a fixed memory budget.

#[doc(hidden)]
pub mod cli;

pub use tenfill_engine::{Control, Dataset, Error, Model, Result};
