//! Low-rank data that is read from the disk in every pass: wall time to the tolerance, of `auto` and of `cg`.

use crate::cases::{Place, evict};
use crate::measure;
use serde_json::Value;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;
use tenfill_engine::Dataset;

/// Wall time to train MSE 1e-12 on cold data, auto against cg
///
/// 300 million entries take some 3 GB of disk. The data is dropped from the page cache before a run, and again and again
/// while it goes on, so that passes read the disk as they would with data larger than memory.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    place: Place,
    /// Entries, in millions
    #[arg(long, default_value_t = 300)]
    millions: u64,
    /// Mode sizes
    #[arg(long, default_value = "1000000,300000,300000")]
    dims: String,
    /// Memory for every run
    #[arg(long, default_value = "2G")]
    memory: String,
    /// Seeds data and starts
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub fn run(arguments: &Arguments) -> Result<(), String> {
    let (place, seed) = (&arguments.place, arguments.seed.to_string());
    std::fs::create_dir_all(&place.dir).map_err(|error| error.to_string())?;
    let (data, run) = (place.dir.join("cold.tenfill"), place.dir.join("cold-run"));
    let entries = (arguments.millions * 1_000_000).to_string();
    let mut synth = Command::new(&place.tenfill);
    synth.args(["synth", "--quiet", "--force", "--rank", "5", "--seed", &seed, "--dims", &arguments.dims]);
    measure::run(synth.args(["--entries", &entries, "--test", "0.01", "-o"]).arg(&data))?;
    let dataset = Dataset::open(&data).map_err(|error| error.to_string())?;
    println!("{} r5, {} M entries, --memory {}\n", arguments.dims, arguments.millions, arguments.memory);
    println!("| algorithm | passes | wall s | CPU s | peak anonymous memory | test MSE | ended by |");
    println!("|---|---|---|---|---|---|---|");
    for algorithm in ["cg", "auto"] {
        let mut complete = Command::new(&place.tenfill);
        complete.args(["complete", "--quiet", "--json", "--force", "--rank", "5", "--tolerance", "1e-12"]);
        complete.args(["--bias", "none", "--penalty", "0", "--no-clip", "--max-iterations", "400"]);
        complete.args(["--memory", &arguments.memory, "--seed", &seed, "--algorithm", algorithm, "-o"]);
        let (used, output) = without_cache(&dataset, || measure::run(complete.arg(&run).arg(&data)))?;
        let done: Value = serde_json::from_str(output.lines().last().unwrap_or_default())
            .map_err(|error| error.to_string())?;
        println!(
            "| {algorithm} | {} | {:.0} | {:.0} | {:.0} MB | {:.1e} | {} |",
            done["passes"],
            used.wall,
            used.cpu,
            used.peak_anonymous as f64 / 1e6,
            done["test_mse"].as_f64().unwrap_or(f64::NAN),
            done["stopped_by"].as_str().unwrap_or_default(),
        );
        std::fs::remove_dir_all(&run).map_err(|error| error.to_string())?;
    }
    drop(dataset);
    std::fs::remove_dir_all(&data).map_err(|error| error.to_string())
}

/// Does something while the train entries are kept out of the page cache.
fn without_cache<T>(dataset: &Dataset, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    evict(dataset)?;
    let done = AtomicBool::new(false);
    scope(|threads| {
        let evicting = threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                evict(dataset)?;
                sleep(Duration::from_millis(100));
            }
            Ok(())
        });
        let result = work();
        done.store(true, Ordering::Relaxed);
        let evicted: Result<(), String> =
            evicting.join().unwrap_or_else(|_| Err("the thread that evicts panicked".into()));
        evicted.and(result)
    })
}
