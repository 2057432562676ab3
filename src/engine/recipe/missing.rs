//! Where the plain method has stalled, components are missing: another way to them, and back where that is no better.
//!
//! A fit from a random start can end where components are missing for good: of data without a mean, or whose
//! components have nothing to do with one another. There it is begun anew with one component, found in the spectrum of the
//! residual ([`append`](super::spectrum::append)), conjugate gradients, and one component more, up to the ranks that
//! were asked for. Where entries hardly share fibres, as with many modes, there is no such spectrum, and another
//! random start is tried. The stalled fit is kept and comes back where it was the better one.

use super::again::Second;
use super::cut::Cut;
use super::plan::{COSTS, Move, Plan};
use super::settings::BiasChoice;
use super::spectrum::{PASSES, append};
use super::trainer::{Extra, Trainer, enough};
use crate::error::{Error, Result};
use crate::manifold::Point;
use crate::objective::GrowthMemory;
use crate::solver::{Algorithm, Best, Phase, State, Stochastic, StoppedBy};
use serde::{Deserialize, Serialize};

// What other values do: docs/thresholds.md.
/// The plain method has stalled where so many iterations leave more than this share of the cost. On the plateaus of
/// `tenfill-bench instances` 25 iterations left at most 0.69 (10000^3 at an oversampling of 5), in fits that
/// missed components 0.93 and more (order 3, diagonal cores and normal factors, seeds 11 to 13).
const WINDOW: usize = COSTS - 1;
const STALLED: f64 = 0.8;
/// It is flat, and has stalled as well, where so few leave more than this. Plateaus are not as flat: they leave at most 0.97 (10000^3
/// at an oversampling of 5, seed 34). With noise of a tenth of the values (`tenfill-bench classes --only noise`) fits are flat
/// after some 20 two-pass iterations; with 400 their test error was about twice as large.
const FLAT_WINDOW: usize = 10;
const FLAT: f64 = 0.99;
/// Where a fit is flat and nothing is missing, more than this share of the variance is taken for noise, and the run ends. Less is
/// not: weak components may be on their way (order 2 by `cg`, seed 18: 1e-10, of which ten iterations take 1e-7).
const FLOOR: f64 = 1e-8;
/// What is left of the variance is more than this: a smaller rest is taken for noise.
const LEFT: f64 = 1e-4;
/// A component is followed by the next when an iteration leaves more than this share of the cost, from an age on, and
/// in any case at another.
const SETTLED: f64 = 0.98;
const LEAST_AGE: usize = 6;
const FEWEST_WORSE: usize = 3;
const MOST_AGE: usize = 15;
/// Other random starts, where there is no spectrum.
const MOST_RESTARTS: usize = 3;
/// Where validation decides, growth is for data of which biases explain less than this share.
pub(super) const UNBIASED: f64 = 0.1;
/// Values have no mean to speak of where their variance is more than this share of their mean square.
const NO_MEAN: f64 = 0.5;

/// Where the rank is left to the data, so many components of all modes together are looked for at most,
pub const MOST_GROWN_RANK: usize = 12;
/// and none where memory has room for fewer than this.
pub const LEAST_GROWN_RANK: usize = 2;
/// and only where rows by themselves explain at most [`UNBIASED`]. A component goes again where the validation error falls by no
/// more than this share, divided by the number of validation entries. Of n entries with errors of variance s^2, changes that have
/// nothing to do with them, of mean square c^2, lower the mean squared error by -c^2 with a standard deviation of 2 s c / sqrt(n):
/// by more than 16 s^2 / n only with four standard deviations, whatever c.
const CHANCE: f64 = 16.0;
/// It stays, but is followed by none, where the error falls by less than this share: sweeps are cheaper then.
const LITTLE: f64 = 0.01;
/// Nor is it as long as an iteration leaves less than this share of the cost: then nothing is missing.
const FALLING: f64 = 0.8;
/// What is left of the variance in the end is noise, and not what is missing, where it is at most this share.
const MOSTLY: f64 = 0.5;

/// Where the way to missing components stands; it goes into checkpoints.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Growth {
    /// How many components there are, while they are found one by one; 0 otherwise.
    pub components: usize,
    /// Whether another way is being tried.
    pub under_way: bool,
    /// Whether the error of the fit that is kept was flat.
    #[serde(default)]
    pub flat: bool,
    /// The error of the fit that it has to be better than, which is kept.
    pub before: Option<f64>,
    /// The validation error before the newest component, where the rank is left to the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without: Option<f64>,
    /// Random starts that were tried.
    pub restarts: usize,
    /// Whether there is nothing more to try.
    pub done: bool,
    /// The iteration that a higher rank was begun at.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub since: usize,
    /// What becomes of a rank that may be too high.
    #[serde(default, skip_serializing_if = "Cut::is_no")]
    pub cut: Cut,
    /// Whether components are looked for after sweeps.
    #[serde(default, skip_serializing_if = "Second::is_no")]
    pub second: Second,
    /// Whether the rank was given, and is the most.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub given: bool,
    /// Whether a mode has one column more only if what is left asks for that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub selective: bool,
}

impl Growth {
    /// Whether the rank is left to the data, which have to show that they are of some rank.
    pub(super) fn is_open(&self) -> bool {
        !self.cut.is_no() && !self.given
    }
}

impl Plan {
    /// Whether the cost hardly falls at all.
    pub(super) fn is_flat(&self) -> bool {
        self.leaves_more(FLAT_WINDOW, FLAT)
    }
}

impl Extra {
    /// The fit that was kept and its error, where that is better than the state's, which is on another way. Without
    /// validation entries: these keep the best model themselves.
    pub fn better_before(&self, state: &State) -> Option<(&Point, f64)> {
        let growth = &self.plan.growth;
        let (point, _) = self.accepted.as_ref().filter(|_| growth.under_way && state.best.is_none())?;
        let whole = point.ranks() == state.point.ranks();
        growth.before.filter(|before| !whole || *before <= state.last.train_mse).map(|before| (point, before))
    }
}

impl Trainer {
    /// Whether components are being found one by one.
    pub(super) fn is_growing(&self) -> bool {
        self.extra.plan.growth.components > 0
    }

    /// Whether another way than the first is being tried.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.extra.plan.growth.under_way
    }

    /// Looks whether the plain method has stalled, or the way to what it misses has come to a turn: `true` where
    /// something was changed, and there is no iteration.
    pub(super) fn look_for_missing(&mut self) -> Result<bool> {
        let auto = self.fitting.terms.options.algorithm == Algorithm::Auto;
        if self.extra.plan.change != Move::Plain || !auto && !self.is_elsewhere() {
            return Ok(false);
        }
        if self.state.stochastic.is_some() {
            return Ok(false);
        }
        if !self.is_elsewhere() && self.look_at_rank(false)? {
            return Ok(true);
        }
        if self.is_cut_short() {
            // What is left is noise, at a rank that it has shown, where nothing is found in it.
            let found = self.grow_again()?;
            self.extra.plan.growth.done = true;
            if !found && self.extra.plan.is_exact_beside_biases() {
                self.end_probe()?;
            }
            return Ok(true);
        }
        if self.is_simple() && self.fitting.solver.stop(&self.state).is_some_and(|rule| self.gives_up(rule)) {
            return self.go_elsewhere().map(|()| true);
        }
        let plan = &self.extra.plan;
        if self.is_growing() {
            let age = plan.costs.len();
            let settled = age >= LEAST_AGE && plan.leaves_more(1, SETTLED);
            let falls = self.finds_rank() && !plan.leaves_more(1, FALLING);
            // What only train entries ask for shows early.
            let worse =
                plan.growth.selective && plan.growth.without.is_some_and(|before| self.error() > before);
            if self.state.stuck || age >= MOST_AGE && !falls || settled || worse && age >= FEWEST_WORSE {
                return self.next_component().map(|()| true);
            }
            return Ok(false);
        }
        let stalled = plan.leaves_more(WINDOW, STALLED) || plan.is_flat();
        // A fit that cannot go on from where it has been put is no better than one that has stalled.
        if self.is_elsewhere() && (stalled || self.ended()) {
            return self.end_elsewhere().map(|()| true);
        }
        if stalled && self.may_miss() { self.go_elsewhere().map(|()| true) } else { Ok(false) }
    }

    /// Whether the fit is as good as it gets: its error is flat, not small, and nothing is missing.
    pub(super) fn is_at_floor(&self) -> bool {
        let (plan, terms) = (&self.extra.plan, &self.fitting.terms);
        plan.change == Move::Plain
            && terms.options.algorithm == Algorithm::Auto
            && terms.options.tolerance > 0.0
            && (plan.is_flat() || plan.growth.flat && plan.costs.is_empty())
            && self.state.last.train_mse > FLOOR * terms.variance
            && !self.may_miss()
    }

    /// Whether components may be missing. How many iterations are left does not matter: who goes on with more of them gets
    /// what they would have got at once.
    pub(super) fn may_miss(&self) -> bool {
        let (terms, growth) = (&self.fitting.terms, &self.extra.plan.growth);
        let biases = self.extra.plan.biases_mse;
        self.extra.plan.change == Move::Plain
            && !growth.done
            && !growth.under_way
            && terms.options.algorithm == Algorithm::Auto
            && self.state.last.train_mse > LEFT * terms.variance
            && (!terms.recipe.decides() || biases.is_some_and(|mse| mse > (1.0 - UNBIASED) * terms.variance))
    }

    /// Whether a rule that would end the run says that components may be missing: there is no way down any more, or
    /// validation does not improve on data without a mean.
    pub(super) fn gives_up(&self, rule: StoppedBy) -> bool {
        let (variance, square) = (self.fitting.terms.variance, self.fitting.terms.manifest.mean_square());
        match rule {
            StoppedBy::Step | StoppedBy::Gradient => self.may_miss(),
            StoppedBy::Patience => self.may_miss() && variance > NO_MEAN * square,
            _ => false,
        }
    }

    /// Keeps the fit that has stalled, and begins anew.
    pub(super) fn go_elsewhere(&mut self) -> Result<()> {
        self.extra.plan.growth.before = Some(self.error());
        self.extra.plan.growth.under_way = true;
        self.extra.plan.growth.flat = self.extra.plan.is_flat();
        self.extra.accepted = Some((self.state.point.clone(), None));
        if self.first_component()? {
            let control = &self.fitting.terms.control;
            control.say("the fit has stalled: components are looked for in what it leaves over");
            return Ok(());
        }
        self.restart()
    }

    /// Begins with one component; `false` where there is none to be found.
    pub(super) fn first_component(&mut self) -> Result<bool> {
        let (dims, order) = (self.fitting.terms.dims.clone(), self.fitting.terms.dims.len());
        let team = self.fitting.objective.data.team();
        let nothing = Point::zeros(&dims, &vec![1; order]).divided(team);
        self.fitting.objective.data.set_ranks(&dims, &vec![1; order]);
        let rms = self.fitting.terms.manifest.mean_square().sqrt();
        self.append_to(&nothing, 0, rms)
    }

    /// One component more, or the end where none is found.
    fn next_component(&mut self) -> Result<()> {
        if self.finds_rank() {
            let (error, nothing) = (self.error(), self.fitting.terms.manifest.mean_square());
            let without = self.extra.plan.growth.without.replace(error).unwrap_or(nothing);
            let (gain, entries) = (1.0 - error / without, self.fitting.terms.manifest.validation.entries);
            let chance = CHANCE / entries as f64;
            if gain <= chance
                && let Some((point, _)) = self.extra.accepted.take()
            {
                self.take_back(point)?;
                // The fit had come to its end before.
                if self.extra.plan.growth.selective {
                    self.settle();
                    if self.go_back_to_best()? {
                        return Ok(());
                    }
                    self.look_at_biases(true)?;
                    return self.end_probe();
                }
            }
            if gain <= chance.max(LITTLE) {
                return self.end_growth();
            }
            self.extra.accepted = Some((self.state.point.clone(), None));
        }
        let have = self.extra.plan.growth.components;
        let point = self.state.point.clone();
        let rms = self.state.last.train_mse.sqrt();
        if self.append_to(&point, have, rms)? {
            return Ok(());
        }
        if self.finds_rank() {
            return self.end_growth();
        }
        self.extra.plan.growth.components = 0;
        self.end_elsewhere()
    }

    /// Goes back to the point without the newest component. What that gained is chance, and no reason to keep its models: the best
    /// one is that point, until a better one follows.
    fn take_back(&mut self, point: Point) -> Result<()> {
        let ranks = self.state.point.ranks();
        let own = self.extra.best.as_ref().is_some_and(|(stage, _)| stage.bias == BiasChoice::None);
        if own && self.state.best.as_ref().is_some_and(|best| best.point.ranks() == ranks) {
            (self.state.best, self.extra.best) = (None, None);
        }
        self.enter_point(point)?;
        let last = self.state.last;
        self.extra.plan.best = last.validation_mse.map(|mse| (mse, last.iteration));
        self.note_best();
        Ok(())
    }

    /// Whether a fit whose rank was cut has come down to what it leaves, and that is not nothing.
    fn is_cut_short(&self) -> bool {
        let plan = &self.extra.plan;
        plan.growth.cut.is_done() && !plan.growth.done && plan.leaves_more(2, SETTLED)
    }

    /// Looks for what a cut has taken away by mistake, or too low a bound has not let in, in what the fit leaves over, once: `true`
    /// where there is something. Validation tells what it is worth.
    pub(super) fn grow_again(&mut self) -> Result<bool> {
        let (plan, terms) = (&self.extra.plan, &self.fitting.terms);
        let rank_ends = plan.growth.cut.is_done() || plan.is_behind();
        let may_grow = rank_ends && !plan.growth.done && !plan.leaves_nothing(terms.variance);
        if !may_grow || plan.stage.ranks == terms.growth_bound() {
            return Ok(false);
        }
        let (before, error) = (plan.growth.clone(), self.error());
        let growth = &mut self.extra.plan.growth;
        (growth.done, growth.under_way, growth.selective) = (true, true, true);
        growth.without = Some(error);
        self.extra.accepted = Some((self.state.point.clone(), None));
        let (point, rms) = (self.state.point.clone(), self.state.last.train_mse.sqrt());
        let have = point.ranks().iter().copied().max().unwrap_or(0);
        if self.append_to(&point, have, rms)? {
            self.fitting.terms.control.say("components are looked for in what the fit leaves over");
            return Ok(true);
        }
        self.extra.plan.growth = Growth { done: true, ..before };
        self.extra.accepted = None;
        Ok(false)
    }

    /// Whether the rank is left to the data while components are found.
    fn finds_rank(&self) -> bool {
        let growth = &self.extra.plan.growth;
        !self.fitting.terms.grown.is_empty() || growth.selective || growth.second == Second::Taken
    }

    /// There are as many components as there will be: they are fitted to the end, or have shown that these are other data.
    fn end_growth(&mut self) -> Result<()> {
        self.settle();
        if self.extra.plan.growth.selective && self.go_back_to_best()? {
            return Ok(());
        }
        if self.error() > MOSTLY * self.fitting.terms.variance { self.end_probe() } else { Ok(()) }
    }

    /// Goes on from a point with one component more than it has; `false` where none is found.
    fn append_to(&mut self, point: &Point, have: usize, rms: f64) -> Result<bool> {
        let (terms, selective) = (&self.fitting.terms, self.extra.plan.growth.selective);
        let bound = terms.growth_bound();
        let had = if have == 0 { vec![0; bound.len()] } else { point.ranks().to_vec() };
        let ranks: Vec<usize> = had.iter().zip(bound).map(|(had, &rank)| rank.min(had + 1)).collect();
        let most = GrowthMemory::of(&terms.manifest, bound).entries;
        let seed = terms.seed.wrapping_add(1 + have as u64);
        let found = append(&mut self.fitting.objective, point, &had, &ranks, rms, most, seed, selective)?;
        self.state.last.passes += PASSES;
        let Some(point) = found else {
            // Sums had the room of one more.
            let dims = &self.fitting.terms.dims;
            self.fitting.objective.data.set_ranks(dims, self.state.point.ranks());
            return Ok(false);
        };
        let last = point.ranks() == self.fitting.terms.growth_bound();
        self.enter_point(point)?;
        if last {
            self.extra.plan.growth.components = 0;
        } else {
            self.state.secant = None;
            self.extra.plan.growth.components = have + 1;
        }
        Ok(true)
    }

    /// Begins with another random point.
    fn restart(&mut self) -> Result<()> {
        let growth = &mut self.extra.plan.growth;
        if growth.restarts >= MOST_RESTARTS {
            return self.go_back();
        }
        growth.restarts += 1;
        let seed = self.fitting.terms.seed.wrapping_add(growth.restarts as u64);
        self.fitting.terms.control.say("the fit has stalled: another random start is tried");
        let point = self.fitting.random_start(&self.fitting.terms.bound.clone(), seed)?;
        self.enter_point(point)?;
        self.begin_with_chunks(seed);
        Ok(())
    }

    /// Lets steps from chunks come first, where there are enough of them.
    pub(super) fn begin_with_chunks(&mut self, seed: u64) {
        if enough(&self.fitting.objective) {
            self.state.stochastic = Some(Box::new(Stochastic::new(&self.state.point, seed, true)));
            self.state.direction.fill(0.0);
        }
    }

    /// Makes a point the state's, without an iteration of its own.
    pub(super) fn enter_point(&mut self, point: Point) -> Result<()> {
        let stage = &mut self.extra.plan.stage;
        stage.ranks = point.ranks().to_vec();
        self.fitting.objective.data.set_ranks(&self.fitting.terms.dims, &stage.ranks);
        let state = self.fitting.solver.start(&mut self.fitting.objective, point)?;
        take_place(&mut self.state, state);
        self.extra.plan.costs.clear();
        Ok(())
    }

    /// The other way has stalled as well: one more is tried, or what was better is gone on with.
    fn end_elsewhere(&mut self) -> Result<()> {
        let error = self.error();
        let growth = &mut self.extra.plan.growth;
        let full = self.extra.plan.stage.ranks == self.fitting.terms.growth_bound();
        let better = full && growth.before.is_none_or(|before| error < before);
        let again = growth.restarts > 0 && growth.restarts < MOST_RESTARTS;
        if better {
            growth.before = Some(error);
            self.extra.accepted = None;
            if again {
                self.extra.accepted = Some((self.state.point.clone(), None));
            }
        }
        if again && self.state.last.train_mse > LEFT * self.fitting.terms.variance {
            return self.restart();
        }
        if better {
            self.settle();
            return Ok(());
        }
        self.go_back()
    }

    /// Back to the fit that was kept.
    fn go_back(&mut self) -> Result<()> {
        let Some((point, _)) = self.extra.accepted.take() else {
            self.settle();
            return Ok(());
        };
        self.fitting.terms.control.say("the fit that had stalled was no worse, and is gone on with");
        self.enter_point(point)?;
        self.settle();
        Ok(())
    }

    fn settle(&mut self) {
        let growth = &mut self.extra.plan.growth;
        (growth.under_way, growth.done, growth.components) = (false, true, 0);
        self.extra.accepted = None;
        self.state.stochastic = None;
    }

    /// By which fits are compared: the error on validation entries, or on train entries where there are none.
    fn error(&self) -> f64 {
        let last = &self.state.last;
        last.validation_mse.unwrap_or(last.train_mse)
    }

    /// Marks an iteration that is part of finding components.
    pub(super) fn mark_phase(&mut self) {
        if self.is_growing() {
            self.state.last.phase = Some(Phase::Spectral);
        }
    }

    /// Begins a run with one component. Where there is none to be found, with sweeps if the rank is left to the data, and an
    /// error otherwise.
    pub(super) fn begin_with_spectrum(&mut self) -> Result<()> {
        let growth = &mut self.extra.plan.growth;
        (growth.under_way, growth.done) = (true, true);
        // Where validation cannot tell what a component is worth, none is looked for.
        if self.first_component()? && !(self.finds_rank() && self.state.last.validation_mse.is_none()) {
            self.state.last.phase = Some(Phase::Start);
            return Ok(());
        }
        if self.finds_rank() {
            self.settle();
            return self.enter_sweeping();
        }
        let what = "`init` spectral looks at entries that share all indices but one, and there are too few of these, or \
                    they have nothing in common: leave out `init`";
        self.fitting.objective.data.team().agree(Err(Error::request(what)))
    }
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Puts a state in the place of another, whose records go on.
fn take_place(of: &mut State, mut state: State) {
    let iteration = of.last.iteration;
    state.best = of.best.take().or(state.best.map(|best| Best { iteration, ..best }));
    state.last.iteration = iteration;
    state.last.passes = of.last.passes + 1;
    state.last.phase = of.last.phase;
    if of.first_gradient_norm > 0.0 {
        state.first_gradient_norm = of.first_gradient_norm;
    }
    state.guards += of.guards;
    *of = state;
}
