//! The vectors of AVX2 and AVX-512.

#![allow(unsafe_code)]

use super::vector::{Four, Single, Vector};
use std::arch::x86_64::*;

/// Four numbers; needs AVX2 and FMA.
#[derive(Clone, Copy)]
pub(super) struct Wide4(__m256d);

/// Eight numbers; needs AVX-512 F and VL as well.
#[derive(Clone, Copy)]
pub(super) struct Wide8(__m512d);

/// Four numbers in single precision; needs AVX2 and FMA.
#[derive(Clone, Copy)]
pub(super) struct Single4(__m128);

/// Eight numbers in single precision; needs AVX2 and FMA.
#[derive(Clone, Copy)]
pub(super) struct Single8(__m256);

impl Vector for Wide4 {
    const LANES: usize = 4;
    const REGISTERS: usize = 1;
    const HELD: usize = 12; // of 16
    type Four = Self;
    type Single = Single4;

    #[inline(always)]
    fn splat(x: f64) -> Self {
        // SAFETY: dispatch detected AVX2 and FMA before it named this type.
        unsafe { Wide4(_mm256_set1_pd(x)) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f64) -> Self {
        // SAFETY: as in `splat`; the caller promises four numbers, and they need no alignment.
        unsafe { Wide4(_mm256_loadu_pd(from)) }
    }
    #[inline(always)]
    unsafe fn widen(from: *const f32) -> Self {
        // SAFETY: as in `load`.
        unsafe { Wide4(_mm256_cvtps_pd(_mm_loadu_ps(from))) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        // SAFETY: as in `load`.
        unsafe { _mm256_storeu_pd(to, self.0) }
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        // SAFETY: as in `splat`.
        unsafe { Wide4(_mm256_mul_pd(self.0, b.0)) }
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        // SAFETY: as in `splat`.
        unsafe { Wide4(_mm256_fmadd_pd(self.0, b.0, c.0)) }
    }
    #[inline(always)]
    fn fold(self) -> Self {
        self
    }
    #[inline(always)]
    fn single(self) -> Single4 {
        // SAFETY: as in `splat`.
        unsafe { Single4(_mm256_cvtpd_ps(self.0)) }
    }
}

impl Four for Wide4 {
    #[inline(always)]
    fn new(numbers: [f64; 4]) -> Self {
        // SAFETY: as in `splat`; four numbers are there.
        unsafe { Wide4(_mm256_loadu_pd(numbers.as_ptr())) }
    }
    #[inline(always)]
    fn array(self) -> [f64; 4] {
        let mut array = [0.0; 4];
        // SAFETY: as in `splat`; there is room for four numbers.
        unsafe { _mm256_storeu_pd(array.as_mut_ptr(), self.0) };
        array
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        // SAFETY: as in `splat`.
        unsafe { Wide4(_mm256_add_pd(self.0, b.0)) }
    }
    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        // SAFETY: as in `splat`.
        unsafe { Wide4(_mm256_sub_pd(self.0, b.0)) }
    }
    #[inline(always)]
    fn abs(self) -> Self {
        // SAFETY: as in `splat`.
        unsafe { Wide4(_mm256_andnot_pd(_mm256_set1_pd(-0.0), self.0)) }
    }
    #[inline(always)]
    fn where_positive(self, by: Self) -> Self {
        // SAFETY: as in `splat`.
        unsafe {
            let positive = _mm256_cmp_pd::<_CMP_GT_OQ>(by.0, _mm256_setzero_pd());
            Wide4(_mm256_and_pd(self.0, positive))
        }
    }
    #[inline(always)]
    fn sums(of: [Self; 4]) -> Self {
        let [a, b, c, d] = of;
        // SAFETY: as in `splat`.
        unsafe {
            // a0+a1 b0+b1 a2+a3 b2+b3, and likewise c and d.
            let ab = _mm256_hadd_pd(a.0, b.0);
            let cd = _mm256_hadd_pd(c.0, d.0);
            // a2+a3 b2+b3 c0+c1 d0+d1, and a0+a1 b0+b1 c2+c3 d2+d3.
            let crossed = _mm256_permute2f128_pd::<0x21>(ab, cd);
            let straight = _mm256_blend_pd::<0b1100>(ab, cd);
            Wide4(_mm256_add_pd(crossed, straight))
        }
    }
}

impl Vector for Wide8 {
    const LANES: usize = 8;
    const REGISTERS: usize = 1;
    const HELD: usize = 24; // of 32
    type Four = Wide4;
    type Single = Single8;

    #[inline(always)]
    fn splat(x: f64) -> Self {
        // SAFETY: dispatch detected AVX-512 F and VL before it named this type.
        unsafe { Wide8(_mm512_set1_pd(x)) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f64) -> Self {
        // SAFETY: as in `splat`; the caller promises eight numbers, and they need no alignment.
        unsafe { Wide8(_mm512_loadu_pd(from)) }
    }
    #[inline(always)]
    unsafe fn widen(from: *const f32) -> Self {
        // SAFETY: as in `load`.
        unsafe { Wide8(_mm512_cvtps_pd(_mm256_loadu_ps(from))) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        // SAFETY: as in `load`.
        unsafe { _mm512_storeu_pd(to, self.0) }
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        // SAFETY: as in `splat`.
        unsafe { Wide8(_mm512_mul_pd(self.0, b.0)) }
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        // SAFETY: as in `splat`.
        unsafe { Wide8(_mm512_fmadd_pd(self.0, b.0, c.0)) }
    }
    #[inline(always)]
    fn fold(self) -> Wide4 {
        // SAFETY: as in `splat`.
        unsafe {
            let low = _mm512_castpd512_pd256(self.0);
            Wide4(_mm256_add_pd(low, _mm512_extractf64x4_pd::<1>(self.0)))
        }
    }
    #[inline(always)]
    fn single(self) -> Single8 {
        // SAFETY: as in `splat`.
        unsafe { Single8(_mm512_cvtpd_ps(self.0)) }
    }
}

impl Single for Single4 {
    #[inline(always)]
    fn splat(x: f32) -> Self {
        // SAFETY: dispatch detected AVX2 and FMA before it named this type.
        unsafe { Single4(_mm_set1_ps(x)) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: as in `splat`; the caller promises four numbers, and they need no alignment.
        unsafe { Single4(_mm_loadu_ps(from)) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as in `load`.
        unsafe { _mm_storeu_ps(to, self.0) }
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        // SAFETY: as in `splat`.
        unsafe { Single4(_mm_fmadd_ps(self.0, b.0, c.0)) }
    }
}

impl Single for Single8 {
    #[inline(always)]
    fn splat(x: f32) -> Self {
        // SAFETY: dispatch detected AVX2 and FMA before it named this type.
        unsafe { Single8(_mm256_set1_ps(x)) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: as in `splat`; the caller promises eight numbers, and they need no alignment.
        unsafe { Single8(_mm256_loadu_ps(from)) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as in `load`.
        unsafe { _mm256_storeu_ps(to, self.0) }
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        // SAFETY: as in `splat`.
        unsafe { Single8(_mm256_fmadd_ps(self.0, b.0, c.0)) }
    }
}
