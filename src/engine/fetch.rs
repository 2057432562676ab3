//! Brings a dataset from a store to this machine, file by file.

use crate::control::{Control, Unit};
use crate::error::{Error, IoContext, Result};
use crate::remote;
use crate::shard::{Manifest, ModeKind, Shard, ShardRecord, Split};
use crate::storage::{AtomicFile, Disk, make_dir, remove_partial};
use std::io::Read;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// The manifest's name, in the store as on disk.
const MANIFEST: &str = "manifest.json";
/// A manifest is text that people can read: no more than this.
const LARGEST_MANIFEST: u64 = 256 << 20;

/// Whether a dataset lies at an address.
pub fn is_dataset(url: &Path, control: &Control) -> Result<bool> {
    if !remote::is_remote(url) || remote::several(url).is_some_and(|(_, pattern)| pattern.is_some()) {
        return Ok(false);
    }
    // A file has a name with an ending of its own; only what may be a folder is asked about.
    let name = url.to_string_lossy();
    if !name.ends_with('/') && !name.ends_with(".tenfill") {
        return Ok(false);
    }
    match remote::size(&inside(url, MANIFEST), control) {
        Ok(_) => Ok(true),
        Err(Error::Interrupted) => Err(Error::Interrupted),
        Err(error) => {
            if name.ends_with('/') {
                Ok(false)
            } else {
                Err(error)
            }
        }
    }
}

fn inside(url: &Path, file: &str) -> PathBuf {
    PathBuf::from(format!("{}/{file}", url.to_string_lossy().trim_end_matches('/')))
}

/// Where a dataset of a store is kept in `cache`: under its name and a number of its address, so that two of the
/// same name do not meet, nor a dataset of the user's.
pub fn place(url: &Path, cache: &Path) -> PathBuf {
    let address = url.to_string_lossy();
    let address = address.trim_end_matches('/');
    let name = address.rsplit('/').next().unwrap_or_default().trim_end_matches(".tenfill");
    cache.join(format!("{name}-{:016x}.tenfill", xxh3_64(address.as_bytes())))
}

/// Fetches a dataset into `cache`, and says where it is. Files that are there and are those of the manifest are not
/// fetched again, so that a fetch goes on where it was ended; the manifest comes last.
pub fn fetch(disk: &dyn Disk, url: &Path, cache: &Path, control: &Control) -> Result<PathBuf> {
    let place = place(url, cache);
    let (manifest, text) = manifest(url, control)?;
    if manifest.part.is_some() {
        return Err(Error::input(url, "this is a part of a dataset: fetch the whole one"));
    }
    let files = files(&manifest);
    let total = files.iter().map(|file| file.bytes).sum();
    control.progress().stage("fetch", Unit::Bytes, total);
    let same = std::fs::read(place.join(MANIFEST)).is_ok_and(|here| here == text);
    for folder in files.iter().filter_map(|file| Path::new(file.name).parent()).chain([Path::new("")]) {
        make_dir(disk, &place.join(folder))?;
        remove_partial(disk, &place.join(folder))?;
    }
    if !same && place.join(MANIFEST).exists() {
        // The dataset in the store is another one now: until all of it is here, there is none.
        disk.remove_file(&place.join(MANIFEST)).context("remove", place.join(MANIFEST))?;
    }
    let mut done = 0;
    for file in &files {
        control.check()?;
        let path = place.join(file.name);
        if !file.is_here(&path, &manifest) {
            copy(disk, &inside(url, file.name), &path, file, done, control)?;
            file.check(&path, &manifest)?;
        }
        done += file.bytes;
        control.progress().advance(done, &"");
    }
    if !same {
        let mut last = AtomicFile::create(disk, &place.join(MANIFEST))?;
        last.append(&text)?;
        last.commit()?;
    }
    Ok(place)
}

/// The manifest at an address, checked, and its bytes.
fn manifest(url: &Path, control: &Control) -> Result<(Manifest, Vec<u8>)> {
    let address = inside(url, MANIFEST);
    let mut text = Vec::new();
    let read = remote::reader(&address, control)?.take(LARGEST_MANIFEST + 1).read_to_end(&mut text);
    read.context("read", &address)?;
    if text.len() as u64 > LARGEST_MANIFEST {
        return Err(Error::input(address, "this is too large for a manifest"));
    }
    // It is read as one on disk is, from a folder of its own.
    let folder = tempfile::tempdir().context("create a scratch folder in", std::env::temp_dir())?;
    let local = folder.path().join(MANIFEST);
    std::fs::write(&local, &text).context("write", &local)?;
    let manifest = Manifest::read(folder.path()).map_err(|error| {
        let said = error.to_string();
        let what = said.strip_prefix(&format!("{} ", local.display())).unwrap_or(&said);
        Error::input(&address, format!("the manifest cannot be used: it {what}"))
    })?;
    Ok((manifest, text))
}

/// A file that the manifest names.
struct File<'m> {
    name: &'m str,
    bytes: u64,
    content: Content<'m>,
}

enum Content<'m> {
    Labels(u32),
    Entries(&'m ShardRecord),
}

/// Their names were checked with the manifest: they lie inside the dataset.
fn files(manifest: &Manifest) -> Vec<File<'_>> {
    let labels = manifest.modes.iter().filter_map(|mode| match &mode.kind {
        ModeKind::Integers { labels } | ModeKind::Text { labels } => {
            Some(File { name: &labels.file, bytes: labels.bytes, content: Content::Labels(labels.crc32c) })
        }
        _ => None,
    });
    let shards = Split::ALL.iter().flat_map(|&split| &manifest.split(split).shards);
    let shards = shards.map(|record| File {
        name: &record.file,
        bytes: record.bytes,
        content: Content::Entries(record),
    });
    labels.chain(shards).collect()
}

/// The checksum of a file.
fn checksum(path: &Path) -> std::io::Result<u32> {
    let mut file = std::fs::File::open(path)?;
    let (mut sum, mut buffer) = (0, vec![0; 1 << 18]);
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(sum);
        }
        sum = crc32c::crc32c_append(sum, &buffer[..count]);
    }
}

impl File<'_> {
    /// Whether a file on disk is this one: of shards the table, of whose blocks every pass checks each.
    fn is_here(&self, path: &Path, manifest: &Manifest) -> bool {
        let same_length =
            path.symlink_metadata().is_ok_and(|about| about.is_file() && about.len() == self.bytes);
        same_length
            && match self.content {
                Content::Labels(crc) => checksum(path).is_ok_and(|sum| sum == crc),
                Content::Entries(record) => Shard::open(path, &manifest.level_dims())
                    .is_ok_and(|shard| shard.table_crc() == record.table_crc32c),
            }
    }

    /// The same for one that has just come, block by block.
    fn check(&self, path: &Path, manifest: &Manifest) -> Result<()> {
        if !self.is_here(path, manifest) {
            return Err(Error::input(
                path,
                "what has come from the store is not the file that its manifest names",
            ));
        }
        if matches!(self.content, Content::Labels(_)) {
            return Ok(());
        }
        let shard = Shard::open(path, &manifest.level_dims())?;
        let mut buffer = Vec::new();
        (0..shard.blocks().len()).try_for_each(|number| {
            let bytes = shard.read_block(number, &mut buffer)?;
            shard.check(number, bytes)
        })
    }
}

fn copy(
    disk: &dyn Disk,
    url: &Path,
    path: &Path,
    file: &File<'_>,
    done: u64,
    control: &Control,
) -> Result<()> {
    let mut from = remote::reader(url, control)?;
    let mut to = AtomicFile::create(disk, path)?;
    let mut buffer = vec![0; 1 << 18];
    loop {
        control.check()?;
        let count = from.read(&mut buffer).context("read", url)?;
        if count == 0 {
            break;
        }
        to.append(&buffer[..count])?;
        control.progress().advance(done + to.written(), &"");
    }
    if to.written() != file.bytes {
        let what = format!("it has {} bytes where the manifest says {}", to.written(), file.bytes);
        return Err(Error::input(url, what));
    }
    to.commit()
}
