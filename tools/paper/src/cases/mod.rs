//! The cases of the paper: S1 to S8 on synthetic tensors, R1 on an image, R2 on ratings.

mod image;
mod ratings;
mod synthetic;

pub use image::{PAPER_ORDER, image};
pub use ratings::ratings;
pub use synthetic::{CASES, synthetic};

use crate::Result;
use crate::figure::{self, Curves};
use crate::record::{Book, Step};
use std::path::{Path, PathBuf};
use tenfill_engine::report::Scale;

/// How much of the paper's grid is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All sizes, ranks and ratios, five seeds.
    Full,
    /// A part that two cores finish within minutes, at the paper's sizes.
    Quick,
    /// Tiny instances: does everything run?
    Smoke,
}

/// What all cases share.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where the results go: a folder for every case.
    pub out: PathBuf,
    /// How much is run.
    pub extent: Extent,
    /// Seeds, where said.
    pub seeds: Option<u64>,
    /// What the systems that hold whole tensors may take.
    pub memory: u64,
}

impl Settings {
    /// How many seeds there are, where the extent says so.
    fn seeds(&self, quick: u64) -> u64 {
        self.seeds.unwrap_or(match self.extent {
            Extent::Full => 5,
            Extent::Quick => quick,
            Extent::Smoke => 1,
        })
    }

    /// Where the data of a case lies while it is run.
    fn work(&self) -> PathBuf {
        self.out.join("work")
    }
}

/// Writes the CSV files of a case and its figures: errors on train and test, against iterations and time.
fn publish(book: &Book, case: &str, data: &str, settings: &Settings) -> Result<PathBuf> {
    let folder = settings.out.join(case);
    book.write(&folder)?;
    let extent = match settings.extent {
        Extent::Full => "The whole grid of the paper",
        Extent::Quick => "A part of the grid (`--quick`)",
        Extent::Smoke => "Tiny instances (`smoke`), which decide nothing",
    };
    let about = folder.join(crate::results::ABOUT);
    std::fs::write(&about, format!("{extent}{data}.\n"))
        .map_err(|error| format!("{}: {error}", about.display()))?;
    let mut instances: Vec<&str> = book.runs.iter().map(|run| run.instance.as_str()).collect();
    instances.sort_unstable();
    instances.dedup();
    for instance in instances {
        figures(book, case, instance, &folder)?;
    }
    eprintln!("{case}: {}", folder.display());
    Ok(folder)
}

fn figures(book: &Book, case: &str, instance: &str, folder: &Path) -> Result<()> {
    let mut systems: Vec<&str> = Vec::new();
    for run in book.runs.iter().filter(|run| run.instance == instance) {
        if !systems.contains(&run.system.as_str()) {
            systems.push(&run.system);
        }
    }
    let curves = |point: &dyn Fn(&Step) -> (f64, f64)| -> Vec<Curves> {
        let one = |system: &&str| {
            let mut runs: Vec<(u64, Vec<(f64, f64)>)> = Vec::new();
            for step in book.steps.iter().filter(|step| step.instance == instance && step.system == **system)
            {
                match runs.last_mut().filter(|(seed, _)| *seed == step.seed) {
                    Some((_, points)) => points.push(point(step)),
                    None => runs.push((step.seed, vec![point(step)])),
                }
            }
            Curves { name: system.to_string(), runs: runs.into_iter().map(|(_, points)| points).collect() }
        };
        systems.iter().map(one).collect()
    };
    let name: String =
        instance.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    let path = |kind: &str| folder.join(format!("{name}-{kind}.svg"));
    let (iteration, seconds) = (("iteration", Scale::Integer), ("time in seconds", Scale::Number));
    let title = |what: &str| format!("{case}, {instance}: {what}");
    let train = |step: &Step| (step.iteration as f64, step.train_mse);
    figure::errors(&path("train-iterations"), &title("train set"), iteration, &curves(&train))?;
    let train = |step: &Step| (step.seconds, step.train_mse);
    figure::errors(&path("train-time"), &title("train set"), seconds, &curves(&train))?;
    let test = |step: &Step| (step.iteration as f64, step.test_mse);
    figure::errors(&path("test-iterations"), &title("test set"), iteration, &curves(&test))?;
    let test = |step: &Step| (step.seconds, step.test_mse);
    figure::errors(&path("test-time"), &title("test set"), seconds, &curves(&test))
}
