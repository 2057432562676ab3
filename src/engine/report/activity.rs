//! How often ids occur in train, and the error of held-out entries by that.

use crate::control::Control;
use crate::error::Result;
use crate::model::{Model, Place, Places};
use crate::objective::{has_learned, r2};
use crate::shard::{Dataset, Split};

/// Equal parts of the ids, by how many train entries they have.
pub const DECILES: usize = 10;

/// Errors on one split.
pub struct Activity {
    /// The split.
    pub split: Split,
    /// All entries that the model could score.
    pub total: Errors,
    /// The errors of the mean of the train values on the same.
    pub of_mean: Errors,
    /// Entries that it could not.
    pub unscored: u64,
    /// Per mode: errors by decile of activity, least active first, and the decile's range of train
    /// entries; none for modes with fewer than ten known ids.
    pub modes: Vec<Option<Vec<Decile>>>,
    /// Per mode, the train entries of every index.
    pub counts: Vec<Vec<u32>>,
}

/// The errors of a tenth of the ids, and the least and the most train entries that one of them has.
pub type Decile = (Errors, (u32, u32));

/// Sums of errors.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Errors {
    /// Of squares.
    pub squares: f64,
    /// Of weights: 1 each where entries have none.
    pub weight: f64,
}

impl Errors {
    fn add(&mut self, residual: f64, weight: f64) {
        self.squares += weight * residual * residual;
        self.weight += weight;
    }

    /// The root of the (weighted) mean square; `None` without entries.
    pub fn rmse(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| (self.squares / self.weight).sqrt())
    }
}

impl Activity {
    /// Whether the model says more than the mean of the train values.
    pub fn learned(&self) -> bool {
        self.of_mean.squares > 0.0 && has_learned(r2(self.total.squares, self.of_mean.squares))
    }
}

/// Reads train for the counts, and test (validation, train, where there is none that was held out) for the errors.
pub fn activity(model: &Model, datasets: &[Dataset], control: &Control) -> Result<Activity> {
    let order = model.point.order();
    let mut counts: Vec<Vec<u32>> = model.point.dims().into_iter().map(|dim| vec![0; dim]).collect();
    for dataset in datasets {
        control.check()?;
        // Nothing is learned from an entry without weight.
        dataset.for_each_weighted(Split::Train, |at, _, weight| {
            let one = u32::from(weight > 0.0);
            at.iter().zip(&mut counts).for_each(|(&index, counts)| counts[index as usize] += one);
        })?;
    }
    let deciles: Vec<Option<Vec<u8>>> = counts.iter().map(|counts| by_decile(counts)).collect();
    let has = |split: Split| datasets.iter().any(|dataset| dataset.manifest().split(split).entries > 0);
    // Entries that are part of the model say nothing of others.
    let held_out = |&split: &Split| has(split) && !(model.about.refit && split == Split::Validation);
    let split = [Split::Test, Split::Validation].into_iter().find(held_out);
    let split = split.unwrap_or(Split::Train);
    let (mut total, mut of_mean) = (Errors::default(), Errors::default());
    let mean = datasets.first().map_or(0.0, |dataset| dataset.manifest().told_mean());
    let mut unscored = 0;
    let mut sums = vec![[Errors::default(); DECILES]; order];
    let answers = Places::new(model, &vec![false; order]);
    let mut asked = vec![Place::Unknown; order];
    for dataset in datasets {
        control.check()?;
        dataset.for_each_weighted(split, |at, value, weight| {
            asked.iter_mut().zip(at).for_each(|(asked, &index)| *asked = Place::Index(index));
            let answer = answers.value(&asked);
            if !answers.has_value(&asked) {
                unscored += 1;
                return;
            }
            let value = dataset.manifest().told(value);
            let residual = answer.value - value;
            total.add(residual, weight);
            of_mean.add(mean - value, weight);
            for (mode, deciles) in deciles.iter().enumerate() {
                let decile = deciles.as_ref().map(|deciles| deciles[at[mode] as usize] as usize);
                if let Some(decile) = decile.filter(|&decile| decile < DECILES) {
                    sums[mode][decile].add(residual, weight);
                }
            }
        })?;
    }
    let modes = (0..order).map(|mode| {
        let deciles = deciles[mode].as_ref()?;
        let range = |decile: usize| {
            let of = deciles.iter().zip(&counts[mode]).filter(|(own, _)| usize::from(**own) == decile);
            of.fold((u32::MAX, 0), |(least, most), (_, &count)| (least.min(count), most.max(count)))
        };
        Some((0..DECILES).map(|decile| (sums[mode][decile], range(decile))).collect())
    });
    Ok(Activity { split, total, of_mean, unscored, modes: modes.collect(), counts })
}

/// The decile of every index; 255 for those without train entries.
fn by_decile(counts: &[u32]) -> Option<Vec<u8>> {
    let mut known: Vec<u32> = (0..counts.len() as u32).filter(|&index| counts[index as usize] > 0).collect();
    if known.len() < DECILES {
        return None;
    }
    known.sort_by_key(|&index| (counts[index as usize], index));
    let mut deciles = vec![255; counts.len()];
    for (place, &index) in known.iter().enumerate() {
        deciles[index as usize] = (place * DECILES / known.len()) as u8;
    }
    Some(deciles)
}
