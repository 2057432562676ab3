//! The bound that sweeps climb: no step of an exact one lowers it, and none of the updates of a prior does.

use crate::common::{folder, json};
use crate::sweeps::{Naive, expected, inverse, naive_sweep, row, square, table};
use tenfill_engine::bayes::{Data, Fit, Level, Slices};
use tenfill_engine::shard::{Dataset, Split};
use tenfill_engine::stream::Stream;

fn log_determinant(matrix: &[Vec<f64>]) -> f64 {
    let (mut rows, mut sum) = (matrix.to_vec(), 0.0);
    for i in 0..rows.len() {
        assert!(rows[i][i] > 0.0);
        sum += rows[i][i].ln();
        for other in i + 1..rows.len() {
            let by = rows[other][i] / rows[i][i];
            for j in i..rows.len() {
                rows[other][j] -= by * rows[i][j];
            }
        }
    }
    sum
}

/// E(x x^T), with the numbers of a row in their places, and a one in another.
fn second(of: &(Vec<f64>, Vec<Vec<f64>>), places: &[usize], one: usize) -> (Vec<f64>, Vec<Vec<f64>>) {
    let n = places.len() + 1;
    let (mut mean, mut both) = (vec![0.0; n], vec![vec![0.0; n]; n]);
    mean[one] = 1.0;
    places.iter().zip(&of.0).for_each(|(&place, m)| mean[place] = *m);
    for a in 0..n {
        for b in 0..n {
            both[a][b] = mean[a] * mean[b];
        }
    }
    for (a, &i) in places.iter().enumerate() {
        for (b, &j) in places.iter().enumerate() {
            both[i][j] += of.1[a][b];
        }
    }
    (mean, both)
}

/// The expected squares of what is left of all entries, rows of the two modes being independent.
fn squares(one: &Naive, two: &Naive, entries: &[(usize, usize, f64)]) -> f64 {
    let k = one[0].0.len();
    // A value is p q + b 1 + 1 c.
    let (first, mut other): (Vec<usize>, Vec<usize>) = ((0..k).collect(), (0..k).collect());
    other[k - 1] = k;
    let of_one: Vec<_> = one.iter().map(|row| second(row, &first, k)).collect();
    let of_two: Vec<_> = two.iter().map(|row| second(row, &other, k - 1)).collect();
    let of = |&(u, i, y): &(usize, usize, f64)| {
        let ((x, xx), (z, zz)) = (&of_one[u], &of_two[i]);
        let mean: f64 = x.iter().zip(z).map(|(x, z)| x * z).sum();
        let square: f64 = xx.iter().flatten().zip(zz.iter().flatten()).map(|(x, z)| x * z).sum();
        y * y - 2.0 * y * mean + square
    };
    entries.iter().map(of).sum()
}

/// What the entries say to a noise.
fn likelihood(squares: f64, noise: f64, count: usize) -> f64 {
    -0.5 * (count as f64 * noise.ln() + squares / noise)
}

/// What a prior says to rows, and how uncertain they are.
fn of_rows(level: &Level, rows: &Naive) -> f64 {
    let v = square(&level.prior.covariance);
    let (precision, log_v) = (inverse(&v), log_determinant(&v));
    let mut sum = 0.0;
    for (index, (mean, s)) in rows.iter().enumerate().filter(|(index, _)| level.counts[*index] > 0.0) {
        let away: Vec<f64> = mean.iter().zip(expected(level, index)).map(|(m, e)| m - e).collect();
        sum += log_determinant(s) - log_v;
        for a in 0..mean.len() {
            for b in 0..mean.len() {
                sum -= precision[a][b] * (away[a] * away[b] + s[a][b]);
            }
        }
    }
    0.5 * sum
}

/// The ridge on the features' weights, with a prior's covariance.
fn ridge(level: &Level, coefficients: &[f64], ridge: f64) -> f64 {
    let (k, precision) = (level.width, inverse(&square(&level.prior.covariance)));
    let n = coefficients.len() / k;
    let of = |f: usize| {
        let column = |i: usize| coefficients[i * n + f];
        (0..k)
            .flat_map(|a| (0..k).map(move |b| (a, b)))
            .map(|(a, b)| precision[a][b] * column(a) * column(b))
            .sum::<f64>()
    };
    -0.5 * ridge * (1..n).map(of).sum::<f64>()
}

/// The rows of the second mode as they are kept.
fn kept(level: &Level) -> Naive {
    let (k, wide) = (level.width, Level::covariance_numbers(level.width));
    let of = |index: usize| {
        let s = |a: usize, b: usize| match level.covariances.get(index * wide..) {
            Some(s) if !s.is_empty() => f64::from(s[a.max(b) * (a.max(b) + 1) / 2 + a.min(b)]),
            _ => f64::from(u8::from(a == b)) * f64::from(level.variances[index * k + a]),
        };
        (row(level, index), (0..k).map(|a| (0..k).map(|b| s(a, b)).collect()).collect())
    };
    (0..level.rows).map(of).collect()
}

/// Not below, but for rounding (variances are kept in single precision).
fn rises(what: &str, before: f64, after: f64) {
    assert!(after >= before - 1e-5 * before.abs().max(1.0), "{what}: {before} and then {after}");
}

fn climb(rank: usize, dataset: &Dataset, data: &Data<'_>) {
    let manifest = dataset.manifest();
    let (mut fit, _) = Fit::begin(manifest, data, None, |_| rank, None, 1).unwrap();
    let mut entries = Vec::new();
    let read = dataset.for_each(Split::Train, |at, y| {
        let levels = [at[manifest.mode_order[0]], at[manifest.mode_order[1]]];
        entries.push((levels[0] as usize, levels[1] as usize, (y - fit.terms.mean) / fit.terms.spread));
    });
    read.unwrap();
    (0..3).for_each(|_| assert_eq!(fit.sweep(data).unwrap(), 1));
    for sweep in 4..12 {
        let mut before = fit.clone();
        before.turn().unwrap();
        let (one, two, noise) = naive_sweep(&before, &entries);
        fit.sweep(data).unwrap();
        let [level_one, level_two] = [&before.posterior.levels[0], &before.posterior.levels[1]];
        let (old_two, old_noise) = (kept(level_two), before.posterior.noise);
        let count = entries.len();
        // Rows of the first mode: nothing near them is better. (Whether they were turned since makes no difference to
        // the others: what they are is not looked at.)
        let bound = |one: &Naive| {
            likelihood(squares(one, &old_two, &entries), old_noise, count) + of_rows(level_one, one)
        };
        let best = bound(&one);
        for (n, by) in [(0, 1e-3), (1, -1e-2), (2, 1e-1)] {
            let mut moved = one.clone();
            moved.iter_mut().enumerate().for_each(|(u, row)| {
                let at = (u + n) % row.0.len();
                row.0[at] += by;
                row.1.iter_mut().flatten().for_each(|s| *s *= 1.0 + by);
            });
            rises(&format!("sweep {sweep}, rows beside"), bound(&moved), best);
        }
        // The noise.
        let left = squares(&one, &old_two, &entries);
        rises(
            &format!("sweep {sweep}, noise"),
            likelihood(left, old_noise, count),
            likelihood(left, noise, count),
        );
        assert!((noise / (left / count as f64) - 1.0).abs() < 1e-6, "sweep {sweep}: {noise}");
        // Rows of the second mode.
        let of_two =
            |two: &Naive| likelihood(squares(&one, two, &entries), noise, count) + of_rows(level_two, two);
        rises(&format!("sweep {sweep}, second mode"), of_two(&old_two), of_two(&two));
        // Priors: weights of features first, with a ridge, then what they leave over.
        for (number, rows) in [(0, &one), (1, &two)] {
            let (old, new) = (&before.posterior.levels[number], &fit.posterior.levels[number]);
            let with = |coefficients: &[f64], covariance: &[f64]| {
                let mut level = old.clone();
                level.prior.coefficients = coefficients.to_vec();
                level.prior.covariance = covariance.to_vec();
                level
            };
            let (b, v) = (&new.prior.coefficients, &old.prior.covariance);
            let penalised = |b: &[f64]| of_rows(&with(b, v), rows) + ridge(old, b, new.prior.ridge);
            rises(
                &format!("sweep {sweep}, weights {number}"),
                penalised(&old.prior.coefficients),
                penalised(b),
            );
            let left = |v: &[f64]| of_rows(&with(b, v), rows);
            rises(&format!("sweep {sweep}, prior {number}"), left(v), left(&new.prior.covariance));
        }
    }
}

#[test]
fn no_step_of_an_exact_sweep_lowers_the_bound() {
    let folder = folder();
    table(&folder.path().join("t.csv"), 1.0, 0.0, None);
    json(&folder, "convert t.csv -o t --modes user,item --value value --split 100/0/0");
    let dataset = Dataset::open(folder.path().join("t")).unwrap();
    let train = Stream::open(&dataset, Split::Train, None).unwrap();
    let slices = Slices::new(&train, 1.0, 2).unwrap();
    let data = Data::of(&train, &slices);
    // With variances of the second mode, and with whole covariances.
    climb(2, &dataset, &data);
    climb(9, &dataset, &data);
}
