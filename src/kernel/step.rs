//! The linearised change along a direction, by forward differentiation.
//!
//! Beside every contracted core C_l goes its derivative dC_l along the direction: with dC_0 = xi_G,
//! C_{l+1} = u^T C_l and dC_{l+1} = u^T dC_l + xi^T C_l at a node with the row u and its change xi.
//! An entry's prediction is C_D, its linearised change L = dC_D.

use super::arithmetic::{Arithmetic, contract, contract_add, dot};
use super::dispatch::{self, BlockKernel, Width};
use super::factors::FactorsView;
use super::inner::{PaddedMatrix, PerFibre};
use super::padded_rows::PaddedFactors;
use super::rows::{Rows, padded_rows_of};
use super::step_inner::StepInner;
use super::sums::StepSums;
use super::walk::{Visitor, walk};
use super::workspace::{Decoded, Stack, Workspace};
use crate::block::BlockView;
use std::marker::PhantomData;
use std::ops::Range;

/// Adds a block's entries to the sums behind the linearised step: e L, L^2 and e^2, with e = X - y
/// and L = xi_G x_0 U_0 ... x_{D-1} U_{D-1} + sum over l of G x_0 U_0 ... x_l xi_l ... x_{D-1}
/// U_{D-1}.
///
/// Equals [`naive::step`](super::naive::step) up to rounding. An entry of weight w counts w times.
///
/// # Panics
///
/// Where block and factors differ in order, or no direction was padded with the point.
pub fn step(block: &BlockView<'_>, line: &PaddedFactors<'_>, sums: &mut StepSums, workspace: &mut Workspace) {
    let ranks = line.factors().ranks();
    assert_eq!(block.order, ranks.len(), "block and factors have the same order");
    // The kernels read a row's change behind the row.
    assert_eq!(line.stride(), 2 * line.width(), "a point with a direction");
    workspace.contracted.resize(ranks, 1);
    workspace.changed.resize(ranks, 1);
    workspace.decoded.prepare(block, line);
    sums.entries += block.entries as u64;
    dispatch::run_block(line.width(), Task { block, line, sums, workspace });
}

/// All that the kernel works on.
struct Task<'t> {
    block: &'t BlockView<'t>,
    line: &'t PaddedFactors<'t>,
    sums: &'t mut StepSums,
    workspace: &'t mut Workspace,
}

impl BlockKernel for Task<'_> {
    #[inline(always)]
    fn run<M: Arithmetic, W: Width>(self, width: W) {
        let Task { block, line, sums, workspace } = self;
        let Workspace { contracted, changed, decoded, matrices, fibres, .. } = workspace;
        let (point, direction) = (line.factors(), line.direction());
        let nodes = Nodes::<M> { point, direction, contracted, changed, arithmetic: PhantomData };
        if line.width() > 0 {
            let rows = padded_rows_of(line);
            let mut pass = Inner { block, width, rows, nodes, sums, decoded, matrices, fibres };
            walk(block, block.order - 2, &mut pass);
        } else {
            walk(block, block.order - 1, &mut AnyRank { block, nodes, sums });
        }
    }
}

/// The nodes above the kernels' own levels, for any rank.
struct Nodes<'t, M> {
    point: &'t FactorsView<'t>,
    direction: &'t FactorsView<'t>,
    contracted: &'t mut Stack,
    changed: &'t mut Stack,
    arithmetic: PhantomData<M>,
}

impl<M: Arithmetic> Nodes<'_, M> {
    #[inline(always)]
    fn open(&mut self, level: usize, index: usize) {
        let (u, xi) = (self.point.row(level, index), self.direction.row(level, index));
        let (above, below) = self.contracted.pair(self.point.core(), level);
        let (changed_above, changed_below) = self.changed.pair(self.direction.core(), level);
        contract::<M>(u, above, below);
        contract::<M>(u, changed_above, changed_below);
        contract_add::<M>(xi, above, changed_below);
    }
}

/// The two last levels by kernels for their width.
struct Inner<'t, M, W> {
    block: &'t BlockView<'t>,
    width: W,
    rows: [Rows<'t>; 2],
    nodes: Nodes<'t, M>,
    sums: &'t mut StepSums,
    decoded: &'t mut Decoded,
    matrices: &'t mut [PaddedMatrix; 3],
    fibres: &'t mut [PerFibre; 2],
}

impl<M: Arithmetic, W: Width> Visitor for Inner<'_, M, W> {
    #[inline(always)]
    fn open(&mut self, level: usize, index: usize) {
        self.nodes.open(level, index);
    }

    #[inline(always)]
    fn run(&mut self, nodes: Range<usize>) {
        let first = self.block.order - 2;
        let Nodes { point, direction, contracted, changed, .. } = &self.nodes;
        let ranks = point.ranks();
        self.width.run(StepInner {
            columns: self.decoded.decode(self.block, nodes),
            contracted: contracted.get(point.core(), first),
            changed: changed.get(direction.core(), first),
            ranks: [ranks[first], ranks[first + 1]],
            rows: self.rows,
            matrices: self.matrices,
            fibres: self.fibres,
            sums: self.sums,
        });
    }

    #[inline(always)]
    fn close(&mut self, _: usize, _: usize) {}
}

/// All levels for any rank, one entry at a time.
struct AnyRank<'t, M> {
    block: &'t BlockView<'t>,
    nodes: Nodes<'t, M>,
    sums: &'t mut StepSums,
}

impl<M: Arithmetic> Visitor for AnyRank<'_, M> {
    #[inline(always)]
    fn open(&mut self, level: usize, index: usize) {
        self.nodes.open(level, index);
    }

    #[inline(always)]
    fn run(&mut self, entries: Range<usize>) {
        let last = self.block.order - 1;
        let Nodes { point, direction, contracted, changed, .. } = &self.nodes;
        let contracted = contracted.get(point.core(), last);
        let changed = changed.get(direction.core(), last);
        for entry in entries {
            let index = self.block.ids[last].get(entry) as usize;
            let (u, xi) = (point.row(last, index), direction.row(last, index));
            let e = dot::<M>(contracted, u) - self.block.values.get(entry);
            let l = dot::<M>(changed, u) + dot::<M>(contracted, xi);
            let w = self.block.weight(entry);
            self.sums.residual_change += w * e * l;
            self.sums.change_change += w * l * l;
            self.sums.squares += w * e * e;
        }
    }

    #[inline(always)]
    fn close(&mut self, _: usize, _: usize) {}
}
