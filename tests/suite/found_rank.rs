//! `--rank auto` on low-rank data: without a mean, components of all modes are found one by one; with one, a rank that is too
//! high is cut. There are as many as there are.

use crate::common::{folder, json, result, stderr, tenfill};
use crate::uneven;
use serde_json::Value;
use std::path::Path;

fn synth(place: &Path, data: &str) {
    json(place, &format!("synth -o data --factors gaussian --validation 0.1 {data}"));
}

fn number(found: &Value, field: &str) -> f64 {
    found[field].as_f64().unwrap()
}

fn r2(found: &Value) -> f64 {
    found["errors"]["test"]["r2"].as_f64().unwrap()
}

#[test]
fn the_rank_is_that_of_the_data() {
    for (data, rank) in [
        ("--dims 100,100,100 --rank 3 --oversampling 20 --seed 12", vec![3, 3, 3]),
        ("--dims 60,50,40,30 --rank 2 --oversampling 30 --seed 13", vec![2, 2, 2, 2]),
    ] {
        let place = folder();
        synth(place.path(), data);
        let found = json(place.path(), "complete data -o run");
        assert_eq!(found["rank"], Value::from(rank), "{found}");
        assert_eq!((&found["stopped_by"], &found["data"]["kind"]), (&"tolerance".into(), &"low-rank".into()));
        assert!(1.0 - r2(&found) < 1e-9, "{found}");
    }
}

/// Noise hides nothing: what is left in the end is the noise.
#[test]
fn noise_is_no_component() {
    let place = folder();
    synth(place.path(), "--dims 100,100,100 --rank 3 --oversampling 20 --noise 0.1 --seed 14");
    let found = json(place.path(), "complete data -o run");
    assert_eq!(found["rank"], serde_json::json!([3, 3, 3]), "{found}");
    let noise = 0.1 * (number(&found, "test_mse") / (1.0 - r2(&found))).sqrt();
    assert!(number(&found, "test_mse").sqrt() < 0.5 * noise, "{found}");
}

/// Of ratings nothing is looked for before sweeps: a pass more would be many.
#[test]
fn ratings_have_sweeps_at_once() {
    let place = folder();
    json(place.path(), "synth -o data --kind ratings --dims 500,400,30 --entries 30000 --validation 0.1");
    json(place.path(), "complete data -o run --max-iterations 3");
    let log = result(&place.path().join("run")).1;
    assert!(log.iter().all(|line| line["phase"] == "sweep" || line["phase"] == "refit"), "{log:?}");
}

/// Data with a mean, of which rows by themselves explain much: a rank that is too high is fitted, and cut.
#[test]
fn the_rank_of_data_with_a_mean_is_found() {
    for (data, rank) in [
        ("--dims 300,300,300 --rank 3 --oversampling 20 --seed 41", vec![3, 3, 3]),
        ("--dims 400,150,150 --rank 2,4,3 --oversampling 20 --seed 44", vec![2, 4, 3]),
        // The first cut is one too many, and what it took is found again.
        ("--dims 300,300,300 --rank 10 --oversampling 10 --seed 41", vec![10, 10, 10]),
        // The first rank is too low.
        ("--dims 600,600,600 --rank 4 --oversampling 6 --seed 43", vec![4, 4, 4]),
        ("--dims 200,150,100,80 --rank 3 --oversampling 14 --seed 45", vec![3, 3, 3, 3]),
    ] {
        let place = folder();
        json(place.path(), &format!("synth -o data --validation 0.1 {data}"));
        let found = json(place.path(), "complete data -o run");
        assert_eq!(found["rank"], Value::from(rank), "{found}");
        assert_eq!((&found["stopped_by"], &found["data"]["kind"]), (&"tolerance".into(), &"low-rank".into()));
        assert!(1.0 - r2(&found) < 1e-9, "{found}");
        assert!(number(&found, "passes") < 110.0, "{found}");
    }
}

/// With noise it is the same rank, and the error is less than the noise.
#[test]
fn noise_does_not_hide_the_rank_of_data_with_a_mean() {
    let place = folder();
    json(
        place.path(),
        "synth -o data --validation 0.1 --dims 600,600,600 --rank 4 --oversampling 12 --noise 1e-3 --seed 45",
    );
    let found = json(place.path(), "complete data -o run");
    assert_eq!(found["rank"], serde_json::json!([4, 4, 4]), "{found}");
    assert!(1.0 - r2(&found) < 1e-5, "{found}");
}

/// A rank that is given is the most, where validation decides: columns that are too many are cut.
#[test]
fn too_high_a_rank_is_no_worse() {
    let place = folder();
    json(
        place.path(),
        "synth -o data --validation 0.1 --dims 400,300,200 --rank 4 --oversampling 10 --noise 1e-2 --seed 54",
    );
    let right = json(place.path(), "complete data -o right --rank 4");
    let high = json(place.path(), "complete data -o high --rank 9");
    assert_eq!(high["rank"], serde_json::json!([4, 4, 4]), "{high}");
    assert!(number(&high, "test_mse") < 1.1 * number(&right, "test_mse"), "{high} {right}");
    // The plain method keeps to what it is given.
    let plain =
        json(place.path(), "complete data -o plain --rank 9 --bias none --penalty 0 --max-iterations 12");
    assert_eq!(plain["rank"], serde_json::json!([9, 9, 9]));
}

/// A fit that is flat behind a cut and leaves next to nothing has nothing more to look for: it ends.
#[test]
fn hardly_any_noise_behind_a_cut_is_an_end() {
    for (data, given) in [
        ("--dims 200,200,200 --rank 2 --oversampling 40 --noise 1e-4 --seed 62", "--rank 8"),
        ("--dims 150,150,150 --rank 3 --oversampling 30 --noise 1e-5 --seed 64", "--rank 8"),
        ("--dims 150,150,150 --rank 3 --oversampling 30 --noise 1e-5 --seed 64", ""),
    ] {
        let place = folder();
        json(place.path(), &format!("synth -o data --validation 0.1 {data}"));
        let found = json(place.path(), &format!("complete data -o run {given}"));
        assert!(1.0 - r2(&found) < 1e-6 && number(&found, "passes") < 100.0, "{found}");
    }
}

/// Facts of a graph: which tail a relation gives to a head depends on kinds of both, and how often on each of them.
fn graph(place: &Path) {
    let mut state = 1_u64;
    let mut uniform = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    };
    let (heads, relations, tails, kinds) = (150, 10, 120, 6);
    let mut draw = |n: usize| (0..n).map(|_| (uniform() * kinds as f64) as usize).collect::<Vec<_>>();
    let (of_head, of_tail) = (draw(heads), draw(tails));
    let holds: Vec<bool> = (0..kinds * relations * kinds).map(|_| uniform() < 0.08).collect();
    let mut often = |n: usize| -> Vec<f64> {
        (0..n).map(|_| (0.3 * (1.0 / (1.0 - uniform()) - 1.0) + 0.05).min(1.0)).collect()
    };
    let (head_often, tail_often) = (often(heads), often(tails));
    let mut text = String::from("head,relation,tail\n");
    for head in 0..heads {
        for relation in 0..relations {
            for tail in 0..tails {
                let may = holds[(of_head[head] * relations + relation) * kinds + of_tail[tail]];
                if may && uniform() < head_often[head] * tail_often[tail] {
                    text += &format!("h{head},r{relation},t{tail}\n");
                }
            }
        }
    }
    std::fs::write(place.join("graph.csv"), text).unwrap();
}

/// What three modes tell together need not show in two of them: it is looked for after sweeps, and any moment of that can be gone on
/// from.
#[test]
fn what_sweeps_cannot_tell_is_looked_for_after_them() {
    let place = folder();
    graph(place.path());
    let found = json(place.path(), "complete graph.csv -o whole --absent 1 --header --threads 1");
    // Sweeps alone come to 0.66.
    assert!(r2(&found) > 0.7, "{found}");
    let expected = result(&place.path().join("whole"));
    let phase = |line: &Value| line["phase"].as_str().unwrap_or_default().to_string();
    let phases: Vec<String> = expected.1.iter().map(phase).collect();
    let sweeps = phases.iter().rposition(|phase| phase == "sweep").unwrap();
    let components = phases.iter().position(|phase| phase == "spectral").unwrap();
    assert!(sweeps < components, "{phases:?}");
    let stops = (1..expected.1.len() - 1).step_by(19).chain([sweeps, sweeps + 1, sweeps + 2, components + 7]);
    for (part, stop) in stops.enumerate() {
        let out = format!("part-{part}");
        let more = format!("--max-iterations {stop} --threads 3");
        json(place.path(), &format!("complete whole/data.tenfill -o {out} {more}"));
        json(place.path(), &format!("resume {out} --max-iterations 250 --threads 2"));
        assert!(result(&place.path().join(&out)) == expected, "from {stop}");
    }
}

/// A bias of one of four modes hides no products of four rows.
#[test]
fn a_bias_hides_nothing_of_four_modes() {
    let place = folder();
    let made = "synth -o plain.csv --factors gaussian --dims 60,40,25,12 --rank 2 --condition 2 --entries 30000 --seed 19";
    json(place.path(), made);
    let text = std::fs::read_to_string(place.path().join("plain.csv")).unwrap();
    let mut rows: Vec<(Vec<&str>, f64)> = Vec::new();
    for line in text.lines().skip(1) {
        let mut ids: Vec<&str> = line.split(',').collect();
        let value = ids.pop().unwrap().parse().unwrap();
        rows.push((ids, value));
    }
    let spread = (rows.iter().map(|(_, v)| v * v).sum::<f64>() / rows.len() as f64).sqrt();
    let mut out = String::from("a,b,c,d,value\n");
    for (ids, value) in rows {
        let bias = f64::from(ids[0].parse::<u32>().unwrap() * 37 % 11) / 5.0;
        out += &format!("{},{}\n", ids.join(","), value / spread + bias);
    }
    std::fs::write(place.path().join("t.csv"), out).unwrap();
    let found = json(place.path(), "complete t.csv -o run");
    assert!(1.0 - r2(&found) < 1e-3, "{found}");
}

/// A number on top of data without a mean is one component more, and hides nothing; nor do values that look like stars.
#[test]
fn a_constant_and_stars_hide_nothing() {
    let place = folder();
    let made = "synth -o plain.csv --factors gaussian --dims 80,70,60 --rank 2 --entries 40000 --seed 19";
    json(place.path(), made);
    let text = std::fs::read_to_string(place.path().join("plain.csv")).unwrap();
    let rows: Vec<(&str, f64)> = text
        .lines()
        .skip(1)
        .map(|line| line.rsplit_once(',').unwrap())
        .map(|(ids, v)| (ids, v.parse().unwrap()))
        .collect();
    let spread = (rows.iter().map(|(_, v)| v * v).sum::<f64>() / rows.len() as f64).sqrt();
    let mut header = text.lines().next().unwrap().to_string();
    header.push('\n');
    let write = |name: &str, value: &dyn Fn(f64) -> f64| {
        let rows: String = rows.iter().map(|(ids, v)| format!("{ids},{}\n", value(*v / spread))).collect();
        std::fs::write(place.path().join(name), header.clone() + &rows).unwrap();
    };
    write("offset.csv", &|v| 4.0 + v);
    let found = json(place.path(), "complete offset.csv -o offset --value value");
    assert!(1.0 - r2(&found) < 1e-6, "{found}");
    write("stars.csv", &|v| (3.0 + v).round().clamp(1.0, 5.0));
    for (out, more) in [("auto", ""), ("given", "--rank 4")] {
        let found = json(place.path(), &format!("complete stars.csv -o {out} --value value {more}"));
        // Rounding alone leaves a twelfth.
        assert!(number(&found, "test_mse") < 0.15, "{found}");
    }
}

/// Any moment of it can be gone on from: before and after a cut, one that is taken back, and another start.
#[test]
fn it_goes_on_to_the_same_bits_from_before_and_after_a_cut() {
    let place = folder();
    for (name, data) in [
        ("back", "--dims 300,300,300 --rank 10 --oversampling 10 --seed 41"),
        ("low", "--dims 300,200,200 --rank 4 --oversampling 6 --noise 1e-3 --seed 43"),
    ] {
        json(place.path(), &format!("synth -o {name} --validation 0.1 {data}"));
        let whole = format!("whole-{name}");
        json(place.path(), &format!("complete {name} -o {whole} --threads 1"));
        let expected = result(&place.path().join(&whole));
        for stop in (1..expected.1.len() - 1).step_by(3) {
            let out = format!("{name}-{stop}");
            json(place.path(), &format!("complete {name} -o {out} --max-iterations {stop} --threads 3"));
            json(place.path(), &format!("resume {out} --max-iterations 250 --threads 2"));
            assert!(result(&place.path().join(&out)) == expected, "{name} from {stop}");
        }
    }
}

/// Nor is there anything to be found where nothing is.
#[test]
fn chance_is_no_component() {
    let place = folder();
    let mut state = 1_u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut text = String::from("a,b,c,value\n");
    for _ in 0..20_000 {
        let value = (0..4).map(|_| next(1_000_000) as f64 * 1e-6 - 0.5).sum::<f64>();
        text += &format!("{},{},{},{value}\n", next(60), next(50), next(40));
    }
    std::fs::write(place.path().join("chance.csv"), text).unwrap();
    let found = json(place.path(), "complete chance.csv -o run");
    assert!(r2(&found).abs() < 0.02, "{found}");
    assert!(number(&found, "passes") < 80.0, "{found}");
}

#[test]
fn it_goes_on_to_the_same_bits_from_any_component() {
    let place = folder();
    synth(place.path(), "--dims 100,80,90 --rank 3 --oversampling 20 --noise 0.05 --seed 15");
    let with = |out: &str, more: &str| format!("complete data -o {out} {more}");
    json(place.path(), &with("whole", "--threads 1"));
    let expected = result(&place.path().join("whole"));
    let most = expected.1.len() - 1;
    for stop in (1..most).step_by(4) {
        let out = format!("part{stop}");
        json(place.path(), &with(&out, &format!("--max-iterations {stop} --threads 3")));
        json(place.path(), &format!("resume {out} --max-iterations 250 --threads 2"));
        assert!(result(&place.path().join(&out)) == expected, "{stop}");
    }
}

/// A row number is in no two entries: nothing that is held out can be predicted with it.
#[test]
fn a_row_number_explains_nothing() {
    let place = folder();
    let row = |n: u32| {
        let (a, b) = (n * 7 % 20, n * 13 % 19);
        format!("{n},a{a},b{b},{}\n", f64::from(a) + 0.5 * f64::from(b) + f64::from(n * 31 % 17) * 0.05)
    };
    let text: String = (0..2000).map(row).collect();
    std::fs::write(place.path().join("rows.csv"), format!("id,a,b,value\n{text}")).unwrap();
    // Of three modes, the other two are left.
    json(place.path(), "complete rows.csv -o run --seed 1");
    let text = std::fs::read_to_string(place.path().join("rows.csv")).unwrap();
    let asked: Vec<String> = text.lines().take(200).map(str::to_string).collect();
    std::fs::write(place.path().join("asked.csv"), asked.join("\n")).unwrap();
    json(place.path(), "predict run asked.csv -o answers.csv");
    let answers = std::fs::read_to_string(place.path().join("answers.csv")).unwrap();
    for line in answers.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let (value, prediction): (f64, f64) = (fields[3].parse().unwrap(), fields[4].parse().unwrap());
        assert!((value - prediction).abs() < 3.0, "{line}");
    }
    // Of two there are biases, and the mode is named.
    let line = "complete rows.csv -o two --modes id,a --value value";
    let output = tenfill(place.path()).args(line.split(' ')).output().unwrap();
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("if id numbers the rows, leave it out with --modes"), "{said}");
    let found = json(place.path(), "evaluate two");
    assert!(number(&found, "r2") > 0.5, "{found}");
}

/// Whether a component stays or goes again: what is told of validation entries is what the model on disk has, and any moment can
/// be gone on from.
#[test]
fn what_is_kept_is_what_the_log_says() {
    let place = folder();
    synth(place.path(), "--dims 100,100,100 --rank 3 --oversampling 40 --noise 1.5 --seed 14");
    let gaussian = "--factors gaussian --dims 120,100,80 --entries 300000 --seed 5 --noise";
    for (name, noise) in [("some", "0.5"), ("much", "2")] {
        uneven::synth(place.path(), &format!("{gaussian} {noise}"));
        json(place.path(), &format!("convert uneven.csv -o {name} --split 80/10/10 --value value"));
    }
    for data in ["data", "some", "much"] {
        let whole = format!("whole-{data}");
        let done = json(place.path(), &format!("complete {data} -o {whole} --no-refit"));
        let (model, log) = result(&place.path().join(&whole));
        let found = number(&json(place.path(), &format!("evaluate {whole} --on validation")), "mse");
        let told = number(&done, "validation_mse");
        assert!((found / told - 1.0).abs() < 1e-6, "{data}: {found}, and {told} was told");
        assert!(
            log.iter().any(|line| line["validation_mse"]
                .as_f64()
                .is_some_and(|mse| (mse / found - 1.0).abs() < 1e-6))
        );
        json(place.path(), &format!("verify {whole}"));
        for stop in (1..log.len() - 1).step_by(3) {
            let out = format!("{data}-{stop}");
            json(
                place.path(),
                &format!("complete {data} -o {out} --no-refit --max-iterations {stop} --threads 3"),
            );
            json(place.path(), &format!("resume {out} --max-iterations 250 --threads 1"));
            assert!(result(&place.path().join(&out)) == (model.clone(), log.clone()), "{data} from {stop}");
        }
    }
}

/// Entries that hardly count are no sign of rows that explain something.
#[test]
fn weights_count_where_components_are_looked_for() {
    let place = folder();
    json(
        place.path(),
        "synth -o data.csv --factors gaussian --dims 80,70,60 --rank 2 --entries 30000 --seed 16",
    );
    let text = std::fs::read_to_string(place.path().join("data.csv")).unwrap();
    let weighted = text.lines().enumerate().map(|(number, line)| match (number, line.rsplit_once(',')) {
        (0, _) => format!("{line},w"),
        (_, Some((ids, value))) if number % 10 < 3 => {
            format!("{ids},{},1e-9", value.parse::<f64>().unwrap() + 100.0)
        }
        _ => format!("{line},1"),
    });
    std::fs::write(place.path().join("weighted.csv"), weighted.collect::<Vec<_>>().join("\n")).unwrap();
    let found = json(place.path(), "complete weighted.csv -o run --value value --weights w");
    assert!(r2(&found) > 0.999, "{found}");
}

/// A mode of which train has fewer rows than there are components: none can be appended, and the fit goes on as it is.
#[test]
fn a_mode_with_few_rows_in_train_ends_no_run() {
    let place = folder();
    let mut state = 11_u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut normal = |_| (0..12).map(|_| next(1 << 20) as f64 / (1 << 20) as f64).sum::<f64>() - 6.0;
    let [a, b]: [Vec<f64>; 2] = std::array::from_fn(|_| (0..180).map(&mut normal).collect());
    let mut rows: Vec<(usize, usize)> = (0..3600).map(|n| (n * 7 % 3600 / 60, n * 7 % 60)).collect();
    rows.sort_by_key(|(a, b)| (a * 131 + b * 17) % 97);
    for (name, rows, modes) in [("train", &rows[..2400], 2), ("validation", &rows[2400..3000], 61)] {
        let row = |(n, &(i, j)): (usize, &(usize, usize))| {
            let value: f64 = (0..3).map(|k| a[3 * i + k] * b[3 * j + k]).sum();
            format!("{},{i},{j},{value}\n", n * 31 % if n % 2 == 0 { 2 } else { modes })
        };
        let text: String = rows.iter().enumerate().map(row).collect();
        std::fs::write(place.path().join(format!("{name}.csv")), format!("c,a,b,v\n{text}")).unwrap();
    }
    json(place.path(), "convert train.csv --validation validation.csv --modes c,a,b --value v -o data");
    let found = json(place.path(), "complete data -o run");
    assert!(number(&found, "validation_mse") < 1e-2, "{found}");
}

/// Sweeps of exactly low-rank matrices end where train entries are met.
#[test]
fn matrices_without_noise_end_at_the_tolerance() {
    let place = folder();
    for (name, data) in [
        ("small", "--dims 300,200 --rank 2 --oversampling 10"),
        ("wide", "--dims 1000,800 --rank 4 --oversampling 15"),
    ] {
        json(place.path(), &format!("synth -o {name} --validation 0.1 --seed 11 {data}"));
        for (out, more) in [("run", ""), ("further", "--relative-tolerance 0 --max-iterations 30")] {
            let found = json(place.path(), &format!("complete {name} -o {name}-{out} {more}"));
            assert!(1.0 - r2(&found) < 1e-9, "{found}");
            assert_eq!(found["stopped_by"] == "tolerance", out == "run", "{found}");
        }
    }
}

/// Where most cells are known, steps from chunks alone come down to the tolerance, and the run ends there.
#[test]
fn a_run_ends_where_chunks_meet_the_tolerance() {
    let place = folder();
    json(
        place.path(),
        "synth -o data --dims 100,100,100 --rank 4 --entries 400000 --validation 0.05 --seed 2",
    );
    for (out, more) in [("auto", ""), ("given", "--rank 12")] {
        let found = json(place.path(), &format!("complete data -o {out} {more}"));
        assert_eq!(found["stopped_by"], "tolerance", "{found}");
        assert!(1.0 - r2(&found) < 1e-9 && number(&found, "passes") < 60.0, "{found}");
    }
}
