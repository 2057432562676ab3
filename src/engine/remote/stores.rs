//! With stores: errors and requests to stop in the engine's words.

use super::{Listed, several};
use crate::control::Control;
use crate::error::{Error, Result};
use bytes::Bytes;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tenfill_store::{Kind, Object, Stop};

fn stop(control: &Control) -> Stop {
    let control = control.clone();
    Arc::new(move || control.stopping())
}

/// An address for a message: what may be a secret is left out.
fn shown(path: &Path) -> PathBuf {
    let text = path.to_string_lossy();
    let text = text.split_once('?').map_or(&*text, |(before, _)| before);
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let (host, key) = rest.split_once('/').map_or((rest, None), |(host, key)| (host, Some(key)));
    let secret = host.split_once('@').filter(|(user, _)| user.contains(':') || scheme.starts_with("http"));
    let host = secret.map_or(host, |(_, host)| host);
    key.map_or_else(|| format!("{scheme}://{host}"), |key| format!("{scheme}://{host}/{key}")).into()
}

fn said(path: &Path, error: &tenfill_store::Error) -> Error {
    let path = &shown(path);
    match error.kind {
        Kind::Stopped => Error::Interrupted,
        Kind::Exists => Error::Exists { path: path.into(), hint: "`force` replaces it" },
        _ => Error::input(path, error.to_string()),
    }
}

/// An error that travels through `Read` or `Write`.
fn travelling(path: &Path, error: io::Error) -> io::Error {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<tenfill_store::Error>()) {
        Some(ours) => io::Error::other(said(path, ours)),
        None => error,
    }
}

fn open(path: &Path, control: &Control) -> Result<Object> {
    Object::open(path, &stop(control)).map_err(|error| said(path, &error))
}

/// How many bytes an object has.
pub fn size(path: &Path, control: &Control) -> Result<u64> {
    open(path, control).map(|object| object.size())
}

/// Whether an object begins with these bytes, as far as that can be told: a server without ranges gives all or nothing.
pub fn begins_with(path: &Path, bytes: &[u8], control: &Control) -> Result<bool> {
    match open(path, control)?.range(0..bytes.len() as u64) {
        Ok(begun) => Ok(begun == bytes),
        Err(error) if error.kind == Kind::Unsupported => Ok(false),
        Err(error) => Err(said(path, &error)),
    }
}

/// The objects that an address stands for, by name.
pub fn list(path: &Path, control: &Control) -> Result<Vec<Listed>> {
    let Some((folder, pattern)) = several(path) else { return Ok(Vec::new()) };
    let found = tenfill_store::list(folder, pattern, &stop(control)).map_err(|error| said(path, &error))?;
    let length = folder.as_os_str().len();
    let listed = |object: &Object| {
        let path = object.url().to_path_buf();
        let below = path.to_string_lossy().get(length..).unwrap_or_default().to_string();
        Listed { path, below, bytes: object.size() }
    };
    Ok(found.iter().map(listed).collect())
}

/// The bytes of an object from its beginning to its end.
pub fn reader(path: &Path, control: &Control) -> Result<Box<dyn Read + Send>> {
    let inner = tenfill_store::Reader::new(open(path, control)?);
    Ok(Box::new(Sequential { path: path.into(), inner }))
}

struct Sequential {
    path: PathBuf,
    inner: tenfill_store::Reader,
}

impl Read for Sequential {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buffer).map_err(|error| travelling(&self.path, error))
    }
}

/// An object whose bytes are read in any order.
#[derive(Debug, Clone)]
pub struct Blocks {
    path: PathBuf,
    inner: tenfill_store::Blocks,
}

impl Blocks {
    /// Opens an object.
    pub fn open(path: &Path, control: &Control) -> Result<Self> {
        Ok(Blocks { path: path.into(), inner: tenfill_store::Blocks::new(open(path, control)?) })
    }

    /// Its number of bytes.
    pub fn size(&self) -> u64 {
        self.inner.size()
    }

    /// So many bytes from `start`; fewer where the object ends.
    pub fn bytes(&self, start: u64, count: usize) -> Result<Bytes> {
        self.inner.bytes(start, count).map_err(|error| said(&self.path, &error))
    }
}

/// An object that is being written; it is there when [`Upload::finish`] has returned, or not at all.
pub struct Upload {
    path: PathBuf,
    inner: tenfill_store::Upload,
}

impl Upload {
    /// Begins an object.
    pub fn create(path: &Path, force: bool, control: &Control) -> Result<Self> {
        let inner = tenfill_store::Upload::create(path, force, &stop(control));
        inner.map(|inner| Upload { path: path.into(), inner }).map_err(|error| said(path, &error))
    }

    /// Completes it.
    pub fn finish(self) -> Result<()> {
        self.inner.finish().map_err(|error| said(&self.path, &error))
    }
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes).map_err(|error| travelling(&self.path, error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
