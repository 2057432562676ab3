//! Rows that differ in how many entries they have, as nearly all real data's do: `auto` allows for that, and takes hardly more
//! passes than for others.

use crate::common::{folder, json, result};
use serde_json::Value;
use std::path::Path;

const PLAIN: &str = "--rank 2 --bias none --penalty 0 --no-clip";

/// Makes `uneven.csv`, and `uneven.test.csv`, low-rank data of which an entry (i, j, k) stays with a probability of
/// min(1, n_1 / 25 i) min(1, n_2 / 25 j).
pub fn synth(place: &Path, data: &str) {
    let made = json(place, &format!("synth -o even.csv --force --rank 2 {data}"));
    let dims: Vec<f64> = made["dims"].as_array().unwrap().iter().map(|dim| dim.as_f64().unwrap()).collect();
    let mut state = 1_u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    for (from, to) in [("even.csv", "uneven.csv"), ("even.test.csv", "uneven.test.csv")] {
        let text = std::fs::read_to_string(place.join(from)).unwrap();
        let mut stays = |(number, line): (usize, &str)| {
            let ids = line.split(',').zip(&dims).take(2);
            let share = |(id, n): (&str, &f64)| (n / 25.0 / id.parse::<f64>().unwrap()).min(1.0);
            number == 0 || uniform() < ids.map(share).product()
        };
        let kept: Vec<&str> =
            text.lines().enumerate().filter(|&line| stays(line)).map(|(_, line)| line).collect();
        std::fs::write(place.join(to), kept.join("\n")).unwrap();
    }
}

fn number(found: &Value, field: &str) -> f64 {
    found[field].as_f64().unwrap()
}

fn phases(run: &Path) -> Vec<String> {
    result(run).1.iter().map(|line| line["phase"].as_str().unwrap().to_string()).collect()
}

#[test]
fn it_takes_a_fraction_of_the_passes() {
    let place = folder();
    synth(place.path(), "--dims 500,400,300 --entries 1500000");
    json(place.path(), "convert uneven.csv -o data --test uneven.test.csv --value value");
    let cg = json(place.path(), &format!("complete data -o cg {PLAIN} --algorithm cg --max-iterations 400"));
    let auto = json(place.path(), &format!("complete data -o auto {PLAIN}"));
    assert_eq!(auto["stopped_by"], "tolerance", "{auto}");
    assert!(number(&auto, "test_mse") < 1e-8, "{auto}");
    assert!(number(&auto, "passes") <= 0.3 * number(&cg, "passes"), "{auto} against {cg}");
    // The model is in the user's own coordinates: what it says of a file is what the run said of the same entries.
    let evaluated = json(place.path(), "evaluate auto --on uneven.test.csv");
    assert!((number(&evaluated, "mse") / number(&auto, "test_mse") - 1.0).abs() < 1e-6, "{evaluated}");
    // And what goes on from it has nothing left to do.
    let again = json(place.path(), &format!("complete data -o again {PLAIN} --init auto"));
    assert!(number(&again, "iterations") <= 2.0, "{again}");
}

#[test]
fn it_goes_on_to_the_same_bits_from_any_phase() {
    let place = folder();
    synth(place.path(), "--dims 500,400,300 --entries 1500000 --noise 1e-6");
    json(place.path(), "convert uneven.csv -o data --split 80/10/10 --value value");
    let with = |out: &str, iterations: usize, threads: usize| {
        format!(
            "complete data -o {out} {PLAIN} --tolerance 0 --patience 0 --gradient-tolerance 0 \
             --max-iterations {iterations} --threads {threads}"
        )
    };
    json(place.path(), &with("whole", 34, 1));
    let (expected, met) = (result(&place.path().join("whole")), phases(&place.path().join("whole")));
    for phase in ["chunks", "two-pass", "one-pass"] {
        assert!(met.iter().any(|met| met == phase), "{met:?}");
    }
    let begins = (1..met.len()).filter(|&n| met[n] != met[n - 1]);
    for (number, stop) in begins.flat_map(|begin| [begin, begin + 1]).enumerate() {
        let out = format!("part{number}");
        json(place.path(), &with(&out, stop, 1 + number % 3));
        json(place.path(), &format!("resume {out} --max-iterations 34 --threads 3"));
        assert!(expected == result(&place.path().join(&out)), "{stop}");
    }
}

/// Where validation decides, sweeps follow a fit in coordinates of its own, and what is best is told in the user's.
#[test]
fn what_is_kept_before_sweeps_is_what_it_was() {
    let place = folder();
    synth(place.path(), "--dims 500,400,300 --entries 1500000 --noise 0.5");
    json(place.path(), "convert uneven.csv -o data --split 80/10/10 --value value");
    let whole = json(place.path(), "complete data -o run --rank 2 --max-iterations 12");
    assert!(whole["learned"].as_bool().unwrap(), "{whole}");
    let evaluated = json(place.path(), "evaluate run --on test");
    assert!((number(&evaluated, "mse") / number(&whole, "test_mse") - 1.0).abs() < 1e-9, "{evaluated}");
}

/// A mode with fewer rows in train than components keeps its own coordinates, in which the others can be anything.
#[test]
fn rows_without_entries_are_no_hindrance() {
    let place = folder();
    json(place.path(), "synth -o all.csv --rank 2 --dims 300,200,3 --entries 60000");
    let text = std::fs::read_to_string(place.path().join("all.csv")).unwrap();
    for (name, kept) in [("train.csv", "1"), ("test.csv", "3")] {
        let stays = |line: &&str| line.split(',').nth(2) == Some(kept);
        let lines: Vec<&str> = text.lines().take(1).chain(text.lines().filter(stays)).collect();
        std::fs::write(place.path().join(name), lines.join("\n")).unwrap();
    }
    json(place.path(), "convert train.csv -o data --test test.csv --value value");
    let found = json(place.path(), &format!("complete data -o run {PLAIN}"));
    assert_eq!(found["stopped_by"], "tolerance", "{found}");
}
