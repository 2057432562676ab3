//! Entries of a slice, column by column.

use crate::MAX_ORDER;
use crate::kernel::BlockView;
use std::ops::Range;

/// The entries of a slice, or of a part of one.
#[derive(Debug, Clone, Default)]
pub(super) struct Entries {
    /// The indices of every level from 1 on, a column each.
    pub(super) at: [Vec<u32>; MAX_ORDER],
    /// Values, and weights of 1 on average.
    pub(super) values: Vec<f64>,
    pub(super) weights: Vec<f64>,
}

impl Entries {
    /// Takes some entries of a block, but for those of no weight.
    pub(super) fn take(&mut self, block: &BlockView<'_>, entries: Range<usize>, per_weight: f64) {
        let before = self.len();
        for (level, at) in self.at.iter_mut().enumerate().take(block.order()).skip(1) {
            block.append_indices(level, entries.clone(), at);
        }
        block.values().append(entries.clone(), &mut self.values);
        let Some(weights) = block.weights() else {
            return self.weights.resize(before + entries.len(), per_weight);
        };
        weights.append(entries, &mut self.weights);
        let new = &self.weights[before..];
        if new.contains(&0.0) {
            let kept: Vec<usize> = (before..before + new.len()).filter(|n| new[n - before] > 0.0).collect();
            self.keep(before, &kept);
        }
        self.weights[before..].iter_mut().for_each(|weight| *weight *= per_weight);
    }

    pub(super) fn clear(&mut self) {
        self.at.iter_mut().for_each(Vec::clear);
        self.values.clear();
        self.weights.clear();
    }

    /// Keeps only some of the entries from one on.
    fn keep(&mut self, from: usize, kept: &[usize]) {
        self.at.iter_mut().filter(|at| !at.is_empty()).for_each(|at| keep(at, from, kept));
        keep(&mut self.values, from, kept);
        keep(&mut self.weights, from, kept);
    }

    /// Keeps those of the entries from one on whose indices are as they should be; those of level 0 are not told.
    pub(super) fn retain(&mut self, from: usize, is_kept: impl Fn(&[u32; MAX_ORDER]) -> bool) {
        let (mut kept, mut number) = (Vec::new(), from);
        let order = 1 + self.at[1..].iter().take_while(|at| !at.is_empty()).count();
        self.for_each_of(from..self.len(), 0, order, |indices, _, _| {
            kept.extend(is_kept(indices).then_some(number));
            number += 1;
        });
        if kept.len() < self.len() - from {
            self.keep(from, &kept);
        }
    }

    /// Adds some of other entries.
    pub(super) fn add(&mut self, other: &Entries, range: Range<usize>) {
        let with = self.at.iter_mut().zip(&other.at).filter(|(_, at)| !at.is_empty());
        with.for_each(|(to, at)| to.extend_from_slice(&at[range.clone()]));
        self.values.extend_from_slice(&other.values[range.clone()]);
        self.weights.extend_from_slice(&other.weights[range]);
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// Indices, value and weight of every entry; those of level 0 are `slice`.
    #[inline(always)]
    pub(super) fn for_each(&self, slice: u32, order: usize, each: impl FnMut(&[u32; MAX_ORDER], f64, f64)) {
        self.for_each_of(0..self.len(), slice, order, each);
    }

    /// The same of some entries.
    #[inline(always)]
    pub(super) fn for_each_of(
        &self,
        range: Range<usize>,
        slice: u32,
        order: usize,
        mut each: impl FnMut(&[u32; MAX_ORDER], f64, f64),
    ) {
        let mut indices = [0; MAX_ORDER];
        indices[0] = slice;
        for entry in range {
            for (to, at) in indices[..order].iter_mut().zip(&self.at).skip(1) {
                *to = at[entry];
            }
            each(&indices, self.values[entry], self.weights[entry]);
        }
    }
}

/// Keeps some of the numbers from one on.
fn keep<T: Copy>(numbers: &mut Vec<T>, from: usize, kept: &[usize]) {
    kept.iter().enumerate().for_each(|(to, &n)| numbers[from + to] = numbers[n]);
    numbers.truncate(from + kept.len());
}
