//! How many components sweeps end with: as many as validation says that pay.

use crate::common::{folder, json, result, stderr, tenfill};
use crate::sweeps::random;
use std::fmt::Write;
use std::path::Path;

/// Readings of two modes with three components, few entries per row of the second.
fn readings(path: &Path, stations: usize, stamps: usize) {
    let mut next = random(19);
    let mut normal = || (0..12).map(|_| next()).sum::<f64>() - 6.0;
    let mut draw = |count: usize| (0..count * 3).map(|_| normal()).collect::<Vec<f64>>();
    let (p, q) = (draw(stations), draw(stamps));
    let (mut chosen, mut noise) = (random(23), random(29));
    let mut text = String::from("station,stamp,value\n");
    for s in 0..stations {
        for t in 0..stamps {
            if chosen() < 0.4 {
                let e = (0..12).map(|_| noise()).sum::<f64>() - 6.0;
                let y: f64 = (0..3).map(|c| p[s * 3 + c] * q[t * 3 + c]).sum();
                writeln!(text, "s{s},{t},{}", 10.0 + y + 0.3 * e).unwrap();
            }
        }
    }
    std::fs::write(path, text).unwrap();
}

/// Values of 240 x 200 cells with 22 components and noise of 0.5, six of ten cells: a, b, value.
fn many_components() -> Vec<(usize, usize, f64)> {
    let mut next = random(31);
    let mut normal = || (0..12).map(|_| next()).sum::<f64>() - 6.0;
    let (rows, columns, rank) = (240, 200, 22);
    let mut draw = |count: usize| (0..count * rank).map(|_| normal()).collect::<Vec<f64>>();
    let (p, q) = (draw(rows), draw(columns));
    let (mut chosen, mut noise) = (random(37), random(41));
    let mut all = Vec::new();
    for a in 0..rows {
        for b in 0..columns {
            if chosen() < 0.6 {
                let e = (0..12).map(|_| noise()).sum::<f64>() - 6.0;
                let y: f64 = (0..rank).map(|c| p[a * rank + c] * q[b * rank + c]).sum();
                all.push((a, b, y + 0.5 * e));
            }
        }
    }
    all
}

/// Days on which three components are more or less strong: to the pair of sensor and hour alone two of them tell all.
#[test]
fn components_are_not_dropped_before_a_third_mode_has_its_turn() {
    let folder = folder();
    let mut next = random(40);
    let mut normal = || (0..12).map(|_| next()).sum::<f64>() - 6.0;
    let (sensors, days, hours) = (40, 60, 24);
    let of_sensors: Vec<f64> = (0..sensors * 3).map(|_| normal()).collect();
    let of_days: Vec<f64> = (0..days * 3).map(|_| 1.0 + 0.3 * normal()).collect();
    let (mut chosen, mut noise) = (random(44), random(50));
    let mut text = String::from("sensor,day,hour,value\n");
    for (s, d, h) in (0..sensors).flat_map(|s| (0..days * hours).map(move |t| (s, t / hours, t % hours))) {
        if chosen() < 0.25 {
            let angle = h as f64 / 24.0 * std::f64::consts::TAU;
            let clock = [1.0, angle.sin(), angle.cos()];
            let y: f64 = (0..3).map(|c| of_sensors[s * 3 + c] * of_days[d * 3 + c] * clock[c]).sum();
            writeln!(text, "{s},{d},{h},{}", y + 0.01 * (noise() - 0.5)).unwrap();
        }
    }
    std::fs::write(folder.path().join("x.csv"), text).unwrap();
    json(&folder, "convert x.csv -o x --modes sensor,day,hour --value value --split 90/10/0");
    let done = json(&folder, "complete x -o run --rank 4");
    assert!(done["errors"]["validation"]["r2"].as_f64().unwrap() > 0.99, "{done}");
}

/// As many components as a mode has ids meet any train entries: that says nothing of others.
#[test]
fn a_rank_that_meets_any_entries_is_not_taken_for_exact() {
    let folder = folder();
    readings(&folder.path().join("x.csv"), 12, 600);
    json(&folder, "convert x.csv -o x --modes station,stamp --value value");
    let error = |rank: &str| {
        let done = json(&folder, &format!("complete x -o run{rank} --rank {rank},{rank} --no-refit"));
        done["test_mse"].as_f64().unwrap()
    };
    let (low, high) = (error("4"), error("12"));
    assert!(high < 1.02 * low, "{high} {low}");
}

#[test]
fn more_components_are_found_where_the_least_of_them_tell_something() {
    let folder = folder();
    let mut text = String::from("a,b,value\n");
    many_components().iter().for_each(|(a, b, value)| writeln!(text, "{a},{b},{value}").unwrap());
    std::fs::write(folder.path().join("x.csv"), text).unwrap();
    json(&folder, "convert x.csv -o x --modes a,b --value value");
    let output = tenfill(&folder).args(["complete", "x", "-o", "run", "--json"]).output().unwrap();
    let said = stderr(&output);
    assert!(said.contains("15 components: the least 3 tell") && said.contains("so 31 are tried"), "{said}");
    let done = json(&folder, "resume run");
    let number = |field: &str| done[field].as_f64().unwrap();
    // Noise has a variance of 0.25, the values one of 22; fifteen components leave 5.9.
    assert!(number("test_mse") < 0.5 && number("passes") <= 35.0, "{done}");
    assert_eq!(done["rank"], serde_json::json!([31, 31]));
    // Interrupted before, within and after the trial the bits are the same, with any number of threads.
    json(&folder, "complete x -o parts --threads 1 --max-iterations 9");
    for (iteration, threads) in [(11, 2), (13, 3), (20, 1), (250, 2)] {
        json(&folder, &format!("resume parts --max-iterations {iteration} --threads {threads}"));
    }
    assert!(result(&folder.path().join("parts")) == result(&folder.path().join("run")));
    // With little memory there are fewer.
    let little = json(&folder, "complete x -o little --memory 16M --threads 1");
    assert_eq!(little["rank"], serde_json::json!([15, 15]), "{little}");
}

#[test]
fn rows_with_few_entries_get_few_components() {
    let folder = folder();
    readings(&folder.path().join("x.csv"), 40, 1500);
    json(&folder, "convert x.csv -o x --modes station,stamp --value value");
    let done = json(&folder, "complete x -o run --rank auto --threads 2");
    let ranks: Vec<u64> =
        done["rank"].as_array().unwrap().iter().map(|rank| rank.as_u64().unwrap()).collect();
    assert!(ranks.iter().all(|rank| (3..=6).contains(rank)), "{done}");
    // Three numbers and a bias from 13 entries, and noise of 0.3.
    assert!(done["errors"]["test"]["rmse"].as_f64().unwrap() < 0.37, "{done}");
    assert!(done["passes"].as_u64().unwrap() <= 30, "{done}");
    // A rank that is given is the most, and no reason for a worse model.
    let given = json(&folder, "complete x -o given --rank 30,30");
    assert_eq!((&given["rank"], &given["test_mse"]), (&done["rank"], &done["test_mse"]), "{given}");
    // What is dropped is dropped after an interruption, too, by any number of threads.
    json(&folder, "complete x -o parts --rank auto --threads 1 --max-iterations 0");
    for iteration in [3, 5, 6, 7, 8, 9, 250] {
        json(&folder, &format!("resume parts --max-iterations {iteration} --threads {}", iteration % 3 + 1));
    }
    assert!(result(&folder.path().join("parts")) == result(&folder.path().join("run")));
}

#[test]
fn a_rank_that_is_given_is_the_most_and_validation_tells_how_much_of_it_pays() {
    let folder = folder();
    // Whole numbers, so that the plain method is not tried first.
    let mut text = String::from("a,b,value\n");
    many_components().iter().for_each(|(a, b, value)| writeln!(text, "{a},{b},{}", value.round()).unwrap());
    std::fs::write(folder.path().join("x.csv"), text).unwrap();
    json(&folder, "convert x.csv -o x --modes a,b --value value");
    let mut errors = Vec::new();
    for (given, found) in [(12, 12), (15, 15), (18, 18), (25, 25), (40, 31), (63, 31)] {
        let done = json(&folder, &format!("complete x -o run --force --rank {given}"));
        assert_eq!(done["rank"], serde_json::json!([found, found]), "{given}: {done}");
        errors.push(done["test_mse"].as_f64().unwrap());
    }
    assert!(errors.windows(2).all(|pair| pair[1] < 1.001 * pair[0]), "{errors:?}");
    // Noise of 0.25, rounding of 0.08.
    assert!(errors[3] < 0.7, "{errors:?}");
}

#[test]
fn validation_tells_of_components_where_a_mode_without_any_has_new_ids() {
    let folder = folder();
    // A tenth is of another batch, which no train entry is of.
    let mut tables = [String::from("a,b,batch,value\n"), String::from("a,b,batch,value\n")];
    for (number, (a, b, value)) in many_components().into_iter().enumerate() {
        let batch = usize::from(number % 10 == 3);
        writeln!(tables[batch], "{a},{b},b{batch},{value}").unwrap();
    }
    std::fs::write(folder.path().join("train.csv"), &tables[0]).unwrap();
    std::fs::write(folder.path().join("late.csv"), &tables[1]).unwrap();
    json(&folder, "convert train.csv --validation late.csv -o x --modes a,b,batch --value value");
    let done = json(&folder, "complete x -o run --rank auto");
    // Fifteen components leave 5.8.
    assert!(done["validation_mse"].as_f64().unwrap() < 0.5, "{done}");
}
