//! Text, Parquet and streams of Arrow batches in, rows of ids and values out; knows nothing of shards.
//!
//! The way of a row: [`source`] opens the file (plain, gzip, zstd, standard input), [`encoding`] makes UTF-8 of it, [`dialect`]
//! finds how its fields are separated, [`columns`] which of them are modes and which the value, [`quotes`] where a record ends,
//! [`text`], [`parquet`] (with [`parts`], on all threads by `slices`) and [`batches`] turn them into a [`RowBatch`], and [`dictionary`] gives ids numbers.

pub mod arrow;
mod arrow_rows;
pub mod batches;
pub mod chunks;
pub mod columns;
pub mod dialect;
pub mod dictionary;
pub mod encoding;
pub mod label;
mod nearly;
pub mod npy;
pub mod number;
pub mod parquet;
pub mod parts;
pub mod quotes;
pub mod reader;
pub mod rows;
pub mod rules;
pub mod sketch;
mod slices;
pub mod source;
pub mod text;
pub mod times;
mod wide;

pub use batches::{Batches, STREAM};
pub use columns::{Binning, ColumnRef, ColumnRequest, FilePlan, ModeColumn, ModeRole};
pub use dictionary::Dictionary;
pub use encoding::Encoding;
pub use reader::{Format, ReadOptions, open, open_batches, open_source, read_rows};
pub use rows::{BadRow, Cell, ModeCells, RowBatch};
pub use rules::{Condition, Signs, is_missing};
pub use source::Source;
pub use times::{ColumnTimes, TimesSeen};
pub use wide::{Wide, WideRequest};
