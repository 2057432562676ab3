//! Scales, stops and what is not finite.

mod refused;
mod scales;
mod stops;
mod verified;

use crate::common::{stderr, tenfill};
use std::path::Path;
use std::process::Output;

/// The options of the plain method.
const PLAIN: &str = "--bias none --penalty 0 --no-clip";

/// A row: ids, value, weight.
type Row = ([u32; 3], f64, f64);

/// Numbers that look random and are always the same.
fn draws(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

/// Distinct entries of a tensor, their values given by their ids and a random number below 1000.
fn rows(dims: [u64; 3], count: usize, seed: u64, value: impl Fn([f64; 3], u64) -> f64) -> Vec<Row> {
    let mut next = draws(seed);
    let mut seen = std::collections::BTreeMap::new();
    while seen.len() < count {
        let index = dims.map(|dim| next(dim) as u32);
        let (noise, weight) = (next(1000), 1.0 + next(3) as f64);
        seen.entry(index).or_insert((value(index.map(f64::from), noise), weight));
    }
    seen.into_iter().map(|(index, (value, weight))| (index, value, weight)).collect()
}

/// Data of rank 2 exactly: a few thousand entries of a small tensor.
fn low_rank() -> Vec<Row> {
    low_rank_of(SMALL, 4000)
}

const SMALL: [u64; 3] = [30, 25, 20];

fn low_rank_of(dims: [u64; 3], count: usize) -> Vec<Row> {
    rows(dims, count, 7, |[a, b, c], _| {
        let first = (1.0 + (0.3 * a).sin()) * (1.5 + (0.2 * b).cos()) * (1.0 + 0.1 * c);
        first + (0.7 * a).cos() * (0.5 * b).sin() * (0.4 * c).cos()
    })
}

/// Noise and nothing else.
fn noise() -> Vec<Row> {
    rows(SMALL, 3000, 11, |_, noise| noise as f64 / 100.0)
}

fn write(path: &Path, rows: &[Row], scale: f64, weight: f64) {
    let mut text = String::from("a,b,c,value,weight\n");
    for ([a, b, c], value, own) in rows {
        text += &format!("{a},{b},{c},{:e},{:e}\n", value * scale, own * weight);
    }
    std::fs::write(path, text).unwrap();
}

/// Runs a line of arguments.
fn output(folder: &Path, line: &str) -> Output {
    tenfill(folder).args(line.split(' ')).output().unwrap()
}

/// The one sentence of a command that must fail.
fn refusal(folder: &Path, line: &str) -> String {
    let output = output(folder, line);
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{line}: {told}");
    assert!(!told.contains("panicked"), "{told}");
    told
}

fn json(folder: &Path, line: &str) -> serde_json::Value {
    crate::common::run(folder, line.split(' '))
}
