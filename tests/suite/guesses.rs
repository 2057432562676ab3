//! Which column is the value is guessed where it is clear, and asked where it is not.

use crate::common::{failure, folder, json, stderr, tenfill};
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use std::fs;
use std::path::Path;
use std::sync::Arc;

fn table(folder: &Path, header: &str, row: impl Fn(usize) -> String) {
    let rows = (0..40).map(|n| row(n) + "\n");
    fs::write(folder.join("in.csv"), format!("{header}\n{}", rows.collect::<String>())).unwrap();
}

#[test]
fn a_column_of_numbers_with_commas_is_not_passed_over() {
    let folder = folder();
    let folder = folder.path();
    // As a German spreadsheet writes it: the customer was taken for the value.
    table(folder, "Kunde;Titel;Bewertung;Datum", |n| {
        format!("{};T{};{},5;2021-01-{:02}", n % 8, n / 8, n % 5, 1 + n % 9)
    });
    let said = failure(folder, "convert in.csv -o out");
    assert!(
        said.contains("in column Bewertung '0,5' has a comma: turn decimal commas into points first")
            && said.contains("(0.5)"),
        "{said}"
    );
    // Whoever names the value gets it.
    let told = json(folder, "convert in.csv -o out --value Kunde --modes Titel,Datum --split none");
    assert_eq!(told["rows"], 40);

    table(folder, "shop,item,price", |n| format!("{},{},\"{},500\"", n % 8, n / 8, 1 + n % 5));
    let said = failure(folder, "convert in.csv -o out --force");
    assert!(said.contains("in column price '1,500' has a comma"), "{said}");
    table(folder, "shop,item,share", |n| format!("{},{},{}0%", n % 8, n / 8, 1 + n % 5));
    let said = failure(folder, "complete in.csv -o run");
    assert!(said.contains("in column share '10%' has a percent sign"), "{said}");
    // A usual name is the value, whatever else there is.
    table(folder, "shop,item,share,rating", |n| format!("{},{},{}0%,{}", n % 8, n / 8, 1 + n % 5, n % 3));
    json(folder, "convert in.csv -o named --modes shop,item --split none");
    // And text that has a comma here and there is text.
    table(folder, "shop,title,pm10", |n| {
        format!("{},\"T{}\",{}.5", n % 8, if n == 3 { "1,2".into() } else { n.to_string() }, n % 3)
    });
    json(folder, "convert in.csv -o texts --split none");
}

#[test]
fn many_columns_of_numbers_may_be_a_wide_table() {
    let folder = folder();
    let folder = folder.path();
    table(folder, "hour,ST-1,ST-2,ST-3", |n| {
        format!("{n},{},{},{}", n % 5, if n.is_multiple_of(7) { String::new() } else { "2".into() }, n % 3)
    });
    let said = failure(folder, "fill in.csv -o out.csv");
    assert!(said.contains("which column is the value?") && said.contains("say --wide"), "{said}");
    json(folder, "fill in.csv -o out.csv --wide");
    // Now there is nothing to fill: a wide table has no cells to add.
    let output = tenfill(folder).args(["fill", "out.csv", "-o", "again.csv", "--wide"]).output().unwrap();
    let said = stderr(&output);
    assert!(said.contains("nothing to fill (--missing") && !said.contains("--all-cells"), "{said}");
}

#[test]
fn a_blank_behind_a_comma_and_another_case_are_understood() {
    let folder = folder();
    let folder = folder.path();
    table(folder, "user,movie,rating", |n| format!("{},{},{}", n % 8, n / 8, n % 5));
    for modes in ["user, movie", " user , movie "] {
        let output = tenfill(folder)
            .args(["convert", "in.csv", "-o", "out", "--force", "--modes", modes])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let said = failure(folder, "convert in.csv -o other --value Rating");
    assert!(said.contains("there is no column 'Rating': did you mean 'rating'?"), "{said}");
}

/// Ratings as pandas writes them where rows were left out before: with its index, which numbers them.
fn frame(path: &Path) {
    let ids = |by: i64| Int64Array::from_iter_values((0..400).map(move |n| n * by % 23));
    let values = (0..400).map(|n| (n % 11 != 5).then_some(f64::from(n % 5)));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("user", Arc::new(ids(7))),
        ("item", Arc::new(ids(5))),
        ("shop", Arc::new(StringArray::from_iter_values((0..400).map(|n| format!("s{}", n % 3))))),
        ("rating", Arc::new(Float64Array::from_iter(values))),
        ("__index_level_0__", Arc::new(Int64Array::from_iter_values((0..400).map(|n| 2 * n)))),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true)));
    let batch = batch.unwrap();
    let mut writer = ArrowWriter::try_new(fs::File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

#[test]
fn the_index_of_a_data_frame_is_no_mode_unless_it_is_named() {
    let folder = folder();
    let folder = folder.path();
    frame(&folder.join("in.parquet"));
    let told = tenfill(folder).args(["convert", "in.parquet", "-o", "out"]).output().unwrap();
    let said = stderr(&told);
    assert!(
        said.contains("taking user, item, shop as the modes")
            && said.contains(
                "__index_level_0__ is the index of a data frame and left out unless --modes names it"
            ),
        "{said}"
    );
    let told = json(folder, "convert in.parquet -o out --force");
    assert_eq!(told["modes"].as_array().unwrap().len(), 3, "{told}");
    let line = "convert in.parquet -o named --modes user,item,__index_level_0__ --value rating";
    let named = json(folder, line);
    assert_eq!(named["modes"][2], "__index_level_0__", "{named}");
    let told = tenfill(folder).args(["fill", "in.parquet", "-o", "out.parquet"]).output().unwrap();
    let said = stderr(&told);
    assert!(told.status.success() && said.contains("__index_level_0__ is the index"), "{said}");
}

#[test]
fn a_guessed_mode_that_numbers_the_rows_is_said() {
    let folder = folder();
    let folder = folder.path();
    let rows = |n: usize| format!("{},{},{},{}", 1000 + n, n % 7, n % 6, n % 5);
    table(folder, "id,user,item,rating", rows);
    let told = json(folder, "convert in.csv -o out");
    let notes = told["notes"].to_string();
    assert!(
        notes.contains("in id nearly every train entry has an id of its own") && notes.contains("user,item"),
        "{notes}"
    );
    // Whoever names the modes wants them.
    let told = json(folder, "convert in.csv -o named --modes id,user,item --value rating");
    assert!(!told["notes"].to_string().contains("of its own"), "{told}");
    let told = json(folder, "convert in.csv -o good --modes user,item --value rating --force");
    assert!(!told["notes"].to_string().contains("of its own"), "{told}");
    table(folder, "user,item,rating", |n| format!("{},{},{}", n % 7, n % 6, n % 5));
    let told = json(folder, "convert in.csv -o fine");
    assert!(!told["notes"].to_string().contains("of its own"), "{told}");
}

#[test]
fn a_column_with_the_name_of_a_value_is_the_value_though_it_begins_empty() {
    let folder = folder();
    let folder = folder.path();
    for name in ["value", "Book-Rating"] {
        let row = |n: usize| {
            let value = if n < 100 { String::new() } else { format!("{}.5", n % 5) };
            format!("u{},i{},{value}\n", n % 37, n % 41)
        };
        let text = format!("user,item,{name}\n{}", (0..1500).map(row).collect::<String>());
        fs::write(folder.join("in.csv"), text).unwrap();
        let told = json(folder, "convert in.csv -o out --force");
        assert_eq!((&told["rows"], &told["empty"]), (&1400.into(), &100.into()), "{told}");
        assert_eq!(told["modes"][0], "user", "{told}");
    }
}

#[test]
fn a_width_without_a_unit_on_times_is_advised_on() {
    let folder = folder();
    let folder = folder.path();
    let row = |n: usize| format!("{},{},{},{}", n % 7, n % 6, 1_500_000_000 + 200_003 * n, n % 5);
    table(folder, "user,item,timestamp,rating", row);
    let said = |width: &str| {
        let bin = format!("timestamp={width}");
        let line = ["convert", "in.csv", "-o", "out", "--force", "--bin", &bin];
        let told = tenfill(folder).args(line).output().unwrap();
        assert!(told.status.success());
        stderr(&told)
    };
    let seven = said("7");
    assert!(
        seven.contains("timestamp looks like times in epoch seconds")
            && seven.contains("for days write timestamp=7d"),
        "{seven}"
    );
    for other in ["7d", "604800"] {
        assert!(!said(other).contains("looks like times"));
    }
}
