//! A dataset may have more shards than files may be open: the limit is raised, and said where that does not suffice.

use crate::common::{folder, json, stderr};
use std::path::Path;
use std::process::{Command, Output};

/// Runs a command of the program in a shell after another one.
fn after(directory: &Path, first: &str, arguments: &str) -> Output {
    let script = format!("{first}; exec {} {arguments}", env!("CARGO_BIN_EXE_tenfill"));
    Command::new("sh").current_dir(directory).args(["-c", &script]).output().unwrap()
}

/// A dataset with more than a dozen shards of train entries.
fn many_shards(directory: &Path) {
    let made = "synth -o d --dims 3000,2000,20 --rank 1,1,1 --entries 300000 --validation 0.1";
    json(directory, made);
    let shards = std::fs::read_dir(directory.join("d/train")).unwrap().count();
    assert!(shards > 12, "{shards} shards");
}

const COMPLETE: &str = "complete d -o run --rank 1,1,1 --max-iterations 2 --bias none --penalty 0";

#[test]
fn a_low_limit_on_open_files_is_raised() {
    let directory = folder();
    let path = directory.path();
    many_shards(path);
    for command in [COMPLETE, "evaluate run", "verify d"] {
        let output = after(path, "ulimit -Sn 12", command);
        assert!(output.status.success(), "{command}: {}", stderr(&output));
    }
}

/// The limit is that of the program that the library is in.
#[test]
fn the_library_leaves_the_limit_as_it_is() {
    use tenfill_engine::usage::most_open_files;
    let place = "TENFILL_TEST_OF_LIMIT";
    if let Some(folder) = std::env::var_os(place) {
        let (folder, control) = (Path::new(&folder), tenfill_engine::control::Control::default());
        let options =
            tenfill_engine::convert::ConvertOptions::new(vec![folder.join("in.csv")], folder.join("d"));
        tenfill_engine::convert::convert(&options, &control).unwrap();
        let dataset = tenfill_engine::shard::Dataset::open(folder.join("d")).unwrap();
        dataset.shards(tenfill_engine::shard::Split::Train).unwrap();
        assert_eq!(most_open_files(), Some(200));
        return;
    }
    let directory = folder();
    std::fs::write(directory.path().join("in.csv"), "user,item,rating\n1,2,3\n4,5,6\n").unwrap();
    let this = "open_files::the_library_leaves_the_limit_as_it_is";
    let output = Command::new("sh")
        .args(["-c", &format!("ulimit -Sn 200; exec \"$0\" --exact {this}")])
        .arg(std::env::current_exe().unwrap())
        .env(place, directory.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), stderr(&output));
    assert!(directory.path().join("d").is_dir());
}

#[test]
fn a_limit_that_cannot_be_raised_is_named() {
    let directory = folder();
    let path = directory.path();
    many_shards(path);
    let output = after(path, "ulimit -n 12", COMPLETE);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("than the 12 that") && said.contains("ulimit -n"), "{said}");
    // One file after the other is enough to look for what was observed.
    json(path, COMPLETE);
    let recommend = "recommend run --given mode2=5 --rank-mode mode1 --top 3";
    let output = after(path, "ulimit -n 12", recommend);
    assert!(output.status.success(), "{}", stderr(&output));
}
