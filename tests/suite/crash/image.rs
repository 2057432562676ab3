//! What could be on the disk after a crash, given what was done to it before.
//!
//! The rules are the weakest that POSIX leaves: the bytes of a file survive once the file is
//! synced, a name once its directory is. Of what was not synced, anything may have reached the
//! disk: names none, all, the first few, all but one or one alone; bytes none, all, cut at a
//! sector of 512 bytes, with some sectors missing, or a length without its bytes.

use super::recorder::Op;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

const SECTOR: usize = 512;

#[derive(Clone)]
enum Node {
    File { synced: Vec<u8>, current: Vec<u8> },
    Directory { synced: Names, current: Names },
}

type Names = BTreeMap<OsString, usize>;

/// A change of names that happens as a whole: in a directory, a name stands for a node or for none.
type Change = Vec<(usize, OsString, Option<usize>)>;

#[derive(Debug, Clone, Copy)]
enum Bytes {
    Dropped,
    Kept,
    Cut,
    Sectors,
    LengthOnly,
}

/// A file system in memory, with what of it is durable.
struct Disk {
    nodes: Vec<Node>,
    pending: Vec<Change>,
    open: HashMap<usize, usize>,
}

const ROOT: usize = 0;

impl Disk {
    fn new() -> Self {
        let root = Node::Directory { synced: Names::new(), current: Names::new() };
        Disk { nodes: vec![root], pending: Vec::new(), open: HashMap::new() }
    }

    fn names(&self, directory: usize) -> &Names {
        match &self.nodes[directory] {
            Node::Directory { current, .. } => current,
            Node::File { .. } => panic!("a file is no directory"),
        }
    }

    fn find(&self, path: &Path) -> Option<usize> {
        path.iter().try_fold(ROOT, |at, name| self.names(at).get(name).copied())
    }

    fn place(&self, path: &Path) -> (usize, OsString) {
        let parent = self.find(path.parent().unwrap()).expect("the parent is there");
        (parent, path.file_name().unwrap().into())
    }

    fn change(&mut self, change: Change) {
        for (directory, name, node) in &change {
            if let Node::Directory { current, .. } = &mut self.nodes[*directory] {
                set(current, name, *node);
            }
        }
        self.pending.push(change);
    }

    fn add(&mut self, path: &Path, node: Node) -> usize {
        self.nodes.push(node);
        let number = self.nodes.len() - 1;
        let (directory, name) = self.place(path);
        self.change(vec![(directory, name, Some(number))]);
        number
    }

    fn sync_node(&mut self, node: usize) {
        if let Node::File { synced, current } = &mut self.nodes[node] {
            synced.clone_from(current);
        }
    }

    /// Leaves first, as the system does it: a crash may leave half a directory.
    fn remove_tree(&mut self, path: &Path) {
        let node = self.find(path).expect("what is removed is there");
        if let Node::Directory { current, .. } = &self.nodes[node] {
            for name in current.keys().cloned().collect::<Vec<_>>() {
                self.remove_tree(&path.join(name));
            }
        }
        let (directory, name) = self.place(path);
        self.change(vec![(directory, name, None)]);
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Create { path, file } => {
                let node = match self.find(path) {
                    Some(node) => node,
                    None => self.add(path, Node::File { synced: Vec::new(), current: Vec::new() }),
                };
                if let Node::File { current, .. } = &mut self.nodes[node] {
                    current.clear();
                }
                self.open.insert(*file, node);
            }
            Op::Append { path, file } => {
                let node = self.find(path).expect("what is appended to is there");
                self.open.insert(*file, node);
            }
            Op::Write { file, bytes } => {
                if let Node::File { current, .. } = &mut self.nodes[self.open[file]] {
                    current.extend_from_slice(bytes);
                }
            }
            Op::SyncFile { file } => self.sync_node(self.open[file]),
            Op::SyncPath { path } => {
                let node = self.find(path).expect("what is synced is there");
                self.sync_node(node);
            }
            Op::Rename { from, to } => {
                let node = self.find(from);
                let ((a, from), (b, to)) = (self.place(from), self.place(to));
                self.change(vec![(a, from, None), (b, to, node)]);
            }
            Op::Exchange { a, b } => {
                let (x, y) = (self.find(a), self.find(b));
                let ((p, a), (q, b)) = (self.place(a), self.place(b));
                self.change(vec![(p, a, y), (q, b, x)]);
            }
            Op::SyncDir { path } => {
                let directory = self.find(path).expect("what is synced is there");
                let (now, later): (Vec<Change>, Vec<Change>) = std::mem::take(&mut self.pending)
                    .into_iter()
                    .partition(|change| change.iter().any(|(place, ..)| *place == directory));
                self.pending = later;
                for (place, name, node) in now.into_iter().flatten() {
                    if let Node::Directory { synced, .. } = &mut self.nodes[place] {
                        set(synced, &name, node);
                    }
                }
            }
            Op::CreateDir { path } => {
                self.add(path, Node::Directory { synced: Names::new(), current: Names::new() });
            }
            Op::RemoveFile { path } => {
                let (directory, name) = self.place(path);
                self.change(vec![(directory, name, None)]);
            }
            Op::RemoveDir { path } => self.remove_tree(path),
            Op::Mark(_) => {}
        }
    }

    /// The tree after a crash, where of the pending changes those in `kept` had reached the disk.
    fn tree(&self, kept: &[bool], bytes: Bytes) -> Tree {
        let mut names: HashMap<usize, Names> = HashMap::new();
        for (number, node) in self.nodes.iter().enumerate() {
            if let Node::Directory { synced, .. } = node {
                names.insert(number, synced.clone());
            }
        }
        for (change, _) in self.pending.iter().zip(kept).filter(|(_, kept)| **kept) {
            for (directory, name, node) in change {
                set(names.get_mut(directory).unwrap(), name, *node);
            }
        }
        let mut tree = Tree::new();
        self.walk(ROOT, &PathBuf::new(), &names, bytes, &mut tree);
        tree
    }

    fn walk(&self, node: usize, path: &Path, names: &HashMap<usize, Names>, bytes: Bytes, tree: &mut Tree) {
        for (name, &child) in &names[&node] {
            let path = path.join(name);
            match &self.nodes[child] {
                Node::File { synced, current } => {
                    tree.insert(path, Some(survivors(synced, current, bytes)));
                }
                Node::Directory { .. } => {
                    tree.insert(path.clone(), None);
                    self.walk(child, &path, names, bytes, tree);
                }
            }
        }
    }
}

/// Files with their bytes, directories without.
type Tree = BTreeMap<PathBuf, Option<Vec<u8>>>;

fn set(names: &mut Names, name: &OsString, node: Option<usize>) {
    match node {
        Some(node) => names.insert(name.clone(), node),
        None => names.remove(name),
    };
}

fn survivors(synced: &[u8], current: &[u8], bytes: Bytes) -> Vec<u8> {
    // Only what follows the synced part of a file that grew is uncertain in parts.
    let start = if current.starts_with(synced) { synced.len() } else { 0 };
    let mut out = current.to_vec();
    match bytes {
        Bytes::Dropped => return synced.to_vec(),
        Bytes::Kept => {}
        Bytes::Cut => {
            let middle = start + (current.len() - start) / 2;
            out.truncate((middle.div_ceil(SECTOR) * SECTOR).clamp(start, current.len()));
        }
        Bytes::Sectors => {
            for (number, sector) in out.chunks_mut(SECTOR).enumerate() {
                let from = start.saturating_sub(number * SECTOR).min(sector.len());
                if number % 2 == 0 {
                    sector[from..].fill(0);
                }
            }
        }
        Bytes::LengthOnly => out[start..].fill(0),
    }
    out
}

/// Which of `count` pending changes may have reached the disk.
fn choices(count: usize) -> Vec<Vec<bool>> {
    let mut choices = vec![vec![false; count], vec![true; count]];
    for n in 0..count {
        choices.push((0..count).map(|m| m < n).collect());
        choices.push((0..count).map(|m| m != n).collect());
        choices.push((0..count).map(|m| m == n).collect());
    }
    choices
}

/// A state that a crash may leave.
pub struct Image<'a> {
    /// A directory that holds it.
    pub path: &'a Path,
    /// The largest mark before the crash.
    pub mark: Option<usize>,
    /// Which crash this is.
    pub name: String,
}

/// A place where syncing costs nothing, if there is one: an image need not survive us.
pub fn fast_directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Shows every different image of crashes after operation `from` and later; returns their number.
pub fn for_each_image(ops: &[Op], from: usize, mut visit: impl FnMut(&Image<'_>)) -> usize {
    let mut disk = Disk::new();
    let mut seen = HashSet::new();
    let mut mark = None;
    for (number, op) in ops.iter().enumerate() {
        disk.apply(op);
        if let Op::Mark(reported) = op {
            mark = Some(*reported);
        }
        if number < from {
            continue;
        }
        for kept in choices(disk.pending.len()) {
            for bytes in [Bytes::Dropped, Bytes::Kept, Bytes::Cut, Bytes::Sectors, Bytes::LengthOnly] {
                let tree = disk.tree(&kept, bytes);
                let mut hasher = DefaultHasher::new();
                (&tree, mark).hash(&mut hasher);
                if !seen.insert(hasher.finish()) {
                    continue;
                }
                let directory = fast_directory();
                for (path, bytes) in &tree {
                    let path = directory.path().join(path);
                    match bytes {
                        Some(bytes) => std::fs::write(&path, bytes).unwrap(),
                        None => std::fs::create_dir(&path).unwrap(),
                    }
                }
                let name =
                    format!("after operation {number} ({}), names {kept:?}, bytes {bytes:?}", name(op));
                visit(&Image { path: directory.path(), mark, name });
            }
        }
    }
    seen.len()
}

fn name(op: &Op) -> String {
    match op {
        Op::Write { file, bytes } => format!("write {} bytes to file {file}", bytes.len()),
        other => format!("{other:?}"),
    }
}
