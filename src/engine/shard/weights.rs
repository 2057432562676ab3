//! What a manifest says about the weights of entries.

use super::manifest::Split;
use serde::{Deserialize, Serialize};

/// What the weights of a split's entries add up to, with their values y.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WeightSums {
    /// The sum of w.
    pub sum: f64,
    /// The sum of w y.
    pub values: f64,
    /// The sum of w y^2.
    pub squares: f64,
    /// The least weight.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// How many are 0.
    pub zeros: u64,
}

impl Default for WeightSums {
    fn default() -> Self {
        WeightSums { sum: 0.0, values: 0.0, squares: 0.0, min: f64::MAX, max: 0.0, zeros: 0 }
    }
}

impl WeightSums {
    /// Takes one more entry.
    pub fn add(&mut self, value: f64, weight: f64) {
        self.sum += weight;
        self.values += weight * value;
        self.squares += weight * value * value;
        self.min = self.min.min(weight);
        self.max = self.max.max(weight);
        self.zeros += u64::from(weight == 0.0);
    }
}

/// The weights of a dataset's entries: an entry of weight 2 counts as two, one of weight 0 not at all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Weights {
    /// The column that they come from.
    pub column: String,
    /// Whether there is no such column: an entry counts as many as the rows that were joined to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counts: bool,
    /// What those of the train entries add up to.
    pub train: WeightSums,
    /// Those of the validation entries.
    pub validation: WeightSums,
    /// Those of the test entries.
    pub test: WeightSums,
}

impl Weights {
    /// What counts of rows are called where a column of weights has its name.
    pub const ROWS: &'static str = "rows";

    /// The column of the user's that they come from.
    pub fn given(&self) -> Option<&String> {
        (!self.counts).then_some(&self.column)
    }

    /// The sums of a split.
    pub fn split(&self, split: Split) -> &WeightSums {
        match split {
            Split::Train => &self.train,
            Split::Validation => &self.validation,
            Split::Test => &self.test,
        }
    }
}
