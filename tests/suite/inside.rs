//! A sweep may be left and gone on with after any wave of lanes, to the same bits.

use crate::common::{failure_of, folder, json, result, stderr, tenfill};
use crate::sweeps::random;
use std::fmt::{Display, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tenfill::cli::{self, Outside};
use tenfill_engine::Control;
use tenfill_engine::bayes::{Data, Fit, Room, Slices};
use tenfill_engine::control::{Progress, Unit};
use tenfill_engine::shard::{Dataset, Split};
use tenfill_engine::stream::{LANES, Share, Stream};
use tenfill_engine::team::Team;

/// Entries of three modes; where there are few slices, the first of them has half of all entries. Some have no weight.
fn dataset(folder: &Path, slices: usize) -> PathBuf {
    let (mut next, mut text) = (random(23), String::from("a,b,c,value,w\n"));
    for _ in 0..24_000 {
        let a = match slices {
            6 => (6.0 * next() * next().round()) as usize,
            _ => (slices as f64 * next()) as usize,
        };
        let (b, c) = ((700.0 * next()) as usize, (40.0 * next()) as usize);
        let value = (b as f64).sin() * (1.0 + a as f64 / slices as f64) + 0.1 * c as f64 + next();
        let weight = if next() < 0.05 || a % 50 == 7 { 0 } else { 1 };
        writeln!(text, "{a},{b},{c},{value},{weight}").unwrap();
    }
    std::fs::write(folder.join("x.csv"), text).unwrap();
    let name = format!("x{slices}");
    let split = "--split 100/0/0 --duplicates mean";
    json(folder, &format!("convert x.csv -o {name} --modes a,b,c --value value --weights w {split}"));
    folder.join(name)
}

/// How a sweep goes through the data.
#[derive(Debug, Clone, Copy)]
struct Way {
    window: usize,
    parts: usize,
    room: Option<Room>,
    threads: usize,
    processes: usize,
}

const SWEEPS: usize = 5;
const USUAL: Way = Way { window: usize::MAX, parts: 1, room: None, threads: 2, processes: 1 };

/// Calls `each` with a fit and its data in every process, and gives the fit that all of them have.
fn in_processes(
    place: &Path,
    way: Way,
    each: impl Fn(Option<Fit>, &Data<'_>) -> Fit + Sync,
    from: Option<&Fit>,
) -> Fit {
    let members = if way.processes == 1 { vec![Team::alone()] } else { Team::of_threads(way.processes) };
    let work = |team: Team| {
        let dataset = Dataset::open(place).unwrap();
        let share = Share { team, lanes: LANES };
        let train = Stream::open_share(&dataset, Split::Train, None, share).unwrap();
        let mut slices = Slices::in_windows(&train, 1.0, 3, way.window).unwrap().in_parts(way.parts);
        if let Some(room) = way.room {
            slices = slices.within(room);
        }
        let data = Data::of(&train, &slices);
        let fit = from.cloned();
        let fit =
            fit.or_else(|| Some(Fit::begin(dataset.manifest(), &data, None, |_| 3, None, 1).unwrap().0));
        let pool = rayon::ThreadPoolBuilder::new().num_threads(way.threads).build().unwrap();
        pool.install(|| each(fit, &data))
    };
    let fits = std::thread::scope(|scope| {
        let all: Vec<_> = members.into_iter().map(|team| scope.spawn(move || work(team))).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(fits.iter().all(|fit| *fit == fits[0]), "all processes have the same");
    fits.into_iter().next().unwrap()
}

/// Goes on to the end of the last sweep.
fn to_the_end(fit: Option<Fit>, data: &Data<'_>) -> Fit {
    let mut fit = fit.unwrap();
    while fit.posterior.sweep < SWEEPS || fit.posterior.inside.is_some() {
        fit.advance(data).unwrap();
    }
    fit
}

#[test]
fn from_any_wave_on_the_bits_are_the_same() {
    let folder = folder();
    for (slices, window) in [(500, usize::MAX), (6, 500)] {
        let place = dataset(folder.path(), slices);
        for parts in [1, 3] {
            let way = Way { window, parts, threads: 1, ..USUAL };
            let whole = in_processes(&place, way, to_the_end, None);
            let left = Mutex::new(Vec::new());
            let watched = in_processes(
                &place,
                way,
                |fit, data| {
                    let mut fit = fit.unwrap();
                    while fit.posterior.sweep < SWEEPS || fit.posterior.inside.is_some() {
                        left.lock().unwrap().push(fit.clone());
                        fit.advance(data).unwrap();
                    }
                    fit
                },
                None,
            );
            assert!(watched == whole);
            let left = left.into_inner().unwrap();
            assert!(left.len() > 8 * SWEEPS, "{}", left.len());
            let mut places = 0;
            for (number, fit) in left.iter().enumerate().step_by(3) {
                let processes = [1, 1, 2, 1, 4][number / 3 % 5];
                let other = Way { threads: number / 3 % 3 + 1, processes, ..way };
                places += usize::from(fit.posterior.inside.is_some());
                let at = fit.posterior.inside.as_ref().map(|inside| inside.at);
                assert!(in_processes(&place, other, to_the_end, Some(fit)) == whole, "{at:?} {other:?}");
            }
            assert!(places > 5, "{places}");
        }
    }
}

#[test]
fn memory_for_sums_changes_no_bit() {
    let folder = folder();
    let little = Room { lanes: 1, sums: 1 };
    for (slices, window) in [(500, usize::MAX), (200, usize::MAX), (6, 500)] {
        let place = dataset(folder.path(), slices);
        let way = Way { window, parts: 2, ..USUAL };
        let passes = AtomicUsize::new(0);
        let counted = |fit: Option<Fit>, data: &Data<'_>| {
            let mut fit = fit.unwrap();
            let all: usize = (0..SWEEPS).map(|_| fit.sweep(data).unwrap()).sum();
            passes.store(all, Ordering::Relaxed);
            fit
        };
        let whole = in_processes(&place, way, counted, None);
        let few = passes.load(Ordering::Relaxed);
        // Rows of the second mode are taken 256 at a time, in a pass each, and the run is left on the way.
        assert!(in_processes(&place, Way { room: Some(little), threads: 3, ..way }, counted, None) == whole);
        let more = passes.load(Ordering::Relaxed);
        assert!(more >= few + 4, "{few} and {more} passes");
        let half = |fit: Option<Fit>, data: &Data<'_>| {
            let mut fit = fit.unwrap();
            while fit.posterior.inside.as_ref().is_none_or(|inside| inside.aside.is_none()) {
                fit.advance(data).unwrap();
            }
            fit
        };
        let half = in_processes(&place, Way { room: Some(little), processes: 2, ..way }, half, None);
        assert!(in_processes(&place, way, to_the_end, Some(&half)) == whole, "with more room afterwards");
    }
}

/// Keeps a copy of a run as it is on disk after some of its checkpoints: what a run that is killed there leaves.
struct Copies {
    run: PathBuf,
    seen: AtomicUsize,
    inside: AtomicUsize,
}

impl Progress for Copies {
    fn stage(&self, _: &str, _: Unit, _: u64) {}
    fn advance(&self, _: u64, _: &dyn Display) {}
    fn say(&self, _: &str) {}
    fn detail(&self, message: &str) {
        if !message.ends_with(" sweep)") {
            return;
        }
        let number = self.seen.fetch_add(1, Ordering::Relaxed);
        if number.is_multiple_of(4) {
            let kept = self.inside.fetch_add(1, Ordering::Relaxed);
            copy(&self.run, &self.run.with_file_name(format!("killed{kept}")));
        }
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &to);
        } else if !entry.file_name().to_string_lossy().contains("tenfill-partial") {
            std::fs::copy(&path, &to).unwrap();
        }
    }
}

#[test]
fn a_run_that_is_killed_inside_a_sweep_goes_on_inside_it() {
    let folder = folder();
    json(&folder, "synth -o r --kind ratings --dims 600,400,40 --entries 90000 --validation 0.1 --test 0.1");
    json(&folder, "complete r -o whole --rank auto");
    let run = folder.path().join("run");
    let copies =
        Arc::new(Copies { run: run.clone(), seen: AtomicUsize::new(0), inside: AtomicUsize::new(0) });
    let control = Control::new(Arc::new(AtomicBool::new(false)), Arc::clone(&copies) as Arc<dyn Progress>);
    let data = folder.path().join("r");
    let arguments = ["complete", data.to_str().unwrap(), "-o", run.to_str().unwrap(), "--rank", "auto"];
    let more = ["--threads", "1", "--checkpoint-every", "1,0s"];
    let arguments = arguments.into_iter().chain(more).map(Into::into).collect();
    cli::call(arguments, Outside::new(control)).unwrap();
    let whole = result(&folder.path().join("whole"));
    assert!(result(&run) == whole);
    let killed = copies.inside.load(Ordering::Relaxed);
    assert!(killed >= 6, "{killed}");
    // The first of them within the first sweep: there is no model yet.
    assert!(!folder.path().join("killed0/model/model.bin").exists());
    for number in 0..killed {
        let done = json(&folder, &format!("resume killed{number} --threads {}", number % 3 + 1));
        assert!(result(&folder.path().join(format!("killed{number}"))) == whole, "{number}: {done}");
    }
}

/// Asks for an end as soon as a checkpoint was written within the first sweep.
struct Ends(Arc<AtomicBool>);

impl Progress for Ends {
    fn stage(&self, _: &str, _: Unit, _: u64) {}
    fn advance(&self, _: u64, _: &dyn Display) {}
    fn say(&self, _: &str) {}
    fn detail(&self, message: &str) {
        self.0.fetch_or(message.ends_with("(inside the first sweep)"), Ordering::Relaxed);
    }
}

#[test]
fn a_run_that_is_interrupted_in_its_first_sweep_goes_on_from_there() {
    let folder = folder();
    json(&folder, "synth -o r --kind ratings --dims 600,400,40 --entries 40000 --validation 0.1 --test 0.1");
    let whole = json(&folder, "complete r -o whole --rank auto --max-iterations 4");
    let (data, run) = (folder.path().join("r"), folder.path().join("run"));
    let end = Arc::new(AtomicBool::new(false));
    let control = Control::new(Arc::clone(&end), Arc::new(Ends(Arc::clone(&end))));
    let arguments = ["complete", data.to_str().unwrap(), "-o", run.to_str().unwrap(), "--rank", "auto"];
    let more = ["--threads", "1", "--checkpoint-every", "1,0s", "--max-iterations", "4"];
    let arguments = arguments.into_iter().chain(more).map(Into::into).collect();
    assert!(cli::call(arguments, Outside::new(control)).is_err());
    assert!(end.load(Ordering::Relaxed) && !run.join("model/model.bin").exists());
    let (said, done) = told(folder.path(), "resume run --threads 2");
    assert!(said.contains("going on from checkpoint 0"), "{said}");
    assert!(result(&run) == result(&folder.path().join("whole")));
    // No pass was made twice.
    assert_eq!(done["passes"], whole["passes"], "{done}");
    let lines = std::fs::read_to_string(run.join("log.jsonl")).unwrap().lines().count();
    assert_eq!(lines, 5, "a line per sweep");
}

/// What a command says on its way, and its last line.
fn told(folder: &Path, arguments: &str) -> (String, serde_json::Value) {
    let output = tenfill(folder).args(arguments.split_whitespace()).arg("--json").output().unwrap();
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    (said, serde_json::from_slice(output.stdout.trim_ascii()).unwrap())
}

#[test]
fn little_memory_means_more_passes_and_then_a_lower_rank() {
    let folder = folder();
    let place = folder.path();
    // The sums of 150,000 rows of 16 numbers take 182 MB.
    json(place, "synth -o r --kind ratings --dims 2000,150000,5 --entries 150000 --validation 0.1 --test 0");
    let asked = json(place, "inspect r --rank 15,15,5 --threads 2");
    assert_eq!(asked["sweep_passes"], 1, "{asked}");
    assert!(asked["most_sweep_passes"].as_u64().unwrap() > 100, "{asked}");
    let ask = "--rank auto --max-iterations 0 --threads 2";
    let (said, whole) = told(place, &format!("complete r -o much --memory 4G {ask}"));
    assert!(!said.contains("a sweep takes"), "{said}");
    let (said, parts) = told(place, &format!("complete r -o little --memory 330M {ask}"));
    assert!(said.contains("a sweep takes ") && said.contains("are taken in"), "{said}");
    assert!(parts["passes"].as_u64() > whole["passes"].as_u64(), "{parts} {whole}");
    let model = |name: &str| std::fs::read(place.join(name).join("model/model.bin")).unwrap();
    assert!(model("much") == model("little"), "how many passes there are changes no bit");
    let (said, fewer) = told(place, &format!("complete r -o least --memory 150M {ask}"));
    assert!(
        said.contains(" has no room ") && said.contains("for rank 15, so that sweeps begin with rank "),
        "{said}"
    );
    let most =
        |of: &serde_json::Value| of["rank"].as_array().unwrap().iter().filter_map(|r| r.as_u64()).max();
    assert!(most(&fewer) < most(&whole), "{fewer}");
    // Where not even one component has room, the run is refused.
    let said =
        failure_of(place, &format!("complete r -o none --memory 12M {ask}").split(' ').collect::<Vec<_>>());
    assert!(said.contains("memory"), "{said}");
}

#[test]
fn little_memory_means_no_trials_before_it_means_a_lower_rank() {
    let folder = folder();
    let place = folder.path();
    json(place, "synth -o r --kind ratings --dims 900,1700,30 --entries 80000 --validation 0.1 --test 0");
    let ask = "--rank auto --threads 2 --max-iterations 3";
    // (Components of further pairs would take 130 MB.)
    let (said, done) = told(place, &format!("complete r -o some --memory 60M {ask}"));
    assert!(said.contains("has no room to try components of further pairs of modes"), "{said}");
    let (said, given) =
        told(place, "complete r -o given --rank 15 --memory 60M --threads 2 --max-iterations 3");
    assert!(!said.contains("room"), "{said}");
    assert_eq!(done["validation_mse"], given["validation_mse"], "as with a rank that is given");
    // What there was room for in the beginning is part of the run, also where it has no checkpoint yet.
    let (said, _) = told(place, &format!("complete r -o few --memory 34M {ask}"));
    assert!(said.contains("sweeps begin with rank "), "{said}");
    let model = || std::fs::read(place.join("few/model/model.bin")).unwrap();
    let before = model();
    std::fs::remove_dir_all(place.join("few/checkpoints")).unwrap();
    json(place, "resume few --memory 1G --threads 1");
    assert!(before == model());
}

#[test]
fn what_there_is_room_for_depends_on_no_number_of_threads() {
    let folder = folder();
    let place = folder.path();
    json(place, "synth -o r --kind ratings --dims 900,1700,30 --entries 80000 --validation 0.1 --test 0");
    let models = [1, 2, 8].map(|threads| {
        let ask = format!("complete r -o t{threads} --memory 40M --max-iterations 2 --threads {threads}");
        assert!(told(place, &ask).0.contains("sweeps begin with rank "));
        std::fs::read(place.join(format!("t{threads}/model/model.bin"))).unwrap()
    });
    assert!(models.iter().all(|model| *model == models[0]));
}

#[test]
fn little_memory_for_sweeps_keeps_nobody_from_looking_for_low_rank_data() {
    let folder = folder();
    let place = folder.path();
    let gaussian = "--factors gaussian --dims 700,600,500 --rank 2 --oversampling 60 --seed 5";
    json(place, &format!("synth -o data --validation 0.1 {gaussian}"));
    let (said, found) = told(place, "complete data -o run --memory 60M");
    assert!(said.contains("has no room to try components of further pairs of modes"), "{said}");
    assert_eq!(found["rank"], serde_json::json!([2, 2, 2]), "{found}");
}
