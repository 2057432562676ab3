//! The best of a mode for some questions at once: the entries to leave out are found in one reading.

use super::given::observed_with;
use super::ranking::{Ranked, Ranking};
use super::unsure::check_sure;
use crate::control::{Control, Unit};
use crate::error::{Error, Result};
use crate::model::{ModeIds, Model, Place, Places, Spreads};
use crate::shard::{Dataset, Split};
use std::collections::HashMap;

/// Questions that give the same modes.
pub struct Questions<'d> {
    /// What each says of every mode; the ranked one is not looked at.
    pub questions: Vec<Vec<Place>>,
    /// The mode whose best indices are wanted.
    pub ranked: usize,
    /// How many.
    pub top: usize,
    /// Whether to tell the standard deviation of an observation, too.
    pub sd: bool,
    /// Ranks by an upper bound, so many standard deviations of what is said above it.
    pub explore: Option<f64>,
    /// Where to look for the entries that are left out; none leaves nothing out.
    pub datasets: &'d [Dataset],
    /// Their splits that count.
    pub splits: Vec<Split>,
}

/// The best of every question, best first.
pub fn recommend_some(
    model: &Model,
    ids: &[ModeIds],
    asked: &Questions<'_>,
    control: &Control,
) -> Result<Vec<Vec<Ranked>>> {
    let (ranked, dim) = (asked.ranked, ids[asked.ranked].dim());
    if asked.top == 0 || asked.top > dim as usize {
        let what =
            format!("`top` {} is not between 1 and the {dim} ids of {}", asked.top, ids[ranked].name());
        return Err(Error::request(what));
    }
    let averaged = |mode: usize| {
        mode != ranked && asked.questions.iter().any(|question| question[mode] == Place::Average)
    };
    let averaged: Vec<bool> = (0..ids.len()).map(averaged).collect();
    let places = Places::new(model, &averaged);
    check_sure(model, asked.sd || asked.explore.is_some())?;
    let spreads = Spreads::wanted(model, &averaged, asked.sd, asked.explore)?;
    let seen = seen(ids, asked)?;
    control.progress().stage("recommend", Unit::Rows, asked.questions.len() as u64);
    let mut best = Vec::with_capacity(asked.questions.len());
    for (number, question) in asked.questions.iter().enumerate() {
        control.check()?;
        let mut ranking = Ranking::new(&places, question, ranked, None);
        if let Some(spreads) = &spreads {
            ranking = ranking.with_spreads(spreads, asked.explore);
        }
        best.extend(ranking.best(0..1, asked.top, |_| &seen[number]));
        control.progress().advance(number as u64 + 1, &"");
    }
    Ok(best)
}

/// The indices that were observed with what each question gives, ascending.
fn seen(ids: &[ModeIds], asked: &Questions<'_>) -> Result<Vec<Vec<u32>>> {
    let mut seen = vec![Vec::new(); asked.questions.len()];
    // Questions by the modes that they give, then by the indices.
    let mut wanted: HashMap<Vec<usize>, HashMap<Vec<u32>, Vec<usize>>> = HashMap::new();
    for (number, question) in asked.questions.iter().enumerate() {
        let Some(given) = observed_with(ids, question, asked.ranked, None) else { continue };
        let (modes, indices) = given.into_iter().unzip();
        wanted.entry(modes).or_default().entry(indices).or_default().push(number);
    }
    for dataset in asked.datasets {
        for &split in &asked.splits {
            let mut key = Vec::new();
            dataset.for_each(split, |at, value| {
                if !dataset.manifest().is_observed(value) {
                    return;
                }
                for (modes, questions) in &wanted {
                    key.clear();
                    key.extend(modes.iter().map(|&mode| at[mode]));
                    for &number in questions.get(&key).into_iter().flatten() {
                        seen[number].push(at[asked.ranked]);
                    }
                }
            })?;
        }
    }
    for indices in &mut seen {
        indices.sort_unstable();
        indices.dedup();
    }
    Ok(seen)
}
