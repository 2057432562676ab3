//! Reads blocks ahead of the computation: past the page cache where the file system allows it, else
//! through it, dropping behind what was read.

use super::here;
use crate::error::Result;
use crate::shard::Shard;
use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};

/// Bytes that are read at once: large enough for a disk to be busy, small beside any budget.
const PIECE: usize = 2 << 20;
/// One piece is computed on, one is ready, one is being read.
const PIECES: usize = 3;
/// What a lane holds while it is read. A block is at most 3.5 MB, and a piece at least a block.
pub(super) const MEMORY: u64 = (PIECES * PIECE * 2) as u64;

/// What direct reads are aligned to, in the file and in memory: enough for any disk in use.
const PAGE: usize = 4096;

/// A page of memory at a page's boundary.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(4096))]
struct Page([u8; PAGE]);

/// How a shard is read.
#[derive(Debug)]
pub(super) struct Reader {
    /// Opened a second time, past the page cache; none where the file system cannot do that.
    direct: Option<File>,
}

impl Reader {
    /// Opens a shard `twice`, for direct reads, where that is possible.
    pub(super) fn new(shard: &Shard, twice: bool) -> Self {
        let direct = twice.then(|| direct(shard)).flatten().filter(|direct| {
            // A file that took this one's place meanwhile is not the one that was checked.
            let file = |metadata: Metadata| (metadata.dev(), metadata.ino());
            let (direct, checked) = (direct.metadata().map(file), shard.file().metadata().map(file));
            direct.is_ok_and(|direct| checked.is_ok_and(|checked| direct == checked))
        });
        Reader { direct }
    }

    /// Whether reads go past the page cache.
    pub(super) fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// Reads `length` bytes from `offset` on into whole pages; gives where they begin in them.
    fn read(&self, shard: &Shard, offset: u64, length: usize, pages: &mut Vec<Page>) -> Result<usize> {
        let skipped = (offset % PAGE as u64) as usize;
        pages.resize((skipped + length).div_ceil(PAGE), Page([0; PAGE]));
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(pages);
        match &self.direct {
            Some(file) => read_pages(file, bytes, offset - skipped as u64, skipped + length),
            None => {
                let read = shard.file().read_exact_at(&mut bytes[skipped..skipped + length], offset);
                // What was streamed will not be wanted before everything else has been: keep the cache
                // free. Advice only; a file system without it changes nothing.
                let length = std::num::NonZeroU64::new(length as u64);
                let _ = rustix::fs::fadvise(shard.file(), offset, length, rustix::fs::Advice::DontNeed);
                read
            }
        }
        .map_err(|error| shard.read_error(error, offset))?;
        Ok(skipped)
    }
}

#[cfg(target_os = "linux")]
fn direct(shard: &Shard) -> Option<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC | crate::storage::OPEN_FLAGS;
    rustix::fs::open(shard.path(), flags, Mode::empty()).ok().map(File::from)
}

#[cfg(not(target_os = "linux"))]
fn direct(_: &Shard) -> Option<File> {
    None
}

/// Reads whole pages, of which the file must have the first `needed` bytes: its last page may be short.
fn read_pages(file: &File, bytes: &mut [u8], offset: u64, needed: usize) -> io::Result<()> {
    let mut done = 0;
    while done < needed {
        match file.read_at(&mut bytes[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Blocks that lie one after the other in one shard.
struct Piece {
    blocks: Range<usize>,
    pages: Vec<Page>,
    /// Where the first block begins in the pages.
    begin: usize,
}

/// Calls `each(position, bytes)` for the given blocks (shard and number), in order.
pub(super) fn read(
    shards: &[Option<Shard>],
    readers: &[Option<Reader>],
    blocks: &[(usize, usize)],
    mut each: impl FnMut(usize, &[u8]) -> Result<()>,
) -> Result<()> {
    let (give, take) = crossbeam_channel::bounded::<Piece>(PIECES - 2);
    let (give_back, take_back) = crossbeam_channel::unbounded::<Vec<Page>>();
    std::thread::scope(|scope| {
        let reading = scope.spawn(move || -> Result<()> {
            let mut start = 0;
            while start < blocks.len() {
                let end = piece_end(shards, blocks, start)?;
                let mut pages = take_back.try_recv().unwrap_or_default();
                let begin = read_piece(shards, readers, &blocks[start..end], &mut pages)?;
                if give.send(Piece { blocks: start..end, pages, begin }).is_err() {
                    break; // the other side has met an error
                }
                start = end;
            }
            Ok(())
        });
        let mut result = Ok(());
        'pieces: for piece in take.iter() {
            let bytes: &[u8] = bytemuck::cast_slice(&piece.pages);
            let mut at = piece.begin;
            for position in piece.blocks {
                let (shard, number) = blocks[position];
                result = here(&shards[shard]).and_then(|shard| {
                    let length = shard.blocks()[number].bytes as usize;
                    let block = &bytes[at..at + length];
                    at += length;
                    each(position, block)
                });
                if result.is_err() {
                    break 'pieces;
                }
            }
            // A reader that has finished needs no more buffers.
            let _ = give_back.send(piece.pages);
        }
        drop(take);
        let read = reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        result.and(read)
    })
}

/// One past the last block that goes into the piece that begins at `start`.
fn piece_end(shards: &[Option<Shard>], blocks: &[(usize, usize)], start: usize) -> Result<usize> {
    let rows = here(&shards[blocks[start].0])?.blocks();
    let size = |position: usize| rows[blocks[position].1].bytes as usize;
    let (mut end, mut bytes) = (start + 1, size(start));
    while end < blocks.len() && blocks[end].0 == blocks[start].0 && bytes + size(end) <= PIECE {
        bytes += size(end);
        end += 1;
    }
    Ok(end)
}

fn read_piece(
    shards: &[Option<Shard>],
    readers: &[Option<Reader>],
    blocks: &[(usize, usize)],
    pages: &mut Vec<Page>,
) -> Result<usize> {
    let shard = here(&shards[blocks[0].0])?;
    let first = shard.blocks()[blocks[0].1];
    let last = shard.blocks()[blocks[blocks.len() - 1].1];
    let length = (last.offset - first.offset) as usize + last.bytes as usize;
    here(&readers[blocks[0].0])?.read(shard, first.offset, length, pages)
}
