//! `tenfill fill` on readings with holes: 50 stations x 365 days x 24 hours with cycles and weather, 60 % of the
//! cells and two weeks per station missing; and on a large array within little memory.

use crate::cases::Place;
use crate::measure::run as measured;
use std::f64::consts::TAU;
use std::fmt::Write as _;
use std::io::{BufWriter, Read, Write};
use std::path::Path;
use std::process::Command;

/// Fill readings with holes, and compare with what needs no model
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    place: Place,
    /// Seeds of the readings
    #[arg(long, value_delimiter = ',', default_value = "1,2,3")]
    seeds: Vec<u64>,
    /// Fill an array of so many megabytes within --cube-memory instead
    #[arg(long)]
    cube: Option<u64>,
    /// The memory that the array has
    #[arg(long, default_value = "512M")]
    cube_memory: String,
}

const STATIONS: usize = 50;
const DAYS: usize = 365;
const HOURS: usize = 24;
const WEEKS: usize = 14 * HOURS;

/// Numbers that follow from a seed alone.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self, mean: f64, deviation: f64) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        mean + deviation * radius * (TAU * self.uniform()).cos()
    }
}

/// A reading: its value, whether it is missing, and whether it is so within the two weeks.
struct Reading {
    value: f64,
    missing: bool,
    weeks: bool,
}

/// Station after station, hour after hour.
fn readings(seed: u64) -> Vec<Reading> {
    let mut random = Random(seed.wrapping_mul(0x0123_4567_89ab_cdef));
    let mut weather = vec![[0.0; 3]; DAYS * HOURS];
    let mut now = [0.0; 3];
    for at in &mut weather {
        for series in &mut now {
            *series = 0.985 * *series + random.normal(0.0, 0.4);
        }
        *at = now;
    }
    let mut all = Vec::with_capacity(STATIONS * DAYS * HOURS);
    for _ in 0..STATIONS {
        let (mean, year, day) = (random.normal(10.0, 4.0), random.normal(8.0, 2.0), random.normal(4.0, 1.0));
        let phase = random.normal(0.0, 0.3);
        let loadings = [(); 3].map(|()| random.normal(0.0, 1.0));
        let gap = (random.uniform() * (DAYS * HOURS - WEEKS) as f64) as usize;
        for (hour, weather) in weather.iter().enumerate() {
            let season = (TAU * (hour / HOURS) as f64 / DAYS as f64).cos();
            let daily = (TAU * (hour % HOURS) as f64 / HOURS as f64 + phase).cos() * (1.0 + 0.4 * season);
            let front: f64 = loadings.iter().zip(weather).map(|(loading, x)| loading * x).sum();
            let value = mean + year * season + day * daily + front + random.normal(0.0, 0.5);
            let weeks = (gap..gap + WEEKS).contains(&hour);
            all.push(Reading { value, missing: random.uniform() < 0.6 || weeks, weeks });
        }
    }
    all
}

/// Root mean squares over all missing cells, and over those of the weeks.
fn errors(readings: &[Reading], filled: &[f64]) -> [f64; 2] {
    [false, true].map(|weeks| {
        let (mut sum, mut count) = (0.0, 0u64);
        for (reading, filled) in readings.iter().zip(filled).filter(|(reading, _)| reading.missing) {
            if !weeks || reading.weeks {
                sum += (filled - reading.value) * (filled - reading.value);
                count += 1;
            }
        }
        (sum / count as f64).sqrt()
    })
}

/// Between the readings before and after, along the hours of a station.
fn interpolated(readings: &[Reading]) -> Vec<f64> {
    let mut filled = Vec::with_capacity(readings.len());
    for station in readings.chunks(DAYS * HOURS) {
        let known: Vec<usize> = (0..station.len()).filter(|&hour| !station[hour].missing).collect();
        for hour in 0..station.len() {
            let next = known.partition_point(|&other| other < hour);
            let (after, before) = (known.get(next), next.checked_sub(1).map(|last| &known[last]));
            filled.push(match (before, after) {
                (_, Some(&after)) if after == hour => station[hour].value,
                (Some(&a), Some(&b)) => {
                    let share = (hour - a) as f64 / (b - a) as f64;
                    station[a].value + share * (station[b].value - station[a].value)
                }
                (Some(&one), None) | (None, Some(&one)) => station[one].value,
                (None, None) => 0.0,
            });
        }
    }
    filled
}

/// The mean of the station's readings at that hour of the day.
fn hourly(readings: &[Reading]) -> Vec<f64> {
    let mut filled = Vec::with_capacity(readings.len());
    for station in readings.chunks(DAYS * HOURS) {
        let mut sums = [(0.0, 0.0); HOURS];
        for (hour, reading) in station.iter().enumerate().filter(|(_, reading)| !reading.missing) {
            sums[hour % HOURS].0 += reading.value;
            sums[hour % HOURS].1 += 1.0;
        }
        filled.extend((0..station.len()).map(|hour| sums[hour % HOURS].0 / sums[hour % HOURS].1));
    }
    filled
}

/// Values in the order of the readings, passes and processor time.
type Done = (Vec<f64>, u64, f64);

/// Fills a file of readings: its bytes in, those of the output, passes and processor time out.
fn filled(place: &Place, ending: &str, bytes: &[u8], words: &[&str]) -> Result<(Vec<u8>, u64, f64), String> {
    let told = |error: std::io::Error| error.to_string();
    let at = |name: &str| place.dir.join(format!("{name}.{ending}"));
    let (table, out) = (at("readings"), at("readings-filled"));
    std::fs::write(&table, bytes).map_err(told)?;
    let mut command = Command::new(&place.tenfill);
    command.args(["fill", "--quiet", "--json", "--force"]).args(words).arg("-o").arg(&out).arg(&table);
    let (usage, said) = measured(&mut command)?;
    let said: serde_json::Value =
        serde_json::from_str(said.lines().last().unwrap_or_default()).map_err(|error| error.to_string())?;
    let filled = std::fs::read(&out).map_err(told)?;
    for file in [table, out] {
        std::fs::remove_file(file).map_err(told)?;
    }
    Ok((filled, said["passes"].as_u64().unwrap_or(0), usage.cpu))
}

/// A long table, one row per reading.
fn fill_long(place: &Place, text: &str, modes: &str) -> Result<Done, String> {
    let words = ["--modes", modes, "--value", "reading"];
    let (filled, passes, cpu) = filled(place, "csv", text.as_bytes(), &words)?;
    let text = String::from_utf8(filled).map_err(|error| error.to_string())?;
    let value = |line: &str| line.rsplit(',').nth(1)?.parse().ok();
    let values: Option<Vec<f64>> = text.lines().skip(1).map(value).collect();
    Ok((values.ok_or("a row has no value")?, passes, cpu))
}

/// A wide table: a row per stamp, a column per station.
fn fill_wide(place: &Place, readings: &[Reading]) -> Result<Done, String> {
    let stamps = DAYS * HOURS;
    let mut text = "stamp".to_string();
    (0..STATIONS).for_each(|station| text += &format!(",S{station}"));
    for stamp in 0..stamps {
        let _ = write!(text, "\n{stamp}");
        for station in 0..STATIONS {
            let reading = &readings[station * stamps + stamp];
            let _ = if reading.missing { write!(text, ",") } else { write!(text, ",{:.4}", reading.value) };
        }
    }
    let (filled, passes, cpu) =
        filled(place, "csv", text.as_bytes(), &["--wide", "--column-mode", "station"])?;
    let text = String::from_utf8(filled).map_err(|error| error.to_string())?;
    let mut values = vec![f64::NAN; readings.len()];
    for (stamp, line) in text.lines().skip(1).enumerate() {
        for (station, field) in line.split(',').skip(1).enumerate() {
            values[station * stamps + stamp] = field.parse().map_err(|_| format!("'{field}' is no value"))?;
        }
    }
    Ok((values, passes, cpu))
}

/// An array of stations, days and hours.
fn fill_array(place: &Place, readings: &[Reading]) -> Result<Done, String> {
    let mut bytes = npy_header("<f8", &format!("({STATIONS}, {DAYS}, {HOURS})"));
    for reading in readings {
        bytes.extend((if reading.missing { f64::NAN } else { reading.value }).to_le_bytes());
    }
    let (filled, passes, cpu) = filled(place, "npy", &bytes, &[])?;
    let cells = filled[128..].chunks_exact(8);
    let values = cells.map(|cell| f64::from_le_bytes(cell.try_into().unwrap_or_default())).collect();
    Ok((values, passes, cpu))
}

/// The 128 bytes before the cells of an array.
fn npy_header(kind: &str, shape: &str) -> Vec<u8> {
    let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    bytes.extend(format!("{header:<117}\n").into_bytes());
    bytes
}

pub fn run(arguments: &Arguments) -> Result<(), String> {
    let place = &arguments.place;
    std::fs::create_dir_all(&place.dir).map_err(|error| error.to_string())?;
    if let Some(megabytes) = arguments.cube {
        return cube(place, megabytes, &arguments.cube_memory);
    }
    println!("RMSE of the missing cells, and of those within the two weeks\n");
    println!("| seed | way | all | weeks | passes | CPU s |\n|---|---|---|---|---|---|");
    for &seed in &arguments.seeds {
        let readings = readings(seed);
        let (mut stamps, mut days) =
            ("station,stamp,reading\n".to_string(), "station,day,hour,reading\n".to_string());
        for (number, reading) in readings.iter().enumerate() {
            let (station, stamp) = (number / (DAYS * HOURS), number % (DAYS * HOURS));
            let value = if reading.missing { String::new() } else { format!("{:.4}", reading.value) };
            let _ = writeln!(stamps, "S{station},{stamp},{value}");
            let _ = writeln!(days, "S{station},{},{},{value}", stamp / HOURS, stamp % HOURS);
        }
        for (way, filled) in
            [("mean of the station's hour", hourly(&readings)), ("interpolation", interpolated(&readings))]
        {
            let [all, weeks] = errors(&readings, &filled);
            println!("| {seed} | {way} | {all:.3} | {weeks:.3} | | |");
        }
        let ways = [
            ("long, station,stamp", fill_long(place, &stamps, "station,stamp")?),
            ("wide, a column per station", fill_wide(place, &readings)?),
            ("long, station,day,hour", fill_long(place, &days, "station,day,hour")?),
            (".npy, stations x days x hours", fill_array(place, &readings)?),
        ];
        for (way, (filled, passes, cpu)) in ways {
            let [all, weeks] = errors(&readings, &filled);
            println!("| {seed} | `fill` {way} | {all:.3} | {weeks:.3} | {passes} | {cpu:.1} |");
        }
    }
    Ok(())
}

/// A cube of single precision, of which 95 % of the cells are missing: low-rank and noise.
fn cube(place: &Place, megabytes: u64, memory: &str) -> Result<(), String> {
    let told = |error: std::io::Error| error.to_string();
    let (table, out) = (place.dir.join("cube.npy"), place.dir.join("cube-filled.npy"));
    let [a, b] = [400u64, 500];
    let c = (megabytes * 1_000_000 / 4).div_ceil(a * b);
    let value = |i: u64, j: u64, k: u64| {
        let [x, y, z] = [i as f64 / a as f64, j as f64 / b as f64, k as f64 / c as f64];
        10.0 + 3.0 * (TAU * x).sin() * (TAU * z).cos() + 2.0 * y * (9.0 * z).sin() + x * y
    };
    let mut random = Random(1);
    let mut file = BufWriter::new(std::fs::File::create(&table).map_err(told)?);
    file.write_all(&npy_header("<f4", &format!("({c}, {a}, {b})"))).map_err(told)?;
    for k in 0..c {
        for i in 0..a {
            for j in 0..b {
                let known = random.uniform() < 0.05;
                let value = if known { value(i, j, k) + 0.1 * (random.uniform() - 0.5) } else { f64::NAN };
                file.write_all(&(value as f32).to_le_bytes()).map_err(told)?;
            }
        }
    }
    file.into_inner().map_err(|error| error.to_string())?;
    let mut command = Command::new(&place.tenfill);
    command.args(["fill", "--quiet", "--json", "--force", "--memory", memory, "-o"]).arg(&out).arg(&table);
    let (usage, _) = measured(&mut command)?;
    std::fs::remove_file(&table).map_err(told)?;
    let (mut sum, mut count) = (0.0, 0u64);
    each_cell(&out, |number, filled| {
        let (k, i, j) = (number / (a * b), number / b % a, number % b);
        sum += (f64::from(filled) - value(i, j, k)).powi(2);
        count += 1;
    })?;
    println!(
        "{c} x {a} x {b} cells, {} MB, 95 % missing, --memory {memory}: RMSE {:.4} over all cells, {:.0} s, {:.0} s CPU, peak {} MB of anonymous memory",
        count * 4 / 1_000_000,
        (sum / count as f64).sqrt(),
        usage.wall,
        usage.cpu,
        usage.peak_anonymous / 1_000_000
    );
    std::fs::remove_file(&out).map_err(told)?;
    Ok(())
}

fn each_cell(path: &Path, mut each: impl FnMut(u64, f32)) -> Result<(), String> {
    let told = |error: std::io::Error| error.to_string();
    let mut file = std::io::BufReader::new(std::fs::File::open(path).map_err(told)?);
    std::io::copy(&mut (&mut file).take(128), &mut std::io::sink()).map_err(told)?;
    let (mut bytes, mut number) = (vec![0; 1 << 16], 0);
    loop {
        let mut have = 0;
        while have < bytes.len() {
            match file.read(&mut bytes[have..]).map_err(told)? {
                0 => break,
                count => have += count,
            }
        }
        if have == 0 {
            return Ok(());
        }
        for cell in bytes[..have].chunks_exact(4) {
            each(number, f32::from_le_bytes([cell[0], cell[1], cell[2], cell[3]]));
            number += 1;
        }
    }
}
