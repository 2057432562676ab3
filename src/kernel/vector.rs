//! Rows as vectors: what the kernels of the two last levels are written in.
//!
//! A [`Vector`] is a whole padded row: four numbers, eight, or a [`Pair`] of vectors side by side. So
//! a kernel is compiled once per width that a processor's registers suggest (four for AVX2), not
//! once per rank. Here are the portable vectors; `x86` has those of AVX2 and AVX-512, `neon`
//! those of ARM.

#![allow(unsafe_code)]

/// A row of `LANES` numbers in registers.
///
/// The methods of the `x86` and `neon` vectors need the instructions of their name. Only `dispatch` names those
/// types, in functions compiled for the instructions and entered where they were detected.
pub(super) trait Vector: Copy {
    /// How many numbers; a multiple of four, at most [`MAX_RANK`](super::dispatch::MAX_RANK).
    const LANES: usize;
    /// How many registers it takes.
    const REGISTERS: usize;
    /// How many registers may hold sums, so that enough are left for what is added to them.
    const HELD: usize;
    /// Four numbers, one for each of four entries.
    type Four: Four;
    /// As many numbers in single precision.
    type Single: Single;
    /// x in every lane.
    fn splat(x: f64) -> Self;
    /// The numbers at `from`.
    ///
    /// # Safety
    ///
    /// `LANES` numbers can be read there.
    unsafe fn load(from: *const f64) -> Self;
    /// Numbers in single precision at `from`, as they are in double.
    ///
    /// # Safety
    ///
    /// `LANES` numbers can be read there.
    unsafe fn widen(from: *const f32) -> Self;
    /// Overwrites the numbers at `to`.
    ///
    /// # Safety
    ///
    /// `LANES` numbers can be written there.
    unsafe fn store(self, to: *mut f64);
    /// self b.
    fn mul(self, b: Self) -> Self;
    /// self b + c, fused where the processor can.
    fn fma(self, b: Self, c: Self) -> Self;
    /// Added up to four lanes: those whose numbers agree modulo 4.
    fn fold(self) -> Self::Four;
    /// Rounded to single precision.
    fn single(self) -> Self::Single;
}

/// A row in single precision.
pub(super) trait Single: Copy {
    /// x in every lane.
    fn splat(x: f32) -> Self;
    /// The numbers at `from`.
    ///
    /// # Safety
    ///
    /// As many numbers as there are lanes can be read there.
    unsafe fn load(from: *const f32) -> Self;
    /// Overwrites the numbers at `to`.
    ///
    /// # Safety
    ///
    /// As many numbers as there are lanes can be written there.
    unsafe fn store(self, to: *mut f32);
    /// self b + c, fused where the processor can.
    fn fma(self, b: Self, c: Self) -> Self;
}

/// Four numbers.
pub(super) trait Four: Vector<Four = Self> {
    /// Four numbers.
    fn new(numbers: [f64; 4]) -> Self;
    /// The numbers.
    fn array(self) -> [f64; 4];
    /// self + b.
    fn add(self, b: Self) -> Self;
    /// self - b.
    fn sub(self, b: Self) -> Self;
    /// |self|.
    fn abs(self) -> Self;
    /// The sums of four vectors' numbers, as one vector.
    fn sums(of: [Self; 4]) -> Self;
    /// The numbers where those of `by` are above zero, and zeros.
    fn where_positive(self, by: Self) -> Self;

    /// The sum of the numbers.
    #[inline(always)]
    fn sum(self) -> f64 {
        let [a, b, c, d] = self.array();
        (a + c) + (b + d)
    }
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
    const REGISTERS: usize = A::REGISTERS + B::REGISTERS;
    const HELD: usize = A::HELD;
    type Four = A::Four;
    type Single = SinglePair<A, B>;

    #[inline(always)]
    fn splat(x: f64) -> Self {
        Pair(A::splat(x), B::splat(x))
    }
    #[inline(always)]
    unsafe fn load(from: *const f64) -> Self {
        // SAFETY: there are as many numbers as A and B have together.
        unsafe { Pair(A::load(from), B::load(from.add(A::LANES))) }
    }
    #[inline(always)]
    unsafe fn widen(from: *const f32) -> Self {
        // SAFETY: there are as many numbers as A and B have together.
        unsafe { Pair(A::widen(from), B::widen(from.add(A::LANES))) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        // SAFETY: there are as many numbers as A and B have together.
        unsafe {
            self.0.store(to);
            self.1.store(to.add(A::LANES));
        }
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
    #[inline(always)]
    fn single(self) -> SinglePair<A, B> {
        SinglePair(self.0.single(), self.1.single())
    }
}

/// Two rows of singles side by side.
pub(super) struct SinglePair<A: Vector, B: Vector>(A::Single, B::Single);

impl<A: Vector, B: Vector> Clone for SinglePair<A, B> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<A: Vector, B: Vector> Copy for SinglePair<A, B> {}

impl<A: Vector, B: Vector> Single for SinglePair<A, B> {
    #[inline(always)]
    fn splat(x: f32) -> Self {
        SinglePair(A::Single::splat(x), B::Single::splat(x))
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: there are as many numbers as A and B have together.
        unsafe { SinglePair(A::Single::load(from), B::Single::load(from.add(A::LANES))) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: there are as many numbers as A and B have together.
        unsafe {
            self.0.store(to);
            self.1.store(to.add(A::LANES));
        }
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        SinglePair(self.0.fma(b.0, c.0), self.1.fma(b.1, c.1))
    }
}

/// Four numbers for any processor.
#[derive(Clone, Copy)]
pub(super) struct Portable<T = f64>([T; 4]);

impl Vector for Portable {
    const LANES: usize = 4;
    // Pairs of numbers, in 16 registers with SSE.
    const REGISTERS: usize = 2;
    const HELD: usize = 12;
    type Four = Self;
    type Single = Portable<f32>;

    #[inline(always)]
    fn splat(x: f64) -> Self {
        Portable([x; 4])
    }
    #[inline(always)]
    unsafe fn load(from: *const f64) -> Self {
        // SAFETY: four numbers can be read, as the caller promises.
        unsafe { Portable(from.cast::<[f64; 4]>().read()) }
    }
    #[inline(always)]
    unsafe fn widen(from: *const f32) -> Self {
        // SAFETY: four numbers can be read, as the caller promises.
        let [a, b, c, d] = unsafe { from.cast::<[f32; 4]>().read() };
        Portable([f64::from(a), f64::from(b), f64::from(c), f64::from(d)])
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        // SAFETY: four numbers can be written, as the caller promises.
        unsafe { to.cast::<[f64; 4]>().write(self.0) }
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
            sums[n] += self.0[n] * b.0[n];
        }
        Portable(sums)
    }
    #[inline(always)]
    fn fold(self) -> Self {
        self
    }
    #[inline(always)]
    fn single(self) -> Portable<f32> {
        let [a, b, c, d] = self.0;
        Portable([a as f32, b as f32, c as f32, d as f32])
    }
}

impl Single for Portable<f32> {
    #[inline(always)]
    fn splat(x: f32) -> Self {
        Portable([x; 4])
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: four numbers can be read, as the caller promises.
        unsafe { Portable(from.cast::<[f32; 4]>().read()) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: four numbers can be written, as the caller promises.
        unsafe { to.cast::<[f32; 4]>().write(self.0) }
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        let mut sums = c.0;
        for n in 0..4 {
            sums[n] += self.0[n] * b.0[n];
        }
        Portable(sums)
    }
}

impl Four for Portable {
    #[inline(always)]
    fn new(numbers: [f64; 4]) -> Self {
        Portable(numbers)
    }
    #[inline(always)]
    fn array(self) -> [f64; 4] {
        self.0
    }
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
    fn where_positive(self, by: Self) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (self.0, by.0);
        let kept = |x, by| if by > 0.0 { x } else { 0.0 };
        Portable([kept(a, e), kept(b, f), kept(c, g), kept(d, h)])
    }
    #[inline(always)]
    fn sums(of: [Self; 4]) -> Self {
        let [a, b, c, d] = of;
        Portable([a.sum(), b.sum(), c.sum(), d.sum()])
    }
}
