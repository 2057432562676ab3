//! SIGINT and SIGTERM: a checkpoint of the last whole iteration is written; a second one ends at once.

use super::tool::{complete, newest, result, spawn, succeed, synth, wait_until};
use std::path::Path;
use std::process::{Child, Command};

fn signal(child: &Child, name: &str) {
    let done = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(done.success());
}

/// The iteration of the newest whole line of the log.
fn logged(run: &Path) -> usize {
    let log = std::fs::read_to_string(run.join("log.jsonl")).unwrap_or_default();
    log.matches('\n').count().saturating_sub(1)
}

/// Starts a run that would take very long, and waits until it is well under way.
fn begin(place: &Path, every: &str) -> Child {
    synth(&place.join("data"), 3);
    let (data, run) = (place.join("data"), place.join("run"));
    let mut arguments = complete(data.to_str().unwrap(), run.to_str().unwrap(), "100000000");
    arguments.extend(["--algorithm", "sd", "--metric", "euclidean", "--checkpoint-every", every]);
    // Its standard error is closed at once: that nobody listens must not end a run.
    let (mut child, _) = spawn(&arguments);
    wait_until(&mut child, || logged(&run) >= 5);
    child
}

/// The interrupted run, taken further, equals one that was never interrupted.
fn goes_on(place: &Path) {
    let run = place.join("run");
    let end = (logged(&run) + 5).to_string();
    succeed(&["resume", run.to_str().unwrap(), "--max-iterations", &end, "--threads", "1"]);
    let (data, whole) = (place.join("data"), place.join("whole"));
    let mut arguments = complete(data.to_str().unwrap(), whole.to_str().unwrap(), &end);
    arguments.extend(["--algorithm", "sd", "--metric", "euclidean"]);
    succeed(&arguments);
    assert!(result(&run) == result(&whole));
}

#[test]
fn the_first_signal_ends_with_a_checkpoint() {
    for name in ["-INT", "-TERM"] {
        let place = tempfile::tempdir().unwrap();
        let mut child = begin(place.path(), "0");
        signal(&child, name);
        assert_eq!(child.wait().unwrap().code(), Some(130));
        let run = place.path().join("run");
        assert_eq!(newest(&run), Some(logged(&run)), "the checkpoint is that of the last iteration");
        goes_on(place.path());
    }
}

#[test]
fn the_second_signal_ends_at_once_and_loses_nothing() {
    let place = tempfile::tempdir().unwrap();
    let mut child = begin(place.path(), "1");
    let run = place.path().join("run");
    wait_until(&mut child, || newest(&run).is_some());
    let before = newest(&run);
    signal(&child, "-TERM");
    signal(&child, "-TERM");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(newest(&run) >= before);
    succeed(&["verify", run.to_str().unwrap()]);
    goes_on(place.path());
}
