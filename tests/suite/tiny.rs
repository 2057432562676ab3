//! Tables of a few values are filled, and it is said what could not be done.

use crate::common::{failure, folder, json, run, stderr, tenfill};
use std::fs;
use std::path::Path;

/// The value that was filled in on a line, from 1.
fn filled(folder: &Path, line: usize) -> f64 {
    let text = fs::read_to_string(folder.join("o.csv")).unwrap();
    let row: Vec<&str> = text.lines().nth(line).unwrap().split(',').collect();
    assert_eq!(row[3], "true", "{text}");
    row[2].parse().unwrap()
}

#[test]
fn a_few_values_are_enough_to_fill_a_hole() {
    let folder = folder();
    let folder = folder.path();
    for unit in [1, 1000] {
        let row = |(id, value): (&str, u32)| {
            let value = if value == 0 { String::new() } else { (value * unit).to_string() };
            format!("{id},{value}\n")
        };
        let rows = [("a,1", 1), ("a,2", 0), ("b,1", 2), ("b,2", 3), ("c,1", 4), ("c,2", 6)].map(row).concat();
        fs::write(folder.join("t.csv"), format!("station,time,temp\n{rows}")).unwrap();
        for split in ["", " --split 90/5/5"] {
            let line = format!("fill t.csv -o o.csv --force{split}");
            let output = tenfill(folder).args(line.split(' ')).output().unwrap();
            assert!(output.status.success(), "{}", stderr(&output));
            assert!(
                stderr(&output).contains("biases alone are fitted, and no error is told"),
                "{}",
                stderr(&output)
            );
            // Nothing but a value like the others is to be believed.
            let value = filled(folder, 2) / f64::from(unit);
            assert!((1.0..=6.0).contains(&value), "{value}");
        }
    }
}

#[test]
fn a_table_is_filled_with_any_seed() {
    let folder = folder();
    let folder = folder.path();
    fs::write(folder.join("t.csv"), "station,time,temp\na,1,1\na,2,\nb,1,2\nb,2,3\n").unwrap();
    for seed in 1..=30 {
        json(folder, &format!("fill t.csv -o o.csv --force --seed {seed}"));
        assert!((0.0..=4.0).contains(&filled(folder, 2)), "seed {seed}");
    }
}

#[test]
fn a_split_without_validation_entries_needs_a_rank() {
    let folder = folder();
    let folder = folder.path();
    let row = |n: usize| {
        let value = if n.is_multiple_of(7) { String::new() } else { (n % 9 + n / 20).to_string() };
        format!("{},{},{value}\n", n % 20, n / 20)
    };
    fs::write(folder.join("t.csv"), format!("a,b,value\n{}", (0..400).map(row).collect::<String>())).unwrap();
    for split in ["none", "90/10"] {
        let said = failure(folder, &format!("fill t.csv -o o.csv --split {split}"));
        assert!(said.contains("--rank auto decides on validation entries"), "{said}");
    }
    let told = json(folder, "fill t.csv -o o.csv --split none --rank 2");
    assert_eq!(told["rank"].as_array().unwrap().len(), 2);
    run(folder, ["fill", "t.csv", "-o", "o.csv", "--force", "--split", "80/10/10"]);
}
