//! `log.jsonl`: a line per iteration, for people, plots and programs.

use crate::error::{Error, IoContext, Result};
use crate::recipe::Move;
use crate::solver::{Iteration, Phase};
use crate::storage::{Disk, DiskFile, RunLayout, read_regular, write_atomic};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogLine {
    /// What the solver did. What a sweep has not is null in the file, and 0 here.
    #[serde(flatten, serialize_with = "write_iteration", deserialize_with = "read_iteration")]
    pub iteration: Iteration,
    /// The ranks.
    pub rank: Vec<usize>,
    /// What is being tried, where there is something to decide.
    #[serde(default)]
    pub trial: Option<Move>,
    /// The weight of the penalty.
    #[serde(default)]
    pub penalty: f64,
    /// The modes held at the constant vector.
    #[serde(default)]
    pub held: Vec<usize>,
    /// The roots of the errors, and the mean absolute error on the validation entries.
    #[serde(default)]
    pub train_rmse: f64,
    /// Likewise.
    #[serde(default)]
    pub validation_rmse: Option<f64>,
    /// Likewise.
    #[serde(default)]
    pub validation_mae: Option<f64>,
    /// Wall time of the run so far, restarts included.
    pub seconds: f64,
    /// Processor time so far, likewise.
    pub cpu_seconds: f64,
    /// Wall time of this iteration's gradient and step passes; the rest is dense algebra, validation
    /// and what else goes with an iteration.
    #[serde(default)]
    pub pass_seconds: f64,
    /// Wall time of this iteration.
    #[serde(default)]
    pub iteration_seconds: f64,
    /// Train entries that this iteration's passes went through, per second.
    pub entries_per_second: f64,
    /// Bytes of blocks read so far.
    pub bytes_read: u64,
    /// The largest resident size of the process.
    pub peak_rss_bytes: u64,
}

/// An iteration as it stands in the file.
#[derive(Serialize, Deserialize)]
struct Written {
    iteration: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    phase: Option<Phase>,
    passes: usize,
    cost: f64,
    train_mse: f64,
    #[serde(default)]
    train_mae: Option<f64>,
    validation_mse: Option<f64>,
    gradient_norm: Option<f64>,
    step: Option<f64>,
    beta: Option<f64>,
    backtracks: usize,
    restarted: bool,
    guarded: usize,
}

/// Whether it was a sweep, which follows no gradient.
fn is_sweep(iteration: &Iteration) -> bool {
    matches!(iteration.phase, Some(Phase::Sweep | Phase::Refit))
}

/// The norm of the gradient, where there is one.
pub fn gradient_norm(iteration: &Iteration) -> Option<f64> {
    (!is_sweep(iteration)).then_some(iteration.gradient_norm)
}

fn write_iteration<S: Serializer>(iteration: &Iteration, serializer: S) -> Result<S::Ok, S::Error> {
    let known = |number: f64| (!is_sweep(iteration)).then_some(number);
    let of = *iteration;
    let written = Written {
        iteration: of.iteration,
        phase: of.phase,
        passes: of.passes,
        cost: of.cost,
        train_mse: of.train_mse,
        train_mae: known(of.train_mae),
        validation_mse: of.validation_mse,
        gradient_norm: known(of.gradient_norm),
        step: known(of.step),
        beta: known(of.beta),
        backtracks: of.backtracks,
        restarted: of.restarted,
        guarded: of.guarded,
    };
    written.serialize(serializer)
}

fn read_iteration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Iteration, D::Error> {
    let of = Written::deserialize(deserializer)?;
    Ok(Iteration {
        iteration: of.iteration,
        phase: of.phase,
        passes: of.passes,
        cost: of.cost,
        train_mse: of.train_mse,
        train_mae: of.train_mae.unwrap_or(0.0),
        validation_mse: of.validation_mse,
        gradient_norm: of.gradient_norm.unwrap_or(0.0),
        step: of.step.unwrap_or(0.0),
        beta: of.beta.unwrap_or(0.0),
        backtracks: of.backtracks,
        restarted: of.restarted,
        guarded: of.guarded,
    })
}

/// The fields of a line that were measured: the others are the same bits in every run.
pub const MEASURED: [&str; 7] = [
    "seconds",
    "cpu_seconds",
    "pass_seconds",
    "iteration_seconds",
    "entries_per_second",
    "peak_rss_bytes",
    "bytes_read",
];

/// Is called with every line as it is written; `Break` ends the run after a checkpoint.
pub type Observer<'a> = dyn Fn(&LogLine) -> ControlFlow<()> + Sync + 'a;

/// Lets a run go on.
pub fn unobserved(_: &LogLine) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// The open log.
pub struct Log {
    file: Box<dyn DiskFile>,
    path: PathBuf,
}

/// The log of a run.
pub fn log_path(run: &Path) -> PathBuf {
    RunLayout::of(run).log()
}

/// The lines of a log, up to the first that a crash cut short.
pub fn read_log(path: &Path) -> Result<Vec<LogLine>> {
    let bytes = read_regular(path)?;
    Ok(lines(&bytes).map_while(|line| serde_json::from_slice(line).ok()).collect())
}

/// The bytes of a run's log; none where there is no log.
fn log_bytes(run: &Path) -> Result<Vec<u8>> {
    let path = log_path(run);
    if path.symlink_metadata().is_ok() { read_regular(&path) } else { Ok(Vec::new()) }
}

/// Whole lines, with their ends. What a crash left behind the last of them (half a line, zeros) is
/// none.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|&byte| byte == b'\n').filter(|line| line.ends_with(b"\n"))
}

/// The newest iteration of a log of which every line is one, each of the iteration after that before it; none where it has no
/// lines. What a crash left behind the last line is an error where it is `whole`.
pub(super) fn check_log(path: &Path, whole: bool) -> Result<Option<usize>> {
    let bytes = read_regular(path)?;
    let (mut at, mut newest) = (0, None);
    let mend = "a run that can be resumed writes the rest anew, else put a copy back";
    for (number, line) in lines(&bytes).enumerate() {
        match serde_json::from_slice::<LogLine>(line) {
            Ok(entry) if entry.iteration.iteration == number => newest = Some(number),
            Ok(entry) => {
                let what =
                    format!("line {} is of iteration {}: {mend}", number + 1, entry.iteration.iteration);
                return Err(Error::corrupt(path, at as u64, what));
            }
            Err(_) => {
                let what = format!("line {} is no line of a log: {mend}", number + 1);
                return Err(Error::corrupt(path, at as u64, what));
            }
        }
        at += line.len();
    }
    match whole && at < bytes.len() {
        true => Err(Error::corrupt(path, at as u64, format!("the last line is cut short: {mend}"))),
        false => Ok(newest),
    }
}

/// The lines of a run's log, up to the first that is none: what follows is of no known iteration.
pub fn read_lines(run: &Path) -> Result<Vec<Value>> {
    let bytes = log_bytes(run)?;
    Ok(lines(&bytes).map_while(|line| serde_json::from_slice(line).ok()).collect())
}

impl Log {
    /// Opens the log of a run, with the lines up to and including iteration `upto` kept and later
    /// ones, which a resumed run will write again, dropped. `None` keeps nothing.
    pub fn open(disk: &dyn Disk, run: &Path, upto: Option<usize>) -> Result<Self> {
        let path = log_path(run);
        let bytes = if upto.is_some() { log_bytes(run)? } else { Vec::new() };
        let mut kept = 0;
        for (number, line) in lines(&bytes).enumerate() {
            match serde_json::from_slice::<LogLine>(line) {
                Ok(entry) if entry.iteration.iteration == number && upto >= Some(number) => {
                    kept += line.len();
                }
                _ => break,
            }
        }
        write_atomic(disk, &path, &bytes[..kept])?;
        let file = disk.append(&path).context("open", &path)?;
        Ok(Log { file, path })
    }

    /// Appends a line.
    pub fn write(&mut self, line: &LogLine) -> Result<()> {
        let mut text =
            serde_json::to_vec(line).map_err(std::io::Error::other).context("write", &self.path)?;
        text.push(b'\n');
        self.file.write_all(&text).context("write", &self.path)
    }
}
