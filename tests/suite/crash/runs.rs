//! A whole run: whatever happens to the disk, it goes on to the same bits.

use super::faulty::{Fault, Faulty};
use super::image::{fast_directory, for_each_image};
use super::recorder::Recorder;
use super::sample;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tenfill_engine::control::{Control, Progress, Unit};
use tenfill_engine::run::{
    Config, LogLine, RunDirectory, complete, log_path, resume, unobserved, verify_run,
};
use tenfill_engine::shard::Dataset;
use tenfill_engine::solver::Iteration;
use tenfill_engine::storage::{Disk, Output, RealDisk};

/// Marks in the record what is reported as durable.
struct Marker(Recorder);

impl Progress for Marker {
    fn stage(&self, _: &str, _: Unit, _: u64) {}
    fn advance(&self, _: u64, _: &dyn Display) {}
    fn say(&self, _: &str) {}
    fn detail(&self, message: &str) {
        let number = message.strip_prefix("checkpoint ").and_then(|rest| rest.strip_suffix(" is durable"));
        if let Some(number) = number {
            self.0.mark(number.parse().unwrap());
        }
    }
}

fn dataset(directory: &Path) -> Dataset {
    sample::csv(&directory.join("table.csv"), 9);
    let path = directory.join("table.tenfill");
    sample::convert(&RealDisk, &directory.join("table.csv"), &path, false).unwrap();
    Dataset::open(path).unwrap()
}

fn start(disk: &dyn Disk, run: &Path, dataset: &Dataset, control: &Control) -> tenfill_engine::Result<()> {
    let directory = RunDirectory::create(disk, &Output::new(run, false))?;
    complete(&directory, dataset, &sample::config(dataset), &sample::limits(), control, &unobserved).map(drop)
}

/// What a run has come to: the model's bytes and the figures of the log.
fn result(run: &Path) -> (Vec<u8>, Vec<Iteration>) {
    let log = std::fs::read_to_string(log_path(run)).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str::<LogLine>(line).unwrap().iteration).collect();
    (std::fs::read(run.join("model/model.bin")).unwrap(), lines)
}

/// Goes on with a run, or begins it where it was ended before it was one.
fn go_on(run: &Path, dataset: &Dataset, name: &str) {
    let control = Control::default();
    if run.join("config.json").exists() {
        let directory = RunDirectory::open(&RealDisk, run).unwrap_or_else(|error| panic!("{name}: {error}"));
        let outcome = resume(&directory, |_| {}, &sample::limits(), &control, &unobserved);
        outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
    } else {
        start(&RealDisk, run, dataset, &control).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    assert!(sample::temporaries(run).is_empty(), "{name}");
    let found = verify_run(run, &control).unwrap();
    assert!(found.problems.is_empty(), "{name}: {:?}", found.problems);
}

#[test]
fn after_any_crash_a_run_goes_on_to_the_same_bits() {
    let place = fast_directory();
    let dataset = dataset(place.path());
    let root = fast_directory();
    let disk = Recorder::new(root.path());
    let control = Control::new(Arc::new(AtomicBool::new(false)), Arc::new(Marker(disk.clone())));
    start(&disk, &root.path().join("run"), &dataset, &control).unwrap();
    let expected = result(&root.path().join("run"));
    assert_eq!(expected.1.len(), 9);
    let images = for_each_image(&disk.ops(), 0, |image| {
        let run = image.path.join("run");
        if let Some(reported) = image.mark {
            let config = Config::read(&run).unwrap();
            let checkpoints =
                tenfill_engine::checkpoint::Checkpoints::new(run.join("checkpoints"), config.meaning());
            let found = checkpoints.newest().unwrap().expect("a checkpoint").state.last.iteration;
            assert!(found >= reported, "{}: {found} is behind {reported}", image.name);
        }
        go_on(&run, &dataset, &image.name);
        assert!(result(&run) == expected, "{}", image.name);
    });
    assert!(images > 60, "{images} images");
}

#[test]
fn after_any_fault_a_run_goes_on_to_the_same_bits() {
    let place = fast_directory();
    let dataset = dataset(place.path());
    let control = Control::default();
    let count = Faulty::never();
    let run = place.path().join("run");
    start(&count, &run, &dataset, &control).unwrap();
    let expected = result(&run);
    for fault in Fault::ALL {
        for at in 0..count.calls() {
            let name = format!("{fault:?} at call {at}");
            let root = fast_directory();
            let run = root.path().join("run");
            if let Err(error) = start(&Faulty::new(at, fault), &run, &dataset, &control) {
                assert!(fault != Fault::Short, "a short write is no error");
                let text = error.to_string();
                assert!(text.contains("run") && !text.contains('\n'), "{name}: {text}");
            }
            go_on(&run, &dataset, &name);
            assert!(result(&run) == expected, "{name}");
        }
    }
}
