//! The vectors of ARM's NEON: pairs of numbers, two pairs to a [`Neon4`].
//!
//! The kernels' tests run on another machine under emulation, given the standard library for
//! aarch64, a cross linker and QEMU:
//!
//! ```text
//! CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
//! CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64-static -L /usr/aarch64-linux-gnu" \
//!     cargo test --release --target aarch64-unknown-linux-gnu -p tenfill-kernel
//! ```

#![allow(unsafe_code)]

use super::vector::{Four, Single, Vector};
use std::arch::aarch64::*;

/// Four numbers; needs NEON.
#[derive(Clone, Copy)]
pub(super) struct Neon4(float64x2_t, float64x2_t);

/// Four numbers in single precision; needs NEON.
#[derive(Clone, Copy)]
pub(super) struct NeonSingle4(float32x4_t);

impl Vector for Neon4 {
    const LANES: usize = 4;
    const REGISTERS: usize = 2;
    const HELD: usize = 24; // of 32
    type Four = Self;
    type Single = NeonSingle4;

    #[inline(always)]
    fn splat(x: f64) -> Self {
        // SAFETY: dispatch detected NEON before it named this type.
        unsafe { Neon4(vdupq_n_f64(x), vdupq_n_f64(x)) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f64) -> Self {
        // SAFETY: as in `splat`; the caller promises four numbers.
        unsafe { Neon4(vld1q_f64(from), vld1q_f64(from.add(2))) }
    }
    #[inline(always)]
    unsafe fn widen(from: *const f32) -> Self {
        // SAFETY: as in `load`.
        unsafe {
            let four = vld1q_f32(from);
            Neon4(vcvt_f64_f32(vget_low_f32(four)), vcvt_high_f64_f32(four))
        }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        // SAFETY: as in `load`.
        unsafe {
            vst1q_f64(to, self.0);
            vst1q_f64(to.add(2), self.1);
        }
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        // SAFETY: as in `splat`.
        unsafe { Neon4(vmulq_f64(self.0, b.0), vmulq_f64(self.1, b.1)) }
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        // SAFETY: as in `splat`. (The instruction's first operand is the sum.)
        unsafe { Neon4(vfmaq_f64(c.0, self.0, b.0), vfmaq_f64(c.1, self.1, b.1)) }
    }
    #[inline(always)]
    fn fold(self) -> Self {
        self
    }
    #[inline(always)]
    fn single(self) -> NeonSingle4 {
        // SAFETY: as in `splat`.
        unsafe { NeonSingle4(vcvt_high_f32_f64(vcvt_f32_f64(self.0), self.1)) }
    }
}

impl Four for Neon4 {
    #[inline(always)]
    fn new(numbers: [f64; 4]) -> Self {
        // SAFETY: four numbers are there.
        unsafe { Self::load(numbers.as_ptr()) }
    }
    #[inline(always)]
    fn array(self) -> [f64; 4] {
        let mut array = [0.0; 4];
        // SAFETY: there is room for four numbers.
        unsafe { self.store(array.as_mut_ptr()) };
        array
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        // SAFETY: as in `splat`.
        unsafe { Neon4(vaddq_f64(self.0, b.0), vaddq_f64(self.1, b.1)) }
    }
    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        // SAFETY: as in `splat`.
        unsafe { Neon4(vsubq_f64(self.0, b.0), vsubq_f64(self.1, b.1)) }
    }
    #[inline(always)]
    fn abs(self) -> Self {
        // SAFETY: as in `splat`.
        unsafe { Neon4(vabsq_f64(self.0), vabsq_f64(self.1)) }
    }
    #[inline(always)]
    fn where_positive(self, by: Self) -> Self {
        // SAFETY: as in `splat`.
        unsafe {
            let kept = |x, by| vreinterpretq_f64_u64(vandq_u64(vreinterpretq_u64_f64(x), vcgtzq_f64(by)));
            Neon4(kept(self.0, by.0), kept(self.1, by.1))
        }
    }
    #[inline(always)]
    fn sums(of: [Self; 4]) -> Self {
        let [a, b, c, d] = of;
        // SAFETY: as in `splat`.
        unsafe {
            // x0+x2 x1+x3 of each; then the two numbers of each pair.
            let [a, b] = [vaddq_f64(a.0, a.1), vaddq_f64(b.0, b.1)];
            let [c, d] = [vaddq_f64(c.0, c.1), vaddq_f64(d.0, d.1)];
            Neon4(vpaddq_f64(a, b), vpaddq_f64(c, d))
        }
    }
}

impl Single for NeonSingle4 {
    #[inline(always)]
    fn splat(x: f32) -> Self {
        // SAFETY: dispatch detected NEON before it named this type.
        unsafe { NeonSingle4(vdupq_n_f32(x)) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: as in `splat`; the caller promises four numbers.
        unsafe { NeonSingle4(vld1q_f32(from)) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as in `load`.
        unsafe { vst1q_f32(to, self.0) }
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        // SAFETY: as in `splat`.
        unsafe { NeonSingle4(vfmaq_f32(c.0, self.0, b.0)) }
    }
}
