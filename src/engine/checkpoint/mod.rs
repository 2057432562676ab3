//! Saves and loads the solver's whole state: atomically, two generations.
//!
//! A checkpoint is one [`Container`]: every byte under a checksum, written under a temporary name,
//! synced, renamed. The older of the two is removed only when the newer is durable, so that a
//! crash at any moment leaves at least one good checkpoint, once there was one.

mod sweeping;

use crate::error::{Error, IoContext, Result};
use crate::manifold::{Point, Tangent};
use crate::model::{
    Arrays, BiasAbout, Biases, Ends, UncertaintyAbout, read_arrays, read_biases, read_uncertainty,
    sparse_numbers, write_arrays, write_biases, write_uncertainty,
};
use crate::objective::bias_fit::Damping;
use crate::recipe::{Extra, Plan, Stage};
use crate::rows::Rows;
use crate::solver::{Ahead, Best, Iteration, Secant, SecantAbout, State, Stochastic, StochasticAbout};
use crate::storage::{Container, ContainerWriter, Disk, make_dir};
use crate::team::Team;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};
use sweeping::SweepingAbout;

const KIND: &str = "checkpoint";
const ENDING: &str = "checkpoint";
/// Stands before the names of what belongs to the best model.
const BEST: &str = "best.";
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
    /// The train error of the best model by validation, in files from before it stood beside that.
    #[serde(default, skip_serializing)]
    pub(crate) best_train_mse: Option<f64>,
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
    /// The train error of the best model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    best_train_mse: Option<f64>,
    /// The ranks of the best model. Files from before these were told have those of its stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    best_rank: Option<Vec<usize>>,
    /// How many numbers its core has here, where it is sparse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    best_numbers: Option<usize>,
    guards: usize,
    /// Files from before there was a damped metric have none, and no use for it.
    #[serde(default = "whole")]
    damping: f64,
    stuck: bool,
    progress: Progress,
    /// Only while steps are made from chunks of the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stochastic: Option<StochasticAbout>,
    /// Only where steps of one pass may follow, and whether they have begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secant: Option<(SecantAbout, bool)>,
    /// Files from before there were recipes have none.
    #[serde(default)]
    extra: Option<ExtraAbout>,
}

fn whole() -> f64 {
    1.0
}

/// The scalars of what belongs to a recipe.
#[derive(Serialize, Deserialize)]
struct ExtraAbout {
    plan: Plan,
    damping: Option<Damping>,
    biases: Option<BiasAbout>,
    accepted: Option<(Vec<usize>, Option<BiasAbout>)>,
    best: Option<(Stage, Option<BiasAbout>)>,
    /// What values at the ends of the range say to the best model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ends: Option<Ends>,
    /// How sure the best model is, where it knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uncertainty: Option<UncertaintyAbout>,
    /// Only while there are sweeps over rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sweeping: Option<SweepingAbout>,
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
        let names = Self::names_in(&self.directory)?;
        let mut found: Vec<usize> = names.iter().filter_map(|name| number(name)).collect();
        found.sort_unstable_by(|a, b| b.cmp(a));
        Ok(found)
    }

    /// Whether this is the name of a checkpoint.
    pub(crate) fn is_name(name: &str) -> bool {
        number(name).is_some()
    }

    /// The names of the checkpoints in a directory; none where there is no directory.
    pub(crate) fn names_in(directory: &Path) -> Result<Vec<String>> {
        let mut found = Vec::new();
        if directory.is_dir() {
            for entry in std::fs::read_dir(directory).context("read", directory)? {
                found.extend(entry.context("read", directory)?.file_name().into_string());
            }
        }
        found.retain(|name| Self::is_name(name));
        Ok(found)
    }

    /// Writes a checkpoint and then, when it is durable, removes those that are too old, and
    /// newer ones: a run goes back behind a checkpoint only when that is damaged.
    pub fn save(&self, disk: &dyn Disk, state: &State, progress: &Progress) -> Result<()> {
        self.save_with(disk, state, None, progress)
    }

    /// The same with what belongs to a recipe. Of several processes the first writes, the others hand
    /// it their rows: all must call it, those others with a disk that keeps nothing.
    pub fn save_with(
        &self,
        disk: &dyn Disk,
        state: &State,
        extra: Option<&Extra>,
        progress: &Progress,
    ) -> Result<()> {
        let team = state.point.team();
        let path = self.path(state.last.iteration);
        let best_numbers = state.best.as_ref().and_then(|best| sparse_numbers(&best.point.core));
        let begun = make_dir(disk, &self.directory)
            .and_then(|()| ContainerWriter::create(disk, &path, best_numbers.is_some()));
        let mut writer = team.agree(begun)?;
        write_arrays(&mut writer, "point.", &state.point.factors, &state.point.core);
        write_arrays(&mut writer, "gradient.", &state.gradient.factors, &state.gradient.core);
        write_arrays(&mut writer, "direction.", &state.direction.factors, &state.direction.core);
        if let Some(best) = &state.best {
            write_arrays(&mut writer, "best.", &best.point.factors, &best.point.core);
        }
        if let Some(phase) = &state.stochastic {
            write_arrays(&mut writer, "start.", &phase.start.factors, &phase.start.core);
            write_arrays(&mut writer, "back.", &phase.back.factors, &phase.back.core);
        }
        let secant = state.secant.as_ref();
        if let Some(ahead) = secant.and_then(|secant| secant.ahead.as_ref()) {
            write_arrays(&mut writer, "offset.", &ahead.offset.factors, &ahead.offset.core);
            write_arrays(&mut writer, "here.", &ahead.gradient.factors, &ahead.gradient.core);
        }
        let extra = extra.map(|extra| write_extra(&mut writer, extra));
        let about = About {
            meaning: self.meaning.clone(),
            dims: state.point.dims(),
            rank: state.point.ranks().to_vec(),
            slope: state.slope,
            gradient_square: state.gradient_square,
            first_gradient_norm: state.first_gradient_norm,
            last: state.last,
            best: state.best.as_ref().map(|best| (best.validation_mse, best.iteration)),
            best_train_mse: state.best.as_ref().map(|best| best.train_mse),
            best_rank: state.best.as_ref().map(|best| best.point.ranks().to_vec()),
            best_numbers,
            guards: state.guards,
            damping: state.damping,
            stuck: state.stuck,
            progress: progress.clone(),
            stochastic: state.stochastic.as_ref().map(|phase| phase.about.clone()),
            secant: secant.map(|secant| (secant.about, secant.ahead.is_some())),
            extra,
        };
        let finished = writer.finish(KIND, &about);
        team.agree(finished.and_then(|()| {
            // The others have nothing to clean, and may not even see the directory.
            if team.is_first() { self.remove_others(disk, state.last.iteration) } else { Ok(()) }
        }))
    }

    /// Removes checkpoints that are too old, and those after `iteration`.
    fn remove_others(&self, disk: &dyn Disk, iteration: usize) -> Result<()> {
        let iterations = self.iterations()?;
        let (newer, older): (Vec<_>, Vec<_>) = iterations.into_iter().partition(|&other| other > iteration);
        for other in newer.into_iter().chain(older.into_iter().skip(KEPT)) {
            let path = self.path(other);
            disk.remove_file(&path).context("remove", &path)?;
        }
        Ok(())
    }

    /// Loads one checkpoint.
    pub fn load(&self, iteration: usize) -> Result<(State, Option<Extra>, Progress)> {
        let container = self.open(iteration)?;
        assemble(&container, &container.about)
    }

    /// Opens a checkpoint that belongs to this run.
    fn open(&self, iteration: usize) -> Result<Container<About>> {
        let path = self.path(iteration);
        let container = Container::<About>::open(&path, KIND)?;
        if let Some(difference) = difference(&container.about.meaning, &self.meaning) {
            let what = format!(
                "the checkpoint belongs to another run ({difference}): start a new one with complete"
            );
            return Err(Error::input(&path, what));
        }
        Ok(container)
    }

    /// Loads the newest checkpoint that is whole, and says what was wrong with newer ones; `None`
    /// where there is no checkpoint at all.
    pub fn newest(&self) -> Result<Option<Loaded>> {
        Ok(self
            .newest_by(|iteration| self.load(iteration))?
            .map(|((state, extra, progress), damaged)| Loaded { state, extra, progress, damaged }))
    }

    /// The same for several processes, of which the first reads and hands every other its rows. All must
    /// call it; only the first needs to see the files.
    pub fn newest_for(&self, team: Team) -> Result<Option<Loaded>> {
        if team.is_alone() {
            return self.newest();
        }
        let mut container = None;
        let told = team.told_by_first(|| {
            // Read once to see whether it is whole, and once more to hand it on.
            let whole = |iteration: usize| {
                let container = self.open(iteration)?;
                container.check().map(|()| container)
            };
            let Some((found, damaged)) = self.newest_by(whole)? else { return Ok(String::new()) };
            let found = container.insert(found);
            let told = serde_json::to_string(&(&found.about, damaged));
            told.map_err(std::io::Error::other).context("read", found.path())
        })?;
        if told.is_empty() {
            return Ok(None);
        }
        let told: Result<(About, Vec<String>), _> = serde_json::from_str(&told);
        let (about, damaged) = told.map_err(std::io::Error::other).context("read", &self.directory)?;
        let arrays = FromFirst { container, path: self.path(about.last.iteration), team };
        let (state, extra, progress) = assemble(&arrays, &about)?;
        Ok(Some(Loaded { state, extra, progress, damaged }))
    }

    /// The newest that `read` finds no damage in, and what was wrong with newer ones.
    fn newest_by<T>(&self, read: impl Fn(usize) -> Result<T>) -> Result<Option<(T, Vec<String>)>> {
        let mut damaged = Vec::new();
        for iteration in self.iterations()? {
            match read(iteration) {
                Ok(found) => return Ok(Some((found, damaged))),
                Err(Error::Corrupt { offset, what, .. }) => {
                    damaged.push(format!("checkpoint {iteration} is damaged at offset {offset} ({what})"));
                }
                Err(error) => return Err(error),
            }
        }
        if damaged.is_empty() {
            return Ok(None);
        }
        let what = format!("{}: begin anew with complete `force`", damaged.join("; "));
        Err(Error::input(&self.directory, what))
    }
}

/// The iteration of a checkpoint, from its name; none where it is not just as one is written.
fn number(name: &str) -> Option<usize> {
    let number = name.strip_suffix(ENDING)?.strip_suffix('.')?.parse().ok()?;
    (name == format!("{number:08}.{ENDING}")).then_some(number)
}

/// The arrays of a checkpoint that only the first process reads.
struct FromFirst {
    container: Option<Container<About>>,
    path: PathBuf,
    team: Team,
}

impl Arrays for FromFirst {
    fn path(&self) -> &Path {
        &self.path
    }

    fn array(&self, name: &str, length: usize) -> Result<Vec<f64>> {
        let read = self.container.as_ref().map_or(Ok(vec![0.0; length]), |file| file.array(name, length));
        let mut numbers = self.team.agree(read)?;
        self.team.numbers_of_first(&mut numbers);
        Ok(numbers)
    }

    fn rows(&self, name: &str, rows: usize, rank: usize) -> Result<Rows> {
        Rows::from_first(self.team, rows, rank, |give| match &self.container {
            Some(file) => file.for_each_piece(name, rows * rank, give),
            None => Ok(()),
        })
    }
}

/// The state that arrays and what is said about them stand for.
fn assemble(arrays: &impl Arrays, about: &About) -> Result<(State, Option<Extra>, Progress)> {
    let About { dims, rank, best, .. } = about;
    let tangent = |prefix: &str| -> Result<Tangent> {
        let (factors, core) = read_arrays(arrays, prefix, dims, rank, None)?;
        Ok(Tangent { factors, core })
    };
    let (factors, core) = read_arrays(arrays, "point.", dims, rank, None)?;
    let point = Point { factors, core };
    let (gradient, direction) = (tangent("gradient.")?, tangent("direction.")?);
    let best = match best {
        None => None,
        Some((validation_mse, iteration)) => {
            let staged = about.extra.as_ref().and_then(|extra| extra.best.as_ref());
            let rank = about.best_rank.as_ref().unwrap_or(staged.map_or(rank, |(stage, _)| &stage.ranks));
            if rank.len() != dims.len() {
                return Err(Error::corrupt(arrays.path(), 0, "the best model has other modes"));
            }
            let (factors, core) = read_arrays(arrays, "best.", dims, rank, about.best_numbers)?;
            let train_mse = about.best_train_mse.or(about.progress.best_train_mse);
            Some(Best {
                point: Point { factors, core },
                validation_mse: *validation_mse,
                train_mse: train_mse.unwrap_or(about.last.train_mse),
                iteration: *iteration,
            })
        }
    };
    let stochastic = match &about.stochastic {
        None => None,
        Some(about) => {
            let point = |prefix: &str| -> Result<Point> {
                let (factors, core) = read_arrays(arrays, prefix, dims, rank, None)?;
                Ok(Point { factors, core })
            };
            let (start, back) = (point("start.")?, point("back.")?);
            Some(Box::new(Stochastic { about: about.clone(), start, back }))
        }
    };
    let secant = match about.secant {
        None => None,
        Some((about, begun)) => {
            let ahead = || Ok(Ahead { offset: tangent("offset.")?, gradient: tangent("here.")? });
            Some(Box::new(Secant { about, ahead: begun.then(ahead).transpose()? }))
        }
    };
    let extra = about.extra.as_ref().map(|extra| read_extra(arrays, extra, about)).transpose()?;
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
        damping: about.damping,
        stuck: about.stuck,
        stochastic,
        secant,
    };
    Ok((state, extra, about.progress.clone()))
}

fn write_extra(writer: &mut ContainerWriter<'_>, extra: &Extra) -> ExtraAbout {
    let mut write = |prefix: &str, biases: Option<&Biases>| -> Option<BiasAbout> {
        biases.map(|biases| {
            write_biases(writer, prefix, biases);
            BiasAbout::of(biases)
        })
    };
    let biases = write("", extra.biases.as_ref());
    let best = extra.best.as_ref().map(|(stage, biases)| (stage.clone(), write("best.", biases.as_ref())));
    let accepted = match &extra.accepted {
        Some((point, biases)) => {
            let biases = write("accepted.", biases.as_ref());
            write_arrays(writer, "accepted.", &point.factors, &point.core);
            Some((point.ranks().to_vec(), biases))
        }
        None => None,
    };
    let (plan, damping) = (extra.plan.clone(), extra.damping.clone());
    let sweeping = extra.sweeping.as_ref().map(|sweeping| sweeping::write(writer, sweeping));
    let uncertainty = extra.uncertainty.as_ref().map(|uncertainty| {
        write_uncertainty(writer, BEST, uncertainty);
        UncertaintyAbout::of(uncertainty)
    });
    let ends = extra.ends;
    ExtraAbout { plan, damping, biases, accepted, best, ends, uncertainty, sweeping }
}

fn read_extra(arrays: &impl Arrays, about: &ExtraAbout, of: &About) -> Result<Extra> {
    let dims = &of.dims;
    let read = |prefix: &str, biases: Option<&BiasAbout>| -> Result<Option<Biases>> {
        biases.map(|biases| read_biases(arrays, prefix, biases, dims)).transpose()
    };
    let biases = read("", about.biases.as_ref())?;
    let best = match &about.best {
        Some((stage, biases)) => Some((stage.clone(), read("best.", biases.as_ref())?)),
        None => None,
    };
    let accepted = match &about.accepted {
        Some((ranks, biases)) => {
            let (factors, core) = read_arrays(arrays, "accepted.", dims, ranks, None)?;
            Some((Point { factors, core }, read("accepted.", biases.as_ref())?))
        }
        None => None,
    };
    let stages = [Some(&about.plan.stage), best.as_ref().map(|(stage, _)| stage)];
    let order = dims.len();
    let whole = |stage: &Stage| stage.ranks.len() == order && stage.held.len() == order;
    if !stages.into_iter().flatten().all(whole) || about.plan.stage.ranks != of.rank {
        return Err(Error::corrupt(arrays.path(), 0, "the plan and the state do not go together"));
    }
    let damping = about.damping.clone();
    if damping.as_ref().is_some_and(|damping| damping.modes.len() != order) {
        return Err(Error::corrupt(arrays.path(), 0, "the damping and the dimensions do not go together"));
    }
    let sweeping = about.sweeping.as_ref().map(|about| sweeping::read(arrays, about, dims).map(Box::new));
    let (plan, sweeping) = (about.plan.clone(), sweeping.transpose()?);
    let uncertainty = about.uncertainty.as_ref().map(|about| read_uncertainty(arrays, BEST, about, dims));
    let uncertainty = uncertainty.transpose()?.map(Box::new);
    let ends = about.ends;
    Ok(Extra { plan, damping, biases, accepted, best, ends, uncertainty, sweeping })
}

/// A meaning without what versions with a search over ranks and penalties have said of it: nothing else depends on it.
fn without_search(meaning: &Value) -> Value {
    let mut meaning = meaning.clone();
    if let Some(recipe) = meaning.get_mut("recipe").and_then(Value::as_object_mut) {
        recipe.retain(|field, _| !["grow", "refine", "refine_further"].contains(&field.as_str()));
    }
    meaning
}

/// What tells two meanings apart, in words.
fn difference(theirs: &Value, ours: &Value) -> Option<String> {
    let (theirs, ours) = (without_search(theirs), without_search(ours));
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
