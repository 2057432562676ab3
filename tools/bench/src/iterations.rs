//! What an iteration is made of, and how well its memory was foretold.

use crate::cases::{Place, dataset};
use crate::measure::last_line;
use serde_json::Value;
use std::process::Command;

/// Measure the dense share of iterations, and the peak of memory against `inspect --rank`
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    place: Place,
}

/// Name of the data, synth's arguments, rank.
const CASES: [(&str, &str, &str); 6] = [
    ("u10000", "--dims 10000,10000,10000 --entries 1500000 --rank 5", "5"),
    ("r10os10", "--dims 10000,10000,10000 --rank 10 --oversampling 10", "10"),
    ("ratings10m", "--kind ratings --dims 71567,10681,731 --entries 10000000", "4"),
    ("ratings10m", "--kind ratings --dims 71567,10681,731 --entries 10000000", "10"),
    ("rows5m", "--dims 1000000,20000,500 --entries 5000000 --test 0 --rank 3 --values f32", "10"),
    ("rows30m", "--dims 1000000,20000,500 --entries 30000000 --test 0 --rank 3 --values f32", "10"),
];

pub fn run(arguments: &Arguments) -> Result<(), String> {
    let place = &arguments.place;
    println!("the plain method, 12 iterations; dense: what of an iteration is no pass over the entries");
    println!(
        "{:12} {:>4} {:>12} {:>7} {:>12} {:>10} {:>7}",
        "data", "rank", "s/iteration", "dense", "predicted MB", "peak MB", "ratio"
    );
    for (name, synth, rank) in CASES {
        let data = dataset(name, synth, &place.dir, &place.tenfill)?;
        let run = place.dir.join("iterations-run");
        let mut inspect = Command::new(&place.tenfill);
        let foretold =
            last_line(inspect.args(["inspect", "--quiet", "--json", "--rank", rank]).arg(data.directory()))?;
        let mut complete = Command::new(&place.tenfill);
        complete.args(["complete", "--quiet", "--json", "--force", "--max-iterations", "12", "--rank", rank]);
        complete.args(["--tolerance", "0", "--memory", "4G", "--bias", "none", "--penalty", "0"]);
        let done = last_line(complete.arg("-o").arg(&run).arg(data.directory()))?;
        let log = std::fs::read_to_string(run.join("log.jsonl")).map_err(|error| error.to_string())?;
        let lines: Vec<Value> =
            log.lines().skip(1).filter_map(|line| serde_json::from_str(line).ok()).collect();
        let sum = |field: &str| lines.iter().filter_map(|line| line[field].as_f64()).sum::<f64>();
        let (all, passes) = (sum("iteration_seconds"), sum("pass_seconds"));
        let megabytes = |line: &Value, field: &str| line[field].as_f64().unwrap_or(f64::NAN) / 1e6;
        let (predicted, peak) = (megabytes(&foretold, "memory_bytes"), megabytes(&done, "peak_anon_bytes"));
        println!(
            "{name:12} {rank:>4} {:>12.3} {:>6.1}% {predicted:>12.1} {peak:>10.1} {:>7.2}",
            all / lines.len() as f64,
            100.0 * (1.0 - passes / all),
            predicted / peak,
        );
        std::fs::remove_dir_all(run).map_err(|error| error.to_string())?;
    }
    Ok(())
}
