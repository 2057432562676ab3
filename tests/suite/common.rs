//! What the tests of the command line share: a folder each, the program, and a look at what it made.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;
use tenfill_engine::manifold::Tangent;
use tenfill_engine::shard::{Dataset, ModeKind, Split};

/// A folder for one test; in memory where there is such a place, since most of the time of a small
/// conversion goes into making its files durable.
pub fn folder() -> TempDir {
    let fast = Path::new("/dev/shm");
    if fast.is_dir() { tempfile::tempdir_in(fast).unwrap() } else { tempfile::tempdir().unwrap() }
}

/// Says that a test cannot run here. In CI, where everything it needs can be installed, that is a failure.
pub fn skipped(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "skipped in CI: {why}");
    eprintln!("SKIPPED: {why}");
}

/// The program, run in `directory`.
pub fn tenfill(directory: impl AsRef<Path>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenfill"));
    command.current_dir(directory).stdin(Stdio::null());
    command
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into()
}

/// Runs it; it must succeed; gives the last line as JSON.
pub fn run<'a>(directory: &Path, arguments: impl IntoIterator<Item = &'a str>) -> Value {
    let output = tenfill(directory).args(arguments).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(text.lines().last().expect("a last line")).unwrap()
}

/// The same for arguments without spaces in them, as one writes them.
pub fn json(directory: impl AsRef<Path>, arguments: &str) -> Value {
    run(directory.as_ref(), arguments.split_whitespace())
}

/// Runs a command that must succeed; gives its standard output.
pub fn output(directory: &Path, arguments: &[&str]) -> String {
    let output = tenfill(directory).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command that must fail with one sentence; gives it.
pub fn failure_of(directory: &Path, arguments: &[&str]) -> String {
    let output = tenfill(directory).args(arguments).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
    let sentences = said.lines().filter(|line| !line.starts_with("taking ")).count();
    assert_eq!(sentences, 1, "one sentence: {said}");
    said
}

/// The same for arguments without spaces in them.
pub fn failure(directory: impl AsRef<Path>, arguments: &str) -> String {
    failure_of(directory.as_ref(), &arguments.split_whitespace().collect::<Vec<_>>())
}

/// All numbers of a tangent vector, factors first.
pub fn numbers(tangent: &Tangent) -> Vec<f64> {
    let rows = tangent.factors.iter().flat_map(|rows| rows.as_slice());
    rows.chain(tangent.core.as_slice()).copied().collect()
}

/// Both are the same up to 1e-12 of the reference's size.
pub fn close(ours: &[f64], reference: &[f64], what: &str) {
    let size: f64 = reference.iter().map(|x| x * x).sum::<f64>().sqrt();
    let error: f64 = ours.iter().zip(reference).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt();
    assert!(ours.len() == reference.len() && error <= 1e-12 * size, "{what}: {:.2e}", error / size);
}

/// The names in a directory, sorted.
pub fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into()).collect();
    names.sort();
    names
}

/// Entries by their labels, with the split they are in and the bits of the value.
pub type Contents = BTreeMap<Vec<String>, (Split, u64)>;

/// Reads a dataset back; bins are labelled by where they begin.
pub fn contents(path: &Path) -> Contents {
    let dataset = Dataset::open(path).unwrap();
    let modes = &dataset.manifest().modes;
    let labels: Vec<_> = (0..modes.len()).map(|mode| dataset.labels(mode).unwrap()).collect();
    let label = |mode: usize, index: u32| match (&modes[mode].kind, &labels[mode]) {
        (ModeKind::Range { base }, _) => (base + i64::from(index)).to_string(),
        (ModeKind::Bins(bins), _) => (bins.origin + bins.width * f64::from(index)).to_string(),
        (_, Some(labels)) => labels.get(index as usize),
        (kind, None) => panic!("{kind:?} without labels"),
    };
    let mut contents = Contents::new();
    for split in Split::ALL {
        dataset
            .for_each(split, |indices, value| {
                let key = indices.iter().enumerate().map(|(mode, &index)| label(mode, index)).collect();
                let before = contents.insert(key, (split, value.to_bits()));
                assert_eq!(before, None, "an entry stands in the dataset twice");
            })
            .unwrap();
    }
    contents
}

/// Every file of a directory with its bytes.
pub fn bytes(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut left = vec![directory.to_path_buf()];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let name = path.strip_prefix(directory).unwrap().to_path_buf();
            files.insert(name, std::fs::read(&path).unwrap());
        }
    }
    files
}

/// What a run has come to: the model's bytes, and the log without what was measured.
pub fn result(run: &Path) -> (Vec<u8>, Vec<Value>) {
    let log = std::fs::read_to_string(run.join("log.jsonl")).unwrap();
    let lines = log.lines().enumerate().map(|(number, line)| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["iteration"], number, "a gap or a double line");
        for measured in tenfill_engine::run::MEASURED {
            assert!(line.as_object_mut().unwrap().remove(measured).is_some(), "{measured}");
        }
        line
    });
    (std::fs::read(run.join("model/model.bin")).unwrap(), lines.collect())
}

/// A fixed shuffle.
pub fn shuffled<T: Clone>(items: &[T], seed: u64) -> Vec<T> {
    let mut items = items.to_vec();
    let mut state = seed;
    for last in (1..items.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        items.swap(last, (state >> 33) as usize % (last + 1));
    }
    items
}
