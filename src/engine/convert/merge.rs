//! Spooled rows to shards: sorted by their entry, joined where several rows have the same, written.

use super::absent::Absent;
use super::old::{Old, OldEntries};
use super::options::{ConvertOptions, Duplicates};
use super::resolve::{ModeIndex, Resolved, f64_of};
use super::split::Splitter;
use crate::MAX_ORDER;
use crate::control::{Control, Unit};
use crate::error::{Error, Result};
use crate::shard::{DatasetWriter, Split, Weighing};
use crate::sort::{Key, Packing, Payload, Record, Sorter, Ties};
use crate::storage::Staging;
use bytemuck::Pod;
use std::cmp::Ordering;
use std::path::Path;

/// The tag of a cell that was drawn: it comes behind all entries of the same cell.
const DRAWN: u64 = 3;
/// Entries that go to the writing thread at a time.
const BATCH: usize = 1 << 13;

/// How a spooled row is laid out, and what becomes of it.
pub(super) struct Layout<'a> {
    pub(super) record: usize,
    pub(super) value_at: usize,
    pub(super) time_at: usize,
    pub(super) weighted: bool,
    pub(super) modes: &'a [Resolved],
    pub(super) mode_order: &'a [usize],
    pub(super) packing: &'a Packing,
    pub(super) splitter: Splitter,
}

impl Layout<'_> {
    /// Makes sure that the ids of a row can be looked up, and tells the first row after it that needs
    /// another call.
    fn bring(&self, row: u64) -> Result<u64> {
        let next = self.modes.iter().map(|mode| mode.index.bring(row));
        next.collect::<Result<Vec<u64>>>().map(|next| next.into_iter().min().unwrap_or(u64::MAX))
    }

    #[inline]
    fn key<const W: usize, P: Payload>(&self, row: &[u8]) -> Record<W, P> {
        let mut indices = [0; MAX_ORDER];
        let mut hashes = [0; MAX_ORDER];
        let mut at = 0;
        for (position, mode) in self.modes.iter().enumerate() {
            (indices[position], hashes[position]) = mode.read(&row[at..]);
            at += mode.index.width();
        }
        let order = self.modes.len();
        let split = match self.splitter {
            Splitter::Given => u64::from(row[self.record - 1]),
            Splitter::Hash { seed, train, validation } => {
                Splitter::of_hashes(seed, train, validation, &hashes[..order]) as u64
            }
            Splitter::Time { train, validation } => {
                Splitter::of_time(train, validation, f64_of(&row[self.time_at..])) as u64
            }
        };
        let mut levels = [0; MAX_ORDER];
        for (level, &mode) in self.mode_order.iter().enumerate() {
            levels[level] = indices[mode];
        }
        let weight = self.weighted.then(|| f64_of(&row[self.value_at + 8..]));
        let value = P::new(f64_of(&row[self.value_at..]), weight);
        Record { key: self.packing.pack(&levels[..order], split), value }
    }
}

/// What the merge found.
#[derive(Debug, Default)]
pub(super) struct Merged {
    pub(super) duplicates: u64,
    pub(super) overlap: u64,
    /// Rows that fell on an entry of the dataset that they are appended to.
    pub(super) met: u64,
    /// Cells that were drawn as zeros: now, and before where a row has fallen on them.
    pub(super) absent: u64,
    pub(super) replaced: u64,
    /// Zeros of the dataset that rows are appended to.
    zeros: u64,
}

/// Entries on their way to the shards, with those that count as several.
struct Batch<const W: usize, P> {
    entries: Vec<Record<W, P>>,
    /// Positions of entries that were joined from rows without weights, and from how many.
    joined: Vec<(usize, u64)>,
}

impl<const W: usize, P: Payload> Batch<W, P> {
    fn new() -> Self {
        Batch { entries: Vec::with_capacity(BATCH), joined: Vec::new() }
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.joined.clear();
    }

    /// The weights of all entries; none where every one of them counts once.
    fn weigh(&self, weights: &mut Vec<f64>) {
        weights.clear();
        weights.extend(self.entries.iter().filter_map(|entry| entry.value.weight()));
        if weights.is_empty() && !self.joined.is_empty() {
            weights.resize(self.entries.len(), 1.0);
            self.joined.iter().for_each(|&(at, count)| weights[at] = count as f64);
        }
    }
}

/// Everything about the way from spooled rows to shards.
pub(super) struct Job<'a> {
    pub(super) layout: Layout<'a>,
    pub(super) absent: Option<Absent>,
    pub(super) options: &'a ConvertOptions,
    pub(super) names: &'a [String],
    pub(super) level_dims: &'a [u32],
    pub(super) staging: &'a Staging<'a>,
    pub(super) scratch: &'a Path,
    pub(super) control: &'a Control,
    pub(super) rows: u64,
    pub(super) memory: u64,
    /// The dataset that the rows are appended to.
    pub(super) old: Option<&'a Old<'a>>,
    /// Whether the new rows are split as its entries were: by a hash of the ids.
    pub(super) same_splits: bool,
    /// What entries weigh.
    pub(super) weighing: Weighing,
}

impl Job<'_> {
    /// Sorts the rows, joins those of the same entry, and writes the entries; tells the mean of the train values as
    /// they were before a transform.
    pub(super) fn run<const W: usize, P: Payload>(
        &self,
        spool: super::spool::Spool,
    ) -> Result<(crate::shard::Written, f64, Merged)>
    where
        Record<W, P>: Pod,
    {
        let packing = self.layout.packing;
        let mut sorter =
            Sorter::<W, P>::new(packing.bits(), self.ties(), self.memory, self.scratch, self.control);
        self.control.progress().stage("sort", Unit::Rows, self.rows);
        let (mut number, mut change) = (0, 0);
        spool.drain(|piece| {
            self.control.check()?;
            for row in piece.chunks_exact(self.layout.record) {
                if number == change {
                    change = self.layout.bring(number)?;
                }
                number += 1;
                sorter.push(self.layout.key(row))?;
            }
            self.control.progress().advance(sorter.len(), &"");
            Ok(())
        })?;
        // With duplicates: what a conversion of all rows at once would have counted.
        let before = self.old.map_or(0, |old| {
            let manifest = old.dataset.manifest();
            Split::ALL.iter().map(|&split| manifest.split(split).entries).sum::<u64>() + manifest.duplicates
        });
        let draws = self.absent.map_or(0, |absent| absent.draws);
        if let Some(absent) = &self.absent {
            let mut indices = vec![0; self.level_dims.len()];
            let value = P::new(0.0, self.layout.weighted.then_some(1.0));
            for number in 0..draws {
                if number.is_multiple_of(1 << 16) {
                    self.control.check()?;
                }
                absent.draw(number, self.level_dims, &mut indices);
                sorter.push(Record { key: packing.pack(&indices, DRAWN), value })?;
            }
        }
        self.control.progress().stage("write", Unit::Rows, self.rows + before);
        let disk = self.staging.disk();
        let mut writer = DatasetWriter::create(
            disk,
            self.staging.path(),
            self.level_dims,
            self.rows + before + draws,
            self.weighing,
        )?;
        let (give, take) = crossbeam_channel::bounded::<(Split, Batch<W, P>)>(4);
        // Batches come back empty, so that none is made anew.
        let (give_back, spare) = crossbeam_channel::bounded(8);
        let (transform, control) = (self.options.transform, self.control);
        let mut levels = vec![Vec::with_capacity(BATCH); self.level_dims.len()];
        std::thread::scope(|scope| {
            let writing = scope.spawn(move || -> Result<(crate::shard::Written, f64)> {
                let (mut values, mut weights) = (Vec::with_capacity(BATCH), Vec::new());
                let (mut sum, mut count) = (0.0, 0.0);
                for (split, mut batch) in take {
                    control.check()?;
                    packing.unpack_columns(&batch.entries, &mut levels);
                    values.clear();
                    values.extend(batch.entries.iter().map(|entry| entry.value.value()));
                    batch.weigh(&mut weights);
                    if let Some(transform) = transform.filter(|_| split == Split::Train) {
                        for (n, &value) in values.iter().enumerate() {
                            let weight = weights.get(n).copied().unwrap_or(1.0);
                            sum += weight * transform.undo(value);
                            count += weight;
                        }
                    }
                    writer.push(split, &levels, &values, (!weights.is_empty()).then_some(&weights[..]))?;
                    batch.clear();
                    let _ = give_back.try_send(batch); // nobody needs it in the end
                }
                // Nobody waits for files of a conversion that has been given up.
                control.check()?;
                Ok((writer.finish()?, if count > 0.0 { sum / count } else { 0.0 }))
            });
            let merged = match self.old {
                None => self.merge_rows(sorter, Merger::new(self, give, spare)),
                Some(old) => self.merge_old(sorter, Merger::new(self, give, spare), old),
            };
            let written = writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            // The writer's own error is the cause; the merger only sees that nobody listens.
            match (written, merged) {
                (Err(Error::Interrupted), Err(error)) | (Ok(_), Err(error)) => Err(error),
                (Err(error), _) => Err(error),
                (Ok((written, mean)), Ok(merged)) => Ok((written, mean, merged)),
            }
        })
    }

    /// What decides between rows of one entry.
    fn ties(&self) -> Ties {
        match self.options.duplicates {
            Duplicates::First | Duplicates::Last => Ties::Arrival,
            _ => Ties::Value,
        }
    }

    /// Says how far it is now and then.
    fn step(&self, done: &mut u64, more: usize) -> Result<()> {
        let before = *done >> 18;
        *done += more as u64;
        if *done >> 18 > before {
            self.control.progress().advance(*done, &"");
            return self.control.check();
        }
        Ok(())
    }

    fn merge_rows<const W: usize, P: Payload>(
        &self,
        sorter: Sorter<W, P>,
        mut merger: Merger<'_, W, P>,
    ) -> Result<Merged>
    where
        Record<W, P>: Pod,
    {
        let mut done = 0;
        sorter.finish(|record| {
            self.step(&mut done, 1)?;
            merger.take(record, false)
        })?;
        merger.finish()
    }

    /// Rows beside the entries of a dataset. Where the ids alone say which split an entry belongs to, an entry meets
    /// rows of its own split only, so that splits need not be in step with one another, and entries between two rows
    /// are handed on as they are.
    fn merge_old<const W: usize, P: Payload>(
        &self,
        sorter: Sorter<W, P>,
        mut merger: Merger<'_, W, P>,
        old: &Old<'_>,
    ) -> Result<Merged>
    where
        Record<W, P>: Pod,
    {
        let mut old = old.entries::<W, P>(self.layout.packing)?;
        let mut done = 0;
        if !self.same_splits {
            sorter.finish(|record| {
                self.take_before(&mut old, Some(record), &mut merger, &mut done)?;
                self.step(&mut done, 1)?;
                merger.take(record, false)
            })?;
            self.take_before(&mut old, None, &mut merger, &mut done)?;
            return merger.finish();
        }
        // The entry of the dataset in the cell of the present rows, until one that is larger has come.
        let mut waiting: Option<Record<W, P>> = None;
        sorter.finish(|record| {
            if !merger.is_at(&record.key) {
                if let Some(entry) = waiting.take() {
                    merger.take(&entry, true)?;
                }
                let split = (record.key[W - 1] & 3) as usize;
                self.hand_on(&mut old, split, Some(&record.key), &mut merger, &mut done)?;
                waiting = old.next_if(split, &record.key)?;
            }
            self.step(&mut done, 1)?;
            if let Some(entry) = waiting.take_if(|entry| merger.comes_first(entry, record)) {
                merger.take(&entry, true)?;
            }
            merger.take(record, false)
        })?;
        if let Some(entry) = waiting {
            merger.take(&entry, true)?;
        }
        for split in 0..Split::ALL.len() {
            self.hand_on(&mut old, split, None, &mut merger, &mut done)?;
        }
        merger.finish()
    }

    /// Hands on the entries of a split of the dataset that come before a key; all that are left without one.
    #[inline]
    fn hand_on<const W: usize, P: Payload>(
        &self,
        old: &mut OldEntries<'_, W, P>,
        split: usize,
        key: Option<&Key<W>>,
        merger: &mut Merger<'_, W, P>,
        done: &mut u64,
    ) -> Result<()> {
        old.before(split, key, |entries| {
            self.step(done, entries.len())?;
            merger.pass_on(entries)
        })
    }

    /// Takes the entries of the dataset that come before a row; all that are left without one.
    #[inline]
    fn take_before<const W: usize, P: Payload>(
        &self,
        old: &mut OldEntries<'_, W, P>,
        row: Option<&Record<W, P>>,
        merger: &mut Merger<'_, W, P>,
        done: &mut u64,
    ) -> Result<()> {
        let comes = |merger: &Merger<'_, W, P>, entry: &Record<W, P>| {
            row.is_none_or(|row| merger.comes_first(entry, row))
        };
        while let Some(&entry) = old.peek().filter(|entry| comes(merger, entry)) {
            self.step(done, 1)?;
            merger.take(&entry, true)?;
            old.advance()?;
        }
        Ok(())
    }

    fn labels<const W: usize>(&self, key: &Key<W>) -> Result<String> {
        let mut levels = [0; MAX_ORDER];
        self.layout.packing.unpack(key, &mut levels[..self.level_dims.len()]);
        let label = |(level, &mode): (usize, &usize)| {
            let resolved = &self.layout.modes[mode];
            let text = match &resolved.index {
                ModeIndex::Ids(ids) => match resolved.labels(ids)?.nth(levels[level] as usize) {
                    Some(key) => key?.label().to_text().into_owned(),
                    None => format!("index {}", levels[level]),
                },
                ModeIndex::Indices { base, before } => {
                    (i64::from(levels[level]) + base - i64::from(*before)).to_string()
                }
                ModeIndex::Bins { .. } => format!("bin {}", levels[level]),
            };
            Ok((mode, format!("{} {text}", self.names[mode])))
        };
        let labels = self.layout.mode_order.iter().enumerate().map(label);
        let mut labels = labels.collect::<Result<Vec<(usize, String)>>>()?;
        labels.sort();
        Ok(labels.into_iter().map(|(_, label)| label).collect::<Vec<_>>().join(", "))
    }
}

/// Whether two keys are of one cell: the split lies in the last two bits.
#[inline]
fn same_cell<const W: usize>(a: &Key<W>, b: &Key<W>) -> bool {
    a[..W - 1] == b[..W - 1] && a[W - 1] >> 2 == b[W - 1] >> 2
}

/// The split that a key's last two bits tell.
#[inline]
fn split_of<const W: usize, P>(record: &Record<W, P>) -> Split {
    Split::ALL[(record.key[W - 1] & 3).min(2) as usize]
}

/// Joins rows of the same entry. Weights of rows that are joined add up, and the mean is weighted.
struct Merger<'a, const W: usize, P> {
    job: &'a Job<'a>,
    give: crossbeam_channel::Sender<(Split, Batch<W, P>)>,
    spare: crossbeam_channel::Receiver<Batch<W, P>>,
    /// One per split: it is written without a look at the others.
    batches: [Batch<W, P>; 3],
    current: Option<Record<W, P>>,
    /// Of the values of the present entry's rows.
    sum: f64,
    /// Of value times weight, and of the weights.
    weighted_sum: f64,
    weight: f64,
    count: u64,
    /// Whether the present entry's value is kept as it is, being one of the dataset's.
    kept: bool,
    /// Whether the present entry is one of the dataset that rows are appended to: it stays in its split.
    is_old: bool,
    /// Whether rows of one entry belong together though their splits differ.
    joins_splits: bool,
    /// Whether the dataset that rows are appended to has cells that were drawn.
    draws_before: bool,
    merged: Merged,
}

impl<'a, const W: usize, P: Payload> Merger<'a, W, P> {
    fn new(
        job: &'a Job<'a>,
        give: crossbeam_channel::Sender<(Split, Batch<W, P>)>,
        spare: crossbeam_channel::Receiver<Batch<W, P>>,
    ) -> Self {
        let joins_splits = match job.layout.splitter {
            Splitter::Given => false,
            Splitter::Time { .. } => true,
            Splitter::Hash { .. } => job.old.is_some(),
        };
        let batches = [(); 3].map(|()| Batch::new());
        let (sum, weighted_sum, weight) = (0.0, 0.0, 0.0);
        let merged = Merged::default();
        let draws_before = job.old.is_some_and(|old| old.dataset.manifest().absent.is_some());
        let (current, count, kept, is_old) = (None, 0, false, false);
        Merger {
            job,
            give,
            spare,
            batches,
            current,
            sum,
            weighted_sum,
            weight,
            count,
            kept,
            is_old,
            joins_splits,
            draws_before,
            merged,
        }
    }

    /// Whether the present entry has this key.
    #[inline]
    fn is_at(&self, key: &Key<W>) -> bool {
        self.current.as_ref().is_some_and(|current| current.key == *key)
    }

    /// Hands on entries that no row falls on.
    fn pass_on(&mut self, mut entries: &[Record<W, P>]) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        self.end_entry()?;
        // All are of one split.
        let split = split_of(&entries[0]);
        while !entries.is_empty() {
            let batch = &mut self.batches[split as usize];
            let (now, later) = entries.split_at(entries.len().min(BATCH - batch.entries.len()));
            batch.entries.extend_from_slice(now);
            if batch.entries.len() == BATCH {
                self.send(split)?;
            }
            entries = later;
        }
        Ok(())
    }

    /// Whether an entry of the dataset comes before a new row. Of one cell and split the lesser value does,
    /// as among rows that are converted together, or the entry, which was there first.
    #[inline]
    fn comes_first(&self, entry: &Record<W, P>, row: &Record<W, P>) -> bool {
        match entry.key.cmp(&row.key) {
            Ordering::Equal => {
                let value = P::new(self.own(&entry.value, true), entry.value.weight());
                self.job.ties() == Ties::Arrival || value.order(&row.value).is_le()
            }
            Ordering::Less => true,
            Ordering::Greater => self.joins_splits && same_cell(&entry.key, &row.key),
        }
    }

    /// A value in its own units: those of the dataset are kept transformed.
    #[inline]
    fn own(&self, value: &P, old: bool) -> f64 {
        match self.job.options.transform.filter(|_| old) {
            Some(transform) => transform.restore(value.value()),
            None => value.value(),
        }
    }

    #[inline]
    fn take(&mut self, record: &Record<W, P>, old: bool) -> Result<()> {
        if record.key[W - 1] & 3 == DRAWN {
            return self.take_drawn(*record);
        }
        if self.draws_before && self.replaces(record, old) {
            return Ok(());
        }
        let value = self.own(&record.value, old);
        if let Some(current) = &mut self.current {
            let same_cell = same_cell(&current.key, &record.key);
            let same_split = current.key[W - 1] == record.key[W - 1];
            if same_cell && (same_split || self.joins_splits) && !(old && self.is_old) {
                // Split by time, an entry belongs where its latest row does; one that was there stays.
                if old || !self.is_old {
                    current.key = record.key;
                }
                self.merged.met += u64::from(old || self.is_old);
                self.is_old |= old;
                self.count += 1;
                self.sum += value;
                if let Some(weight) = record.value.weight() {
                    self.weighted_sum += weight * value;
                    self.weight += weight;
                }
                if self.job.options.duplicates == Duplicates::Last {
                    current.value = record.value;
                    self.kept = old;
                }
                self.merged.duplicates += 1;
                if self.job.options.duplicates == Duplicates::Error {
                    let entry = self.job.labels(&record.key)?;
                    let what = match self.is_old {
                        true => "a new row has an entry of the dataset",
                        false => "two rows have the same entry",
                    };
                    return Err(Error::request(format!(
                        "{what} ({entry}): `duplicates` mean, sum, first or last joins them"
                    )));
                }
                return Ok(());
            }
            self.merged.overlap += u64::from(same_cell);
        }
        self.end_entry()?;
        self.current = Some(*record);
        (self.is_old, self.kept) = (old, old);
        self.sum = value;
        self.weight = record.value.weight().unwrap_or(0.0);
        self.weighted_sum = self.weight * self.sum;
        self.count = 1;
        Ok(())
    }

    /// Where the dataset has cells that were drawn as zeros, a row that falls on one takes its place. Says whether the
    /// record is a zero that a row has taken the place of.
    fn replaces(&mut self, record: &Record<W, P>, old: bool) -> bool {
        let zero = old && record.value.value() == 0.0;
        self.merged.zeros += u64::from(zero);
        let here = self.current.as_ref().filter(|current| same_cell(&current.key, &record.key));
        let Some(current) = here else { return false };
        let current_zero = self.is_old && self.count == 1 && current.value.value() == 0.0;
        if !old && current_zero {
            (self.current, self.is_old) = (None, false);
        }
        self.merged.replaced += u64::from(zero || !old && current_zero);
        zero
    }

    /// Takes a cell that was drawn, unless it is there already.
    fn take_drawn(&mut self, mut record: Record<W, P>) -> Result<()> {
        let same = |current: &Record<W, P>| same_cell(&current.key, &record.key);
        let Some(absent) = self.job.absent.filter(|_| !self.current.as_ref().is_some_and(same)) else {
            return Ok(());
        };
        self.end_entry()?;
        let mut indices = [0; MAX_ORDER];
        let order = self.job.level_dims.len();
        self.job.layout.packing.unpack(&record.key, &mut indices[..order]);
        record.key[W - 1] = record.key[W - 1] & !3 | absent.split(&indices[..order]) as u64;
        self.merged.absent += 1;
        self.is_old = false;
        (self.sum, self.weight, self.weighted_sum) = (0.0, record.value.weight().unwrap_or(0.0), 0.0);
        (self.count, self.kept) = (1, false);
        self.current = Some(record);
        Ok(())
    }

    #[inline]
    fn end_entry(&mut self) -> Result<()> {
        let Some(mut entry) = self.current.take() else { return Ok(()) };
        let split = split_of(&entry);
        if self.count > 1 {
            let weight = entry.value.weight().map(|_| self.weight);
            match self.job.options.duplicates {
                // Rows that all weigh nothing have a plain mean.
                Duplicates::Mean if self.weight > 0.0 => {
                    entry.value = P::new(self.weighted_sum / self.weight, weight);
                    self.kept = false;
                }
                Duplicates::Mean => {
                    entry.value = P::new(self.sum / self.count as f64, weight);
                    self.kept = false;
                    if self.job.weighing == Weighing::Counts {
                        let batch = &mut self.batches[split as usize];
                        batch.joined.push((batch.entries.len(), self.count));
                    }
                }
                Duplicates::Sum => {
                    entry.value = P::new(self.sum, weight);
                    self.kept = false;
                }
                Duplicates::Error | Duplicates::First | Duplicates::Last => {}
            }
            if !entry.value.value().is_finite() || entry.value.weight().is_some_and(|w| !w.is_finite()) {
                let labels = self.job.labels(&entry.key)?;
                return Err(Error::request(format!(
                    "the values of entry ({labels}) are too large to be joined"
                )));
            }
        }
        if let Some(transform) = self.job.options.transform.filter(|_| !self.kept) {
            let kept = match transform.apply(entry.value.value()) {
                Ok(kept) => kept,
                Err(what) => {
                    let labels = self.job.labels(&entry.key)?;
                    return Err(Error::request(format!("the value of entry ({labels}) {what}")));
                }
            };
            entry.value = P::new(kept, entry.value.weight());
        }
        let batch = &mut self.batches[split as usize];
        batch.entries.push(entry);
        if batch.entries.len() == BATCH { self.send(split) } else { Ok(()) }
    }

    fn send(&mut self, split: Split) -> Result<()> {
        let empty = self.spare.try_recv().unwrap_or_else(|_| Batch::new());
        let batch = std::mem::replace(&mut self.batches[split as usize], empty);
        // Nobody listens only when the writer has failed: its own error is reported.
        self.give.send((split, batch)).map_err(|_| Error::Interrupted)
    }

    fn finish(mut self) -> Result<Merged> {
        self.end_entry()?;
        let drawn = self.job.old.and_then(|old| old.dataset.manifest().absent).unwrap_or(0);
        if self.merged.replaced > 0 && self.merged.zeros > drawn {
            return Err(Error::request(format!(
                "{} new rows fall on zeros of the dataset, of which some were observed and others drawn (`absent`), and \
                 nothing tells which: convert all rows together",
                self.merged.replaced
            )));
        }
        for split in Split::ALL {
            if !self.batches[split as usize].entries.is_empty() {
                self.send(split)?;
            }
        }
        Ok(self.merged)
    }
}
