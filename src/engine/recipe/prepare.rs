//! What is found out before the first iteration: counts and biases.

use super::settings::{BiasChoice, Recipe};
use crate::control::Control;
use crate::error::Result;
use crate::manifold::Point;
use crate::model::Biases;
use crate::objective::Regularised;
use crate::objective::bias_fit::{self, Counts, Damping};
use crate::shard::{Dataset, Manifest};
use crate::solver::Objective;

/// What was found.
pub(super) struct Prepared {
    pub counts: Counts,
    pub biases: Option<Biases>,
    pub damping: Option<Damping>,
    /// The two modes whose indices differ most.
    pub main: [usize; 2],
    /// Passes over the train entries that this has taken.
    pub passes: usize,
}

/// Counts entries and fits biases, as far as a recipe of biases and a penalty needs them.
pub(super) fn prepare(
    dataset: &Dataset,
    recipe: &Recipe,
    objective: &Regularised,
    control: &Control,
) -> Result<Prepared> {
    let manifest = dataset.manifest();
    let order = manifest.modes.len();
    let (counts, time) = bias_fit::count(manifest, objective.data.train(), recipe.bias_time)?;
    let mut passes = 1 + usize::from(time.is_some());
    let mean = Biases::mean_only(manifest.mean(), order);
    let train = objective.data.train();
    let (biases, damping) = bias_fit::fit(train, &manifest.mode_order, &counts, mean.mean, time)?;
    passes += bias_fit::ROUNDS * (order + usize::from(biases.time.is_some()));
    let main = main_modes(&damping.modes);
    let entries: Vec<String> = damping.modes.iter().map(|damping| format!("{damping:.1}")).collect();
    control.detail(format!("damping of the biases, in entries: {}", entries.join(", ")));
    let (biases, damping) = match recipe.bias {
        BiasChoice::Auto | BiasChoice::None => (None, None),
        BiasChoice::Mean => (Some(mean), None),
        BiasChoice::Modes => (Some(biases), Some(damping)),
    };
    Ok(Prepared { counts, biases, damping, main, passes })
}

/// The two modes with the least damping, in order: those whose indices differ most. A time mode with
/// more indices than there are users is not one of them.
fn main_modes(damping: &[f64]) -> [usize; 2] {
    let mut modes: Vec<usize> = (0..damping.len()).collect();
    modes.sort_by(|&a, &b| damping[a].total_cmp(&damping[b]).then(a.cmp(&b)));
    [modes[0].min(modes[1]), modes[0].max(modes[1])]
}

/// The validation MSE of biases alone, or of the mean where that is less, and the passes over the train entries that it took.
pub(super) fn biases_mse(manifest: &Manifest, objective: &mut Regularised) -> Result<(Option<f64>, usize)> {
    let order = manifest.modes.len();
    let dims: Vec<usize> = manifest.dims().iter().map(|&dim| dim as usize).collect();
    let nothing = Point::zeros(&dims, &vec![1; order]);
    let biases = bias_fit::alone(manifest, objective.data.train())?;
    let mut least = None;
    for biases in [biases, Biases::mean_only(manifest.mean(), order)] {
        objective.data.set_biases(Some(biases));
        let mse = objective.validation(&nothing);
        objective.data.set_biases(None);
        least = mse?.into_iter().chain(least).reduce(f64::min);
    }
    Ok((least, 1 + bias_fit::ROUNDS_ALONE * order))
}
