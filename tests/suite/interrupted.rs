//! Ctrl-C, kill -9, a full disk: nothing is left that looks like a dataset, and the next run works.

use crate::common::{folder, names, run, stderr, tenfill};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

/// Waits for what is written under a temporary name, so that the work has begun; gives that name.
fn begun(directory: &Path, name: &str) -> String {
    let start = Instant::now();
    let temporary = |found: &String| found.starts_with(&format!(".{name}.")) && found.contains(".tenfill-");
    loop {
        if let Some(found) = names(directory).into_iter().find(temporary) {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "{name} was never begun");
        sleep(Duration::from_millis(5));
    }
}

/// The exit code of a child that must end by itself, soon.
fn code(mut child: Child) -> (Option<i32>, String) {
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < Duration::from_secs(30), "it does not end");
        sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    (output.status.code(), stderr(&output))
}

fn spawn(directory: &Path, arguments: &str) -> Child {
    let mut command = tenfill(directory);
    command.args(arguments.split_whitespace()).stderr(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().unwrap()
}

fn pipe(directory: &Path, name: &str) {
    assert!(Command::new("mkfifo").arg(directory.join(name)).status().unwrap().success());
}

const COLUMNS: &str = "--modes user,item --value rating";

#[test]
fn ctrl_c_while_waiting_for_a_pipe() {
    let directory = folder();
    let path = directory.path();
    pipe(path, "in");
    for writes in [false, true] {
        let child = spawn(path, &format!("convert in -o out {COLUMNS}"));
        // Open it without waiting for the reader, so that a failing program cannot hang the test.
        let mut writer = File::options().read(true).write(true).open(path.join("in")).unwrap();
        if writes {
            writer.write_all(b"user,item,rating\n1,2,3\n4,5,6\n").unwrap();
        }
        begun(path, "out");
        sleep(Duration::from_millis(200));
        signal(&child, "INT");
        assert_eq!(code(child), (Some(130), "tenfill: interrupted\n".into()), "writes: {writes}");
        assert_eq!(names(path), ["in"]);
    }
}

#[test]
fn a_pipe_is_read_from_its_first_byte() {
    let directory = folder();
    let path = directory.path();
    pipe(path, "in");
    let child = spawn(path, &format!("convert in -o out {COLUMNS} --split none --json"));
    fs::write(path.join("in"), "user,item,rating\n1,2,3\n4,5,6\n").unwrap();
    assert_eq!(code(child), (Some(0), String::new()));
    assert_eq!(crate::common::contents(&path.join("out")).len(), 2);
}

#[test]
fn ctrl_c_while_entries_are_made_and_sorted() {
    let directory = folder();
    let path = directory.path();
    let synth = "--dims 3000,3000,3000 --rank 2 --entries 80000000 --memory 64M";
    for (output, pause) in [("out", 50), ("out", 1500), ("out.csv", 300)] {
        let child = spawn(path, &format!("synth -o {output} {synth}"));
        begun(path, output);
        sleep(Duration::from_millis(pause));
        signal(&child, if pause == 50 { "TERM" } else { "INT" });
        assert_eq!(code(child), (Some(130), "tenfill: interrupted\n".into()), "{output} after {pause} ms");
        assert!(names(path).is_empty(), "{output}: {:?}", names(path));
    }
}

#[test]
fn what_a_killed_process_left_is_cleaned() {
    let directory = folder();
    let path = directory.path();
    pipe(path, "in");
    let mut child = spawn(path, &format!("convert in -o out {COLUMNS}"));
    let left = begun(path, "out");
    sleep(Duration::from_millis(300)); // it is locked right after it is made
    // While it runs, another one keeps its hands off.
    fs::write(path.join("a.csv"), "user,item,rating\n1,2,3\n4,5,6\n").unwrap();
    let second = tenfill(path).args(["convert", "a.csv", "-o", "out"]).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(stderr(&second).contains("another tenfill is writing out"), "{}", stderr(&second));
    signal(&child, "KILL");
    child.wait().unwrap();
    assert_eq!(names(path), [left.as_str(), "a.csv", "in"]);
    assert_eq!(tenfill(path).args(["inspect", "out"]).status().unwrap().code(), Some(1));
    run(path, ["convert", "a.csv", "-o", "out", "--split", "none"]);
    assert_eq!(names(path), ["a.csv", "in", "out"]);
}

#[test]
fn what_a_killed_fill_left_is_cleaned() {
    let directory = folder();
    let path = directory.path();
    rows(&path.join("in.csv"));
    let mut table = fs::read_to_string(path.join("in.csv")).unwrap();
    table += "1,2,\n";
    fs::write(path.join("in.csv"), table).unwrap();
    let mut child = spawn(path, &format!("fill in.csv -o out.csv {COLUMNS}"));
    let left = begun(path, "out.csv");
    sleep(Duration::from_millis(300)); // it is locked right after it is made
    signal(&child, "KILL");
    child.wait().unwrap();
    assert_eq!(names(path), [left.as_str(), "in.csv"]);
    let small: String = (0..200).map(|n| format!("{},{},{}\n", n % 20, n / 20, n % 7)).collect();
    fs::write(path.join("in.csv"), format!("user,item,rating\n{small}3,11,\n")).unwrap();
    run(path, format!("fill in.csv -o out.csv --rank 1 {COLUMNS}").split(' '));
    assert_eq!(names(path), ["in.csv", "out.csv"]);
}

/// Some megabytes of rows.
fn rows(path: &Path) {
    let mut text = "user,item,rating\n".to_string();
    (0..400_000u64).for_each(|n| text += &format!("{},{},{}\n", n % 1999, n * 31 % 4001, n as f64 / 3.0));
    fs::write(path, text).unwrap();
}

#[test]
fn a_limit_on_file_sizes_is_an_error_like_others() {
    let directory = folder();
    let path = directory.path();
    rows(&path.join("in.csv"));
    let convert = format!("convert in.csv -o out {COLUMNS} --memory 16M");
    let script = format!("ulimit -f 1000; exec {} {convert}", env!("CARGO_BIN_EXE_tenfill"));
    let output = Command::new("bash").current_dir(path).args(["-c", &script]).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.lines().count() == 1 && said.contains("ulimit -f"), "{said}");
    assert_eq!(names(path), ["in.csv"]);
}

/// A small file system, gone when dropped.
struct Small<'p>(&'p Path);

impl<'p> Small<'p> {
    fn mount(path: &'p Path, size: &str) -> Option<Self> {
        let size = format!("size={size}");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(path).output();
        mount.is_ok_and(|output| output.status.success()).then_some(Small(path))
    }
}

impl Drop for Small<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn a_full_disk() {
    let directory = folder();
    let path = directory.path();
    rows(&path.join("in.csv"));
    let small = path.join("small");
    fs::create_dir(&small).unwrap();
    let Some(_mounted) = Small::mount(&small, "2m") else {
        return crate::common::skipped("only root may mount a small disk to fill");
    };
    // The shards, the scratch files, a plain file.
    for arguments in [
        format!("convert in.csv -o small/out {COLUMNS}"),
        format!("convert in.csv -o out {COLUMNS} --memory 16M --temp-dir small"),
        "synth -o small/x.csv --dims 300,300,300 --entries 1000000".into(),
    ] {
        let output = tenfill(path).args(arguments.split_whitespace()).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments}: {said}");
        assert!(said.lines().count() == 1 && said.contains("disk is full"), "{arguments}: {said}");
        assert!(names(&small).is_empty(), "{arguments}: {:?}", names(&small));
        assert_eq!(names(path), ["in.csv", "small"], "{arguments}");
    }
}
