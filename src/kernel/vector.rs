//! Rows as vectors: what the kernels of the two last levels are written in.
//!
//! A [`Vector`] is a whole padded row: four numbers, eight, or a [`Pair`] of vectors side by side. So
//! a kernel is compiled once per width that a processor's registers suggest (four for AVX2), not
//! once per rank. Here are the portable vectors; `x86` has those of AVX2 and AVX-512.

#![allow(unsafe_code)]

/// A row of `LANES` numbers in registers.
///
/// The methods of the `x86` vectors need the instructions of their name. Only `dispatch` names those
/// types, in functions compiled for the instructions and entered where they were detected.
pub(super) trait Vector: Copy {
    /// How many numbers; a multiple of four, at most [`MAX_RANK`](super::dispatch::MAX_RANK).
    const LANES: usize;
    /// How many of them a mask always contains.
    const FIRST: usize;
    /// How many registers it takes.
    const REGISTERS: usize;
    /// How many registers may hold sums, so that enough are left for what is added to them.
    const HELD: usize;
    /// Four numbers, one for each of four entries.
    type Four: Four;
    /// Some of the lanes.
    type Mask: Copy;
    /// x in every lane.
    fn splat(x: f64) -> Self;
    /// The first numbers of `from`, which has at least `LANES`.
    fn load(from: &[f64]) -> Self;
    /// Overwrites the first numbers of `to`, which has at least `LANES`.
    fn store(self, to: &mut [f64]);
    /// Whether this is for rows of `rank` numbers: a mask contains no more.
    #[inline(always)]
    fn fits(rank: usize) -> bool {
        Self::FIRST <= rank && rank <= Self::LANES
    }
    /// The lanes that a row of `rank` numbers fills, and the first `FIRST`.
    fn mask(rank: usize) -> Self::Mask;
    /// The row at `from`, and zeros.
    ///
    /// # Safety
    ///
    /// All numbers in the mask can be read there.
    unsafe fn load_row(from: *const f64, mask: Self::Mask) -> Self;
    /// Adds a times this vector to the row at `to`, where this vector is zero outside the mask.
    ///
    /// # Safety
    ///
    /// `LANES` numbers can be read and written there: rows behind this one are written too, with
    /// what they held, where that is faster.
    unsafe fn add_to_row(self, a: f64, to: *mut f64, mask: Self::Mask);
    /// self b.
    fn mul(self, b: Self) -> Self;
    /// self b + c, fused where the processor can.
    fn fma(self, b: Self, c: Self) -> Self;
    /// Added up to four lanes: those whose numbers agree modulo 4.
    fn fold(self) -> Self::Four;
}

/// Four numbers.
pub(super) trait Four: Vector<Four = Self> {
    /// self + b.
    fn add(self, b: Self) -> Self;
    /// self - b.
    fn sub(self, b: Self) -> Self;
    /// |self|.
    fn abs(self) -> Self;
    /// The sums of four vectors' numbers, as one vector.
    fn sums(of: [Self; 4]) -> Self;

    /// The numbers.
    #[inline(always)]
    fn array(self) -> [f64; 4] {
        let mut array = [0.0; 4];
        self.store(&mut array);
        array
    }

    /// The sum of the numbers.
    #[inline(always)]
    fn sum(self) -> f64 {
        let [a, b, c, d] = self.array();
        (a + c) + (b + d)
    }

    /// The first `count` numbers, and zeros; all from four on.
    fn first(self, count: usize) -> Self;
}

/// The sums of x_n . y_n for four pairs of rows.
#[inline(always)]
pub(super) fn dots<V: Vector>(x: &[V; 4], y: &[V; 4]) -> V::Four {
    let mut products = [V::Four::splat(0.0); 4];
    for n in 0..4 {
        products[n] = x[n].mul(y[n]).fold();
    }
    Four::sums(products)
}

/// Two vectors side by side.
#[derive(Clone, Copy)]
pub(super) struct Pair<A, B>(A, B);

impl<A: Vector, B: Vector<Four = A::Four>> Vector for Pair<A, B> {
    const LANES: usize = A::LANES + B::LANES;
    const FIRST: usize = A::LANES + B::FIRST;
    const REGISTERS: usize = A::REGISTERS + B::REGISTERS;
    const HELD: usize = A::HELD;
    type Four = A::Four;
    type Mask = B::Mask;

    #[inline(always)]
    fn mask(rank: usize) -> B::Mask {
        B::mask(rank.saturating_sub(A::LANES))
    }
    #[inline(always)]
    unsafe fn load_row(from: *const f64, mask: B::Mask) -> Self {
        // SAFETY: the mask contains all lanes of A, and those in B's mask.
        unsafe { Pair(A::load_row(from, A::mask(A::LANES)), B::load_row(from.add(A::LANES), mask)) }
    }
    #[inline(always)]
    unsafe fn add_to_row(self, a: f64, to: *mut f64, mask: B::Mask) {
        // SAFETY: there are as many numbers as A and B have together.
        unsafe {
            self.0.add_to_row(a, to, A::mask(A::LANES));
            self.1.add_to_row(a, to.add(A::LANES), mask);
        }
    }
    #[inline(always)]
    fn splat(x: f64) -> Self {
        Pair(A::splat(x), B::splat(x))
    }
    #[inline(always)]
    fn load(from: &[f64]) -> Self {
        Pair(A::load(from), B::load(&from[A::LANES..]))
    }
    #[inline(always)]
    fn store(self, to: &mut [f64]) {
        self.0.store(to);
        self.1.store(&mut to[A::LANES..]);
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        Pair(self.0.mul(b.0), self.1.mul(b.1))
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        Pair(self.0.fma(b.0, c.0), self.1.fma(b.1, c.1))
    }
    #[inline(always)]
    fn fold(self) -> A::Four {
        self.0.fold().add(self.1.fold())
    }
}

/// Four numbers for any processor; on ARM the compiler makes pairs of NEON vectors of them.
#[derive(Clone, Copy)]
pub(super) struct Portable([f64; 4]);

impl Vector for Portable {
    const LANES: usize = 4;
    const FIRST: usize = 0;
    // Pairs of numbers, in 16 registers with SSE and 32 with NEON.
    const REGISTERS: usize = 2;
    const HELD: usize = if cfg!(target_arch = "aarch64") { 24 } else { 12 };
    type Four = Self;
    /// How many lanes.
    type Mask = usize;

    #[inline(always)]
    fn mask(rank: usize) -> usize {
        rank
    }
    #[inline(always)]
    unsafe fn load_row(from: *const f64, mask: usize) -> Self {
        let mut row = [0.0; 4];
        for n in 0..4 {
            if n < mask {
                // SAFETY: one of the numbers in the mask.
                row[n] = unsafe { *from.add(n) };
            }
        }
        Portable(row)
    }
    #[inline(always)]
    unsafe fn add_to_row(self, a: f64, to: *mut f64, _: usize) {
        // SAFETY: the caller promises four numbers, and nobody else looks at them meanwhile.
        let to = unsafe { &mut *to.cast::<[f64; 4]>() };
        *to = Self::splat(a).fma(self, Portable(*to)).0;
    }
    #[inline(always)]
    fn splat(x: f64) -> Self {
        Portable([x; 4])
    }
    #[inline(always)]
    fn load(from: &[f64]) -> Self {
        Portable(*from.first_chunk().expect("a whole row"))
    }
    #[inline(always)]
    fn store(self, to: &mut [f64]) {
        *to.first_chunk_mut().expect("a whole row") = self.0;
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (self.0, b.0);
        Portable([a * e, b * f, c * g, d * h])
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        let mut sums = c.0;
        for n in 0..4 {
            // Without the instruction, `mul_add` would be a call of a slow function.
            sums[n] = if cfg!(target_arch = "aarch64") {
                self.0[n].mul_add(b.0[n], sums[n])
            } else {
                self.0[n] * b.0[n] + sums[n]
            };
        }
        Portable(sums)
    }
    #[inline(always)]
    fn fold(self) -> Self {
        self
    }
}

impl Four for Portable {
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (self.0, b.0);
        Portable([a + e, b + f, c + g, d + h])
    }
    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (self.0, b.0);
        Portable([a - e, b - f, c - g, d - h])
    }
    #[inline(always)]
    fn abs(self) -> Self {
        let [a, b, c, d] = self.0;
        Portable([a.abs(), b.abs(), c.abs(), d.abs()])
    }
    #[inline(always)]
    fn first(self, count: usize) -> Self {
        let mut first = self.0;
        first[count.min(4)..].fill(0.0);
        Portable(first)
    }
    #[inline(always)]
    fn sums(of: [Self; 4]) -> Self {
        let [a, b, c, d] = of;
        Portable([a.sum(), b.sum(), c.sum(), d.sum()])
    }
}
