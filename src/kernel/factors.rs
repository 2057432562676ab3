//! The factors that a kernel reads.

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
        let size = ranks.iter().try_fold(1usize, |size, &rank| size.checked_mul(rank));
        assert_eq!(Some(core.len()), size, "the core has the shape of the ranks");
        let mut view = FactorsView { order, ranks: [0; MAX_ORDER], rows: [&[]; MAX_ORDER], core };
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
    pub(super) fn assert_same_shape(&self, other: &FactorsView<'_>) {
        assert_eq!(self.ranks(), other.ranks(), "point and direction have the same ranks");
        for level in 0..self.order {
            assert_eq!(self.rows[level].len(), other.rows[level].len(), "level {level} differs");
        }
    }
}
