//! Ratings as people give them: users x items x weeks.

mod history;
mod model;
mod spec;
#[cfg(test)]
mod tests;
mod zipf;

pub use model::RatingsModel;
pub use spec::RatingsSpec;

use super::random::{Purpose, Random, derive_seed};
use super::stream::{BATCH_ENTRIES, in_order};
use super::{Batch, Permutation, SynthError};
use crate::shard::Split;
use history::{Chooser, Popularity, sessions};
use model::Mood;
use std::ops::Range;

/// Nobody rates fewer than this where a quarter of the mean allows it, as in MovieLens.
const FEWEST_RATINGS: u32 = 20;

/// Generates the entries of a [`RatingsSpec`].
///
/// Ratings come user by user, each user's in the order of weeks. The place of a rating in this
/// stream, sent through a random permutation, decides its split: counts of train, validation and
/// test are exact, and the choice knows nothing of user, item, week or value.
#[derive(Clone, Debug)]
pub struct RatingsSynth {
    spec: RatingsSpec,
    model: RatingsModel,
    popularity: Popularity,
    /// How many ratings each user gives.
    activity: Vec<u32>,
    splits: Permutation,
}

/// Users whose ratings make a batch, and the places of these ratings in the stream.
struct Crowd {
    users: Range<u32>,
    places: Range<u64>,
}

impl RatingsSynth {
    /// Checks the spec and makes its model, [`RatingsSpec::memory_bytes`] large.
    pub fn new(spec: RatingsSpec) -> Result<Self, SynthError> {
        spec.validate()?;
        let splits_seed = derive_seed(spec.seed, Purpose::Parts, 0);
        Ok(RatingsSynth {
            model: RatingsModel::new(&spec),
            popularity: Popularity::new(spec.items, spec.seed),
            activity: activity(&spec),
            splits: Permutation::new(spec.total() as u128, splits_seed),
            spec,
        })
    }

    /// What was asked for.
    pub fn spec(&self) -> &RatingsSpec {
        &self.spec
    }

    /// The model that the ratings are observations of.
    pub fn model(&self) -> &RatingsModel {
        &self.model
    }

    /// Hands all entries to `take`, batch by batch, in the same order and with the same bits for
    /// any number of threads; the first error of `take` ends it. Batches end with a user, so they
    /// vary in size.
    pub fn for_each_batch<E>(&self, take: impl FnMut(Batch) -> Result<(), E>) -> Result<(), E> {
        in_order(self.crowds(), |crowd| self.batch(crowd), take)
    }

    /// All users in order, in crowds of a batch each.
    fn crowds(&self) -> impl Iterator<Item = Crowd> {
        let (mut user, mut place) = (0, 0);
        std::iter::from_fn(move || {
            let (start, first) = (user, place);
            while user < self.spec.users && place - first < BATCH_ENTRIES as u64 {
                place += self.activity[user as usize] as u64;
                user += 1;
            }
            // Users without a rating at the end make no batch.
            (place > first).then_some(Crowd { users: start..user, places: first..place })
        })
    }

    fn batch(&self, crowd: Crowd) -> Batch {
        let mut batch = Batch::with_capacity(3, (crowd.places.end - crowd.places.start) as usize);
        let mut chooser = Chooser::new(&self.popularity);
        let (mut items, mut weeks, mut mood) = (Vec::new(), Vec::new(), Mood::default());
        let mut place = crowd.places.start;
        for id in crowd.users {
            let count = self.activity[id as usize];
            let user = self.model.user(id);
            let mut random = Random::new(self.spec.seed, Purpose::History, id as u64);
            chooser.choose(count, &mut random, &mut items);
            sessions(&user, count, self.spec.session, &mut random, &mut weeks);
            let mut rest = &items[..];
            for &(week, size) in &weeks {
                self.model.set_mood(&user, week, &mut mood);
                let (session, later) = rest.split_at(size as usize);
                rest = later;
                for &item in session {
                    batch.indices.extend([id, item, week]);
                    batch.values.push(self.model.rate(&mood, item, &mut random));
                    batch.splits.push(self.split(place));
                    place += 1;
                }
            }
        }
        batch
    }

    /// The split of the rating at this place of the stream.
    fn split(&self, place: u64) -> Split {
        if self.spec.validation == 0 && self.spec.test == 0 {
            return Split::Train;
        }
        let drawn = self.splits.at(place);
        if drawn < self.spec.entries as u128 {
            Split::Train
        } else if drawn < (self.spec.entries + self.spec.validation) as u128 {
            Split::Validation
        } else {
            Split::Test
        }
    }
}

/// The number of ratings of each user: Zipf by place, the places assigned to users at random, at
/// most one rating for each item, and the sum exact.
fn activity(spec: &RatingsSpec) -> Vec<u32> {
    let users = spec.users as u64;
    let shift = 1.0 + users as f64 / 400.0;
    let weights: Vec<f64> = (0..users).map(|place| zipf::weight(place, shift)).collect();
    let quarter = spec.total() / users / 4;
    let floor = quarter.min(FEWEST_RATINGS as u64) as u32;
    let shares = zipf::shares(spec.total(), &weights, floor, spec.items);
    drop(weights);
    let seed = derive_seed(spec.seed, Purpose::UserOrder, 0);
    let order = Permutation::new(users as u128, seed);
    (0..users).map(|user| shares[order.at(user) as usize]).collect()
}
