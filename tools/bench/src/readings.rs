//! Readings, no ratings: stations with a mean, a yearly and a daily cycle and weather of their own, most of it
//! missing. And what sweeps make of them, as station x hour stamp and as station x day x hour.

use crate::cases::Place;
use crate::measure;
use serde_json::Value;
use std::f64::consts::TAU;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const STATIONS: usize = 50;
const DAYS: usize = 365;
const HOURS: usize = 24;
/// Days that a station is silent for, and the share of all other readings that are missing.
const SILENT: usize = 14;
const MISSING: f64 = 0.6;

/// One reading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    pub station: usize,
    pub day: usize,
    pub hour: usize,
    pub value: f64,
    /// Whether it is one of those that are to be found.
    pub missing: bool,
}

impl Reading {
    /// Hours since the beginning.
    pub fn stamp(&self) -> usize {
        self.day * HOURS + self.hour
    }
}

/// Random numbers, the same everywhere (splitmix64).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x2545_F491_4F6C_DD1D).wrapping_add(1))
    }

    /// Uniform between 0 and 1.
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Normal, with this mean and standard deviation.
    pub fn normal(&mut self, mean: f64, deviation: f64) -> f64 {
        let (u, v) = (1.0 - self.uniform(), self.uniform());
        mean + deviation * (-2.0 * u.ln()).sqrt() * (TAU * v).cos()
    }
}

/// What readings are made of but for their noise: the mean of a station and the product of its numbers with those of the hour.
pub struct Truth {
    stations: Vec<(f64, [f64; PARTS])>,
    hours: Vec<[f64; PARTS]>,
}

/// The yearly cycle, two of the day, three series of weather.
const PARTS: usize = 6;
const NOISE: f64 = 0.5;

/// All readings of a year, station by station and hour by hour: station mean N(10, 4), yearly cycle of amplitude
/// N(8, 2), daily cycle of amplitude N(4, 1) and phase N(0, 0.3) times (1 + 0.4 season), three weather series over all
/// hours (AR(1), 0.985, innovations 0.4) with station loadings N(0, 1), noise 0.5. Of every station 60 % are missing,
/// and two weeks.
pub fn readings(seed: u64) -> Vec<Reading> {
    drawn(seed).0
}

fn drawn(seed: u64) -> (Vec<Reading>, Truth) {
    let mut random = Random::new(seed);
    let mut weather = vec![[0.0; 3]; DAYS * HOURS];
    for series in 0..3 {
        let mut x = random.normal(0.0, 0.4 / (1.0 - 0.985f64 * 0.985).sqrt());
        for hour in &mut weather {
            x = 0.985 * x + random.normal(0.0, 0.4);
            hour[series] = x;
        }
    }
    let mut all = Vec::with_capacity(STATIONS * DAYS * HOURS);
    let (mut stations, mut hours) = (Vec::new(), Vec::new());
    for (stamp, [a, b, c]) in weather.iter().copied().enumerate() {
        let season = (TAU * (stamp / HOURS) as f64 / DAYS as f64).cos();
        let (sine, cosine) = (TAU * (stamp % HOURS) as f64 / HOURS as f64).sin_cos();
        hours.push([season, (1.0 + 0.4 * season) * cosine, -(1.0 + 0.4 * season) * sine, a, b, c]);
    }
    for station in 0..STATIONS {
        let [mean, yearly, daily, phase] =
            [(10.0, 4.0), (8.0, 2.0), (4.0, 1.0), (0.0, 0.3)].map(|(m, d)| random.normal(m, d));
        let loadings = [(); 3].map(|()| random.normal(0.0, 1.0));
        let [a, b, c] = loadings;
        stations.push((mean, [yearly, daily * phase.cos(), daily * phase.sin(), a, b, c]));
        let silent = (random.uniform() * (DAYS - SILENT) as f64) as usize;
        for day in 0..DAYS {
            let season = (TAU * day as f64 / DAYS as f64).cos();
            for hour in 0..HOURS {
                let cycle = (TAU * hour as f64 / HOURS as f64 + phase).cos();
                let of_weather = weather[day * HOURS + hour];
                let mut value = mean + yearly * season + daily * (1.0 + 0.4 * season) * cycle;
                value += loadings.iter().zip(of_weather).map(|(loading, x)| loading * x).sum::<f64>();
                value += random.normal(0.0, NOISE);
                let missing = random.uniform() < MISSING || (silent..silent + SILENT).contains(&day);
                all.push(Reading { station, day, hour, value, missing });
            }
        }
    }
    (all, Truth { stations, hours })
}

impl Truth {
    /// The RMSE of the missing readings for somebody who knows all of the stations, the noise, and how the numbers of hours vary, and
    /// finds those of every hour from this share of its known readings: no model in which hours are exchangeable does better.
    fn error(&self, all: &[Reading], share: f64) -> f64 {
        let hours = self.hours.len() as f64;
        let mut mean = [0.0; PARTS];
        self.hours.iter().for_each(|x| (0..PARTS).for_each(|i| mean[i] += x[i] / hours));
        let mut spread = [[0.0; PARTS]; PARTS];
        for x in &self.hours {
            for i in 0..PARTS {
                (0..PARTS).for_each(|j| spread[i][j] += (x[i] - mean[i]) * (x[j] - mean[j]) / hours);
            }
        }
        let (mut chance, mut known) = (Random::new(0), vec![Vec::new(); self.hours.len()]);
        for reading in all.iter().filter(|reading| !reading.missing && chance.uniform() < share) {
            known[reading.stamp()].push(reading);
        }
        let told = |station: usize, x: &[f64; PARTS]| {
            let (mean, loadings) = &self.stations[station];
            mean + (0..PARTS).map(|i| loadings[i] * x[i]).sum::<f64>()
        };
        // E x = m + V L^T (L V L^T + noise)^-1 (y - L m), L having a row per known reading.
        let found = |known: &[&Reading]| {
            let toward: Vec<[f64; PARTS]> = known
                .iter()
                .map(|reading| {
                    let loadings = &self.stations[reading.station].1;
                    [0, 1, 2, 3, 4, 5].map(|i| (0..PARTS).map(|j| spread[i][j] * loadings[j]).sum())
                })
                .collect();
            let row = |(n, reading): (usize, &&Reading)| {
                let loadings = &self.stations[reading.station].1;
                let mut row: Vec<f64> =
                    toward.iter().map(|v| (0..PARTS).map(|i| v[i] * loadings[i]).sum()).collect();
                row[n] += NOISE * NOISE;
                row.push(reading.value - told(reading.station, &mean));
                row
            };
            let weights = solved(known.iter().enumerate().map(row).collect());
            [0, 1, 2, 3, 4, 5]
                .map(|i| mean[i] + toward.iter().zip(&weights).map(|(v, w)| v[i] * w).sum::<f64>())
        };
        let found: Vec<[f64; PARTS]> = known.iter().map(|known| found(known)).collect();
        let missing = || all.iter().filter(|reading| reading.missing);
        let squares = missing().map(|of| (of.value - told(of.station, &found[of.stamp()])).powi(2));
        (squares.sum::<f64>() / missing().count() as f64).sqrt()
    }
}

/// The solution of equations whose rows end with their right sides; the matrix is positive definite.
fn solved(mut rows: Vec<Vec<f64>>) -> Vec<f64> {
    let n = rows.len();
    for i in 0..n {
        let pivot = rows[i].clone();
        for (_, row) in rows.iter_mut().enumerate().filter(|(j, _)| *j != i) {
            let by = row[i] / pivot[i];
            (i..=n).for_each(|c| row[c] -= by * pivot[c]);
        }
    }
    rows.iter().enumerate().map(|(i, row)| row[n] / row[i]).collect()
}

/// Measure sweeps on readings: the error of what is missing, and passes
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
    /// The percentage of the known readings that is kept for validation
    #[arg(long, default_value_t = 3)]
    validation: u32,
    /// The modes; of several, one after the other
    #[arg(long, value_delimiter = ' ', default_value = "station,stamp station,day,hour")]
    modes: Vec<String>,
    /// Measure nothing, and write the known readings of the first set to this file
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<(), String> {
    if let Some(path) = &arguments.write {
        return write(path, readings(arguments.first_seed).iter().filter(|reading| !reading.missing));
    }
    let Place { dir, tenfill } = &arguments.place;
    std::fs::create_dir_all(dir).map_err(|error| error.to_string())?;
    println!("readings of {STATIONS} stations x {DAYS} days x {HOURS} hours; RMSE of those that are missing");
    println!("seed  modes                  RMSE   passes  CPU s   MB  rank");
    for seed in arguments.first_seed..arguments.first_seed + arguments.seeds {
        let (all, truth) = drawn(seed);
        let share = 1.0 - f64::from(arguments.validation) / 100.0;
        println!("{seed:>4}  known stations       {:>6.4}", truth.error(&all, share));
        let split = format!("{}/{}/0", 100 - arguments.validation, arguments.validation);
        let (known, missing) = (dir.join("readings.csv"), dir.join("readings-missing.csv"));
        for (path, wanted) in [(&known, false), (&missing, true)] {
            write(path, all.iter().filter(|reading| reading.missing == wanted))?;
        }
        for modes in &arguments.modes {
            let run = dir.join("readings-run");
            let mut command = Command::new(tenfill);
            command.args(["complete", "--quiet", "--json", "--force", "--rank", "auto"]);
            command.args(["--modes", modes, "--value", "value", "--split", &split, "-o"]);
            let done = measure::last_line(command.arg(&run).arg(&known))?;
            let mut command = Command::new(tenfill);
            command.args(["evaluate", "--quiet", "--json"]).arg(&run).arg("--on").arg(&missing);
            let scored = measure::last_line(&mut command)?;
            let number = |line: &Value, field: &str| line[field].as_f64().unwrap_or(f64::NAN);
            println!(
                "{seed:>4}  {modes:20} {:>6.4}  {:>7}  {:>5.1}  {:>3.0}  {}",
                number(&scored, "rmse"),
                number(&done, "passes"),
                number(&done, "cpu_seconds"),
                number(&done, "peak_anon_bytes") / 1e6,
                done["rank"].to_string().trim_matches(['[', ']']),
            );
            std::fs::remove_dir_all(run).map_err(|error| error.to_string())?;
        }
        for path in [known, missing] {
            std::fs::remove_file(path).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

pub fn write<'r>(path: &Path, readings: impl Iterator<Item = &'r Reading>) -> Result<(), String> {
    let mut text = String::from("station,stamp,day,hour,value\n");
    for reading in readings {
        let Reading { station, day, hour, value, .. } = reading;
        let stamp = reading.stamp();
        writeln!(text, "s{station},{stamp},{day},{hour},{value:.4}").map_err(|error| error.to_string())?;
    }
    std::fs::write(path, text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::{NOISE, drawn, solved};

    #[test]
    fn readings_are_what_the_truth_says_and_noise() {
        let (all, truth) = drawn(7);
        let left = all.iter().map(|reading| {
            let (mean, loadings) = &truth.stations[reading.station];
            let parts = loadings.iter().zip(&truth.hours[reading.stamp()]).map(|(a, b)| a * b);
            reading.value - mean - parts.sum::<f64>()
        });
        let noise = (left.map(|e| e * e).sum::<f64>() / all.len() as f64).sqrt();
        assert!((noise / NOISE - 1.0).abs() < 0.01, "{noise}");
        // The fewer readings are known, the less is told.
        let (much, little) = (truth.error(&all, 1.0), truth.error(&all, 0.5));
        assert!(NOISE < much && much < little, "{much} {little}");
    }

    #[test]
    fn equations_are_solved() {
        assert_eq!(solved(vec![vec![4.0, 2.0, 10.0], vec![2.0, 3.0, 9.0]]), [1.5, 2.0]);
    }
}
