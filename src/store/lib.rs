//! Objects in stores (S3, Google Cloud, Azure, web servers), for code that knows nothing of futures.
//!
//! | question | where |
//! |---|---|
//! | where is an object, and who may ask for it? | `location` |
//! | how large is it, and is it still the same one? | [`Object`] |
//! | how is it read from its beginning to its end? | [`Reader`] |
//! | how is it read here and there? | [`Blocks`] |
//! | which objects are there? | [`list`] |
//! | how is one written? | [`Upload`] |
//! | what went wrong? | [`Error`]: one sentence |
//!
//! Whoever waits for a store hears a request to stop within a tenth of a second. A request that fails is made
//! again, after longer and longer pauses. Credentials come from the environment and are never printed.

mod blocks;
mod error;
mod list;
mod location;
mod object;
mod reader;
mod runtime;
mod settings;
mod upload;

pub use blocks::Blocks;
pub use error::{Error, Kind};
pub use list::list;
pub use object::Object;
pub use reader::Reader;
pub use runtime::Stop;
pub use upload::Upload;
