//! Where tables are written to: a file or an object that is whole or absent, plain or compressed, or standard output.

use crate::control::Control;
use crate::error::{IoContext, Result};
use crate::remote::{Upload, is_remote};
use crate::storage::{AtomicFile, Disk, Output as Place};
use flate2::write::GzEncoder;
use std::io::{self, Write};
use std::path::Path;

/// A file, or an object in a store: either is there when it is complete, and not before.
pub enum Target<'d> {
    /// A file.
    File(AtomicFile<'d>),
    /// An object.
    Object(Box<Upload>),
}

impl<'d> Target<'d> {
    /// Begins what the user asked for.
    pub fn create(disk: &'d dyn Disk, place: &Place, control: &Control) -> Result<Self> {
        if !is_remote(&place.path) {
            return AtomicFile::output(disk, place).map(Target::File);
        }
        place.check_inputs()?;
        Upload::create(&place.path, place.force, control).map(|upload| Target::Object(Box::new(upload)))
    }

    /// Whether it can be written, before anything else is done.
    pub fn check(place: &Place, control: &Control) -> Result<()> {
        if !is_remote(&place.path) {
            return AtomicFile::check(place);
        }
        place.check_inputs()?;
        Upload::create(&place.path, place.force, control).map(drop)
    }

    fn commit(self) -> Result<()> {
        match self {
            Target::File(file) => file.commit(),
            Target::Object(upload) => upload.finish(),
        }
    }
}

impl Write for Target<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Target::File(file) => file.write(bytes),
            Target::Object(upload) => upload.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Target::File(file) => file.flush(),
            Target::Object(upload) => upload.flush(),
        }
    }
}

/// What is written to.
pub enum Sink<'d> {
    /// A file.
    Plain(Target<'d>),
    /// The same, compressed with gzip.
    Gzip(Box<GzEncoder<Target<'d>>>),
    /// The same with zstd.
    Zstd(Box<zstd::stream::write::Encoder<'static, Target<'d>>>),
    /// Standard output.
    Stdout(io::BufWriter<io::Stdout>),
}

impl<'d> Sink<'d> {
    /// A file that is compressed as the ending of its name says.
    pub fn packed(file: Target<'d>, path: &Path) -> Result<Self> {
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
