//! Biases alone, fitted without a tensor beside them: what a model must be better than to be worth its rows.

use super::{BiasAbout, Biases, Clip, Model, read_biases, write_biases};
use crate::error::{Error, Result};
use crate::storage::{Container, ContainerWriter, Disk, RunLayout};
use crate::transform::Transform;
use serde::{Deserialize, Serialize};
use std::path::Path;

const KIND: &str = "baseline";

/// What the file says of itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct About {
    dims: Vec<usize>,
    biases: BiasAbout,
}

/// Biases alone, and the range that they are taken into, as the model's predictions are.
#[derive(Debug, Clone, PartialEq)]
pub struct Baseline {
    /// The mean, and how far every id lies from it.
    pub biases: Biases,
    /// Where predictions are clipped.
    pub clip: Option<Clip>,
    /// Undone in what is said.
    pub transform: Option<Transform>,
}

impl Baseline {
    /// Within a range, where there is one, of values that may have been transformed.
    pub fn new(biases: Biases, range: Option<(f64, f64)>, transform: Option<Transform>) -> Self {
        Baseline { biases, clip: range.map(|range| Clip::new(range, None)), transform }
    }

    /// What is said of an entry; what is unknown of it adds nothing.
    #[inline]
    pub fn at(&self, indices: &[Option<u32>]) -> f64 {
        let value = self.biases.at(indices);
        let value = self.clip.map_or(value, |clip| clip.of(value));
        self.transform.map_or(value, |transform| transform.undo(value))
    }

    /// Keeps biases beside the model in a folder.
    pub fn write(disk: &dyn Disk, directory: &Path, biases: &Biases, dims: &[usize]) -> Result<()> {
        let mut writer = ContainerWriter::create(disk, &directory.join(RunLayout::BASELINE_FILE), false)?;
        write_biases(&mut writer, "", biases);
        writer.finish(KIND, &About { dims: dims.to_vec(), biases: BiasAbout::of(biases) })
    }

    /// The biases that are kept in a folder; none where a run has not come to its end, or is from before they were.
    pub fn read(directory: &Path) -> Result<Option<Biases>> {
        let path = directory.join(RunLayout::BASELINE_FILE);
        if path.symlink_metadata().is_err() {
            return Ok(None);
        }
        let container = Container::<About>::open(&path, KIND)?;
        let About { dims, biases } = &container.about;
        let biases = read_biases(&container, "", biases, dims)?;
        if biases.time.is_some() {
            return Err(Error::corrupt(&path, 0, "biases alone have no time bias"));
        }
        Ok(Some(biases))
    }

    /// What a model is beside, where its run has it.
    pub fn of(model: &Model) -> Result<Option<Self>> {
        let Some(biases) = Self::read(model.directory())? else { return Ok(None) };
        if biases.modes.len() != model.about.modes.len() {
            let path = model.directory().join(RunLayout::BASELINE_FILE);
            return Err(Error::corrupt(&path, 0, "the biases have other modes than the model"));
        }
        Ok(Some(Baseline::new(biases, model.about.range, model.about.transform())))
    }
}
