//! Opens a shard: head, tail and table, and the check of every block before it is used.

use super::block::{self, ALIGNMENT};
use super::{FORMAT_VERSION, HEAD, HEAD_MAGIC, TABLE_ROW, TAIL, TAIL_MAGIC};
use crate::error::{Error, IoContext, Result};
use crate::kernel::{BlockView, MAX_BLOCK_ENTRIES};
use crate::storage::open_regular;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A block's line in the table of its shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRow {
    /// Where the block begins in the file.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u32,
    /// Its number of entries.
    pub entries: u32,
    /// The first index of level 0.
    pub first: u32,
    /// The last index of level 0.
    pub last: u32,
    /// The CRC32C of its bytes.
    pub crc: u32,
}

impl BlockRow {
    /// Words of a row that travels to another process.
    pub const WORDS: usize = 4;

    /// The row as words.
    pub fn to_words(self) -> [u64; Self::WORDS] {
        let two = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        [self.offset, two(self.bytes, self.entries), two(self.first, self.last), self.crc.into()]
    }

    /// The reverse.
    ///
    /// # Panics
    ///
    /// Where there are not as many words.
    pub fn from_words(words: &[u64]) -> Self {
        let two = |word: u64| (word as u32, (word >> 32) as u32);
        let ((bytes, entries), (first, last)) = (two(words[1]), two(words[2]));
        BlockRow { offset: words[0], bytes, entries, first, last, crc: words[3] as u32 }
    }
}

/// An open shard: what its table says. The blocks' bytes come from [`crate::stream`].
#[derive(Debug)]
pub struct Shard {
    path: PathBuf,
    file: File,
    dims: Vec<u32>,
    weighted: bool,
    blocks: Vec<BlockRow>,
    entries: u64,
    table_crc: u32,
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

impl Shard {
    /// Opens a shard and checks head, tail and table. `dims` are the dataset's, in level order.
    pub fn open(path: &Path, dims: &[u32]) -> Result<Self> {
        let file = open_regular(path)?;
        let length = file.metadata().context("read", path)?.len();
        let flaw = |at: u64, what: &str| Err(Error::corrupt(path, at, what));
        if length < (HEAD + TAIL) as u64 {
            return flaw(length, "the file is too short for a shard");
        }
        let mut head = [0; HEAD];
        file.read_exact_at(&mut head, 0).context("read", path)?;
        if &head[..8] != HEAD_MAGIC {
            return flaw(0, "this is no shard of tenfill");
        }
        if u32_at(&head, 60) != crc32c::crc32c(&head[..60]) {
            return flaw(0, "the checksum of the head does not match");
        }
        let version = u32_at(&head, 8);
        if version > FORMAT_VERSION {
            return Err(Error::Newer {
                file: path.into(),
                found: version.into(),
                known: FORMAT_VERSION.into(),
            });
        }
        if version == 0 {
            return flaw(8, "there is no format version 0");
        }
        let order = u32_at(&head, 12) as usize;
        if order != dims.len() || (0..order).any(|level| u32_at(&head, 16 + 4 * level) != dims[level]) {
            return flaw(12, "the shard has other dimensions than its dataset");
        }
        let tail_at = length - TAIL as u64;
        let mut tail = [0; TAIL];
        file.read_exact_at(&mut tail, tail_at).context("read", path)?;
        if &tail[60..] != TAIL_MAGIC {
            return flaw(tail_at, "the end of the shard is missing");
        }
        if u32_at(&tail, 56) != crc32c::crc32c(&tail[..56]) {
            return flaw(tail_at, "the checksum of the tail does not match");
        }
        let (count, table_at) = (u64_at(&tail, 8), u64_at(&tail, 16));
        // Nothing is allocated that the file's own length does not justify.
        let table_length = count.checked_mul(TABLE_ROW as u64);
        if u64_at(&tail, 24) != length
            || table_length.and_then(|bytes| bytes.checked_add(table_at)) != Some(tail_at)
        {
            return flaw(tail_at, "the shard's length is not what its tail says");
        }
        let mut table = vec![0; (count as usize) * TABLE_ROW];
        file.read_exact_at(&mut table, table_at).context("read", path)?;
        let table_crc = crc32c::crc32c(&table);
        if table_crc != u32_at(&tail, 52) {
            return flaw(table_at, "the checksum of the table does not match");
        }
        let blocks: Vec<BlockRow> = table
            .chunks_exact(TABLE_ROW)
            .map(|row| BlockRow {
                offset: u64_at(row, 0),
                bytes: u32_at(row, 8),
                entries: u32_at(row, 12),
                first: u32_at(row, 16),
                last: u32_at(row, 20),
                crc: u32_at(row, 24),
            })
            .collect();
        let (mut next, mut entries, mut slice) = (HEAD as u64, 0, 0);
        for (number, row) in blocks.iter().enumerate() {
            let at = table_at + (number * TABLE_ROW) as u64;
            if row.offset != next || !(row.bytes as usize).is_multiple_of(ALIGNMENT) || row.bytes == 0 {
                return flaw(at, "the table's blocks do not follow one another");
            }
            let most = row.entries as usize > MAX_BLOCK_ENTRIES || row.entries == 0;
            if most || row.first < slice || row.last < row.first || row.last >= dims[0] {
                return flaw(at, "the table's ranges are out of order");
            }
            next += u64::from(row.bytes);
            entries += u64::from(row.entries);
            slice = row.last;
        }
        if next != table_at || entries != u64_at(&tail, 0) {
            return flaw(tail_at, "the table does not add up to what the tail says");
        }
        Ok(Shard {
            path: path.into(),
            file,
            dims: dims.into(),
            weighted: version == FORMAT_VERSION,
            blocks,
            entries,
            table_crc,
        })
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The blocks in order.
    pub fn blocks(&self) -> &[BlockRow] {
        &self.blocks
    }

    /// The number of entries.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Whether its entries have weights.
    pub fn weighted(&self) -> bool {
        self.weighted
    }

    /// A checksum of the table, which holds the checksums of all blocks: it changes with any byte.
    pub fn table_crc(&self) -> u32 {
        self.table_crc
    }

    /// Reads block `number` into `buffer`, which is grown as needed (u64, for the alignment).
    pub fn read_block<'b>(&self, number: usize, buffer: &'b mut Vec<u64>) -> Result<&'b [u8]> {
        let row = &self.blocks[number];
        buffer.resize((row.bytes as usize).div_ceil(8), 0);
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(buffer);
        self.read_at(bytes, row.offset)?;
        Ok(bytes)
    }

    /// Fills `bytes` from `offset` on. The table was checked against the file's length: what is not there
    /// any more was cut off since.
    pub(crate) fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        let read = self.file.read_exact_at(bytes, offset);
        read.map_err(|error| self.read_error(error, offset))
    }

    /// What to say of an error that reading from `offset` on met.
    pub(crate) fn read_error(&self, error: std::io::Error, offset: u64) -> Error {
        if error.kind() == std::io::ErrorKind::UnexpectedEof {
            return Error::corrupt(&self.path, offset, "the shard was cut short while it was in use");
        }
        Error::Io { action: "read", path: self.path.clone(), source: error }
    }

    /// Checks the bytes of block `number` against the checksum of the table.
    pub fn check(&self, number: usize, bytes: &[u8]) -> Result<()> {
        let row = &self.blocks[number];
        if bytes.len() != row.bytes as usize || crc32c::crc32c(bytes) != row.crc {
            let what = format!("the checksum of block {number} does not match");
            return Err(Error::corrupt(&self.path, row.offset, what));
        }
        Ok(())
    }

    /// Views the bytes of block `number`; every index and end is in range afterwards.
    pub fn view<'b>(&self, number: usize, bytes: &'b [u8]) -> Result<BlockView<'b>> {
        self.view_with(number, bytes, true)
    }

    /// [`view`](Self::view) of a block that has been viewed before and whose checksum is the same:
    /// what is in it is not looked at again.
    pub fn view_again<'b>(&self, number: usize, bytes: &'b [u8]) -> Result<BlockView<'b>> {
        self.view_with(number, bytes, false)
    }

    fn view_with<'b>(&self, number: usize, bytes: &'b [u8], all: bool) -> Result<BlockView<'b>> {
        let row = &self.blocks[number];
        let view = block::decode_with(bytes, &self.dims, all)
            .map_err(|(at, what)| Error::corrupt(&self.path, row.offset + at, what))?;
        let slices = view.ids()[0];
        if view.entries() != row.entries as usize
            || view.weights().is_some() && !self.weighted
            || slices.get(0) != row.first
            || slices.get(slices.len() - 1) != row.last
        {
            return Err(Error::corrupt(
                &self.path,
                row.offset,
                format!("block {number} is not the one in the table"),
            ));
        }
        Ok(view)
    }
}
