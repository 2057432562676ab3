//! Runs over MPI: `cargo test --release --features mpi --test suite mpi::`. Needs mpirun; all processes run on
//! this machine, however few cores it has.

use crate::common::{folder, names, result, stderr, tenfill};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// `mpirun -np SIZE tenfill ...` in a folder.
fn mpirun(place: &Path, size: usize, arguments: &str) -> Command {
    let mut command = Command::new("mpirun");
    command.current_dir(place).stdin(Stdio::null());
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.args(["-np", &size.to_string(), "--oversubscribe", env!("CARGO_BIN_EXE_tenfill")]);
    command.args(arguments.split_whitespace());
    command
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", stderr(&output));
    output
}

fn alone(place: &Path, arguments: &str) -> Output {
    succeed(tenfill(place).args(arguments.split_whitespace()))
}

const PLAIN: &str = "--rank 3 --bias none --penalty 0 --tolerance 0 --patience 0 --threads 1";

/// Modes of several chunks of rows, so that every process owns some.
fn synth(place: &Path) {
    let data = "--dims 20000,9000,30 --rank 2 --entries 60000 --noise 0.1 --validation 0.1";
    alone(place, &format!("synth -o data {data}"));
}

#[test]
fn the_same_bits_on_1_2_and_4_processes() {
    let place = folder();
    let place = place.path();
    synth(place);
    let plain = format!("complete data {PLAIN} --max-iterations 8");
    alone(place, &format!("{plain} -o alone"));
    // A raw file is converted by one process; the recipe goes through all kinds of passes.
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ratings.csv");
    let recipe = format!("complete {} --rank 4,4,4 --max-iterations 40 --threads 1", table.display());
    alone(place, &format!("{recipe} -o alone-recipe"));
    // Rows that differ in how many entries they have have coordinates of their own.
    crate::uneven::synth(place, "--dims 9000,6000,30 --entries 900000");
    alone(place, "convert uneven.csv -o uneven --split 90/10/0 --value value");
    let uneven = format!("complete uneven {PLAIN} --no-clip --max-iterations 12");
    alone(place, &format!("{uneven} -o alone-uneven"));
    for size in [1, 2, 4] {
        let output = succeed(&mut mpirun(place, size, &format!("{plain} -o run{size} --json")));
        // One process speaks for all.
        assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 1);
        assert!(result(&place.join(format!("run{size}"))) == result(&place.join("alone")), "{size}");
        succeed(&mut mpirun(place, size, &format!("{recipe} -o recipe{size}")));
        assert!(
            result(&place.join(format!("recipe{size}"))) == result(&place.join("alone-recipe")),
            "{size}"
        );
        succeed(&mut mpirun(place, size, &format!("{uneven} -o uneven{size}")));
        assert!(
            result(&place.join(format!("uneven{size}"))) == result(&place.join("alone-uneven")),
            "{size}"
        );
    }
    alone(place, "verify run4");
}

#[test]
fn a_run_goes_on_with_other_numbers_of_processes_and_without_mpi() {
    let place = folder();
    let place = place.path();
    synth(place);
    alone(place, &format!("complete data {PLAIN} --max-iterations 14 -o whole"));
    succeed(&mut mpirun(place, 4, &format!("complete data {PLAIN} --max-iterations 5 -o run")));
    succeed(&mut mpirun(place, 2, "resume run --max-iterations 8 --threads 1"));
    alone(place, "resume run --max-iterations 11 --threads 2");
    succeed(&mut mpirun(place, 3, "resume run --max-iterations 14 --threads 1"));
    assert!(result(&place.join("run")) == result(&place.join("whole")));
}

/// The processes of a job: the children of mpirun.
fn processes(job: &Child) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parent = |pid: u32| -> Option<u32> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat[stat.rfind(')')? + 1..].split_whitespace().nth(1)?.parse().ok()
    };
    let mut found: Vec<u32> = numbers.filter(|&pid| parent(pid) == Some(job.id())).collect();
    found.sort_unstable();
    found
}

fn kill(signal: &str, pid: u32) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

/// Starts a run that would take very long, and waits for its first checkpoints.
fn begin(place: &Path, size: usize) -> Child {
    synth(place);
    let arguments = format!("complete data {PLAIN} --max-iterations 1000000 --checkpoint-every 2 -o run");
    let mut job =
        mpirun(place, size, &arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let checkpoints = place.join("run/checkpoints");
    while !checkpoints.is_dir() || names(&checkpoints).len() < 2 {
        assert!(job.try_wait().unwrap().is_none(), "the job has ended");
        std::thread::sleep(Duration::from_millis(20));
    }
    job
}

/// The run, taken some iterations further by `size` processes, equals one that was never interrupted.
fn goes_on(place: &Path, size: usize) {
    let log = std::fs::read_to_string(place.join("run/log.jsonl")).unwrap();
    let end = log.lines().count() + 3;
    succeed(&mut mpirun(place, size, &format!("resume run --max-iterations {end} --threads 1")));
    alone(place, &format!("complete data {PLAIN} --max-iterations {end} -o whole"));
    assert!(result(&place.join("run")) == result(&place.join("whole")));
}

#[test]
fn a_killed_process_ends_the_job_and_resume_completes_it() {
    let place = folder();
    let mut job = begin(place.path(), 4);
    let all = processes(&job);
    assert_eq!(all.len(), 4);
    kill("-KILL", all[2]);
    // It ends by itself: a job that went on for ever would never leave this line.
    assert!(!job.wait().unwrap().success());
    goes_on(place.path(), 2);
}

#[test]
fn a_signal_ends_with_a_checkpoint() {
    // A scheduler sends it to every process; mpirun hands SIGUSR1 on.
    for signal in ["-TERM", "-USR1"] {
        let place = folder();
        let mut job = begin(place.path(), 2);
        match signal {
            "-TERM" => processes(&job).into_iter().for_each(|pid| kill(signal, pid)),
            _ => kill(signal, job.id()),
        }
        assert_eq!(job.wait().unwrap().code(), Some(130), "{signal}");
        let log = std::fs::read_to_string(place.path().join("run/log.jsonl")).unwrap();
        let newest = names(&place.path().join("run/checkpoints")).pop().unwrap();
        assert_eq!(newest, format!("{:08}.checkpoint", log.lines().count() - 1), "{signal}");
        goes_on(place.path(), 4);
    }
}

/// Runs a job that must fail; the one sentence of ours comes back.
fn fail(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    let ours: Vec<&str> = told.lines().filter(|line| line.starts_with("tenfill:")).collect();
    assert_eq!(ours.len(), 1, "{told}");
    ours[0].into()
}

#[test]
fn parts_on_hosts_of_their_own() {
    let place = folder();
    let place = place.path();
    synth(place);
    alone(place, "distribute data --hosts 2 -o parts");
    for part in ["parts", "parts/part-0", "parts/part-1"] {
        alone(place, &format!("verify {part}"));
    }
    let arguments = format!("{PLAIN} --max-iterations 5");
    alone(place, &format!("complete data {arguments} -o alone"));
    for size in [2, 4] {
        succeed(&mut mpirun(place, size, &format!("complete parts {arguments} -o run{size}")));
        assert!(result(&place.join(format!("run{size}"))) == result(&place.join("alone")));
    }
    // All parts in one place are the dataset.
    alone(place, "resume run2 --max-iterations 6");
    alone(place, &format!("complete data {PLAIN} --max-iterations 6 -o longer"));
    assert!(result(&place.join("run2")) == result(&place.join("longer")));

    // A host without its part: nothing begins.
    let away: PathBuf = place.join("part-1");
    std::fs::rename(place.join("parts/part-1"), &away).unwrap();
    let told = fail(&mut mpirun(place, 2, &format!("complete parts {arguments} -o none")));
    assert!(told.contains("process 1 on ") && told.contains("part-1"), "{told}");
    assert!(!place.join("none").exists());
    // Likewise where a single file of it is missing.
    std::fs::rename(&away, place.join("parts/part-1")).unwrap();
    let shards = names(&place.join("parts/part-1/train"));
    let last = place.join("parts/part-1/train").join(shards.last().unwrap());
    std::fs::rename(&last, place.join("shard")).unwrap();
    let told = fail(&mut mpirun(place, 2, &format!("complete parts {arguments} -o none")));
    assert!(told.contains("process 1 on ") && told.contains(shards.last().unwrap().as_str()), "{told}");
    // And where one is damaged.
    let mut bytes = std::fs::read(place.join("shard")).unwrap();
    bytes[300] ^= 1;
    std::fs::write(&last, bytes).unwrap();
    let told = fail(&mut mpirun(place, 2, &format!("complete parts {arguments} -o none")));
    assert!(told.contains("process 1 on ") && told.contains("is damaged"), "{told}");
    assert!(!place.join("none").exists());
}

#[test]
fn what_is_wrong_is_said_once() {
    let place = folder();
    let place = place.path();
    synth(place);
    let told = fail(&mut mpirun(place, 4, &format!("complete data {PLAIN} --memory 1M -o run")));
    assert!(told.contains("--memory"), "{told}");
    let told = fail(&mut mpirun(place, 2, "resume nothing"));
    assert!(told.contains("there is no such run"), "{told}");
    let told = fail(&mut mpirun(place, 2, "complete data --rank 4,4 -o run"));
    assert!(told.contains("2 ranks for 3 modes"), "{told}");
    let output = mpirun(place, 2, "complete data --rank 4,x -o run").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stderr(&output).matches("is no list of whole numbers").count(), 1, "{}", stderr(&output));
    assert!(!place.join("run").exists());
}
