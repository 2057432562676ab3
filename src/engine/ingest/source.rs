//! Opens an input: a file, standard input or an object in a store, plain or compressed.

use super::encoding::{self, Encoding, FoundEncoding};
use crate::control::Control;
use crate::error::{Error, IoContext, Result};
use crate::remote;
use flate2::bufread::GzDecoder;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
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

/// Reads from a file, a pipe or a terminal, and hears a request to stop while it waits for more.
struct Patient<F> {
    inner: F,
    control: Control,
}

impl<F: Read + AsFd> Read for Patient<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wait = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        loop {
            self.control.check().map_err(io::Error::other)?;
            let mut waiting = [PollFd::new(&self.inner, PollFlags::IN)];
            match poll(&mut waiting, Some(&wait)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                // Where it cannot be waited for, reading itself says what is wrong.
                Ok(_) | Err(_) => match self.inner.read(buffer) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => return read,
                },
            }
        }
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

/// An input that may be opened several times. What can be read only once, a pipe or standard input, is
/// copied first, to a scratch file without a name.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    copy: Option<File>,
    /// The encoding of its text, where it is given.
    encoding: Option<Encoding>,
}

impl From<&Path> for Source {
    /// To be opened once.
    fn from(path: &Path) -> Self {
        Source { path: path.into(), copy: None, encoding: None }
    }
}

impl Source {
    /// To be opened as often as needed; a copy, if one is needed, goes to `scratch`.
    pub fn again(path: &Path, scratch: &Path, control: &Control) -> Result<Self> {
        let lasts = !is_stdin(path) && path.metadata().is_ok_and(|about| about.is_file() || about.is_dir());
        let copy = match lasts {
            true => None,
            false => Some(spool(raw(path, control)?, path, scratch)?),
        };
        Ok(Source { path: path.into(), copy, encoding: None })
    }

    /// The same, its text in an encoding.
    pub fn encoded(self, encoding: Option<Encoding>) -> Self {
        Source { encoding: encoding.or(self.encoding), ..self }
    }

    /// What the user called it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What to call it in messages.
    pub fn name(&self) -> PathBuf {
        display_name(&self.path)
    }

    /// Whether it lies on disk under its name.
    pub fn is_named(&self) -> bool {
        self.copy.is_none() && !is_stdin(&self.path)
    }

    fn read(&self, control: &Control) -> Result<Box<dyn Read + Send>> {
        let Some(copy) = &self.copy else { return raw(&self.path, control) };
        let mut copy = copy.try_clone().context("read", display_name(&self.path))?;
        copy.rewind().context("read", display_name(&self.path))?;
        Ok(Box::new(copy))
    }
}

/// The bytes of a file, a pipe or standard input as they come.
fn raw(path: &Path, control: &Control) -> Result<Box<dyn Read + Send>> {
    let control = control.clone();
    if is_stdin(path) {
        return Ok(Box::new(Patient { inner: io::stdin(), control }));
    }
    if remote::is_remote(path) {
        return remote::reader(path, &control);
    }
    if path.is_dir() {
        return Err(Error::input(path, "this is a directory, not a file"));
    }
    // Opening a named pipe would wait for its writer, deaf to Ctrl-C; reading waits instead.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path).context("open", path)?;
    Ok(Box::new(Patient { inner: file, control }))
}

/// Copies what a stream still has to a scratch file without a name in `scratch`.
pub fn spool(mut stream: impl Read, path: &Path, scratch: &Path) -> Result<File> {
    let mut file = tempfile::tempfile_in(scratch).context("create a scratch file in", scratch)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(file),
            Ok(count) => file.write_all(&buffer[..count]).context("write a scratch file in", scratch)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(read_error(path, error)),
        }
    }
}

/// The file's name without `.gz` and `.zst`, lower case: its last ending tells the format.
pub fn plain_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    name.trim_end_matches(".gz").trim_end_matches(".zst").to_string()
}

const MAGIC_BYTES: usize = 6;

/// What people try and cannot be read, by its first bytes, with the way out.
const FOREIGN: [(&[u8], &str); 4] = [
    (b"PK\x03\x04", "this is a zip archive or a spreadsheet: unpack it, or save it as CSV first"),
    (b"BZh", "this is compressed with bzip2: unpack it first, e.g. bzcat FILE | tenfill convert - ..."),
    (b"\xfd7zXZ\0", "this is compressed with xz: unpack it first, e.g. xzcat FILE | tenfill convert - ..."),
    (b"%PDF", "this is a PDF file, not a table: save the table as CSV first"),
];

/// Opens an input as [`open`] does; text comes as UTF-8, and what it was is told.
pub fn open_text(
    source: &Source,
    read: BytesRead,
    control: &Control,
) -> Result<(Box<dyn Read + Send>, FoundEncoding)> {
    let input = open(source, read, control)?;
    encoding::decoded(input, source.encoding, &display_name(&source.path), control)
}

/// Opens an input, decompressing by what its first bytes say rather than by its name.
pub fn open(source: &Source, read: BytesRead, control: &Control) -> Result<Box<dyn Read + Send>> {
    let path = &source.path;
    let inner = source.read(control)?;
    let mut counted = Counting { inner, read };
    let mut magic = Vec::with_capacity(MAGIC_BYTES);
    (&mut counted)
        .take(MAGIC_BYTES as u64)
        .read_to_end(&mut magic)
        .map_err(|error| read_error(path, error))?;
    if let Some((_, what)) = FOREIGN.iter().find(|(begin, _)| magic.starts_with(begin)) {
        return Err(Error::input(display_name(path), *what));
    }
    let whole = io::Cursor::new(magic.clone()).chain(counted);
    Ok(match magic.as_slice() {
        [0x1f, 0x8b, ..] => {
            let member = GzDecoder::new(BufReader::with_capacity(1 << 17, whole));
            Box::new(Members { member: Some(member), path: display_name(path) })
        }
        // A frame of zstd, or one to be skipped, as parallel compressors write in front.
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
            Box::new(zstd::stream::read::Decoder::new(whole).context("decompress", display_name(path))?)
        }
        _ => Box::new(whole),
    })
}

/// The members of a gzip file one after the other.
struct Members<R> {
    /// None at the end.
    member: Option<GzDecoder<BufReader<R>>>,
    path: PathBuf,
}

impl<R: Read> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let count = member.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            let Some(mut input) = self.member.take().map(GzDecoder::into_inner) else { break };
            // Zeros fill up the last block of a tape.
            loop {
                let zeros = input.fill_buf()?.iter().take_while(|&&byte| byte == 0).count();
                if zeros == 0 {
                    break;
                }
                input.consume(zeros);
            }
            match input.fill_buf()?.first() {
                Some(0x1f) => self.member = Some(GzDecoder::new(input)),
                None => {}
                Some(_) => {
                    let what = "something that is no gzip follows the compressed data: take it off, or fetch the file \
                                again";
                    return Err(io::Error::other(Error::input(&self.path, what)));
                }
            }
        }
        Ok(0)
    }
}

/// An error met while reading: half a download says so.
pub fn read_error(path: &Path, error: io::Error) -> Error {
    let name = display_name(path);
    // Ours are a request to stop, and what a store says.
    if error.get_ref().is_some_and(|inner| inner.is::<Error>()) {
        return Err::<(), _>(error).context("read", name).expect_err("it is an error");
    }
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
