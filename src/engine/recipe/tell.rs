//! What was tried, in a sentence.

use super::plan::{Move, Tried};
use crate::units::{self, digits};
use std::fmt;

impl Tried {
    /// What was changed.
    pub fn what(&self) -> String {
        match &self.change {
            Move::Plain => "the plain method".into(),
            Move::Begin => "a model with biases and penalty".into(),
            Move::Sweeps => "sweeps over the rows of two modes".into(),
            Move::More => "more components of the two modes".into(),
            Move::Fewer => "fewer components of the two modes".into(),
            Move::Extend(mode) => format!("components that change with mode {}", mode + 1),
            Move::Pairs => "components of further pairs of modes".into(),
            Move::Cells => "biases of pairs of ids".into(),
            Move::All => "components of all modes together".into(),
            Move::Search(_) => "a step of the search of an earlier version".into(),
        }
    }
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (steps, verdict) = match (&self.change, self.kept) {
            (Move::Plain, _) => ("iterations", "to compare with"),
            (_, true) => ("sweeps", "kept"),
            (_, false) => ("sweeps", "taken back"),
        };
        let (what, ranks, mse) = (self.what(), units::ranks(&self.stage.ranks), digits(self.validation_mse));
        write!(f, "tried {what}: rank {ranks}, {} {steps}, validation MSE {mse}: {verdict}", self.iterations)
    }
}
