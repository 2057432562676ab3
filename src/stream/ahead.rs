//! Reads blocks ahead of the computation, and drops them from the page cache behind it.

use crate::error::{IoContext, Result};
use crate::shard::Shard;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Bytes that are read at once: large enough for a disk to be busy, small beside any budget.
const PIECE: usize = 2 << 20;
/// One piece is computed on, one is ready, one is being read.
const PIECES: usize = 3;
/// What a lane holds while it is read. A block is at most 3.5 MB, and a piece at least a block.
pub(super) const MEMORY: u64 = (PIECES * PIECE * 2) as u64;

/// Blocks that lie one after the other in one shard.
struct Piece {
    blocks: Range<usize>,
    bytes: Vec<u64>,
}

/// Calls `each(position, bytes)` for the given blocks (shard and number), in order.
pub(super) fn read(
    shards: &[Shard],
    blocks: &[(usize, usize)],
    mut each: impl FnMut(usize, &[u8]) -> Result<()>,
) -> Result<()> {
    let (give, take) = crossbeam_channel::bounded::<Piece>(PIECES - 2);
    let (give_back, take_back) = crossbeam_channel::unbounded::<Vec<u64>>();
    std::thread::scope(|scope| {
        let reading = scope.spawn(move || -> Result<()> {
            let mut start = 0;
            while start < blocks.len() {
                let end = piece_end(shards, blocks, start);
                let mut bytes = take_back.try_recv().unwrap_or_default();
                read_piece(shards, &blocks[start..end], &mut bytes)?;
                if give.send(Piece { blocks: start..end, bytes }).is_err() {
                    break; // the other side has met an error
                }
                start = end;
            }
            Ok(())
        });
        let mut result = Ok(());
        'pieces: for piece in take.iter() {
            let bytes: &[u8] = bytemuck::cast_slice(&piece.bytes);
            let mut at = 0;
            for position in piece.blocks {
                let (shard, number) = blocks[position];
                let length = shards[shard].blocks()[number].bytes as usize;
                result = each(position, &bytes[at..at + length]);
                if result.is_err() {
                    break 'pieces;
                }
                at += length;
            }
            // A reader that has finished needs no more buffers.
            let _ = give_back.send(piece.bytes);
        }
        drop(take);
        let read = reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        result.and(read)
    })
}

/// One past the last block that goes into the piece that begins at `start`.
fn piece_end(shards: &[Shard], blocks: &[(usize, usize)], start: usize) -> usize {
    let size = |position: usize| shards[blocks[position].0].blocks()[blocks[position].1].bytes as usize;
    let (mut end, mut bytes) = (start + 1, size(start));
    while end < blocks.len() && blocks[end].0 == blocks[start].0 && bytes + size(end) <= PIECE {
        bytes += size(end);
        end += 1;
    }
    end
}

fn read_piece(shards: &[Shard], blocks: &[(usize, usize)], buffer: &mut Vec<u64>) -> Result<()> {
    let shard = &shards[blocks[0].0];
    let first = shard.blocks()[blocks[0].1];
    let last = shard.blocks()[blocks[blocks.len() - 1].1];
    let length = (last.offset - first.offset) as usize + last.bytes as usize;
    buffer.resize(length.div_ceil(8), 0);
    let bytes: &mut [u8] = &mut bytemuck::cast_slice_mut(buffer)[..length];
    shard.file().read_exact_at(bytes, first.offset).context("read", shard.path())?;
    // What was streamed will not be wanted before everything else has been: keep the cache free.
    // Advice only; a file system without it changes nothing.
    let length = std::num::NonZeroU64::new(length as u64);
    let _ = rustix::fs::fadvise(shard.file(), first.offset, length, rustix::fs::Advice::DontNeed);
    Ok(())
}
