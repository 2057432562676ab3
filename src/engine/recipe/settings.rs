//! What the user asked for, and what is left to the data.

use crate::error::{Error, Result};
use crate::objective::PenaltyKind;
use crate::shard::Manifest;
use serde::{Deserialize, Serialize};

/// Which biases a model has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BiasChoice {
    /// Those of the method that the data ask for: none of the plain one, of every mode by sweeps.
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
    /// None: priors that are learned take its place where data are noisy.
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
    /// Its norm; none is nuclear.
    pub penalty_kind: Option<PenaltyKind>,
    /// Whether noisy data are fitted by sweeps over their rows, with priors that are learned. Not in files from before
    /// there were any.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sweeps: bool,
    /// Whether they have nothing before them although a rank is given, because the values cannot be low-rank as they are.
    /// Not in files from before that was told.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub straight: bool,
    /// Whether the last sweep is to the validation entries as well. Not in files from before there was one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refit: bool,
    /// Whether a search let the rank grow: only in files of versions that searched.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub grow: bool,
    /// Where predictions are clipped.
    pub range: Option<(f64, f64)>,
}

impl Default for Recipe {
    fn default() -> Self {
        Recipe::plain()
    }
}

impl Recipe {
    /// The paper's method: no biases, no penalty.
    pub fn plain() -> Self {
        Recipe {
            bias: BiasChoice::None,
            bias_time: None,
            penalty: PenaltyChoice::Fixed(0.0),
            penalty_kind: None,
            sweeps: false,
            straight: false,
            refit: false,
            grow: false,
            range: None,
        }
    }

    /// The default: where there are validation entries they decide between the paper's method and sweeps, where not,
    /// it is the paper's method. Where values look like ratings, there is nothing to decide, and predictions are clipped.
    pub fn usual(manifest: &Manifest) -> Self {
        let range = rating_range(manifest);
        if manifest.validation.entries == 0 {
            return Recipe { range, ..Recipe::plain() };
        }
        Recipe {
            bias: BiasChoice::Auto,
            penalty: PenaltyChoice::Auto,
            sweeps: true,
            straight: range.is_some(),
            refit: true,
            range,
            ..Recipe::plain()
        }
    }

    /// Whether it is the paper's method, with nothing to add and nothing to decide.
    pub fn is_plain(&self) -> bool {
        self.bias == BiasChoice::None && self.penalty == PenaltyChoice::Fixed(0.0) && !self.sweeps
    }

    /// Whether anything is left to validation.
    pub fn decides(&self) -> bool {
        self.sweeps
    }

    /// Whether it asks for the search over ranks and penalties that earlier versions had, and this one has not.
    pub fn is_search(&self) -> bool {
        let auto = self.bias == BiasChoice::Auto || self.penalty == PenaltyChoice::Auto;
        !self.sweeps && (auto || self.grow)
    }

    /// Says what cannot be, before anything is read.
    pub fn check(&self, manifest: &Manifest, rank_auto: bool) -> Result<()> {
        if (self.sweeps || rank_auto) && manifest.validation.entries == 0 {
            let what = "`rank` auto decides on validation entries, and there are none: convert with `split` or \
                        `validation`, or give `rank`";
            return Err(Error::request(what));
        }
        if rank_auto && !self.sweeps {
            let what = "`rank` auto is for sweeps, which learn biases and priors: give `rank`, or leave out what \
                        asks for another method";
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
