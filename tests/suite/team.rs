//! Several processes do what one does, to the bit: here they are threads of one process, so that no MPI
//! is needed. `mpi.rs` does the same with mpirun.

use crate::common::result;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tenfill_engine::Control;
use tenfill_engine::bayes::{Room, Sizes};
use tenfill_engine::objective::Needs;
use tenfill_engine::recipe::Recipe;
use tenfill_engine::run::{Config, Every, Init, Limits, Outcome, RunDirectory, complete, resume, unobserved};
use tenfill_engine::shard::Dataset;
use tenfill_engine::storage::{Output, RealDisk};
use tenfill_engine::stream::{Access, LANES};
use tenfill_engine::team::Team;

fn limits(team: Team) -> Limits {
    let every = Every { iterations: 3, ..Every::default() };
    Limits { memory: 1 << 30, threads: 1 + team.process() % 2, every, team }
}

/// Does something as every member of a team; the run of the first is on disk.
fn together(
    size: usize,
    run: &Path,
    work: impl Fn(&RunDirectory<'_>, Team) -> tenfill_engine::Result<Outcome> + Sync,
) -> tenfill_engine::Result<Outcome> {
    let members = if size == 1 { vec![Team::alone()] } else { Team::of_threads(size) };
    let ended = std::thread::scope(|scope| {
        let work = &work;
        let member = |team: Team| {
            scope.spawn(move || {
                let directory = match (team.is_first(), run.join("config.json").is_file()) {
                    (false, _) => RunDirectory::written_elsewhere(Path::new("not to be seen")),
                    (true, false) => RunDirectory::create(&RealDisk, &Output::new(run, false)).unwrap(),
                    (true, true) => RunDirectory::open(&RealDisk, run).unwrap(),
                };
                work(&directory, team)
            })
        };
        let all: Vec<_> = members.into_iter().map(member).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
    });
    let told =
        |one: &tenfill_engine::Result<Outcome>| one.as_ref().map_err(ToString::to_string).map(|o| o.test_mse);
    assert!(ended.iter().all(|one| told(one) == told(&ended[0])), "all come to the same end");
    ended.into_iter().next().unwrap()
}

fn begin(size: usize, dataset: &Path, run: &Path, config: &Config) -> tenfill_engine::Result<Outcome> {
    together(size, run, |directory, team| {
        let dataset = Dataset::open(dataset)?;
        complete(directory, &dataset, config, &limits(team), &Control::default(), &unobserved)
    })
}

fn go_on(size: usize, run: &Path, iterations: usize) -> tenfill_engine::Result<Outcome> {
    together(size, run, |directory, team| {
        resume(
            directory,
            |config| config.solver.max_iterations = iterations,
            &limits(team),
            &Control::default(),
            &unobserved,
        )
    })
}

fn synth(place: &Path, arguments: &str) -> PathBuf {
    let all = format!("synth -o data {arguments}");
    crate::common::run(place, all.split(' '));
    place.join("data")
}

fn plain(dataset: &Path, rank: Vec<usize>, iterations: usize) -> Config {
    let mut config = Config::new(&Dataset::open(dataset).unwrap(), rank);
    config.recipe = Recipe::plain();
    config.solver.max_iterations = iterations;
    config.set_tolerances(Some(0.0), None);
    config.solver.patience = 0;
    config
}

/// Modes of several chunks, so that every process owns some rows; few rows of the second are touched.
const TALL: &str = "--dims 30000,50000,40 --rank 2 --entries 60000 --noise 0.1 --validation 0.1";

#[test]
fn the_plain_method_gives_the_same_bits_on_any_team() {
    let cases = [
        (TALL, vec![3, 2, 2]),
        ("--dims 9000,8500 --rank 2 --entries 40000 --noise 0.1", vec![2, 2]),
        ("--dims 5000,20,4500,6 --rank 2 --entries 40000 --noise 0.1 --validation 0.1", vec![2, 2, 2, 2]),
    ];
    for (data, rank) in cases {
        let place = crate::common::folder();
        let dataset = synth(place.path(), data);
        let config = plain(&dataset, rank, 6);
        let alone = begin(1, &dataset, &place.path().join("alone"), &config).unwrap();
        for size in [2, 3, 5] {
            let run = place.path().join(format!("run{size}"));
            let outcome = begin(size, &dataset, &run, &config).unwrap();
            assert_eq!((outcome.train_mse, outcome.test_mse), (alone.train_mse, alone.test_mse));
            assert!(result(&run) == result(&place.path().join("alone")), "{size} processes, {data}");
        }
    }
}

/// All phases of few passes: chunks, two passes, one pass.
#[test]
fn few_passes_give_the_same_bits_on_any_team() {
    let place = crate::common::folder();
    let dataset = synth(place.path(), "--dims 9000,4200,900 --rank 3 --oversampling 8 --validation 0.05");
    let mut config = plain(&dataset, vec![3, 3, 3], 40);
    config.set_tolerances(None, Some(1e-14));
    begin(1, &dataset, &place.path().join("alone"), &config).unwrap();
    let (alone, log) = result(&place.path().join("alone"));
    for phase in ["chunks", "two-pass", "one-pass"] {
        assert!(log.iter().any(|line| line["phase"] == phase), "{phase}");
    }
    for size in [2, 3, 5] {
        let run = place.path().join(format!("run{size}"));
        begin(size, &dataset, &run, &config).unwrap();
        assert!(result(&run) == (alone.clone(), log.clone()), "{size} processes");
    }
    // Begun by one number of processes inside the first phase, ended by others.
    config.solver.max_iterations = 5;
    let run = place.path().join("run");
    begin(3, &dataset, &run, &config).unwrap();
    for (size, iterations) in [(2, 13), (5, 19), (1, 40)] {
        go_on(size, &run, iterations).unwrap();
    }
    assert!(result(&run) == (alone, log));
}

/// Components from the spectrum of the residual, one by one.
#[test]
fn the_spectrum_gives_the_same_bits_on_any_team() {
    let place = crate::common::folder();
    let dataset = synth(place.path(), "--dims 9000,60,50 --rank 2,3,3 --entries 90000 --factors gaussian");
    let mut config = plain(&dataset, vec![2, 3, 3], 40);
    config.init = Init::Spectral;
    config.set_tolerances(None, Some(1e-14));
    begin(1, &dataset, &place.path().join("alone"), &config).unwrap();
    let (alone, log) = result(&place.path().join("alone"));
    assert!(log.iter().any(|line| line["phase"] == "spectral") && log.last().unwrap()["phase"] != "spectral");
    for size in [2, 3] {
        let run = place.path().join(format!("run{size}"));
        begin(size, &dataset, &run, &config).unwrap();
        assert!(result(&run) == (alone.clone(), log.clone()), "{size} processes");
    }
    config.solver.max_iterations = 3;
    let run = place.path().join("run");
    begin(3, &dataset, &run, &config).unwrap();
    for (size, iterations) in [(2, 9), (1, 40)] {
        go_on(size, &run, iterations).unwrap();
    }
    assert!(result(&run) == (alone, log));
}

#[test]
fn the_recipe_gives_the_same_bits_on_any_team() {
    let place = crate::common::folder();
    let data = "--kind ratings --dims 6000,5000,30 --entries 60000 --validation 0.1";
    let dataset = synth(place.path(), data);
    let mut config = Config::new(&Dataset::open(&dataset).unwrap(), vec![5, 5, 2]);
    config.solver.max_iterations = 60;
    begin(1, &dataset, &place.path().join("alone"), &config).unwrap();
    for size in [2, 4] {
        let run = place.path().join(format!("run{size}"));
        begin(size, &dataset, &run, &config).unwrap();
        assert!(result(&run) == result(&place.path().join("alone")), "{size} processes");
    }
}

#[test]
fn four_modes_give_the_same_bits_on_any_team() {
    let place = crate::common::folder();
    crate::many_modes::delays(&place.path().join("x.csv"), 60_000);
    crate::common::json(&place, "convert x.csv -o x --modes origin,destination,hour,day --value delay");
    let dataset = place.path().join("x");
    let mut config = Config::new(&Dataset::open(&dataset).unwrap(), vec![6, 6, 6, 6]);
    config.rank_auto = true;
    begin(1, &dataset, &place.path().join("alone"), &config).unwrap();
    let tried = std::fs::read_to_string(place.path().join("alone/log.jsonl")).unwrap();
    assert!(tried.contains("cells") && tried.contains("sweep"), "{tried}");
    for size in [2, 4] {
        let run = place.path().join(format!("run{size}"));
        begin(size, &dataset, &run, &config).unwrap();
        assert!(result(&run) == result(&place.path().join("alone")), "{size} processes");
    }
}

#[test]
fn a_run_goes_on_with_another_number_of_processes() {
    let place = crate::common::folder();
    let dataset = synth(place.path(), TALL);
    begin(1, &dataset, &place.path().join("whole"), &plain(&dataset, vec![2, 2, 2], 12)).unwrap();
    let run = place.path().join("run");
    begin(3, &dataset, &run, &plain(&dataset, vec![2, 2, 2], 4)).unwrap();
    go_on(2, &run, 7).unwrap();
    go_on(1, &run, 9).unwrap();
    go_on(4, &run, 12).unwrap();
    assert!(result(&run) == result(&place.path().join("whole")));
}

#[test]
fn an_error_of_one_is_the_error_of_all() {
    let place = crate::common::folder();
    let dataset = synth(place.path(), TALL);
    let config = plain(&dataset, vec![2, 2, 2], 4);
    // More lanes than processes are needed.
    let many = begin(9, &dataset, &place.path().join("many"), &config).unwrap_err().to_string();
    assert!(many.contains("8 lanes are too few for 9 processes"), "{many}");
    // A damaged block of the last lane is found by the process that reads it.
    let shards = crate::common::names(&dataset.join("train"));
    let shard = dataset.join("train").join(shards.last().unwrap());
    let mut bytes = std::fs::read(&shard).unwrap();
    bytes[300] ^= 1;
    std::fs::write(&shard, bytes).unwrap();
    let told = begin(4, &dataset, &place.path().join("run"), &config).unwrap_err().to_string();
    assert!(
        told.starts_with("process ") && told.contains("on thread") && told.contains("is damaged"),
        "{told}"
    );
}

#[test]
fn one_of_several_processes_needs_less() {
    use tenfill_engine::kernel::Precision::Mixed;
    let place = crate::common::folder();
    let dataset = Dataset::open(synth(place.path(), TALL)).unwrap();
    let access = Some(Access::Cached);
    let of =
        |processes| Needs::of_several(dataset.manifest(), &[9, 9, 9], Mixed, access, 1, LANES, processes);
    assert_eq!(of(1), Needs::of(&dataset, &[9, 9, 9], Mixed, access, 1));
    let (one, two, four) = (of(1), of(2), of(4));
    assert!(four.copy * 3 < one.copy && two.copy * 3 < one.copy * 2);
    assert_eq!((one.lanes, two.lanes, four.lanes), (8, 4, 2));
    // What the command says is what a process reserves.
    let manifest = dataset.manifest();
    let dims: Vec<u64> = manifest.level_dims().iter().map(|&dim| dim.into()).collect();
    let sweeps = Sizes {
        dims: &dims,
        entries: manifest.train.entries,
        beside: manifest.validation.entries,
        rank: 9,
        grows: false,
    };
    let room = Room { lanes: 2, sums: 128 << 20 };
    let told = crate::common::run(place.path(), "inspect data --rank 9 --processes 4 --threads 1".split(' '));
    let first = four
        .with_chunks()
        .with_coordinates(manifest)
        .with_growth(manifest, &[9, 9, 9], 1)
        .with_biases(&dataset);
    let needs = four.with_sweeps(sweeps.bytes(room), (2, room.sums));
    assert_eq!(told["memory_bytes"], needs.after(&first).most());
}

#[test]
fn one_process_that_is_asked_to_stop_stops_all_of_them_and_the_bits_are_the_same() {
    let place = crate::common::folder();
    let data =
        synth(place.path(), "--kind ratings --dims 500,300,30 --entries 40000 --validation 0.1 --test 0.1");
    let plain = plain(&data, vec![3, 3, 3], 30);
    let mut sweeps = Config::new(&Dataset::open(&data).unwrap(), vec![4, 4, 4]);
    sweeps.recipe = Recipe::usual(Dataset::open(&data).unwrap().manifest());
    sweeps.rank_auto = true;
    for (name, config) in [("plain", plain), ("sweeps", sweeps)] {
        let whole = place.path().join(format!("whole-{name}"));
        let begun = Instant::now();
        begin(2, &data, &whole, &config).unwrap();
        let took = begun.elapsed();
        let last = config.solver.max_iterations;
        for moment in 0..6 {
            let run = place.path().join(format!("{name}-{moment}"));
            let after = took * (2 * moment + 1) / 12;
            let ended = together(2, &run, |directory, team| {
                let stop = Arc::new(AtomicBool::new(false));
                // The other one hears of it by agreement alone.
                if team.process() == moment as usize % 2 {
                    let stop = Arc::clone(&stop);
                    std::thread::spawn(move || {
                        std::thread::sleep(after);
                        stop.store(true, Ordering::Relaxed);
                    });
                }
                let (dataset, control) = (Dataset::open(&data)?, Control::stopped_by(stop));
                complete(directory, &dataset, &config, &limits(team), &control, &unobserved)
            });
            assert!(matches!(ended, Ok(_) | Err(tenfill_engine::Error::Interrupted)), "{ended:?}");
            go_on(1 + moment as usize % 3, &run, last).unwrap();
            assert!(result(&run) == result(&whole), "{name} {moment}");
        }
    }
}
