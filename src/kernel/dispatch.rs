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

/// A kernel that exists for pairs of ranks of the two last levels.
pub(super) trait RankJob {
    /// Does the work for ranks of at most `R1` and `R2`, in rows read as `P1` and `P2` numbers.
    /// Everything below must be `#[inline(always)]`, as for a [`Job`].
    fn run<M: Arithmetic, const R1: usize, const P1: usize, const R2: usize, const P2: usize>(self);
}

/// The largest rank that has kernels of its own; larger ones take the general path.
pub(super) const MAX_RANK: usize = 16;

/// Runs a job compiled for the ranks of the two last levels, both at most [`MAX_RANK`]: for exactly
/// these ranks where they are equal, else for both rounded up to whole vectors.
#[inline(always)]
pub(super) fn run_for_ranks<J: RankJob>(ranks: [usize; 2], job: J) {
    macro_rules! equal {
        ($($rank:literal)*) => {
            match ranks[0] {
                $($rank => run(Ranks::<J, $rank, { padded($rank) }, $rank, { padded($rank) }>(job)),)*
                _ => unreachable!("no kernel for the ranks {ranks:?}"),
            }
        };
    }
    macro_rules! mixed {
        ($($first:literal $second:literal,)*) => {
            match ranks.map(padded) {
                $([$first, $second] => run(Ranks::<J, $first, $first, $second, $second>(job)),)*
                _ => unreachable!("no kernel for the ranks {ranks:?}"),
            }
        };
    }
    if ranks[0] == ranks[1] {
        equal!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16);
    } else {
        mixed!(4 4, 4 8, 4 12, 4 16, 8 4, 8 8, 8 12, 8 16,
               12 4, 12 8, 12 12, 12 16, 16 4, 16 8, 16 12, 16 16,);
    }
}

/// A rank rounded up to whole vectors of four numbers.
pub(super) const fn padded(rank: usize) -> usize {
    rank.next_multiple_of(4)
}

/// A [`RankJob`] whose ranks are chosen.
struct Ranks<J, const R1: usize, const P1: usize, const R2: usize, const P2: usize>(J);

impl<J: RankJob, const R1: usize, const P1: usize, const R2: usize, const P2: usize> Job
    for Ranks<J, R1, P1, R2, P2>
{
    #[inline(always)]
    fn run<M: Arithmetic>(self) {
        self.0.run::<M, R1, P1, R2, P2>();
    }
}
