//! Takes rows in: ids become provisional numbers, the rest is counted and spooled.

use super::generations::Spill;
use super::resolve::mixed;
use super::spool::{RecordLayout, Spool};
use crate::budget::{Budget, Reservation};
use crate::error::{Error, Result};
use crate::ingest::columns::Binning;
use crate::ingest::number::whole;
use crate::ingest::sketch::{Sketch, mix};
use crate::ingest::{Cell, ColumnTimes, Dictionary, FilePlan, ModeCells, ModeRole, RowBatch};
use crate::shard::{DatasetWriter, Split};
use crate::times::TimeUnit;
use std::path::{Path, PathBuf};

/// The least and the largest number of a binned column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub least: f64,
    pub most: f64,
}

impl Span {
    const EMPTY: Span = Span { least: f64::INFINITY, most: f64::NEG_INFINITY };

    pub(super) fn map(self, of: impl Fn(f64) -> f64) -> Self {
        Span { least: of(self.least), most: of(self.most) }
    }

    fn add(&mut self, x: f64) {
        self.least = self.least.min(x);
        self.most = self.most.max(x);
    }
}

/// Ids may have so much memory in any case: below it, they would go to disk with every batch of rows.
const LEAST_FOR_IDS: u64 = 2 << 20;
/// What is on its way to the shards.
pub(super) const WRITING: u64 = 4 << 20;

/// The ids of a mode so far.
#[derive(Debug)]
pub(super) struct IdsSoFar {
    pub dictionary: Dictionary,
    /// Those that did not fit into memory.
    pub spill: Option<Spill>,
    /// Whether all ids of the dataset that rows are appended to are whole numbers: `5.0` is 5 then.
    whole: bool,
    /// The first that was written so.
    pointed: Option<i64>,
}

impl IdsSoFar {
    fn new(dictionary: Dictionary) -> Self {
        IdsSoFar { dictionary, spill: None, whole: false, pointed: None }
    }

    /// The provisional number of an id, and its hash.
    #[inline]
    fn code(&mut self, cell: Cell, batch: &RowBatch) -> (u32, u64) {
        let cell = if self.whole { self.without_point(cell, batch) } else { cell };
        self.dictionary.code(cell, batch)
    }

    fn without_point(&mut self, cell: Cell, batch: &RowBatch) -> Cell {
        let Cell::Text { start, length } = cell else { return cell };
        match std::str::from_utf8(batch.text_of(start, length)).ok().and_then(whole) {
            Some(number) => {
                self.pointed.get_or_insert(number);
                Cell::Integer(number)
            }
            None => cell,
        }
    }

    /// Bytes of memory that they take now, or while their rows are looked up.
    fn memory(&self) -> u64 {
        let spilled = self.spill.as_ref().map_or(0, Spill::memory);
        self.dictionary.dense_memory() + self.dictionary.extras().memory().max(spilled)
    }

    /// How many there are, at the most.
    fn most(&self) -> u64 {
        self.dictionary.most() + self.spill.as_ref().map_or(0, Spill::most)
    }

    /// Moves ids out of memory; `rows` have come so far.
    fn spill(&mut self, rows: u64, scratch: &Path) -> Result<()> {
        let spill = match &mut self.spill {
            Some(spill) => spill,
            none => none.insert(Spill::new(scratch)?),
        };
        spill.add(self.dictionary.take_extras(), rows)
    }
}

/// What is known of a mode so far.
#[derive(Debug)]
pub(super) enum ModeGather {
    Ids(Box<IdsSoFar>),
    Indices { base: i64, dim: Option<u32>, largest: u32 },
    Bins { binning: Binning, span: Span },
}

impl ModeGather {
    /// Bytes of a spooled cell.
    pub(super) fn width(&self) -> usize {
        if matches!(self, ModeGather::Bins { .. }) { 8 } else { 4 }
    }
}

/// Everything that is collected while rows come in.
pub struct Gather {
    pub(super) names: Vec<String>,
    pub(super) value_name: String,
    /// The column of weights; every spooled row carries one then, behind its value.
    pub(super) weight_name: Option<String>,
    pub(super) modes: Vec<ModeGather>,
    pub(super) spool: Spool,
    /// Whether every spooled row carries the split it belongs to.
    pub(super) tagged: bool,
    /// Whether every spooled row carries a time for the split.
    pub(super) timed: bool,
    /// Whether nobody has named the modes.
    pub(super) guessed: bool,
    /// The column of these times, where it is no mode.
    pub(super) time_name: Option<String>,
    pub(super) pairs: Pairs,
    pub(super) times: ColumnTimes,
    pub(super) bad: u64,
    /// Rows without a value, and rows that do not meet the conditions.
    pub(super) empty: u64,
    pub(super) left_out: u64,
    pub(super) first_bad: Option<String>,
    skip_bad: u64,
    memory: Reservation,
    budget: Budget,
    /// What the rest of the conversion will need.
    later: u64,
    scratch: PathBuf,
    hashes: Vec<u64>,
}

impl Gather {
    pub(super) fn new(
        plan: &FilePlan,
        tagged: bool,
        budget: &Budget,
        scratch: &Path,
        skip_bad: u64,
    ) -> Result<Self> {
        let modes = plan.modes.iter().map(|mode| match mode.role {
            ModeRole::Ids => {
                // A bit for every small integer, as far as all modes together keep to a small part of the
                // budget: half as much again is needed to count them.
                let bits = budget.total() / (12 * plan.modes.len() as u64) * 8 * 2 / 3;
                let dictionary = Dictionary::new(usize::try_from(bits).unwrap_or(usize::MAX));
                ModeGather::Ids(Box::new(IdsSoFar::new(dictionary)))
            }
            ModeRole::Indices { base, dim } => ModeGather::Indices { base, dim, largest: 0 },
            ModeRole::Bins(binning) => ModeGather::Bins { binning, span: Span::EMPTY },
        });
        let names = plan.modes.iter().map(|mode| mode.name.clone()).collect();
        let apart = plan.time.filter(|time| plan.modes.iter().all(|mode| mode.column != *time));
        let time_name = apart.map(|column| match plan.names.as_ref().and_then(|names| names.get(column)) {
            Some(name) if !name.is_empty() => name.clone(),
            _ => (column + 1).to_string(),
        });
        let gather = Self::with(
            names,
            plan.value_name.clone(),
            plan.weight.as_ref().map(|(_, name)| name.clone()),
            modes.collect(),
            tagged,
            plan.time.is_some(),
            budget,
            scratch,
            skip_bad,
        )?;
        Ok(Gather { time_name, ..gather })
    }

    /// For entries that a program makes: indices from 0, each with its split.
    pub(super) fn for_indices(
        names: &[String],
        dims: &[u32],
        budget: &Budget,
        scratch: &Path,
    ) -> Result<Self> {
        let modes = dims.iter().map(|&dim| ModeGather::Indices { base: 1, dim: Some(dim), largest: 0 });
        Self::with(names.to_vec(), "value".into(), None, modes.collect(), true, false, budget, scratch, 0)
    }

    fn with(
        names: Vec<String>,
        value_name: String,
        weight_name: Option<String>,
        modes: Vec<ModeGather>,
        tagged: bool,
        timed: bool,
        budget: &Budget,
        scratch: &Path,
        skip_bad: u64,
    ) -> Result<Self> {
        let (order, weighted) = (modes.len(), weight_name.is_some());
        let layout = layout(&modes, weighted, timed, tagged);
        let memory = budget.reserve(1 << 20, "the dictionaries of ids")?;
        Ok(Gather {
            pairs: Pairs::new(names.len()),
            names,
            value_name,
            weight_name,
            modes,
            spool: Spool::new(layout.bytes, budget, scratch)?,
            tagged,
            timed,
            guessed: false,
            time_name: None,
            times: ColumnTimes::default(),
            bad: 0,
            empty: 0,
            left_out: 0,
            first_bad: None,
            skip_bad,
            memory,
            later: later(order, weighted),
            budget: budget.clone(),
            scratch: scratch.into(),
            hashes: Vec::new(),
        })
    }

    /// Says of which modes of ids `5.0` is 5, as all ids of the dataset that rows are appended to are whole numbers.
    pub(super) fn set_whole(&mut self, whole: &[bool]) {
        for (mode, &whole) in self.modes.iter_mut().zip(whole) {
            if let ModeGather::Ids(ids) = mode {
                ids.whole = whole;
            }
        }
    }

    /// Whether a further file has the same modes.
    pub(super) fn same_modes(&self, plan: &FilePlan) -> Result<(), String> {
        let names: Vec<&str> = plan.modes.iter().map(|mode| mode.name.as_str()).collect();
        if names == self.names.iter().map(String::as_str).collect::<Vec<_>>() {
            return Ok(());
        }
        Err(format!(
            "the modes here are {}, those of the first file {}",
            names.join(", "),
            self.names.join(", ")
        ))
    }

    /// What is said of ids that may not be meant as such.
    pub(super) fn odd_ids(&self) -> Vec<String> {
        let mut said = Vec::new();
        for (name, mode) in self.names.iter().zip(&self.modes) {
            let ModeGather::Ids(ids) = mode else { continue };
            if let Some(number) = ids.pointed {
                said.push(format!(
                    "{name} has ids like '{number}.0': they are taken for '{number}', for all ids of the dataset are whole \
                     numbers"
                ));
            }
            let (missing, twice) = ids.dictionary.odd();
            if let Some(first) = missing.first() {
                let all: Vec<String> = missing.iter().take(3).map(|id| format!("'{id}'")).collect();
                let rows = match missing.len() {
                    1 => format!("one id of {name} is {} and all others are numbers: is it", all[0]),
                    _ => format!("{} are ids of {name} and all others are numbers: is each", all.join(", ")),
                };
                said.push(format!(
                    "{rows} a missing value? `where` \"{name} != '{first}'\" leaves such rows out"
                ));
            }
            if let Some(number) = twice {
                said.push(format!(
                    "{name} has both '{number}' and '{number}.0', which are two ids here: write whole numbers without \
                     a point if they mean the same"
                ));
            }
        }
        said
    }

    /// Rows taken so far.
    pub fn rows(&self) -> u64 {
        self.spool.len()
    }

    /// Rows that cannot be used.
    pub fn bad_rows(&self) -> u64 {
        self.bad
    }

    /// Takes a batch of rows that belong to `part`, where that is given.
    pub(super) fn take(&mut self, batch: &RowBatch, part: Option<Split>) -> Result<()> {
        for bad in &batch.bad {
            self.bad += 1;
            let error = Error::Row { file: batch.file.clone(), line: bad.line, what: bad.what.clone() };
            if self.bad > self.skip_bad {
                if self.skip_bad == 0 {
                    return Err(error);
                }
                let what = format!(
                    "{} (this is bad row {}, `skip_bad` allows {})",
                    bad.what, self.bad, self.skip_bad
                );
                return Err(Error::Row { file: batch.file.clone(), line: bad.line, what });
            }
            self.first_bad.get_or_insert_with(|| error.to_string());
        }
        self.empty += batch.empty;
        self.left_out += batch.left_out;
        self.times.join(&batch.times_seen, &batch.file);
        for (position, name) in self.names.iter().enumerate() {
            self.times.check(position).map_err(|other| mixed(&format!("{name} holds"), other))?;
        }
        let rows = batch.len();
        let layout = self.layout();
        let record = layout.bytes;
        let out = self.spool.extend(rows)?;
        self.hashes.resize(rows * batch.modes.len(), 0);
        let hashes = &mut self.hashes;
        let order = batch.modes.len();
        let mut at = 0;
        for (position, (mode, cells)) in self.modes.iter_mut().zip(&batch.modes).enumerate() {
            match (mode, cells) {
                (ModeGather::Ids(ids), ModeCells::Ids(cells)) => {
                    for (row, &cell) in cells.iter().enumerate() {
                        let (code, hash) = ids.code(cell, batch);
                        put(out, row * record + at, &code.to_le_bytes());
                        hashes[row * order + position] = hash;
                    }
                    at += 4;
                }
                (ModeGather::Indices { largest, .. }, ModeCells::Ids(cells)) => {
                    for (row, &cell) in cells.iter().enumerate() {
                        let index = if let Cell::Integer(index) = cell { index as u32 } else { 0 };
                        *largest = (*largest).max(index);
                        put(out, row * record + at, &index.to_le_bytes());
                        hashes[row * order + position] = mix(u64::from(index));
                    }
                    at += 4;
                }
                (ModeGather::Bins { binning, span }, ModeCells::Numbers(numbers)) => {
                    for (row, &number) in numbers.iter().enumerate() {
                        span.add(number);
                        put(out, row * record + at, &number.to_le_bytes());
                        // The origin is known only in the end; for counting, any will do.
                        let unit = if binning.time { TimeUnit::of(number) } else { TimeUnit::Seconds };
                        let number = unit.seconds(number).unwrap_or(number);
                        hashes[row * order + position] = mix((number / binning.width).floor() as i64 as u64);
                    }
                    at += 8;
                }
                _ => return Err(Error::request("the columns of a batch are not those of its plan")),
            }
        }
        for (row, value) in batch.values.iter().enumerate() {
            put(out, row * record + layout.value, &value.to_le_bytes());
        }
        if self.weight_name.is_some() {
            for (row, weight) in batch.weights.iter().enumerate() {
                put(out, row * record + layout.weight, &weight.to_le_bytes());
            }
        }
        if self.timed {
            for (row, time) in batch.times.iter().enumerate() {
                put(out, row * record + layout.time, &time.to_le_bytes());
            }
        }
        if self.tagged {
            let tag = part.unwrap_or(Split::Train) as u8;
            (0..rows).for_each(|row| out[row * record + layout.split] = tag);
        }
        hashes.chunks_exact(order).for_each(|row| self.pairs.add(row));
        self.fit()
    }

    /// Moves rows, and then ids, to disk until what is left fits the budget.
    fn fit(&mut self) -> Result<()> {
        let rows = self.rows();
        loop {
            let ids = self.modes.iter_mut().filter_map(|mode| match mode {
                ModeGather::Ids(ids) => Some(ids),
                _ => None,
            });
            let (mut held, mut most, mut largest) = (1 << 20, 0, None::<&mut Box<IdsSoFar>>);
            for ids in ids {
                held += ids.memory();
                most += ids.most();
                let memory = |ids: &IdsSoFar| ids.dictionary.extras().memory();
                if largest.as_ref().is_none_or(|other| memory(other) < memory(ids)) {
                    largest = Some(ids);
                }
            }
            // The shards will be written beside them.
            let later = self.later + DatasetWriter::memory_per_index(most);
            let room = self.budget.total().saturating_sub(later).max(LEAST_FOR_IDS);
            let full = largest.as_ref().is_some_and(|ids| held > room || ids.dictionary.extras().is_full());
            if !full && self.memory.resize(held).is_ok() {
                return Ok(());
            }
            self.spool.spill()?;
            match (full, self.memory.resize(held), largest.filter(|ids| !ids.dictionary.extras().is_empty()))
            {
                (false, Ok(()), _) => return Ok(()),
                (_, _, Some(ids)) => ids.spill(rows, &self.scratch)?,
                (_, result, None) => return result,
            }
        }
    }

    /// Takes entries that a program made: `indices` holds one per mode and entry.
    pub fn entries(
        &mut self,
        indices: &[u32],
        values: &[f64],
        splits: impl Iterator<Item = Split>,
    ) -> Result<()> {
        let (order, layout) = (self.modes.len(), self.layout());
        let record = layout.bytes;
        let out = self.spool.extend(values.len())?;
        let mut hashes = [0; crate::MAX_ORDER];
        for (entry, split) in splits.take(values.len()).enumerate() {
            let row = &mut out[entry * record..(entry + 1) * record];
            for (position, &index) in indices[entry * order..(entry + 1) * order].iter().enumerate() {
                put(row, 4 * position, &index.to_le_bytes());
                hashes[position] = mix(u64::from(index));
            }
            put(row, layout.value, &values[entry].to_le_bytes());
            row[layout.split] = split as u8;
            self.pairs.add(&hashes[..order]);
        }
        Ok(())
    }

    pub(super) fn layout(&self) -> RecordLayout {
        layout(&self.modes, self.weight_name.is_some(), self.timed, self.tagged)
    }
}

/// Memory that the spool, the sort and the shards need at the least when all rows are in.
fn later(order: usize, weighted: bool) -> u64 {
    DatasetWriter::memory(&vec![0; order], weighted) + WRITING + (4 << 20)
}

/// How rows of these modes are spooled.
fn layout(modes: &[ModeGather], weighted: bool, timed: bool, tagged: bool) -> RecordLayout {
    RecordLayout::new(modes.iter().map(ModeGather::width).sum(), weighted, timed, tagged)
}

#[inline]
fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    out[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Distinct pairs of ids, for every two modes, and distinct entries.
#[derive(Debug)]
pub(super) struct Pairs {
    order: usize,
    sketches: Vec<Sketch>,
    entries: Sketch,
}

impl Pairs {
    fn new(order: usize) -> Self {
        Pairs {
            order,
            sketches: vec![Sketch::default(); order * (order - 1) / 2],
            entries: Sketch::default(),
        }
    }

    #[inline]
    fn add(&mut self, hashes: &[u64]) {
        let mut sketch = self.sketches.iter_mut();
        let mut all = 0;
        for (position, &a) in hashes.iter().enumerate() {
            all = mix(all ^ a);
            for &b in &hashes[position + 1..] {
                if let Some(sketch) = sketch.next() {
                    sketch.add(mix(a ^ b.rotate_left(32)));
                }
            }
        }
        self.entries.add(all);
    }

    /// About how many pairs of modes `a` and `b` have entries.
    pub(super) fn estimate(&self, a: usize, b: usize) -> f64 {
        let (a, b) = (a.min(b), a.max(b));
        let before: usize = (0..a).map(|position| self.order - 1 - position).sum();
        self.sketches[before + b - a - 1].estimate()
    }

    /// About how many entries are distinct.
    pub(super) fn entries(&self) -> f64 {
        self.entries.estimate()
    }
}
