//! Whoever asks to stop cuts a pass short, at any moment; the run goes on from its last whole iteration to the same
//! bits.

use crate::common::{folder, json, result};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tenfill::cli::{self, Failure, Outside};
use tenfill_engine::{Control, Error};

/// Calls a command here, and asks it to stop after so long.
fn stopped(after: Duration, arguments: &[&str]) -> Option<Value> {
    let (stop, over) = (Arc::new(AtomicBool::new(false)), AtomicBool::new(false));
    let arguments = arguments.iter().map(Into::into).collect();
    let answer = std::thread::scope(|scope| {
        scope.spawn(|| {
            let begun = Instant::now();
            while begun.elapsed() < after && !over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_micros(200));
            }
            stop.store(true, Ordering::Relaxed);
        });
        let answer = cli::call(arguments, Outside::new(Control::stopped_by(Arc::clone(&stop))));
        over.store(true, Ordering::Relaxed);
        answer
    });
    match answer {
        Ok(answer) => Some(answer),
        Err(Failure::Failed(Error::Interrupted)) => None,
        Err(failure) => panic!("{failure:?}"),
    }
}

/// Stops a run at several moments, and again when it goes on, and lets it come to its end.
fn at_any_moment(data: &str, options: &str) {
    const MOMENTS: u32 = 8;
    let folder = folder();
    json(&folder, data);
    let begun = Instant::now();
    json(&folder, &format!("complete data -o whole {options}"));
    let took = begun.elapsed();
    let text = |path: &Path| path.to_str().unwrap().to_string();
    let mut caught = 0;
    for moment in 0..MOMENTS {
        let run = folder.path().join(format!("run{moment}"));
        let (data, run) = (text(&folder.path().join("data")), text(&run));
        let mut arguments = vec!["complete", &data, "-o", &run];
        arguments.extend(options.split(' '));
        let after = took * (2 * moment + 1) / (2 * MOMENTS);
        let mut answer = stopped(after, &arguments);
        let is_cut = |answer: &Option<Value>| {
            answer.as_ref().is_none_or(|answer| answer["stopped_by"] == "interrupted")
        };
        if let Some(answer) = answer.as_ref().filter(|answer| answer["stopped_by"] == "interrupted") {
            caught += 1;
            // Nobody waits for the errors on all splits.
            assert_eq!((&answer["errors"], &answer["test_mse"]), (&serde_json::json!({}), &Value::Null));
            assert!(answer["train_mse"].as_f64().unwrap() > 0.0, "{answer}");
            assert!(json(&folder, &format!("verify run{moment}"))["ok"].as_bool().unwrap());
        }
        // Stopped again on its way, twice.
        for _ in 0..2 {
            if is_cut(&answer) {
                answer = stopped(took / (3 * MOMENTS), &["resume", &run]);
            }
        }
        if is_cut(&answer) {
            json(&folder, &format!("resume run{moment}"));
        }
        assert!(result(Path::new(&run)) == result(&folder.path().join("whole")), "{moment}: {answer:?}");
    }
    assert!(caught >= 2, "{caught} of {MOMENTS} had something to go on from");
}

#[test]
fn chunks_and_conjugate_gradients_are_cut_short_at_any_moment() {
    at_any_moment("synth -o data --dims 300,200,100 --rank 4 --entries 200000 --validation 0.1", "--rank 4");
}

#[test]
fn sweeps_are_cut_short_at_any_moment() {
    let data = "synth -o data --kind ratings --dims 600,400,40 --entries 60000 --validation 0.1";
    at_any_moment(data, "--rank auto");
}

#[test]
fn a_search_and_its_refinement_are_cut_short_at_any_moment() {
    let data = "synth -o data --kind ratings --dims 200,100,20 --entries 12000 --validation 0.1";
    at_any_moment(data, "--rank 3 --grow --max-iterations 150");
}

#[test]
fn without_room_for_a_copy_an_iteration_comes_to_its_end() {
    let data = "synth -o data --dims 20000,15000,10000 --rank 6 --entries 60000 --validation 0.1";
    at_any_moment(data, "--rank 6 --bias none --penalty 0 --no-grow --max-iterations 12 --memory 30M");
}
