//! The shard format.

mod view;

pub use view::{BlockView, Ids, Values};
