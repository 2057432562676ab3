//! Data with noise, as a user completes them: biases, penalty and rank decided on validation.

use crate::common::{self, failure, json};
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

const PLAIN: &str = "--bias none --penalty 0 --no-grow";

#[test]
fn default_and_search_are_better_than_the_plain_method_at_any_rank() {
    let folder = tempfile::tempdir().unwrap();
    ratings(&folder);
    let error = |done: &Value| done["test_mse"].as_f64().unwrap();
    let plain = ["2", "4", "8"]
        .map(|rank| error(&json(&folder, &format!("complete r -o p{rank} --rank {rank} {PLAIN}"))));
    let best = plain.into_iter().fold(f64::MAX, f64::min);
    for (rank, search) in
        [("4,4,4", ""), ("8,8,8", ""), ("auto", ""), ("6,6,6", " --grow"), ("auto", " --grow")]
    {
        let done = json(&folder, &format!("complete r -o run-{rank} --force --rank {rank}{search}"));
        assert!(error(&done) < 0.97 * best, "rank {rank}: {} against {best}", error(&done));
        assert_eq!(done["biases"], true);
        let tried = done["tried"].as_array().unwrap();
        let (_, lines) = result(&folder, &format!("run-{rank}"));
        if search.is_empty() {
            assert!(tried.iter().any(|tried| tried["change"] == "sweeps"), "{tried:?}");
        } else {
            assert!(tried.len() > 3 && tried.iter().any(|tried| tried["kept"] == false), "{tried:?}");
            let last = &lines[lines.len() - 1]["rank"];
            assert!(lines.iter().any(|line| line["rank"] != *last), "the rank changes");
        }
        let scored = json(&folder, &format!("evaluate run-{rank}"));
        assert_eq!(scored["mse"], done["test_mse"]);
        assert!(scored["mae"].as_f64() == done["errors"]["test"]["mae"].as_f64());
    }
}

#[test]
fn interrupted_anywhere_a_plan_goes_on_to_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    ratings(&folder);
    let options = "--rank 6,6,3 --grow --bias-time userId:week";
    json(&folder, &format!("complete r -o whole {options} --threads 2"));
    let expected = result(&folder, "whole");
    let last = expected.0.len() - 1;
    assert!(last > 60, "{last} iterations");
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

/// Interrupted after every iteration of a rival's, while the best way to grow so far waits for the verdict.
#[test]
fn interrupted_while_ways_to_grow_compete_a_plan_goes_on_to_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    ratings(&folder);
    let whole = json(&folder, "complete r -o whole --rank 8 --grow --threads 2");
    let expected = result(&folder, "whole");
    let tried = whole["tried"].as_array().unwrap();
    // Freed weeks have helped, more of both others has helped less, and only then the weeks are kept.
    let rival = (0..tried.len()).find(|&at| tried[at]["helped"] == true && tried[at]["kept"] == false);
    let rival = rival.expect("ways to grow compete");
    assert_eq!(tried[rival - 1]["change"], serde_json::json!({"free": 2}));
    assert_eq!(tried[rival - 1]["kept"], true);
    let iterations =
        |upto: usize| tried[..upto].iter().map(|t| t["iterations"].as_u64().unwrap()).sum::<u64>();
    let (first, last) = (iterations(rival), iterations(rival + 1));
    assert!(last > first + 5, "{tried:?}");
    json(&folder, &format!("complete r -o parts --rank 8 --grow --threads 1 --max-iterations {first}"));
    for iteration in first + 1..=last + 1 {
        let threads = iteration % 3 + 1;
        json(&folder, &format!("resume parts --max-iterations {iteration} --threads {threads}"));
    }
    let done = json(&folder, "resume parts --max-iterations 250");
    assert_eq!(done["tried"], whole["tried"]);
    assert!(result(&folder, "parts") == expected);
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
    // A day that nobody has heard of is as good as any other; a user is not.
    let strangers = "user,movie,day,rating\n0,0,99,3\n999,0,3,3\n999,999,99,3\n";
    std::fs::write(folder.path().join("s.csv"), strangers).unwrap();
    let found = json(&folder, "evaluate run --on s.csv");
    assert_eq!((&found["entries"], &found["fallback"]), (&Value::from(3), &Value::from(2)));
    // Nothing leaves the range of the ratings.
    assert!(found["mae"].as_f64().unwrap() <= 2.0);
}

#[test]
fn fixed_settings_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    ratings(&folder);
    for (options, biases, penalty) in [
        ("--bias modes --penalty 0.05 --no-grow", true, 0.05),
        ("--bias mean --penalty 0.02 --penalty-kind frobenius --no-grow --no-clip", true, 0.02),
        ("--bias none --penalty 0.05 --no-grow --clip", false, 0.05),
        ("--bias modes --penalty 0 --no-grow", true, 0.0),
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
    let cold = json(&folder, "complete r -o cold --rank 3,3,2 --grow --no-clip");
    let start = "--rank 3,3,2 --max-iterations 0 --no-refine";
    let warm = json(&folder, &format!("complete r -o warm --init cold --no-clip {start}"));
    assert!((ratio(&warm, &cold) - 1.0).abs() < 1e-9, "{warm}");
    // A search takes a model's latent values for what they are, cut off at the ends of the range. What is
    // behind the ends is found out again when the search has ended.
    let cold = json(&folder, "complete r -o soft --rank 3,3,2 --grow");
    let ends = |of: &Value| of["tried"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&ends(&cold)["change"], &ends(&cold)["kept"]), (&"ends".into(), &true.into()));
    let warm = json(&folder, "complete r -o again --rank 3,3,2 --init soft --max-iterations 0");
    assert_eq!(ends(&warm)["change"], "ends");
    assert!(ratio(&warm, &cold) < 1.001, "{warm}");
}

#[test]
fn what_cannot_be_is_said_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    ratings(&folder);
    json(&folder, "synth -o n --dims 60,50,40 --rank 2 --oversampling 10");
    for (arguments, said) in [
        ("complete n -o run --rank 2 --penalty auto", "decide on validation entries"),
        ("complete n -o run --rank auto", "decide on validation entries"),
        ("complete n -o run --rank 2 --bias modes --refine", "--refine decides on validation entries"),
        ("complete r -o run --rank auto --no-grow", "--rank auto lets the rank grow"),
        ("complete r -o run --rank 2 --bias-time userId:hour", "does not name two modes"),
        ("complete r -o run --rank 2 --bias none --bias-time userId:week", "goes with --bias modes"),
        ("complete r -o run --rank 2 --step exact", "--step exact follows a polynomial"),
    ] {
        let told = failure(&folder, arguments);
        assert!(told.contains(said), "{arguments}: {told}");
        assert!(!folder.path().join("run").exists(), "{arguments}");
    }
    json(&folder, "complete r -o run --rank 2 --max-iterations 3");
    json(&folder, "complete r -o biased --rank 2 --bias modes --max-iterations 3");
    let told = failure(&folder, &format!("complete r -o other --rank 2,2,1 --init biased {PLAIN}"));
    assert!(told.contains("its model has biases"), "{told}");
    assert!(failure(&folder, "resume run --penalty 0.1").contains("cannot change in a resumed run"));
}
