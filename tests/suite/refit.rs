//! The last sweep is to the validation entries as well.

use crate::common::{folder, json, stderr, tenfill};
use crate::sweeps::random;
use std::fmt::Write;
use std::path::Path;
use tenfill_engine::bayes::{Data, Fit, Slices};
use tenfill_engine::shard::{Dataset, Split};
use tenfill_engine::stream::{LANES, Share, Stream};
use tenfill_engine::team::Team;

const OPTIONS: &str = "--modes a,b,c --value value --weights w --duplicates mean";

/// `apart` has train and validation entries, `joined` all of them in train. Where there are few slices, the first of them has
/// half of all entries. Some entries have no weight, and some of the validation entries an id that train lacks.
fn datasets(folder: &Path, slices: usize) {
    let mut next = random(23);
    let head = "a,b,c,value,w\n";
    let [mut train, mut held, mut all, mut unknown] = [(); 4].map(|()| String::from(head));
    let mut seen = std::collections::HashSet::new();
    for _ in 0..24_000 {
        let a = match slices {
            6 => (6.0 * next() * next().round()) as usize,
            _ => (slices as f64 * next()) as usize,
        };
        let (b, c) = ((300.0 * next()) as usize, (40.0 * next()) as usize);
        let value = (b as f64).sin() * (1.0 + a as f64 / slices as f64) + 0.1 * c as f64 + next();
        let (weight, is_held) = (if next() < 0.05 { 0 } else { 1 }, next() < 0.2);
        if seen.insert((a, b, c)) {
            let line = format!("{a},{b},{c},{value},{weight}\n");
            if is_held { &mut held } else { &mut train }.push_str(&line);
            all.push_str(&line);
        }
    }
    for a in 0..6 {
        writeln!(unknown, "{a},9999,3,70,1").unwrap();
    }
    held.push_str(&unknown[head.len()..]);
    for (name, text) in [("train", train), ("held", held), ("all", all), ("unknown", unknown)] {
        std::fs::write(folder.join(format!("{name}.csv")), text).unwrap();
    }
    json(folder, &format!("convert train.csv --validation held.csv -o apart --force {OPTIONS}"));
    json(folder, &format!("convert all.csv --validation unknown.csv -o joined --force {OPTIONS}"));
}

/// How a sweep goes through the data.
#[derive(Clone, Copy)]
struct Way {
    window: usize,
    parts: usize,
    processes: usize,
}

/// A fit that begins with the train entries of a dataset, or the next sweep of one, to the validation entries as well where it
/// is `refit`. `places` are one for each process, or one for all.
fn sweep(places: &[&Path], way: Way, from: Option<&Fit>, refit: bool) -> Fit {
    let members = if way.processes == 1 { vec![Team::alone()] } else { Team::of_threads(way.processes) };
    let work = |(process, team): (usize, Team)| {
        let dataset = Dataset::open(places[process % places.len()]).unwrap();
        let share = Share { team, lanes: LANES };
        let train = Stream::open_share(&dataset, Split::Train, None, share).unwrap();
        let own: Vec<_> = train.lanes().iter().map(|lane| lane.slices.clone()).collect();
        let validation = Stream::open_covering(&dataset, Split::Validation, None, share, &own).unwrap();
        let slices = Slices::in_windows(&train, 1.0, 3, way.window).unwrap().in_parts(way.parts);
        let data = Data::of(&train, &slices);
        let Some(fit) = from else {
            let (mut fit, _) = Fit::begin(dataset.manifest(), &data, None, |_| 3, None, 1).unwrap();
            // The next one leaves the biases of a third mode alone, as the last one does.
            (0..6).for_each(|_| assert!(fit.sweep(&data).unwrap() > 0));
            return fit;
        };
        let (mut fit, beside) = (fit.clone(), refit.then_some(&validation));
        assert!(slices.can_join(&validation));
        fit.sweep(&Data { beside, ..data }).unwrap();
        fit
    };
    let fits = std::thread::scope(|scope| {
        let all = members.into_iter().enumerate().map(|of| scope.spawn(move || work(of)));
        let all: Vec<_> = all.collect();
        all.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(fits.iter().all(|fit| *fit == fits[0]), "all processes have the same");
    fits.into_iter().next().unwrap()
}

/// The largest difference of rows.
fn apart(one: &Fit, other: &Fit) -> f64 {
    let levels = one.posterior.levels.iter().zip(&other.posterior.levels);
    let means = levels.flat_map(|(a, b)| a.means.iter().zip(&b.means));
    means.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn it_is_a_sweep_to_both_of_them_together_in_any_processes() {
    let folder = folder();
    // Slices as a whole, and some of them in windows.
    for (slices, window) in [(500, usize::MAX), (6, 500)] {
        datasets(folder.path(), slices);
        let (place, joined) = (folder.path().join("apart"), folder.path().join("joined"));
        let way = Way { window, parts: 1, processes: 1 };
        let fit = sweep(&[&place], way, None, false);
        let known = Dataset::open(&joined).unwrap().manifest().mode_order.clone();
        assert_eq!(fit.terms.mode_order, known, "levels are the same");
        let refit = sweep(&[&place], way, Some(&fit), true);
        let both = sweep(&[&joined], way, Some(&fit), false);
        let without = sweep(&[&place], way, Some(&fit), false);
        // Sums are in another order, and their parts in single precision.
        assert!(apart(&refit, &both) < 1e-5, "{:e}", apart(&refit, &both));
        assert!((refit.posterior.noise / both.posterior.noise - 1.0).abs() < 1e-6);
        assert!(apart(&refit, &without) > 1e-2, "it changes something: {:e}", apart(&refit, &without));
        json(&folder, "distribute apart --hosts 4 -o parts --force");
        let parts: Vec<_> = (0..4).map(|part| folder.path().join(format!("parts/part-{part}"))).collect();
        let parts: Vec<&Path> = parts.iter().map(AsRef::as_ref).collect();
        for processes in [2, 4] {
            let other = Way { processes, ..way };
            assert!(sweep(&[&place], other, Some(&fit), true) == refit, "{processes} processes");
        }
        let other = Way { processes: 4, ..way };
        assert!(sweep(&parts, other, Some(&fit), true) == refit, "each process has its part of the data");
        let in_parts = Way { parts: 3, ..way };
        assert!(apart(&sweep(&[&place], in_parts, Some(&fit), true), &refit) < 1e-5);
    }
}

#[test]
fn errors_of_validation_are_of_the_model_before_it_and_other_runs_begin_there() {
    let folder = folder();
    json(&folder, "synth --kind ratings --dims 300,200,20 --entries 12000 --validation 0.1 -o r");
    let with = json(&folder, "complete r -o with --rank auto");
    let without = json(&folder, "complete r -o without --rank auto --no-refit");
    assert_eq!((&with["refit"], &without["refit"]), (&true.into(), &false.into()));
    let float = |value: &serde_json::Value| value.as_f64().unwrap();
    assert_ne!(with["test_mse"], without["test_mse"]);
    let passes = |line: &serde_json::Value| line["iterations"].as_u64().unwrap();
    assert_eq!(passes(&with), passes(&without) + 1);
    let log = std::fs::read_to_string(folder.path().join("with/log.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [.., before, last] = &lines[..] else { panic!("{log}") };
    // (All ids occur in train.)
    assert_eq!(with["errors"]["validation"]["fallback"], 0);
    assert!((float(&with["validation_mse"]) / float(&before["validation_mse"]) - 1.0).abs() < 1e-9);
    assert!(
        (float(&with["errors"]["validation"]["mae"]) / float(&before["validation_mae"]) - 1.0).abs() < 1e-9
    );
    assert_eq!((&last["phase"], &last["validation_mse"]), (&"refit".into(), &serde_json::Value::Null));
    // The model itself knows them.
    let on = |run: &str| {
        let output = tenfill(&folder).args(["evaluate", run, "--on", "validation", "--json"]).output();
        let output = output.unwrap();
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (found["mse"].as_f64().unwrap(), stderr(&output).contains("fitted to these entries"))
    };
    let ((known, warned), (held_out, silent)) = (on("with"), on("without"));
    assert!(known < 0.99 * held_out && warned && !silent, "{known} {held_out}");
    // What begins with a run begins with what has seen nothing of them.
    let [a, b] = ["with", "without"].map(|run| {
        let line = json(&folder, &format!("complete r -o from-{run} --rank auto --init {run}"));
        (line["validation_mse"].clone(), line["test_mse"].clone())
    });
    assert_eq!(a, b);
}
