//! A model with more indices in a mode than it was trained with.

use super::{BiasAbout, FILE, KIND, Model, UncertaintyAbout, write_arrays, write_biases, write_uncertainty};
use crate::error::{Error, Result};
use crate::ingest::number::parse_integer;
use crate::rows::Rows;
use crate::shard::{Labels, ModeKind, write_labels};
use crate::storage::{ContainerWriter, Disk, RunLayout, make_dir, read_regular, write_atomic};
use arrow_array::{Int64Array, LargeStringArray};
use std::path::Path;

/// New ids in the order that their indices get: numbers by value, then the rest by bytes.
pub fn sort_ids(ids: &mut [String]) {
    ids.sort_unstable_by(|a, b| match (parse_integer(a.as_bytes()), parse_integer(b.as_bytes())) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => std::cmp::Ordering::Less,
        (None, Some(_)) => std::cmp::Ordering::Greater,
        (None, None) => a.cmp(b),
    });
}

impl Model {
    /// Writes the model to `directory`, with `added` ids behind those of some modes: their kind, their
    /// dimension and their labels are changed to hold them. The factors and the biases must have their
    /// rows already.
    pub fn write_extended(
        &self,
        disk: &dyn Disk,
        directory: &Path,
        added: &[(usize, &[String])],
    ) -> Result<()> {
        make_dir(disk, &directory.join("modes"))?;
        let mut about = self.about.clone();
        for (other, about) in about.modes.iter_mut().enumerate() {
            let (ModeKind::Integers { labels } | ModeKind::Text { labels }) = &about.kind else { continue };
            if !added.iter().any(|(mode, ids)| *mode == other && !ids.is_empty()) {
                let (from, to) = (self.directory.join(&labels.file), directory.join(&labels.file));
                write_atomic(disk, &to, &read_regular(&from)?)?;
            }
        }
        for &(mode, ids) in added {
            if !ids.is_empty() {
                about.modes[mode].kind = self.extended_kind(disk, directory, mode, ids)?;
            }
            about.modes[mode].dim = self.point.factors[mode].rows() as u32;
            let known = u64::from(about.modes[mode].dim) - self.unseen[mode].len() as u64;
            about.modes[mode].statistics.in_train = known;
            about.modes[mode].statistics.only_held_out = u64::from(about.modes[mode].dim) - known;
        }
        about.unseen = self.unseen.iter().map(Vec::len).collect();
        about.biases = self.biases.as_ref().map(BiasAbout::of);
        about.uncertainty = self.uncertainty.as_ref().map(UncertaintyAbout::of);
        let baseline = self.directory.join(RunLayout::BASELINE_FILE);
        if baseline.symlink_metadata().is_ok() {
            // Ids that were not there add nothing to it.
            write_atomic(disk, &directory.join(RunLayout::BASELINE_FILE), &read_regular(&baseline)?)?;
        }
        let mut writer = ContainerWriter::create(disk, &directory.join(FILE), about.core_numbers.is_some())?;
        write_arrays(&mut writer, "", &self.point.factors, &self.point.core);
        for (mode, indices) in self.unseen.iter().enumerate() {
            let numbers: Vec<f64> = indices.iter().map(|&index| f64::from(index)).collect();
            writer.array(format!("unseen.{mode}"), &numbers);
        }
        if let Some(biases) = &self.biases {
            write_biases(&mut writer, "", biases);
        }
        if let Some(uncertainty) = &self.uncertainty {
            write_uncertainty(&mut writer, "", uncertainty);
        }
        writer.finish(KIND, &about)
    }

    fn extended_kind(
        &self,
        disk: &dyn Disk,
        directory: &Path,
        mode: usize,
        added: &[String],
    ) -> Result<ModeKind> {
        let about = &self.about.modes[mode];
        let numbers: Option<Vec<i64>> = added.iter().map(|id| parse_integer(id.as_bytes())).collect();
        let before: Labels = match (&about.kind, self.labels(mode)?) {
            (ModeKind::Bins(_), _) => return Err(Error::request("bins have no ids to add to")),
            (ModeKind::Range { base }, _) => {
                let end = base + i64::from(about.dim);
                if numbers
                    .as_ref()
                    .is_some_and(|numbers| numbers.iter().copied().eq(end..end + added.len() as i64))
                {
                    return Ok(about.kind.clone());
                }
                Labels::Integers(Int64Array::from_iter_values(*base..end))
            }
            (_, Some(labels)) => labels,
            (_, None) => return Err(Error::request(format!("{} has no labels to add to", about.name))),
        };
        let file = format!("modes/mode{}.folded.arrow", mode + 1);
        match (before, numbers) {
            (Labels::Integers(before), Some(numbers)) => {
                let all = before.values().iter().copied().chain(numbers);
                let labels = Labels::Integers(Int64Array::from_iter_values(all));
                Ok(ModeKind::Integers { labels: write_labels(disk, directory, file, &labels)? })
            }
            (before, _) => {
                let all = (0..before.len()).map(|index| before.get(index)).chain(added.iter().cloned());
                let labels = Labels::Text(LargeStringArray::from_iter_values(all));
                Ok(ModeKind::Text { labels: write_labels(disk, directory, file, &labels)? })
            }
        }
    }

    /// Makes room for `more` indices behind those of a mode: rows and biases of zeros, unknown as
    /// yet.
    pub fn grow(&mut self, mode: usize, more: usize) {
        let factor = &mut self.point.factors[mode];
        let (rows, rank) = (factor.rows(), factor.rank());
        let mut data = std::mem::replace(factor, Rows::zeros(0, rank)).into_vec();
        // A held mode has the same row for every id.
        let row: Vec<f64> =
            if self.about.held.get(mode) == Some(&true) { data[..rank].to_vec() } else { vec![0.0; rank] };
        (0..more).for_each(|_| data.extend_from_slice(&row));
        *factor = Rows::from_vec(rows + more, rank, data);
        self.unseen[mode].extend(rows as u32..(rows + more) as u32);
        if let Some(uncertainty) = &mut self.uncertainty {
            uncertainty.grow(mode, more);
        }
        if let Some(biases) = &mut self.biases {
            if !biases.modes[mode].is_empty() {
                biases.modes[mode].resize(rows + more, 0.0);
            }
            if let Some(time) = biases.time.as_mut().filter(|time| time.of == mode) {
                time.first.resize(rows + more, u32::MAX);
            }
            biases.pairs.iter_mut().for_each(|pair| pair.grow(mode, more));
        }
    }
}
