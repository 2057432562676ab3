//! Which column is the value is guessed where it is clear, and asked where it is not.

use crate::common::{failure, folder, json, stderr, tenfill};
use std::fs;
use std::path::Path;

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
