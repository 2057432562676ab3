//! A completed tensor, asked by the user's own ids.

use crate::Result;
use std::path::Path;
use tenfill_engine::answer::{Observed, Ranking, SeenEntries, observed_with};
use tenfill_engine::error::Error;
use tenfill_engine::model::{self, ModeIds, Place, Places, Spreads};
use tenfill_engine::run::Config;
use tenfill_engine::shard::Split;

pub use tenfill_engine::model::Prediction;

/// An id that is recommended, and the value that the model expects there.
#[derive(Debug, Clone, PartialEq)]
pub struct Recommendation {
    /// The id, as it stood in the file.
    pub id: String,
    /// What the model says of it.
    pub prediction: Prediction,
}

/// A model with the ids that its indices stand for.
pub struct Model {
    model: model::Model,
    ids: Vec<ModeIds>,
}

impl Model {
    pub(crate) fn read(run: &Path) -> Result<Self> {
        let model = model::Model::read_with_uncertainty(run)?;
        let ids = ModeIds::of_all(&model)?;
        Ok(Model { model, ids })
    }

    /// The names of the modes.
    pub fn modes(&self) -> Vec<&str> {
        self.ids.iter().map(ModeIds::name).collect()
    }

    /// The ranks.
    pub fn rank(&self) -> &[usize] {
        &self.model.about.rank
    }

    /// The value at an id for each mode, times as they stand in a file. An id that the model does not know
    /// leaves the value to the biases of the others, and says so in [`Prediction::known`].
    ///
    /// # Errors
    ///
    /// Where there is not one id per mode, or a time cannot be understood.
    pub fn predict<S: AsRef<str>>(&self, ids: &[S]) -> Result<Prediction> {
        Ok(self.model.predict(&self.indices(ids)?))
    }

    /// The standard deviation of an observation at an id for each mode: of the noise, and of how sure the model is of
    /// its rows; of an id that it does not know, of how much ids differ.
    ///
    /// # Errors
    ///
    /// Where the model was not fitted by sweeps, and where [`Model::predict`] has one.
    pub fn sd<S: AsRef<str>>(&self, ids: &[S]) -> Result<f64> {
        let none = vec![false; self.ids.len()];
        let spreads = Spreads::new(&self.model, &none)?;
        let places: Vec<Place> = self.indices(ids)?.into_iter().map(Place::from).collect();
        Ok(spreads.predictive(&Places::new(&self.model, &none), &places).sd())
    }

    fn indices<S: AsRef<str>>(&self, ids: &[S]) -> Result<Vec<Option<u32>>> {
        if ids.len() != self.ids.len() {
            let what =
                format!("{} ids for {} modes ({})", ids.len(), self.ids.len(), self.modes().join(", "));
            return Err(Error::request(what));
        }
        let find = |(mode, id): (&ModeIds, &S)| mode.find(id.as_ref()).map(|found| found.index());
        let indices: Result<Vec<_>, String> = self.ids.iter().zip(ids).map(find).collect();
        indices.map_err(Error::request)
    }

    /// The value at indices, `None` for what is unknown.
    ///
    /// # Panics
    ///
    /// If there is not one index per mode, or one is out of range.
    pub fn predict_at(&self, indices: &[Option<u32>]) -> Prediction {
        self.model.predict(indices)
    }

    /// The factor of a mode: n rows of r numbers, row-major.
    pub fn factor(&self, mode: usize) -> &[f64] {
        self.model.point.factors[mode].as_slice()
    }

    /// The core, the last mode fastest; of a sparse one, as models of four modes and more may have, the numbers that
    /// are not zero.
    pub fn core(&self) -> &[f64] {
        self.model.point.core.numbers()
    }

    /// The indices of those numbers, one after the other; `None` where all of the core is there.
    pub fn core_places(&self) -> Option<&[u32]> {
        self.model.point.core.places()
    }

    /// The `top` best ids of a mode for what is given of others, each as (mode, id), the rest averaged, without
    /// those that were observed with what is given.
    pub(crate) fn recommend(
        &self,
        run: &Path,
        given: &[(&str, &str)],
        ranked: &str,
        top: usize,
    ) -> Result<Vec<Recommendation>> {
        let mode = |name: &str| {
            let found = self.ids.iter().position(|mode| mode.name() == name);
            let names = || self.modes().join(", ");
            found.ok_or_else(|| {
                Error::request(format!("there is no mode '{name}': the modes are {}", names()))
            })
        };
        let ranked = mode(ranked)?;
        let mut question = vec![Place::Average; self.ids.len()];
        for (name, id) in given {
            let mode = mode(name)?;
            let found = self.ids[mode].find(id).map_err(Error::request)?.index();
            let Some(index) = found.filter(|&index| self.model.knows(mode, index)) else {
                return Err(Error::request(format!("the model does not know {name} '{id}'")));
            };
            question[mode] = Place::Index(index);
        }
        let averaged: Vec<bool> =
            (0..question.len()).map(|mode| mode != ranked && question[mode] == Place::Average).collect();
        let seen = match observed_with(&self.ids, &question, ranked, None) {
            Some(given) => {
                let datasets = Config::read(run)?.open_datasets(run)?;
                let splits = Split::ALL.to_vec();
                Observed { datasets: &datasets, splits, each: None, ranked, given }.entries(0..1)?
            }
            None => SeenEntries::default(),
        };
        let places = Places::new(&self.model, &averaged);
        let best = Ranking::new(&places, &question, ranked, None).best(0..1, top, |id| seen.indices(id));
        let answer = |found: tenfill_engine::answer::Ranked| Recommendation {
            id: self.ids[ranked].label(found.index),
            prediction: Prediction { value: found.value, known: found.known },
        };
        Ok(best.into_iter().flatten().map(answer).collect())
    }
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model").field("modes", &self.modes()).field("rank", &self.rank()).finish()
    }
}
