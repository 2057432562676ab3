//! Whoever asks to stop cuts a pass short, at any moment; the run goes on from its last whole iteration to the same
//! bits.

use crate::common::{folder, json, result};
use serde_json::Value;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tenfill::cli::{self, Failure, Outside};
use tenfill_engine::{Control, Error};

/// Calls a command here, and asks it to stop so long after a line of its log, or after its beginning.
fn stopped(line: Option<usize>, after: Duration, arguments: &[&str]) -> Option<Value> {
    loop {
        match try_stopped(line, after, arguments) {
            Ok(answer) => return Some(answer),
            Err(Failure::Failed(Error::Interrupted)) => return None,
            // A program that another test starts has the run's lock as well, until it is one of its own.
            Err(Failure::Failed(error)) if error.to_string().contains("another tenfill is at work") => {}
            Err(failure) => panic!("{failure:?}"),
        }
    }
}

fn try_stopped(line: Option<usize>, after: Duration, arguments: &[&str]) -> Result<Value, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let arguments = arguments.iter().map(Into::into).collect();
    let mut outside = Outside::new(Control::stopped_by(Arc::clone(&stop)));
    let ask = move || {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || {
            std::thread::sleep(after);
            stop.store(true, Ordering::Relaxed);
        });
    };
    match line {
        None => ask(),
        Some(line) => {
            let left = AtomicUsize::new(line);
            outside.observe = Box::new(move |_| {
                if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                    ask();
                }
                ControlFlow::Continue(())
            });
        }
    }
    cli::call(arguments, outside)
}

/// Stops a run at several moments, and again when it goes on, and lets it come to its end.
fn at_any_moment(data: &str, options: &str) {
    let folder = folder();
    json(&folder, data);
    json(&folder, &format!("complete data -o whole {options}"));
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let is_cut =
        |answer: &Option<Value>| answer.as_ref().is_none_or(|answer| answer["stopped_by"] == "interrupted");
    let mut caught = 0;
    for moment in 0..9_u64 {
        let (data, name) = (path("data"), format!("run{moment}"));
        let run = path(&name);
        let mut arguments = vec!["complete", &data, "-o", &run];
        arguments.extend(options.split(' '));
        // Before the first line, and somewhere in a pass behind one.
        let line = (moment > 1).then(|| moment as usize - 1);
        let mut answer = stopped(line, Duration::from_micros(700 * moment), &arguments);
        if let Some(answer) = answer.as_ref().filter(|answer| answer["stopped_by"] == "interrupted") {
            caught += 1;
            // Nobody waits for the errors on all splits.
            assert_eq!((&answer["errors"], &answer["test_mse"]), (&serde_json::json!({}), &Value::Null));
            assert!(answer["train_mse"].as_f64().unwrap() > 0.0, "{answer}");
            assert!(json(&folder, &format!("verify {name}"))["ok"].as_bool().unwrap());
        }
        // Stopped again on its way, twice.
        for again in 1..3 {
            if is_cut(&answer) {
                answer = stopped(Some(again), Duration::from_micros(300 * moment), &["resume", &run]);
            }
        }
        if is_cut(&answer) {
            json(&folder, &format!("resume {name}"));
        }
        assert!(result(Path::new(&run)) == result(Path::new(&path("whole"))), "{moment}: {answer:?}");
    }
    assert!(caught >= 2, "{caught} of 9 had something to go on from");
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
fn without_room_for_a_copy_an_iteration_comes_to_its_end() {
    let data = "synth -o data --dims 20000,15000,10000 --rank 6 --entries 60000 --validation 0.1";
    at_any_moment(data, "--rank 6 --bias none --penalty 0 --max-iterations 12 --memory 47M");
}
