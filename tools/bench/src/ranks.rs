//! Ranks that are given: what each of them comes to, and whether a higher one is ever worse than a lower one.

use crate::cases::Place;
use crate::measure;
use crate::readings::{readings, write};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Complete ratings and readings with several ranks, and tell how much worse a higher one may be
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
    /// The ranks, of all modes; of the 50 stations 50 at the most, of weeks 16
    #[arg(long, value_delimiter = ',', default_value = "2,4,8,15,20,32,50")]
    ranks: Vec<usize>,
    /// Ratings files of userId, movieId, rating, timestamp, beside synthetic ratings and readings
    #[arg(long, value_name = "CSV", num_args = 1..)]
    files: Vec<PathBuf>,
}

/// The highest ranks of users, movies and weeks, of which MovieLens-100K has 31.
const RATINGS: [usize; 3] = [usize::MAX, usize::MAX, 16];

/// Something to complete, and what its errors are measured on where that is not its test split.
struct Set {
    name: String,
    data: PathBuf,
    /// The highest rank of every mode: a mode may have few ids.
    most: Vec<usize>,
    missing: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<(), String> {
    let Place { dir, .. } = &arguments.place;
    std::fs::create_dir_all(dir).map_err(|error| error.to_string())?;
    let ranks: Vec<String> = arguments.ranks.iter().map(|rank| format!("{rank:>8}")).collect();
    println!("test RMSE by rank, and how far the worst is above that of any lower rank");
    println!("{:32} {}    worst rise", "data, seed", ranks.concat());
    for seed in arguments.first_seed..arguments.first_seed + arguments.seeds {
        let mut sets = vec![synthetic(&arguments.place, seed)?, of_readings(&arguments.place, seed)?];
        for file in &arguments.files {
            sets.push(of_file(&arguments.place, file, seed)?);
        }
        for set in sets {
            let errors: Vec<f64> =
                arguments.ranks.iter().map(|&rank| error(arguments, &set, rank)).collect::<Result<_, _>>()?;
            let texts: Vec<String> = errors.iter().map(|error| format!("{error:>8.4}")).collect();
            println!(
                "{:32} {}    {:+.2} %",
                format!("{}, {seed}", set.name),
                texts.concat(),
                worst_rise(&errors)
            );
        }
    }
    Ok(())
}

/// By how many percent an error is above the least of those before it, at the worst.
fn worst_rise(errors: &[f64]) -> f64 {
    let (mut least, mut worst) = (f64::INFINITY, f64::NEG_INFINITY);
    for &error in errors {
        worst = worst.max(100.0 * (error / least - 1.0));
        least = least.min(error);
    }
    worst
}

fn tenfill(place: &Place, words: &[&str], paths: &[(&str, &Path)]) -> Result<Value, String> {
    let mut command = Command::new(&place.tenfill);
    command.args(words).args(["--quiet", "--json"]);
    for (option, path) in paths {
        command.args((!option.is_empty()).then_some(option)).arg(path);
    }
    measure::last_line(&mut command)
}

fn error(arguments: &Arguments, set: &Set, rank: usize) -> Result<f64, String> {
    let run = arguments.place.dir.join("ranks-run");
    let ranks: Vec<String> = set.most.iter().map(|most| rank.min(*most).to_string()).collect();
    let words = ["complete", "--force", "--rank", &ranks.join(",")];
    let done = tenfill(&arguments.place, &words, &[("-o", &run), ("", &set.data)])?;
    let rmse = match &set.missing {
        Some(missing) => {
            let scored = tenfill(&arguments.place, &["evaluate"], &[("", &run), ("--on", missing)])?;
            scored["rmse"].as_f64()
        }
        None => done["test_mse"].as_f64().map(f64::sqrt),
    };
    std::fs::remove_dir_all(run).map_err(|error| error.to_string())?;
    rmse.ok_or_else(|| "there is no test error".into())
}

fn synthetic(place: &Place, seed: u64) -> Result<Set, String> {
    let (data, seed) = (place.dir.join("ranks-synthetic.tenfill"), seed.to_string());
    let words = ["synth", "--force", "--kind", "ratings", "--dims", "2000,1500,100", "--entries", "300000"];
    let more = ["--validation", "0.1", "--test", "0.1", "--seed", &seed];
    tenfill(place, &[&words[..], &more].concat(), &[("-o", &data)])?;
    Ok(Set { name: "ratings-like 300 k".into(), data, most: RATINGS.to_vec(), missing: None })
}

fn of_readings(place: &Place, seed: u64) -> Result<Set, String> {
    let all = readings(seed);
    let (known, missing) = (place.dir.join("ranks-known.csv"), place.dir.join("ranks-missing.csv"));
    for (path, wanted) in [(&known, false), (&missing, true)] {
        write(path, all.iter().filter(|reading| reading.missing == wanted))?;
    }
    let data = place.dir.join("ranks-readings.tenfill");
    let words = ["convert", "--force", "--modes", "station,stamp", "--value", "value", "--split", "97/3/0"];
    tenfill(place, &words, &[("", &known), ("-o", &data)])?;
    Ok(Set { name: "readings".into(), data, most: vec![50, 50], missing: Some(missing) })
}

fn of_file(place: &Place, file: &Path, seed: u64) -> Result<Set, String> {
    let (data, seed) = (place.dir.join("ranks-file.tenfill"), seed.to_string());
    let words = ["convert", "--force", "--modes", "userId,movieId,timestamp", "--value", "rating"];
    let more = ["--bin", "timestamp=7d", "--seed", &seed];
    tenfill(place, &[&words[..], &more].concat(), &[("", file), ("-o", &data)])?;
    Ok(Set { name: file.display().to_string(), data, most: RATINGS.to_vec(), missing: None })
}

#[cfg(test)]
mod tests {
    use super::worst_rise;

    #[test]
    fn a_rise_is_told_against_the_best_lower_rank() {
        assert!((worst_rise(&[2.0, 1.0, 1.5, 1.02]) - 50.0).abs() < 1e-9);
        assert!(worst_rise(&[2.0, 1.0, 0.99]) < 0.0);
    }
}
