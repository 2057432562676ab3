//! The same rows give the same dataset, whatever their order; splits are what they are said to be.

use crate::common::{bytes, contents, folder, run, shuffled};
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, TimestampMillisecondArray};
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use tenfill_engine::shard::{Dataset, ModeKind, Split};

const DAY: i64 = 86_400;

/// Rows of text users, numbered items, seconds and values that do not add up exactly; `repeats`
/// of them fall on entries that others have.
fn rows(count: u64, repeats: u64) -> Vec<String> {
    let row = |n: u64| {
        let x = (n % (count - repeats)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let user = if x.is_multiple_of(3) { format!("user {}", x % 5003) } else { (x % 4999).to_string() };
        let time = 1_000_000_000 + (x >> 20) as i64 % 300 * DAY / 2;
        format!("{user},{},{time},{}", x % 997, 0.1 + (n % 23) as f64 / 7.0)
    };
    (0..count).map(row).collect()
}

fn write(path: &Path, rows: &[String]) {
    fs::write(path, "user,item,time,value\n".to_string() + &rows.join("\n")).unwrap();
}

const COLUMNS: [&str; 6] = ["--modes", "user,item,time", "--value", "value", "--bin", "time=7d"];

fn convert(directory: &Path, input: &str, output: &str, more: &[&str]) -> serde_json::Value {
    let arguments = ["convert", input, "-o", output].into_iter().chain(COLUMNS);
    run(directory, arguments.chain(more.iter().copied()))
}

#[test]
fn the_order_of_the_rows_does_not_matter() {
    let directory = folder();
    let path = directory.path();
    let rows = rows(150_000, 20_000);
    write(&path.join("a.csv"), &rows);
    write(&path.join("b.csv"), &shuffled(&rows, 7));
    for rule in ["mean", "sum"] {
        let options = ["--duplicates", rule, "--force"];
        let whole = convert(path, "a.csv", "a.tenfill", &options);
        // So little memory that rows are spooled, and sorted in many runs that two merges join.
        let small = ["--memory", "16M", "--threads", "3"];
        let pieces = convert(path, "b.csv", "b.tenfill", &[&options[..], &small[..]].concat());
        assert!(whole["duplicates"].as_u64() >= Some(20_000));
        assert_eq!(whole["entries"], pieces["entries"]);
        let (a, b) = (bytes(&path.join("a.tenfill")), bytes(&path.join("b.tenfill")));
        assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
        for (file, bytes) in &a {
            assert!(b[file] == *bytes, "{rule}: {} differs", file.display());
        }
    }
    // Given files, in two parts and in another order.
    let (one, two) = rows.split_at(70_000);
    write(&path.join("one.csv"), one);
    write(&path.join("two.csv"), two);
    let mut both = ["convert", "two.csv", "one.csv", "-o", "c.tenfill", "--duplicates", "sum"].to_vec();
    both.extend(COLUMNS);
    run(path, both);
    assert!(bytes(&path.join("c.tenfill")) == bytes(&path.join("a.tenfill")));
    run(path, ["verify", "c.tenfill"]);
}

#[test]
fn first_and_last_go_by_the_order_of_the_rows() {
    let directory = folder();
    let path = directory.path();
    fs::write(path.join("a.csv"), "u,i,value\n1,1,5\n1,2,9\n1,1,3\n1,1,4\n").unwrap();
    for (rule, expected) in [("first", 5.0), ("last", 4.0), ("mean", 4.0), ("sum", 12.0)] {
        let result =
            run(path, ["convert", "a.csv", "-o", "a", "--split", "none", "--force", "--duplicates", rule]);
        assert_eq!(result["duplicates"], 2);
        let value = contents(&path.join("a"))[&vec!["1".to_string(), "1".to_string()]].1;
        assert_eq!(f64::from_bits(value), expected, "{rule}");
    }
}

#[test]
fn a_split_is_disjoint_complete_and_stable() {
    let directory = folder();
    let path = directory.path();
    let rows = rows(20_000, 1);
    write(&path.join("part.csv"), &rows[..12_000]);
    // Earlier and later rows, and ids that sort before and between the others.
    let mut more = rows.clone();
    more.extend((0..500).map(|n| format!("{},-{n},{},1", n * 3, 900_000_000 + n * DAY)));
    write(&path.join("whole.csv"), &more);
    let part = convert(path, "part.csv", "part", &[]);
    convert(path, "whole.csv", "whole", &[]);
    convert(path, "part.csv", "again", &["--seed", "1"]);
    convert(path, "part.csv", "other", &["--seed", "2"]);
    convert(path, "part.csv", "none", &["--split", "none"]);
    let (part_entries, whole) = (contents(&path.join("part")), contents(&path.join("whole")));

    // `contents` refuses an entry that stands in two splits; all are there, in about the shares.
    let all: Vec<_> = contents(&path.join("none")).into_keys().collect();
    assert_eq!(part_entries.keys().cloned().collect::<Vec<_>>(), all);
    let total = all.len() as f64;
    for (split, share) in [("train", 0.8), ("validation", 0.1), ("test", 0.1)] {
        let entries = part["entries"][split].as_f64().unwrap();
        assert!((entries / total - share).abs() < 0.01, "{entries} of {total} in {split}");
    }
    for (entry, (split, _)) in &part_entries {
        assert_eq!(whole[entry].0, *split, "{entry:?} changed its split when rows were added");
    }
    assert!(bytes(&path.join("part")) == bytes(&path.join("again")));
    let other = contents(&path.join("other"));
    let moved = part_entries.iter().filter(|(entry, (split, _))| other[*entry].0 != *split).count();
    assert!(moved as f64 > 0.2 * total, "only {moved} entries are elsewhere with another seed");
}

#[test]
fn a_split_by_time_is_exact() {
    let directory = folder();
    let path = directory.path();
    // Milliseconds, in a column that is no mode.
    let row = |n: i64| format!("{},{},{},{n}", n % 37, n / 37, 1_600_000_000_000 + n * 777);
    write(&path.join("a.csv"), &shuffled(&(0..1000).map(row).collect::<Vec<_>>(), 3));
    let columns = ["--modes", "user,item", "--value", "value", "--split", "time"];
    run(path, ["convert", "a.csv", "-o", "a"].into_iter().chain(columns));
    for (_, (split, value)) in contents(&path.join("a")) {
        let expected = match f64::from_bits(value) as u32 {
            0..800 => Split::Train,
            800..900 => Split::Validation,
            _ => Split::Test,
        };
        assert_eq!(split, expected);
    }
}

#[test]
fn given_files_are_the_split_and_unseen_ids_are_counted() {
    let directory = folder();
    let path = directory.path();
    fs::write(path.join("train.csv"), "user,item,rating\na,1,5\nb,2,4\na,2,3\n").unwrap();
    fs::write(path.join("val.csv"), "user,item,rating\na,1,1\nc,2,2\n").unwrap();
    fs::write(path.join("test.csv"), "user,item,rating\nd,7,1\nc,8,2\n").unwrap();
    let result =
        run(path, ["convert", "train.csv", "--validation", "val.csv", "--test", "test.csv", "-o", "out"]);
    assert_eq!(result["entries"], serde_json::json!({ "train": 3, "validation": 2, "test": 2 }));
    assert_eq!(result["overlap"], 1, "(a, 1) is in train and in validation");
    let notes = result["notes"].to_string();
    assert!(
        notes.contains("2 of 4 ids of user occur only in the given validation and test files"),
        "{notes}"
    );
    assert!(notes.contains("2 of 4 ids of item occur only"), "{notes}");
    let dataset = Dataset::open(path.join("out")).unwrap();
    let statistics = dataset.manifest().modes[0].statistics;
    assert_eq!((statistics.in_train, statistics.only_held_out), (2, 2));
}

#[test]
fn files_beside_one_another_have_one_plan() {
    let directory = folder();
    let path = directory.path();
    run(
        path,
        [
            "synth",
            "-o",
            "x.tns",
            "--dims",
            "30,20,10",
            "--rank",
            "2",
            "--entries",
            "500",
            "--validation",
            "0.1",
        ],
    );
    let files = ["convert", "x.tns", "--validation", "x.validation.tns", "--test", "x.test.tns", "-o", "x"];
    let result = run(path, files.into_iter().chain(["--dims", "30,20,10"]));
    assert_eq!(result["entries"], serde_json::json!({ "train": 500, "validation": 50, "test": 50 }));
    // Several .tns files, and parts of which only the first has a header.
    run(path, ["convert", "x.tns", "x.test.tns", "-o", "y"]);
    fs::write(path.join("p1.csv"), "user,item,rating\n1,2,3\n").unwrap();
    fs::write(path.join("p2.csv"), "3,4,5\n").unwrap();
    let result = run(path, ["convert", "p1.csv", "p2.csv", "-o", "z", "--split", "none"]);
    assert_eq!((&result["rows"], &result["modes"]), (&2.into(), &serde_json::json!(["user", "item"])));
}

#[test]
fn times_of_any_kind_fall_into_the_same_bins() {
    let directory = folder();
    let path = directory.path();
    let seconds: Vec<i64> = (0..50).map(|n| -3 * DAY + n * DAY + n * 1000).collect();
    let text = |time: &dyn Fn(i64) -> String| {
        let line = |(n, &at): (usize, &i64)| format!("{n},{},{}\n", time(at), n % 5);
        "id,time,value\n".to_string() + &seconds.iter().enumerate().map(line).collect::<String>()
    };
    // Milliseconds are told from seconds by their size, so those times lie in our century.
    let later = 1_500_000_000;
    fs::write(path.join("seconds.csv"), text(&|at| (at + later).to_string())).unwrap();
    fs::write(path.join("millis.csv"), text(&|at| ((at + later) * 1000).to_string())).unwrap();
    fs::write(path.join("dates.csv"), text(&|at| tenfill_engine::times::format_time((at + later) as f64)))
        .unwrap();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..50))),
        (
            "time",
            Arc::new(TimestampMillisecondArray::from_iter_values(
                seconds.iter().map(|at| (at + later) * 1000),
            )),
        ),
        ("value", Arc::new(Float64Array::from_iter_values((0..50).map(|n| f64::from(n % 5))))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let file = File::create(path.join("times.parquet")).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    fs::write(path.join("negative.csv"), text(&|at| at.to_string())).unwrap();

    let out = |input: &str| {
        let output = input.replace('.', "-");
        let modes = ["--modes", "id,time", "--bin", "time=7d", "--split", "none"];
        run(path, ["convert", input, "-o", &output].into_iter().chain(modes));
        path.join(output)
    };
    let expected = contents(&out("seconds.csv"));
    assert_eq!(expected.len(), 50);
    for input in ["millis.csv", "dates.csv", "times.parquet"] {
        assert_eq!(contents(&out(input)), expected, "{input}");
    }
    // Bins begin at multiples of their width, before 1970 too.
    let negative = Dataset::open(out("negative.csv")).unwrap();
    let ModeKind::Bins(bins) = &negative.manifest().modes[1].kind else { panic!("no bins") };
    assert_eq!((bins.origin, negative.manifest().modes[1].dim), (-7.0 * DAY as f64, 8));

    // Without bins every moment is an id of its own, to the millisecond.
    let moments = ["convert", "times.parquet", "-o", "moments", "--modes", "id,time", "--split", "none"];
    assert_eq!(run(path, moments)["dims"], serde_json::json!([50, 50]));
}
