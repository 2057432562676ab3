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

/// What code is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Instructions {
    /// What every processor of the architecture has.
    Any,
    /// Vectors of four f64, fused multiply-add.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Vectors of eight.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// The best instructions this processor has. The standard library remembers what it detected: this
/// is a load and a few tests.
#[inline]
pub(super) fn detected() -> Instructions {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected;
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") {
                return Instructions::Avx512;
            }
            return Instructions::Avx2;
        }
    }
    Instructions::Any
}

/// Runs a job with the best instructions this processor has.
pub(super) fn run<J: Job>(job: J) {
    let instructions = detected();
    #[cfg(test)]
    let instructions = instructions.min(limit::get());
    match instructions {
        Instructions::Any => job.run::<Separate>(),
        // SAFETY: the processor has every feature that the function enables, as just detected.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 => unsafe { x86::with_avx2(job) },
        // SAFETY: the processor has every feature that the function enables, as just detected.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512 => unsafe { x86::with_avx512(job) },
    }
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

/// Lets tests run what older processors run.
#[cfg(test)]
pub(super) mod limit {
    use super::{Instructions, detected};
    use std::cell::Cell;

    thread_local!(static LIMIT: Cell<Option<Instructions>> = const { Cell::new(None) });

    pub(super) fn get() -> Instructions {
        LIMIT.get().unwrap_or_else(detected)
    }

    /// Every set of instructions that this processor has, used by this thread while `test` runs.
    pub(in crate::kernel) fn with_each(test: impl Fn(Instructions)) {
        #[cfg(target_arch = "x86_64")]
        let all = [Instructions::Any, Instructions::Avx2, Instructions::Avx512];
        #[cfg(not(target_arch = "x86_64"))]
        let all = [Instructions::Any];
        for instructions in all {
            if instructions <= detected() {
                LIMIT.set(Some(instructions));
                test(instructions);
            }
        }
        LIMIT.set(None);
    }
}
