//! Values that are fitted as their logarithm or logit, and said in their own units.

use crate::common::{contents, failure, folder, json, output, stderr, tenfill};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use tenfill_engine::transform::Transform;

/// Prices of items in shops: a price per item, a factor per shop, some noise; over four powers of ten.
fn prices() -> Vec<(String, String, f64)> {
    let mut rows = Vec::new();
    for shop in 0..40u32 {
        for item in 0..60u32 {
            let hash = (shop * 7919 + item * 104_729) % 1000;
            if hash % 3 > 0 {
                let log =
                    f64::from(item % 10) * 0.9 + 0.2 * f64::from(shop % 5) + f64::from(hash % 17) * 0.01;
                let price = (100.0 * log.exp()).round() / 100.0;
                rows.push((format!("shop {shop}"), format!("item {item}"), price));
            }
        }
    }
    rows
}

fn write(path: &Path, rows: &[(String, String, f64)]) {
    let mut text = String::from("shop,item,price\n");
    rows.iter().for_each(|(shop, item, price)| writeln!(text, "{shop},{item},{price}").unwrap());
    fs::write(path, text).unwrap();
}

/// The column of a CSV by its name, as numbers.
fn column(csv: &str, name: &str) -> Vec<f64> {
    let mut lines = csv.lines();
    let place = lines.next().unwrap().split(',').position(|field| field == name).unwrap();
    lines.map(|line| line.split(',').nth(place).unwrap().parse().unwrap()).collect()
}

#[test]
fn answers_and_errors_are_in_the_values_own_units() {
    let folder = folder();
    let at = folder.path();
    let rows = prices();
    write(&at.join("prices.csv"), &rows);
    json(at, "convert prices.csv -o data --transform log");
    let told = json(at, "inspect data");
    assert_eq!(told["transform"], "log");
    let outcome = json(at, "complete data -o run");
    // Entries come out as they came in, to the last digit.
    let entries = output(at, &["entries", "data", "--split", "all"]);
    let mut ours: Vec<(String, u64)> = entries
        .lines()
        .skip(1)
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            (format!("{} {}", fields[0], fields[1]), fields[2].parse::<f64>().unwrap().to_bits())
        })
        .collect();
    let mut theirs: Vec<(String, u64)> =
        rows.iter().map(|(shop, item, price)| (format!("{shop} {item}"), price.to_bits())).collect();
    ours.sort();
    theirs.sort();
    assert_eq!(ours, theirs);
    // The errors of `complete`, `evaluate` and of predictions held against the prices are one.
    fs::write(at.join("test.csv"), output(at, &["entries", "data"])).unwrap();
    let answers = output(at, &["predict", "run", "test.csv", "--sd"]);
    let (price, said, sd) =
        (column(&answers, "price"), column(&answers, "prediction"), column(&answers, "sd"));
    let squares: f64 = price.iter().zip(&said).map(|(y, x)| (x - y) * (x - y)).sum();
    let mse = squares / price.len() as f64;
    let close = |x: &serde_json::Value| (x.as_f64().unwrap() - mse).abs() < 1e-9 * mse;
    let (split, file) = (json(at, "evaluate run"), json(at, "evaluate run --on test.csv"));
    assert!(
        close(&outcome["test_mse"]) && close(&split["mse"]) && close(&file["mse"]),
        "{mse} {outcome} {split}"
    );
    let mean = column(&output(at, &["entries", "data", "--split", "train"]), "price");
    let mean = mean.iter().sum::<f64>() / mean.len() as f64;
    let about: f64 = price.iter().map(|y| (y - mean) * (y - mean)).sum::<f64>() / price.len() as f64;
    assert!((split["standard_deviation"].as_f64().unwrap() - about.sqrt()).abs() < 1e-9 * about.sqrt());
    let r2 = [&split, &file].map(|found| found["r2"].as_f64().unwrap());
    assert!(r2[0] > 0.9 && (r2[0] - r2[1]).abs() < 1e-9);
    // Of a price that is ten times as high one is less sure in units, and as sure in shares.
    let shares: Vec<f64> = sd.iter().zip(&said).map(|(sd, x)| sd / x).collect();
    let (least, most) = shares.iter().fold((f64::MAX, 0.0f64), |(a, b), &x| (a.min(x), b.max(x)));
    assert!(most < 5.0 * least && most < 0.5, "{least} {most}");
    assert_eq!(split["coverage"], file["coverage"]);
    // What is recommended is a price, and the best are the dearest.
    let best = output(
        at,
        &[
            "recommend",
            "run",
            "--given",
            "shop=shop 3",
            "--rank-mode",
            "item",
            "--top",
            "5",
            "--include-seen",
        ],
    );
    assert!(column(&best, "prediction").iter().all(|&x| x > 1000.0), "{best}");
    let ranked = json(at, "evaluate run --top 5 --rank-mode item --for shop --relevant 1000");
    assert!(ranked["ranked_ids"].as_u64().unwrap() > 0);
    // New ids, from prices.
    fs::write(at.join("new.csv"), "shop,item,price\nnew,item 3,30\nnew,item 9,6600\nnew,item 25,180\n")
        .unwrap();
    json(at, "fold-in run new.csv -o run2");
    fs::write(at.join("ask.csv"), "shop,item\nnew,item 19\nnew,item 13\n").unwrap();
    let said = column(&output(at, &["predict", "run2", "ask.csv"]), "prediction");
    assert!((said[0] / 6600.0 - 1.0).abs() < 0.5 && (said[1] / 30.0 - 1.0).abs() < 0.5, "{said:?}");
    // The report tells the same error.
    output(at, &["report", "run", "-o", "report.html"]);
    let page = fs::read_to_string(at.join("report.html")).unwrap();
    let rmse = mse.sqrt();
    let shown = if rmse < 1e5 { format!("{rmse:.4}") } else { format!("{rmse:.3e}") };
    assert!(page.contains(&shown), "{shown}");
}

#[test]
fn what_has_no_logarithm_is_named_with_its_line() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("in.csv"), "user,item,count\na,x,3\na,y,0\nb,x,7\n").unwrap();
    let said = failure(at, "convert in.csv -o out --transform log");
    assert!(said.contains("in.csv:3: count is 0, and --transform log takes numbers above 0"), "{said}");
    json(at, "convert in.csv -o counts --transform log1p --split none");
    let kept: Vec<f64> =
        contents(&at.join("counts")).values().map(|(_, bits)| f64::from_bits(*bits)).collect();
    assert_eq!(kept, [3.0, 0.0, 7.0].map(|x| Transform::Log1p.apply(x).unwrap()));
    let told = json(at, "convert in.csv -o some --transform log --skip-bad 1 --split none");
    assert_eq!(told["bad_rows"], 1);
    let told = json(at, "convert in.csv -o others --transform log --where count>0 --split none");
    assert_eq!(told["left_out"], 1);
    fs::write(at.join("shares.csv"), "shop,week,share\na,1,0.25\na,2,45\nb,1,0.5\n").unwrap();
    let said = failure(at, "convert shares.csv -o out --value share --transform logit");
    assert!(
        said.contains("shares.csv:3: share is 45, and --transform logit takes shares between 0 and 1"),
        "{said}"
    );
    let said = failure(at, "convert in.csv -o out --transform log --absent 0.1 --where count>0");
    assert!(said.contains("--absent draws zeros"), "{said}");
    let done = tenfill(at).args(["convert", "in.csv", "-o", "out", "--transform", "sqrt"]).output().unwrap();
    assert!(stderr(&done).contains("log1p, log or logit"), "{}", stderr(&done));
}

#[test]
fn appended_rows_are_transformed_as_the_dataset_is() {
    let folder = folder();
    let at = folder.path();
    let rows = prices();
    write(&at.join("all.csv"), &rows);
    write(&at.join("old.csv"), &rows[..1000]);
    // Some of the new ones fall on old entries.
    let new = [&rows[1000..], &rows[10..30]].concat();
    write(&at.join("new.csv"), &new);
    let all = [&rows[..], &rows[10..30]].concat();
    write(&at.join("all.csv"), &all);
    for rule in ["mean", "sum", "last"] {
        json(at, &format!("convert all.csv -o all --force --transform log --duplicates {rule}"));
        json(at, &format!("convert old.csv -o old --force --transform log --duplicates {rule}"));
        json(at, "append old new.csv -o new --force");
        let (ours, theirs) = (contents(&at.join("new")), contents(&at.join("all")));
        assert_eq!(ours.len(), theirs.len());
        for (entry, (split, bits)) in &theirs {
            let (own_split, own) = ours[entry];
            let (x, y) = (f64::from_bits(own), f64::from_bits(*bits));
            assert!(own_split == *split && (x - y).abs() < 1e-12, "{rule} {entry:?}: {x} {y}");
        }
        assert_eq!(json(at, "inspect new")["transform"], "log");
    }
    let said = failure(at, "append old new.csv -o other --transform log1p");
    assert!(said.contains("the values of the dataset are kept log, which stays"), "{said}");
    fs::write(at.join("zero.csv"), "shop,item,price\nshop 1,item 1,0\n").unwrap();
    assert!(failure(at, "append old zero.csv -o other").contains("zero.csv:2: price is 0"));
    // A model of logarithms is no beginning for one of prices.
    json(at, "complete old -o run --rank 1 --max-iterations 3");
    json(at, "convert all.csv -o plain");
    let said = failure(at, "complete plain -o other --init run --rank 1");
    assert!(said.contains("--transform"), "{said}");
}

#[test]
fn sums_are_transformed_when_all_rows_are_in() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("in.csv"), "page,day,clicks\na,1,2\na,1,3\nb,1,4\nb,2,0\n").unwrap();
    json(
        at,
        "convert in.csv -o out --modes page,day --value clicks --transform log1p --duplicates sum --split none",
    );
    let entries = output(at, &["entries", "out", "--split", "train"]);
    assert_eq!(entries, "page,day,clicks\na,1,5.0\nb,1,4.0\nb,2,0.0\n".replace(".0", ""));
}

#[test]
fn holes_are_filled_with_prices_and_shares_with_shares() {
    let folder = folder();
    let at = folder.path();
    let mut text = String::from("shop,item,price\n");
    for (n, (shop, item, price)) in prices().into_iter().enumerate() {
        let price = if n % 9 == 4 { String::new() } else { price.to_string() };
        writeln!(text, "{shop},{item},{price}").unwrap();
    }
    fs::write(at.join("in.csv"), &text).unwrap();
    let told = json(at, "fill in.csv -o out.csv --transform log");
    let filled = fs::read_to_string(at.join("out.csv")).unwrap();
    let truth = prices();
    let errors = filled.lines().skip(1).zip(&truth).filter_map(|(line, (_, _, price))| {
        let fields: Vec<&str> = line.split(',').collect();
        (fields[3] == "true").then(|| (fields[2].parse::<f64>().unwrap() / price).ln().abs())
    });
    let errors: Vec<f64> = errors.collect();
    assert_eq!(told["filled"], errors.len() as u64);
    let middle = errors.iter().sum::<f64>() / errors.len() as f64;
    assert!(middle < 0.1, "{middle}");
    // What was held out is measured in prices, too, beside the mean.
    let held = &told["held_out"];
    assert!(held["rmse"].as_f64().unwrap() < 0.2 * held["mean_rmse"].as_f64().unwrap(), "{held}");
    let mut shares = String::from("shop,week,share\n");
    for n in 0..600 {
        let logit = f64::from(n % 20) * 0.3 - 3.0 + f64::from(n / 20 % 7) * 0.2;
        writeln!(shares, "s{},{},{:.4}", n % 20, n / 20, 1.0 / (1.0 + (-logit).exp())).unwrap();
    }
    fs::write(at.join("shares.csv"), shares).unwrap();
    json(at, "complete shares.csv -o run --modes shop,week --value share --transform logit");
    fs::write(at.join("ask.csv"), "shop,week\ns19,4\ns0,4\ns3,99\n").unwrap();
    let said = column(&output(at, &["predict", "run", "ask.csv"]), "prediction");
    assert!(said.iter().all(|x| (0.0..=1.0).contains(x)) && said[0] > 0.9 && said[1] < 0.2, "{said:?}");
}
