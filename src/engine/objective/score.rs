//! How far a whole model, biases and range included, is from the entries of a split.

use super::remote_rows::RemoteRows;
use super::streamed::Stored;
use super::unseen::UnseenRows;
use crate::error::Result;
use crate::kernel::{self, PaddingBuffer, ResidualSums, Workspace};
use crate::manifold::Point;
use crate::model::{Baseline, Biases, Clip, value_of};
use crate::reduce::{Exchange, Travels, map_lanes};
use crate::stream::Stream;
use crate::transform::Transform;

/// What is done with the tensor's value before it is compared.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scoring<'a> {
    /// Added to it.
    pub biases: Option<&'a Biases>,
    /// The sum is taken into this range.
    pub clip: Option<Clip>,
    /// Modes whose factor is constant, so that no index of theirs is unknown to the tensor.
    pub held: &'a [bool],
    /// Where given, the errors of saying this of every entry are added up in the same pass: what a model must
    /// be better than to have learned something.
    pub mean: Option<f64>,
    /// Where given, it is undone before predictions and values are compared.
    pub transform: Option<Transform>,
    /// Where given, likewise: what a tensor must be better than to be worth its rows.
    pub baseline: Option<&'a Baseline>,
}

/// Errors over the entries of a split.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Scored {
    /// All entries that have a prediction.
    pub all: ResidualSums,
    /// Of these, the ones that biases alone have scored, because an index has no train entries.
    pub fallback: ResidualSums,
    /// Of all, the ones with an index that has no train entries: also those of modes that are held, where the tensor has its say.
    pub strangers: u64,
    /// The errors of [`Scoring::mean`] on all entries that have a prediction.
    pub of_mean: ResidualSums,
    /// Those of [`Scoring::baseline`].
    pub of_biases: ResidualSums,
}

impl Scored {
    fn sum(lanes: &[Scored]) -> Self {
        let mut total = Scored::default();
        for lane in lanes {
            total.all.add(&lane.all);
            total.fallback.add(&lane.fallback);
            total.strangers += lane.strangers;
            total.of_mean.add(&lane.of_mean);
            total.of_biases.add(&lane.of_biases);
        }
        total
    }

    /// Adds the errors of what stands beside the model.
    #[inline]
    fn add_beside(&mut self, scoring: &Scoring<'_>, indices: &[Option<u32>], value: f64, weight: f64) {
        if let Some(mean) = scoring.mean {
            self.of_mean.add_entry(mean - value, weight);
        }
        if let Some(baseline) = scoring.baseline {
            self.of_biases.add_entry(baseline.at(indices) - value, weight);
        }
    }

    /// The mean squared error over the entries whose indices all occur in train: the same entries
    /// for every model, so that models can be compared. `None` where there are none.
    pub fn known_mse(&self) -> Option<f64> {
        let weight = self.all.weight - self.fallback.weight;
        let known = self.all.scored > self.fallback.scored && weight > 0.0;
        known.then(|| (self.all.squares - self.fallback.squares) / weight)
    }

    /// The mean squared error over all entries that have a prediction.
    pub fn mse(&self) -> Option<f64> {
        self.all.mse()
    }
}

impl Travels for Scored {
    fn words(&self) -> Vec<u64> {
        let sums = [self.all.words(), self.fallback.words(), self.of_mean.words(), self.of_biases.words()];
        [sums.concat(), vec![self.strangers]].concat()
    }
    fn set(&mut self, words: &[u64]) {
        let each = words.len() / 4;
        self.all.set(&words[..each]);
        self.fallback.set(&words[each..2 * each]);
        self.of_mean.set(&words[2 * each..3 * each]);
        self.of_biases.set(&words[3 * each..4 * each]);
        self.strangers = words[4 * each];
    }
}

/// Errors of a tensor alone on the entries of a stream; entries with an unseen row are only counted.
pub fn residuals(
    stream: &Stream,
    exchange: &Exchange,
    point: &Point,
    mode_order: &[usize],
    unseen: &UnseenRows,
    packing: &mut PaddingBuffer,
) -> Result<ResidualSums> {
    let scoring = Scoring::default();
    Ok(score_tensor(stream, exchange, point, mode_order, unseen, packing, &scoring)?.all)
}

/// The same, with the errors of a mean and of biases alone where they are given.
fn score_tensor(
    stream: &Stream,
    exchange: &Exchange,
    point: &Point,
    mode_order: &[usize],
    unseen: &UnseenRows,
    packing: &mut PaddingBuffer,
    scoring: &Scoring<'_>,
) -> Result<Scored> {
    let stored = Stored::new(&point.core, mode_order);
    let mut room = RemoteRows::default();
    let padded = packing.point(stored.view(&room.of(&point.factors, mode_order, exchange)));
    let flags = unseen.view();
    let all_seen = flags.iter().all(Option::is_none);
    let lanes = map_lanes(stream, &Scored::default(), |lane| {
        let (mut sums, mut workspace) = (Scored::default(), Workspace::new());
        let mut indices = [None; crate::MAX_ORDER];
        stream.for_each(lane, |block| {
            if all_seen {
                kernel::residual(block, &padded, &mut sums.all, &mut workspace);
            } else {
                kernel::residual_of_seen(block, padded.factors(), &flags, &mut sums.all, &mut workspace);
            }
            if scoring.mean.is_none() && scoring.baseline.is_none() {
                return Ok(());
            }
            block.for_each_weighted(|levels, value, weight| {
                let is_seen = |(flags, &index): (&Option<&[bool]>, &u32)| {
                    !flags.is_some_and(|flags| flags[index as usize])
                };
                if flags.iter().zip(levels).all(is_seen) {
                    levels.iter().zip(mode_order).for_each(|(&index, &mode)| indices[mode] = Some(index));
                    sums.add_beside(scoring, &indices[..mode_order.len()], value, weight);
                }
            });
            Ok(())
        })?;
        Ok(sums)
    })?;
    Ok(Scored::sum(&lanes))
}

/// A mean square about a mean, where it is more than the rounding of that.
pub fn varies(mean_mse: Option<f64>, mean: f64) -> Option<f64> {
    mean_mse.filter(|mse| mse.sqrt() > 1e-12 * mean.abs())
}

/// Whether a model that explains this share of the variance has learned anything: less would come by chance.
pub fn has_learned(r2: f64) -> bool {
    r2 > 1e-4
}

/// 1 - mse / mean_mse: the share of the variance about a mean that a model explains.
pub fn r2(mse: f64, mean_mse: f64) -> f64 {
    1.0 - mse / mean_mse
}

/// A low-rank part that makes the RMSE of biases alone smaller by a smaller share than this is hardly worth its rows.
pub const LITTLE: f64 = 0.005;

/// How much lower an RMSE is than that of biases alone, as a share of it; none where they leave nothing over.
pub fn over_biases(mse: f64, biases_mse: Option<f64>) -> Option<f64> {
    biases_mse.filter(|&biases| biases > 0.0).map(|biases| 1.0 - (mse / biases).sqrt())
}

/// The row of a mode at an entry's indices, of rows in storage order.
fn row_of<'r>(
    point: &Point,
    mode_order: &[usize],
    rows: &[&'r [f64]],
) -> impl Fn(usize, &[u32]) -> &'r [f64] + Sync + use<'r> {
    let mut of_mode = vec![(0, 0, <&[f64]>::default()); mode_order.len()];
    for (level, &mode) in mode_order.iter().enumerate() {
        of_mode[mode] = (level, point.ranks()[mode], rows[level]);
    }
    move |mode, levels| {
        let (level, rank, rows) = of_mode[mode];
        &rows[levels[level] as usize * rank..][..rank]
    }
}

/// Errors of a model on the entries of a stream; `exchange` is the stream's. An entry with an index that never occurs in train
/// is scored by the biases of its other indices; without biases it is counted as unscored.
pub fn score(
    stream: &Stream,
    exchange: &Exchange,
    point: &Point,
    mode_order: &[usize],
    unseen: &UnseenRows,
    scoring: &Scoring<'_>,
) -> Result<Scored> {
    let sparse = point.core.places().is_some();
    if scoring.biases.is_none()
        && scoring.clip.is_none()
        && scoring.transform.is_none()
        && !scoring.held.contains(&true)
        && !sparse
    {
        let packing = &mut PaddingBuffer::new();
        return score_tensor(stream, exchange, point, mode_order, unseen, packing, scoring);
    }
    let mut room = RemoteRows::default();
    let rows = room.of(&point.factors, mode_order, exchange);
    let stored = (!sparse).then(|| Stored::new(&point.core, mode_order));
    let view = stored.as_ref().map(|stored| stored.view(&rows));
    let row_of = row_of(point, mode_order, &rows);
    let flags = unseen.view();
    let is_held = |mode: usize| scoring.held.get(mode).copied().unwrap_or(false);
    let lanes = map_lanes(stream, &Scored::default(), |lane| {
        let (mut sums, mut workspace) = (Scored::default(), Workspace::new());
        let mut indices = [None; crate::MAX_ORDER];
        stream.for_each(lane, |block| {
            let mut each = |levels: &[u32], value: f64, weight: f64, tensor: f64| {
                let (mut known, mut met) = (true, true);
                for ((&index, &mode), flags) in levels.iter().zip(mode_order).zip(&flags) {
                    let seen = !flags.is_some_and(|flags| flags[index as usize]);
                    indices[mode] = seen.then_some(index);
                    known &= seen || is_held(mode);
                    met &= seen;
                }
                let biases = scoring.biases.map(|biases| biases.at(&indices[..mode_order.len()]));
                let Some(prediction) = value_of(biases, known.then_some(tensor), None) else {
                    sums.all.unscored += 1;
                    return;
                };
                let prediction = scoring.clip.map_or(prediction, |clip| clip.of(prediction));
                let own = |x: f64| scoring.transform.map_or(x, |transform| transform.undo(x));
                let (prediction, value) = (own(prediction), own(value));
                sums.all.add_entry(prediction - value, weight);
                sums.add_beside(scoring, &indices[..mode_order.len()], value, weight);
                sums.strangers += u64::from(!met);
                if !known {
                    sums.fallback.add_entry(prediction - value, weight);
                }
            };
            match &view {
                Some(view) => kernel::for_each_prediction(block, view, &mut workspace, each),
                None => block.for_each_weighted(|levels, value, weight| {
                    let tensor = point.core.sparse_value(|mode| row_of(mode, levels));
                    each(levels, value, weight, tensor);
                }),
            }
            Ok(())
        })?;
        Ok(sums)
    })?;
    Ok(Scored::sum(&lanes))
}
