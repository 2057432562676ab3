//! A file of named arrays with a description: models and checkpoints.
//!
//! ```text
//! head, 16 bytes:  0 8 magic "tenfdata"   8 4 format version   12 4 CRC32C of bytes 0 to 11
//! arrays           f64, little-endian, one after the other
//! description      JSON: kind, what the writer wants to say, and for each array its name, offset,
//!                  length and the CRC32C of every 64 KiB piece
//! tail, 32 bytes:  0 8 offset of the description   8 8 its length   16 4 its CRC32C
//!                  20 4 zero   24 4 CRC32C of bytes 0 to 23   28 4 magic "done"
//! ```
//!
//! Written front to back; every byte is under a checksum, and damage is named by its offset.

use super::{AtomicFile, Disk, open_regular};
use crate::error::{Error, IoContext, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"tenfdata";
const END: &[u8; 4] = b"done";
/// The newest version that this program writes and reads. Only what programs of before cannot read has it: cores
/// without their zeros.
pub const CONTAINER_VERSION: u32 = 2;
/// What all other files have.
const USUAL_VERSION: u32 = 1;
const PIECE: usize = 64 << 10;
const HEAD: u64 = 16;
const TAIL: u64 = 32;

#[derive(Serialize, Deserialize)]
struct ArrayRecord {
    name: String,
    offset: u64,
    length: u64,
    crc32c: Vec<u32>,
}

#[derive(Serialize, Deserialize)]
struct Description<T> {
    kind: String,
    about: T,
    arrays: Vec<ArrayRecord>,
}

/// Writes a container.
///
/// An error of the disk comes back from [`finish`](Self::finish) and not before: whoever writes together with
/// other processes goes through all steps with them.
pub struct ContainerWriter<'d> {
    file: AtomicFile<'d>,
    path: PathBuf,
    arrays: Vec<ArrayRecord>,
    failed: Option<Error>,
}

impl<'d> ContainerWriter<'d> {
    /// Begins `path`, with what programs of before cannot read where `is_new`.
    pub fn create(disk: &'d dyn Disk, path: &Path, is_new: bool) -> Result<Self> {
        let version = if is_new { CONTAINER_VERSION } else { USUAL_VERSION };
        let mut file = AtomicFile::create(disk, path)?;
        let mut head = [0; HEAD as usize];
        head[..8].copy_from_slice(MAGIC);
        head[8..12].copy_from_slice(&version.to_le_bytes());
        let crc = crc32c::crc32c(&head[..12]);
        head[12..].copy_from_slice(&crc.to_le_bytes());
        file.append(&head)?;
        Ok(ContainerWriter { file, path: path.into(), arrays: Vec::new(), failed: None })
    }

    /// Adds an array.
    pub fn array(&mut self, name: impl Into<String>, values: &[f64]) {
        let mut array = self.begin(name);
        array.append(values);
        array.end();
    }

    /// Begins an array that comes in parts.
    pub fn begin(&mut self, name: impl Into<String>) -> ArrayWriter<'_, 'd> {
        let record =
            ArrayRecord { name: name.into(), offset: self.file.written(), length: 0, crc32c: Vec::new() };
        ArrayWriter { container: self, record, piece: 0, crc: 0 }
    }

    /// Adds the description and completes the file. What could not be read again is an error instead.
    pub fn finish<T: Serialize + DeserializeOwned>(mut self, kind: &str, about: &T) -> Result<()> {
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        let description = Description { kind: kind.into(), about, arrays: std::mem::take(&mut self.arrays) };
        let text =
            serde_json::to_vec(&description).map_err(std::io::Error::other).context("write", &self.path)?;
        // JSON has no number that is not finite: it would stand there as null.
        if serde_json::from_slice::<Description<T>>(&text).is_err() {
            return Err(Error::not_finite(&format!("a number of {}", self.path.display())));
        }
        let mut tail = [0; TAIL as usize];
        tail[..8].copy_from_slice(&self.file.written().to_le_bytes());
        tail[8..16].copy_from_slice(&(text.len() as u64).to_le_bytes());
        tail[16..20].copy_from_slice(&crc32c::crc32c(&text).to_le_bytes());
        let crc = crc32c::crc32c(&tail[..24]);
        tail[24..28].copy_from_slice(&crc.to_le_bytes());
        tail[28..].copy_from_slice(END);
        self.file.append(&text)?;
        self.file.append(&tail)?;
        self.file.commit()
    }
}

/// An array on its way into a container.
pub struct ArrayWriter<'c, 'd> {
    container: &'c mut ContainerWriter<'d>,
    record: ArrayRecord,
    /// Bytes of the present piece so far, and their checksum.
    piece: usize,
    crc: u32,
}

impl ArrayWriter<'_, '_> {
    /// Adds numbers.
    pub fn append(&mut self, values: &[f64]) {
        self.record.length += values.len() as u64;
        if self.container.failed.is_none() && !values.iter().all(|value| value.is_finite()) {
            let what = format!("a number of '{}' of {}", self.record.name, self.container.path.display());
            self.container.failed = Some(Error::not_finite(&what));
        }
        let mut bytes: &[u8] = bytemuck::cast_slice(values);
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PIECE - self.piece));
            self.crc = crc32c::crc32c_append(self.crc, now);
            self.piece += now.len();
            if self.container.failed.is_none() {
                self.container.failed = self.container.file.append(now).err();
            }
            if self.piece == PIECE {
                self.end_piece();
            }
            bytes = later;
        }
    }

    fn end_piece(&mut self) {
        self.record.crc32c.push(self.crc);
        (self.piece, self.crc) = (0, 0);
    }

    /// Completes the array.
    pub fn end(mut self) {
        if self.piece > 0 {
            self.end_piece();
        }
        self.container.arrays.push(self.record);
    }
}

/// An open container whose description has been checked; arrays are read on demand.
pub struct Container<T> {
    /// What the writer said.
    pub about: T,
    file: File,
    path: PathBuf,
    arrays: Vec<ArrayRecord>,
}

fn number(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(eight)
}

impl<T: DeserializeOwned> Container<T> {
    /// Opens a container of a given kind.
    pub fn open(path: &Path, kind: &str) -> Result<Self> {
        let file = open_regular(path)?;
        let length = file.metadata().context("read", path)?.len();
        let flaw = |at: u64, what: &str| Err(Error::corrupt(path, at, what));
        if length < HEAD + TAIL {
            return flaw(length, "the file is cut short");
        }
        let mut head = [0; HEAD as usize];
        file.read_exact_at(&mut head, 0).context("read", path)?;
        let word = |bytes: &[u8], at: usize| (number(bytes, at - 4) >> 32) as u32;
        if &head[..8] != MAGIC || word(&head, 12) != crc32c::crc32c(&head[..12]) {
            return flaw(0, "this is no file of tenfill, or its head is damaged");
        }
        let version = word(&head, 8);
        if version > CONTAINER_VERSION {
            return Err(Error::Newer {
                file: path.into(),
                found: version.into(),
                known: CONTAINER_VERSION.into(),
            });
        }
        let mut tail = [0; TAIL as usize];
        let tail_at = length - TAIL;
        file.read_exact_at(&mut tail, tail_at).context("read", path)?;
        if &tail[28..] != END || word(&tail, 24) != crc32c::crc32c(&tail[..24]) {
            return flaw(tail_at, "the end of the file is missing or damaged");
        }
        let (offset, size) = (number(&tail, 0), number(&tail, 8));
        if offset < HEAD || offset.checked_add(size) != Some(tail_at) {
            return flaw(tail_at, "the description lies outside the file");
        }
        let mut text = vec![0; size as usize];
        file.read_exact_at(&mut text, offset).context("read", path)?;
        if crc32c::crc32c(&text) != word(&tail, 16) {
            return flaw(offset, "the checksum of the description does not match");
        }
        let description: Description<T> = match serde_json::from_slice(&text) {
            Ok(description) => description,
            Err(error) => return flaw(offset, &format!("the description cannot be understood: {error}")),
        };
        if description.kind != kind {
            return flaw(offset, &format!("this is a {}, not a {kind}", description.kind));
        }
        let mut next = HEAD;
        let mut names = std::collections::HashSet::new();
        for array in &description.arrays {
            if !names.insert(array.name.as_str()) {
                return flaw(offset, &format!("there are two arrays '{}'", array.name));
            }
            let bytes = array.length.checked_mul(8);
            let end = bytes.and_then(|bytes| bytes.checked_add(array.offset));
            let pieces = bytes.map(|bytes| bytes.div_ceil(PIECE as u64));
            if array.offset != next
                || end.is_none_or(|end| end > offset)
                || pieces != Some(array.crc32c.len() as u64)
            {
                return flaw(offset, &format!("array '{}' lies outside the file", array.name));
            }
            next = end.unwrap_or(next);
        }
        if next != offset {
            return flaw(next, "there are bytes that belong to no array");
        }
        Ok(Container { about: description.about, file, path: path.into(), arrays: description.arrays })
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads an array of a known length.
    pub fn array(&self, name: &str, length: usize) -> Result<Vec<f64>> {
        // No more room than the file has numbers.
        let known = self.arrays.iter().any(|array| array.name == name && array.length == length as u64);
        let mut values = Vec::with_capacity(if known { length } else { 0 });
        self.for_each_piece(name, length, |piece| values.extend_from_slice(piece))?;
        Ok(values)
    }

    /// Calls `each` with the numbers of an array of a known length, piece by piece.
    pub fn for_each_piece(&self, name: &str, length: usize, mut each: impl FnMut(&[f64])) -> Result<()> {
        let found = self.arrays.iter().find(|array| array.name == name);
        let Some(array) = found.filter(|array| array.length == length as u64) else {
            let has = found.map_or("none".into(), |array| array.length.to_string());
            return Err(Error::corrupt(
                &self.path,
                0,
                format!("array '{name}' should have {length} numbers, has {has}"),
            ));
        };
        let mut values = vec![0f64; length.min(PIECE / 8)];
        for (number, &crc) in array.crc32c.iter().enumerate() {
            let count = (length - number * (PIECE / 8)).min(PIECE / 8);
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut values[..count]);
            let at = array.offset + (number * PIECE) as u64;
            self.file.read_exact_at(bytes, at).context("read", &self.path)?;
            if crc32c::crc32c(bytes) != crc {
                return Err(Error::corrupt(
                    &self.path,
                    at,
                    format!("the checksum of '{name}' does not match"),
                ));
            }
            if let Some(place) = values[..count].iter().position(|value| !value.is_finite()) {
                let what = format!("'{name}' holds NaN or infinity");
                return Err(Error::corrupt(&self.path, at + 8 * place as u64, what));
            }
            each(&values[..count]);
        }
        Ok(())
    }

    /// Reads everything, to check it.
    pub fn check(&self) -> Result<()> {
        self.arrays
            .iter()
            .try_for_each(|array| self.for_each_piece(&array.name, array.length as usize, |_| ()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::RealDisk;

    #[test]
    fn what_could_not_be_read_again_is_not_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("c");
        let create = || ContainerWriter::create(&RealDisk, &path, false).unwrap();
        for wrong in [f64::NAN, f64::INFINITY] {
            let mut writer = create();
            writer.array("a", &[1.0, wrong]);
            let error = writer.finish("test", &1.0).unwrap_err().to_string();
            assert!(error.contains("a number of 'a'") && error.contains("no finite number"), "{error}");
            let error = create().finish("test", &wrong).unwrap_err().to_string();
            assert!(error.contains("no finite number"), "{error}");
        }
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0, "no file, no half of one");
    }

    #[test]
    fn a_number_that_is_none_is_named_with_its_offset() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("c");
        let mut writer = ContainerWriter::create(&RealDisk, &path, false).unwrap();
        writer.array("a", &[1.0, 2.0, 3.0]);
        // As a program would have written it that does not look.
        let mut array = writer.begin("b");
        let nan = f64::NAN.to_le_bytes();
        array.record.length = 1;
        array.crc = crc32c::crc32c(&nan);
        array.piece = nan.len();
        array.container.file.append(&nan).unwrap();
        array.end();
        writer.finish("test", &0u32).unwrap();
        let container = Container::<u32>::open(&path, "test").unwrap();
        assert_eq!(container.array("a", 3).unwrap(), [1.0, 2.0, 3.0]);
        let Err(Error::Corrupt { offset, what, .. }) = container.check() else { panic!("it is damaged") };
        assert_eq!((offset, what.as_str()), (16 + 24, "'b' holds NaN or infinity"));
    }

    #[test]
    fn every_flipped_byte_and_every_truncation_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("c");
        let values: Vec<f64> = (0..20).map(|n| f64::from(n) * 0.1).collect();
        let mut writer = ContainerWriter::create(&RealDisk, &path, false).unwrap();
        writer.array("a", &values[..7]);
        writer.array("b", &values[7..]);
        writer.finish("test", &17u32).unwrap();
        let read = || -> Result<(u32, Vec<f64>, Vec<f64>)> {
            let container = Container::<u32>::open(&path, "test")?;
            container.check()?;
            Ok((container.about, container.array("a", 7)?, container.array("b", 13)?))
        };
        assert_eq!(read().unwrap(), (17, values[..7].to_vec(), values[7..].to_vec()));
        let bytes = std::fs::read(&path).unwrap();
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                std::fs::write(&path, &damaged).unwrap();
                assert!(matches!(read(), Err(Error::Corrupt { .. })), "byte {at}");
            }
            std::fs::write(&path, &bytes[..at]).unwrap();
            assert!(matches!(read(), Err(Error::Corrupt { .. })), "cut at {at}");
        }
    }
}
