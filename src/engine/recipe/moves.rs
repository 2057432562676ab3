//! What can be tried from a stage.

use super::plan::{FIRST_RANK, Move, Plan, Stage};
use super::settings::{PenaltyChoice, Recipe};
use crate::objective::PenaltyKind;

/// The penalty changes by this factor.
const LADDER: f64 = 1.4;

impl Plan {
    /// The first change of the accepted stage that has not failed yet.
    pub(super) fn propose(&self, recipe: &Recipe, bound: &[usize]) -> Option<(Stage, Move)> {
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
                    stage.ranks[*mode] = FIRST_RANK.min(bound[*mode]);
                }
                Move::Grow(modes) | Move::GrowStronger(modes) => {
                    if matches!(change, Move::GrowStronger(_)) {
                        stage.lambda *= LADDER;
                    }
                    modes.iter().for_each(|&mode| stage.ranks[mode] = grown(stage.ranks[mode], bound[mode]));
                }
                Move::Plain | Move::Begin | Move::Rows | Move::Others | Move::Ends => return None,
                Move::Sweeps | Move::Extend(_) | Move::Pairs | Move::Cells | Move::All => return None,
            }
            possible(&stage.ranks).then_some((stage, change))
        })
    }
}

/// Doubled: a step up by one gains too little to be told from noise.
fn grown(rank: usize, bound: usize) -> usize {
    (2 * rank).min(bound)
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
