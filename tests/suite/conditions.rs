//! `--where` takes what it understands, and refuses the rest.

use crate::common::{failure_of, folder, run, stderr, tenfill};
use std::fs;
use std::path::Path;

/// Prices with a date, an empty cell and shops of text.
fn prices(folder: &Path) {
    let rows = (0..60).map(|n| {
        let price = if n == 7 { String::new() } else { (n % 5).to_string() };
        format!("s{},i{},{price},2021-0{}-01,{}\n", n % 6, n / 6, 1 + n % 9, n % 4)
    });
    let text = "shop,item,price,date,w\n".to_string() + &rows.collect::<String>();
    fs::write(folder.join("p.csv"), text).unwrap();
}

const CONVERT: [&str; 8] = ["convert", "p.csv", "-o", "d", "--modes", "shop,item", "--value", "price"];

#[test]
fn what_is_documented_goes_on_working() {
    let folder = folder();
    let folder = folder.path();
    prices(folder);
    for (condition, rows) in [
        ("price > 2", 24),
        ("price > 2 and w != 3", 18),
        ("price <> 2", 48),
        ("price == 2", 11),
        ("shop = s3", 10),
        ("shop >= s3", 30),
        ("shop = 's3'", 10),
        ("date >= 2021-06-01", 24),
    ] {
        let told =
            run(folder, CONVERT.into_iter().chain(["--force", "--split", "none", "--where", condition]));
        assert_eq!(told["rows"], rows, "{condition}: {told}");
    }
}

#[test]
fn what_may_be_meant_otherwise_is_refused() {
    let folder = folder();
    let folder = folder.path();
    prices(folder);
    for (condition, why) in [
        ("price > 2 or price < 1", "there is no or"),
        ("price > 2;", "because of '2;'"),
        ("price > 1,5", "write 1.5"),
        ("price => 2", "signs are = != < <= > >="),
        ("shop = s3 or shop = s4", "there is no or"),
        ("date >= 06/01/2021", "like 2021-01-31"),
    ] {
        let output = tenfill(folder).args(CONVERT).args(["--where", condition]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{condition}");
        assert!(stderr(&output).contains(why), "{condition}: {}", stderr(&output));
    }
    for (condition, why) in [
        ("2 < price", "a column comes first"),
        ("price > w", "a column comes first"),
        ("gone > 2", "there is no column 'gone'"),
        ("price > cheap", "compares it with a text"),
        ("date < 'yesterday'", "compares it with a text"),
    ] {
        let words: Vec<&str> = CONVERT.into_iter().chain(["--where", condition]).collect();
        let said = failure_of(folder, &words);
        assert!(said.contains(why), "{condition}: {said}");
    }
}
