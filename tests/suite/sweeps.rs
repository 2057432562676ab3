//! Noisy data in a few passes: sweeps over rows with priors that are learned.

use crate::common::{folder, json, result, stderr, tenfill};
use std::fmt::Write;
use std::path::Path;
use tenfill_engine::bayes::{Data, Fit, Level, Slices};
use tenfill_engine::shard::{Dataset, Split};
use tenfill_engine::stream::{LANES, Share, Stream};
use tenfill_engine::team::Team;

const RATINGS: &str =
    "synth -o r --kind ratings --dims 600,400,40 --entries 60000 --validation 0.1 --test 0.1";

/// Numbers that look random, the same everywhere.
pub fn random(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    }
}

#[test]
fn ratings_take_a_few_passes() {
    let folder = folder();
    json(&folder, RATINGS);
    let ours = json(&folder, "complete r -o sweeps --rank auto");
    let number = |of: &serde_json::Value, field: &str| of[field].as_f64().unwrap();
    // The search of the version before took 385 passes to a test MSE of 0.5997.
    assert!(number(&ours, "passes") <= 40.0 && number(&ours, "test_mse") < 1.005 * 0.5997, "{ours}");
    // What is told is what is in the model, for every command that reads one.
    let scored = json(&folder, "evaluate sweeps");
    assert_eq!(scored["mse"], ours["test_mse"]);
    assert_eq!(json(&folder, "evaluate sweeps --on train")["mse"], ours["train_mse"]);
    assert!(json(&folder, "verify sweeps")["ok"].as_bool().unwrap());
    // What a sweep has not is null, not 0.
    let log = std::fs::read_to_string(folder.path().join("sweeps/log.jsonl")).unwrap();
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        for field in ["train_mae", "gradient_norm", "step", "beta"] {
            assert_eq!(line[field], serde_json::Value::Null, "{field}: {line}");
        }
        assert!(number(&line, "train_mse") > 0.0);
    }
    assert!(ours["gradient_norm"].is_null());
    let read = tenfill_engine::run::read_log(&folder.path().join("sweeps/log.jsonl")).unwrap();
    assert_eq!(read.len(), log.lines().count());
    json(&folder, "export sweeps -o exported");
    json(&folder, "report sweeps -o report.html");
}

#[test]
fn interrupted_after_any_sweep_the_bits_are_the_same() {
    let folder = folder();
    json(&folder, RATINGS);
    for (name, options) in [("plain", ""), ("time", "--bias-time userId:week")] {
        let whole = json(&folder, &format!("complete r -o whole-{name} --rank auto --threads 2 {options}"));
        let last = whole["iterations"].as_u64().unwrap();
        assert!(last >= 6, "{whole}");
        let begin = "--rank auto --threads 1 --max-iterations 0";
        json(&folder, &format!("complete r -o parts-{name} {begin} {options}"));
        for iteration in 1..=last {
            let threads = iteration % 3 + 1;
            json(&folder, &format!("resume parts-{name} --max-iterations {iteration} --threads {threads}"));
        }
        let done = json(&folder, &format!("resume parts-{name} --max-iterations 250"));
        assert_eq!(done["tried"], whole["tried"]);
        let [parts, whole] = ["parts", "whole"].map(|of| folder.path().join(format!("{of}-{name}")));
        assert!(result(&parts) == result(&whole));
        // Nothing is left to try, and no option is said to change that.
        let again = ["resume", &format!("parts-{name}"), "--patience", "0", "--max-iterations", "500"];
        let said = stderr(&tenfill(&folder).args(again).output().unwrap());
        assert!(said.contains("settled and nothing is left to try") && !said.contains("goes on"), "{said}");
        // A model of sweeps has a time bias where one was asked for.
        let model = tenfill_engine::Model::read(&parts).unwrap();
        assert_eq!(model.biases.unwrap().time.is_some(), name == "time");
    }
}

/// A table of two modes whose values are biases, two components and noise, times a scale, plus an offset.
pub fn table(path: &Path, scale: f64, offset: f64, weight: Option<f64>) {
    let mut next = random(3);
    let mut normal = || (0..12).map(|_| next()).sum::<f64>() - 6.0;
    let (users, items) = (80, 60);
    let mut draw = |count: usize| (0..count * 3).map(|_| normal()).collect::<Vec<f64>>();
    let (p, q) = (draw(users), draw(items));
    let mut chosen = random(5);
    let mut noise = random(7);
    let mut text = String::from(if weight.is_some() { "user,item,value,w\n" } else { "user,item,value\n" });
    for u in 0..users {
        for i in 0..items {
            if chosen() < 0.5 {
                let (p, q) = (&p[u * 3..][..3], &q[i * 3..][..3]);
                let e = (0..12).map(|_| noise()).sum::<f64>() - 6.0;
                let y = 0.5 * p[2] + 0.5 * q[2] + p[0] * q[0] + 0.5 * p[1] * q[1] + 0.3 * e;
                write!(text, "{u},{i},{}", offset + scale * y).unwrap();
                weight.iter().for_each(|weight| write!(text, ",{weight}").unwrap());
                text.push('\n');
            }
        }
    }
    std::fs::write(path, text).unwrap();
}

#[test]
fn scale_offset_and_a_common_weight_change_nothing() {
    let folder = folder();
    let place = folder.path();
    let mut errors = Vec::new();
    for (name, scale, offset, weight) in
        [("a", 1.0, 0.0, None), ("b", 1e6, -3e7, None), ("c", 1e-5, 2.0, None), ("d", 1.0, 0.0, Some(7.0))]
    {
        table(&place.join(format!("{name}.csv")), scale, offset, weight);
        let weights = if weight.is_some() { " --weights w" } else { "" };
        json(&folder, &format!("convert {name}.csv -o {name} --modes user,item --value value{weights}"));
        let done = json(&folder, &format!("complete {name} -o run-{name} --rank auto"));
        assert_eq!(done["learned"], true, "{done}");
        errors.push(done["test_mse"].as_f64().unwrap().sqrt() / scale);
    }
    for error in &errors {
        assert!((error / errors[0] - 1.0).abs() < 1e-3, "{errors:?}");
    }
    // Near the noise, which has a standard deviation of 0.3.
    assert!(errors[0] < 0.5, "{errors:?}");
}

/// (A + B)^-1 and the like, without any cleverness.
pub fn inverse(matrix: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let n = matrix.len();
    let identity = |i: usize| (0..n).map(move |j| f64::from(u8::from(i == j)));
    let mut rows: Vec<Vec<f64>> =
        matrix.iter().enumerate().map(|(i, row)| row.iter().copied().chain(identity(i)).collect()).collect();
    for i in 0..n {
        let pivot = (i..n).max_by(|&a, &b| rows[a][i].abs().total_cmp(&rows[b][i].abs())).unwrap();
        rows.swap(i, pivot);
        let by = rows[i][i];
        rows[i].iter_mut().for_each(|x| *x /= by);
        for other in (0..n).filter(|&other| other != i) {
            let (by, from) = (rows[other][i], rows[i].clone());
            rows[other].iter_mut().zip(&from).for_each(|(x, y)| *x -= by * y);
        }
    }
    rows.into_iter().map(|row| row[n..].to_vec()).collect()
}

pub fn square(numbers: &[f64]) -> Vec<Vec<f64>> {
    let n = numbers.len().isqrt();
    numbers.chunks(n).map(<[f64]>::to_vec).collect()
}

/// B f of a row.
pub fn expected(level: &Level, row: usize) -> Vec<f64> {
    let (n, d) = (level.counts[row], level.features.width);
    let counted = |&x: &f32| f64::from(x) * n / (n + 3.0);
    let h: Vec<f64> = level.features.values[row * d..][..d].iter().map(counted).collect();
    let mut f = vec![1.0, n.ln() - 4.0];
    f.extend(&h);
    f.extend(h.iter().map(|h| n.sqrt() * h));
    level.prior.coefficients.chunks(f.len()).map(|b| b.iter().zip(&f).map(|(b, f)| b * f).sum()).collect()
}

pub fn row(level: &Level, index: usize) -> Vec<f64> {
    level.means[index * level.width..][..level.width].to_vec()
}

/// All values that a fit of two modes stands for.
fn values(fit: &Fit) -> Vec<f64> {
    let [one, two] = [&fit.posterior.levels[0], &fit.posterior.levels[1]];
    let k = one.width;
    let mut all = Vec::new();
    for u in 0..one.rows {
        for i in 0..two.rows {
            let (p, q) = (row(one, u), row(two, i));
            all.push(p[k - 1] + q[k - 1] + (0..k - 1).map(|c| p[c] * q[c]).sum::<f64>());
        }
    }
    all
}

/// Means and covariances of rows.
pub type Naive = Vec<(Vec<f64>, Vec<Vec<f64>>)>;

/// One exact sweep by the formulas of DESIGN, entry by entry: rows of both modes, and the noise.
pub fn naive_sweep(fit: &Fit, entries: &[(usize, usize, f64)]) -> (Naive, Naive, f64) {
    let [one, two] = [&fit.posterior.levels[0], &fit.posterior.levels[1]];
    let (k, noise) = (one.width, fit.posterior.noise);
    let (v_one, v_two) = (inverse(&square(&one.prior.covariance)), inverse(&square(&two.prior.covariance)));
    let solve = |precision: &[Vec<f64>], right: &[f64]| -> (Vec<f64>, Vec<Vec<f64>>) {
        let s = inverse(precision);
        (s.iter().map(|row| row.iter().zip(right).map(|(s, b)| s * b).sum()).collect(), s)
    };
    let begin = |level: &Level, prior: &[Vec<f64>], index: usize| {
        let mean = expected(level, index);
        let right: Vec<f64> =
            prior.iter().map(|row| row.iter().zip(&mean).map(|(v, m)| v * m).sum()).collect();
        (prior.to_vec(), right)
    };
    // Whole, or only variances.
    let spread = |i: usize| -> Vec<Vec<f64>> {
        let wide = Level::covariance_numbers(k);
        let of = |a: usize, b: usize| match two.covariances.get(i * wide..) {
            Some(s) if !s.is_empty() => f64::from(s[a.max(b) * (a.max(b) + 1) / 2 + a.min(b)]),
            _ => f64::from(u8::from(a == b)) * f64::from(two.variances[i * k + a]),
        };
        (0..k).map(|a| (0..k).map(|b| of(a, b)).collect()).collect()
    };
    let mut of_one = Vec::new();
    let (mut squares, mut count) = (0.0, 0.0);
    for u in 0..one.rows {
        let (mut precision, mut right) = begin(one, &v_one, u);
        let own = || entries.iter().filter(|entry| entry.0 == u);
        for &(_, i, y) in own() {
            let (mut z, s) = (row(two, i), spread(i));
            let bias = std::mem::replace(&mut z[k - 1], 1.0);
            for a in 0..k {
                // The bias is in what is left of the value, and not in z.
                let cross = if a + 1 < k { s[a][k - 1] } else { 0.0 };
                right[a] += ((y - bias) * z[a] - cross) / noise;
                for b in 0..k {
                    let both = a + 1 < k && b + 1 < k;
                    precision[a][b] += (z[a] * z[b] + if both { s[a][b] } else { 0.0 }) / noise;
                }
            }
        }
        let (m, s_u) = solve(&precision, &right);
        for &(_, i, y) in own() {
            let (mut z, s) = (row(two, i), spread(i));
            let bias = std::mem::replace(&mut z[k - 1], 1.0);
            let f: f64 = m.iter().zip(&z).map(|(m, z)| m * z).sum();
            squares += (y - bias - f).powi(2) + s[k - 1][k - 1];
            for a in 0..k {
                squares += (0..k).map(|b| z[a] * z[b] * s_u[a][b]).sum::<f64>();
                squares += if a + 1 < k { 2.0 * m[a] * s[a][k - 1] } else { 0.0 };
                for b in (0..k - 1).filter(|_| a + 1 < k) {
                    squares += s[a][b] * (m[a] * m[b] + s_u[a][b]);
                }
            }
            count += 1.0;
        }
        of_one.push((m, s_u));
    }
    let noise = squares / count;
    let mut of_two = Vec::new();
    for i in 0..two.rows {
        let (mut precision, mut right) = begin(two, &v_two, i);
        for &(u, _, y) in entries.iter().filter(|entry| entry.1 == i) {
            let (mut x, s) = (of_one[u].0.clone(), &of_one[u].1);
            let bias = std::mem::replace(&mut x[k - 1], 1.0);
            for a in 0..k {
                let cross = if a + 1 < k { s[a][k - 1] } else { 0.0 };
                right[a] += ((y - bias) * x[a] - cross) / noise;
                for b in 0..k {
                    let both = a + 1 < k && b + 1 < k;
                    precision[a][b] += (x[a] * x[b] + if both { s[a][b] } else { 0.0 }) / noise;
                }
            }
        }
        let (mean, mut s) = solve(&precision, &right);
        if two.covariances.is_empty() {
            // The best ones that are independent.
            (0..k).for_each(|a| {
                (0..k).for_each(|b| s[a][b] = if a == b { 1.0 / precision[a][a] } else { 0.0 })
            });
        }
        of_two.push((mean, s));
    }
    (of_one, of_two, noise)
}

#[test]
fn a_sweep_is_what_the_formulas_say() {
    let folder = folder();
    table(&folder.path().join("t.csv"), 1.0, 0.0, None);
    json(&folder, "convert t.csv -o t --modes user,item --value value --split 100/0/0");
    let dataset = Dataset::open(folder.path().join("t")).unwrap();
    let train = Stream::open(&dataset, Split::Train, None).unwrap();
    // Slices as a whole, and some of them in windows of a few entries.
    for slices in [Slices::new(&train, 1.0, 2).unwrap(), Slices::in_windows(&train, 1.0, 2, 7).unwrap()] {
        let data = Data::of(&train, &slices);
        // With entries enough for their numbers, rows have variances; else whole covariances.
        for (rank, whole) in [(2, false), (9, true)] {
            a_sweep_of(rank, whole, &dataset, &data);
        }
    }
}

/// A fit by so many processes, slices of more entries than a window coming in windows.
fn fitted_in_windows(place: &Path, window: usize, processes: usize) -> (Fit, usize) {
    let members = if processes == 1 { vec![Team::alone()] } else { Team::of_threads(processes) };
    let fit = |team: Team| {
        let dataset = Dataset::open(place).unwrap();
        let share = Share { team, lanes: LANES };
        let train = Stream::open_share(&dataset, Split::Train, None, share).unwrap();
        let slices = Slices::in_windows(&train, 1.0, 3, window).unwrap();
        let data = Data::of(&train, &slices);
        let (mut fit, _) = Fit::begin(dataset.manifest(), &data, None, |_| 3, None, 1).unwrap();
        (0..6).for_each(|_| assert!(fit.sweep(&data).unwrap() > 0));
        (fit, slices.large().len())
    };
    let fits = std::thread::scope(|scope| {
        let all: Vec<_> = members.into_iter().map(|team| scope.spawn(move || fit(team))).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(fits.iter().all(|fit| *fit == fits[0]), "all processes have the same");
    fits.into_iter().next().unwrap()
}

#[test]
fn slices_in_windows_are_as_good_as_whole_ones_and_any_processes_give_the_same_bits() {
    let folder = folder();
    let (mut next, mut text) = (random(23), String::from("a,b,c,value\n"));
    for _ in 0..30_000 {
        // The first of six slices has half of the entries, and lies in several lanes.
        let a = (6.0 * next() * next().round()) as usize;
        let (b, c) = ((300.0 * next()) as usize, (40.0 * next()) as usize);
        let value = (b as f64).sin() * (1.0 + a as f64) + 0.1 * c as f64 + next();
        writeln!(text, "{a},{b},{c},{value}").unwrap();
    }
    std::fs::write(folder.path().join("x.csv"), text).unwrap();
    json(&folder, "convert x.csv -o x --modes a,b,c --value value --split 100/0/0 --duplicates mean");
    let place = folder.path().join("x");
    let (whole, none) = fitted_in_windows(&place, usize::MAX, 1);
    let (fit, large) = fitted_in_windows(&place, 500, 1);
    assert!(none == 0 && large > 1, "{large}");
    assert!((fit.posterior.noise / whole.posterior.noise - 1.0).abs() < 1e-6);
    for (ours, plain) in fit.posterior.levels.iter().zip(&whole.posterior.levels) {
        let worst = ours.means.iter().zip(&plain.means).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(worst < 1e-5, "{worst:e}");
    }
    for processes in [2, 4] {
        assert!(fitted_in_windows(&place, 500, processes).0 == fit, "{processes} processes");
    }
}

fn a_sweep_of(rank: usize, whole: bool, dataset: &Dataset, data: &Data<'_>) {
    let manifest = dataset.manifest();
    let (mut fit, passes) = Fit::begin(manifest, data, None, |_| rank, None, 1).unwrap();
    assert_eq!(passes, 5);
    assert_eq!(fit.posterior.levels[1].covariances.is_empty(), !whole);
    let mut entries = Vec::new();
    let read = dataset.for_each(Split::Train, |at, y| {
        let levels = [at[manifest.mode_order[0]], at[manifest.mode_order[1]]];
        entries.push((levels[0] as usize, levels[1] as usize, (y - fit.terms.mean) / fit.terms.spread));
    });
    read.unwrap();
    // The first sweeps are made from parts of the data.
    (0..3).for_each(|_| assert_eq!(fit.sweep(data).unwrap(), 1));
    for sweep in 4..12 {
        // A sweep begins with a turn.
        let mut before = fit.clone();
        before.turn().unwrap();
        let (of_one, of_two, noise) = naive_sweep(&before, &entries);
        fit.sweep(data).unwrap();
        let k = rank + 1;
        let value = |p: &[f64], q: &[f64]| p[k - 1] + q[k - 1] + (0..k - 1).map(|c| p[c] * q[c]).sum::<f64>();
        let all = of_one.iter().flat_map(|p| of_two.iter().map(move |q| value(&p.0, &q.0)));
        let ours = values(&fit);
        let worst = ours.iter().zip(all).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        // What slices give to their entries is in single precision on its way to the sums, which are not.
        assert!(worst < 1e-6, "sweep {sweep}: {worst:e}");
        for (ours, (_, s)) in fit.posterior.levels[1].variances.chunks(k).zip(&of_two) {
            assert!((0..k).all(|a| (f64::from(ours[a]) / s[a][a] - 1.0).abs() < 1e-5), "sweep {sweep}");
        }
        assert!((fit.posterior.noise / noise - 1.0).abs() < 1e-9, "sweep {sweep}");
    }
}

#[test]
fn readings_of_three_modes_are_fitted_by_pairs_of_them() {
    let folder = folder();
    let mut next = random(11);
    let mut normal = || (0..12).map(|_| next()).sum::<f64>() - 6.0;
    let (stations, days, hours) = (12, 50, 24);
    let mut draw = |count: usize| (0..count).map(|_| normal()).collect::<Vec<f64>>();
    let (of_day, of_hour, of_both) = (draw(stations), draw(stations), draw(days * hours));
    let (by_day, weather) = (draw(days), draw(days));
    let mut text = String::from("station,day,hour,value\n");
    let mut chosen = random(13);
    for s in 0..stations {
        for d in 0..days {
            for h in 0..hours {
                if chosen() < 0.5 {
                    let daily = (h as f64 * std::f64::consts::TAU / 24.0).cos();
                    let y = 2.0 * of_day[s] * by_day[d] + 2.0 * of_hour[s] * daily + weather[d] * daily;
                    writeln!(text, "s{s},{d},{h},{}", 20.0 + y + 0.3 * of_both[d * hours + h]).unwrap();
                }
            }
        }
    }
    std::fs::write(folder.path().join("x.csv"), text).unwrap();
    json(&folder, "convert x.csv -o x --modes station,day,hour --value value");
    let done = json(&folder, "complete x -o run --rank auto");
    assert!(done["tried"].as_array().unwrap().iter().any(|tried| tried["change"] == "pairs"), "{done}");
    assert!(done["errors"]["test"]["r2"].as_f64().unwrap() > 0.97, "{done}");
    // The ranks that were given are kept to, and are no reason for a worse model than the search of the version before had,
    // whose validation MSE was 0.0788.
    let given = json(&folder, "complete x -o given --rank 4,4,4");
    assert!(given["rank"].as_array().unwrap().iter().all(|rank| rank.as_u64().unwrap() <= 4), "{given}");
    assert!(given["validation_mse"].as_f64().unwrap() < 1.05 * 0.0788, "{given}");
}

#[test]
fn data_with_nothing_in_common_end_with_a_model() {
    let folder = folder();
    let mut next = random(17);
    // One row of a mode; rows of one entry each; few entries at all.
    let mut table = |name: &str, rows: Vec<(usize, usize)>| {
        let mut text = String::from("a,b,value\n");
        rows.iter().for_each(|(a, b)| writeln!(text, "{a},{b},{}", next()).unwrap());
        std::fs::write(folder.path().join(name), text).unwrap();
    };
    table("one.csv", (0..300).map(|b| (0, b)).collect());
    table("diagonal.csv", (0..300).map(|n| (n, n)).collect());
    table("few.csv", (0..12).map(|n| (n % 3, n / 3)).collect());
    for (name, strangers) in [("one", true), ("diagonal", true), ("few", false)] {
        let line =
            format!("complete {name}.csv -o {name} --modes a,b --value value --rank auto --seed 3 --json");
        let output = tenfill(&folder).args(line.split(' ')).output().unwrap();
        let said = stderr(&output);
        assert!(output.status.success(), "{said}");
        // No id that is held out occurs in train: only what biases say can be compared.
        let told = said.matches("validation entries has an id that no train entry has").count();
        assert_eq!(told, usize::from(strangers), "{said}");
        assert!(!said.contains("e308"), "{said}");
        let done: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(done["train_mse"].as_f64().unwrap().is_finite(), "{done}");
        json(&folder, &format!("evaluate {name} --on validation"));
    }
    // Nor is the plain method compared with what it cannot be compared with.
    let done = json(&folder, "complete diagonal.csv -o given --modes a,b --value value --rank 2 --seed 3");
    assert_eq!(done["biases"], true, "{done}");
}
