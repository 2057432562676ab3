//! What the user asked for, and what is left to validation.

use crate::error::{Error, Result};
use crate::objective::PenaltyKind;
use crate::shard::Manifest;
use serde::{Deserialize, Serialize};

/// Which biases a model has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BiasChoice {
    /// Validation decides.
    Auto,
    /// None: the tensor explains everything.
    #[default]
    None,
    /// The mean of the train values.
    Mean,
    /// The mean, and a damped bias for every index of every mode.
    Modes,
}

/// How much penalty.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PenaltyChoice {
    /// From counts first, then by validation.
    Auto,
    /// This much; 0 for none.
    Fixed(f64),
}

/// What the user asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// Biases.
    pub bias: BiasChoice,
    /// The modes of a time bias: whose first entry counts, and which mode tells the time.
    pub bias_time: Option<(usize, usize)>,
    /// Penalty.
    pub penalty: PenaltyChoice,
    /// Its norm; none leaves it to validation where the weight is, and is nuclear otherwise.
    pub penalty_kind: Option<PenaltyKind>,
    /// Whether the rank grows from a small one up to that of the configuration.
    pub grow: bool,
    /// Whether rows are fitted to their own entries in the end, where validation says that it helps. Not
    /// in files from before there was a choice.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refine: bool,
    /// Whether that goes on to the rows of the other modes, and to values at the ends of the range that say
    /// only so much. Not in files from before it did.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refine_further: bool,
    /// Whether noisy data are fitted by sweeps over their rows, with priors that are learned, instead of a search
    /// for rank and penalty. Not in files from before there were any.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sweeps: bool,
    /// Where predictions are clipped.
    pub range: Option<(f64, f64)>,
}

impl Default for Recipe {
    fn default() -> Self {
        Recipe::plain()
    }
}

impl Recipe {
    /// The paper's method: no biases, no penalty, fixed rank.
    pub fn plain() -> Self {
        Recipe {
            bias: BiasChoice::None,
            bias_time: None,
            penalty: PenaltyChoice::Fixed(0.0),
            penalty_kind: None,
            grow: false,
            refine: false,
            refine_further: false,
            sweeps: false,
            range: None,
        }
    }

    /// The default: where there are validation entries they decide everything, where not, it is
    /// the paper's method. Clipped where the values look like ratings.
    pub fn usual(manifest: &Manifest) -> Self {
        let range = rating_range(manifest);
        if manifest.validation.entries == 0 {
            return Recipe { range, ..Recipe::plain() };
        }
        Recipe {
            bias: BiasChoice::Auto,
            penalty: PenaltyChoice::Auto,
            grow: true,
            refine: true,
            refine_further: true,
            sweeps: true,
            range,
            ..Recipe::plain()
        }
    }

    /// Whether it is the paper's method, with nothing to add and nothing to decide.
    pub fn is_plain(&self) -> bool {
        self.bias == BiasChoice::None && self.penalty == PenaltyChoice::Fixed(0.0) && !self.grow
    }

    /// Whether anything is left to validation.
    pub fn decides(&self) -> bool {
        self.bias == BiasChoice::Auto || self.penalty == PenaltyChoice::Auto || self.grow
    }

    /// Whether rows are fitted to their own entries in the end; never by the paper's method.
    pub fn refines(&self) -> bool {
        self.refine && !self.is_plain()
    }

    /// Says what cannot be, before anything is read.
    pub fn check(&self, manifest: &Manifest) -> Result<()> {
        if self.decides() && manifest.validation.entries == 0 {
            let what = "`bias` auto, `penalty` auto, `grow` and `rank` auto decide on validation entries, and \
                        there are none: convert with `split` or `validation`, or give `bias`, `penalty`, \
                        `no_grow` and `rank`";
            return Err(Error::request(what));
        }
        if self.refines() && manifest.validation.entries == 0 {
            let what = "`refine` decides on validation entries, and there are none: convert with `split` or \
                        `validation`";
            return Err(Error::request(what));
        }
        if let Some((of, clock)) = self.bias_time {
            if of == clock || of >= manifest.modes.len() || clock >= manifest.modes.len() {
                return Err(Error::request("`bias_time` wants two different modes, as in user:timestamp"));
            }
            if matches!(self.bias, BiasChoice::None | BiasChoice::Mean) {
                return Err(Error::request("`bias_time` goes with `bias` modes or auto"));
            }
        }
        Ok(())
    }
}

/// The range of the train values, where they look like ratings: at most 101 distinct values, each
/// ten times or more on average.
pub fn rating_range(manifest: &Manifest) -> Option<(f64, f64)> {
    let values = &manifest.values;
    let distinct = values.distinct.filter(|&n| (2..=101).contains(&n))?;
    (manifest.train.entries >= 10 * u64::from(distinct)).then_some((values.min, values.max))
}

/// The highest rank that `--rank auto` goes to: as many as there are train entries for every row of
/// the two largest modes, between 8 and 64, and not above a mode's dimension.
pub fn auto_rank(manifest: &Manifest) -> Vec<usize> {
    let mut dims: Vec<usize> = manifest.dims().iter().map(|&dim| dim as usize).collect();
    dims.sort_unstable();
    let rows: usize = dims.iter().rev().take(2).sum();
    let most = (manifest.train.entries / rows.max(1) as u64).clamp(8, 64) as usize;
    // In order 2 neither rank may be above the other.
    let most = if dims.len() == 2 { most.min(dims[0]) } else { most };
    let bound: Vec<usize> = manifest.dims().iter().map(|&dim| most.min(dim as usize)).collect();
    let product = |but: usize| -> usize {
        bound.iter().enumerate().filter(|(mode, _)| *mode != but).map(|(_, rank)| *rank).product()
    };
    (0..bound.len()).map(|mode| bound[mode].min(product(mode))).collect()
}
