//! Where a command writes: what it may replace there, and what it must not touch.

use super::ownership::Identity;
use crate::error::{Error, Result};
use std::path::{Path, PathBuf};

/// An output as the user asked for it.
#[derive(Debug, Clone)]
pub struct Output {
    /// Its name.
    pub path: PathBuf,
    /// Whether one that exists may be replaced.
    pub force: bool,
    /// What can be done where it may not.
    pub hint: &'static str,
    /// What the command reads: never written to, and never replaced.
    inputs: Vec<PathBuf>,
}

impl Output {
    /// An output of a command that reads nothing.
    pub fn new(path: impl Into<PathBuf>, force: bool) -> Self {
        Output { path: path.into(), force, hint: "`force` replaces it", inputs: Vec::new() }
    }

    /// The same, apart from what the command reads; `-` is standard input.
    pub fn apart_from<P: AsRef<Path>>(mut self, inputs: impl IntoIterator<Item = P>) -> Self {
        let real = |input: P| match input.as_ref() {
            path if path == Path::new("-") => PathBuf::from("/dev/stdin"),
            path => path.to_path_buf(),
        };
        self.inputs.extend(inputs.into_iter().map(real));
        self
    }

    /// Another file that is written with this one, under the same rules.
    pub fn beside(&self, path: impl Into<PathBuf>) -> Self {
        Output { path: path.into(), ..self.clone() }
    }

    /// Refuses an output that is, holds or lies inside one of the inputs, through whatever links.
    pub fn check_inputs(&self) -> Result<()> {
        if self.inputs.contains(&self.path) {
            let path = self.path.display();
            return Err(Error::request(format!("{path} is an input ({path}): give the output another name")));
        }
        let output = Identity::behind(&self.path);
        let above = folders_above(&self.path);
        for input in &self.inputs {
            let Ok(real) = input.canonicalize() else { continue };
            let Some(identity) = Identity::behind(&real) else { continue };
            let what = if output == Some(identity) {
                "is an input"
            } else if output.is_some() && real.ancestors().any(|above| Identity::behind(above) == output) {
                "holds an input"
            } else if above.contains(&identity) {
                "lies inside an input"
            } else {
                continue;
            };
            let (path, input) = (self.path.display(), input.display());
            return Err(Error::request(format!("{path} {what} ({input}): give the output another name")));
        }
        Ok(())
    }

    /// Refuses an address: what is not a table is kept on this machine.
    pub(super) fn check_local(&self) -> Result<()> {
        let text = self.path.to_string_lossy();
        match text.contains("://") {
            true => {
                Err(Error::request(format!("'{text}' is no path on this machine: only tables go to stores")))
            }
            false => Ok(()),
        }
    }

    /// Whether a file can be written there, before anything else is done; what it would replace.
    pub(super) fn check_file(&self) -> Result<Option<Identity>> {
        self.check_local()?;
        self.check_inputs()?;
        let path = &self.path;
        if path.file_name().is_none() {
            return Err(Error::request(format!("'{}' is no name for an output", path.display())));
        }
        let Ok(there) = path.symlink_metadata() else { return Ok(None) };
        if there.is_dir() {
            return Err(Error::input(path, "this is a directory: give the name of a file"));
        }
        if there.is_symlink() {
            return Err(Error::input(path, "this is a symbolic link: give the name of the file itself"));
        }
        if !there.is_file() {
            return Err(Error::input(path, "this is no regular file: give another name"));
        }
        if !self.force {
            return Err(Error::Exists { path: path.clone(), hint: self.hint });
        }
        Ok(Identity::of(path))
    }
}

/// The folders that exist above an output, the output itself left out.
fn folders_above(path: &Path) -> Vec<Identity> {
    let Ok(absolute) = std::path::absolute(path) else { return Vec::new() };
    let existing = absolute.ancestors().skip(1).find_map(|above| above.canonicalize().ok());
    existing.iter().flat_map(|above| above.ancestors()).filter_map(Identity::behind).collect()
}

/// What to say of an output that somebody else has put there meanwhile.
pub(super) fn appeared(path: &Path) -> Error {
    Error::input(path, "something else has appeared here meanwhile, and is left as it is: give another name")
}
