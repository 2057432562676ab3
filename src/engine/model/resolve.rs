//! From the cell of a question to an index: ids by their label, times by their bin.

use super::{ModeLookup, Model};
use crate::error::Result;
use crate::ingest::number::{parse_number, whole};
use crate::shard::{Bins, Labels, ModeKind};
use crate::times::{format_time, parse_time};

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The index.
    Index(u32),
    /// Outside the bins: the nearest one.
    Nearest(u32),
    /// No such id, or an empty cell.
    Unknown,
}

impl Found {
    /// The index, where there is one.
    pub fn index(self) -> Option<u32> {
        match self {
            Found::Index(index) | Found::Nearest(index) => Some(index),
            Found::Unknown => None,
        }
    }
}

/// One mode's ids, both ways.
pub struct ModeIds {
    name: String,
    dim: u32,
    kind: ModeKind,
    lookup: ModeLookup,
    labels: Option<Labels>,
}

impl ModeIds {
    /// Of a mode of a model.
    pub fn of(model: &Model, mode: usize) -> Result<Self> {
        let about = &model.about.modes[mode];
        let labels = model.labels(mode)?;
        Ok(ModeIds {
            name: about.name.clone(),
            dim: about.dim,
            kind: about.kind.clone(),
            lookup: ModeLookup::new(&about.kind, about.dim, labels.clone()),
            labels,
        })
    }

    /// Of all modes of a model.
    pub fn of_all(model: &Model) -> Result<Vec<Self>> {
        (0..model.about.modes.len()).map(|mode| ModeIds::of(model, mode)).collect()
    }

    /// The mode's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of indices.
    pub fn dim(&self) -> u32 {
        self.dim
    }

    /// The bins, where the mode has them.
    pub fn bins(&self) -> Option<&Bins> {
        if let ModeKind::Bins(bins) = &self.kind { Some(bins) } else { None }
    }

    /// Whether every id is an integer.
    pub fn integers(&self) -> bool {
        match (&self.kind, &self.labels) {
            (ModeKind::Range { .. }, _) | (_, Some(Labels::Integers(_))) => true,
            (ModeKind::Bins(bins), _) => {
                !bins.time && bins.width.fract() == 0.0 && bins.origin.fract() == 0.0
            }
            _ => false,
        }
    }

    /// The id of an index as it stood in the user's file; of a bin, where it begins.
    pub fn label(&self, index: u32) -> String {
        match (&self.kind, &self.labels) {
            (ModeKind::Range { base }, _) => (base + i64::from(index)).to_string(),
            (ModeKind::Bins(bins), _) => {
                let begin = bins.origin + bins.width * f64::from(index);
                if bins.time { format_time(begin) } else { begin.to_string() }
            }
            (_, Some(labels)) => labels.get(index as usize),
            (_, None) => index.to_string(),
        }
    }

    /// The index of an id or a time as it stands in a file; an error where it should be a time or a
    /// number and is none.
    pub fn find(&self, text: &str) -> Result<Found, String> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(Found::Unknown);
        }
        let Some(bins) = self.bins() else {
            let found = self.lookup.text(text).or_else(|| match self.integers() {
                // 42.0 is what pandas makes of 42 in a column with holes.
                true => whole(text).and_then(|id| self.lookup.integer(id)),
                false => None,
            });
            return Ok(found.map_or(Found::Unknown, Found::Index));
        };
        let number = parse_number(text.as_bytes()).filter(|number| number.is_finite());
        match (number, bins.time) {
            (Some(number), true) => match bins.seconds(number) {
                Some(seconds) => Ok(self.moment(seconds)),
                None => Err(format!(
                    "{} is '{text}', but the dataset's times are days (YYYYMMDD) and this is none",
                    self.name
                )),
            },
            (Some(number), false) => Ok(self.moment(number)),
            (None, true) => match parse_time(text) {
                Some(seconds) => Ok(self.moment(seconds)),
                None => {
                    Err(format!("{} is '{text}', which is neither a date nor a number of time", self.name))
                }
            },
            (None, false) => Err(format!("{} is '{text}', which is no number", self.name)),
        }
    }

    /// The index of a canonical integer; bins have none.
    pub fn integer(&self, id: i64) -> Found {
        self.lookup.integer(id).map_or(Found::Unknown, Found::Index)
    }

    /// The bin of a number, or of a time in seconds.
    pub fn moment(&self, number: f64) -> Found {
        match self.lookup.number(number) {
            Some((bin, true)) => Found::Index(bin),
            Some((bin, false)) => Found::Nearest(bin),
            None => Found::Unknown,
        }
    }

    /// The ids that are spelled most like `wanted`, at most three.
    pub fn nearest(&self, wanted: &str) -> Vec<String> {
        if let (Ok(number), true) = (wanted.trim().parse::<i64>(), self.integers()) {
            let distance = |index: &u32| {
                self.label(*index).parse::<i64>().map_or(u64::MAX, |label| label.abs_diff(number))
            };
            return least(0..self.dim, distance).into_iter().map(|index| self.label(index)).collect();
        }
        let wanted = wanted.trim().to_lowercase();
        // Ids that share less than half with what was asked for are no help.
        let length = wanted.chars().count() as u64;
        let close = |index: &u32| {
            let label = self.label(*index).to_lowercase();
            let edits = edits(&wanted, &label);
            let longer = (label.chars().count() as u64).abs_diff(length);
            if 2 * edits > length { u64::MAX } else { edits * 10_000 + longer.min(9_999) }
        };
        least(0..self.dim, close).into_iter().map(|index| self.label(index)).collect()
    }
}

/// The three with the least distance, those at infinity left out.
fn least(items: impl Iterator<Item = u32>, distance: impl Fn(&u32) -> u64) -> Vec<u32> {
    let mut best: Vec<(u64, u32)> = Vec::with_capacity(4);
    for item in items {
        let far = distance(&item);
        if far < u64::MAX && (best.len() < 3 || far < best[best.len() - 1].0) {
            let at = best.partition_point(|&(other, _)| other <= far);
            best.insert(at, (far, item));
            best.truncate(3);
        }
    }
    best.into_iter().map(|(_, item)| item).collect()
}

/// How many characters must be put in, taken out or changed to find `a` within `b`.
fn edits(a: &str, b: &str) -> u64 {
    let b: Vec<char> = b.chars().collect();
    // What stands before and behind is free.
    let mut row = vec![0; b.len() + 1];
    for (i, x) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i as u64 + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = corner + u64::from(x != *y);
            corner = row[j + 1];
            row[j + 1] = changed.min(corner + 1).min(row[j] + 1);
        }
    }
    row.into_iter().min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::edits;

    #[test]
    fn edits_are_counted() {
        assert_eq!(edits("heat", "heat"), 0);
        assert_eq!(edits("heat", "heat (1995)"), 0);
        assert_eq!(edits("haet", "heat"), 2);
        assert_eq!(edits("heat", "het"), 1);
        assert_eq!(edits("abc", ""), 3);
    }
}
