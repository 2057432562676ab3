//! A sweep on its way: pass by pass, and a pass wave by wave of lanes. After each wave the state is whole, so that a run
//! may be saved there and go on from there.

use super::batch::layout;
use super::level::Level;
use super::memory::{SUMS, rows_at_a_time};
use super::moments::Moments;
use super::pass::{self, Pass, sums_width};
use super::sweeps::{Data, Fit, Posterior, RowNumbers, broken};
use crate::error::Result;
use serde::{Deserialize, Serialize};
use std::ops::Range;

// What other values do: docs/thresholds.md.
/// In the first sweeps the second mode is fitted anew after each of so many parts of the data.
const WARM_SWEEPS: usize = 3;
const PARTS: usize = 4;
/// Where there are so many rows of the first mode, that is: a few of them say nothing of those that follow.
const FEWEST_TO_WARM: usize = 256;
/// From this sweep on there is a time bias, where one was asked for.
const TIME_FROM: usize = 3;
/// From this sweep on the features' ridge is learned.
pub(super) const RIDGE_FROM: usize = 5;
/// Biases of further modes, and of time, are fitted in every so many sweeps: a pass each.
const OTHERS_EVERY: usize = 2;
/// The variance of the noise is at least this, values having the variance 1: sums of a row are in single precision on their
/// way, and their rounding divided by the noise has to stay below what a prior holds.
const LEAST_NOISE: f64 = 1e-9;

/// Where a sweep stands, and what its present pass has found so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Inside {
    /// Where.
    pub at: Position,
    /// The weight of the entries that the second mode was fitted to, where that is done part by part.
    pub seen: f64,
    /// The sums of the target's rows.
    pub sums: Vec<f64>,
    /// What the rows of level 0 add up to.
    pub moments: Vec<f64>,
    /// The rows of slices that come in windows, and what they give to their entries.
    pub given: Vec<f64>,
    /// New rows of the target, where they are fitted in several passes.
    pub aside: Option<Aside>,
}

impl Inside {
    /// Whether the numbers are as many as those of such levels: they may come from a file.
    pub fn fits(&self, levels: &[Level]) -> bool {
        let Some(first) = levels.first() else { return false };
        let numbers = Moments::new(first.width, first.features.count()).to_numbers().len();
        if self.sums.is_empty() {
            let begins = levels.get(self.at.target).is_none_or(|level| self.at.first <= level.rows);
            return begins && self.moments.is_empty() && self.given.is_empty();
        }
        let Some(level) = levels.get(self.at.target).filter(|_| self.at.target > 0) else { return false };
        let (width, rows) = (sums_width(level.width), level.rows);
        let own = Moments::new(level.width, level.features.count()).to_numbers().len();
        let given = first.width * (first.width + 1) + layout(level.width, 0).width();
        self.sums.len().is_multiple_of(width)
            && self.at.first.checked_add(self.sums.len() / width).is_some_and(|end| end <= rows)
            && self.moments.len() == numbers
            && self.given.len().is_multiple_of(given)
            && self.aside.as_ref().is_none_or(|aside| aside.moments.len() == own)
    }
}

/// How far a sweep is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Passes that are over.
    pub passes: usize,
    /// The level whose rows the present one is for, and the first of these.
    pub target: usize,
    /// Likewise.
    pub first: usize,
    /// Parts of it that are over, and lanes of the present part.
    pub part: usize,
    /// Likewise.
    pub lanes: usize,
}

/// New rows of a level that wait for the last of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Aside {
    /// The rows.
    pub rows: RowNumbers,
    /// What they add up to.
    pub moments: Vec<f64>,
}

/// A pass of a sweep.
struct Step {
    /// The level whose rows are fitted after it, and which of them.
    target: usize,
    rows: Range<usize>,
    /// Whether they are fitted after every part of it.
    warm: bool,
}

impl Fit {
    /// One sweep: rows of level 0 and of the first pair, and of the others every other time. Returns how many
    /// passes it took.
    pub fn sweep(&mut self, data: &Data<'_>) -> Result<usize> {
        loop {
            if let Some(passes) = self.advance(data)? {
                return Ok(passes);
            }
        }
    }

    /// The next wave of a sweep, which begins where none is on its way. Returns how many passes it took when it is over.
    /// An error but for rows that are no numbers leaves the state as it was.
    pub fn advance(&mut self, data: &Data<'_>) -> Result<Option<usize>> {
        if self.posterior.inside.is_none() {
            self.posterior.sweep += 1;
            if self.posterior.sweep > WARM_SWEEPS {
                self.turn()?;
            }
            self.posterior.inside = Some(Box::default());
        }
        if let Some(step) = self.step(data) {
            self.wave(data, &step)?;
            return Ok(None);
        }
        let (sweep, passes) = (self.posterior.sweep, self.at().passes);
        let more = match self.terms.time.filter(|_| sweep == TIME_FROM) {
            Some(levels) => self.add_time(data, levels)?,
            None if data.beside.is_some() => 0,
            None if self.posterior.has_pairs() || sweep.is_multiple_of(OTHERS_EVERY) => {
                self.fit_tables(data)?
            }
            None => 0,
        };
        self.posterior.inside = None;
        Ok(Some(passes + more))
    }

    fn at(&self) -> Position {
        self.posterior.inside.as_ref().map_or_else(Position::default, |inside| inside.at)
    }

    /// The present pass, or the next. How many rows it is for is a matter of memory, what they come to is not.
    fn step(&self, data: &Data<'_>) -> Option<Step> {
        let (sweep, pair, at) = (self.posterior.sweep, self.terms.pair, self.at());
        let levels = &self.posterior.levels;
        // (Biases of a few rows gain nothing from some more entries.)
        let others = sweep.is_multiple_of(OTHERS_EVERY) && data.beside.is_none();
        let due = |&target: &usize| pair.contains(&target) || levels[target].width > 1 || others;
        let target = (at.target.max(1)..levels.len()).find(due)?;
        let first = if target == at.target { at.first } else { 0 };
        let (rows, width) = (levels[target].rows, levels[target].width);
        let small = rows <= rows_at_a_time(width, SUMS);
        if sweep <= WARM_SWEEPS && pair == [0, target] && small && self.is_warmed(data) {
            return Some(Step { target, rows: 0..rows, warm: true });
        }
        // A pass that has begun ends with the rows that it began with.
        let most = match self.posterior.inside.as_ref().map_or(0, |inside| inside.sums.len()) {
            0 => rows_at_a_time(width, data.slices.room.sums),
            numbers => numbers / sums_width(width),
        };
        Some(Step { target, rows: first..rows.min(first + most), warm: false })
    }

    /// Whether the first sweeps are made from parts of the data.
    fn is_warmed(&self, data: &Data<'_>) -> bool {
        data.slices.large().is_empty()
            && self.posterior.levels[0].counts.iter().filter(|n| **n > 0.0).count() >= FEWEST_TO_WARM
    }

    /// Goes through a part of some lanes, and fits rows where that was the last of them.
    fn wave(&mut self, data: &Data<'_>, step: &Step) -> Result<()> {
        let (train, slices) = (data.train, data.slices);
        let parts = if step.warm { PARTS } else { slices.parts };
        let Posterior { shape, levels, tables, noise, inside, .. } = &self.posterior;
        let Some(inside) = inside else { return Ok(()) };
        let pass = Pass {
            shape,
            levels,
            tables,
            noise: *noise,
            mean: self.terms.mean,
            scale: 1.0 / self.terms.spread,
            ends: self.ends(),
            target: step.target,
            rows: step.rows.clone(),
            beside: data.beside,
        };
        let (part, lanes) = (inside.at.part.min(parts - 1), inside.at.lanes);
        let given = (!inside.moments.is_empty()).then_some(&inside.given[..]);
        let mut wave = pass::run(&pass, (train, slices), (part, parts), lanes, given)?;
        // From here on nothing but numbers that are none can go wrong.
        let team = train.team();
        let (k, features) = (levels[0].width, levels[0].features.count());
        let width = sums_width(levels[step.target].width);
        let last = step.rows.end == levels[step.target].rows;
        let posterior = &mut self.posterior;
        let Some(inside) = &mut posterior.inside else { return Ok(()) };
        if inside.moments.is_empty() {
            inside.moments = Moments::new(k, features).to_numbers();
            inside.sums = slices.zeros(step.rows.len() * width);
        }
        inside.given = wave.given.take().unwrap_or_else(|| std::mem::take(&mut inside.given));
        wave.add_to(team, &mut inside.sums, &mut inside.moments);
        if last {
            // A slice comes once in a pass: nothing else looks at its row. In an earlier pass for other rows it stays, so
            // that the last one finds the same.
            wave.put(team, &mut posterior.levels[0]);
        }
        let done = wave.done;
        let over = done >= train.all_lanes().len();
        wave.end(slices);
        let passes = inside.at.passes;
        inside.at = Position { passes, target: step.target, first: step.rows.start, part, lanes: done };
        if !over {
            return Ok(());
        }
        (inside.at.part, inside.at.lanes) = (part + 1, 0);
        if part + 1 == parts {
            inside.given = Vec::new();
            let next = if last { (step.target + 1, 0) } else { (step.target, step.rows.end) };
            inside.at = Position { passes: passes + 1, target: next.0, first: next.1, part: 0, lanes: 0 };
        }
        if step.warm || part + 1 == parts {
            let sums = std::mem::take(&mut inside.sums);
            let moments = Moments::of(k, features, &std::mem::take(&mut inside.moments));
            let mut sums = match step.warm {
                true => self.fit_part(step, part, sums, &moments)?,
                false => {
                    self.fit_pass(step, last, &sums, &moments)?;
                    sums
                }
            };
            sums.fill(0.0);
            slices.give_back(sums);
        }
        Ok(())
    }

    /// What follows a pass in which all rows stay what they are until its end, but for those of level 0.
    fn fit_pass(&mut self, step: &Step, last: bool, sums: &[f64], moments: &Moments) -> Result<()> {
        let (target, learn) = (step.target, self.posterior.sweep >= RIDGE_FROM);
        let mut aside =
            self.posterior.inside.as_mut().and_then(|inside| inside.aside.take()).unwrap_or_default();
        if last {
            self.posterior.follow(moments, learn)?;
        }
        let noise = Posterior::noise_of(moments).unwrap_or(self.posterior.noise);
        let level = &mut self.posterior.levels[target];
        let (k, features) = (level.width, level.features.count());
        if step.rows.start == 0 {
            // New rows lie beside the old ones only where another pass needs those.
            aside.rows = if last { level.take_rows() } else { level.clone_rows() };
            aside.moments = Moments::new(k, features).to_numbers();
        }
        let mut total = Moments::of(k, features, &aside.moments);
        level.fit(&mut aside.rows, step.rows.clone(), sums, noise, &mut total)?;
        if last {
            level.put_rows(aside.rows);
            level.prior = total.prior(&level.prior, learn).ok_or_else(broken)?;
        } else {
            aside.moments = total.to_numbers();
            if let Some(inside) = &mut self.posterior.inside {
                inside.aside = Some(aside);
            }
        }
        Ok(())
    }

    /// What follows a part of a pass in which the second mode is fitted after each, to sums of what was seen. Returns
    /// the memory of the new ones.
    fn fit_part(
        &mut self,
        step: &Step,
        part: usize,
        mut new: Vec<f64>,
        moments: &Moments,
    ) -> Result<Vec<f64>> {
        let sweep = self.posterior.sweep;
        let total: f64 = self.posterior.levels[0].counts.iter().sum();
        let learn = sweep >= RIDGE_FROM;
        let weight = moments.weight;
        // Lanes of few blocks have nothing in some parts.
        if weight > 0.0 {
            self.posterior.follow(moments, learn)?;
            let seen = weight + self.posterior.inside.as_ref().map_or(0.0, |inside| inside.seen);
            self.posterior.inside.iter_mut().for_each(|inside| inside.seen = seen);
            let mut sums = std::mem::take(&mut self.posterior.sums);
            sums.resize(new.len(), 0.0);
            // What is older is forgotten: it comes from rows that are not what they were.
            let kept = if sweep == 1 { 1.0 } else { 1.0 - weight / total };
            sums.iter_mut().zip(&new).for_each(|(to, new)| *to = kept * *to + new);
            let by = if sweep == 1 && seen < total { total / seen } else { 1.0 };
            new.iter_mut().zip(&sums).for_each(|(to, x)| *to = by * x);
            self.posterior.sums = sums;
            let noise = self.posterior.noise;
            let level = &mut self.posterior.levels[step.target];
            let mut found = Moments::new(level.width, level.features.count());
            let mut rows = level.take_rows();
            level.fit(&mut rows, step.rows.clone(), &new, noise, &mut found)?;
            level.put_rows(rows);
            level.prior = found.prior(&level.prior, learn).ok_or_else(broken)?;
        }
        if sweep == WARM_SWEEPS && part + 1 == PARTS {
            self.posterior.sums = Vec::new();
        }
        if part + 1 == PARTS {
            self.posterior.inside.iter_mut().for_each(|inside| inside.seen = 0.0);
        }
        Ok(new)
    }
}

impl Posterior {
    /// Lets the prior of level 0 and the noise follow from its rows.
    fn follow(&mut self, moments: &Moments, learn: bool) -> Result<()> {
        self.levels[0].prior = moments.prior(&self.levels[0].prior, learn).ok_or_else(broken)?;
        if let Some(noise) = Self::noise_of(moments) {
            self.noise = noise;
            self.residuals = moments.residuals / moments.weight;
        }
        if self.noise.is_finite() { Ok(()) } else { Err(broken()) }
    }

    /// The noise that makes the residuals most likely.
    fn noise_of(moments: &Moments) -> Option<f64> {
        (moments.weight > 0.0).then(|| (moments.squares / moments.weight).max(LEAST_NOISE))
    }
}
