//! How often observations lie where a model expects them: calibration.

use crate::MAX_ORDER;
use crate::error::Result;
use crate::model::{Model, Place, Places, Predictive, Spreads};
use crate::shard::{Dataset, Split};
use rayon::prelude::*;

/// The probabilities of the intervals that [`Evaluation`](super::Evaluation) tells of.
pub const NOMINAL: [f64; 3] = [0.5, 0.8, 0.95];

/// Entries that are looked at together.
const PART: usize = 1 << 14;

/// Looks at entries one after the other.
pub struct Calibration<'m> {
    places: Places<'m>,
    spreads: Spreads<'m>,
    order: usize,
    nominal: Vec<f64>,
    waiting: Vec<([Place; MAX_ORDER], f64)>,
    sums: Vec<f64>,
    entries: u64,
}

impl<'m> Calibration<'m> {
    /// Of central intervals of these probabilities; `None` where the model does not know how sure it is.
    pub fn new(model: &'m Model, nominal: &[f64]) -> Result<Option<Self>> {
        if model.uncertainty.is_none() {
            return Ok(None);
        }
        let order = model.point.order();
        let none = vec![false; order];
        Ok(Some(Calibration {
            places: Places::new(model, &none),
            spreads: Spreads::new(model, &none)?,
            order,
            nominal: nominal.to_vec(),
            waiting: Vec::new(),
            sums: vec![0.0; nominal.len()],
            entries: 0,
        }))
    }

    /// Looks at an entry.
    pub fn add(&mut self, at: impl Iterator<Item = Place>, value: f64) {
        let mut places = [Place::Unknown; MAX_ORDER];
        places.iter_mut().zip(at).for_each(|(to, place)| *to = place);
        self.waiting.push((places, value));
        if self.waiting.len() == PART {
            self.look();
        }
    }

    fn look(&mut self) {
        let (places, spreads, nominal) = (&self.places, &self.spreads, &self.nominal);
        let covered: Vec<Vec<f64>> = self
            .waiting
            .par_iter()
            .with_min_len(256)
            .map(|(at, value)| {
                let cell = spreads.predictive(places, &at[..self.order]).below(*value);
                nominal.iter().map(|&probability| Predictive::covered(cell, probability)).collect()
            })
            .collect();
        // In order, so that the sum does not depend on threads.
        for covered in covered {
            self.sums.iter_mut().zip(covered).for_each(|(sum, x)| *sum += x);
        }
        self.entries += self.waiting.len() as u64;
        self.waiting.clear();
    }

    /// The share of the observations that each interval covers; `None` where there were no entries.
    pub fn finish(mut self) -> Option<Vec<f64>> {
        self.look();
        let entries = self.entries as f64;
        (self.entries > 0).then(|| self.sums.iter().map(|sum| sum / entries).collect())
    }
}

/// The share of a split's observations that central intervals of these probabilities cover; `None` where the model
/// does not know how sure it is, or there are no entries.
pub fn coverage(model: &Model, dataset: &Dataset, split: Split, nominal: &[f64]) -> Result<Option<Vec<f64>>> {
    let Some(mut calibration) = Calibration::new(model, nominal)? else { return Ok(None) };
    dataset.for_each(split, |at, value| {
        calibration.add(at.iter().map(|&index| Place::Index(index)), value);
    })?;
    Ok(calibration.finish())
}
