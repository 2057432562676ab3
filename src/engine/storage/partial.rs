//! Temporary names, which prove themselves, and the removal of what a killed process left under them.

use super::Disk;
use crate::error::{IoContext, Result};
use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, Hasher};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// What is being written.
const PARTIAL: &[u8] = b".tenfill-partial";
/// What steps aside for something new, where two names cannot trade places.
const ASIDE: &[u8] = b".tenfill-aside";
/// So much of an output's name is shown: a name may have 255 bytes.
const SHOWN: usize = 200;
/// `.NONCE-CHECKSUM`, sixteen hexadecimal digits each.
const PROOF: usize = 34;

/// A temporary name: `.NAME.NONCE-CHECKSUM.tenfill-partial`.
///
/// The checksum is over the rest, so that nobody has such a name by chance; the nonce makes it new. Only
/// names like this are ever cleaned up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Temporary {
    /// The name of what it will be, or its first bytes.
    pub shown: OsString,
    nonce: u64,
    pub is_aside: bool,
}

impl Temporary {
    /// A new name for what is written to `path`.
    pub fn of(path: &Path) -> Self {
        // The standard library's hasher begins with random keys, others each time.
        let nonce = std::hash::RandomState::new().build_hasher().finish();
        Temporary { shown: shown(path), nonce, is_aside: false }
    }

    /// The name under which the old one steps aside for this.
    pub fn aside(&self) -> Self {
        Temporary { is_aside: true, ..self.clone() }
    }

    /// The name of what was to take the place of this, which is aside.
    pub fn successor(&self) -> Self {
        Temporary { is_aside: false, ..self.clone() }
    }

    /// Whether it belongs to `path`.
    pub fn belongs_to(&self, path: &Path) -> bool {
        self.shown == shown(path)
    }

    fn ending(&self) -> &'static [u8] {
        if self.is_aside { ASIDE } else { PARTIAL }
    }

    /// The name itself.
    pub fn name(&self) -> OsString {
        let check =
            [b"tenfill temporary name 1", self.ending(), self.shown.as_bytes(), &self.nonce.to_le_bytes()];
        let check = xxhash_rust::xxh3::xxh3_64(&check.join(&0));
        let mut name = [b".", self.shown.as_bytes()].concat();
        name.extend(format!(".{:016x}-{check:016x}", self.nonce).bytes());
        name.extend(self.ending());
        OsString::from_vec(name)
    }

    /// The name in the folder of `path`.
    pub fn beside(&self, path: &Path) -> PathBuf {
        path.with_file_name(self.name())
    }

    /// Reads a name; none where it is not one of these.
    pub fn parse(name: &OsStr) -> Option<Self> {
        let bytes = name.as_bytes().strip_prefix(b".")?;
        let (rest, is_aside) = match bytes.strip_suffix(PARTIAL) {
            Some(rest) => (rest, false),
            None => (bytes.strip_suffix(ASIDE)?, true),
        };
        let (shown, proof) = rest.split_at_checked(rest.len().checked_sub(PROOF)?)?;
        let nonce = std::str::from_utf8(proof.get(1..17)?).ok()?;
        let nonce = u64::from_str_radix(nonce, 16).ok()?;
        let read = Temporary { shown: OsStr::from_bytes(shown).into(), nonce, is_aside };
        (read.name() == name).then_some(read)
    }

    /// The temporary names in the folder of `path` that belong to it. A folder that cannot be read has none.
    pub fn all_of(path: &Path) -> Vec<(Temporary, PathBuf)> {
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let named = entries.filter_map(|entry| Temporary::parse(&entry.file_name()));
        let own = named.filter(|name| name.belongs_to(path));
        own.map(|name| (name.clone(), name.beside(path))).collect()
    }
}

fn shown(path: &Path) -> OsString {
    let name = path.file_name().unwrap_or_default().as_bytes();
    OsStr::from_bytes(&name[..name.len().min(SHOWN)]).into()
}

/// A path with what its temporary names stand for; none where it has no temporary name.
pub(super) fn meant(path: &Path) -> Option<PathBuf> {
    let mut any = false;
    let meant = path.iter().map(|part| match Temporary::parse(part) {
        Some(name) => {
            any = true;
            name.shown
        }
        None => part.into(),
    });
    let meant: PathBuf = meant.collect();
    any.then_some(meant)
}

/// A new temporary name for what is written to `path`, beside it.
pub fn temporary_path(path: &Path) -> PathBuf {
    Temporary::of(path).beside(path)
}

/// Removes from a directory the temporary files that interrupted writes left there. Whoever calls it has
/// the right to work on the directory alone.
pub fn remove_partial(disk: &dyn Disk, directory: &Path) -> Result<()> {
    if !directory.is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(directory).context("read", directory)? {
        let entry = entry.context("read", directory)?;
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if is_file && Temporary::parse(&entry.file_name()).is_some() {
            disk.remove_file(&entry.path()).context("remove", entry.path())?;
        }
    }
    Ok(())
}

/// Creates a directory and the parents it needs, each durable under its name.
///
/// A file that was synced in a directory whose own name was not can be gone after a crash.
pub fn make_dir(disk: &dyn Disk, path: &Path) -> Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().unwrap_or(Path::new(""));
    make_dir(disk, parent)?;
    disk.create_dir(path).context("create", path)?;
    disk.sync_dir(parent).context("create", path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_proves_itself() {
        for path in ["a/data.tenfill", "out.csv", ".", "x", &"long".repeat(60)] {
            let name = Temporary::of(Path::new(path));
            assert_eq!(Temporary::parse(&name.name()), Some(name.clone()), "{path}");
            assert_eq!(Temporary::parse(&name.aside().name()), Some(name.aside()), "{path}");
            assert!(name.name().len() <= 255 && name.belongs_to(Path::new(path)));
            assert_ne!(name.name(), Temporary::of(Path::new(path)).name());
            let text = name.name().into_string().unwrap();
            for at in 0..text.len() {
                let mut other = text.clone().into_bytes();
                other[at] = if other[at] == b'0' { b'1' } else { b'0' };
                assert_eq!(Temporary::parse(&OsString::from_vec(other)), None, "{text} at {at}");
            }
        }
    }

    #[test]
    fn the_names_of_others_are_not_ours() {
        for name in [
            ".data.partial",
            ".data.old",
            ".out.csv.partial",
            ".tenfill-partial",
            ".x.tenfill-partial",
            ".x.0000000000000000-0000000000000000.tenfill-partial",
            "x.0123456789abcdef-0123456789abcdef.tenfill-aside",
        ] {
            assert_eq!(Temporary::parse(OsStr::new(name)), None, "{name}");
        }
        let inside = Temporary::of(Path::new("data.tenfill")).name();
        assert_eq!(meant(&Path::new("run").join(inside).join("x")), Some("run/data.tenfill/x".into()));
        assert_eq!(meant(Path::new("run/data.tenfill")), None);
    }
}
