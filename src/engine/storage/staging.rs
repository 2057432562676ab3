//! A directory of files, whole or absent.

use super::lock::{Lock, Tried};
use super::output::{Output, appeared};
use super::ownership::{Identity, Kind, MARK, is_remains, prove};
use super::partial::Temporary;
use super::{Disk, make_dir, write_atomic};
use crate::error::{Error, IoContext, Result};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A directory that is filled beside its final place and moved there in one step.
///
/// Its name beside proves itself (see `Temporary`) and is locked while in use, so that what a killed
/// process left is found and removed by the next one, and two that run at once do not mix. What it
/// replaces was proven to be ours, and must still be that when its place is taken.
pub struct Staging<'d> {
    disk: &'d dyn Disk,
    kind: &'d dyn Kind,
    name: Temporary,
    directory: PathBuf,
    output: PathBuf,
    existing: Existing,
    state: Mutex<State>,
    _lock: Option<Lock>,
    /// Directories above the output that were not there before, the innermost first.
    made: Vec<PathBuf>,
}

/// What is at the output's place.
enum Existing {
    Nothing,
    /// A folder without anything in it is nobody's.
    Empty,
    /// An output of ours, with the right to replace it.
    Ours {
        identity: Identity,
        _right: Option<Lock>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Writing,
    Committed,
    /// What lies under the temporary name is not ours: hands off.
    Lost,
}

impl<'d> Staging<'d> {
    /// Begins `output`, a folder of a kind.
    pub fn create(disk: &'d dyn Disk, output: &Output, kind: &'d dyn Kind) -> Result<Self> {
        output.check_local()?;
        output.check_inputs()?;
        let path = &output.path;
        if path.file_name().is_none() {
            return Err(Error::request(format!("'{}' is no name for an output", path.display())));
        }
        clean(disk, path, kind, true)?;
        let existing = existing(output, kind)?;
        let above = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
        let made = above.take_while(|above| !above.exists()).map(Path::to_path_buf).collect();
        make_dir(disk, path.parent().unwrap_or(Path::new("")))?;
        let (name, directory, lock) = begin(disk, path)?;
        let (output, state) = (path.clone(), Mutex::new(State::Writing));
        let staging = Staging { disk, kind, name, directory, output, existing, state, _lock: lock, made };
        // Before anything else: what has this and is found later was ours.
        mark(disk, &staging.directory)?;
        Ok(staging)
    }

    /// Begins a folder for what is needed while `output` is made, beside it; it goes when this is dropped, and is never
    /// committed. The place may be one where others make an output of that name as well: what is theirs stays.
    pub fn scratch(disk: &'d dyn Disk, output: &Path, kind: &'d dyn Kind) -> Result<Self> {
        clean(disk, output, kind, false)?;
        let (name, directory, lock) = begin(disk, output)?;
        let (output, existing, state) = (output.into(), Existing::Nothing, Mutex::new(State::Writing));
        let (made, _lock) = (Vec::new(), lock);
        let staging = Staging { disk, kind, name, directory, output, existing, state, _lock, made };
        mark(disk, &staging.directory)?;
        Ok(staging)
    }

    /// The disk that the files go to.
    pub fn disk(&self) -> &'d dyn Disk {
        self.disk
    }

    /// Where the files are now.
    pub fn path(&self) -> &Path {
        if *self.state() == State::Committed { &self.output } else { &self.directory }
    }

    /// Where they will be.
    pub fn output(&self) -> &Path {
        &self.output
    }

    /// Whether it takes the place of another one.
    pub fn replaces(&self) -> bool {
        matches!(self.existing, Existing::Ours { .. })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the directory to its place, and removes what it has replaced. Its files must have been
    /// synced. Done once, it does nothing more.
    pub fn commit(&self) -> Result<()> {
        let mut state = self.state();
        if *state == State::Committed {
            return Ok(());
        }
        let (disk, from, to) = (self.disk, self.directory.as_path(), self.output.as_path());
        let mark = from.join(MARK);
        disk.remove_file(&mark).context("finish", to)?;
        disk.sync_dir(from).context("finish", to)?;
        let replaced = match &self.existing {
            Existing::Nothing => {
                disk.rename_new(from, to).map(|()| None).or_else(|error| self.taken(error))?
            }
            // The system replaces a folder by this only where it is still empty.
            Existing::Empty => disk.rename(from, to).map(|()| None).or_else(|error| self.taken(error))?,
            Existing::Ours { identity, .. } => Some(self.replace(*identity, &mut state)?),
        };
        *state = State::Committed;
        // Where this fails, which of the two will be found after a crash is open: none must go.
        disk.sync_dir(to.parent().unwrap_or(Path::new(""))).context("finish", to)?;
        // What cannot be removed is found and removed at the next start.
        replaced.map_or(Ok(()), |old| remove_marked(disk, &old)).or(Ok(()))
    }

    fn taken<T>(&self, error: io::Error) -> Result<T> {
        use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, NotADirectory};
        match error.kind() {
            AlreadyExists | DirectoryNotEmpty | NotADirectory => Err(appeared(&self.output)),
            _ => Err(error).context("finish", &self.output),
        }
    }

    /// That what now lies at `path` is what was proven at the start, and has got nothing new since.
    fn is_still_ours(&self, path: &Path, identity: Identity) -> Result<()> {
        if Identity::of(path) != Some(identity) {
            return Err(appeared(&self.output));
        }
        prove(self.kind, path).map_err(|error| match error {
            Error::Input { what, .. } => Error::input(&self.output, what),
            other => other,
        })
    }

    /// Puts the new one into the place of the old, and gives where the old one is.
    fn replace(&self, old: Identity, state: &mut State) -> Result<PathBuf> {
        let (disk, from, to) = (self.disk, self.directory.as_path(), self.output.as_path());
        // One step where the file system can; looked at afterwards, when nobody can change it any more.
        if disk.exchange(from, to).is_ok() {
            let Err(error) = self.is_still_ours(from, old) else { return Ok(from.into()) };
            *state = State::Lost;
            disk.exchange(from, to).context("put back", to)?;
            *state = State::Writing;
            return Err(error);
        }
        // Otherwise the old one steps aside first.
        self.is_still_ours(to, old)?;
        let aside = self.name.aside().beside(to);
        disk.rename_new(to, &aside).context("replace", to)?;
        let still = self.is_still_ours(&aside, old);
        let moved = still.and_then(|()| disk.rename_new(from, to).or_else(|error| self.taken(error)));
        if let Err(error) = moved {
            // The old one must not stay hidden; where even this fails, the next start does it, and knows
            // by the new one that the old one was not replaced.
            *state = State::Lost;
            disk.rename_new(&aside, to).context("put back", to)?;
            *state = State::Writing;
            return Err(error);
        }
        Ok(aside)
    }
}

impl Drop for Staging<'_> {
    fn drop(&mut self) {
        if *self.state() != State::Writing {
            return;
        }
        // What cannot be removed is found and removed at the next start.
        let _ = remove_marked(self.disk, &self.directory);
        for above in &self.made {
            // One that somebody else has put something into stays.
            let _ = std::fs::remove_dir(above);
        }
    }
}

/// What is at the output's place, if it may be replaced.
fn existing(output: &Output, kind: &dyn Kind) -> Result<Existing> {
    let path = &output.path;
    let Ok(there) = path.symlink_metadata() else { return Ok(Existing::Nothing) };
    if there.is_symlink() {
        return Err(Error::input(path, "this is a symbolic link: give the name that it leads to"));
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if there.is_dir() && parent.metadata().is_ok_and(|parent| parent.dev() != there.dev()) {
        return Err(Error::input(path, "this is the root of a disk: give a name inside it"));
    }
    if there.is_dir() && path.read_dir().is_ok_and(|mut entries| entries.next().is_none()) {
        return Ok(Existing::Empty);
    }
    let identity = Identity::of(path).ok_or_else(|| appeared(path))?;
    match (prove(kind, path), output.force) {
        (Ok(()), true) => Ok(Existing::Ours { identity, _right: kind.lock(path)? }),
        (Err(error), true) => Err(error),
        (Ok(()), false) => Err(Error::Exists { path: path.clone(), hint: output.hint }),
        (Err(_), false) => Err(Error::Exists {
            path: path.clone(),
            hint: "it is not tenfill's alone, so choose another name",
        }),
    }
}

/// A new directory beside the output, locked.
fn begin(disk: &dyn Disk, output: &Path) -> Result<(Temporary, PathBuf, Option<Lock>)> {
    // Another process that begins just now may clean this one up before it is locked: then once more.
    for _ in 0..8 {
        let name = Temporary::of(output);
        let directory = name.beside(output);
        disk.create_dir(&directory).context("create", &directory)?;
        match Lock::try_on(&directory) {
            Ok(Tried::Taken(lock)) if directory.is_dir() => return Ok((name, directory, Some(lock))),
            Ok(Tried::Unknown(_)) => return Ok((name, directory, None)),
            _ => {}
        }
    }
    Err(busy(output))
}

/// Puts the mark into a folder of a temporary name by which it is known for what it is.
fn mark(disk: &dyn Disk, folder: &Path) -> Result<()> {
    write_atomic(disk, &folder.join(MARK), folder.file_name().unwrap_or_default().as_encoded_bytes())
}

/// Removes a folder of a temporary name, the mark last: what a crash leaves of it is still known.
fn remove_marked(disk: &dyn Disk, folder: &Path) -> Result<()> {
    if folder.join(MARK).symlink_metadata().is_err() {
        // A disk that is full has no room for it, and all the more reason to remove the rest.
        let _ = mark(disk, folder);
    }
    for entry in std::fs::read_dir(folder).context("remove", folder)? {
        let path = entry.context("remove", folder)?.path();
        let is_folder = path.symlink_metadata().is_ok_and(|data| data.is_dir());
        let removed = match path.ends_with(MARK) {
            true => Ok(()),
            false if is_folder => disk.remove_dir(&path),
            false => disk.remove_file(&path),
        };
        removed.context("remove", &path)?;
    }
    disk.sync_dir(folder).context("remove", folder)?;
    disk.remove_dir(folder).context("remove", folder)
}

fn busy(output: &Path) -> Error {
    Error::request(format!("another tenfill is writing {} just now", output.display()))
}

/// Removes what killed processes have left of an output, and brings back what stepped aside for nothing. An error where
/// another process is at work on it, and only one may be.
fn clean(disk: &dyn Disk, output: &Path, kind: &dyn Kind, alone: bool) -> Result<()> {
    let mut left = Temporary::all_of(output);
    // What is aside first: whether it was replaced shows in what was to replace it.
    left.sort_by_key(|(name, _)| !name.is_aside);
    for (name, path) in left {
        if !path.symlink_metadata().is_ok_and(|data| data.is_dir()) {
            continue;
        }
        // Where there are no locks, somebody may be at work there: it stays.
        let _lock = match Lock::try_on(&path) {
            Ok(Tried::Taken(lock)) => lock,
            Ok(Tried::Busy) if alone => return Err(busy(output)),
            Ok(Tried::Busy | Tried::Unknown(_)) | Err(_) => continue,
        };
        if name.is_aside {
            if output.symlink_metadata().is_err() {
                disk.rename_new(&path, output).context("bring back", output)?;
                continue;
            }
            if name.successor().beside(output).symlink_metadata().is_ok() {
                continue; // the only copy of what was to be replaced
            }
        } else if name.aside().beside(output).symlink_metadata().is_ok() {
            continue; // it tells that the one aside was not replaced
        }
        if is_remains(kind, &path) {
            remove_marked(disk, &path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::ownership::Listing;
    use super::*;
    use crate::storage::{RealDisk, write_atomic};

    /// A folder with a file `x`.
    struct One;

    impl Kind for One {
        fn name(&self) -> &'static str {
            "thing"
        }
        fn list(&self, folder: &Path) -> Result<Listing> {
            let mut listing = Listing::default();
            folder.join("x").metadata().context("read", folder)?;
            listing.file("x");
            Ok(listing)
        }
        fn may_hold(&self, inside: &Path) -> bool {
            inside == Path::new("x")
        }
    }

    fn create(output: &Path, force: bool) -> Result<Staging<'static>> {
        Staging::create(&RealDisk, &Output::new(output, force), &One)
    }

    fn fill(staging: &Staging<'_>, text: &str) {
        write_atomic(&RealDisk, &staging.path().join("x"), text.as_bytes()).unwrap();
    }

    fn names(folder: &Path) -> Vec<String> {
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_directory_is_whole_or_absent() {
        let parent = tempfile::tempdir().unwrap();
        let output = parent.path().join("a");
        let staging = create(&output, false).unwrap();
        fill(&staging, "1");
        assert!(create(&output, false).is_err(), "two at once");
        drop(staging);
        assert!(names(parent.path()).is_empty());
        for text in ["1", "2"] {
            let staging = create(&output, true).unwrap();
            fill(&staging, text);
            staging.commit().unwrap();
            assert_eq!(staging.path(), output);
            assert_eq!(std::fs::read_to_string(output.join("x")).unwrap(), text);
            assert_eq!((names(parent.path()), names(&output)), (vec!["a".into()], vec!["x".into()]));
        }
        assert!(matches!(create(&output, false), Err(Error::Exists { .. })));
    }

    #[test]
    fn directories_made_for_it_go_with_it() {
        let parent = tempfile::tempdir().unwrap();
        let output = parent.path().join("new/deeper/a");
        drop(create(&output, false).unwrap());
        assert!(names(parent.path()).is_empty());
        create(&output, false).unwrap().commit().unwrap();
        assert!(output.is_dir());
    }

    #[test]
    fn what_appears_meanwhile_stays() {
        let parent = tempfile::tempdir().unwrap();
        let output = parent.path().join("a");
        for force in [false, true] {
            // Nothing was there: not even an empty folder goes.
            let staging = create(&output, force).unwrap();
            std::fs::create_dir(&output).unwrap();
            let told = staging.commit().unwrap_err().to_string();
            assert!(told.contains("appeared"), "{told}");
            drop(staging);
            // An empty folder was there, and got something.
            let staging = create(&output, force).unwrap();
            std::fs::write(output.join("notes"), "mine").unwrap();
            assert!(staging.commit().unwrap_err().to_string().contains("appeared"));
            drop(staging);
            assert_eq!((names(parent.path()), names(&output)), (vec!["a".into()], vec!["notes".into()]));
            std::fs::remove_dir_all(&output).unwrap();
        }
        let old = create(&output, false).unwrap();
        fill(&old, "old");
        old.commit().unwrap();
        drop(old);
        // The old one got a note; then another folder took its place.
        let staging = create(&output, true).unwrap();
        fill(&staging, "new");
        std::fs::write(output.join("notes"), "mine").unwrap();
        let told = staging.commit().unwrap_err().to_string();
        assert!(told.contains("notes") && told.contains(output.to_str().unwrap()), "{told}");
        drop(staging);
        assert_eq!(names(&output), ["notes", "x"]);
        std::fs::remove_file(output.join("notes")).unwrap();
        let staging = create(&output, true).unwrap();
        fill(&staging, "new");
        std::fs::rename(&output, parent.path().join("moved")).unwrap();
        std::fs::create_dir(&output).unwrap();
        std::fs::write(output.join("x"), "another's").unwrap();
        assert!(staging.commit().unwrap_err().to_string().contains("appeared"));
        drop(staging);
        assert_eq!(std::fs::read_to_string(output.join("x")).unwrap(), "another's");
        assert_eq!(names(parent.path()), ["a", "moved"]);
    }

    #[test]
    fn only_what_is_provably_a_leftover_goes() {
        let parent = tempfile::tempdir().unwrap();
        let output = parent.path().join("a");
        let mut strangers = vec!["b".to_string()];
        std::fs::create_dir(parent.path().join("b")).unwrap();
        for name in [".a.partial", ".a.old", ".a.tenfill-partial"] {
            std::fs::create_dir(parent.path().join(name)).unwrap();
            std::fs::write(parent.path().join(name).join("x"), "mine").unwrap();
            strangers.push(name.into());
        }
        // Right names: with a note in one, with a stranger's folder in another, half written, replaced.
        let [noted, foreign, half, replaced] = [0; 4].map(|_| Temporary::of(&output).beside(&output));
        for (folder, files) in
            [(&noted, ["x", "notes"]), (&foreign, ["y", "z"]), (&half, ["x", "x"]), (&replaced, ["x", "x"])]
        {
            std::fs::create_dir(folder).unwrap();
            files.iter().for_each(|file| std::fs::write(folder.join(file), "1").unwrap());
        }
        for folder in [&noted, &half] {
            std::fs::write(folder.join(MARK), folder.file_name().unwrap().as_encoded_bytes()).unwrap();
        }
        drop(create(&output, false).unwrap());
        strangers.extend([&noted, &foreign].map(|path| path.file_name().unwrap().to_str().unwrap().into()));
        strangers.sort();
        assert_eq!(names(parent.path()), strangers);
        assert_eq!(names(&noted).len(), 3);
    }

    #[test]
    fn what_was_needed_for_an_output_goes() {
        let parent = tempfile::tempdir().unwrap();
        let output = parent.path().join("a.csv");
        let scratch = || Staging::scratch(&RealDisk, &output, &One).unwrap();
        // A process that was killed leaves its own; a file of such a name is none of it.
        let left = scratch();
        fill(&left, "1");
        let kept = left.path().to_path_buf();
        std::mem::forget(left);
        let file = Temporary::of(&output).beside(&output);
        std::fs::write(&file, "half").unwrap();
        // While it lives, others work beside it.
        let other = scratch();
        assert!(kept.is_dir() && other.path().is_dir());
        drop(other);
        assert!(kept.is_dir());
        // Another folder of that kind, of which nobody has the lock.
        let dead = Temporary::of(&output).beside(&output);
        std::fs::create_dir(&dead).unwrap();
        std::fs::write(dead.join("x"), "1").unwrap();
        mark(&RealDisk, &dead).unwrap();
        drop(scratch());
        assert!(!dead.exists() && kept.is_dir());
        assert_eq!(names(parent.path()).len(), 2);
    }

    #[test]
    fn what_stepped_aside_for_nothing_comes_back() {
        let parent = tempfile::tempdir().unwrap();
        let output = parent.path().join("a");
        let name = Temporary::of(&output);
        let (aside, next) = (name.aside().beside(&output), name.beside(&output));
        for folder in [&aside, &next] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("x"), "1").unwrap();
        }
        // Killed between the two steps; and something else is there now: all stay.
        std::fs::create_dir(&output).unwrap();
        std::fs::write(output.join("x"), "another").unwrap();
        drop(create(&output, true).unwrap());
        assert_eq!(names(parent.path()).len(), 3);
        std::fs::remove_dir_all(&output).unwrap();
        drop(create(&output, true).unwrap());
        assert_eq!(names(parent.path()), ["a"]);
        assert_eq!(std::fs::read_to_string(output.join("x")).unwrap(), "1");
        // Killed after the second.
        std::fs::create_dir(&aside).unwrap();
        std::fs::write(aside.join("x"), "old").unwrap();
        drop(create(&output, true).unwrap());
        assert_eq!(names(parent.path()), ["a"]);
    }
}
