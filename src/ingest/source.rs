//! Opens an input: a file or standard input, plain or compressed.

use crate::error::{Error, IoContext, Result};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far an input has been read, in the bytes of the file as it lies on disk.
pub type BytesRead = Arc<AtomicU64>;

struct Counting<R> {
    inner: R,
    read: BytesRead,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// Whether a path stands for standard input.
pub fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// What to call an input in messages.
pub fn display_name(path: &Path) -> PathBuf {
    if is_stdin(path) { PathBuf::from("<stdin>") } else { path.into() }
}

/// The file's name without `.gz` and `.zst`, lower case: its last ending tells the format.
pub fn plain_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    name.trim_end_matches(".gz").trim_end_matches(".zst").to_string()
}

/// Opens `path`, decompressing by what its first bytes say rather than by its name.
pub fn open(path: &Path, read: BytesRead) -> Result<Box<dyn Read + Send>> {
    let inner: Box<dyn Read + Send> = if is_stdin(path) {
        Box::new(io::stdin())
    } else {
        if path.is_dir() {
            return Err(Error::input(path, "this is a directory, not a file"));
        }
        Box::new(File::open(path).context("open", path)?)
    };
    let mut counted = Counting { inner, read };
    let mut magic = Vec::with_capacity(4);
    (&mut counted).take(4).read_to_end(&mut magic).context("read", display_name(path))?;
    let whole = io::Cursor::new(magic.clone()).chain(counted);
    Ok(match magic.as_slice() {
        [0x1f, 0x8b, ..] => {
            Box::new(flate2::read::MultiGzDecoder::new(BufReader::with_capacity(1 << 17, whole)))
        }
        [0x28, 0xb5, 0x2f, 0xfd] => {
            Box::new(zstd::stream::read::Decoder::new(whole).context("decompress", display_name(path))?)
        }
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            return Err(Error::input(display_name(path), "this is UTF-16 text: save it as UTF-8 first"));
        }
        _ => Box::new(whole),
    })
}

/// An error met while reading: half a download says so.
pub fn read_error(path: &Path, error: io::Error) -> Error {
    let name = display_name(path);
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            Error::input(name, "the compressed file ends too early: it was cut short, fetch it again")
        }
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
            Error::input(name, format!("the compressed data is damaged ({error}): fetch the file again"))
        }
        _ if error.to_string().contains("incomplete frame") => {
            Error::input(name, "the compressed file ends too early: it was cut short, fetch it again")
        }
        _ => Error::Io { action: "read", path: name, source: error },
    }
}
