//! Which instructions and which padded widths a kernel is compiled for, chosen at run time.
//!
//! A kernel is a [`Job`]: plain safe code, inlined into one function per instruction set, so that
//! the compiler vectorises it for that set. The choice depends on the processor alone: on one
//! machine the same block and the same factors always give the same bits.

#![allow(unsafe_code)]

use super::arithmetic::{Arithmetic, Separate};

/// A kernel for one block.
pub(super) trait Job {
    /// Does the work. Everything below must be `#[inline(always)]`: code that is not inlined is
    /// compiled for the oldest processor.
    fn run<M: Arithmetic>(self);
}

/// Runs a job with the best instructions this processor has.
pub(super) fn run<J: Job>(job: J) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected;
        // The standard library remembers what it detected: this is a load and a test.
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") {
                // SAFETY: the processor has every feature the function enables, as just tested.
                return unsafe { x86::with_avx512(job) };
            }
            // SAFETY: the processor has every feature the function enables, as just tested.
            return unsafe { x86::with_avx2(job) };
        }
    }
    job.run::<Separate>();
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Job;
    use crate::kernel::arithmetic::Fused;

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn with_avx2<J: Job>(job: J) {
        job.run::<Fused>();
    }

    #[target_feature(enable = "avx2,fma,avx512f,avx512vl")]
    pub(super) fn with_avx512<J: Job>(job: J) {
        job.run::<Fused>();
    }
}

/// A kernel that exists for every pair of padded widths of the two last levels.
pub(super) trait WidthJob {
    /// Does the work for rows padded to `P1` and `P2`. Everything below must be
    /// `#[inline(always)]`, as for a [`Job`].
    fn run<M: Arithmetic, const P1: usize, const P2: usize>(self);
}

/// The widest padded row that has kernels of its own; larger ranks take the general path.
pub(super) const MAX_WIDTH: usize = 16;

/// Runs a job compiled for the ranks of the two last levels, both at most [`MAX_WIDTH`], padded to
/// whole vectors: sixteen kernels serve all pairs of ranks.
#[inline(always)]
pub(super) fn run_for_ranks<J: WidthJob>(ranks: [usize; 2], job: J) {
    macro_rules! table {
        ($($first:literal)*) => {
            match ranks.map(|rank| rank.div_ceil(4)) {
                $([$first, second] => table!(@second $first, second, 1 2 3 4),)*
                _ => unreachable!("no kernel for the ranks {ranks:?}"),
            }
        };
        (@second $first:literal, $second:expr, $($vectors:literal)*) => {
            match $second {
                $($vectors => run(Widths::<J, { 4 * $first }, { 4 * $vectors }>(job)),)*
                _ => unreachable!("no kernel for the ranks {ranks:?}"),
            }
        };
    }
    table!(1 2 3 4);
}

/// A [`WidthJob`] whose widths are chosen.
struct Widths<J, const P1: usize, const P2: usize>(J);

impl<J: WidthJob, const P1: usize, const P2: usize> Job for Widths<J, P1, P2> {
    #[inline(always)]
    fn run<M: Arithmetic>(self) {
        self.0.run::<M, P1, P2>();
    }
}
