//! Batches made in parallel, handed out in order.

use super::Batch;
use rayon::prelude::*;

/// Entries in a batch: large enough that many share a slice, small enough that a few dozen batches
/// are nothing beside a memory budget.
pub(super) const BATCH_ENTRIES: usize = 1 << 16;

/// Calls `make` for every item and `take` for every batch, in the order of the items.
///
/// While the caller's thread takes one group of batches, the pool makes the next, so at most two
/// groups exist at a time. Their size follows the pool but is bounded: the batches themselves never
/// depend on it. The first error of `take` ends the stream.
pub(super) fn in_order<T: Send, E>(
    mut items: impl Iterator<Item = T>,
    make: impl Fn(T) -> Batch + Sync,
    mut take: impl FnMut(Batch) -> Result<(), E>,
) -> Result<(), E> {
    let group_size = (2 * rayon::current_num_threads()).clamp(2, 16);
    let make = &make;
    let mut ready: Vec<Batch> = Vec::new();
    loop {
        let group: Vec<T> = items.by_ref().take(group_size).collect();
        if group.is_empty() && ready.is_empty() {
            return Ok(());
        }
        let mut next = Vec::new();
        let taken = rayon::in_place_scope(|scope| {
            scope.spawn(|_| next = group.into_par_iter().map(make).collect());
            ready.drain(..).try_for_each(&mut take)
        });
        taken?;
        ready = next;
    }
}
