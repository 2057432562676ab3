//! What the kernels add up: partial sums that a lane keeps over many blocks.

#![allow(unsafe_code)]

use super::padded_rows::{CacheLines, width};
use super::vector::{Four, Single, Vector};
use crate::{MAX_ORDER, MIN_ORDER};
use std::ops::Range;

/// In what the sums of gradient rows are kept.
///
/// Only residuals suffer from cancellation. They are in double precision either way, and so are cost,
/// step sums and the core's gradient.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// Single precision for the rows of the two last levels, which are added to for every entry.
    #[default]
    Mixed,
    /// Double precision for everything.
    F64,
}

/// A number that gradient rows are summed up in.
pub(super) trait Number: bytemuck::Pod {
    /// A row of it.
    type Row<V: Vector>: Copy;
    /// 1.
    const ONE: Self;
    /// Rounds four numbers.
    fn four<F: Four>(x: F) -> [Self; 4];
    /// Rounds a row.
    fn row<V: Vector>(x: V) -> Self::Row<V>;
    /// Adds a x to the row at `to`.
    ///
    /// # Safety
    ///
    /// `V::LANES` numbers can be read and written there.
    unsafe fn add<V: Vector>(to: *mut Self, a: Self, x: Self::Row<V>);
}

impl Number for f64 {
    type Row<V: Vector> = V;
    const ONE: f64 = 1.0;
    #[inline(always)]
    fn four<F: Four>(x: F) -> [f64; 4] {
        x.array()
    }
    #[inline(always)]
    fn row<V: Vector>(x: V) -> V {
        x
    }
    #[inline(always)]
    unsafe fn add<V: Vector>(to: *mut f64, a: f64, x: V) {
        // SAFETY: as the caller promises.
        unsafe { V::splat(a).fma(x, V::load(to)).store(to) }
    }
}

impl Number for f32 {
    type Row<V: Vector> = V::Single;
    const ONE: f32 = 1.0;
    #[inline(always)]
    fn four<F: Four>(x: F) -> [f32; 4] {
        const { assert!(F::LANES == 4) };
        let mut four = [0.0; 4];
        // SAFETY: there is room for four numbers.
        unsafe { x.single().store(four.as_mut_ptr()) };
        four
    }
    #[inline(always)]
    fn row<V: Vector>(x: V) -> V::Single {
        x.single()
    }
    #[inline(always)]
    unsafe fn add<V: Vector>(to: *mut f32, a: f32, x: V::Single) {
        // SAFETY: as the caller promises.
        unsafe { V::Single::splat(a).fma(x, V::Single::load(to)).store(to) }
    }
}

/// The sums of one level's gradient rows.
#[derive(Debug, Clone)]
pub(super) struct RowSums {
    /// The index that the first row stands for.
    pub(super) first: usize,
    pub(super) rank: usize,
    /// From row to row: the rank, or the width of padded rows.
    pub(super) stride: usize,
    count: usize,
    /// Whether numbers are f32.
    pub(super) single: bool,
    numbers: CacheLines,
}

impl RowSums {
    fn new(range: Range<usize>, rank: usize, stride: usize, single: bool) -> Self {
        let (first, count) = (range.start, range.len());
        let mut numbers = CacheLines::default();
        let all = count.checked_mul(stride).expect("rows that fit into memory");
        if single {
            numbers.resize::<f32>(all);
        } else {
            numbers.resize::<f64>(all);
        }
        RowSums { first, rank, stride, count, single, numbers }
    }

    /// All numbers, with their padding.
    fn numbers<N: bytemuck::Pod>(&self) -> &[N] {
        assert_eq!(self.single, size_of::<N>() == size_of::<f32>());
        &self.numbers.numbers()[..self.count * self.stride]
    }

    /// All numbers, with their padding.
    pub(super) fn numbers_mut<N: bytemuck::Pod>(&mut self) -> &mut [N] {
        assert_eq!(self.single, size_of::<N>() == size_of::<f32>());
        &mut self.numbers.numbers_mut()[..self.count * self.stride]
    }

    /// The row of `index`, to add to; for sums in double precision.
    #[inline(always)]
    pub(super) fn row_mut(&mut self, index: usize) -> &mut [f64] {
        assert!(!self.single, "a row in double precision");
        &mut self.numbers.numbers_mut()[(index - self.first) * self.stride..][..self.rank]
    }

    /// Adds the rows of the indices from `first` on to dense rows in `to`.
    fn add_to(&self, first: usize, to: &mut [f64]) {
        let last = first + to.len() / self.rank;
        let (low, high) = (first.max(self.first), last.min(self.first + self.count));
        if low >= high {
            return;
        }
        let to = &mut to[(low - first) * self.rank..(high - first) * self.rank];
        let from = (low - self.first) * self.stride..(high - self.first) * self.stride;
        if self.single {
            add_rows(to, self.rank, &self.numbers::<f32>()[from], self.stride);
        } else {
            add_rows(to, self.rank, &self.numbers::<f64>()[from], self.stride);
        }
    }
}

/// Adds rows, `stride` numbers from one to the next, to dense rows of `rank` numbers.
fn add_rows<N: Copy + Into<f64>>(to: &mut [f64], rank: usize, from: &[N], stride: usize) {
    let add = |(to, &from): (&mut f64, &N)| *to += from.into();
    if rank == stride {
        // No padding: one long loop instead of a short one per row.
        return to.iter_mut().zip(from).for_each(add);
    }
    for (to, from) in to.chunks_exact_mut(rank).zip(from.chunks_exact(stride)) {
        to.iter_mut().zip(from).for_each(add);
    }
}

/// The sums behind cost and Euclidean gradient, over the entries seen so far, with the residual
/// e = X - y:
///
/// - the sums of e^2 and of |e|;
/// - for the core, the sum of e u_0 (x) u_1 (x) ... (x) u_{D-1};
/// - for row i of level l, the sum over the entries with i_l = i of e times the core contracted
///   with the rows of all levels but l.
///
/// These are half the gradient of the sum of squares: no factor 2 and no 1 / |Omega| is applied.
#[derive(Debug, Clone)]
pub struct GradientSums {
    pub(super) squares: f64,
    pub(super) absolute: f64,
    pub(super) entries: u64,
    pub(super) core: Vec<f64>,
    pub(super) rows: Vec<RowSums>,
}

impl GradientSums {
    /// Zero sums for a tensor of `dims` and `ranks` (in storage order); of level 0 only the rows
    /// `slices`, because a lane sees only its own part of the slices.
    ///
    /// # Panics
    ///
    /// Where the shapes do not fit together.
    pub fn new(dims: &[usize], ranks: &[usize], slices: Range<usize>, precision: Precision) -> Self {
        let order = dims.len();
        assert!((MIN_ORDER..=MAX_ORDER).contains(&order), "order {order} is not supported");
        assert_eq!(ranks.len(), order, "as many ranks as dimensions");
        assert!(slices.start <= slices.end && slices.end <= dims[0], "slices {slices:?} exist");
        let padded = width(ranks, dims);
        let rows = (dims.iter().zip(ranks).enumerate())
            .map(|(level, (&n, &rank))| {
                let range = if level == 0 { slices.clone() } else { 0..n };
                match padded.filter(|_| level + 2 >= order) {
                    Some(width) => RowSums::new(range, rank, width, precision == Precision::Mixed),
                    None => RowSums::new(range, rank, rank, false),
                }
            })
            .collect();
        let core = vec![0.0; ranks.iter().product()];
        GradientSums { squares: 0.0, absolute: 0.0, entries: 0, core, rows }
    }

    /// Sets all sums to zero, keeping the memory.
    pub fn clear(&mut self) {
        (self.squares, self.absolute) = (0.0, 0.0);
        self.entries = 0;
        self.core.fill(0.0);
        for rows in &mut self.rows {
            // All bits zero is the number zero, in either precision.
            rows.numbers.numbers_mut::<u64>().fill(0);
        }
    }

    /// The sum of e^2.
    pub fn squares(&self) -> f64 {
        self.squares
    }

    /// The sum of |e|.
    pub fn absolute(&self) -> f64 {
        self.absolute
    }

    /// The number of entries.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// The sum of e u_0 (x) ... (x) u_{D-1}, the last level fastest.
    pub fn core(&self) -> &[f64] {
        &self.core
    }

    /// The indices whose rows this holds of a level: all of them but on level 0.
    pub fn range(&self, level: usize) -> Range<usize> {
        let rows = &self.rows[level];
        rows.first..rows.first + rows.count
    }

    /// Adds the gradient rows of a level to `to`, the dense rows of the indices from `first` on.
    pub fn add_rows(&self, level: usize, first: usize, to: &mut [f64]) {
        self.rows[level].add_to(first, to);
    }

    /// The gradient rows of the indices in [`range`](Self::range) of a level, row-major.
    pub fn rows(&self, level: usize) -> Vec<f64> {
        let mut rows = vec![0.0; self.range(level).len() * self.rows[level].rank];
        self.add_rows(level, self.range(level).start, &mut rows);
        rows
    }

    /// The bytes that the sums of one lane take: `slices` rows of level 0 and all of the others.
    pub fn bytes(dims: &[usize], ranks: &[usize], slices: usize, precision: Precision) -> u64 {
        let padded = width(ranks, dims);
        let mut bytes = ranks.iter().product::<usize>() * size_of::<f64>();
        for (level, (&n, &rank)) in dims.iter().zip(ranks).enumerate() {
            let count = if level == 0 { slices } else { n };
            bytes += count
                * match padded.filter(|_| level + 2 >= dims.len()) {
                    Some(width) if precision == Precision::Mixed => width * size_of::<f32>(),
                    Some(width) => width * size_of::<f64>(),
                    None => rank * size_of::<f64>(),
                };
        }
        bytes as u64
    }
}

/// The sums behind the linearised step, over the entries seen so far, with e = X - y and L the
/// change of X along the direction, to first order: L = xi_G x_0 U_0 ... x_{D-1} U_{D-1} + sum over
/// l of G x_0 U_0 ... x_l xi_l ... x_{D-1} U_{D-1}. The step is -(sum of e L) / (sum of L^2).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StepSums {
    /// The sum of e L.
    pub residual_change: f64,
    /// The sum of L^2.
    pub change_change: f64,
    /// The sum of e^2.
    pub squares: f64,
    /// The number of entries.
    pub entries: u64,
}

impl StepSums {
    /// Adds the sums of other entries.
    pub fn add(&mut self, other: &StepSums) {
        self.residual_change += other.residual_change;
        self.change_change += other.change_change;
        self.squares += other.squares;
        self.entries += other.entries;
    }
}

/// The sums behind MSE, RMSE and MAE, with e = X - y and the weights w, 1 where entries have none.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ResidualSums {
    /// The sum of w e^2.
    pub squares: f64,
    /// The sum of w |e|.
    pub absolute: f64,
    /// The sum of w over the entries in the sums.
    pub weight: f64,
    /// The entries in the sums.
    pub scored: u64,
    /// The entries left out, because the model has never seen one of their indices.
    pub unscored: u64,
}

impl ResidualSums {
    /// Adds the sums of other entries.
    pub fn add(&mut self, other: &ResidualSums) {
        self.squares += other.squares;
        self.absolute += other.absolute;
        self.weight += other.weight;
        self.scored += other.scored;
        self.unscored += other.unscored;
    }

    /// The (weighted) mean squared error; `None` where nothing of weight was scored.
    pub fn mse(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.squares / self.weight)
    }

    /// The (weighted) mean absolute error, likewise.
    pub fn mae(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.absolute / self.weight)
    }
}
