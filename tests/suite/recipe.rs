//! Which method data get: the plain one, sweeps, or biases and a penalty that are given.

use crate::common::{self, failure, json, stderr, tenfill};
use serde_json::Value;
use std::path::Path;
use tempfile::TempDir;

/// What a run in a folder has come to.
fn result(folder: &TempDir, run: &str) -> (Vec<u8>, Vec<Value>) {
    common::result(&folder.path().join(run))
}

fn ratings(folder: &TempDir) {
    let options = "--kind ratings --dims 500,300,40 --entries 30000 --validation 0.1 --test 0.1";
    json(folder, &format!("synth -o r {options}"));
}

const PLAIN: &str = "--bias none --penalty 0";

#[test]
fn the_default_is_better_than_the_plain_method_at_any_rank() {
    let folder = tempfile::tempdir().unwrap();
    ratings(&folder);
    let error = |done: &Value| done["test_mse"].as_f64().unwrap();
    let plain = ["2", "4", "8"]
        .map(|rank| error(&json(&folder, &format!("complete r -o p{rank} --rank {rank} {PLAIN}"))));
    let best = plain.into_iter().fold(f64::MAX, f64::min);
    for rank in ["4,4,4", "8,8,8", "auto"] {
        let done = json(&folder, &format!("complete r -o run-{rank} --rank {rank}"));
        assert!(error(&done) < 0.97 * best, "rank {rank}: {} against {best}", error(&done));
        assert_eq!(done["biases"], true);
        let tried = done["tried"].as_array().unwrap();
        assert!(tried.iter().any(|tried| tried["change"] == "sweeps"), "{tried:?}");
        let scored = json(&folder, &format!("evaluate run-{rank}"));
        assert_eq!(scored["mse"], done["test_mse"]);
        assert!(scored["mae"].as_f64() == done["errors"]["test"]["mae"].as_f64());
    }
}

#[test]
fn interrupted_anywhere_a_run_with_a_rank_goes_on_to_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    ratings(&folder);
    // The plain method first, as who asks for a start of its has it, then sweeps.
    let options = "--rank 6,6,3 --init uniform --bias-time userId:week";
    json(&folder, &format!("complete r -o whole {options} --threads 2"));
    let expected = result(&folder, "whole");
    let last = expected.0.len() - 1;
    assert!(last > 15, "{last} iterations");
    json(&folder, &format!("complete r -o parts {options} --threads 1 --max-iterations 1"));
    let mut iteration = 1;
    for (turn, more) in [1, 2, 5, 3].into_iter().cycle().enumerate() {
        iteration += more;
        let threads = turn % 3 + 1;
        let done = json(&folder, &format!("resume parts --max-iterations {iteration} --threads {threads}"));
        if done["stopped_by"] != "max-iterations" {
            break;
        }
    }
    let found = result(&folder, "parts");
    for (number, (ours, theirs)) in found.0.iter().zip(&expected.0).enumerate() {
        assert_eq!(ours, theirs, "iteration {number}");
    }
    assert!(found.0.len() == expected.0.len() && found.1 == expected.1);
    assert!(json(&folder, "verify parts")["ok"].as_bool().unwrap());
}

#[test]
fn low_rank_data_without_noise_are_recognised() {
    let folder = tempfile::tempdir().unwrap();
    json(&folder, "synth -o s --dims 300,200,100 --rank 3 --oversampling 10 --validation 0.1");
    let done = json(&folder, "complete s -o run --rank 3");
    assert_eq!(done["stopped_by"], "tolerance");
    assert_eq!((done["biases"].clone(), done["rank"].clone()), (false.into(), vec![3, 3, 3].into()));
    let plain = json(&folder, &format!("complete s -o plain --rank 3 {PLAIN}"));
    assert_eq!(plain["train_mse"], done["train_mse"], "the very same iterations");
}

/// Ratings of 150 users and 100 movies that do not depend on the day, as a CSV file.
fn timeless(path: &Path) {
    let mut text = String::from("user,movie,day,rating\n");
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    for user in 0..150 {
        for movie in 0..100 {
            let (day, noise) = ((random() * 20.0) as u32, random() + random() - 1.0);
            if random() < 0.4 {
                let taste = (f64::from(user) * 0.7).sin() * (f64::from(movie) * 1.3).cos();
                let rating = (3.0 + (f64::from(user)).cos() * 0.4 + 1.2 * taste + 1.2 * noise).round();
                text += &format!("{user},{movie},{day},{}\n", rating.clamp(1.0, 5.0));
            }
        }
    }
    std::fs::write(path, text).unwrap();
}

#[test]
fn a_mode_that_does_not_matter_is_held_and_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    timeless(&folder.path().join("t.csv"));
    let done = json(&folder, "complete t.csv -o run --modes user,movie,day --value rating --rank 4,4,4");
    assert_eq!(done["held"], Value::from(vec![2]), "{done}");
    assert_eq!(done["rank"][2], 1);
    // A day that nobody has heard of gets the value of any other day; it is not known for that.
    let strangers = "user,movie,day,rating\n0,0,99,3\n999,0,3,3\n999,999,99,3\n";
    std::fs::write(folder.path().join("s.csv"), strangers).unwrap();
    let found = json(&folder, "evaluate run --on s.csv");
    assert_eq!((&found["entries"], &found["fallback"]), (&Value::from(3), &Value::from(3)));
    let questions = "user,movie,day\n0,0,3\n0,0,99\n0,0,\n999,0,3\n";
    std::fs::write(folder.path().join("q.csv"), questions).unwrap();
    let told = common::output(folder.path(), &["predict", "run", "q.csv"]);
    let known: Vec<&str> = told.lines().skip(1).filter_map(|line| line.rsplit(',').next()).collect();
    assert_eq!(known, ["true", "false", "false", "false"], "{told}");
    let values: Vec<&str> = told.lines().skip(1).filter_map(|line| line.split(',').nth(3)).collect();
    assert_eq!(values[1], values[2]);
    let said = failure(&folder, "predict run q.csv --strict");
    assert!(said.contains("q.csv:3: the model does not know day '99'"), "{said}");
    // Nothing leaves the range of the ratings.
    assert!(found["mae"].as_f64().unwrap() <= 2.0);
}

#[test]
fn fixed_settings_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    ratings(&folder);
    for (options, biases, penalty) in [
        ("--bias modes --penalty 0.05", true, 0.05),
        ("--bias mean --penalty 0.02 --penalty-kind frobenius --no-clip", true, 0.02),
        ("--bias none --penalty 0.05 --clip", false, 0.05),
        ("--bias modes --penalty 0", true, 0.0),
    ] {
        let done = json(&folder, &format!("complete r -o run --force --rank 3,3,2 {options}"));
        assert_eq!((&done["biases"], &done["penalty"]), (&biases.into(), &penalty.into()), "{options}");
        assert_eq!(done["rank"], Value::from(vec![3, 3, 2]), "{options}");
        assert!(done["test_mse"].as_f64().unwrap() < 0.8, "{options}: {done}");
    }
}

#[test]
fn a_warm_start_begins_where_the_model_was() {
    let folder = tempfile::tempdir().unwrap();
    ratings(&folder);
    let ratio = |warm: &Value, cold: &Value| {
        assert_eq!(warm["rank"], cold["rank"]);
        warm["validation_mse"].as_f64().unwrap() / cold["validation_mse"].as_f64().unwrap()
    };
    let fixed = "--rank 3,3,2 --bias modes --penalty 0.02 --no-clip";
    let cold = json(&folder, &format!("complete r -o cold {fixed}"));
    let warm = json(&folder, &format!("complete r -o warm --init cold {fixed} --max-iterations 0"));
    assert!((ratio(&warm, &cold) - 1.0).abs() < 1e-9, "{warm}");
    // Sweeps do not begin with such a model, and say so.
    let anew = json(&folder, "complete r -o sweeps --rank auto");
    let output = tenfill(&folder).args(["complete", "r", "-o", "anew", "--init", "cold"]).output().unwrap();
    assert!(stderr(&output).contains("has no sweeps that could be gone on with"), "{}", stderr(&output));
    assert!(result(&folder, "anew") == result(&folder, "sweeps") && anew["biases"] == true);
    // The plain method does where the model is one of its own, and has its turn first.
    let plain = json(&folder, &format!("complete r -o plain --rank 3,3,2 {PLAIN} --max-iterations 5"));
    let warm = json(&folder, "complete r -o probed --init plain --max-iterations 0");
    assert_eq!((&warm["rank"], &warm["biases"]), (&plain["rank"], &false.into()));
    assert!((ratio(&warm, &plain) - 1.0).abs() < 1e-9, "{warm}");
}

#[test]
fn what_cannot_be_is_said_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    ratings(&folder);
    json(&folder, "synth -o n --dims 60,50,40 --rank 2 --oversampling 10");
    for (arguments, said) in [
        ("complete n -o run --rank 2 --penalty auto", "give both --bias and --penalty"),
        ("complete n -o run --rank auto", "--rank auto decides on validation entries"),
        ("complete n -o run --rank 2 --bias auto --penalty auto", "decides on validation entries"),
        ("complete r -o run --rank 2 --bias modes", "give both --bias and --penalty"),
        ("complete r -o run --rank 2 --penalty 0.1", "give both --bias and --penalty"),
        ("complete r -o run --rank 2 --penalty-kind log", "give both --bias and --penalty"),
        ("complete r -o run --bias modes --penalty 0.1", "--rank auto is for sweeps"),
        ("complete r -o run --metric euclidean", "--rank auto is for sweeps"),
        ("complete r -o run --grow", "--grow was removed in this version: sweeps have taken the place"),
        (
            "complete r -o run --rank 2 --no-grow",
            "--no-grow was removed in this version: a rank that is given",
        ),
        ("complete r -o run --refine", "--refine was removed in this version"),
        ("complete r -o run --no-refine", "--no-refine was removed in this version"),
        ("complete r -o run --rank 2 --bias-time userId:hour", "does not name two modes"),
        (
            "complete r -o run --rank 2 --bias none --penalty 0 --bias-time userId:week",
            "goes with --bias modes",
        ),
        (
            "complete r -o run --rank 2 --bias modes --penalty 0 --step exact",
            "--step exact follows a polynomial",
        ),
    ] {
        let told = failure(&folder, arguments);
        assert!(told.contains(said), "{arguments}: {told}");
        assert!(!folder.path().join("run").exists(), "{arguments}");
    }
    json(&folder, "complete r -o run --rank 2 --max-iterations 3");
    json(&folder, "complete r -o biased --rank 2 --bias modes --penalty 0.1 --max-iterations 3");
    let told = failure(&folder, &format!("complete r -o other --rank 2 --init biased {PLAIN}"));
    assert!(told.contains("its model has biases"), "{told}");
    assert!(failure(&folder, "resume run --penalty 0.1").contains("cannot change in a resumed run"));
}
