//! `convert`: tenfill turns a CSV into shards, DuckDB turns the same CSV into sorted Parquet.

use crate::measure::{self, Usage};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tenfill_engine::units;

/// Converting a CSV of integer ids, side by side with DuckDB sorting it into Parquet
#[derive(clap::Args)]
pub struct Arguments {
    /// Rows of the CSV
    #[arg(long, default_value_t = 100_000_000)]
    rows: u64,
    /// What tenfill may use
    #[arg(long, default_value = "256M")]
    memory: String,
    /// What the rows are: uniform (in random order), or ratings (grouped by user)
    #[arg(long, default_value = "uniform", value_parser = ["uniform", "ratings"])]
    kind: String,
    /// Where data, outputs and results go; the CSV is kept for the next run
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// A number of runs of each; the fastest counts
    #[arg(long, default_value_t = 1)]
    repeat: usize,
    /// Leave DuckDB out
    #[arg(long)]
    no_duckdb: bool,
    /// Remove the CSV in the end
    #[arg(long)]
    clean: bool,
}

pub fn run(arguments: &Arguments) -> Result<(), String> {
    let dir = &arguments.dir;
    fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let tenfill = tenfill_program()?;
    let csv = make_csv(&tenfill, arguments)?;
    let python = if arguments.no_duckdb { None } else { Some(duckdb_python(dir)?) };

    let (mut ours, mut theirs) = (None, None);
    for _ in 0..arguments.repeat.max(1) {
        keep_fastest(&mut ours, convert(&tenfill, &csv, arguments)?);
        if let Some(python) = &python {
            keep_fastest(&mut theirs, duckdb(python, &csv, arguments)?);
        }
    }
    let Some((ours, converted)) = ours else { return Err("nothing was measured".into()) };
    println!("{} rows, {}, {}", units::count(arguments.rows), arguments.kind, size_of(&csv));
    println!(
        "{:28} {:>8} {:>8} {:>12} {:>12} {:>10}",
        "", "wall s", "CPU s", "peak anon", "rows/s", "output"
    );
    let output = converted["bytes_per_entry"].as_f64().unwrap_or(0.0) * arguments.rows as f64;
    line(&format!("tenfill --memory {}", arguments.memory), &ours, arguments.rows, output as u64);
    let mut result = json!({
        "benchmark": "convert",
        "rows": arguments.rows,
        "kind": arguments.kind,
        "csv_bytes": fs::metadata(&csv).map_or(0, |data| data.len()),
        "memory": arguments.memory,
        "tenfill": ours.json(arguments.rows),
    });
    if let Some((theirs, printed)) = theirs {
        let version = printed["version"].as_str().unwrap_or("?").to_string();
        let bytes = printed["bytes"].as_u64().unwrap_or(0);
        line(&format!("DuckDB {version}, 512MB"), &theirs, arguments.rows, bytes);
        println!(
            "tenfill is {:.2} times as fast, with {:.2} of the CPU time",
            theirs.wall / ours.wall,
            ours.cpu / theirs.cpu
        );
        result["duckdb"] = theirs.json(arguments.rows);
        result["duckdb"]["version"] = json!(version);
        result["speedup"] = json!(theirs.wall / ours.wall);
    }
    let path = dir.join("convert.json");
    fs::write(&path, format!("{result:#}\n")).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("written to {}", path.display());
    if arguments.clean {
        fs::remove_file(&csv).map_err(|error| format!("{}: {error}", csv.display()))?;
    }
    Ok(())
}

fn keep_fastest(best: &mut Option<(Usage, Value)>, run: (Usage, Value)) {
    if best.as_ref().is_none_or(|(usage, _)| run.0.wall < usage.wall) {
        *best = Some(run);
    }
}

fn line(name: &str, usage: &Usage, rows: u64, output: u64) {
    println!(
        "{name:28} {:8.1} {:8.1} {:>12} {:>12} {:>10}",
        usage.wall,
        usage.cpu,
        units::size(usage.peak_anonymous),
        units::count((rows as f64 / usage.wall) as u64),
        units::size(output),
    );
}

fn size_of(path: &Path) -> String {
    units::size(fs::metadata(path).map_or(0, |data| data.len()))
}

/// The program beside this one: both come out of one build of the workspace.
pub(crate) fn tenfill_program() -> Result<PathBuf, String> {
    let build = Command::new("cargo").args(["build", "--release", "-p", "tenfill"]).status();
    if !build.is_ok_and(|status| status.success()) {
        return Err("cargo build --release -p tenfill failed".into());
    }
    let here = std::env::current_exe().map_err(|error| error.to_string())?;
    Ok(here.with_file_name("tenfill"))
}

/// The CSV, made once.
fn make_csv(tenfill: &Path, arguments: &Arguments) -> Result<PathBuf, String> {
    let csv = arguments.dir.join(format!("{}-{}.csv", arguments.kind, arguments.rows));
    if csv.exists() {
        return Ok(csv);
    }
    eprintln!("making {} ...", csv.display());
    let mut command = Command::new(tenfill);
    command.args(["synth", "--test", "0", "--dims", "1000000,100000,1000", "--rank", "2", "--json"]);
    command.args(["--entries", &arguments.rows.to_string()]).arg("-o").arg(&csv);
    if arguments.kind == "ratings" {
        command.args(["--kind", "ratings"]);
    }
    let (usage, _) = measure::run(&mut command)?;
    eprintln!("synth took {:.1} s and {}", usage.wall, units::size(usage.peak_anonymous));
    Ok(csv)
}

pub(crate) fn last_json(printed: &str) -> Value {
    printed.lines().last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default()
}

fn convert(tenfill: &Path, csv: &Path, arguments: &Arguments) -> Result<(Usage, Value), String> {
    let output = arguments.dir.join("convert.tenfill");
    let mut command = Command::new(tenfill);
    command.arg("convert").arg(csv).arg("-o").arg(&output);
    command.args(["--force", "--json", "--quiet", "--memory", &arguments.memory, "--threads", "2"]);
    let (usage, printed) = measure::run(&mut command)?;
    fs::remove_dir_all(&output).map_err(|error| error.to_string())?;
    Ok((usage, last_json(&printed)))
}

/// A Python that has DuckDB, in a virtual environment of its own.
fn duckdb_python(dir: &Path) -> Result<PathBuf, String> {
    let venv = dir.join("venv");
    let python = venv.join("bin/python");
    let has_it = || Command::new(&python).args(["-c", "import duckdb"]).status().is_ok_and(|s| s.success());
    if python.exists() && has_it() {
        return Ok(python);
    }
    let made = Command::new("python3").args(["-m", "venv"]).arg(&venv).status();
    let installed = Command::new(&python).args(["-m", "pip", "install", "--quiet", "duckdb"]).status();
    match (made, installed) {
        (Ok(made), Ok(installed)) if made.success() && installed.success() => Ok(python),
        _ => Err("DuckDB cannot be installed (python3 -m venv, pip install duckdb): try --no-duckdb".into()),
    }
}

const SORT: &str = "
import duckdb, json, os, sys
csv, out, temp, keys = sys.argv[1:]
db = duckdb.connect()
db.execute('SET threads=2')
db.execute(\"SET memory_limit='512MB'\")
db.execute(f\"SET temp_directory='{temp}'\")
db.execute(f\"COPY (SELECT * FROM read_csv('{csv}') ORDER BY {keys}) TO '{out}' (FORMAT parquet)\")
print(json.dumps({'version': duckdb.__version__, 'bytes': os.path.getsize(out)}))
";

fn duckdb(python: &Path, csv: &Path, arguments: &Arguments) -> Result<(Usage, Value), String> {
    let output = arguments.dir.join("convert.parquet");
    let temp = arguments.dir.join("duckdb.tmp");
    let keys = if arguments.kind == "ratings" { "userId, timestamp, movieId" } else { "i, k, j" };
    let mut command = Command::new(python);
    command.args(["-c", SORT]).arg(csv).arg(&output).arg(&temp).arg(keys);
    let (usage, printed) = measure::run(&mut command)?;
    fs::remove_file(&output).map_err(|error| error.to_string())?;
    let _ = fs::remove_dir_all(&temp); // DuckDB may have removed it itself
    Ok((usage, last_json(&printed)))
}
