//! Where text is written to: a file that is whole or absent, plain or compressed, or standard output.

use crate::error::{IoContext, Result};
use crate::storage::AtomicFile;
use flate2::write::GzEncoder;
use std::io::{self, Write};
use std::path::Path;

/// What is written to.
pub enum Sink<'d> {
    /// A file.
    Plain(AtomicFile<'d>),
    /// The same, compressed with gzip.
    Gzip(Box<GzEncoder<AtomicFile<'d>>>),
    /// The same with zstd.
    Zstd(Box<zstd::stream::write::Encoder<'static, AtomicFile<'d>>>),
    /// Standard output.
    Stdout(io::BufWriter<io::Stdout>),
}

impl<'d> Sink<'d> {
    /// A file that is compressed as the ending of its name says.
    pub fn packed(file: AtomicFile<'d>, path: &Path) -> Result<Self> {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        Ok(match ending.as_deref() {
            Some("gz") => Sink::Gzip(Box::new(GzEncoder::new(file, flate2::Compression::fast()))),
            Some("zst") => {
                Sink::Zstd(Box::new(zstd::stream::write::Encoder::new(file, 3).context("write", path)?))
            }
            _ => Sink::Plain(file),
        })
    }

    /// Makes the file durable and gives it its name; a reader that has gone is no error.
    pub fn finish(self, path: &Path) -> Result<()> {
        match self {
            Sink::Plain(file) => file.commit(),
            Sink::Gzip(file) => file.finish().context("write", path)?.commit(),
            Sink::Zstd(file) => file.finish().context("write", path)?.commit(),
            Sink::Stdout(mut out) => match out.flush() {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                other => other.context("write", path),
            },
        }
    }
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Plain(file) => file.write(bytes),
            Sink::Gzip(file) => file.write(bytes),
            Sink::Zstd(file) => file.write(bytes),
            Sink::Stdout(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Plain(file) => file.flush(),
            Sink::Gzip(file) => file.flush(),
            Sink::Zstd(file) => file.flush(),
            Sink::Stdout(out) => out.flush(),
        }
    }
}
