//! Saves and loads the solver's whole state: atomically, two generations.
//!
//! A checkpoint is one [`Container`]: every byte under a checksum, written under a temporary name,
//! synced, renamed. The older of the two is removed only when the newer is durable, so that a
//! crash at any moment leaves at least one good checkpoint, once there was one.

use crate::error::{Error, IoContext, Result};
use crate::manifold::{Point, Tangent};
use crate::model::{BiasAbout, Biases, read_arrays, read_biases, write_arrays, write_biases};
use crate::objective::bias_fit::Damping;
use crate::recipe::{BiasChoice, Extra, Plan, Stage};
use crate::solver::{Best, Iteration, State, Stochastic, StochasticAbout};
use crate::storage::{Container, ContainerWriter, Disk, make_dir};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;

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
    /// Dataset and configuration.
    meaning: Value,
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
    /// Only while steps are made from chunks of the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stochastic: Option<StochasticAbout>,
    /// Files from before there were recipes have none.
    #[serde(default)]
    extra: Option<ExtraAbout>,
}

/// The scalars of what belongs to a recipe.
#[derive(Serialize, Deserialize)]
struct ExtraAbout {
    plan: Plan,
    bias: BiasChoice,
    damping: Option<Damping>,
    biases: Option<BiasAbout>,
    accepted: Option<(Vec<usize>, Option<BiasAbout>)>,
    best: Option<(Stage, Option<BiasAbout>)>,
}

/// The checkpoints of a run.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    directory: PathBuf,
    meaning: Value,
}

/// A checkpoint that was loaded, and what was wrong with newer ones.
#[derive(Debug)]
pub struct Loaded {
    /// The state.
    pub state: State,
    /// What belongs to a recipe; none in files from before there were any.
    pub extra: Option<Extra>,
    /// What goes with it.
    pub progress: Progress,
    /// A sentence for each newer checkpoint that could not be used.
    pub damaged: Vec<String>,
}

impl Checkpoints {
    /// Those in `directory`; `meaning` is a JSON object of what dataset and configuration give to
    /// the numbers of a state, and one with another meaning is not loaded.
    pub fn new(directory: PathBuf, meaning: Value) -> Self {
        Checkpoints { directory, meaning }
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

    /// Writes a checkpoint and then, when it is durable, removes those that are too old, and
    /// newer ones: a run goes back behind a checkpoint only when that is damaged.
    pub fn save(&self, disk: &dyn Disk, state: &State, progress: &Progress) -> Result<()> {
        self.save_with(disk, state, None, progress)
    }

    /// The same with what belongs to a recipe.
    pub fn save_with(
        &self,
        disk: &dyn Disk,
        state: &State,
        extra: Option<&Extra>,
        progress: &Progress,
    ) -> Result<()> {
        make_dir(disk, &self.directory)?;
        let mut writer = ContainerWriter::create(disk, &self.path(state.last.iteration))?;
        write_arrays(&mut writer, "point.", &state.point.factors, &state.point.core)?;
        write_arrays(&mut writer, "gradient.", &state.gradient.factors, &state.gradient.core)?;
        write_arrays(&mut writer, "direction.", &state.direction.factors, &state.direction.core)?;
        if let Some(best) = &state.best {
            write_arrays(&mut writer, "best.", &best.point.factors, &best.point.core)?;
        }
        if let Some(phase) = &state.stochastic {
            write_arrays(&mut writer, "start.", &phase.start.factors, &phase.start.core)?;
            write_arrays(&mut writer, "back.", &phase.back.factors, &phase.back.core)?;
        }
        let extra = extra.map(|extra| write_extra(&mut writer, extra)).transpose()?;
        let about = About {
            meaning: self.meaning.clone(),
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
            stochastic: state.stochastic.as_ref().map(|phase| phase.about.clone()),
            extra,
        };
        writer.finish(KIND, &about)?;
        let iterations = self.iterations()?;
        let (newer, older): (Vec<_>, Vec<_>) =
            iterations.into_iter().partition(|&other| other > state.last.iteration);
        for other in newer.into_iter().chain(older.into_iter().skip(KEPT)) {
            let path = self.path(other);
            disk.remove_file(&path).context("remove", &path)?;
        }
        Ok(())
    }

    /// Loads one checkpoint.
    pub fn load(&self, iteration: usize) -> Result<(State, Option<Extra>, Progress)> {
        let path = self.path(iteration);
        let container = Container::<About>::open(&path, KIND)?;
        if let Some(difference) = difference(&container.about.meaning, &self.meaning) {
            let what = format!(
                "the checkpoint belongs to another run ({difference}): start a new one with complete"
            );
            return Err(Error::input(&path, what));
        }
        let About { dims, rank, best, .. } = &container.about;
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
                let staged = container.about.extra.as_ref().and_then(|extra| extra.best.as_ref());
                let rank = staged.map_or(rank, |(stage, _)| &stage.ranks);
                let (factors, core) = read_arrays(&container, "best.", dims, rank)?;
                Some(Best {
                    point: Point { factors, core },
                    validation_mse: *validation_mse,
                    iteration: *iteration,
                })
            }
        };
        let stochastic = match &container.about.stochastic {
            None => None,
            Some(about) => {
                let point = |prefix: &str| -> Result<Point> {
                    let (factors, core) = read_arrays(&container, prefix, dims, rank)?;
                    Ok(Point { factors, core })
                };
                let (start, back) = (point("start.")?, point("back.")?);
                Some(Box::new(Stochastic { about: about.clone(), start, back }))
            }
        };
        let extra =
            container.about.extra.as_ref().map(|extra| read_extra(&container, extra, dims)).transpose()?;
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
            stochastic,
        };
        Ok((state, extra, about.progress))
    }

    /// Loads the newest checkpoint that is whole, and says what was wrong with newer ones; `None`
    /// where there is no checkpoint at all.
    pub fn newest(&self) -> Result<Option<Loaded>> {
        let mut damaged = Vec::new();
        for iteration in self.iterations()? {
            match self.load(iteration) {
                Ok((state, extra, progress)) => return Ok(Some(Loaded { state, extra, progress, damaged })),
                Err(Error::Corrupt { offset, what, .. }) => {
                    damaged.push(format!("checkpoint {iteration} is damaged at offset {offset} ({what})"));
                }
                Err(error) => return Err(error),
            }
        }
        if damaged.is_empty() {
            return Ok(None);
        }
        let what = format!("{}: begin anew with complete --force", damaged.join("; "));
        Err(Error::input(&self.directory, what))
    }
}

fn write_extra(writer: &mut ContainerWriter<'_>, extra: &Extra) -> Result<ExtraAbout> {
    let mut write = |prefix: &str, biases: Option<&Biases>| -> Result<Option<BiasAbout>> {
        biases.map(|biases| write_biases(writer, prefix, biases).map(|()| BiasAbout::of(biases))).transpose()
    };
    let biases = write("", extra.biases.as_ref())?;
    let best = match &extra.best {
        Some((stage, biases)) => Some((stage.clone(), write("best.", biases.as_ref())?)),
        None => None,
    };
    let accepted = match &extra.accepted {
        Some((point, biases)) => {
            let biases = write("accepted.", biases.as_ref())?;
            write_arrays(writer, "accepted.", &point.factors, &point.core)?;
            Some((point.ranks().to_vec(), biases))
        }
        None => None,
    };
    let (plan, damping) = (extra.plan.clone(), extra.damping.clone());
    Ok(ExtraAbout { plan, bias: extra.bias, damping, biases, accepted, best })
}

fn read_extra(container: &Container<About>, about: &ExtraAbout, dims: &[usize]) -> Result<Extra> {
    let read = |prefix: &str, biases: Option<&BiasAbout>| -> Result<Option<Biases>> {
        biases.map(|biases| read_biases(container, prefix, biases, dims)).transpose()
    };
    let biases = read("", about.biases.as_ref())?;
    let best = match &about.best {
        Some((stage, biases)) => Some((stage.clone(), read("best.", biases.as_ref())?)),
        None => None,
    };
    let accepted = match &about.accepted {
        Some((ranks, biases)) => {
            let (factors, core) = read_arrays(container, "accepted.", dims, ranks)?;
            Some((Point { factors, core }, read("accepted.", biases.as_ref())?))
        }
        None => None,
    };
    let stages = [Some(&about.plan.stage), best.as_ref().map(|(stage, _)| stage)];
    let order = dims.len();
    let whole = |stage: &Stage| stage.ranks.len() == order && stage.held.len() == order;
    if !stages.into_iter().flatten().all(whole) || about.plan.stage.ranks != container.about.rank {
        return Err(Error::corrupt(container.path(), 0, "the plan and the state do not go together"));
    }
    let damping = about.damping.clone();
    if damping.as_ref().is_some_and(|damping| damping.modes.len() != order) {
        return Err(Error::corrupt(container.path(), 0, "the damping and the dimensions do not go together"));
    }
    Ok(Extra { plan: about.plan.clone(), bias: about.bias, damping, biases, accepted, best })
}

/// What tells two meanings apart, in words.
fn difference(theirs: &Value, ours: &Value) -> Option<String> {
    let (Some(theirs), Some(ours)) = (theirs.as_object(), ours.as_object()) else {
        return (theirs != ours).then(|| "it does not say which".into());
    };
    let keys = theirs.keys().chain(ours.keys().filter(|key| !theirs.contains_key(*key)));
    let told = keys.filter(|key| theirs.get(*key) != ours.get(*key)).map(|key| {
        let of = |map: &serde_json::Map<String, Value>| map.get(key).map_or("none".into(), Value::to_string);
        format!("{key} is {} there and {} here", of(theirs), of(ours))
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| told.join(", "))
}
