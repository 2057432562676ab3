//! What cannot be computed with is refused in one sentence, and nothing is written that cannot be read.

use super::{PLAIN, json, low_rank, refusal, write};
use crate::common::{bytes, folder};

#[test]
fn values_that_no_run_has_room_for_are_refused() {
    let folder = folder();
    let folder = folder.path();
    for scale in [1e-100, 1e-70, 1e70, 1e100] {
        write(&folder.join("x.csv"), &low_rank(), scale, 1.0);
        let line = "complete x.csv -o run --force --modes a,b,c --value value --rank 2";
        let told = refusal(folder, line);
        assert!(told.contains("can be fitted: scale them"), "{told}");
        assert!(!folder.join("run/model/model.bin").exists() && !folder.join("run/checkpoints").exists());
    }
}

#[test]
fn weights_that_no_run_has_room_for_are_refused() {
    let folder = folder();
    let folder = folder.path();
    for (scale, weight) in [(1.0, 1e-170), (1e-60, 1e-250), (1.0, 1e170)] {
        write(&folder.join("x.csv"), &low_rank(), scale, weight);
        let line = "complete x.csv -o run --force --modes a,b,c --value value --weights weight --rank 2";
        let told = refusal(folder, line);
        assert!(told.contains("the train weights are up to") && told.contains("scale them"), "{told}");
    }
    write(&folder.join("x.csv"), &low_rank(), 1e50, 1e300);
    let told = refusal(folder, "convert x.csv -o data --modes a,b,c --value value --weights weight");
    assert!(told.contains("too large to be summed"), "{told}");
}

#[test]
fn values_that_cannot_be_squared_are_refused_in_every_split() {
    let folder = folder();
    let folder = folder.path();
    let mut rows = low_rank();
    write(&folder.join("x.csv"), &rows, 1.0, 1.0);
    rows.truncate(20);
    write(&folder.join("huge.csv"), &rows, 1e200, 1.0);
    for split in ["--validation", "--test"] {
        let line = format!("convert x.csv -o data --modes a,b,c --value value {split} huge.csv");
        let told = refusal(folder, &line);
        assert!(told.contains("too large to be squared and summed"), "{told}");
        assert!(!folder.join("data").exists());
    }
}

/// The model of huge values is a start from which a run on small ones cannot go anywhere.
#[test]
fn a_run_whose_numbers_are_none_ends_with_a_sentence() {
    let folder = folder();
    let folder = folder.path();
    write(&folder.join("huge.csv"), &low_rank(), 1e58, 1.0);
    write(&folder.join("small.csv"), &low_rank(), 1.0, 1.0);
    let line = |file: &str, run: &str| {
        format!("complete {file} -o {run} --modes a,b,c --value value --rank 2 --split none {PLAIN}")
    };
    json(folder, &line("huge.csv", "huge"));
    let before = bytes(&folder.join("huge"));
    let told = refusal(folder, &format!("{} --init huge", line("small.csv", "small")));
    assert!(told.contains("is no finite number any more"), "{told}");
    assert!(!folder.join("small/model/model.bin").exists(), "no model that cannot be read");
    assert!(!folder.join("small/checkpoints").exists() || json(folder, "verify small")["ok"] == true);
    assert!(before == bytes(&folder.join("huge")));
}
