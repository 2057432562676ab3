//! The vectors of AVX2 and AVX-512.

#![allow(unsafe_code)]

use super::vector::{Four, Vector};
use std::arch::x86_64::*;

/// Four numbers; needs AVX2 and FMA.
#[derive(Clone, Copy)]
pub(super) struct Wide4(__m256d);

/// Eight numbers; needs AVX-512 F and VL as well.
#[derive(Clone, Copy)]
pub(super) struct Wide8(__m512d);

/// A mask of the first `count` of four lanes; of all from four on.
#[inline(always)]
fn first_lanes(count: usize) -> __m256i {
    const LANES: [i64; 8] = [-1, -1, -1, -1, 0, 0, 0, 0];
    let from: &[i64; 4] = LANES[4 - count.min(4)..].first_chunk().expect("four at least");
    // SAFETY: called for a `Wide4` only, so dispatch detected AVX2; four numbers are there.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

impl Vector for Wide4 {
    const LANES: usize = 4;
    const FIRST: usize = 0;
    const REGISTERS: usize = 1;
    const HELD: usize = 12; // of 16
    type Four = Self;
    type Mask = __m256i;

    #[inline(always)]
    fn mask(rank: usize) -> __m256i {
        first_lanes(rank)
    }
    #[inline(always)]
    unsafe fn load_row(from: *const f64, mask: __m256i) -> Self {
        // SAFETY: as in `splat`; only the mask's numbers are read, which the caller promises.
        unsafe { Wide4(_mm256_maskload_pd(from, mask)) }
    }
    #[inline(always)]
    unsafe fn add_to_row(self, a: f64, to: *mut f64, _: __m256i) {
        // SAFETY: as in `splat`; the caller promises four numbers. (On Zen a masked store takes 20
        // times as long as this one.)
        unsafe { _mm256_storeu_pd(to, _mm256_fmadd_pd(_mm256_set1_pd(a), self.0, _mm256_loadu_pd(to))) }
    }
    #[inline(always)]
    fn splat(x: f64) -> Self {
        // SAFETY: dispatch detected AVX2 and FMA before it named this type.
        unsafe { Wide4(_mm256_set1_pd(x)) }
    }
    #[inline(always)]
    fn load(from: &[f64]) -> Self {
        let from: &[f64; 4] = from.first_chunk().expect("a whole row");
        // SAFETY: as in `splat`; four numbers are there, and need no alignment.
        unsafe { Wide4(_mm256_loadu_pd(from.as_ptr())) }
    }
    #[inline(always)]
    fn store(self, to: &mut [f64]) {
        let to: &mut [f64; 4] = to.first_chunk_mut().expect("a whole row");
        // SAFETY: as in `splat`; there is room for four numbers, and they need no alignment.
        unsafe { _mm256_storeu_pd(to.as_mut_ptr(), self.0) }
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
}

impl Four for Wide4 {
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
    fn first(self, count: usize) -> Self {
        // SAFETY: as in `splat`.
        unsafe { Wide4(_mm256_and_pd(self.0, _mm256_castsi256_pd(first_lanes(count)))) }
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
    const FIRST: usize = 0;
    const REGISTERS: usize = 1;
    const HELD: usize = 24; // of 32
    type Four = Wide4;
    type Mask = __mmask8;

    #[inline(always)]
    fn mask(rank: usize) -> __mmask8 {
        ((1u16 << rank.min(8)) - 1) as __mmask8
    }
    #[inline(always)]
    unsafe fn load_row(from: *const f64, mask: __mmask8) -> Self {
        // SAFETY: as in `splat`; only the mask's numbers are read, which the caller promises.
        unsafe { Wide8(_mm512_maskz_loadu_pd(mask, from)) }
    }
    #[inline(always)]
    unsafe fn add_to_row(self, a: f64, to: *mut f64, mask: __mmask8) {
        // SAFETY: as in `splat`; the caller promises eight numbers. (Masked, so that the next row can
        // be read while this one is still being written.)
        unsafe {
            let row = _mm512_maskz_loadu_pd(mask, to);
            _mm512_mask_storeu_pd(to, mask, _mm512_fmadd_pd(_mm512_set1_pd(a), self.0, row));
        }
    }
    #[inline(always)]
    fn splat(x: f64) -> Self {
        // SAFETY: dispatch detected AVX-512 F and VL before it named this type.
        unsafe { Wide8(_mm512_set1_pd(x)) }
    }
    #[inline(always)]
    fn load(from: &[f64]) -> Self {
        let from: &[f64; 8] = from.first_chunk().expect("a whole row");
        // SAFETY: as in `splat`; eight numbers are there, and need no alignment.
        unsafe { Wide8(_mm512_loadu_pd(from.as_ptr())) }
    }
    #[inline(always)]
    fn store(self, to: &mut [f64]) {
        let to: &mut [f64; 8] = to.first_chunk_mut().expect("a whole row");
        // SAFETY: as in `splat`; there is room for eight numbers, and they need no alignment.
        unsafe { _mm512_storeu_pd(to.as_mut_ptr(), self.0) }
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
}
