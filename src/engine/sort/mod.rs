//! External merge sort within a memory budget: records in, records out in order.
//!
//! Records go into a buffer; a full buffer is sorted by radix on another thread and written as a
//! run to a scratch file that has no name (nothing can stay behind); in the end the runs are
//! merged by a loser tree. What fits into one buffer never touches the disk.
//!
//! The order is total: by key, then by value, so that equal keys come out in the same order
//! whatever order they went in. With [`Ties::Arrival`] equal keys stay in the order of arrival.

mod merge;
mod radix;
mod record;
mod runs;

pub use record::{Key, Packing, Payload, Record};
pub use runs::{Sorter, Ties};

#[cfg(test)]
mod tests;
