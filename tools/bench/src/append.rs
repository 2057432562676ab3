//! `append`: new rows into a dataset, side by side with converting all of them; and what a warm start saves.

use crate::convert::{last_json, tenfill_program};
use crate::measure::{self, Usage};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use tenfill_engine::units;

/// Appending rows to a dataset, side by side with converting all of them
#[derive(clap::Args)]
pub struct Arguments {
    /// Rows of the dataset; 0 leaves out appending side by side with converting
    #[arg(long, default_value_t = 10_000_000)]
    rows: u64,
    /// Rows that are appended
    #[arg(long, default_value_t = 1_000_000)]
    new: u64,
    /// Ratings of the dataset that is completed, then appended to and completed again; 0 leaves it out
    #[arg(long, default_value_t = 1_000_000)]
    refit: u64,
    /// Seeds of these
    #[arg(long, value_delimiter = ',', default_value = "1")]
    seeds: Vec<u64>,
    /// What tenfill may use
    #[arg(long, default_value = "1G")]
    memory: String,
    /// Where data, outputs and results go
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// A number of runs of each; the one with the least CPU time counts
    #[arg(long, default_value_t = 3)]
    repeat: usize,
}

pub fn run(arguments: &Arguments) -> Result<(), String> {
    fs::create_dir_all(&arguments.dir).map_err(|error| format!("{}: {error}", arguments.dir.display()))?;
    let tenfill = tenfill_program()?;
    let mut result = json!({ "benchmark": "append", "rows": arguments.rows, "new": arguments.new });
    let program = Program { tenfill: &tenfill, memory: &arguments.memory };
    if arguments.rows > 0 {
        beside(&program, arguments, &mut result)?;
    }
    if arguments.refit > 0 {
        let each = arguments.seeds.iter().map(|&seed| refit(&program, arguments, seed));
        result["refit"] = each.collect::<Result<Vec<Value>, String>>()?.into();
    }
    let path = arguments.dir.join("append.json");
    fs::write(&path, format!("{result:#}\n")).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("written to {}", path.display());
    Ok(())
}

/// Appends rows, and converts all of them.
fn beside(program: &Program<'_>, arguments: &Arguments, result: &mut Value) -> Result<(), String> {
    let files = Files::make(program.tenfill, arguments, arguments.rows, arguments.new, 1)?;
    let at = |name: &str| arguments.dir.join(name).display().to_string();
    let (all, old, new) = (at("append-all.tenfill"), at("append-old.tenfill"), at("append-new.tenfill"));
    program.least(1, &["convert", &files.old, "-o", &old])?;
    let (whole, _) = program.least(arguments.repeat, &["convert", &files.all, "-o", &all])?;
    let (more, _) = program.least(arguments.repeat, &["append", &old, &files.new, "-o", &new])?;
    let same = shards(Path::new(&all))? == shards(Path::new(&new))?;
    let share = more.cpu / whole.cpu;
    println!("{} rows and {} new ones", units::count(arguments.rows), units::count(arguments.new));
    for (name, usage) in [("convert all", &whole), ("append", &more)] {
        let peak = units::size(usage.peak_anonymous);
        println!("{name:12} {:8.2} s wall {:8.2} s CPU   peak {peak}", usage.wall, usage.cpu);
    }
    println!("append takes {share:.3} of the CPU time; the shards have the same bytes: {same}");
    result["convert"] = whole.json(arguments.rows + arguments.new);
    result["append"] = more.json(arguments.new);
    result["cpu_share"] = json!(share);
    result["same_bytes"] = json!(same);
    for dataset in [all, old, new] {
        fs::remove_dir_all(dataset).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// How many passes it takes to come to an error after a tenth of new rows, from nothing and from the old model.
fn refit(program: &Program<'_>, arguments: &Arguments, seed: u64) -> Result<Value, String> {
    let files = Files::make(program.tenfill, arguments, arguments.refit, arguments.refit / 10, seed)?;
    let at = |name: &str| arguments.dir.join(name).display().to_string();
    let (old, new) = (at("refit-old.tenfill"), at("refit-new.tenfill"));
    program.least(1, &["convert", &files.old, "-o", &old])?;
    program.least(1, &["append", &old, &files.new, "-o", &new])?;
    let (before, cold, warm) = (at("refit-before"), at("refit-cold"), at("refit-warm"));
    program.least(1, &["complete", &old, "--rank", "auto", "-o", &before])?;
    let (_, from_nothing) = program.least(1, &["complete", &new, "--rank", "auto", "-o", &cold])?;
    let (_, from_before) =
        program.least(1, &["complete", &new, "--rank", "auto", "--init", &before, "-o", &warm])?;
    let test = |told: &Value| told["test_mse"].as_f64().unwrap_or(f64::NAN).sqrt();
    let (cold_test, warm_test) = (test(&from_nothing), test(&from_before));
    let (cold, warm) = (curve(Path::new(&cold))?, curve(Path::new(&warm))?);
    let best = |curve: &[(u64, f64)]| curve.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
    // Where one of them does not come to the other's error, the larger of both is what is asked for.
    let target = best(&cold).max(best(&warm)) * 1.0005;
    let passes =
        |curve: &[(u64, f64)]| curve.iter().find(|point| point.1 <= target).map_or(0, |point| point.0);
    let (cold_passes, warm_passes) = (passes(&cold), passes(&warm));
    println!(
        "refit of {} ratings (seed {seed}) with a tenth more, to a validation RMSE of {:.5}: {cold_passes} passes from nothing, \
         {warm_passes} from the old model; the best are {:.5} and {:.5}, of test {cold_test:.5} and {warm_test:.5}",
        units::count(arguments.refit),
        target,
        best(&cold),
        best(&warm)
    );
    Ok(json!({
        "rows": arguments.refit, "seed": seed, "cold_test_rmse": cold_test, "warm_test_rmse": warm_test, "target_rmse": target, "cold_passes": cold_passes, "warm_passes": warm_passes,
        "cold_rmse": best(&cold), "warm_rmse": best(&warm),
    }))
}

/// Passes and validation RMSE of every line of a run's log.
fn curve(run: &Path) -> Result<Vec<(u64, f64)>, String> {
    let text = fs::read_to_string(run.join("log.jsonl")).map_err(|error| error.to_string())?;
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(lines.filter_map(|line| Some((line["passes"].as_u64()?, line["validation_rmse"].as_f64()?))).collect())
}

struct Program<'a> {
    tenfill: &'a Path,
    memory: &'a str,
}

impl Program<'_> {
    /// Of some runs the one with the least CPU time.
    fn least(&self, repeat: usize, words: &[&str]) -> Result<(Usage, Value), String> {
        let mut best: Option<(Usage, Value)> = None;
        for _ in 0..repeat.max(1) {
            let mut command = Command::new(self.tenfill);
            command.args(words).args([
                "--force",
                "--json",
                "--quiet",
                "--memory",
                self.memory,
                "--threads",
                "2",
            ]);
            let (usage, printed) = measure::run(&mut command)?;
            if best.as_ref().is_none_or(|(least, _)| usage.cpu < least.cpu) {
                best = Some((usage, last_json(&printed)));
            }
        }
        best.ok_or_else(|| "nothing was measured".into())
    }
}

/// Ratings in random order, all of them, and cut in two.
struct Files {
    all: String,
    old: String,
    new: String,
}

impl Files {
    fn make(tenfill: &Path, arguments: &Arguments, rows: u64, new: u64, seed: u64) -> Result<Self, String> {
        let total = rows + new;
        let at = |name: &str| arguments.dir.join(format!("append-{name}-{total}-{seed}.csv"));
        let (synth, all, old, fresh) = (at("synth"), at("all"), at("old"), at("new"));
        let shown = |path: &Path| path.display().to_string();
        let files = Files { all: shown(&all), old: shown(&old), new: shown(&fresh) };
        if fresh.exists() {
            return Ok(files);
        }
        let mut command = Command::new(tenfill);
        let users = (total / 55).max(100).to_string();
        let dims = format!("{users},{},200", (total / 550).max(50));
        command.args([
            "synth",
            "--kind",
            "ratings",
            "--test",
            "0",
            "--json",
            "--seed",
            &seed.to_string(),
            "--entries",
            &total.to_string(),
        ]);
        measure::run(command.args(["--dims", &dims]).arg("-o").arg(&synth))?;
        cut(&synth, [&all, &old, &fresh], new).map_err(|error| error.to_string())?;
        fs::remove_file(&synth).map_err(|error| error.to_string())?;
        Ok(files)
    }
}

/// Writes the rows in a random order, and apart those of before and `new` ones.
fn cut(synth: &Path, [all, old, fresh]: [&Path; 3], new: u64) -> std::io::Result<()> {
    let mut lines = BufReader::new(fs::File::open(synth)?).lines();
    let header = lines.next().transpose()?.unwrap_or_default();
    let mut rows = lines.collect::<std::io::Result<Vec<String>>>()?;
    // A fixed shuffle, by a generator of the simplest kind.
    let mut state = 1u64;
    for last in (1..rows.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        rows.swap(last, ((state >> 33) % (last as u64 + 1)) as usize);
    }
    let before = rows.len() - new as usize;
    for (path, rows) in [(all, &rows[..]), (old, &rows[..before]), (fresh, &rows[before..])] {
        let mut out = BufWriter::new(fs::File::create(path)?);
        writeln!(out, "{header}")?;
        for row in rows {
            writeln!(out, "{row}")?;
        }
        out.flush()?;
    }
    Ok(())
}

/// The shards of a dataset with their bytes.
fn shards(dataset: &Path) -> Result<Vec<(String, Vec<u8>)>, String> {
    let mut found = Vec::new();
    for split in ["train", "validation", "test"] {
        for entry in fs::read_dir(dataset.join(split)).map_err(|error| error.to_string())? {
            let path = entry.map_err(|error| error.to_string())?.path();
            let bytes = fs::read(&path).map_err(|error| error.to_string())?;
            found.push((format!("{split}/{}", path.file_name().unwrap_or_default().display()), bytes));
        }
    }
    found.sort();
    Ok(found)
}
