//! Which entries were observed: read from the run's datasets, for a range of ids at a time.

use crate::error::Result;
use crate::shard::{Dataset, Split};
use std::ops::Range;

/// Entries that are held at a time: 16 bytes each.
const MOST_ENTRIES: u64 = 2 << 20;

/// Where to look, and for what.
pub struct Observed<'d> {
    /// The datasets of a run.
    pub datasets: &'d [Dataset],
    /// Their splits that count.
    pub splits: Vec<Split>,
    /// The mode whose ids are asked for; none where there is one question.
    pub each: Option<usize>,
    /// The mode whose indices are collected.
    pub ranked: usize,
    /// Modes that an entry must have these indices in.
    pub given: Vec<(usize, u32)>,
}

/// The entries of a range of ids.
#[derive(Debug, Clone, Default)]
pub struct SeenEntries {
    first: u32,
    /// Where the entries of an id begin.
    begins: Vec<usize>,
    indices: Vec<u32>,
    values: Vec<f64>,
}

impl SeenEntries {
    /// From (id, index, value); of an entry that occurs more than once the largest value counts.
    pub fn new(ids: Range<u32>, mut found: Vec<(u32, u32, f64)>) -> Self {
        found.sort_unstable_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then(b.2.total_cmp(&a.2)));
        found.dedup_by_key(|&mut (id, index, _)| (id, index));
        let mut begins = Vec::with_capacity(ids.len() + 1);
        let mut at = 0;
        for id in ids.clone() {
            begins.push(at);
            at += found[at..].iter().take_while(|entry| entry.0 == id).count();
        }
        begins.push(at);
        let (indices, values) = found.into_iter().map(|(_, index, value)| (index, value)).unzip();
        SeenEntries { first: ids.start, begins, indices, values }
    }

    fn range(&self, id: u32) -> Range<usize> {
        let at = (id - self.first) as usize;
        match self.begins.get(at..at + 2) {
            Some(&[begin, end]) => begin..end,
            _ => 0..0,
        }
    }

    /// The indices that occur with an id, ascending.
    pub fn indices(&self, id: u32) -> &[u32] {
        &self.indices[self.range(id)]
    }

    /// Their values.
    pub fn values(&self, id: u32) -> &[f64] {
        &self.values[self.range(id)]
    }
}

impl Observed<'_> {
    fn for_each(&self, ids: &Range<u32>, mut each: impl FnMut(u32, u32, f64)) -> Result<()> {
        for dataset in self.datasets {
            for &split in &self.splits {
                dataset.for_each_within(split, self.each.map(|mode| (mode, ids.clone())), |at, value| {
                    if dataset.manifest().is_observed(value)
                        && self.given.iter().all(|&(mode, index)| at[mode] == index)
                    {
                        each(self.each.map_or(0, |mode| at[mode]), at[self.ranked], value);
                    }
                })?;
            }
        }
        Ok(())
    }

    /// Cuts the ids 0 to `dim` into ranges of few enough entries each.
    pub fn ranges(&self, dim: u32) -> Result<Vec<Range<u32>>> {
        let mut counts = vec![0u32; dim as usize];
        self.for_each(&(0..dim), |id, _, _| counts[id as usize] += 1)?;
        let (mut ranges, mut begin, mut held) = (Vec::new(), 0, 0);
        for (id, &count) in counts.iter().enumerate() {
            if held > 0 && held + u64::from(count) > MOST_ENTRIES {
                ranges.push(begin..id as u32);
                (begin, held) = (id as u32, 0);
            }
            held += u64::from(count);
        }
        ranges.push(begin..dim);
        Ok(ranges)
    }

    /// The entries of the ids in a range; `0..1` where there is one question.
    pub fn entries(&self, ids: Range<u32>) -> Result<SeenEntries> {
        let mut found = Vec::new();
        self.for_each(&ids, |id, index, value| found.push((id, index, value)))?;
        Ok(SeenEntries::new(ids, found))
    }
}
