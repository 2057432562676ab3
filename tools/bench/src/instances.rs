//! Iterations to train MSE 1e-12 on instances of the paper, each with the bound it must keep.

use crate::cases::Place;
use crate::measure;
use serde_json::Value;
use std::process::Command;

/// Complete instances of the paper and count iterations
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    place: Place,
    /// Seeds per instance
    #[arg(long, default_value_t = 3)]
    seeds: u64,
    /// The start: scaled, uniform (the paper's) or gaussian
    #[arg(long, default_value = "scaled")]
    init: String,
    /// The metric: damped, or preconditioned (the paper's as it is)
    #[arg(long, default_value = "damped")]
    metric: String,
}

/// Name, dimensions, rank, oversampling, the most iterations that it may take.
const INSTANCES: [(&str, &str, &str, &str, u64); 6] = [
    ("200^3 r10 OS10", "200,200,200", "10,10,10", "10", 45),
    ("3000^3 r5 OS10", "3000,3000,3000", "5,5,5", "10", 55),
    ("10000^3 r5 OS10", "10000,10000,10000", "5,5,5", "10", 70),
    ("10000^3 r(15,4,4) OS10", "10000,10000,10000", "15,4,4", "10", 60),
    ("20000x7000x7000 r5 OS10", "20000,7000,7000", "5,5,5", "10", 70),
    ("10000^3 r5 OS5", "10000,10000,10000", "5,5,5", "5", 120),
];

pub fn run(arguments: &Arguments) -> Result<(), String> {
    std::fs::create_dir_all(&arguments.place.dir).map_err(|error| error.to_string())?;
    println!(
        "{:26} {:>4} {:>10} {:>6} {:>6} {:>10} {:>10} {:>8} {:>8}",
        "instance", "seed", "iterations", "bound", "passes", "train MSE", "test MSE", "CPU s", "wall s"
    );
    let mut over = 0;
    for (name, dims, rank, oversampling, bound) in INSTANCES {
        for seed in 1..=arguments.seeds {
            let (data, run) =
                (arguments.place.dir.join("instance.tenfill"), arguments.place.dir.join("instance-run"));
            let seed_text = seed.to_string();
            let mut synth = Command::new(&arguments.place.tenfill);
            synth.args([
                "synth",
                "--quiet",
                "--force",
                "--dims",
                dims,
                "--rank",
                rank,
                "--oversampling",
                oversampling,
            ]);
            measure::run(synth.args(["--seed", &seed_text, "-o"]).arg(&data))?;
            let mut complete = Command::new(&arguments.place.tenfill);
            complete.args([
                "complete",
                "--quiet",
                "--json",
                "--force",
                "--rank",
                rank,
                "--init",
                &arguments.init,
                "--metric",
                &arguments.metric,
                "--tolerance",
                "1e-12",
            ]);
            let (_, output) = measure::run(complete.args(["--seed", &seed_text, "-o"]).arg(&run).arg(&data))?;
            let line = output.lines().last().unwrap_or_default();
            let done: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
            let number = |field: &str| done[field].as_f64().unwrap_or(f64::NAN);
            let kept = done["stopped_by"] == "tolerance" && number("iterations") <= bound as f64;
            over += u64::from(!kept);
            println!(
                "{name:26} {seed:>4} {:>10} {bound:>6} {:>6} {:>10.2e} {:>10.2e} {:>8.1} {:>8.1}{}",
                number("iterations"),
                number("passes"),
                number("train_mse"),
                number("test_mse"),
                number("cpu_seconds"),
                number("seconds"),
                if kept { "" } else { "  above the bound" },
            );
            for path in [data, run] {
                std::fs::remove_dir_all(path).map_err(|error| error.to_string())?;
            }
        }
    }
    if over > 0 { Err(format!("{over} runs are above their bound")) } else { Ok(()) }
}
