//! The factors a kernel reads: a view of the caller's arrays, and the copies laid out for speed.

use super::rows::{AlignedRows, width};
use crate::{MAX_ORDER, MIN_ORDER};

/// A Tucker tensor in storage order, borrowed: X\[i_0, ..., i_{D-1}\] = sum over a_0, ..., a_{D-1}
/// of G\[a_0, ..., a_{D-1}\] U_0\[i_0, a_0\] ... U_{D-1}\[i_{D-1}, a_{D-1}\].
///
/// A direction (the change of every row and of the core) has the same shape and the same type.
#[derive(Debug, Clone, Copy)]
pub struct FactorsView<'a> {
    order: usize,
    ranks: [usize; MAX_ORDER],
    rows: [&'a [f64]; MAX_ORDER],
    core: &'a [f64],
}

impl<'a> FactorsView<'a> {
    /// Views `rows[l]` as n_l x `ranks[l]` matrices, row-major, and `core` as an array of shape
    /// `ranks`, the last level fastest.
    ///
    /// # Panics
    ///
    /// Where the lengths do not fit together: shapes come from the caller, never from a file.
    pub fn new(ranks: &[usize], rows: &[&'a [f64]], core: &'a [f64]) -> Self {
        let order = ranks.len();
        assert!((MIN_ORDER..=MAX_ORDER).contains(&order), "order {order} is not supported");
        assert_eq!(rows.len(), order, "as many factors as ranks");
        assert_eq!(core.len(), ranks.iter().product::<usize>(), "the core has the shape of the ranks");
        let mut view =
            FactorsView { order, ranks: [0; MAX_ORDER], rows: [&[]; MAX_ORDER], core };
        for level in 0..order {
            assert!(ranks[level] > 0, "ranks are positive");
            assert_eq!(rows[level].len() % ranks[level], 0, "level {level} has whole rows");
            view.ranks[level] = ranks[level];
            view.rows[level] = rows[level];
        }
        view
    }

    /// The number of modes D.
    pub fn order(&self) -> usize {
        self.order
    }

    /// The ranks r_0, ..., r_{D-1}.
    pub fn ranks(&self) -> &[usize] {
        &self.ranks[..self.order]
    }

    /// The dimension n_l of a level.
    pub fn dim(&self, level: usize) -> usize {
        self.rows[level].len() / self.ranks[level]
    }

    /// The row U_l\[i\].
    #[inline(always)]
    pub fn row(&self, level: usize, index: usize) -> &'a [f64] {
        let rank = self.ranks[level];
        &self.rows[level][index * rank..][..rank]
    }

    /// All rows of a level, n_l x r_l, row-major.
    pub fn rows(&self, level: usize) -> &'a [f64] {
        self.rows[level]
    }

    /// The core G, the last level fastest.
    pub fn core(&self) -> &'a [f64] {
        self.core
    }

    /// Panics unless `other` has the same shape.
    fn assert_same_shape(&self, other: &FactorsView<'_>) {
        assert_eq!(self.ranks(), other.ranks(), "point and direction have the same ranks");
        for level in 0..self.order {
            assert_eq!(self.rows[level].len(), other.rows[level].len(), "level {level} differs");
        }
    }
}

/// A point made ready for [`gradient`](super::gradient) and [`residual`](super::residual): the view
/// and, of the two last levels, copies whose rows are padded with zeros to whole vectors and
/// aligned. Made once per pass, shared by all lanes.
#[derive(Debug)]
pub struct PreparedPoint<'a> {
    pub(super) view: FactorsView<'a>,
    pub(super) inner: [AlignedRows; 2],
}

impl<'a> PreparedPoint<'a> {
    /// Copies the rows of the two last levels.
    pub fn new(view: FactorsView<'a>) -> Self {
        let inner = [2, 1].map(|from_end| {
            let level = view.order - from_end;
            AlignedRows::pack(view.ranks[level], &[view.rows[level]])
        });
        PreparedPoint { view, inner }
    }

    /// The view this was made from.
    pub fn view(&self) -> FactorsView<'a> {
        self.view
    }
}

/// A point and a direction made ready for [`step`](super::step): like [`PreparedPoint`], with the
/// rows of both interleaved (u_0, xi_0, u_1, xi_1, ...), because they are always read together.
#[derive(Debug)]
pub struct PreparedLine<'a> {
    pub(super) point: FactorsView<'a>,
    pub(super) direction: FactorsView<'a>,
    pub(super) inner: [AlignedRows; 2],
}

impl<'a> PreparedLine<'a> {
    /// Copies the rows of the two last levels.
    ///
    /// # Panics
    ///
    /// Where point and direction differ in shape.
    pub fn new(point: FactorsView<'a>, direction: FactorsView<'a>) -> Self {
        point.assert_same_shape(&direction);
        let inner = [2, 1].map(|from_end| {
            let level = point.order - from_end;
            AlignedRows::pack(point.ranks[level], &[point.rows[level], direction.rows[level]])
        });
        PreparedLine { point, direction, inner }
    }

    /// The point U, G.
    pub fn point(&self) -> FactorsView<'a> {
        self.point
    }

    /// The direction xi.
    pub fn direction(&self) -> FactorsView<'a> {
        self.direction
    }
}

/// The bytes that a [`PreparedPoint`] (`parts` = 1) or a [`PreparedLine`] (`parts` = 2) allocates,
/// for whoever keeps the memory budget.
pub fn prepared_bytes(dims: &[usize], ranks: &[usize], parts: usize) -> usize {
    let inner = dims.len() - 2;
    (dims[inner..].iter().zip(&ranks[inner..]))
        .map(|(&n, &r)| parts * n * width(r) * size_of::<f64>() + super::rows::ALIGNMENT)
        .sum()
}
