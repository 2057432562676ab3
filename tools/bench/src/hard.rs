//! The paper's hardest case (S5): a diagonal core of a given condition number at oversampling 5. Which way
//! comes to a test MSE of 1e-8, and in how many passes? The values of this core are tiny (their mean square
//! is 4e-11 at condition 5), so that errors are told relative to that.

use crate::cases::Place;
use crate::measure::last_line;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use tenfill_engine::Dataset;

/// Try several ways on case S5 and count passes
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    place: Place,
    /// All dimensions
    #[arg(long, default_value_t = 10_000)]
    dim: u32,
    /// Oversampling
    #[arg(long, default_value_t = 5)]
    oversampling: u32,
    /// Iterations that each way has
    #[arg(long, default_value_t = 250)]
    iterations: u32,
    /// Condition numbers
    #[arg(long, value_delimiter = ',', default_value = "5,50,100")]
    conditions: Vec<u32>,
}

const PLAIN: [&str; 5] = ["--bias", "none", "--penalty", "0", "--no-clip"];
/// The share of the values' mean square that is left when a way has solved the case, and where it may stop.
const SOLVED: f64 = 1e-8;
const ENOUGH: f64 = 1e-10;
/// The shares of the values' spread that a penalty goes through on its way to none.
const LADDER: [&str; 4] = ["0.1", "0.01", "0.001", "0.0001"];

/// One run of `complete`.
fn complete(place: &Place, data: &Path, run: &str, options: &[&str]) -> Result<Value, String> {
    let tolerance = (ENOUGH * mean_square(data)?).to_string();
    let mut command = Command::new(&place.tenfill);
    command.args(["complete", "--quiet", "--json", "--force", "--rank", "5", "--tolerance", &tolerance]);
    last_line(command.args(options).arg("-o").arg(place.dir.join(run)).arg(data))
}

/// The mean square of the train values.
fn mean_square(data: &Path) -> Result<f64, String> {
    let dataset = Dataset::open(data).map_err(|error| error.to_string())?;
    let manifest = dataset.manifest();
    Ok(manifest.values.sum_of_squares / manifest.train.entries as f64)
}

pub fn run(arguments: &Arguments) -> Result<(), String> {
    let place = &arguments.place;
    std::fs::create_dir_all(&place.dir).map_err(|error| error.to_string())?;
    let dims = [arguments.dim.to_string(), arguments.dim.to_string(), arguments.dim.to_string()].join(",");
    println!(
        "diagonal core, {dims} rank 5, oversampling {}, {} iterations; errors relative to the mean square, solved below {SOLVED:e}",
        arguments.oversampling, arguments.iterations
    );
    println!("{:>9} {:36} {:>7} {:>10} {:>10} {:>7}", "condition", "way", "passes", "train", "test", "CPU s");
    for condition in &arguments.conditions {
        let data = place.dir.join("hard.tenfill");
        let mut synth = Command::new(&place.tenfill);
        synth.args([
            "synth",
            "--quiet",
            "--json",
            "--force",
            "--rank",
            "5",
            "--validation",
            "0.1",
            "--dims",
            &dims,
        ]);
        synth.args(["--oversampling", &arguments.oversampling.to_string()]);
        last_line(synth.args(["--condition", &condition.to_string(), "-o"]).arg(&data))?;
        let square = mean_square(&data)?;
        let iterations = arguments.iterations.to_string();
        let limit = ["--max-iterations", iterations.as_str(), "--patience", "0"];
        let tell = |way: &str, passes: f64, cpu: f64, done: &Value| {
            let number = |field: &str| done[field].as_f64().unwrap_or(f64::NAN);
            println!(
                "{condition:>9} {way:36} {passes:>7} {:>10.2e} {:>10.2e} {cpu:>7.1}{}",
                number("train_mse") / square,
                number("test_mse") / square,
                if number("test_mse") < SOLVED * square { "  solved" } else { "" },
            );
        };
        for (way, options) in [
            ("cg", &["--algorithm", "cg"][..]),
            ("cg, exact line search", &["--step", "exact"]),
            ("cg, normal start", &["--algorithm", "cg", "--init", "gaussian"]),
            ("sgd, then cg", &["--algorithm", "sgd"]),
        ] {
            let done = complete(place, &data, "hard-run", &[&PLAIN[..], options, &limit].concat())?;
            let number = |field: &str| done[field].as_f64().unwrap_or(f64::NAN);
            tell(way, number("passes"), number("cpu_seconds"), &done);
        }
        continued(place, &data, &limit, tell)?;
        std::fs::remove_dir_all(&data).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Ever less penalty, each from the model before, and none in the end.
fn continued(
    place: &Place,
    data: &Path,
    limit: &[&str],
    tell: impl Fn(&str, f64, f64, &Value),
) -> Result<(), String> {
    let spread = mean_square(data)?.sqrt();
    let (mut passes, mut cpu) = (0.0, 0.0);
    let mut before = String::new();
    for (number, share) in LADDER.iter().chain(&["0"]).enumerate() {
        let lambda = (share.parse::<f64>().unwrap_or(0.0) * spread).to_string();
        let run = format!("hard-run-{number}");
        let mut options = vec!["--bias", "none", "--no-clip", "--penalty", &lambda];
        if !before.is_empty() {
            options.extend(["--init", before.as_str()]);
        }
        options.extend(limit);
        let done = complete(place, data, &run, &options)?;
        passes += done["passes"].as_f64().unwrap_or(f64::NAN);
        cpu += done["cpu_seconds"].as_f64().unwrap_or(f64::NAN);
        if !before.is_empty() {
            std::fs::remove_dir_all(&before).map_err(|error| error.to_string())?;
        }
        before = place.dir.join(run).display().to_string();
        if number == LADDER.len() {
            tell("cg, ever less penalty, none at last", passes, cpu, &done);
        }
    }
    std::fs::remove_dir_all(before).map_err(|error| error.to_string())
}
