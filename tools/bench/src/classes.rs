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
    /// The first of them: settings were chosen with 1 to 33 in sight
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// Only classes whose name has this in it
    #[arg(long, default_value = "")]
    only: String,
    /// Only these columns: before, cg, auto, none
    #[arg(long, value_delimiter = ',')]
    columns: Vec<String>,
    /// Only write the first seed's entries of the first class that is made here and not by `synth`, as CSV
    #[arg(long, value_name = "CSV")]
    write: Option<PathBuf>,
    /// Iterations that a run has; five times as many for uneven data
    #[arg(long, default_value_t = 400)]
    iterations: u32,
}

/// How the entries of a class are made.
enum Data {
    /// By `synth`.
    Synth(&'static str),
    /// Here.
    Drawn(Drawn),
}

/// Entries of a tensor of rank 5.
struct Drawn {
    distribution: Distribution,
    dims: [usize; 3],
    /// The frequency of an id of a mode falls as id^-exponent.
    exponents: [f64; 3],
    entries: usize,
    /// A constant is added that is so many times the RMS.
    offset: f64,
}

const UNEVEN: Drawn = Drawn {
    distribution: Distribution::Uniform,
    dims: [2000; 3],
    exponents: [0.5; 3],
    entries: 600_000,
    offset: 0.0,
};
const LIKE_RATINGS: Drawn =
    Drawn { dims: [20_000, 3000, 100], exponents: [0.5, 0.8, 0.0], entries: 1_200_000, ..UNEVEN };
const OFFSET: Drawn =
    Drawn { dims: [1000; 3], exponents: [0.0; 3], entries: 240_000, offset: 100.0, ..UNEVEN };

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

const fn drawn(name: &'static str, noise: f64, data: Drawn) -> Class {
    Class { name, data: Data::Drawn(data), rank: "5", seeds: 3, noise }
}

const CLASSES: [Class; 27] = [
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
    drawn("uneven (Zipf) 2000^3", 0.0, Drawn { exponents: [1.0; 3], ..UNEVEN }),
    drawn("half as many entries", 0.0, Drawn { exponents: [1.0; 3], entries: 300_000, ..UNEVEN }),
    drawn("uneven, 1 / sqrt(id)", 0.0, UNEVEN),
    drawn("uneven, Gaussian", 0.0, Drawn { distribution: Distribution::Gaussian, ..UNEVEN }),
    drawn("uneven 20000x3000x100", 0.0, LIKE_RATINGS),
    drawn("the same, noise 1e-3", 1e-3, LIKE_RATINGS),
    drawn("the same, noise 1e-1", 1e-1, LIKE_RATINGS),
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
    Class { rank: "6", ..drawn("a large offset, 1000^3", 0.0, OFFSET) },
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
    let classes = || CLASSES.iter().filter(|class| class.name.contains(&arguments.only));
    if let Some(csv) = &arguments.write {
        let drawn = classes().find_map(|class| match &class.data {
            Data::Drawn(drawn) => Some((class, drawn)),
            Data::Synth(_) => None,
        });
        let (class, drawn) = drawn.ok_or("`synth` makes these classes")?;
        return write(drawn, class.noise, arguments.first_seed, csv);
    }
    println!(
        "solved, and of these passes and iterations: median (most); solved: test MSE at most {SOLVED:e} of the variance,"
    );
    println!(
        "or {FLOOR} times that of the noise; {0} iterations, 5 x {0} for uneven data",
        arguments.iterations
    );
    println!(
        "no rank: neither rank nor method is given, and a tenth as many entries as train has are for validation"
    );
    let names = ["before", "cg", "auto", "no rank"].map(|name| format!("{name:>27}")).join(" | ");
    println!("{:26} {:>5} | {names}", "class", "tried");
    for class in classes() {
        let mut tallies: [Tally; 4] = Default::default();
        let seeds = class.seeds.min(arguments.seeds);
        let uneven = matches!(&class.data, Data::Drawn(drawn) if drawn.exponents != [0.0; 3]);
        let iterations = (arguments.iterations * if uneven { 5 } else { 1 }).to_string();
        for seed in arguments.first_seed..arguments.first_seed + seeds {
            let data = place.dir.join("class.tenfill");
            let plain = ["--bias", "none", "--penalty", "0", "--no-clip", "--rank", class.rank];
            // Each way has a folder of its own: an older tenfill does not replace the run of a newer one.
            let ways = [
                ("before", arguments.before.as_ref(), plain.to_vec()),
                ("cg", Some(&place.tenfill), [&plain[..], &["--algorithm", "cg"]].concat()),
                ("auto", Some(&place.tenfill), [&plain[..], &["--algorithm", "auto"]].concat()),
                ("none", Some(&place.tenfill), Vec::new()),
            ];
            make(place, class, seed, false, &data)?;
            for ((name, tenfill, options), tally) in ways.into_iter().zip(&mut tallies) {
                let asked = arguments.columns.is_empty() || arguments.columns.iter().any(|of| of == name);
                let Some(tenfill) = tenfill.filter(|_| asked) else { continue };
                if name == "none" {
                    make(place, class, seed, true, &data)?;
                }
                let limit = limit(&data, class.noise)?;
                let mut command = Command::new(tenfill);
                command.args(["complete", "--quiet", "--json", "--force", "--max-iterations", &iterations]);
                command.args(["--seed", &seed.to_string()]).args(options);
                let out = place.dir.join(format!("class-run-{name}"));
                tally.add(&last_line(command.arg("-o").arg(out).arg(&data))?, limit);
            }
            std::fs::remove_dir_all(&data).map_err(|error| error.to_string())?;
        }
        let cells = tallies.each_mut().map(Tally::cell).join(" | ");
        println!("{:26} {seeds:>5} | {cells}", class.name);
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

/// Makes the dataset of a class, with validation entries or without.
fn make(place: &Place, class: &Class, seed: u64, validation: bool, out: &Path) -> Result<(), String> {
    let seed_text = seed.to_string();
    let drawn = match &class.data {
        Data::Synth(options) => {
            let mut synth = Command::new(&place.tenfill);
            synth.args(["synth", "--quiet", "--force", "--seed", &seed_text]).args(options.split(' '));
            synth.args(["--validation", if validation { "0.1" } else { "0" }]);
            return run_command(synth.arg("-o").arg(out)).map(|_| ());
        }
        Data::Drawn(drawn) => drawn,
    };
    let csv = place.dir.join("class.csv");
    write(drawn, class.noise, seed, &csv)?;
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
    convert.args(["--split", if validation { "80/10/10" } else { "90/0/10" }, "--seed", &seed_text]);
    run_command(convert.arg("-o").arg(out).arg(&csv))?;
    std::fs::remove_file(csv).map_err(|error| error.to_string())
}

/// Writes the entries of a tensor as CSV.
fn write(drawn: &Drawn, noise: f64, seed: u64, csv: &Path) -> Result<(), String> {
    // The inverse of the distribution function log(1 + id) / log(1 + n), or (id / n)^(1 - exponent).
    let pick = |mode: usize, u: f64| {
        let (n, exponent) = (drawn.dims[mode] as f64, drawn.exponents[mode]);
        let id = if exponent == 1.0 { (n + 1.0).powf(u) - 1.0 } else { n * u.powf(1.0 / (1.0 - exponent)) };
        id.min(n - 1.0) as usize
    };
    // Not the seed of the run, whose start comes from the same generator.
    let point = random_point(&drawn.dims, &[5; 3], drawn.distribution, 1000 + seed);
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
    for _ in 0..drawn.entries + drawn.entries / 10 {
        let index = [0, 1, 2].map(|mode| pick(mode, uniform()));
        // Box and Muller's normal number.
        let chance = (-2.0 * (1.0 - uniform()).ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
        let value = point.value_at(&index) + (drawn.offset + noise * chance) * rms;
        let _ = writeln!(text, "{},{},{},{value}", index[0], index[1], index[2]);
    }
    std::fs::write(csv, text).map_err(|error| error.to_string())
}
