//! Everything that determines the result of a run.

use crate::bayes::Sizes;
use crate::error::{Error, IoContext, Result};
use crate::kernel::Precision;
use crate::objective::Needs;
use crate::recipe::{AUTO_RANK, BiasChoice, LEAST_GROWN_RANK, MOST_AUTO_RANK, MOST_GROWN_RANK, Recipe};
use crate::shard::{Dataset, Manifest, Split};
use crate::solver::{Algorithm, Beta, Options, StepRule};
use crate::storage::{Disk, RunLayout, check_folders, no_run, read_regular, write_atomic};
use crate::stream::LANES;
use crate::team::Team;
use crate::units;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Where a run starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Init {
    /// A random point of the paper's generator, its core scaled by least squares to the data.
    Scaled,
    /// The paper's generator as it is: factors and core from U\[0, 1\].
    Uniform,
    /// The same with normal numbers.
    Gaussian,
    /// One component after another, each from the spectrum of what is left over.
    Spectral,
    /// The model of another run.
    Run(PathBuf),
}

/// The metric of the search space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GeometryKind {
    /// The paper's, its eigenvalues raised while the fit is bad; as it is where there is a penalty.
    #[default]
    Damped,
    /// The paper's: scaled by G_d G_d^T.
    Preconditioned,
    /// The natural metrics of the factors and the core (case S1).
    Euclidean,
    /// The inner product of the tensors themselves, with geomCG's transport and retraction.
    Embedded,
}

/// What is written to `config.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The version of this file.
    pub format_version: u32,
    /// The dataset; relative to the run where it lies inside.
    pub dataset: PathBuf,
    /// Identifies the dataset's content.
    pub dataset_fingerprint: String,
    /// Datasets of entries that were folded in, within the run; the first indices of every mode are
    /// those of the dataset.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<PathBuf>,
    /// One rank per mode.
    pub rank: Vec<usize>,
    /// Seeds the start.
    pub seed: u64,
    /// Where to start.
    pub init: Init,
    /// The metric.
    pub geometry: GeometryKind,
    /// In what gradients are summed up. Runs of before there was a choice did so in double precision.
    #[serde(default = "double")]
    pub precision: Precision,
    /// Biases and penalty, or sweeps; the paper's method in files from before there was a choice.
    #[serde(default)]
    pub recipe: Recipe,
    /// Whether `rank` is only a bound that was found from counts.
    #[serde(default)]
    pub rank_auto: bool,
    /// The highest ranks of components of all modes that are looked for before sweeps where rows by themselves explain hardly
    /// anything; empty where none are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grown: Vec<usize>,
    /// The components that sweeps begin with where memory has no room for as many as usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub components: Option<usize>,
    /// Whether memory has no room for components of further pairs of modes and of all modes, so that none are tried.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pair_alone: bool,
    /// In how many lanes sums are taken: another number gives other roundings.
    #[serde(default = "usual_lanes")]
    pub lanes: usize,
    /// Stop when the train MSE is at most this share of the variance of the train values; 0 switches it
    /// off, as in files from before there was such a rule.
    #[serde(default)]
    pub relative_tolerance: f64,
    /// The solver's options. Its tolerance is an MSE, in the square of the values' unit.
    pub solver: Options,
}

/// The relative tolerance where nobody asks for another one.
pub const RELATIVE_TOLERANCE: f64 = 1e-12;

fn usual_lanes() -> usize {
    LANES
}

fn double() -> Precision {
    Precision::F64
}

const VERSION: u32 = 1;
/// What the file says it is. Those of before this was said have all the fields of a configuration.
const KIND: &str = "tenfill run";

/// The file: what it is, and the configuration.
#[derive(Serialize)]
struct Marked<'c> {
    kind: &'static str,
    #[serde(flatten)]
    config: &'c Config,
}

impl Config {
    /// The configuration of a new run on a dataset.
    pub fn new(dataset: &Dataset, rank: Vec<usize>) -> Self {
        Self::of(dataset.manifest(), dataset.directory(), rank)
    }

    /// The same for a dataset that is known by its manifest.
    pub fn of(manifest: &Manifest, directory: &Path, rank: Vec<usize>) -> Self {
        Config {
            format_version: VERSION,
            dataset: directory.into(),
            dataset_fingerprint: fingerprint(manifest),
            added: Vec::new(),
            rank,
            seed: 1,
            init: Init::Scaled,
            geometry: GeometryKind::default(),
            precision: Precision::default(),
            recipe: Recipe::usual(manifest),
            rank_auto: false,
            grown: Vec::new(),
            components: None,
            pair_alone: false,
            lanes: manifest.part.as_ref().map_or(LANES, |part| part.lanes),
            relative_tolerance: RELATIVE_TOLERANCE,
            solver: Options { algorithm: Algorithm::Auto, tolerance: 0.0, ..Options::default() },
        }
    }

    /// Sets the tolerances: one that is given alone takes the place of the other.
    pub fn set_tolerances(&mut self, absolute: Option<f64>, relative: Option<f64>) {
        if absolute.is_some() || relative.is_some() {
            self.solver.tolerance = absolute.unwrap_or(0.0);
            self.relative_tolerance = relative.unwrap_or(0.0);
        }
    }

    /// The solver's options for a dataset: the tolerance is the larger one of the two.
    pub(super) fn options(&self, manifest: &Manifest) -> Options {
        let relative = self.relative_tolerance * manifest.spread_square();
        Options { tolerance: self.solver.tolerance.max(relative), ..self.solver }
    }

    /// Sets the method geomCG of Kressner, Steinlechner and Vandereycken (2014): no recipe, the embedded
    /// geometry, Polak and Ribiere's beta, and their restart rule.
    pub fn use_geomcg(&mut self) {
        self.recipe = Recipe { range: self.recipe.range, ..Recipe::plain() };
        self.geometry = GeometryKind::Embedded;
        self.solver.algorithm = Algorithm::GeomCg;
        self.solver.beta = Beta::PolakRibiere;
        self.solver.step = StepRule::Linearised;
    }

    /// Sets the mean of the train values for a model, where they do not vary: nothing is there for sweeps.
    pub(super) fn use_mean(&mut self) {
        self.recipe = Recipe { bias: BiasChoice::Mean, range: self.recipe.range, ..Recipe::plain() };
        if std::mem::take(&mut self.rank_auto) {
            self.rank.fill(1);
        }
    }

    /// What gives a checkpoint's numbers their meaning: everything here but the place of the
    /// dataset and the limits, which may change between one start and the next.
    pub fn meaning(&self) -> Value {
        let mut meaning = serde_json::to_value(self).unwrap_or_default();
        if let Some(fields) = meaning.as_object_mut() {
            fields.remove("dataset");
            fields.remove("relative_tolerance");
            // As in files from before there was a choice.
            if self.recipe == Recipe::plain() {
                fields.remove("recipe");
            }
            if !self.rank_auto {
                fields.remove("rank_auto");
            }
            if self.lanes == LANES {
                fields.remove("lanes");
            }
        }
        if let Some(solver) = meaning["solver"].as_object_mut() {
            for limit in ["tolerance", "gradient_tolerance", "max_iterations", "patience"] {
                solver.remove(limit);
            }
        }
        meaning
    }

    /// Whether there are sweeps over rows and nothing before them: with a rank that is given, the plain method is
    /// tried first where values may be low-rank, or a start of its own was asked for.
    pub fn sweeps_alone(&self) -> bool {
        let straight = self.recipe.straight && self.init == Init::Scaled;
        self.recipe.sweeps && (self.rank_auto || straight)
    }

    /// The most components of the first pair that sweeps may come to.
    pub fn sweep_rank(&self) -> usize {
        let most = self.rank.iter().copied().max().unwrap_or(1);
        match (self.rank_auto, self.components) {
            (true, Some(components)) => components,
            // Sweeps begin with as many as usual, however few entries a row has.
            (true, None) => most.clamp(AUTO_RANK, MOST_AUTO_RANK),
            (false, _) => most,
        }
    }

    /// The components that they begin with: a rank that is given is the most that may be reached, too.
    pub fn sweep_start(&self) -> usize {
        self.sweep_rank().min(AUTO_RANK)
    }

    /// Lowers the bound of ranks that are left to the data, where so many components would take more than half of this
    /// memory in one pass per sweep; not below what sweeps begin with.
    pub(super) fn fit_rank(&mut self, manifest: &Manifest, memory: u64) {
        let dims: Vec<u64> = manifest.level_dims().iter().map(|&dim| dim.into()).collect();
        let dear = |config: &Self| {
            let (entries, rank) = (manifest.train.entries, config.sweep_rank());
            let sizes =
                Sizes { dims: &dims, entries, beside: manifest.validation.entries, rank, grows: true };
            // The number of threads is none of what results may depend on.
            let [state, sums, _] = sizes.bytes(sizes.rooms(config.lanes, false)[0]);
            state + sums > memory / 2
        };
        while self.rank_auto && self.recipe.sweeps && self.sweep_rank() > AUTO_RANK && dear(self) {
            let lower = (self.sweep_rank() / 2).max(AUTO_RANK);
            self.rank.iter_mut().for_each(|rank| *rank = lower.min(*rank));
        }
    }

    /// Lets low-rank data be looked for before sweeps, where nothing else comes before them and half of the memory has room for it: up
    /// to the rank that is given, or to one that is as high as half of the memory allows. Of two modes, sweeps find the same.
    /// Returns the memory that would do for the highest rank, where there is less.
    pub(super) fn fit_growth(&mut self, manifest: &Manifest, memory: u64) -> Option<u64> {
        let usual = self.init == Init::Scaled && self.solver.algorithm == Algorithm::Auto;
        if !(self.sweeps_alone() && usual && manifest.modes.len() > 2) {
            return None;
        }
        // As in `fit_rank`, by what is the same on all machines.
        let needed = |ranks: &Vec<usize>| {
            let needs = Needs::of_several(manifest, ranks, self.precision, None, 0, self.lanes, 1);
            let needs = needs.with_chunks().with_coordinates(manifest);
            2 * needs.with_growth(manifest, ranks, self.lanes).total(1)
        };
        let up_to = |most: usize| -> Vec<usize> {
            let bound = |rank: &usize| if self.rank_auto { most } else { most.min(*rank) };
            largest_rank(&self.rank.iter().map(bound).collect::<Vec<_>>(), manifest)
        };
        let highest = up_to(MOST_GROWN_RANK);
        let whole = needed(&highest);
        let mut all = (LEAST_GROWN_RANK..=MOST_GROWN_RANK).rev().map(up_to);
        self.grown = all.find(|ranks| needed(ranks) <= memory).unwrap_or_default();
        (self.grown != highest).then_some(whole)
    }

    /// What of the method does not go together.
    pub fn check_method(&self) -> Result<()> {
        if self.solver.algorithm == Algorithm::Stochastic && !self.recipe.is_plain() {
            let what = "`algorithm` sgd is for the plain method: give `bias` none and `penalty` 0";
            return Err(Error::request(what));
        }
        if self.solver.step == StepRule::Exact && self.solver.algorithm == Algorithm::Auto {
            let what =
                "`algorithm` auto takes steps of its own: leave out `step` exact, or give `algorithm` cg";
            return Err(Error::request(what));
        }
        if self.solver.step == StepRule::Exact && !self.recipe.is_plain() {
            let what = "`step` exact follows a polynomial, which a penalty is not: give `bias` none and `penalty` 0, or \
                        leave out `step`";
            return Err(Error::request(what));
        }
        Ok(())
    }

    /// There must be a lane for every process.
    pub(super) fn check_lanes(&self, team: Team) -> Result<()> {
        let (lanes, processes) = (self.lanes, team.size());
        if lanes < processes {
            let what = format!(
                "{lanes} lanes are too few for {processes} processes: start fewer, or a new run with `lanes` \
                 {processes} (a dataset in parts is cut by its lanes: distribute it with `lanes`)"
            );
            return Err(Error::request(what));
        }
        Ok(())
    }

    /// Writes `config.json`.
    pub fn write(&self, disk: &dyn Disk, run: &Path) -> Result<()> {
        let path = RunLayout::of(run).config();
        let marked = Marked { kind: KIND, config: self };
        let text =
            serde_json::to_string_pretty(&marked).map_err(std::io::Error::other).context("write", &path)?;
        write_atomic(disk, &path, (text + "\n").as_bytes())
    }

    /// Reads the configuration of a run, which only the first of several processes needs to see.
    pub fn read_for(run: &Path, team: Team) -> Result<Self> {
        if team.is_alone() {
            return Self::read(run);
        }
        let path = RunLayout::of(run).config();
        let text = team.told_by_first(|| {
            let config = Self::read(run)?;
            serde_json::to_string(&config).map_err(std::io::Error::other).context("read", &path)
        })?;
        serde_json::from_str(&text).map_err(std::io::Error::other).context("read", &path)
    }

    /// Reads the configuration of a run.
    pub fn read(run: &Path) -> Result<Self> {
        let path = RunLayout::of(run).config();
        if path.symlink_metadata().is_err() {
            return Err(Error::input(run, no_run(run, RunLayout::CONFIG)));
        }
        check_folders(run, &["checkpoints", "model", "model/modes"])?;
        let text = read_regular(&path)?;
        let wrong = |error: serde_json::Error| {
            Error::input(&path, format!("the configuration cannot be understood: {error}"))
        };
        let version: Value = serde_json::from_slice(&text).map_err(wrong)?;
        if let Some(found) = version["format_version"].as_u64().filter(|&found| found > u64::from(VERSION)) {
            return Err(Error::Newer { file: path, found, known: VERSION.into() });
        }
        if version.get("kind").is_some_and(|kind| kind != KIND) {
            return Err(Error::input(&path, "this is no configuration of a run of tenfill"));
        }
        let config: Self = serde_json::from_value(version).map_err(wrong)?;
        // Where the numbers make no sense, no start and no checkpoint can be made sense of.
        let range = config.recipe.range.is_none_or(|(least, most)| least <= most);
        if !range || config.lanes == 0 {
            return Err(Error::input(
                &path,
                "the configuration was changed and makes no sense: bring it back",
            ));
        }
        Ok(config)
    }

    /// Opens the dataset of a run and those that were folded in.
    pub fn open_datasets(&self, run: &Path) -> Result<Vec<Dataset>> {
        let mut datasets = vec![self.open_dataset(run)?];
        for added in &self.added {
            datasets.push(Dataset::open(run.join(added))?);
        }
        Ok(datasets)
    }

    /// Opens the dataset of a run, and makes sure that it is still the one the run began with.
    pub fn open_dataset(&self, run: &Path) -> Result<Dataset> {
        let directory = run.join(&self.dataset);
        if !directory.exists() {
            let what = "the dataset of this run is not here any more: bring it back, or put its new place \
                        into config.json";
            return Err(Error::input(directory, what));
        }
        let dataset = Dataset::open(directory)?;
        if fingerprint(dataset.manifest()) != self.dataset_fingerprint {
            let what = format!(
                "the dataset is not the one that this run began with: other rows are in it now, or other splits; \
                 `tenfill complete {} -o NEW --init {}` begins a new run with this model, which still predicts",
                dataset.directory().display(),
                run.display()
            );
            return Err(Error::input(dataset.directory(), what));
        }
        // A run's own ranks are whole: one for every mode.
        let asked = check_rank(&self.rank, dataset.manifest());
        let fits = match &asked {
            Ok(rank) if *rank == self.rank => return Ok(dataset),
            Ok(_) => {
                format!("rank {} for {} modes", units::ranks(&self.rank), dataset.manifest().modes.len())
            }
            Err(error) => error.to_string(),
        };
        let what = format!("the configuration was changed and cannot be used ({fits}): bring it back");
        Err(Error::input(RunLayout::of(run).config(), what))
    }
}

/// Identifies the entries and labels of a dataset, by the checksums that its manifest holds: a
/// shard's covers all its blocks' checksums. What else the manifest says follows from these, and
/// may be said otherwise by another version of this program.
fn fingerprint(manifest: &Manifest) -> String {
    let mut text = format!("{:?}", manifest.mode_order);
    for mode in &manifest.modes {
        text += &format!("|{} {} {:?}", mode.name, mode.dim, mode.kind);
    }
    for split in Split::ALL {
        text += &format!("|{}", split.name());
        for shard in &manifest.split(split).shards {
            text += &format!(" {} {} {:08x}", shard.entries, shard.bytes, shard.table_crc32c);
        }
    }
    format!("{:032x}", xxhash_rust::xxh3::xxh3_128(text.as_bytes()))
}

/// One rank per mode, and possible: not above the mode's dimension nor the product of the others.
pub fn check_rank(rank: &[usize], manifest: &Manifest) -> Result<Vec<usize>> {
    let dims = manifest.dims();
    let rank: Vec<usize> = match rank {
        [one] => vec![*one; dims.len()],
        many if many.len() == dims.len() => many.to_vec(),
        many => {
            let names: Vec<&str> = manifest.modes.iter().map(|mode| mode.name.as_str()).collect();
            let what =
                format!("`rank` gives {} ranks for {} modes ({})", many.len(), dims.len(), names.join(", "));
            return Err(Error::request(what));
        }
    };
    if let Some(mode) = rank.iter().position(|&r| r == 0) {
        let name = &manifest.modes[mode].name;
        return Err(Error::request(format!("the rank of {name} is 0: the least is 1")));
    }
    for (mode, &r) in rank.iter().enumerate() {
        let name = &manifest.modes[mode].name;
        let others = rank.iter().enumerate().filter(|(other, _)| *other != mode);
        let product = others.fold(1usize, |product, (_, &r)| product.saturating_mul(r));
        let largest = product.min(dims[mode] as usize);
        // Before a file is converted nobody knows its dimensions.
        if r > dims[mode] as usize && dims[mode] == u32::MAX {
            let what = format!(
                "rank {r} of {name} is above any dimension: give a lower one, of 4 to 50 mostly, or auto"
            );
            return Err(Error::request(what));
        }
        if r > dims[mode] as usize {
            let what = format!(
                "rank {r} of {name} is above its dimension {}: the largest that works is {largest}",
                dims[mode]
            );
            return Err(Error::request(what));
        }
        if r > product {
            let what = format!(
                "rank {r} of {name} is above the product of the other ranks: the largest that works is {largest}"
            );
            return Err(Error::request(what));
        }
    }
    if rank.iter().try_fold(1usize, |product, &r| product.checked_mul(r)).is_none_or(|size| size > 1 << 30) {
        return Err(Error::request("the core of these ranks has more than 2^30 numbers"));
    }
    Ok(rank)
}

/// The largest ranks up to those that were asked for that [`check_rank`] takes.
pub fn largest_rank(asked: &[usize], manifest: &Manifest) -> Vec<usize> {
    let dims = manifest.dims();
    let of = |mode: usize| asked.get(mode).or(asked.last()).map_or(1, |&rank| rank.max(1));
    let mut rank: Vec<usize> =
        dims.iter().enumerate().map(|(mode, &dim)| of(mode).min(dim as usize)).collect();
    // A rank is at most the product of the others; each that shrinks may be too much for another one.
    let product = |rank: &[usize], mode: usize| {
        let others = rank.iter().enumerate().filter(|(other, _)| *other != mode);
        others.fold(1usize, |product, (_, &r)| product.saturating_mul(r))
    };
    while let Some(mode) = (0..rank.len()).find(|&mode| rank[mode] > product(&rank, mode)) {
        rank[mode] = product(&rank, mode);
    }
    rank
}
