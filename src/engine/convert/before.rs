//! The ids of a dataset that rows are appended to: they keep their indices, new ones come behind them.

use super::ids::Ids;
use super::resolve::{ModeIndex, Resolved};
use crate::budget::{Budget, Reservation};
use crate::error::{Error, Result};
use crate::ingest::label::{Key, Label, OwnedKey};
use crate::ingest::number::parse_integer;
use crate::shard::{Bins, Dataset, Labels, ModeKind};
use crate::times::TimeUnit;
use crate::units;

/// The ids of a mode of the dataset, and where those of the new rows belong.
pub(super) struct Before {
    dim: u32,
    known: Known,
    /// The index of each id of the new rows, in their order.
    places: Vec<u32>,
    _memory: Reservation,
}

enum Known {
    Range { base: i64 },
    Labels(Labels),
}

impl Known {
    fn label(&self, index: usize) -> Label<'_> {
        match self {
            Known::Range { base } => Label::Integer(base + index as i64),
            Known::Labels(Labels::Integers(labels)) => Label::Integer(labels.value(index)),
            Known::Labels(Labels::Text(labels)) => {
                let text = labels.value(index).as_bytes();
                parse_integer(text).map_or(Label::Text(text), Label::Integer)
            }
        }
    }
}

impl Before {
    /// Finds the ids of new rows among those of a mode.
    fn new(dataset: &Dataset, mode: usize, ids: &Ids, budget: &Budget) -> Result<Self> {
        let about = &dataset.manifest().modes[mode];
        let bytes = match &about.kind {
            // The labels, and their order where some were appended before.
            ModeKind::Integers { labels } | ModeKind::Text { labels } => {
                labels.bytes + 4 * u64::from(about.dim)
            }
            _ => 0,
        };
        let memory = budget.reserve(bytes + 4 * ids.len(), "the ids of the dataset")?;
        let known = match (&about.kind, dataset.labels(mode)?) {
            (ModeKind::Range { base }, _) => Known::Range { base: *base },
            (_, Some(labels)) => Known::Labels(labels),
            (_, None) => return Err(Error::request(format!("{} has no labels to add to", about.name))),
        };
        let mut before = Before { dim: about.dim, known, places: Vec::new(), _memory: memory };
        before.places = before.places(ids)?;
        Ok(before)
    }

    /// Both are in order, so they are gone through once.
    fn places(&self, ids: &Ids) -> Result<Vec<u32>> {
        let order = if let Known::Labels(labels) = &self.known { labels.ascending() } else { None };
        let at = |next: usize| order.as_ref().map_or(next, |order| order[next] as usize);
        let mut places = Vec::with_capacity(ids.len() as usize);
        let (mut next, mut added) = (0, 0u32);
        for key in ids.labels()? {
            let key = key?;
            let found = match (&self.known, key.label()) {
                (Known::Range { base }, Label::Integer(id)) => {
                    id.checked_sub(*base).filter(|index| (0..i64::from(self.dim)).contains(index))
                }
                (Known::Range { .. }, Label::Text(_)) => None,
                (Known::Labels(_), _) => {
                    let label = |next: usize| Key::new(self.known.label(at(next)));
                    while next < self.dim as usize && label(next) < key.key() {
                        next += 1;
                    }
                    let here = next < self.dim as usize && label(next) == key.key();
                    here.then(|| at(next) as i64)
                }
            };
            places.push(match found {
                Some(index) => index as u32,
                None => {
                    let place = self.dim.checked_add(added).filter(|&place| place < u32::MAX);
                    added += 1;
                    place.ok_or_else(|| Error::request(format!("a mode has more than {} ids", u32::MAX)))?
                }
            });
        }
        Ok(places)
    }

    /// The index of an id of the new rows.
    #[inline]
    pub(super) fn place(&self, index: u32) -> u32 {
        self.places[index as usize]
    }

    /// How many ids there are with the new ones.
    fn all(&self) -> u32 {
        self.dim + self.places.iter().filter(|&&place| place >= self.dim).count() as u32
    }

    /// Whether all ids of the dataset are integers.
    pub(super) fn all_integers(&self) -> bool {
        !matches!(self.known, Known::Labels(Labels::Text(_)))
    }

    /// The labels of the dataset.
    pub(super) fn labels(&self) -> impl Iterator<Item = OwnedKey> {
        (0..self.dim as usize).map(|index| OwnedKey::new(self.known.label(index)))
    }

    /// Of the labels of the new rows, those that the dataset has not.
    pub(super) fn added(
        &self,
        labels: impl Iterator<Item = Result<OwnedKey>>,
    ) -> impl Iterator<Item = Result<OwnedKey>> {
        let known = |place: &u32| *place < self.dim;
        labels.zip(&self.places).filter(move |(_, place)| !known(place)).map(|(label, _)| label)
    }
}

/// Puts the ids of new rows behind those of a dataset; returns, per mode, by how much the indices of the
/// dataset's own entries grow: where new bins lie before the first.
pub(super) fn extend(resolved: &mut [Resolved], dataset: &Dataset, budget: &Budget) -> Result<Vec<u32>> {
    let mut shifts = Vec::new();
    for (mode, new) in resolved.iter_mut().enumerate() {
        let about = &dataset.manifest().modes[mode];
        let wrong = |what: String| Err(Error::request(format!("mode {}: {what}", about.name)));
        let mut shift = 0;
        match (&mut new.index, &about.kind) {
            (ModeIndex::Bins { origin, width, first, .. }, ModeKind::Bins(old)) => {
                if let Some(bins) = &new.bins
                    && let Some(what) = other_unit(old, bins)
                {
                    return wrong(what);
                }
                // The middle of a bin, so that rounding decides nothing.
                let old_first = ((old.origin + 0.5 * old.width) / old.width).floor() as i64;
                let end = (old_first + i64::from(about.dim)).max(*first + i64::from(new.dim));
                let start = old_first.min(*first);
                let Some(dim) = u32::try_from(end - start).ok().filter(|&dim| dim < u32::MAX) else {
                    return wrong(format!("there would be {} bins with the new rows", end - start));
                };
                if start < *first {
                    *origin = start as f64 * *width;
                    *first = start;
                }
                shift = (old_first - start) as u32;
                let origin = old.origin - f64::from(shift) * old.width;
                let origin = if shift == 0 { origin } else { start as f64 * old.width };
                new.bins = Some(Bins { origin, ..old.clone() });
                new.dim = dim;
            }
            (ModeIndex::Indices { base, before }, ModeKind::Range { base: old }) => {
                let Ok(further) = u32::try_from(*base - old) else {
                    return wrong(format!("its indices begin at {old} in the dataset, and at {base} here"));
                };
                *before = further;
                new.dim = about.dim.max(new.dim.saturating_add(further));
            }
            (ModeIndex::Indices { .. }, _) => {
                return wrong("the dataset has labels, and these rows have indices".into());
            }
            (
                ModeIndex::Ids(ids),
                ModeKind::Range { .. } | ModeKind::Integers { .. } | ModeKind::Text { .. },
            ) => {
                let before = Before::new(dataset, mode, ids, budget)?;
                new.dim = before.all();
                new.before = Some(before);
            }
            _ => return wrong("it has bins in one of dataset and rows, and ids in the other".into()),
        }
        shifts.push(shift);
    }
    Ok(shifts)
}

/// What to say where the times of new rows are written in another unit than those of the dataset.
fn other_unit(old: &Bins, new: &Bins) -> Option<String> {
    if old.time != new.time || old.width != new.width {
        return Some(format!("the bins of the dataset have the width {}", units::width(old.width)));
    }
    let unit = new.unit.filter(|&unit| old.is_other(unit))?;
    let name = old.unit.map_or("in another unit", TimeUnit::name);
    Some(format!("the times of the dataset are {name}, those of the new rows {}", unit.name()))
}
