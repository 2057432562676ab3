//! What the kernels add up: partial sums that a lane keeps over many blocks.

use super::dispatch::MAX_RANK;
use crate::{MAX_ORDER, MIN_ORDER};
use std::ops::Range;

/// The sums of one level's gradient rows.
#[derive(Debug, Clone)]
pub(super) struct RowSums {
    /// The index that the first row stands for.
    pub(super) first: usize,
    pub(super) rank: usize,
    /// The rows, row-major, and [`MAX_RANK`] numbers behind them, because kernels write whole
    /// vectors.
    pub(super) data: Vec<f64>,
}

impl RowSums {
    fn new(range: Range<usize>, rank: usize) -> Self {
        RowSums {
            first: range.start,
            rank,
            data: vec![0.0; range.len() * rank + MAX_RANK],
        }
    }

    fn rows(&self) -> &[f64] {
        &self.data[..self.data.len() - MAX_RANK]
    }

    /// The row of `index`, to add to.
    #[inline(always)]
    pub(super) fn row_mut(&mut self, index: usize) -> &mut [f64] {
        let rank = self.rank;
        &mut self.data[(index - self.first) * rank..][..rank]
    }
}

/// The sums behind cost and Euclidean gradient, over the entries seen so far, with the residual
/// e = X - y:
///
/// - the sum of e^2;
/// - for the core, the sum of e u_0 (x) u_1 (x) ... (x) u_{D-1};
/// - for row i of level l, the sum over the entries with i_l = i of e times the core contracted
///   with the rows of all levels but l.
///
/// These are half the gradient of the sum of squares: no factor 2 and no 1 / |Omega| is applied.
#[derive(Debug, Clone)]
pub struct GradientSums {
    pub(super) squares: f64,
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
    pub fn new(dims: &[usize], ranks: &[usize], slices: Range<usize>) -> Self {
        let order = dims.len();
        assert!(
            (MIN_ORDER..=MAX_ORDER).contains(&order),
            "order {order} is not supported"
        );
        assert_eq!(ranks.len(), order, "as many ranks as dimensions");
        assert!(
            slices.start <= slices.end && slices.end <= dims[0],
            "slices {slices:?} exist"
        );
        let rows = (dims.iter().zip(ranks).enumerate())
            .map(|(level, (&n, &rank))| {
                let range = if level == 0 { slices.clone() } else { 0..n };
                RowSums::new(range, rank)
            })
            .collect();
        let core = vec![0.0; ranks.iter().product()];
        GradientSums {
            squares: 0.0,
            entries: 0,
            core,
            rows,
        }
    }

    /// Sets all sums to zero, keeping the memory.
    pub fn clear(&mut self) {
        self.squares = 0.0;
        self.entries = 0;
        self.core.fill(0.0);
        for rows in &mut self.rows {
            rows.data.fill(0.0);
        }
    }

    /// The sum of e^2.
    pub fn squares(&self) -> f64 {
        self.squares
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
        rows.first..rows.first + rows.rows().len() / rows.rank
    }

    /// The gradient rows of the indices in [`range`](Self::range) of a level, row-major.
    pub fn rows(&self, level: usize) -> &[f64] {
        self.rows[level].rows()
    }

    /// Adds the sums of other entries, whose slices must lie within those of `self`.
    ///
    /// # Panics
    ///
    /// Where they do not, or the shapes differ.
    pub fn add(&mut self, other: &GradientSums) {
        let add = |to: &mut [f64], from: &[f64]| {
            assert_eq!(to.len(), from.len(), "sums have the same shape");
            to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        };
        self.squares += other.squares;
        self.entries += other.entries;
        add(&mut self.core, &other.core);
        for (to, from) in self.rows.iter_mut().zip(&other.rows) {
            let start =
                (from.first.checked_sub(to.first)).expect("the slices lie within") * to.rank;
            let from = from.rows();
            let end = to.rows().len();
            add(&mut to.data[..end][start..][..from.len()], from);
        }
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

/// The sums behind MSE, RMSE and MAE, with e = X - y.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ResidualSums {
    /// The sum of e^2.
    pub squares: f64,
    /// The sum of |e|.
    pub absolute: f64,
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
        self.scored += other.scored;
        self.unscored += other.unscored;
    }
}
