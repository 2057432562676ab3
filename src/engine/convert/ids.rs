//! The ids of a mode when all rows are in: their labels in order, and the way from the numbers that
//! rows carry to indices.
//!
//! Ids that are kept as bits stay in memory. The others may have been moved to disk in several
//! generations (see [`Spill`]): then their labels are merged there, and rows, which come in the order in which they were
//! spooled, are looked up with the numbers of one generation after the other.

use super::generations::{Maps, Spill};
use crate::budget::Budget;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::ingest::dictionary::{Code, Dictionary, Sorted};
use crate::ingest::label::{Key, Label, OwnedKey, hash_integer};
use std::cell::{Cell, RefCell};

/// The ids that are kept as bits, and how many of the others come before each.
#[derive(Debug, Default)]
pub(super) struct Dense {
    bits: Vec<u64>,
    /// How many come before each word.
    ranks: Vec<u32>,
    count: u32,
    /// Where others come in between: from this rank on, so many of them lie before. Ascending.
    steps: Vec<(u32, u32)>,
}

impl Dense {
    fn new(bits: Vec<u64>) -> Self {
        let mut count = 0;
        let ranks = bits.iter().map(|word| {
            let before = count;
            count += word.count_ones();
            before
        });
        let ranks = ranks.collect();
        Dense { bits, ranks, count, steps: Vec::new() }
    }

    #[inline]
    fn index(&self, value: u32) -> u32 {
        let word = value as usize / 64;
        let below = self.bits[word] & ((1u64 << (value % 64)) - 1);
        let rank = self.ranks[word] + below.count_ones();
        let passed = self.steps.partition_point(|step| step.0 <= rank);
        rank + if passed == 0 { 0 } else { self.steps[passed - 1].1 }
    }

    fn values(&self) -> Values<'_> {
        Values { bits: &self.bits, word: 0, left: self.bits.first().copied().unwrap_or(0) }
    }
}

/// The integers of a set of bits, ascending.
struct Values<'a> {
    bits: &'a [u64],
    word: usize,
    left: u64,
}

impl Iterator for Values<'_> {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        while self.left == 0 {
            self.word += 1;
            self.left = *self.bits.get(self.word)?;
        }
        let bit = self.left.trailing_zeros();
        self.left &= self.left - 1;
        Some(self.word as i64 * 64 + i64::from(bit))
    }
}

/// Gives indices to the labels that are not kept as bits, which come in order.
pub(super) struct Numbering<'a> {
    values: std::iter::Peekable<Values<'a>>,
    /// Ids kept as bits that came before.
    rank: u32,
    others: u32,
    steps: Vec<(u32, u32)>,
    /// How many steps there are, were there room for them.
    wanted: u64,
    budget: &'a Budget,
    room: crate::budget::Reservation,
    count: u32,
}

impl<'a> Numbering<'a> {
    fn new(dense: &'a Dense, budget: &'a Budget) -> Result<Self> {
        let values = dense.values().peekable();
        let room = budget.reserve(0, "the order of ids")?;
        let (rank, others, steps, wanted) = (0, 0, Vec::new(), 0);
        Ok(Numbering { values, rank, others, steps, wanted, budget, room, count: dense.count })
    }

    /// The index of the next label; an error where there are more than 2^32.
    pub(super) fn index(&mut self, key: &Key<'_>) -> Result<u32> {
        while self.values.next_if(|&value| Key::new(Label::Integer(value)) < *key).is_some() {
            self.rank += 1;
        }
        let index = self.rank.checked_add(self.others).filter(|&index| index < u32::MAX);
        let index = index.ok_or_else(|| Error::request(format!("a mode has more than {} ids", u32::MAX)))?;
        self.others += 1;
        if self.rank < self.count {
            match self.steps.last_mut() {
                Some(step) if step.0 == self.rank => step.1 = self.others,
                _ => self.step(),
            }
        }
        Ok(index)
    }

    fn step(&mut self) {
        self.wanted += 1;
        let fits = self.steps.len() < self.steps.capacity() || {
            // The old and the new copy, for a moment.
            let more = (self.steps.len() * 2).max(256);
            self.room.resize((more + self.steps.len()) as u64 * 8).is_ok()
        };
        if fits {
            self.steps.push((self.rank, self.others));
        } else {
            self.steps = Vec::new();
        }
    }

    fn finish(self) -> Result<(Vec<(u32, u32)>, u32)> {
        if self.wanted > self.steps.len() as u64 {
            // All of them, twice while they grow, and what the rest of the conversion needs.
            let taken = self.budget.total() - self.budget.free() - self.room.bytes();
            let needed = taken + taken / 4 + self.wanted * 32 + (16 << 20);
            let what = "the order of ids, whole numbers and others by turns,".into();
            return Err(Error::Budget { budget: self.budget.total(), needed, what });
        }
        Ok((self.steps, self.others))
    }
}

/// The ids of a mode, each with its index.
pub(super) struct Ids {
    dense: Dense,
    /// Of the generation whose rows are being read.
    maps: RefCell<Maps>,
    /// The first row that they do not serve.
    until: Cell<u64>,
    others: Others,
    /// How many are not kept as bits.
    count: u32,
    all_integers: bool,
}

/// Where the labels are that are not kept as bits.
enum Others {
    Held(Sorted),
    Spilled(Spill),
}

impl Ids {
    /// Fixes every id's index. `rows` is how many rows there are.
    pub(super) fn new(
        mut dictionary: Dictionary,
        spill: Option<Spill>,
        rows: u64,
        budget: &Budget,
        control: &Control,
    ) -> Result<Self> {
        let extras = dictionary.take_extras();
        let mut dense = Dense::new(dictionary.into_bits());
        let (maps, others, all_integers, until);
        let mut numbering = Numbering::new(&dense, budget)?;
        match spill {
            None => {
                let mut sorted = extras.sorted();
                let mut held = Maps::positions(&mut sorted);
                let mut indices = Vec::with_capacity(sorted.order.len());
                for position in 0..sorted.order.len() {
                    indices.push(numbering.index(&Key::new(sorted.label(position)))?);
                }
                held.point_to(&indices);
                (maps, until, all_integers) = (held, u64::MAX, sorted.all_integers());
                others = Others::Held(sorted);
            }
            Some(mut spill) => {
                spill.add(extras, rows)?;
                all_integers = spill.merge(&mut numbering, budget, control)?;
                (maps, until, others) = (Maps::default(), 0, Others::Spilled(spill));
            }
        }
        let (steps, count) = numbering.finish()?;
        dense.steps = steps;
        Ok(Ids { dense, maps: RefCell::new(maps), until: Cell::new(until), others, count, all_integers })
    }

    /// The number of distinct ids.
    pub(super) fn len(&self) -> u64 {
        u64::from(self.dense.count) + u64::from(self.count)
    }

    /// Whether all ids are integers.
    pub(super) fn all_integers(&self) -> bool {
        self.all_integers
    }

    /// Makes sure that what serves the numbers of a row is in memory, and tells the first row after it
    /// that needs something else.
    pub(super) fn bring(&self, row: u64) -> Result<u64> {
        if let Others::Spilled(spill) = &self.others
            && row >= self.until.get()
        {
            // The old one goes first: there is room for one.
            *self.maps.borrow_mut() = Maps::default();
            let (maps, until) = spill.load(row)?;
            *self.maps.borrow_mut() = maps;
            self.until.set(until);
        }
        Ok(self.until.get())
    }

    /// The index and the hash of an id, from the number that a row carries.
    #[inline]
    pub(super) fn index(&self, code: u32) -> (u32, u64) {
        match Code::of(code) {
            Code::Dense(value) => (self.dense.index(value), hash_integer(value.into())),
            Code::Integer(n) => {
                let maps = self.maps.borrow();
                (maps.to_index[0][n], hash_integer(maps.seeds[0][n] as i64))
            }
            Code::Text(n) => {
                let maps = self.maps.borrow();
                (maps.to_index[1][n], maps.seeds[1][n])
            }
        }
    }

    /// All labels, in the order of their indices.
    pub(super) fn labels(&self) -> Result<InOrder<'_>> {
        let others = match &self.others {
            Others::Held(sorted) => Stream::Held { sorted, next: 0 },
            Others::Spilled(spill) => Stream::Spilled(spill.labels()),
        };
        let mut all = InOrder { values: self.dense.values().peekable(), others, next: None };
        all.next = all.others.next()?;
        Ok(all)
    }
}

enum Stream<'a> {
    Held { sorted: &'a Sorted, next: usize },
    Spilled(super::generations::Reader<'a>),
}

impl Stream<'_> {
    fn next(&mut self) -> Result<Option<OwnedKey>> {
        match self {
            Stream::Held { sorted, next } => {
                let label = (*next < sorted.order.len()).then(|| OwnedKey::new(sorted.label(*next)));
                *next += 1;
                Ok(label)
            }
            Stream::Spilled(reader) => reader.next(),
        }
    }
}

/// Labels in the order of their indices.
pub(super) struct InOrder<'a> {
    values: std::iter::Peekable<Values<'a>>,
    others: Stream<'a>,
    next: Option<OwnedKey>,
}

impl Iterator for InOrder<'_> {
    type Item = Result<OwnedKey>;

    fn next(&mut self) -> Option<Result<OwnedKey>> {
        let value = match (&self.next, self.values.peek()) {
            (Some(other), Some(&value)) if Key::new(Label::Integer(value)) < other.key() => {
                self.values.next()
            }
            (None, _) => self.values.next(),
            _ => None,
        };
        if let Some(value) = value {
            return Some(Ok(OwnedKey::new(Label::Integer(value))));
        }
        let label = self.next.take()?;
        match self.others.next() {
            Ok(next) => self.next = next,
            Err(error) => return Some(Err(error)),
        }
        Some(Ok(label))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::number::parse_integer;
    use crate::ingest::{Cell, RowBatch};

    /// Labels in order, and the index of every id; tables are emptied after so many rows.
    fn collect(ids: &[&str], limit: usize, every: usize) -> (Ids, Vec<String>, Vec<u32>) {
        let mut dictionary = Dictionary::new(limit);
        let mut spill = None;
        let mut batch = RowBatch::default();
        let mut codes = Vec::new();
        for (row, id) in ids.iter().enumerate() {
            let start = batch.text.len() as u32;
            batch.text.extend_from_slice(id.as_bytes());
            let text = Cell::Text { start, length: id.len() as u32 };
            let cell = parse_integer(id.as_bytes()).map_or(text, Cell::Integer);
            codes.push(dictionary.code(cell, &batch));
            if (row + 1) % every == 0 {
                let spill = spill.get_or_insert_with(|| Spill::new(&std::env::temp_dir()).unwrap());
                spill.add(dictionary.take_extras(), row as u64 + 1).unwrap();
            }
        }
        let budget = Budget::new(1 << 30).unwrap();
        let found = Ids::new(dictionary, spill, ids.len() as u64, &budget, &Control::default()).unwrap();
        let labels = found.labels().unwrap().map(|key| key.unwrap().label().to_text().into_owned());
        let labels: Vec<String> = labels.collect();
        let mut indices = Vec::new();
        let mut until = 0;
        for (row, (code, hash)) in codes.into_iter().enumerate() {
            if row as u64 == until {
                until = found.bring(row as u64).unwrap();
            }
            let (index, again) = found.index(code);
            assert_eq!(again, hash, "row {row}");
            indices.push(index);
        }
        assert_eq!(found.len(), labels.len() as u64);
        (found, labels, indices)
    }

    #[test]
    fn integers_are_sorted_as_numbers() {
        let ids = ["10", "9", "-5", "9", "1000000000000", "100000000", "0", "-70"];
        for every in [1, 2, 3, 100] {
            for limit in [usize::MAX, 10, 0] {
                let (found, labels, indices) = collect(&ids, limit, every);
                assert!(found.all_integers());
                assert_eq!(labels, ["-70", "-5", "0", "9", "10", "100000000", "1000000000000"]);
                assert_eq!(indices, [4, 3, 1, 3, 6, 5, 2, 0], "{every} {limit}");
            }
        }
    }

    #[test]
    fn numbers_come_before_words_and_all_come_back() {
        let ids = ["b", "10", "007", "7", "a", "2.5", "-1", "99999999999", "Zoë", "", "nan", "a", "2.5", "3"];
        let sorted = ["-1", "2.5", "3", "007", "7", "10", "99999999999", "", "Zoë", "a", "b", "nan"];
        for every in [1, 2, 5, 100] {
            for limit in [usize::MAX, 5, 0] {
                let (found, labels, indices) = collect(&ids, limit, every);
                assert!(!found.all_integers());
                assert_eq!(labels, sorted, "{every} {limit}");
                for (id, index) in ids.iter().zip(indices) {
                    assert_eq!(&labels[index as usize], id, "{every} {limit}");
                }
            }
        }
    }

    #[test]
    fn an_order_that_does_not_fit_is_refused_with_a_number_that_suffices() {
        // Whole numbers and halves by turns: a step for each.
        let ids: Vec<String> = (0..200_000).map(|n| format!("{}{}", n / 2, [".5", ""][n % 2])).collect();
        let (mut dictionary, mut batch) = (Dictionary::default(), RowBatch::default());
        let mut new = |memory: u64| {
            for id in &ids {
                let start = batch.text.len() as u32;
                batch.text.extend_from_slice(id.as_bytes());
                let text = Cell::Text { start, length: id.len() as u32 };
                dictionary.code(parse_integer(id.as_bytes()).map_or(text, Cell::Integer), &batch);
            }
            let budget = Budget::new(memory).unwrap();
            let _taken = budget.reserve(15 << 20, "the rest").unwrap();
            let dictionary = std::mem::take(&mut dictionary);
            Ids::new(dictionary, None, 0, &budget, &Control::default()).map(|ids| ids.len())
        };
        let Err(Error::Budget { needed, .. }) = new(16 << 20) else { panic!("there is no room for it") };
        assert_eq!(new(needed).unwrap(), 200_000);
    }
}
