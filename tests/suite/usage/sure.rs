//! How sure a model is: standard deviations, calibration, ranking by upper bounds, new rows by the learned prior.

use super::sample::{failure, number, output, rows};
use crate::common::{folder, json};
use std::fmt::Write;
use std::path::Path;
use tenfill_engine::bayes::{Data, Fit, Slices};
use tenfill_engine::model::{Model, Place, Places, Spreads};
use tenfill_engine::shard::{Dataset, Split};
use tenfill_engine::stream::Stream;

/// Numbers that look random, the same everywhere: uniform and normal.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let (a, b) = (self.uniform(), self.uniform());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }
}

/// Entries of users and items: biases, two components and noise, times a scale, plus an offset. The number of a user's
/// entries grows with its id. Written as `train.csv`, and one in ten as `test.csv`.
fn tables(folder: &Path, scale: f64, offset: f64) {
    let mut random = Random(5);
    let (users, items) = (120, 90);
    let p: Vec<f64> = (0..users * 3).map(|_| random.normal()).collect();
    let q: Vec<f64> = (0..items * 3).map(|_| random.normal()).collect();
    let mut texts = ["user,item,value\n".to_string(), "user,item,value\n".to_string()];
    for u in 0..users {
        for i in 0..items {
            if random.uniform() < 0.05 + 0.6 * u as f64 / users as f64 {
                let (p, q) = (&p[u * 3..][..3], &q[i * 3..][..3]);
                let y = 0.5 * p[2] + 0.5 * q[2] + p[0] * q[0] + 0.5 * p[1] * q[1] + 0.5 * random.normal();
                let to = &mut texts[usize::from(random.uniform() < 0.1)];
                writeln!(to, "{u},{i},{}", offset + scale * y).unwrap();
            }
        }
    }
    for (name, text) in ["train.csv", "test.csv"].iter().zip(texts) {
        std::fs::write(folder.join(name), text).unwrap();
    }
}

const COMPLETE: &str =
    "complete train.csv -o run --modes user,item --value value --rank auto --split 90/10/0 --seed 2 --force";

fn fitted(scale: f64, offset: f64) -> tempfile::TempDir {
    let folder = folder();
    tables(folder.path(), scale, offset);
    json(&folder, COMPLETE);
    folder
}

#[test]
fn standard_deviations_shrink_with_entries_and_scale_with_values() {
    let folder = fitted(1.0, 0.0);
    let all: String = (0..120).map(|user| format!("{user},3\n")).collect();
    let questions = format!("user,item\n{all}nobody,3\n1,nothing\nnobody,nothing\n");
    std::fs::write(folder.path().join("q.csv"), &questions).unwrap();
    let sds = |folder: &Path| -> Vec<f64> {
        let found = rows(&output(folder, &["predict", "run", "q.csv", "--sd"]));
        found.iter().map(|row| number(row, "sd")).collect()
    };
    let found = sds(folder.path());
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let (few, many) = (mean(&found[..20]), mean(&found[100..120]));
    assert!(many < few, "users of few entries {few}, of many {many}");
    // Without the noise, and over all items.
    let model = Model::read_with_uncertainty(&folder.path().join("run")).unwrap();
    let (places, spreads) = (Places::new(&model, &[false; 2]), Spreads::new(&model, &[false; 2]).unwrap());
    let variance = |users: std::ops::Range<u32>| {
        let cells = users.flat_map(|user| (0..80).map(move |item| [Place::Index(user), Place::Index(item)]));
        mean(&cells.map(|at| spreads.variance(&places, &at).of_mean).collect::<Vec<f64>>())
    };
    let (some, more, most) = (variance(0..20), variance(40..60), variance(100..120));
    assert!(more < 0.6 * some && most < 0.8 * more, "{some} {more} {most}");
    // The noise is there whatever is known, and an id of which nothing is known is the least sure.
    assert!(found.iter().all(|sd| (0.45..2.5).contains(sd)), "{found:?}");
    assert!(found[120] > few && found[121] > many && found[122] > found[120].max(found[121]), "{found:?}");
    // Columns are as they were; what is told of values is not changed.
    let (with, without) = (&["predict", "run", "q.csv", "--sd"], &["predict", "run", "q.csv"]);
    for (with, without) in
        rows(&output(folder.path(), with)).iter().zip(rows(&output(folder.path(), without)))
    {
        assert!(without.iter().all(|(name, cell)| with[name] == *cell) && with.len() == without.len() + 1);
    }
    // As Parquet.
    json(&folder, "predict run q.csv --sd -o a.parquet");
    // The unit of the data is that of the standard deviation.
    for (scale, offset) in [(1000.0, -3e4), (1e-3, 7.0)] {
        let other = fitted(scale, offset);
        std::fs::write(other.path().join("q.csv"), &questions).unwrap();
        for (a, b) in found.iter().zip(sds(other.path())) {
            assert!((b / scale / a - 1.0).abs() < 0.01, "{a} became {}", b / scale);
        }
    }
}

#[test]
fn intervals_cover_what_they_say() {
    for seed in [11, 12, 13] {
        let folder = folder();
        tables(folder.path(), 1.0, 0.0);
        json(&folder, &COMPLETE.replace("--seed 2", &format!("--seed {seed}")));
        let found = json(&folder, "evaluate run --on test.csv");
        for covered in found["coverage"].as_array().unwrap() {
            let (nominal, covered) =
                (covered["nominal"].as_f64().unwrap(), covered["covered"].as_f64().unwrap());
            // A few hundred entries: three standard deviations of what chance makes of it, and three points.
            let chance = (nominal * (1.0 - nominal) / found["entries"].as_f64().unwrap()).sqrt();
            assert!((covered - nominal).abs() < 0.03 + 3.0 * chance, "{found}");
        }
    }
}

#[test]
fn models_that_do_not_know_say_so() {
    let folder = folder();
    tables(folder.path(), 1.0, 0.0);
    json(&folder, &COMPLETE.replace("--rank auto", "--rank 2 --bias modes --penalty 0.01"));
    for line in [
        vec!["predict", "run", "test.csv", "--sd"],
        vec!["recommend", "run", "--given", "user=3", "--rank-mode", "item", "--sd"],
        vec!["recommend", "run", "--given", "user=3", "--rank-mode", "item", "--explore"],
    ] {
        let said = failure(folder.path(), &line);
        assert!(said.contains("does not know how sure it is"), "{said}");
        assert!(said.contains("without --penalty"), "{said}");
    }
    assert!(json(&folder, "evaluate run --on test.csv").get("coverage").is_none());
    json(&folder, "report run -o r.html");
}

#[test]
fn who_let_validation_decide_is_told_why_there_is_no_sd() {
    let folder = folder();
    json(&folder, "synth --dims 30,30,30 --rank 2 --entries 9000 --validation 0.1 -o data");
    json(&folder, "complete data -o run --rank auto");
    std::fs::write(folder.path().join("q.csv"), "mode1,mode2,mode3\n1,2,3\n").unwrap();
    let said = failure(folder.path(), &["predict", "run", "q.csv", "--sd"]);
    assert!(said.contains("fitted by the plain method") && said.contains("nearly exactly"), "{said}");
    assert!(!said.contains("--rank"), "{said}");
}

#[test]
fn upper_bounds_rank_as_one_by_one() {
    let folder = fitted(1.0, 0.0);
    let model = Model::read_with_uncertainty(&folder.path().join("run")).unwrap();
    let none = [false; 2];
    let (places, spreads) = (Places::new(&model, &none), Spreads::new(&model, &none).unwrap());
    let ids = tenfill_engine::model::ModeIds::of_all(&model).unwrap();
    let plain = output(folder.path(), &["recommend", "run", "--all", "--rank-mode", "item", "--top", "5"]);
    let zero = ["recommend", "run", "--all", "--rank-mode", "item", "--top", "5", "--explore=0"];
    let ranked = |text: &str| -> Vec<(String, String)> {
        rows(text).iter().map(|row| (row["user"].clone(), row["item"].clone())).collect()
    };
    assert_eq!(ranked(&plain), ranked(&output(folder.path(), &zero)));
    let line = [
        "recommend",
        "run",
        "--all",
        "--rank-mode",
        "item",
        "--top",
        "90",
        "--include-seen",
        "--explore=2",
        "--sd",
    ];
    let found = rows(&output(folder.path(), &line));
    let mut other = 0;
    for user in ["0", "7", "60", "119"] {
        let own: Vec<_> = found.iter().filter(|row| row["user"] == user).collect();
        let index = |mode: usize, id: &str| ids[mode].find(id).unwrap().index().unwrap();
        let mut expected: Vec<(f64, u32)> = (0..ids[1].dim())
            .filter(|&item| model.knows(1, item))
            .map(|item| {
                let at = [Place::Index(index(0, user)), Place::Index(item)];
                (places.raw(&at).0 + 2.0 * spreads.variance(&places, &at).of_mean.sqrt(), item)
            })
            .collect();
        expected.sort_by(|a, b| b.0.total_cmp(&a.0));
        assert_eq!(own.len(), expected.len());
        for (row, (bound, item)) in own.iter().zip(expected) {
            assert_eq!(index(1, &row["item"]), item);
            assert!((number(row, "bound") - bound).abs() < 1e-12 && number(row, "sd") > 0.0);
        }
        other +=
            own.windows(2).filter(|two| number(two[0], "prediction") < number(two[1], "prediction")).count();
    }
    assert!(other > 0, "bounds rank otherwise than predictions");
}

#[test]
fn features_of_a_row_can_be_told_from_its_entries() {
    let folder = fitted(1.0, 0.0);
    let model = Model::read_with_uncertainty(&folder.path().join("run")).unwrap();
    let sure = model.uncertainty.as_ref().unwrap();
    let config = tenfill_engine::run::Config::read(&folder.path().join("run")).unwrap();
    let dataset = config.open_dataset(&folder.path().join("run")).unwrap();
    let mut entries: Vec<Vec<Vec<u32>>> =
        model.point.factors.iter().map(|factor| vec![Vec::new(); factor.rows()]).collect();
    dataset
        .for_each(Split::Train, |at, _| {
            entries[0][at[0] as usize].push(at[1]);
            entries[1][at[1] as usize].push(at[0]);
        })
        .unwrap();
    for (mode, entries) in entries.iter().enumerate() {
        let features = &sure.modes[mode].features;
        for (row, others) in entries.iter().enumerate().filter(|(_, others)| !others.is_empty()) {
            let h = sure.new_row(mode, others.iter().copied()).unwrap();
            for (h, kept) in h.iter().zip(&features.values[row * features.width..]) {
                assert!(
                    (h - f64::from(*kept)).abs() < 1e-4 * (1.0 + h.abs()),
                    "mode {mode} row {row}: {h} {kept}"
                );
            }
        }
    }
}

#[test]
fn new_rows_begin_with_the_prior_and_know_how_sure_they_are() {
    let folder = folder();
    tables(folder.path(), 1.0, 0.0);
    let text = std::fs::read_to_string(folder.path().join("train.csv")).unwrap();
    // Errors of one user are alike, so that coverage takes many of them to tell.
    let new = |line: &&str| {
        line.split(',').next().is_some_and(|user| user.len() > 1 && user.ends_with(['1', '3', '5', '7']))
    };
    let header = "user,item,value";
    let old: Vec<&str> = text.lines().filter(|line| !new(line)).collect();
    std::fs::write(folder.path().join("train.csv"), old.join("\n") + "\n").unwrap();
    json(&folder, COMPLETE);
    // Of each new user so many entries; the others are what is asked for.
    let mut errors = Vec::new();
    for most in [1, 5, 20] {
        let (mut fold, mut held) = (format!("{header}\n"), format!("{header}\n"));
        let mut counts = std::collections::HashMap::new();
        for line in text.lines().filter(new) {
            let count = counts.entry(line.split(',').next().unwrap()).or_insert(0);
            *count += 1;
            writeln!(if *count <= most { &mut fold } else { &mut held }, "{line}").unwrap();
        }
        std::fs::write(folder.path().join("fold.csv"), fold).unwrap();
        std::fs::write(folder.path().join("held.csv"), held).unwrap();
        json(&folder, "fold-in run fold.csv -o folded --mode user --force");
        assert!(json(&folder, "verify folded")["ok"].as_bool().unwrap());
        let ours = json(&folder, "evaluate folded --on held.csv");
        let before = json(&folder, "evaluate run --on held.csv");
        let rmse = |of: &serde_json::Value| of["rmse"].as_f64().unwrap();
        assert!(rmse(&ours) < rmse(&before) * 1.005, "{most}: {ours} {before}");
        for covered in ours["coverage"].as_array().unwrap() {
            let (nominal, covered) =
                (covered["nominal"].as_f64().unwrap(), covered["covered"].as_f64().unwrap());
            assert!((covered - nominal).abs() < 0.08, "{most}: {ours}");
        }
        std::fs::write(folder.path().join("q.csv"), "user,item\n17,3\n57,3\n117,3\n0,3\n").unwrap();
        let sd: Vec<f64> = rows(&output(folder.path(), &["predict", "folded", "q.csv", "--sd"]))
            .iter()
            .map(|row| number(row, "sd"))
            .collect();
        errors.push((rmse(&ours), (sd[0] + sd[1] + sd[2]) / 3.0));
    }
    assert!(errors.is_sorted_by(|a, b| a.0 > b.0 && a.1 > b.1), "{errors:?}");
}

#[test]
fn exports_have_variances_priors_and_features() {
    let folder = fitted(10.0, 100.0);
    let model = Model::read_with_uncertainty(&folder.path().join("run")).unwrap();
    let sure = model.uncertainty.as_ref().unwrap();
    json(&folder, "export run -o e --format csv");
    let read = |name: &str| rows(&std::fs::read_to_string(folder.path().join("e").join(name)).unwrap());
    let (variances, prior) = (read("variance-user.csv"), read("prior-user.csv"));
    let k = sure.modes[0].width;
    assert_eq!((variances.len(), prior.len()), (model.point.factors[0].rows(), k));
    for (row, told) in variances.iter().enumerate() {
        let own = sure.modes[0].row(row);
        let bias = f64::from(own[k - 1]) * sure.unit * sure.unit;
        assert!((number(told, "bias") / bias - 1.0).abs() < 1e-9);
        assert_eq!(number(told, "u1"), f64::from(own[0]));
        assert_eq!(
            number(told, "h1"),
            f64::from(sure.modes[0].features.values[row * sure.modes[0].features.width])
        );
    }
    let last = prior.last().unwrap();
    let v = sure.modes[0].covariance[k * k - 1] * sure.unit * sure.unit;
    assert!(last["number"] == "bias" && (number(last, "v_bias") / v - 1.0).abs() < 1e-9);
    for format in ["npy", "parquet"] {
        let done = json(&folder, &format!("export run -o e --format {format} --force"));
        assert!(done["files"].to_string().contains("variance-item"), "{done}");
    }
    let about: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(folder.path().join("e/model.json")).unwrap()).unwrap();
    let noise = about["uncertainty"]["noise_variance"].as_f64().unwrap();
    assert!((noise / 25.0 - 1.0).abs() < 0.35, "the noise has a standard deviation of 5: {noise}");
    json(&folder, "report run -o r.html");
    let page = std::fs::read_to_string(folder.path().join("r.html")).unwrap();
    assert!(
        page.contains("How sure the model is") && page.contains("The prior&#39;s spectrum"),
        "{}",
        page.len()
    );
}

/// L with L L^T = A.
fn cholesky(a: &[f64], k: usize) -> Vec<f64> {
    let mut l = vec![0.0; k * k];
    for i in 0..k {
        for j in 0..=i {
            let sum: f64 = (0..j).map(|n| l[i * k + n] * l[j * k + n]).sum();
            l[i * k + j] =
                if i == j { (a[i * k + i] - sum).sqrt() } else { (a[i * k + j] - sum) / l[j * k + j] };
        }
    }
    l
}

/// x with L L^T x = b, plus noise z with L^T z' = z: a draw of N(A^-1 b, A^-1).
fn draw(precision: &[f64], right: &[f64], k: usize, random: &mut Random) -> Vec<f64> {
    let l = cholesky(precision, k);
    let mut x = right.to_vec();
    for i in 0..k {
        let sum: f64 = (0..i).map(|n| l[i * k + n] * x[n]).sum();
        x[i] = (x[i] - sum) / l[i * k + i];
    }
    x.iter_mut().for_each(|x| *x += random.normal());
    for i in (0..k).rev() {
        let sum: f64 = (i + 1..k).map(|n| l[n * k + i] * x[n]).sum();
        x[i] = (x[i] - sum) / l[i * k + i];
    }
    x
}

/// V^-1, a column at a time.
fn inverse(v: &[f64], k: usize) -> Vec<f64> {
    let l = cholesky(v, k);
    let mut found = vec![0.0; k * k];
    for column in 0..k {
        let mut x: Vec<f64> = (0..k).map(|n| f64::from(u8::from(n == column))).collect();
        for i in 0..k {
            let sum: f64 = (0..i).map(|n| l[i * k + n] * x[n]).sum();
            x[i] = (x[i] - sum) / l[i * k + i];
        }
        for i in (0..k).rev() {
            let sum: f64 = (i + 1..k).map(|n| l[n * k + i] * x[n]).sum();
            x[i] = (x[i] - sum) / l[i * k + i];
        }
        (0..k).for_each(|row| found[row * k + column] = x[row]);
    }
    found
}

#[test]
fn the_posterior_is_that_of_long_gibbs_sampling() {
    let folder = folder();
    tables(folder.path(), 1.0, 0.0);
    json(&folder, "convert train.csv -o d --modes user,item --value value --split 100/0/0");
    let dataset = Dataset::open(folder.path().join("d")).unwrap();
    let manifest = dataset.manifest();
    let train = Stream::open(&dataset, Split::Train, None).unwrap();
    let slices = Slices::new(&train, 1.0, 2).unwrap();
    let data = Data::of(&train, &slices);
    let (mut fit, _) = Fit::begin(manifest, &data, None, |_| 2, None, 1).unwrap();
    for _ in 0..40 {
        fit.sweep(&data).unwrap();
    }
    // What is learned of all rows is taken as it is; rows are drawn given each other, again and again.
    let (levels, k) = (&fit.posterior.levels, 3);
    let sure = fit.posterior.uncertainty(&fit.terms);
    let mut entries = [vec![Vec::new(); levels[0].rows], vec![Vec::new(); levels[1].rows]];
    dataset
        .for_each(Split::Train, |at, y| {
            let at = [at[manifest.mode_order[0]] as usize, at[manifest.mode_order[1]] as usize];
            let y = (y - fit.terms.mean) / fit.terms.spread;
            entries[0][at[0]].push((at[1], y));
            entries[1][at[1]].push((at[0], y));
        })
        .unwrap();
    let expected: Vec<Vec<Vec<f64>>> = levels
        .iter()
        .map(|level| {
            let d = level.features.width;
            let of = |row: usize| {
                let n = level.counts[row];
                let counted = |&x: &f32| f64::from(x) * n / (n + 3.0);
                let h: Vec<f64> = level.features.values[row * d..][..d].iter().map(counted).collect();
                let mut f = vec![1.0, n.max(1e-300).ln() - 4.0];
                f.extend(&h);
                f.extend(h.iter().map(|h| n.sqrt() * h));
                level
                    .prior
                    .coefficients
                    .chunks(f.len())
                    .map(|b| b.iter().zip(&f).map(|(b, f)| b * f).sum())
                    .collect()
            };
            (0..level.rows).map(of).collect()
        })
        .collect();
    let precisions: Vec<Vec<f64>> = levels.iter().map(|level| inverse(&level.prior.covariance, k)).collect();
    let mut now: Vec<Vec<Vec<f64>>> =
        levels.iter().map(|level| level.means.chunks(k).map(<[f64]>::to_vec).collect()).collect();
    let mut random = Random(99);
    let cells: Vec<(usize, usize)> = (0..levels[0].rows)
        .flat_map(|u| (0..levels[1].rows).map(move |i| (u, i)))
        .filter(|&(u, i)| !entries[0][u].is_empty() && !entries[1][i].is_empty() && (u * 7 + i) % 5 == 0)
        .collect();
    let (mut sums, mut squares, mut draws) = (vec![0.0; cells.len()], vec![0.0; cells.len()], 0.0);
    for round in 0..2200 {
        for level in 0..2 {
            for row in 0..levels[level].rows {
                let (mut a, prior) = (precisions[level].clone(), &expected[level][row]);
                let mut b: Vec<f64> = (0..k).map(|i| (0..k).map(|j| a[i * k + j] * prior[j]).sum()).collect();
                for &(other, y) in &entries[level][row] {
                    let other = &now[1 - level][other];
                    let z = [other[0], other[1], 1.0];
                    for i in 0..k {
                        b[i] += z[i] * (y - other[2]) / fit.posterior.noise;
                        (0..k).for_each(|j| a[i * k + j] += z[i] * z[j] / fit.posterior.noise);
                    }
                }
                now[level][row] = draw(&a, &b, k, &mut random);
            }
        }
        if round >= 200 {
            draws += 1.0;
            for (n, &(u, i)) in cells.iter().enumerate() {
                let (p, q) = (&now[0][u], &now[1][i]);
                let value = p[0] * q[0] + p[1] * q[1] + p[2] + q[2];
                sums[n] += value;
                squares[n] += value * value;
            }
        }
    }
    // Ours: means of rows, and variances as if their numbers were independent.
    let modes = [fit.terms.mode_order[0], fit.terms.mode_order[1]];
    let (mut far, mut ours_sum, mut theirs_sum, mut ratios) = (0.0, 0.0, 0.0, Vec::new());
    for (n, &(u, i)) in cells.iter().enumerate() {
        let (p, q) = (&levels[0].means[u * k..][..k], &levels[1].means[i * k..][..k]);
        let (s, t) = (sure.modes[modes[0]].row(u), sure.modes[modes[1]].row(i));
        let value = p[0] * q[0] + p[1] * q[1] + p[2] + q[2];
        let mut variance = f64::from(s[2]) + f64::from(t[2]);
        for c in 0..2 {
            let (s, t) = (f64::from(s[c]), f64::from(t[c]));
            variance += p[c] * p[c] * t + q[c] * q[c] * s + s * t;
        }
        let mean = sums[n] / draws;
        let theirs: f64 = squares[n] / draws - mean * mean;
        far += (value - mean).powi(2) / theirs / cells.len() as f64;
        ours_sum += variance;
        theirs_sum += theirs;
        ratios.push((variance / theirs).sqrt());
    }
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| ratios[(share * ratios.len() as f64) as usize];
    let told = format!(
        "means differ by {:.3} standard deviations, variances {ours_sum:.3} and {theirs_sum:.3}, ratios of standard \
         deviations {:.2} {:.2} {:.2}",
        far.sqrt(),
        at(0.05),
        at(0.5),
        at(0.95)
    );
    println!("{told}");
    assert!(far.sqrt() < 0.35, "{told}");
    assert!((0.75..1.2).contains(&(ours_sum / theirs_sum)), "{told}");
    assert!(at(0.05) > 0.6 && at(0.95) < 1.5, "{told}");
}
