//! The same bits, wherever the run was interrupted.

use super::tool::{complete, newest, reported, result, spawn, succeed, synth};
use std::path::Path;
use tenfill_engine::kernel::Precision;
use tenfill_engine::objective::Needs;
use tenfill_engine::shard::Dataset;

const LAST: usize = 36;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// From every checkpoint of a run to the next, with another number of threads each time.
fn chain(order: usize, options: &[&str]) {
    let place = tempfile::tempdir().unwrap();
    let [data, whole, parts] = ["data", "whole", "parts"].map(|name| place.path().join(name));
    synth(&data, order);
    let last = LAST.to_string();
    succeed(&[&complete(text(&data), text(&whole), &last)[..], &["--threads", "2"], options].concat());
    let expected = result(&whole);
    succeed(&[&complete(text(&data), text(&parts), "1")[..], &["--threads", "1"], options].concat());
    for iteration in 2..=LAST {
        let threads = (iteration % 3 + 1).to_string();
        let end = iteration.to_string();
        let told = succeed(&["resume", text(&parts), "--max-iterations", &end, "--threads", &threads]);
        assert!(told.contains(&format!("going on from checkpoint {}", iteration - 1)), "{told}");
        assert_eq!(newest(&parts), Some(iteration));
    }
    assert!(result(&parts) == expected);
}

#[test]
fn every_checkpoint_of_order_3_goes_on_to_the_same_bits() {
    chain(3, &[]);
}

#[test]
fn every_checkpoint_of_order_4_goes_on_to_the_same_bits() {
    chain(4, &[]);
}

#[test]
fn every_checkpoint_of_geomcg_goes_on_to_the_same_bits() {
    chain(3, &["--algorithm", "geomcg"]);
}

/// kill -9 as soon as a checkpoint is reported, for one checkpoint after the other.
fn kills(order: usize) {
    let place = tempfile::tempdir().unwrap();
    let [data, whole] = ["data", "whole"].map(|name| place.path().join(name));
    synth(&data, order);
    let last = LAST.to_string();
    succeed(&complete(text(&data), text(&whole), &last));
    let expected = result(&whole);
    for checkpoint in 1..LAST {
        let run = place.path().join(format!("run{checkpoint}"));
        let mut arguments = complete(text(&data), text(&run), &last);
        arguments.extend(["--checkpoint-every", "1", "--threads", "1"]);
        let (mut child, lines) = spawn(&arguments);
        let seen = lines.filter_map(|line| reported(&line)).find(|&seen| seen >= checkpoint);
        child.kill().unwrap();
        child.wait().unwrap();
        let seen = seen.expect("the checkpoint is reported");
        assert!(newest(&run) >= Some(seen), "{:?} is behind {seen}", newest(&run));
        let told = succeed(&["resume", text(&run), "--threads", "3", "--memory", "48M"]);
        assert!(told.contains("going on from checkpoint "), "{told}");
        assert!(result(&run) == expected, "killed after checkpoint {seen}");
        std::fs::remove_dir_all(&run).unwrap();
    }
}

#[test]
fn killed_after_each_checkpoint_a_run_of_order_3_goes_on_to_the_same_bits() {
    kills(3);
}

#[test]
fn killed_after_each_checkpoint_a_run_of_order_4_goes_on_to_the_same_bits() {
    kills(4);
}

/// Written between passes, where the budget has no room for a copy of the state, checkpoints are
/// the same.
#[test]
fn a_tight_budget_gives_the_same_bits() {
    let place = tempfile::tempdir().unwrap();
    let [data, whole, run] = ["data", "whole", "run"].map(|name| place.path().join(name));
    let options = ["--rank", "2", "--entries", "20000", "--validation", "0.1"];
    succeed(&[&["synth", "-o", text(&data), "--dims", "90000,70000,50000"], &options[..]].concat());
    let dataset = Dataset::open(&data).unwrap();
    let needs = Needs::of(&dataset, &[2, 2, 2], Precision::Mixed, None, 1).with_chunks();
    let needs = needs.with_coordinates(dataset.manifest()).with_growth(dataset.manifest(), &[2, 2, 2], 1);
    let tight = (needs.total(1) + needs.copy / 2).to_string();
    let waits = "passes wait for checkpoints";
    let told = succeed(&complete(text(&data), text(&whole), "8"));
    assert!(!told.contains(waits), "{told}");
    let every = ["--checkpoint-every", "2", "--threads", "1", "--memory", &tight];
    let told = succeed(&[&complete(text(&data), text(&run), "5")[..], &every].concat());
    let reports: Vec<usize> = told.lines().filter_map(reported).collect();
    assert_eq!(reports, [2, 4, 5], "{told}");
    assert!(told.contains(waits), "{told}");
    succeed(&["resume", text(&run), "--max-iterations", "8", "--threads", "1", "--memory", &tight]);
    assert!(result(&run) == result(&whole));
}
