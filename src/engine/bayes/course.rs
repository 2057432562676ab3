//! What follows a sweep: another one, components for what is left over, or the end.

use super::cells::pairs_of;
use super::grow::Evidence;
use super::sweeps::{Data, Fit, Posterior};
use crate::error::Result;
use crate::stream::Stream;
use serde::{Deserialize, Serialize};

// What other values do: docs/thresholds.md.
/// A fit has settled when a sweep lowers the validation MSE by less than this share: for good, or as far as it
/// takes to look at what is left over. With 2e-4 instead of 4e-4 for good, MovieLens-100K takes 20 to 29 passes instead of 19 to 25 (splits
/// 1 to 8) and readings of stations 23 to 31 instead of 20 to 24, and errors are at most 0.06 % lower, mostly not at all; 6e-4 takes
/// two passes less and costs up to 0.07 %.
const SETTLED: f64 = 4e-4;
const NEARLY: f64 = 1e-3;
/// Not before so many sweeps: the first ones are made from parts of the data.
const FEWEST: usize = 5;
/// Sweeps after which a trial must be better than what it started from.
const TRIAL: usize = 3;
/// Sweeps after which the next change is looked for at the latest.
const LONGEST_TRIAL: usize = 10;
/// A trial must lower the validation MSE by this share to be kept.
const WORTH: f64 = 2e-4;
/// Components of all modes are added again where they have lowered it by this share.
const MUCH: f64 = 0.02;
/// But not more often than this: the core has the product of all ranks as its size.
const MOST_ALL: usize = 2;
/// Components of a further pair of modes, and of all modes together.
const PAIR_COMPONENTS: usize = 8;
const ALL_COMPONENTS: usize = 16;
/// Of more modes than this there are so many pairs that not all are added at once, but those that are at least this
/// share of the one that residuals ask for most; and again, as long as that helps, so often.
pub const FEW_MODES: usize = 3;
const STRONG: f64 = 0.25;
/// Numbers of cells are tried before components of further pairs, which cost more: where entries are many they tell all.
const FIRST: f64 = 10.0;
const MOST_PAIR_ROUNDS: usize = 4;
/// Components of further pairs and of all modes are for data of at most so many rows: their number is not known
/// beforehand, and memory is asked for as if all of them were needed, so many of a mode.
pub(super) const MOST_ROWS_TO_GROW: u64 = 30_000;
pub(super) fn most_more(order: usize) -> usize {
    PAIR_COMPONENTS * (order - 1) + if order == FEW_MODES { MOST_ALL * ALL_COMPONENTS } else { 0 }
}
/// No fit takes more sweeps, nor more than this after its last trial.
const MOST: usize = 100;
const MOST_AFTER_TRIALS: usize = 8;
/// Components are dropped where validation is better without them by this share.
const WORTH_DROPPING: f64 = 1e-3;
/// And as many more are tried where the least quarter of them lowers its MSE by this share: what comes behind them may do
/// as much.
const WORTH_MORE: f64 = 2e-3;

/// A change of what values are made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// More components of the first pair.
    More,
    /// Fewer of them.
    Fewer,
    /// Components of the first pair change with the rows of this level.
    Extend(usize),
    /// Components of further pairs.
    Pairs,
    /// A number of its own for every cell of two modes.
    Cells,
    /// Components of all modes together.
    All,
}

/// What was tried, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The change; none for the first pair alone.
    pub change: Option<Change>,
    /// Its sweeps.
    pub sweeps: usize,
    /// Its best validation MSE.
    pub validation_mse: f64,
    /// Whether it was kept.
    pub kept: bool,
}

/// Where a fit stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Course {
    /// What is being tried, if anything.
    change: Option<Change>,
    /// Sweeps of it, its newest and its best validation MSE.
    sweeps: usize,
    last: Option<f64>,
    best: Option<f64>,
    /// The validation MSE of what it started from.
    before: Option<f64>,
    /// What is left to look at.
    left: Vec<Change>,
    /// Whether a further pair was kept.
    paired: bool,
    /// Whether it was looked whether fewer components would do.
    #[serde(default)]
    trimmed: bool,
    /// Sweeps since nothing was left to try.
    #[serde(default)]
    after: usize,
    /// What was tried.
    pub tried: Vec<Trial>,
    /// Whether nothing is left.
    pub done: bool,
    /// Whether the last sweep has its turn, in which validation entries are fitted to as well.
    #[serde(default)]
    refits: bool,
    /// Sweeps that count as made where another fit was the beginning.
    #[serde(default)]
    given: usize,
    /// Why the rank is what it is, until somebody asks.
    #[serde(skip)]
    why: Option<String>,
}

/// What the course of a fit depends on, beside its data.
#[derive(Clone, Copy)]
pub struct CourseLimits<'a> {
    /// The highest rank of every mode, where the user has given it; of more than three modes the most components of any
    /// pair.
    pub ranks: Option<&'a [usize]>,
    /// The most components of the first pair.
    pub most: usize,
    /// Seeds new rows.
    pub seed: u64,
}

impl Course {
    /// Of a fit that begins; whether there is room for components of further pairs and of all modes.
    pub fn new(order: usize, pair: [usize; 2], further: bool) -> Self {
        let mut left = vec![Change::More];
        if order > 2 {
            left.extend([Change::All, Change::Pairs].into_iter().filter(|_| further));
            left.extend((order > FEW_MODES).then_some(Change::Cells));
            left.extend(
                (0..order).rev().filter(|level| !pair.contains(level) && *level > 0).map(Change::Extend),
            );
        }
        Course {
            change: None,
            sweeps: 0,
            last: None,
            best: None,
            before: None,
            left,
            paired: false,
            trimmed: false,
            after: 0,
            tried: Vec::new(),
            done: false,
            refits: false,
            given: 0,
            why: None,
        }
    }

    /// Why the rank is what it is, where that was decided since this was asked last.
    pub fn take_why(&mut self) -> Option<String> {
        self.why.take()
    }

    /// Of a fit whose components are those of another, which had its trials: it only has to settle.
    pub fn settling(order: usize, pair: [usize; 2]) -> Self {
        let given = FEWEST - 2;
        Course { sweeps: given, given, left: Vec::new(), ..Course::new(order, pair, false) }
    }

    /// Whether the sweep that comes, or is on its way, is the last one, in which validation entries are fitted to as well.
    pub fn refits(&self) -> bool {
        self.refits
    }

    /// The validation MSE of the fit, as it is or as it was before that sweep.
    pub fn newest(&self) -> Option<f64> {
        self.last
    }

    /// Lets that sweep follow where nothing is left to decide: if the fit as it stands is nearly as good as the best one, and the
    /// entries can be gone through together.
    pub fn may_refit(&mut self, best: f64, data: &Data<'_>, validation: &Stream) -> bool {
        let good = self.last.is_some_and(|mse| mse <= best * (1.0 + NEARLY));
        self.refits = good && data.slices.can_join(validation);
        self.refits
    }

    /// What is being tried, if anything.
    pub fn change(&self) -> Option<&Change> {
        self.change.as_ref()
    }

    /// Takes note of a sweep, and changes the fit where it is time to. `kept` is what a trial may go back to. Returns how many passes
    /// a change took.
    pub fn advance(
        &mut self,
        fit: &mut Fit,
        data: &Data<'_>,
        kept: &mut Option<Box<Posterior>>,
        validation: &Stream,
        mse: f64,
        limits: CourseLimits<'_>,
    ) -> Result<usize> {
        self.sweeps += 1;
        let gain = self.last.map_or(1.0, |last| 1.0 - mse / last);
        self.last = Some(mse);
        self.best = Some(self.best.map_or(mse, |best| best.min(mse)));
        let best = self.best.unwrap_or(mse);
        if !self.trimmed && self.tried.is_empty() && self.sweeps >= FEWEST && gain < NEARLY {
            self.trimmed = true;
            // What tells nothing of two modes may tell of a third. Where the rank is left to the data, components of further
            // pairs and of all modes make up for it; where it is given there may be no room for these.
            let may_drop = limits.ranks.is_none() || fit.posterior.levels.len() == 2;
            let before = may_drop.then(|| Box::new(fit.posterior.clone()));
            if may_drop && let Some((left, gain)) = fit.trim(validation, WORTH_DROPPING)? {
                self.left.retain(|change| *change != Change::More);
                let (percent, plural) = (100.0 * gain, if left == 1 { "" } else { "s" });
                self.why = Some(format!(
                    "{left} component{plural}: validation is {percent:.1} % better without the others"
                ));
                // Rows that were fitted without the others may say otherwise.
                let first = self.trial(best);
                self.tried.push(first);
                *kept = before;
                (self.change, self.sweeps, self.best) = (Some(Change::Fewer), 0, None);
                (self.last, self.before) = (None, Some(best));
                return Ok(0);
            }
        }
        // Fewer components need not be better, but as good.
        let worth = if self.change == Some(Change::Fewer) { -WORTH } else { WORTH };
        let helps = self.before.is_none_or(|before| best < before * (1.0 - worth));
        let enough = if self.left.is_empty() { SETTLED } else { NEARLY };
        let fewest = if self.change.is_some() { TRIAL } else { FEWEST };
        self.after += usize::from(self.left.is_empty() && self.change.is_none() && self.tried.len() > 1);
        let late = self.change.is_some() && (!helps || self.sweeps >= LONGEST_TRIAL)
            || self.after >= MOST_AFTER_TRIALS;
        let over = self.sweeps >= fewest && (gain < enough || late);
        if !over && fit.posterior.sweep < MOST {
            return Ok(0);
        }
        let trial = self.change.is_some();
        // What follows the last trial is the same model, fitted to its end.
        if trial || self.tried.is_empty() {
            let trial = self.trial(best);
            self.tried.push(Trial { kept: helps, ..trial });
        }
        if trial && !helps {
            if let Some(before) = kept.take() {
                let sweep = fit.posterior.sweep;
                fit.posterior = *before;
                // Sweeps are counted on: how often rows are fitted depends on the number.
                fit.posterior.sweep = sweep;
            }
            self.last = self.before;
        } else {
            let change = self.tried.last().filter(|_| trial).and_then(|tried| tried.change.clone());
            self.paired |= change == Some(Change::Pairs);
            let much = self.before.is_some_and(|before| best < before * (1.0 - MUCH));
            let order = fit.posterior.levels.len();
            let count =
                |of: &Change| self.tried.iter().filter(|tried| tried.change.as_ref() == Some(of)).count();
            // What has helped may help again: more components change with a mode than could be told at first.
            self.left.extend(change.filter(|change| match change {
                Change::More | Change::Extend(_) => true,
                Change::Pairs => order > FEW_MODES && count(&Change::Pairs) < MOST_PAIR_ROUNDS,
                Change::Cells | Change::Fewer => false,
                Change::All => much && count(&Change::All) < MOST_ALL,
            }));
            self.before = Some(best);
        }
        *kept = None;
        let settled = gain < SETTLED || self.after >= MOST_AFTER_TRIALS;
        self.next(fit, data, kept, validation, limits, settled)
    }

    /// The change that residuals ask for most; the end where there is none and the fit has settled.
    fn next(
        &mut self,
        fit: &mut Fit,
        data: &Data<'_>,
        kept: &mut Option<Box<Posterior>>,
        validation: &Stream,
        limits: CourseLimits<'_>,
        settled: bool,
    ) -> Result<usize> {
        let none_left = self.left.is_empty();
        // What looks and changes take has the room of the sums.
        data.slices.forget();
        let before = Box::new(fit.posterior.clone());
        if !none_left && fit.posterior.sweep < MOST {
            fit.turn()?;
            let mut most: Option<(f64, usize, Asked)> = None;
            for (place, change) in self.left.iter().enumerate() {
                let asked = self.asked(fit, validation, change, limits)?;
                if let Some((share, asked)) =
                    asked.filter(|(share, _)| most.as_ref().is_none_or(|most| *share > most.0))
                {
                    most = Some((share, place, asked));
                }
            }
            if let Some((_, place, asked)) = most {
                if let Asked::More(more, count, told) = asked {
                    let (quarter, percent, all) = (count / 4, 100.0 * told, count + more);
                    self.why = Some(format!(
                        "{count} components: the least {quarter} tell {percent:.1} % of what validation leaves, so {all} are tried"
                    ));
                }
                let passes = asked.apply(fit, data, limits.seed.wrapping_add(fit.posterior.sweep as u64))?;
                *kept = Some(before);
                (self.change, self.sweeps, self.best) = (Some(self.left.remove(place)), 0, None);
                return Ok(passes);
            }
        }
        self.left.clear();
        // Where trials were left, the fit was only nearly settled.
        (self.sweeps, self.best) = (FEWEST - 1, None);
        self.done = none_left && settled || fit.posterior.sweep >= MOST;
        Ok(0)
    }

    /// What residuals ask for of a change, and the share of the noise that it may explain.
    fn asked(
        &self,
        fit: &Fit,
        validation: &Stream,
        change: &Change,
        limits: CourseLimits<'_>,
    ) -> Result<Option<(f64, Asked)>> {
        let (shape, order) = (&fit.posterior.shape, fit.posterior.levels.len());
        let rows: u64 = fit.posterior.levels.iter().map(|level| level.rows as u64).sum();
        match change {
            Change::More => {
                let squares = fit.squares_by_components(validation)?;
                let count = squares.len().saturating_sub(1);
                if count < 4 {
                    return Ok(None);
                }
                let told = 1.0 - squares[count] / squares[count - count / 4];
                let more = limits.most.min(2 * count + 1).saturating_sub(count);
                // A few more are worth the passes of a trial where the user has asked for them.
                let few = if limits.ranks.is_some() { 1 } else { count / 2 };
                Ok((told > WORTH_MORE && more >= few).then_some((told, Asked::More(more, count, told))))
            }
            Change::Extend(level) => {
                let (chosen, evidence) = fit.components_that_change(validation, *level)?;
                let whole = shape.segments.len() == 1 && chosen.len() == shape.segments[0].count;
                let rank = shape.widths[*level] - 1 + chosen.len() + usize::from(!whole);
                let fits = limits.ranks.is_none_or(|ranks| rank <= ranks[fit.terms.mode_order[*level]]);
                Ok((evidence.is_enough() && fits).then_some((evidence.share, Asked::Extend(*level, chosen))))
            }
            // More components of a mode than memory was asked for, or than the user has allowed.
            Change::Pairs | Change::All | Change::Cells if rows > MOST_ROWS_TO_GROW => Ok(None),
            Change::All if limits.ranks.is_some() => Ok(None),
            Change::Cells => {
                let pairs = pairs_of(order);
                let evidence = fit.pairs_that_are_left(validation, &pairs)?;
                let (mut found, mut more, mut share) = (Vec::new(), 0, FIRST);
                for (pair, evidence) in pairs.into_iter().zip(evidence).filter(|(_, found)| found.is_enough())
                {
                    if fit.posterior.may_have_table(pair, more) {
                        more += pair.map(|level| fit.posterior.levels[level].rows).iter().product::<usize>();
                        share += evidence.share;
                        found.push((pair, evidence));
                    }
                }
                Ok((!found.is_empty()).then_some((share, Asked::Cells(found))))
            }
            Change::Pairs => {
                let mut pairs = pairs_of(order);
                // What few components of two modes have not told, more of them may not tell either.
                pairs.retain(|pair| !shape.segments.iter().any(|segment| segment.levels == pair));
                let evidence = fit.pairs_that_are_left(validation, &pairs)?;
                let most = evidence.iter().map(|evidence| evidence.share).fold(0.0, f64::max);
                let strong = if order > FEW_MODES { STRONG } else { 0.0 };
                let (mut found, mut share) = (Vec::new(), 0.0);
                for (pair, evidence) in pairs.iter().zip(&evidence) {
                    if evidence.is_enough() && evidence.share >= strong * most {
                        found.push(*pair);
                        share += evidence.share;
                    }
                }
                // Of three modes the ranks that are given are kept to, of more they are those of any pair.
                let room = match limits.ranks.filter(|_| order <= FEW_MODES) {
                    Some(ranks) => fit.room_for(&found, ranks),
                    None => Some((usize::MAX, vec![usize::MAX; found.len()])),
                };
                let Some((kept, room)) = room else { return Ok(None) };
                let counts = found.iter().zip(room).map(|(pair, room)| {
                    (pair.to_vec(), most_of(fit, pair, PAIR_COMPONENTS.min(room), limits))
                });
                let asked = Asked::Add(counts.collect(), kept);
                Ok((!found.is_empty()).then_some((share, asked)))
            }
            // Entries share no more than two rows, so that nothing tells before it is tried: after all else.
            Change::All if self.paired && order == FEW_MODES => {
                let levels: Vec<usize> = (0..order).collect();
                let count = most_of(fit, &levels, ALL_COMPONENTS, limits);
                Ok(Some((0.0, Asked::Add(vec![(levels, count)], usize::MAX))))
            }
            Change::All | Change::Fewer => Ok(None),
        }
    }

    /// What was tried so far.
    fn trial(&mut self, best: f64) -> Trial {
        let (change, sweeps) = (self.change.take(), self.sweeps - std::mem::take(&mut self.given));
        Trial { change, sweeps, validation_mse: best, kept: true }
    }
}

/// As many components of some levels, but not more than they have rows, nor than the user has allowed for their modes.
fn most_of(fit: &Fit, levels: &[usize], count: usize, limits: CourseLimits<'_>) -> usize {
    let of = |&level: &usize| {
        let bound = limits.ranks.map_or(count, |ranks| ranks[fit.terms.mode_order[level]]);
        fit.posterior.levels[level].rows.min(bound)
    };
    levels.iter().map(of).min().unwrap_or(1).clamp(1, count)
}

/// A change that residuals ask for.
enum Asked {
    Extend(usize, Vec<usize>),
    /// So many more of the first pair than these, of which the least quarter tells this share.
    More(usize, usize, f64),
    /// Components of these levels, so many; and of the first pair no more than this.
    Add(Vec<(Vec<usize>, usize)>, usize),
    /// Numbers of cells of these pairs.
    Cells(Vec<([usize; 2], Evidence)>),
}

impl Asked {
    fn apply(&self, fit: &mut Fit, data: &Data<'_>, seed: u64) -> Result<usize> {
        match self {
            Asked::More(more, ..) => fit.more(data, *more, seed),
            Asked::Extend(level, chosen) => fit.extend(*level, chosen).map(|()| 0),
            Asked::Add(sets, kept) => {
                if fit.posterior.shape.segments[0].count > *kept {
                    fit.shrink(*kept)?;
                }
                fit.add(data, sets, seed)
            }
            Asked::Cells(pairs) => fit.add_tables(data, pairs),
        }
    }
}
