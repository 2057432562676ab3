//! Residuals only: cost, and the errors that an evaluation reports.

#![allow(unsafe_code)]

use super::arithmetic::{Arithmetic, contract, dot};
use super::dispatch::{self, BlockKernel, Kernel, RowKernel, Width};
use super::factors::FactorsView;
use super::inner::{
    Columns, FIBRES, Fours, Left, PaddedMatrix, PerFibre, TOGETHER, combine_four, counted, forward, four_from,
};
use super::padded_rows::PaddedFactors;
use super::rows::{Rows, padded_rows_of};
use super::sums::ResidualSums;
use super::vector::{Four, Vector, dots};
use super::walk::{Visitor, walk};
use super::workspace::{Stack, Workspace};
use crate::MAX_ORDER;
use crate::block::BlockView;
use std::marker::PhantomData;
use std::ops::Range;

/// For each level, which indices the model has never seen (true); `None` where it knows them all.
pub type Unseen<'a> = [Option<&'a [bool]>; MAX_ORDER];

/// Adds a block's entries to the sums of w e^2 and w |e|, e = X - y.
///
/// Equals [`naive::residual`](super::naive::residual) up to rounding.
///
/// # Panics
///
/// Where block and factors differ in order.
pub fn residual(
    block: &BlockView<'_>,
    padded: &PaddedFactors<'_>,
    sums: &mut ResidualSums,
    workspace: &mut Workspace,
) {
    let factors = padded.factors();
    assert_eq!(block.order, factors.order(), "block and factors have the same order");
    if padded.width() == 0 {
        return for_each_prediction(block, factors, workspace, |_, value, weight, prediction| {
            sums.add_entry(prediction - value, weight);
        });
    }
    workspace.contracted.resize(factors.ranks(), 1);
    assert_eq!(padded.stride(), padded.width(), "a point without a direction");
    workspace.decoded.prepare(block, padded);
    dispatch::run_block(padded.width(), Fast { block, padded, sums, workspace });
}

/// [`residual`] of the entries whose indices the model has seen; the others are only counted.
///
/// # Panics
///
/// Where block and factors differ in order, or flags are fewer than indices.
pub fn residual_of_seen(
    block: &BlockView<'_>,
    factors: &FactorsView<'_>,
    unseen: &Unseen<'_>,
    sums: &mut ResidualSums,
    workspace: &mut Workspace,
) {
    for_each_prediction(block, factors, workspace, |indices, value, weight, prediction| {
        let is_unseen =
            |(&index, flags): (&u32, &Option<&[bool]>)| flags.is_some_and(|flags| flags[index as usize]);
        if indices.iter().zip(unseen).any(is_unseen) {
            sums.unscored += 1;
        } else {
            sums.add_entry(prediction - value, weight);
        }
    });
}

/// Calls `each(indices, value, weight, prediction)` for every entry in order, the indices in level order,
/// with the prediction X = G x_0 u_0 ... x_{D-1} u_{D-1}.
///
/// # Panics
///
/// Where block and factors differ in order.
pub fn for_each_prediction(
    block: &BlockView<'_>,
    factors: &FactorsView<'_>,
    workspace: &mut Workspace,
    each: impl FnMut(&[u32], f64, f64, f64),
) {
    assert_eq!(block.order, factors.order(), "block and factors have the same order");
    workspace.contracted.resize(factors.ranks(), 1);
    dispatch::run(Each { block, factors, each, contracted: &mut workspace.contracted });
}

impl ResidualSums {
    /// Adds an entry's residual.
    #[inline(always)]
    pub fn add_entry(&mut self, residual: f64, weight: f64) {
        self.squares += weight * (residual * residual);
        self.absolute += weight * residual.abs();
        self.weight += weight;
        self.scored += 1;
    }
}

/// What [`for_each_prediction`] works on.
struct Each<'t, F> {
    block: &'t BlockView<'t>,
    factors: &'t FactorsView<'t>,
    each: F,
    contracted: &'t mut Stack,
}

impl<F: FnMut(&[u32], f64, f64, f64)> Kernel for Each<'_, F> {
    #[inline(always)]
    fn run<M: Arithmetic>(self) {
        let depth = self.block.order - 1;
        let indices = [0; MAX_ORDER];
        walk(self.block, depth, &mut EachVisitor::<F, M> { job: self, indices, arithmetic: PhantomData });
    }
}

struct EachVisitor<'t, F, M> {
    job: Each<'t, F>,
    indices: [u32; MAX_ORDER],
    arithmetic: PhantomData<M>,
}

impl<F: FnMut(&[u32], f64, f64, f64), M: Arithmetic> Visitor for EachVisitor<'_, F, M> {
    #[inline(always)]
    fn open(&mut self, level: usize, index: usize) {
        self.indices[level] = index as u32;
        let factors = self.job.factors;
        let (above, below) = self.job.contracted.pair(factors.core(), level);
        contract::<M>(factors.row(level, index), above, below);
    }

    #[inline(always)]
    fn run(&mut self, entries: Range<usize>) {
        let Each { block, factors, each, contracted } = &mut self.job;
        let last = block.order - 1;
        let contracted = contracted.get(factors.core(), last);
        for entry in entries {
            let index = block.ids[last].get(entry);
            self.indices[last] = index;
            let prediction = dot::<M>(contracted, factors.row(last, index as usize));
            each(&self.indices[..=last], block.values.get(entry), block.weight(entry), prediction);
        }
    }

    #[inline(always)]
    fn close(&mut self, _: usize, _: usize) {}
}

/// What [`residual`] works on where the ranks have kernels of their own.
struct Fast<'t> {
    block: &'t BlockView<'t>,
    padded: &'t PaddedFactors<'t>,
    sums: &'t mut ResidualSums,
    workspace: &'t mut Workspace,
}

impl BlockKernel for Fast<'_> {
    #[inline(always)]
    fn run<M: Arithmetic, W: Width>(self, width: W) {
        let (block, rows) = (self.block, padded_rows_of(self.padded));
        let mut pass = FastVisitor { rows, task: self, width, arithmetic: PhantomData::<M> };
        walk(block, block.order - 2, &mut pass);
    }
}

struct FastVisitor<'t, M, W> {
    task: Fast<'t>,
    width: W,
    rows: [Rows<'t>; 2],
    arithmetic: PhantomData<M>,
}

impl<M: Arithmetic, W: Width> Visitor for FastVisitor<'_, M, W> {
    #[inline(always)]
    fn open(&mut self, level: usize, index: usize) {
        let factors = self.task.padded.factors();
        let (above, below) = self.task.workspace.contracted.pair(factors.core(), level);
        contract::<M>(factors.row(level, index), above, below);
    }

    #[inline(always)]
    fn run(&mut self, nodes: Range<usize>) {
        let Fast { block, padded, sums, workspace } = &mut self.task;
        let Workspace { contracted, decoded, matrices, fibres, .. } = &mut **workspace;
        let (factors, first) = (padded.factors(), block.order - 2);
        let ranks = [factors.ranks()[first], factors.ranks()[first + 1]];
        let job = ResidualInner {
            columns: decoded.decode(block, nodes),
            contracted: contracted.get(factors.core(), first),
            ranks,
            rows: self.rows,
            matrix: &mut matrices[0],
            products: &mut fibres[0],
            sums,
        };
        self.width.run(job);
    }

    #[inline(always)]
    fn close(&mut self, _: usize, _: usize) {}
}

/// The two last levels: e = (C^T u) . v - y.
struct ResidualInner<'b> {
    columns: Columns<'b>,
    contracted: &'b [f64],
    ranks: [usize; 2],
    rows: [Rows<'b>; 2],
    matrix: &'b mut PaddedMatrix,
    products: &'b mut PerFibre,
    sums: &'b mut ResidualSums,
}

impl RowKernel for ResidualInner<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let ResidualInner { columns, contracted, ranks, rows: [rows1, rows2], matrix, .. } = self;
        matrix.set_rows::<V>(contracted, ranks);
        let r1 = counted::<V>(ranks[0]);
        let mut errors =
            Errors::<V> { squares: V::Four::splat(0.0), absolute: V::Four::splat(0.0), columns, rows2 };
        let columns = &errors.columns;
        let entries = columns.entries;
        // SAFETY, for all blocks below: columns and rows belong to the same block and the same padded
        // factors, so offsets are those of rows; rows are as wide as V.
        if let Some(ends) = columns.ends {
            let mut from = 0;
            for (batch, ends) in ends.chunks(FIBRES).enumerate() {
                let columns = &errors.columns;
                // SAFETY: see above.
                unsafe {
                    let first = batch * FIBRES;
                    forward::<V>(matrix, rows1, r1, columns, first, ends.len(), self.products);
                }
                for (fibre, &end) in ends.iter().enumerate() {
                    let end = usize::from(end) - errors.columns.start;
                    // SAFETY: see above.
                    let product = unsafe { Fours::<V>::load(self.products.at(fibre)) };
                    // The last four may reach into the next fibre, and have no weight then.
                    let mut left = Left::new(end - from);
                    for start in (from..end).step_by(TOGETHER) {
                        // SAFETY: see above.
                        errors.add(start, left, |v| unsafe {
                            Four::sums([
                                product.dot(v[0]),
                                product.dot(v[1]),
                                product.dot(v[2]),
                                product.dot(v[3]),
                            ])
                        });
                        left = left.next();
                    }
                    from = end;
                }
            }
        } else {
            let mut left = Left::new(entries);
            for start in (0..entries).step_by(TOGETHER) {
                let offsets1 = errors.columns.offsets1;
                rows1.prefetch(offsets1, start);
                // SAFETY: see above.
                unsafe {
                    let s = combine_four::<V>(matrix, r1, rows1.four(four_from(offsets1, start)));
                    errors.add(start, left, |v| {
                        dots(&s, &[V::load(v[0]), V::load(v[1]), V::load(v[2]), V::load(v[3])])
                    });
                    left = left.next();
                }
            }
        }
        self.sums.squares += errors.squares.sum();
        self.sums.absolute += errors.absolute.sum();
        self.sums.scored += entries as u64;
        self.sums.weight += match errors.columns.weights {
            Some(weights) => weights[..entries].iter().sum(),
            None => entries as f64,
        };
    }
}

/// The errors of the entries below one node, each sum in four parts.
struct Errors<'b, V: Vector> {
    columns: Columns<'b>,
    rows2: Rows<'b>,
    squares: V::Four,
    absolute: V::Four,
}

impl<V: Vector> Errors<'_, V> {
    /// Four entries, of which only those that are left have weight; predicted from their rows.
    #[inline(always)]
    fn add(&mut self, start: usize, left: Left<V::Four>, predict: impl FnOnce([*const f64; 4]) -> V::Four) {
        self.rows2.prefetch(self.columns.offsets2, start);
        // SAFETY: the columns were decoded for these rows.
        let v = unsafe { self.rows2.four(four_from(self.columns.offsets2, start)) };
        let e = left.of(predict(v).sub(Four::new(four_from(self.columns.values, start))));
        let we = self.columns.weigh(start, e);
        self.squares = we.fma(e, self.squares);
        self.absolute = self.absolute.add(we.abs());
    }
}
