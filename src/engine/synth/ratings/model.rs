//! Why a rating is what it is: biases, drift, and tastes that change with the seasons.

use super::spec::RatingsSpec;
use crate::synth::random::{Purpose, Random};
use std::f64::consts::TAU;

/// The mean rating, and the spread of each term in stars; together with the noise they give
/// ratings a variance like that of MovieLens.
const MEAN: f64 = 3.5;
const USER_BIAS: f64 = 0.4;
const ITEM_BIAS: f64 = 0.45;
const TASTES: f64 = 0.5;
/// Each taste matters less than the one before by this factor.
const TASTE_DECAY: f64 = 0.8;
/// Users get harder to please the longer they stay, on average, each at a rate of their own.
const DRIFT_MEAN: f64 = -0.03;
const DRIFT_SPREAD: f64 = 0.06;
/// How much all ratings rise and fall within a year.
const YEARLY: f64 = 0.05;
/// How much a taste comes and goes within its period, relative to its mean.
const SEASONAL: f64 = 0.7;
const WEEKS_PER_YEAR: f64 = 365.25 / 7.0;

/// The generating model of a set of ratings:
/// mean + user + item + drift(user, week) + year(week) + sum_k a_uk b_ik c_k(week).
///
/// The seasonal terms c_k = (1 + 0.7 cos(2 pi h_k week / 52.18 + phase_k)) / norm have periods of a
/// year and of half a year in turn (h_k = 1, 2, 1, 2, ...), so that a fit can find the periods.
#[derive(Clone, Debug)]
pub struct RatingsModel {
    seed: u64,
    users: u32,
    weeks: u32,
    rank: usize,
    noise: f64,
    /// A row per item: its bias, then b_i.
    items: Vec<f64>,
    /// A row per week: the year's term, then c(week) times the spread of each taste.
    seasons: Vec<f64>,
}

/// What a user is like.
pub(super) struct User {
    bias: f64,
    drift: f64,
    tastes: Vec<f64>,
    /// The first week with ratings, and the number of weeks that ratings may fall in.
    pub start: u32,
    pub span: u32,
}

/// A user in a week: all that does not depend on the item.
#[derive(Default)]
pub(super) struct Mood {
    base: f64,
    tastes: Vec<f64>,
}

impl RatingsModel {
    /// The model of a valid spec.
    pub(super) fn new(spec: &RatingsSpec) -> Self {
        let rank = spec.rank;
        let mut random = Random::new(spec.seed, Purpose::Items, 0);
        let mut items = Vec::with_capacity(spec.items as usize * (1 + rank));
        for _ in 0..spec.items {
            items.push(ITEM_BIAS * random.normal());
            items.extend((0..rank).map(|_| random.normal()));
        }

        let mut random = Random::new(spec.seed, Purpose::Seasons, 0);
        let year_phase = random.uniform();
        let phases: Vec<f64> = (0..rank).map(|_| random.uniform()).collect();
        let decays: Vec<f64> = (0..rank).map(|k| TASTE_DECAY.powi(k as i32)).collect();
        let decay_norm = decays.iter().map(|d| d * d).sum::<f64>().sqrt();
        let season_norm = (1.0 + SEASONAL * SEASONAL / 2.0).sqrt();
        let mut seasons = Vec::with_capacity(spec.weeks as usize * (1 + rank));
        for week in 0..spec.weeks {
            let year = week as f64 / WEEKS_PER_YEAR;
            seasons.push(YEARLY * (TAU * (year + year_phase)).cos());
            for (k, (phase, decay)) in phases.iter().zip(&decays).enumerate() {
                let harmonic = (1 + k % 2) as f64;
                let season = 1.0 + SEASONAL * (TAU * (harmonic * year + phase)).cos();
                seasons.push(TASTES * decay / decay_norm * season / season_norm);
            }
        }
        RatingsModel {
            seed: spec.seed,
            users: spec.users,
            weeks: spec.weeks,
            rank,
            noise: spec.noise,
            items,
            seasons,
        }
    }

    /// What a model that knows everything but the noise predicts, within 0.5 to 5 stars.
    ///
    /// # Panics
    /// If a user, item or week is out of range.
    pub fn predict(&self, user: u32, item: u32, week: u32) -> f64 {
        assert!(user < self.users, "user {user} of {}", self.users);
        let mut mood = Mood::default();
        self.set_mood(&self.user(user), week, &mut mood);
        self.score(&mood, item).clamp(0.5, 5.0)
    }

    /// The variance of a rating about its [prediction](Self::predict): that of the noise and that
    /// of rounding to half stars, 0.5^2 / 12. Clipping at half a star and five takes some of it
    /// away, about a tenth at the default noise.
    pub fn noise_variance(&self) -> f64 {
        self.noise * self.noise + 0.25 / 12.0
    }

    /// What a user is like, from the user's own generator: nothing is stored.
    pub(super) fn user(&self, user: u32) -> User {
        let mut random = Random::new(self.seed, Purpose::User, user as u64);
        let bias = USER_BIAS * random.normal();
        let drift = DRIFT_MEAN + DRIFT_SPREAD * random.normal();
        let tastes = (0..self.rank).map(|_| random.normal()).collect();
        let start = random.below(self.weeks);
        // Some come for a week, some for years.
        let stay = (random.exponential() * self.weeks as f64 / 8.0) as u32;
        let span = stay.saturating_add(1).min(self.weeks - start);
        User { bias, drift, tastes, start, span }
    }

    /// The user's terms in a week.
    pub(super) fn set_mood(&self, user: &User, week: u32, mood: &mut Mood) {
        let width = 1 + self.rank;
        let season = &self.seasons[week as usize * width..][..width];
        let stay = week.saturating_sub(user.start) as f64 / WEEKS_PER_YEAR;
        mood.base = MEAN + user.bias + user.drift * (4.0 * stay).ln_1p() + season[0];
        mood.tastes.clear();
        let tastes = user.tastes.iter().zip(&season[1..]);
        mood.tastes.extend(tastes.map(|(a, c)| a * c));
    }

    /// The stars before noise and rounding.
    #[inline]
    pub(super) fn score(&self, mood: &Mood, item: u32) -> f64 {
        let width = 1 + self.rank;
        let item = &self.items[item as usize * width..][..width];
        let tastes = mood.tastes.iter().zip(&item[1..]);
        mood.base + item[0] + tastes.map(|(a, b)| a * b).sum::<f64>()
    }

    /// A rating as the user gives it: with noise, in half stars from 0.5 to 5.
    #[inline]
    pub(super) fn rate(&self, mood: &Mood, item: u32, random: &mut Random) -> f64 {
        let stars = self.score(mood, item) + self.noise * random.normal();
        ((2.0 * stars).round() / 2.0).clamp(0.5, 5.0)
    }
}
