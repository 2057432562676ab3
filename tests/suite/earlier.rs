//! Runs of the version that had a search over ranks and penalties (commit 5e93484), in `tests/data/earlier`: twenty users,
//! sixteen items and three days. `search` was ended in the middle of a search, after six iterations, and its rows were
//! fitted with values at the ends as censored; `sweeps` was ended after the third sweep.

use crate::common::{failure, folder, json, output, result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        if path.is_dir() {
            copy(&path, &to.join(name))
        } else {
            std::fs::copy(&path, to.join(name)).map(drop).unwrap()
        }
    }
}

fn of(name: &str, place: &Path) -> PathBuf {
    let run = place.join(name);
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/earlier").join(name), &run);
    run
}

/// All files but the lock, with their bytes.
fn files(folder: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        match path.is_dir() {
            true => files(&path, found),
            false if path.ends_with(".lock") => {}
            false => drop(found.insert(path.clone(), std::fs::read(path).unwrap())),
        }
    }
}

#[test]
fn the_model_of_a_search_is_used_as_before() {
    let folder = folder();
    let place = folder.path();
    of("search", place);
    let scored = json(&folder, "evaluate search");
    assert!((scored["mse"].as_f64().unwrap() - 0.29210756579256303).abs() < 1e-12, "{scored}");
    std::fs::write(place.join("asked.csv"), "user,item,day\n0,0,2\n0,2,2\n").unwrap();
    let told = output(place, &["predict", "search", "asked.csv"]);
    let said =
        |line: usize| told.lines().nth(line).unwrap().split(',').nth(3).unwrap().parse::<f64>().unwrap();
    assert!(
        (said(1) - 4.5059361086205145).abs() < 1e-12 && (said(2) - 4.260905547795306).abs() < 1e-12,
        "{told}"
    );
    std::fs::write(place.join("new.csv"), "user,item,day,stars\n77,3,1,4\n77,5,2,2\n").unwrap();
    for command in [
        "verify search",
        "inspect search",
        "export search -o exported",
        "report search -o report.html",
        "recommend search --given user=3 --rank-mode item",
        "fold-in search new.csv -o more",
    ] {
        json(&folder, command);
    }
    let report = std::fs::read_to_string(place.join("report.html")).unwrap();
    assert!(report.contains("validation"), "its log is read");
}

#[test]
fn a_search_is_not_gone_on_with_and_nothing_is_touched() {
    let folder = folder();
    let run = of("search", folder.path());
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    files(&run, &mut before);
    for more in ["", " --max-iterations 50"] {
        let said = failure(&folder, &format!("resume search{more}"));
        assert!(
            said.contains("this run is a search over ranks and penalties")
                && said.contains("model can be used")
        );
    }
    // Likewise where there is nothing to go on from.
    files(&run, &mut after);
    assert!(before == after);
    std::fs::remove_dir_all(run.join("checkpoints")).unwrap();
    assert!(failure(&folder, "resume search").contains("this run is a search"));
}

#[test]
fn sweeps_go_on() {
    let folder = folder();
    of("sweeps", folder.path());
    let resumed = json(&folder, "resume sweeps --max-iterations 250");
    // What the version said that they are from (ab35c23 the same), by its own rule for features of rows of few entries;
    // not to the bit where the processor is of another kind.
    let error = resumed["validation_mse"].as_f64().unwrap();
    assert!((error / 0.9875640234219457 - 1.0).abs() < 1e-6, "{resumed}");
    assert_eq!(resumed["tried"][0]["iterations"], 11);
    json(&folder, "complete sweeps/data.tenfill -o whole");
    // And are a start for others, as the model of a search is not.
    json(&folder, "complete sweeps/data.tenfill -o warm --init sweeps");
    of("search", folder.path());
    json(&folder, "complete sweeps/data.tenfill -o cold --init search");
    assert!(result(&folder.path().join("cold")) == result(&folder.path().join("whole")));
}
