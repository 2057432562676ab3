//! Weights: an entry of weight 2 is an entry twice, one of weight 0 is none.

use crate::common::{close, failure_of, numbers, output, run};
use arrow_array::{ArrayRef, Float32Array, Float64Array, Int32Array, Int64Array, RecordBatch};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tenfill_engine::Dataset;
use tenfill_engine::budget::Budget;
use tenfill_engine::kernel::Precision;
use tenfill_engine::manifold::{Distribution, Point, Preconditioned, Tangent, random_point};
use tenfill_engine::objective::{Coordinates, Penalty, PenaltyKind, Regularised, Streamed, bias_fit};
use tenfill_engine::shard::Split;
use tenfill_engine::solver::{Cost, Objective, check_gradient};
use tenfill_engine::stream::Access;

fn json(arguments: &[&str], folder: &Path) -> Value {
    run(folder, arguments.iter().copied())
}

/// Rows (a, b, c, value, weight) of a small tensor: weights 0, 1, 2 and 3.
fn rows() -> Vec<([u32; 3], f64, u32)> {
    let mut state = 7u64;
    let mut next = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut seen = std::collections::BTreeMap::new();
    for _ in 0..6000 {
        let index = [next(40) as u32, next(30) as u32, next(12) as u32];
        let [a, b, c] = index.map(f64::from);
        let value = ((a * 0.3).sin() * (b * 0.2).cos() + 0.1 * c + next(8) as f64 / 16.0) * 4.0;
        seen.insert(index, (value, next(4) as u32));
    }
    seen.into_iter().map(|(index, (value, weight))| (index, value, weight)).collect()
}

fn write(path: &Path, rows: &[([u32; 3], f64, u32)], delimiter: &str, header: bool) {
    let mut text =
        if header { ["a", "b", "c", "value", "weight"].join(delimiter) + "\n" } else { String::new() };
    for ([a, b, c], value, weight) in rows {
        let row = [a.to_string(), b.to_string(), c.to_string(), value.to_string(), weight.to_string()];
        text += &(row.join(delimiter) + "\n");
    }
    std::fs::write(path, text).unwrap();
}

/// The same as Parquet, in row groups of a thousand.
fn write_parquet(path: &Path, rows: &[([u32; 3], f64, u32)], whole: bool) {
    let index = |mode: usize| {
        let numbers = rows.iter().map(|row| i64::from(row.0[mode]));
        Arc::new(Int64Array::from_iter_values(numbers)) as ArrayRef
    };
    let values = rows.iter().map(|row| row.1);
    let weights: ArrayRef = match whole {
        true => Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.2 as i32))),
        false => Arc::new(Float32Array::from_iter_values(rows.iter().map(|row| row.2 as f32))),
    };
    let batch = RecordBatch::try_from_iter([
        ("a", index(0)),
        ("b", index(1)),
        ("c", index(2)),
        ("value", Arc::new(Float64Array::from_iter_values(values)) as ArrayRef),
        ("weight", weights),
    ]);
    let (batch, file) = (batch.unwrap(), std::fs::File::create(path).unwrap());
    let properties = parquet::file::properties::WriterProperties::builder();
    let properties = properties.set_max_row_group_row_count(Some(1000)).build();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

fn open(folder: &Path) -> Streamed {
    let dataset = Dataset::open(folder).unwrap();
    Streamed::open(&dataset, &[2, 3, 2], Precision::F64, &Budget::new(1 << 30).unwrap(), Some(Access::Cached))
        .unwrap()
}

fn weighted_dataset(folder: &Path) -> PathBuf {
    write(&folder.join("w.csv"), &rows(), ",", true);
    // Indices stand in the file as they are, so that both sides of a comparison have the same rows.
    let mut arguments = vec!["convert", "w.csv", "-o", "w", "--weights", "weight", "--split", "none"];
    arguments.extend(["--dims", "41,31,13", "--zero-based"]);
    let line = json(&arguments, folder);
    assert_eq!(line["weights"]["column"], "weight");
    folder.join("w")
}

/// What the sums over a list of (indices, value) are, by the naive formula.
fn repeated() -> tenfill_engine::solver::InMemory {
    let mut entries = tenfill_engine::solver::Entries::default();
    for (index, value, weight) in rows() {
        (0..weight).for_each(|_| entries.push(&index, value));
    }
    tenfill_engine::solver::InMemory::new(entries)
}

fn some_point(seed: u64) -> Point {
    random_point(&[41, 31, 13], &[2, 3, 2], Distribution::Gaussian, seed)
}

fn as_tangent(point: Point) -> Tangent {
    Tangent { factors: point.factors, core: point.core }
}

#[test]
fn an_entry_of_weight_two_is_an_entry_twice() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = weighted_dataset(folder.path());
    let (mut ours, mut formula) = (open(&dataset), repeated());
    let (at, along) = (some_point(3), as_tangent(some_point(4)));
    let (mut gradient, mut reference) = (Tangent::zeros_like(&at), Tangent::zeros_like(&at));
    let cost = ours.cost_and_gradient(&at, &mut gradient).unwrap();
    let expected = formula.cost_and_gradient(&at, &mut reference).unwrap();
    let numbers_of = |cost: &Cost| [cost.total, cost.train_mse, cost.train_mae];
    close(&numbers_of(&cost), &numbers_of(&expected), "cost");
    close(&numbers(&gradient), &numbers(&reference), "gradient");
    let (sums, expected) = (ours.step_sums(&at, &along).unwrap(), formula.step_sums(&at, &along).unwrap());
    close(&[sums.slope, sums.curvature], &[expected.slope, expected.curvature], "step");
    let polynomial = formula.line_polynomial(&at, &along).unwrap();
    close(&ours.line_polynomial(&at, &along).unwrap(), &polynomial, "polynomial");
    // The start's scale, and what is counted and summed for biases.
    let manifest = Dataset::open(&dataset).unwrap();
    let (counts, _) = bias_fit::count(manifest.manifest(), ours.train(), None).unwrap();
    let mut expected = vec![0.0; 41];
    rows().iter().for_each(|(index, _, weight)| expected[index[0] as usize] += f64::from(*weight));
    assert_eq!(counts.modes[0], expected);
    let (sum, count) = rows().iter().fold((0.0, 0.0), |(sum, count), (_, value, weight)| {
        (sum + f64::from(*weight) * value, count + f64::from(*weight))
    });
    close(&[manifest.manifest().mean()], &[sum / count], "mean");
}

#[test]
fn the_weighted_gradient_belongs_to_the_weighted_cost() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = Dataset::open(weighted_dataset(folder.path())).unwrap();
    let mut objective = Regularised::new(open(dataset.directory()));
    let (counts, _) = bias_fit::count(dataset.manifest(), objective.data.train(), None).unwrap();
    let order = &dataset.manifest().mode_order;
    let mean = dataset.manifest().mean();
    let (biases, damping) = bias_fit::fit(objective.data.train(), order, &counts, mean, None).unwrap();
    assert!(damping.modes.iter().any(|damping| *damping < 1e6), "{damping:?}");
    objective.coordinates = Some(Coordinates::smoothed(&counts));
    objective.penalty = Penalty { kind: PenaltyKind::Log, lambda: 0.1, smoothing: 1e-4 };
    objective.data.set_biases(Some(biases));
    let found = check_gradient(&Preconditioned, &mut objective, &some_point(5), 6).unwrap();
    assert!(found.slope > 1.9 && found.relative_error < 1e-6, "{found:?}");
}

/// All weights times a number change nothing: cost, biases and penalty are relative to their sum.
#[test]
fn weights_have_no_unit() {
    let folder = tempfile::tempdir().unwrap();
    let mut errors = Vec::new();
    for factor in [1, 1024] {
        let scaled: Vec<_> =
            rows().into_iter().map(|(i, value, weight)| (i, value, weight * factor)).collect();
        write(&folder.path().join("w.csv"), &scaled, ",", true);
        let run = ["complete", "w.csv", "-o", "run", "--force", "--rank", "2,2,2", "--weights", "weight"];
        let line = json(&[&run[..], &["--max-iterations", "40"]].concat(), folder.path());
        assert_eq!(line["weights"], "weight");
        errors.push(line["test_mse"].as_f64().unwrap());
    }
    // A power of two: to the bit but for what is added to sums of weights.
    assert!((errors[0] / errors[1] - 1.0).abs() < 1e-9, "{errors:?}");
}

#[test]
fn every_format_gives_the_same_weights() {
    let folder = tempfile::tempdir().unwrap();
    let rows = rows();
    let one_based: Vec<_> = rows.iter().map(|([a, b, c], v, w)| ([a + 1, b + 1, c + 1], *v, *w)).collect();
    write(&folder.path().join("w.csv"), &one_based, ",", true);
    write(&folder.path().join("w.tns"), &one_based, " ", false);
    write(&folder.path().join("w.txt"), &one_based, "::", false);
    let dims = ["--dims", "41,31,13", "--split", "none"];
    let read = |name: &str, weights: &str, more: &[&str]| {
        let arguments =
            [&["convert", name, "-o", "d", "--force", "--weights", weights], &dims[..], more].concat();
        json(&arguments, folder.path());
        let dataset = Dataset::open(folder.path().join("d")).unwrap();
        let mut entries = Vec::new();
        for shard in dataset.shards(Split::Train).unwrap() {
            let mut buffer = Vec::new();
            for number in 0..shard.blocks().len() {
                let bytes = shard.read_block(number, &mut buffer).unwrap();
                let view = shard.view(number, bytes).unwrap();
                view.for_each_weighted(|i, value, weight| entries.push((i.to_vec(), value, weight)));
            }
        }
        let verified = json(&["verify", "d"], folder.path());
        assert_eq!(verified["ok"], true, "{verified}");
        entries
    };
    let csv = read("w.csv", "weight", &[]);
    assert_eq!(csv.len(), rows.len());
    assert!(
        csv.iter().map(|entry| entry.2).sum::<f64>() == rows.iter().map(|row| f64::from(row.2)).sum::<f64>()
    );
    assert_eq!(csv, read("w.tns", "5", &[]));
    // Weights as whole numbers and as floating point ones.
    for whole in [true, false] {
        write_parquet(&folder.path().join("w.parquet"), &one_based, whole);
        assert_eq!(csv, read("w.parquet", "weight", &[]), "whole numbers: {whole}");
    }
    assert_eq!(csv, read("w.txt", "5", &["--modes", "1,2,3", "--value", "4"]));
    // With little memory rows go through scratch files: the same bytes.
    assert_eq!(csv, read("w.csv", "weight", &["--memory", "24M"]));
}

#[test]
fn rows_of_one_entry_are_joined_by_weight() {
    let folder = tempfile::tempdir().unwrap();
    let text = "a,b,value,weight\nx,y,1,1\nx,y,4,3\nx,z,2,0\nx,z,4,0\nw,y,5,2\n";
    std::fs::write(folder.path().join("d.csv"), text).unwrap();
    for (rule, xy, xz) in [
        ("mean", (3.25, 4.0), (3.0, 0.0)),
        ("sum", (5.0, 4.0), (6.0, 0.0)),
        ("first", (1.0, 1.0), (2.0, 0.0)),
        ("last", (4.0, 3.0), (4.0, 0.0)),
    ] {
        let arguments = ["convert", "d.csv", "-o", "d", "--force", "--weights", "weight", "--split", "none"];
        json(&[&arguments[..], &["--duplicates", rule]].concat(), folder.path());
        let dataset = Dataset::open(folder.path().join("d")).unwrap();
        let mut found = Vec::new();
        for shard in dataset.shards(Split::Train).unwrap() {
            let mut buffer = Vec::new();
            let bytes = shard.read_block(0, &mut buffer).unwrap();
            shard.view(0, bytes).unwrap().for_each_weighted(|_, value, weight| found.push((value, weight)));
        }
        found.sort_by(|a, b| a.partial_cmp(b).unwrap());
        let mut expected = vec![xy, xz, (5.0, 2.0)];
        expected.sort_by(|a, b| a.partial_cmp(b).unwrap());
        assert_eq!(found, expected, "{rule}");
        // z has no entry of weight: it counts as without train entries.
        assert_eq!(dataset.manifest().modes[1].statistics.in_train, 1);
    }
}

#[test]
fn wrong_weights_get_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let write = |text: &str| std::fs::write(folder.path().join("d.csv"), text).unwrap();
    let convert = ["convert", "d.csv", "-o", "d", "--split", "none", "--weights", "weight"];
    for (weight, what) in [
        ("-1", "weight is -1, but weights are not negative"),
        ("inf", "no finite number"),
        ("x", "no number"),
        ("", "weight is empty"),
    ] {
        write(&format!("a,b,value,weight\nx,y,1,1\nx,z,4,{weight}\n"));
        let said = failure_of(folder.path(), &convert);
        assert!(said.contains(what) && said.contains("d.csv") && said.contains('3'), "{said}");
        assert!(!folder.path().join("d").exists());
    }
    write("a,b,value,weight\nx,y,1,0\nx,z,4,0\n");
    let said = failure_of(folder.path(), &convert);
    assert!(said.contains("all train entries have the weight (weight) 0"), "{said}");
    let said = failure_of(folder.path(), &[&convert[..], &["--value", "weight"]].concat());
    assert!(said.contains("weights need a column of their own"), "{said}");
    let said = failure_of(folder.path(), &["convert", "d.csv", "-o", "d", "--weights", "w"]);
    assert!(said.contains("there is no column 'w'"), "{said}");
}

/// Datasets without weights are what they were; those with weights are refused by older programs.
#[test]
fn the_format_tells_weights() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = weighted_dataset(folder.path());
    let shard = std::fs::read(dataset.join("train/00000.shard")).unwrap();
    assert_eq!(shard[8], 2, "format version");
    json(
        &["convert", "w.csv", "-o", "plain", "--split", "none", "--modes", "a,b,c", "--value", "value"],
        folder.path(),
    );
    let shard = std::fs::read(folder.path().join("plain/train/00000.shard")).unwrap();
    assert_eq!(shard[8], 1);
    let manifest = std::fs::read_to_string(folder.path().join("plain/manifest.json")).unwrap();
    assert!(manifest.contains("\"format_version\": 1") && !manifest.contains("weights"));
    assert!(
        std::fs::read_to_string(dataset.join("manifest.json")).unwrap().contains("\"format_version\": 2")
    );
}

#[test]
fn all_commands_tell_of_weights() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("w.csv"), &rows(), ",", true);
    let run = [
        "complete",
        "w.csv",
        "-o",
        "run",
        "--rank",
        "2,2,2",
        "--weights",
        "weight",
        "--max-iterations",
        "30",
    ];
    let said = output(folder.path(), &run);
    assert!(said.contains("weighted by weight: train weights 0 to 3"), "{said}");
    assert!(said.contains("errors are means weighted by weight"), "{said}");
    let found = json(&["evaluate", "run"], folder.path());
    assert_eq!(found["weighted"], true);
    // The weighted error from predictions, row by row.
    let dataset = Dataset::open(folder.path().join("run/data.tenfill")).unwrap();
    let model = tenfill_engine::Model::read(&folder.path().join("run")).unwrap();
    let order = dataset.manifest().mode_order.clone();
    let (mut squares, mut weights) = (0.0, 0.0);
    for shard in dataset.shards(Split::Test).unwrap() {
        let mut buffer = Vec::new();
        for number in 0..shard.blocks().len() {
            let bytes = shard.read_block(number, &mut buffer).unwrap();
            shard.view(number, bytes).unwrap().for_each_weighted(|levels, value, weight| {
                let mut indices = vec![None; 3];
                levels.iter().zip(&order).for_each(|(index, mode)| indices[*mode] = Some(*index));
                squares += weight * (model.predict(&indices).value - value).powi(2);
                weights += weight;
            });
        }
    }
    assert!((found["mse"].as_f64().unwrap() / (squares / weights) - 1.0).abs() < 1e-10);
    let said = output(folder.path(), &["inspect", "run/data.tenfill"]);
    assert!(said.contains("weighted by weight"), "{said}");
    output(folder.path(), &["report", "run", "-o", "report.html"]);
    assert!(
        std::fs::read_to_string(folder.path().join("report.html")).unwrap().contains("weighted by weight")
    );
    let line = json(&["predict", "run", "w.csv", "-o", "out.csv"], folder.path());
    assert_eq!(line["weights"], "weight");
}
