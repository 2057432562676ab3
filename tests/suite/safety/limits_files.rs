//! Files of a dataset or a run that are not what they should be: one sentence, at once.

use super::limits::{dataset, ended, refused, start};
use crate::common::{folder, result, run, stderr};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

const COMPLETE: &str =
    "complete d -o run --rank 2 --max-iterations 4 --bias none --penalty 0 --tolerance 0 --patience 0";

fn prepared() -> tempfile::TempDir {
    let place = folder();
    dataset(place.path());
    run(place.path(), COMPLETE.split(' '));
    place
}

/// Changes the text of a manifest, and its checksum with it.
fn change_manifest(dataset: &Path, from: &str, to: &str) {
    let path = dataset.join("manifest.json");
    let text = fs::read_to_string(&path).unwrap();
    let (_, rest) = text.split_once(",\n").unwrap();
    assert!(rest.contains(from), "{from} is not in {rest}");
    let rest = rest.replacen(from, to, 1);
    let crc = crc32c::crc32c(rest.as_bytes());
    fs::write(&path, format!("{{\n  \"crc32c\": \"{crc:08x}\",\n{rest}")).unwrap();
}

#[test]
fn ranks_in_a_configuration_that_no_run_has() {
    let place = prepared();
    let config = place.path().join("run/config.json");
    let good = fs::read_to_string(&config).unwrap();
    fs::remove_dir_all(place.path().join("run/checkpoints")).unwrap();
    let rank = "\"rank\": [\n    2,\n    2\n  ]";
    assert!(good.contains(rank), "{good}");
    for bad in ["[]", "[3]", "[0,3]", "[0,3,2]", "[2,2,2]", "[1000000,2]", "[18446744073709551615,2]"] {
        fs::write(&config, good.replace(rank, &format!("\"rank\": {bad}"))).unwrap();
        refused(place.path(), "resume run", &["run/config.json"]);
    }
    fs::write(&config, good.replace("\"range\": null", "\"range\": [5.0, 1.0]")).unwrap();
    let lanes = good.replace("\"lanes\": 8", "\"lanes\": 0");
    assert!(lanes != good);
    fs::write(&config, lanes).unwrap();
    refused(place.path(), "resume run", &["run/config.json", "makes no sense"]);
    fs::write(&config, good).unwrap();
    run(place.path(), ["resume", "run"]);
}

#[test]
fn values_in_a_manifest_that_no_data_has() {
    let place = folder();
    dataset(place.path());
    change_manifest(&place.path().join("d"), "\"min\": 1.0", "\"min\": 9.0");
    for arguments in ["inspect d", "complete d -o run --rank 2", "complete d -o run --rank auto"] {
        refused(place.path(), arguments, &["d/manifest.json", "from 9 to 5"]);
    }
    let output = ended(start(place.path(), "verify d"));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
}

/// In place of each of these files a pipe, a link to the file elsewhere, a link to a device: the
/// commands say so at once.
#[test]
fn pipes_links_and_devices_are_refused_and_never_waited_for() {
    let place = prepared();
    let at = |name: &str| place.path().join(name);
    let checkpoint = fs::read_dir(at("run/checkpoints")).unwrap().next().unwrap().unwrap().file_name();
    let checkpoint = format!("run/checkpoints/{}", checkpoint.to_string_lossy());
    let cases: &[(&str, &[&str])] = &[
        ("d/manifest.json", &["inspect d", "complete d -o new --rank 1", "resume run"]),
        ("d/train/00000.shard", &["complete d -o new --rank 1", "resume run --max-iterations 9"]),
        ("d/test/00000.shard", &["evaluate run"]),
        ("d/modes/user.arrow", &["complete d -o new --rank 1"]),
        ("run/config.json", &["resume run", "evaluate run"]),
        ("run/.lock", &["resume run"]),
        ("run/log.jsonl", &["resume run --max-iterations 9", "report run -o page.html"]),
        ("run/model/model.bin", &["evaluate run", "predict run r.csv"]),
        ("run/model/modes/user.arrow", &["predict run r.csv"]),
        (&checkpoint, &["resume run"]),
    ];
    for (file, commands) in cases {
        let elsewhere = at("elsewhere");
        fs::rename(at(file), &elsewhere).unwrap();
        for kind in ["a named pipe", "a symbolic link", "a device behind a link"] {
            match kind {
                "a named pipe" => assert!(Command::new("mkfifo").arg(at(file)).status().unwrap().success()),
                "a symbolic link" => symlink(&elsewhere, at(file)).unwrap(),
                _ => symlink("/dev/zero", at(file)).unwrap(),
            }
            for command in *commands {
                let found = if kind == "a named pipe" { kind } else { "a symbolic link" };
                refused(place.path(), command, &[file, found, "lies where"]);
            }
            fs::remove_file(at(file)).unwrap();
        }
        fs::rename(&elsewhere, at(file)).unwrap();
    }
    run(place.path(), ["resume", "run"]);
}

#[test]
fn folders_that_are_links_are_refused_but_a_dataset_may_be_reached_through_one() {
    let place = prepared();
    let at = |name: &str| place.path().join(name);
    symlink("d", at("link")).unwrap();
    run(place.path(), ["inspect", "link"]);
    for folder in ["d/train", "d/modes", "run/checkpoints", "run/model"] {
        fs::rename(at(folder), at("elsewhere")).unwrap();
        symlink(at("elsewhere"), at(folder)).unwrap();
        refused(place.path(), "resume run", &[folder, "a symbolic link lies where a folder"]);
        fs::remove_file(at(folder)).unwrap();
        fs::rename(at("elsewhere"), at(folder)).unwrap();
    }
}

#[test]
fn garbage_at_the_end_of_the_log_stops_neither_resume_nor_report() {
    let place = prepared();
    run(place.path(), "resume run --max-iterations 8".split(' '));
    let whole = result(&place.path().join("run"));
    for garbage in [&b"{\"iteration\": 5, \"train"[..], b"\xff\xfe\xfd\n", &[0; 700], b"{}\n{}\n", b"\n\n"] {
        fs::remove_dir_all(place.path().join("run")).unwrap();
        run(place.path(), COMPLETE.split(' '));
        let log = place.path().join("run/log.jsonl");
        let lines = [&fs::read(&log).unwrap(), garbage].concat();
        fs::write(&log, lines).unwrap();
        run(place.path(), "report run -o page.html --force".split(' '));
        run(place.path(), "resume run --max-iterations 8".split(' '));
        assert!(result(&place.path().join("run")) == whole);
    }
}
