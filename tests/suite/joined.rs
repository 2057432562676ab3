//! Rows that were joined by their mean count as many.

use crate::common::{bytes, contents, folder, json, output, run, stderr, tenfill};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use tenfill_engine::shard::{Dataset, Split};

/// Readings of sensors, of which some hours were read several times.
fn readings(repeats: usize, shift: u64) -> Vec<(u64, u64, f64)> {
    let mut rows = Vec::new();
    for n in 0..3000u64 {
        let (sensor, hour) = (n % 60, n / 60);
        let times = if n % 11 == shift { repeats } else { 1 };
        for again in 0..times as u64 {
            rows.push((
                sensor,
                hour,
                (sensor % 7 + hour % 5) as f64 + 0.25 * (again as f64) + n as f64 / 4096.0,
            ));
        }
    }
    rows
}

fn write(path: &Path, rows: &[(u64, u64, f64)]) {
    let mut text = String::from("sensor,hour,reading\n");
    rows.iter().for_each(|(sensor, hour, value)| writeln!(text, "{sensor},{hour},{value}").unwrap());
    fs::write(path, text).unwrap();
}

/// The same with each entry once, its mean and how many rows it is of.
fn write_joined(path: &Path, rows: &[(u64, u64, f64)]) {
    let mut all: BTreeMap<(u64, u64), Vec<f64>> = BTreeMap::new();
    rows.iter().for_each(|&(sensor, hour, value)| all.entry((sensor, hour)).or_default().push(value));
    let mut text = String::from("sensor,hour,reading,rows\n");
    for ((sensor, hour), mut values) in all {
        values.sort_by(f64::total_cmp);
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        writeln!(text, "{sensor},{hour},{mean},{}", values.len()).unwrap();
    }
    fs::write(path, text).unwrap();
}

fn shards(dataset: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = bytes(dataset).into_iter();
    files.filter(|(name, _)| name.extension().is_some_and(|ending| ending == "shard")).collect()
}

/// Entries with their weights.
fn weighted(dataset: &Path) -> Vec<(Vec<u32>, u64, f64)> {
    let dataset = Dataset::open(dataset).unwrap();
    let mut all = Vec::new();
    for split in Split::ALL {
        for shard in dataset.shards(split).unwrap() {
            let mut buffer = Vec::new();
            for number in 0..shard.blocks().len() {
                let bytes = shard.read_block(number, &mut buffer).unwrap();
                shard.view(number, bytes).unwrap().for_each_weighted(|at, value, weight| {
                    all.push((at.to_vec(), value.to_bits(), weight));
                });
            }
        }
    }
    all
}

const COLUMNS: &str = "--modes sensor,hour --value reading";

#[test]
fn a_mean_counts_as_many_rows_as_it_is_of() {
    let folder = folder();
    let at = folder.path();
    let rows = readings(4, 3);
    write(&at.join("rows.csv"), &rows);
    write_joined(&at.join("joined.csv"), &rows);
    let told = json(at, &format!("convert rows.csv -o rows {COLUMNS}"));
    json(at, &format!("convert joined.csv -o joined {COLUMNS} --weights rows"));
    assert_eq!(told["duplicates"], (rows.len() - 3000) as u64);
    assert!(told["notes"].to_string().contains("counts as many rows"), "{told}");
    assert_eq!((&told["weights"]["counts"], &told["weights"]["train"]["max"]), (&true.into(), &4.0.into()));
    // The same entries with the same weights as if somebody had joined them.
    assert_eq!(weighted(&at.join("rows")), weighted(&at.join("joined")));
    assert_eq!(json(at, "verify rows")["ok"], true);
    // And the same errors, which are weighted.
    let same = "--rank 2 --bias none --penalty 0 --precision f64 --max-iterations 6";
    for data in ["rows", "joined"] {
        json(at, &format!("complete {data} -o run-{data} {same}"));
    }
    for split in ["train", "test"] {
        let scored = ["rows", "joined"].map(|data| json(at, &format!("evaluate run-{data} --on {split}")));
        assert_eq!(scored[0]["weighted"], true);
        let mse = scored.each_ref().map(|found| found["mse"].as_f64().unwrap());
        assert!((mse[0] - mse[1]).abs() <= 1e-6 * mse[1], "{split}: {mse:?}");
    }
    // Nothing is said of weights that nobody gave.
    assert!(json(at, "predict run-rows rows.csv -o p.csv")["weights"].is_null());
    let entries = output(at, &["entries", "rows", "--split", "all"]);
    assert!(entries.starts_with("sensor,hour,reading,rows,split\n"), "{}", &entries[..40]);
    // Other rules, and rows without doubles, have no weights.
    write(&at.join("once.csv"), &readings(1, 3));
    for options in ["once.csv", "rows.csv --duplicates sum", "rows.csv --duplicates last"] {
        assert!(json(at, &format!("convert {options} -o other --force {COLUMNS}"))["weights"].is_null());
    }
}

#[test]
fn appended_rows_join_means_by_how_many_they_are_of() {
    let folder = folder();
    let at = folder.path();
    let rows = readings(4, 3);
    // Half of the rows of each entry that has several come later, and those of others that had one.
    let (old, mut new): (Vec<_>, Vec<_>) = rows.iter().enumerate().partition(|(n, _)| n % 2 == 0);
    new.retain(|(n, _)| n % 3 != 0);
    let (old, new): (Vec<_>, Vec<_>) =
        (old.into_iter().map(|(_, row)| *row).collect(), new.into_iter().map(|(_, row)| *row).collect());
    let old = [readings(1, 3), old].concat();
    write(&at.join("old.csv"), &old);
    write(&at.join("new.csv"), &new);
    write(&at.join("all.csv"), &[old, new].concat());
    json(at, &format!("convert old.csv -o old {COLUMNS}"));
    json(at, &format!("convert all.csv -o all {COLUMNS}"));
    let told = json(at, "append old new.csv -o appended");
    assert!(!told["notes"].to_string().contains("counts as one row"), "{told}");
    let (ours, theirs) = (weighted(&at.join("appended")), weighted(&at.join("all")));
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!((&ours.0, ours.2), (&theirs.0, theirs.2));
        let (x, y) = (f64::from_bits(ours.1), f64::from_bits(theirs.1));
        assert!((x - y).abs() < 1e-12 * y.abs().max(1.0), "{x} {y}");
    }
    assert_eq!(json(at, "verify appended")["ok"], true);
    // Where nothing is joined, the dataset keeps its counts to the byte.
    fs::write(at.join("far.csv"), "sensor,hour,reading\n61,51,3\n").unwrap();
    json(at, "append all far.csv -o more --split none");
    assert_eq!(
        weighted(&at.join("more")).iter().map(|entry| entry.2).sum::<f64>() as usize,
        weighted(&at.join("all")).iter().map(|entry| entry.2).sum::<f64>() as usize + 1
    );
}

#[test]
fn shards_have_weights_only_from_the_first_double_on() {
    let folder = folder();
    let at = folder.path();
    let once = readings(1, 0);
    let mut twice = once.clone();
    twice.push(*twice.last().unwrap());
    write(&at.join("once.csv"), &once);
    write(&at.join("twice.csv"), &twice);
    json(at, &format!("convert once.csv -o once --split none {COLUMNS}"));
    json(at, &format!("convert twice.csv -o twice --split none {COLUMNS}"));
    assert_eq!(contents(&at.join("once")), contents(&at.join("twice")));
    let twice = Dataset::open(at.join("twice")).unwrap();
    let kinds: Vec<bool> = twice.shards(Split::Train).unwrap().iter().map(|shard| shard.weighted()).collect();
    assert_eq!(kinds, [false, true]);
    // A program that adds rows without doubles writes what it always wrote: version 1.
    let version = |name: &str| fs::read(at.join(name).join("train/00000.shard")).unwrap()[8];
    assert_eq!((version("once"), version("twice")), (1, 1));
    assert_eq!(shards(&at.join("once")).len(), 1);
    // It can be cut, fitted and resumed like any other.
    let told =
        run(at, ["complete", "twice", "-o", "run", "--rank", "2", "--max-iterations", "4", "--threads", "2"]);
    assert!(told["train_mse"].as_f64().unwrap().is_finite());
}

#[test]
fn errors_of_means_say_that_they_are() {
    let folder = folder();
    let folder = folder.path();
    let said = |line: &str| {
        let output = tenfill(folder).args(line.split(' ')).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output)
    };
    let what = "entries are means of 24 rows on average: errors and sd are of such means";
    write(&folder.join("one.csv"), &readings(1, 0));
    let many: Vec<(u64, u64, f64)> = readings(1, 0).into_iter().flat_map(|row| [row; 24]).collect();
    write(&folder.join("many.csv"), &many);
    assert!(said("complete many.csv -o run --rank 2 --max-iterations 3").contains(what));
    assert!(said("evaluate run").contains(what));
    // With a hole, to be filled.
    let text = fs::read_to_string(folder.join("many.csv")).unwrap() + "3,4,\n";
    fs::write(folder.join("hole.csv"), text).unwrap();
    assert!(said("fill hole.csv -o filled.csv --rank 2 --max-iterations 3").contains(what));
    // Rows of their own, and sums, are nothing to speak of.
    assert!(!said("complete one.csv -o alone --rank 2 --max-iterations 3").contains("entries are means"));
    let sums = said("complete many.csv -o sums --duplicates sum --rank 2 --max-iterations 3");
    assert!(!sums.contains("entries are means"), "{sums}");
}

#[test]
fn entries_say_how_they_are_converted_back() {
    let folder = folder();
    let at = folder.path();
    let day = |hour: u64| format!("2024-01-{:02}", 1 + hour % 28);
    let rows = readings(4, 3);
    let text = rows.iter().map(|(sensor, hour, value)| format!("{sensor},{},{value}\n", day(*hour)));
    fs::write(at.join("in.csv"), format!("my sensor,day,reading\n{}", text.collect::<String>())).unwrap();
    let line = ["convert", "in.csv", "-o", "data", "--modes", "my sensor,day", "--value", "reading"];
    run(at, line.into_iter().chain(["--bin", "day=7d"]));
    let told = tenfill(at).args(["entries", "data", "--split", "all", "-o", "back.csv"]).output().unwrap();
    let said = stderr(&told);
    let options = "--modes 'my sensor,day' --value reading --weights rows --bin day=7d";
    assert!(said.contains(&format!("to convert it back: {options}")), "{said}");
    let options = run(at, ["entries", "data", "--split", "all", "-o", "back.csv", "--force"]);
    let options = options["options"].as_str().unwrap().replace("'my sensor,day'", "my\u{1f}sensor,day");
    let words = options.split(' ').map(|word| word.replace('\u{1f}', " ")).collect::<Vec<_>>();
    let line = ["convert", "back.csv", "-o", "again"].into_iter().chain(words.iter().map(String::as_str));
    let again = run(at, line);
    assert_eq!(again["modes"].as_array().unwrap().len(), 2, "{again}");
    assert!(
        weighted(&at.join("data")) == weighted(&at.join("again")),
        "the same entries, weights and splits"
    );
}
