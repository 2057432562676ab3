//! Steps from chunks of the data: fewer passes, the same bits for any number of threads and after any
//! interruption, and conjugate gradients where they do not help.

use crate::common::{folder, result, run, tenfill};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

const PLAIN: [&str; 5] = ["--bias", "none", "--penalty", "0", "--no-clip"];

fn synth(place: &Path, more: &[&str]) {
    let arguments = ["synth", "-o", "data", "--dims", "600,500,700", "--rank", "3", "--oversampling", "16"];
    run(place, arguments.into_iter().chain(more.iter().copied()));
}

fn arguments<'a>(out: &'a str, algorithm: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["complete", "data", "-o", out, "--rank", "3", "--algorithm", algorithm];
    arguments.extend(PLAIN);
    arguments.extend(more);
    arguments
}

#[test]
fn fewer_passes_than_conjugate_gradients() {
    let place = folder();
    synth(place.path(), &[]);
    let cg = run(place.path(), arguments("cg", "cg", &[]));
    let sgd = run(place.path(), arguments("sgd", "sgd", &[]));
    for found in [&cg, &sgd] {
        assert_eq!(found["stopped_by"], "tolerance", "{found}");
        // The train error is that of the model, not of the epoch that led to it.
        let evaluated = found["errors"]["train"]["mse"].as_f64().unwrap();
        assert!((found["train_mse"].as_f64().unwrap() / evaluated - 1.0).abs() < 1e-3, "{found}");
    }
    let passes = |found: &Value| found["passes"].as_u64().unwrap();
    assert!(3 * passes(&sgd) < 2 * passes(&cg), "{} against {}", passes(&sgd), passes(&cg));
}

#[test]
fn the_same_bits_for_any_threads_and_after_a_kill_inside_an_epoch() {
    let place = folder();
    synth(place.path(), &["--noise", "0.001", "--validation", "0.1"]);
    let limits =
        ["--tolerance", "0", "--patience", "0", "--gradient-tolerance", "0", "--max-iterations", "30"];
    let with = |out: &'static str, threads: &'static str| {
        [arguments(out, "sgd", &limits), vec!["--threads", threads]].concat()
    };
    run(place.path(), with("one", "1"));
    run(place.path(), with("three", "3"));
    let expected = result(&place.path().join("one"));
    assert!(expected == result(&place.path().join("three")));
    assert_eq!(expected.1.len(), 31);
    // Some of its iterations are epochs, and the last ones conjugate gradients.
    let beta = |line: &Value| line["beta"].as_f64().unwrap();
    assert!(beta(&expected.1[1]) == 0.7 && beta(&expected.1[30]) != 0.7);
    for wanted in [0, 2, 5] {
        let mut command = tenfill(place.path());
        command.args(with("killed", "1")).args(["--force", "-v", "--checkpoint-every", "1,0s"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let epoch =
            |line: &str| line.rsplit_once(" of epoch ")?.1.trim_end_matches(')').parse::<usize>().ok();
        let met = lines.map_while(Result::ok).any(|line| epoch(&line).is_some_and(|epoch| epoch == wanted));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(met, "{wanted}");
        run(place.path(), ["resume", "killed", "--threads", "2"]);
        assert!(expected == result(&place.path().join("killed")), "{wanted}");
    }
}

/// Where steps from chunks blow up, epochs are taken back and conjugate gradients do the work.
#[test]
fn what_does_not_help_is_taken_back() {
    let place = folder();
    let ratings = ["synth", "-o", "data", "--kind", "ratings", "--dims", "900,700,40", "--entries", "90000"];
    run(place.path(), ratings);
    let cg = run(place.path(), arguments("cg", "cg", &["--max-iterations", "60"]));
    let sgd = run(place.path(), arguments("sgd", "sgd", &["--max-iterations", "60"]));
    let train = |found: &Value| found["train_mse"].as_f64().unwrap();
    assert!(train(&sgd) < 1.1 * train(&cg), "{} against {}", train(&sgd), train(&cg));
    let log = result(&place.path().join("sgd")).1;
    let costs: Vec<f64> = log.iter().map(|line| line["train_mse"].as_f64().unwrap()).collect();
    assert!(costs.iter().all(|cost| *cost <= costs[0]), "{costs:?}");
    assert!(log.iter().any(|line| line["backtracks"].as_u64() > Some(0)), "an epoch was taken back");
}

#[test]
fn a_recipe_is_refused() {
    let place = folder();
    synth(place.path(), &["--validation", "0.1"]);
    let arguments = "complete data -o run --rank 3 --bias modes --penalty 0.1 --algorithm sgd";
    let output = tenfill(place.path()).args(arguments.split(' ')).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(crate::common::stderr(&output).contains("--algorithm sgd is for the plain method"));
}
