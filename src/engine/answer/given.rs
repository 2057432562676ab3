//! What a question says of modes, from the words of whoever asks.

use crate::control::Control;
use crate::error::{Error, Result};
use crate::model::{Found, ModeIds, Model, Place};

/// The number of a mode by its name.
pub fn mode_named(ids: &[ModeIds], name: &str) -> Result<usize> {
    ids.iter().position(|mode| mode.name() == name).ok_or_else(|| {
        let names: Vec<&str> = ids.iter().map(ModeIds::name).collect();
        Error::request(format!("there is no mode '{name}': the modes are {}", names.join(", ")))
    })
}

/// What was given, as places; no mode twice.
pub fn given_places(
    model: &Model,
    ids: &[ModeIds],
    given: &[(String, String)],
    strict: bool,
    control: &Control,
) -> Result<Vec<(usize, Place)>> {
    let mut places: Vec<(usize, Place)> = Vec::new();
    for (name, id) in given {
        let mode = mode_named(ids, name)?;
        if places.iter().any(|(other, _)| *other == mode) {
            return Err(Error::request(format!("`given` says two things of {name}")));
        }
        places.push((mode, place(model, &ids[mode], mode, id, strict, control)?));
    }
    Ok(places)
}

fn place(
    model: &Model,
    ids: &ModeIds,
    mode: usize,
    id: &str,
    strict: bool,
    control: &Control,
) -> Result<Place> {
    let name = ids.name();
    let known = |index: &u32| model.knows(mode, *index);
    if let (Some(bins), "latest") = (ids.bins(), id) {
        let latest = (0..ids.dim()).rev().find(known).unwrap_or(0);
        let kind = if bins.time { "bin that begins at" } else { "bin from" };
        control.detail(format!("{name}=latest is the {kind} {}", ids.label(latest)));
        return Ok(Place::Index(latest));
    }
    // No bin has this name; an id of that name goes first.
    if id == "average" && (ids.bins().is_some() || ids.find(id) == Ok(Found::Unknown)) {
        return Ok(Place::Average);
    }
    let found = ids.find(id).map_err(Error::request)?;
    if let Found::Nearest(index) = found {
        let nearest = ids.label(index);
        if strict {
            return Err(Error::request(format!(
                "{name}={id} lies outside the bins: the nearest begins at {nearest}"
            )));
        }
        control.say(format!("{name}={id} lies outside the bins: taking the nearest, {nearest}"));
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
            control.say(format!("{what}: falling back on the biases of what is known"));
            Ok(Place::Unknown)
        }
    }
}

/// What entries must have to be left out of the answer to a question: indices of modes that it gives. What was observed
/// at another time was observed, so that bins need not match, and averages match all. `None` where nothing is left
/// out: a stranger was never observed, and where bins alone are given, everything else was.
///
/// Of the ranked mode, and of `each`, for every id of which there is an answer, the question says nothing.
pub fn observed_with(
    ids: &[ModeIds],
    question: &[Place],
    ranked: usize,
    each: Option<usize>,
) -> Option<Vec<(usize, u32)>> {
    let plain = |mode: &usize| ids[*mode].bins().is_none();
    let mut given = Vec::new();
    for mode in (0..ids.len()).filter(|&mode| mode != ranked && Some(mode) != each).filter(plain) {
        match question[mode] {
            Place::Index(index) => given.push((mode, index)),
            Place::Average => {}
            Place::Unknown => return None,
        }
    }
    let any = !given.is_empty() || each.is_some_and(|each| plain(&each));
    any.then_some(given)
}

/// The mode for each id of which there is a question: named, or the only one that is left.
pub fn each_mode(ids: &[ModeIds], named: &str, taken: &[usize]) -> Result<usize> {
    if !named.is_empty() {
        let mode = mode_named(ids, named)?;
        if taken.contains(&mode) {
            return Err(Error::request(format!("{named} is given or ranked: choose another mode")));
        }
        return Ok(mode);
    }
    let left: Vec<usize> =
        (0..ids.len()).filter(|mode| !taken.contains(mode) && ids[*mode].bins().is_none()).collect();
    match left.as_slice() {
        [mode] => Ok(*mode),
        [] => Err(Error::request("no mode is left to ask for: give or rank fewer")),
        several => {
            let names: Vec<&str> = several.iter().map(|&mode| ids[mode].name()).collect();
            Err(Error::request(format!("for the ids of which mode? {} are left: name one", names.join(", "))))
        }
    }
}
