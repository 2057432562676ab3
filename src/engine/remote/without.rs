//! Without stores: an address is an error that says what to do.

use super::Listed;
use crate::control::Control;
use crate::error::{Error, Result};
use bytes::Bytes;
use std::io::{self, Read, Write};
use std::path::Path;

fn missing<T>(path: &Path) -> Result<T> {
    let what = "this tenfill was built without object stores: build it with `--features stores`, or fetch the file first";
    Err(Error::input(path, what))
}

/// How many bytes an object has.
pub fn size(path: &Path, _: &Control) -> Result<u64> {
    missing(path)
}

/// Whether an object begins with these bytes.
pub fn begins_with(path: &Path, _: &[u8], _: &Control) -> Result<bool> {
    missing(path)
}

/// The objects that an address stands for, by name.
pub fn list(path: &Path, _: &Control) -> Result<Vec<Listed>> {
    missing(path)
}

/// The bytes of an object from its beginning to its end.
pub fn reader(path: &Path, _: &Control) -> Result<Box<dyn Read + Send>> {
    missing(path)
}

/// None can be made.
#[derive(Debug, Clone)]
pub struct Blocks(());

impl Blocks {
    /// Opens an object.
    pub fn open(path: &Path, _: &Control) -> Result<Self> {
        missing(path)
    }

    /// Its number of bytes.
    pub fn size(&self) -> u64 {
        0
    }

    /// So many bytes from `start`.
    pub fn bytes(&self, _: u64, _: usize) -> Result<Bytes> {
        missing(Path::new(""))
    }
}

/// None can be made.
pub struct Upload(());

impl Upload {
    /// Begins an object.
    pub fn create(path: &Path, _: bool, _: &Control) -> Result<Self> {
        missing(path)
    }

    /// Completes it.
    pub fn finish(self) -> Result<()> {
        missing(Path::new(""))
    }
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
