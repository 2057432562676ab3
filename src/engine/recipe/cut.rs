//! A rank that is left to the data: one that is too high, and cut where the spectrum of the core shows which one is not.
//!
//! Data that are low-rank and have a mean are fitted by steps from chunks within ten passes, whatever the rank, as long as there are
//! several entries per degree of freedom. Columns that are too many live on what no entry tells: their share of the model's mean square
//! is about the error on validation entries beyond that on train entries. So a few iterations after the plateau the singular
//! values of the core fall from what the data ask for to far less, and the fit goes on without the rest. Noisy data leave more
//! than biases would after the first few epochs, and sweeps follow.

use super::missing::UNBIASED;
use super::settings::rating_range;
use super::spectrum::{are_possible, narrowed};
use super::trainer::Trainer;
use crate::bayes::FEW_MODES;
use crate::control::Control;
use crate::error::Result;
use crate::manifold::{Point, dimension};
use crate::objective::main_effects;
use crate::rows::Square;
use crate::shard::Manifest;
use crate::stream::Stream;
use crate::units;
use serde::{Deserialize, Serialize};

// What other values do: docs/thresholds.md.
/// Of values that look like ratings, rows by themselves have to explain this share of the variance.
const CERTAIN: f64 = 0.6;
/// Shares of modes are added as if they did not overlap, and may come to more than all: this is left at least.
const OVERLAP: f64 = 0.05;
/// Validation entries that it takes to tell of a rank that may be too high.
pub(super) const FEWEST_JUDGES: u64 = 100;
/// Entries per degree of freedom of the rank that is fitted first: the highest one that has as many.
const PER_DIMENSION: f64 = 8.0;
/// Of three modes fewer do, whose missing columns are found again.
const PER_DIMENSION_OF_THREE: f64 = 5.0;
/// It is raised to the highest one with at least this share of that, where the fit comes to an end and misses little, but not
/// nothing.
const RAISED: f64 = 0.5;
/// Where it was stuck, the next start is of the highest rank with so many times as many.
const LOWERED: f64 = 1.5;
/// Whether it was stuck is told by how much noise it meets, where it has so many degrees of freedom per entry.
const TELLS: f64 = 0.05;
/// Columns are cut that have together at most so many times what validation misses beyond train, less where the rank was cut before, and only where the next one has at
/// least so many times as much as the largest of them.
const CUT: f64 = 1.0;
const CUT_AGAIN: f64 = 0.5;
const CLEAR: f64 = 5.0;
const PLAIN: f64 = 100.0;
/// Of noise so many columns or more are alike: the largest is at most so many times the one in the middle, and what it has less
/// than the last column that stays is at least this factor.
const TAIL: usize = 4;
const ALIKE: f64 = 2.0;
const KNEE: f64 = 1.4;
/// And only where validation misses at most this share of what biases would: on a plateau, columns that are needed are as small as
/// those that are not. Or where the fit ends.
pub(super) const BEHIND: f64 = 1e-3;
/// Or where validation misses so many times as much as train, or has not gained for so many iterations: columns that are too many meet
/// train entries, and nothing else.
const OVERFIT: f64 = 8.0;
const RESTS: usize = 3;
/// After so many iterations, or where two leave more than this share of the cost, the fit has to be better than before the cut, or the
/// cut is taken back. The next one waits for an error that is smaller by this factor.
const TRIAL: usize = 8;
const FLAT: f64 = 0.98;
const LESS: f64 = 0.1;

/// What becomes of a rank that may be too high; it goes into checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cut {
    /// It is the one that was asked for.
    #[default]
    No,
    /// It is cut as soon as the spectrum is clear,
    Wanted {
        /// and the validation error at most this, or the fit at its end.
        below: f64,
        /// What a cut came to that was taken back: there is no other one at the end.
        after: Option<f64>,
    },
    /// It was cut.
    Tried {
        /// At this iteration,
        iteration: usize,
        /// with this validation error before.
        error: f64,
    },
    /// It was cut, and that was right.
    Done {
        /// There is another look where the validation error is at most this; 0 for none.
        below: f64,
    },
}

impl Cut {
    /// Where biases would leave this error.
    pub(super) fn beside(biases_mse: f64) -> Self {
        Cut::Wanted { below: BEHIND * biases_mse, after: None }
    }

    /// Whether a rank that was cut has proven right.
    pub(super) fn is_done(&self) -> bool {
        matches!(self, Cut::Done { .. })
    }

    /// Whether there is nothing to cut.
    pub fn is_no(&self) -> bool {
        *self == Cut::No
    }
}

/// What comes before sweeps where the rank is left to the data.
pub(super) enum LowRank {
    /// Nothing: noise may be all that there is beside biases, or there is too little to tell.
    Hardly,
    /// Components that are found one by one: rows by themselves explain hardly anything.
    Spectral,
    /// A rank that may be too high.
    AtMost {
        /// The ranks.
        ranks: Vec<usize>,
        /// What biases would leave, as a sample tells.
        biases_mse: f64,
    },
}

impl LowRank {
    /// What a few blocks of the data tell; `bound` are the highest ranks.
    pub(super) fn look(
        manifest: &Manifest,
        train: &Stream,
        bound: &[usize],
        control: &Control,
    ) -> Result<Self> {
        let Some(shares) = main_effects(manifest, train)? else { return Ok(LowRank::Hardly) };
        let told: Vec<String> = shares.iter().map(|share| format!("{:.1} %", 100.0 * share)).collect();
        control.detail(format!("a number per row explains, mode by mode: {}", told.join(", ")));
        let explained: f64 = shares.iter().sum();
        if explained <= UNBIASED {
            return Ok(LowRank::Spectral);
        }
        // A rank that is too high may meet all but a few cells that nobody has looked at.
        if manifest.validation.entries < FEWEST_JUDGES {
            return Ok(LowRank::Hardly);
        }
        // Of ratings, rows explain a third, and a few passes more would be many.
        if rating_range(manifest).is_some() && explained < CERTAIN {
            return Ok(LowRank::Hardly);
        }
        let biases_mse = (1.0 - explained).max(OVERLAP) * manifest.variance();
        let ranks = highest_ranks(manifest, bound, 1.0);
        Ok(ranks.map_or(LowRank::Hardly, |ranks| LowRank::AtMost { ranks, biases_mse }))
    }
}

/// The highest ranks up to `bound`, the same for all modes as far as that goes, that have entries enough, or a share of these.
fn highest_ranks(manifest: &Manifest, bound: &[usize], share: f64) -> Option<Vec<usize>> {
    let most = bound.iter().copied().max().unwrap_or(0);
    let at = |rank: usize| -> Vec<usize> { bound.iter().map(|&bound| bound.min(rank)).collect() };
    let enough = if bound.len() > FEW_MODES { PER_DIMENSION } else { PER_DIMENSION_OF_THREE };
    let has_enough = |ranks: &Vec<usize>| {
        let per_dimension = manifest.train.entries as f64 / dimension(manifest.dims(), ranks);
        per_dimension >= share * enough
    };
    (1..=most).rev().map(at).find(has_enough)
}

impl Trainer {
    /// Cuts a rank that is too high, or takes a cut back: `true` where the point is another one. `over` where the fit has come
    /// to its end.
    pub(super) fn look_at_rank(&mut self, over: bool) -> Result<bool> {
        let Some(error) = self.state.last.validation_mse else { return Ok(false) };
        match self.extra.plan.growth.cut {
            Cut::Wanted { below, after }
                if error <= below
                    || (over || self.meets_too_much(error))
                        && after.is_none()
                        && self.extra.plan.promises() =>
            {
                let Some((ranks, rotations)) = self.clear_ranks(error, CUT) else { return Ok(false) };
                // A rank that was given is too high by more than a weak column.
                let lost: usize =
                    self.state.point.ranks().iter().zip(&ranks).map(|(now, rank)| now - rank).sum();
                if self.extra.plan.growth.given && lost < ranks.len() {
                    return Ok(false);
                }
                self.cut_to(&ranks, &rotations, error)
            }
            // Less noise shows more: another look where the error is much smaller, or the fit flat.
            Cut::Done { below }
                if error <= below || below > 0.0 && (over || self.extra.plan.leaves_more(2, FLAT)) =>
            {
                let below = if error <= below { LESS * error } else { 0.0 };
                self.extra.plan.growth.cut = Cut::Done { below };
                match self.clear_ranks(error, CUT_AGAIN) {
                    Some((ranks, rotations)) => self.cut_to(&ranks, &rotations, error),
                    None => Ok(false),
                }
            }
            Cut::Tried { iteration, error: before } => {
                let age = self.state.last.iteration - iteration;
                let shown = error <= LESS * before || age >= TRIAL;
                if !(over || shown || self.extra.plan.leaves_more(2, FLAT)) {
                    return Ok(false);
                }
                self.extra.plan.growth.cut = Cut::Done { below: error };
                if error <= before {
                    return self.look_at_rank(over);
                }
                // What the cut has taken away by mistake is looked for first.
                Ok(self.grow_again()? || self.go_back_to_best()?)
            }
            _ => Ok(false),
        }
    }

    fn cut_to(&mut self, ranks: &[usize], rotations: &[Square], error: f64) -> Result<bool> {
        let told = units::ranks(ranks);
        self.fitting.terms.control.say(format!("the fit shows rank {told}, which is tried"));
        let point = narrowed(&self.state.point.rotated(rotations), ranks);
        let iteration = self.state.last.iteration;
        self.extra.plan.growth.cut = Cut::Tried { iteration, error };
        self.change_rank(point)?;
        Ok(true)
    }

    /// Goes on from the best fit by validation where that has another rank and is better: `true` where it is.
    pub(super) fn go_back_to_best(&mut self) -> Result<bool> {
        let error = self.state.last.validation_mse.unwrap_or(f64::INFINITY);
        let ranks = self.state.point.ranks();
        let best = self.state.best.as_ref();
        let Some(best) = best.filter(|best| best.validation_mse < error && best.point.ranks() != ranks)
        else {
            return Ok(false);
        };
        self.extra.plan.growth.cut = Cut::Wanted { below: LESS * best.validation_mse, after: Some(error) };
        let told = units::ranks(best.point.ranks());
        self.fitting.terms.control.say(format!("the fit of rank {told} was better, and is gone on with"));
        let point = best.point.clone();
        self.change_rank(point)?;
        Ok(true)
    }

    /// Looks what is to be done where the fit has ended: `true` where it goes on from another point.
    pub(super) fn look_at_end(&mut self) -> Result<bool> {
        let error = self.state.last.validation_mse.unwrap_or(f64::INFINITY);
        match self.extra.plan.growth.cut {
            Cut::No => return Ok(false),
            // It was right after all, and its model is the best one.
            Cut::Wanted { after: Some(after), .. } if error >= after => return Ok(false),
            _ => {}
        }
        let anew = self.is_on_plateau() && self.begin_anew()?;
        Ok(anew || self.look_at_rank(true)? || self.grow_again()? || self.begin_anew()?)
    }

    /// Whether a rank that is lower than it could be, in every mode, is the best one, by a cut that was kept or should have been: what
    /// is left is noise then.
    pub(super) fn has_shown_rank(&self) -> bool {
        let (terms, plan) = (&self.fitting.terms, &self.extra.plan);
        let Some(best) = &self.state.best else { return false };
        let (ranks, is_present) = (best.point.ranks(), best.point.ranks() == plan.stage.ranks);
        let cut = match plan.growth.cut {
            Cut::Done { .. } => is_present,
            Cut::Wanted { after, .. } => after.is_some() && !is_present,
            _ => false,
        };
        let most = highest_ranks(&terms.manifest, &terms.grown, 1.0);
        cut && most.is_some_and(|most| ranks.iter().zip(most).all(|(now, most)| *now < most))
    }

    /// Whether columns that are too many meet train entries alone.
    fn meets_too_much(&self, error: f64) -> bool {
        let last = &self.state.last;
        let rests = self.extra.plan.is_stale(last.iteration, RESTS);
        self.state.stochastic.is_none() && (rests || error > OVERFIT * last.train_mse)
    }

    /// Whether columns have not come to life: these would meet some of the noise, if that is what is left. With p degrees of freedom and N
    /// entries, validation misses (1 + p / N) / (1 - p / N) times as much as train then.
    fn is_on_plateau(&self) -> bool {
        let (last, manifest) = (&self.state.last, &self.fitting.terms.manifest);
        let per_entry =
            dimension(manifest.dims(), &self.extra.plan.stage.ranks) / manifest.train.entries as f64;
        let wanted = matches!(self.extra.plan.growth.cut, Cut::Wanted { .. });
        wanted
            && per_entry > TELLS
            && last.validation_mse.is_some_and(|mse| mse < (1.0 + per_entry) * last.train_mse)
    }

    /// Begins anew, once, where the fit explains much of what biases leave, but not all: with a higher rank, or with a lower one where
    /// it was stuck. `true` where there is one.
    fn begin_anew(&mut self) -> Result<bool> {
        let (terms, plan) = (&self.fitting.terms, &self.extra.plan);
        let tried = plan.growth.since > 0 || plan.growth.selective || plan.growth.given;
        if tried || !plan.shows() || plan.is_behind() || plan.leaves_nothing(terms.variance) {
            return Ok(false);
        }
        let at = |share| highest_ranks(&terms.manifest, &terms.grown, share);
        let (Some(first), Some(raised), lowered) = (at(1.0), at(RAISED), at(LOWERED)) else {
            return Ok(false);
        };
        let now = &plan.stage.ranks;
        // A mode whose rank is lower than it could be has the right one, unless all of them are much lower: the fit was stuck.
        let short = (0..now.len()).any(|mode| now[mode] == first[mode] && first[mode] < raised[mode]);
        let much_lower = |ranks: &Vec<usize>| now.iter().zip(ranks).all(|(now, rank)| now < rank);
        let ranks = match short || self.is_on_plateau() {
            true => Some(raised),
            false => lowered.filter(much_lower),
        };
        let Some(ranks) = ranks else { return Ok(false) };
        let (from, to) = (units::ranks(&plan.stage.ranks), units::ranks(&ranks));
        terms.control.say(format!(
            "the fit of rank {from} has come to its end: another start, of rank {to}, is tried"
        ));
        let seed = terms.seed.wrapping_add(1);
        let point = self.fitting.random_start(&ranks, seed)?;
        self.change_rank(point)?;
        self.begin_with_chunks(seed);
        let (growth, biases_mse) = (&mut self.extra.plan.growth, self.extra.plan.biases_mse);
        growth.since = self.state.last.iteration.max(1);
        growth.cut = Cut::beside(biases_mse.unwrap_or(0.0));
        Ok(true)
    }

    /// Goes on from a point of other ranks, which has its own time to improve.
    fn change_rank(&mut self, point: Point) -> Result<()> {
        self.extra.plan.best = None;
        self.enter_point(point)
    }

    /// The ranks that the spectrum of the core shows, where it does and some are lower than now; and the rotations that
    /// put the largest singular values first.
    fn clear_ranks(&self, error: f64, share: f64) -> Option<(Vec<usize>, Vec<Square>)> {
        let (core, last) = (&self.state.point.core, &self.state.last);
        let missed = share * (error - last.train_mse) / self.fitting.terms.manifest.mean_square();
        if missed.is_nan() || missed <= 0.0 {
            return None;
        }
        let (mut ranks, mut rotations) = (Vec::new(), Vec::new());
        for (mode, &rank) in core.ranks().iter().enumerate() {
            let (values, vectors) = core.unfolding_gram(core, mode).symmetric_eigen()?;
            let all: f64 = values.iter().sum();
            let shares: Vec<f64> = values.iter().rev().map(|value| value / all).collect();
            let kept = last_that_stays(&shares, missed)?;
            ranks.push(kept);
            rotations.push(Square::from_fn(rank, |i, j| vectors[(i, rank - 1 - j)]));
        }
        (are_possible(&ranks) && ranks != core.ranks()).then_some((ranks, rotations))
    }
}

/// How many of these shares, the largest first, are not among those that may go: where they fall most, which has to be by much, or, if
/// that are more and it is not plain, those behind which all are alike, as those of noise are. All of them where even the last is too
/// large to go.
fn last_that_stays(shares: &[f64], missed: f64) -> Option<usize> {
    let mut rest = 0.0;
    let (mut most, mut noise): (Option<(f64, usize)>, Option<usize>) = (None, None);
    for kept in (1..shares.len()).rev() {
        rest += shares[kept];
        if rest > missed {
            break;
        }
        let fall = shares[kept - 1] / shares[kept].max(f64::MIN_POSITIVE);
        if most.is_none_or(|(other, _)| fall > other) {
            most = Some((fall, kept));
        }
        let tail = &shares[kept..];
        if noise.is_none() && tail.len() >= TAIL && fall >= KNEE && tail[0] <= ALIKE * tail[tail.len() / 2] {
            noise = Some(kept);
        }
    }
    match most {
        None => Some(shares.len()),
        // Behind the mean that is by far the largest, everything falls: that says nothing.
        Some((fall, kept)) if fall >= PLAIN && kept > 1 => Some(kept),
        Some((fall, kept)) => Some(kept).filter(|_| fall >= CLEAR).max(noise),
    }
}

#[cfg(test)]
mod tests {
    use super::last_that_stays;

    /// Shares as they were seen: what stays depends on noise, not on the mean, whose share is by far the largest.
    #[test]
    fn noise_is_told_from_what_stays() {
        let noisy =
            [1.0, 5.0e-4, 4.0e-4, 1.1e-4, 9.9e-5, 8.1e-5, 7.9e-5, 7.5e-5, 6.0e-5, 5.6e-5, 4.8e-5, 4.6e-5];
        assert_eq!(last_that_stays(&noisy, 1.3e-3), Some(3));
        let nothing_else = [1.0, 1.1e-4, 9.9e-5, 8.1e-5, 7.9e-5, 7.5e-5, 6.0e-5, 5.6e-5];
        assert_eq!(last_that_stays(&nothing_else, 1.3e-3), Some(1));
        let exact = [1.0, 5.8e-5, 3.6e-5, 2.9e-5, 1.7e-5, 1.0e-5, 6.3e-6, 6.6e-8, 4.7e-8];
        assert_eq!(last_that_stays(&exact, 4.8e-7), Some(7));
        let needed = [1.0, 0.5, 0.3, 0.2];
        assert_eq!(last_that_stays(&needed, 1e-3), Some(4));
        let unclear = [1.0, 0.5, 0.2, 0.1, 0.05];
        assert_eq!(last_that_stays(&unclear, 1.0), None);
    }
}
