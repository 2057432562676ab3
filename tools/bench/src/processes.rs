//! What several processes cost on one machine, and what the fixed order of sums costs them.

use crate::cases::{Place, dataset};
use crate::measure;
use serde_json::Value;
use std::process::Command;
use std::time::Instant;
use tenfill_engine::team::Team;

/// Compare 2 processes of 1 thread with 1 process of 2 threads, and the memory of 1, 2 and 4 with what `inspect
/// --ranks` says (needs a tenfill with `--features mpi`, and mpirun)
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    place: Place,
    /// Times that each is run, in turn
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Iterations of a run
    #[arg(long, default_value_t = 12)]
    iterations: usize,
    /// Ranks to try
    #[arg(long, value_delimiter = ',', default_values_t = [4, 10])]
    ranks: Vec<usize>,
}

const RATINGS: &str = "--kind ratings --dims 71567,10681,731 --entries 10000000";

pub fn run(arguments: &Arguments) -> Result<(), String> {
    let place = &arguments.place;
    let data = dataset("ratings10m", RATINGS, &place.dir, &place.tenfill)?;
    println!(
        "ratings 71567 x 10681 x 731, 10 M entries, the plain method; medians of {} rounds",
        arguments.rounds
    );
    println!("{:>4} {:>22} {:>14} {:>14} {:>12}", "rank", "", "s / iteration", "CPU s / iter.", "peak MB");
    for &rank in &arguments.ranks {
        let mut found = [Vec::new(), Vec::new()];
        for _ in 0..arguments.rounds {
            for (processes, found) in [1, 2].into_iter().zip(&mut found) {
                let run = place.dir.join("processes-run");
                let threads = 2 / processes;
                found.push(measure_run(arguments, processes, threads, rank, data.directory(), &run)?);
            }
        }
        let median = |found: &[[f64; 3]], which: usize| {
            let mut values: Vec<f64> = found.iter().map(|one| one[which]).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        for (name, found) in ["1 process x 2 threads", "2 processes x 1 thread"].iter().zip(&found) {
            println!(
                "{rank:>4} {name:>22} {:>14.4} {:>14.4} {:>12.1}",
                median(found, 0),
                median(found, 1),
                median(found, 2)
            );
        }
        println!(
            "{:>4} {:>22} {:>+13.1}% {:>+13.1}%",
            "",
            "overhead",
            100.0 * (median(&found[1], 0) / median(&found[0], 0) - 1.0),
            100.0 * (median(&found[1], 1) / median(&found[0], 1) - 1.0)
        );
    }
    memory(arguments)
}

/// A mode of a million rows, where the rows that a process owns are most of its memory.
fn memory(arguments: &Arguments) -> Result<(), String> {
    const TALL: &str = "--dims 1000000,20000,500 --entries 5000000 --test 0 --rank 3 --values f32";
    let place = &arguments.place;
    let data = dataset("rows5m", TALL, &place.dir, &place.tenfill)?;
    println!("\n1000000 x 20000 x 500, 5 M entries, rank 10: the process that takes the most");
    println!("{:>9} {:>14} {:>10} {:>7}", "processes", "predicted MB", "peak MB", "ratio");
    for processes in [1, 2, 4] {
        let mut inspect = Command::new(&place.tenfill);
        inspect.args(["inspect", "--quiet", "--json", "--rank", "10", "--threads", "1", "--ranks"]);
        let (_, told) = measure::run(inspect.arg(processes.to_string()).arg(data.directory()))?;
        let told: Value = serde_json::from_str(told.trim()).map_err(|error| error.to_string())?;
        let predicted = told["memory_bytes"].as_f64().unwrap_or(f64::NAN) / 1e6;
        let run = place.dir.join("processes-run");
        let [_, _, peak] = measure_run(arguments, processes, 1, 10, data.directory(), &run)?;
        println!("{processes:>9} {predicted:>14.1} {peak:>10.1} {:>7.2}", predicted / peak);
    }
    Ok(())
}

/// Wall and processor seconds per iteration, and the largest peak of memory of a process, in MB.
fn measure_run(
    arguments: &Arguments,
    processes: usize,
    threads: usize,
    rank: usize,
    data: &std::path::Path,
    run: &std::path::Path,
) -> Result<[f64; 3], String> {
    let place = &arguments.place;
    let mut command = match processes {
        1 => Command::new(&place.tenfill),
        _ => {
            let mut mpirun = Command::new("mpirun");
            mpirun.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
            mpirun.args(["-np", &processes.to_string(), "--oversubscribe"]).arg(&place.tenfill);
            mpirun
        }
    };
    let threads = threads.to_string();
    let (rank, iterations) = (rank.to_string(), arguments.iterations.to_string());
    command.args(["complete", "--quiet", "--json", "--force", "--memory", "4G", "--tolerance", "0"]);
    command.args(["--bias", "none", "--penalty", "0", "--checkpoint-every", "0"]);
    command.args(["--rank", &rank, "--max-iterations", &iterations, "--threads", &threads]);
    let (_, output) = measure::run(command.arg("-o").arg(run).arg(data))?;
    let last: Value =
        serde_json::from_str(output.lines().last().unwrap_or_default()).map_err(|error| error.to_string())?;
    let log = std::fs::read_to_string(run.join("log.jsonl")).map_err(|error| error.to_string())?;
    let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let (Some(first), Some(end)) = (lines.first(), lines.last()) else { return Err("an empty log".into()) };
    let number = |line: &Value, field: &str| line[field].as_f64().unwrap_or(f64::NAN);
    let count = (lines.len() - 1) as f64;
    // The first iteration reads every block for the first time; the time up to it is no iteration's.
    let per = |field: &str| (number(end, field) - number(first, field)) / count;
    std::fs::remove_dir_all(run).map_err(|error| error.to_string())?;
    Ok([per("seconds"), per("cpu_seconds"), number(&last, "peak_anon_bytes") / 1e6])
}

/// Compare sums in the order of lanes with MPI's own allreduce: start it with mpirun
#[derive(clap::Args)]
pub struct ReduceArguments {
    /// Numbers to sum up; the default is the gradient of the 10 M ratings at rank 10
    #[arg(long, default_value_t = 830_000)]
    numbers: usize,
    /// Times that each is done, in turn
    #[arg(long, default_value_t = 25)]
    rounds: usize,
}

pub fn reduce(arguments: &ReduceArguments) -> Result<(), String> {
    let team = Team::join().map_err(|error| error.to_string())?;
    let own: Vec<f64> = (0..arguments.numbers).map(|n| ((n * 7 + team.process()) as f64).sin()).collect();
    let mut times = [Vec::new(), Vec::new()];
    let mut total = vec![0.0; own.len()];
    for _ in 0..arguments.rounds {
        team.combine(&mut [0], tenfill_engine::team::Combine::Or); // all begin together
        let begun = Instant::now();
        team.chain(&mut total, |offset, to| {
            to.iter_mut().zip(&own[offset..]).for_each(|(to, from)| *to += from);
        });
        times[0].push(begun.elapsed().as_secs_f64());
        team.combine(&mut [0], tenfill_engine::team::Combine::Or);
        let begun = Instant::now();
        total.copy_from_slice(&own);
        team.sum_in_any_order(&mut total);
        times[1].push(begun.elapsed().as_secs_f64());
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2] * 1e3
    };
    let [order, any] = times.each_mut().map(median);
    if team.is_first() {
        println!(
            "{} processes, {:.1} MB: in the order of lanes {order:.1} ms, MPI_Allreduce {any:.1} ms, ratio {:.2}",
            team.size(),
            arguments.numbers as f64 * 8e-6,
            order / any
        );
    }
    team.finish();
    Ok(())
}
