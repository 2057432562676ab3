//! The memory budget: whoever holds a buffer that could be large asks here first.

use crate::error::{Error, Result};
use crate::usage::System;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Below this no command works: the program itself, its stacks and its read buffers.
pub const LEAST: u64 = 16 << 20;

/// A shared number of bytes that reservations are taken from.
///
/// ```
/// use tenfill_engine::budget::Budget;
///
/// let budget = Budget::new(64 << 20)?;
/// let sort_buffer = budget.reserve(40 << 20, "the sort buffer")?;
/// assert!(budget.reserve(40 << 20, "another one").is_err());
/// drop(sort_buffer);
/// assert!(budget.reserve(40 << 20, "another one").is_ok());
/// # Ok::<(), tenfill_engine::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Budget {
    total: u64,
    taken: Arc<AtomicU64>,
}

impl Budget {
    /// A budget of `total` bytes.
    pub fn new(total: u64) -> Result<Self> {
        if total < LEAST {
            return Err(Error::Budget { budget: total, needed: LEAST, what: "any work at all".into() });
        }
        Ok(Budget { total, taken: Arc::new(AtomicU64::new(0)) })
    }

    /// One GiB, or a quarter of the memory that this process may have where that is less.
    pub fn default_bytes() -> u64 {
        Self::default_on(&System::default())
    }

    /// The same on a given system.
    pub fn default_on(system: &System) -> u64 {
        let quarter = system.memory_bytes().map_or(1 << 30, |bytes| bytes / 4);
        quarter.clamp(LEAST, 1 << 30)
    }

    /// What the user allowed.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// What is not reserved.
    pub fn free(&self) -> u64 {
        self.total.saturating_sub(self.taken.load(Ordering::Relaxed))
    }

    /// Takes `bytes`, or says what `what` would need.
    pub fn reserve(&self, bytes: u64, what: &str) -> Result<Reservation> {
        let mut reservation = Reservation { budget: self.clone(), bytes: 0, what: what.into() };
        reservation.resize(bytes)?;
        Ok(reservation)
    }
}

/// A part of a [`Budget`], given back when dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: Budget,
    bytes: u64,
    what: String,
}

impl Reservation {
    /// What is held now.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Grows or shrinks to `bytes` in all.
    pub fn resize(&mut self, bytes: u64) -> Result<()> {
        if bytes <= self.bytes {
            self.budget.taken.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        } else {
            let more = bytes - self.bytes;
            let before = self.budget.taken.fetch_add(more, Ordering::Relaxed);
            if before + more > self.budget.total {
                self.budget.taken.fetch_sub(more, Ordering::Relaxed);
                return Err(Error::Budget {
                    budget: self.budget.total,
                    needed: before + more,
                    what: self.what.clone(),
                });
            }
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_a_quarter_of_what_a_container_allows() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let default = || Budget::default_on(&System::at(root.path()));
        assert_eq!(default(), 1 << 30, "where the system says nothing");
        put("proc/meminfo", "MemTotal: 67108864 kB\n");
        assert_eq!(default(), 1 << 30);
        put("proc/self/cgroup", "0::/job\n");
        put("sys/fs/cgroup/job/memory.max", "536870912\n");
        assert_eq!(default(), 128 << 20);
        put("sys/fs/cgroup/job/memory.max", "1048576\n");
        assert_eq!(default(), LEAST);
    }
}
