//! `--rank auto` on data without a mean: components of all modes are found one by one, and there are as many as there are.

use crate::common::{failure, folder, json, result};
use serde_json::Value;
use std::path::Path;

fn synth(place: &Path, data: &str) {
    json(place, &format!("synth -o data --factors gaussian --validation 0.1 {data}"));
}

fn number(found: &Value, field: &str) -> f64 {
    found[field].as_f64().unwrap()
}

fn r2(found: &Value) -> f64 {
    found["errors"]["test"]["r2"].as_f64().unwrap()
}

#[test]
fn the_rank_is_that_of_the_data() {
    for (data, rank) in [
        ("--dims 100,100,100 --rank 3 --oversampling 20 --seed 12", vec![3, 3, 3]),
        ("--dims 60,50,40,30 --rank 2 --oversampling 30 --seed 13", vec![2, 2, 2, 2]),
    ] {
        let place = folder();
        synth(place.path(), data);
        let found = json(place.path(), "complete data -o run");
        assert_eq!(found["rank"], Value::from(rank), "{found}");
        assert_eq!((&found["stopped_by"], &found["data"]["kind"]), (&"tolerance".into(), &"low-rank".into()));
        assert!(1.0 - r2(&found) < 1e-9, "{found}");
    }
}

/// Noise hides nothing: what is left in the end is the noise.
#[test]
fn noise_is_no_component() {
    let place = folder();
    synth(place.path(), "--dims 100,100,100 --rank 3 --oversampling 20 --noise 0.1 --seed 14");
    let found = json(place.path(), "complete data -o run");
    assert_eq!(found["rank"], serde_json::json!([3, 3, 3]), "{found}");
    let noise = 0.1 * (number(&found, "test_mse") / (1.0 - r2(&found))).sqrt();
    assert!(number(&found, "test_mse").sqrt() < 0.5 * noise, "{found}");
}

/// Where rows explain something by themselves, nothing changes: there are sweeps from the first pass on.
#[test]
fn other_data_have_sweeps_at_once() {
    let place = folder();
    json(
        place.path(),
        "synth -o data --validation 0.1 --dims 100,90,80 --rank 2 --oversampling 20 --noise 0.3",
    );
    json(place.path(), "complete data -o run --max-iterations 3");
    let log = result(&place.path().join("run")).1;
    assert!(log.iter().all(|line| line["phase"] == "sweep" || line["phase"] == "refit"), "{log:?}");
}

/// Nor is there anything to be found where nothing is.
#[test]
fn chance_is_no_component() {
    let place = folder();
    let mut state = 1_u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut text = String::from("a,b,c,value\n");
    for _ in 0..20_000 {
        let value = (0..4).map(|_| next(1_000_000) as f64 * 1e-6 - 0.5).sum::<f64>();
        text += &format!("{},{},{},{value}\n", next(60), next(50), next(40));
    }
    std::fs::write(place.path().join("chance.csv"), text).unwrap();
    let found = json(place.path(), "complete chance.csv -o run");
    assert!(r2(&found).abs() < 0.02, "{found}");
    assert!(number(&found, "passes") < 80.0, "{found}");
}

#[test]
fn it_goes_on_to_the_same_bits_from_any_component() {
    let place = folder();
    synth(place.path(), "--dims 100,80,90 --rank 3 --oversampling 20 --noise 0.05 --seed 15");
    let with = |out: &str, more: &str| format!("complete data -o {out} {more}");
    json(place.path(), &with("whole", "--threads 1"));
    let expected = result(&place.path().join("whole"));
    let most = expected.1.len() - 1;
    for stop in (1..most).step_by(4) {
        let out = format!("part{stop}");
        json(place.path(), &with(&out, &format!("--max-iterations {stop} --threads 3")));
        json(place.path(), &format!("resume {out} --max-iterations 250 --threads 2"));
        let (model, log) = result(&place.path().join(&out));
        assert!(model == expected.0 && log.len() == expected.1.len(), "{stop}");
    }
}

/// A row number is in no two entries: nothing that is held out can be predicted with it.
#[test]
fn a_row_number_explains_nothing() {
    let place = folder();
    let row = |n: u32| {
        let (a, b) = (n * 7 % 20, n * 13 % 19);
        format!("{n},a{a},b{b},{}\n", f64::from(a) + 0.5 * f64::from(b) + f64::from(n * 31 % 17) * 0.05)
    };
    let text: String = (0..2000).map(row).collect();
    std::fs::write(place.path().join("rows.csv"), format!("id,a,b,value\n{text}")).unwrap();
    // Of three modes, the other two are left.
    json(place.path(), "complete rows.csv -o run --seed 1");
    let text = std::fs::read_to_string(place.path().join("rows.csv")).unwrap();
    let asked: Vec<String> = text.lines().take(200).map(str::to_string).collect();
    std::fs::write(place.path().join("asked.csv"), asked.join("\n")).unwrap();
    json(place.path(), "predict run asked.csv -o answers.csv");
    let answers = std::fs::read_to_string(place.path().join("answers.csv")).unwrap();
    for line in answers.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let (value, prediction): (f64, f64) = (fields[3].parse().unwrap(), fields[4].parse().unwrap());
        assert!((value - prediction).abs() < 3.0, "{line}");
    }
    // Of two there is nothing, and the mode is named.
    let said = failure(place.path(), "complete rows.csv -o two --modes id,a --value value --quiet");
    assert!(said.contains("if id numbers the rows, leave it out with --modes"), "{said}");
    assert!(!place.path().join("two/model").exists());
}
