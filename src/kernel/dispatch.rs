//! Which instructions and which widths of rows a kernel is compiled for, chosen at run time.
//!
//! A kernel is a [`Kernel`]: plain safe code, inlined into one function per instruction set, so that
//! the compiler vectorises it for that set. What runs per entry is a [`RowKernel`], written in vectors;
//! a [`BlockKernel`] is the way to it through a block.
//! The choice depends on the processor alone: on one machine the same block and the same factors
//! always give the same bits.

#![allow(unsafe_code)]

use super::arithmetic::{Arithmetic, Separate};
#[cfg(target_arch = "aarch64")]
use super::neon::Neon4;
use super::vector::{Pair, Vector};
#[cfg(target_arch = "x86_64")]
use super::x86::{Wide4, Wide8};
use std::marker::PhantomData;

/// A kernel for one block.
pub(super) trait Kernel {
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
    /// Vectors of two f64, fused multiply-add.
    #[cfg(target_arch = "aarch64")]
    Neon,
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
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("neon") {
        return Instructions::Neon;
    }
    Instructions::Any
}

/// Whether there are vectors that the kernels of padded rows are written for. Where there are none, on x86
/// processors from before 2013 and on rare architectures, the general path does for every rank: kernels for
/// them took a third of the compiler's time.
pub(super) fn has_vectors() -> bool {
    chosen() != Instructions::Any
}

/// What to use: in tests perhaps less than what is there.
#[inline]
fn chosen() -> Instructions {
    let instructions = detected();
    #[cfg(test)]
    let instructions = instructions.min(limit::get());
    instructions
}

/// Runs a job with the best instructions this processor has.
pub(super) fn run<J: Kernel>(job: J) {
    match chosen() {
        Instructions::Any => job.run::<Separate>(),
        // SAFETY: the processor has every feature that the function enables, as just detected.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 => unsafe { compiled::with_avx2(job) },
        // SAFETY: the processor has every feature that the function enables, as just detected.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512 => unsafe { compiled::with_avx512(job) },
        // SAFETY: the processor has the feature that the function enables, as just detected.
        #[cfg(target_arch = "aarch64")]
        Instructions::Neon => unsafe { compiled::with_neon(job) },
    }
}

/// Runs plain code compiled for the best instructions this processor has: whatever is inlined into `work`.
/// The compiler fuses and reorders nothing by itself, so that the results are the same bits with any.
pub fn vectorised(work: impl FnOnce()) {
    struct Work<F>(F);
    impl<F: FnOnce()> Kernel for Work<F> {
        #[inline(always)]
        fn run<M: Arithmetic>(self) {
            (self.0)();
        }
    }
    run(Work(work));
}

#[cfg(target_arch = "aarch64")]
mod compiled {
    use super::{BlockKernel, Kernel, RowKernel, Width};
    use crate::arithmetic::Fused;
    use crate::vector::Vector;

    #[target_feature(enable = "neon")]
    pub(super) fn with_neon<J: Kernel>(job: J) {
        job.run::<Fused>();
    }

    #[target_feature(enable = "neon")]
    pub(super) fn block_with_neon<J: BlockKernel, W: Width>(job: J, width: W) {
        job.run::<Fused, W>(width);
    }

    #[target_feature(enable = "neon")]
    pub(super) fn rank_with_neon<J: RowKernel, V: Vector>(job: J) {
        job.run::<V>();
    }
}

#[cfg(target_arch = "x86_64")]
mod compiled {
    use super::{BlockKernel, Kernel, RowKernel, Width};
    use crate::arithmetic::{Fused, FusedWide};
    use crate::vector::Vector;

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn with_avx2<J: Kernel>(job: J) {
        job.run::<Fused>();
    }

    #[target_feature(enable = "avx2,fma,avx512f,avx512vl")]
    pub(super) fn with_avx512<J: Kernel>(job: J) {
        job.run::<FusedWide>();
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn block_with_avx2<J: BlockKernel, W: Width>(job: J, width: W) {
        job.run::<Fused, W>(width);
    }

    #[target_feature(enable = "avx2,fma,avx512f,avx512vl")]
    pub(super) fn block_with_avx512<J: BlockKernel, W: Width>(job: J, width: W) {
        job.run::<Fused, W>(width);
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn rank_with_avx2<J: RowKernel, V: Vector>(job: J) {
        job.run::<V>();
    }

    #[target_feature(enable = "avx2,fma,avx512f,avx512vl")]
    pub(super) fn rank_with_avx512<J: RowKernel, V: Vector>(job: J) {
        job.run::<V>();
    }
}

/// A kernel of the two last levels, which exists for several widths of their rows.
pub(super) trait RowKernel {
    /// Does the work, with padded rows as one vector each. Everything below must be
    /// `#[inline(always)]`, as for a [`Kernel`].
    fn run<V: Vector>(self);
}

/// The widths of padded rows that there are kernels for: ranks are rounded up to them.
///
/// Kernels for every rank were no faster, and the compiler spent more than twice the time.
pub(super) const WIDTHS: [usize; 6] = [4, 8, 12, 16, 24, 32];

/// The largest rank that has kernels of its own; larger ones take the general path.
pub(super) const MAX_RANK: usize = WIDTHS[WIDTHS.len() - 1];

/// Two vectors of a kind side by side.
type Two<V> = Pair<V, V>;
/// Four of them.
type Many<V> = Two<Two<V>>;

/// Runs a job for a width of padded rows: one of [`WIDTHS`].
pub(super) fn run_for_width<J: RowKernel>(width: usize, job: J) {
    match chosen() {
        Instructions::Any => unreachable!("without vectors no rows are matrices"),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the processor has every feature that the functions enable, as just detected.
        Instructions::Avx2 => unsafe {
            match width {
                4 => compiled::rank_with_avx2::<J, Wide4>(job),
                8 => compiled::rank_with_avx2::<J, Two<Wide4>>(job),
                12 => compiled::rank_with_avx2::<J, Pair<Two<Wide4>, Wide4>>(job),
                16 => compiled::rank_with_avx2::<J, Many<Wide4>>(job),
                24 => compiled::rank_with_avx2::<J, Pair<Many<Wide4>, Two<Wide4>>>(job),
                _ => compiled::rank_with_avx2::<J, Two<Many<Wide4>>>(job),
            }
        },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the processor has every feature that the functions enable, as just detected.
        Instructions::Avx512 => unsafe {
            match width {
                // The same code as for AVX2: four numbers need no more.
                4 => compiled::rank_with_avx2::<J, Wide4>(job),
                8 => compiled::rank_with_avx512::<J, Wide8>(job),
                12 => compiled::rank_with_avx512::<J, Pair<Wide8, Wide4>>(job),
                16 => compiled::rank_with_avx512::<J, Two<Wide8>>(job),
                24 => compiled::rank_with_avx512::<J, Pair<Two<Wide8>, Wide8>>(job),
                _ => compiled::rank_with_avx512::<J, Many<Wide8>>(job),
            }
        },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: the processor has the feature that the functions enable, as just detected.
        Instructions::Neon => unsafe {
            match width {
                4 => compiled::rank_with_neon::<J, Neon4>(job),
                8 => compiled::rank_with_neon::<J, Two<Neon4>>(job),
                12 => compiled::rank_with_neon::<J, Pair<Two<Neon4>, Neon4>>(job),
                16 => compiled::rank_with_neon::<J, Many<Neon4>>(job),
                24 => compiled::rank_with_neon::<J, Pair<Many<Neon4>, Two<Neon4>>>(job),
                _ => compiled::rank_with_neon::<J, Two<Many<Neon4>>>(job),
            }
        },
    }
}

/// A kernel for one block, which leaves the two last levels to a [`RowKernel`].
pub(super) trait BlockKernel {
    /// Does the work; as for a [`Kernel`].
    fn run<M: Arithmetic, W: Width>(self, width: W);
}

/// How the kernel of the two last levels is reached.
pub(super) trait Width: Copy {
    /// Runs it.
    fn run<J: RowKernel>(self, job: J);
}

/// Looked up for every slice: little where rows are long.
impl Width for usize {
    #[inline(always)]
    fn run<J: RowKernel>(self, job: J) {
        run_for_width(self, job);
    }
}

/// Known to the compiler, so that the kernel is part of the way through the block.
pub(super) struct Known<V>(PhantomData<V>);

impl<V> Clone for Known<V> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Known<V> {}

impl<V: Vector> Width for Known<V> {
    #[inline(always)]
    fn run<J: RowKernel>(self, job: J) {
        job.run::<V>();
    }
}

/// Runs a job for a block whose padded rows have this width. Rows of four numbers have code of their
/// own: a slice of ratings has a hundred entries or so, and looking the kernel up costs as much as five
/// such entries.
pub(super) fn run_block<J: BlockKernel>(width: usize, job: J) {
    match chosen() {
        Instructions::Any => job.run::<Separate, _>(width),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the processor has every feature that the functions enable, as just detected.
        Instructions::Avx2 => unsafe {
            match width {
                4 => compiled::block_with_avx2(job, Known::<Wide4>(PhantomData)),
                _ => compiled::block_with_avx2(job, width),
            }
        },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the processor has every feature that the functions enable, as just detected.
        Instructions::Avx512 => unsafe {
            match width {
                4 => compiled::block_with_avx512(job, Known::<Wide4>(PhantomData)),
                _ => compiled::block_with_avx512(job, width),
            }
        },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: the processor has the feature that the functions enable, as just detected.
        Instructions::Neon => unsafe {
            match width {
                4 => compiled::block_with_neon(job, Known::<Neon4>(PhantomData)),
                _ => compiled::block_with_neon(job, width),
            }
        },
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
    pub(crate) fn with_each(test: impl Fn(Instructions)) {
        #[cfg(target_arch = "x86_64")]
        let all = [Instructions::Any, Instructions::Avx2, Instructions::Avx512];
        #[cfg(target_arch = "aarch64")]
        let all = [Instructions::Any, Instructions::Neon];
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
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
