//! What is provably ours: the one rule by which an output is replaced or a leftover cleaned up.
//!
//! A folder is ours if its marker file (`manifest.json`, `config.json`, `model.json`) reads as one that
//! tenfill wrote, and if it holds nothing that tenfill does not write there. One note of the user's, one
//! link, and it is not: then it is left as it is, and the first stranger named.

use super::lock::Lock;
use super::partial::{Temporary, meant};
use crate::error::{Error, IoContext, Result};
use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// In a folder that is being written: its own name, by which it is known for what it is.
pub(super) const MARK: &str = ".tenfill-partial";

/// A kind of folder that tenfill writes.
pub trait Kind: Send + Sync {
    /// What to call it: `dataset`, `run`.
    fn name(&self) -> &'static str;
    /// What the finished one in `folder` holds, by its marker file. An error where that is not ours.
    fn list(&self, folder: &Path) -> Result<Listing>;
    /// Whether one that is being written may hold this file or folder.
    fn may_hold(&self, inside: &Path) -> bool;
    /// The right to replace the one in `folder`, where somebody may be at work on it.
    fn lock(&self, _folder: &Path) -> Result<Option<Lock>> {
        Ok(None)
    }
}

/// What a folder holds, by paths within it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    files: BTreeSet<PathBuf>,
    folders: BTreeSet<PathBuf>,
}

impl Listing {
    /// Adds a file and the folders that it lies in.
    pub fn file(&mut self, inside: impl Into<PathBuf>) {
        let inside = inside.into();
        inside.parent().into_iter().for_each(|folder| self.folder(folder));
        self.files.insert(inside);
    }

    /// Adds a folder.
    pub fn folder(&mut self, inside: impl AsRef<Path>) {
        self.folders.extend(inside.as_ref().ancestors().map(Path::to_path_buf));
    }

    /// Adds a folder with what it holds.
    pub fn nested(&mut self, inside: &Path, listing: Listing) {
        self.folder(inside);
        listing.files.iter().for_each(|file| self.file(inside.join(file)));
        listing.folders.iter().for_each(|folder| self.folder(inside.join(folder)));
    }
}

/// What tells a file or folder from all others, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    number: u64,
}

impl Identity {
    fn new(metadata: &Metadata) -> Self {
        Identity { device: metadata.dev(), number: metadata.ino() }
    }

    /// That of what has this name now; of a link, its own.
    pub fn of(path: &Path) -> Option<Self> {
        path.symlink_metadata().ok().map(|metadata| Self::new(&metadata))
    }

    /// That of what the name leads to.
    pub fn behind(path: &Path) -> Option<Self> {
        path.metadata().ok().map(|metadata| Self::new(&metadata))
    }

    /// That of an open file.
    pub fn of_open(file: &File) -> io::Result<Self> {
        file.metadata().map(|metadata| Self::new(&metadata))
    }
}

/// Looks at a folder that changes meanwhile.
const LOOKS: usize = 16;

/// Proves that a folder is a finished one of a kind, and holds nothing else.
pub(super) fn prove(kind: &dyn Kind, folder: &Path) -> Result<()> {
    let mut before = None;
    for _ in 0..LOOKS {
        let found = stranger(kind, folder)?;
        // Whoever is at work there adds files between two looks: a stranger stays.
        if found.is_none() || found == before {
            before = found;
            break;
        }
        before = found;
    }
    let Some(stranger) = before else { return Ok(()) };
    let what = format!(
        "{} is not a part of this {}, so `force` does not replace it: move it elsewhere, or choose another name",
        stranger.display(),
        kind.name()
    );
    Err(Error::input(folder, what))
}

/// The first that a finished folder of a kind holds and that is no part of it.
fn stranger(kind: &dyn Kind, folder: &Path) -> Result<Option<PathBuf>> {
    let name = kind.name();
    let listing = kind.list(folder).map_err(|error| match error {
        Error::Newer { .. } | Error::Interrupted => error,
        _ => {
            let what = format!(
                "this is no {name} of tenfill, or a damaged one, so `force` does not replace it: remove it \
                 yourself, or choose another name"
            );
            Error::input(folder, what)
        }
    })?;
    first_stranger(folder, &|inside, is_folder| {
        let listed = if is_folder { &listing.folders } else { &listing.files };
        listed.contains(inside) || is_leftover(kind, inside)
    })
}

/// Whether a folder of a temporary name is what a process has left half written, or replaced.
pub(super) fn is_remains(kind: &dyn Kind, folder: &Path) -> bool {
    let Some(name) = folder.file_name() else { return false };
    let marked = std::fs::read(folder.join(MARK)).is_ok_and(|text| text == name.as_encoded_bytes());
    let half = |inside: &Path, _: bool| {
        inside == Path::new(MARK) || is_leftover(kind, inside) || marked && kind.may_hold(inside)
    };
    matches!(first_stranger(folder, &half), Ok(None)) || prove(kind, folder).is_ok()
}

/// Whether this lies under a temporary name, and might be there.
fn is_leftover(kind: &dyn Kind, inside: &Path) -> bool {
    let in_folder = |folder: &Path| folder.file_name().is_some_and(|name| Temporary::parse(name).is_some());
    let mark = inside.ends_with(MARK) && inside.parent().is_some_and(in_folder);
    let own_mark = |name: PathBuf| name == Path::new(MARK);
    mark || meant(inside).is_some_and(|meant| kind.may_hold(&meant) || own_mark(meant))
}

/// The first file or folder, in the order of names, that is not `ours`; and what is neither is nobody's.
fn first_stranger(folder: &Path, ours: &dyn Fn(&Path, bool) -> bool) -> Result<Option<PathBuf>> {
    fn walk(folder: &Path, inside: &Path, ours: &dyn Fn(&Path, bool) -> bool) -> Result<Option<PathBuf>> {
        let place = folder.join(inside);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&place).context("read", &place)? {
            names.push(entry.context("read", &place)?.file_name());
        }
        names.sort();
        for name in names {
            let inside = inside.join(name);
            let path = folder.join(&inside);
            let kind = path.symlink_metadata().context("read", &path)?.file_type();
            if !(kind.is_file() || kind.is_dir()) || !ours(&inside, kind.is_dir()) {
                return Ok(Some(inside));
            }
            if kind.is_dir()
                && let Some(stranger) = walk(folder, &inside, ours)?
            {
                return Ok(Some(stranger));
            }
        }
        Ok(None)
    }
    walk(folder, Path::new(""), ours)
}
