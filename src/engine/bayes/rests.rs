//! What of the entries' values does not come from the row that they are added to: a number per entry, of some entries
//! at a time, and level by level where it is nothing but biases.

use super::along::Along;
use super::design::Design;
use super::level::Level;
use super::offsets::offset;
use super::pass::Pass;
use super::shape::{EntryRows, EntryVariances};
use super::slices::Entries;
use crate::MAX_ORDER;
use std::ops::Range;

/// Means and variances, entry by entry.
#[derive(Default)]
pub(super) struct Rests {
    pub(super) means: Vec<f64>,
    /// Empty where the row of level 0 is given: nobody asks for them then.
    pub(super) variances: Vec<f64>,
}

/// Which entries, and what they are added to.
pub(super) struct Of<'a> {
    pub(super) slice: u32,
    pub(super) entries: &'a Entries,
    pub(super) range: Range<usize>,
    /// The level of the row, and what it is multiplied by.
    pub(super) level: usize,
    pub(super) design: &'a Design,
    /// The row of level 0, where it is not that row.
    pub(super) own: Option<&'a [f64]>,
}

impl<'a> Of<'a> {
    /// Entries that are added to the target, the row of their slice being known.
    #[inline(always)]
    pub(super) fn target(
        pass: &Pass<'_>,
        along: &'a Along,
        slice: u32,
        entries: &'a Entries,
        range: Range<usize>,
        own: &'a [f64],
    ) -> Self {
        Of { slice, entries, range, level: pass.target, design: &along.target, own: Some(own) }
    }
}

impl Rests {
    #[inline(always)]
    pub(super) fn fill(&mut self, pass: &Pass<'_>, along: &Along, of: &Of<'_>) {
        let Of { slice, entries, range, level: but, design, own } = of;
        let (levels, Rests { means, variances }) = (pass.levels, self);
        let biases = || along.biases.iter().zip(&entries.at).enumerate().skip(1).filter(|(n, _)| n != but);
        means.clear();
        means.resize(range.len(), own.map_or(0.0, |own| own[own.len() - 1]));
        for (_, (biases, at)) in biases() {
            for (mean, &index) in means.iter_mut().zip(&at[range.clone()]) {
                *mean += biases[index as usize][0];
            }
        }
        for part in &design.rest {
            let row = |level: usize, entry: usize| match own {
                Some(own) if level == 0 => own,
                _ => levels[level].mean(entries.at[level][entry] as usize),
            };
            for (entry, mean) in range.clone().zip(&mut *means) {
                *mean += part.sum(|level| row(level, entry));
            }
        }
        variances.clear();
        if own.is_none() {
            variances.resize(range.len(), 0.0);
            for (_, (biases, at)) in biases() {
                for (variance, &index) in variances.iter_mut().zip(&at[range.clone()]) {
                    *variance += biases[index as usize][1];
                }
            }
            if !design.rest.is_empty() {
                let mut to = variances.iter_mut();
                entries.for_each_of(range.clone(), *slice, levels.len(), |indices, _, _| {
                    let (rows, variances) = entry_rows(levels, indices);
                    to.next().into_iter().for_each(|to| *to += design.rest_variance(&rows, &variances));
                });
            }
        }
        if !pass.tables.is_empty() {
            let (mut means, mut variances) = (means.iter_mut(), variances.iter_mut());
            entries.for_each_of(range.clone(), *slice, levels.len(), |indices, _, _| {
                let (shift, unsure) = offset(pass.tables, indices, pass.noise);
                means.next().into_iter().for_each(|to| *to += shift);
                variances.next().into_iter().for_each(|to| *to += unsure);
            });
        }
    }
}

#[inline(always)]
pub(super) fn entry_rows<'l>(
    levels: &'l [Level],
    indices: &[u32; MAX_ORDER],
) -> (EntryRows<'l>, EntryVariances<'l>) {
    let (mut rows, mut variances): (EntryRows<'l>, EntryVariances<'l>) = ([&[]; MAX_ORDER], [&[]; MAX_ORDER]);
    for (number, level) in levels.iter().enumerate() {
        rows[number] = level.mean(indices[number] as usize);
        variances[number] = level.variance(indices[number] as usize);
    }
    (rows, variances)
}
