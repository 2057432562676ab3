//! kill -9 at random moments of `complete`, `resume` and `convert`.
//!
//! A few rounds by default; `tools/kill-test.sh` does two hundred of each
//! (`TENFILL_KILL_ROUNDS`, `TENFILL_KILL_SEED`).

use crate::common::result;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn tenfill(arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_tenfill")).args(arguments).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {told}");
    output
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Splitmix: moments that can be had again.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: Duration) -> Duration {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        limit.mul_f64((x >> 11) as f64 / (1u64 << 53) as f64)
    }
}

/// Starts a command and kills it after a while, unless it has ended; its standard error comes back,
/// and whether it came to its end.
fn kill_after(arguments: &[&str], moment: Duration) -> (String, bool) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenfill"));
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::thread::sleep(moment);
    let ended = child.try_wait().unwrap().is_some();
    child.kill().unwrap();
    let status = child.wait().unwrap();
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert!(!ended || status.success(), "{arguments:?}: {told}");
    (told, ended)
}

fn temporaries(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().to_string());
        if name.contains(".tenfill-") || name.starts_with(".tmp") {
            found.push(path);
        } else if path.is_dir() {
            found.extend(temporaries(&path));
        }
    }
    found
}

fn newest_checkpoint(run: &Path) -> Option<u64> {
    let names = std::fs::read_dir(run.join("checkpoints")).into_iter().flatten().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().to_string());
    names.filter_map(|name| name.strip_suffix(".checkpoint")?.parse().ok()).max()
}

fn newest_report(told: &str) -> Option<u64> {
    told.lines()
        .filter_map(|line| line.strip_prefix("checkpoint ")?.strip_suffix(" is durable")?.parse().ok())
        .max()
}

#[test]
fn a_killed_run_goes_on_from_what_it_reported() {
    let place = tempfile::tempdir().unwrap();
    let [table, whole, run] = ["t.csv", "whole", "run"].map(|name| place.path().join(name));
    let [table, whole_text, run_text] = [&table, &whole, &run].map(|path| path.to_str().unwrap());
    tenfill(&["synth", "-o", table, "--dims", "300,200,100", "--rank", "4", "--oversampling", "10"]);
    let options = "--rank 4 --max-iterations 60 --tolerance 0 --patience 0 --gradient-tolerance 0 -v";
    let options: Vec<&str> = options.split(' ').collect();
    let begun = Instant::now();
    tenfill(&[&["complete", table, "-o", whole_text], &options[..]].concat());
    let takes = begun.elapsed();
    let expected = result(&whole);

    let mut random = Random(number("TENFILL_KILL_SEED", 1));
    let (mut reported, mut runs) = (None, 0);
    let rounds = number("TENFILL_KILL_ROUNDS", 12);
    for round in 0..rounds {
        // Each start gets a part of the time of the whole, so that a run is killed several times.
        let moment = random.below(takes.mul_f64(0.7));
        let is_run = run.join("config.json").exists();
        let (told, ended) = if is_run {
            kill_after(
                &["resume", run_text, "--max-iterations", "60", "--checkpoint-every", "1", "-v"],
                moment,
            )
        } else {
            let every = ["--checkpoint-every", "1"];
            kill_after(&[&["complete", table, "-o", run_text], &options[..], &every].concat(), moment)
        };
        reported = reported.max(newest_report(&told));
        let found = newest_checkpoint(&run);
        assert!(found >= reported, "round {round}: {reported:?} was reported, {found:?} is there");
        if !run.join("config.json").exists() {
            continue; // it was still reading its table: complete begins again
        }
        tenfill(&["verify", run_text]);
        // A start that has nothing to do, to see that it cleans.
        let newest = found.unwrap_or(0).to_string();
        tenfill(&["resume", run_text, "--max-iterations", &newest]);
        assert_eq!(temporaries(&run), [] as [&Path; 0], "round {round}");
        if ended {
            assert!(result(&run) == expected, "round {round}: other bits");
            std::fs::remove_dir_all(&run).unwrap();
            (reported, runs) = (None, runs + 1);
        }
    }
    if run.join("config.json").exists() {
        tenfill(&["resume", run_text, "--max-iterations", "60"]);
        assert!(result(&run) == expected, "other bits at the end");
        runs += 1;
    }
    println!("complete and resume: {rounds} rounds, {runs} runs came to the same bits");
}

/// The bytes of all files of a dataset.
fn bytes(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(
                bytes(&path)
                    .into_iter()
                    .map(|(name, bytes)| (PathBuf::from(path.file_name().unwrap()).join(name), bytes)),
            );
        } else {
            found.push((path.file_name().unwrap().into(), std::fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn a_killed_conversion_leaves_the_old_dataset_or_the_new_one() {
    let place = tempfile::tempdir().unwrap();
    let name = |name: &str| place.path().join(name).to_str().unwrap().to_string();
    let (tables, output) = (["a.csv", "b.csv"].map(name), name("data"));
    let mut expected = Vec::new();
    let mut takes = Duration::MAX;
    for (number, table) in tables.iter().enumerate() {
        let (seed, plain) = ((number + 1).to_string(), name(&format!("plain{number}")));
        tenfill(&[
            "synth",
            "-o",
            table,
            "--dims",
            "2000,1000,500",
            "--rank",
            "4",
            "--oversampling",
            "10",
            "--seed",
            &seed,
        ]);
        let begun = Instant::now();
        tenfill(&["convert", table, "-o", &plain]);
        takes = takes.min(begun.elapsed());
        expected.push(bytes(Path::new(&plain)));
    }
    let mut random = Random(number("TENFILL_KILL_SEED", 1));
    let rounds = number("TENFILL_KILL_ROUNDS", 12);
    let (mut holds, mut ended_rounds) = (None, 0);
    for round in 0..rounds {
        let table = (round % 2) as usize;
        let (_, ended) =
            kill_after(&["convert", &tables[table], "-o", &output, "--force"], random.below(takes));
        ended_rounds += u32::from(ended);
        if !Path::new(&output).exists() {
            assert!(holds.is_none() && !ended, "round {round}: the dataset is gone");
            continue;
        }
        tenfill(&["verify", &output]);
        let found = bytes(Path::new(&output));
        let new = found == expected[table];
        assert!(new || !ended && holds.is_some_and(|old: usize| found == expected[old]), "round {round}");
        holds = if new { Some(table) } else { holds };
    }
    // The next start cleans, even where it has nothing else to do.
    tenfill(&["convert", &tables[0], "-o", &output, "--force"]);
    assert_eq!(temporaries(place.path()), [] as [&Path; 0]);
    println!("convert: {rounds} rounds, {ended_rounds} came to their end before the kill");
}
