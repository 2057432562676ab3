//! Memory, threads and signals, and bytes that change during a run.

use crate::common::{bytes, folder, run, stderr};
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A dataset `d` of text and of integer ids, in `directory`.
pub(super) fn dataset(directory: &Path) {
    let rows = (0..400).map(|n| format!("u{},{},{}\n", n % 20, 3 * (n / 20), 1 + n * 7 % 5));
    fs::write(directory.join("r.csv"), "user,item,rating\n".to_string() + &rows.collect::<String>()).unwrap();
    run(directory, "convert r.csv -o d".split(' '));
}

/// Starts the arguments (words between blanks).
pub(super) fn start(directory: &Path, arguments: &str) -> Child {
    // Whoever runs the tests may have the hangup ignored, and a child would inherit that.
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_tenfill")]).args(arguments.split(' '));
    command.current_dir(directory).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// What a child said, which must end soon.
pub(super) fn ended(mut child: Child) -> Output {
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("it did not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

/// Runs the arguments, which must fail with one sentence that holds all of `needles`.
pub(super) fn refused(directory: &Path, arguments: &str, needles: &[&str]) {
    let output = ended(start(directory, arguments));
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{arguments}: {said}");
    // Beside the error, a run may have said where it goes on from.
    let sentences = said.lines().filter(|line| !line.starts_with("going on from"));
    assert!(!said.contains("panicked") && sentences.count() == 1, "{arguments}: {said}");
    needles.iter().for_each(|needle| assert!(said.contains(needle), "{arguments}: no '{needle}' in {said}"));
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

/// Starts a run on `d` that would take very long, and waits until it is under way.
fn begin(directory: &Path) -> Child {
    let options = "--algorithm sd --metric euclidean --bias none --penalty 0 --tolerance 0 --patience 0";
    let arguments = format!("complete d -o run --rank 2 --max-iterations 100000000 {options}");
    let mut child = start(directory, &arguments);
    wait_for_lines(directory, &mut child);
    child
}

fn wait_for_lines(directory: &Path, child: &mut Child) {
    let log = directory.join("run/log.jsonl");
    while fs::read_to_string(&log).unwrap_or_default().lines().count() < 5 {
        assert!(child.try_wait().unwrap().is_none(), "it has ended already");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn shard(directory: &Path) -> PathBuf {
    directory.join("d/train/00000.shard")
}

#[test]
fn text_ids_beyond_the_budget_are_sorted_on_disk_to_the_same_bytes() {
    let place = folder();
    let mut file = BufWriter::new(File::create(place.path().join("r.csv")).unwrap());
    writeln!(file, "user,item,rating").unwrap();
    // Words, integers large and small, numbers that are no integers, and ids that come again late.
    for n in 0..150_000u64 {
        let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let user = match mixed % 5 {
            0 => format!("{}", mixed % 90_000),
            1 => format!("-{mixed}"),
            2 => format!("{}.5", mixed % 70_000),
            _ => format!("somebody with the quite long name {:08}", mixed % 100_000),
        };
        writeln!(file, "{user},item {:07} of the long list,{}", n * 7 % 140_000, n % 5).unwrap();
    }
    drop(file);
    let convert = |out: &str, memory: &str| {
        let arguments = format!("convert r.csv -o {out} --threads 1 --memory {memory}");
        run(place.path(), arguments.split(' '))["peak_anon_bytes"].as_u64().unwrap()
    };
    convert("large", "1G");
    let peak = convert("small", "16M");
    assert!(bytes(&place.path().join("large")) == bytes(&place.path().join("small")));
    assert!(peak < 24 << 20, "{peak} bytes at the peak");
    run(place.path(), ["verify", "small"]);
}

#[test]
fn many_integers_and_one_text_take_no_more_than_integers() {
    let place = folder();
    let rows = 2_500_000u64;
    let mut file = BufWriter::new(File::create(place.path().join("r.csv")).unwrap());
    writeln!(file, "user,item,rating\nnobody,1,3").unwrap();
    (0..rows).for_each(|n| writeln!(file, "{n},{},{}", n % 10, n % 5).unwrap());
    drop(file);
    let arguments = "convert r.csv -o d --threads 1 --memory 24M --split 100/0/0";
    let done = run(place.path(), arguments.split(' '));
    assert_eq!(done["dims"][0].as_u64(), Some(rows + 1));
    let peak = done["peak_anon_bytes"].as_u64().unwrap();
    assert!(peak < 48 << 20, "{peak} bytes at the peak");
}

#[test]
fn a_million_threads_are_not_started_and_it_is_said_once() {
    let place = folder();
    dataset(place.path());
    let arguments = "complete r.csv -o run --rank 1 --max-iterations 2 --threads 1000000";
    let output = ended(start(place.path(), arguments));
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches(" threads: ").count(), 1, "{said}");
}

#[test]
fn hangup_ends_a_run_with_a_checkpoint() {
    let place = folder();
    dataset(place.path());
    let child = begin(place.path());
    signal(&child, "-HUP");
    assert_eq!(ended(child).status.code(), Some(130));
    assert!(fs::read_dir(place.path().join("run/checkpoints")).unwrap().count() > 0);
}

#[test]
fn hangup_stays_ignored_under_nohup() {
    let place = folder();
    dataset(place.path());
    let program = env!("CARGO_BIN_EXE_tenfill");
    let line = format!(
        "trap '' HUP; exec {program} complete d -o run --rank 2 --max-iterations 100000000 --algorithm sd \
         --metric euclidean --bias none --penalty 0 --tolerance 0 --patience 0"
    );
    let mut command = Command::new("sh");
    command.args(["-c", &line]).current_dir(place.path());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_lines(place.path(), &mut child);
    signal(&child, "-HUP");
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "a hangup ended it");
    signal(&child, "-TERM");
    assert_eq!(ended(child).status.code(), Some(130));
}

#[test]
fn a_pipe_that_nobody_writes_to_can_be_interrupted() {
    let place = folder();
    dataset(place.path());
    run(place.path(), "complete d -o run --rank 1 --max-iterations 2".split(' '));
    assert!(Command::new("mkfifo").arg(place.path().join("pipe")).status().unwrap().success());
    for arguments in
        ["convert pipe -o out", "complete pipe -o out --rank 1", "predict run pipe", "evaluate run --on pipe"]
    {
        let mut child = start(place.path(), arguments);
        std::thread::sleep(Duration::from_millis(300));
        assert!(child.try_wait().unwrap().is_none(), "{arguments}: {}", stderr(&ended(child)));
        signal(&child, "-TERM");
        assert_eq!(ended(child).status.code(), Some(130), "{arguments}");
    }
}

#[test]
fn a_run_that_another_process_works_on_is_not_waited_for() {
    let place = folder();
    dataset(place.path());
    let child = begin(place.path());
    refused(place.path(), "resume run", &["another tenfill is at work on run"]);
    signal(&child, "-TERM");
    assert_eq!(ended(child).status.code(), Some(130));
}

#[test]
fn a_shard_that_is_overwritten_during_a_run_ends_it_with_its_name() {
    let place = folder();
    dataset(place.path());
    // Ids, ends and values in turn: whatever is hit, no kernel sees it.
    for at in [300, 500, 900] {
        let child = begin(place.path());
        let mut file = OpenOptions::new().write(true).open(shard(place.path())).unwrap();
        let good = fs::read(shard(place.path())).unwrap();
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(&[0xff; 40]).unwrap();
        let output = ended(child);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(!said.contains("panicked"), "{said}");
        assert!(said.contains("d/train/00000.shard") && said.contains("was changed while"), "{said}");
        fs::write(shard(place.path()), good).unwrap();
        fs::remove_dir_all(place.path().join("run")).unwrap();
    }
}

#[test]
fn a_shard_that_is_cut_short_during_a_run_ends_it_with_its_name() {
    let place = folder();
    dataset(place.path());
    let child = begin(place.path());
    OpenOptions::new().write(true).open(shard(place.path())).unwrap().set_len(100).unwrap();
    let output = ended(child);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("d/train/00000.shard") && said.contains("was cut short"), "{said}");
}
