//! A dataset on disk: shards of sorted entries, labels, and the manifest that binds them.
//!
//! ```text
//! name.tenfill/
//!   manifest.json          written last; without it there is no dataset
//!   modes/<name>.arrow     labels in index order (Arrow IPC); none for ranges and bins
//!   train/00000.shard ...  validation/00000.shard ...  test/00000.shard ...
//! ```
//!
//! # The bytes of a shard, format versions 1 and 2
//!
//! Version 2 is version 1 with a weight for every entry. A dataset without weights is written as
//! version 1, to the same bytes as ever; a program that knows version 1 only refuses the other. Where weights are
//! counts of rows that were joined, shards are of version 1 up to the first entry that was, and of version 2 from there
//! on; a block without such an entry has no weights.
//!
//! Little-endian. A shard holds a contiguous range of slices (indices of the first mode of the
//! mode order); one huge slice may span several shards. It is written front to back and never
//! changed: a writer needs no seek, and what a reader needs first is found from the end.
//!
//! ```text
//! head, 64 bytes
//!    0  8  magic "tenfshrd"
//!    8  4  format version: 1, or 2 with weights
//!   12  4  order D, 2 to 8
//!   16 32  dimensions in level order, 8 x u32, 0 past D
//!   48 12  zero
//!   60  4  CRC32C of bytes 0 to 59
//! blocks, each a multiple of 64 bytes, one after the other (below)
//! table, 32 bytes per block
//!    0  8  offset in the file
//!    8  4  length in bytes, padding included
//!   12  4  entries, 1 to 65535
//!   16  4  first index of level 0
//!   20  4  last index of level 0
//!   24  4  CRC32C of the block's bytes
//!   28  4  zero
//! tail, 64 bytes
//!    0  8  entries in all
//!    8  8  number of blocks
//!   16  8  offset of the table
//!   24  8  length of the file
//!   32 20  zero
//!   52  4  CRC32C of the table
//!   56  4  CRC32C of bytes 0 to 55 of the tail
//!   60  4  magic "fill"
//! ```
//!
//! # The bytes of a block
//!
//! A block is the unit that is read, checked and computed on. Level `l` belongs to the `l`-th mode
//! of the mode order; [`BlockView`](crate::kernel::BlockView) says what nodes and ends are. Sections begin at multiples of
//! 64 bytes from the block's start, which is itself such a multiple in the file, so that a mapped
//! or an aligned buffer can be viewed in place.
//!
//! ```text
//! header, 192 bytes
//!    0  4  entries
//!    4  4  length in bytes
//!    8  1  order D
//!    9  1  first flat level, 1 to D - 1
//!   10  1  kind of values: 1 codes, 2 f32, 3 f64
//!   11  1  kind of weights, as that of values; 0 in version 1, and where all are 1
//!   12  4  number of distinct values (codes), else 0
//!   16  4  offset of the table of distinct values, f64 (codes), else 0
//!   20  4  offset of the values: u8 codes, f32 or f64
//!   24  8  width of the ids per level: 2 or 4; 0 past D
//!   32 +16 l, for each level l
//!        0  4  what 2-byte ids are relative to; 0 for 4-byte ids
//!        4  4  number of nodes
//!        8  4  offset of the ids
//!       12  4  offset of the ends, u16, below the first flat level; else 0
//!  160  4  number of distinct weights (codes), else 0
//!  164  4  offset of the table of distinct weights, f64 (codes), else 0
//!  168  4  offset of the weights: u8 codes, f32 or f64; 0 in version 1
//!  172 20  zero
//! sections
//! ```
//!
//! Every block chooses for itself: narrow ids where it spans fewer than 65,536 indices; values as
//! codes where there are at most 256 distinct ones, as f32 where that loses nothing, else as f64;
//! levels as a tree while their nodes hold 1.3 entries or more on average, flat from there on.

mod bins;
mod block;
mod dataset;
mod label_order;
mod labels;
mod manifest;
mod ownership;
mod reader;
mod sizes;
mod statistics;
mod verify;
mod weights;
mod writer;

pub use bins::{Bins, nearest};
pub use block::{ALIGNMENT, BlockBuilder, LEAST_PER_NODE, decode};
pub use dataset::Dataset;
pub(crate) use dataset::part_name;
pub(crate) use labels::BATCH as LABELS_PER_BATCH;
pub use labels::{Labels, read_labels, write_label_parts, write_labels};
pub use manifest::{
    LabelsFile, Manifest, Mode, ModeKind, ModeStatistics, Part, ShardRecord, Split, SplitBy, SplitRecord,
};
pub use ownership::{DatasetKind, PartsKind};
pub use reader::{BlockRow, Shard};
pub use statistics::ValueStatistics;
pub use verify::{Problem, Verification, verify};
pub use weights::{WeightSums, Weights};
pub use writer::{DatasetWriter, ShardWriter, Weighing, Written};

/// The newest version of the shard format and of the manifest that this program knows: that of
/// datasets with weights.
pub const FORMAT_VERSION: u32 = 2;
/// The version of datasets without weights.
pub const UNWEIGHTED_VERSION: u32 = 1;

/// The version that a dataset with or without weights is written in.
pub const fn format_version(weighted: bool) -> u32 {
    if weighted { FORMAT_VERSION } else { UNWEIGHTED_VERSION }
}

const HEAD_MAGIC: &[u8; 8] = b"tenfshrd";
const TAIL_MAGIC: &[u8; 4] = b"fill";
pub(crate) const HEAD: usize = 64;
pub(crate) const TAIL: usize = 64;
pub(crate) const TABLE_ROW: usize = 32;

#[cfg(target_endian = "big")]
compile_error!("shards are viewed in place and little-endian; this machine is big-endian");

#[cfg(test)]
mod tests;
