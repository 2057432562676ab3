//! The same data in another unit gives the same model in that unit.

use super::{PLAIN, Row, json, low_rank, low_rank_of, write};
use crate::common::folder;
use serde_json::Value;
use std::path::Path;
use tenfill_engine::Model;

/// What the issue asks for, and powers of two, by which numbers are multiplied exactly.
const SCALES: [f64; 4] = [1e-12, 1e-3, 1e6, 1e12];
const EXACT: [f64; 4] = [1.0 / (1u64 << 40) as f64, 1.0 / 1024.0, (1u64 << 40) as f64, 1.2676506002282294e30];

/// What a model says of some entries.
fn predictions(run: &Path) -> Vec<f64> {
    let model = Model::read(run).unwrap();
    let dims: Vec<u32> = model.about.modes.iter().map(|mode| mode.dim).collect();
    let at = |n: u32| -> Vec<Option<u32>> {
        dims.iter().enumerate().map(|(mode, dim)| Some((n * (2 * mode as u32 + 3)) % dim)).collect()
    };
    (0..200).map(|n| model.predict(&at(n)).value).collect()
}

/// Completes rows in another unit.
fn complete(folder: &Path, rows: &[Row], scale: f64, options: &str) -> (Value, Vec<f64>) {
    write(&folder.join("x.csv"), rows, scale, 1.0);
    let line = format!("complete x.csv -o run --force --modes a,b,c --value value {options}");
    (json(folder, &line), predictions(&folder.join("run")))
}

/// The largest difference beside the largest number.
fn difference(ours: &[f64], scale: f64, reference: &[f64]) -> f64 {
    let size = reference.iter().fold(0.0, |size: f64, x| size.max(x.abs()));
    let worst = ours.iter().zip(reference).fold(0.0, |worst: f64, (a, b)| worst.max((a / scale - b).abs()));
    worst / size
}

fn same_up_to_the_scale(rows: &[Row], options: &str, within: f64) {
    let folder = folder();
    let (done, reference) = complete(folder.path(), rows, 1.0, options);
    assert_eq!(done["learned"], true, "{done}");
    for scale in SCALES {
        let (again, ours) = complete(folder.path(), rows, scale, options);
        let far = difference(&ours, scale, &reference);
        assert!(far <= within, "{options}, times {scale:e}: {far:e}\n{done}\n{again}");
        assert_eq!(again["stopped_by"], done["stopped_by"], "{options}, times {scale:e}");
        assert_eq!(again["learned"], true, "{again}");
    }
    for scale in EXACT {
        let (again, ours) = complete(folder.path(), rows, scale, options);
        let far = difference(&ours, scale, &reference);
        let exact = if options.contains("--bias none") || options.contains("geomcg") { 0.0 } else { within };
        assert!(far <= exact, "{options}, times {scale:e}: {far:e}\n{done}\n{again}");
        assert_eq!(again["iterations"], done["iterations"], "{options}, times {scale:e}");
    }
}

#[test]
fn the_plain_method_gives_the_same_model_up_to_the_scale() {
    same_up_to_the_scale(&low_rank(), &format!("--rank 2 --split 80/0/20 {PLAIN}"), 1e-5);
}

#[test]
fn sgd_gives_the_same_model_up_to_the_scale() {
    // Enough entries for sixteen chunks.
    let rows = low_rank_of([120, 100, 80], 24_000);
    let options = format!("--rank 2 --split 80/0/20 {PLAIN} --algorithm sgd");
    let (done, _) = complete(folder().path(), &rows, 1.0, &options);
    let [passes, iterations] = ["passes", "iterations"].map(|field| done[field].as_u64().unwrap());
    assert!(passes < 2 * iterations, "steps from chunks: {done}");
    same_up_to_the_scale(&rows, &options, 1e-5);
}

#[test]
fn geomcg_gives_the_same_model_up_to_the_scale() {
    same_up_to_the_scale(&low_rank(), "--rank 2 --split 80/0/20 --no-clip --algorithm geomcg", 1e-5);
}

#[test]
fn double_precision_gives_the_same_model_up_to_the_scale() {
    same_up_to_the_scale(&low_rank(), &format!("--rank 2 --split 80/0/20 {PLAIN} --precision f64"), 1e-5);
}

/// Rows of the small file of ratings.
fn ratings() -> Vec<Row> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ratings.csv");
    let text = std::fs::read_to_string(file).unwrap();
    let row = |line: &str| {
        let cells: Vec<f64> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
        // Weeks, so that all three are numbers.
        ([cells[0] as u32, cells[1] as u32, (cells[3] / 604_800.0) as u32], cells[2], 1.0)
    };
    text.lines().skip(1).map(row).collect()
}

#[test]
fn the_ratings_recipe_gives_the_same_model_up_to_the_scale() {
    // In double precision: what is tried next depends on the last digits of errors on validation entries.
    same_up_to_the_scale(&ratings(), "--rank 4 --precision f64", 1e-3);
    // In single precision as well where the unit changes no digit.
    let folder = folder();
    let (usual, reference) = complete(folder.path(), &ratings(), 1.0, "--rank 4");
    for scale in EXACT {
        let (again, ours) = complete(folder.path(), &ratings(), scale, "--rank 4");
        let far = difference(&ours, scale, &reference);
        assert!(far < 1e-9, "times {scale:e}: {far:e}\n{usual}\n{again}");
        assert_eq!(again["iterations"], usual["iterations"], "times {scale:e}");
    }
}

#[test]
fn a_row_that_is_folded_in_is_the_same_up_to_the_scale() {
    let folder = folder();
    let folder = folder.path();
    let (new, old): (Vec<Row>, Vec<Row>) = low_rank().into_iter().partition(|row| row.0[0] >= 27);
    let mut reference: Option<Vec<f64>> = None;
    for scale in [1.0, 1e-12, 1e-3, 1e6, 1e12, 1e25] {
        let options = format!("--rank 2 --split none {PLAIN}");
        complete(folder, &old, scale, &options);
        write(&folder.join("new.csv"), &new, scale, 1.0);
        json(folder, "fold-in run new.csv -o folded --force");
        let ours = predictions(&folder.join("folded"));
        match &reference {
            None => reference = Some(ours),
            Some(reference) => {
                let far = difference(&ours, scale, reference);
                assert!(far < 1e-5, "times {scale:e}: {far:e}");
            }
        }
        let found = json(folder, "evaluate folded --on new.csv");
        assert!(found["r2"].as_f64().unwrap() > 0.999_999, "times {scale:e}: {found}");
    }
}

/// Single precision ends at 1e38, and sums of squares came to that from 1e19 on.
#[test]
fn huge_and_tiny_values_are_completed() {
    let folder = folder();
    for scale in [1e-58, 1e-30, 1e-20, 1e19, 1e30, 1e40, 1e58] {
        for options in [format!("--rank 2 {PLAIN}"), "--rank 2".into()] {
            let (done, _) = complete(folder.path(), &low_rank(), scale, &options);
            assert_eq!(
                (&done["stopped_by"], &done["learned"]),
                (&"tolerance".into(), &true.into()),
                "{done}"
            );
            let r2 = done["errors"]["test"]["r2"].as_f64().unwrap();
            assert!(r2 > 0.999_999, "{options}, times {scale:e}: {done}");
        }
        let again = json(folder.path(), "resume run");
        assert_eq!(again["learned"], true, "what was written can be read again");
        assert_eq!(json(folder.path(), "verify run")["ok"], true);
    }
}

#[test]
fn the_size_of_weights_does_not_matter() {
    let folder = folder();
    let folder = folder.path();
    for (rows, options) in [
        (low_rank(), format!("--rank 2 --weights weight {PLAIN}")),
        (ratings(), "--rank 4 --weights weight --precision f64".into()),
    ] {
        let mut reference: Option<Value> = None;
        for weight in [1.0, 2f64.powi(-500), 1e-150, 1e19, 1e150, 2f64.powi(500)] {
            write(&folder.join("x.csv"), &rows, 1.0, weight);
            let line = format!("complete x.csv -o run --force --modes a,b,c --value value {options}");
            let done = json(folder, &line);
            assert_eq!(done["learned"], true, "times {weight:e}: {done}");
            let said = done["errors"]["train"]["weight"].as_f64().unwrap();
            match &reference {
                None => reference = Some(done),
                Some(reference) => {
                    let own = reference["errors"]["train"]["weight"].as_f64().unwrap();
                    assert!((said / weight / own - 1.0).abs() < 1e-9, "weights are told as they were given");
                    let [ours, theirs] =
                        [&done, reference].map(|done| done["errors"]["test"]["r2"].as_f64().unwrap());
                    assert!((ours - theirs).abs() < 1e-3, "times {weight:e}: {ours} and {theirs}");
                }
            }
            assert_eq!(json(folder, "verify run")["ok"], true);
        }
    }
}
