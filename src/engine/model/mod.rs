//! A completed tensor: the factors, the core, and what their indices stand for.

mod baseline;
mod bias;
mod ends;
mod extend;
mod lookup;
mod onto;
mod place;
mod predict;
mod predictive;
mod resolve;
mod spread;
mod uncertainty;

pub use baseline::Baseline;
pub(crate) use bias::{BiasAbout, read_biases, write_biases};
pub use bias::{Biases, PairBias, TimeBias};
pub use ends::{Clip, Ends};
pub use extend::sort_ids;
pub use lookup::ModeLookup;
pub use onto::Matched;
pub use place::{Contracted, Place, Places};
pub use predict::Prediction;
pub(crate) use predict::value_of;
pub use predictive::{Predictive, Tails};
pub use resolve::{Found, ModeIds};
pub use spread::{Spreads, Variance};
pub use uncertainty::{ModeUncertainty, RowFeatures, Uncertainty};
pub(crate) use uncertainty::{UncertaintyAbout, read_uncertainty, write_uncertainty};

use crate::error::{Error, Result};
use crate::manifold::{Core, Point};
use crate::rows::Rows;
use crate::shard::{Dataset, Labels, Mode, ModeKind, nearest, read_labels};
use crate::storage::{
    Container, ContainerWriter, Disk, RunLayout, make_dir, no_run, read_regular, write_atomic,
};
use crate::transform::{Transform, Transformed};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What a model file says of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelAbout {
    /// The modes, in the user's order; label files lie beside the model.
    pub modes: Vec<Mode>,
    /// The name of the value.
    pub value: String,
    /// The column of weights that it was fitted with, and that its errors are weighted by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<String>,
    /// What its values are of those that it was fitted to; what it says is in their own units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transform: Option<Transformed>,
    /// What stood for a missing value in its data, beside what does so everywhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// The ranks.
    pub rank: Vec<usize>,
    /// How many numbers of the core are in the file, where that is not all of them but those that are not zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_numbers: Option<usize>,
    /// The iteration that found it.
    pub iteration: usize,
    /// Its error on the train entries.
    pub train_mse: f64,
    /// Its error on the validation entries; of the model before the last sweep, where that was to these as well.
    pub validation_mse: Option<f64>,
    /// Whether it was. Not in files from before there was such a sweep.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refit: bool,
    /// Per mode, how many indices had no train entry: their rows mean nothing.
    unseen: Vec<usize>,
    /// The mean of the train values, as they are kept: what is said of an entry about which nothing is known.
    #[serde(default)]
    pub mean: Option<f64>,
    /// Predictions are kept within this range, where values are ratings.
    #[serde(default)]
    pub range: Option<(f64, f64)>,
    /// Where values at the ends of the range say only that much: a prediction is the mean of what the
    /// range leaves then. None, as in every file from before there were such models, is a plain clip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<Ends>,
    /// Per mode, whether its factor is held at the constant vector, because freeing it did not
    /// help: all its ids are alike to the tensor. Empty for none.
    #[serde(default)]
    pub held: Vec<bool>,
    #[serde(default)]
    biases: Option<BiasAbout>,
    /// How sure it is, where it knows; not in files from before there were such models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uncertainty: Option<UncertaintyAbout>,
}

impl ModelAbout {
    /// What values were transformed by.
    pub fn transform(&self) -> Option<Transform> {
        self.transform.map(|transform| transform.by)
    }

    /// The mean of the train values, in their own units.
    pub fn told_mean(&self) -> Option<f64> {
        self.transform.map(|transform| transform.mean).or(self.mean)
    }

    /// Whether its modes are those of a dataset; an error that tells both. `run` is where it is from.
    pub fn check_modes(&self, run: &Path, modes: &[Mode]) -> Result<()> {
        let names =
            |modes: &[Mode]| modes.iter().map(|mode| mode.name.clone()).collect::<Vec<_>>().join(", ");
        let (own, theirs) = (names(&self.modes), names(modes));
        if own == theirs {
            return Ok(());
        }
        Err(Error::input(run, format!("its model has the modes {own}, and the dataset {theirs}")))
    }

    /// Whether the model knows how sure it is.
    pub fn has_uncertainty(&self) -> bool {
        self.uncertainty.is_some()
    }
}

/// What a run has found, on its way into a model file.
#[derive(Debug, Clone, Copy)]
pub struct ModelParts<'a> {
    /// The tensor.
    pub point: &'a Point,
    /// The biases that go with it.
    pub biases: Option<&'a Biases>,
    /// How sure it is, where that is known.
    pub uncertainty: Option<&'a Uncertainty>,
    /// Where predictions are clipped.
    pub range: Option<(f64, f64)>,
    /// What values at its ends say, where that is not the values themselves.
    pub ends: Option<Ends>,
    /// Per mode, whether it is held constant; empty for none.
    pub held: &'a [bool],
    /// Per mode, the indices without train entries, ascending.
    pub unseen: &'a [Vec<u32>],
    /// The iteration that found it.
    pub iteration: usize,
    /// Its error on the train entries.
    pub train_mse: f64,
    /// Its error on the validation entries, or that of the model before the last sweep.
    pub validation_mse: Option<f64>,
    /// Whether the last sweep was to these as well.
    pub refit: bool,
}

/// A model that has been read, with the folder that holds its labels.
#[derive(Debug, Clone)]
pub struct Model {
    /// What it says of itself.
    pub about: ModelAbout,
    /// The tensor: X = G x_1 U_1 ... x_D U_D.
    pub point: Point,
    /// What is added to the tensor.
    pub biases: Option<Biases>,
    /// Per mode, the indices without train entries, ascending.
    pub unseen: Vec<Vec<u32>>,
    /// How sure it is of its rows: where it knows, and was read [with it](Model::read_with_uncertainty).
    pub uncertainty: Option<Uncertainty>,
    directory: PathBuf,
}

/// The file within the folder of a run's model.
pub(crate) const FILE: &str = RunLayout::MODEL_FILE;
const KIND: &str = "model";

/// A damaged model is written anew where there is a checkpoint.
fn with_way_out(run: &Path, error: Error) -> Error {
    let checkpoints = RunLayout::of(run).checkpoints().read_dir();
    match error {
        Error::Corrupt { file, offset, what } if checkpoints.into_iter().flatten().next().is_some() => {
            let what = format!("{what}; `tenfill resume {}` writes it anew from a checkpoint", run.display());
            Error::Corrupt { file, offset, what }
        }
        other => other,
    }
}

impl Model {
    /// Copies the labels of a dataset beside the models to come, so that a model needs no dataset.
    pub fn write_labels(disk: &dyn Disk, dataset: &Dataset, directory: &Path) -> Result<()> {
        for mode in &dataset.manifest().modes {
            if let ModeKind::Integers { labels } | ModeKind::Text { labels } = &mode.kind {
                let (from, to) =
                    (dataset.labels_directory().join(&labels.file), directory.join(&labels.file));
                let folder = to.parent().unwrap_or(directory);
                make_dir(disk, folder)?;
                write_atomic(disk, &to, &read_regular(&from)?)?;
            }
        }
        Ok(())
    }

    /// Writes a model, replacing the one that is there. Of several processes the first writes, the
    /// others hand it their rows: all must call it, those others with a disk that keeps nothing.
    pub fn write(disk: &dyn Disk, directory: &Path, dataset: &Dataset, fit: &ModelParts<'_>) -> Result<()> {
        let manifest = dataset.manifest();
        let about = ModelAbout {
            modes: manifest.modes.clone(),
            value: manifest.value.clone(),
            weights: manifest.weights.as_ref().and_then(|weights| weights.given().cloned()),
            transform: manifest.transform,
            missing: manifest.missing.clone(),
            rank: fit.point.ranks().to_vec(),
            core_numbers: sparse_numbers(&fit.point.core),
            iteration: fit.iteration,
            train_mse: fit.train_mse,
            validation_mse: fit.validation_mse,
            refit: fit.refit,
            unseen: fit.unseen.iter().map(Vec::len).collect(),
            mean: Some(manifest.mean()),
            range: fit.range,
            ends: fit.ends,
            held: fit.held.to_vec(),
            biases: fit.biases.map(BiasAbout::of),
            uncertainty: fit.uncertainty.map(UncertaintyAbout::of),
        };
        let team = fit.point.team();
        let is_new = about.core_numbers.is_some();
        let mut writer = team.agree(ContainerWriter::create(disk, &directory.join(FILE), is_new))?;
        write_arrays(&mut writer, "", &fit.point.factors, &fit.point.core);
        for (mode, indices) in fit.unseen.iter().enumerate() {
            let numbers: Vec<f64> = indices.iter().map(|&index| f64::from(index)).collect();
            writer.array(format!("unseen.{mode}"), &numbers);
        }
        if let Some(biases) = fit.biases {
            write_biases(&mut writer, "", biases);
        }
        if let Some(uncertainty) = fit.uncertainty {
            write_uncertainty(&mut writer, "", uncertainty);
        }
        team.agree(writer.finish(KIND, &about))
    }

    /// Reads the model of a run, without what only questions of how sure it is are about.
    pub fn read(run: &Path) -> Result<Self> {
        Self::read_parts(run, false).map_err(|error| with_way_out(run, error))
    }

    /// Reads the model of a run, and how sure it is, where it knows.
    pub fn read_with_uncertainty(run: &Path) -> Result<Self> {
        Self::read_parts(run, true).map_err(|error| with_way_out(run, error))
    }

    /// What the model of a run says of itself, without its numbers.
    pub fn about(run: &Path) -> Result<ModelAbout> {
        Ok(Container::<ModelAbout>::open(&Self::file(run)?, KIND)?.about)
    }

    /// The file of a run's model; an error that says why there is none.
    fn file(run: &Path) -> Result<PathBuf> {
        let layout = RunLayout::of(run);
        let path = layout.model_file();
        if path.symlink_metadata().is_err() {
            return Err(match layout.config().is_file() {
                true => Error::input(run, "the run has no model yet: let it reach its first checkpoint"),
                false => Error::input(run, no_run(run, "model")),
            });
        }
        Ok(path)
    }

    fn read_parts(run: &Path, with_uncertainty: bool) -> Result<Self> {
        let (directory, path) = (RunLayout::of(run).model(), Self::file(run)?);
        let container = Container::<ModelAbout>::open(&path, KIND)?;
        let dims: Vec<usize> = container.about.modes.iter().map(|mode| mode.dim as usize).collect();
        if container.about.unseen.len() != dims.len() {
            return Err(Error::corrupt(&path, 0, "the model's modes and unseen indices do not go together"));
        }
        let (factors, core) =
            read_arrays(&container, "", &dims, &container.about.rank, container.about.core_numbers)?;
        let mut unseen = Vec::new();
        for (mode, &count) in container.about.unseen.iter().enumerate() {
            let numbers = container.array(&format!("unseen.{mode}"), count)?;
            unseen.push(numbers.into_iter().map(|number| number as u32).collect());
        }
        let about = &container.about;
        let biases = about.biases.as_ref().map(|biases| read_biases(&container, "", biases, &dims));
        let biases = biases.transpose()?;
        let uncertainty = about.uncertainty.as_ref().filter(|_| with_uncertainty);
        let uncertainty =
            uncertainty.map(|about| read_uncertainty(&container, "", about, &dims)).transpose()?;
        let widths = uncertainty.iter().flat_map(|uncertainty| &uncertainty.modes).map(|mode| mode.width);
        // Beside its components and its bias, a row may have a number that is 1.
        if biases.is_none() && uncertainty.is_some()
            || widths.zip(&about.rank).any(|(width, rank)| ![*rank, rank + 1].contains(&width))
        {
            return Err(Error::corrupt(&path, 0, "the model's variances do not go with its factors"));
        }
        let ordered = about.range.is_none_or(|(least, most)| least <= most);
        let sensible = about.ends.is_none_or(|ends| ends.fit(about.range));
        if !ordered || !sensible || !(about.held.is_empty() || about.held.len() == dims.len()) {
            return Err(Error::corrupt(&path, 0, "the model's range or its held modes make no sense"));
        }
        let point = Point { factors, core };
        Ok(Model { about: container.about, point, biases, unseen, uncertainty, directory })
    }

    /// The run that it was read from.
    pub fn run(&self) -> &Path {
        self.directory.parent().unwrap_or(Path::new(""))
    }

    /// The names of the label files beside the model in `file`, within its folder.
    pub(crate) fn label_files(file: &Path) -> Result<Vec<String>> {
        let about = Container::<ModelAbout>::open(file, KIND)?.about;
        let named = about.modes.into_iter().filter_map(|mode| match mode.kind {
            ModeKind::Integers { labels } | ModeKind::Text { labels } => Some(labels.file),
            ModeKind::Range { .. } | ModeKind::Bins(_) => None,
        });
        Ok(named.collect())
    }

    /// The folder that holds it and its labels.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The labels of a mode; `None` where they follow from the index.
    pub fn labels(&self, mode: usize) -> Result<Option<Labels>> {
        let mode = &self.about.modes[mode];
        match &mode.kind {
            ModeKind::Integers { labels } | ModeKind::Text { labels } => {
                read_labels(&self.directory, labels, mode.dim).map(Some)
            }
            ModeKind::Range { .. } | ModeKind::Bins(_) => Ok(None),
        }
    }

    /// The ways from ids to indices, one per mode; ids without train entries are not found.
    pub fn lookups(&self) -> Result<Vec<ModeLookup>> {
        (0..self.about.modes.len())
            .map(|mode| {
                Ok(ModeLookup::new(
                    &self.about.modes[mode].kind,
                    self.about.modes[mode].dim,
                    self.labels(mode)?,
                ))
            })
            .collect()
    }

    /// What stands in for a bin without train entries: the nearest that had some.
    pub(crate) fn stand_in(&self, mode: usize, index: u32) -> Option<u32> {
        let (about, unseen) = (&self.about.modes[mode], &self.unseen[mode]);
        if !matches!(about.kind, ModeKind::Bins(_)) {
            return None;
        }
        let at = unseen.binary_search(&index).ok()?;
        // Of indices that follow one another, how many come before less their place is one number, which ascends.
        let run = |place: usize| unseen[place] as usize - place;
        let first_with = |wanted: &dyn Fn(usize) -> bool| {
            let (mut low, mut high) = (0, unseen.len());
            while low < high {
                let middle = low.midpoint(high);
                (low, high) = if wanted(middle) { (low, middle) } else { (middle + 1, high) };
            }
            low
        };
        let first = first_with(&|place| run(place) >= run(at));
        let behind = first_with(&|place| run(place) > run(at));
        let near = nearest(index, [unseen[first], unseen[behind - 1]], about.dim);
        Some(near).filter(|&near| near != index)
    }

    /// Whether an index of a mode had train entries.
    pub fn knows(&self, mode: usize, index: u32) -> bool {
        self.unseen[mode].binary_search(&index).is_err()
    }
}

/// How many numbers a core has in a file, where it is sparse.
pub(crate) fn sparse_numbers(core: &Core) -> Option<usize> {
    core.places().map(|_| core.numbers().len())
}

/// Writes factors and core as arrays `PREFIXfactor.0`, ..., `PREFIXcore`, and `PREFIXcore.places` where it is sparse.
pub(crate) fn write_arrays(writer: &mut ContainerWriter<'_>, prefix: &str, factors: &[Rows], core: &Core) {
    for (mode, rows) in factors.iter().enumerate() {
        let mut array = writer.begin(format!("{prefix}factor.{mode}"));
        rows.hand_to_first(|numbers| array.append(numbers));
        array.end();
    }
    writer.array(format!("{prefix}core"), core.numbers());
    if let Some(places) = core.places() {
        let places: Vec<f64> = places.iter().map(|&index| f64::from(index)).collect();
        writer.array(format!("{prefix}core.places"), &places);
    }
}

/// Where arrays come from: a file, or a process that has it.
pub(crate) trait Arrays {
    /// The file.
    fn path(&self) -> &Path;
    /// An array of a known length.
    fn array(&self, name: &str, length: usize) -> Result<Vec<f64>>;
    /// A factor, of several processes the rows of this one.
    fn rows(&self, name: &str, rows: usize, rank: usize) -> Result<Rows>;
}

impl<T: serde::de::DeserializeOwned> Arrays for Container<T> {
    fn path(&self) -> &Path {
        Container::path(self)
    }
    fn array(&self, name: &str, length: usize) -> Result<Vec<f64>> {
        Container::array(self, name, length)
    }
    fn rows(&self, name: &str, rows: usize, rank: usize) -> Result<Rows> {
        Ok(Rows::from_vec(rows, rank, Container::array(self, name, rows * rank)?))
    }
}

/// Reads what [`write_arrays`] wrote; `sparse` is how many numbers the core has where it is sparse.
pub(crate) fn read_arrays(
    arrays: &impl Arrays,
    prefix: &str,
    dims: &[usize],
    ranks: &[usize],
    sparse: Option<usize>,
) -> Result<(Vec<Rows>, Core)> {
    let size = sparse.or_else(|| ranks.iter().try_fold(1usize, |size, &rank| size.checked_mul(rank)));
    let fits = dims.len() == ranks.len() && dims.iter().chain(ranks).all(|&n| n > 0);
    let Some(size) =
        size.filter(|_| fits && dims.iter().zip(ranks).all(|(n, r)| n.checked_mul(*r).is_some()))
    else {
        let what = format!("the dimensions {dims:?} and ranks {ranks:?} do not go together");
        return Err(Error::corrupt(arrays.path(), 0, what));
    };
    let mut factors = Vec::new();
    for (mode, (&dim, &rank)) in dims.iter().zip(ranks).enumerate() {
        factors.push(arrays.rows(&format!("{prefix}factor.{mode}"), dim, rank)?);
    }
    let core = arrays.array(&format!("{prefix}core"), size)?;
    if sparse.is_none() {
        return Ok((factors, Core::from_vec(ranks, core)));
    }
    let places = arrays.array(&format!("{prefix}core.places"), size.saturating_mul(ranks.len()))?;
    let places: Vec<u32> = places.into_iter().map(|index| index as u32).collect();
    if !Core::fits(ranks, &places, &core) {
        return Err(Error::corrupt(arrays.path(), 0, "numbers of the core lie outside of it"));
    }
    Ok((factors, Core::sparse(ranks, places, core)))
}
