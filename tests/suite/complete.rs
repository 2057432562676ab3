//! `tenfill complete` and `tenfill evaluate`, as a user runs them.

use crate::common::{failure, folder, json, tenfill};
use serde_json::Value;
use std::path::Path;
use tempfile::TempDir;

fn read(folder: &TempDir, file: &str) -> Vec<u8> {
    std::fs::read(folder.path().join(file)).unwrap()
}

fn log(folder: &TempDir, run: &str) -> Vec<Value> {
    let text = String::from_utf8(read(folder, &format!("{run}/log.jsonl"))).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_paper_small_case_is_completed() {
    let folder = folder();
    json(&folder, "synth -o s.tenfill --dims 200,200,200 --rank 10 --oversampling 10");
    for (init, algorithm) in [("scaled", "cg"), ("uniform", "cg"), ("scaled", "auto"), ("uniform", "auto")] {
        let run = format!("run-{init}-{algorithm}");
        let asked = format!("--init {init} --algorithm {algorithm} --tolerance 1e-12");
        let done = json(&folder, &format!("complete s.tenfill --rank 10,10,10 -o {run} {asked}"));
        assert_eq!(done["stopped_by"], "tolerance");
        let iterations = done["iterations"].as_u64().unwrap();
        assert!(iterations <= 45, "{iterations} iterations");
        assert!(done["train_mse"].as_f64().unwrap() <= 1e-12);
        assert!(done["test_mse"].as_f64().unwrap() < 1e-11);
        assert_eq!(done["validation_mse"], Value::Null);
        let lines = log(&folder, &run);
        assert_eq!(lines.len() as u64, iterations + 1);
        for (number, line) in lines.iter().enumerate() {
            assert_eq!(line["iteration"], number);
            if algorithm == "cg" {
                assert_eq!(line["passes"], 2 * number + 1, "two reads of the data per iteration");
            }
        }
        let evaluated = json(&folder, &format!("evaluate {run}"));
        assert_eq!(evaluated["mse"], done["test_mse"]);
        let train = json(&folder, &format!("evaluate {run} --on train"));
        let (last, number) = (lines.last().unwrap(), |value: &Value| value.as_f64().unwrap());
        assert!((number(&train["mse"]) / number(&done["train_mse"]) - 1.0).abs() < 1e-3);
        assert!((number(&train["mae"]) / number(&last["train_mae"]) - 1.0).abs() < 1e-3);
    }
}

#[test]
fn geomcg_completes_the_small_case_too() {
    let folder = folder();
    json(&folder, "synth -o s.tenfill --dims 200,200,200 --rank 10 --oversampling 10");
    let complete = "complete s.tenfill --rank 10 --algorithm geomcg --tolerance 1e-12";
    let done = json(&folder, &format!("{complete} -o run --threads 2"));
    assert_eq!(done["stopped_by"], "tolerance");
    assert!(done["train_mse"].as_f64().unwrap() <= 1e-12);
    assert!(done["test_mse"].as_f64().unwrap() < 1e-11);
    let lines = log(&folder, "run");
    assert_eq!(lines.len() as u64, done["iterations"].as_u64().unwrap() + 1);
    for (number, line) in lines.iter().enumerate() {
        assert_eq!(line["passes"], 2 * number + 1, "two reads of the data per iteration");
    }
    let config: Value = serde_json::from_slice(&read(&folder, "run/config.json")).unwrap();
    assert_eq!(config["solver"]["algorithm"], "geomcg");
    assert_eq!(config["geometry"], "embedded");
    for threads in [1, 3] {
        json(&folder, &format!("{complete} -o run{threads} --threads {threads}"));
        assert!(
            read(&folder, "run/model/model.bin") == read(&folder, &format!("run{threads}/model/model.bin"))
        );
    }
    // What geomCG does not have is refused, not ignored.
    for option in ["--beta hs", "--metric euclidean", "--step exact", "--bias modes", "--penalty 0.1"] {
        let told = failure(&folder, &format!("{complete} -o other {option}"));
        assert!(told.contains("--algorithm geomcg has no choice of its own here"), "{told}");
        assert!(!folder.path().join("other").exists());
    }
}

#[test]
fn tiny_noise_is_reached_with_full_precision() {
    // Case S6: the noise is 1e-12 of the entries, and so is what remains.
    let folder = folder();
    json(&folder, "synth -o s.tenfill --dims 300,300,300 --rank 5 --oversampling 10 --noise 1e-12");
    for precision in ["mixed", "f64"] {
        let done = json(
            &folder,
            &format!(
                "complete s.tenfill --rank 5 -o {precision} --precision {precision} --tolerance 1e-22 \
                 --max-iterations 150"
            ),
        );
        assert!(done["train_mse"].as_f64().unwrap() <= 1e-22, "{done}");
    }
}

#[test]
fn any_number_of_threads_and_any_memory_give_the_same_bits() {
    let folder = folder();
    for (name, dims, rank) in
        [("three", "300,200,100", "4,3,5"), ("two", "600,400", "3,3"), ("four", "40,30,20,30", "2,3,2,2")]
    {
        json(
            &folder,
            &format!(
                "synth -o {name} --dims {dims} --rank {rank} --entries 60000 --validation 0.1 --noise 0.01"
            ),
        );
        for precision in ["mixed", "f64"] {
            let run = |out: &str, more: &str| {
                let out = format!("{name}-{precision}-{out}");
                let limits = format!("--precision {precision} --max-iterations 12 {more}");
                json(&folder, &format!("complete {name} --rank {rank} -o {out} {limits}"));
                read(&folder, &format!("{out}/model/model.bin"))
            };
            let expected = run("1", "--threads 1");
            for threads in [2, 3, 5] {
                let model = run(&threads.to_string(), &format!("--threads {threads}"));
                assert!(model == expected, "{name} {precision} {threads}");
            }
            assert!(run("tight", "--memory 24M --threads 3") == expected, "{name} {precision} tight");
        }
    }
}

#[test]
fn a_raw_file_is_converted_into_the_run() {
    let folder = folder();
    let csv = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ratings.csv");
    let csv = csv.display();
    let done = json(&folder, &format!("complete {csv} --rank 4,4,4 -o run --no-refit"));
    for field in [
        "iterations",
        "passes",
        "rank",
        "train_mse",
        "validation_mse",
        "test_mse",
        "seconds",
        "cpu_seconds",
        "peak_anon_bytes",
    ] {
        assert!(!done[field].is_null(), "{field}");
    }
    assert_eq!(done["stopped_by"], "patience");
    let lines = log(&folder, "run");
    // The model is the best by validation, and not the last; its rows may be better still.
    let best = lines.iter().map(|line| line["validation_mse"].as_f64().unwrap()).fold(f64::MAX, f64::min);
    let validation = json(&folder, "evaluate run --on validation");
    assert_eq!(done["validation_mse"], validation["mse"]);
    // The log counts only entries whose ids all occur in train.
    let fallback = validation["fallback"].as_u64().unwrap();
    assert!(fallback > 0 || done["validation_mse"].as_f64().unwrap() <= best);
    assert!((done["validation_mse"].as_f64().unwrap() / best - 1.0).abs() < 0.05);
    assert!(json(&folder, "verify run")["ok"].as_bool().unwrap());
    // A file with the entries of the whole set is scored as well; strangers are counted.
    let rows = std::fs::read_to_string(csv.to_string()).unwrap();
    std::fs::write(
        folder.path().join("few.csv"),
        rows.lines().take(51).collect::<Vec<_>>().join("\n") + "\n999999,1,3,946684800\n",
    )
    .unwrap();
    let few = json(&folder, "evaluate run --on few.csv");
    let counts = |few: &Value| ["entries", "fallback", "unscored"].map(|field| few[field].as_u64().unwrap());
    assert_eq!(counts(&few), [51, 1, 0]);
    json(&folder, &format!("complete {csv} --rank 4,4,4 -o plain --bias none --penalty 0"));
    assert_eq!(counts(&json(&folder, "evaluate plain --on few.csv")), [50, 0, 1]);
}

#[test]
fn a_warm_start_goes_on_from_another_run() {
    let folder = folder();
    json(&folder, "synth -o s --dims 60,50,40 --rank 3 --oversampling 10");
    json(&folder, "complete s --rank 3 -o cold --max-iterations 15");
    let warm = json(&folder, "complete s --rank 3 -o warm --init cold --max-iterations 0");
    let last = log(&folder, "cold").pop().unwrap();
    let (ours, theirs) = (warm["train_mse"].as_f64().unwrap(), last["train_mse"].as_f64().unwrap());
    assert_eq!(ours, theirs);
}

#[test]
fn what_cannot_be_done_is_said_in_one_sentence() {
    let folder = folder();
    json(&folder, "synth -o s --dims 60,50,4 --rank 2 --entries 3000");
    for (arguments, what) in [
        (
            "complete s --rank 5,5,5 -o run",
            "rank 5 of mode3 is above its dimension 4: the largest that works is 4",
        ),
        (
            "complete s --rank 30,5,4 -o run",
            "rank 30 of mode1 is above the product of the other ranks: the largest that works is 20",
        ),
        ("complete s --rank 2,2 -o run", "--rank gives 2 ranks for 3 modes (mode1, mode2, mode3)"),
        ("complete s --rank 0 -o run", "the least is 1"),
        ("complete nothing --rank 2 -o run", "no such file"),
        ("complete s --rank 2 -o run --memory 1M", "--memory 1.0 MB is too small"),
        ("complete s --rank 2 -o run --init nowhere", "there is no such run"),
        ("complete s --rank 2 -o run --tolerance=-1", "--tolerance -1 is negative"),
        ("evaluate nowhere", "there is no such run"),
        ("resume nowhere", "there is no such run"),
        ("resume s", "s: this is a dataset, not a run: complete it first"),
    ] {
        let said = failure(&folder, arguments);
        assert!(said.contains(what), "{arguments}: {said}");
        assert!(!folder.path().join("run").exists(), "{arguments} left a run behind");
    }
    json(&folder, "complete s --rank 2 -o run --max-iterations 2");
    let said = failure(&folder, "complete s --rank 2 -o run");
    assert!(said.contains("resume") && said.contains("--force"), "{said}");
    json(&folder, "complete s --rank 2 -o run --max-iterations 3 --force");
    let said = failure(&folder, "evaluate run --on validation");
    assert!(said.contains("no validation entries"), "{said}");
}

#[test]
fn a_budget_that_is_too_small_names_the_number_that_suffices() {
    let folder = folder();
    json(&folder, "synth -o s --dims 100000,90000,10 --rank 8,8,4 --entries 200000");
    let said = failure(&folder, "complete s --rank 8,8,4 -o run --memory 40M --max-iterations 2");
    let needed: f64 = said.split("needs ").nth(1).unwrap().split(" MB").next().unwrap().parse().unwrap();
    // It rounds, so give it one more.
    json(&folder, &format!("complete s --rank 8,8,4 -o run --memory {}M --max-iterations 2", needed + 1.0));
    let told = json(&folder, "inspect s --rank 8,8,4")["least_memory_bytes"].as_f64().unwrap();
    assert!((told / (needed * 1048576.0) - 1.0).abs() < 0.02);
}

#[test]
fn constant_values_and_empty_slices_work() {
    let folder = folder();
    let rows: Vec<String> = (0..300).map(|n| format!("{} {} 2.5", n % 30 + 1, n / 30 * 2 + 1)).collect();
    std::fs::write(folder.path().join("c.tns"), rows.join("\n")).unwrap();
    let output =
        tenfill(&folder).args("complete c.tns --rank 1 -o run --split none".split(' ')).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("all train values are 2.5"), "{said}");
    assert!(said.contains("9 of 19 rows of mode2 have no train entries"), "{said}");
}

#[test]
fn a_log_that_is_damaged_is_a_problem_of_the_run() {
    let folder = folder();
    let path = folder.path();
    let rows = (0..300).map(|n| format!("{},{},{}\n", n % 20, n / 20 % 13, n % 5));
    std::fs::write(path.join("in.csv"), format!("a,b,rating\n{}", rows.collect::<String>())).unwrap();
    json(&folder, "complete in.csv -o run");
    json(&folder, "verify run");
    let (log, end) = (path.join("run/log.jsonl"), path.join("run/end.json"));
    let (whole, told) = (read(&folder, "run/log.jsonl"), read(&folder, "run/end.json"));
    let lines = whole.split_inclusive(|&byte| byte == b'\n').collect::<Vec<_>>();
    let cut = whole.len() - lines[lines.len() - 1].len();
    for (bytes, what) in [
        (whole[..whole.len() - 9].to_vec(), "the last line is cut short"),
        (whole[..cut].to_vec(), "the log ends"),
        ([b"garbage\n", &whole[..]].concat(), "line 1 is no line of a log"),
        ([&whole[..], b"\0\0\0\n"].concat(), "is no line of a log"),
        ([&whole[..], lines[0]].concat(), "is of iteration 0"),
        (Vec::new(), "the log ends without a line"),
    ] {
        std::fs::write(&log, bytes).unwrap();
        let said = failure(&folder, "verify run");
        assert!(said.contains("log.jsonl") && said.contains(what), "{said}");
    }
    std::fs::remove_file(&log).unwrap();
    assert!(failure(&folder, "verify run").contains("there is no log"));
    std::fs::write(&log, &whole).unwrap();
    std::fs::write(&end, &told[..told.len() / 2]).unwrap();
    assert!(failure(&folder, "verify run").contains("end.json"));
    // A run that has not ended has none, and may have half a line that a crash left.
    std::fs::remove_file(&end).unwrap();
    std::fs::write(&log, &whole[..whole.len() - 9]).unwrap();
    json(&folder, "verify run");
}
