//! Cost and gradient: forward to the residual, back to every row and to the core.
//!
//! With C_0 = G and C_{l+1} = u_l^T C_l at a node with the row u_l, an entry's prediction is C_D.
//! Going back with the adjoints A_D = e: a node's row receives C_l A_{l+1}, and A_l receives
//! u_l (x) A_{l+1}; A_0 is the core's gradient. As the adjoint of a node is linear in those of its
//! children, their sum goes back once per node.

use super::arithmetic::{Arithmetic, axpy, back, contract, dot};
use super::dispatch::{self, BlockKernel, Width};
use super::factors::FactorsView;
use super::gradient_inner::GradientInner;
use super::inner::{PaddedMatrix, PerFibre};
use super::padded_rows::PaddedFactors;
use super::rows::{RowAdder, Rows, padded_rows_of};
use super::sums::{GradientSums, Number};
use super::walk::{Visitor, walk};
use super::workspace::{Decoded, Stack, Workspace};
use crate::block::BlockView;
use std::marker::PhantomData;
use std::ops::Range;

/// Adds a block's entries to the sums behind cost and gradient: with e = X - y, the sum of e^2, of
/// e u_0 (x) ... (x) u_{D-1}, and for every row of e times the core contracted with the other rows.
///
/// Equals [`naive::gradient`](super::naive::gradient) up to rounding. An entry of weight w counts w times.
///
/// # Panics
///
/// Where block, factors and sums differ in shape, or a slice is outside the range of the sums.
pub fn gradient(
    block: &BlockView<'_>,
    padded: &PaddedFactors<'_>,
    sums: &mut GradientSums,
    workspace: &mut Workspace,
) {
    let factors = padded.factors();
    let ranks = factors.ranks();
    assert_eq!(block.order, ranks.len(), "block and factors have the same order");
    assert!(sums.rows.iter().map(|rows| rows.rank).eq(ranks.iter().copied()), "sums fit factors");
    for level in 1..ranks.len() {
        assert_eq!(sums.range(level), 0..factors.dim(level), "sums fit factors");
    }
    if padded.width() > 0 {
        // The kernels add to the rows of the two last levels at the offsets of padded rows.
        assert_eq!(padded.stride(), padded.width(), "a point without a direction");
        let mut strides = sums.rows[ranks.len() - 2..].iter().map(|rows| rows.stride);
        assert!(strides.all(|stride| stride == padded.width()), "sums have the stride of padded rows");
    }
    let slices = sums.range(0);
    for node in 0..block.ids[0].len() {
        // In a tensor of two modes the kernels add to these rows without a further look.
        let slice = block.ids[0].get(node) as usize;
        assert!(slices.contains(&slice), "slice {slice} is not in this lane's {slices:?}");
    }
    workspace.contracted.resize(ranks, 1);
    workspace.adjoint.resize(ranks, 1);
    workspace.decoded.prepare(block, padded);
    sums.entries += block.entries as u64;
    dispatch::run_block(padded.width(), Task { block, padded, sums, workspace });
}

/// All that the kernel works on.
struct Task<'t> {
    block: &'t BlockView<'t>,
    padded: &'t PaddedFactors<'t>,
    sums: &'t mut GradientSums,
    workspace: &'t mut Workspace,
}

impl BlockKernel for Task<'_> {
    #[inline(always)]
    fn run<M: Arithmetic, W: Width>(self, width: W) {
        let Task { block, padded, sums, workspace } = self;
        let Workspace { contracted, adjoint, decoded, matrices, fibres, .. } = workspace;
        let factors = padded.factors();
        let nodes = Nodes::<M> { factors, sums, contracted, adjoint, arithmetic: PhantomData };
        if padded.width() > 0 {
            let rows = padded_rows_of(padded);
            walk(block, block.order - 2, &mut Inner { block, width, rows, nodes, decoded, matrices, fibres });
        } else {
            walk(block, block.order - 1, &mut AnyRank { block, nodes });
        }
    }
}

/// The nodes above the kernels' own levels, for any rank: forward when opened, back when closed.
struct Nodes<'t, M> {
    factors: &'t FactorsView<'t>,
    sums: &'t mut GradientSums,
    contracted: &'t mut Stack,
    adjoint: &'t mut Stack,
    arithmetic: PhantomData<M>,
}

impl<M: Arithmetic> Nodes<'_, M> {
    #[inline(always)]
    fn open(&mut self, level: usize, index: usize) {
        let (above, below) = self.contracted.pair(self.factors.core(), level);
        contract::<M>(self.factors.row(level, index), above, below);
        self.adjoint.below(level).fill(0.0);
    }

    #[inline(always)]
    fn close(&mut self, level: usize, index: usize) {
        let GradientSums { core, rows, .. } = &mut *self.sums;
        let contracted = self.contracted.get(self.factors.core(), level);
        let (above, below) = self.adjoint.pair_mut(core, level);
        let row = self.factors.row(level, index);
        back::<M>(row, contracted, below, rows[level].row_mut(index), above);
    }
}

/// The two last levels by kernels for their width.
struct Inner<'t, M, W> {
    block: &'t BlockView<'t>,
    width: W,
    rows: [Rows<'t>; 2],
    nodes: Nodes<'t, M>,
    decoded: &'t mut Decoded,
    matrices: &'t mut [PaddedMatrix; 3],
    fibres: &'t mut [PerFibre; 2],
}

impl<M: Arithmetic, W: Width> Inner<'_, M, W> {
    #[inline(always)]
    fn run_in<N: Number>(&mut self, nodes: Range<usize>) {
        let first = self.block.order - 2;
        let Nodes { factors, sums, contracted, adjoint, .. } = &mut self.nodes;
        let GradientSums { core, rows, squares, absolute, .. } = &mut **sums;
        let (sums1, sums2) = rows.split_at_mut(first + 1);
        let ranks = factors.ranks();
        self.width.run(GradientInner::<N> {
            columns: self.decoded.decode(self.block, nodes),
            contracted: contracted.get(factors.core(), first),
            ranks: [ranks[first], ranks[first + 1]],
            rows: self.rows,
            matrices: self.matrices,
            fibres: self.fibres,
            d1: RowAdder::new(&mut sums1[first]),
            d2: RowAdder::new(&mut sums2[0]),
            adjoint: adjoint.get_mut(core, first),
            errors: [squares, absolute],
        });
    }
}

impl<M: Arithmetic, W: Width> Visitor for Inner<'_, M, W> {
    #[inline(always)]
    fn open(&mut self, level: usize, index: usize) {
        self.nodes.open(level, index);
    }

    #[inline(always)]
    fn run(&mut self, nodes: Range<usize>) {
        if self.nodes.sums.rows[self.block.order - 1].single {
            self.run_in::<f32>(nodes);
        } else {
            self.run_in::<f64>(nodes);
        }
    }

    #[inline(always)]
    fn close(&mut self, level: usize, index: usize) {
        self.nodes.close(level, index);
    }
}

/// All levels for any rank, one entry at a time.
struct AnyRank<'t, M> {
    block: &'t BlockView<'t>,
    nodes: Nodes<'t, M>,
}

impl<M: Arithmetic> Visitor for AnyRank<'_, M> {
    #[inline(always)]
    fn open(&mut self, level: usize, index: usize) {
        self.nodes.open(level, index);
    }

    #[inline(always)]
    fn run(&mut self, entries: Range<usize>) {
        let last = self.block.order - 1;
        let Nodes { factors, sums, contracted, adjoint, .. } = &mut self.nodes;
        let contracted = contracted.get(factors.core(), last);
        let adjoint = adjoint.below(last - 1);
        for entry in entries {
            let index = self.block.ids[last].get(entry) as usize;
            let row = factors.row(last, index);
            let residual = dot::<M>(contracted, row) - self.block.values.get(entry);
            let weighed = self.block.weight(entry) * residual;
            axpy::<M>(weighed, contracted, sums.rows[last].row_mut(index));
            axpy::<M>(weighed, row, adjoint);
            sums.squares += weighed * residual;
            sums.absolute += weighed.abs();
        }
    }

    #[inline(always)]
    fn close(&mut self, level: usize, index: usize) {
        self.nodes.close(level, index);
    }
}
