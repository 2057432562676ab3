//! From a file to predictions as the data grows to a billion entries: convert, three iterations, predict.

use crate::cases::Place;
use crate::measure::{self, Usage};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Convert, three iterations and predictions of 10 M, 100 M and a billion entries
///
/// A billion takes some 35 GB of disk on the way (Parquet 12, rows that wait to be sorted 20).
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    place: Place,
    /// Entries, in millions
    #[arg(long, value_delimiter = ',', default_value = "10,100,1000")]
    millions: Vec<u64>,
    /// Memory for every command
    #[arg(long, default_value = "512M")]
    memory: String,
}

const ITERATIONS: u64 = 3;
const QUESTIONS: u64 = 10_000_000;
const DIMS: &str = "100000,50000,1000";

/// A folder that goes with all that is in it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0); // what is left can be seen
    }
}

pub fn run(arguments: &Arguments) -> Result<(), String> {
    println!("{DIMS} r5, single precision, --memory {}; CPU ns per entry in brackets\n", arguments.memory);
    println!("| entries | step | wall s | CPU s (ns per entry) | peak anonymous memory | bytes |");
    println!("|---|---|---|---|---|---|");
    arguments.millions.iter().try_for_each(|&millions| measure_one(arguments, millions))
}

fn measure_one(arguments: &Arguments, millions: u64) -> Result<(), String> {
    let folder = Folder(arguments.place.dir.join(format!("billion-{millions}")));
    std::fs::create_dir_all(&folder.0).map_err(|error| error.to_string())?;
    let at = |name: &str| folder.0.join(name);
    let (file, asked, data, run, out) =
        (at("x.parquet"), at("x.test.parquet"), at("x.tenfill"), at("run"), at("predicted.parquet"));
    let entries = millions * 1_000_000;
    let tenfill = |words: &[&str]| {
        let mut command = Command::new(&arguments.place.tenfill);
        command.args(words).args(["--quiet", "--json", "--threads", "2", "--memory", &arguments.memory]);
        command
    };
    let mut synth = Command::new(&arguments.place.tenfill);
    synth.args(["synth", "--quiet", "--json", "--dims", DIMS, "--rank", "5", "--values", "f32", "--entries"]);
    synth.args([&entries.to_string(), "--test", &format!("{:e}", QUESTIONS as f64 / entries as f64), "-o"]);
    let (made, _) = measure::run(synth.arg(&file))?;
    line(millions, "`synth` to Parquet", &made, entries, bytes(&file)?);

    let mut convert = tenfill(&["convert", "--modes", "i,j,k", "--value", "value", "--split", "none"]);
    let (used, _) = measure::run(convert.arg("-o").arg(&data).arg(&file))?;
    std::fs::remove_file(&file).map_err(|error| error.to_string())?;
    line(millions, "`convert`", &used, entries, bytes(&data)?);

    let mut complete = tenfill(&["complete", "--rank", "5", "--tolerance", "0", "--bias", "none"]);
    complete.args(["--penalty", "0", "--algorithm", "cg"]);
    complete.args(["--max-iterations", &ITERATIONS.to_string()]);
    let (used, _) = measure::run(complete.arg("-o").arg(&run).arg(&data))?;
    line(millions, "`complete`, three iterations", &used, entries, bytes(&run)?);
    let log = std::fs::read_to_string(run.join("log.jsonl")).map_err(|error| error.to_string())?;
    let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let change = |field: &str| {
        let at = |line: Option<&Value>| line.and_then(|line| line[field].as_f64()).unwrap_or(f64::NAN);
        at(lines.last()) - at(lines.first())
    };
    // What comes behind the iterations (errors, biases alone) is not in the log.
    let per_pass = change("cpu_seconds") * 1e9 / (change("passes") * entries as f64);
    println!("| | a pass of these | | ({per_pass:.1}) | | |");

    let mut predict = Command::new(&arguments.place.tenfill);
    predict.args(["predict", "--quiet", "--json", "--threads", "2", "-o"]).arg(&out).arg(&run).arg(&asked);
    let (used, _) = measure::run(&mut predict)?;
    line(millions, "`predict` of 10 M", &used, QUESTIONS, bytes(&out)?);
    Ok(())
}

fn line(millions: u64, step: &str, usage: &Usage, entries: u64, bytes: u64) {
    println!(
        "| {millions} M | {step} | {:.0} | {:.0} ({:.0}) | {:.0} MB | {:.2} GB |",
        usage.wall,
        usage.cpu,
        usage.cpu * 1e9 / entries as f64,
        usage.peak_anonymous as f64 / 1e6,
        bytes as f64 / 1e9
    );
}

/// The bytes of a file, or of all files in a folder.
fn bytes(path: &Path) -> Result<u64, String> {
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    let about = std::fs::metadata(path).map_err(told)?;
    if !about.is_dir() {
        return Ok(about.len());
    }
    let entries = std::fs::read_dir(path).map_err(told)?;
    entries.map(|entry| bytes(&entry.map_err(told)?.path())).sum()
}
