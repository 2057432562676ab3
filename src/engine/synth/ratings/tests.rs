//! Counts, distinctness, activity, sessions and values of small sets of ratings.

use super::*;
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;

/// All entries as one batch.
fn collect(synth: &RatingsSynth) -> Batch {
    let mut all = Batch::with_capacity(3, 0);
    synth
        .for_each_batch(|batch| {
            assert!(!batch.is_empty());
            all.indices.extend(batch.indices);
            all.values.extend(batch.values);
            all.splits.extend(batch.splits);
            Ok::<(), Infallible>(())
        })
        .unwrap();
    all
}

fn make(spec: RatingsSpec) -> (RatingsSynth, Batch) {
    let synth = RatingsSynth::new(spec).unwrap();
    let all = collect(&synth);
    (synth, all)
}

fn split(spec: RatingsSpec) -> RatingsSpec {
    let tenth = spec.entries / 10;
    RatingsSpec { entries: spec.entries - 2 * tenth, validation: tenth, test: tenth, ..spec }
}

/// Checks counts, ranges, half stars, and that no user rates an item twice.
fn check(spec: &RatingsSpec, all: &Batch) {
    let count = |split| all.splits.iter().filter(|&&p| p == split).count() as u64;
    assert_eq!(count(Split::Train), spec.entries);
    assert_eq!(count(Split::Validation), spec.validation);
    assert_eq!(count(Split::Test), spec.test);
    let mut pairs = HashSet::new();
    for (index, value, _) in all.entries() {
        assert!(index[0] < spec.users && index[1] < spec.items && index[2] < spec.weeks);
        assert!(pairs.insert((index[0], index[1])), "{index:?} twice");
        assert!((0.5..=5.0).contains(&value) && (2.0 * value).fract() == 0.0);
    }
}

#[test]
fn counts_are_exact_and_pairs_distinct() {
    let specs = [
        split(RatingsSpec::new(2000, 1500, 200, 300_003)),
        RatingsSpec::new(300, 200, 1, 59_990),
        split(RatingsSpec::new(300, 200, 3, 60_000)),
        split(RatingsSpec::new(5000, 100, 50, 1234)),
        RatingsSpec { rank: 0, session: 1.0, noise: 0.0, ..RatingsSpec::new(1, 70, 9, 33) },
        RatingsSpec { rank: 1, ..RatingsSpec::new(1, 1, 1, 1) },
    ];
    for spec in specs {
        let (_, all) = make(spec.clone());
        check(&spec, &all);
    }
}

#[test]
fn bits_do_not_depend_on_threads() {
    let spec = split(RatingsSpec::new(3000, 2000, 300, 600_000));
    let synth = RatingsSynth::new(spec.clone()).unwrap();
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        pool.build().unwrap().install(|| collect(&synth))
    };
    let one = run(1);
    assert!(one == run(2) && one == run(3) && one == collect(&synth));
    assert!(one != make(RatingsSpec { seed: 2, ..spec }).1);
}

#[test]
fn few_do_much_and_ids_tell_nothing() {
    let spec = RatingsSpec::new(4000, 3000, 200, 500_000);
    let (_, all) = make(spec);
    for (mode, n) in [(0, 4000), (1, 3000)] {
        let mut counts = vec![0_u32; n];
        for (index, _, _) in all.entries() {
            counts[index[mode] as usize] += 1;
        }
        let half: u32 = counts[..n / 2].iter().sum();
        assert!((0.45..0.55).contains(&(half as f64 / 500_000.0)), "{half}");
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let top: u32 = counts[..n / 10].iter().sum();
        let bottom: u32 = counts[n / 2..].iter().sum();
        assert!(top > 200_000, "the busiest tenth of mode {mode} has {top}");
        assert!(bottom < 125_000, "the lower half of mode {mode} has {bottom}");
        assert!(counts[n - 1] >= 1);
    }
}

/// Bytes per train entry of a format that takes 3 for an entry, 4 for a (user, week) pair and 6
/// for a user.
fn bytes_per_entry(all: &Batch) -> (f64, f64) {
    let (mut entries, mut pairs, mut users) = (0.0, HashSet::new(), HashSet::new());
    for (index, _, split) in all.entries() {
        if split == Split::Train {
            entries += 1.0;
            pairs.insert((index[0], index[2]));
            users.insert(index[0]);
        }
    }
    let (pairs, users) = (pairs.len() as f64, users.len() as f64);
    (3.0 + (4.0 * pairs + 6.0 * users) / entries, entries / pairs)
}

#[test]
fn sessions_make_long_fibres() {
    let (_, all) = make(split(RatingsSpec::new(6000, 4000, 200, 1_000_000)));
    let (bytes, fibre) = bytes_per_entry(&all);
    assert!(fibre > 6.0, "{fibre} per user and week");
    assert!(bytes < 3.8, "{bytes} bytes per entry");
}

#[test]
fn sessions_make_long_fibres_at_the_size_of_movielens() {
    let (_, all) = make(split(RatingsSpec::new(71_567, 10_681, 731, 10_000_054)));
    let (bytes, fibre) = bytes_per_entry(&all);
    assert!(fibre > 6.0, "{fibre} per user and week");
    assert!(bytes < 3.8, "{bytes} bytes per entry");
}

#[test]
fn predictions_miss_by_the_noise() {
    for noise in [0.2, 0.78] {
        let spec = RatingsSpec { noise, ..RatingsSpec::new(1000, 800, 150, 60_000) };
        let (synth, all) = make(spec);
        let model = synth.model();
        let n = all.len() as f64;
        let mean: f64 = all.values.iter().sum::<f64>() / n;
        let variance: f64 = all.values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
        let error: f64 =
            all.entries().map(|(i, value, _)| (value - model.predict(i[0], i[1], i[2])).powi(2)).sum::<f64>()
                / n;
        // Clipping at five stars takes some of the noise away.
        let ratio = error / model.noise_variance();
        assert!((0.85..1.02).contains(&ratio), "{ratio}");
        assert!((3.2..3.7).contains(&mean), "{mean}");
        assert!(variance > error + 0.4, "{variance} and {error}");
    }
}

#[test]
fn all_half_stars_occur() {
    let (_, all) = make(RatingsSpec::new(1000, 800, 150, 60_000));
    let mut counts = HashMap::new();
    for value in &all.values {
        *counts.entry((2.0 * value) as u32).or_insert(0) += 1;
    }
    assert_eq!(counts.len(), 10, "{counts:?}");
}

#[test]
fn tastes_have_a_yearly_period() {
    // The mean interaction of a pair of user and item, week by week, against cosines: a year and
    // half a year must stand out from other periods.
    let spec = RatingsSpec { rank: 2, noise: 0.0, ..RatingsSpec::new(50, 40, 522, 100) };
    let model = RatingsSynth::new(spec).unwrap().model;
    let mut mood = Mood::default();
    let mut power = |period: f64| -> f64 {
        let mut total = 0.0;
        for id in 0..50 {
            let user = model.user(id);
            for item in [3, 11] {
                let (mut re, mut im) = (0.0, 0.0);
                for week in 0..522 {
                    model.set_mood(&user, week, &mut mood);
                    // Two items' difference, free of the user's drift and bias.
                    let x = model.score(&mood, item) - model.score(&mood, item + 1);
                    let angle = std::f64::consts::TAU * week as f64 / period;
                    re += x * angle.cos();
                    im += x * angle.sin();
                }
                total += re * re + im * im;
            }
        }
        total
    };
    let year = 365.25 / 7.0;
    let other = power(year / 1.4).max(power(year / 2.6));
    assert!(power(year) > 20.0 * other && power(year / 2.0) > 20.0 * other);
}

#[test]
fn parts_know_nothing_of_users() {
    let (_, all) = make(split(RatingsSpec::new(500, 1000, 100, 100_000)));
    // A user's test ratings: binomial with a tenth of the user's ratings.
    let mut counts = vec![(0.0, 0.0); 500];
    for (index, _, split) in all.entries() {
        let (ratings, test) = &mut counts[index[0] as usize];
        *ratings += 1.0;
        *test += (split == Split::Test) as u32 as f64;
    }
    let chi: f64 = counts.iter().map(|(n, test)| (test - 0.1 * n) * (test - 0.1 * n) / (0.09 * n)).sum();
    assert!((chi - 500.0).abs() < 5.0 * 1000.0_f64.sqrt(), "{chi}");
}

#[test]
fn what_cannot_be_is_said_in_a_sentence() {
    type Change = fn(&mut RatingsSpec);
    let sentence = |change: Change| {
        let mut spec = RatingsSpec::new(10, 8, 6, 50);
        change(&mut spec);
        spec.validate().unwrap_err().to_string()
    };
    let cases: [(Change, &str); 6] = [
        (|s| s.weeks = 0, "dimension of mode 3 is 0"),
        (|s| s.rank = 9, "latent rank 9 exceeds 8"),
        (|s| s.noise = -1.0, "noise -1"),
        (|s| s.session = 0.5, "mean of 0.5"),
        (|s| s.entries = 0, "0 train entries"),
        (|s| s.test = 31, "81 ratings"),
    ];
    for (change, split) in cases {
        let sentence = sentence(change);
        assert!(sentence.contains(split), "{sentence}");
    }
}
