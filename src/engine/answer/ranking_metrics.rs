//! How well the best ids of a mode meet what was held out: precision, recall and NDCG at k.

use super::ranking::{Ranked, Ranking};
use super::seen::{Observed, SeenEntries};
use crate::control::{Control, Unit};
use crate::error::{Error, Result};
use crate::model::{Model, Place, Places};
use std::borrow::Cow;
use std::ops::Range;

/// Ids that are ranked before their figures are summed.
const IDS_AT_ONCE: u32 = 4096;

/// Means over the ids that have something relevant held out.
///
/// With the k best unobserved candidates of an id, of which h are relevant, at the positions p_1 <
/// ... < p_h, and n relevant ones in all: precision = h / k, recall = h / n, and NDCG =
/// sum 1 / log2(1 + p_i) over sum for i = 1 to min(k, n) of 1 / log2(1 + i).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RankingMetrics {
    /// Of what is recommended, the share that is relevant.
    pub precision: f64,
    /// Of what is relevant, the share that is recommended.
    pub recall: f64,
    /// The same with weights that fall with the position, 1 for the best order possible.
    pub ndcg: f64,
    /// The ids in these means.
    pub ids: u64,
}

/// What is ranked for whom.
pub struct RankingQuestion<'d> {
    /// What is known of every mode; `ranked` and `each` are not looked at.
    pub question: Vec<Place>,
    /// The mode that is ranked.
    pub ranked: usize,
    /// The mode whose ids ask.
    pub each: usize,
    /// How many are recommended.
    pub top: usize,
    /// Held-out entries of at least this value are relevant; all where not given.
    pub relevant: Option<f64>,
    /// Observed entries, which are no candidates.
    pub seen: Observed<'d>,
}

/// Ranks for every id and compares with `held_out(ids)`, which has the entries of these ids, if not of more.
pub fn ranking_metrics<'s>(
    model: &Model,
    asked: &RankingQuestion<'_>,
    mut held_out: impl FnMut(Range<u32>) -> Result<Cow<'s, SeenEntries>>,
    control: &Control,
) -> Result<RankingMetrics> {
    let RankingQuestion { question, ranked, each, top, .. } = asked;
    let about = &model.about.modes[*ranked];
    if *top == 0 || *top > about.dim as usize {
        let what = format!("`top` {top} is not between 1 and the {} ids of {}", about.dim, about.name);
        return Err(Error::request(what));
    }
    let averaged: Vec<bool> = question.iter().map(|place| *place == Place::Average).collect();
    let places = Places::new(model, &averaged);
    let ranking = Ranking::new(&places, question, *ranked, Some(*each));
    let dim = model.about.modes[*each].dim;
    control.progress().stage("rank", Unit::Rows, dim.into());
    let mut sums = RankingMetrics::default();
    for range in asked.seen.ranges(dim)? {
        let (seen, held) = (asked.seen.entries(range.clone())?, held_out(range.clone())?);
        for first in range.clone().step_by(IDS_AT_ONCE as usize) {
            control.check()?;
            let part = first..range.end.min(first + IDS_AT_ONCE);
            let best = ranking.best(part.clone(), *top, |id| seen.indices(id));
            for (id, best) in part.clone().zip(&best) {
                let entries = held.indices(id).iter().zip(held.values(id));
                let relevant: Vec<u32> = entries
                    .filter(|(index, value)| {
                        asked.relevant.is_none_or(|least| **value >= least)
                            && seen.indices(id).binary_search(index).is_err()
                    })
                    .map(|(index, _)| *index)
                    .collect();
                sums.add(best, &relevant, *top);
            }
            control.progress().advance(part.end.into(), &"");
        }
    }
    Ok(sums.mean())
}

impl RankingMetrics {
    /// Adds one id's figures; `relevant` is ascending.
    fn add(&mut self, best: &[Ranked], relevant: &[u32], top: usize) {
        if relevant.is_empty() {
            return;
        }
        let gain = |position: usize| 1.0 / (position as f64 + 2.0).log2();
        let (mut hits, mut gained) = (0u32, 0.0);
        for (position, candidate) in best.iter().enumerate() {
            if relevant.binary_search(&candidate.index).is_ok() {
                hits += 1;
                gained += gain(position);
            }
        }
        let ideal: f64 = (0..top.min(relevant.len())).map(gain).sum();
        self.precision += f64::from(hits) / top as f64;
        self.recall += f64::from(hits) / relevant.len() as f64;
        self.ndcg += gained / ideal;
        self.ids += 1;
    }

    fn mean(self) -> Self {
        let ids = self.ids.max(1) as f64;
        RankingMetrics {
            precision: self.precision / ids,
            recall: self.recall / ids,
            ndcg: self.ndcg / ids,
            ids: self.ids,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_known_case() {
        let ranked = |index| Ranked { index, value: 0.0, known: true, sd: None, bound: None };
        let best: Vec<Ranked> = [7, 3, 9, 1].map(ranked).into();
        let mut sums = RankingMetrics::default();
        sums.add(&best, &[1, 7, 20], 4);
        sums.add(&best, &[], 4);
        let found = sums.mean();
        assert_eq!((found.precision, found.recall, found.ids), (0.5, 2.0 / 3.0, 1));
        let (dcg, ideal) = (1.0 + 1.0 / 5f64.log2(), 1.0 + 1.0 / 3f64.log2() + 0.5);
        assert!((found.ndcg - dcg / ideal).abs() < 1e-15);
    }
}
