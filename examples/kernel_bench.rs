//! CPU nanoseconds per entry of the kernels, naive and fast, on one thread.
//!
//! `cargo run --release --example kernel_bench [case...]`

use std::collections::HashSet;
use tenfill::kernel::testing::{OwnedBlock, OwnedFactors, Random, ValueKind};
use tenfill::kernel::{self, GradientSums, Workspace, naive};

fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    stat.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).expect("nanoseconds") * 1e-9
}

/// The best of `repeats` runs, in ns per entry.
fn time(entries: usize, repeats: usize, mut run: impl FnMut()) -> f64 {
    let once = |_| {
        let start = cpu_seconds();
        run();
        (cpu_seconds() - start) * 1e9 / entries as f64
    };
    (0..repeats).map(once).fold(f64::INFINITY, f64::min)
}

struct Case {
    name: &'static str,
    dims: [usize; 3],
    rank: usize,
    flat_from: usize,
    kind: ValueKind,
    entries: Vec<[u32; 3]>,
}

fn uniform(dims: [usize; 3], count: usize) -> Vec<[u32; 3]> {
    let mut random = Random(1);
    let mut entries: Vec<[u32; 3]> =
        (0..count).map(|_| dims.map(|n| random.below(n) as u32)).collect();
    entries.sort_unstable();
    entries.dedup();
    entries
}

/// Users by Zipf-like activity; each has sessions in some weeks, with about ten movies each.
fn ratings(count: usize) -> Vec<[u32; 3]> {
    let (users, movies, weeks) = (71567, 10681, 731);
    let mut random = Random(2);
    let mut entries = Vec::new();
    for user in 0..users {
        let activity = 0.35 / (random.unit() + 0.015).powf(0.9);
        let sessions = 1 + (activity * count as f64 / users as f64 / 10.0) as usize;
        let first = random.below(weeks);
        let mut seen = HashSet::new();
        for session in 0..sessions {
            let week = (first + session * (1 + random.below(3))) % weeks;
            for _ in 0..1 + random.below(19) {
                let movie = (movies as f64 * random.unit().powi(3)) as u32;
                if seen.insert(movie) {
                    entries.push([user as u32, week as u32, movie]);
                }
            }
        }
    }
    entries.sort_unstable();
    entries.dedup();
    entries
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let f64s = ValueKind::F64;
    let r = || ratings(2_500_000);
    let u = uniform;
    let cases: [(&str, [usize; 3], usize, usize, ValueKind, &dyn Fn() -> Vec<[u32; 3]>); 6] = [
        ("uniform-r5", [10000; 3], 5, 1, f64s, &|| u([10000; 3], 1_500_000)),
        ("uniform-r10", [3000; 3], 10, 1, f64s, &|| u([3000; 3], 900_000)),
        ("ratings-r4", [71567, 731, 10681], 4, 2, ValueKind::Codes, &r),
        ("ratings-r8", [71567, 731, 10681], 8, 2, ValueKind::Codes, &r),
        ("ratings-r10", [71567, 731, 10681], 10, 2, ValueKind::Codes, &r),
        ("ratings-flat-r4", [71567, 731, 10681], 4, 1, ValueKind::Codes, &r),
    ];
    println!("ns per entry, CPU, one thread");
    println!("{:16} {:>9} {:>8} {:>8} {:>7}", "", "entries", "naive", "fast", "times");
    for (name, dims, rank, flat_from, kind, entries) in cases {
        if wanted.is_empty() || wanted.iter().any(|w| w == name) {
            measure(Case { name, dims, rank, flat_from, kind, entries: entries() });
        }
    }
}

fn measure(case: Case) {
    let Case { name, dims, rank, flat_from, kind, entries } = case;
    let mut random = Random(3);
    let blocks: Vec<OwnedBlock> = (entries.chunks(65535))
        .map(|chunk| {
            let values: Vec<f64> =
                chunk.iter().map(|_| (random.below(10) as f64 + 1.0) / 2.0).collect();
            OwnedBlock::new(3, flat_from, chunk.as_flattened(), &values, kind, true)
        })
        .collect();
    let views: Vec<_> = blocks.iter().map(OwnedBlock::view).collect();
    let fibres: usize = views.iter().map(|v| v.ids[1].len()).sum();
    let ranks = [rank; 3];
    let point = OwnedFactors::random(&dims, &ranks, &mut random);
    let mut sums = GradientSums::new(&dims, &ranks, 0..dims[0]);
    let mut workspace = Workspace::new();
    // A part of the blocks is enough for the slow twin.
    let few = &views[..views.len().min(3)];
    let few_entries = few.iter().map(|v| v.entries).sum();
    let naive_gradient = time(few_entries, 3, || {
        few.iter().for_each(|block| naive::gradient(block, &point.view(), &mut sums));
    });
    let repeats = std::env::var("REPEATS").ok().and_then(|n| n.parse().ok()).unwrap_or(9);
    let fast_gradient = time(entries.len(), repeats, || {
        for block in &views {
            kernel::gradient(block, &point.view(), &mut sums, &mut workspace);
        }
    });
    let line = |pass: &str, naive: f64, fast: f64| {
        println!("{:16} {:9} {naive:8.1} {fast:8.2} {:7.1}  {pass}", name, entries.len(), naive / fast);
    };
    println!("{name}: {:.1} entries per node of level 1", entries.len() as f64 / fibres as f64);
    line("gradient", naive_gradient, fast_gradient);
}
