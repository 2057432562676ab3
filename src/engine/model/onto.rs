//! A model of one dataset as the beginning of one for another: rows are matched by their ids.

use super::{Biases, ModeLookup, Model};
use crate::error::{Error, Result};
use crate::manifold::orthonormalize;
use crate::rows::Rows;
use crate::shard::{Bins, Dataset, Labels, ModeKind};
use crate::transform::Transform;
use crate::units;

/// A model whose rows are those of a dataset.
#[derive(Debug)]
pub struct Matched {
    /// The model. Rows of ids that it has not met are the mean of all others; those of bins outside its own
    /// are the nearest bin's.
    pub model: Model,
    /// Per mode, for every index of the dataset, whether the model has met it.
    pub known: Vec<Vec<bool>>,
}

impl Matched {
    /// The model's biases where it has met an id, and those of the data elsewhere, where both have some.
    pub fn biases(&self, mut own: Biases) -> Biases {
        let Some(met) = &self.model.biases else { return own };
        let lengths = |biases: &Biases| biases.modes.iter().map(Vec::len).collect::<Vec<_>>();
        if lengths(met) != lengths(&own) || met.time.is_some() != own.time.is_some() {
            return own;
        }
        own.mean = met.mean;
        for (mode, known) in self.known.iter().enumerate() {
            let pairs = own.modes[mode].iter_mut().zip(&met.modes[mode]).zip(known);
            pairs.filter(|(_, known)| **known).for_each(|((own, met), _)| *own = *met);
        }
        if let (Some(own), Some(met)) = (&mut own.time, &met.time) {
            own.values.iter_mut().zip(&met.values).for_each(|(own, met)| *own = *met);
        }
        own
    }
}

/// Where a mode's indices of the dataset come from: the model's index, and whether it is the id's own.
struct Origins(Vec<Option<(u32, bool)>>);

impl Model {
    /// Per mode, the model's index of every index of a dataset: of the same id, or for a bin outside its own
    /// the nearest. None for ids that the model has not met.
    ///
    /// # Errors
    ///
    /// Where modes or bins are others, or no id of a mode is known.
    pub fn indices_of(&self, dataset: &Dataset) -> Result<Vec<Vec<Option<u32>>>> {
        let of_mode = |(mode, origins): (usize, Origins)| {
            let known = origins.0.into_iter().map(|origin| origin.map(|(at, _)| at));
            known.map(|origin| origin.filter(|&at| self.knows(mode, at))).collect()
        };
        Ok(self.origins(dataset)?.into_iter().enumerate().map(of_mode).collect())
    }

    fn origins(&self, dataset: &Dataset) -> Result<Vec<Origins>> {
        let manifest = dataset.manifest();
        let run = self.run().to_path_buf();
        if self.about.transform() != manifest.transform() {
            let name = |of: Option<Transform>| of.map_or("as they were", Transform::name);
            let (own, other) = (name(self.about.transform()), name(manifest.transform()));
            let what = format!("its values are kept {own}, and those of the dataset {other} (`transform`)");
            return Err(Error::input(run, what));
        }
        self.about.check_modes(&run, &manifest.modes)?;
        let lookups = self.lookups()?;
        let mut origins = Vec::new();
        for (mode, lookup) in lookups.iter().enumerate() {
            let name = &manifest.modes[mode].name;
            let wrong = |what: String| Error::input(&run, format!("mode {name}: {what}"));
            let found = match (lookup, &manifest.modes[mode].kind) {
                (ModeLookup::Bins { bins, dim }, ModeKind::Bins(wanted)) => {
                    bin_origins(bins, *dim, wanted, manifest.modes[mode].dim).map_err(wrong)?
                }
                (ModeLookup::Bins { .. }, _) | (_, ModeKind::Bins(_)) => {
                    return Err(wrong(
                        "it has bins in one of model and dataset, and ids in the other".into(),
                    ));
                }
                (lookup, _) => id_origins(lookup, dataset, mode)?,
            };
            if !found.0.iter().flatten().any(|(_, own)| *own) {
                return Err(wrong("the model knows none of the dataset's ids".into()));
            }
            origins.push(found);
        }
        Ok(origins)
    }

    /// The model with the rows of a dataset.
    ///
    /// # Errors
    ///
    /// Where modes or bins are others, or no id of a mode is known.
    pub fn onto(self, dataset: &Dataset) -> Result<Matched> {
        let (manifest, run) = (dataset.manifest(), self.run().to_path_buf());
        if self.point.core.places().is_some() {
            let what = "its model was fitted by sweeps to four modes or more: only sweeps can begin with it, \
                        without `rank`, `penalty` and `bias`";
            return Err(Error::input(&run, what));
        }
        let mut origins = self.origins(dataset)?;
        let same = origins.iter().zip(self.point.dims()).all(|(origins, dim)| {
            origins.0.len() == dim
                && origins.0.iter().zip(0..).all(|(origin, at)| *origin == Some((at, true)))
        });
        if !same {
            // Rows without train entries say nothing.
            for (mode, origins) in origins.iter_mut().enumerate() {
                origins.0.iter_mut().for_each(|origin| *origin = origin.filter(|at| self.knows(mode, at.0)));
            }
        }
        let met = |origin: &Option<(u32, bool)>| origin.is_some_and(|(_, own)| own);
        let known: Vec<Vec<bool>> =
            origins.iter().map(|origins| origins.0.iter().map(met).collect()).collect();
        if same {
            return Ok(Matched { model: self, known });
        }
        let mut model = self;
        for (mode, origins) in origins.iter().enumerate() {
            let rows = placed(&model.point.factors[mode], origins, |index| model.knows(mode, index));
            model.point.factors[mode] = rows;
            let biases = model.biases.take();
            model.biases = biases.map(|mut biases| {
                if !biases.modes[mode].is_empty() {
                    let column = std::mem::take(&mut biases.modes[mode]);
                    let column = Rows::from_vec(column.len(), 1, column);
                    biases.modes[mode] =
                        placed(&column, origins, |index| model.knows(mode, index)).into_vec();
                }
                biases
            });
            let upper = orthonormalize(&mut model.point.factors[mode]).map_err(|dependent| {
                Error::input(&run, format!("its model cannot be used as a start: {dependent}"))
            })?;
            model.point.core = model.point.core.mode_product(mode, &upper);
        }
        model.about.modes.clone_from(&manifest.modes);
        model.unseen = known.iter().map(|known| unknown(known)).collect();
        Ok(Matched { model, known })
    }
}

fn unknown(known: &[bool]) -> Vec<u32> {
    known.iter().zip(0..).filter(|(known, _)| !**known).map(|(_, index)| index).collect()
}

/// The rows of other indices; where there is none, the mean of those that the model knows.
fn placed(rows: &Rows, origins: &Origins, knows: impl Fn(u32) -> bool) -> Rows {
    let rank = rows.rank();
    let mut mean = vec![0.0; rank];
    let met: Vec<u32> = (0..rows.rows() as u32).filter(|&index| knows(index)).collect();
    for &index in &met {
        mean.iter_mut().zip(rows.row(index as usize)).for_each(|(sum, x)| *sum += x);
    }
    mean.iter_mut().for_each(|sum| *sum /= met.len().max(1) as f64);
    let mut data = Vec::with_capacity(origins.0.len() * rank);
    for origin in &origins.0 {
        data.extend_from_slice(origin.map_or(&mean, |(index, _)| rows.row(index as usize)));
    }
    Rows::from_vec(origins.0.len(), rank, data)
}

fn bin_origins(bins: &Bins, dim: u32, wanted: &Bins, wanted_dim: u32) -> Result<Origins, String> {
    if bins.width != wanted.width || bins.time != wanted.time {
        let show = |bins: &Bins| match bins.time {
            true => units::width(bins.width),
            false => bins.width.to_string(),
        };
        return Err(format!("the model has bins of {}, and the dataset of {}", show(bins), show(wanted)));
    }
    let further = ((wanted.origin - bins.origin) / bins.width).round() as i64;
    let origins = (0..i64::from(wanted_dim)).map(|bin| {
        let at = bin + further;
        let near = at.clamp(0, i64::from(dim) - 1);
        Some((near as u32, near == at))
    });
    Ok(Origins(origins.collect()))
}

fn id_origins(lookup: &ModeLookup, dataset: &Dataset, mode: usize) -> Result<Origins> {
    let about = &dataset.manifest().modes[mode];
    let find: Box<dyn Fn(usize) -> Option<u32>> = match (&about.kind, dataset.labels(mode)?) {
        (ModeKind::Range { base }, _) => {
            let base = *base;
            Box::new(move |index| lookup.integer(base + index as i64))
        }
        (_, Some(Labels::Integers(labels))) => Box::new(move |index| lookup.integer(labels.value(index))),
        (_, Some(labels)) => Box::new(move |index| lookup.text(&labels.get(index))),
        (_, None) => Box::new(|_| None),
    };
    Ok(Origins((0..about.dim as usize).map(|index| find(index).map(|at| (at, true))).collect()))
}
