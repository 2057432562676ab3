//! Why a model does not know how sure it is.

use crate::error::{Error, Result};
use crate::model::Model;
use crate::run::{Config, End};
use crate::solver::StoppedBy;

/// An error where standard deviations are wanted of a model that has none.
pub(super) fn check_sure(model: &Model, wanted: bool) -> Result<()> {
    match wanted && model.uncertainty.is_none() {
        true => Err(Error::input(model.run(), why_unsure(model))),
        false => Ok(()),
    }
}

/// What is said of a model that does not know how sure it is: whoever let validation decide has done nothing wrong.
pub fn why_unsure(model: &Model) -> &'static str {
    let run = model.run();
    let ended = matches!(End::read(run), Ok(Some(end)) if end.stopped_by != StoppedBy::Interrupted.as_str());
    match ended && Config::read(run).is_ok_and(|config| config.recipe.sweeps) {
        true => {
            "the model does not know how sure it is: it was fitted by the plain method, because that explains these data \
             nearly exactly, or better by validation, and it has no standard deviations"
        }
        false => {
            "the model does not know how sure it is: only models that were fitted by sweeps do (`complete` without \
             `penalty`, `bias` and options of the plain method, on data with noise)"
        }
    }
}
