//! What is being fitted, and whether the plain method is the right one: a state machine without mathematics.

use super::cut::{BEHIND, Cut};
use super::missing::Growth;
use super::settings::{BiasChoice, PenaltyChoice, Recipe};
use crate::objective::PenaltyKind;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is fitted at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// One rank per mode.
    pub ranks: Vec<usize>,
    /// Modes held at the constant vector.
    pub held: Vec<bool>,
    /// Whether rows are in count-smoothed coordinates.
    pub smoothed: bool,
    /// Whether they are in coordinates in which entries are spread evenly. Not in files from before there were any.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub even: bool,
    /// Which biases; never `Auto`.
    pub bias: BiasChoice,
    /// The weight of the penalty.
    pub lambda: f64,
    /// Its norm.
    pub kind: PenaltyKind,
}

/// What the stage is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Move {
    /// The paper's method at full rank.
    Plain,
    /// With biases, a penalty or both, as they were asked for.
    Begin,
    /// Sweeps over the rows of two modes and the biases of the others.
    Sweeps,
    /// The same, with more components.
    More,
    /// The same, with fewer.
    Fewer,
    /// The same, components of theirs changing with the rows of another mode.
    Extend(usize),
    /// The same, with components of further pairs of modes.
    Pairs,
    /// The same, with a number of its own for every cell of two modes.
    Cells,
    /// The same, with components of all modes together.
    All,
    /// A step of the search that earlier versions had: only in files of theirs.
    #[serde(untagged)]
    Search(Value),
}

/// What was fitted, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// What it was.
    pub change: Move,
    /// What was fitted.
    pub stage: Stage,
    /// Its iterations, or sweeps.
    pub iterations: usize,
    /// Its best validation MSE.
    pub validation_mse: f64,
    /// Whether it was better than what it started from.
    #[serde(default)]
    pub helped: bool,
    /// Whether it was kept.
    pub kept: bool,
}

/// The plan of a run: the stage it is in, and what it has found out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What is being fitted.
    pub stage: Stage,
    /// What that is.
    pub change: Move,
    /// The best validation MSE of the stage, and its iteration.
    pub best: Option<(f64, usize)>,
    /// The newest costs of the stage.
    pub costs: Vec<f64>,
    /// Everything that was tried.
    pub tried: Vec<Tried>,
    /// The validation MSE of biases alone.
    pub biases_mse: Option<f64>,
    /// Whether there is nothing left to try.
    pub done: bool,
    /// Where the way to components that the plain method misses stands. Not in files from before there was one.
    #[serde(default)]
    pub growth: Growth,
}

// What other values do: docs/thresholds.md.
/// The plain method stays where its error is at most this share of that of biases alone: what is left is hardly noise.
const EXACT: f64 = 0.01;
/// It is given up where after this many iterations its error is still above this share of that of biases alone:
/// exactly low-rank data are far below it by then.
pub(super) const PROBE: usize = 20;
const PROMISING: f64 = 0.5;
/// And after these few, where biases tell something, at least this share of the variance, and it tells hardly more than
/// they do. Of 24 low-rank sets (`tenfill synth`, orders 2 to 4, oversampling 5 to 15, noise up to a tenth of the values)
/// the fifth iteration left at most 0.6 of what biases leave, and 0.19 of the variance; of ratings 1.4.
const GLANCE: usize = 5;
const TOLD_BY_BIASES: f64 = 0.1;
const HARDLY_MORE: f64 = 0.9;
/// Where the rank is left to the data, these shares are lower: after the first few iterations it is the one above, and then this.
const SHOWN: f64 = 0.1;
/// But nothing is given up while an iteration leaves less than this share of the cost.
const FALLING: f64 = 0.8;
/// And it is where two epochs leave more than this, and not as little of what biases leave as low-rank data.
const LEVEL: f64 = 0.97;
/// So many iterations are enough for it.
const LONGEST: usize = 40;
/// What a rank that is too low leaves of the variance, and more.
const NOTHING: f64 = 1e-6;
/// Biases are a matter of some passes. An error below this share of the variance needs no comparison so early, and below
/// the other none at all.
const SPEAKS: f64 = 0.25;
const TINY: f64 = 1e-4;
/// Costs that are kept: as many as it takes to see that a fit has stalled.
pub(super) const COSTS: usize = 26;
/// The share by which validation must improve to count within a stage.
const STAGE_GAIN: f64 = 5e-5;

impl Plan {
    /// A plan that begins with the plain method at these ranks.
    pub fn new(ranks: &[usize]) -> Self {
        Plan {
            stage: Stage {
                ranks: ranks.to_vec(),
                held: vec![false; ranks.len()],
                smoothed: false,
                even: false,
                bias: BiasChoice::None,
                lambda: 0.0,
                kind: PenaltyKind::Nuclear,
            },
            change: Move::Plain,
            best: None,
            costs: Vec::new(),
            tried: Vec::new(),
            biases_mse: None,
            done: false,
            growth: Growth::default(),
        }
    }

    /// A plan that begins with the plain method at ranks that may be too high, and what biases would leave of the variance.
    pub(super) fn of_highest(ranks: &[usize], biases_mse: f64) -> Self {
        let growth = Growth { cut: Cut::beside(biases_mse), ..Growth::default() };
        Plan { biases_mse: Some(biases_mse), growth, ..Plan::new(ranks) }
    }

    /// Begins a stage.
    pub fn enter(&mut self, stage: Stage, change: Move) {
        (self.stage, self.change) = (stage, change);
        self.best = None;
        self.costs.clear();
    }

    /// Takes note of an iteration.
    pub fn observe(&mut self, iteration: usize, cost: f64, validation_mse: Option<f64>) {
        if self.costs.len() >= COSTS {
            self.costs.remove(0);
        }
        self.costs.push(cost);
        let Some(mse) = validation_mse else { return };
        match self.best {
            Some((best, _)) if mse >= best * (1.0 - STAGE_GAIN) => {
                // A smaller gain is kept, but does not prolong the stage.
                if let Some(best) = self.best.as_mut().filter(|best| mse < best.0) {
                    best.0 = mse;
                }
            }
            _ => self.best = Some((mse, iteration)),
        }
    }

    /// Whether so many iterations leave more than this share of the cost.
    pub(super) fn leaves_more(&self, iterations: usize, share: f64) -> bool {
        let from = self.costs.len().checked_sub(1 + iterations);
        from.is_some_and(|from| self.costs[self.costs.len() - 1] > share * self.costs[from])
    }

    /// Whether validation has not improved for longer than the user's patience.
    pub fn is_stale(&self, iteration: usize, patience: usize) -> bool {
        patience > 0 && self.best.is_some_and(|(_, at)| iteration - at >= patience)
    }

    /// Whether validation, where there is any, leaves nothing to ask.
    pub fn is_exact(&self, variance: f64) -> bool {
        self.best.is_none_or(|(mse, _)| mse <= TINY * variance)
    }

    /// Whether it depends on biases what the plain method's error means.
    pub fn wants_biases(&self, iteration: usize, stuck: bool, variance: f64) -> bool {
        let above = |share: f64| self.best.is_some_and(|(mse, _)| mse > share * variance);
        let asked = stuck || iteration >= GLANCE && above(SPEAKS) || iteration >= PROBE && above(TINY);
        self.biases_mse.is_none() && asked
    }

    /// Whether the plain method has shown what it can do: it is stuck, or far from what it makes of low-rank data.
    pub fn probe_over(&self, iteration: usize, stuck: bool, variance: f64) -> bool {
        let Some((biases, (mse, _))) = self.biases_mse.zip(self.best) else { return stuck };
        let iteration = iteration - self.growth.since.min(iteration);
        let told = biases < (1.0 - TOLD_BY_BIASES) * variance;
        // Where nobody has said that the data are of some rank, they have to show it.
        let given = !self.growth.is_open();
        let (first, then) = if given { (HARDLY_MORE, PROMISING) } else { (PROMISING, SHOWN) };
        let slow = given || self.leaves_more(1, FALLING);
        let soon = iteration >= GLANCE && told && slow && mse > first * biases;
        // Nor does it creep on to its last iteration.
        let stuck = stuck || !given && slow && iteration >= LONGEST && mse > NOTHING * variance;
        stuck || soon || iteration >= PROBE && mse > then * biases
    }

    /// Whether epochs at a rank that was left to the data have come down to noise.
    pub(super) fn is_level(&self) -> bool {
        let much = |(biases, (mse, _)): (f64, (f64, usize))| mse > EXACT * biases;
        self.growth.is_open()
            && self.leaves_more(2, LEVEL)
            && self.biases_mse.zip(self.best).is_some_and(much)
    }

    /// Whether it leaves as little of what biases do as low-rank data leave, or nearly.
    pub(super) fn shows(&self) -> bool {
        self.biases_mse.zip(self.best).is_some_and(|(biases, (mse, _))| mse <= SHOWN * biases)
    }

    /// Whether it leaves clearly less than biases do.
    pub(super) fn promises(&self) -> bool {
        self.biases_mse.zip(self.best).is_some_and(|(biases, (mse, _))| mse <= PROMISING * biases)
    }

    /// Whether it leaves hardly anything of what biases do.
    pub(super) fn is_exact_beside_biases(&self) -> bool {
        self.biases_mse.zip(self.best).is_some_and(|(biases, (mse, _))| mse <= EXACT * biases)
    }

    /// Whether it leaves as little of what biases do as no data with noise leave on a plateau.
    pub(super) fn is_behind(&self) -> bool {
        self.biases_mse.zip(self.best).is_some_and(|(biases, (mse, _))| mse <= BEHIND * biases)
    }

    /// Whether it leaves nothing to speak of.
    pub(super) fn leaves_nothing(&self, variance: f64) -> bool {
        self.best.is_some_and(|(mse, _)| mse <= NOTHING * variance)
    }

    /// Ends the plain method's turn: it stays where it explains the validation entries far better than biases do. At a rank that was left
    /// to the data it has to leave nothing, or noise at a rank that it has shown, or as little as sweeps hardly ever come to.
    pub fn end_probe(&mut self, iteration: usize, variance: f64, shown: bool) -> &Tried {
        let mse = self.best.map_or(f64::MAX, |(mse, _)| mse);
        let exact = self.is_exact_beside_biases();
        let open = self.growth.is_open();
        let nothing = open && (self.leaves_nothing(variance) || self.is_behind());
        self.done = nothing || exact && (!open || shown);
        self.tried.push(Tried {
            change: Move::Plain,
            stage: self.stage.clone(),
            iterations: iteration,
            validation_mse: mse,
            helped: false,
            kept: false,
        });
        &self.tried[self.tried.len() - 1]
    }
}

impl Stage {
    /// Whether a point stands for a model in coordinates of its own.
    pub fn has_coordinates(&self) -> bool {
        self.smoothed || self.even
    }

    /// That of biases and a penalty that are given.
    pub fn fixed(recipe: &Recipe, ranks: &[usize]) -> Self {
        let lambda = match recipe.penalty {
            PenaltyChoice::Auto => 0.0,
            PenaltyChoice::Fixed(lambda) => lambda,
        };
        Stage {
            ranks: ranks.to_vec(),
            held: vec![false; ranks.len()],
            smoothed: true,
            even: false,
            bias: recipe.bias,
            lambda,
            kind: recipe.penalty_kind.unwrap_or_default(),
        }
    }
}
