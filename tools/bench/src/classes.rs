//! Classes of low-rank data, beyond the paper's instances: how many of each are solved, and in how many passes?

use crate::cases::Place;
use crate::measure::{last_line, run as run_command};
use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use tenfill_engine::Dataset;
use tenfill_engine::manifold::{Distribution, random_point};

/// Complete many kinds of low-rank data, and count what is solved
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    place: Place,
    /// Another tenfill, with its own defaults, to compare with
    #[arg(long)]
    before: Option<PathBuf>,
    /// At most so many seeds of each class
    #[arg(long, default_value_t = 30)]
    seeds: u64,
    /// Only classes whose name has this in it
    #[arg(long, default_value = "")]
    only: String,
    /// Iterations that a run has
    #[arg(long, default_value_t = 400)]
    iterations: u32,
}

/// How the entries of a class are made.
enum Data {
    /// By `synth`.
    Synth(&'static str),
    /// At ids of mode sizes n whose frequency falls as 1 / id.
    Zipf { n: u32, entries: usize },
    /// With a constant added that is a hundred times the RMS.
    Offset { n: u32, entries: usize },
}

struct Class {
    name: &'static str,
    data: Data,
    rank: &'static str,
    seeds: u64,
    /// Noise, as a share of the RMS.
    noise: f64,
}

const fn synth(name: &'static str, rank: &'static str, seeds: u64, noise: f64, data: &'static str) -> Class {
    Class { name, data: Data::Synth(data), rank, seeds, noise }
}

const CLASSES: [Class; 21] = [
    synth("order 2, OS 15", "4", 30, 0.0, "--dims 1000,800 --rank 4 --oversampling 15"),
    synth("order 4, OS 12", "4,3,3,2", 10, 0.0, "--dims 400,300,200,100 --rank 4,3,3,2 --oversampling 12"),
    synth("order 5, OS 12", "3,2,2,2,2", 5, 0.0, "--dims 100,80,60,50,40 --rank 3,2,2,2,2 --oversampling 12"),
    synth(
        "Gaussian 300^3 OS 20",
        "5",
        3,
        0.0,
        "--dims 300,300,300 --rank 5 --oversampling 20 --factors gaussian",
    ),
    synth(
        "Gaussian 300^3 OS 40",
        "5",
        3,
        0.0,
        "--dims 300,300,300 --rank 5 --oversampling 40 --factors gaussian",
    ),
    synth(
        "Gaussian 1000^3 OS 40",
        "5",
        3,
        0.0,
        "--dims 1000,1000,1000 --rank 5 --oversampling 40 --factors gaussian",
    ),
    synth(
        "Gaussian 1000^3 OS 80",
        "5",
        3,
        0.0,
        "--dims 1000,1000,1000 --rank 5 --oversampling 80 --factors gaussian",
    ),
    synth(
        "diagonal 300^3, 4 n^1.5",
        "5",
        3,
        0.0,
        "--dims 300,300,300 --rank 5 --entries 20785 --condition 5",
    ),
    synth(
        "diagonal 300^3, 6 n^1.5",
        "5",
        3,
        0.0,
        "--dims 300,300,300 --rank 5 --entries 31177 --condition 5",
    ),
    synth(
        "diagonal 300^3, 12 n^1.5",
        "5",
        3,
        0.0,
        "--dims 300,300,300 --rank 5 --entries 62354 --condition 5",
    ),
    synth(
        "diagonal 1000^3, 4 n^1.5",
        "5",
        3,
        0.0,
        "--dims 1000,1000,1000 --rank 5 --entries 126491 --condition 5",
    ),
    synth(
        "diagonal 1000^3, 6 n^1.5",
        "5",
        3,
        0.0,
        "--dims 1000,1000,1000 --rank 5 --entries 189737 --condition 5",
    ),
    synth(
        "diagonal 1000^3, 12 n^1.5",
        "5",
        3,
        0.0,
        "--dims 1000,1000,1000 --rank 5 --entries 379473 --condition 5",
    ),
    Class {
        name: "uneven (Zipf) 2000^3",
        data: Data::Zipf { n: 2000, entries: 600_000 },
        rank: "5",
        seeds: 3,
        noise: 0.0,
    },
    synth(
        "noise 1e-3 of the RMS",
        "5",
        3,
        1e-3,
        "--dims 1000,1000,1000 --rank 5 --oversampling 10 --noise 1e-3",
    ),
    synth(
        "noise 1e-1 of the RMS",
        "5",
        3,
        1e-1,
        "--dims 1000,1000,1000 --rank 5 --oversampling 10 --noise 1e-1",
    ),
    synth("300^3, 10 % of all cells", "5", 3, 0.0, "--dims 300,300,300 --rank 5 --entries 2700000"),
    synth("300^3, 30 % of all cells", "5", 3, 0.0, "--dims 300,300,300 --rank 5 --entries 8100000"),
    synth(
        "300^3, 30 %, Gaussian",
        "5",
        3,
        0.0,
        "--dims 300,300,300 --rank 5 --entries 8100000 --factors gaussian",
    ),
    synth(
        "300^3, 30 %, diagonal",
        "5",
        3,
        0.0,
        "--dims 300,300,300 --rank 5 --entries 8100000 --condition 5",
    ),
    Class {
        name: "a large offset, 1000^3",
        data: Data::Offset { n: 1000, entries: 240_000 },
        rank: "6",
        seeds: 3,
        noise: 0.0,
    },
];

/// The share of the values' variance that may be left on the test entries, and the multiple of the noise.
const SOLVED: f64 = 1e-8;
const FLOOR: f64 = 1.5;

/// Of one way: solved, and the passes of what was solved.
#[derive(Default)]
struct Tally {
    solved: u64,
    passes: Vec<f64>,
    iterations: Vec<f64>,
}

impl Tally {
    fn add(&mut self, done: &Value, limit: f64) {
        if done["test_mse"].as_f64().is_some_and(|mse| mse <= limit) {
            self.solved += 1;
            self.passes.extend(done["passes"].as_f64());
            self.iterations.extend(done["iterations"].as_f64());
        }
    }

    fn cell(&mut self) -> String {
        let middle = |numbers: &mut Vec<f64>| {
            numbers.sort_by(f64::total_cmp);
            let found = numbers.get(numbers.len() / 2).zip(numbers.last());
            found.map_or(String::new(), |(middle, most)| format!("{middle} ({most})"))
        };
        let (passes, iterations) = (middle(&mut self.passes), middle(&mut self.iterations));
        format!("{:>3} {passes:>11} {iterations:>11}", self.solved)
    }
}

pub fn run(arguments: &Arguments) -> Result<(), String> {
    let place = &arguments.place;
    std::fs::create_dir_all(&place.dir).map_err(|error| error.to_string())?;
    println!(
        "solved, and of these passes and iterations: median (most); solved: test MSE at most {SOLVED:e} of the variance,"
    );
    println!("or {FLOOR} times that of the noise; {} iterations", arguments.iterations);
    println!("{:26} {:>5} | {:>27} | {:>27} | {:>27}", "class", "tried", "before", "cg", "auto");
    for class in CLASSES.iter().filter(|class| class.name.contains(&arguments.only)) {
        let mut tallies = [Tally::default(), Tally::default(), Tally::default()];
        let seeds = class.seeds.min(arguments.seeds);
        for seed in 1..=seeds {
            let data = place.dir.join("class.tenfill");
            make(place, &class.data, seed, &data)?;
            let limit = limit(&data, class.noise)?;
            let ways = [
                (arguments.before.as_ref(), &[][..]),
                (Some(&place.tenfill), &["--algorithm", "cg"][..]),
                (Some(&place.tenfill), &["--algorithm", "auto"][..]),
            ];
            for ((tenfill, options), tally) in ways.into_iter().zip(&mut tallies) {
                let Some(tenfill) = tenfill else { continue };
                let mut command = Command::new(tenfill);
                command.args(["complete", "--quiet", "--json", "--force", "--rank", class.rank]);
                command.args(["--bias", "none", "--penalty", "0", "--no-clip"]);
                command.args(["--max-iterations", &arguments.iterations.to_string()]);
                command.args(["--seed", &seed.to_string()]).args(options);
                tally.add(&last_line(command.arg("-o").arg(place.dir.join("class-run")).arg(&data))?, limit);
            }
            std::fs::remove_dir_all(&data).map_err(|error| error.to_string())?;
        }
        let cells: Vec<String> = tallies.iter_mut().map(Tally::cell).collect();
        println!("{:26} {seeds:>5} | {} | {} | {}", class.name, cells[0], cells[1], cells[2]);
    }
    Ok(())
}

/// The test MSE at which a class counts as solved.
fn limit(data: &Path, noise: f64) -> Result<f64, String> {
    let dataset = Dataset::open(data).map_err(|error| error.to_string())?;
    let manifest = dataset.manifest();
    let square = manifest.values.sum_of_squares / manifest.train.entries as f64;
    Ok((SOLVED * manifest.variance()).max(FLOOR * noise * noise * square))
}

fn make(place: &Place, data: &Data, seed: u64, out: &Path) -> Result<(), String> {
    let seed_text = seed.to_string();
    /// Where along a mode a number from 0 to 1 falls.
    type Pick = fn(u32, f64) -> u32;
    let (n, entries, pick, offset): (u32, usize, Pick, f64) = match *data {
        Data::Synth(options) => {
            let mut synth = Command::new(&place.tenfill);
            synth.args(["synth", "--quiet", "--force", "--seed", &seed_text]).args(options.split(' '));
            return run_command(synth.arg("-o").arg(out)).map(|_| ());
        }
        // The inverse of the distribution function log(1 + id) / log(1 + n).
        Data::Zipf { n, entries } => (n, entries, |n, u| (f64::from(n + 1).powf(u) - 1.0) as u32, 0.0),
        Data::Offset { n, entries } => (n, entries, |n, u| (f64::from(n) * u) as u32, 100.0),
    };
    // Not the seed of the run, whose start comes from the same generator.
    let point = random_point(&[n as usize; 3], &[5; 3], Distribution::Uniform, 1000 + seed);
    let mut state = seed;
    // SplitMix64.
    let mut uniform = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    };
    // The mean square of a tensor of orthonormal factors is that of its core over all cells.
    let rms = (point.core.dot(&point.core) / point.cells()).sqrt();
    let mut text = String::from("i,j,k,value\n");
    for _ in 0..entries + entries / 10 {
        let index = [0; 3].map(|_: u32| pick(n, uniform()).min(n - 1) as usize);
        let value = point.value_at(&index) + offset * rms;
        let _ = writeln!(text, "{},{},{},{value}", index[0], index[1], index[2]);
    }
    let csv = place.dir.join("class.csv");
    std::fs::write(&csv, text).map_err(|error| error.to_string())?;
    let mut convert = Command::new(&place.tenfill);
    convert.args([
        "convert",
        "--quiet",
        "--force",
        "--modes",
        "i,j,k",
        "--value",
        "value",
        "--duplicates",
        "first",
    ]);
    convert.args(["--split", "90/0/10", "--seed", &seed_text]);
    run_command(convert.arg("-o").arg(out).arg(&csv))?;
    std::fs::remove_file(csv).map_err(|error| error.to_string())
}
