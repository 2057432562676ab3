//! Rows fitted to their own entries, against the formula row by row, and as a user sees it.

use crate::common::run;
use serde_json::Value;
use std::path::Path;
use tenfill_engine::budget::Budget;
use tenfill_engine::kernel::Precision;
use tenfill_engine::manifold::{Distribution, Point, random_point};
use tenfill_engine::model::Biases;
use tenfill_engine::objective::rows_fit::RowsFit;
use tenfill_engine::objective::{Streamed, bias_fit, thresholds};
use tenfill_engine::shard::Split;
use tenfill_engine::stream::Access;
use tenfill_engine::team::Team;
use tenfill_engine::{Dataset, Model};

/// Entries with their weights, and the same as a dataset.
fn data(folder: &Path, dims: &[u32], weighted: bool) -> (Dataset, Vec<(Vec<u32>, f64, f64)>) {
    let mut state = 5u64;
    let mut next = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut seen = std::collections::BTreeMap::new();
    for _ in 0..4000 {
        let index: Vec<u32> = dims.iter().map(|&dim| next(u64::from(dim)) as u32).collect();
        seen.insert(index, (next(1000) as f64 / 250.0, if weighted { next(4) as f64 / 2.0 } else { 1.0 }));
    }
    // No entry at all for one row of every mode.
    seen.retain(|index, _| index.iter().all(|&index| index != 3));
    let names: Vec<String> = (0..dims.len()).map(|mode| format!("m{mode}")).collect();
    let mut text = format!("{},value,weight\n", names.join(","));
    for (index, (value, weight)) in &seen {
        let index: Vec<String> = index.iter().map(u32::to_string).collect();
        text += &format!("{},{value},{weight}\n", index.join(","));
    }
    std::fs::write(folder.join("d.csv"), text).unwrap();
    let dims: Vec<String> = dims.iter().map(u32::to_string).collect();
    let (dims, names) = (dims.join(","), names.join(","));
    let mut arguments = vec!["convert", "d.csv", "-o", "d", "--force", "--split", "none", "--zero-based"];
    arguments.extend(["--dims", &dims, "--modes", &names, "--value", "value"]);
    if weighted {
        arguments.extend(["--weights", "weight"]);
    }
    run(folder, arguments);
    let entries = seen.into_iter().map(|(index, (value, weight))| (index, value, weight));
    (Dataset::open(folder.join("d")).unwrap(), entries.filter(|entry| entry.2 > 0.0).collect())
}

type Matrix = Vec<Vec<f64>>;

fn zeros(n: usize) -> Matrix {
    vec![vec![0.0; n]; n]
}

/// Gauss and Jordan.
fn inverse(mut a: Matrix) -> Matrix {
    let n = a.len();
    let mut out = zeros(n);
    (0..n).for_each(|i| out[i][i] = 1.0);
    for i in 0..n {
        let by = a[i][i];
        a[i].iter_mut().chain(&mut out[i]).for_each(|x| *x /= by);
        for other in (0..n).filter(|&other| other != i) {
            let x = a[other][i];
            for j in 0..n {
                a[other][j] -= x * a[i][j];
                out[other][j] -= x * out[i][j];
            }
        }
    }
    out
}

/// A row with its bias, as mean and covariance.
struct Row {
    mean: Vec<f64>,
    covariance: Matrix,
}

/// The model and what is known of its rows, by the formulas.
struct Naive<'a> {
    entries: &'a [(Vec<u32>, f64, f64)],
    point: Point,
    biases: Option<Biases>,
    /// By mode, as priors are.
    rows: Vec<Vec<Row>>,
    priors: Vec<(Vec<f64>, Matrix)>,
    noise: f64,
    /// Values beyond these say only that.
    thresholds: Option<(f64, f64)>,
}

/// Mean and variance of a normal distribution cut off on one side, by Simpson's rule.
fn cut(mu: f64, variance: f64, threshold: f64, above: bool) -> (f64, f64) {
    let (s, side) = (variance.sqrt(), if above { 1.0 } else { -1.0 });
    // How far beyond the threshold, in standard deviations; the farther away it is, the faster that falls.
    let away = side * (threshold - mu) / s;
    let from = (-away - 14.0).max(0.0);
    let to = if away > 0.0 { (40.0 / away).min(14.0) } else { 14.0 - away };
    let (n, mut sums) = (8000, [0.0; 3]);
    let nearest = away.max(0.0);
    for k in 0..=n {
        let x = from + (to - from) * f64::from(k) / f64::from(n);
        let rule = if k == 0 || k == n { 1.0 } else { f64::from(2 + 2 * (k % 2)) };
        let weight = rule * (-0.5 * ((away + x).powi(2) - nearest.powi(2))).exp();
        (0..3).for_each(|power| sums[power] += weight * x.powi(power as i32));
    }
    let mean = sums[1] / sums[0];
    (threshold + side * s * mean, variance * (sums[2] / sums[0] - mean * mean))
}

impl Naive<'_> {
    /// The core contracted with an entry's rows of all modes but the two: own x other.
    fn matrix(&self, index: &[u32], own: usize, other: usize) -> Matrix {
        let ranks = self.point.ranks();
        let mut out = vec![vec![0.0; ranks[other]]; ranks[own]];
        for (position, g) in self.point.core.as_slice().iter().enumerate() {
            let (mut rest, mut number, mut at) = (position, *g, vec![0; ranks.len()]);
            for mode in (0..ranks.len()).rev() {
                at[mode] = rest % ranks[mode];
                rest /= ranks[mode];
                if mode != own && mode != other {
                    number *= self.point.factors[mode].row(index[mode] as usize)[at[mode]];
                }
            }
            out[at[own]][at[other]] += number;
        }
        out
    }

    /// Rows of a mode, with what is uncertain about those of another.
    fn fit(&mut self, own: usize, other: usize) {
        let (r, n) = (self.point.ranks()[own], self.point.ranks()[other]);
        let (biased, dim) = (self.biases.is_some(), self.point.factors[own].rows());
        let k = r + usize::from(biased);
        let mean_weight = self.entries.iter().map(|entry| entry.2).sum::<f64>() / self.entries.len() as f64;
        let mut sums = vec![(zeros(k), vec![0.0; k], 0.0, 0.0); dim];
        for (index, value, weight) in self.entries {
            let weight = weight / mean_weight;
            let c = self.matrix(index, own, other);
            let Row { mean, covariance } = &self.rows[other][index[other] as usize];
            let (mut t, mut doubt) = (*value, 0.0);
            if let Some((below, above)) = self.thresholds.filter(|(a, b)| value <= a || value >= b) {
                let at: Vec<usize> = index.iter().map(|&i| i as usize).collect();
                let biases = self.biases.as_ref();
                let biases = biases.map_or(0.0, |b| {
                    b.mean + at.iter().zip(&b.modes).map(|(&i, biases)| biases[i]).sum::<f64>()
                });
                let mu = biases + self.point.value_at(&at);
                let is_above = *value >= above;
                (t, doubt) = cut(mu, self.noise, if is_above { above } else { below }, is_above);
            }
            if let Some(biases) = &self.biases {
                t -= biases.mean;
                for (mode, &i) in index.iter().enumerate().filter(|(mode, _)| *mode != own) {
                    t -= biases.modes[mode][i as usize];
                }
            }
            let mut z: Vec<f64> = c.iter().map(|c| c.iter().zip(mean).map(|(c, v)| c * v).sum()).collect();
            z.resize(k, 1.0);
            let (a, b, squares, total) = &mut sums[index[own] as usize];
            for i in 0..k {
                b[i] += weight * t * z[i];
                for j in 0..k {
                    a[i][j] += weight * z[i] * z[j];
                }
            }
            for i in 0..r {
                for p in 0..n {
                    if biased {
                        b[i] -= weight * c[i][p] * covariance[p][n];
                    }
                    for j in 0..r {
                        for q in 0..n {
                            a[i][j] += weight * c[i][p] * covariance[p][q] * c[j][q];
                        }
                    }
                }
            }
            *squares += weight * (t * t + doubt + if biased { covariance[n][n] } else { 0.0 });
            *total += weight;
        }
        let (prior_mean, prior) = &self.priors[own];
        let precision = inverse(prior.clone());
        let (mut count, mut mean, mut second) = (0.0, vec![0.0; k], zeros(k));
        let (mut squares, mut weight) = (0.0, 0.0);
        let seen: Vec<usize> = (0..dim).filter(|&row| sums[row].3 > 0.0).collect();
        for row in seen {
            let (a, b, square, total) = &sums[row];
            let mut m = zeros(k);
            for i in 0..k {
                (0..k).for_each(|j| m[i][j] = a[i][j] / self.noise + precision[i][j]);
            }
            let covariance = inverse(m);
            let right: Vec<f64> = (0..k)
                .map(|i| b[i] / self.noise + (0..k).map(|j| precision[i][j] * prior_mean[j]).sum::<f64>())
                .collect();
            let x: Vec<f64> =
                covariance.iter().map(|s| s.iter().zip(&right).map(|(s, b)| s * b).sum()).collect();
            (count, squares, weight) = (count + 1.0, squares + square, weight + total);
            for i in 0..k {
                mean[i] += x[i];
                squares -= 2.0 * x[i] * b[i];
                for j in 0..k {
                    second[i][j] += x[i] * x[j] + covariance[i][j];
                    squares += a[i][j] * (x[i] * x[j] + covariance[i][j]);
                }
            }
            self.point.factors[own].row_mut(row).copy_from_slice(&x[..r]);
            if let Some(biases) = &mut self.biases {
                biases.modes[own][row] = x[r];
            }
            // Covariances are kept in single precision.
            let single = |row: Vec<f64>| row.into_iter().map(|x| f64::from(x as f32)).collect();
            let covariance = covariance.into_iter().map(single).collect();
            self.rows[own][row] = Row { mean: x, covariance };
        }
        self.noise = squares / weight;
        self.priors[own] = moments(count, mean, second);
    }
}

fn moments(count: f64, mean: Vec<f64>, second: Matrix) -> (Vec<f64>, Matrix) {
    let mean: Vec<f64> = mean.iter().map(|x| x / count).collect();
    let covariance = |i: usize, j: usize| second[i][j] / count - mean[i] * mean[j];
    let covariance = (0..mean.len()).map(|i| (0..mean.len()).map(|j| covariance(i, j)).collect()).collect();
    (mean, covariance)
}

/// Rows as they are, without any doubt about them, and what they look like together.
fn start(
    point: &Point,
    biases: Option<&Biases>,
    mode: usize,
    entries: &[(Vec<u32>, f64, f64)],
) -> (Vec<Row>, (Vec<f64>, Matrix)) {
    let k = point.ranks()[mode] + usize::from(biases.is_some());
    let (mut count, mut sum, mut second, mut rows) = (0.0, vec![0.0; k], zeros(k), Vec::new());
    for row in 0..point.factors[mode].rows() {
        let mut mean = point.factors[mode].row(row).to_vec();
        mean.extend(biases.map(|biases| biases.modes[mode][row]));
        if entries.iter().any(|entry| entry.0[mode] as usize == row) {
            count += 1.0;
            for i in 0..k {
                sum[i] += mean[i];
                (0..k).for_each(|j| second[i][j] += mean[i] * mean[j]);
            }
        }
        rows.push(Row { mean, covariance: zeros(k) });
    }
    (rows, moments(count, sum, second))
}

/// Dimensions, ranks, the two modes, and whether there are biases and weights.
type Case<'a> = (&'a [u32], &'a [usize], [usize; 2], bool, bool);

/// Without thresholds, with some that many values are beyond, and with one that none is; and whether the
/// rows of all other modes are fitted as well.
const MORE: [(Option<(f64, f64)>, bool); 4] =
    [(None, false), (Some((0.6, 3.1)), false), (None, true), (Some((-1.0, 3.5)), true)];

#[test]
fn sweeps_are_those_of_the_formula() {
    let cases: [Case<'_>; 5] = [
        (&[30, 50], &[3, 3], [0, 1], true, false),
        (&[400, 60, 12], &[3, 2, 2], [0, 1], true, false),
        // The mode that comes first on disk is the second of the two, or none of them.
        (&[9, 700, 40], &[2, 3, 2], [0, 1], true, true),
        (&[9, 12, 300], &[2, 2, 3], [0, 1], false, false),
        (&[8, 30, 5, 20], &[2, 3, 2, 2], [1, 3], true, true),
    ];
    for ((dims, ranks, main, biased, weighted), (thresholds, all)) in
        cases.into_iter().flat_map(|case| MORE.map(|more| (case, more)))
    {
        let folder = crate::common::folder();
        let (dataset, entries) = data(folder.path(), dims, weighted);
        let budget = Budget::new(1 << 30).unwrap();
        let streamed =
            Streamed::open(&dataset, ranks, Precision::F64, &budget, Some(Access::Cached)).unwrap();
        let (counts, _) = bias_fit::count(dataset.manifest(), streamed.train(), None).unwrap();
        let sizes: Vec<usize> = dims.iter().map(|&dim| dim as usize).collect();
        let mut point = random_point(&sizes, ranks, Distribution::Gaussian, 3);
        // Rows without entries are zero, as the recipe has them.
        let unseen = |mode: usize| {
            let weights = &counts.modes[mode];
            (0..weights.len()).filter(|&row| weights[row] == 0.0).collect::<Vec<usize>>()
        };
        for mode in 0..dims.len() {
            assert!(unseen(mode).contains(&3));
            point.factors[mode].scale(3.0);
            unseen(mode).into_iter().for_each(|row| point.factors[mode].row_mut(row).fill(0.0));
        }
        let mut biases = biased.then(|| Biases {
            mean: 2.0,
            modes: sizes.iter().map(|&n| (0..n).map(|i| (i as f64).sin() * 0.2).collect()).collect(),
            time: None,
            pairs: Vec::new(),
        });
        for (mode, values) in biases.iter_mut().flat_map(|biases| biases.modes.iter_mut().enumerate()) {
            unseen(mode).into_iter().for_each(|row| values[row] = 0.0);
        }
        let of = |mode: usize| start(&point, biases.as_ref(), mode, &entries);
        let (rows, priors) = (0..dims.len()).map(of).unzip();
        let others: Vec<usize> = (0..dims.len()).filter(|mode| all && !main.contains(mode)).collect();
        let mut naive = Naive {
            entries: &entries,
            point: point.clone(),
            biases: biases.clone(),
            rows,
            priors,
            noise: 1.3,
            thresholds,
        };
        let order = streamed.mode_order();
        let sweep = |room: u64, threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let (mut point, mut biases) = (point.clone(), biases.clone());
            let passes = pool.install(|| {
                let (team, known) = (Team::alone(), biases.as_ref());
                let mut fit =
                    RowsFit::new(team, order, &counts, main, &point, known, 1.3, 1.0, room).unwrap();
                thresholds.into_iter().for_each(|thresholds| fit.censor(thresholds));
                assert!(fit.fit_others(&others, &point, known));
                let mut sweep = || {
                    let (train, exchange) = (streamed.train(), streamed.exchange());
                    fit.sweep(train, exchange, &mut point, &mut biases).unwrap().unwrap()
                };
                sweep() + sweep() + sweep()
            });
            (point, biases, passes)
        };
        let ours = sweep(1 << 30, 2);
        for _ in 0..3 {
            naive.fit(main[0], main[1]);
            naive.fit(main[1], main[0]);
            // The less certain of the two is the one of more rows.
            let partner = if sizes[main[0]] >= sizes[main[1]] { main[0] } else { main[1] };
            for &mode in &others {
                let noise = naive.noise;
                naive.fit(mode, partner);
                naive.noise = noise;
            }
        }
        for (mode, &n) in sizes.iter().enumerate() {
            let mut expected: Vec<f64> = naive.point.factors[mode].as_slice().to_vec();
            let mut found = ours.0.factors[mode].as_slice().to_vec();
            expected.extend(naive.biases.iter().flat_map(|biases| &biases.modes[mode]));
            found.extend(ours.1.iter().flat_map(|biases| &biases.modes[mode]));
            assert!(n <= expected.len() && expected.len() == found.len());
            let size = expected.iter().map(|x| x * x).sum::<f64>().sqrt();
            let error = expected.iter().zip(&found).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
            assert!(error < 1e-8 * size, "{dims:?} mode {mode}: {:.1e}", error / size);
        }
        // Rows in batches, and on other threads: the same bits.
        let batches = sweep(1, 1);
        assert!(batches.0 == ours.0 && batches.1 == ours.1, "{dims:?}");
    }
}

#[test]
fn a_threshold_lies_halfway_to_the_next_value() {
    for weighted in [false, true] {
        let folder = crate::common::folder();
        let (dataset, entries) = data(folder.path(), &[60, 40, 12], weighted);
        let budget = Budget::new(1 << 30).unwrap();
        let streamed =
            Streamed::open(&dataset, &[1, 1, 1], Precision::F64, &budget, Some(Access::Cached)).unwrap();
        // Entries without weight are none.
        let mut values: Vec<f64> = entries.iter().map(|entry| entry.1).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let (least, most, n) = (values[0], values[values.len() - 1], values.len());
        let expected = ((least + values[1]) / 2.0, (values[n - 2] + most) / 2.0);
        let (below, above) = thresholds(streamed.train(), (least, most)).unwrap().unwrap();
        assert!((below - expected.0).abs() < 1e-12 && (above - expected.1).abs() < 1e-12);
        // Where there are but two values, there is nothing between the ends.
        assert_eq!(thresholds(streamed.train(), (values[5], values[6])).unwrap(), None);
    }
}

fn line(folder: &Path, arguments: &str) -> Value {
    run(folder, arguments.split_whitespace())
}

#[test]
fn rows_get_better_or_are_left_alone() {
    let folder = crate::common::folder();
    let place = folder.path();
    line(place, "synth -o r --kind ratings --dims 500,300,40 --entries 30000 --validation 0.1 --test 0.1");
    let without = line(place, "complete r -o without --rank 4,4,1 --no-refine");
    let with = line(place, "complete r -o with --rank 4,4,1 --grow");
    let number = |line: &Value, field: &str| line[field].as_f64().unwrap();
    let tried = |line: &Value| line["tried"].as_array().unwrap().clone();
    let changes = |line: &Value| tried(line).iter().map(|tried| tried["change"].clone()).collect::<Vec<_>>();
    // The rows, and then the same with values at the ends for what they may stand for.
    let last = |line: &Value| tried(line).split_off(tried(line).len() - 2);
    let ends_with = |line: &Value, last: &[&str]| {
        let last: Vec<Value> = last.iter().map(|&change| change.into()).collect();
        changes(line).ends_with(&last)
    };
    // Weeks are held here; where they are not, their rows are fitted as well.
    assert!(ends_with(&with, &["rows", "ends"]));
    assert!(["rows", "others", "ends"].iter().all(|&change| !changes(&without).contains(&change.into())));
    assert_eq!(without["iterations"], with["iterations"]);
    assert!(number(&with, "passes") > number(&without, "passes"));
    let [rows, ends] = <[Value; 2]>::try_from(last(&with)).unwrap();
    assert!(rows["kept"] == true && ends["kept"] == true);
    assert!(number(&ends, "validation_mse") < number(&rows, "validation_mse"));
    assert!(number(&with, "validation_mse") < number(&without, "validation_mse"));
    // What is told is what is in the model.
    let scored = line(place, "evaluate with --on validation");
    assert_eq!(scored["mse"], with["validation_mse"]);
    let dataset = Dataset::open(place.join("r")).unwrap();
    assert!(dataset.manifest().split(Split::Validation).entries > 0);
    // Asked for by name, it goes with fixed settings too; the paper's method has no such rows.
    let fixed =
        line(place, "complete r -o fixed --rank 3,3,1 --bias modes --penalty 0.05 --no-grow --refine");
    assert!(ends_with(&fixed, &["rows", "others", "ends"]));
    // Where nothing is clipped, a value is what it is.
    let free = line(place, "complete r -o free --rank 4,4,1 --grow --no-clip");
    assert!(!changes(&free).contains(&"ends".into()) && changes(&free).contains(&"rows".into()));
    assert_eq!(Model::read(&place.join("free")).unwrap().about.ends, None);
    let ends = Model::read(&place.join("with")).unwrap().about.ends.unwrap();
    // Half stars from half a star to five, made with noise of 0.78.
    assert_eq!((ends.below, ends.above), (0.75, 4.75));
    assert!((0.7..0.9).contains(&ends.noise), "{ends:?}");
    // Any number of threads.
    line(place, "complete r -o threads --rank 4,4,1 --grow --threads 3");
    let model = |run: &str| std::fs::read(place.join(run).join("model/model.bin")).unwrap();
    assert!(model("threads") == model("with"));
    let plain = line(place, "complete r -o plain --rank 3,3,1 --bias none --penalty 0 --no-grow");
    assert_eq!(plain["tried"].as_array().unwrap().len(), 0);
    // A run that has ended comes to the same model again.
    let before = std::fs::read(place.join("with/model/model.bin")).unwrap();
    let again = line(place, "resume with");
    assert_eq!(again["test_mse"], with["test_mse"]);
    assert_eq!(before, std::fs::read(place.join("with/model/model.bin")).unwrap());
}
