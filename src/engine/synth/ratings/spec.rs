//! What a set of ratings is asked to be, and what it cannot be.

use crate::synth::SynthError;

/// Ratings of items by users in weeks: a tensor of order 3, its modes in this order:
/// user, item, week.
///
/// Start from [`RatingsSpec::new`] and change fields; [`RatingsSynth::new`](super::RatingsSynth::new)
/// checks them.
#[derive(Clone, Debug, PartialEq)]
pub struct RatingsSpec {
    /// The number of users.
    pub users: u32,
    /// The number of items.
    pub items: u32,
    /// The number of weeks.
    pub weeks: u32,
    /// The number of train ratings.
    pub entries: u64,
    /// The number of validation ratings.
    pub validation: u64,
    /// The number of test ratings.
    pub test: u64,
    /// The number of tastes: products of a user's, an item's and a seasonal term. 0 leaves the
    /// biases alone.
    pub rank: usize,
    /// The standard deviation of what no model explains, in stars, before rounding to half stars.
    pub noise: f64,
    /// The mean number of ratings in a session; a session lies in one week.
    pub session: f64,
    /// Sets of different seeds are unrelated.
    pub seed: u64,
}

impl RatingsSpec {
    /// Tastes where nobody says how many.
    pub const TASTES: usize = 4;

    /// `entries` train ratings with four tastes, noise of 0.78 stars, twelve ratings a session and
    /// seed 1, without validation or test entries.
    pub fn new(users: u32, items: u32, weeks: u32, entries: u64) -> Self {
        RatingsSpec {
            users,
            items,
            weeks,
            entries,
            validation: 0,
            test: 0,
            rank: Self::TASTES,
            noise: 0.78,
            session: 12.0,
            seed: 1,
        }
    }

    /// Whether such a set exists; the error says what to change.
    pub fn validate(&self) -> Result<(), SynthError> {
        let dims = [self.users, self.items, self.weeks];
        if let Some(mode) = dims.iter().position(|&n| n == 0) {
            return Err(SynthError::ZeroDimension { mode: mode + 1 });
        }
        let limit = self.users.min(self.items);
        if self.rank > limit as usize {
            return Err(SynthError::LatentRank { rank: self.rank, limit });
        }
        if !(self.noise.is_finite() && self.noise >= 0.0) {
            return Err(SynthError::Noise { noise: self.noise });
        }
        if !(self.session.is_finite() && self.session >= 1.0) {
            return Err(SynthError::Session { session: self.session });
        }
        if self.entries == 0 {
            return Err(SynthError::NoEntries);
        }
        let asked = self.entries as u128 + self.validation as u128 + self.test as u128;
        let cells = self.users as u64 * self.items as u64;
        if asked > cells as u128 {
            return Err(SynthError::TooManyRatings { asked, users: self.users, items: self.items, cells });
        }
        Ok(())
    }

    /// Train, validation and test ratings of a valid spec together.
    pub(super) fn total(&self) -> u64 {
        self.entries + self.validation + self.test
    }

    /// The bytes that the generating model takes: what items and seasons are like, and how active
    /// users are, and what a thread needs to choose items. Batches in flight come on top, a few MiB.
    pub fn memory_bytes(&self) -> u64 {
        let (users, items, weeks) = (self.users as u64, self.items as u64, self.weeks as u64);
        let rank = self.rank as u64;
        // Users: a count, and a weight while counts are made; items: a row of the model, a
        // weight, two words to draw by, and a number while these are made.
        let threads = rayon::current_num_threads() as u64;
        (12 * users)
            .saturating_add(items.saturating_mul((36 + 8 * rank).saturating_add(17 * threads)))
            .saturating_add(weeks.saturating_mul(8 + 8 * rank))
    }
}
