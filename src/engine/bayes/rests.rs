//! What of the entries' values does not come from the row that they are added to: a number per entry, of some entries
//! at a time, and level by level where it is nothing but biases.

use super::along::Along;
use super::design::Design;
use super::entries::Entries;
use super::level::Level;
use super::offsets::offset;
use super::pass::Pass;
use super::shape::{EntryRows, EntryVariances};
use crate::MAX_ORDER;
use crate::kernel::add_products;
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
        variances.clear();
        if own.is_none() {
            variances.resize(range.len(), 0.0);
        }
        for (_, (biases, at)) in biases() {
            let of = means.iter_mut().zip(&at[range.clone()]);
            if own.is_none() {
                for ((mean, &index), variance) in of.zip(&mut *variances) {
                    let [bias, unsure] = biases[index as usize];
                    *mean += bias;
                    *variance += unsure;
                }
            } else {
                of.for_each(|(mean, &index)| *mean += biases[index as usize][0]);
            }
        }
        for part in &design.rest {
            if let (Some(own), Some((first, level, from, count))) = (own, part.with_first()) {
                let (rows, at) = (&levels[level], &entries.at[level][range.clone()]);
                add_products(&rows.means[from..], rows.width, at, &own[first..][..count], means);
                continue;
            }
            let row = |level: usize, entry: usize| match own {
                Some(own) if level == 0 => own,
                _ => levels[level].mean(entries.at[level][entry] as usize),
            };
            for (entry, mean) in range.clone().zip(&mut *means) {
                *mean += part.sum(|level| row(level, entry));
            }
        }
        if own.is_none() && !design.rest.is_empty() {
            let mut to = variances.iter_mut();
            entries.for_each_of(range.clone(), *slice, levels.len(), |indices, _, _| {
                let (rows, variances) = entry_rows(levels, indices);
                to.next().into_iter().for_each(|to| *to += design.rest_variance(&rows, &variances));
            });
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
