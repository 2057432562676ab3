//! What was tried, in a sentence.

use super::plan::{Move, Tried};
use crate::units::digits;
use std::fmt;

impl Tried {
    /// What was changed.
    pub fn what(&self) -> String {
        match &self.change {
            Move::Plain => "the plain method".into(),
            Move::Begin => "a first model with biases and penalty".into(),
            Move::Log => "less penalty on what is strong".into(),
            Move::Weaker => "less penalty".to_string(),
            Move::Stronger => "more penalty".into(),
            Move::Sweeps => "sweeps over the rows of two modes".into(),
            Move::Extend(mode) => format!("components that change with mode {}", mode + 1),
            Move::Pairs => "components of further pairs of modes".into(),
            Move::Cells => "biases of pairs of ids".into(),
            Move::All => "components of all modes together".into(),
            Move::Rows => "every row fitted to its own entries".into(),
            Move::Others => "the rows of the other modes as well".into(),
            Move::Ends => "values at the ends taken for at least, or at most, that much".into(),
            Move::Free(mode) => format!("mode {} set free", mode + 1),
            Move::Grow(modes) | Move::GrowStronger(modes) => {
                let modes: Vec<String> = modes.iter().map(|mode| (mode + 1).to_string()).collect();
                let more = if matches!(self.change, Move::Grow(_)) { "" } else { " with more penalty" };
                format!("a higher rank of mode {}{more}", modes.join(" and "))
            }
        }
    }
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranks: Vec<String> = self.stage.ranks.iter().map(usize::to_string).collect();
        let verdict = match (&self.change, self.kept, self.helped) {
            (Move::Plain, ..) => "to compare with",
            (_, true, _) => "kept",
            (_, false, true) => "helps",
            (_, false, false) => "taken back",
        };
        let mse = digits(self.validation_mse);
        let steps = match self.change {
            Move::Rows | Move::Others | Move::Ends => "sweeps",
            Move::Sweeps | Move::Extend(_) | Move::Pairs | Move::Cells | Move::All => {
                // There is no penalty: priors are learned.
                let (what, ranks, sweeps) = (self.what(), ranks.join(","), self.iterations);
                return write!(
                    f,
                    "tried {what}: rank {ranks}, {sweeps} sweeps, validation MSE {mse}: {verdict}"
                );
            }
            _ => "iterations",
        };
        write!(
            f,
            "tried {}: rank {}, penalty {}, {} {steps}, validation MSE {mse}: {verdict}",
            self.what(),
            ranks.join(","),
            digits(self.stage.lambda),
            self.iterations,
        )
    }
}
