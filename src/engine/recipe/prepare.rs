//! What is found out before the first iteration: counts and biases.

use super::settings::{BiasChoice, Recipe};
use crate::control::Control;
use crate::error::Result;
use crate::manifold::Point;
use crate::model::Biases;
use crate::objective::Regularised;
use crate::objective::bias_fit::{self, Counts, Damping};
use crate::shard::Dataset;
use crate::solver::Objective;
use crate::units::digits;

/// What was found.
#[derive(Default)]
pub(super) struct Prepared {
    pub counts: Option<Counts>,
    pub biases: Option<Biases>,
    pub damping: Option<Damping>,
    /// The validation MSE of biases alone.
    pub biases_mse: Option<f64>,
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
        found.biases_mse = validate(objective, &mean, &nothing)?;
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
            found.biases_mse = mse;
        }
    }
    (found.biases, found.damping) = match recipe.bias {
        // What the plain method is compared with is no part of it.
        BiasChoice::Auto | BiasChoice::None => (None, None),
        BiasChoice::Mean => (Some(mean), None),
        BiasChoice::Modes => (Some(biases), Some(damping)),
    };
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
