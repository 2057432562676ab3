//! Time per entry of the gradient and the step pass against the naive twin, in one run.
//!
//! Also sweeps over rows of 16 and 32 numbers, per pass that they take.
//!
//! The passes are those of a run: blocks streamed from shards through the lanes, packed rows, private
//! sums, reduction. The naive twin is plain loops over all r_1 r_2 r_3 terms, on one thread. Times are
//! processor time (of all threads, divided by their number), the median of several passes: on an idle
//! machine that is the wall time, which stands beside it. Naive loops and passes take turns, and the ratio
//! is the median of those of neighbours: a processor that is shared with others runs now at one speed, now
//! at another (by a factor of 1.7 where this was written).

use crate::cases::{CASES, Case, Place, evict};
use crate::limits::Limits;
use crate::sweeps;
use serde_json::{Value, json};
use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;
use tenfill_engine::budget::Budget;
use tenfill_engine::kernel::{BlockView, FactorsView, GradientSums, Precision, StepSums, naive};
use tenfill_engine::manifold::{Distribution, Point, Tangent, random_point};
use tenfill_engine::objective::Streamed;
use tenfill_engine::shard::{Dataset, Shard, Split};
use tenfill_engine::solver::Objective;
use tenfill_engine::stream::Access;
use tenfill_engine::usage::{anonymous_bytes, cpu_seconds};

/// Measure the passes over the data against their naive twins
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    place: Place,
    /// Only the cases whose name contains this
    #[arg(long)]
    only: Option<String>,
    /// Also the case of 100 M entries, and data that is not in memory (minutes to make, 0.9 GB)
    #[arg(long)]
    large: bool,
    /// Threads of a pass
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Write the table as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Naive loops are timed on this many blocks.
const NAIVE_BLOCKS: usize = 2;

/// Checks are timed on this many: more than a processor's own caches hold.
const CHECKED_BLOCKS: usize = 64;

pub fn run(arguments: &Arguments) -> Result<(), String> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(arguments.threads).build();
    pool.map_err(|error| error.to_string())?.install(|| run_in_pool(arguments))
}

fn run_in_pool(arguments: &Arguments) -> Result<(), String> {
    let limits = Limits::measure();
    println!(
        "{} threads: {:.1} G multiply-adds/s, {:.1} GB/s from memory, at best",
        arguments.threads,
        limits.fma / 1e9,
        limits.bandwidth / 1e9
    );
    println!("ns per entry: processor time of {} threads / {0}; naive: one thread", arguments.threads);
    println!(
        "{:29} {:8} {:>10} {:>8} {:>7} {:>7} {:>7} {:>6} {:>7} {:>6} {:>6} {:>7}",
        "case",
        "pass",
        "entries",
        "naive",
        "fast",
        "wall",
        "ratio",
        "asked",
        "limit",
        "B/entry",
        "GB/s",
        "MB"
    );
    let mut lines = Vec::new();
    let wanted = |case: &&Case| arguments.only.as_ref().is_none_or(|only| case.name.contains(only.as_str()));
    for case in CASES.iter().filter(|case| arguments.large || !case.large).filter(wanted) {
        let dataset = case.dataset(&arguments.place)?;
        lines.extend(measure(case, &dataset, &limits)?);
        if case.sweeps {
            lines.extend(sweeps::measure(case.name, &dataset)?);
        }
        if case.large {
            lines.push(cold(case, &dataset)?);
        }
    }
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&lines).map_err(|error| error.to_string())?;
        std::fs::write(path, text + "\n").map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Seconds of processor time per thread and of wall time, the median of passes that last a second.
fn time(threads: usize, mut pass: impl FnMut() -> Result<(), String>) -> Result<(f64, f64), String> {
    pass()?; // checksums, page faults, room for the sums
    let (mut cpu, mut wall) = (Vec::new(), Vec::new());
    while wall.len() < 3 || (wall.iter().sum::<f64>() < 1.0 && wall.len() < 100) {
        let (begun, used) = (Instant::now(), cpu_seconds());
        pass()?;
        cpu.push((cpu_seconds() - used) / threads as f64);
        wall.push(begun.elapsed().as_secs_f64());
    }
    Ok((median(&mut cpu), median(&mut wall)))
}

fn view<'a>(point: &'a Point, order: &[usize]) -> FactorsView<'a> {
    // Equal ranks in a random core: its axes need no permutation to be as good as any.
    let ranks: Vec<usize> = order.iter().map(|&mode| point.ranks()[mode]).collect();
    let rows: Vec<&[f64]> = order.iter().map(|&mode| point.factors[mode].as_slice()).collect();
    FactorsView::new(&ranks, &rows, point.core.as_slice())
}

/// A point, a direction and the dimensions.
fn sample(case: &Case, dataset: &Dataset) -> (Point, Tangent) {
    let dims: Vec<usize> = dataset.manifest().dims().iter().map(|&dim| dim as usize).collect();
    let ranks = vec![case.rank; dims.len()];
    let direction = random_point(&dims, &ranks, Distribution::Gaussian, 2);
    let direction = Tangent { factors: direction.factors, core: direction.core };
    (random_point(&dims, &ranks, Distribution::Uniform, 1), direction)
}

/// The first blocks of a dataset, in memory.
struct FewBlocks {
    shard: Shard,
    buffers: Vec<Vec<u64>>,
}

impl FewBlocks {
    fn read(dataset: &Dataset, most: usize) -> Result<Self, String> {
        let shards = dataset.shards(Split::Train).map_err(|error| error.to_string())?;
        let shard = shards.into_iter().next().ok_or("the dataset has no shards")?;
        let mut buffers = Vec::new();
        for number in 0..shard.blocks().len().min(most) {
            let mut buffer = Vec::new();
            shard.read_block(number, &mut buffer).map_err(|error| error.to_string())?;
            buffers.push(buffer);
        }
        Ok(FewBlocks { shard, buffers })
    }

    fn bytes(&self) -> impl Iterator<Item = &[u8]> {
        let sizes = self.shard.blocks().iter().map(|block| block.bytes as usize);
        self.buffers.iter().zip(sizes).map(|(buffer, size)| &bytemuck::cast_slice(buffer)[..size])
    }
}

/// ns per entry that a block's checks cost, one thread: its checksum (whenever it was read from disk)
/// and a look through its structure (once per run).
fn check_times(dataset: &Dataset) -> Result<(f64, f64), String> {
    let few = FewBlocks::read(dataset, CHECKED_BLOCKS)?;
    let blocks = &few.shard.blocks()[..few.buffers.len()];
    let entries = blocks.iter().map(|block| u64::from(block.entries)).sum::<u64>() as f64;
    let (sums, _) = time(1, || {
        let mut checked = few.bytes().enumerate().map(|(number, bytes)| few.shard.check(number, bytes));
        checked.try_for_each(|checked| checked).map_err(|error| error.to_string())
    })?;
    let (structure, _) = time(1, || {
        let mut views = few.bytes().enumerate().map(|(number, bytes)| few.shard.view(number, bytes));
        views.try_for_each(|view| view.map(|view| _ = black_box(view))).map_err(|error| error.to_string())
    })?;
    Ok((sums * 1e9 / entries, structure * 1e9 / entries))
}

/// Processor time of the naive loops and of a pass in turn, in ns per entry.
struct Turns {
    naive: f64,
    cpu: f64,
    wall: f64,
    ratio: f64,
}

/// Times both in turn, for two seconds.
fn take_turns(
    mut naive: impl FnMut() -> f64,
    mut pass: impl FnMut() -> Result<(f64, f64), String>,
) -> Result<Turns, String> {
    naive();
    pass()?; // checksums, page faults, room for the sums
    let (mut naives, mut cpus, mut walls, mut ratios) = (vec![], vec![], vec![], vec![]);
    let begun = Instant::now();
    while ratios.len() < 5 || (begun.elapsed().as_secs_f64() < 2.0 && ratios.len() < 100) {
        let plain = naive();
        let (cpu, wall) = pass()?;
        naives.push(plain);
        cpus.push(cpu);
        walls.push(wall);
        ratios.push(plain / cpu);
    }
    let [naive, cpu, wall, ratio] =
        [&mut naives, &mut cpus, &mut walls, &mut ratios].map(|numbers| median(numbers));
    Ok(Turns { naive, cpu, wall, ratio })
}

pub fn median(numbers: &mut [f64]) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn open(case: &Case, dataset: &Dataset, precision: Precision, access: Access) -> Result<Streamed, String> {
    let ranks = vec![case.rank; dataset.manifest().modes.len()];
    let budget = Budget::new(64 << 30).map_err(|error| error.to_string())?;
    Streamed::open(dataset, &ranks, precision, &budget, Some(access)).map_err(|error| error.to_string())
}

fn measure(case: &Case, dataset: &Dataset, limits: &Limits) -> Result<Vec<Value>, String> {
    let threads = rayon::current_num_threads();
    let manifest = dataset.manifest();
    let entries = manifest.train.entries as f64;
    let (point, direction) = sample(case, dataset);
    let order = &manifest.mode_order;
    let along = Point { factors: direction.factors.clone(), core: direction.core.clone() };
    let (at, along) = (view(&point, order), view(&along, order));
    let dims: Vec<usize> = (0..order.len()).map(|level| at.dim(level)).collect();
    let mut sums = GradientSums::new(&dims, at.ranks(), 0..dims[0], Precision::F64);
    let mut changes = StepSums::default();
    let few = FewBlocks::read(dataset, NAIVE_BLOCKS)?;
    let blocks: Vec<BlockView<'_>> = (few.bytes().enumerate())
        .map(|(number, bytes)| few.shard.view(number, bytes).map_err(|error| error.to_string()))
        .collect::<Result<_, _>>()?;
    let naive_entries = blocks.iter().map(|block| block.entries()).sum::<usize>() as f64;
    let mut partials = direction.clone();
    let (mut lines, mut gradient_ns) = (Vec::new(), f64::NAN);
    for (pass, precision) in
        [("gradient", Precision::Mixed), ("f64", Precision::F64), ("step", Precision::Mixed)]
    {
        let before = anonymous_bytes();
        let mut objective = open(case, dataset, precision, Access::Cached)?;
        let naive = || {
            let used = cpu_seconds();
            for block in &blocks {
                match pass {
                    "step" => naive::step(block, &at, &along, &mut changes),
                    _ => naive::gradient(block, &at, &mut sums),
                }
            }
            (cpu_seconds() - used) * 1e9 / naive_entries
        };
        let fast = || {
            let (begun, used) = (Instant::now(), cpu_seconds());
            let done = match pass {
                "step" => objective.step_sums(&point, &direction).map(|_| ()),
                _ => objective.cost_and_gradient(&point, &mut partials).map(|_| ()),
            };
            done.map_err(|error| error.to_string())?;
            let cpu = (cpu_seconds() - used) / threads as f64;
            Ok((cpu * 1e9 / entries, begun.elapsed().as_secs_f64() * 1e9 / entries))
        };
        let Turns { naive, cpu: fast, wall, ratio } = take_turns(naive, fast)?;
        let memory = anonymous_bytes().saturating_sub(before);
        if pass == "gradient" {
            gradient_ns = fast;
        }
        let bytes = manifest.bytes_per_entry();
        let least = limits.least(multiply_adds(case, manifest.train.fibres as f64, entries), bytes);
        let asked = case.asked.filter(|_| pass != "f64");
        let asked = asked.map(|(gradient, step)| if pass == "step" { step } else { gradient });
        println!(
            "{:29} {pass:8} {entries:>10} {naive:>8.1} {fast:>7.2} {wall:>7.2} {:>7.1} {:>6} {:>6.0}% {bytes:>7.2} {:>6.2} {:>7.1}",
            case.name,
            ratio,
            asked.map_or(String::new(), |asked| asked.to_string()),
            100.0 * least / wall,
            bytes / wall,
            memory as f64 / 1e6,
        );
        lines.push(json!({
            "case": case.name, "pass": pass, "threads": threads, "entries": entries,
            "naive_ns": naive, "cpu_ns": fast, "wall_ns": wall, "ratio": ratio, "asked": asked,
            "limit_ns": least, "share_of_limit": least / wall, "bytes_per_entry": bytes,
            "gigabytes_per_second": bytes / wall, "memory_bytes": memory,
        }));
    }
    black_box((&sums, &changes));
    let (sums, structure) = check_times(dataset)?;
    println!(
        "{:29} checks   one thread: checksum {sums:.2} ns per entry, {:.1} % of a gradient pass; structure, once: {structure:.2} ns",
        case.name,
        100.0 * sums / (threads as f64 * gradient_ns),
    );
    lines
        .push(json!({ "case": case.name, "pass": "checks", "checksum_ns": sums, "structure_ns": structure }));
    Ok(lines)
}

/// Multiply-adds per entry that neither pass can do without, the last two levels only: three per
/// number of a row where entries share fibres, and three products with the contracted core per fibre.
fn multiply_adds(case: &Case, fibres: f64, entries: f64) -> f64 {
    let rank = case.rank as f64;
    3.0 * rank + 3.0 * rank * rank * (fibres / entries).min(1.0)
}

/// A pass over data that is not in memory, against one over data that is.
fn cold(case: &Case, dataset: &Dataset) -> Result<Value, String> {
    let (point, direction) = sample(case, dataset);
    let mut partials = direction.clone();
    let mut pass = |objective: &mut Streamed| -> Result<f64, String> {
        let begun = Instant::now();
        objective.cost_and_gradient(&point, &mut partials).map_err(|error| error.to_string())?;
        Ok(begun.elapsed().as_secs_f64())
    };
    let (mut warm, mut cold) = (f64::INFINITY, f64::INFINITY);
    let mut mapped = open(case, dataset, Precision::Mixed, Access::Cached)?;
    pass(&mut mapped)?;
    for _ in 0..3 {
        warm = warm.min(pass(&mut mapped)?);
    }
    drop(mapped);
    let mut direct = false;
    for _ in 0..3 {
        evict(dataset)?;
        let mut ahead = open(case, dataset, Precision::Mixed, Access::ReadAhead)?;
        evict(dataset)?;
        direct = ahead.train().is_direct();
        cold = cold.min(pass(&mut ahead)?);
    }
    println!(
        "{:29} cold: {cold:.2} s a gradient pass, checksums included, warm: {warm:.2} s; {:.2} of its speed{}",
        case.name,
        warm / cold,
        if direct { ", direct I/O" } else { "" }
    );
    Ok(json!({ "case": case.name, "pass": "cold", "warm_seconds": warm, "cold_seconds": cold,
               "speed": warm / cold, "direct": direct }))
}
