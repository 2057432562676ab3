//! Nanoseconds per entry of the kernels, naive and fast, on one thread.
//!
//! `cargo run --release --example kernel_bench [case...]`

use std::collections::HashSet;
use std::hint::black_box;
use std::time::Instant;
use tenfill::kernel::testing::{OwnedBlock, OwnedFactors, Random, ValueKind};
use tenfill::kernel::{self, GradientSums, ResidualSums, StepSums, Workspace, naive};
use tenfill::shard::BlockView;

/// The best of many runs, in ns per entry. The clock on the wall: the kernel counts a thread's CPU
/// time in ticks of 4 ms, and of many short runs the best was hardly disturbed.
fn time(entries: usize, repeats: usize, mut run: impl FnMut()) -> f64 {
    let once = |_| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64() * 1e9 / entries as f64
    };
    (0..repeats).map(once).fold(f64::INFINITY, f64::min)
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
    println!("{:25} {:>9} {:>9} {:>9} {:>9}", "", "naive", "plain", "fast", "plain/fast");
    for case in cases {
        if wanted.is_empty() || wanted.iter().any(|w| w == case.name) {
            let entries = match case.kind {
                ValueKind::Codes => ratings(2_500_000),
                _ => uniform(case.dims, if case.rank == 5 { 1_500_000 } else { 900_000 }),
            };
            measure(case, &entries);
        }
    }
}

/// The gradient as anyone would write it first, for order 3 only: a stricter yardstick than the
/// naive twin, which handles any order and pays for it.
fn plain_gradient(block: &BlockView<'_>, f: &OwnedFactors, d: &mut OwnedFactors) -> f64 {
    let [r0, r1, r2] = [f.ranks[0], f.ranks[1], f.ranks[2]];
    let mut squares = 0.0;
    block.for_each(|i, y| {
        let [i0, i1, i2] = [i[0] as usize, i[1] as usize, i[2] as usize];
        let u = &f.rows[0][i0 * r0..][..r0];
        let v = &f.rows[1][i1 * r1..][..r1];
        let w = &f.rows[2][i2 * r2..][..r2];
        let mut e = -y;
        for a in 0..r0 {
            for b in 0..r1 {
                for c in 0..r2 {
                    e += f.core[(a * r1 + b) * r2 + c] * u[a] * v[b] * w[c];
                }
            }
        }
        squares += e * e;
        let [d0, d1, d2] = &mut d.rows[..] else { unreachable!() };
        let (d0, d1, d2) = (&mut d0[i0 * r0..][..r0], &mut d1[i1 * r1..][..r1], &mut d2[i2 * r2..][..r2]);
        for a in 0..r0 {
            for b in 0..r1 {
                for c in 0..r2 {
                    let g = f.core[(a * r1 + b) * r2 + c];
                    d.core[(a * r1 + b) * r2 + c] += e * u[a] * v[b] * w[c];
                    d0[a] += e * g * v[b] * w[c];
                    d1[b] += e * g * u[a] * w[c];
                    d2[c] += e * g * u[a] * v[b];
                }
            }
        }
    });
    squares
}

/// The step sums as anyone would write them first.
fn plain_step(block: &BlockView<'_>, f: &OwnedFactors, d: &OwnedFactors, sums: &mut StepSums) {
    let [r0, r1, r2] = [f.ranks[0], f.ranks[1], f.ranks[2]];
    block.for_each(|i, y| {
        let [i0, i1, i2] = [i[0] as usize, i[1] as usize, i[2] as usize];
        let (u, du) = (&f.rows[0][i0 * r0..][..r0], &d.rows[0][i0 * r0..][..r0]);
        let (v, dv) = (&f.rows[1][i1 * r1..][..r1], &d.rows[1][i1 * r1..][..r1]);
        let (w, dw) = (&f.rows[2][i2 * r2..][..r2], &d.rows[2][i2 * r2..][..r2]);
        let (mut e, mut l) = (-y, 0.0);
        for a in 0..r0 {
            for b in 0..r1 {
                for c in 0..r2 {
                    let g = f.core[(a * r1 + b) * r2 + c];
                    e += g * u[a] * v[b] * w[c];
                    l += d.core[(a * r1 + b) * r2 + c] * u[a] * v[b] * w[c]
                        + g * du[a] * v[b] * w[c]
                        + g * u[a] * dv[b] * w[c]
                        + g * u[a] * v[b] * dw[c];
                }
            }
        }
        sums.residual_change += e * l;
        sums.change_change += l * l;
        sums.squares += e * e;
    });
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
    let fibres: usize = views.iter().map(|v| v.ids[1].len()).sum();
    let ranks = [rank; 3];
    let point = OwnedFactors::random(&dims, &ranks, &mut random);
    let mut sums = GradientSums::new(&dims, &ranks, 0..dims[0]);
    let mut workspace = Workspace::new();
    // A part of the blocks is enough for the slow twin.
    let few = &views[..views.len().min(2)];
    let few_entries = few.iter().map(|v| v.entries).sum();
    let naive_gradient = time(few_entries, 5, || {
        few.iter().for_each(|block| naive::gradient(block, &point.view(), &mut sums));
    });
    let mut plain_sums = point.clone();
    let plain = time(few_entries, 5, || {
        few.iter().for_each(|block| {
            black_box(plain_gradient(block, &point, &mut plain_sums));
        });
    });
    let repeats = std::env::var("REPEATS").ok().and_then(|n| n.parse().ok()).unwrap_or(25);
    let fast_gradient = time(entries.len(), repeats, || {
        for block in &views {
            kernel::gradient(block, &point.view(), &mut sums, &mut workspace);
        }
    });
    let direction = OwnedFactors::random(&dims, &ranks, &mut random);
    let mut step = StepSums::default();
    let naive_step = time(few_entries, 5, || {
        let (point, direction) = (point.view(), direction.view());
        few.iter().for_each(|block| naive::step(block, &point, &direction, &mut step));
    });
    let plain_step = time(few_entries, 5, || {
        few.iter().for_each(|block| plain_step(block, &point, &direction, &mut step));
    });
    let fast_step = time(entries.len(), repeats, || {
        let (point, direction) = (point.view(), direction.view());
        for block in &views {
            kernel::step(block, &point, &direction, &mut step, &mut workspace);
        }
    });
    let mut residual = ResidualSums::default();
    let naive_residual = time(few_entries, 5, || {
        few.iter().for_each(|block| naive::residual(block, &point.view(), &mut residual));
    });
    let fast_residual = time(entries.len(), repeats, || {
        for block in &views {
            kernel::residual(block, &point.view(), &mut residual, &mut workspace);
        }
    });
    black_box((step, residual));
    let line = |pass: &str, naive: f64, plain: f64, fast: f64| {
        let times = plain / fast;
        println!("{name:16} {pass:8} {naive:9.1} {plain:9.1} {fast:9.2} {times:9.1}");
    };
    println!(
        "{name}: {} entries, {:.1} per node of level 1",
        entries.len(),
        entries.len() as f64 / fibres as f64
    );
    line("gradient", naive_gradient, plain, fast_gradient);
    line("step", naive_step, plain_step, fast_step);
    line("residual", naive_residual, f64::NAN, fast_residual);
}
