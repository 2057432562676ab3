//! `--given MODE=ID`: what predict, recommend and evaluate are told of a mode.

use super::Context;
use tenfill_engine::error::{Error, Result};
use tenfill_engine::model::{Found, ModeIds, Model, Place};

/// A mode and what is said of it, as the user wrote it.
pub(super) type Given = (String, String);

/// From `MODE=ID`.
pub(super) fn parse(text: &str) -> Result<Given, String> {
    let (mode, id) = text.split_once('=').ok_or("write it as MODE=ID, like userId=42")?;
    Ok((mode.trim().to_string(), id.trim().to_string()))
}

/// The number of a mode by its name.
pub(super) fn mode(ids: &[ModeIds], name: &str) -> Result<usize> {
    ids.iter().position(|mode| mode.name() == name).ok_or_else(|| {
        let names: Vec<&str> = ids.iter().map(ModeIds::name).collect();
        Error::request(format!("there is no mode '{name}': the modes are {}", names.join(", ")))
    })
}

/// What was given, as places; no mode twice.
pub(super) fn places(
    model: &Model,
    ids: &[ModeIds],
    given: &[Given],
    strict: bool,
    context: &Context,
) -> Result<Vec<(usize, Place)>> {
    let mut places: Vec<(usize, Place)> = Vec::new();
    for (name, id) in given {
        let mode = mode(ids, name)?;
        if places.iter().any(|(other, _)| *other == mode) {
            return Err(Error::request(format!("--given says two things of {name}")));
        }
        places.push((mode, place(model, &ids[mode], mode, id, strict, context)?));
    }
    Ok(places)
}

fn place(
    model: &Model,
    ids: &ModeIds,
    mode: usize,
    id: &str,
    strict: bool,
    context: &Context,
) -> Result<Place> {
    let name = ids.name();
    let known = |index: &u32| model.knows(mode, *index);
    if let (Some(bins), "latest") = (ids.bins(), id) {
        let latest = (0..ids.dim()).rev().find(known).unwrap_or(0);
        let kind = if bins.time { "bin that begins at" } else { "bin from" };
        context.control.detail(format!("{name}=latest is the {kind} {}", ids.label(latest)));
        return Ok(Place::Index(latest));
    }
    let found = ids.find(id).map_err(Error::request)?;
    if found == Found::Unknown && id == "average" {
        return Ok(Place::Average);
    }
    if let Found::Nearest(index) = found {
        let nearest = ids.label(index);
        if strict {
            return Err(Error::request(format!(
                "{name}={id} lies outside the bins: the nearest begins at {nearest}"
            )));
        }
        context.control.say(format!("{name}={id} lies outside the bins: taking the nearest, {nearest}"));
    }
    match found.index().filter(known) {
        Some(index) => Ok(Place::Index(index)),
        None => {
            let what = match (found.index(), ids.nearest(id)) {
                (Some(_), _) => format!("{name} '{id}' has no train entries"),
                (None, near) if near.is_empty() => format!("the model does not know {name} '{id}'"),
                (None, near) => {
                    format!("the model does not know {name} '{id}'; the nearest are {}", near.join(", "))
                }
            };
            // Without biases everything would have the same value.
            if strict || model.biases.is_none() && !model.is_held(mode) {
                return Err(Error::request(what));
            }
            context.control.say(format!("{what}: falling back on the biases of what is known"));
            Ok(Place::Unknown)
        }
    }
}
