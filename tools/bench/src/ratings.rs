//! Ratings: sweeps and the plain method on synthetic data, and against a tuned biased matrix
//! factorisation of another program on data of the user's.

use crate::cases::Place;
use crate::{export, measure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use tenfill_engine::Dataset;
use tenfill_engine::shard::Split;
use tenfill_engine::synth::{RatingsSpec, RatingsSynth};

/// Compare the default settings with the plain method, and with cmfrec and scikit-surprise
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    place: Place,
    /// Sets, or splits, of each kind
    #[arg(long, default_value_t = 3)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// The ranks, each for all three modes, of synthetic ratings; 0 for `--rank auto` alone
    #[arg(long, value_delimiter = ',', default_value = "4,6,8,10")]
    ranks: Vec<usize>,
    /// 71567 x 10681 x 731 with 10 M ratings instead of 6000 x 4000 x 200 with 1 M
    #[arg(long)]
    large: bool,
    /// Tastes behind the synthetic ratings
    #[arg(long, default_value_t = RatingsSpec::TASTES)]
    tastes: usize,
    /// Ratings files of userId, movieId, rating, timestamp to compare on, instead of
    /// synthetic ones
    #[arg(long, value_name = "CSV", num_args = 1..)]
    files: Vec<PathBuf>,
    /// A Python that has cmfrec and scikit-surprise
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// The other programs to compare with on files; empty for none
    #[arg(long, default_value = "cmfrec,surprise")]
    programs: String,
}

const PLAIN: [&str; 7] = ["--bias", "none", "--penalty", "0", "--no-clip", "--metric", "preconditioned"];

impl Arguments {
    fn chosen(&self) -> std::ops::Range<u64> {
        self.first_seed..self.first_seed + self.seeds
    }
}

pub fn run(arguments: &Arguments) -> Result<(), String> {
    std::fs::create_dir_all(&arguments.place.dir).map_err(|error| error.to_string())?;
    if arguments.files.is_empty() {
        return synthetic(arguments);
    }
    arguments.files.iter().try_for_each(|file| compare(arguments, file))
}

/// One run of `complete`: what it printed for programs.
fn complete(arguments: &Arguments, data: &Path, rank: &str, options: &[&str]) -> Result<Value, String> {
    let run = arguments.place.dir.join("ratings-run");
    let mut command = Command::new(&arguments.place.tenfill);
    command.args(["complete", "--quiet", "--json", "--force", "--rank", rank, "-o"]);
    let done = measure::last_line(command.arg(&run).arg(data).args(options))?;
    std::fs::remove_dir_all(run).map_err(|error| error.to_string())?;
    Ok(done)
}

fn number(line: &Value, field: &str) -> f64 {
    line[field].as_f64().unwrap_or(f64::NAN)
}

fn synthetic(arguments: &Arguments) -> Result<(), String> {
    let (dims, entries) =
        if arguments.large { ([71_567, 10_681, 731], 10_000_000) } else { ([6000, 4000, 200], 1_000_000) };
    let tastes = arguments.tastes;
    println!("ratings {dims:?}, {tastes} tastes, {entries} train entries; test MSE at the best validation");
    println!(
        "seed  rank      plain: MSE   iterations  CPU s   MB | sweeps:  MSE  rank      iterations  passes  CPU s   MB"
    );
    for seed in arguments.chosen() {
        let data = arguments.place.dir.join("ratings.tenfill");
        let text = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let mut synth = Command::new(&arguments.place.tenfill);
        synth.args([
            "synth",
            "--quiet",
            "--force",
            "--kind",
            "ratings",
            "--validation",
            "0.1",
            "--test",
            "0.1",
        ]);
        synth.args(["--rank", &tastes.to_string()]);
        synth.args(["--dims", &text(&dims), "--entries", &entries.to_string(), "--seed", &seed.to_string()]);
        measure::run(synth.arg("-o").arg(&data))?;
        let done = complete(arguments, &data, "auto", &[])?;
        println!(
            "{seed:>4}  auto  {:.5}  rank {}, {} passes, {:.1} CPU s, {:.0} MB",
            number(&done, "test_mse"),
            done["rank"].to_string().trim_matches(['[', ']']),
            number(&done, "passes"),
            number(&done, "cpu_seconds"),
            number(&done, "peak_anon_bytes") / 1e6,
        );
        if arguments.ranks == [0] {
            continue;
        }
        let (mut plain, mut ours) = (Vec::new(), Vec::new());
        for rank in &arguments.ranks {
            let rank = &format!("{rank},{rank},{rank}");
            let fixed = complete(arguments, &data, rank, &PLAIN)?;
            let done = complete(arguments, &data, rank, &[])?;
            println!(
                "{seed:>4}  {rank:8}  {:>10.4}  {:>10}  {:>7.1}  {:>3.0} | {:>12.4}  {:8}  {:>10}  {:>6}  {:>5.1}  {:>3.0}",
                number(&fixed, "test_mse"),
                number(&fixed, "iterations"),
                number(&fixed, "cpu_seconds"),
                number(&fixed, "peak_anon_bytes") / 1e6,
                number(&done, "test_mse"),
                done["rank"].to_string().trim_matches(['[', ']']),
                number(&done, "iterations"),
                number(&done, "passes"),
                number(&done, "cpu_seconds"),
                number(&done, "peak_anon_bytes") / 1e6,
            );
            plain.push(number(&fixed, "test_mse"));
            ours.push(number(&done, "test_mse"));
        }
        let least = |of: &[f64]| of.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ours.iter().copied().fold(0.0, f64::max);
        println!(
            "{seed:>4}  sweeps: worst rank {:+.2} % of the best, worst / best {:+.2} / {:+.2} % of the best plain; the generating model {:.4}",
            100.0 * (most / least(&ours) - 1.0),
            100.0 * (most / least(&plain) - 1.0),
            100.0 * (least(&ours) / least(&plain) - 1.0),
            generating(&data, dims, entries, seed, tastes)?,
        );
        std::fs::remove_dir_all(data).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The test MSE of the model that the ratings were made from.
fn generating(data: &Path, dims: [u32; 3], entries: u64, seed: u64, tastes: usize) -> Result<f64, String> {
    let mut spec = RatingsSpec::new(dims[0], dims[1], dims[2], entries);
    (spec.seed, spec.validation, spec.test, spec.rank) = (seed, entries / 10, entries / 10, tastes);
    let synth = RatingsSynth::new(spec).map_err(|error| error.to_string())?;
    let dataset = Dataset::open(data).map_err(|error| error.to_string())?;
    let (mut squares, mut count) = (0.0, 0.0);
    let read = dataset.for_each(Split::Test, |i, value| {
        squares += (value - synth.model().predict(i[0], i[1], i[2])).powi(2);
        count += 1.0;
    });
    read.map_err(|error| error.to_string())?;
    Ok(squares / count)
}

fn compare(arguments: &Arguments, file: &Path) -> Result<(), String> {
    println!("{}: 80/10/10, test RMSE at the best validation", file.display());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("biased_mf.py");
    for seed in arguments.chosen() {
        let (data, folder) =
            (arguments.place.dir.join("ratings.tenfill"), arguments.place.dir.join("ratings-csv"));
        let mut convert = Command::new(&arguments.place.tenfill);
        convert.args(["convert", "--quiet", "--force", "--modes", "userId,movieId,timestamp"]);
        convert.args(["--value", "rating", "--bin", "timestamp=7d", "--seed", &seed.to_string()]);
        measure::run(convert.arg(file).arg("-o").arg(&data))?;
        export::export(&data, &folder)?;
        for (rank, options) in [
            ("auto", &[][..]),
            ("20,20,2", &[]),
            ("auto", &["--bias-time", "userId:timestamp"]),
            ("4,4,4", &PLAIN),
        ] {
            let done = complete(arguments, &data, rank, options)?;
            println!(
                "split {seed}  tenfill --rank {rank} {:36} {:.4}  (validation {:.4}, rank {}, {} passes, {:.1} CPU s, {:.0} MB)",
                options.join(" "),
                number(&done, "test_mse").sqrt(),
                number(&done, "validation_mse").sqrt(),
                done["rank"].to_string().trim_matches(['[', ']']),
                number(&done, "passes"),
                number(&done, "cpu_seconds"),
                number(&done, "peak_anon_bytes") / 1e6,
            );
        }
        let mut output = String::new();
        if !arguments.programs.is_empty() {
            let mut other = Command::new(&arguments.python);
            other.arg(&script).arg(&folder).args(["--programs", &arguments.programs]);
            output = measure::run(&mut other)?.1;
        }
        for line in output.lines() {
            let found: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
            println!(
                "split {seed}  {:8} k = {:3}, lambda tuned {:26} {:.4}  (validation {:.4}, lambda {:.4}, for biases {})",
                found["program"].as_str().unwrap_or_default(),
                found["k"].to_string(),
                "",
                number(&found, "test_rmse"),
                number(&found, "validation_mse").sqrt(),
                number(&found, "lambda"),
                found["bias"].to_string().trim_matches('"'),
            );
        }
        for path in [data, folder] {
            std::fs::remove_dir_all(path).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}
