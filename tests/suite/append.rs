//! New rows in a dataset that exists: append, and the entries as a table.

use crate::common::{bytes, contents, failure, folder, json, names, output, shuffled};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use tenfill_engine::shard::{Dataset, Manifest, ModeKind, Split};

const DAY: i64 = 86_400;
const COLUMNS: &str = "--modes user,film,at --value stars --bin at=7d";

/// A rating: user, film, time, stars.
type Row = (String, i64, i64, f64);

/// Ratings of `weeks` weeks, no two of one user, film and week.
fn ratings(weeks: i64) -> Vec<Row> {
    let mut rows = Vec::new();
    for user in 0..40i64 {
        for film in 0..30i64 {
            let number = user * 31 + film * 17;
            if number % 3 == 0 {
                let at = 1_000_000_000 + (number * 7919 % (weeks * 7)) * DAY + number;
                let stars = 0.5 * ((number * 5 % 10) + 1) as f64;
                rows.push((format!("u{user}"), film * 5, at, stars));
            }
        }
    }
    rows
}

fn write(path: &Path, rows: &[Row]) {
    let mut text = String::from("user,film,at,stars\n");
    rows.iter().for_each(|(user, film, at, stars)| writeln!(text, "{user},{film},{at},{stars}").unwrap());
    std::fs::write(path, text).unwrap();
}

/// The shards of a dataset with their bytes.
fn shards(dataset: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = bytes(dataset).into_iter();
    files.filter(|(name, _)| name.extension().is_some_and(|ending| ending == "shard")).collect()
}

fn manifest(dataset: &Path) -> Manifest {
    Dataset::open(dataset).unwrap().manifest().clone()
}

#[test]
fn appended_rows_give_the_shards_of_all_rows_at_once() {
    let folder = folder();
    let at = folder.path();
    let rows = shuffled(&ratings(12), 5);
    // Every id and week stands among the first.
    for (memory, cut) in [("16M", 350), ("1G", 399)] {
        write(&at.join("all.csv"), &rows);
        write(&at.join("old.csv"), &rows[..cut]);
        write(&at.join("new.csv"), &rows[cut..]);
        json(at, &format!("convert all.csv -o all --force {COLUMNS}"));
        json(at, &format!("convert old.csv -o old --force {COLUMNS}"));
        let told = json(at, &format!("append old new.csv -o new --force --memory {memory}"));
        assert_eq!(told["new_entries"], rows.len() - cut);
        assert_eq!(shards(&at.join("new")), shards(&at.join("all")));
        let (new, all) = (manifest(&at.join("new")), manifest(&at.join("all")));
        assert_eq!((new.modes, &new.split_by), (all.modes, &all.split_by));
        assert_eq!((new.values.sum, new.values.distinct), (all.values.sum, all.values.distinct));
        assert_eq!((new.appended, all.appended), (1, 0));
        assert_eq!(json(at, "verify new")["ok"], true);
    }
}

#[test]
fn new_ids_come_behind_the_others_and_bins_go_on_both_ways() {
    let folder = folder();
    let at = folder.path();
    let rows = ratings(12);
    let middle =
        |row: &&Row| row.1 >= 30 && row.2 > 1_000_000_000 + 25 * DAY && row.2 < 1_000_000_000 + 60 * DAY;
    let old: Vec<Row> = rows.iter().filter(middle).filter(|row| row.0.as_str() < "u3").cloned().collect();
    let (mut early, mut late) = (Vec::new(), Vec::new());
    for row in rows.iter().filter(|row| !old.contains(row)) {
        if row.2 % 2 == 0 { early.push(row.clone()) } else { late.push(row.clone()) }
    }
    write(&at.join("all.csv"), &rows);
    for (name, rows) in [("old", &old), ("early", &early), ("late", &late)] {
        write(&at.join(format!("{name}.csv")), rows);
    }
    json(at, &format!("convert all.csv -o all {COLUMNS}"));
    json(at, &format!("convert old.csv -o data {COLUMNS}"));
    let before = Dataset::open(at.join("data")).unwrap();
    let first: Vec<Vec<String>> = (0..2).map(|mode| ids(&before, mode)).collect();
    json(at, "append data early.csv --in-place");
    json(at, "append data late.csv --in-place");
    assert_eq!(contents(&at.join("data")), contents(&at.join("all")), "splits and values");
    let after = Dataset::open(at.join("data")).unwrap();
    for (mode, first) in first.iter().enumerate() {
        let all = ids(&after, mode);
        assert_eq!(&all[..first.len()], first, "ids keep their rows");
        assert!(all.len() > first.len());
    }
    assert_eq!(after.manifest().modes[2], Manifest::clone(&manifest(&at.join("all"))).modes[2], "the bins");
    assert_eq!(json(at, "verify data")["ok"], true);
    assert_eq!(names(at), ["all", "all.csv", "data", "early.csv", "late.csv", "old.csv"]);
    let table = |name: &str| {
        let text = output(at, &["entries", name, "--split", "all"]);
        let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
        lines[1..].sort();
        lines
    };
    assert_eq!(table("data"), table("all"));
}

fn ids(dataset: &Dataset, mode: usize) -> Vec<String> {
    let labels = dataset.labels(mode).unwrap();
    match (&dataset.manifest().modes[mode].kind, labels) {
        (ModeKind::Range { base }, _) => (0..dataset.manifest().modes[mode].dim)
            .map(|index| (base + i64::from(index)).to_string())
            .collect(),
        (_, Some(labels)) => (0..labels.len()).map(|index| labels.get(index)).collect(),
        (kind, None) => panic!("{kind:?}"),
    }
}

#[test]
fn a_plain_range_of_ids_stays_one_while_it_can() {
    let folder = folder();
    let at = folder.path();
    let table = |ids: std::ops::Range<i64>| {
        let rows = ids.flat_map(|a| (1..5).map(move |b| format!("{a},{b},{}\n", a * b))).collect::<String>();
        format!("a,b,value\n{rows}")
    };
    std::fs::write(at.join("one.csv"), table(1..9)).unwrap();
    std::fs::write(at.join("two.csv"), table(9..12)).unwrap();
    std::fs::write(at.join("far.csv"), table(20..22)).unwrap();
    std::fs::write(at.join("word.csv"), "a,b,value\nx,1,2\n").unwrap();
    std::fs::write(at.join("two.tns"), "12 1 12\n12 6 72\n").unwrap();
    json(at, "convert one.csv -o one");
    json(at, "append one two.csv -o two");
    assert_eq!(manifest(&at.join("two")).modes[0].kind, ModeKind::Range { base: 1 });
    json(at, "append two two.tns --modes 1,2 --value 3 -o tns");
    let tns = manifest(&at.join("tns"));
    assert_eq!((tns.dims(), &tns.modes[1].kind), (vec![12, 6], &ModeKind::Range { base: 1 }));
    json(at, "append two far.csv -o far");
    assert!(matches!(manifest(&at.join("far")).modes[0].kind, ModeKind::Integers { .. }));
    json(at, "append far word.csv -o word --duplicates last");
    let dataset = Dataset::open(at.join("word")).unwrap();
    assert_eq!(ids(&dataset, 0).last().unwrap(), "x");
    assert_eq!(contents(&at.join("word")).len(), (8 + 3 + 2) * 4 + 1);
    assert!(
        failure(at, "append far two.tns --modes 1,2 --value 3 -o no")
            .contains("mode a: the dataset has labels")
    );
}

/// The value and the weight of cell (a, b).
fn cell(dataset: &Path, weighted: bool) -> (f64, f64) {
    let text = output(dataset.parent().unwrap(), &["entries", dataset.to_str().unwrap(), "--split", "all"]);
    let line = text.lines().find(|line| line.starts_with("a,b,")).unwrap();
    let fields: Vec<&str> = line.split(',').collect();
    (fields[2].parse().unwrap(), if weighted { fields[3].parse().unwrap() } else { 1.0 })
}

#[test]
fn rows_on_an_old_entry_follow_the_rule_of_the_dataset() {
    let folder = folder();
    let at = folder.path();
    let old = "x,y,value,weight\na,b,1,1\na,c,2,1\nd,b,5,2\nd,c,4,1\n";
    std::fs::write(at.join("old.csv"), old).unwrap();
    std::fs::write(at.join("new.csv"), "x,y,value,weight\na,b,4,2\na,b,10,1\n").unwrap();
    let convert = "convert old.csv --modes x,y --value value --split none --force -o old";
    for (rule, value) in [("mean", 5.0), ("sum", 15.0), ("first", 1.0), ("last", 10.0)] {
        json(at, &format!("{convert} --duplicates {rule}"));
        let told = json(at, "append old new.csv -o new --force");
        assert_eq!((&told["joined"], &told["new_entries"]), (&2.into(), &0.into()));
        assert_eq!(cell(&at.join("new"), false).0, value, "{rule}");
        // Another rule may be given.
        json(at, "append old new.csv -o new --force --duplicates sum");
        assert_eq!(cell(&at.join("new"), false).0, 15.0);
    }
    json(at, &format!("{convert} --duplicates error"));
    let said = failure(at, "append old new.csv -o no");
    assert!(said.contains("a new row has an entry of the dataset (x a, y b)"), "{said}");
    // Weights add up, and the mean is exact.
    json(at, &format!("{convert} --weights weight"));
    json(at, "append old new.csv -o new --force");
    assert_eq!(cell(&at.join("new"), true), ((1.0 + 8.0 + 10.0) / 4.0, 4.0));
    // The mean of a mean: an entry counts as many rows as it was joined from.
    json(at, convert);
    json(at, "append old new.csv -o twice");
    json(at, "append twice new.csv -o new --force");
    let (value, weight) = cell(&at.join("new"), true);
    assert_eq!((value, weight), ((1.0 + 2.0 * 14.0) / 5.0, 5.0));
}

#[test]
fn old_entries_stay_in_their_splits() {
    let folder = folder();
    let at = folder.path();
    let rows = ratings(12);
    let (old, new) = rows.split_at(300);
    write(&at.join("old.csv"), old);
    write(&at.join("new.csv"), new);
    // Some of the old cells again, with another value.
    let again: Vec<Row> = old.iter().step_by(7).map(|(u, f, t, _)| (u.clone(), *f, *t, 9.0)).collect();
    write(&at.join("again.csv"), &again);
    for split in ["80/10/10", "time", "none"] {
        json(at, &format!("convert old.csv -o old --force --split {split} --duplicates last {COLUMNS}"));
        let before = contents(&at.join("old"));
        for more in ["", "--split none", "--split 10/45/45 --seed 9", "--split time"] {
            json(at, &format!("append old new.csv again.csv -o new --force {more}"));
            let after = contents(&at.join("new"));
            assert_eq!(after.len(), rows.len());
            for (key, (split, _)) in &before {
                assert_eq!(after[key].0, *split, "{key:?} {more}");
            }
            let nines = after.values().filter(|(_, bits)| f64::from_bits(*bits) == 9.0).count();
            assert_eq!(nines, again.len());
            let added = after.iter().filter(|(key, _)| !before.contains_key(*key));
            let held_out = added.filter(|(_, (split, _))| *split != Split::Train).count();
            let none = more == "--split none" || more.is_empty() && split == "none";
            assert_eq!(held_out == 0, none, "{split} {more}: {held_out}");
        }
    }
    // Splits that were files: train, unless there are files again.
    write(&at.join("test.csv"), &rows[300..320]);
    json(at, &format!("convert old.csv --test test.csv -o given {COLUMNS}"));
    write(&at.join("more.csv"), &rows[320..350]);
    write(&at.join("last.csv"), &rows[350..]);
    let told = json(at, "append given more.csv -o new --force");
    assert_eq!((&told["entries"]["train"], &told["entries"]["test"]), (&330.into(), &20.into()));
    assert!(told["notes"].to_string().contains("all new entries are for train"));
    let told = json(at, "append given more.csv --test last.csv -o new --force");
    assert_eq!(told["entries"]["test"], 20 + rows.len() - 350);
}

#[test]
fn what_does_not_go_with_the_dataset_gets_a_sentence() {
    let folder = folder();
    let at = folder.path();
    write(&at.join("old.csv"), &ratings(12));
    json(at, &format!("convert old.csv -o old {COLUMNS}"));
    let csv = |name: &str, text: &str| std::fs::write(at.join(name), text).unwrap();
    csv("other.csv", "user,film,stars\nu1,5,3\n");
    csv("ms.csv", "user,film,at,stars\nu1,5,1000000000000,3\n");
    csv("dates.csv", "name,movie,day,score\nu1,1000,2001-09-09,3\n");
    csv("empty.csv", "user,film,at,stars\n");
    for (arguments, what) in [
        ("other.csv", "there is no column 'at'"),
        (
            "ms.csv",
            "mode at: the times of the dataset are epoch seconds, those of the new rows epoch milliseconds",
        ),
        ("old.csv --bin at=1d", "--bin at: the dataset has bins of 7d there, which stay"),
        ("old.csv --bin film=5", "--bin film: the dataset has no bins there"),
        (
            "old.csv --modes user,film",
            "--modes names 2 columns, and the dataset has the modes user, film, at",
        ),
        ("old.csv --weights stars", "the entries of the dataset have no weights"),
        ("empty.csv", "a header but no rows"),
    ] {
        let said = failure(at, &format!("append old {arguments} -o new"));
        assert!(said.contains(what), "{arguments}: {said}");
    }
    assert!(failure(at, "append old old.csv -o old --force").contains("old is an input"));
    assert!(failure(at, "append old old.csv -o old.csv --force").contains("old.csv is an input"));
    assert!(failure(at, "append missing old.csv -o new").contains("there is no such dataset"));
    assert_eq!(names(at), ["dates.csv", "empty.csv", "ms.csv", "old", "old.csv", "other.csv"]);
    // Other names and a date are understood.
    let told = json(at, "append old dates.csv --modes name,movie,day --value score -o new");
    assert_eq!((&told["new_entries"], &told["new_ids"]["film"]), (&1.into(), &1.into()));
    let without = std::fs::read_to_string(at.join("old.csv")).unwrap();
    csv("plain.csv", without.split_once('\n').unwrap().1);
    let told = json(at, "append old plain.csv --modes 1,2,3 --value 4 -o same");
    assert_eq!((&told["new_entries"], &told["joined"]), (&0.into(), &ratings(12).len().into()));
}

/// What pandas makes of whole numbers in a column with holes are the same ids, known or new, and meet their entries.
#[test]
fn whole_numbers_with_a_point_are_the_ids_of_the_dataset() {
    let folder = folder();
    let at = folder.path();
    // Users are a plain range, films labels.
    let film = |n: usize| 7 * (n % 11) * (n % 11);
    let row = |n: usize, point: &str| format!("{}{point},{}{point},{}.5\n", n % 40, film(n), n % 5);
    let rows = |range: std::ops::Range<usize>, point: &str| {
        format!("user,film,stars\n{}", range.map(|n| row(n, point)).collect::<String>())
    };
    let csv = |name: &str, text: String| std::fs::write(at.join(name), text).unwrap();
    csv("old.csv", rows(0..350, ""));
    csv("plain.csv", rows(340..400, "") + "90,35,1\n");
    csv("pointed.csv", rows(340..400, ".0") + "90.0,35.0,1\n");
    json(at, "convert old.csv -o old --modes user,film --value stars");
    json(at, "append old plain.csv -o plain");
    let told = json(at, "append old pointed.csv -o pointed");
    assert_eq!(bytes(&at.join("pointed")), bytes(&at.join("plain")));
    assert_eq!(told["joined"], 10);
    assert_eq!(told["new_ids"], serde_json::json!({"user": 1, "film": 1}));
    let said = crate::common::stderr(
        &crate::common::tenfill(at).args(["append", "old", "pointed.csv", "-o", "said"]).output().unwrap(),
    );
    assert!(said.contains("film has ids like '700.0': they are taken for '700'"), "{said}");
    // Of a mode with other ids they are ids of their own.
    csv("text.csv", "user,film,stars\nx,1,2\n5,2,3\n6,1,3\n".into());
    json(at, "convert text.csv -o text --modes user,film --value stars --split none");
    csv("one.csv", "user,film,stars\n5.0,2,3\n".into());
    assert_eq!(json(at, "append text one.csv -o more")["new_ids"]["user"], 1);
}

/// Whoever reads it meanwhile is told so, and of no damage.
#[test]
fn a_dataset_that_is_replaced_while_it_is_read_is_not_called_damaged() {
    let folder = folder();
    let at = folder.path();
    let rows = ratings(12);
    write(&at.join("old.csv"), &rows[..300]);
    write(&at.join("new.csv"), &rows[300..]);
    json(at, &format!("convert old.csv -o old {COLUMNS}"));
    let opened = Dataset::open(at.join("old")).unwrap();
    json(at, "append old new.csv --in-place");
    let error = opened.shards(Split::Train).unwrap_err().to_string();
    assert!(error.contains("was replaced by another") && error.contains("begin again"), "{error}");
    // What is damaged is called so.
    let opened = Dataset::open(at.join("old")).unwrap();
    let shard = at.join("old").join(&opened.manifest().split(Split::Train).shards[0].file);
    let mut bytes = std::fs::read(&shard).unwrap();
    bytes.iter_mut().for_each(|byte| *byte ^= 1);
    std::fs::write(&shard, bytes).unwrap();
    assert!(!opened.shards(Split::Train).unwrap_err().to_string().contains("replaced"));
}

#[test]
fn entries_come_back_as_a_table_of_any_kind() {
    let folder = folder();
    let at = folder.path();
    std::fs::write(
        at.join("t.csv"),
        "split,day,value,weight\n007,2004-05-01,1.5,2\nZoë,2004-05-09,2,1\n7,2004-05-02,3,0\n",
    )
    .unwrap();
    json(at, "convert t.csv -o t --modes split,day --value value --bin day=7d --weights weight --split none");
    let expected = "split,day,value,weight\n007,2004-04-29,1.5,2\n7,2004-04-29,3,0\nZoë,2004-05-06,2,1\n";
    assert_eq!(output(at, &["entries", "t", "--split", "train"]), expected);
    assert_eq!(output(at, &["entries", "t", "--split", "train", "-o", "-"]), expected);
    let told = json(at, "entries t --split train -o train.tsv.gz");
    assert_eq!((&told["rows"], &told["split"]), (&3.into(), &"train".into()));
    // What is written can be converted again, from any kind of table.
    for kind in ["csv", "parquet", "tsv"] {
        json(at, &format!("entries t --split all -o all.{kind}"));
        let convert = "--modes split,day --value value --bin day=7d --weights weight --split none --force";
        json(at, &format!("convert all.{kind} -o again {convert}"));
        assert_eq!(shards(&at.join("again")), shards(&at.join("t")), "{kind}");
    }
    let text = std::fs::read_to_string(at.join("all.csv")).unwrap();
    assert!(text.starts_with("split,day,value,weight,split_of_entry\n") && text.contains(",train\n"));
    assert_eq!(output(at, &["entries", "t"]), "split,day,value,weight\n", "no test entries, and no error");
    assert!(failure(at, "entries t -o all.csv").contains("--force replaces it"));
    assert!(failure(at, "entries t -o t/x.csv").contains("lies inside an input"));
    assert!(failure(at, "entries t -o x.npy").contains("end it with .csv"));
    assert!(failure(at, "entries t.csv -o x.csv").contains("t.csv"));
}

/// Ratings as users give them, in a random order.
fn synthetic(at: &Path) -> Vec<String> {
    json(at, "synth --kind ratings --dims 300,120,25 --entries 20000 --test 0 -o synth.csv --force");
    let text = std::fs::read_to_string(at.join("synth.csv")).unwrap();
    shuffled(&text.lines().skip(1).map(str::to_string).collect::<Vec<_>>(), 3)
}

fn table(path: &Path, rows: &[String]) {
    std::fs::write(path, format!("userId,movieId,rating,timestamp\n{}\n", rows.join("\n"))).unwrap();
}

fn log(run: &Path, line: usize) -> serde_json::Value {
    let text = std::fs::read_to_string(run.join("log.jsonl")).unwrap();
    serde_json::from_str(text.lines().nth(line).unwrap()).unwrap()
}

#[test]
fn a_warm_start_finds_rows_by_their_ids() {
    let folder = folder();
    let at = folder.path();
    let rows = synthetic(at);
    // The same entries, with ids in another order: those of the first users come last.
    let late = |row: &&String| row.split(',').next().unwrap().parse::<u32>().unwrap() <= 50;
    let (last, first): (Vec<&String>, Vec<&String>) = rows.iter().partition(late);
    let of = |rows: Vec<&String>| rows.into_iter().cloned().collect::<Vec<_>>();
    table(&at.join("all.csv"), &rows);
    table(&at.join("first.csv"), &of(first));
    table(&at.join("last.csv"), &of(last));
    json(at, "convert all.csv -o all");
    json(at, "convert first.csv -o first");
    json(at, "append first last.csv -o mixed");
    assert_eq!(contents(&at.join("all")), contents(&at.join("mixed")));
    let plain = "--rank 2,2,2 --bias none --penalty 0 --algorithm cg";
    for options in [plain, "--rank 3 --bias modes --penalty 0.01"] {
        let done = json(at, &format!("complete all {options} -o run --max-iterations 8 --force"));
        json(at, &format!("complete mixed {options} --init run -o again --max-iterations 1 --force"));
        let (before, after) = (done["train_mse"].as_f64().unwrap(), log(&at.join("again"), 0));
        let after = after["train_mse"].as_f64().unwrap();
        assert!((after / before - 1.0).abs() < 1e-6, "{options}: {before} and {after}");
    }
    // Ids that the model has not met are no obstacle.
    let done = json(at, &format!("complete first {plain} -o run --max-iterations 8 --force"));
    json(at, &format!("complete mixed {plain} --init run -o again --max-iterations 1 --force"));
    let (before, after) = (done["train_mse"].as_f64().unwrap(), log(&at.join("again"), 0));
    assert!(after["train_mse"].as_f64().unwrap() < 1.5 * before, "{before} and {after}");
    // What does not go together is said.
    json(at, "convert all.csv -o days --modes userId,movieId,timestamp --value rating --bin timestamp=1d");
    let said = failure(at, &format!("complete days {plain} --init run -o no -q"));
    assert!(said.contains("mode timestamp: the model has bins of 7d, and the dataset of 1d"), "{said}");
    let renamed = std::fs::read_to_string(at.join("all.csv")).unwrap().replace("userId", "person");
    std::fs::write(at.join("renamed.csv"), renamed).unwrap();
    json(at, "convert renamed.csv -o renamed");
    let said = failure(at, &format!("complete renamed {plain} --init run -o no -q"));
    assert!(said.contains("the modes userId, movieId, timestamp, and the dataset person, movieId"), "{said}");
}

#[test]
fn sweeps_go_on_after_new_rows_in_half_the_passes() {
    let folder = folder();
    let at = folder.path();
    let rows = synthetic(at);
    table(&at.join("old.csv"), &rows[..18_000]);
    table(&at.join("new.csv"), &rows[18_000..]);
    json(at, "convert old.csv -o old");
    json(at, "append old new.csv -o new");
    json(at, "complete old --rank auto -o run");
    let cold = json(at, "complete new --rank auto -o cold");
    let warm = json(at, "complete new --rank auto --init run -o warm");
    let of = |told: &serde_json::Value, name: &str| told[name].as_f64().unwrap();
    assert!(2.0 * of(&warm, "passes") <= of(&cold, "passes"), "{warm} and {cold}");
    // Who has which entries is known as it was before: the same error but for that.
    assert!(of(&warm, "test_mse") < 1.01 * of(&cold, "test_mse"), "{warm} and {cold}");
    // The same bits, interrupted or not.
    json(at, "complete new --rank auto --init run -o twice --max-iterations 1");
    json(at, "resume twice --max-iterations 1000");
    assert_eq!(crate::common::result(&at.join("twice")), crate::common::result(&at.join("warm")));
}
