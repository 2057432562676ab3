//! Low-rank data with noise, as people have them: what comes of them without a rank, and with one that is too high?

use crate::cases::Place;
use crate::measure::{last_line, run as run_command};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// Complete low-rank data with noise without a rank, and with one that is too high
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    place: Place,
    /// Another tenfill, to compare with
    #[arg(long)]
    before: Option<std::path::PathBuf>,
    /// Sets of each kind
    #[arg(long, default_value_t = 3)]
    seeds: u64,
    /// The first of them: settings were chosen with 1 to 14 and 51 to 53 of like data in sight
    #[arg(long, default_value_t = 71)]
    first_seed: u64,
    /// Only kinds whose name has this in it
    #[arg(long, default_value = "")]
    only: String,
}

/// What is made.
enum Made {
    /// Sums of products of a number per row: bumps of any width, as in spectra, or normal numbers.
    Products { dims: &'static [usize], components: usize, bumps: bool, bias: f64 },
    /// Facts of a graph: which tail a relation gives to a head depends on kinds of both, and how often on each of them.
    Graph,
}

struct Kind {
    name: &'static str,
    made: Made,
    entries: usize,
    /// Noise, as a share of the values' standard deviation.
    noise: f64,
    /// The rank of the data, and one that is too high.
    ranks: [&'static str; 2],
}

const SPECTRA: Made = Made::Products { dims: &[60, 120, 50], components: 4, bumps: true, bias: 0.0 };
const KINDS: [Kind; 8] = [
    Kind { name: "spectra, no noise", made: SPECTRA, entries: 72_000, noise: 0.0, ranks: ["4", "12"] },
    Kind { name: "spectra, 1e-3", made: SPECTRA, entries: 72_000, noise: 1e-3, ranks: ["4", "12"] },
    Kind { name: "spectra, 1e-2", made: SPECTRA, entries: 72_000, noise: 1e-2, ranks: ["4", "12"] },
    Kind {
        name: "normal numbers, 0.1",
        made: Made::Products { dims: &[150, 120, 100], components: 3, bumps: false, bias: 0.0 },
        entries: 75_000,
        noise: 0.1,
        ranks: ["3", "9"],
    },
    Kind {
        name: "a mode of two ids",
        made: Made::Products { dims: &[300, 200, 2], components: 4, bumps: false, bias: 0.0 },
        entries: 50_000,
        noise: 0.1,
        ranks: ["4,4,2", "10,10,2"],
    },
    Kind {
        name: "four modes and a bias",
        made: Made::Products { dims: &[80, 60, 30, 12], components: 4, bumps: false, bias: 0.5 },
        entries: 40_000,
        noise: 0.1,
        ranks: ["5", "8"],
    },
    Kind {
        name: "five modes and a bias",
        made: Made::Products { dims: &[40, 30, 20, 12, 10], components: 4, bumps: false, bias: 0.5 },
        entries: 40_000,
        noise: 0.1,
        ranks: ["5", "8"],
    },
    Kind { name: "graph", made: Made::Graph, entries: 0, noise: 0.0, ranks: ["12,20,12", "12,20,12"] },
];

pub fn run(arguments: &Arguments) -> Result<(), String> {
    let Place { dir, tenfill } = &arguments.place;
    std::fs::create_dir_all(dir).map_err(|error| error.to_string())?;
    println!(
        "test RMSE beside the noise, or as it is where there is none, and (passes); test entries have noise, too"
    );
    let names = ["no rank before", "no rank", "too high before", "too high", "plain, rank"];
    let names = names.map(|name| format!("{name:>16}")).concat();
    println!("{:24} {:>5} {names}", "data", "seed");
    for kind in KINDS.iter().filter(|kind| kind.name.contains(&arguments.only)) {
        for seed in arguments.first_seed..arguments.first_seed + arguments.seeds {
            let csv = dir.join("unranked.csv");
            let noise = write(kind, seed, &csv)?;
            let data = dir.join("unranked.tenfill");
            let mut convert = Command::new(tenfill);
            convert.args(["convert", "--quiet", "--force", "--seed", &seed.to_string()]);
            if matches!(kind.made, Made::Graph) {
                convert.args(["--absent", "1", "--header"]);
            }
            run_command(convert.arg("-o").arg(&data).arg(&csv))?;
            let [rank, high] = kind.ranks;
            let plain = ["--rank", rank, "--bias", "none", "--penalty", "0", "--no-clip"];
            let before = arguments.before.as_ref();
            let ways: [(Option<&std::path::PathBuf>, &[&str]); 5] = [
                (before, &[]),
                (Some(tenfill), &[]),
                (before, &["--rank", high]),
                (Some(tenfill), &["--rank", high]),
                (Some(tenfill), &plain),
            ];
            let mut line = format!("{:24} {seed:>5} ", kind.name);
            for (number, (program, options)) in ways.into_iter().enumerate() {
                let cell = program.map_or(Ok(String::new()), |program| {
                    let out = dir.join(format!("unranked-run-{number}"));
                    let mut command = Command::new(program);
                    command.args(["complete", "--quiet", "--json", "--force", "--seed", &seed.to_string()]);
                    let done = last_line(command.args(options).arg("-o").arg(out).arg(&data))?;
                    let rmse = done["test_mse"].as_f64().unwrap_or(f64::NAN).sqrt();
                    let told =
                        if noise > 0.0 { format!("{:.3}", rmse / noise) } else { format!("{rmse:.2e}") };
                    Ok::<_, String>(format!("{told} ({})", done["passes"]))
                })?;
                let _ = write!(line, "{cell:>16}");
            }
            println!("{line}");
        }
    }
    Ok(())
}

/// Writes the entries of a set as CSV, and tells the noise in the values' own unit.
fn write(kind: &Kind, seed: u64, csv: &Path) -> Result<f64, String> {
    let mut random = Random(seed);
    let mut text = String::new();
    let noise = match &kind.made {
        Made::Graph => {
            graph(&mut random, &mut text);
            0.0
        }
        Made::Products { dims, components, bumps, bias } => {
            let factors: Vec<Vec<f64>> = dims
                .iter()
                .enumerate()
                .map(|(mode, &dim)| {
                    let shape = if !bumps {
                        Shape::Normal
                    } else if mode == 0 {
                        Shape::Amounts
                    } else {
                        Shape::Bumps
                    };
                    factor(&mut random, dim, *components, shape)
                })
                .collect();
            let own: Vec<f64> = (0..dims[0]).map(|_| bias * random.normal()).collect();
            let mut cells = std::collections::BTreeMap::new();
            while cells.len() < kind.entries {
                let at: Vec<usize> = dims.iter().map(|&dim| random.below(dim)).collect();
                let product = |c: usize| -> f64 {
                    at.iter().zip(&factors).map(|(&row, factor)| factor[row * components + c]).product()
                };
                let value = own[at[0]] + (0..*components).map(product).sum::<f64>();
                cells.insert(at, value);
            }
            let (mean, n) = (cells.values().sum::<f64>() / cells.len() as f64, cells.len() as f64);
            let spread = (cells.values().map(|value| (value - mean).powi(2)).sum::<f64>() / n).sqrt();
            let noise = kind.noise * spread;
            let names: Vec<String> = (0..dims.len()).map(|mode| format!("mode{}", mode + 1)).collect();
            let _ = writeln!(text, "{},value", names.join(","));
            for (at, value) in cells {
                let ids: Vec<String> = at.iter().map(usize::to_string).collect();
                let _ = writeln!(text, "{},{}", ids.join(","), value + noise * random.normal());
            }
            noise
        }
    };
    std::fs::write(csv, text).map_err(|error| error.to_string())?;
    Ok(noise)
}

/// What numbers a factor has.
enum Shape {
    Normal,
    /// Above 0, as how much of a substance a sample has.
    Amounts,
    Bumps,
}

fn factor(random: &mut Random, dim: usize, components: usize, shape: Shape) -> Vec<f64> {
    let bump: Vec<(f64, f64)> =
        (0..components).map(|_| (0.15 + 0.7 * random.uniform(), 0.07 + 0.13 * random.uniform())).collect();
    let mut rows = Vec::new();
    for row in 0..dim {
        let x = row as f64 / (dim - 1) as f64;
        for (centre, width) in &bump {
            rows.push(match shape {
                Shape::Normal => random.normal(),
                Shape::Amounts => (0.6 * random.normal()).exp(),
                Shape::Bumps => (-0.5 * ((x - centre) / width).powi(2)).exp(),
            });
        }
    }
    rows
}

/// Heads and tails of twelve kinds, twenty relations that hold between one pair of kinds in twenty, and popularity that varies.
fn graph(random: &mut Random, text: &mut String) {
    const KINDS_OF: usize = 12;
    const RELATIONS: usize = 20;
    let kinds =
        |random: &mut Random, n: usize| -> Vec<usize> { (0..n).map(|_| random.below(KINDS_OF)).collect() };
    let often = |random: &mut Random, n: usize| -> Vec<f64> {
        (0..n).map(|_| (0.3 * (1.0 / (1.0 - random.uniform()) - 1.0) + 0.05).min(1.0)).collect()
    };
    let (heads, tails) = (kinds(random, 400), kinds(random, 300));
    let holds: Vec<bool> = (0..KINDS_OF * RELATIONS * KINDS_OF).map(|_| random.uniform() < 0.05).collect();
    let (of_heads, of_tails) = (often(random, heads.len()), often(random, tails.len()));
    text.push_str("head,relation,tail\n");
    for (h, head) in heads.iter().enumerate() {
        for relation in 0..RELATIONS {
            for (t, tail) in tails.iter().enumerate() {
                let may = holds[(head * RELATIONS + relation) * KINDS_OF + tail];
                if may && random.uniform() < of_heads[h] * of_tails[t] {
                    let _ = writeln!(text, "h{h},r{relation},t{t}");
                }
            }
        }
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, n: usize) -> usize {
        (self.uniform() * n as f64) as usize
    }

    /// Box and Muller's.
    fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.uniform()).ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}
