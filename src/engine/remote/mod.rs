//! Inputs and outputs in object stores: `s3://`, `gs://`, `az://`, `https://`.
//!
//! `tenfill-store` does the work, behind the feature `stores`; without it an address is an error that says so.

#[cfg(feature = "stores")]
mod stores;
#[cfg(not(feature = "stores"))]
mod without;

#[cfg(feature = "stores")]
pub use stores::{Blocks, Upload, begins_with, list, reader, size};
#[cfg(not(feature = "stores"))]
pub use without::{Blocks, Upload, begins_with, list, reader, size};

use std::path::Path;

const SCHEMES: [&str; 8] = ["s3", "s3a", "gs", "az", "abfs", "abfss", "http", "https"];

/// What is held of an object while it is read: three windows of text, or the blocks of a Parquet file.
pub const MEMORY: u64 = 24 << 20;

/// Whether a path is the address of something in a store.
pub fn is_remote(path: &Path) -> bool {
    let scheme = path.to_str().and_then(|text| text.split_once("://")).map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| SCHEMES.contains(&scheme))
}

/// Whether an address is a pattern: it has a `*`, or `[` and `]`.
pub fn is_pattern(path: &Path) -> bool {
    let text = path.to_string_lossy();
    is_remote(path) && (text.contains('*') || text.contains('[') && text.contains(']'))
}

/// Whether an address stands for all that lies below it.
pub fn is_folder(path: &Path) -> bool {
    is_remote(path) && path.to_string_lossy().ends_with('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_schemes_are_addresses() {
        for text in ["s3://bucket/key", "gs://b/k", "az://c/k", "https://host/file.csv", "http://host/f"] {
            assert!(is_remote(Path::new(text)), "{text}");
        }
        for text in ["ratings.csv", "/tmp/s3:/x", "ftp://host/file", "C://x", "s3:/bucket", "-", "*.csv"] {
            assert!(!is_remote(Path::new(text)) && !is_pattern(Path::new(text)), "{text}");
        }
        assert!(is_pattern(Path::new("s3://bucket/*.csv")) && is_folder(Path::new("s3://bucket/parts/")));
    }
}
