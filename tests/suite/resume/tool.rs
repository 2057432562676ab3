//! The program, and what its runs have come to.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenfill"));
    command.args(arguments);
    command
}

pub fn run(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

/// Runs a command that must succeed; what it said on standard error comes back.
pub fn succeed(arguments: &[&str]) -> String {
    let output = run(arguments);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {told}");
    told
}

/// Runs a command that must fail with one sentence, which comes back.
pub fn fail(arguments: &[&str]) -> String {
    let output = run(arguments);
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {told}");
    told
}

/// Makes a dataset whose completion does not end by itself within a few hundred iterations. That of order 3
/// is sparse enough for the metric to be damped, that of order 4 is not.
pub fn synth(path: &Path, order: usize) {
    let (dims, rank) = match order {
        3 => ("80,70,60", "3"),
        _ => ("16,12,10,8", "2"),
    };
    let path = path.to_str().unwrap();
    succeed(&[
        "synth",
        "-o",
        path,
        "--dims",
        dims,
        "--rank",
        rank,
        "--oversampling",
        "8",
        "--noise",
        "0.01",
        "--validation",
        "0.1",
    ]);
}

/// Starts `complete` with options under which only `--max-iterations` ends it.
pub fn complete<'a>(dataset: &'a str, out: &'a str, iterations: &'a str) -> Vec<&'a str> {
    vec![
        "complete",
        dataset,
        "-o",
        out,
        "--rank",
        "2",
        "--max-iterations",
        iterations,
        "--tolerance",
        "0",
        "--patience",
        "0",
        "--gradient-tolerance",
        "0",
        "--bias",
        "none",
        "--penalty",
        "0",
        "-v",
    ]
}

/// What a run has come to: the model's bytes, the log without times, the errors on every split.
#[derive(Debug, PartialEq)]
pub struct Result {
    model: Vec<u8>,
    log: Vec<Value>,
    errors: Vec<String>,
}

/// The same, with what `evaluate` says of it.
pub fn result(path: &Path) -> Result {
    let (model, log) = crate::common::result(path);
    let run_path = path.to_str().unwrap();
    let errors = ["train", "validation", "test"].map(|split| {
        let output = run(&["evaluate", run_path, "--on", split, "--json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let last: Value = serde_json::from_slice(&output.stdout).unwrap();
        format!("{} {}", last["mse"], last["mae"])
    });
    Result { model, log, errors: errors.into() }
}

/// The iteration of the newest checkpoint file.
pub fn newest(run: &Path) -> Option<usize> {
    let entries = std::fs::read_dir(run.join("checkpoints")).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().to_string());
    names.filter_map(|name| name.strip_suffix(".checkpoint")?.parse().ok()).max()
}

/// Starts a command whose standard error can be watched.
pub fn spawn(arguments: &[&str]) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut child =
        command(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    (child, lines.map_while(std::result::Result::ok))
}

/// The iteration of which a line says that its checkpoint is durable.
pub fn reported(line: &str) -> Option<usize> {
    line.strip_prefix("checkpoint ")?.strip_suffix(" is durable")?.parse().ok()
}

/// Waits for something that a running program does; it must not end before.
pub fn wait_until(child: &mut Child, mut happened: impl FnMut() -> bool) {
    while !happened() {
        assert!(child.try_wait().unwrap().is_none() || happened(), "the program has ended");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
