//! Nanoseconds per entry of the gradient and step pass, fast and naive, in one run.
//!
//! The data is made by `tenfill synth` and read from its shards, so the blocks are those that a run
//! sees. Processor time of the measuring thread, summed over enough repeats to last a second: the
//! machine may be busy with other things.

use serde_json::{Value, json};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use tenfill::kernel::{self, FactorsView, GradientSums, StepSums, Workspace, naive};
use tenfill::manifold::{Distribution, Point, random_point};
use tenfill::shard::{BlockView, Dataset, Split};

/// Measure the kernels against their naive twins
#[derive(clap::Args)]
pub struct Arguments {
    /// Where the data is made and kept
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// The tenfill to make the data with
    #[arg(long, default_value = "target/release/tenfill")]
    tenfill: PathBuf,
    /// Only the cases whose name contains this
    #[arg(long)]
    only: Option<String>,
    /// Write the table as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

struct Case {
    name: &'static str,
    data: &'static str,
    synth: &'static str,
    rank: usize,
}

const CASES: [Case; 6] = [
    Case {
        name: "uniform 10000^3 r5",
        data: "u10000",
        synth: "--dims 10000,10000,10000 --entries 1500000 --rank 5",
        rank: 5,
    },
    Case {
        name: "uniform 3000^3 r10",
        data: "u3000",
        synth: "--dims 3000,3000,3000 --entries 900000 --rank 5",
        rank: 10,
    },
    Case { name: "ratings 71567x10681x731 r4", data: "ratings10m", synth: RATINGS, rank: 4 },
    Case { name: "ratings 71567x10681x731 r10", data: "ratings10m", synth: RATINGS, rank: 10 },
    Case {
        name: "ratings 6000x4000x200 r4",
        data: "ratings1m",
        synth: "--kind ratings --dims 6000,4000,200 --entries 1000000",
        rank: 4,
    },
    Case {
        name: "order 4, 500^4 r5",
        data: "order4",
        synth: "--dims 500,500,500,500 --entries 1000000 --rank 3",
        rank: 5,
    },
];
const RATINGS: &str = "--kind ratings --dims 71567,10681,731 --entries 10000000";

/// Naive loops are timed on this many blocks.
const NAIVE_BLOCKS: usize = 2;

pub fn run(arguments: &Arguments) -> Result<(), String> {
    std::fs::create_dir_all(&arguments.dir).map_err(|error| error.to_string())?;
    println!(
        "ns of processor time per entry, one thread; the naive twin is plain loops over all r_1 r_2 r_3 terms"
    );
    println!("{:30} {:>10} {:>28} {:>28}", "", "", "gradient", "step");
    println!(
        "{:30} {:>10} {:>9} {:>9} {:>8} {:>9} {:>9} {:>8}",
        "case", "entries", "naive", "fast", "ratio", "naive", "fast", "ratio"
    );
    let mut lines = Vec::new();
    for case in CASES
        .iter()
        .filter(|case| arguments.only.as_ref().is_none_or(|only| case.name.contains(only.as_str())))
    {
        lines.push(measure(case, arguments)?);
    }
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&lines).map_err(|error| error.to_string())?;
        std::fs::write(path, text + "\n").map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Makes a dataset unless it is there.
pub fn dataset(name: &str, synth: &str, dir: &Path, tenfill: &Path) -> Result<Dataset, String> {
    let path = dir.join(format!("{name}.tenfill"));
    if !path.is_dir() {
        let mut command = std::process::Command::new(tenfill);
        command.args(["synth", "--quiet", "-o"]).arg(&path).args(synth.split_whitespace());
        let status = command.status().map_err(|error| format!("cannot run {command:?}: {error}"))?;
        if !status.success() {
            return Err(format!("{command:?} failed"));
        }
    }
    Dataset::open(path).map_err(|error| error.to_string())
}

/// The blocks of the train entries, in memory.
struct Blocks {
    shards: Vec<tenfill::shard::Shard>,
    bytes: Vec<(usize, usize, Vec<u64>)>,
}

impl Blocks {
    fn read(dataset: &Dataset) -> Result<Self, String> {
        let shards = dataset.shards(Split::Train).map_err(|error| error.to_string())?;
        let mut bytes = Vec::new();
        for (position, shard) in shards.iter().enumerate() {
            for number in 0..shard.blocks().len() {
                let mut buffer = Vec::new();
                shard.read_block(number, &mut buffer).map_err(|error| error.to_string())?;
                bytes.push((position, number, buffer));
            }
        }
        Ok(Blocks { shards, bytes })
    }

    fn views(&self) -> Result<Vec<BlockView<'_>>, String> {
        let mut views = Vec::with_capacity(self.bytes.len());
        for (shard, number, buffer) in &self.bytes {
            let shard = &self.shards[*shard];
            let bytes: &[u8] = &bytemuck::cast_slice(buffer)[..shard.blocks()[*number].bytes as usize];
            views.push(shard.view(*number, bytes).map_err(|error| error.to_string())?);
        }
        Ok(views)
    }
}

/// Processor time of `work` per entry in ns, over repeats that last about a second in all.
fn time(entries: usize, mut work: impl FnMut()) -> f64 {
    let start = tenfill::usage::thread_cpu_seconds();
    let mut repeats = 0;
    loop {
        work();
        repeats += 1;
        let used = tenfill::usage::thread_cpu_seconds() - start;
        if used > 1.0 || repeats >= 200 {
            return used * 1e9 / (repeats * entries) as f64;
        }
    }
}

fn view<'a>(point: &'a Point, order: &[usize]) -> FactorsView<'a> {
    // Equal ranks in a random core: its axes need no permutation to be as good as any.
    let ranks: Vec<usize> = order.iter().map(|&mode| point.ranks()[mode]).collect();
    let rows: Vec<&[f64]> = order.iter().map(|&mode| point.factors[mode].as_slice()).collect();
    FactorsView::new(&ranks, &rows, point.core.as_slice())
}

fn measure(case: &Case, arguments: &Arguments) -> Result<Value, String> {
    let dataset = dataset(case.data, case.synth, &arguments.dir, &arguments.tenfill)?;
    let manifest = dataset.manifest();
    let blocks = Blocks::read(&dataset)?;
    let views = blocks.views()?;
    let order = &manifest.mode_order;
    let natural: Vec<usize> = manifest.dims().iter().map(|&dim| dim as usize).collect();
    let dims: Vec<usize> = order.iter().map(|&mode| natural[mode]).collect();
    let ranks = vec![case.rank; dims.len()];
    let point = random_point(&natural, &ranks, Distribution::Uniform, 1);
    let direction = random_point(&natural, &ranks, Distribution::Gaussian, 2);
    let (at, along) = (view(&point, order), view(&direction, order));
    let entries: usize = views.iter().map(|block| block.entries).sum();
    let few = &views[..views.len().min(NAIVE_BLOCKS)];
    let few_entries: usize = few.iter().map(|block| block.entries).sum();

    let mut sums = GradientSums::new(&dims, &ranks, 0..dims[0]);
    let mut step = StepSums::default();
    let mut workspace = Workspace::new();
    let naive_gradient =
        time(few_entries, || few.iter().for_each(|block| naive::gradient(block, &at, &mut sums)));
    let fast_gradient = time(entries, || {
        views.iter().for_each(|block| kernel::gradient(block, &at, &mut sums, &mut workspace))
    });
    let naive_step =
        time(few_entries, || few.iter().for_each(|block| naive::step(block, &at, &along, &mut step)));
    let fast_step = time(entries, || {
        views.iter().for_each(|block| kernel::step(block, &at, &along, &mut step, &mut workspace))
    });
    black_box((&sums, &step));
    println!(
        "{:30} {:>10} {naive_gradient:>9.1} {fast_gradient:>9.2} {:>8.1} {naive_step:>9.1} {fast_step:>9.2} {:>8.1}",
        case.name,
        entries,
        naive_gradient / fast_gradient,
        naive_step / fast_step
    );
    Ok(json!({
        "case": case.name,
        "entries": entries,
        "bytes_per_entry": manifest.bytes_per_entry(),
        "naive_gradient_ns": naive_gradient,
        "gradient_ns": fast_gradient,
        "gradient_ratio": naive_gradient / fast_gradient,
        "naive_step_ns": naive_step,
        "step_ns": fast_step,
        "step_ratio": naive_step / fast_step,
    }))
}
