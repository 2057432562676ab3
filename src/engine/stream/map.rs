//! The one place that maps a file into memory.
#![allow(unsafe_code)]

use crate::error::{IoContext, Result};
use crate::shard::Shard;
use memmap2::Mmap;

/// A shard's bytes, mapped.
#[derive(Debug)]
pub(super) struct Map {
    map: Mmap,
}

impl Map {
    /// Maps a whole shard for reading.
    pub(super) fn new(shard: &Shard) -> Result<Self> {
        // SAFETY: a map is undefined behaviour if the file is changed or cut while it is mapped.
        // Shards are never changed once they have their name: writers make new files and rename
        // them, which leaves the mapped file as it is. Every block is checked by checksum and rule
        // before its first use, so that a file damaged before is found; a user who truncates a
        // shard by hand during a run gets SIGBUS, as with every program that maps its data.
        let map = unsafe { Mmap::map(shard.file()) }.context("map", shard.path())?;
        Ok(Map { map })
    }

    /// The bytes of a block. The shard's table was checked against the file's length.
    pub(super) fn bytes(&self, offset: u64, length: u32) -> &[u8] {
        &self.map[offset as usize..][..length as usize]
    }
}
