//! Two generations of checkpoints: what was saved is found again.

use super::faulty::{Fault, Faulty};
use super::image::{fast_directory, for_each_image};
use super::recorder::Recorder;
use std::path::Path;
use tenfill_engine::checkpoint::{Checkpoints, Progress};
use tenfill_engine::manifold::{Distribution, Tangent, random_point};
use tenfill_engine::solver::{Ahead, Best, Iteration, Phase, Secant, SecantAbout, State};
use tenfill_engine::storage::{RealDisk, remove_partial};

/// A state that no other iteration has.
fn state(iteration: usize) -> State {
    let point = |seed: usize| random_point(&[9, 7, 5], &[2, 3, 2], Distribution::Uniform, seed as u64);
    let tangent = |seed: usize| {
        let point = point(seed);
        Tangent { factors: point.factors, core: point.core }
    };
    State {
        point: point(iteration),
        gradient: tangent(iteration + 100),
        direction: tangent(iteration + 200),
        slope: -0.1 / iteration as f64,
        gradient_square: 0.7 * iteration as f64,
        first_gradient_norm: 3.3,
        last: Iteration {
            iteration,
            phase: Some(Phase::OnePass),
            passes: 2 * iteration,
            cost: 1.0 / 3.0,
            train_mse: 1e-300,
            train_mae: 0.1 + 0.2,
            validation_mse: Some(0.1),
            gradient_norm: 1e17,
            step: 0.3,
            beta: 0.0,
            backtracks: 1,
            restarted: true,
            guarded: 0,
        },
        best: Some(Best {
            point: point(iteration + 300),
            validation_mse: 0.05,
            train_mse: 0.04,
            iteration: 1,
        }),
        guards: 2,
        damping: 0.37,
        stuck: false,
        stochastic: None,
        secant: Some(Box::new(Secant {
            about: SecantAbout { calm: 1, step: 0.7, expected: 0.2, square: 0.1 },
            ahead: Some(Ahead { offset: tangent(iteration + 400), gradient: tangent(iteration + 500) }),
        })),
    }
}

fn checkpoints(directory: &Path) -> Checkpoints {
    Checkpoints::new(directory.join("checkpoints"), serde_json::json!({ "rank": [2, 3, 2] }))
}

#[test]
fn a_crash_never_goes_behind_a_checkpoint_that_was_reported() {
    let directory = fast_directory();
    let disk = Recorder::new(directory.path());
    for iteration in 1..=4 {
        checkpoints(directory.path()).save(&disk, &state(iteration), &Progress::default()).unwrap();
        disk.mark(iteration);
    }
    let images = for_each_image(&disk.ops(), 0, |image| {
        let newest =
            checkpoints(image.path).newest().unwrap_or_else(|error| panic!("{}: {error}", image.name));
        let Some(loaded) = newest else {
            assert_eq!(image.mark, None, "{}: nothing is left", image.name);
            return;
        };
        let found = loaded.state.last.iteration;
        assert_eq!(loaded.state, state(found), "{}", image.name);
        let reported = image.mark.unwrap_or(0);
        assert!((reported..=reported + 1).contains(&found), "{}: {found}", image.name);
        assert!(loaded.damaged.is_empty(), "{}: {:?}", image.name, loaded.damaged);
    });
    assert!(images > 30, "{images} images");
}

#[test]
fn a_failing_disk_never_costs_a_checkpoint() {
    let count = Faulty::never();
    let directory = fast_directory();
    for iteration in 1..=3 {
        checkpoints(directory.path()).save(&count, &state(iteration), &Progress::default()).unwrap();
    }
    for fault in Fault::ALL {
        for at in 0..count.calls() {
            let directory = fast_directory();
            let checkpoints = checkpoints(directory.path());
            let disk = Faulty::new(at, fault);
            let save = |iteration| checkpoints.save(&disk, &state(iteration), &Progress::default());
            let saved = (1..=3).take_while(|&iteration| save(iteration).is_ok()).last().unwrap_or(0);
            assert!(fault != Fault::Short || saved == 3, "a short write is no error");
            let newest = checkpoints.newest().unwrap();
            let found = newest.as_ref().map_or(0, |loaded| loaded.state.last.iteration);
            assert!((saved..=saved + 1).contains(&found), "{fault:?} at {at}: saved {saved}, found {found}");
            assert!(newest.is_none_or(|loaded| loaded.state == state(found)), "{fault:?} at {at}");
            // With the fault gone, everything goes on, and nothing half written stays.
            remove_partial(&RealDisk, &directory.path().join("checkpoints")).unwrap();
            checkpoints.save(&RealDisk, &state(9), &Progress::default()).unwrap();
            assert!(std::fs::read_dir(directory.path().join("checkpoints")).unwrap().count() <= 2);
        }
    }
}

#[test]
fn every_flipped_byte_and_every_truncation_leads_to_the_older_generation() {
    let directory = fast_directory();
    let checkpoints = checkpoints(directory.path());
    for iteration in [130, 140] {
        checkpoints.save(&RealDisk, &state(iteration), &Progress::default()).unwrap();
    }
    let path = directory.path().join("checkpoints/00000140.checkpoint");
    let bytes = std::fs::read(&path).unwrap();
    let falls_back = |damage: String| {
        let named = checkpoints.load(140).unwrap_err().to_string();
        assert!(named.contains("00000140.checkpoint is damaged at offset "), "{damage}: {named}");
        let loaded = checkpoints.newest().unwrap().unwrap();
        assert_eq!(loaded.state, state(130), "{damage}");
        assert!(loaded.damaged[0].starts_with("checkpoint 140 is damaged at offset "), "{damage}");
    };
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        std::fs::write(&path, &damaged).unwrap();
        falls_back(format!("byte {at}"));
        std::fs::write(&path, &bytes[..at]).unwrap();
        falls_back(format!("cut at {at}"));
    }
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(checkpoints.newest().unwrap().unwrap().state, state(140));
}

#[test]
fn a_run_that_went_back_keeps_two_good_generations() {
    let directory = fast_directory();
    let checkpoints = checkpoints(directory.path());
    for iteration in [130, 140] {
        checkpoints.save(&RealDisk, &state(iteration), &Progress::default()).unwrap();
    }
    std::fs::write(directory.path().join("checkpoints/00000140.checkpoint"), "junk").unwrap();
    checkpoints.save(&RealDisk, &state(131), &Progress::default()).unwrap();
    assert_eq!(checkpoints.iterations().unwrap(), [131, 130]);
}

#[test]
fn another_meaning_is_refused_and_named() {
    let directory = fast_directory();
    checkpoints(directory.path()).save(&RealDisk, &state(1), &Progress::default()).unwrap();
    let other =
        Checkpoints::new(directory.path().join("checkpoints"), serde_json::json!({ "rank": [3, 3, 2] }));
    let error = other.newest().unwrap_err().to_string();
    assert!(error.contains("rank is [2,3,2] there and [3,3,2] here"), "{error}");
}
