//! The way through a block's tree: which node is opened and closed when.

use crate::MAX_ORDER;
use crate::block::BlockView;
use std::ops::Range;

/// What a kernel does at the nodes of the levels above `depth`, and at the nodes below them.
pub(super) trait Visitor {
    /// Enters a node of a level above the depth; `index` is its index in the level's mode.
    fn open(&mut self, level: usize, index: usize);
    /// Handles the nodes `nodes` of the level `depth`, all children of the nodes that are open.
    fn run(&mut self, nodes: Range<usize>);
    /// Leaves a node: all entries below it have been handled.
    fn close(&mut self, level: usize, index: usize);
}

/// The nodes of level `level + 1` below node `node` of `level`. A flat node has one.
#[inline(always)]
pub(super) fn children(block: &BlockView<'_>, level: usize, node: usize) -> Range<usize> {
    if level >= block.flat_from {
        return node..node + 1;
    }
    let ends = block.ends[level];
    let start = if node == 0 { 0 } else { usize::from(ends[node - 1]) };
    start..usize::from(ends[node])
}

/// Walks the levels `0..depth` of a block in order, depth first. Flat levels are walked like tree
/// levels whose nodes have one child, so any `depth < order` does for any block.
///
/// A loop with a stack of positions, not a recursion: a recursive function cannot be inlined into
/// the caller, whose instruction set it must be compiled for.
#[inline(always)]
pub(super) fn walk<P: Visitor>(block: &BlockView<'_>, depth: usize, pass: &mut P) {
    if depth == 0 {
        return pass.run(0..block.ids[0].len());
    }
    let mut open = [const { 0..0 }; MAX_ORDER];
    open[0] = 0..block.ids[0].len();
    let mut level = 0;
    loop {
        let node = open[level].start;
        if node < open[level].end {
            let index = block.ids[level].get(node) as usize;
            pass.open(level, index);
            let below = children(block, level, node);
            if level + 1 < depth {
                level += 1;
                open[level] = below;
                continue;
            }
            pass.run(below);
            pass.close(level, index);
        } else {
            if level == 0 {
                return;
            }
            level -= 1;
            pass.close(level, block.ids[level].get(open[level].start) as usize);
        }
        open[level].start += 1;
    }
}
