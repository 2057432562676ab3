//! The entries of an instance, as a dataset of the engine in a folder that goes away with it.

use crate::record::About;
use crate::{Result, told};
use std::path::Path;
use tempfile::TempDir;
use tenfill_engine::convert::{ConvertOptions, Duplicates, convert, convert_entries};
use tenfill_engine::ingest::Binning;
use tenfill_engine::shard::Split;
use tenfill_engine::synth::{TuckerSpec, TuckerSynth, entries_from_oversampling};
use tenfill_engine::{Control, Dataset};

/// A low-rank instance of the paper's section 5.
#[derive(Debug, Clone)]
pub struct Synthetic {
    /// Dimensions.
    pub dims: Vec<u32>,
    /// The rank, of the tensor and of the models.
    pub rank: Vec<usize>,
    /// Train entries as a multiple of the degrees of freedom.
    pub oversampling: f64,
    /// The condition number of a diagonal core; none for a random core.
    pub condition: Option<f64>,
    /// Noise relative to the entries.
    pub noise: f64,
}

impl Synthetic {
    /// A cube with the same rank in every mode, exact entries and a random core.
    pub fn cube(n: u32, rank: usize, oversampling: f64) -> Self {
        Synthetic { dims: vec![n; 3], rank: vec![rank; 3], oversampling, condition: None, noise: 0.0 }
    }

    /// A name that tells it from the others of its case.
    pub fn name(&self) -> String {
        let same = |numbers: &[usize]| numbers.iter().all(|n| n == &numbers[0]);
        let join =
            |numbers: &[usize], with| numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(with);
        let dims: Vec<usize> = self.dims.iter().map(|&n| n as usize).collect();
        let size = if same(&dims) { format!("{}^{}", dims[0], dims.len()) } else { join(&dims, "x") };
        let rank =
            if same(&self.rank) { self.rank[0].to_string() } else { format!("({})", join(&self.rank, " ")) };
        let mut name = format!("{size} r{rank} OS{}", self.oversampling);
        if let Some(condition) = self.condition {
            name += &format!(" CN{condition}");
        }
        if self.noise > 0.0 {
            name += &format!(" noise {:e}", self.noise);
        }
        name
    }

    /// Makes its entries.
    pub fn make(&self, case: &'static str, seed: u64, work: &Path) -> Result<Instance> {
        let entries = entries_from_oversampling(self.oversampling, &self.dims, &self.rank).map_err(told)?;
        let mut spec = TuckerSpec::new(&self.dims, &self.rank, entries);
        spec.test = (entries as f64 * 0.1).round() as u64;
        spec.condition = self.condition;
        spec.noise = self.noise;
        spec.seed = seed;
        let synth = TuckerSynth::new(spec).map_err(told)?;
        let about = About {
            case,
            instance: self.name(),
            seed,
            dims: self.dims.iter().map(|&n| n as usize).collect(),
            rank: self.rank.clone(),
            entries,
            mean_square: Some(synth.model().rms().powi(2)),
            noise: (self.noise > 0.0).then_some(self.noise),
        };
        Instance::fill(about, work, |take| {
            synth.for_each_batch(|batch| take(&batch.indices, &batch.values, &batch.splits))
        })
    }
}

/// Takes indices (one per mode and entry), values and splits.
pub type Take<'a> = dyn FnMut(&[u32], &[f64], &[Split]) -> tenfill_engine::Result<()> + 'a;

/// An instance whose entries lie on disk.
pub struct Instance {
    /// What is known of it.
    pub about: About,
    /// Its entries.
    pub dataset: Dataset,
    _folder: TempDir,
}

impl Instance {
    /// Writes the entries that `fill` hands over as a dataset within `work`.
    pub fn fill(
        about: About,
        work: &Path,
        fill: impl FnOnce(&mut Take<'_>) -> tenfill_engine::Result<()>,
    ) -> Result<Self> {
        std::fs::create_dir_all(work).map_err(|error| format!("{}: {error}", work.display()))?;
        let folder = tempfile::tempdir_in(work).map_err(told)?;
        let options = ConvertOptions {
            duplicates: Duplicates::Error,
            ..ConvertOptions::new(Vec::new(), folder.path().join("data.tenfill"))
        };
        let names: Vec<String> = (1..=about.dims.len()).map(|mode| format!("mode{mode}")).collect();
        let dims: Vec<u32> = about.dims.iter().map(|&n| n as u32).collect();
        convert_entries(&options, &names, &dims, &Control::default(), |gather| {
            fill(&mut |indices, values, splits| gather.entries(indices, values, splits.iter().copied()))
        })
        .map_err(told)?;
        let dataset = Dataset::open(&options.output).map_err(told)?;
        Ok(Instance { about, dataset, _folder: folder })
    }
}

impl Instance {
    /// Ratings of users x movies x weeks from a file, split 80/10/10 by `split`; files without a header
    /// have the columns user, movie, rating, time.
    pub fn of_ratings(file: &Path, split: u64, header: bool, work: &Path) -> Result<Self> {
        std::fs::create_dir_all(work).map_err(|error| format!("{}: {error}", work.display()))?;
        let folder = tempfile::tempdir_in(work).map_err(told)?;
        let mut options = ConvertOptions::new(vec![file.into()], folder.path().join("data.tenfill"));
        options.seed = split;
        let week = Binning::parse("7d").map_err(told)?;
        let names = if header { ["userId", "movieId", "timestamp", "rating"] } else { ["1", "2", "4", "3"] };
        let columns = &mut options.read.columns;
        columns.modes = Some(names[..3].iter().map(ToString::to_string).collect());
        columns.value = Some(names[3].into());
        columns.bins = vec![(names[2].into(), week)];
        convert(&options, &Control::default()).map_err(told)?;
        let dataset = Dataset::open(&options.output).map_err(told)?;
        let manifest = dataset.manifest();
        let dims: Vec<usize> = manifest.dims().iter().map(|&n| n as usize).collect();
        let about = About {
            case: "R2",
            instance: String::new(),
            seed: split,
            rank: vec![1; dims.len()],
            dims,
            entries: manifest.train.entries,
            mean_square: None,
            noise: None,
        };
        Ok(Instance { about, dataset, _folder: folder })
    }
}
