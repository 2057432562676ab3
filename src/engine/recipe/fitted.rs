//! From the state of a run to the model that it stands for.

use super::settings::BiasChoice;
use super::trainer::Extra;
use crate::manifold::Point;
use crate::model::{Biases, Ends, Uncertainty};
use crate::objective::Coordinates;
use crate::solver::{Phase, State};

/// A model on its way out of a run.
#[derive(Debug, Clone)]
pub struct Fitted {
    /// The tensor in its own factors.
    pub point: Point,
    /// The biases.
    pub biases: Option<Biases>,
    /// The modes held constant.
    pub held: Vec<bool>,
    /// What values at the ends of the range say, where that is not the values themselves.
    pub ends: Option<Ends>,
    /// How sure it is, where that is known.
    pub uncertainty: Option<Box<Uncertainty>>,
    /// Whether it was fitted to the validation entries as well.
    pub refit: bool,
}

/// The model of a state and what goes with it.
pub fn fitted(state: &State, extra: &Extra, coordinates: Option<&Coordinates>) -> Fitted {
    let (stage, biases) = match (&state.best, &extra.best) {
        (Some(_), Some((stage, biases))) => (stage, biases.clone()),
        _ => {
            let stage = &extra.plan.stage;
            (stage, if stage.bias == BiasChoice::None { None } else { extra.biases.clone() })
        }
    };
    let mut point = extra.better_before(state).map_or_else(|| state.model(), |(point, _)| point).clone();
    if let Some(coordinates) = coordinates.filter(|_| stage.has_coordinates()) {
        for (mode, factor) in point.factors.iter_mut().enumerate() {
            coordinates.scale_in_place(mode, factor);
        }
    }
    let held = if stage.held.contains(&true) { stage.held.clone() } else { Vec::new() };
    let mut uncertainty = extra.uncertainty.clone();
    if let (Some(uncertainty), Some(sweeping)) = (&mut uncertainty, &extra.sweeping) {
        sweeping.fit.posterior.keep_features(&sweeping.fit.terms, uncertainty);
    }
    let refit = state.last.phase == Some(Phase::Refit);
    Fitted { point, biases, held, ends: extra.ends, uncertainty, refit }
}
