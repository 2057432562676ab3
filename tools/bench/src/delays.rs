//! Delays: values that are mostly noise, of four and five modes that all matter. Main effects, a few pairs of modes that
//! have to do with each other, heavy tails; and what sweeps, the search, and tables of damped means make of them.

use crate::cases::Place;
use crate::measure;
use crate::readings::Random;
use std::f64::consts::TAU;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use tenfill_engine::Dataset;
use tenfill_engine::shard::Split;

const CARRIERS: usize = 14;
const PLACES: usize = 150;
const HOURS: usize = 18;
const DAYS: usize = 365;
/// Weather that moves over all places, and the routine of a day that places have in common.
const FRONTS: usize = 5;
const ROUTINES: usize = 2;

/// A flight, and how late it was, in minutes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Flight {
    /// Carrier, origin, destination, hour, day.
    pub at: [usize; 5],
    pub delay: f64,
}

/// Numbers of every cell of a table.
struct Table {
    width: usize,
    numbers: Vec<f64>,
}

impl Table {
    fn new(height: usize, width: usize, mut number: impl FnMut(usize, usize) -> f64) -> Self {
        Table { width, numbers: (0..height * width).map(|n| number(n / width, n % width)).collect() }
    }

    fn at(&self, row: usize, column: usize) -> f64 {
        self.numbers[row * self.width + column]
    }
}

/// Rare troubles: of a share of the cells, with a mean.
fn trouble(random: &mut Random, share: f64, mean: f64) -> f64 {
    let (happens, size) = (random.uniform() < share, -(1.0 - random.uniform()).ln());
    if happens { mean * size } else { 0.0 }
}

/// A year of flights. Main effects: carrier N(0, 6), origin N(0, 5), destination N(0, 3), day N(0, 8) with a season of 6,
/// and hours that get worse by 18 minutes over the day. Pairs: origin x day, of five fronts (AR(1), 0.7) with loadings of
/// 3.5 and of trouble in 3 % of the cells, 40 minutes on average; destination x day likewise, half of it; origin x hour, of
/// two routines with loadings of 2; carrier x origin N(0, 4); carrier x day, trouble in 1 % of the cells, 30 minutes.
/// Noise is 20 minutes times Student's t with three degrees of freedom. Places are the busier the smaller their number.
pub fn flights(count: usize, seed: u64) -> Vec<Flight> {
    let random = &mut Random::new(seed ^ 0x64656c6179);
    let mut normals =
        |n: usize, deviation: f64| -> Vec<f64> { (0..n).map(|_| random.normal(0.0, deviation)).collect() };
    let (carriers, origins, destinations) =
        (normals(CARRIERS, 6.0), normals(PLACES, 5.0), normals(PLACES, 3.0));
    let days = normals(DAYS, 8.0);
    let fronts: Vec<Vec<f64>> = (0..FRONTS)
        .map(|_| {
            let mut x = 0.0;
            let mut day = |step: f64| {
                x = 0.7 * x + (1.0f64 - 0.49).sqrt() * step;
                x
            };
            normals(DAYS, 1.0).into_iter().map(&mut day).collect()
        })
        .collect();
    let (loadings, routines) = (normals(PLACES * FRONTS, 3.5), normals(PLACES * ROUTINES, 2.0));
    let of_routine = normals(HOURS * ROUTINES, 1.0);
    let at_home = normals(CARRIERS * PLACES, 4.0);
    let weather = |place: usize, day: usize| -> f64 {
        fronts.iter().zip(&loadings[place * FRONTS..]).map(|(front, loading)| front[day] * loading).sum()
    };
    let origin_day = Table::new(PLACES, DAYS, |place, day| weather(place, day) + trouble(random, 0.03, 40.0));
    let destination_day =
        Table::new(PLACES, DAYS, |place, day| 0.5 * (weather(place, day) + trouble(random, 0.03, 40.0)));
    let carrier_day = Table::new(CARRIERS, DAYS, |_, _| trouble(random, 0.01, 30.0));
    let origin_hour = Table::new(PLACES, HOURS, |place, hour| {
        let (own, of) = (&routines[place * ROUTINES..], &of_routine[hour * ROUTINES..]);
        own.iter().zip(of).take(ROUTINES).map(|(x, y)| x * y).sum()
    });
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        let pick =
            |random: &mut Random, n: usize, power: i32| (random.uniform().powi(power) * n as f64) as usize;
        let at = [
            pick(random, CARRIERS, 1),
            pick(random, PLACES, 2),
            pick(random, PLACES, 2),
            pick(random, HOURS, 1),
            pick(random, DAYS, 1),
        ];
        let [carrier, origin, destination, hour, day] = at;
        let season = 6.0 * (TAU * day as f64 / DAYS as f64).cos();
        let main = carriers[carrier] + origins[origin] + destinations[destination] + days[day] + season;
        let mut delay = 10.0 + main + 18.0 * hour as f64 / HOURS as f64;
        delay += origin_day.at(origin, day) + destination_day.at(destination, day);
        delay +=
            origin_hour.at(origin, hour) + at_home[carrier * PLACES + origin] + carrier_day.at(carrier, day);
        let chi: f64 = (0..3).map(|_| random.normal(0.0, 1.0).powi(2)).sum();
        delay += 20.0 * random.normal(0.0, 1.0) / (chi / 3.0).sqrt();
        all.push(Flight { at, delay: delay.round() });
    }
    all
}

/// Compare sweeps with the search and with tables of damped means, on delays of four and five modes
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    place: Place,
    /// Sets
    #[arg(long, default_value_t = 3)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// Flights
    #[arg(long, default_value_t = 300_000)]
    entries: usize,
    /// Sweeps alone: neither the search nor tables
    #[arg(long)]
    alone: bool,
    /// Options of `complete` for the sweeps
    #[arg(long, value_delimiter = ' ', allow_hyphen_values = true)]
    options: Vec<String>,
    /// Measure nothing, and write the flights of the first set to this file
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

const SETS: [(usize, &str); 2] =
    [(4, "origin,destination,hour,day"), (5, "carrier,origin,destination,hour,day")];

pub fn run(arguments: &Arguments) -> Result<(), String> {
    if let Some(path) = &arguments.write {
        return write(path, &flights(arguments.entries, arguments.first_seed));
    }
    let Place { dir, tenfill } = &arguments.place;
    std::fs::create_dir_all(dir).map_err(|error| error.to_string())?;
    println!("{} delays, 80/10/10, test RMSE at the best validation", arguments.entries);
    println!("seed  modes  method                    RMSE  passes  CPU s   MB  rank");
    let mut above = Vec::new();
    for seed in arguments.first_seed..arguments.first_seed + arguments.seeds {
        let (text, data) = (dir.join("delays.csv"), dir.join("delays.tenfill"));
        write(&text, &flights(arguments.entries, seed))?;
        for (order, modes) in SETS {
            let mut convert = Command::new(tenfill);
            convert.args(["convert", "--quiet", "--force", "--modes", modes, "--value", "delay"]);
            convert.args(["--duplicates", "mean", "--seed", &seed.to_string()]);
            measure::run(convert.arg(&text).arg("-o").arg(&data))?;
            let complete = |name: &str, rank: &str, options: &[String]| -> Result<f64, String> {
                let run = dir.join("delays-run");
                let mut command = Command::new(tenfill);
                command.args(["complete", "--quiet", "--json", "--force", "--rank", rank, "-o"]);
                let done = measure::last_line(command.arg(&run).arg(&data).args(options))?;
                let number = |field: &str| done[field].as_f64().unwrap_or(f64::NAN);
                let rmse = number("test_mse").sqrt();
                println!(
                    "{seed:>4}  {order:>5}  {name:22} {rmse:>7.3}  {:>6}  {:>5.1}  {:>3.0}  {}",
                    number("passes"),
                    number("cpu_seconds"),
                    number("peak_anon_bytes") / 1e6,
                    done["rank"].to_string().trim_matches(['[', ']']),
                );
                std::fs::remove_dir_all(run).map_err(|error| error.to_string())?;
                Ok(rmse)
            };
            let ours = complete("sweeps", "auto", &arguments.options)?;
            if arguments.alone {
                continue;
            }
            let [additive, pairs] = tables(&data, order)?;
            for (name, rmse) in [("additive effects", additive), ("with damped pairs", pairs)] {
                println!("{seed:>4}  {order:>5}  {name:22} {rmse:>7.3}");
            }
            above.extend((ours > pairs).then(|| format!("seed {seed}, {order} modes: above damped pairs")));
        }
        std::fs::remove_file(text).map_err(|error| error.to_string())?;
        std::fs::remove_dir_all(data).map_err(|error| error.to_string())?;
    }
    if above.is_empty() { Ok(()) } else { Err(above.join("; ")) }
}

fn write(path: &Path, flights: &[Flight]) -> Result<(), String> {
    let mut text = String::from("carrier,origin,destination,hour,day,delay\n");
    for Flight { at: [carrier, origin, destination, hour, day], delay } in flights {
        writeln!(text, "c{carrier},p{origin},p{destination},{hour},{day},{delay}")
            .map_err(|error| error.to_string())?;
    }
    std::fs::write(path, text).map_err(|error| error.to_string())
}

/// Entries of a split, and what is left of them.
struct Left {
    at: Vec<usize>,
    e: Vec<f64>,
}

/// Tables of means, over one mode or two, damped: a number for every cell.
struct Means {
    modes: Vec<usize>,
    damping: f64,
    numbers: Vec<f64>,
}

const DAMPINGS: [f64; 9] = [1.0, 3.0, 10.0, 20.0, 40.0, 80.0, 160.0, 400.0, 1000.0];
const ROUNDS: usize = 3;

/// Test RMSE of additive effects, and of these with means of every pair of modes that lowers the validation error; all
/// damped by what validation says, and fitted by turns until little changes.
fn tables(data: &Path, order: usize) -> Result<[f64; 2], String> {
    let dataset = Dataset::open(data).map_err(|error| error.to_string())?;
    let dims: Vec<usize> = dataset.manifest().dims().iter().map(|&dim| dim as usize).collect();
    let mean = dataset.manifest().mean();
    let read = |split: Split| -> Result<Left, String> {
        let mut left = Left { at: Vec::new(), e: Vec::new() };
        let read = dataset.for_each(split, |at, value| {
            left.at.extend(at.iter().map(|&index| index as usize));
            left.e.push(value - mean);
        });
        read.map_err(|error| error.to_string()).map(|()| left)
    };
    let mut splits = [read(Split::Train)?, read(Split::Validation)?, read(Split::Test)?];
    let rmse = |left: &Left| (left.e.iter().map(|e| e * e).sum::<f64>() / left.e.len() as f64).sqrt();
    let mut means: Vec<Means> = Vec::new();
    let mut found = [f64::NAN; 2];
    for (step, found) in found.iter_mut().enumerate() {
        let sets: Vec<Vec<usize>> = match step {
            0 => (0..order).map(|mode| vec![mode]).collect(),
            _ => (0..order).flat_map(|a| (a + 1..order).map(move |b| vec![a, b])).collect(),
        };
        for set in sets {
            let numbers = vec![0.0; set.iter().map(|&mode| dims[mode]).product()];
            means.push(Means { modes: set, damping: 20.0, numbers });
        }
        for _ in 0..ROUNDS {
            means.iter_mut().for_each(|means| fit(means, &dims, &mut splits));
        }
        *found = rmse(&splits[2]);
    }
    Ok(found)
}

/// Fits a table to what is left, with the damping that validation likes best, or without any table.
fn fit(means: &mut Means, dims: &[usize], splits: &mut [Left; 3]) {
    let (order, modes) = (dims.len(), means.modes.clone());
    let cell = |left: &Left, n: usize| {
        modes.iter().fold(0, |cell, &mode| cell * dims[mode] + left.at[n * order + mode])
    };
    for left in splits.iter_mut() {
        (0..left.e.len()).for_each(|n| left.e[n] += means.numbers[cell(left, n)]);
    }
    let mut sums = vec![[0.0; 2]; means.numbers.len()];
    for n in 0..splits[0].e.len() {
        let sums = &mut sums[cell(&splits[0], n)];
        *sums = [sums[0] + 1.0, sums[1] + splits[0].e[n]];
    }
    let validation = &splits[1];
    let squares = |damping: f64| -> f64 {
        let of = |n: usize| {
            let [count, sum] = sums[cell(validation, n)];
            (validation.e[n] - sum / (count + damping)).powi(2)
        };
        (0..validation.e.len()).map(of).sum()
    };
    let tried = DAMPINGS.into_iter().chain([f64::INFINITY]).map(|damping| (squares(damping), damping));
    means.damping = tried.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(f64::INFINITY, |(_, damping)| damping);
    for (number, [count, sum]) in means.numbers.iter_mut().zip(&sums) {
        *number = sum / (count + means.damping);
    }
    for left in splits.iter_mut() {
        (0..left.e.len()).for_each(|n| left.e[n] -= means.numbers[cell(left, n)]);
    }
}
