//! Modes that are given on the command line: `--given userId=42`.

pub(super) use tenfill_engine::answer::{each_mode, given_places as places, mode_named as mode};

/// A mode and what is said of it, as the user wrote it.
pub(super) type Given = (String, String);

/// From `MODE=ID`.
pub(super) fn parse(text: &str) -> Result<Given, String> {
    let (mode, id) = text.split_once('=').ok_or("write it as MODE=ID, like userId=42")?;
    Ok((mode.trim().to_string(), id.trim().to_string()))
}
