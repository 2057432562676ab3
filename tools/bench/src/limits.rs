//! What the machine can do at best: multiply-adds per second and bytes from memory per second.

use std::hint::black_box;
use std::time::Instant;

/// The limits of all threads together.
pub struct Limits {
    /// Multiply-adds of f64 per second, in the widest vectors.
    pub fma: f64,
    /// Bytes read from memory per second.
    pub bandwidth: f64,
}

impl Limits {
    /// Measures them on the current pool: the best of several tries.
    pub fn measure() -> Self {
        let threads = rayon::current_num_threads();
        let fma = best(|| {
            let counts: Vec<f64> = rayon::broadcast(|_| multiply_add());
            counts.iter().sum()
        });
        // Four times any second cache, all threads together beyond any share of a third.
        let numbers = vec![1u64; (256 << 20) / 8];
        let bandwidth = best(|| {
            let part = numbers.len() / threads;
            let sums: Vec<u64> = rayon::broadcast(|context| {
                numbers[context.index() * part..][..part].iter().fold(0u64, |sum, x| sum.wrapping_add(*x))
            });
            black_box(sums);
            (part * threads * 8) as f64
        });
        Limits { fma, bandwidth }
    }

    /// The least time in ns for some multiply-adds and some bytes.
    pub fn least(&self, multiply_adds: f64, bytes: f64) -> f64 {
        1e9 * (multiply_adds / self.fma).max(bytes / self.bandwidth)
    }
}

/// The most per second of five tries.
fn best(mut work: impl FnMut() -> f64) -> f64 {
    let once = |work: &mut dyn FnMut() -> f64| {
        let begun = Instant::now();
        let done = work();
        done / begun.elapsed().as_secs_f64()
    };
    (0..5).map(|_| once(&mut work)).fold(0.0, f64::max)
}

const ROUNDS: usize = 20_000_000;
/// Chains that do not wait for each other: latency times units, at least.
const CHAINS: usize = 12;

/// Runs multiply-adds; gives how many.
fn multiply_add() -> f64 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected;
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { with_avx512() };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { with_avx2() };
        }
    }
    chains::<2>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn with_avx512() -> f64 {
    chains::<8>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn with_avx2() -> f64 {
    chains::<4>()
}

#[inline(always)]
fn chains<const LANES: usize>() -> f64 {
    let (a, b) = (black_box([0.999_999_9f64; LANES]), black_box([1e-9f64; LANES]));
    let mut sums = [[1.0f64; LANES]; CHAINS];
    for _ in 0..ROUNDS / CHAINS {
        for sum in &mut sums {
            for lane in 0..LANES {
                sum[lane] = sum[lane].mul_add(a[lane], b[lane]);
            }
        }
    }
    black_box(sums);
    (ROUNDS / CHAINS * CHAINS * LANES) as f64
}
