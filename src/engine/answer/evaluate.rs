//! How far a model is from entries it may not have seen.

use super::coverage::{Calibration, NOMINAL, coverage};
use super::entries::{read_entries, say_empty};
use crate::MAX_ORDER;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::ingest::Source;
use crate::kernel::ResidualSums;
use crate::model::{Baseline, Found, ModeIds, Model, Place, Places};
use crate::objective::{Scoring, UnseenRows, over_biases, r2, score, varies};
use crate::reduce::Exchange;
use crate::shard::{Dataset, Split};
use crate::stream::Stream;

/// Errors over some entries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evaluation {
    /// The mean squared error.
    pub mse: f64,
    /// The mean absolute error.
    pub mae: f64,
    /// The mean squared error of the mean of the train values on the same entries; none where the model does
    /// not know it or they do not vary.
    pub mean_mse: Option<f64>,
    /// That of biases alone (a mean and a number per id, fitted without the tensor); none where the run has not come to its
    /// end, or is from before they were kept.
    pub biases_mse: Option<f64>,
    /// Whether the means are weighted, by the weights of the dataset's entries.
    pub weighted: bool,
    /// The entries in these means.
    pub entries: u64,
    /// Of these, the ones scored by what is known of their other ids, because an id has no train entries.
    pub fallback: u64,
    /// The entries left out, because the model does not know one of their ids and has no biases.
    pub unscored: u64,
    /// Of the scored ones, those whose time lies outside the bins and was taken as the nearest.
    pub outside_bins: u64,
    /// The share of the values that lie within the central intervals of 50, 80 and 95 % probability, where the model
    /// knows how sure it is.
    pub coverage: Option<[f64; 3]>,
}

impl Evaluation {
    /// The root of the mean squared error.
    pub fn rmse(&self) -> f64 {
        self.mse.sqrt()
    }

    /// The share of the values' variance about the mean of the train values that the model explains.
    pub fn r2(&self) -> Option<f64> {
        self.mean_mse.map(|mean_mse| r2(self.mse, mean_mse))
    }

    /// How much lower the RMSE is than that of biases alone, as a share of it.
    pub fn over_biases(&self) -> Option<f64> {
        over_biases(self.mse, self.biases_mse)
    }

    fn of(
        sums: &ResidualSums,
        mean_mse: Option<f64>,
        biases_mse: Option<f64>,
        weighted: bool,
        fallback: u64,
        outside_bins: u64,
    ) -> Self {
        Evaluation {
            mse: sums.mse().unwrap_or(0.0),
            mae: sums.mae().unwrap_or(0.0),
            mean_mse,
            biases_mse,
            weighted,
            entries: sums.scored,
            fallback,
            unscored: sums.unscored,
            outside_bins,
            coverage: None,
        }
    }
}

/// On a split of the dataset that the model was fitted to; an error where the split is empty.
pub fn evaluate_split(model: &Model, dataset: &Dataset, split: Split) -> Result<Evaluation> {
    let manifest = dataset.manifest();
    // A model that ids were folded into has more of them than the dataset.
    let fits = |(dim, mode): (u32, &crate::shard::Mode)| dim <= mode.dim;
    if manifest.modes.len() != model.about.modes.len()
        || !manifest.dims().into_iter().zip(&model.about.modes).all(fits)
    {
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
    let mean = model.about.told_mean().unwrap_or_else(|| manifest.told_mean());
    let (biases, clip, held) = (model.biases.as_ref(), model.about.clipping(), &model.about.held);
    let baseline = Baseline::of(model)?;
    let scoring = Scoring {
        biases,
        clip,
        held,
        mean: Some(mean),
        transform: model.about.transform(),
        baseline: baseline.as_ref(),
    };
    let dims: Vec<usize> = manifest.level_dims().iter().map(|&dim| dim as usize).collect();
    let exchange = Exchange::new(&stream, &dims)?;
    let scored = score(&stream, &exchange, &model.point, &manifest.mode_order, &unseen, &scoring)?;
    let mean_mse = varies(scored.of_mean.mse(), mean);
    let biases_mse = scored.of_biases.mse().filter(|_| baseline.is_some());
    let (weighted, fallback) = (manifest.weights.is_some(), scored.strangers);
    let found = Evaluation::of(&scored.all, mean_mse, biases_mse, weighted, fallback, 0);
    Ok(Evaluation { coverage: three(coverage(model, dataset, split, &NOMINAL)?), ..found })
}

fn three(covered: Option<Vec<f64>>) -> Option<[f64; 3]> {
    covered.and_then(|covered| covered.try_into().ok())
}

/// On the entries of a file with the columns of the model's modes and value.
pub fn evaluate_file(
    model: &Model,
    source: &Source,
    threads: usize,
    control: &Control,
) -> Result<Evaluation> {
    let ids = ModeIds::of_all(model)?;
    let baseline = Baseline::of(model)?;
    let [mut sums, mut of_mean, mut of_biases] = [ResidualSums::default(); 3];
    let (mut fallback, mut outside) = (0, 0);
    let answers = Places::new(model, &vec![false; ids.len()]);
    let mut places = vec![Place::Unknown; ids.len()];
    let mean = model.about.told_mean();
    let mut calibration = Calibration::new(model, &NOMINAL)?;
    let empty = read_entries(model, &ids, source, threads, control, |row| {
        places.iter_mut().zip(row.found).for_each(|(place, found)| *place = found.index().into());
        let prediction = answers.value(&places);
        if !answers.has_value(&places) {
            sums.unscored += 1;
            return Ok(());
        }
        fallback += u64::from(!prediction.known);
        outside += u64::from(row.found.iter().any(|found| matches!(found, Found::Nearest(_))));
        if let Some(calibration) = &mut calibration {
            // What cannot be kept lies beyond all intervals.
            let kept = model.about.transform().map(|transform| transform.apply(row.value));
            let kept = kept.map_or(row.value, |kept| kept.unwrap_or(f64::NEG_INFINITY));
            calibration.add(places.iter().copied(), kept);
        }
        let residual = prediction.value - row.value;
        sums.add_entry(residual, 1.0);
        if let Some(mean) = mean {
            of_mean.add_entry(mean - row.value, 1.0);
        }
        if let Some(baseline) = &baseline {
            let mut indices = [None; MAX_ORDER];
            indices.iter_mut().zip(row.found).for_each(|(index, found)| *index = found.index());
            of_biases.add_entry(baseline.at(&indices[..row.found.len()]) - row.value, 1.0);
        }
        Ok(())
    })?;
    say_empty(empty, control);
    let mean_mse = varies(of_mean.mse(), mean.unwrap_or(0.0));
    let coverage = three(calibration.and_then(Calibration::finish));
    let biases_mse = of_biases.mse().filter(|_| baseline.is_some());
    Ok(Evaluation { coverage, ..Evaluation::of(&sums, mean_mse, biases_mse, false, fallback, outside) })
}
