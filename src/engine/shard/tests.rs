//! Every byte of a dataset matters: any one changed or missing is noticed, by `verify` and by the
//! reader, before a value comes out of it.

use super::*;
use crate::control::Control;
use crate::error::Error;
use crate::storage::RealDisk;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

type Entry = ([u32; 3], f64);

const DIMS: [u32; 3] = [300, 70_000, 1000];
/// One bit, another, all of them.
const PATTERNS: [u8; 3] = [0x01, 0x80, 0xff];

/// In memory where the system has such a place: these tests write some ten thousand files.
fn folder() -> TempDir {
    let fast = Path::new("/dev/shm");
    if fast.is_dir() { tempfile::tempdir_in(fast).unwrap() } else { tempfile::tempdir().unwrap() }
}

/// Sorted entries that share fibres (a tree of two levels), or none (flat from level 1).
fn entries(tree: bool, value: impl Fn(u32) -> f64) -> Vec<Entry> {
    let index = |n: u32| if tree { [n / 9, n / 3 * 2000, n % 3 * 7] } else { [n / 2, n * 2500, 999 - n] };
    (0..27).map(|n| (index(n), value(n))).collect()
}

/// What the five kinds of blocks are made of.
fn shapes() -> Vec<(&'static str, Vec<Entry>)> {
    vec![
        ("codes, tree", entries(true, |n| f64::from(n % 3) / 2.0)),
        ("codes, flat", entries(false, |n| f64::from(n % 2) + 0.1)),
        ("f32, tree", entries(true, |n| f64::from(n) * 0.25)),
        ("f64, flat", entries(false, |n| f64::from(n) * 0.1)),
        ("f64, tree", entries(true, |n| 1.0 / f64::from(n + 1))),
    ]
}

/// A dataset of one shard with blocks of ten entries, and text labels for the first mode.
fn dataset(directory: &Path, entries: &[Entry]) -> PathBuf {
    fs::create_dir_all(directory.join("train")).unwrap();
    fs::create_dir_all(directory.join("modes")).unwrap();
    let path = directory.join("train/00000.shard");
    let mut writer = ShardWriter::create(&RealDisk, &path, &DIMS, 10, false).unwrap();
    let mut values = ValueStatistics::default();
    for (indices, value) in entries {
        writer.push(indices, *value, None).unwrap();
        values.add(*value, 1.0);
    }
    let shard = writer.finish("train/00000.shard".into()).unwrap();
    let names: Vec<String> = (0..DIMS[0]).map(|n| format!("id {n:05}")).collect();
    let labels = Labels::Text(names.into());
    let labels = write_labels(&RealDisk, directory, "modes/a.arrow".into(), &labels).unwrap();
    let mode = |name: &str, dim: u32, kind: ModeKind| Mode {
        name: name.into(),
        dim,
        kind,
        statistics: ModeStatistics::default(),
        gaps: Vec::new(),
    };
    let distinct = |levels: usize| {
        let mut all: Vec<&[u32]> = entries.iter().map(|(indices, _)| &indices[..levels]).collect();
        all.dedup();
        all.len() as u64
    };
    let train =
        SplitRecord { entries: shard.entries, slices: distinct(1), fibres: distinct(2), shards: vec![shard] };
    let manifest = Manifest {
        format_version: UNWEIGHTED_VERSION,
        written_by: "a test".into(),
        modes: vec![
            mode("a", DIMS[0], ModeKind::Text { labels }),
            mode("b", DIMS[1], ModeKind::Range { base: 1 }),
            mode(
                "c",
                DIMS[2],
                ModeKind::Bins(Bins { origin: 0.0, width: 0.5, time: false, per_second: 1.0, unit: None }),
            ),
        ],
        value: "value".into(),
        mode_order: vec![0, 1, 2],
        mode_order_reason: "because".into(),
        duplicates: 0,
        duplicates_rule: "mean".into(),
        missing: Vec::new(),
        absent: None,
        transform: None,
        split_rule: "none".into(),
        values,
        weights: None,
        train,
        validation: SplitRecord::default(),
        test: SplitRecord::default(),
        part: None,
        split_by: None,
        appended: 0,
    };
    manifest.write(&RealDisk, directory).unwrap();
    path
}

/// All entries of a shard as a reader gets them.
fn read(path: &Path) -> Result<Vec<Entry>, Error> {
    let shard = Shard::open(path, &DIMS)?;
    let (mut buffer, mut entries) = (Vec::new(), Vec::new());
    for number in 0..shard.blocks().len() {
        let bytes = shard.read_block(number, &mut buffer)?;
        shard.check(number, bytes)?;
        let view = shard.view(number, bytes)?;
        view.for_each(|i, value| entries.push(([i[0], i[1], i[2]], value)));
    }
    Ok(entries)
}

/// Whether `verify` finds something, either way.
fn verify_complains(directory: &Path) -> bool {
    verify(directory, &Control::default()).map_or(true, |found| !found.problems.is_empty())
}

/// Every byte changed, every length cut, one byte added: `wrong(what)` is called each time.
fn damage(path: &Path, mut wrong: impl FnMut(String)) {
    let whole = fs::read(path).unwrap();
    for at in 0..whole.len() {
        for pattern in PATTERNS {
            let mut bytes = whole.clone();
            bytes[at] ^= pattern;
            fs::write(path, &bytes).unwrap();
            wrong(format!("byte {at} ^ {pattern:#x}"));
        }
        fs::write(path, &whole[..at]).unwrap();
        wrong(format!("cut to {at} bytes"));
    }
    fs::write(path, [whole.as_slice(), &[0]].concat()).unwrap();
    wrong("one byte more".into());
    fs::write(path, whole).unwrap();
}

#[test]
fn what_is_written_is_read() {
    for (name, entries) in shapes() {
        let directory = folder();
        let path = dataset(directory.path(), &entries);
        assert_eq!(read(&path).unwrap(), entries, "{name}");
        let found = verify(directory.path(), &Control::default()).unwrap();
        assert_eq!((found.problems, found.files), (vec![], 3), "{name}");
        let mut seen = Vec::new();
        let dataset = Dataset::open(directory.path()).unwrap();
        dataset.for_each(Split::Train, |i, value| seen.push(([i[0], i[1], i[2]], value))).unwrap();
        assert_eq!(seen, entries, "{name}");
        assert_eq!(dataset.labels(0).unwrap().unwrap().get(7), "id 00007");
    }
}

#[test]
fn any_damage_to_a_shard_is_found() {
    for (name, entries) in shapes() {
        let directory = folder();
        let path = dataset(directory.path(), &entries);
        damage(&path, |what| {
            assert!(read(&path).is_err(), "{name}, {what}: the reader takes it");
            assert!(verify_complains(directory.path()), "{name}, {what}: verify takes it");
        });
        assert!(read(&path).is_ok());
    }
}

#[test]
fn any_damage_to_manifest_or_labels_is_found() {
    let directory = folder();
    dataset(directory.path(), &shapes()[0].1);
    let manifest = directory.path().join("manifest.json");
    damage(&manifest, |what| {
        let error = Manifest::read(directory.path()).expect_err(&what);
        assert!(matches!(error, Error::Corrupt { .. }), "{what}: {error}");
        assert!(verify_complains(directory.path()), "{what}: verify takes it");
    });
    let labels = directory.path().join("modes/a.arrow");
    damage(&labels, |what| {
        let opened = Dataset::open(directory.path()).unwrap();
        assert!(opened.labels(0).is_err(), "{what}: the reader takes the labels");
        let found = verify(directory.path(), &Control::default()).unwrap();
        assert_eq!(found.problems.len(), 1, "{what}");
        assert_eq!(found.problems[0].file, labels, "{what}");
    });
    for file in ["modes/a.arrow", "train/00000.shard"] {
        let path = directory.path().join(file);
        let bytes = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let found = verify(directory.path(), &Control::default()).unwrap();
        assert_eq!(found.problems.len(), 1, "{file} is missing");
        assert_eq!(found.problems[0].file, path);
        fs::write(path, bytes).unwrap();
    }
}

/// Where a wrong program wrote a right checksum, the rules of a block still hold or are missed.
#[test]
fn a_block_is_never_believed() {
    for (name, entries) in shapes() {
        let mut block = BlockBuilder::new(3);
        entries.iter().for_each(|(indices, value)| block.push(indices, *value));
        let mut whole = Vec::new();
        block.encode(&mut whole);
        let mut taken = 0;
        for at in 0..whole.len() {
            for pattern in [1, 2, 4, 8, 16, 32, 64, 128, 255] {
                let mut aligned = vec![0u64; whole.len().div_ceil(8)];
                let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut aligned);
                bytes.copy_from_slice(&whole);
                bytes[at] ^= pattern;
                if let Ok(view) = decode(bytes, &DIMS) {
                    taken += 1;
                    let mut count = 0;
                    view.for_each(|indices, _| {
                        assert!(indices.iter().zip(&DIMS).all(|(index, dim)| index < dim), "{name}, {at}");
                        count += 1;
                    });
                    assert_eq!(count, view.entries(), "{name}, byte {at} ^ {pattern}");
                }
            }
        }
        assert!(taken > 0, "values may be anything");
    }
}

#[test]
fn a_later_version_is_said_to_be_one() {
    let directory = folder();
    let path = dataset(directory.path(), &shapes()[0].1);
    let mut bytes = fs::read(&path).unwrap();
    bytes[8] = FORMAT_VERSION as u8 + 1;
    let crc = crc32c::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    assert!(matches!(read(&path), Err(Error::Newer { found: 3, known: 2, .. })));
    assert!(verify_complains(directory.path()));

    let mut manifest = Manifest::read(directory.path()).unwrap();
    manifest.format_version = FORMAT_VERSION + 1;
    manifest.write(&RealDisk, directory.path()).unwrap();
    assert!(matches!(Manifest::read(directory.path()), Err(Error::Newer { found: 3, known: 2, .. })));
}

#[test]
fn no_version_is_0() {
    let directory = folder();
    let path = dataset(directory.path(), &shapes()[0].1);
    let mut bytes = fs::read(&path).unwrap();
    bytes[8] = 0;
    let crc = crc32c::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    assert!(matches!(read(&path), Err(Error::Corrupt { offset: 8, .. })));

    let mut manifest = Manifest::read(directory.path()).unwrap();
    manifest.format_version = 0;
    manifest.write(&RealDisk, directory.path()).unwrap();
    let said = Manifest::read(directory.path()).unwrap_err().to_string();
    assert!(said.contains("no format version 0"), "{said}");
}

#[test]
fn a_shard_in_the_place_of_another_is_found() {
    let (one, other) = (folder(), folder());
    let path = dataset(one.path(), &shapes()[0].1);
    let foreign = dataset(other.path(), &shapes()[2].1);
    fs::copy(foreign, path).unwrap();
    assert!(Dataset::open(one.path()).unwrap().shards(Split::Train).is_err());
    assert!(verify_complains(one.path()));
}

#[test]
fn bins_of_earlier_versions_do_not_say_the_unit() {
    let text = r#"{"origin": 0.0, "width": 604800.0, "time": true, "per_second": 1000.0}"#;
    let bins: Bins = serde_json::from_str(text).unwrap();
    assert_eq!(bins.unit, None);
    assert_eq!(bins.seconds(20_210_115.0), Some(20_210.115), "numbers are what they were");
    let again: Bins = serde_json::from_str(&serde_json::to_string(&bins).unwrap()).unwrap();
    assert_eq!(again, bins);
}
