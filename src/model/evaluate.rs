//! How far a model is from entries it may not have seen.

use super::Model;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::ingest::columns::{Binning, ColumnRequest};
use crate::ingest::{self, Cell, ModeCells, ReadOptions};
use crate::kernel::ResidualSums;
use crate::objective::{Scoring, UnseenRows, score};
use crate::shard::{Dataset, ModeKind, Split};
use crate::stream::Stream;
use std::path::Path;

/// Errors over some entries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evaluation {
    /// The mean squared error.
    pub mse: f64,
    /// The mean absolute error.
    pub mae: f64,
    /// The entries in these means.
    pub entries: u64,
    /// Of these, the ones scored by biases alone, because an id has no train entries.
    pub fallback: u64,
    /// The entries left out, because the model does not know one of their ids and has no biases.
    pub unscored: u64,
    /// Of the scored ones, those whose time lies outside the bins and was taken as the nearest.
    pub outside_bins: u64,
}

impl Evaluation {
    /// The root of the mean squared error.
    pub fn rmse(&self) -> f64 {
        self.mse.sqrt()
    }

    fn of(sums: &ResidualSums, fallback: u64, outside_bins: u64) -> Self {
        let scored = sums.scored.max(1) as f64;
        Evaluation {
            mse: sums.squares / scored,
            mae: sums.absolute / scored,
            entries: sums.scored,
            fallback,
            unscored: sums.unscored,
            outside_bins,
        }
    }
}

/// On a split of the dataset that the model was fitted to; an error where the split is empty.
pub fn evaluate_split(model: &Model, dataset: &Dataset, split: Split) -> Result<Evaluation> {
    let manifest = dataset.manifest();
    // A model that ids were folded into has more of them than the dataset.
    let fits = |(dim, mode): (u32, &crate::shard::Mode)| dim <= mode.dim;
    if manifest.modes.len() != model.about.modes.len() || !manifest.dims().into_iter().zip(&model.about.modes).all(fits) {
        return Err(Error::input(
            dataset.directory(),
            "the model was fitted to a dataset of other dimensions",
        ));
    }
    if manifest.split(split).entries == 0 {
        return Err(Error::input(
            dataset.directory(),
            format!("the dataset has no {} entries", split.name()),
        ));
    }
    let train = Stream::open(dataset, Split::Train, None)?;
    let unseen = UnseenRows::of(dataset, &train)?;
    let stream = Stream::open(dataset, split, None)?;
    let scoring =
        Scoring { biases: model.biases.as_ref(), range: model.about.range, held: &model.about.held };
    let scored = score(&stream, &model.point, &manifest.mode_order, &unseen, &scoring)?;
    Ok(Evaluation::of(&scored.all, scored.fallback.scored, 0))
}

/// On the entries of a file with the columns of the model's modes and value.
pub fn evaluate_file(model: &Model, path: &Path, threads: usize, control: &Control) -> Result<Evaluation> {
    let about = &model.about;
    let bins = about.modes.iter().filter_map(|mode| match &mode.kind {
        ModeKind::Bins(bins) => Some((mode.name.clone(), Binning { width: bins.width, time: bins.time })),
        _ => None,
    });
    let options = ReadOptions {
        columns: ColumnRequest {
            modes: Some(about.modes.iter().map(|mode| plain_column(&mode.name)).collect()),
            value: Some(plain_column(&about.value)),
            bins: bins.map(|(name, binning)| (plain_column(&name), binning)).collect(),
            ..ColumnRequest::default()
        },
        threads,
        ..ReadOptions::default()
    };
    let lookups = model.lookups()?;
    let mut sums = ResidualSums::default();
    let (mut fallback, mut outside) = (0, 0);
    let input = ingest::open(path, &options, control)?;
    ingest::read_rows(input, &options, control, |batch| {
        if let Some(bad) = batch.bad.first() {
            return Err(Error::Row { file: batch.file.clone(), line: bad.line, what: bad.what.clone() });
        }
        let mut indices = [None; crate::MAX_ORDER];
        for row in 0..batch.len() {
            let mut nearest = false;
            for (mode, (cells, lookup)) in batch.modes.iter().zip(&lookups).enumerate() {
                let found = match cells {
                    ModeCells::Ids(cells) => match cells[row] {
                        Cell::Integer(id) => lookup.integer(id),
                        Cell::Text { start, length } => std::str::from_utf8(batch.text_of(start, length))
                            .ok()
                            .and_then(|id| lookup.text(id)),
                    },
                    ModeCells::Numbers(numbers) => {
                        let per_second = match &about.modes[mode].kind {
                            ModeKind::Bins(bins) if !batch.times_seen.has_dates(mode) => bins.per_second,
                            _ => 1.0,
                        };
                        lookup.number(numbers[row] / per_second).map(|(bin, inside)| {
                            nearest |= !inside;
                            bin
                        })
                    }
                };
                indices[mode] = found;
            }
            let prediction = model.predict(&indices[..lookups.len()]);
            if !prediction.known && model.biases.is_none() {
                sums.unscored += 1;
                continue;
            }
            fallback += u64::from(!prediction.known);
            outside += u64::from(nearest);
            let residual = prediction.value - batch.values[row];
            sums.squares += residual * residual;
            sums.absolute += residual.abs();
            sums.scored += 1;
        }
        Ok(())
    })?;
    Ok(Evaluation::of(&sums, fallback, outside))
}

/// `column3` and `mode3` were made from a column's number: files without a header have no names.
fn plain_column(name: &str) -> String {
    let number = name.strip_prefix("column").or_else(|| name.strip_prefix("mode"));
    number.filter(|number| number.parse::<usize>().is_ok()).map_or_else(|| name.to_string(), str::to_string)
}
