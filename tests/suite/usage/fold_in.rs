//! `tenfill fold-in`: rows of new ids from their entries alone.

use super::sample::{self, failure, number, output, rows};
use std::path::Path;
use tenfill_engine::Model;

/// Rows of the sample whose user is, or is not, above a bound; every fifth of the former held back.
fn divided(order: usize) -> (String, String, String) {
    let text = sample::csv(order, 2400, 5);
    let header = text.lines().next().unwrap().to_string() + "\n";
    let (mut old, mut new, mut held) = (header.clone(), header.clone(), header);
    for (number, line) in text.lines().skip(1).enumerate() {
        let user: usize = line.split(',').next().unwrap().parse().unwrap();
        let file = match user {
            user if user <= 30 => &mut old,
            _ if number % 5 == 0 => &mut held,
            _ => &mut new,
        };
        *file += &format!("{line}\n");
    }
    (old, new, held)
}

fn prepare(folder: &Path, extra: &str) {
    let (old, new, held) = divided(3);
    for (name, text) in [("old.csv", &old), ("new.csv", &new), ("held.csv", &held)] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let all: String = old + &new.lines().skip(1).map(|line| format!("{line}\n")).collect::<String>();
    std::fs::write(folder.join("all.csv"), all).unwrap();
    for (data, run) in [("old.csv", "run"), ("all.csv", "with")] {
        let line = format!(
            "complete {data} -o {run} --modes user,film,week --value stars --bin week=7d --rank 2,2,2 --max-iterations 60 {extra}"
        );
        crate::common::run(folder, line.split_whitespace());
    }
}

fn rmse(folder: &Path, run: &str, on: &str) -> f64 {
    let found = crate::common::run(folder, ["evaluate", run, "--on", on]);
    assert_eq!(found["unscored"].as_u64(), Some(0), "{found}");
    found["rmse"].as_f64().unwrap()
}

#[test]
fn new_users_are_as_good_as_trained_ones() {
    for extra in [
        "--bias none --penalty 0",
        "--bias modes --penalty 0.01",
        "--bias modes --penalty 0.01 --bias-time user:week",
    ] {
        let folder = crate::common::folder();
        let folder = folder.path();
        prepare(folder, extra);
        let found = crate::common::run(folder, ["fold-in", "run", "new.csv", "-o", "run2"]);
        assert_eq!((found["new_ids"].as_u64(), found["updated_ids"].as_u64()), (Some(10), Some(0)));
        let (folded, trained) = (rmse(folder, "run2", "held.csv"), rmse(folder, "with", "held.csv"));
        assert!(folded < trained * 1.1, "{extra}: {folded} beside {trained}");
        // Old entries have the values that they had.
        assert_eq!(
            rows(&output(folder, &["predict", "run", "old.csv"])),
            rows(&output(folder, &["predict", "run2", "old.csv"]))
        );
    }
}

#[test]
fn the_result_is_a_run_that_everything_takes() {
    let folder = crate::common::folder();
    let folder = folder.path();
    prepare(folder, "--bias modes --penalty 0.01 --bias-time user:week");
    output(folder, &["fold-in", "run", "new.csv", "-o", "run2"]);
    assert!(crate::common::run(folder, ["verify", "run2"])["ok"].as_bool().unwrap());
    crate::common::run(folder, ["inspect", "run2"]);
    let (one, two) =
        (crate::common::run(folder, ["evaluate", "run"]), crate::common::run(folder, ["evaluate", "run2"]));
    assert_eq!(one["mse"], two["mse"], "the test entries of the first run");
    let told = rows(&output(
        folder,
        &["recommend", "run2", "--given", "user=35", "--rank-mode", "film", "--top", "25"],
    ));
    let new = std::fs::read_to_string(folder.join("new.csv")).unwrap();
    for row in &told {
        let film = sample::quoted(&row["film"]);
        let seen = new.lines().any(|line| line.starts_with(&format!("35,{film},")));
        assert!(!seen, "film {film} was seen by user 35");
    }
    output(folder, &["recommend", "run2", "--all", "--rank-mode", "film", "-o", "best.csv"]);
    output(folder, &["export", "run2", "-o", "exported"]);
    output(folder, &["report", "run2", "-o", "report.html"]);
    let said = failure(folder, &["resume", "run2"]);
    assert!(said.contains("rows were folded into this run"), "{said}");
    // Once more, on top of it, with ids that are text, and any number of threads.
    std::fs::write(folder.join("more.csv"), new.replace("\n3", "\nanna-").replace("\n40,", "\nbert,"))
        .unwrap();
    for threads in ["1", "3"] {
        let run = format!("run3-{threads}");
        crate::common::run(folder, ["fold-in", "run2", "more.csv", "-o", &run, "--threads", threads]);
    }
    let model =
        |threads: &str| std::fs::read(folder.join(format!("run3-{threads}/model/model.bin"))).unwrap();
    assert!(model("1") == model("3"));
    std::fs::write(folder.join("q.csv"), "user,film,week\nbert,\"film \"\"3\"\", part 0\",2004-01-02\n")
        .unwrap();
    let told = rows(&output(folder, &["predict", "run3-1", "q.csv", "--strict"]));
    assert_eq!(told[0]["known"], "true");
    // Entries of both additions are seen.
    let seen =
        crate::common::run(folder, ["recommend", "run3-1", "--given", "user=35", "--rank-mode", "film"]);
    assert!(seen["left_out"].as_u64().unwrap() > 20, "{seen}");
}

#[test]
fn exact_data_gives_exact_rows() {
    let folder = crate::common::folder();
    let folder = folder.path();
    // Low rank without noise: the row of a new id is determined by its entries.
    crate::common::run(
        folder,
        "synth -o s.csv --dims 60,40,30 --rank 2 --oversampling 12 --seed 4".split(' '),
    );
    let text = std::fs::read_to_string(folder.join("s.csv")).unwrap();
    let is_new = |line: &str| line.split(',').next().is_some_and(|i| i.parse::<u32>().is_ok_and(|i| i > 50));
    let part = |new: bool| -> String {
        let rows = text.lines().skip(1).filter(|line| is_new(line) == new);
        rows.fold("i,j,k,value\n".to_string(), |text, line| text + line + "\n")
    };
    std::fs::write(folder.join("old.csv"), part(false)).unwrap();
    std::fs::write(folder.join("new.csv"), part(true)).unwrap();
    let line = "complete old.csv -o run --modes i,j,k --value value --rank 2 --split none --tolerance 1e-20 --max-iterations 200";
    crate::common::run(folder, line.split(' '));
    crate::common::run(folder, ["fold-in", "run", "new.csv", "-o", "run2"]);
    let told = rows(&output(folder, &["predict", "run2", "s.test.csv"]));
    let squares = told.iter().filter(|row| row["known"] == "true" && number(row, "i") > 50.0);
    let errors: Vec<f64> =
        squares.map(|row| (number(row, "prediction") - number(row, "value")).abs()).collect();
    assert!(errors.len() > 5);
    assert!(errors.iter().all(|error| *error < 1e-6), "{errors:?}");
}

#[test]
fn known_ids_are_found_anew() {
    let folder = crate::common::folder();
    let folder = folder.path();
    prepare(folder, "--bias modes --penalty 0.01");
    // All entries of user 5 again: the same entries, so about the same row, but not those of others.
    let old = std::fs::read_to_string(folder.join("old.csv")).unwrap();
    let own: String = old
        .lines()
        .enumerate()
        .filter(|(n, line)| *n == 0 || line.starts_with("5,"))
        .map(|(_, line)| format!("{line}\n"))
        .collect();
    std::fs::write(folder.join("again.csv"), &own).unwrap();
    let said = failure(folder, &["fold-in", "run", "again.csv", "-o", "run2"]);
    assert!(said.contains("say with --mode whose rows are to be found anew (user, film, week)"), "{said}");
    let found = crate::common::run(folder, ["fold-in", "run", "again.csv", "-o", "run2", "--mode", "user"]);
    assert_eq!((found["new_ids"].as_u64(), found["updated_ids"].as_u64()), (Some(0), Some(1)));
    let (before, after) =
        (Model::read(&folder.join("run")).unwrap(), Model::read(&folder.join("run2")).unwrap());
    for user in 0..30 {
        let same = before.point.factors[0].row(user) == after.point.factors[0].row(user);
        assert_eq!(same, user != 4, "user {}", user + 1);
    }
    // New entries replace old ones at the same place: with opposite values the row follows them.
    let high: String = own.lines().enumerate().fold(String::new(), |text, (n, line)| match n {
        0 => text + line + "\n",
        _ => text + line.rsplit_once(',').unwrap().0 + ",9\n",
    });
    std::fs::write(folder.join("high.csv"), high).unwrap();
    crate::common::run(folder, ["fold-in", "run", "high.csv", "-o", "run3", "--mode", "user"]);
    let mean = |run: &str| {
        let told = rows(&output(folder, &["predict", run, "again.csv"]));
        told.iter().map(|row| number(row, "prediction")).sum::<f64>() / told.len() as f64
    };
    assert!(mean("run3") > mean("run") + 1.0, "{} {}", mean("run3"), mean("run"));
}

#[test]
fn what_cannot_be_folded_in_is_said_in_one_sentence() {
    let folder = crate::common::folder();
    let folder = folder.path();
    prepare(folder, "--bias none --penalty 0");
    let header = "user,film,week,stars\n";
    std::fs::write(folder.join("both.csv"), format!("{header}99,new film,2004-01-02,3\n")).unwrap();
    std::fs::write(folder.join("nan.csv"), format!("{header}99,x,2004-01-02,much\n")).unwrap();
    std::fs::create_dir(folder.join("mine")).unwrap();
    std::fs::write(folder.join("mine/letter"), "dear").unwrap();
    for (arguments, what) in [
        (
            &["both.csv", "-o", "run2", "--mode", "users"][..],
            "there is no mode 'users': the modes are user, film, week",
        ),
        (
            &["both.csv", "-o", "run2", "--mode", "user"],
            "no entry is left, since the model knows no other id",
        ),
        (&["both.csv", "-o", "run2", "--mode", "week"], "week has bins"),
        (&["nan.csv", "-o", "run2"], "nan.csv:2: stars is 'much'"),
        (&["new.csv", "-o", "run"], "run is an input (run): give the output another name"),
        (&["new.csv", "-o", "mine", "--force"], "mine: this is no run of tenfill"),
        (&["-", "-o", "run2"], "<stdin>: the file is empty"),
    ] {
        let all: Vec<&str> = ["fold-in", "run"].iter().chain(arguments).copied().collect();
        let said = failure(folder, &all);
        assert!(said.contains(what), "{arguments:?}: {said}");
        assert!(!folder.join("run2").exists(), "{arguments:?} left something behind");
    }
    assert!(folder.join("mine/letter").exists());
}

#[test]
fn new_ids_of_several_modes_are_found_in_turn() {
    let folder = crate::common::folder();
    let folder = folder.path();
    crate::common::run(
        folder,
        "synth -o s.csv --dims 60,40,30 --rank 2 --oversampling 20 --seed 4".split(' '),
    );
    let text = std::fs::read_to_string(folder.join("s.csv")).unwrap();
    let ids = |line: &str| line.split(',').map(|id| id.parse::<f64>().unwrap_or(0.0)).collect::<Vec<f64>>();
    // Some rows have a new i, some a new j, and some both.
    let is_new = |line: &str| ids(line)[0] > 54.0 || ids(line)[1] > 36.0;
    let part = |new: bool| -> String {
        let rows = text.lines().skip(1).filter(|line| is_new(line) == new);
        rows.fold("i,j,k,value\n".to_string(), |text, line| text + line + "\n")
    };
    std::fs::write(folder.join("old.csv"), part(false)).unwrap();
    std::fs::write(folder.join("new.csv"), part(true)).unwrap();
    let line = "complete old.csv -o run --modes i,j,k --value value --rank 2 --split none --tolerance 1e-20 --max-iterations 200";
    crate::common::run(folder, line.split(' '));
    for threads in ["1", "2"] {
        let run = format!("run2-{threads}");
        let told =
            crate::common::run(folder, ["fold-in", "run", "new.csv", "-o", &run, "--threads", threads]);
        assert_eq!((told["mode"].as_str(), told["new_ids"].as_u64()), (Some("i,j"), Some(10)), "{told}");
        assert_eq!(told["modes"][1]["new_ids"], 4);
        assert_eq!(told["left_out"], 0);
    }
    let model =
        |threads: &str| std::fs::read(folder.join(format!("run2-{threads}/model/model.bin"))).unwrap();
    assert!(model("1") == model("2"));
    assert!(crate::common::run(folder, ["verify", "run2-1"])["ok"].as_bool().unwrap());
    let told = rows(&output(folder, &["predict", "run2-1", "s.test.csv"]));
    let new =
        |row: &&std::collections::HashMap<String, String>| number(row, "i") > 54.0 || number(row, "j") > 36.0;
    let known: Vec<_> = told.iter().filter(new).collect();
    assert!(known.len() > 20 && known.iter().all(|row| row["known"] == "true"));
    let squares = |of: &dyn Fn(&std::collections::HashMap<String, String>) -> f64| -> f64 {
        known.iter().map(|row| of(row).powi(2)).sum()
    };
    let error = squares(&|row| number(row, "prediction") - number(row, "value"));
    let size = squares(&|row| number(row, "value"));
    assert!(error < 1e-6 * size, "{error} of {size}");
}
