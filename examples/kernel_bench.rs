//! Nanoseconds per entry of the kernels, naive and fast, on one thread.
//!
//! `cargo run --release --example kernel_bench [case...]`

use std::hint::black_box;
use std::time::Instant;
use tenfill::kernel::testing::{OwnedBlock, OwnedFactors, Random, ValueKind};
use tenfill::kernel::{self, GradientSums, ResidualSums, StepSums, Workspace, naive};
use tenfill::shard::BlockView;
use tenfill::synth::{RatingsSpec, RatingsSynth};

/// ns per entry: the best of many runs of each block, added up. A block takes a millisecond or less:
/// on a machine with other work some runs of each are hardly disturbed, where CPU time comes in
/// ticks of 4 ms and the time of a whole pass contains everybody's.
fn time(blocks: &[BlockView<'_>], repeats: usize, mut run: impl FnMut(&BlockView<'_>)) -> f64 {
    let mut best = vec![f64::INFINITY; blocks.len()];
    for _ in 0..repeats {
        for (best, block) in best.iter_mut().zip(blocks) {
            let start = Instant::now();
            run(block);
            *best = best.min(start.elapsed().as_secs_f64());
        }
    }
    best.iter().sum::<f64>() * 1e9 / blocks.iter().map(|block| block.entries).sum::<usize>() as f64
}

struct Case {
    name: &'static str,
    dims: [usize; 3],
    rank: usize,
    flat_from: usize,
    kind: ValueKind,
}

fn uniform(dims: [usize; 3], count: usize) -> Vec<[u32; 3]> {
    let mut random = Random(1);
    let mut entries: Vec<[u32; 3]> = (0..count).map(|_| dims.map(|n| random.below(n) as u32)).collect();
    entries.sort_unstable();
    entries.dedup();
    entries
}

/// The first entries of synthetic ratings of the shape of MovieLens-10M, with weeks before movies: of
/// 10 million ratings by 71,567 users, so about 140 per user and a dozen per user and week.
fn ratings(count: usize) -> Vec<[u32; 3]> {
    let synth = RatingsSynth::new(RatingsSpec::new(71567, 10681, 731, 10_000_000)).expect("a valid spec");
    let mut entries = Vec::new();
    let taken = synth.for_each_batch(|batch| {
        entries.extend(batch.entries().map(|(indices, _, _)| [indices[0], indices[2], indices[1]]));
        // Users come in order: the first few stand for all.
        if entries.len() < count { Ok(()) } else { Err(()) }
    });
    assert!(taken.is_err(), "there are more entries than asked for");
    entries.sort_unstable();
    entries.dedup();
    entries
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let weeks = [71567, 731, 10681];
    let case = |name, dims, rank, flat_from, kind| Case { name, dims, rank, flat_from, kind };
    let cases = [
        case("uniform-r5", [10000; 3], 5, 1, ValueKind::F64),
        case("uniform-r10", [3000; 3], 10, 1, ValueKind::F64),
        case("ratings-r4", weeks, 4, 2, ValueKind::Codes),
        case("ratings-r8", weeks, 8, 2, ValueKind::Codes),
        case("ratings-r10", weeks, 10, 2, ValueKind::Codes),
        case("ratings-flat-r4", weeks, 4, 1, ValueKind::Codes),
    ];
    println!("ns per entry, one thread, best of many runs");
    println!("{:25} {:>9} {:>9} {:>9}", "", "naive", "fast", "ratio");
    for case in cases {
        if wanted.is_empty() || wanted.iter().any(|w| w == case.name) {
            let entries = match case.kind {
                ValueKind::Codes => ratings(1_500_000),
                _ => uniform(case.dims, if case.rank == 5 { 1_500_000 } else { 900_000 }),
            };
            measure(case, &entries);
        }
    }
}

fn measure(case: Case, entries: &[[u32; 3]]) {
    let Case { name, dims, rank, flat_from, kind } = case;
    let mut random = Random(3);
    let blocks: Vec<OwnedBlock> = (entries.chunks(65535))
        .map(|chunk| {
            let values: Vec<f64> = chunk.iter().map(|_| (random.below(10) as f64 + 1.0) / 2.0).collect();
            OwnedBlock::new(3, flat_from, chunk.as_flattened(), &values, kind, true)
        })
        .collect();
    let views: Vec<_> = blocks.iter().map(OwnedBlock::view).collect();
    // Few entries are enough for the slow twins.
    let few: Vec<OwnedBlock> = (entries.chunks(256).step_by(entries.len() / 256 / 16))
        .map(|chunk| {
            let values: Vec<f64> = chunk.iter().map(|_| (random.below(10) as f64 + 1.0) / 2.0).collect();
            OwnedBlock::new(3, flat_from, chunk.as_flattened(), &values, kind, true)
        })
        .collect();
    let few: Vec<_> = few.iter().map(OwnedBlock::view).collect();
    let fibres: usize = views.iter().map(|v| v.ids[1].len()).sum();
    let ranks = [rank; 3];
    let point = OwnedFactors::random(&dims, &ranks, &mut random);
    let direction = OwnedFactors::random(&dims, &ranks, &mut random);
    let (p, d) = (point.view(), direction.view());
    let repeats = std::env::var("REPEATS").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    let mut sums = GradientSums::new(&dims, &ranks, 0..dims[0]);
    let (mut step, mut residual) = (StepSums::default(), ResidualSums::default());
    let mut workspace = Workspace::new();
    let naive_gradient = time(&few, 40, |block| naive::gradient(block, &p, &mut sums));
    let fast_gradient = time(&views, repeats, |block| kernel::gradient(block, &p, &mut sums, &mut workspace));
    let naive_step = time(&few, 40, |block| naive::step(block, &p, &d, &mut step));
    let fast_step = time(&views, repeats, |block| kernel::step(block, &p, &d, &mut step, &mut workspace));
    let naive_residual = time(&few, 40, |block| naive::residual(block, &p, &mut residual));
    let fast_residual =
        time(&views, repeats, |block| kernel::residual(block, &p, &mut residual, &mut workspace));
    black_box((step, residual));
    let fibre = entries.len() as f64 / fibres as f64;
    println!("{name}: {} entries, {fibre:.1} per node of level 1", entries.len());
    let line = |pass: &str, naive: f64, fast: f64| {
        println!("{name:16} {pass:8} {naive:9.1} {fast:9.2} {:9.1}", naive / fast);
    };
    line("gradient", naive_gradient, fast_gradient);
    line("step", naive_step, fast_step);
    line("residual", naive_residual, fast_residual);
}
