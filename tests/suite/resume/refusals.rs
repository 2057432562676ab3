//! What `resume` finds, says and refuses.

use super::tool::{complete, fail, newest, result, spawn, succeed, synth, wait_until};
use std::path::Path;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_damaged_checkpoint_is_named_and_the_older_one_used() {
    let place = tempfile::tempdir().unwrap();
    let [data, whole, run] = ["data", "whole", "run"].map(|name| place.path().join(name));
    synth(&data, 3);
    succeed(&complete(text(&data), text(&whole), "30"));
    for iterations in ["13", "23"] {
        if iterations == "13" {
            succeed(&complete(text(&data), text(&run), iterations));
        } else {
            succeed(&["resume", text(&run), "--max-iterations", iterations, "--checkpoint-every", "0"]);
        }
    }
    let file = run.join("checkpoints/00000023.checkpoint");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[1000] ^= 4;
    std::fs::write(&file, bytes).unwrap();
    let told = fail(&["verify", text(&run)]);
    assert!(told.contains("00000023.checkpoint at offset "), "{told}");
    let told = succeed(&["resume", text(&run), "--max-iterations", "30"]);
    assert!(told.contains("checkpoint 23 is damaged at offset "), "{told}");
    assert!(told.contains(", going on from 13"), "{told}");
    assert!(result(&run) == result(&whole));
    succeed(&["verify", text(&run)]);
}

#[test]
fn a_dataset_with_one_other_value_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let [table, data, run] = ["t.csv", "data", "run"].map(|name| place.path().join(name));
    succeed(&["synth", "-o", text(&table), "--dims", "20,15,10", "--rank", "2", "--oversampling", "8"]);
    let convert = ["convert", text(&table), "-o", text(&data), "--force"];
    succeed(&convert);
    succeed(&complete(text(&data), text(&run), "5"));
    succeed(&convert);
    succeed(&["resume", text(&run), "--max-iterations", "6"]);
    let rows = std::fs::read_to_string(&table).unwrap();
    let line = rows.lines().nth(40).unwrap();
    let (ids, _) = line.rsplit_once(',').unwrap();
    std::fs::write(&table, rows.replace(line, &format!("{ids},0.12345"))).unwrap();
    succeed(&convert);
    let told = fail(&["resume", text(&run), "--max-iterations", "10"]);
    assert!(told.contains("the dataset is not the one that this run began with"), "{told}");
    assert_eq!(newest(&run), Some(6));
    std::fs::rename(&data, place.path().join("elsewhere")).unwrap();
    let told = fail(&["resume", text(&run)]);
    assert!(told.contains("is not here any more"), "{told}");
}

#[test]
fn what_gives_the_state_its_meaning_cannot_change() {
    let place = tempfile::tempdir().unwrap();
    let [data, run] = ["data", "run"].map(|name| place.path().join(name));
    synth(&data, 3);
    succeed(&complete(text(&data), text(&run), "5"));
    for (option, value) in [("--rank", "3"), ("--seed", "2"), ("--metric", "euclidean"), ("--beta", "pr")] {
        let told = fail(&["resume", text(&run), option, value]);
        assert!(told.contains(&format!("{option} cannot change in a resumed run: ")), "{told}");
    }
    succeed(&["resume", text(&run), "--tolerance", "1e-3", "--patience", "4", "--memory", "64M"]);
    let config = std::fs::read_to_string(run.join("config.json")).unwrap();
    std::fs::write(run.join("config.json"), config.replace("\"seed\": 1", "\"seed\": 7")).unwrap();
    let told = fail(&["resume", text(&run)]);
    assert!(told.contains("seed is 1 there and 7 here"), "{told}");
}

#[test]
fn a_run_that_was_killed_before_its_first_checkpoint_begins_again() {
    let place = tempfile::tempdir().unwrap();
    let [data, whole, run] = ["data", "whole", "run"].map(|name| place.path().join(name));
    synth(&data, 4);
    succeed(&complete(text(&data), text(&whole), "12"));
    let (mut child, _) =
        spawn(&[&complete(text(&data), text(&run), "100000000")[..], &["--checkpoint-every", "0"]].concat());
    wait_until(&mut child, || run.join("log.jsonl").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    succeed(&["verify", text(&run)]);
    // Of two temporary files the one whose name proves itself is ours.
    let ours = tenfill_engine::storage::temporary_path(&run.join("config.json"));
    std::fs::write(&ours, "half").unwrap();
    std::fs::write(run.join(".config.json.partial"), "mine").unwrap();
    let told = succeed(&["resume", text(&run), "--max-iterations", "12"]);
    assert!(told.contains("starting from the beginning"), "{told}");
    assert!(result(&run) == result(&whole));
    assert!(!ours.exists() && run.join(".config.json.partial").exists());
}

#[test]
fn a_raw_file_can_be_completed_again_after_a_kill_during_its_conversion() {
    let place = tempfile::tempdir().unwrap();
    let [table, run, moved] = ["t.csv", "run", "moved"].map(|name| place.path().join(name));
    succeed(&["synth", "-o", text(&table), "--dims", "20,15,10", "--rank", "2", "--oversampling", "8"]);
    let pipe = place.path().join("pipe.csv");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (mut child, _) = spawn(&complete(text(&pipe), text(&run), "5"));
    let begun = || crate::common::names(place.path()).iter().any(|name| name.starts_with(".run."));
    // Without its mark a folder cannot be told to be ours, and stays: neither the run's nor its dataset's.
    let marked = |folder: &Path| folder.join(".tenfill-partial").exists();
    let folders = |folder: &Path| {
        let inside = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        inside.filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let converting = || {
        let mut runs = folders(place.path()).into_iter().filter(|run| marked(run));
        runs.any(|run| folders(&run).iter().any(|data| marked(data)))
    };
    wait_until(&mut child, converting);
    child.kill().unwrap();
    child.wait().unwrap();
    let told = fail(&["resume", text(&run)]);
    assert!(told.contains("there is no such run"), "{told}");
    succeed(&complete(text(&table), text(&run), "5"));
    assert!(!begun(), "what was left is gone");
    // The dataset lies inside, so the whole can be moved.
    std::fs::rename(&run, &moved).unwrap();
    succeed(&["resume", text(&moved), "--max-iterations", "8"]);
    assert_eq!(newest(&moved), Some(8));
    let told = fail(&complete(text(&table), text(&moved), "5"));
    assert!(told.contains("exists already") && told.contains("resume"), "{told}");
    succeed(&[&complete(text(&table), text(&moved), "4")[..], &["--force"]].concat());
    assert_eq!(newest(&moved), Some(4));
    // A directory of the user's is never taken for one of ours.
    let own = place.path().join("own");
    std::fs::create_dir(&own).unwrap();
    std::fs::write(own.join("notes"), "mine").unwrap();
    fail(&[&complete(text(&table), text(&own), "4")[..], &["--force"]].concat());
    assert!(own.join("notes").exists());
}

#[test]
fn two_processes_on_one_run_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let [data, run] = ["data", "run"].map(|name| place.path().join(name));
    synth(&data, 3);
    let mut arguments = complete(text(&data), text(&run), "100000000");
    arguments.extend(["--algorithm", "sd", "--metric", "euclidean"]);
    let (mut child, _) = spawn(&arguments);
    wait_until(&mut child, || run.join("log.jsonl").exists());
    let told = fail(&["resume", text(&run)]);
    let forced = fail(&[&complete(text(&data), text(&run), "4")[..], &["--force"]].concat());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(told.contains("another tenfill is at work"), "{told}");
    assert!(forced.contains("another tenfill is at work"), "{forced}");
}
