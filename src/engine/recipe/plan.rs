//! What is tried next, and whether it helped: a state machine without mathematics.

use super::missing::Growth;
use super::settings::{BiasChoice, PenaltyChoice, Recipe};
use crate::objective::PenaltyKind;
use serde::{Deserialize, Serialize};

/// What is fitted at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// One rank per mode.
    pub ranks: Vec<usize>,
    /// Modes held at the constant vector.
    pub held: Vec<bool>,
    /// Whether rows are in count-smoothed coordinates.
    pub smoothed: bool,
    /// Which biases; never `Auto`.
    pub bias: BiasChoice,
    /// The weight of the penalty.
    pub lambda: f64,
    /// Its norm.
    pub kind: PenaltyKind,
}

/// A change of the stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Move {
    /// The paper's method at full rank.
    Plain,
    /// The first model with biases or a penalty.
    Begin,
    /// Less penalty on what is strong: the logarithm instead of the nuclear norm.
    Log,
    /// Less penalty.
    Weaker,
    /// More penalty.
    Stronger,
    /// A held mode is set free.
    Free(usize),
    /// Higher ranks of these modes.
    Grow(Vec<usize>),
    /// The same with more penalty, where it did not help alone.
    GrowStronger(Vec<usize>),
    /// Sweeps over the rows of two modes and the biases of the others.
    Sweeps,
    /// The same, components of theirs changing with the rows of another mode.
    Extend(usize),
    /// The same, with components of further pairs of modes.
    Pairs,
    /// The same, with a number of its own for every cell of two modes.
    Cells,
    /// The same, with components of all modes together.
    All,
    /// When the search has ended: every row of the two main modes fitted to its own entries.
    Rows,
    /// The rows of the other modes as well.
    Others,
    /// The same, values at the ends of the range saying only that the latent one is not below, or above.
    Ends,
}

/// A stage that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// What was changed.
    pub change: Move,
    /// What was fitted.
    pub stage: Stage,
    /// Its iterations; of rows, others and ends, the sweeps over rows.
    pub iterations: usize,
    /// Its best validation MSE.
    pub validation_mse: f64,
    /// Whether it was better than what it started from.
    #[serde(default)]
    pub helped: bool,
    /// Whether it was kept: of several ways to grow, the one that helped most.
    pub kept: bool,
}

/// Of the ways to grow from the accepted stage, the one that has helped most so far. Its point and biases
/// are those of the best model, which need not be kept twice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Leader {
    /// Where it stands in what was tried.
    pub tried: usize,
    /// The best validation MSE after each of its iterations.
    pub course: Vec<f64>,
}

/// What follows the end of a stage.
#[derive(Debug, Clone, PartialEq)]
pub struct Next {
    /// Where that stands in what was tried that trials start from now; none where that stays what it was.
    pub accepted: Option<usize>,
    /// What is tried; none where nothing is left.
    pub trial: Option<(Stage, Move)>,
}

/// The plan of a run: the stage it is in, and all that it has found out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What is being fitted.
    pub stage: Stage,
    /// What that is a trial of.
    pub change: Move,
    /// The iteration at which the stage began.
    pub began: usize,
    /// The best validation MSE of the stage, and its iteration.
    pub best: Option<(f64, usize)>,
    /// The newest costs of the stage.
    pub costs: Vec<f64>,
    /// The best validation MSE after each iteration of the stage.
    #[serde(default)]
    pub course: Vec<f64>,
    /// The best way to grow so far, while others are tried.
    #[serde(default)]
    pub leader: Option<Leader>,
    /// The stage that trials start from, and its validation MSE.
    pub accepted: Option<(Stage, f64)>,
    /// What was tried and did not help since the accepted stage's structure last changed.
    pub failed: Vec<Move>,
    /// Everything that was tried.
    pub tried: Vec<Tried>,
    /// The validation MSE of biases alone.
    pub biases_mse: Option<f64>,
    /// The two modes that a first model is about: those whose indices differ most.
    pub main: [usize; 2],
    /// The penalty that counts suggest.
    pub usual_lambda: f64,
    /// Whether there is nothing left to try.
    pub done: bool,
    /// Where the way to components that the plain method misses stands. Not in files from before there was one.
    #[serde(default)]
    pub growth: Growth,
}

/// A change must lower the validation MSE by this share: less is noise.
const WORTH: f64 = 2e-4;
/// The plain method stays where its error is at most this share of that of biases alone.
const LOW_RANK: f64 = 0.25;
/// And where sweeps would follow, which take few passes, at this share: what is left is hardly noise.
const EXACT: f64 = 0.01;
/// The plain method is given up where after this many iterations its error is still above this
/// share of that of biases alone: exactly low-rank data are far below it by then.
const PROBE: usize = 20;
const PROMISING: f64 = 0.5;
/// Ranks that a small model begins with, and a mode that is set free.
pub(super) const FIRST_RANK: usize = 4;
/// A stage ends when validation has not improved for this many iterations and the cost hardly
/// falls any more, or after twice as many in any case: growth has these, because new directions may take long
/// to turn.
const STAGE_PATIENCE: usize = 5;
/// The cost hardly falls any more when it has fallen by less than this share meanwhile.
const SETTLED: f64 = 1e-3;
/// Another penalty is given up after this many iterations that are no better than before.
const GLANCE: usize = 3;
/// A way to grow is given up where it is behind the best one so far at the same age, from this one on:
/// new directions take a few iterations to turn.
const RACE: usize = 8;
/// The share by which validation must improve to count within a stage.
pub(super) const STAGE_GAIN: f64 = 5e-5;

impl Move {
    /// Whether it makes the model larger.
    pub(super) fn grows(&self) -> bool {
        matches!(self, Move::Free(_) | Move::Grow(_) | Move::GrowStronger(_))
    }

    /// Whether two compete: the same with more penalty has its turn where nothing helps alone.
    fn rivals(&self, other: &Move) -> bool {
        let stronger = |change: &Move| matches!(change, Move::GrowStronger(_));
        self.grows() && other.grows() && stronger(self) == stronger(other)
    }
}

impl Plan {
    /// A plan that begins with the plain method at these ranks.
    pub fn new(ranks: &[usize]) -> Self {
        Plan {
            stage: Stage {
                ranks: ranks.to_vec(),
                held: vec![false; ranks.len()],
                smoothed: false,
                bias: BiasChoice::None,
                lambda: 0.0,
                kind: PenaltyKind::Nuclear,
            },
            change: Move::Plain,
            began: 0,
            best: None,
            costs: Vec::new(),
            course: Vec::new(),
            leader: None,
            accepted: None,
            failed: Vec::new(),
            tried: Vec::new(),
            biases_mse: None,
            main: [0, 1],
            usual_lambda: 0.0,
            done: false,
            growth: Growth::default(),
        }
    }

    /// The first stage after the plain one.
    pub fn begin(&self, recipe: &Recipe, bias: BiasChoice, bound: &[usize]) -> Stage {
        let (main, order) = (self.main, bound.len());
        let (mut ranks, mut held) = (bound.to_vec(), vec![false; order]);
        if recipe.grow {
            let first = main.iter().map(|&mode| bound[mode]).min().unwrap_or(1).min(FIRST_RANK);
            for mode in 0..order {
                held[mode] = !main.contains(&mode);
                ranks[mode] = if held[mode] { 1 } else { first };
            }
        }
        let lambda = match recipe.penalty {
            PenaltyChoice::Auto => self.usual_lambda,
            PenaltyChoice::Fixed(lambda) => lambda,
        };
        let kind = recipe.penalty_kind.unwrap_or_default();
        Stage { ranks, held, smoothed: true, bias, lambda, kind }
    }

    /// Begins a stage.
    pub fn enter(&mut self, stage: Stage, change: Move, iteration: usize) {
        (self.stage, self.change, self.began) = (stage, change, iteration);
        self.best = None;
        self.costs.clear();
        self.course.clear();
    }

    /// Takes note of an iteration.
    pub fn observe(&mut self, iteration: usize, cost: f64, validation_mse: Option<f64>) {
        if self.costs.len() > STAGE_PATIENCE {
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
        self.course.extend(self.best.map(|(best, _)| best));
    }

    /// Whether the present stage has ended. The plain one ends by the user's patience, and so does
    /// a stage that nothing can follow.
    pub fn stage_over(&self, iteration: usize, stuck: bool, patience: usize) -> bool {
        let stale = |patience: usize| {
            patience > 0 && self.best.is_some_and(|(_, at)| iteration - at.max(self.began) >= patience)
        };
        if self.change == Move::Plain {
            let hopeless =
                self.biases_mse.zip(self.best).is_some_and(|(biases, (mse, _))| mse > PROMISING * biases);
            return stuck || stale(patience) || hopeless && iteration >= PROBE;
        }
        let settled = match (self.costs.first(), self.costs.last()) {
            (Some(first), Some(last)) => self.costs.len() > STAGE_PATIENCE && first - last < SETTLED * last,
            _ => false,
        };
        let short = if self.change.grows() { 2 * STAGE_PATIENCE } else { STAGE_PATIENCE };
        stuck || self.is_behind() || settled && stale(short) || stale(patience.max(2 * STAGE_PATIENCE))
    }

    /// Whether the stage has shown by now that it will not be kept: another penalty at first sight, because
    /// it starts from what it has to be better than, and a way to grow by the course of the best one so far.
    fn is_behind(&self) -> bool {
        let (age, Some(&mse)) = (self.course.len(), self.course.last()) else { return false };
        if matches!(self.change, Move::Weaker | Move::Stronger) {
            return age >= GLANCE && self.accepted.as_ref().is_some_and(|(_, before)| mse >= *before);
        }
        let Some(leader) = self.leader.as_ref().filter(|_| self.change.grows()) else { return false };
        let theirs = leader.course.get(age - 1).or(leader.course.last());
        age >= RACE && theirs.is_some_and(|theirs| mse > *theirs)
    }

    /// Ends the stage: whether it helped, and what comes next.
    pub fn next(&mut self, iteration: usize, recipe: &Recipe, bias: BiasChoice, bound: &[usize]) -> Next {
        let mse = self.best.map_or(f64::MAX, |(mse, _)| mse);
        let is_better = |before: &(Stage, f64)| mse < before.1 * (1.0 - WORTH);
        let helped = self.change != Move::Plain && self.accepted.as_ref().is_none_or(is_better);
        let is_best = self.tried.iter().all(|tried| mse < tried.validation_mse);
        self.tried.push(Tried {
            change: self.change.clone(),
            stage: self.stage.clone(),
            iterations: iteration - self.began,
            validation_mse: mse,
            helped,
            kept: false,
        });
        if self.change == Move::Plain {
            let share = if recipe.sweeps { EXACT } else { LOW_RANK };
            let low_rank = self.biases_mse.is_some_and(|biases| mse <= share * biases);
            self.done = recipe.is_plain() || low_rank;
            let trial = (!self.done).then(|| (self.begin(recipe, bias, bound), Move::Begin));
            return Next { accepted: None, trial };
        }
        let this = self.tried.len() - 1;
        let mut accepted = None;
        if !helped || self.change.grows() {
            self.failed.push(self.change.clone());
        }
        if helped && self.change.grows() && is_best {
            self.leader = Some(Leader { tried: this, course: std::mem::take(&mut self.course) });
        } else if helped && self.leader.is_none() {
            // Also a way to grow that is behind the plain method: its model would be lost while others are
            // tried.
            accepted = Some(this);
        }
        let mut trial = self.propose(recipe, bound);
        if let Some(leader) = &self.leader {
            let change = &self.tried[leader.tried].change;
            if !trial.as_ref().is_some_and(|(_, next)| next.rivals(change)) {
                accepted = Some(leader.tried);
                self.leader = None;
            }
        }
        if let Some(accepted) = accepted {
            self.accept(accepted);
            trial = self.propose(recipe, bound);
        }
        self.done = trial.is_none();
        Next { accepted, trial }
    }

    /// Makes a stage the one that trials start from.
    fn accept(&mut self, index: usize) {
        let tried = &mut self.tried[index];
        tried.kept = true;
        self.accepted = Some((tried.stage.clone(), tried.validation_mse));
        match tried.change {
            // What did not help a smaller model, or helped less, may help a larger one.
            Move::Free(_) | Move::Grow(_) | Move::GrowStronger(_) => self.failed.clear(),
            // There is no way back up the ladder to where it came from.
            Move::Weaker => self.failed.push(Move::Stronger),
            Move::Stronger => self.failed.push(Move::Weaker),
            _ => {}
        }
    }

    pub(super) fn has_tried(&self, change: &Move) -> bool {
        self.tried.iter().any(|tried| tried.change == *change)
    }
}
