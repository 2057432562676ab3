//! Tables of questions in, tables of answers out: whole rows with all their columns, streamed.
//!
//! [`ingest`](crate::ingest) reads what becomes entries; here a row keeps every column, because an
//! answer is put beside its question. Both directions speak Arrow: text comes in as columns of
//! text and goes out as it was, Parquet keeps its types; text that becomes Parquet gets some ([`ColumnTypes`]).

mod cells;
mod entries;
mod parts;
mod raw;
mod read;
mod sink;
mod types;
mod write;

pub use cells::{Cells, labels_array};
pub use entries::{EntryBatches, write_entries};
pub use raw::{RawRow, RawRows, content};
pub use read::{Table, TableBatch};
pub use sink::{Sink, Target};
pub use types::ColumnTypes;
pub use write::{Kind, TableWriter};
