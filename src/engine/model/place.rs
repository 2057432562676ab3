//! What is said of each mode of a question, and what the model answers when a mode is averaged.

use super::predict::value_of;
use super::{Model, PairBias, Prediction, TimeBias};
use crate::MAX_ORDER;

/// What a question says of one mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// This index.
    Index(u32),
    /// The average over all indices that have train entries.
    Average,
    /// An id that the model does not know.
    Unknown,
}

impl From<Option<u32>> for Place {
    fn from(index: Option<u32>) -> Self {
        index.map_or(Place::Unknown, Place::Index)
    }
}

/// A model that can be asked about averages.
///
/// The tensor is multilinear, so the average of its values over a mode is its value at the average
/// of that mode's rows: exact, without touching the entries. Biases are averaged likewise, and the
/// sum is then taken into the model's range.
pub struct Places<'m> {
    model: &'m Model,
    /// Row and bias of the average, for the modes that are averaged.
    averages: Vec<Option<(Vec<f64>, f64)>>,
    /// The time bias by the clock's index, where the ids are averaged; by id, where the clock is.
    by_clock: Option<Vec<f64>>,
    by_id: Option<Vec<f64>>,
}

/// The core with the rows of all modes but one multiplied in, as long as these rows stay the same: see
/// [`Places::value_along`].
#[derive(Default)]
pub struct Contracted {
    others: Vec<Place>,
    weights: Vec<f64>,
}

fn time_value(time: &TimeBias, id: u32, now: u32) -> f64 {
    time.bucket_of(id, now).map_or(0.0, |bucket| time.values[bucket])
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0u64);
    values.for_each(|value| {
        sum += value;
        count += 1;
    });
    if count == 0 { 0.0 } else { sum / count as f64 }
}

impl<'m> Places<'m> {
    /// For questions in which the modes with `averaged[mode]` may be averaged.
    pub fn new(model: &'m Model, averaged: &[bool]) -> Self {
        let known = |mode: usize| {
            let dim = model.about.modes[mode].dim;
            (0..dim).filter(move |&index| model.knows(mode, index))
        };
        let average = |mode: usize| {
            let factor = &model.point.factors[mode];
            let mut row = vec![0.0; factor.rank()];
            let mut count = 0u64;
            for index in known(mode) {
                row.iter_mut().zip(factor.row(index as usize)).for_each(|(sum, x)| *sum += x);
                count += 1;
            }
            row.iter_mut().for_each(|sum| *sum /= count.max(1) as f64);
            let biases = model.biases.as_ref().map(|biases| &biases.modes[mode]);
            let biases = biases.filter(|biases| !biases.is_empty());
            let bias = biases.map_or(0.0, |biases| mean(known(mode).map(|index| biases[index as usize])));
            (row, bias)
        };
        let averages = averaged.iter().enumerate().map(|(mode, &yes)| yes.then(|| average(mode))).collect();
        let time = model.biases.as_ref().and_then(|biases| biases.time.as_ref());
        let value = |id: u32, now: u32| time.map_or(0.0, |time| time_value(time, id, now));
        let by_clock = time.filter(|time| averaged[time.of]).map(|time| {
            let dim = model.about.modes[time.clock].dim;
            (0..dim).map(|now| mean(known(time.of).map(|id| value(id, now)))).collect()
        });
        let by_id = time.filter(|time| averaged[time.clock]).map(|time| {
            let dim = model.about.modes[time.of].dim;
            (0..dim).map(|id| mean(known(time.clock).map(|now| value(id, now)))).collect()
        });
        Places { model, averages, by_clock, by_id }
    }

    /// The model.
    pub fn model(&self) -> &'m Model {
        self.model
    }

    /// A place whose index the model has no train entries of is unknown; for a bin the nearest that has some
    /// stands in.
    pub fn settle(&self, mode: usize, place: Place) -> Place {
        match place {
            Place::Index(index) if !self.model.knows(mode, index) => self.model.stand_in(mode, index).into(),
            place => place,
        }
    }

    /// The row of the factor at a place; of a mode that is held any row does. None where unknown.
    pub(crate) fn row(&self, mode: usize, place: Place) -> Option<&[f64]> {
        match place {
            Place::Index(index) => Some(self.model.point.factors[mode].row(index as usize)),
            Place::Average => self.averages[mode].as_ref().map(|(row, _)| row.as_slice()),
            Place::Unknown => self.model.is_held(mode).then(|| self.model.point.factors[mode].row(0)),
        }
    }

    /// The bias of a mode at a place; what is unknown adds nothing.
    pub(crate) fn bias(&self, mode: usize, place: Place) -> f64 {
        match place {
            Place::Index(index) => {
                let biases = self.model.biases.as_ref().map(|biases| &biases.modes[mode]);
                biases.and_then(|biases| biases.get(index as usize)).copied().unwrap_or(0.0)
            }
            Place::Average => self.averages[mode].as_ref().map_or(0.0, |(_, bias)| *bias),
            Place::Unknown => 0.0,
        }
    }

    /// The time bias at an id and a time.
    pub(crate) fn time_bias(&self, of: Place, clock: Place) -> f64 {
        let time = self.model.biases.as_ref().and_then(|biases| biases.time.as_ref());
        match (of, clock, time) {
            (Place::Index(id), Place::Index(now), Some(time)) => time_value(time, id, now),
            (Place::Average, Place::Index(now), _) => {
                self.by_clock.as_ref().map_or(0.0, |by| by[now as usize])
            }
            (Place::Index(id), Place::Average, _) => self.by_id.as_ref().map_or(0.0, |by| by[id as usize]),
            (Place::Average, Place::Average, Some(time)) => self.by_id.as_ref().map_or(0.0, |by| {
                let ids = (0..by.len()).filter(|&id| self.model.knows(time.of, id as u32));
                mean(ids.map(|id| by[id]))
            }),
            _ => 0.0,
        }
    }

    /// The bias of two ids, at settled places; what is unknown adds nothing.
    pub(crate) fn pair_bias(&self, pair: &PairBias, settled: &[Place]) -> f64 {
        let known = |mode: usize| {
            let dim = self.model.about.modes[mode].dim;
            (0..dim).filter(move |&index| self.model.knows(mode, index))
        };
        let [a, b] = pair.modes;
        match [settled[a], settled[b]] {
            [Place::Unknown, _] | [_, Place::Unknown] => 0.0,
            [Place::Index(i), Place::Index(j)] => pair.at(i, j),
            [Place::Index(i), Place::Average] => mean(known(b).map(|j| pair.at(i, j))),
            [Place::Average, Place::Index(j)] => mean(known(a).map(|i| pair.at(i, j))),
            [Place::Average, Place::Average] => mean(known(a).map(|i| mean(known(b).map(|j| pair.at(i, j))))),
        }
    }

    /// The value before it is taken into the model's range, and whether all ids are known.
    ///
    /// With an index or nothing in every mode this is what [`Model::predict`] clips.
    pub fn raw(&self, places: &[Place]) -> (f64, bool) {
        self.raw_with(places, |_, rows| self.model.point.core.value_at(rows))
    }

    /// Whether the model has more to say at places than the mean of the train values: it has biases, or the tensor speaks, as it
    /// does where all ids are known but those of held modes.
    pub fn has_value(&self, places: &[Place]) -> bool {
        let row = |(mode, &place): (usize, &Place)| self.row(mode, self.settle(mode, place)).is_some();
        self.model.biases.is_some() || places.iter().enumerate().all(row)
    }

    /// The same, with `tensor(settled, rows)` for the value of the tensor where it speaks.
    fn raw_with(&self, places: &[Place], tensor: impl FnOnce(&[Place], &[&[f64]]) -> f64) -> (f64, bool) {
        let order = places.len();
        let mut rows: [&[f64]; MAX_ORDER] = [&[]; MAX_ORDER];
        let mut settled = [Place::Unknown; MAX_ORDER];
        let (mut known, mut whole) = (true, true);
        for (mode, &place) in places.iter().enumerate() {
            settled[mode] = self.settle(mode, place);
            // Of a mode that is held, a stranger has a row, and is a stranger all the same.
            known &= settled[mode] != Place::Unknown;
            match self.row(mode, settled[mode]) {
                Some(row) => rows[mode] = row,
                None => whole = false,
            }
        }
        let biases = self.model.biases.as_ref().map(|biases| {
            let sum = (0..order).fold(biases.mean, |sum, mode| sum + self.bias(mode, settled[mode]));
            let pairs: f64 = biases.pairs.iter().map(|pair| self.pair_bias(pair, &settled)).sum();
            match &biases.time {
                Some(time) => sum + pairs + self.time_bias(settled[time.of], settled[time.clock]),
                None => sum + pairs,
            }
        });
        let tensor = whole.then(|| tensor(&settled[..order], &rows[..order]));
        (value_of(biases, tensor, self.model.about.mean).unwrap_or(0.0), known)
    }

    /// The value, as [`value`](Self::value) has it but for rounding, for questions of which many in a row differ in
    /// `along` only: the core is contracted with the rows of the other modes once, and r numbers are left for each.
    pub fn value_along(&self, places: &[Place], along: usize, kept: &mut Contracted) -> Prediction {
        let (value, known) = self.raw_with(places, |settled, rows| {
            let same = kept.others.len() == settled.len()
                && (0..settled.len()).all(|mode| mode == along || kept.others[mode] == settled[mode]);
            if !same {
                let row = |mode: usize| (mode != along).then_some(rows[mode]);
                let given: Vec<Option<&[f64]>> = (0..rows.len()).map(row).collect();
                kept.weights = self.model.point.core.contract(&given, &[along]);
                kept.others = settled.to_vec();
            }
            kept.weights.iter().zip(rows[along]).map(|(weight, x)| weight * x).sum()
        });
        Prediction { value: self.model.about.told(value), known }
    }

    /// The value.
    pub fn value(&self, places: &[Place]) -> Prediction {
        let (value, known) = self.raw(places);
        Prediction { value: self.model.about.told(value), known }
    }
}
