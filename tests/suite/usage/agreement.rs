//! Every path from ids to a value gives the same value: order 2, 3, 4, with biases and without.

use super::sample::{self, DIMS, NAMES, id, number, quoted, rows};
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use tenfill_engine::Model;
use tenfill_engine::model::Ends;
use tenfill_engine::storage::RealDisk;

/// Its model is changed: values at the ends say only so much.
const ENDS: &str = "--bias modes --penalty 0.01 --clip --patience 9";

const CASES: [(usize, &str); 9] = [
    (2, "--bias none --penalty 0"),
    (2, "--bias modes --penalty 0"),
    (3, "--bias none --penalty 0"),
    (3, "--bias mean --penalty 0.01"),
    (3, "--bias modes --penalty 0.01 --clip"),
    (3, ENDS),
    (3, "--bias modes --bias-time user:week --penalty 0.01"),
    (4, "--bias none --penalty 0"),
    (4, "--bias modes --penalty 0.01"),
];

fn close(a: f64, b: f64, what: &str) {
    assert!((a - b).abs() <= 1e-12 * (1.0 + a.abs()), "{what}: {a} and {b}");
}

fn complete(folder: &Path, order: usize, extra: &str) {
    sample::complete(folder, order, extra);
    if extra == ENDS {
        let mut model = Model::read(&folder.join("run")).unwrap();
        let (least, most) = model.about.range.unwrap();
        model.about.ends = Some(Ends { below: least + 0.25, above: most - 0.25, noise: 0.6 });
        model.write_extended(&RealDisk, &folder.join("run/model"), &[(0, &[])]).unwrap();
    }
}

/// E(max(0, z + e)), e standard normal.
fn excess(z: f64) -> f64 {
    let density = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
    density + z * 0.5 * libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2)
}

/// A question per row, with an id in every mode that the model may or may not know.
fn queries(order: usize) -> String {
    let mut numbers = sample::Numbers(9);
    let mut text = NAMES[..order].join(",") + "\n";
    for _ in 0..200 {
        let fields: Vec<String> =
            (0..order).map(|mode| quoted(&id(mode, numbers.below(DIMS[mode])))).collect();
        text += &(fields.join(",") + "\n");
    }
    text
}

/// Of every label, its index and its columns by name.
type Table = HashMap<String, (usize, HashMap<String, String>)>;

/// Rebuilds predictions from the CSV export, by the formula of its documentation.
struct Rebuilt {
    about: Value,
    tables: Vec<Table>,
    core: Vec<f64>,
}

impl Rebuilt {
    fn read(folder: &Path) -> Self {
        let text = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap();
        let about: Value = serde_json::from_str(&text("model.json")).unwrap();
        let tables = about["modes"].as_array().unwrap().iter().map(|mode| {
            let table = rows(&text(mode["files"]["factor"].as_str().unwrap()));
            table.into_iter().enumerate().map(|(at, row)| (row["id"].clone(), (at, row))).collect()
        });
        let core = rows(&text("core.csv")).iter().map(|row| number(row, "value")).collect();
        Rebuilt { tables: tables.collect(), core, about }
    }

    fn predict(&self, ids: &[String]) -> Option<f64> {
        let mut found = Vec::new();
        for (table, id) in self.tables.iter().zip(ids) {
            found.push(table.get(id).filter(|(_, row)| row["known"] == "true")?);
        }
        let ranks: Vec<usize> =
            self.about["rank"].as_array().unwrap().iter().map(|r| r.as_u64().unwrap() as usize).collect();
        let mut sum = self.about["offset"].as_f64().unwrap();
        sum += found.iter().map(|(_, row)| number(row, "bias")).sum::<f64>();
        if let Some(time) = self.about["time_bias"].as_object() {
            let place = |name: &Value| NAMES.iter().position(|own| name == own).unwrap();
            let (of, clock) = (place(&time["of"]), place(&time["clock"]));
            let since = (found[clock].0 as i64 - number(&found[of].1, "first") as i64).max(0) as f64;
            let bucket = match since {
                0.0 => 0,
                n => {
                    let k = n.log2().floor();
                    1 + 2 * k as usize + usize::from(n >= 2f64.powf(k + 0.5))
                }
            };
            sum += time["values"][bucket].as_f64().unwrap();
        }
        for (at, g) in self.core.iter().enumerate() {
            let (mut left, mut term) = (at, *g);
            for mode in (0..ranks.len()).rev() {
                term *= number(&found[mode].1, &format!("u{}", left % ranks[mode] + 1));
                left /= ranks[mode];
            }
            sum += term;
        }
        let Some(range) = self.about["range"].as_array() else { return Some(sum) };
        let (least, most) = (range[0].as_f64().unwrap(), range[1].as_f64().unwrap());
        Some(match self.about["ends"]["noise"].as_f64() {
            Some(s) => sum + s * (excess((least - sum) / s) - excess((sum - most) / s)),
            None => sum.clamp(least, most),
        })
    }
}

#[test]
fn all_paths_say_the_same_of_the_same_entry() {
    for (order, extra) in CASES {
        let folder = crate::common::folder();
        let folder = folder.path();
        complete(folder, order, extra);
        std::fs::write(folder.join("queries.csv"), queries(order)).unwrap();
        let told = rows(&sample::output(folder, &["predict", "run", "queries.csv"]));
        assert_eq!(told.len(), 200);

        // Parquet in and out.
        sample::output(folder, &["predict", "run", "queries.csv", "-o", "p.parquet"]);
        let again = rows(&sample::output(folder, &["predict", "run", "p.parquet"]));
        for (a, b) in told.iter().zip(&again) {
            assert_eq!(a["prediction"], b["prediction"]);
            assert_eq!(a["prediction"], b["prediction_2"]);
        }

        // The export.
        sample::output(folder, &["export", "run", "-o", "exported", "--format", "csv"]);
        let rebuilt = Rebuilt::read(&folder.join("exported"));
        let mut known = 0;
        for row in &told {
            let ids: Vec<String> = NAMES[..order].iter().map(|name| row[*name].clone()).collect();
            // A date stands for its bin, which has the label of its beginning.
            let ids: Vec<String> =
                ids.into_iter().enumerate().map(|(mode, id)| bin_label(&rebuilt, mode, id)).collect();
            match rebuilt.predict(&ids) {
                Some(value) => {
                    close(number(row, "prediction"), value, &format!("{order} {extra} export"));
                    known += 1;
                }
                None => assert_eq!(row["known"], "false"),
            }
        }
        assert!(known > 100, "{known}");

        // recommend, of every user that is asked for, over all films.
        for row in told.iter().take(12).filter(|row| row["known"] == "true") {
            let mut arguments = vec!["recommend".to_string(), "run".into(), "--include-seen".into()];
            arguments.extend(["--rank-mode", "film", "--top", "25"].map(String::from));
            for name in NAMES[..order].iter().filter(|name| **name != "film") {
                arguments.extend(["--given".into(), format!("{name}={}", row[*name])]);
            }
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let best = rows(&sample::output(folder, &arguments));
            let own = best.iter().find(|other| other["film"] == row["film"]).expect("the film is ranked");
            assert_eq!(own["prediction"], row["prediction"], "{order} {extra} recommend");
        }

        // evaluate, on a file and on the split, against the errors of predict.
        let data = sample::csv(order, 300, 77);
        std::fs::write(folder.join("held.csv"), &data).unwrap();
        let told = rows(&sample::output(folder, &["predict", "run", "held.csv"]));
        let scored = told.iter().filter(|row| row["known"] == "true" || !extra.contains("none"));
        let squares: Vec<f64> =
            scored.map(|row| (number(row, "prediction") - number(row, "stars")).powi(2)).collect();
        let mse = squares.iter().sum::<f64>() / squares.len() as f64;
        let found = crate::common::run(folder, ["evaluate", "run", "--on", "held.csv"]);
        close(found["mse"].as_f64().unwrap(), mse, "evaluate on a file");
        let all = rows(&sample::output(folder, &["predict", "run", "data.csv"]));
        let whole: f64 = ["train", "validation", "test"]
            .map(|split| {
                let found = crate::common::run(folder, ["evaluate", "run", "--on", split]);
                found["mse"].as_f64().unwrap() * found["entries"].as_f64().unwrap()
            })
            .iter()
            .sum();
        let by_predict: f64 = all
            .iter()
            .filter(|row| row["known"] == "true" || !extra.contains("none"))
            .map(|row| (number(row, "prediction") - number(row, "stars")).powi(2))
            .sum();
        // Sums of a thousand squares in another order.
        assert!((whole / by_predict - 1.0).abs() < 1e-12, "{order} {extra}: {whole} {by_predict}");
    }
}

fn bin_label(rebuilt: &Rebuilt, mode: usize, id: String) -> String {
    let bins = &rebuilt.about["modes"][mode]["bins"];
    let Some(origin) = bins["origin"].as_f64() else { return id };
    let seconds = tenfill_engine::times::parse_time(&id).unwrap();
    let width = bins["width"].as_f64().unwrap();
    tenfill_engine::times::format_time(origin + ((seconds - origin) / width).floor() * width)
}

/// The same in Python, from Parquet and npy, where numpy and pyarrow are installed.
#[test]
fn python_agrees() {
    let modules = Command::new("python3").args(["-c", "import numpy, pyarrow"]).output();
    if !modules.is_ok_and(|output| output.status.success()) {
        return crate::common::skipped(
            "python3 with numpy and pyarrow is not here (pip install numpy pyarrow)",
        );
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/rebuild.py");
    for (order, extra) in CASES {
        let folder = crate::common::folder();
        let folder = folder.path();
        complete(folder, order, extra);
        std::fs::write(folder.join("queries.csv"), queries(order)).unwrap();
        sample::output(folder, &["predict", "run", "queries.csv", "-o", "answers.parquet"]);
        for format in ["parquet", "npy"] {
            sample::output(folder, &["export", "run", "-o", "exported", "--format", format, "--force"]);
            let ran = Command::new("python3")
                .arg(&script)
                .args(["exported", "answers.parquet"])
                .current_dir(folder)
                .output()
                .unwrap();
            assert!(ran.status.success(), "{order} {extra} {format}: {}", crate::common::stderr(&ran));
        }
    }
}
