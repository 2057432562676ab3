//! Saves and loads the solver's whole state: atomically, two generations.
//!
//! A checkpoint is one [`Container`]: every byte under a checksum, written under a temporary name,
//! synced, renamed. The older of the two is removed only when the newer is durable, so that a
//! crash at any moment leaves at least one good checkpoint, once there was one.

use crate::error::{Error, IoContext, Result};
use crate::manifold::{Point, Tangent};
use crate::model::{read_arrays, write_arrays};
use crate::solver::{Best, Iteration, State};
use crate::storage::{Container, ContainerWriter, Disk};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const KIND: &str = "checkpoint";
const ENDING: &str = "checkpoint";
/// Generations that are kept.
const KEPT: usize = 2;

/// What belongs to a run beside the solver's state, and goes on where it was.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Wall time so far.
    pub seconds: f64,
    /// Processor time so far.
    pub cpu_seconds: f64,
    /// Bytes of blocks read so far.
    pub bytes_read: u64,
    /// The train error of the best model by validation.
    pub best_train_mse: Option<f64>,
}

/// The scalars of a state; its arrays lie beside them.
#[derive(Serialize, Deserialize)]
struct About {
    /// Identifies dataset and configuration.
    fingerprint: String,
    dims: Vec<usize>,
    rank: Vec<usize>,
    slope: f64,
    gradient_square: f64,
    first_gradient_norm: f64,
    last: Iteration,
    best: Option<(f64, usize)>,
    guards: usize,
    stuck: bool,
    progress: Progress,
}

/// The checkpoints of a run.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    directory: PathBuf,
    fingerprint: String,
}

/// A checkpoint that was loaded, and what was wrong with newer ones.
#[derive(Debug)]
pub struct Loaded {
    /// The state.
    pub state: State,
    /// What goes with it.
    pub progress: Progress,
    /// A sentence for each newer checkpoint that could not be used.
    pub damaged: Vec<String>,
}

impl Checkpoints {
    /// Those in `directory`, for a dataset and configuration with this fingerprint.
    pub fn new(directory: PathBuf, fingerprint: String) -> Self {
        Checkpoints { directory, fingerprint }
    }

    fn path(&self, iteration: usize) -> PathBuf {
        self.directory.join(format!("{iteration:08}.{ENDING}"))
    }

    /// The iterations that have a checkpoint, newest first.
    pub fn iterations(&self) -> Result<Vec<usize>> {
        let mut found = Vec::new();
        if self.directory.is_dir() {
            for entry in std::fs::read_dir(&self.directory).context("read", &self.directory)? {
                let path = entry.context("read", &self.directory)?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy().to_string();
                let number = name.strip_suffix(ENDING).and_then(|name| name.strip_suffix('.'));
                found.extend(number.and_then(|number| number.parse::<usize>().ok()));
            }
        }
        found.sort_unstable_by(|a, b| b.cmp(a));
        Ok(found)
    }

    /// Writes a checkpoint and then removes those that are too old.
    pub fn save(&self, disk: &dyn Disk, state: &State, progress: &Progress) -> Result<()> {
        disk.create_dir(&self.directory).context("create", &self.directory)?;
        let mut writer = ContainerWriter::create(disk, &self.path(state.last.iteration))?;
        write_arrays(&mut writer, "point.", &state.point.factors, &state.point.core)?;
        write_arrays(&mut writer, "gradient.", &state.gradient.factors, &state.gradient.core)?;
        write_arrays(&mut writer, "direction.", &state.direction.factors, &state.direction.core)?;
        if let Some(best) = &state.best {
            write_arrays(&mut writer, "best.", &best.point.factors, &best.point.core)?;
        }
        let about = About {
            fingerprint: self.fingerprint.clone(),
            dims: state.point.dims(),
            rank: state.point.ranks().to_vec(),
            slope: state.slope,
            gradient_square: state.gradient_square,
            first_gradient_norm: state.first_gradient_norm,
            last: state.last,
            best: state.best.as_ref().map(|best| (best.validation_mse, best.iteration)),
            guards: state.guards,
            stuck: state.stuck,
            progress: progress.clone(),
        };
        writer.finish(KIND, &about)?;
        for old in self.iterations()?.into_iter().skip(KEPT) {
            let path = self.path(old);
            disk.remove_file(&path).context("remove", &path)?;
        }
        Ok(())
    }

    /// Loads one checkpoint.
    pub fn load(&self, iteration: usize) -> Result<(State, Progress)> {
        let path = self.path(iteration);
        let container = Container::<About>::open(&path, KIND)?;
        if container.about.fingerprint != self.fingerprint {
            return Err(Error::input(
                &path,
                "the checkpoint belongs to another dataset or configuration: start a new run with complete",
            ));
        }
        let About { dims, rank, best, .. } = &container.about;
        let shaped = dims.len() == rank.len() && dims.iter().chain(rank).all(|&n| n > 0);
        let sizes = dims.iter().zip(rank).try_fold(0usize, |sum, (n, r)| sum.checked_add(n.checked_mul(*r)?));
        if !shaped
            || sizes.is_none()
            || rank.iter().try_fold(1usize, |product, &r| product.checked_mul(r)).is_none()
        {
            return Err(Error::corrupt(&path, 0, "the checkpoint's dimensions and ranks do not go together"));
        }
        let tangent = |prefix: &str| -> Result<Tangent> {
            let (factors, core) = read_arrays(&container, prefix, dims, rank)?;
            Ok(Tangent { factors, core })
        };
        let (factors, core) = read_arrays(&container, "point.", dims, rank)?;
        let point = Point { factors, core };
        let (gradient, direction) = (tangent("gradient.")?, tangent("direction.")?);
        let best = match best {
            None => None,
            Some((validation_mse, iteration)) => {
                let (factors, core) = read_arrays(&container, "best.", dims, rank)?;
                Some(Best {
                    point: Point { factors, core },
                    validation_mse: *validation_mse,
                    iteration: *iteration,
                })
            }
        };
        let about = container.about;
        let state = State {
            point,
            gradient,
            direction,
            slope: about.slope,
            gradient_square: about.gradient_square,
            first_gradient_norm: about.first_gradient_norm,
            last: about.last,
            best,
            guards: about.guards,
            stuck: about.stuck,
        };
        Ok((state, about.progress))
    }

    /// Loads the newest checkpoint that is whole; says what was wrong with newer ones.
    pub fn newest(&self) -> Result<Loaded> {
        let mut damaged = Vec::new();
        for iteration in self.iterations()? {
            match self.load(iteration) {
                Ok((state, progress)) => return Ok(Loaded { state, progress, damaged }),
                Err(Error::Corrupt { offset, what, .. }) => {
                    damaged.push(format!("checkpoint {iteration} is damaged at offset {offset} ({what})"));
                }
                Err(error) => return Err(error),
            }
        }
        let what = if damaged.is_empty() {
            "there is no checkpoint yet: start again with complete --force".to_string()
        } else {
            format!("no checkpoint is whole: {}", damaged.join("; "))
        };
        Err(Error::input(&self.directory, what))
    }

    /// Removes what an interrupted write left behind.
    pub fn clean(&self, disk: &dyn Disk) -> Result<()> {
        remove_partial(disk, &self.directory)
    }
}

/// Removes temporary files of interrupted writes from a directory.
pub fn remove_partial(disk: &dyn Disk, directory: &Path) -> Result<()> {
    if !directory.is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(directory).context("read", directory)? {
        let path = entry.context("read", directory)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_string();
        if path.is_file() && name.starts_with('.') && name.ends_with(".partial") {
            disk.remove_file(&path).context("remove", &path)?;
        }
    }
    Ok(())
}
