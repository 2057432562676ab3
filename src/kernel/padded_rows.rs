//! The rows of the two last levels as the kernels read them: padded to whole vectors, aligned to the
//! lines of the cache, and in the step pass a row beside its change.
//!
//! A padded copy costs a pass over the rows, which is nothing beside a pass over the entries; in
//! return no row straddles a line that it could avoid, none needs a mask, and both levels have the
//! same width. Levels before the last two are read once per node, from where they are.

use super::dispatch::{WIDTHS, has_vectors};
use super::factors::FactorsView;
use bytemuck::{Pod, Zeroable};
use rayon::prelude::*;

/// A line of the cache.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct CacheLine([u64; 8]);

/// CacheLines that `count` numbers of type T take.
///
/// # Panics
///
/// Where no memory has so many: a number that has wrapped around would be taken for room that there is.
fn lines<T>(count: usize) -> usize {
    count.checked_mul(size_of::<T>()).expect("numbers that fit into memory").div_ceil(size_of::<CacheLine>())
}

/// Numbers that begin at a line of the cache.
#[derive(Debug, Clone, Default)]
pub(super) struct CacheLines(Vec<CacheLine>);

impl CacheLines {
    /// Room for `count` numbers of type T, zero where it is new.
    pub(super) fn resize<T>(&mut self, count: usize) {
        self.0.resize(lines::<T>(count), CacheLine([0; 8]));
    }

    /// Room for `count` numbers of type T at least, what is there being kept.
    pub(super) fn at_least<T: Pod>(&mut self, count: usize) -> &mut [T] {
        if self.0.len() < lines::<T>(count) {
            self.resize::<T>(count);
        }
        self.numbers_mut()
    }

    /// All of them, and a few that fill the last line.
    pub(super) fn numbers<T: Pod>(&self) -> &[T] {
        bytemuck::cast_slice(&self.0)
    }

    /// All of them, to write.
    pub(super) fn numbers_mut<T: Pod>(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}

/// How many numbers a padded row has, for the ranks of the two last levels: as many as the vectors
/// that `dispatch` has kernels for. `None` where a rank is beyond them, offsets beyond u32, or the processor without vectors.
pub(super) fn width(ranks: &[usize], dims: &[usize]) -> Option<usize> {
    let rank = ranks.iter().rev().take(2).copied().max().unwrap_or(0);
    let rows = dims.iter().rev().take(2).copied().max().unwrap_or(0);
    let width = WIDTHS.into_iter().find(|&width| rank <= width);
    // Where rows lie beside their changes, they are twice as far apart.
    width.filter(|&width| rows <= u32::MAX as usize / (2 * width) && has_vectors())
}

/// Memory for padded rows, used again from pass to pass.
#[derive(Debug, Default)]
pub struct PaddingBuffer {
    levels: [CacheLines; 2],
}

impl PaddingBuffer {
    /// No memory yet.
    pub fn new() -> Self {
        PaddingBuffer::default()
    }

    /// The most bytes that it takes for a tensor of these (storage-order) dimensions and ranks.
    pub fn bytes(dims: &[usize], ranks: &[usize]) -> u64 {
        let rows: usize = dims.iter().rev().take(2).sum();
        width(ranks, dims).map_or(0, |width| (rows * 2 * width * size_of::<f64>()) as u64)
    }

    /// Packs a point.
    pub fn point<'a>(&'a mut self, factors: FactorsView<'a>) -> PaddedFactors<'a> {
        self.pack(factors, None)
    }

    /// Packs a point with a direction of the same shape: a row, then its change.
    ///
    /// # Panics
    ///
    /// Where the shapes differ.
    pub fn line<'a>(&'a mut self, point: FactorsView<'a>, direction: FactorsView<'a>) -> PaddedFactors<'a> {
        point.assert_same_shape(&direction);
        self.pack(point, Some(direction))
    }

    fn pack<'a>(
        &'a mut self,
        factors: FactorsView<'a>,
        direction: Option<FactorsView<'a>>,
    ) -> PaddedFactors<'a> {
        let order = factors.order();
        let dims: Vec<usize> = (0..order).map(|level| factors.dim(level)).collect();
        let Some(width) = width(factors.ranks(), &dims) else {
            return PaddedFactors { factors, direction, levels: [&[]; 2], width: 0, stride: 0 };
        };
        let stride = if direction.is_some() { 2 * width } else { width };
        for (lines, level) in self.levels.iter_mut().zip(order - 2..) {
            lines.resize::<f64>(dims[level] * stride);
            let padded = &mut lines.numbers_mut()[..dims[level] * stride];
            copy(padded, stride, factors.rows(level), factors.ranks()[level], 0, width);
            if let Some(direction) = direction {
                copy(padded, stride, direction.rows(level), factors.ranks()[level], width, width);
            }
        }
        let levels = [0, 1].map(|n| &self.levels[n].numbers()[..dims[order - 2 + n] * stride]);
        PaddedFactors { factors, direction, levels, width, stride }
    }
}

/// Rows to the numbers `from..from + width` of padded rows, with zeros behind them.
fn copy(padded: &mut [f64], stride: usize, rows: &[f64], rank: usize, from: usize, width: usize) {
    /// Rows of a task: enough to be worth one.
    const ROWS: usize = 4096;
    let tasks = padded.par_chunks_mut(ROWS * stride).zip(rows.par_chunks(ROWS * rank));
    tasks.for_each(|(padded, rows)| {
        for (padded, row) in padded.chunks_exact_mut(stride).zip(rows.chunks_exact(rank)) {
            let padded = &mut padded[from..from + width];
            padded[..rank].copy_from_slice(row);
            padded[rank..].fill(0.0);
        }
    });
}

/// Factors whose two last levels are padded, perhaps with a direction.
#[derive(Debug, Clone, Copy)]
pub struct PaddedFactors<'a> {
    factors: FactorsView<'a>,
    direction: Option<FactorsView<'a>>,
    levels: [&'a [f64]; 2],
    width: usize,
    stride: usize,
}

impl<'a> PaddedFactors<'a> {
    /// The point.
    pub fn factors(&self) -> &FactorsView<'a> {
        &self.factors
    }

    /// The direction.
    ///
    /// # Panics
    ///
    /// Where only a point was padded.
    pub(super) fn direction(&self) -> &FactorsView<'a> {
        self.direction.as_ref().expect("a direction was padded")
    }

    /// The width of rows; 0 where the ranks have no kernels of their own, and nothing is padded.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// From row to row.
    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    /// The padded rows of the two last levels.
    pub(super) fn levels(&self) -> [&'a [f64]; 2] {
        self.levels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_padded_as_long_as_offsets_fit() {
        if !has_vectors() {
            return;
        }
        for padded in WIDTHS {
            // The last row's change lies 2 width (rows - 1) + width numbers behind the first.
            let most = u32::MAX as usize / (2 * padded);
            let of = |rows: usize| width(&[1, padded], &[rows, 10]);
            assert_eq!((of(most), of(most + 1)), (Some(padded), None));
            assert_eq!(width(&[padded, 1], &[10, most]), Some(padded));
            assert!(u32::try_from(2 * padded * (most - 1) + padded).is_ok());
        }
        assert_eq!(width(&[33, 4], &[10, 10]), None, "there is no such width");
    }
}
