//! What is tried next, and whether it helped: a state machine without mathematics.

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
    /// Whether it was kept.
    pub kept: bool,
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
}

/// The penalty changes by this factor.
const LADDER: f64 = 1.4;
/// A higher rank or another free mode must lower the validation MSE by this share: less is noise.
pub const WORTH: f64 = 2e-4;
/// The plain method stays where its error is at most this share of that of biases alone.
const LOW_RANK: f64 = 0.25;
/// The plain method is given up where after this many iterations its error is still above this
/// share of that of biases alone: exactly low-rank data are far below it by then.
const PROBE: usize = 20;
const PROMISING: f64 = 0.5;
/// Ranks that a small model begins with.
const FIRST_RANK: usize = 4;
/// A stage ends when validation has not improved for this many iterations and the cost hardly
/// falls any more, or after twice as many in any case.
const STAGE_PATIENCE: usize = 5;
/// The cost hardly falls any more when it has fallen by less than this share meanwhile.
const SETTLED: f64 = 1e-3;
/// The share by which validation must improve to count within a stage.
pub(super) const STAGE_GAIN: f64 = 5e-5;

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
            accepted: None,
            failed: Vec::new(),
            tried: Vec::new(),
            biases_mse: None,
            main: [0, 1],
            usual_lambda: 0.0,
            done: false,
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
        stuck || settled && stale(STAGE_PATIENCE) || stale(patience.max(2 * STAGE_PATIENCE))
    }

    /// Ends the stage: whether it helped, and what comes next. `None` where nothing does.
    pub fn next(
        &mut self,
        iteration: usize,
        recipe: &Recipe,
        bias: BiasChoice,
        bound: &[usize],
    ) -> Option<(Stage, Move)> {
        let mse = self.best.map_or(f64::MAX, |(mse, _)| mse);
        let before = self.accepted.as_ref().map(|(_, mse)| *mse);
        let share = match self.change {
            Move::Free(_) | Move::Grow(_) | Move::GrowStronger(_) => 1.0 - WORTH,
            _ => 1.0,
        };
        let kept = self.change != Move::Plain && before.is_none_or(|before| mse < before * share);
        self.tried.push(Tried {
            change: self.change.clone(),
            stage: self.stage.clone(),
            iterations: iteration - self.began,
            validation_mse: mse,
            kept,
        });
        if self.change == Move::Plain {
            let low_rank = self.biases_mse.is_some_and(|biases| mse <= LOW_RANK * biases);
            if recipe.is_plain() || low_rank {
                self.done = true;
                return None;
            }
            return Some((self.begin(recipe, bias, bound), Move::Begin));
        }
        if kept {
            self.accepted = Some((self.stage.clone(), mse));
            match self.change {
                // What did not help a smaller model may help a larger one.
                Move::Free(_) | Move::Grow(_) | Move::GrowStronger(_) => self.failed.clear(),
                // There is no way back up the ladder to where it came from.
                Move::Weaker => self.failed.push(Move::Stronger),
                Move::Stronger => self.failed.push(Move::Weaker),
                _ => {}
            }
        } else {
            self.failed.push(self.change.clone());
        }
        let next = self.propose(recipe, bound);
        self.done = next.is_none();
        next
    }

    fn has_tried(&self, change: &Move) -> bool {
        self.tried.iter().any(|tried| tried.change == *change)
    }

    /// The first change of the accepted stage that has not failed yet.
    fn propose(&self, recipe: &Recipe, bound: &[usize]) -> Option<(Stage, Move)> {
        let (stage, _) = self.accepted.as_ref()?;
        let fresh = |change: &Move| !self.failed.contains(change);
        let mut moves = Vec::new();
        if recipe.penalty == PenaltyChoice::Auto {
            if recipe.penalty_kind.is_none()
                && stage.kind == PenaltyKind::Nuclear
                && !self.has_tried(&Move::Log)
            {
                moves.push(Move::Log);
            }
            moves.extend([Move::Weaker, Move::Stronger]);
        }
        if recipe.grow {
            moves
                .extend((0..bound.len()).filter(|&mode| stage.held[mode] && bound[mode] > 1).map(Move::Free));
            let growths = growths(stage, bound);
            moves.extend(growths.iter().cloned().map(Move::Grow));
            if recipe.penalty == PenaltyChoice::Auto {
                moves.extend(growths.into_iter().map(Move::GrowStronger));
            }
        }
        moves.into_iter().filter(fresh).find_map(|change| {
            let mut stage = stage.clone();
            match &change {
                Move::Log => stage.kind = PenaltyKind::Log,
                Move::Weaker => stage.lambda /= LADDER,
                Move::Stronger => stage.lambda *= LADDER,
                Move::Free(mode) => {
                    stage.held[*mode] = false;
                    stage.ranks[*mode] = 2.min(bound[*mode]);
                }
                Move::Grow(modes) | Move::GrowStronger(modes) => {
                    if matches!(change, Move::GrowStronger(_)) {
                        stage.lambda *= LADDER;
                    }
                    modes.iter().for_each(|&mode| stage.ranks[mode] = grown(stage.ranks[mode], bound[mode]));
                }
                Move::Plain | Move::Begin | Move::Rows | Move::Others | Move::Ends => return None,
            }
            possible(&stage.ranks).then_some((stage, change))
        })
    }
}

/// Half as much again at small ranks, doubled at larger ones.
fn grown(rank: usize, bound: usize) -> usize {
    (if rank < 4 { rank + 1 } else { 2 * rank }).min(bound)
}

/// The free modes with room to grow: those with the largest rank together, because neither can
/// grow alone past the product of the others, and every other on its own.
fn growths(stage: &Stage, bound: &[usize]) -> Vec<Vec<usize>> {
    let room = |mode: usize| !stage.held[mode] && stage.ranks[mode] < bound[mode];
    let most = stage.ranks.iter().copied().max().unwrap_or(1);
    let together: Vec<usize> =
        (0..bound.len()).filter(|&mode| room(mode) && stage.ranks[mode] == most).collect();
    let mut moves: Vec<Vec<usize>> = (0..bound.len())
        .filter(|&mode| room(mode) && stage.ranks[mode] < most)
        .map(|mode| vec![mode])
        .collect();
    if !together.is_empty() {
        moves.push(together);
    }
    moves
}

/// No rank above the product of the others.
fn possible(ranks: &[usize]) -> bool {
    let product = |but: usize| -> usize {
        ranks.iter().enumerate().filter(|(mode, _)| *mode != but).map(|(_, rank)| rank).product()
    };
    ranks.iter().enumerate().all(|(mode, &rank)| rank <= product(mode))
}
