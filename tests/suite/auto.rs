//! `--algorithm auto`: steps from chunks, conjugate gradients, steps of one pass. Fewer passes, the same model, and
//! the same bits for any number of threads and after an interruption at any moment.

use crate::common::{folder, json, result, run};
use serde_json::Value;
use std::path::Path;

const PLAIN: &str = "--bias none --penalty 0 --no-clip";

fn synth(place: &Path, more: &str) {
    json(place, &format!("synth -o data --dims 600,500,700 --rank 3 --oversampling 16 {more}"));
}

fn number(found: &Value, field: &str) -> f64 {
    found[field].as_f64().unwrap()
}

fn phases(run: &Path) -> Vec<String> {
    result(run).1.iter().map(|line| line["phase"].as_str().unwrap().to_string()).collect()
}

#[test]
fn few_passes_through_three_phases() {
    let place = folder();
    synth(place.path(), "");
    let cg = json(place.path(), &format!("complete data -o cg --rank 3 {PLAIN} --algorithm cg"));
    let auto = json(place.path(), "complete data -o auto --rank 3");
    for found in [&cg, &auto] {
        assert_eq!(found["stopped_by"], "tolerance", "{found}");
        // The train error is that of the model.
        let evaluated = number(&found["errors"]["train"], "mse");
        assert!((number(found, "train_mse") / evaluated - 1.0).abs() < 1e-3, "{found}");
    }
    assert!(number(&auto, "test_mse") < 10.0 * number(&cg, "test_mse"));
    assert!(number(&auto, "passes") <= 0.6 * number(&cg, "passes"), "{auto} against {cg}");
    let mut met = phases(&place.path().join("auto"));
    met.dedup();
    assert_eq!(met, ["start", "chunks", "two-pass", "one-pass"]);
    assert!(phases(&place.path().join("cg"))[1..].iter().all(|phase| phase == "two-pass"));
}

/// Whatever phase a run ends in, it goes on as if it had not.
#[test]
fn it_goes_on_to_the_same_bits_from_any_phase() {
    let place = folder();
    synth(place.path(), "--noise 1e-6 --validation 0.1");
    let with = |out: &str, iterations: usize, threads: usize| {
        format!(
            "complete data -o {out} --rank 3 {PLAIN} --tolerance 0 --patience 0 --gradient-tolerance 0 \
             --max-iterations {iterations} --threads {threads} --algorithm auto"
        )
    };
    json(place.path(), &with("whole", 34, 1));
    let expected = result(&place.path().join("whole"));
    let met = phases(&place.path().join("whole"));
    for phase in ["chunks", "two-pass", "one-pass"] {
        assert!(met.iter().any(|met| met == phase), "{met:?}");
    }
    // Where phases begin, in their midst, and in several starts.
    let begins: Vec<usize> = (1..met.len()).filter(|&n| met[n] != met[n - 1]).collect();
    for (number, stop) in begins.iter().flat_map(|&begin| [begin - 1, begin, begin + 1]).enumerate() {
        let out = format!("part{number}");
        json(place.path(), &with(&out, stop, 1 + number % 3));
        json(place.path(), &format!("resume {out} --max-iterations {}", (stop + 2).min(34)));
        json(place.path(), &format!("resume {out} --max-iterations 34 --threads 3"));
        assert!(expected == result(&place.path().join(&out)), "{stop}");
    }
}

/// With weights, the same: entries that count twice are as good as entries that are there twice would be.
#[test]
fn weights_go_with_it() {
    let place = folder();
    json(place.path(), "synth -o data.csv --dims 600,500,700 --rank 3 --oversampling 16");
    for (from, to) in [("data.csv", "weighted.csv"), ("data.test.csv", "test.csv")] {
        let text = std::fs::read_to_string(place.path().join(from)).unwrap();
        let weigh = |(number, line): (usize, &str)| match number {
            0 => format!("{line},weight\n"),
            _ => format!("{line},{}\n", 1 + number * 7 % 5),
        };
        let text: String = text.lines().enumerate().map(weigh).collect();
        std::fs::write(place.path().join(to), text).unwrap();
    }
    json(place.path(), "convert weighted.csv -o weighted --weights weight --test test.csv --value value");
    let found = json(place.path(), "complete weighted -o run --rank 3");
    assert_eq!(found["stopped_by"], "tolerance", "{found}");
    assert!(phases(&place.path().join("run")).iter().any(|phase| phase == "one-pass"));
    let spread = number(&found["errors"]["test"], "mse");
    assert!(spread < 1e-8, "{found}");
}

/// Noisy data are recognised within the passes that conjugate gradients would take for it.
#[test]
fn noisy_data_cost_no_more_passes() {
    let place = folder();
    json(place.path(), "synth -o data --kind ratings --dims 900,700,40 --entries 90000 --validation 0.1");
    let cg = json(place.path(), "complete data -o cg --rank 4 --algorithm cg");
    let auto = json(place.path(), "complete data -o auto --rank 4");
    assert!(number(&auto, "passes") <= number(&cg, "passes"), "{auto} against {cg}");
    assert!(number(&auto, "test_mse") < 1.01 * number(&cg, "test_mse"), "{auto} against {cg}");
}

/// Where noise is all that is left, a run ends: without validation entries, and whether or not components are looked for.
/// Going on from there changes nothing, and who wants all iterations gets them.
#[test]
fn noise_ends_a_run() {
    let place = folder();
    for (noise, most) in [("1e-3", 60.0), ("1e-1", 160.0)] {
        synth(place.path(), &format!("--force --noise {noise}"));
        let found = json(place.path(), &format!("complete data -o run{noise} --rank 3 {PLAIN}"));
        assert_eq!(found["stopped_by"], "floor", "{found}");
        assert!(number(&found, "passes") < most, "{found}");
        let again = json(place.path(), &format!("resume run{noise} --max-iterations 400"));
        assert_eq!([&again["iterations"], &again["test_mse"]], [&found["iterations"], &found["test_mse"]]);
    }
    let all = json(place.path(), &format!("complete data -o all --rank 3 {PLAIN} --tolerance 0"));
    assert_ne!(all["stopped_by"], "floor", "{all}");
    assert!(number(&all, "test_mse") > 0.9 * number(&json(place.path(), "evaluate run1e-1"), "mse"));
}

/// From a model that is there already, nothing is to be crossed.
#[test]
fn a_warm_start_has_no_chunks() {
    let place = folder();
    synth(place.path(), "");
    json(place.path(), "complete data -o first --rank 3 --max-iterations 15");
    json(place.path(), "complete data -o second --rank 3 --init first");
    let met = phases(&place.path().join("second"));
    assert!(!met.iter().any(|phase| phase == "chunks"), "{met:?}");
}

#[test]
fn what_does_not_go_together_is_said() {
    let place = folder();
    synth(place.path(), "");
    let base = "complete data -o run --rank 3 --algorithm auto --step exact";
    let said = crate::common::failure(place.path(), base);
    assert!(said.contains("--algorithm auto takes steps of its own"), "{said}");
    // Who names a part of conjugate gradients wants conjugate gradients.
    run(place.path(), "complete data -o exact --rank 3 --step exact --max-iterations 3".split(' '));
    assert!(phases(&place.path().join("exact"))[1..].iter().all(|phase| phase == "two-pass"));
}
