//! A dataset: old or new, whole or absent.

use super::faulty::{Fault, Faulty};
use super::image::{fast_directory, for_each_image};
use super::recorder::Recorder;
use super::sample;
use std::path::Path;
use tenfill_engine::control::Control;
use tenfill_engine::convert::{AppendOptions, ConvertOptions, Converted, Duplicates, append_on};
use tenfill_engine::shard::{DatasetKind, verify};
use tenfill_engine::storage::{Disk, Output, RealDisk, Staging};

/// The manifest of a dataset of which every byte was checked, and which holds the checksums of all;
/// none where there is no dataset.
fn whole(path: &Path, name: &str) -> Option<Vec<u8>> {
    if !path.exists() {
        return None;
    }
    let found = verify(path, &Control::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(found.problems.is_empty(), "{name}: {:?}", found.problems);
    Some(manifest(path))
}

/// What the next process does first.
fn next_start(output: &Path) {
    drop(Staging::create(&RealDisk, &Output::new(output, true), &DatasetKind).unwrap());
}

fn manifest(path: &Path) -> Vec<u8> {
    std::fs::read(path.join("manifest.json")).unwrap()
}

/// Two tables, and a dataset of the first written through `disk`.
fn begin(disk: &Recorder, directory: &Path) -> (Vec<u8>, usize) {
    sample::csv(&directory.join("old.csv"), 9);
    sample::csv(&directory.join("new.csv"), 12);
    sample::convert(disk, &directory.join("old.csv"), &directory.join("data"), false).unwrap();
    disk.mark(1);
    (manifest(&directory.join("data")), disk.ops().len())
}

#[test]
fn a_crash_leaves_a_dataset_whole_or_absent() {
    let directory = fast_directory();
    let disk = Recorder::new(directory.path());
    let (old, _) = begin(&disk, directory.path());
    let images = for_each_image(&disk.ops(), 0, |image| {
        let found = whole(&image.path.join("data"), &image.name);
        assert!(found.is_none() || found.as_ref() == Some(&old), "{}", image.name);
        assert!(image.mark.is_none() || found.is_some(), "{}", image.name);
    });
    assert!(images > 40, "{images} images");
}

#[test]
fn a_crash_while_replacing_leaves_the_old_dataset_or_the_new_one() {
    for exchanges in [true, false] {
        let directory = fast_directory();
        let mut disk = Recorder::new(directory.path());
        disk.exchanges = exchanges;
        let (old, from) = begin(&disk, directory.path());
        let output = directory.path().join("data");
        sample::convert(&disk, &directory.path().join("new.csv"), &output, true).unwrap();
        let new = manifest(&output);
        disk.mark(2);
        for_each_image(&disk.ops(), from, |image| {
            let output = image.path.join("data");
            if !exchanges {
                // Where two names cannot trade places, the next start puts it right.
                next_start(&output);
            }
            let found = whole(&output, &image.name).unwrap_or_else(|| panic!("{}: it is gone", image.name));
            assert!(found == new || image.mark == Some(1) && found == old, "{}", image.name);
            next_start(&output);
            assert!(sample::temporaries(image.path).is_empty(), "{}", image.name);
        });
    }
}

#[test]
fn a_failing_disk_leaves_the_old_dataset_or_the_new_one() {
    let directory = fast_directory();
    let (old, new) = (directory.path().join("old.csv"), directory.path().join("new.csv"));
    sample::csv(&old, 9);
    sample::csv(&new, 12);
    let output = directory.path().join("data");
    sample::convert(&RealDisk, &old, &output, false).unwrap();
    let first = manifest(&output);
    let count = Faulty::never();
    sample::convert(&count, &new, &output, true).unwrap();
    let second = manifest(&output);
    for fault in Fault::ALL {
        for at in 0..count.calls() {
            sample::convert(&RealDisk, &old, &output, true).unwrap();
            let name = format!("{fault:?} at call {at}");
            let result = sample::convert(&Faulty::new(at, fault), &new, &output, true);
            if result.is_err() && !output.exists() {
                // Only where the disk fails at every step back, too: the next start does it.
                assert_eq!(fault, Fault::StaysFull, "{name}");
                next_start(&output);
            }
            let found = whole(&output, &name).unwrap();
            assert!(found == second || result.is_err() && found == first, "{name}");
            assert!(result.is_ok() || fault != Fault::Short, "a short write is no error");
            next_start(&output);
            assert!(sample::temporaries(directory.path()).is_empty(), "{name}");
        }
    }
}

/// Rows appended to the dataset in its place.
fn append(disk: &dyn Disk, directory: &Path) -> tenfill_engine::Result<Converted> {
    let rows =
        ConvertOptions { memory: 64 << 20, ..ConvertOptions::new(vec![directory.join("new.csv")], "") };
    let options = AppendOptions {
        in_place: true,
        duplicates: Some(Duplicates::Last),
        ..AppendOptions::new(directory.join("data"), rows)
    };
    append_on(disk, &options, Vec::new(), &Control::default())
}

#[test]
fn a_crash_while_appending_leaves_the_old_dataset_or_the_new_one() {
    for exchanges in [true, false] {
        let directory = fast_directory();
        let mut disk = Recorder::new(directory.path());
        disk.exchanges = exchanges;
        let (old, from) = begin(&disk, directory.path());
        let output = directory.path().join("data");
        append(&disk, directory.path()).unwrap();
        let new = manifest(&output);
        disk.mark(2);
        for_each_image(&disk.ops(), from, |image| {
            let output = image.path.join("data");
            if !exchanges {
                next_start(&output);
            }
            let found = whole(&output, &image.name).unwrap_or_else(|| panic!("{}: it is gone", image.name));
            assert!(found == new || image.mark == Some(1) && found == old, "{}", image.name);
            next_start(&output);
            assert!(sample::temporaries(image.path).is_empty(), "{}", image.name);
        });
    }
}

#[test]
fn a_failing_disk_while_appending_leaves_the_old_dataset_or_the_new_one() {
    let directory = fast_directory();
    let (old, output) = (directory.path().join("old.csv"), directory.path().join("data"));
    sample::csv(&old, 9);
    sample::csv(&directory.path().join("new.csv"), 12);
    sample::convert(&RealDisk, &old, &output, false).unwrap();
    let first = manifest(&output);
    let count = Faulty::never();
    append(&count, directory.path()).unwrap();
    let second = manifest(&output);
    for fault in Fault::ALL {
        for at in 0..count.calls() {
            sample::convert(&RealDisk, &old, &output, true).unwrap();
            let name = format!("{fault:?} at call {at}");
            let result = append(&Faulty::new(at, fault), directory.path());
            if result.is_err() && !output.exists() {
                assert_eq!(fault, Fault::StaysFull, "{name}");
                next_start(&output);
            }
            let found = whole(&output, &name).unwrap();
            assert!(found == second || result.is_err() && found == first, "{name}");
            next_start(&output);
            assert!(sample::temporaries(directory.path()).is_empty(), "{name}");
        }
    }
}
