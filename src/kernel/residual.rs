//! Residuals only: cost, and the errors that an evaluation reports.

use super::arithmetic::{Arithmetic, contract, dot};
use super::dispatch::{self, Job, RankJob};
use super::factors::FactorsView;
use super::inner::{Columns, Padded, TOGETHER, combine, combine_four, four_from, has_inner, inner_rows};
use super::rows::{RowVectors, Rows};
use super::sums::ResidualSums;
use super::vector::{Four, Vector, dots};
use super::walk::{Pass, walk};
use super::workspace::{Decoded, Stack, Workspace};
use crate::MAX_ORDER;
use crate::shard::BlockView;
use std::marker::PhantomData;
use std::ops::Range;

/// For each level, which indices the model has never seen (true); `None` where it knows them all.
pub type Unseen<'a> = [Option<&'a [bool]>; MAX_ORDER];

/// Adds a block's entries to the sums of e^2 and |e|, e = X - y.
///
/// Equals [`naive::residual`](super::naive::residual) up to rounding.
///
/// # Panics
///
/// Where block and factors differ in order.
pub fn residual(
    block: &BlockView<'_>,
    factors: &FactorsView<'_>,
    sums: &mut ResidualSums,
    workspace: &mut Workspace,
) {
    assert_eq!(block.order, factors.order(), "block and factors have the same order");
    if !has_inner(factors.ranks()) {
        return for_each_prediction(block, factors, workspace, |_, value, prediction| {
            sums.add_entry(prediction - value);
        });
    }
    workspace.contracted.resize(factors.ranks(), 1);
    workspace.decoded.prepare(block);
    dispatch::run(Fast { block, factors, sums, workspace });
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
    for_each_prediction(block, factors, workspace, |indices, value, prediction| {
        let is_unseen =
            |(&index, flags): (&u32, &Option<&[bool]>)| flags.is_some_and(|flags| flags[index as usize]);
        if indices.iter().zip(unseen).any(is_unseen) {
            sums.unscored += 1;
        } else {
            sums.add_entry(prediction - value);
        }
    });
}

/// Calls `each(indices, value, prediction)` for every entry in order, the indices in level order,
/// with the prediction X = G x_0 u_0 ... x_{D-1} u_{D-1}.
///
/// # Panics
///
/// Where block and factors differ in order.
pub fn for_each_prediction(
    block: &BlockView<'_>,
    factors: &FactorsView<'_>,
    workspace: &mut Workspace,
    each: impl FnMut(&[u32], f64, f64),
) {
    assert_eq!(block.order, factors.order(), "block and factors have the same order");
    workspace.contracted.resize(factors.ranks(), 1);
    dispatch::run(Each { block, factors, each, contracted: &mut workspace.contracted });
}

impl ResidualSums {
    #[inline(always)]
    pub(super) fn add_entry(&mut self, residual: f64) {
        self.squares += residual * residual;
        self.absolute += residual.abs();
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

impl<F: FnMut(&[u32], f64, f64)> Job for Each<'_, F> {
    #[inline(always)]
    fn run<M: Arithmetic>(self) {
        let depth = self.block.order - 1;
        let indices = [0; MAX_ORDER];
        walk(self.block, depth, &mut EachPass::<F, M> { job: self, indices, arithmetic: PhantomData });
    }
}

struct EachPass<'t, F, M> {
    job: Each<'t, F>,
    indices: [u32; MAX_ORDER],
    arithmetic: PhantomData<M>,
}

impl<F: FnMut(&[u32], f64, f64), M: Arithmetic> Pass for EachPass<'_, F, M> {
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
            each(&self.indices[..=last], block.values.get(entry), prediction);
        }
    }

    #[inline(always)]
    fn close(&mut self, _: usize, _: usize) {}
}

/// What [`residual`] works on where the ranks have kernels of their own.
struct Fast<'t> {
    block: &'t BlockView<'t>,
    factors: &'t FactorsView<'t>,
    sums: &'t mut ResidualSums,
    workspace: &'t mut Workspace,
}

impl Job for Fast<'_> {
    #[inline(always)]
    fn run<M: Arithmetic>(self) {
        let Fast { block, factors, sums, workspace } = self;
        let Workspace { contracted, decoded, padded: [matrix, ..], .. } = workspace;
        let rows = inner_rows(factors);
        let arithmetic = PhantomData::<M>;
        let mut pass = FastPass { block, factors, rows, contracted, decoded, matrix, sums, arithmetic };
        walk(block, block.order - 2, &mut pass);
    }
}

struct FastPass<'t, M> {
    block: &'t BlockView<'t>,
    factors: &'t FactorsView<'t>,
    rows: [Rows<'t>; 2],
    contracted: &'t mut Stack,
    decoded: &'t mut Decoded,
    matrix: &'t mut Padded,
    sums: &'t mut ResidualSums,
    arithmetic: PhantomData<M>,
}

impl<M: Arithmetic> Pass for FastPass<'_, M> {
    #[inline(always)]
    fn open(&mut self, level: usize, index: usize) {
        let (above, below) = self.contracted.pair(self.factors.core(), level);
        contract::<M>(self.factors.row(level, index), above, below);
    }

    #[inline(always)]
    fn run(&mut self, nodes: Range<usize>) {
        let columns = self.decoded.decode(self.block, nodes);
        let contracted = self.contracted.get(self.factors.core(), self.block.order - 2);
        let job =
            ResidualInner { columns, contracted, rows: self.rows, matrix: self.matrix, sums: self.sums };
        dispatch::run_for_rank(self.rows[1].rank(), job);
    }

    #[inline(always)]
    fn close(&mut self, _: usize, _: usize) {}
}

/// The two last levels: e = (C^T u) . v - y.
struct ResidualInner<'b> {
    columns: Columns<'b>,
    contracted: &'b [f64],
    rows: [Rows<'b>; 2],
    matrix: &'b mut Padded,
    sums: &'b mut ResidualSums,
}

impl RankJob for ResidualInner<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let [rows1, rows2] = self.rows;
        let Columns { entries, ids1, ids2, values, .. } = self.columns;
        let matrix = self.matrix;
        matrix.set_rows(self.contracted, rows2.rank());
        let mut errors = Errors::<V> {
            rows2: rows2.as_vectors(),
            squares: V::Four::splat(0.0),
            absolute: V::Four::splat(0.0),
        };
        if self.columns.ends.is_some() {
            for (id1, fibre) in self.columns.fibres() {
                let [s] = combine(matrix, 0, rows1.rank(), [rows1.row(id1)]);
                for start in fibre.clone().step_by(TOGETHER) {
                    rows2.prefetch(ids2, start);
                    let (id2, values) = (four_from(ids2, start), four_from(values, start));
                    errors.add(&[s; 4], id2, values, fibre.end - start);
                }
            }
        } else {
            for start in (0..entries).step_by(TOGETHER) {
                rows1.prefetch(ids1, start);
                rows2.prefetch(ids2, start);
                let s = combine_four(matrix, 0, rows1.rank(), rows1.rows(&four_from(ids1, start)));
                errors.add(&s, four_from(ids2, start), four_from(values, start), entries - start);
            }
        }
        self.sums.squares += errors.squares.sum();
        self.sums.absolute += errors.absolute.sum();
        self.sums.scored += entries as u64;
    }
}

/// The errors of the entries below one node, each sum in four parts.
struct Errors<'b, V: Vector> {
    rows2: RowVectors<'b, V>,
    squares: V::Four,
    absolute: V::Four,
}

impl<V: Vector> Errors<'_, V> {
    /// Four entries, of which only the first `count` have weight.
    #[inline(always)]
    fn add(&mut self, s: &[V; 4], id2: [u32; 4], values: [f64; 4], count: usize) {
        let v = self.rows2.four(&id2);
        let e = dots(s, &v).sub(V::Four::load(&values)).first(count);
        self.squares = e.fma(e, self.squares);
        self.absolute = self.absolute.add(e.abs());
    }
}
