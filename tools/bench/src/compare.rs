//! Two builds of tenfill side by side: the same runs in turn, so that a busy machine is busy for both.

use crate::cases::dataset;
use crate::measure;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// Compare two builds of tenfill on the same data
#[derive(clap::Args)]
pub struct Arguments {
    /// The one build
    one: PathBuf,
    /// The other
    other: PathBuf,
    /// Where the data is made and kept
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// Runs of each build per case
    #[arg(long, default_value_t = 5)]
    repeats: usize,
    /// Further arguments for both builds' `complete`
    #[arg(long, default_value = "")]
    arguments: String,
}

/// Name, synth's arguments, rank, iterations.
const CASES: [(&str, &str, &str, &str); 3] = [
    ("u10000", "--dims 10000,10000,10000 --entries 1500000 --rank 5", "5", "20"),
    ("ratings10m", "--kind ratings --dims 71567,10681,731 --entries 10000000", "4", "10"),
    ("ratings10m", "--kind ratings --dims 71567,10681,731 --entries 10000000", "10", "5"),
];

pub fn run(arguments: &Arguments) -> Result<(), String> {
    println!(
        "{:12} {:>4} {:>10} {:>10} {:>7} {:>10} {:>10} {:>7}",
        "data", "rank", "one CPU s", "other", "ratio", "one wall s", "other", "ratio"
    );
    for (name, synth, rank, iterations) in CASES {
        let data = dataset(name, synth, &arguments.dir, &arguments.one)?;
        let mut times = [const { (Vec::new(), Vec::new()) }; 2];
        for _ in 0..arguments.repeats {
            for (build, (cpu, wall)) in [&arguments.one, &arguments.other].into_iter().zip(&mut times) {
                let run = arguments.dir.join("compare-run");
                let mut command = Command::new(build);
                command.args(["complete", "--quiet", "--json", "--force", "--tolerance", "0"]);
                command.args(["--patience", "0", "--rank", rank, "--max-iterations", iterations]);
                command.args(arguments.arguments.split_whitespace());
                let (_, output) = measure::run(command.arg(data.directory()).arg("-o").arg(&run))?;
                let done: Value = serde_json::from_str(output.lines().last().unwrap_or_default())
                    .map_err(|error| error.to_string())?;
                cpu.push(done["cpu_seconds"].as_f64().unwrap_or(f64::NAN));
                wall.push(done["seconds"].as_f64().unwrap_or(f64::NAN));
                std::fs::remove_dir_all(run).map_err(|error| error.to_string())?;
            }
        }
        let [one, other] = times.map(|(cpu, wall)| (median(cpu), median(wall)));
        println!(
            "{name:12} {rank:>4} {:>10.2} {:>10.2} {:>7.2} {:>10.2} {:>10.2} {:>7.2}",
            one.0,
            other.0,
            one.0 / other.0,
            one.1,
            other.1,
            one.1 / other.1
        );
    }
    Ok(())
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
