//! What runs came to, as CSV: a line per run in `runs.csv`, a line per iteration in `trace.csv`.

use crate::{Result, told};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Instant;
use tenfill_engine::solver::StoppedBy;

/// One system on one instance.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    /// S1 to S8, R1, R2.
    pub case: String,
    /// What tells the instances of a case apart.
    pub instance: String,
    /// Who completed it.
    pub system: String,
    /// Of instance and start.
    pub seed: u64,
    /// The dimensions, as 200x200x200.
    pub dims: String,
    /// The rank, as 10,10,10.
    pub rank: String,
    /// Train entries.
    pub entries: u64,
    /// Iterations.
    pub iterations: usize,
    /// Readings of the train entries; 0 for the systems that hold the whole tensor.
    pub passes: usize,
    /// The mean squared error on train.
    pub train_mse: f64,
    /// On validation, of the model that is kept.
    pub validation_mse: Option<f64>,
    /// On test, of the model that is kept.
    pub test_mse: f64,
    /// The smallest error on test of any iterate, and
    pub least_test_mse: f64,
    /// the error on test of the start.
    pub first_test_mse: f64,
    /// Wall time of the iterations, without the looks at test entries.
    pub seconds: f64,
    /// Processor time, likewise.
    pub cpu_seconds: f64,
    /// Why it ended.
    pub stopped_by: String,
    /// The mean square of the exact entries, where it is known.
    pub mean_square: Option<f64>,
    /// The relative noise, where there is some.
    pub noise: Option<f64>,
}

/// One iteration of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Step {
    /// As in [`Run`].
    pub instance: String,
    /// As in [`Run`].
    pub system: String,
    /// As in [`Run`].
    pub seed: u64,
    /// 0 for the start.
    pub iteration: usize,
    /// Readings of the train entries up to here.
    pub passes: usize,
    /// Errors at this iterate.
    pub train_mse: f64,
    /// None without such entries.
    pub validation_mse: Option<f64>,
    /// Of entries that no system has seen.
    pub test_mse: f64,
    /// Wall time up to here.
    pub seconds: f64,
    /// Processor time up to here.
    pub cpu_seconds: f64,
}

/// When a run ends, the same for all systems.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// At this train MSE.
    pub tolerance: f64,
    /// After this many iterations.
    pub max_iterations: usize,
    /// After this many iterations without a better validation MSE; 0 switches it off.
    pub patience: usize,
}

impl Default for Rules {
    /// The paper's.
    fn default() -> Self {
        Rules { tolerance: 1e-12, max_iterations: 250, patience: 0 }
    }
}

impl Rules {
    /// Which of them holds, for systems that do not ask the engine's solver. Patience begins with the first
    /// iterate that is better than the start: those with falling thresholds stay at zero for a while.
    pub fn stop(&self, trace: &[Errors]) -> Option<StoppedBy> {
        let last = trace.last()?;
        let best = best(trace);
        if last.train_mse <= self.tolerance {
            Some(StoppedBy::Tolerance)
        } else if self.patience > 0
            && last.validation_mse.is_some()
            && best > 0
            && last.iteration - trace[best].iteration >= self.patience
        {
            Some(StoppedBy::Patience)
        } else if last.iteration >= self.max_iterations {
            Some(StoppedBy::MaxIterations)
        } else if !last.train_mse.is_finite() {
            Some(StoppedBy::Step)
        } else {
            None
        }
    }
}

/// The errors of one iterate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Errors {
    /// 0 for the start.
    pub iteration: usize,
    /// Readings of the train entries up to here.
    pub passes: usize,
    /// On train.
    pub train_mse: f64,
    /// On validation.
    pub validation_mse: Option<f64>,
    /// On test.
    pub test_mse: f64,
    /// Wall and processor time up to here.
    pub time: (f64, f64),
}

/// The iterate that is kept: the best by validation, the last where there is none.
pub fn best(trace: &[Errors]) -> usize {
    let mut best = trace.len() - 1;
    let mut least = f64::INFINITY;
    for (at, errors) in trace.iter().enumerate() {
        if let Some(mse) = errors.validation_mse.filter(|mse| *mse < least) {
            (best, least) = (at, mse);
        }
    }
    best
}

/// Wall and processor time, with pauses.
pub struct Clock {
    spent: (f64, f64),
    since: Option<(Instant, f64)>,
}

impl Clock {
    /// A clock that stands still.
    pub fn stopped() -> Self {
        Clock { spent: (0.0, 0.0), since: None }
    }

    /// Times `work`.
    pub fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        self.since = Some((Instant::now(), tenfill_engine::usage::cpu_seconds()));
        let done = work();
        if let Some((wall, cpu)) = self.since.take() {
            self.spent.0 += wall.elapsed().as_secs_f64();
            self.spent.1 += tenfill_engine::usage::cpu_seconds() - cpu;
        }
        done
    }

    /// Wall and processor time so far.
    pub fn spent(&self) -> (f64, f64) {
        self.spent
    }
}

/// What is known of an instance before anybody completes it.
#[derive(Debug, Clone)]
pub struct About {
    /// S1 to S8, R1, R2.
    pub case: &'static str,
    /// What tells it from the others of its case.
    pub instance: String,
    /// Of instance and start.
    pub seed: u64,
    /// Dimensions.
    pub dims: Vec<usize>,
    /// The rank that is fitted.
    pub rank: Vec<usize>,
    /// Train entries.
    pub entries: u64,
    /// The mean square of the exact entries.
    pub mean_square: Option<f64>,
    /// The relative noise.
    pub noise: Option<f64>,
}

/// All runs of a case.
#[derive(Default)]
pub struct Book {
    /// A line per run.
    pub runs: Vec<Run>,
    /// A line per iteration.
    pub steps: Vec<Step>,
}

impl Book {
    /// Takes a run in, and says on standard error what it came to.
    pub fn add(&mut self, about: &About, system: &str, trace: &[Errors], stopped_by: StoppedBy) {
        let (last, kept) = (trace[trace.len() - 1], trace[best(trace)]);
        let join = |numbers: &[usize], with: &str| {
            numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(with)
        };
        let least = trace.iter().map(|errors| errors.test_mse).fold(f64::INFINITY, f64::min);
        eprintln!(
            "{} {:24} seed {} {:16} {:>4} iterations, train {:.2e}, test {:.2e}, {:.1} CPU s, {}",
            about.case,
            about.instance,
            about.seed,
            system,
            last.iteration,
            kept.train_mse,
            kept.test_mse,
            last.time.1,
            stopped_by
        );
        self.runs.push(Run {
            case: about.case.into(),
            instance: about.instance.clone(),
            system: system.into(),
            seed: about.seed,
            dims: join(&about.dims, "x"),
            rank: join(&about.rank, ","),
            entries: about.entries,
            iterations: last.iteration,
            passes: last.passes,
            train_mse: kept.train_mse,
            validation_mse: kept.validation_mse,
            test_mse: kept.test_mse,
            least_test_mse: least,
            first_test_mse: trace[0].test_mse,
            seconds: last.time.0,
            cpu_seconds: last.time.1,
            stopped_by: stopped_by.to_string(),
            mean_square: about.mean_square,
            noise: about.noise,
        });
        self.steps.extend(trace.iter().map(|errors| Step {
            instance: about.instance.clone(),
            system: system.into(),
            seed: about.seed,
            iteration: errors.iteration,
            passes: errors.passes,
            train_mse: errors.train_mse,
            validation_mse: errors.validation_mse,
            test_mse: errors.test_mse,
            seconds: errors.time.0,
            cpu_seconds: errors.time.1,
        }));
    }

    /// Writes both files.
    pub fn write(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        write(&folder.join("runs.csv"), &self.runs)?;
        write(&folder.join("trace.csv"), &self.steps)
    }

    /// Reads both files; nothing where the case was not run.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        if !folder.join("runs.csv").is_file() {
            return Ok(None);
        }
        let (runs, steps) = (read(&folder.join("runs.csv"))?, read(&folder.join("trace.csv"))?);
        Ok(Some(Book { runs, steps }))
    }
}

fn write<T: Serialize>(path: &Path, rows: &[T]) -> Result<()> {
    let failed = |error: csv::Error| format!("{}: {error}", path.display());
    let mut writer = csv::Writer::from_path(path).map_err(failed)?;
    rows.iter().try_for_each(|row| writer.serialize(row)).map_err(failed)?;
    writer.flush().map_err(told)
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let failed = |error: csv::Error| format!("{}: {error}", path.display());
    let mut reader = csv::Reader::from_path(path).map_err(failed)?;
    reader.deserialize().collect::<std::result::Result<_, _>>().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(iteration: usize, train_mse: f64, validation_mse: Option<f64>) -> Errors {
        Errors { iteration, passes: 0, train_mse, validation_mse, test_mse: 1.0, time: (0.0, 0.0) }
    }

    #[test]
    fn rules_hold_when_they_should() {
        let rules = Rules { patience: 2, ..Rules::default() };
        let mut trace = vec![errors(0, 1.0, Some(3.0)), errors(1, 0.5, Some(2.0))];
        assert_eq!(rules.stop(&trace), None);
        trace.push(errors(2, 0.4, Some(2.5)));
        assert_eq!(rules.stop(&trace), None);
        trace.push(errors(3, 0.3, Some(2.1)));
        assert_eq!(rules.stop(&trace), Some(StoppedBy::Patience));
        assert_eq!(best(&trace), 1);
        let still: Vec<Errors> = (0..9).map(|iteration| errors(iteration, 1.0, Some(3.0))).collect();
        assert_eq!(rules.stop(&still), None);
        assert_eq!(rules.stop(&[errors(7, 1e-13, None)]), Some(StoppedBy::Tolerance));
        assert_eq!(rules.stop(&[errors(250, 1.0, None)]), Some(StoppedBy::MaxIterations));
        assert_eq!(rules.stop(&[errors(7, f64::NAN, None)]), Some(StoppedBy::Step));
    }

    #[test]
    fn a_book_comes_back_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let about = About {
            case: "S2",
            instance: "100^3 r5 OS10".into(),
            seed: 3,
            dims: vec![100, 100, 100],
            rank: vec![5, 5, 5],
            entries: 14_000,
            mean_square: Some(81.25),
            noise: None,
        };
        let mut book = Book::default();
        book.add(&about, "ours", &[errors(0, 1.0, None), errors(1, 1e-13, None)], StoppedBy::Tolerance);
        book.write(folder.path()).unwrap();
        let back = Book::read(folder.path()).unwrap().unwrap();
        assert_eq!(format!("{:?} {:?}", back.runs, back.steps), format!("{:?} {:?}", book.runs, book.steps));
        assert!(Book::read(&folder.path().join("none")).unwrap().is_none());
    }
}
