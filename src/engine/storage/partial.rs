//! Temporary names, and the removal of what a killed process left under them.

use super::Disk;
use crate::error::{IoContext, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The name beside `path` under which it is written: always the same, so that a leftover is found.
pub(super) fn partial_name(path: &Path) -> PathBuf {
    hidden(path, ".partial")
}

/// The name beside `path` to which an old directory steps aside.
pub(super) fn aside_name(path: &Path) -> PathBuf {
    hidden(path, ".old")
}

fn hidden(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(ending);
    path.with_file_name(name)
}

/// Removes from a directory the temporary files that interrupted writes left there.
pub fn remove_partial(disk: &dyn Disk, directory: &Path) -> Result<()> {
    if !directory.is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(directory).context("read", directory)? {
        let path = entry.context("read", directory)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_string();
        if path.is_file() && name.starts_with('.') && name.ends_with(".partial") {
            disk.remove_file(&path).context("remove", &path)?;
        }
    }
    Ok(())
}

/// Creates a directory and the parents it needs, each durable under its name.
///
/// A file that was synced in a directory whose own name was not can be gone after a crash.
pub fn make_dir(disk: &dyn Disk, path: &Path) -> Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().unwrap_or(Path::new(""));
    make_dir(disk, parent)?;
    disk.create_dir(path).context("create", path)?;
    disk.sync_dir(parent).context("create", path)
}
