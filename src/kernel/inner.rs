//! What the kernels for the two last levels share: the contracted core as padded rows, columns, and
//! products of the core with four rows at a time.

#![allow(unsafe_code)]

use super::dispatch::MAX_RANK;
use super::rows::Rows;
use super::vector::{Four, Vector};

/// How many entries are handled together: one load of the matrix serves them all, their dot products
/// are reduced by one transposition, and the processor has independent chains of additions to work on.
pub(super) const TOGETHER: usize = 4;

/// A matrix of at most [`MAX_RANK`] rows, padded with zeros to whole vectors.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct PaddedMatrix(pub(super) [[f64; MAX_RANK]; MAX_RANK]);

impl Default for PaddedMatrix {
    fn default() -> Self {
        PaddedMatrix([[0.0; MAX_RANK]; MAX_RANK])
    }
}

// What lies behind the rows that the matrix has, and behind the width of V, is never read, so it is not
// cleared: that took longer than the first dozen entries.
impl PaddedMatrix {
    /// Takes over a row-major matrix.
    #[inline(always)]
    pub(super) fn set_rows<V: Vector>(&mut self, dense: &[f64], [rows, columns]: [usize; 2]) {
        if V::LANES == 4
            && let Ok(dense) = <&[f64; 16]>::try_from(dense)
        {
            // Four by four: lengths that the compiler knows.
            return (0..4).for_each(|a| (0..4).for_each(|b| self.0[a][b] = dense[4 * a + b]));
        }
        self.clear::<V>(counted::<V>(rows));
        for a in 0..rows {
            for (number, dense) in self.0[a].iter_mut().zip(&dense[a * columns..][..columns]) {
                *number = *dense;
            }
        }
    }

    /// Takes over a row-major matrix, transposed.
    #[inline(always)]
    pub(super) fn set_columns<V: Vector>(&mut self, dense: &[f64], [rows, columns]: [usize; 2]) {
        if V::LANES == 4
            && let Ok(dense) = <&[f64; 16]>::try_from(dense)
        {
            return (0..4).for_each(|a| (0..4).for_each(|b| self.0[b][a] = dense[4 * a + b]));
        }
        self.clear::<V>(counted::<V>(columns));
        for a in 0..rows {
            for (column, dense) in self.0.iter_mut().zip(&dense[a * columns..][..columns]) {
                column[a] = *dense;
            }
        }
    }

    /// Sets the first rows to zero.
    #[inline(always)]
    pub(super) fn clear<V: Vector>(&mut self, rows: usize) {
        const { assert!(V::LANES <= MAX_RANK) };
        for row in self.0.iter_mut().take(rows) {
            // SAFETY: a row has MAX_RANK numbers.
            unsafe { V::splat(0.0).store(row.as_mut_ptr()) };
        }
    }

    /// Adds to a row-major matrix.
    #[inline(always)]
    pub(super) fn add_to(&self, dense: &mut [f64], [rows, columns]: [usize; 2]) {
        if let (4, 4, Ok(dense)) = (rows, columns, <&mut [f64; 16]>::try_from(&mut *dense)) {
            return (0..4).for_each(|a| (0..4).for_each(|b| dense[4 * a + b] += self.0[a][b]));
        }
        for a in 0..rows {
            for (dense, number) in dense[a * columns..][..columns].iter_mut().zip(&self.0[a]) {
                *dense += *number;
            }
        }
    }
}

/// How many fibres are handled together. What is per fibre (a product with the contracted core each
/// way) is done for all of them before and after what is per entry, so that the next fibre never waits
/// for its product when the processor has guessed the end of this one wrongly.
pub(super) const FIBRES: usize = 16;

/// A vector for each of [`FIBRES`] fibres, and room behind them to fill up the last four.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct PerFibre(pub(super) [[f64; MAX_RANK]; FIBRES + TOGETHER]);

impl Default for PerFibre {
    fn default() -> Self {
        PerFibre([[0.0; MAX_RANK]; FIBRES + TOGETHER])
    }
}

impl PerFibre {
    /// Where the vector of a fibre begins.
    #[inline(always)]
    pub(super) fn at(&self, fibre: usize) -> *const f64 {
        self.0[fibre].as_ptr()
    }

    /// Where the vectors of four fibres begin.
    #[inline(always)]
    pub(super) fn four(&self, first: usize) -> [*const f64; TOGETHER] {
        [self.at(first), self.at(first + 1), self.at(first + 2), self.at(first + 3)]
    }

    /// Overwrites the vector of a fibre.
    #[inline(always)]
    pub(super) fn set<V: Vector>(&mut self, fibre: usize, x: V) {
        const { assert!(V::LANES <= MAX_RANK) };
        // SAFETY: MAX_RANK numbers are there.
        unsafe { x.store(self.0[fibre].as_mut_ptr()) }
    }
}

/// The sum of x_n\[a\] C\[a\] over the first `rank` rows a of C, for several x (one per entry).
///
/// # Safety
///
/// Every x has `rank` numbers, at most [`MAX_RANK`].
#[inline(always)]
pub(super) unsafe fn combine<V: Vector, const N: usize>(
    c: &PaddedMatrix,
    rank: usize,
    x: [*const f64; N],
) -> [V; N] {
    const { assert!(V::LANES <= MAX_RANK) };
    debug_assert!(rank <= MAX_RANK);
    let mut sums = [V::splat(0.0); N];
    for a in 0..rank {
        // SAFETY: the matrix has at least `rank` rows, and so many numbers each x.
        unsafe {
            let row = V::load(c.0.as_ptr().add(a).cast());
            for n in 0..N {
                sums[n] = V::splat(*x[n].add(a)).fma(row, sums[n]);
            }
        }
    }
    sums
}

/// [`combine`] for four, as many at a time as registers suffice for.
///
/// # Safety
///
/// As [`combine`].
#[inline(always)]
pub(super) unsafe fn combine_four<V: Vector>(c: &PaddedMatrix, rank: usize, x: [*const f64; 4]) -> [V; 4] {
    // SAFETY: as the caller promises.
    unsafe {
        if 4 * V::REGISTERS <= V::HELD {
            combine(c, rank, x)
        } else if 2 * V::REGISTERS <= V::HELD {
            let [first, second] = combine(c, rank, [x[0], x[1]]);
            let [third, fourth] = combine(c, rank, [x[2], x[3]]);
            [first, second, third, fourth]
        } else {
            let [[first], [second]] = [combine(c, rank, [x[0]]), combine(c, rank, [x[1]])];
            let [[third], [fourth]] = [combine(c, rank, [x[2]]), combine(c, rank, [x[3]])];
            [first, second, third, fourth]
        }
    }
}

/// A row as fours, for dot products with rows in memory.
pub(super) struct Fours<V: Vector>([V::Four; MAX_RANK / 4]);

impl<V: Vector> Fours<V> {
    /// The row at `from`.
    ///
    /// # Safety
    ///
    /// `V::LANES` numbers can be read there.
    #[inline(always)]
    pub(super) unsafe fn load(from: *const f64) -> Self {
        let mut parts = [V::Four::splat(0.0); MAX_RANK / 4];
        for part in 0..V::LANES / 4 {
            // SAFETY: as the caller promises.
            parts[part] = unsafe { V::Four::load(from.add(4 * part)) };
        }
        Fours(parts)
    }

    /// The products with the row at `row`, added up to four numbers. (By fours even where the
    /// processor has wider vectors: their halves would have to be added up.)
    ///
    /// # Safety
    ///
    /// As [`load`](Self::load).
    #[inline(always)]
    pub(super) unsafe fn dot(&self, row: *const f64) -> V::Four {
        // SAFETY: as the caller promises.
        unsafe {
            let mut sum = self.0[0].mul(V::Four::load(row));
            for part in 1..V::LANES / 4 {
                sum = self.0[part].fma(V::Four::load(row.add(4 * part)), sum);
            }
            sum
        }
    }

    /// [`dot`](Self::dot), added to a sum.
    ///
    /// # Safety
    ///
    /// As [`load`](Self::load).
    #[inline(always)]
    pub(super) unsafe fn dot_add(&self, row: *const f64, mut sum: V::Four) -> V::Four {
        for part in 0..V::LANES / 4 {
            // SAFETY: as the caller promises.
            sum = unsafe { self.0[part].fma(V::Four::load(row.add(4 * part)), sum) };
        }
        sum
    }
}

/// How many entries there are left, from each of four on: numbers of those behind the last are dropped.
///
/// A mask for all fours costs less than a branch for the last, which is guessed wrongly; and a mask from
/// a count in a register less than one from a table.
#[derive(Clone, Copy)]
pub(super) struct Left<F>(F);

impl<F: Four> Left<F> {
    /// So many from the first on.
    #[inline(always)]
    pub(super) fn new(count: usize) -> Self {
        // A block has at most 65,535 entries, and processors without AVX-512 convert only signed numbers.
        Left(F::new([0.0, -1.0, -2.0, -3.0]).add(F::splat(f64::from(count as i32))))
    }

    /// The numbers of the entries that there are, and zeros.
    #[inline(always)]
    pub(super) fn of(self, numbers: F) -> F {
        numbers.where_positive(self.0)
    }

    /// From the next four on.
    #[inline(always)]
    pub(super) fn next(self) -> Self {
        Left(self.0.sub(F::splat(TOGETHER as f64)))
    }
}

/// How many numbers of rows of `rank` numbers are looked at. Where a row is one vector of four, all of
/// them (they are padded with zeros): a number that the compiler knows, and a loop that it unrolls.
#[inline(always)]
pub(super) fn counted<V: Vector>(rank: usize) -> usize {
    if V::LANES == 4 { 4 } else { rank }
}

/// Four numbers from `start` on.
#[inline(always)]
pub(super) fn four_from<T: Copy>(numbers: &[T], start: usize) -> [T; TOGETHER] {
    *numbers[start..].first_chunk().expect("columns have room behind them")
}

/// The decoded columns of the entries below one node of the level before the last two. Behind them
/// are [`TOGETHER`] offsets and values more, so that the last entries can be read like the others.
///
/// Every offset is that of a row: it was compared with the number of rows when it was decoded.
pub(super) struct Columns<'b> {
    /// The number of entries.
    pub(super) entries: usize,
    /// Where the rows of the level before the last begin: of fibres, or of entries.
    pub(super) offsets1: &'b [u32],
    /// Where the rows of the last level begin.
    pub(super) offsets2: &'b [u32],
    pub(super) values: &'b [f64],
    /// Where entries have weights.
    pub(super) weights: Option<&'b [f64]>,
    /// Where entries come in fibres, the last entry (exclusive) of each fibre, in the block.
    pub(super) ends: Option<&'b [u16]>,
    /// The number of the first entry in the block.
    pub(super) start: usize,
}

impl<'b> Columns<'b> {
    /// Without the entries from `end` on, but for what is read behind the last: columns of one length that
    /// the compiler knows, so that there is one look at it for all of them.
    #[inline(always)]
    pub(super) fn until(&self, end: usize) -> Columns<'b> {
        let most = end + TOGETHER;
        Columns {
            offsets2: &self.offsets2[..most],
            values: &self.values[..most],
            weights: self.weights.map(|weights| &weights[..most]),
            ..*self
        }
    }

    /// Offsets of the last level and values of the four entries from `start` on.
    ///
    /// # Safety
    ///
    /// `start` is an entry.
    #[inline(always)]
    pub(super) unsafe fn four(&self, start: usize) -> ([u32; TOGETHER], [f64; TOGETHER]) {
        debug_assert!(start < self.entries);
        debug_assert!(start + TOGETHER <= self.offsets2.len() && start + TOGETHER <= self.values.len());
        // SAFETY: behind the entries are TOGETHER more of both.
        unsafe {
            let (offsets, values) = (self.offsets2.as_ptr().add(start), self.values.as_ptr().add(start));
            (*offsets.cast(), *values.cast())
        }
    }

    /// Numbers of the four entries from `start` on times their weights. (One branch for four, the same
    /// for all of a block: nothing for entries without weights.)
    #[inline(always)]
    pub(super) fn weigh<F: Four>(&self, start: usize, numbers: F) -> F {
        match self.weights {
            None => numbers,
            Some(weights) => numbers.mul(F::new(four_from(weights, start))),
        }
    }
}

/// C^T u for up to [`FIBRES`] fibres from `first` on.
///
/// # Safety
///
/// The columns were decoded for these rows, which have `rank` numbers.
#[inline(always)]
pub(super) unsafe fn forward<V: Vector>(
    matrix: &PaddedMatrix,
    rows1: Rows<'_>,
    rank: usize,
    columns: &Columns<'_>,
    first: usize,
    count: usize,
    products: &mut PerFibre,
) {
    for n in (0..count).step_by(TOGETHER) {
        // SAFETY: as the caller promises.
        let cu =
            unsafe { combine_four::<V>(matrix, rank, rows1.four(four_from(columns.offsets1, first + n))) };
        for k in 0..TOGETHER {
            products.set(n + k, cu[k]);
        }
    }
}
