//! The errors a user meets: each is one sentence that says what, where, and what to do.

use crate::message::printable;
use std::io;
use std::path::{Path, PathBuf};

/// What went wrong, in the user's words.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A row of an input file cannot be used.
    #[error("{}:{line}: {}", place(file), printable(what))]
    Row {
        /// The file that holds the row.
        file: PathBuf,
        /// Its line (text) or row (Parquet), from 1.
        line: u64,
        /// What is wrong with it, with the text itself.
        what: String,
    },
    /// An input file cannot be used as a whole.
    #[error("{}: {}", place(file), printable(what))]
    Input {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The request contradicts itself or the data.
    #[error("{}", printable(.0))]
    Request(String),
    /// A file of ours is damaged.
    #[error("{} is damaged at offset {offset}: {}", place(file), printable(what))]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// The first byte that is known to be wrong.
        offset: u64,
        /// What is wrong with it.
        what: String,
    },
    /// A file of ours was written by a later tenfill.
    #[error(
        "{} has format version {found}, this tenfill reads up to {known}: use a newer tenfill",
        place(file)
    )]
    Newer {
        /// The file.
        file: PathBuf,
        /// The version it says it has.
        found: u64,
        /// The latest version that this program knows.
        known: u64,
    },
    /// The memory budget does not suffice.
    #[error(
        "`memory` {} is too small: {what} needs {}",
        crate::units::size(*budget),
        crate::units::size(*needed)
    )]
    Budget {
        /// The budget.
        budget: u64,
        /// What would suffice.
        needed: u64,
        /// What asked for it.
        what: String,
    },
    /// A run whose file is converted already cannot begin: the memory does not suffice, or a rank is too large.
    #[error("{short}; the file is converted and kept as {}: {}", place(kept), go_on(again.as_deref()))]
    Kept {
        /// What does not suffice.
        short: Box<Error>,
        /// The dataset.
        kept: PathBuf,
        /// The command that goes on with it, where one was called.
        again: Option<String>,
    },
    /// The output is there already.
    #[error("{} exists already: {hint}", place(path))]
    Exists {
        /// The output.
        path: PathBuf,
        /// What can be done.
        hint: &'static str,
    },
    /// The operating system refused.
    #[error("cannot {action} {}: {}", place(path), explain(source))]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// One of several processes has failed; all of them know it, with its number and host.
    #[error("{}", printable(.0))]
    Process(String),
    /// Somebody pressed Ctrl-C, or the system asked us to end.
    #[error("interrupted")]
    Interrupted,
}

/// The result of everything that can fail here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A sentence about a request that cannot be met.
    pub fn request(what: impl Into<String>) -> Self {
        Error::Request(what.into())
    }

    /// A sentence about an input file.
    pub fn input(file: impl Into<PathBuf>, what: impl Into<String>) -> Self {
        Error::Input { file: file.into(), what: what.into() }
    }

    /// The file or directory that it is about, where there is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Error::Row { file, .. }
            | Error::Input { file, .. }
            | Error::Corrupt { file, .. }
            | Error::Newer { file, .. } => Some(file),
            Error::Exists { path, .. } | Error::Io { path, .. } => Some(path),
            Error::Kept { kept, .. } => Some(kept),
            Error::Request(_) | Error::Budget { .. } | Error::Process(_) | Error::Interrupted => None,
        }
    }

    /// The line or row of that file, from 1, where it is about one.
    pub fn line(&self) -> Option<u64> {
        if let Error::Row { line, .. } = self { Some(*line) } else { None }
    }

    /// A number of a run is none any more: going on would only make more of them.
    pub fn not_finite(what: &str) -> Self {
        Error::Request(format!(
            "{what} is no finite number any more: the values or weights of the train entries differ too much in \
             size to be fitted together"
        ))
    }

    /// Damage found in one of our own files.
    pub fn corrupt(file: &Path, offset: u64, what: impl Into<String>) -> Self {
        Error::Corrupt { file: file.into(), offset, what: what.into() }
    }
}

/// A path for a message.
fn place(path: &Path) -> String {
    printable(&path.to_string_lossy()).into_owned()
}

/// What to do with a dataset that was kept.
fn go_on(again: Option<&str>) -> String {
    again.map_or("give that instead of it".into(), |again| format!("go on with `{}`", printable(again)))
}

/// What a full disk and its like mean for the user; otherwise the system's own words.
fn explain(error: &io::Error) -> String {
    if rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::MFILE) {
        let most = crate::usage::most_open_files().map_or_else(String::new, |most| format!(" {most}"));
        return format!(
            "more files would have to be open than the{most} that this process may have (raise the limit with \
             `ulimit -n`, or have it raised)"
        );
    }
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "the disk is full (free some space, or give another place with -o or `temp_dir`)".into()
        }
        io::ErrorKind::FileTooLarge => "the file would be larger than is allowed here (see ulimit -f)".into(),
        io::ErrorKind::NotFound => "there is no such file or directory".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        _ => error.to_string(),
    }
}

/// Puts the action and the path to an I/O error.
pub trait IoContext<T> {
    /// `action` completes the sentence "cannot ... PATH".
    fn context(self, action: &'static str, path: impl Into<PathBuf>) -> Result<T>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn context(self, action: &'static str, path: impl Into<PathBuf>) -> Result<T> {
        self.map_err(|source| {
            // Our own errors travel through Read and Write as io::Error: unpack them unchanged.
            if source.get_ref().is_some_and(|inner| inner.is::<Error>()) {
                let inner = source.into_inner().map(|inner| inner.downcast::<Error>());
                if let Some(Ok(ours)) = inner {
                    return *ours;
                }
                return Error::Interrupted;
            }
            Error::Io { action, path: path.into(), source }
        })
    }
}
