//! Opens the files inside a dataset or a run, and nothing else that may lie in their place.
//!
//! A pipe would be waited for, a device may give bytes for ever, and a symbolic link leads to a file
//! that is not the dataset's: what was checked here is then changed elsewhere. The directory of a
//! dataset or a run itself may be reached through links.

use crate::error::{Error, IoContext, Result};
use std::fs::{File, FileType, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// What opening must not do: follow a link, wait for the other end of a pipe.
pub(crate) const OPEN_FLAGS: rustix::fs::OFlags =
    rustix::fs::OFlags::NOFOLLOW.union(rustix::fs::OFlags::NONBLOCK);

/// Opens a file of a dataset or a run for reading.
pub fn open_regular(path: &Path) -> Result<File> {
    let opened = OpenOptions::new().read(true).custom_flags(OPEN_FLAGS.bits() as i32).open(path);
    match opened.and_then(|file| Ok((file.metadata()?.is_file(), file))) {
        Ok((true, file)) => Ok(file),
        Ok((false, _)) => Err(in_place_of(path, "file")),
        Err(error) => {
            // A link or a socket cannot even be opened.
            let foreign = path.symlink_metadata().is_ok_and(|data| !data.is_file());
            if foreign { Err(in_place_of(path, "file")) } else { Err(error).context("open", path) }
        }
    }
}

/// Reads a whole file of a dataset or a run.
pub fn read_regular(path: &Path) -> Result<Vec<u8>> {
    let mut file = open_regular(path)?;
    let mut bytes = Vec::with_capacity(file.metadata().map_or(0, |data| data.len() as usize));
    file.read_to_end(&mut bytes).context("read", path)?;
    Ok(bytes)
}

/// Refuses a dataset or a run whose own folders are links: what is in them lies elsewhere.
pub fn check_folders(directory: &Path, names: &[&str]) -> Result<()> {
    for name in names {
        let path = directory.join(name);
        if path.symlink_metadata().is_ok_and(|data| !data.is_dir()) {
            return Err(in_place_of(&path, "folder"));
        }
    }
    Ok(())
}

pub(super) fn in_place_of(path: &Path, wanted: &str) -> Error {
    let found = path.symlink_metadata().map_or("something else", |data| name(data.file_type()));
    Error::input(
        path,
        format!("{found} lies where a {wanted} of tenfill's should be: put that {wanted} back"),
    )
}

fn name(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_symlink() => "a symbolic link",
        kind if kind.is_fifo() => "a named pipe",
        kind if kind.is_char_device() || kind.is_block_device() => "a device",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_dir() => "a folder",
        _ => "a file",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, mkfifoat};
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    #[test]
    fn only_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "12").unwrap();
        symlink("file", at("link")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        mkfifoat(CWD, at("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
        std::fs::create_dir(at("folder")).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        assert_eq!(read_regular(&at("file")).unwrap(), b"12");
        for (file, found) in [
            ("link", "a symbolic link"),
            ("dangling", "a symbolic link"),
            ("pipe", "a named pipe"),
            ("folder", "a folder"),
            ("socket", "a socket"),
        ] {
            let said = open_regular(&at(file)).unwrap_err().to_string();
            assert!(said.contains(&format!("{file}: {found} lies where a file")), "{said}");
        }
        assert!(open_regular(Path::new("/dev/zero")).unwrap_err().to_string().contains("a device lies"));
        assert!(matches!(open_regular(&at("absent")), Err(Error::Io { .. })));
    }

    #[test]
    fn folders_are_no_links() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("train")).unwrap();
        symlink("/", folder.path().join("test")).unwrap();
        assert!(check_folders(folder.path(), &["train", "absent"]).is_ok());
        let said = check_folders(folder.path(), &["train", "test"]).unwrap_err().to_string();
        assert!(said.contains("test: a symbolic link lies where a folder"), "{said}");
    }
}
