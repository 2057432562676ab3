//! `verify` looks at what it calls well.

use super::{PLAIN, json, low_rank, output, write};
use crate::common::folder;
use arrow_array::{Int64Array, LargeStringArray};
use serde_json::Value;
use std::path::Path;
use tenfill_engine::shard::{Dataset, Labels, ModeKind, write_labels};
use tenfill_engine::storage::RealDisk;

/// Changes the first numbers of an array of a model or checkpoint, and all checksums with them.
fn change(path: &Path, array: &str, number: f64) {
    let mut bytes = std::fs::read(path).unwrap();
    let tail_at = bytes.len() - 32;
    let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let at = word(&bytes, tail_at);
    let mut about: Value = serde_json::from_slice(&bytes[at..tail_at]).unwrap();
    let arrays = about["arrays"].as_array_mut().unwrap();
    let record = arrays.iter_mut().find(|record| record["name"] == array).unwrap();
    let (begin, length) = (record["offset"].as_u64().unwrap() as usize, record["length"].as_u64().unwrap());
    bytes[begin..begin + 8].copy_from_slice(&number.to_le_bytes());
    let end = begin + (length as usize * 8).min(64 << 10);
    record["crc32c"][0] = crc32c::crc32c(&bytes[begin..end]).into();
    let text = about.to_string().into_bytes();
    let mut tail = [0; 32];
    tail[..8].copy_from_slice(&(at as u64).to_le_bytes());
    tail[8..16].copy_from_slice(&(text.len() as u64).to_le_bytes());
    tail[16..20].copy_from_slice(&crc32c::crc32c(&text).to_le_bytes());
    let crc = crc32c::crc32c(&tail[..24]);
    tail[24..28].copy_from_slice(&crc.to_le_bytes());
    tail[28..].copy_from_slice(b"done");
    bytes.truncate(at);
    bytes.extend(text);
    bytes.extend(tail);
    std::fs::write(path, bytes).unwrap();
}

/// What `verify` finds wrong.
fn problems(folder: &Path, what: &str) -> Vec<String> {
    let output = output(folder, &format!("verify {what} --json"));
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(i32::from(line["ok"] == false)));
    let problems = line["problems"].as_array().unwrap().iter();
    problems.map(|problem| problem["what"].as_str().unwrap().to_string()).collect()
}

fn run(folder: &Path) {
    write(&folder.join("x.csv"), &low_rank(), 1.0, 1.0);
    let line = format!("complete x.csv -o run --modes a,b,c --value value --rank 2 {PLAIN}");
    json(folder, &line);
}

#[test]
fn numbers_of_models_and_checkpoints_are_finite() {
    let folder = folder();
    let folder = folder.path();
    run(folder);
    assert_eq!(problems(folder, "run"), [""; 0]);
    let newest = crate::common::names(&folder.join("run/checkpoints")).pop().unwrap();
    let newest = folder.join("run/checkpoints").join(newest);
    for (path, array) in [(folder.join("run/model/model.bin"), "factor.1"), (newest, "direction.core")] {
        let good = std::fs::read(&path).unwrap();
        change(&path, array, 0.5);
        assert_eq!(problems(folder, "run"), [""; 0], "a finite number is no problem");
        for wrong in [f64::NAN, f64::NEG_INFINITY] {
            change(&path, array, wrong);
            let found = problems(folder, "run");
            assert!(found.len() == 1 && found[0].contains("holds NaN or infinity"), "{found:?}");
        }
        std::fs::write(&path, good).unwrap();
    }
}

/// A dataset whose ids are text, or integers that are no range, and bins of times.
fn dataset(folder: &Path) {
    let mut text = String::from("name,item,when,value\n");
    for n in 0..400u32 {
        text += &format!(
            "{},{},2020-01-{:02},{}\n",
            ["zoe", "anna", "7", "carl"][n as usize % 4],
            n * n % 97 * 10,
            1 + n % 28,
            n % 9
        );
    }
    std::fs::write(folder.join("x.csv"), text).unwrap();
    json(folder, "convert x.csv -o data --modes name,item,when --value value --bin when=7d");
}

#[test]
fn labels_ascend_and_stand_there_once() {
    let folder = folder();
    let folder = folder.path();
    dataset(folder);
    assert_eq!(problems(folder, "data"), [""; 0]);
    let good = Dataset::open(folder.join("data")).unwrap().manifest().clone();
    let labels: Vec<Option<Labels>> =
        (0..2).map(|mode| Dataset::open(folder.join("data")).unwrap().labels(mode).unwrap()).collect();
    for swapped in [true, false] {
        for mode in 0..2 {
            let mut order: Vec<usize> = (0..labels[mode].as_ref().unwrap().len()).collect();
            if swapped {
                order.swap(1, 2)
            } else {
                order[2] = 1
            }
            let changed = match labels[mode].as_ref().unwrap() {
                Labels::Text(text) => {
                    Labels::Text(LargeStringArray::from_iter_values(order.iter().map(|&n| text.value(n))))
                }
                Labels::Integers(numbers) => {
                    Labels::Integers(Int64Array::from_iter_values(order.iter().map(|&n| numbers.value(n))))
                }
            };
            let mut manifest = good.clone();
            let (ModeKind::Text { labels } | ModeKind::Integers { labels }) = &mut manifest.modes[mode].kind
            else {
                panic!("labels")
            };
            let path = folder.join("data").join(&labels.file);
            let before = std::fs::read(&path).unwrap();
            *labels = write_labels(&RealDisk, &folder.join("data"), labels.file.clone(), &changed).unwrap();
            manifest.write(&RealDisk, &folder.join("data")).unwrap();
            let found = problems(folder, "data");
            assert!(
                found.len() == 1 && found[0].contains("does not come after the one before it"),
                "{found:?}"
            );
            std::fs::write(&path, before).unwrap();
            good.write(&RealDisk, &folder.join("data")).unwrap();
        }
    }
    assert_eq!(problems(folder, "data"), [""; 0]);
}

#[test]
fn bins_are_in_order() {
    let folder = folder();
    let folder = folder.path();
    dataset(folder);
    let good = Dataset::open(folder.join("data")).unwrap().manifest().clone();
    for (origin, width) in [(1e300, 604_800.0), (0.0, -1.0), (0.0, 0.0), (1e17, 1.0), (0.0, 1e308)] {
        let mut manifest = good.clone();
        let ModeKind::Bins(bins) = &mut manifest.modes[2].kind else { panic!("bins") };
        (bins.origin, bins.width) = (origin, width);
        manifest.write(&RealDisk, &folder.join("data")).unwrap();
        let found = problems(folder, "data");
        assert!(found.len() == 1 && found[0].contains("do not ascend"), "{origin} {width}: {found:?}");
    }
}
