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

use std::path::{Path, PathBuf};

const SCHEMES: [&str; 8] = ["s3", "s3a", "gs", "az", "abfs", "abfss", "http", "https"];

/// What is held of an object while it is read: three windows of text, or the blocks of a Parquet file.
pub const MEMORY: u64 = 24 << 20;

/// Whether a path is the address of something in a store.
pub fn is_remote(path: &Path) -> bool {
    let scheme = path.to_str().and_then(|text| text.split_once("://")).map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| SCHEMES.contains(&scheme))
}

/// An object that was listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its address.
    pub path: PathBuf,
    /// What its address has behind that of the folder.
    pub below: String,
    /// Its number of bytes.
    pub bytes: u64,
}

/// An address that stands for several objects: the folder that they lie in, and the pattern that their names behind it
/// fit, where there is one (`*`, or `[` and `]`).
pub fn several(path: &Path) -> Option<(&Path, Option<&str>)> {
    let text = path.to_str().filter(|_| is_remote(path))?;
    let is_pattern = text.contains('*') || text.contains('[') && text.contains(']');
    if !is_pattern {
        return text.ends_with('/').then_some((path, None));
    }
    // The folder ends at the last slash before the pattern.
    let first = text.find(['*', '['])?;
    let (folder, pattern) = text.split_at(text[..first].rfind('/')? + 1);
    Some((Path::new(folder), Some(pattern)))
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
            assert!(!is_remote(Path::new(text)) && several(Path::new(text)).is_none(), "{text}");
        }
    }

    #[test]
    fn a_pattern_begins_behind_a_folder() {
        let found = |text: &'static str| {
            several(Path::new(text)).map(|(folder, pattern)| (folder.to_str().unwrap(), pattern))
        };
        assert_eq!(found("s3://b/year=2024/*.parquet"), Some(("s3://b/year=2024/", Some("*.parquet"))));
        assert_eq!(found("s3://b/[ab]/x*.csv"), Some(("s3://b/", Some("[ab]/x*.csv"))));
        assert_eq!(found("s3://b/a*/b.csv"), Some(("s3://b/", Some("a*/b.csv"))));
        assert_eq!(found("s3://b/parts/"), Some(("s3://b/parts/", None)));
        assert_eq!(found("s3://b/plain.csv"), None);
        assert_eq!(found("s3://b/[a.csv"), None);
    }
}
