//! Spooled rows to a dataset: final indices, sort, duplicates, shards, manifest.

use super::gather::Gather;
use super::options::{ConvertOptions, Converted, Duplicates, SplitRule};
use super::order;
use super::resolve::{self, ModeIndex, Resolved, f64_of};
use super::split::{Splitter, time_thresholds};
use crate::MAX_ORDER;
use crate::budget::Budget;
use crate::control::{Control, Unit};
use crate::error::{Error, Result};
use crate::ingest::TimesSeen;
use crate::shard::{DatasetWriter, Manifest, Mode, ModeStatistics, Split, Weights, format_version};
use crate::sort::{Key, Packing, Payload, Record, Sorter, Ties};
use crate::storage::{Staging, make_dir};
use bytemuck::Pod;
use std::path::Path;

/// Entries that go to the writing thread at a time.
const BATCH: usize = 1 << 14;

pub(super) fn build(
    gather: Gather,
    options: &ConvertOptions,
    staging: Staging<'_>,
    budget: &Budget,
    scratch: &Path,
    control: &Control,
) -> Result<Converted> {
    let Gather {
        names,
        value_name,
        weight_name,
        modes,
        mut spool,
        tagged,
        timed,
        pairs,
        times_seen,
        bad,
        first_bad,
        ..
    } = gather;
    let weighted = weight_name.is_some();
    let value_at: usize = modes.iter().map(super::gather::ModeGather::width).sum();
    let time_at = value_at + 8 + 8 * usize::from(weighted);
    let record = time_at + 8 * usize::from(timed) + usize::from(tagged);
    let resolved = names.iter().zip(modes).enumerate();
    let resolved =
        resolved.map(|(position, (name, mode))| resolve::resolve(name, position, mode, &times_seen));
    let resolved = resolved.collect::<Result<Vec<Resolved>>>()?;
    let dims: Vec<u32> = resolved.iter().map(|mode| mode.dim).collect();
    let (mode_order, mode_order_reason) = order::choose(&names, &dims, &pairs);
    let level_dims: Vec<u32> = mode_order.iter().map(|&mode| dims[mode]).collect();

    let (splitter, split_rule) = match options.split {
        _ if tagged => (Splitter::Given, "given files".to_string()),
        SplitRule::Shares(shares) => {
            let [train, validation, test] = shares.map(|share| 100.0 * share);
            let rule = format!("{train:.4}/{validation:.4}/{test:.4} by hash, seed {}", options.seed);
            (Splitter::by_hash(shares, options.seed), rule.replace(".0000", ""))
        }
        SplitRule::Time => {
            if times_seen.is_mixed(TimesSeen::SPLIT) {
                return Err(Error::request(
                    "--split time: the times are both dates and numbers: write all of them in one way",
                ));
            }
            let (train, validation) = time_thresholds(&mut spool, record, time_at, control)?;
            (
                Splitter::Time { train, validation },
                "time: the latest tenth to test, the tenth before to validation".into(),
            )
        }
    };
    let rows = spool.len();
    let packing = Packing::new(&level_dims, 2);
    let layout = Layout {
        record,
        value_at,
        time_at,
        weighted,
        modes: &resolved,
        mode_order: &mode_order,
        packing: &packing,
        splitter,
    };
    let writing =
        budget.reserve(DatasetWriter::memory(&level_dims, weighted) + (4 << 20), "writing shards")?;
    let sorting = budget.reserve(budget.free() * 9 / 10, "sorting")?;
    let job = Job {
        layout,
        options,
        names: &names,
        level_dims: &level_dims,
        staging: &staging,
        scratch,
        control,
        rows,
        memory: sorting.bytes(),
    };
    let (written, merged) = match (packing.bits(), weighted) {
        (0..=64, false) => job.run::<1, f64>(spool)?,
        (65..=128, false) => job.run::<2, f64>(spool)?,
        (_, false) => job.run::<4, f64>(spool)?,
        (0..=64, true) => job.run::<1, [f64; 2]>(spool)?,
        (65..=128, true) => job.run::<2, [f64; 2]>(spool)?,
        (_, true) => job.run::<4, [f64; 2]>(spool)?,
    };
    drop((writing, sorting));
    if !written.values.sum_of_squares.is_finite() {
        let largest = written.values.max.max(-written.values.min);
        return Err(Error::request(format!(
            "the values are too large to be squared and summed (up to {largest:e}): scale them down"
        )));
    }

    let weights = weight_name.zip(written.weights).map(|(column, sums)| Weights {
        column,
        train: sums[0],
        validation: sums[1],
        test: sums[2],
    });
    if let Some(Weights { column, train, .. }) = &weights {
        if !train.squares.is_finite() || !train.sum.is_finite() {
            return Err(Error::request(format!(
                "the weights ({column}, up to {:e}) are too large to be summed: scale them down",
                train.max
            )));
        }
        if train.sum == 0.0 && written.splits[0].entries > 0 {
            return Err(Error::request(format!(
                "all train entries have the weight ({column}) 0: there is nothing to fit"
            )));
        }
    }

    let disk = staging.disk();
    let labels_directory = staging.path().join("modes");
    let mut mode_records = Vec::new();
    for (position, (name, mode)) in names.iter().zip(&resolved).enumerate() {
        if matches!(mode.index, ModeIndex::Ids(_)) {
            make_dir(disk, &labels_directory)?;
        }
        let kind = resolve::kind(mode, name, position, disk, staging.path())?;
        let level = mode_order.iter().position(|&other| other == position).unwrap_or(0);
        let (in_train, only_held_out) = written.seen[level];
        let statistics = ModeStatistics { in_train, only_held_out };
        mode_records.push(Mode { name: name.clone(), dim: mode.dim, kind, statistics });
    }
    let mut splits = written.splits.into_iter();
    let mut next = || splits.next().unwrap_or_default();
    let manifest = Manifest {
        format_version: format_version(weights.is_some()),
        written_by: concat!("tenfill ", env!("CARGO_PKG_VERSION")).into(),
        modes: mode_records,
        value: value_name,
        mode_order,
        mode_order_reason,
        duplicates: merged.duplicates,
        duplicates_rule: options.duplicates.name().into(),
        split_rule,
        values: written.values,
        weights,
        part: None,
        train: next(),
        validation: next(),
        test: next(),
    };
    if manifest.train.entries == 0 {
        return Err(Error::request("no entry falls into train: give more rows or another --split"));
    }
    manifest.write(disk, staging.path())?;
    let notes = notes(&manifest, &merged, bad, first_bad, tagged);
    staging.commit()?;
    Ok(Converted { manifest, rows, bad_rows: bad, overlap: merged.overlap, notes })
}

fn notes(
    manifest: &Manifest,
    merged: &Merged,
    bad: u64,
    first_bad: Option<String>,
    given: bool,
) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(first) = first_bad {
        notes.push(format!("{bad} bad rows were left out; the first: {first}"));
    }
    if merged.duplicates > 0 {
        let rule = &manifest.duplicates_rule;
        notes.push(format!(
            "{} rows fell on an entry that was there already (--duplicates {rule})",
            merged.duplicates
        ));
    }
    if merged.overlap > 0 {
        notes
            .push(format!("{} entries stand in more than one of train, validation and test", merged.overlap));
    }
    for mode in &manifest.modes {
        let Mode { name, dim, statistics, .. } = mode;
        let unseen = statistics.only_held_out;
        if unseen > 0 {
            let where_from =
                if given { "the given validation and test files" } else { "validation and test" };
            notes.push(format!(
                "{unseen} of {dim} ids of {name} occur only in {where_from}: they cannot be learned"
            ));
        }
        let empty = u64::from(*dim) - statistics.in_train - unseen;
        if empty > 0 {
            let why = if manifest.weights.is_some() { ", or none that has weight" } else { " at all" };
            notes.push(format!("{empty} of {dim} indices of {name} have no entry{why}"));
        }
        let times = ["timestamp", "date", "time", "datetime", "ts"].contains(&name.to_lowercase().as_str());
        let ids =
            !matches!(mode.kind, crate::shard::ModeKind::Bins(_) | crate::shard::ModeKind::Range { .. });
        if times && ids && u64::from(*dim) * 4 > manifest.train.entries {
            notes.push(format!("{name} has {dim} distinct values; --bin {name}=7d would group them"));
        }
    }
    notes
}

/// How a spooled row is laid out, and what becomes of it.
struct Layout<'a> {
    record: usize,
    value_at: usize,
    time_at: usize,
    weighted: bool,
    modes: &'a [Resolved],
    mode_order: &'a [usize],
    packing: &'a Packing,
    splitter: Splitter,
}

impl Layout<'_> {
    #[inline]
    fn key<const W: usize, P: Payload>(&self, row: &[u8]) -> Record<W, P> {
        let mut indices = [0; MAX_ORDER];
        let mut hashes = [0; MAX_ORDER];
        let mut at = 0;
        for (position, mode) in self.modes.iter().enumerate() {
            (indices[position], hashes[position]) = mode.index.read(&row[at..]);
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
struct Merged {
    duplicates: u64,
    overlap: u64,
}

struct Job<'a> {
    layout: Layout<'a>,
    options: &'a ConvertOptions,
    names: &'a [String],
    level_dims: &'a [u32],
    staging: &'a Staging<'a>,
    scratch: &'a Path,
    control: &'a Control,
    rows: u64,
    memory: u64,
}

impl Job<'_> {
    fn run<const W: usize, P: Payload>(
        &self,
        mut spool: super::spool::Spool,
    ) -> Result<(crate::shard::Written, Merged)>
    where
        Record<W, P>: Pod,
    {
        let ties = match self.options.duplicates {
            Duplicates::First | Duplicates::Last => Ties::Arrival,
            _ => Ties::Value,
        };
        let packing = self.layout.packing;
        let mut sorter = Sorter::<W, P>::new(packing.bits(), ties, self.memory, self.scratch);
        self.control.progress().stage("sort", Unit::Rows, self.rows);
        spool.for_each_piece(|piece| {
            self.control.check()?;
            for row in piece.chunks_exact(self.layout.record) {
                sorter.push(self.layout.key(row))?;
            }
            self.control.progress().advance(sorter.len(), &"");
            Ok(())
        })?;
        drop(spool);
        self.control.progress().stage("write", Unit::Rows, self.rows);
        let disk = self.staging.disk();
        let mut writer = DatasetWriter::create(
            disk,
            self.staging.path(),
            self.level_dims,
            self.rows,
            self.layout.weighted,
        )?;
        let (give, take) = crossbeam_channel::bounded::<Vec<Record<W, P>>>(4);
        let order = self.level_dims.len();
        std::thread::scope(|scope| {
            let writing = scope.spawn(move || -> Result<crate::shard::Written> {
                let mut indices = [0; MAX_ORDER];
                for batch in take {
                    for entry in &batch {
                        let tag = packing.unpack(&entry.key, &mut indices[..order]);
                        let split = Split::ALL[tag.min(2) as usize];
                        writer.push(split, &indices[..order], entry.value.value(), entry.value.weight())?;
                    }
                }
                writer.finish()
            });
            let mut merger = Merger::new(self, give);
            let mut done = 0u64;
            let sorted = sorter.finish(self.control, |record| {
                done += 1;
                if done.is_multiple_of(1 << 18) {
                    self.control.progress().advance(done, &"");
                }
                merger.take(record)
            });
            let merged = sorted.and_then(|()| merger.finish());
            let written = writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            // The writer's own error is the cause; the merger only sees that nobody listens.
            match (written, merged) {
                (Err(Error::Interrupted), Err(error)) | (Ok(_), Err(error)) => Err(error),
                (Err(error), _) => Err(error),
                (Ok(written), Ok(merged)) => Ok((written, merged)),
            }
        })
    }

    fn labels<const W: usize>(&self, key: &Key<W>) -> String {
        let mut levels = [0; MAX_ORDER];
        self.layout.packing.unpack(key, &mut levels[..self.level_dims.len()]);
        let label = |(level, &mode): (usize, &usize)| {
            let resolved = &self.layout.modes[mode];
            let text = match &resolved.index {
                ModeIndex::Ids(collected) => {
                    collected.label(collected.codes()[levels[level] as usize]).into_owned()
                }
                ModeIndex::Indices { base } => (i64::from(levels[level]) + base).to_string(),
                ModeIndex::Bins { .. } => format!("bin {}", levels[level]),
            };
            (mode, format!("{} {text}", self.names[mode]))
        };
        let mut labels: Vec<(usize, String)> = self.layout.mode_order.iter().enumerate().map(label).collect();
        labels.sort();
        labels.into_iter().map(|(_, label)| label).collect::<Vec<_>>().join(", ")
    }
}

/// Joins rows of the same entry. Weights of rows that are joined add up, and the mean is weighted.
struct Merger<'a, const W: usize, P> {
    job: &'a Job<'a>,
    give: crossbeam_channel::Sender<Vec<Record<W, P>>>,
    batch: Vec<Record<W, P>>,
    current: Option<Record<W, P>>,
    /// Of the values of the present entry's rows.
    sum: f64,
    /// Of value times weight, and of the weights.
    weighted_sum: f64,
    weight: f64,
    count: u64,
    by_time: bool,
    merged: Merged,
}

impl<'a, const W: usize, P: Payload> Merger<'a, W, P> {
    fn new(job: &'a Job<'a>, give: crossbeam_channel::Sender<Vec<Record<W, P>>>) -> Self {
        let by_time = matches!(job.layout.splitter, Splitter::Time { .. });
        let batch = Vec::with_capacity(BATCH);
        let (sum, weighted_sum, weight) = (0.0, 0.0, 0.0);
        let merged = Merged::default();
        Merger { job, give, batch, current: None, sum, weighted_sum, weight, count: 0, by_time, merged }
    }

    #[inline]
    fn take(&mut self, record: &Record<W, P>) -> Result<()> {
        if let Some(current) = &mut self.current {
            // The tag lies in the last two bits.
            let same_cell = current.key[..W - 1] == record.key[..W - 1]
                && current.key[W - 1] >> 2 == record.key[W - 1] >> 2;
            let same_split = current.key[W - 1] == record.key[W - 1];
            if same_cell && (same_split || self.by_time) {
                // Split by time, an entry belongs where its latest row does.
                current.key = record.key;
                self.count += 1;
                self.sum += record.value.value();
                if let Some(weight) = record.value.weight() {
                    self.weighted_sum += weight * record.value.value();
                    self.weight += weight;
                }
                if self.job.options.duplicates == Duplicates::Last {
                    current.value = record.value;
                }
                self.merged.duplicates += 1;
                if self.job.options.duplicates == Duplicates::Error {
                    let entry = self.job.labels(&record.key);
                    return Err(Error::request(format!(
                        "two rows have the same entry ({entry}): --duplicates mean, sum, first or last joins them"
                    )));
                }
                return Ok(());
            }
            self.merged.overlap += u64::from(same_cell);
        }
        self.end_entry()?;
        self.current = Some(*record);
        self.sum = record.value.value();
        self.weight = record.value.weight().unwrap_or(0.0);
        self.weighted_sum = self.weight * self.sum;
        self.count = 1;
        Ok(())
    }

    #[inline]
    fn end_entry(&mut self) -> Result<()> {
        let Some(mut entry) = self.current.take() else { return Ok(()) };
        if self.count > 1 {
            let weight = entry.value.weight().map(|_| self.weight);
            match self.job.options.duplicates {
                // Rows that all weigh nothing have a plain mean.
                Duplicates::Mean if self.weight > 0.0 => {
                    entry.value = P::new(self.weighted_sum / self.weight, weight);
                }
                Duplicates::Mean => entry.value = P::new(self.sum / self.count as f64, weight),
                Duplicates::Sum => entry.value = P::new(self.sum, weight),
                Duplicates::Error | Duplicates::First | Duplicates::Last => {}
            }
            if !entry.value.value().is_finite() || entry.value.weight().is_some_and(|w| !w.is_finite()) {
                let labels = self.job.labels(&entry.key);
                return Err(Error::request(format!(
                    "the values of entry ({labels}) are too large to be joined"
                )));
            }
        }
        self.batch.push(entry);
        if self.batch.len() == BATCH { self.send() } else { Ok(()) }
    }

    fn send(&mut self) -> Result<()> {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        // Nobody listens only when the writer has failed: its own error is reported.
        self.give.send(batch).map_err(|_| Error::Interrupted)
    }

    fn finish(mut self) -> Result<Merged> {
        self.end_entry()?;
        self.send()?;
        Ok(self.merged)
    }
}
