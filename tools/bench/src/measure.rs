//! Runs a program and reads from /proc what it used.

use serde_json::{Value, json};
use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What one run took.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// Wall time in seconds.
    pub wall: f64,
    /// Processor time in seconds, user and system, all threads.
    pub cpu: f64,
    /// The most anonymous memory that was seen, looking every five milliseconds.
    pub peak_anonymous: u64,
}

impl Usage {
    /// For the JSON file.
    pub fn json(&self, rows: u64) -> Value {
        json!({
            "seconds": self.wall,
            "cpu_seconds": self.cpu,
            "peak_anon_bytes": self.peak_anonymous,
            "rows_per_second": rows as f64 / self.wall,
        })
    }
}

/// Linux counts processor time in hundredths of a second, whatever its own clock does.
const TICKS_PER_SECOND: f64 = 100.0;

/// Runs `command` to its end; gives what it used and what it printed.
///
/// A process that has ended keeps its final counts until it is waited for: so they are read first.
pub fn run(command: &mut Command) -> Result<(Usage, String), String> {
    let started = Instant::now();
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let child = spawned.map_err(|error| format!("cannot run {command:?}: {error}"))?;
    let (status_file, stat_file) =
        (format!("/proc/{}/status", child.id()), format!("/proc/{}/stat", child.id()));
    let mut peak_anonymous = 0;
    let cpu = loop {
        let status = fs::read_to_string(&status_file).map_err(|error| error.to_string())?;
        peak_anonymous = peak_anonymous.max(kilobytes(&status, "RssAnon:") * 1024);
        let stat = fs::read_to_string(&stat_file).map_err(|error| error.to_string())?;
        let (state, cpu) = state_and_cpu(&stat).ok_or("/proc/PID/stat has another form than expected")?;
        if state == "Z" {
            break cpu;
        }
        sleep(Duration::from_millis(5));
    };
    let wall = started.elapsed().as_secs_f64();
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("{command:?} failed: {}", output.status));
    }
    Ok((Usage { wall, cpu, peak_anonymous }, String::from_utf8_lossy(&output.stdout).into()))
}

/// Runs `command` to its end; gives its last line, which is JSON.
pub fn last_line(command: &mut Command) -> Result<Value, String> {
    let (_, output) = run(command)?;
    serde_json::from_str(output.lines().last().unwrap_or_default()).map_err(|error| error.to_string())
}

fn kilobytes(status: &str, field: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The state's letter and the seconds of processor time; the name before them may hold anything.
fn state_and_cpu(stat: &str) -> Option<(&str, f64)> {
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    let state = fields.next()?;
    let ticks: Vec<f64> = fields.skip(10).take(2).filter_map(|field| field.parse().ok()).collect();
    Some((state, ticks.iter().sum::<f64>() / TICKS_PER_SECOND))
}
