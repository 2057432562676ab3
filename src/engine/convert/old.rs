//! The entries of a dataset that rows are appended to, in the order in which they lie there.

use crate::error::Result;
use crate::kernel::{BlockView, Ids, Values};
use crate::shard::{Dataset, Shard, Split};
use crate::sort::{Key, Packing, Payload, Record};

/// A dataset, and what changes about its indices.
pub(super) struct Old<'a> {
    pub(super) dataset: &'a Dataset,
    /// Per level, what is added to every index.
    pub(super) shifts: Vec<u32>,
}

impl Old<'_> {
    /// Bytes of memory that reading its entries takes, of records of so many bytes.
    pub(super) fn memory(&self, record: usize) -> Result<u64> {
        let (mut memory, mut most) = (0, 0);
        for split in Split::ALL {
            let shards = self.dataset.shards(split)?;
            let blocks = || shards.iter().flat_map(|shard| shard.blocks());
            let bytes = blocks().map(|block| u64::from(block.bytes)).max().unwrap_or(0);
            let entries = blocks().map(|block| u64::from(block.entries)).max().unwrap_or(0);
            memory += bytes + entries * record as u64;
            most = most.max(entries);
        }
        Ok(memory + most * 4 * self.shifts.len() as u64)
    }

    /// Its entries, ascending.
    pub(super) fn entries<'p, const W: usize, P: Payload>(
        &self,
        packing: &'p Packing,
    ) -> Result<OldEntries<'p, W, P>> {
        let mut splits = Vec::new();
        for split in Split::ALL {
            let shards = self.dataset.shards(split)?;
            let (next, buffer, records, at) = ((0, 0), Vec::new(), Vec::new(), 0);
            splits.push(SplitEntries { split, shards, next, buffer, records, at });
        }
        let columns = vec![Vec::new(); self.shifts.len()];
        let mut entries = OldEntries { splits, shifts: self.shifts.clone(), packing, columns, first: None };
        for split in 0..entries.splits.len() {
            entries.refill(split)?;
        }
        entries.choose();
        Ok(entries)
    }
}

/// A split, a block at a time.
struct SplitEntries<const W: usize, P> {
    split: Split,
    shards: Vec<Shard>,
    /// The shard and the block that come next.
    next: (usize, usize),
    buffer: Vec<u64>,
    records: Vec<Record<W, P>>,
    at: usize,
}

/// The entries of all splits, ascending by cell and split.
pub(super) struct OldEntries<'p, const W: usize, P> {
    splits: Vec<SplitEntries<W, P>>,
    shifts: Vec<u32>,
    packing: &'p Packing,
    /// Indices of the present block, by level.
    columns: Vec<Vec<u32>>,
    /// The split whose entry comes next.
    first: Option<usize>,
}

impl<const W: usize, P: Payload> OldEntries<'_, W, P> {
    /// Hands over the entries of a split, many at a time, that come before a key; all that are left without
    /// one.
    pub(super) fn before(
        &mut self,
        split: usize,
        key: Option<&Key<W>>,
        mut each: impl FnMut(&[Record<W, P>]) -> Result<()>,
    ) -> Result<()> {
        loop {
            let SplitEntries { records, at, .. } = &mut self.splits[split];
            let left = &records[*at..];
            let count = match key {
                // Entry by entry: a search would jump through memory, and each is passed only once.
                Some(key) => left.iter().position(|record| record.key >= *key).unwrap_or(left.len()),
                None => left.len(),
            };
            each(&left[..count])?;
            *at += count;
            if *at < records.len() || records.is_empty() {
                return Ok(());
            }
            self.refill(split)?;
        }
    }

    /// The next entry of a split, where it has this key.
    pub(super) fn next_if(&mut self, split: usize, key: &Key<W>) -> Result<Option<Record<W, P>>> {
        let SplitEntries { records, at, .. } = &mut self.splits[split];
        let Some(record) = records.get(*at).filter(|record| record.key == *key).copied() else {
            return Ok(None);
        };
        *at += 1;
        if *at == records.len() {
            self.refill(split)?;
        }
        Ok(Some(record))
    }

    /// The next entry.
    #[inline]
    pub(super) fn peek(&self) -> Option<&Record<W, P>> {
        self.first.map(|split| &self.splits[split].records[self.splits[split].at])
    }

    /// Goes on to the one after it.
    #[inline]
    pub(super) fn advance(&mut self) -> Result<()> {
        let Some(first) = self.first else { return Ok(()) };
        let split = &mut self.splits[first];
        split.at += 1;
        if split.at == split.records.len() {
            self.refill(first)?;
        }
        self.choose();
        Ok(())
    }

    #[inline]
    fn choose(&mut self) {
        let mut least: Option<(usize, &Record<W, P>)> = None;
        for (number, split) in self.splits.iter().enumerate() {
            let Some(head) = split.records.get(split.at) else { continue };
            if least.is_none_or(|(_, least)| head.key < least.key) {
                least = Some((number, head));
            }
        }
        self.first = least.map(|(number, _)| number);
    }

    /// Reads the next block of a split.
    fn refill(&mut self, number: usize) -> Result<()> {
        let SplitEntries { split, shards, next, buffer, records, at } = &mut self.splits[number];
        records.clear();
        *at = 0;
        while shards.get(next.0).is_some_and(|shard| next.1 >= shard.blocks().len()) {
            *next = (next.0 + 1, 0);
        }
        let Some(shard) = shards.get(next.0) else { return Ok(()) };
        let bytes = shard.read_block(next.1, buffer)?;
        shard.check(next.1, bytes)?;
        let (tag, view) = (*split as u64, shard.view(next.1, bytes)?);
        columns(&view, &self.shifts, &mut self.columns);
        match (view.values(), view.weights()) {
            (Values::Codes { table, codes }, None) => {
                let value = |&code: &u8| P::new(table[usize::from(code)], None);
                records.extend(codes.iter().map(|code| Record { key: [0; W], value: value(code) }));
            }
            (values, _) => records.extend(
                (0..view.entries())
                    .map(|n| Record { key: [0; W], value: P::new(values.get(n), Some(view.weight(n))) }),
            ),
        }
        self.packing.pack_columns(&self.columns, tag, records);
        next.1 += 1;
        Ok(())
    }
}

/// The indices of every entry of a block, a column per level, with what is added to them.
fn columns(view: &BlockView<'_>, shifts: &[u32], columns: &mut [Vec<u32>]) {
    let (ids, ends, flat_from) = (view.ids(), view.ends(), view.flat_from());
    for (level, (column, &shift)) in columns.iter_mut().zip(shifts).enumerate() {
        column.clear();
        if level >= flat_from {
            match ids[level] {
                Ids::U16 { base, ids } => column.extend(ids.iter().map(|&id| u32::from(id) + base + shift)),
                Ids::U32(ids) => column.extend(ids.iter().map(|id| id + shift)),
            }
            continue;
        }
        // A node stands for all entries below it: from level to level its last child says which.
        for node in 0..ids[level].len() {
            let mut end = usize::from(ends[level][node]);
            for below in &ends[level + 1..flat_from] {
                end = usize::from(below[end - 1]);
            }
            column.resize(end, ids[level].get(node) + shift);
        }
        debug_assert_eq!(column.len(), view.entries());
    }
}
