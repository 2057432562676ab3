//! Absent cells as zeros: clicks, counts and triples.

use crate::common::{bytes, contents, failure, failure_of, folder, json, output, run, shuffled};
use std::fs::write;
use std::path::Path;
use tenfill_engine::shard::Split;

/// Pages of a user's own kind are clicked: users and pages are of two kinds.
fn clicks() -> Vec<String> {
    let mut rows = Vec::new();
    for user in 0..40u64 {
        for page in 0..60u64 {
            let hash = (user * 60 + page + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
            if user % 2 == page % 2 && hash % 5 < 3 {
                rows.push(format!("u{user},p{page}"));
            }
        }
    }
    rows
}

fn table(folder: &Path, name: &str, header: &str, rows: &[String]) {
    write(folder.join(name), format!("{header}\n{}\n", rows.join("\n"))).unwrap();
}

#[test]
fn absent_cells_are_drawn_as_zeros_whatever_the_order_of_rows() {
    let folder = folder();
    let folder = folder.path();
    let rows = clicks();
    table(folder, "clicks.csv", "user,page", &rows);
    table(folder, "other.csv", "user,page", &shuffled(&rows, 7));
    let line = "--modes user,page --absent 1.0 --memory 64M";
    let told = json(folder, &format!("convert clicks.csv -o a {line}"));
    json(folder, &format!("convert other.csv -o b {line} --threads 1"));
    assert_eq!(bytes(&folder.join("a")), bytes(&folder.join("b")), "any order, any number of threads");
    json(folder, &format!("convert clicks.csv -o c {line} --seed 2"));
    assert_ne!(bytes(&folder.join("a")), bytes(&folder.join("c")));

    let entries = contents(&folder.join("a"));
    let zeros: Vec<_> = entries.iter().filter(|(_, (_, value))| f64::from_bits(*value) == 0.0).collect();
    let ones = entries.len() - zeros.len();
    assert_eq!(ones, rows.len(), "every row is an entry still");
    assert_eq!(told["absent"], zeros.len());
    let share = zeros.len() as f64 / ones as f64;
    assert!((share - 1.0).abs() < 0.1, "about as many zeros as ones: {share}");
    for (ids, _) in &zeros {
        assert!(!rows.contains(&ids.join(",")), "{ids:?} was observed");
    }
    // Both kinds fall into all splits alike.
    for kind in [true, false] {
        let of = |split: Split| {
            let is = |(_, (s, value)): &(&Vec<String>, &(Split, u64))| *s == split && (*value == 0) == kind;
            entries.iter().filter(is).count() as f64
        };
        let all = of(Split::Train) + of(Split::Validation) + of(Split::Test);
        assert!((of(Split::Train) / all - 0.8).abs() < 0.07 && of(Split::Test) / all > 0.05);
    }
}

#[test]
fn clicks_and_triples_can_be_completed_and_recommended() {
    let folder = folder();
    let folder = folder.path();
    let rows = clicks();
    table(folder, "clicks.csv", "user,page", &rows);
    let told = json(folder, "complete clicks.csv -o run --modes user,page --absent 1.0 --rank 3");
    assert!(told["errors"]["test"]["r2"].as_f64().unwrap() > 0.2, "{told}");
    write(folder.join("ask.csv"), "user,page\nu2,p4\nu2,p5\n").unwrap();
    let said = output(folder, &["predict", "run", "ask.csv", "--quiet"]);
    let values: Vec<f64> =
        said.lines().skip(1).map(|line| line.split(',').nth(2).unwrap().parse().unwrap()).collect();
    assert!(values[0] > values[1] + 0.2, "{values:?}");
    // What was drawn was not observed: it may be recommended.
    let said =
        output(folder, &["recommend", "run", "--given", "user=u2", "--rank-mode", "page", "--top", "30"]);
    let clicked = rows.iter().filter(|row| row.starts_with("u2,")).count();
    let told = run(folder, ["recommend", "run", "--given", "user=u2", "--rank-mode", "page", "--top", "60"]);
    assert_eq!(told["rows"], 60 - clicked, "{said}");
    // A value that is there is taken.
    let counts: Vec<String> =
        rows.iter().enumerate().map(|(n, row)| format!("{row},{}", 1 + n % 4)).collect();
    table(folder, "counts.csv", "user,page,value", &counts);
    json(folder, "convert counts.csv -o counts --absent 0.5");
    let values = contents(&folder.join("counts")).into_values().map(|(_, value)| f64::from_bits(value));
    assert_eq!(
        values.filter(|value| *value > 1.0).count(),
        counts.iter().filter(|row| !row.ends_with(",1")).count()
    );
}

#[test]
fn tables_without_a_value_say_what_helps() {
    let folder = folder();
    let folder = folder.path();
    let triples =
        ["Paris,capital of,France", "Rome,capital of,Italy", "Oslo,capital of,Norway"].map(String::from);
    table(folder, "triples.csv", "head,relation,tail", &triples);
    let said = failure(folder, "convert triples.csv -o out --header");
    assert!(said.contains("no column is left that holds numbers") && said.contains("--absent 1.0"), "{said}");
    let said = failure(folder, "convert triples.csv -o out --no-header");
    assert!(said.contains("no column holds numbers") && said.contains("--absent 1.0"), "{said}");
    let told = json(folder, "convert triples.csv -o out --modes head,relation,tail --absent 1 --split none");
    assert_eq!((&told["rows"], &told["dims"]), (&3.into(), &serde_json::json!([3, 1, 3])));
    // Ones alone teach nothing.
    let ones: Vec<String> = clicks().iter().map(|row| format!("{row},1")).collect();
    table(folder, "ones.csv", "user,page,value", &ones);
    let said = failure(folder, "complete ones.csv -o run --rank 2 --quiet");
    assert!(
        said.starts_with("tenfill: ones.csv: all train values are 1"),
        "the file, not where it lies: {said}"
    );
    assert!(said.contains("--absent 1.0") && said.lines().count() == 1, "{said}");
    for (more, needle) in [
        (&["--absent", "9"][..], "--absent 9 asks for"),
        (&["--absent", "1", "--test", "ones.csv"], "--absent goes with a --split by shares"),
    ] {
        let said = failure_of(folder, &[&["convert", "ones.csv", "-o", "other"], more].concat());
        assert!(said.contains(needle), "{said}");
    }
}

#[test]
fn bins_that_tell_nothing_apart_are_refused() {
    let folder = folder();
    let folder = folder.path();
    let rows: Vec<String> = (0..50).map(|n| format!("u{},{},{}", n % 5, n, n % 7)).collect();
    table(folder, "in.csv", "user,timestamp,value", &rows);
    let said = failure(folder, "convert in.csv -o out");
    let needle = "--bin puts all rows of timestamp into one index: the column goes from 1970-01-01";
    assert!(said.contains(needle) && said.contains("taken as epoch seconds"), "{said}");
    let said = failure(folder, "convert in.csv -o out --modes user,timestamp --bin timestamp=1000");
    assert!(said.contains("the column goes from 0 to 49; choose"), "{said}");
    json(folder, "convert in.csv -o out --modes user,timestamp --bin timestamp=10");
}

#[test]
fn appended_clicks_take_the_place_of_cells_that_were_drawn() {
    let folder = folder();
    let folder = folder.path();
    let rows = shuffled(&clicks(), 3);
    let (old, new) = rows.split_at(rows.len() * 3 / 4);
    // One page and one user are new.
    let new: Vec<String> = new.iter().cloned().chain(["u2,p99".into(), "u77,p4".into()]).collect();
    table(folder, "old.csv", "user,page", old);
    table(folder, "new.csv", "user,page", &new);
    let told = json(folder, "convert old.csv -o old --modes user,page --absent 1.0");
    let drawn = told["absent"].as_u64().unwrap();
    let told = json(folder, "append old new.csv -o all");
    let before = contents(&folder.join("old"));
    let after = contents(&folder.join("all"));
    let observed: Vec<&String> = old.iter().chain(&new).collect();
    let is_zero = |value: u64| f64::from_bits(value) == 0.0;
    let mut replaced = 0;
    for (ids, (split, value)) in &before {
        let now = after[ids];
        if observed.contains(&&ids.join(",")) {
            assert!(!is_zero(now.1), "{ids:?} was observed");
            replaced += u64::from(is_zero(*value));
        }
        if is_zero(*value) == is_zero(now.1) {
            assert_eq!(now, (*split, *value), "{ids:?} stays");
        }
    }
    assert!(replaced > 20, "{replaced}");
    let zeros = after.values().filter(|(_, value)| is_zero(*value)).count() as u64;
    assert_eq!(after.len() as u64 - zeros, observed.len() as u64, "every row is an entry");
    assert_eq!(zeros, drawn - replaced + told["absent"].as_u64().unwrap());
    // New entries have as many cells beside them as the old ones.
    let share = told["absent"].as_f64().unwrap() / new.len() as f64;
    assert!((share - 1.0).abs() < 0.25, "{share}");
    let said = told["notes"].to_string();
    assert!(said.contains(&format!("{replaced} cells that were drawn as zeros have entries now")), "{said}");
    // Once more, where the rule is the dataset's still; and what was drawn is no entry for recommend.
    json(folder, "append all old.csv -o again");
    let again = contents(&folder.join("again"));
    assert!(observed.iter().all(|row| {
        let ids: Vec<String> = row.split(',').map(String::from).collect();
        !is_zero(again[&ids].1)
    }));
    json(folder, "verify again");

    // Zeros that were observed cannot be told from those that were drawn.
    let counts: Vec<String> = old.iter().enumerate().map(|(n, row)| format!("{row},{}", n % 3)).collect();
    table(folder, "counts.csv", "user,page,value", &counts);
    let more: Vec<String> = new.iter().map(|row| format!("{row},5")).collect();
    table(folder, "more.csv", "user,page,value", &more);
    json(folder, "convert counts.csv -o counts --absent 1.0");
    let said = failure(folder, "append counts more.csv -o out");
    assert!(
        said.contains("new rows fall on zeros of the dataset") && said.contains("convert all rows together"),
        "{said}"
    );
    // Nor may cells be drawn where none were.
    json(folder, "convert counts.csv -o plain");
    let said = failure(folder, "append plain more.csv -o out --absent 1.0");
    assert!(said.contains("was converted without --absent"), "{said}");
    assert!(!folder.join("out").exists());
}

#[test]
fn files_of_rows_without_a_value_are_evaluated_and_folded_in() {
    let folder = folder();
    let folder = folder.path();
    table(folder, "clicks.csv", "user,page", &clicks());
    json(folder, "complete clicks.csv -o run --modes user,page --absent 1.0 --rank auto");
    let new: Vec<String> = (0..20).map(|n| format!("u0,p{}", 2 * n)).collect();
    table(folder, "new.csv", "user,page", &new);
    let found = json(folder, "evaluate run --on new.csv");
    assert_eq!(found["entries"], 20, "{found}");
    // The same as with the value said.
    let told: Vec<String> = new.iter().map(|row| format!("{row},1")).collect();
    table(folder, "told.csv", "user,page,value", &told);
    assert_eq!(json(folder, "evaluate run --on told.csv")["mse"], found["mse"]);
    let new: Vec<String> = (0..20).map(|n| format!("u900,p{}", 2 * n)).collect();
    table(folder, "stranger.csv", "user,page", &new);
    let folded = json(folder, "fold-in run stranger.csv --mode user -o more");
    assert_eq!(folded["entries"], 20, "{folded}");
    // Of a model of values, a file without them is none.
    let rows: Vec<String> = clicks().iter().enumerate().map(|(n, row)| format!("{row},{}", n % 4)).collect();
    table(folder, "values.csv", "user,page,value", &rows);
    json(folder, "complete values.csv -o plain --rank 1 --bias modes --penalty 0.01");
    assert!(failure(folder, "evaluate plain --on stranger.csv").contains("there is no column 'value'"));
}
