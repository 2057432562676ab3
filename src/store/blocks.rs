//! Reads an object here and there, as Parquet needs it: in blocks, of which the last used are kept.

use crate::error::Error;
use crate::object::Object;
use bytes::{Bytes, BytesMut};
use std::sync::{Arc, Mutex, PoisonError};

const BLOCK: u64 = 1 << 20;
/// Enough for the columns of a table that are read side by side.
const KEPT: usize = 24;

/// An object whose bytes can be had in any order, in [`Blocks::MEMORY`] bytes of memory.
#[derive(Debug, Clone)]
pub struct Blocks {
    object: Object,
    /// The last used last.
    kept: Arc<Mutex<Vec<(u64, Bytes)>>>,
}

impl Blocks {
    /// What is kept at most.
    pub const MEMORY: u64 = BLOCK * KEPT as u64;

    /// Of an object.
    pub fn new(object: Object) -> Self {
        Blocks { object, kept: Arc::default() }
    }

    /// Its number of bytes.
    pub fn size(&self) -> u64 {
        self.object.size()
    }

    fn block(&self, number: u64) -> Result<Bytes, Error> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().position(|(kept, _)| *kept == number).map(|at| kept.remove(at).1);
        let bytes = match found {
            Some(bytes) => bytes,
            None => self.object.range(number * BLOCK..(number + 1) * BLOCK)?,
        };
        if kept.len() == KEPT {
            kept.remove(0);
        }
        kept.push((number, bytes.clone()));
        Ok(bytes)
    }

    /// So many bytes from `start`; fewer where the object ends.
    ///
    /// # Errors
    ///
    /// As of [`Object::range`].
    pub fn bytes(&self, start: u64, count: usize) -> Result<Bytes, Error> {
        let end = start.saturating_add(count as u64).min(self.size());
        if start >= end {
            return Ok(Bytes::new());
        }
        let (first, last) = (start / BLOCK, (end - 1) / BLOCK);
        if last - first >= KEPT as u64 / 2 {
            return self.object.range(start..end);
        }
        if first == last {
            let at = (start % BLOCK) as usize;
            return Ok(self.block(first)?.slice(at..at + (end - start) as usize));
        }
        let mut all = BytesMut::with_capacity((end - start) as usize);
        for number in first..=last {
            let from = start.max(number * BLOCK) - number * BLOCK;
            let to = end.min((number + 1) * BLOCK) - number * BLOCK;
            all.extend_from_slice(&self.block(number)?[from as usize..to as usize]);
        }
        Ok(all.freeze())
    }
}
