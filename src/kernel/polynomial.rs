//! The cost along a line, exactly: a polynomial in the step.
//!
//! With X(s) = (G + s xi_G) x_0 (U_0 + s xi_0) ... x_{D-1} (U_{D-1} + s xi_{D-1}), an entry is a
//! polynomial of degree D + 1 in s. The contracted cores are polynomials too: with the coefficients
//! C_l^(k), C_{l+1}^(k) = u^T C_l^(k) + xi^T C_l^(k-1).

use super::arithmetic::{Arithmetic, contract, contract_add, dot};
use super::dispatch::{self, Kernel};
use super::factors::FactorsView;
use super::walk::{Visitor, walk};
use super::workspace::{Stack, Workspace};
use crate::MAX_ORDER;
use crate::block::BlockView;
use std::marker::PhantomData;
use std::ops::Range;

/// The most coefficients of one entry's polynomial.
pub(super) const MAX_ENTRY: usize = MAX_ORDER + 2;
const MAX_COEFFICIENTS: usize = 2 * MAX_ENTRY - 1;

/// The sum of (X(s) - y)^2 over the entries seen so far: a polynomial of degree 2 (D + 1) in s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinePolynomial {
    order: usize,
    coefficients: [f64; MAX_COEFFICIENTS],
    entries: u64,
}

impl LinePolynomial {
    /// Zero, for tensors of `order` modes.
    pub fn new(order: usize) -> Self {
        assert!(order <= MAX_ORDER, "order {order} is not supported");
        LinePolynomial { order, coefficients: [0.0; MAX_COEFFICIENTS], entries: 0 }
    }

    /// The 2 D + 3 coefficients, that of s^0 first.
    pub fn coefficients(&self) -> &[f64] {
        &self.coefficients[..2 * self.order + 3]
    }

    /// The number of entries.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Sets the polynomial to one of the same order whose coefficients are known.
    pub fn set(&mut self, coefficients: &[f64], entries: u64) {
        self.coefficients[..2 * self.order + 3].copy_from_slice(coefficients);
        self.entries = entries;
    }

    /// The sum of (X(s) - y)^2 at a step s.
    pub fn at(&self, s: f64) -> f64 {
        self.coefficients().iter().rev().fold(0.0, |sum, coefficient| sum * s + coefficient)
    }

    /// Adds the polynomial of other entries.
    pub fn add(&mut self, other: &LinePolynomial) {
        assert_eq!(self.order, other.order, "polynomials of the same order");
        for (to, from) in self.coefficients.iter_mut().zip(&other.coefficients) {
            *to += from;
        }
        self.entries += other.entries;
    }

    /// Adds the square of an entry's polynomial X(s) - y, times its weight.
    #[inline(always)]
    pub(super) fn add_square(&mut self, entry: &[f64], weight: f64) {
        for (i, a) in entry.iter().enumerate() {
            for (sum, b) in self.coefficients[i..].iter_mut().zip(entry) {
                *sum += weight * a * b;
            }
        }
        self.entries += 1;
    }
}

/// Adds a block's entries to the sum of (X(s) - y)^2 as a polynomial in the step s.
///
/// Equals [`naive::line_polynomial`](super::naive::line_polynomial) up to rounding.
///
/// # Panics
///
/// Where block, point, direction and sum differ in shape.
pub fn line_polynomial(
    block: &BlockView<'_>,
    point: &FactorsView<'_>,
    direction: &FactorsView<'_>,
    sum: &mut LinePolynomial,
    workspace: &mut Workspace,
) {
    assert_eq!(block.order, point.order(), "block and factors have the same order");
    assert_eq!(block.order, sum.order, "block and polynomial have the same order");
    point.assert_same_shape(direction);
    workspace.changed.resize(point.ranks(), block.order + 2);
    // Blocks are summed on their own first: fewer numbers are added to a large sum.
    let mut block_sum = LinePolynomial::new(block.order);
    let coefficients = &mut workspace.changed;
    dispatch::run(Task { block, point, direction, sum: &mut block_sum, coefficients });
    sum.add(&block_sum);
}

/// All that the kernel works on.
struct Task<'t> {
    block: &'t BlockView<'t>,
    point: &'t FactorsView<'t>,
    direction: &'t FactorsView<'t>,
    sum: &'t mut LinePolynomial,
    /// Slot l holds the coefficients C_l^(0), ..., C_l^(l+1), one after the other.
    coefficients: &'t mut Stack,
}

impl Kernel for Task<'_> {
    #[inline(always)]
    fn run<M: Arithmetic>(self) {
        let depth = self.block.order - 1;
        walk(self.block, depth, &mut CacheLine::<M> { task: self, arithmetic: PhantomData });
    }
}

struct CacheLine<'t, M> {
    task: Task<'t>,
    arithmetic: PhantomData<M>,
}

impl<M: Arithmetic> Visitor for CacheLine<'_, M> {
    #[inline(always)]
    fn open(&mut self, level: usize, index: usize) {
        let Task { point, direction, coefficients, .. } = &mut self.task;
        let (u, xi) = (point.row(level, index), direction.row(level, index));
        let (above, below) = coefficients.pair(&[], level);
        let size: usize = point.ranks()[level..].iter().product();
        // C_0^(0) = G and C_0^(1) = xi_G are the caller's; the others lie in a row.
        let above = |k: usize| match (level, k) {
            (0, 0) => point.core(),
            (0, _) => direction.core(),
            _ => &above[k * size..][..size],
        };
        for (k, below) in below.chunks_exact_mut(size / u.len()).take(level + 3).enumerate() {
            below.fill(0.0);
            if k < level + 2 {
                contract::<M>(u, above(k), below);
            }
            if k > 0 {
                contract_add::<M>(xi, above(k - 1), below);
            }
        }
    }

    #[inline(always)]
    fn run(&mut self, entries: Range<usize>) {
        let Task { block, point, direction, coefficients, sum } = &mut self.task;
        let last = block.order - 1;
        let contracted = coefficients.get(&[], last);
        let degree = block.order + 1;
        for entry in entries {
            let index = block.ids[last].get(entry) as usize;
            let (u, xi) = (point.row(last, index), direction.row(last, index));
            let mut polynomial = [0.0; MAX_ENTRY];
            polynomial[0] = -block.values.get(entry);
            for (k, c) in contracted.chunks_exact(u.len()).take(degree).enumerate() {
                polynomial[k] += dot::<M>(c, u);
                polynomial[k + 1] += dot::<M>(c, xi);
            }
            sum.add_square(&polynomial[..=degree], block.weight(entry));
        }
    }

    #[inline(always)]
    fn close(&mut self, _: usize, _: usize) {}
}
