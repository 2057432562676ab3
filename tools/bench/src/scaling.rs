//! Time per iteration as the data grows, all else equal.

use crate::cases::Place;
use crate::measure;
use serde_json::Value;
use std::process::Command;

/// Measure iterations on 1 M to 300 M entries
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    place: Place,
    /// The most entries, in millions
    #[arg(long, default_value_t = 300)]
    most: u64,
    /// Memory for every run
    #[arg(long, default_value = "256M")]
    memory: String,
}

/// Entries in millions.
const SIZES: [u64; 6] = [1, 3, 10, 30, 100, 300];
const ITERATIONS: usize = 4;

pub fn run(arguments: &Arguments) -> Result<(), String> {
    std::fs::create_dir_all(&arguments.place.dir).map_err(|error| error.to_string())?;
    println!(
        "20000x10000x1000 r5, --memory {}, {ITERATIONS} iterations after the first pass",
        arguments.memory
    );
    println!(
        "{:>9} {:>9} {:>12} {:>12} {:>15} {:>10} {:>9}",
        "entries", "shards GB", "wall s/iter", "CPU s/iter", "CPU ns/entry/it", "peak anon", "predicted"
    );
    for millions in SIZES.into_iter().filter(|&millions| millions <= arguments.most) {
        let (data, run) =
            (arguments.place.dir.join("scaling.tenfill"), arguments.place.dir.join("scaling-run"));
        let mut synth = Command::new(&arguments.place.tenfill);
        synth.args([
            "synth",
            "--quiet",
            "--force",
            "--dims",
            "20000,10000,1000",
            "--rank",
            "5",
            "--test",
            "0",
        ]);
        synth.args(["--values", "f32", "--memory", &arguments.memory]);
        synth.args(["--entries", &(millions * 1_000_000).to_string(), "-o"]).arg(&data);
        measure::run(&mut synth)?;
        let bytes = inspect(arguments, &data)?;
        let mut complete = Command::new(&arguments.place.tenfill);
        complete.args(["complete", "--quiet", "--json", "--force", "--rank", "5", "--tolerance", "0"]);
        complete.args(["--max-iterations", &ITERATIONS.to_string(), "--memory", &arguments.memory]);
        complete.args(["--bias", "none", "--penalty", "0"]);
        let (usage, _) = measure::run(complete.arg("-o").arg(&run).arg(&data))?;
        let log = std::fs::read_to_string(run.join("log.jsonl")).map_err(|error| error.to_string())?;
        let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let (Some(first), Some(last)) = (lines.first(), lines.last()) else {
            return Err("the run has no log".into());
        };
        let per = |field: &str| {
            let at = |line: &Value| line[field].as_f64().unwrap_or(f64::NAN);
            (at(last) - at(first)) / ITERATIONS as f64
        };
        println!(
            "{millions:>7} M {:>9.2} {:>12.3} {:>12.3} {:>15.2} {:>7.1} MB {:>6.1} MB",
            bytes.0 / 1e9,
            per("seconds"),
            per("cpu_seconds"),
            per("cpu_seconds") * 1e3 / millions as f64,
            usage.peak_anonymous as f64 / 1e6,
            bytes.1 / 1e6,
        );
        for path in [data, run] {
            std::fs::remove_dir_all(path).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// The bytes of the shards, and of memory that a run is said to need.
fn inspect(arguments: &Arguments, data: &std::path::Path) -> Result<(f64, f64), String> {
    let mut command = Command::new(&arguments.place.tenfill);
    let (_, output) = measure::run(command.args(["inspect", "--quiet", "--json", "--rank", "5"]).arg(data))?;
    let line: Value =
        serde_json::from_str(output.lines().last().unwrap_or_default()).map_err(|error| error.to_string())?;
    let number = |field: &str| line[field].as_f64().unwrap_or(f64::NAN);
    let entries = line["entries"]["train"].as_f64().unwrap_or(f64::NAN);
    Ok((number("bytes_per_entry") * entries, number("memory_bytes")))
}
