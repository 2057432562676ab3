//! One file: old or new.

use super::faulty::{Fault, Faulty};
use super::image::{fast_directory, for_each_image};
use super::recorder::Recorder;
use super::sample::temporaries;
use std::path::Path;
use tenfill_engine::storage::{make_dir, remove_partial, write_atomic};

/// Larger than the buffer that writes are gathered in, so that there are several.
fn content(byte: u8) -> Vec<u8> {
    (0..600_001u32).map(|n| (n % 251) as u8 ^ byte).collect()
}

#[test]
fn a_crash_leaves_the_old_file_or_the_new_one() {
    let directory = fast_directory();
    let path = directory.path().join("folder/file");
    let disk = Recorder::new(directory.path());
    make_dir(&disk, path.parent().unwrap()).unwrap();
    write_atomic(&disk, &path, &content(1)).unwrap();
    disk.mark(1);
    let from = disk.ops().len();
    write_atomic(&disk, &path, &content(2)).unwrap();
    disk.mark(2);
    let images = for_each_image(&disk.ops(), from, |image| {
        let found = std::fs::read(image.path.join("folder/file")).unwrap();
        let new = found == content(2);
        assert!(new || image.mark == Some(1) && found == content(1), "{}", image.name);
    });
    assert!(images > 5, "{images} images");
}

#[test]
fn a_file_that_was_never_there_is_whole_or_absent() {
    let directory = fast_directory();
    let disk = Recorder::new(directory.path());
    let path = directory.path().join("a/b/file");
    make_dir(&disk, path.parent().unwrap()).unwrap();
    write_atomic(&disk, &path, &content(1)).unwrap();
    disk.mark(1);
    for_each_image(&disk.ops(), 0, |image| {
        let found = std::fs::read(image.path.join("a/b/file")).ok();
        let fine = match image.mark {
            Some(_) => found == Some(content(1)),
            None => found.is_none() || found == Some(content(1)),
        };
        assert!(fine, "{}", image.name);
    });
}

/// The images are worth something only if they show what a missing sync does.
#[test]
fn a_missing_sync_is_found() {
    for syncs in [[false, true], [true, false]] {
        let directory = fast_directory();
        let mut disk = Recorder::new(directory.path());
        write_atomic(&disk, &directory.path().join("file"), &content(1)).unwrap();
        disk.mark(1);
        let from = disk.ops().len();
        disk.syncs = syncs;
        write_atomic(&disk, &directory.path().join("file"), &content(2)).unwrap();
        disk.mark(2);
        let mut lost = 0;
        for_each_image(&disk.ops(), from, |image| {
            let found = std::fs::read(image.path.join("file")).unwrap_or_default();
            lost += usize::from(found != content(2) && (image.mark == Some(2) || found != content(1)));
        });
        assert!(lost > 0, "{syncs:?}");
    }
}

fn old_or_new(path: &Path, fault: Fault, at: usize) -> bool {
    let found = std::fs::read(path).unwrap();
    assert!(found == content(1) || found == content(2), "{fault:?} at call {at}: a third state");
    found == content(2)
}

#[test]
fn a_failing_disk_leaves_the_old_file_or_the_new_one() {
    let directory = fast_directory();
    let path = directory.path().join("file");
    let count = Faulty::never();
    write_atomic(&count, &path, &content(1)).unwrap();
    assert!(count.calls() > 4);
    for fault in Fault::ALL {
        for at in 0..count.calls() {
            write_atomic(&Faulty::never(), &path, &content(1)).unwrap();
            let disk = Faulty::new(at, fault);
            match write_atomic(&disk, &path, &content(2)) {
                Ok(()) => assert!(old_or_new(&path, fault, at), "{fault:?} at call {at}: not written"),
                Err(error) => {
                    old_or_new(&path, fault, at);
                    assert!(fault != Fault::Short, "a short write is no error");
                    let text = error.to_string();
                    assert!(text.contains("file"), "{text}");
                    assert!(fault == Fault::Io || text.contains("the disk is full"), "{text}");
                    if fault != Fault::StaysFull {
                        assert_eq!(temporaries(directory.path()), [] as [&Path; 0], "{fault:?} at {at}");
                    }
                }
            }
            remove_partial(&Faulty::never(), directory.path()).unwrap();
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        }
    }
}
