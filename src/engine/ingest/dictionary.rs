//! Gives the ids of a mode provisional numbers while rows come in.
//!
//! Small non-negative integers, which most files have, cost one bit each. Other integers and text go
//! into hash tables, [`Extras`]. Where these grow beyond the budget they are taken out, and an id that
//! comes again gets a new number: the caller sorts out in the end which numbers mean the same id.

use super::label::{Key, Label, hash_integer, hash_text};
use super::number::whole;
use super::rows::{Cell, RowBatch};
use super::rules::is_missing;
use hashbrown::HashTable;
use std::cmp::Ordering;

/// Integers from 0 up to here may be kept as a set of bits.
pub const DENSE: usize = 1 << 26;
const SPARSE_CODE: u32 = 1 << 30;
const TEXT_CODE: u32 = 1 << 31;
/// More ids than one batch of rows can bring.
const ROOM: usize = 1 << 24;

/// What a provisional number stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// This integer, one of those that are kept as bits.
    Dense(u32),
    /// The n-th of the other integers.
    Integer(usize),
    /// The n-th text.
    Text(usize),
}

impl Code {
    /// What the number `code` stands for.
    #[inline]
    pub fn of(code: u32) -> Self {
        if code < SPARSE_CODE {
            Code::Dense(code)
        } else if code < TEXT_CODE {
            Code::Integer((code - SPARSE_CODE) as usize)
        } else {
            Code::Text((code - TEXT_CODE) as usize)
        }
    }
}

/// The ids of one mode, as they are met.
#[derive(Debug)]
pub struct Dictionary {
    dense: Vec<u64>,
    limit: i64,
    extras: Extras,
    odd: Odd,
}

/// Texts among the ids of a mode that may not be meant as ids.
#[derive(Debug, Default)]
pub struct Odd {
    /// What stands for a missing value in other columns.
    pub missing: Vec<String>,
    /// Whole numbers that are written with a point, `16.0`.
    pub pointed: Vec<i64>,
    /// Whether there are other texts.
    pub others: bool,
    /// Whether there are whole numbers too small or too large to be kept as bits.
    pub integers: bool,
}

/// So many of a kind are kept.
const ODD: usize = 64;

impl Odd {
    #[cold]
    fn see(&mut self, label: &[u8]) {
        let text = String::from_utf8_lossy(label);
        if is_missing(label) {
            if self.missing.len() < ODD && !self.missing.iter().any(|other| *other == text) {
                self.missing.push(text.into_owned());
            }
        } else if let Some(number) = whole(&text) {
            if self.pointed.len() < ODD {
                self.pointed.push(number);
            }
        } else {
            self.others = true;
        }
    }
}

/// The ids that are not kept as bits.
#[derive(Debug, Default)]
pub struct Extras {
    sparse: HashTable<u32>,
    integers: Vec<i64>,
    texts: HashTable<u32>,
    text: Vec<u8>,
    ends: Vec<u64>,
    hashes: Vec<u64>,
}

impl Default for Dictionary {
    fn default() -> Self {
        Dictionary::new(DENSE)
    }
}

impl Dictionary {
    /// With a bit for each of the integers below `limit`, at most [`DENSE`].
    pub fn new(limit: usize) -> Self {
        Dictionary {
            dense: Vec::new(),
            limit: limit.min(DENSE) as i64,
            extras: Extras::default(),
            odd: Odd::default(),
        }
    }

    /// The provisional number of an id and a hash that depends on the id alone.
    #[inline]
    pub fn code(&mut self, cell: Cell, batch: &RowBatch) -> (u32, u64) {
        match cell {
            Cell::Integer(value) if (0..self.limit).contains(&value) => {
                let word = value as usize / 64;
                if word >= self.dense.len() {
                    // Twice as much each time, but not beyond what there may be.
                    let most = (self.limit as usize).div_ceil(64);
                    self.dense.resize((word + 1).next_power_of_two().min(most), 0);
                }
                self.dense[word] |= 1 << (value % 64);
                (value as u32, hash_integer(value))
            }
            Cell::Integer(value) => {
                self.odd.integers = true;
                self.extras.integer(value)
            }
            Cell::Text { start, length } => {
                let (label, before) = (batch.text_of(start, length), self.extras.ends.len());
                let code = self.extras.text(label);
                if self.extras.ends.len() > before && !self.odd.others {
                    self.odd.see(label);
                }
                code
            }
        }
    }

    /// Whether an integer is among the ids that are in memory.
    fn has(&self, value: i64) -> bool {
        match usize::try_from(value).ok().and_then(|value| Some((value, self.dense.get(value / 64)?))) {
            Some((value, word)) => word >> (value % 64) & 1 == 1,
            None => self.extras.integers.contains(&value),
        }
    }

    /// What may not be meant as an id where all others are whole numbers: signs of a missing value, and a
    /// number that stands there with and without a point.
    pub fn odd(&self) -> (&[String], Option<i64>) {
        let Odd { missing, pointed, others, integers } = &self.odd;
        if *others || !(*integers || self.dense.iter().any(|&word| word != 0)) {
            return (&[], None);
        }
        (missing, pointed.iter().copied().find(|&number| self.has(number)))
    }

    /// The ids that are not kept as bits.
    pub fn extras(&self) -> &Extras {
        &self.extras
    }

    /// Takes out the ids that are not kept as bits: numbers begin anew.
    pub fn take_extras(&mut self) -> Extras {
        std::mem::take(&mut self.extras)
    }

    /// The bits: integer i is there if bit i % 64 of word i / 64 is set.
    pub fn into_bits(self) -> Vec<u64> {
        self.dense
    }

    /// How many ids there are, at the most.
    pub fn most(&self) -> u64 {
        self.dense.len() as u64 * 64 + self.extras.len() as u64
    }

    /// Bytes of memory that the bits take, and a count for each word of them in the end.
    pub fn dense_memory(&self) -> u64 {
        (self.dense.capacity() * 12) as u64
    }
}

impl Extras {
    #[cold]
    fn integer(&mut self, value: i64) -> (u32, u64) {
        let hash = hash_integer(value);
        let integers = &mut self.integers;
        let found = self.sparse.find(hash, |&n| integers[n as usize] == value).copied();
        let number = found.unwrap_or_else(|| {
            let number = integers.len() as u32;
            integers.push(value);
            self.sparse.insert_unique(hash, number, |&n| hash_integer(integers[n as usize]));
            number
        });
        (SPARSE_CODE + number, hash)
    }

    fn text(&mut self, label: &[u8]) -> (u32, u64) {
        let hash = hash_text(label);
        let (text, ends) = (&self.text, &self.ends);
        if let Some(&number) = self.texts.find(hash, |&n| text_at(text, ends, n as usize) == label) {
            return (TEXT_CODE + number, hash);
        }
        let number = self.ends.len() as u32;
        self.text.extend_from_slice(label);
        self.ends.push(self.text.len() as u64);
        self.hashes.push(hash);
        let hashes = &self.hashes;
        self.texts.insert_unique(hash, number, |&n| hashes[n as usize]);
        (TEXT_CODE + number, hash)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.integers.len() + self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether provisional numbers have run out.
    pub fn is_full(&self) -> bool {
        self.integers.len().max(self.ends.len()) >= (1 << 30) - ROOM
    }

    /// Bytes of memory that they take, now or when they are sorted.
    pub fn memory(&self) -> u64 {
        let tables = (self.sparse.capacity() + self.texts.capacity()) * 6;
        let columns = (self.integers.capacity() + self.ends.capacity() + self.hashes.capacity()) * 8
            + self.text.capacity();
        // Sorting takes the place of the tables: an order, its inverse, and for text that is a number its
        // value. Tables that grow hold the old and the new copy for a moment.
        let sorting = self.integers.len() * 20 + self.ends.len() * 28;
        (columns + (tables * 3 / 2).max(sorting)) as u64
    }

    /// Puts the labels in order.
    pub fn sorted(self) -> Sorted {
        let Extras { sparse, texts, integers, text, ends, hashes } = self;
        // Finding ids is over; the sort needs the room.
        drop((sparse, texts));
        let mut whole: Vec<u32> = (0..integers.len() as u32).collect();
        whole.sort_unstable_by_key(|&n| integers[n as usize]);
        let of = |n: u32| Label::Text(text_at(&text, &ends, n as usize));
        let (mut numbers, mut words) = (Vec::new(), Vec::new());
        for n in 0..ends.len() as u32 {
            match Key::new(of(n)).value() {
                Some(value) => numbers.push((value, n)),
                None => words.push(n),
            }
        }
        let bytes = |n: u32| text_at(&text, &ends, n as usize);
        numbers.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then_with(|| bytes(a.1).cmp(bytes(b.1))));
        words.sort_unstable_by_key(|&n| bytes(n));
        let mut order = Vec::with_capacity(integers.len() + ends.len());
        let mut numbers = numbers.into_iter().map(|(_, n)| n).peekable();
        let mut whole = whole.into_iter().peekable();
        loop {
            let integer = |n: u32| Key::new(Label::Integer(integers[n as usize]));
            let first = match (whole.peek(), numbers.peek()) {
                (Some(&a), Some(&b)) => integer(a).cmp(&Key::new(of(b))),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => break,
            };
            if first == Ordering::Greater {
                order.extend(numbers.next().map(|n| TEXT_CODE + n));
            } else {
                order.extend(whole.next().map(|n| SPARSE_CODE + n));
            }
        }
        order.extend(words.into_iter().map(|n| TEXT_CODE + n));
        Sorted { integers, text, ends, hashes, order }
    }
}

fn text_at<'t>(text: &'t [u8], ends: &[u64], number: usize) -> &'t [u8] {
    let start = if number == 0 { 0 } else { ends[number - 1] };
    &text[start as usize..ends[number] as usize]
}

/// Labels in order.
#[derive(Debug)]
pub struct Sorted {
    /// The integers, by their provisional number.
    pub integers: Vec<i64>,
    text: Vec<u8>,
    ends: Vec<u64>,
    /// The hashes of the texts, by their provisional number.
    pub hashes: Vec<u64>,
    /// The provisional numbers, in the order of their labels.
    pub order: Vec<u32>,
}

impl Sorted {
    /// The label at a position in the order.
    pub fn label(&self, position: usize) -> Label<'_> {
        match Code::of(self.order[position]) {
            Code::Text(n) => Label::Text(text_at(&self.text, &self.ends, n)),
            Code::Integer(n) => Label::Integer(self.integers[n]),
            Code::Dense(value) => Label::Integer(value.into()),
        }
    }

    /// Whether no label is text.
    pub fn all_integers(&self) -> bool {
        self.ends.is_empty()
    }
}
