//! Random folders of others' files and of ours, every command that writes, killed at random moments: no
//! byte of a stranger's file changes, and the old or the new output is whole.
//!
//! 2,000 cases; `tools/outputs.sh` does 20,000 (`TENFILL_OUTPUT_CASES`, `TENFILL_OUTPUT_SEED`).

use super::outputs::{COMPLETE, Tree, prepare, strangers, tree};
use crate::common::{folder, json, names, stderr, tenfill};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tenfill_engine::control::Control;
use tenfill_engine::run::verify_run;
use tenfill_engine::shard::verify;
use tenfill_engine::storage::temporary_path;

fn number(name: &str, otherwise: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Splitmix: cases that can be had again.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Dataset,
    Parts,
    Export,
    Run,
    File,
}

/// The commands, with `@` for the tables and runs that they read, and what they write to `out`.
const COMMANDS: [(&str, Kind, &str); 11] = [
    ("convert @/a.csv", Kind::Dataset, "out"),
    ("synth --dims 9,8,7 --rank 2 --entries 200", Kind::Dataset, "out"),
    ("distribute @/d --hosts 2", Kind::Parts, "out"),
    ("export @/run --format csv", Kind::Export, "out"),
    ("fold-in @/run @/new.csv --threads 1", Kind::Run, "out"),
    ("complete @/a.csv", Kind::Run, "out"),
    ("complete @/d --checkpoint-every 1", Kind::Run, "out"),
    ("predict @/run @/q.csv --threads 1", Kind::File, "out.csv"),
    ("recommend @/run --all --rank-mode item --top 2 --threads 1", Kind::File, "out.csv"),
    ("report @/run", Kind::File, "out.html"),
    ("synth --dims 9,8,7 --rank 2 --entries 200", Kind::File, "out.tns"),
];

/// Where the fixture has an output of a kind.
const OURS: [(Kind, &str); 4] =
    [(Kind::Dataset, "d"), (Kind::Parts, "parts"), (Kind::Export, "exported"), (Kind::Run, "run")];

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        fs::copy(from, to).unwrap();
    }
}

/// Whether an output is whole.
fn whole(path: &Path, kind: Kind) -> Result<(), String> {
    let control = Control::default();
    let fine = |found: tenfill_engine::Result<tenfill_engine::shard::Verification>| match found {
        Ok(found) if found.problems.is_empty() => Ok(()),
        Ok(found) => Err(format!("{:?}", found.problems)),
        Err(error) => Err(error.to_string()),
    };
    match kind {
        Kind::Dataset | Kind::Parts => fine(verify(path, &control)),
        Kind::Run => fine(verify_run(path, &control)),
        Kind::Export => {
            let text = fs::read_to_string(path.join("model.json")).map_err(|error| error.to_string())?;
            let about: serde_json::Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
            let files = about["modes"].as_array().unwrap().iter().map(|mode| &mode["files"]["factor"]);
            let there = |file: &serde_json::Value| path.join(file.as_str().unwrap()).is_file();
            if files.chain([&about["core"]]).all(there) { Ok(()) } else { Err("a file is missing".into()) }
        }
        Kind::File => {
            let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
            let html = path.extension().is_some_and(|ending| ending == "html");
            if text.ends_with('\n') && (!html || text.trim_end().ends_with("</html>")) {
                Ok(())
            } else {
                Err("cut short".into())
            }
        }
    }
}

/// What was put at the output's place.
struct Before {
    what: String,
    /// Whether it is an output of ours and nothing else, of the kind that the command writes.
    ours: bool,
    /// Whether anything of value is there.
    filled: bool,
}

/// Puts something at the output's place.
fn put(random: &mut Random, fixture: &Path, out: &Path, kind: Kind) -> Before {
    let before = |what: &str, ours, filled| Before { what: what.into(), ours, filled };
    let own = OURS.iter().find(|(of, _)| *of == kind).map(|(_, name)| *name);
    match random.below(10) {
        0 => before("nothing", false, false),
        1 if kind != Kind::File => {
            fs::create_dir(out).unwrap();
            before("an empty folder", false, false)
        }
        2 => {
            symlink(fixture.join(own.unwrap_or("q.csv")), out).unwrap();
            before("a link", false, true)
        }
        3 => {
            let stranger = ["web", "keras", "face", "shards", "locked"][random.below(5)];
            copy(&fixture.join(stranger), out);
            before(stranger, false, true)
        }
        4 if kind != Kind::File => {
            let (of, name) = OURS[random.below(OURS.len())];
            copy(&fixture.join(name), out);
            before(name, of == kind, true)
        }
        _ if kind == Kind::File => {
            fs::write(out, "an old file\n").unwrap();
            before("a file", true, true)
        }
        n => {
            copy(&fixture.join(own.unwrap()), out);
            if n > 6 {
                return before("ours", true, true);
            }
            let folders: Vec<PathBuf> =
                tree(out).into_iter().filter(|(_, bytes)| bytes.is_none()).map(|(path, _)| path).collect();
            let name = ["notes.txt", ".hidden", "00000.shard.bak", "x.arrow", "manifest.json.orig"];
            let note = out.join(&folders[random.below(folders.len())]).join(name[random.below(name.len())]);
            if random.one_in(3) {
                symlink("/", &note).unwrap()
            } else {
                fs::write(&note, "mine").unwrap()
            }
            before("ours with a note", false, true)
        }
    }
}

/// Puts things beside the output: of others, and what a killed process may have left.
fn litter(random: &mut Random, fixture: &Path, out: &Path, kind: Kind) -> Vec<PathBuf> {
    let name = out.file_name().unwrap().to_str().unwrap();
    for other in
        [".old", ".partial", ".tenfill-partial", ".0123456789abcdef-0123456789abcdef.tenfill-partial"]
    {
        if random.one_in(3) {
            let path = out.with_file_name(format!(".{name}{other}"));
            if random.one_in(2) {
                fs::write(path, "mine").unwrap();
            } else {
                copy(&fixture.join("web"), &path);
            }
        }
    }
    let own = OURS.iter().find(|(of, _)| *of == kind);
    let mut left = Vec::new();
    if random.one_in(3) {
        let path = temporary_path(out);
        match own {
            Some((_, own)) => {
                copy(&fixture.join(own), &path);
                let name = path.file_name().unwrap().as_encoded_bytes();
                fs::write(path.join(".tenfill-partial"), name).unwrap();
            }
            None => fs::write(&path, "half").unwrap(),
        }
        left.push(path);
    }
    if own.is_some() && random.one_in(4) {
        // A stranger's folder under a name of ours, however it came there.
        copy(&fixture.join("web"), &temporary_path(out));
    }
    left
}

/// Runs a command, and kills it after a while.
fn start(path: &Path, arguments: &[String], kill: Option<Duration>) -> (Output, bool) {
    let mut command = tenfill(path);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let begun = Instant::now();
    let mut killed = false;
    if let Some(moment) = kill {
        while begun.elapsed() < moment && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(200));
        }
        killed = child.try_wait().unwrap().is_none();
        child.kill().unwrap();
    }
    (child.wait_with_output().unwrap(), killed)
}

fn is_below(inside: &Path, folders: &[PathBuf]) -> bool {
    folders.iter().any(|folder| inside.starts_with(folder))
}

/// One case; gives whether the program was killed in it.
fn case(seed: u64, fixture: &Path, takes: &[Duration]) -> bool {
    let random = &mut Random(seed);
    let place = folder();
    let path = place.path();
    let which = random.below(COMMANDS.len());
    let (command, kind, name) = COMMANDS[which];
    let out = path.join(name);
    let there = put(random, fixture, &out, kind);
    let left = litter(random, fixture, &out, kind);
    let force = random.below(3) > 0;
    let kill = random.one_in(2).then(|| takes[which].mul_f64(random.below(1200) as f64 / 1000.0));
    let mut arguments = arguments(command, fixture, name);
    arguments.extend(force.then(|| "--force".to_string()));
    let told = format!("case {seed}: {arguments:?} over {}, killed after {kill:?}", there.what);
    let before = tree(path);
    let (output, killed) = start(path, &arguments, kill);
    let said = stderr(&output);
    let after = tree(path);

    let may_replace = !there.filled || there.ours && force;
    let inside = |path: &PathBuf| path.strip_prefix(place.path()).unwrap().to_path_buf();
    let mut ours: Vec<PathBuf> = left.iter().map(inside).collect();
    if may_replace {
        ours.push(name.into());
    }
    // Nothing of a stranger's is gone or has other bytes.
    for (inside, bytes) in before.iter().filter(|(inside, _)| !is_below(inside, &ours)) {
        assert!(after.get(inside) == Some(bytes), "{told}: {} was touched: {said}", inside.display());
    }
    // Nothing is new but the output, the test entries beside it, and what a killed process leaves.
    let temporary = format!(".{name}.");
    for inside in after.keys().filter(|inside| !before.contains_key(*inside)) {
        let first = inside.iter().next().unwrap().to_str().unwrap();
        let is_left = killed && first.contains(".tenfill-") && first.starts_with(&temporary);
        let beside = first == "out.test.tns" || killed && first.starts_with(".out.test.tns.");
        assert!(first == name && may_replace || is_left || beside, "{told}: {first} is new");
    }
    // The old output or the new one, whole.
    let part = |tree: &Tree| -> Tree {
        tree.iter()
            .filter(|(inside, _)| inside.starts_with(name))
            .map(|(a, b)| (a.clone(), b.clone()))
            .collect()
    };
    let same = part(&before) == part(&after);
    assert!(same || whole(&out, kind).is_ok(), "{told}: {:?}", whole(&out, kind));
    assert!(!there.filled || after.contains_key(Path::new(name)), "{told}: the output is gone");
    if killed {
        // The next one cleans up, and brings it to its end.
        if may_replace && random.one_in(4) {
            let forced: Vec<String> =
                arguments.iter().cloned().chain((!force).then(|| "--force".into())).collect();
            let (output, _) = start(path, &forced, None);
            assert!(output.status.success(), "{told}: and then: {}", stderr(&output));
            whole(&out, kind).unwrap_or_else(|what| panic!("{told}: and then: {what}"));
            // What is left is what was there and is a stranger's.
            let known: Vec<PathBuf> = before.keys().cloned().collect();
            let still =
                |found: &String| found.starts_with(&temporary) && !known.contains(&PathBuf::from(found));
            assert!(!names(path).iter().any(still), "{told}: {:?}", names(path));
        }
    } else if output.status.success() {
        // The new one may well be the same, byte for byte.
        assert!(may_replace, "{told}: it should have been refused");
        assert!(ours.iter().all(|left| left == Path::new(name) || !path.join(left).exists()), "{told}: left");
    } else {
        assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{told}: {said}");
        assert!(!may_replace && same, "{told}: {said}");
    }
    killed
}

fn arguments(command: &str, fixture: &Path, name: &str) -> Vec<String> {
    let command = command.replace('@', fixture.to_str().unwrap());
    let complete = if command.starts_with("complete") { COMPLETE } else { Default::default() };
    let all = format!("{command} {complete} --quiet -o {name}");
    all.split_whitespace().map(String::from).collect()
}

#[test]
fn no_strangers_byte_is_lost_whatever_is_killed() {
    let place = folder();
    let fixture = place.path();
    prepare(fixture);
    strangers(fixture);
    json(fixture, "verify run");
    let mut takes = Vec::new();
    for (command, _, name) in COMMANDS {
        let place = folder();
        let begun = Instant::now();
        let (output, _) = start(place.path(), &arguments(command, fixture, name), None);
        assert!(output.status.success(), "{command}: {}", stderr(&output));
        takes.push(begun.elapsed());
    }
    let cases = number("TENFILL_OUTPUT_CASES", 2000);
    let first = number("TENFILL_OUTPUT_SEED", 1) as u64 * 1_000_000;
    let before = tree(fixture);
    let (next, killed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= cases {
                        break;
                    }
                    let was_killed = case(first + number as u64, fixture, &takes);
                    killed.fetch_add(usize::from(was_killed), Ordering::SeqCst);
                }
            });
        }
    });
    assert!(tree(fixture) == before, "what is read stays as it is");
    let killed = killed.into_inner();
    println!("outputs: {cases} cases, {killed} of them killed: nothing of a stranger's is lost");
    assert!(killed * 6 > cases, "{killed} of {cases} were killed");
}
