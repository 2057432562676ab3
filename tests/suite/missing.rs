//! Components that the plain method misses: found in the spectrum of the residual, or by another start; never worse,
//! and the same bits for any number of threads and after an interruption at any moment.

use crate::common::{failure, folder, json, result};
use serde_json::Value;
use std::path::Path;

const PLAIN: &str = "--bias none --penalty 0 --no-clip";

/// Orthonormal factors and a diagonal core: no component tells of another.
fn diagonal(place: &Path, more: &str) {
    json(
        place,
        &format!("synth -o data --dims 120,100,110 --rank 3 --entries 9000 --condition 3 --seed 5 {more}"),
    );
}

fn number(found: &Value, field: &str) -> f64 {
    found[field].as_f64().unwrap()
}

fn phases(run: &Path) -> Vec<String> {
    result(run).1.iter().map(|line| line["phase"].as_str().unwrap().to_string()).collect()
}

fn is_solved(found: &Value) -> bool {
    let test = &found["errors"]["test"];
    number(test, "mse") < 1e-8 * number(test, "standard_deviation").powi(2)
}

/// Finds a start of the plain method that misses components, and what becomes of it.
#[test]
fn what_a_random_start_misses_is_found() {
    let place = folder();
    diagonal(place.path(), "");
    let mut stalled = 0;
    for seed in 1..=4 {
        let with = |name: &str, more: &str| {
            format!("complete data -o {name}{seed} --rank 3 {PLAIN} --seed {seed} {more}")
        };
        let auto = json(place.path(), &with("auto", ""));
        assert!(is_solved(&auto), "seed {seed}: {auto}");
        assert_eq!(auto["data"]["kind"], "low-rank", "{auto}");
        stalled += usize::from(
            phases(&place.path().join(format!("auto{seed}"))).iter().any(|phase| phase == "spectral"),
        );
    }
    assert!(stalled > 0, "no start has stalled: this test tells nothing");
    let spectral = json(
        place.path(),
        &format!("complete data -o spectral --rank 3 {PLAIN} --init spectral --algorithm cg"),
    );
    assert!(is_solved(&spectral), "{spectral}");
    let met = phases(&place.path().join("spectral"));
    assert!(met[0] == "start" && met[1] == "spectral", "{met:?}");
    // Of orders 2 and with unlike ranks as well.
    json(place.path(), "synth -o flat --dims 200,150 --rank 3 --oversampling 6 --factors gaussian");
    assert!(is_solved(&json(
        place.path(),
        &format!("complete flat -o flat-run --rank 3 {PLAIN} --init spectral")
    )));
    json(place.path(), "synth -o uneven --dims 90,80,70 --rank 4,2,3 --oversampling 30 --factors gaussian");
    assert!(is_solved(&json(
        place.path(),
        &format!("complete uneven -o uneven-run --rank 4,2,3 {PLAIN} --init spectral")
    )));
}

/// The seed of a run on these data that goes through the phase.
fn seed_that_stalls(place: &Path, more: &str) -> (usize, Vec<String>) {
    for seed in 1..=6 {
        let name = format!("try{seed}");
        json(place, &format!("complete data -o {name} --rank 3 {PLAIN} --seed {seed} {more}"));
        let met = phases(&place.join(name));
        if met.iter().any(|phase| phase == "spectral") {
            return (seed, met);
        }
    }
    panic!("no start has stalled: this test tells nothing");
}

#[test]
fn it_goes_on_to_the_same_bits_from_any_moment() {
    let place = folder();
    for (validation, out) in [("", "plain"), ("--validation 0.1", "validated")] {
        diagonal(place.path(), &format!("--force {validation}"));
        let more = "--patience 0 --force";
        let (seed, met) = seed_that_stalls(place.path(), more);
        let last = met.len() - 1;
        let with = |name: &str, iterations: usize, threads: usize| {
            format!(
                "complete data -o {name} --rank 3 {PLAIN} {more} --seed {seed} --max-iterations {iterations} --threads {threads}"
            )
        };
        json(place.path(), &with("whole", last, 1));
        let expected = result(&place.path().join("whole"));
        let first = met.iter().position(|phase| phase == "spectral").unwrap();
        let end = met.iter().rposition(|phase| phase == "spectral").unwrap();
        for (number, stop) in
            [first - 1, first, first + 3, (first + end) / 2, end, end + 1].into_iter().enumerate()
        {
            let name = format!("{out}{number}");
            json(place.path(), &with(&name, stop, 1 + number % 3));
            json(place.path(), &format!("resume {name} --max-iterations {}", (stop + 2).min(last)));
            json(place.path(), &format!("resume {name} --max-iterations {last} --threads 3"));
            assert!(expected == result(&place.path().join(&name)), "{stop} of {met:?}");
        }
    }
}

/// A run that ends while components are being found has the fit that had stalled: it is the better one.
#[test]
fn a_run_that_ends_on_the_way_is_no_worse() {
    let place = folder();
    diagonal(place.path(), "");
    let (seed, met) = seed_that_stalls(place.path(), "");
    let first = met.iter().position(|phase| phase == "spectral").unwrap();
    let at = |name: &str, iterations: usize| {
        json(
            place.path(),
            &format!("complete data -o {name} --rank 3 {PLAIN} --seed {seed} --max-iterations {iterations}"),
        )
    };
    let (before, inside) = (at("before", first - 1), at("inside", first + 1));
    assert!((number(&inside, "train_mse") / number(&before, "train_mse") - 1.0).abs() < 1e-9, "{inside}");
    assert_eq!(inside["rank"], before["rank"]);
}

/// Weights go with it.
#[test]
fn entries_that_count_more_are_no_hindrance() {
    let place = folder();
    json(
        place.path(),
        "synth -o data.csv --dims 120,100,110 --rank 3 --entries 12000 --condition 3 --seed 5",
    );
    for (from, to) in [("data.csv", "weighted.csv"), ("data.test.csv", "test.csv")] {
        let text = std::fs::read_to_string(place.path().join(from)).unwrap();
        let weigh = |(number, line): (usize, &str)| match number {
            0 => format!("{line},weight\n"),
            _ => format!("{line},{}\n", 1 + number * 7 % 3),
        };
        let text: String = text.lines().enumerate().map(weigh).collect();
        std::fs::write(place.path().join(to), text).unwrap();
    }
    json(place.path(), "convert weighted.csv -o data --weights weight --test test.csv --value value");
    let found = json(place.path(), &format!("complete data -o run --rank 3 {PLAIN} --init spectral"));
    assert!(is_solved(&found), "{found}");
}

#[test]
fn what_cannot_be_is_said() {
    let place = folder();
    json(place.path(), "synth -o data --dims 40,30,30,30,20 --rank 2 --oversampling 4");
    let said = failure(place.path(), &format!("complete data -o run --rank 2 {PLAIN} --init spectral"));
    assert!(said.contains("--init spectral looks at entries that share"), "{said}");
    diagonal(place.path(), "--force --validation 0.1");
    let said = failure(place.path(), "complete data -o run --rank auto --init spectral");
    assert!(said.contains("starts of the plain method"), "{said}");
}

/// Too few entries: the number that would do is named.
#[test]
fn too_few_entries_are_told() {
    let place = folder();
    json(place.path(), "synth -o data --dims 120,100,110 --rank 3 --entries 2000 --condition 3");
    let found = json(place.path(), &format!("complete data -o run --rank 3 {PLAIN}"));
    assert_eq!(found["data"]["kind"], "too-few", "{found}");
    assert_eq!(found["data"]["entries_needed"].as_u64(), Some(5 * (3 * 330 - 27 + 27)), "{found}");
}
