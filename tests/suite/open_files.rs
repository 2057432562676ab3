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
