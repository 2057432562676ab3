//! What is found out before the first iteration: counts, biases, and a penalty to begin with.

use super::settings::{BiasChoice, Recipe};
use crate::control::Control;
use crate::error::Result;
use crate::manifold::Point;
use crate::model::Biases;
use crate::objective::PenaltyKind;
use crate::objective::Regularised;
use crate::objective::bias_fit::{self, Counts, Damping};
use crate::shard::Dataset;
use crate::solver::Objective;
use crate::units::digits;

/// The penalty to begin with is this times sigma sqrt((n_1 + n_2) / m), about the norm of the gradient
/// of pure noise of standard deviation sigma over m entries of n_1 x n_2 rows: a smaller one would
/// fit noise in every direction.
const USUAL: f64 = 0.75;

/// What was found.
#[derive(Default)]
pub(super) struct Prepared {
    pub counts: Option<Counts>,
    /// Which biases; never `Auto`.
    pub bias: BiasChoice,
    pub biases: Option<Biases>,
    pub damping: Option<Damping>,
    /// The validation MSE of biases alone.
    pub biases_mse: Option<f64>,
    pub usual_lambda: f64,
    /// The two modes whose indices differ most.
    pub main: [usize; 2],
    /// Passes over the train entries that this has taken.
    pub passes: usize,
}

/// Counts entries and fits biases, as far as the recipe needs them; nothing for the plain method.
pub(super) fn prepare(
    dataset: &Dataset,
    recipe: &Recipe,
    objective: &mut Regularised,
    control: &Control,
) -> Result<Prepared> {
    let mut found = Prepared::default();
    if recipe.is_plain() {
        return Ok(found);
    }
    let manifest = dataset.manifest();
    let dims: Vec<usize> = manifest.dims().iter().map(|&dim| dim as usize).collect();
    let (counts, time) = bias_fit::count(manifest, objective.data.train(), recipe.bias_time)?;
    found.passes = 1 + usize::from(time.is_some());
    let mean = Biases::mean_only(manifest.mean(), dims.len());
    let nothing = Point::zeros(&dims, &vec![1; dims.len()]);
    if recipe.bias != BiasChoice::None {
        (found.bias, found.biases_mse) = (BiasChoice::Mean, validate(objective, &mean, &nothing)?);
    }
    let train = objective.data.train();
    let (biases, damping) = bias_fit::fit(train, &manifest.mode_order, &counts, mean.mean, time)?;
    found.passes += bias_fit::ROUNDS * (dims.len() + usize::from(biases.time.is_some()));
    found.main = main_modes(&damping.modes);
    if matches!(recipe.bias, BiasChoice::Modes | BiasChoice::Auto) {
        let entries: Vec<String> = damping.modes.iter().map(|damping| format!("{damping:.1}")).collect();
        control.detail(format!("damping of the biases, in entries: {}", entries.join(", ")));
        let mse = validate(objective, &biases, &nothing)?;
        if let Some((mean, modes)) = found.biases_mse.zip(mse) {
            control.detail(format!(
                "validation MSE of the mean alone {}, with biases {}",
                digits(mean),
                digits(modes)
            ));
        }
        if recipe.bias == BiasChoice::Modes || mse < found.biases_mse {
            (found.bias, found.biases_mse) = (BiasChoice::Modes, mse);
            (found.biases, found.damping) = (Some(biases), Some(damping));
        }
    }
    if found.bias == BiasChoice::Mean {
        found.biases = Some(mean);
    }
    let rows = |mode: usize| counts.modes[mode].iter().filter(|&&n| n > 0.0).count() as f64;
    let rows: f64 = found.main.into_iter().map(rows).sum();
    let left = found.biases_mse.unwrap_or_else(|| manifest.variance());
    found.usual_lambda = USUAL * (left * rows / manifest.train.entries.max(1) as f64).sqrt();
    if recipe.penalty_kind == Some(PenaltyKind::Frobenius) {
        // A square beside a square: its weight has no unit, those of the others have that of the values.
        found.usual_lambda /= manifest.variance().sqrt();
    }
    found.counts = Some(counts);
    Ok(found)
}

/// The two modes with the least damping, in order: those whose indices differ most. A time mode with
/// more indices than there are users is not one of them.
fn main_modes(damping: &[f64]) -> [usize; 2] {
    let mut modes: Vec<usize> = (0..damping.len()).collect();
    modes.sort_by(|&a, &b| damping[a].total_cmp(&damping[b]).then(a.cmp(&b)));
    [modes[0].min(modes[1]), modes[0].max(modes[1])]
}

/// The validation MSE of biases alone.
fn validate(objective: &mut Regularised, biases: &Biases, nothing: &Point) -> Result<Option<f64>> {
    objective.data.set_biases(Some(biases.clone()));
    let mse = objective.validation(nothing);
    objective.data.set_biases(None);
    mse
}
