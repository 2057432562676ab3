//! Outputs: only what is provably ours is replaced, and last.

use crate::common::{failure, folder, json, names, stderr, tenfill};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// All that is in a folder: files with their bytes, links with where they lead, folders with nothing.
pub type Tree = BTreeMap<PathBuf, Option<Vec<u8>>>;

pub fn tree(folder: &Path) -> Tree {
    let (mut found, mut left) = (Tree::new(), vec![folder.to_path_buf()]);
    while let Some(path) = left.pop() {
        let Ok(kind) = path.symlink_metadata() else { continue };
        let inside = path.strip_prefix(folder).unwrap().to_path_buf();
        if kind.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            found.insert(inside, None);
        } else if kind.is_symlink() {
            found.insert(inside, Some(fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()));
        } else if kind.is_file() {
            found.insert(inside, Some(fs::read(&path).unwrap()));
        }
    }
    found
}

pub fn table(seed: u64) -> String {
    let mut text = String::from("user,item,rating\n");
    for n in 0..240u64 {
        let (user, item) = (n % 16, n / 16);
        text += &format!("u{user},{},{}\n", item * 3 + 1, (n * 7 + user * item + seed) % 5 + 1);
    }
    text
}

/// One complete of a few iterations.
pub const COMPLETE: &str = "--rank 2 --max-iterations 4 --bias none --penalty 0 --threads 1";

/// Tables, a dataset, a run, an export and parts.
pub fn prepare(path: &Path) {
    fs::write(path.join("a.csv"), table(1)).unwrap();
    fs::write(path.join("new.csv"), "user,item,rating\nzoe,1,3\nzoe,4,5\n").unwrap();
    fs::write(path.join("q.csv"), "user,item\nu1,4\nu2,7\n").unwrap();
    json(path, "convert a.csv -o d");
    json(path, &format!("complete a.csv -o run {COMPLETE}"));
    json(path, "export run -o exported --format csv");
    json(path, "distribute d --hosts 2 -o parts");
}

fn write(path: &Path, file: &str, text: &str) {
    let file = path.join(file);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

/// Folders of others, with files of the names that ours have.
pub fn strangers(path: &Path) {
    write(path, "web/manifest.json", r#"{"name": "My page", "start_url": "/", "icons": []}"#);
    write(path, "web/index.html", "<html></html>");
    write(path, "keras/model.json", r#"{"class_name": "Sequential", "keras_version": "2.9"}"#);
    write(path, "keras/weights.h5", "weights");
    write(path, "face/config.json", r#"{"model_type": "bert", "hidden_size": 768, "format_version": 1}"#);
    write(path, "face/model/pytorch_model.bin", "weights");
    write(path, "shards/part-0/manifest.json", r#"{"part": 0}"#);
    write(path, "locked/.lock", "");
    write(path, "locked/model/mine.bin", "mine");
    write(path, "locked/checkpoints/1.pt", "mine");
    write(path, "locked/log.jsonl", "{}\n");
}

/// Every command that writes a folder.
const FOLDERS: [&str; 7] = [
    "convert a.csv -o",
    "synth --dims 9,8,7 --rank 2 --entries 200 -o",
    "distribute d --hosts 2 -o",
    "export run -o",
    "fold-in run new.csv -o",
    "complete a.csv --rank 2 --max-iterations 2 -o",
    "complete d --rank 2 --max-iterations 2 -o",
];

#[test]
fn a_strangers_folder_is_never_replaced() {
    let place = folder();
    let path = place.path();
    prepare(path);
    strangers(path);
    let before = tree(path);
    for command in FOLDERS {
        for stranger in ["web", "keras", "face", "shards", "locked"] {
            for force in ["", " --force"] {
                let said = failure(path, &format!("{command} {stranger}{force}"));
                assert!(said.contains(stranger), "{command} {stranger}{force}: {said}");
                assert!(tree(path) == before, "{command} {stranger}{force}");
            }
        }
    }
}

#[test]
fn a_note_inside_an_output_of_ours_is_named_and_kept() {
    let place = folder();
    let path = place.path();
    prepare(path);
    let cases = [
        ("convert a.csv -o d --force", "d", vec!["notes.txt", "train/notes.txt", "modes/mine.arrow"]),
        ("distribute d --hosts 2 -o parts --force", "parts", vec!["notes", "part-1/notes"]),
        ("export run -o exported --force", "exported", vec!["plot.png", "factor-mine.csv"]),
        ("complete d --rank 2 -o run --force", "run", vec!["notes", "model/modes/x.arrow", "data.tenfill/n"]),
        ("fold-in other new.csv -o run --force", "run", vec!["checkpoints/best.checkpoint", ".notes"]),
    ];
    json(path, &format!("complete d -o other {COMPLETE}"));
    for (command, output, notes) in cases {
        for note in notes {
            for link in [false, true] {
                let file = path.join(output).join(note);
                if link {
                    symlink("a.csv", &file).unwrap()
                } else {
                    fs::write(&file, "mine").unwrap()
                }
                let before = tree(path);
                let said = failure(path, command);
                assert!(said.contains(note) && said.contains("is not a part of this"), "{command}: {said}");
                assert!(tree(path) == before, "{command} with {note}");
                fs::remove_file(&file).unwrap();
            }
        }
        json(path, command);
    }
}

#[test]
fn what_others_call_partial_or_old_stays() {
    let place = folder();
    let path = place.path();
    prepare(path);
    for name in
        [".data.old/x", ".data.partial/x", ".run2.partial/x", ".out.csv.partial", ".run2.tenfill-partial/x"]
    {
        write(path, name, "mine");
    }
    let before = tree(path);
    for command in [
        "convert a.csv -o data",
        "predict run q.csv -o out.csv",
        "complete d --rank 2 --max-iterations 2 -o run2",
    ] {
        json(path, command);
        json(path, &format!("{command} --force"));
    }
    let after = tree(path);
    assert!(before.iter().all(|(name, bytes)| after.get(name) == Some(bytes)));
    assert!(path.join("data/manifest.json").is_file() && path.join("out.csv").is_file());
    assert!(!names(path).iter().any(|name| name.contains(".tenfill-partial") && name.len() > 30));
}

#[test]
fn whatever_fails_leaves_the_old_run() {
    let place = folder();
    let path = place.path();
    prepare(path);
    write(path, "bad.csv", &(table(2) + "u1,2,many\n"));
    let before = tree(path);
    for (input, what) in [
        ("typo.csv --rank 2", "typo.csv"),
        ("bad.csv --rank 2", "bad.csv:242"),
        ("a.csv --rank 2 --modes user,film", "film"),
        ("a.csv --rank 99", "rank"),
        ("a.csv --rank 2,2,2", "--rank"),
        ("d --rank 99", "rank"),
        ("d --rank 2 --memory 100K", "--memory"),
        ("a.csv --rank 2 --init nowhere", "nowhere"),
        ("typo.tenfill --rank 2", "typo"),
    ] {
        let said = failure(path, &format!("complete {input} -o run --force"));
        assert!(said.contains(what), "{input}: {said}");
        // What was converted in vain is kept beside the run, and said so.
        if said.contains("kept as run.tenfill") {
            assert_eq!(input, "a.csv --rank 99");
            fs::remove_dir_all(path.join("run.tenfill")).unwrap();
        }
        assert!(tree(path) == before, "{input}");
    }
    // No file can be written: what a full disk is.
    let exe = env!("CARGO_BIN_EXE_tenfill");
    for size in ["0", "1"] {
        let script = format!("ulimit -f {size}; exec {exe} complete d --rank 2 -o run --force");
        let output = Command::new("bash").current_dir(path).args(["-c", &script]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(tree(path) == before, "ulimit -f {size}");
    }
}

fn spawn(path: &Path, arguments: &str) -> Child {
    let mut command = tenfill(path);
    command.args(arguments.split_whitespace()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn wait(what: &str, mut happened: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !happened() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what} never happened");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn begun(path: &Path, output: &str) -> bool {
    names(path).iter().any(|name| name.starts_with(&format!(".{output}.")) && name.contains(".tenfill-"))
}

#[test]
fn the_old_run_stays_until_the_new_one_has_a_checkpoint() {
    let place = folder();
    let path = place.path();
    prepare(path);
    let before = tree(&path.join("run"));
    let endless = "complete d -o run --force --rank 2 --tolerance 0 --gradient-tolerance 0 --patience 0 \
                   --max-iterations 100000000 --bias none --penalty 0 --threads 1 \
                   --algorithm sd --metric euclidean --checkpoint-every 0";
    for signal in ["KILL", "INT"] {
        // The killed one has left its folder, which the next one cleans up first.
        let known = names(path);
        let mut child = spawn(path, endless);
        let has_log =
            |name: &String| fs::metadata(path.join(name).join("log.jsonl")).is_ok_and(|log| log.len() > 2000);
        let is_new = |name: &String| name.starts_with(".run.") && !known.contains(name);
        wait("iterations", || names(path).iter().any(|name| is_new(name) && has_log(name)));
        assert!(tree(&path.join("run")) == before, "while the new one is at work");
        let sent = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
        assert!(sent.unwrap().success());
        child.wait().unwrap();
        let now = tree(&path.join("run"));
        assert_eq!(now == before, signal == "KILL", "after {signal}");
    }
    json(path, "verify run");
    assert!(!begun(path, "run"), "what the killed one left is gone, and the old run with it");
}

#[test]
fn an_output_is_never_an_input() {
    let place = folder();
    let path = place.path();
    prepare(path);
    symlink("run", path.join("link")).unwrap();
    symlink("q.csv", path.join("qlink.csv")).unwrap();
    fs::create_dir(path.join("holds")).unwrap();
    fs::copy(path.join("a.csv"), path.join("holds/a.csv")).unwrap();
    fs::hard_link(path.join("q.csv"), path.join("same.csv")).unwrap();
    let before = tree(path);
    for command in [
        "complete run/data.tenfill --rank 2 -o run --force",
        "complete link/data.tenfill --rank 2 -o run --force",
        "complete a.csv --rank 2 --init run -o run --force",
        "complete a.csv --rank 2 --init link -o run --force",
        "complete d --rank 2 -o d/run",
        "complete a.csv --rank 2 --test holds/a.csv -o holds --force",
        "fold-in run new.csv -o run --force",
        "fold-in link new.csv -o run --force",
        "fold-in run new.csv -o run/data.tenfill/x",
        "convert holds/a.csv -o holds --force",
        "convert a.csv -o a.csv --force",
        "distribute d --hosts 2 -o d --force",
        "distribute d --hosts 2 -o d/parts",
        "export run -o run --force",
        "export run -o run/exported",
        "report run -o run/report.html",
        "report link -o run/config.json --force",
        "predict run q.csv -o q.csv --force",
        "predict run same.csv -o q.csv --force",
        "predict run qlink.csv -o q.csv --force",
        "predict run q.csv -o run/answers.csv",
        "recommend run --all --rank-mode item --top 2 -o run/best.csv",
    ] {
        let said = failure(path, command);
        assert!(said.contains(" an input ("), "{command}: {said}");
        assert!(tree(path) == before, "{command}");
    }
    let queries = fs::File::open(path.join("q.csv")).unwrap();
    let mut command = tenfill(path);
    let output = command.args("predict run - -o q.csv --force".split(' ')).stdin(queries).output().unwrap();
    assert!(stderr(&output).contains("is an input"), "{}", stderr(&output));
    assert!(tree(path) == before);
}

#[test]
fn a_run_at_work_is_not_replaced() {
    let place = folder();
    let path = place.path();
    prepare(path);
    let mut child = spawn(
        path,
        "complete d -o busy --rank 2 --tolerance 0 --gradient-tolerance 0 --patience 0 --bias none --penalty 0 \
         --max-iterations 100000000 --threads 1 --algorithm sd --metric euclidean",
    );
    wait("the log", || path.join("busy/log.jsonl").is_file());
    // Asleep it is at work as well; awake it may come to a point that it cannot leave, and end.
    let asleep = Command::new("kill").args(["-STOP", &child.id().to_string()]).status().unwrap();
    assert!(asleep.success());
    for command in
        ["fold-in run new.csv -o busy --force", "complete d --rank 2 -o busy --force", "resume busy"]
    {
        let said = failure(path, command);
        assert!(said.contains("another tenfill is at work on busy"), "{command}: {said}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    json(path, "fold-in run new.csv -o busy --force");
    json(path, "verify busy");
    // A lock that is none of ours is neither followed nor waited for.
    for make in ["ln -s ../a.csv", "mkfifo"] {
        fs::remove_file(path.join("run/.lock")).unwrap();
        let script = format!("{make} run/.lock");
        assert!(Command::new("sh").current_dir(path).args(["-c", &script]).status().unwrap().success());
        for command in ["resume run", "complete d --rank 2 -o run --force"] {
            assert!(failure(path, command).contains(".lock"), "{make}: {command}");
        }
    }
    assert_eq!(fs::read_to_string(path.join("a.csv")).unwrap(), table(1));
}

#[test]
fn a_folder_that_appears_while_convert_reads_stays() {
    let place = folder();
    let path = place.path();
    assert!(Command::new("mkfifo").arg(path.join("in.csv")).status().unwrap().success());
    for force in ["", "--force"] {
        let child = spawn(path, &format!("convert in.csv -o out {force}"));
        let mut pipe = fs::File::options().read(true).write(true).open(path.join("in.csv")).unwrap();
        wait("the start", || begun(path, "out"));
        write(path, "out/mine.txt", "mine");
        pipe.write_all(table(1).as_bytes()).unwrap();
        // It has opened the pipe by now, or will find a writer.
        std::thread::sleep(Duration::from_millis(300));
        drop(pipe);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains("appeared"), "{}", stderr(&output));
        assert_eq!(fs::read_to_string(path.join("out/mine.txt")).unwrap(), "mine");
        assert_eq!(names(path), ["in.csv", "out"]);
        fs::remove_dir_all(path.join("out")).unwrap();
    }
}

#[test]
fn standard_output_that_cannot_be_written_is_an_error() {
    let place = folder();
    let path = place.path();
    prepare(path);
    for command in [
        "evaluate run --json",
        "evaluate run",
        "inspect d",
        "inspect run --json",
        "verify d",
        "predict run q.csv",
        "recommend run --given user=u1 --rank-mode item --top 3",
        "export run -o e2",
        "completions bash",
        "--help",
        "--version",
    ] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = tenfill(path).args(command.split(' ')).stdout(full).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{command}: {said}");
        assert!(said.contains("cannot write standard output: the disk is full"), "{command}: {said}");
        assert_eq!(said.lines().count(), 1, "{command}: {said}");
        // A reader that has gone is no error.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = tenfill(path).args(command.split(' ')).arg("--quiet").stdout(writer).output().unwrap();
        if command != "export run -o e2" {
            assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()), "{command}");
        }
    }
}

#[test]
fn files_are_replaced_with_force_only_and_nothing_but_files() {
    let place = folder();
    let path = place.path();
    prepare(path);
    write(path, "mine.csv", "mine");
    write(path, "man/tenfill-complete.1", "notes of mine");
    symlink("mine.csv", path.join("link.csv")).unwrap();
    symlink("nowhere", path.join("dangling.html")).unwrap();
    fs::create_dir(path.join("folder.csv")).unwrap();
    assert!(Command::new("mkfifo").arg(path.join("pipe.csv")).status().unwrap().success());
    let before = tree(path);
    for (command, what) in [
        ("predict run q.csv -o mine.csv", "mine.csv exists already: --force replaces it"),
        ("predict run q.csv -o link.csv --force", "symbolic link"),
        ("predict run q.csv -o pipe.csv --force", "no regular file"),
        ("predict run q.csv -o folder.csv --force", "directory"),
        ("report run -o dangling.html --force", "symbolic link"),
        ("report run -o mine.csv", "exists already"),
        ("synth --dims 9,8,7 --rank 2 --entries 99 -o mine.csv", "exists already"),
        ("synth --dims 9,8,7 --rank 2 --entries 99 -o link.csv --force", "symbolic link"),
        ("man -o man", "tenfill-complete.1 exists already: it is no manual page of tenfill"),
    ] {
        let said = failure(path, command);
        assert!(said.contains(what), "{command}: {said}");
        assert!(tree(path) == before, "{command}");
    }
    json(path, "predict run q.csv -o mine.csv --force");
    assert!(fs::read_to_string(path.join("mine.csv")).unwrap().starts_with("user,item,prediction"));
    json(path, "man -o pages");
    json(path, "man -o pages");
}

/// Markers say what they are; those of earlier versions, which do not, prove themselves by all the rest.
#[test]
fn outputs_of_earlier_versions_are_still_ours() {
    let place = folder();
    let path = place.path();
    prepare(path);
    for (file, kind) in
        [("run/config.json", "run"), ("exported/model.json", "export"), ("d/manifest.json", "dataset")]
    {
        let text = fs::read_to_string(path.join(file)).unwrap();
        let line = format!("  \"kind\": \"tenfill {kind}\",\n");
        assert!(text.contains(&line), "{file}");
        let text = text.replace(&line, "");
        let text = match text.strip_prefix("{\n  \"crc32c\": \"") {
            Some(rest) => {
                let rest = &rest[11..];
                format!("{{\n  \"crc32c\": \"{:08x}\",\n{rest}", crc32c::crc32c(rest.as_bytes()))
            }
            None => text,
        };
        fs::write(path.join(file), text).unwrap();
    }
    json(path, "verify run");
    json(path, "verify d");
    fs::write(path.join("run/.lock"), "").unwrap();
    for command in [
        "export run -o exported --force",
        "complete d --rank 2 --max-iterations 2 -o run --force",
        "convert a.csv -o d --force",
    ] {
        json(path, command);
    }
    // One that says it is something else is not ours.
    let config = fs::read_to_string(path.join("run/config.json")).unwrap();
    fs::write(path.join("run/config.json"), config.replace("tenfill run", "another run")).unwrap();
    let before = tree(path);
    assert!(failure(path, "complete d --rank 2 -o run --force").contains("this is no run of tenfill"));
    assert!(tree(path) == before);
}
