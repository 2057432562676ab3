//! The Parquet files that an input is made of, on disk or in a store, and what the folders above them say.

use super::parquet;
use super::source::is_stdin;
use crate::control::Control;
use crate::error::{Error, IoContext, Result};
use crate::remote;
use crate::storage::no_table;
use std::path::{Path, PathBuf};

/// One Parquet file of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParquetFile {
    /// The file.
    pub path: PathBuf,
    /// Its number of bytes; 0 where it is not known.
    pub bytes: u64,
    /// Columns that the names of folders give to all of its rows, as in `year=2024/month=3`; null where the value
    /// is Hive's word for that.
    pub keys: Vec<(String, Option<String>)>,
}

impl From<PathBuf> for ParquetFile {
    fn from(path: PathBuf) -> Self {
        let bytes = path.metadata().map_or(0, |about| about.len());
        ParquetFile { path, bytes, keys: Vec::new() }
    }
}

/// The Parquet files of an input; `None` where it is something else.
pub fn find(path: &Path, control: &Control) -> Result<Option<Vec<ParquetFile>>> {
    if is_stdin(path) {
        return Ok(None);
    }
    let far = remote::several(path).is_some();
    if !far && !path.is_dir() {
        return Ok(parquet::is_parquet(path, control)?.then(|| vec![ParquetFile::from(path.to_path_buf())]));
    }
    let mut parts = Vec::new();
    if far {
        for found in remote::list(path, control)? {
            let folders = found.below.rsplit_once('/').map_or("", |(folders, _)| folders);
            let keys: Option<Vec<_>> = folders.split('/').filter(|name| !name.is_empty()).map(key).collect();
            // An object that says what it is need not be asked: there may be thousands.
            let is_parquet =
                || Ok(found.below.ends_with(".parquet") || parquet::is_parquet(&found.path, control)?);
            if let Some(keys) = keys
                && is_parquet()?
            {
                parts.push(ParquetFile { path: found.path.clone(), bytes: found.bytes, keys });
            }
        }
    } else {
        walk(path, &[], control, &mut parts)?;
    }
    parts.sort_by(|a, b| a.path.cmp(&b.path));
    let Some(first) = parts.first() else {
        return Err(Error::input(path, no_table(path)));
    };
    let names = |part: &ParquetFile| part.keys.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    match parts.iter().find(|part| names(part) != names(first)) {
        Some(other) => {
            Err(Error::input(&other.path, "this part lies in folders of other names than the first one"))
        }
        None => Ok(Some(parts)),
    }
}

/// Hidden and marker files (`_SUCCESS`) are left out.
fn walk(
    directory: &Path,
    keys: &[(String, Option<String>)],
    control: &Control,
    parts: &mut Vec<ParquetFile>,
) -> Result<()> {
    for entry in std::fs::read_dir(directory).context("read", directory)? {
        let path = entry.context("read", directory)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_string();
        if name.starts_with(['_', '.']) {
            continue;
        }
        if path.is_dir() {
            if let Some(key) = key(&name) {
                let keys: Vec<_> = keys.iter().cloned().chain([key]).collect();
                walk(&path, &keys, control, parts)?;
            }
        } else if path.is_file() && parquet::is_parquet(&path, control)? {
            parts.push(ParquetFile { keys: keys.to_vec(), ..ParquetFile::from(path) });
        }
    }
    Ok(())
}

/// `year=2024` as a name and a value.
fn key(folder: &str) -> Option<(String, Option<String>)> {
    let (name, value) = folder.split_once('=').filter(|(name, _)| !name.is_empty())?;
    let value = (value != "__HIVE_DEFAULT_PARTITION__").then(|| unescaped(value));
    Some((unescaped(name), value))
}

/// Names of folders write some characters as `%` and two digits.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| first == b'%').and_then(|two| std::str::from_utf8(two).ok());
        match digits.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_say_columns() {
        assert_eq!(key("year=2024"), Some(("year".into(), Some("2024".into()))));
        assert_eq!(key("city=S%C3%A3o%20Paulo%"), Some(("city".into(), Some("São Paulo%".into()))));
        assert_eq!(key("city=__HIVE_DEFAULT_PARTITION__"), Some(("city".into(), None)));
        assert_eq!(key("data"), None);
        assert_eq!(key("=1"), None);
    }
}
