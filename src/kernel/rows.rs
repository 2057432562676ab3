//! PaddedFactors rows of a level, read and added to at offsets that were checked when they were decoded.

#![allow(unsafe_code)]

use super::inner::TOGETHER;
use super::padded_rows::PaddedFactors;
use super::sums::{Number, RowSums};
use super::vector::Vector;
use std::marker::PhantomData;

/// How many entries ahead rows are asked for: some 50 to 200 ns, the time that memory needs.
const AHEAD: usize = 16;

/// From which size on a level's rows are asked for ahead, in bytes: below that the second cache has
/// them, and asking costs more than it saves (5.9 ns against 5.4 for the ratings' gradient at rank 4).
const FAR: usize = 512 << 10;

/// The bytes of a line of the cache.
const LINE: usize = 64;

/// How many lines of a row are asked for at most; the processor goes on by itself.
const MOST_LINES: usize = 4;

/// The padded rows of a level.
#[derive(Clone, Copy)]
pub(super) struct Rows<'b> {
    numbers: &'b [f64],
    /// The bytes of a row where rows are asked for ahead, else 0.
    ahead: usize,
}

/// The rows of the two last levels.
pub(super) fn padded_rows_of<'b>(padded: &PaddedFactors<'b>) -> [Rows<'b>; 2] {
    padded.levels().map(|numbers| Rows {
        numbers,
        ahead: if size_of_val(numbers) < FAR { 0 } else { padded.stride() * size_of::<f64>() },
    })
}

impl Rows<'_> {
    /// Where the row at an offset begins.
    ///
    /// # Safety
    ///
    /// The offset was decoded for this level of the padded factors that these rows are of.
    #[inline(always)]
    pub(super) unsafe fn at(&self, offset: u32) -> *const f64 {
        debug_assert!((offset as usize) < self.numbers.len());
        // SAFETY: `Decoded` has compared the index with the number of rows.
        unsafe { self.numbers.as_ptr().add(offset as usize) }
    }

    /// Where four rows begin. (A loop: `array::map` is not reliably inlined.)
    ///
    /// # Safety
    ///
    /// As [`at`](Self::at).
    #[inline(always)]
    pub(super) unsafe fn four(&self, offsets: [u32; TOGETHER]) -> [*const f64; TOGETHER] {
        let mut rows = [std::ptr::null(); TOGETHER];
        for n in 0..TOGETHER {
            // SAFETY: as the caller promises.
            rows[n] = unsafe { self.at(offsets[n]) };
        }
        rows
    }

    /// Whether nothing is asked for ahead.
    #[inline(always)]
    pub(super) fn is_near(&self) -> bool {
        self.ahead == 0
    }

    /// Asks for the rows of entries to come.
    #[inline(always)]
    pub(super) fn prefetch(&self, offsets: &[u32], entry: usize) {
        prefetch(self.numbers.as_ptr(), self.ahead, offsets, entry);
    }
}

/// The sums of a level's gradient rows, to add to.
pub(super) struct RowAdder<'b, N> {
    /// Where row 0 would be: the first row that there is may be another.
    origin: *mut N,
    ahead: usize,
    rows: PhantomData<&'b mut [N]>,
}

impl<'b, N: Number> RowAdder<'b, N> {
    /// To add to the padded sums of a level.
    pub(super) fn new(sums: &'b mut RowSums) -> Self {
        let (first, stride) = (sums.first, sums.stride);
        let numbers = sums.numbers_mut::<N>();
        let ahead = if size_of_val(numbers) < FAR { 0 } else { stride * size_of::<N>() };
        RowAdder { origin: numbers.as_mut_ptr().wrapping_sub(first * stride), ahead, rows: PhantomData }
    }

    /// Adds a x to the row at an offset.
    ///
    /// # Safety
    ///
    /// The offset was decoded for this level, for rows as far apart as these, and these sums have its
    /// row.
    #[inline(always)]
    pub(super) unsafe fn add<V: Vector>(&mut self, offset: u32, a: N, x: N::Row<V>) {
        // SAFETY: a row of the sums begins there, as the caller promises, and nobody else has them.
        unsafe { N::add::<V>(self.origin.wrapping_add(offset as usize), a, x) }
    }

    /// Whether nothing is asked for ahead.
    #[inline(always)]
    pub(super) fn is_near(&self) -> bool {
        self.ahead == 0
    }

    /// Asks for the rows of entries to come.
    #[inline(always)]
    pub(super) fn prefetch(&self, offsets: &[u32], entry: usize) {
        prefetch(self.origin, self.ahead, offsets, entry);
    }
}

/// Asks for the rows of four of the entries after `entry`, to be used soon.
#[inline(always)]
fn prefetch<T>(origin: *const T, bytes: usize, offsets: &[u32], entry: usize) {
    if bytes == 0 {
        return;
    }
    if let Some(offsets) = offsets.get(entry + AHEAD..entry + AHEAD + TOGETHER) {
        for &offset in offsets {
            let row = origin.wrapping_add(offset as usize).cast::<i8>();
            for line in (0..bytes.min(MOST_LINES * LINE)).step_by(LINE) {
                prefetch_line(row.wrapping_add(line));
            }
        }
    }
}

/// Asks for numbers that will be read soon, one after the other.
#[inline(always)]
pub fn prefetch_all<T>(numbers: &[T]) {
    let first = numbers.as_ptr().cast::<i8>();
    for line in (0..size_of_val(numbers)).step_by(LINE) {
        prefetch_line(first.wrapping_add(line));
    }
}

/// The same for so many of the numbers, from one on. Nothing is read, so that they need not be there.
#[inline(always)]
pub(super) fn prefetch_from<T>(numbers: &[T], first: usize, count: usize) {
    let first = numbers.as_ptr().wrapping_add(first).cast::<i8>();
    for line in (0..count * size_of::<T>()).step_by(LINE) {
        prefetch_line(first.wrapping_add(line));
    }
}

/// Asks for the line of the cache that an address is in. The instruction reads nothing and ignores
/// addresses that are not mapped, so any will do.
#[inline(always)]
fn prefetch_line(address: *const i8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: part of every x86-64 processor.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address);
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: part of every processor of the architecture; changes no register and no memory.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) address, options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}
