//! When a run stops, what it says of its errors, and whether it has learned anything.

use super::{PLAIN, SMALL, json, low_rank, noise, output, refusal, rows, write};
use crate::common::{folder, stderr};
use serde_json::Value;

fn train_mse(done: &Value) -> f64 {
    done["train_mse"].as_f64().unwrap()
}

#[test]
fn tiny_values_are_not_taken_for_a_perfect_fit() {
    let folder = folder();
    let folder = folder.path();
    write(&folder.join("x.csv"), &low_rank(), 1e-6, 1.0);
    let line = format!("complete x.csv -o run --modes a,b,c --value value --rank 2 {PLAIN}");
    let said = output(folder, &line);
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(!said.contains("RMSE 0.000000") && said.contains("e-1"), "digits that mean something: {said}");
    assert!(said.contains("R^2 1.00000"), "{said}");
    let said = String::from_utf8(output(folder, "evaluate run").stdout).unwrap();
    assert!(
        said.contains("RMSE") && !said.contains("RMSE 0.000000") && said.contains("R^2  1.00000"),
        "{said}"
    );
    let done = json(folder, &format!("{line} --force"));
    assert_eq!((&done["stopped_by"], &done["learned"]), (&"tolerance".into(), &true.into()));
    assert!(done["iterations"].as_u64().unwrap() > 5, "{done}");
    let deviation = done["errors"]["train"]["standard_deviation"].as_f64().unwrap();
    assert!(train_mse(&done).sqrt() < 1e-5 * deviation && deviation > 1e-7, "{done}");
}

#[test]
fn a_tolerance_that_is_given_takes_the_place_of_the_usual_one() {
    let folder = folder();
    let folder = folder.path();
    write(&folder.join("x.csv"), &low_rank(), 1000.0, 1.0);
    json(folder, "convert x.csv -o data --modes a,b,c --value value --split none");
    let complete = |options: &str| {
        let line = format!("complete data -o run --force --rank 2 --max-iterations 200 {PLAIN} {options}");
        json(folder, line.trim_end())
    };
    let usual = complete("");
    let variance = usual["errors"]["train"]["standard_deviation"].as_f64().unwrap().powi(2);
    let within = |done: &Value, limit: f64| {
        assert_eq!(done["stopped_by"], "tolerance", "{done}");
        let mse = train_mse(done);
        assert!(mse <= limit && mse > 1e-4 * limit, "{mse:e} and {limit:e}");
    };
    within(&usual, 1e-12 * variance);
    within(&complete("--relative-tolerance 1e-4"), 1e-4 * variance);
    within(&complete("--tolerance 1e-9"), 1e-9);
    // With both, the one that comes first.
    within(&complete("--tolerance 1e-9 --relative-tolerance 1e-3"), 1e-3 * variance);
    within(&complete("--tolerance 10 --relative-tolerance 1e-12"), 10.0);
    for off in ["--tolerance 0", "--relative-tolerance 0", "--tolerance 0 --relative-tolerance 0"] {
        assert_ne!(complete(off)["stopped_by"], "tolerance", "{off}");
    }
    // And a resumed run goes on to another one.
    let first = complete("--relative-tolerance 1e-3");
    let second = json(folder, "resume run --relative-tolerance 1e-6");
    within(&second, 1e-6 * variance);
    within(&json(folder, "resume run --tolerance 1e-8"), 1e-8);
    assert!(second["iterations"].as_u64() > first["iterations"].as_u64());
    for line in ["resume run --relative-tolerance=-1", "resume run --tolerance NaN"] {
        assert!(refusal(folder, line).contains("is negative or no number"), "{line}");
    }
}

#[test]
fn a_run_from_before_there_were_relative_tolerances_keeps_its_own() {
    let folder = folder();
    let folder = folder.path();
    write(&folder.join("x.csv"), &low_rank(), 1000.0, 1.0);
    let line = format!("complete x.csv -o run --modes a,b,c --value value --split none --rank 2 {PLAIN}");
    let begun = json(folder, &format!("{line} --tolerance 1e-3 --max-iterations 3"));
    assert_eq!(begun["stopped_by"], "max-iterations");
    let path = folder.join("run/config.json");
    let mut config: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert!(config.as_object_mut().unwrap().remove("relative_tolerance").is_some());
    std::fs::write(&path, config.to_string()).unwrap();
    let done = json(folder, "resume run --max-iterations 250");
    assert_eq!(done["stopped_by"], "tolerance");
    assert!(train_mse(&done) <= 1e-3 && train_mse(&done) > 1e-8, "{done}");
}

#[test]
fn a_model_that_learned_nothing_says_so() {
    let folder = folder();
    let folder = folder.path();
    write(&folder.join("noise.csv"), &noise(), 1.0, 1.0);
    let line = format!("complete noise.csv -o run --modes a,b,c --value value --rank 3 {PLAIN}");
    let done = json(folder, &line);
    assert_eq!(done["learned"], false, "{done}");
    assert!(done["errors"]["test"]["r2"].as_f64().unwrap() < 0.0, "{done}");
    let told = stderr(&output(folder, &format!("{line} --force")));
    assert!(told.contains("the model is no better than the mean of the train values"), "{told}");
    assert_eq!(json(folder, "resume run")["learned"], false);
    write(&folder.join("good.csv"), &low_rank(), 1.0, 1.0);
    let line = format!("complete good.csv -o run --force --modes a,b,c --value value --rank 2 {PLAIN}");
    let told = stderr(&output(folder, &line));
    assert!(!told.contains("no better than the mean"), "{told}");
}

#[test]
fn values_that_are_all_equal_end_and_teach_nothing() {
    let folder = folder();
    let folder = folder.path();
    for value in [3.7, 0.0, 1e-20] {
        write(&folder.join("x.csv"), &rows(SMALL, 2000, 3, |_, _| value), 1.0, 1.0);
        for options in [PLAIN, ""] {
            let line =
                format!("complete x.csv -o run --force --modes a,b,c --value value --rank 2 {options}");
            let done = json(folder, line.trim_end());
            assert_eq!(done["learned"], false, "{value}: {done}");
            assert!(done["errors"]["test"]["r2"].is_null(), "{value}: {done}");
            assert!(
                train_mse(&done).sqrt() <= 1e-4 * if value == 0.0 { 1.0 } else { value },
                "{value}: {done}"
            );
            assert_ne!(done["stopped_by"], "max-iterations", "{value}: {done}");
        }
    }
}
