//! The best indices of one mode, for one question or for every id of another mode.
//!
//! With all modes settled but the ranked one, the score of index j is `base + bias_j + <w, u_j>`,
//! where w is the core contracted with the rows of the settled modes. For all ids i of a mode the
//! scores are a matrix product, `[w_i | 1] [u_j | bias_j]^T`, which is computed in tiles that stay
//! in the cache and of which only the best are kept. What is kept is then scored once more by
//! [`Places::raw`], so that every command says the same of the same entry.

use crate::kernel::{Update, product_transposed};
use crate::model::{PairBias, Place, Places, Spreads};
use rayon::prelude::*;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::ops::Range;

/// Ids and candidates per tile: 32 x 512 scores are 128 KiB. Constants of the result, not of the
/// machine: the roundings of a product may depend on its shape.
const TILE_IDS: usize = 32;
const TILE_CANDIDATES: usize = 512;
/// Kept beyond the k best, because scoring once more may swap what rounding made nearly equal.
const MARGIN: usize = 16;

/// A candidate and what the model says of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranked {
    /// The index in the ranked mode.
    pub index: u32,
    /// The value, within the model's range.
    pub value: f64,
    /// Whether the model knows all ids of the question.
    pub known: bool,
    /// The standard deviation of an observation, where it is told.
    pub sd: Option<f64>,
    /// The upper bound that ranks, where that is not the value.
    pub bound: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Scored {
    score: f64,
    index: u32,
}

impl Eq for Scored {}

impl Ord for Scored {
    /// The better is the greater: by score, then the lower index.
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(other.index.cmp(&self.index))
    }
}

impl PartialOrd for Scored {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A question with one mode open, or two.
pub struct Ranking<'p, 'm> {
    places: &'p Places<'m>,
    question: Vec<Place>,
    ranked: usize,
    each: Option<usize>,
    /// `[u_j | bias_j]` of every candidate, row-major; an index that is none has a bias of -inf.
    candidates: Vec<f64>,
    width: usize,
    /// The core contracted with the settled rows: a row of w for every component of `each`.
    weights: Vec<f64>,
    /// Whether the time bias joins the two open modes.
    joined: bool,
    /// How sure the model is, where that is asked for.
    spreads: Option<&'p Spreads<'m>>,
    explore: Option<Explore>,
}

/// Ranks by an upper bound: so many standard deviations of what is said above it.
struct Explore {
    times: f64,
    /// Per candidate, expected squares of its numbers, less the squares of their means, 1, and the variance of its bias:
    /// times what an id gives to it that is the variance.
    candidates: Vec<f64>,
}

/// Whether a bias of pairs is of the ids that are asked for one after the other.
fn joins(pair: &PairBias, each: Option<usize>) -> bool {
    each.is_some_and(|each| pair.modes.contains(&each))
}

impl<'p, 'm> Ranking<'p, 'm> {
    /// Ranks the indices of mode `ranked`, for every id of mode `each` where that is given; what
    /// `question` says of these two is not looked at.
    pub fn new(places: &'p Places<'m>, question: &[Place], ranked: usize, each: Option<usize>) -> Self {
        let model = places.model();
        let question: Vec<Place> =
            question.iter().enumerate().map(|(mode, &place)| places.settle(mode, place)).collect();
        let open = |mode: usize| mode == ranked || Some(mode) == each;
        let rows: Vec<Option<&[f64]>> =
            (0..question.len()).map(|mode| places.row(mode, question[mode])).collect();
        // One mode of which nothing is known silences the tensor.
        let silent = (0..question.len()).any(|mode| !open(mode) && rows[mode].is_none());
        let mut kept: Vec<usize> = each.into_iter().chain([ranked]).collect();
        kept.sort_unstable();
        let rank = model.point.ranks()[ranked];
        let left = model.point.core.contract(&rows, &kept);
        let height = each.map_or(1, |each| model.point.ranks()[each]);
        let mut weights = left.clone();
        if each.is_some_and(|each| each > ranked) {
            for a in 0..height {
                for b in 0..rank {
                    weights[a * rank + b] = left[b * height + a];
                }
            }
        }
        if silent {
            weights.fill(0.0);
        }
        let time = model.biases.as_ref().and_then(|biases| biases.time.as_ref());
        let time_at = |index: u32| match time {
            Some(time) if time.of == ranked && Some(time.clock) != each => {
                places.time_bias(Place::Index(index), question[time.clock])
            }
            Some(time) if time.clock == ranked && Some(time.of) != each => {
                places.time_bias(question[time.of], Place::Index(index))
            }
            _ => 0.0,
        };
        let pairs = model.biases.iter().flat_map(|biases| &biases.pairs);
        let (with_each, others): (Vec<_>, Vec<_>) =
            pairs.filter(|pair| pair.modes.contains(&ranked)).partition(|pair| joins(pair, each));
        let pairs_at = |index: u32| -> f64 {
            let mut at = question.clone();
            at[ranked] = Place::Index(index);
            others.iter().map(|pair| places.pair_bias(pair, &at)).sum()
        };
        let width = rank + 1;
        let factor = &model.point.factors[ranked];
        let mut candidates = Vec::with_capacity(factor.rows() * width);
        for index in 0..factor.rows() as u32 {
            candidates.extend_from_slice(factor.row(index as usize));
            let bias = places.bias(ranked, Place::Index(index)) + time_at(index) + pairs_at(index);
            candidates.push(if model.knows(ranked, index) { bias } else { f64::NEG_INFINITY });
        }
        let joined = time.is_some_and(|time| open(time.of) && open(time.clock) && each.is_some());
        let joined = joined || !with_each.is_empty();
        let (spreads, explore) = (None, None);
        Ranking { places, question, ranked, each, candidates, width, weights, joined, spreads, explore }
    }

    /// Tells standard deviations, and ranks by the value and so many standard deviations of it where `times` says so.
    pub fn with_spreads(mut self, spreads: &'p Spreads<'m>, times: Option<f64>) -> Self {
        let rank = self.width - 1;
        self.spreads = Some(spreads);
        self.explore = times.map(|times| {
            let rows = self.places.model().point.factors[self.ranked].rows();
            let mut candidates = vec![0.0; rows * (2 * rank + 2)];
            for (index, row) in candidates.chunks_exact_mut(2 * rank + 2).enumerate() {
                let (second, rest) = row.split_at_mut(rank);
                let (square, biases) = rest.split_at_mut(rank);
                biases[1] = spreads.squares_of(self.ranked, index as u32, square, second);
                square.iter_mut().for_each(|x| *x = -*x);
                biases[0] = 1.0;
            }
            Explore { times, candidates }
        });
        self
    }

    /// What an id gives to the variances of candidates.
    fn around(&self, spreads: &Spreads<'_>, id: u32, row: &mut [f64]) {
        let asked: Vec<Place> =
            self.asked(id, 0).iter().enumerate().map(|(m, &p)| self.places.settle(m, p)).collect();
        let around = spreads.around(self.places, &asked, self.ranked);
        let rank = around.second.len();
        row[..rank].copy_from_slice(&around.second);
        row[rank..2 * rank].copy_from_slice(&around.square);
        row[2 * rank..].copy_from_slice(&[around.rest, 1.0]);
    }

    fn asked(&self, id: u32, index: u32) -> Vec<Place> {
        let mut asked = self.question.clone();
        asked[self.ranked] = Place::Index(index);
        if let Some(each) = self.each {
            asked[each] = Place::Index(id);
        }
        asked
    }

    /// `[w_i | 1]`, for an id of `each`, or for the one question there is.
    fn left_row(&self, id: u32, row: &mut [f64]) {
        row.fill(0.0);
        row[self.width - 1] = 1.0;
        let rank = self.width - 1;
        let model = self.places.model();
        match self.each {
            None => row[..rank].copy_from_slice(&self.weights),
            Some(each) => {
                let place = self.places.settle(each, Place::Index(id));
                let Some(factor) = self.places.row(each, place) else { return };
                for (&x, weights) in factor.iter().zip(self.weights.chunks_exact(rank)) {
                    row[..rank].iter_mut().zip(weights).for_each(|(w, &g)| *w += x * g);
                }
                debug_assert_eq!(factor.len(), model.point.ranks()[each]);
            }
        }
    }

    /// The `most` best of every id in `ids` (of the one question: `0..1`), best first, ties by
    /// index; `left_out(id)` gives the indices that are not wanted, ascending.
    pub fn best<'s>(
        &self,
        ids: Range<u32>,
        most: usize,
        left_out: impl Fn(u32) -> &'s [u32] + Sync,
    ) -> Vec<Vec<Ranked>> {
        let tiles: Vec<u32> = ids.clone().step_by(TILE_IDS).collect();
        let tile =
            |&first: &u32| self.best_of_tile(first..ids.end.min(first + TILE_IDS as u32), most, &left_out);
        tiles.par_iter().map(tile).collect::<Vec<_>>().into_iter().flatten().collect()
    }

    fn best_of_tile<'s>(
        &self,
        ids: Range<u32>,
        most: usize,
        left_out: &(impl Fn(u32) -> &'s [u32] + Sync),
    ) -> Vec<Vec<Ranked>> {
        let (height, width) = (ids.len(), self.width);
        let mut left = vec![0.0; height * width];
        for (id, row) in ids.clone().zip(left.chunks_exact_mut(width)) {
            self.left_row(id, row);
        }
        let wide = 2 * (width - 1) + 2;
        let mut around = Vec::new();
        if let (Some(spreads), Some(_)) = (self.spreads, &self.explore) {
            around.resize(height * wide, 0.0);
            for (id, row) in ids.clone().zip(around.chunks_exact_mut(wide)) {
                self.around(spreads, id, row);
            }
        }
        let mut variances = vec![0.0; if around.is_empty() { 0 } else { height * TILE_CANDIDATES }];
        let keep = most.saturating_add(MARGIN);
        let mut best: Vec<BinaryHeap<Reverse<Scored>>> =
            (0..height).map(|_| BinaryHeap::with_capacity(keep.min(1024) + 1)).collect();
        let mut scores = vec![0.0; height * TILE_CANDIDATES];
        for (number, tile) in self.candidates.chunks(TILE_CANDIDATES * width).enumerate() {
            let (count, begin) = (tile.len() / width, (number * TILE_CANDIDATES) as u32);
            let scores = &mut scores[..height * count];
            // The bias of -inf times the weights of nothing must not become NaN: it has weight 1.
            product_transposed(scores, Update::Replace, &left, tile, width);
            if let Some(explore) = &self.explore {
                let right = &explore.candidates[number * TILE_CANDIDATES * wide..][..count * wide];
                let variances = &mut variances[..height * count];
                product_transposed(variances, Update::Replace, &around, right, wide);
                let both = scores.iter_mut().zip(variances.iter());
                both.for_each(|(score, variance)| *score += explore.times * variance.max(0.0).sqrt());
            }
            for ((id, row), best) in ids.clone().zip(scores.chunks_exact_mut(count)).zip(&mut best) {
                if self.joined {
                    self.add_time(id, begin, row);
                }
                let unwanted = left_out(id);
                let mut bar = match best.peek() {
                    Some(Reverse(worst)) if best.len() >= keep => worst.score,
                    _ => f64::NEG_INFINITY,
                };
                for (&score, index) in row.iter().zip(begin..) {
                    // An equal score of a later index is not better.
                    if score > bar && unwanted.binary_search(&index).is_err() {
                        best.push(Reverse(Scored { score, index }));
                        if best.len() > keep {
                            best.pop();
                        }
                        if best.len() == keep {
                            bar = best.peek().map_or(bar, |Reverse(worst)| worst.score);
                        }
                    }
                }
            }
        }
        ids.zip(best).map(|(id, best)| self.settle(id, best, most)).collect()
    }

    fn add_time(&self, id: u32, begin: u32, row: &mut [f64]) {
        let Some(biases) = self.places.model().biases.as_ref() else { return };
        let open = |mode: usize| mode == self.ranked || Some(mode) == self.each;
        if let Some(time) = biases.time.as_ref().filter(|time| open(time.of) && open(time.clock)) {
            for (score, index) in row.iter_mut().zip(begin..) {
                let (of, clock) = if time.of == self.ranked { (index, id) } else { (id, index) };
                *score += self.places.time_bias(Place::Index(of), Place::Index(clock));
            }
        }
        for pair in
            biases.pairs.iter().filter(|pair| pair.modes.contains(&self.ranked) && joins(pair, self.each))
        {
            for (score, index) in row.iter_mut().zip(begin..) {
                *score += if pair.modes[0] == self.ranked { pair.at(index, id) } else { pair.at(id, index) };
            }
        }
    }

    /// Scores what was kept once more, sorts it and cuts it to size.
    fn settle(&self, id: u32, best: BinaryHeap<Reverse<Scored>>, most: usize) -> Vec<Ranked> {
        let clip = |value| self.places.model().about.told(value);
        let mut scored: Vec<(Scored, f64, bool)> = best
            .into_iter()
            .map(|Reverse(kept)| {
                let asked = self.asked(id, kept.index);
                let (value, known) = self.places.raw(&asked);
                let bound = match (self.spreads, &self.explore) {
                    (Some(spreads), Some(explore)) => {
                        let variance = spreads.variance(self.places, &asked).of_mean;
                        value + explore.times * variance.sqrt()
                    }
                    _ => value,
                };
                (Scored { score: bound, index: kept.index }, value, known)
            })
            .collect();
        scored.sort_by(|(a, ..), (b, ..)| b.cmp(a));
        scored.truncate(most);
        let told = |(kept, value, known): (Scored, f64, bool)| {
            let predictive =
                |spreads: &Spreads<'_>| spreads.predictive(self.places, &self.asked(id, kept.index));
            Ranked {
                index: kept.index,
                value: clip(value),
                known,
                sd: self.spreads.map(|spreads| predictive(spreads).sd()),
                bound: self.explore.as_ref().map(|_| clip(kept.score)),
            }
        };
        scored.into_iter().map(told).collect()
    }
}
