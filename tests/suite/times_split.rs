//! Splits by time, with time as a mode: bins that train lacks are scored by the nearest that it has.

use crate::common::{failure, folder, json, output, stderr, tenfill};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use tenfill_engine::shard::Dataset;

const DAY: i64 = 86_400;
const BEGIN: i64 = 1_600_000_000 / (7 * DAY) * (7 * DAY);

/// Loads of machines by week: a level per machine and job, and a trend over the weeks.
fn loads(weeks: i64) -> String {
    let mut text = String::from("machine,job,at,load\n");
    for machine in 0..30i64 {
        for job in 0..12i64 {
            for week in 0..weeks {
                let hash = (machine * 7919 + job * 104_729 + week * 1_299_709) % 97;
                if hash % 3 == 0 {
                    let noise = (hash % 10) as f64 * 0.02;
                    let load = (machine % 7) as f64 + 0.5 * (job % 5) as f64 + 0.05 * week as f64 + noise;
                    let at = BEGIN + week * 7 * DAY + hash * 600;
                    writeln!(text, "m{machine},{job},{at},{load}").unwrap();
                }
            }
        }
    }
    text
}

/// No part of what a command prints is NaN or infinite.
fn sane(text: &str) -> &str {
    let lower = text.to_lowercase();
    for word in ["nan", "inf,", "inf\n", "inf ", "infinity"] {
        assert!(!lower.contains(word), "{word} in {text}");
    }
    text
}

fn told(folder: &Path, arguments: &str) -> String {
    let done = tenfill(folder).args(arguments.split_whitespace()).output().unwrap();
    assert!(done.status.success(), "{}", stderr(&done));
    sane(&String::from_utf8(done.stdout).unwrap()).to_string()
}

#[test]
fn later_weeks_are_scored_by_the_last_of_train() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("in.csv"), loads(40)).unwrap();
    let columns = "--modes machine,job,at --value load --bin at=7d --split time";
    let converted = json(at, &format!("convert in.csv -o data {columns}"));
    let notes = converted["notes"].to_string();
    assert!(notes.contains("bins of at occur only in validation and test: the nearest bin"), "{notes}");
    let dataset = Dataset::open(at.join("data")).unwrap();
    let gaps = &dataset.manifest().modes[2].gaps;
    assert_eq!(gaps.len(), 1);
    assert_eq!(gaps[0][1] + 1, dataset.manifest().modes[2].dim);
    let last = gaps[0][0] - 1;
    for (run, options) in [
        ("sweeps", ""),
        ("biases", "--bias modes --penalty 0.01 --rank 1"),
        ("plain", "--bias none --penalty 0 --rank 2"),
    ] {
        let outcome = json(at, &format!("complete data -o {run} {options}"));
        let scored = json(at, &format!("evaluate {run}"));
        // All entries have a value: none is left to biases alone, or left out.
        let entries = converted["entries"]["test"].as_u64().unwrap();
        assert_eq!(
            (scored["entries"].as_u64(), scored["fallback"].as_u64()),
            (Some(entries), Some(0)),
            "{run}"
        );
        assert_eq!(scored["unscored"], 0);
        let r2 = scored["r2"].as_f64().unwrap();
        assert!(r2 > 0.8 || run == "plain" && r2.is_finite(), "{run}: {r2}");
        assert!((outcome["test_mse"].as_f64().unwrap() - scored["mse"].as_f64().unwrap()).abs() < 1e-12);
        // What is said of such a week is what is said of the last one of train, known and not NaN.
        let ask = |week: i64| format!("m3,4,{}\n", BEGIN + week * 7 * DAY + 60);
        let rows = format!("machine,job,at\n{}{}{}", ask(last.into()), ask(i64::from(last) + 1), ask(4000));
        fs::write(at.join("ask.csv"), rows).unwrap();
        let answers = told(at, &format!("predict {run} ask.csv"));
        let answers: Vec<Vec<&str>> = answers.lines().skip(1).map(|line| line.split(',').collect()).collect();
        assert!(answers.iter().all(|row| row[3] == answers[0][3] && row[4] == "true"), "{answers:?}");
        let counted = json(at, &format!("predict {run} ask.csv -o answers.csv --force"));
        assert_eq!((&counted["outside_bins"], &counted["unknown"]), (&1.into(), &0.into()));
        // The errors that a file gives are those of the split.
        fs::write(at.join("test.csv"), output(at, &["entries", "data"])).unwrap();
        let file = json(at, &format!("evaluate {run} --on test.csv"));
        let (a, b) = (file["mse"].as_f64().unwrap(), scored["mse"].as_f64().unwrap());
        assert!((a - b).abs() < 1e-9 * b, "{run}: {a} {b}");
        for command in ["evaluate", "inspect", "evaluate --on validation", "evaluate --on train"] {
            let (name, rest) = command.split_once(' ').unwrap_or((command, ""));
            told(at, &format!("{name} {run} {rest}"));
        }
        output(at, &["report", run, "-o", "page.html", "--force"]);
        assert!(!fs::read_to_string(at.join("page.html")).unwrap().contains("NaN"));
    }
}

#[test]
fn the_same_bits_by_several_processes_and_threads() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("in.csv"), loads(20)).unwrap();
    json(at, "convert in.csv -o data --modes machine,job,at --value load --bin at=7d --split time");
    let mut found = Vec::new();
    for threads in ["1", "3"] {
        json(at, &format!("complete data -o run{threads} --threads {threads} --max-iterations 8"));
        found.push(fs::read(at.join(format!("run{threads}/model/model.bin"))).unwrap());
    }
    assert!(found[0] == found[1]);
}

#[test]
fn a_time_that_is_no_mode_splits_as_well() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("in.csv"), loads(30)).unwrap();
    let told =
        json(at, "convert in.csv -o data --modes machine,job --value load --split time --time-column at");
    assert!(told["entries"]["test"].as_u64().unwrap() > 0);
    json(at, "complete data -o run");
    let scored = json(at, "evaluate run");
    assert!(scored["mse"].as_f64().unwrap().is_finite());
}

#[test]
fn splits_without_entries_are_said_and_print_no_nan() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("in.csv"), loads(6)).unwrap();
    told(at, "convert in.csv -o data --modes machine,job --value load --split none");
    told(at, "complete data -o run --rank 2 --max-iterations 4");
    told(at, "inspect data");
    told(at, "inspect run");
    assert!(failure(at, "evaluate run").contains("the dataset has no test entries"));
    output(at, &["report", "run", "-o", "page.html"]);
    assert!(!fs::read_to_string(at.join("page.html")).unwrap().contains("NaN"));
    // One value, so that nothing varies.
    fs::write(at.join("same.csv"), "a,b,v\n1,1,3\n1,2,3\n2,1,3\n2,2,3\n3,1,3\n3,2,3\n").unwrap();
    told(at, "complete same.csv -o same --modes a,b --value v --rank 1 --split 60/20/20 --max-iterations 3");
    told(at, "inspect same");
}

#[test]
fn a_large_mean_does_not_hide_the_spread() {
    let folder = folder();
    let at = folder.path();
    let mut text = String::from("a,b,v\n");
    for n in 0..4000u32 {
        let x = 1e9 + f64::from(n % 50 % 3) + f64::from(n / 50 % 2) - 1.5;
        writeln!(text, "{},{},{x}", n % 50, n / 50).unwrap();
    }
    fs::write(at.join("in.csv"), text).unwrap();
    json(at, "convert in.csv -o data --modes a,b --value v");
    let dataset = Dataset::open(at.join("data")).unwrap();
    let mut values = Vec::new();
    dataset.for_each(tenfill_engine::shard::Split::Train, |_, value| values.push(value - 1e9)).unwrap();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance = values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / values.len() as f64;
    let ours = dataset.manifest().variance();
    assert!((ours - variance).abs() < 1e-6 * variance, "{ours} {variance}");
    assert_eq!(json(at, "verify data")["ok"], true);
    json(at, "complete data -o run");
    let r2 = json(at, "evaluate run --on train")["r2"].as_f64().unwrap();
    assert!(r2 > 0.9, "{r2}");
}

#[test]
fn components_stay_where_no_validation_entry_tells_of_them() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("in.csv"), loads(40)).unwrap();
    // Times as they are, not in bins: those of validation do not occur in train.
    json(at, "convert in.csv -o data --modes machine,job,at --value load --split time --time-column at");
    let done = tenfill(at).args(["complete", "data", "-o", "run"]).output().unwrap();
    let said = stderr(&done);
    assert!(done.status.success(), "{said}");
    assert!(!sane(&said).contains("better without the others"), "{said}");
    sane(&String::from_utf8(done.stdout).unwrap());
}
