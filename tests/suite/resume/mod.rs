//! Resuming, as a user does it: the same bits after any interruption, and a clear word where it
//! cannot be.

mod bits;
mod cut;
mod refusals;
mod signals;
mod tool;
