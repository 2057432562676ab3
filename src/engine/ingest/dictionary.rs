//! Gives the ids of a mode numbers: provisional ones while rows come in, then those of the sorted
//! labels.
//!
//! Small non-negative integers, which most files have, cost one bit each; other integers and text
//! go into hash tables. The final order does not depend on the order of the rows.

use super::number::parse_number;
use super::rows::{Cell, RowBatch};
use super::sketch::mix;
use hashbrown::HashTable;
use std::borrow::Cow;
use std::cmp::Ordering;

/// Integers from 0 up to here are kept as a set of bits.
const DENSE: i64 = 1 << 26;
const SPARSE_CODE: u32 = 1 << 30;
const TEXT_CODE: u32 = 1 << 31;
/// More ids than one batch of rows can bring.
const ROOM: usize = 1 << 24;

/// The ids of one mode, as they are met.
#[derive(Debug, Default)]
pub struct Dictionary {
    dense: Vec<u64>,
    sparse: HashTable<u32>,
    integers: Vec<i64>,
    texts: HashTable<u32>,
    text: Vec<u8>,
    text_ends: Vec<u64>,
    text_hashes: Vec<u64>,
}

/// The hash of an integer label: the same whether the mode holds text as well, or is a plain range.
#[inline]
pub fn hash_integer(value: i64) -> u64 {
    mix(value as u64 ^ 0x5851_f42d_4c95_7f2d)
}

impl Dictionary {
    /// The provisional number of an id and a hash that depends on the id alone.
    #[inline]
    pub fn code(&mut self, cell: Cell, batch: &RowBatch) -> (u32, u64) {
        match cell {
            Cell::Integer(value) if (0..DENSE).contains(&value) => {
                let word = value as usize / 64;
                if word >= self.dense.len() {
                    self.dense.resize((word + 1).next_power_of_two(), 0);
                }
                self.dense[word] |= 1 << (value % 64);
                (value as u32, hash_integer(value))
            }
            Cell::Integer(value) => self.sparse(value),
            Cell::Text { start, length } => self.text(batch.text_of(start, length)),
        }
    }

    #[cold]
    fn sparse(&mut self, value: i64) -> (u32, u64) {
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
        let hash = xxhash_rust::xxh3::xxh3_64(label);
        let (text, ends) = (&self.text, &self.text_ends);
        let of = |n: u32| text_at(text, ends, n as usize);
        if let Some(&number) = self.texts.find(hash, |&n| of(n) == label) {
            return (TEXT_CODE + number, hash);
        }
        let number = self.text_ends.len() as u32;
        self.text.extend_from_slice(label);
        self.text_ends.push(self.text.len() as u64);
        self.text_hashes.push(hash);
        let hashes = &self.text_hashes;
        self.texts.insert_unique(hash, number, |&n| hashes[n as usize]);
        (TEXT_CODE + number, hash)
    }

    /// Whether provisional numbers have run out.
    pub fn is_full(&self) -> bool {
        let most = self.integers.len().max(self.text_ends.len());
        most >= (1 << 30) - ROOM
    }

    /// Bytes of memory held.
    pub fn memory(&self) -> u64 {
        let tables = (self.sparse.capacity() + self.texts.capacity()) * 5;
        let columns = (self.dense.capacity() + self.integers.capacity()) * 8
            + (self.text_ends.capacity() + self.text_hashes.capacity()) * 8;
        (tables + columns + self.text.capacity()) as u64
    }

    /// Sorts the labels and fixes every id's index.
    pub fn finish(mut self) -> Collected {
        // Finding ids is over; the sort needs the room.
        (self.sparse, self.texts) = Default::default();
        let mut ranks = Vec::with_capacity(self.dense.len());
        let mut dense = 0u32;
        for word in &self.dense {
            ranks.push(dense);
            dense += word.count_ones();
        }
        let mut collected = Collected {
            dense: self.dense,
            ranks,
            dense_count: dense,
            dense_to_index: None,
            dense_offset: 0,
            integers: self.integers,
            integer_to_index: Vec::new(),
            text: self.text,
            text_ends: self.text_ends,
            text_hashes: self.text_hashes,
            text_to_index: Vec::new(),
        };
        if collected.text_ends.is_empty() {
            collected.sort_integers()
        } else {
            collected.sort_mixed()
        }
        collected
    }
}

fn text_at<'t>(text: &'t [u8], ends: &[u64], number: usize) -> &'t [u8] {
    let start = if number == 0 { 0 } else { ends[number - 1] };
    &text[start as usize..ends[number] as usize]
}

/// The sorted labels of a mode, and the way from provisional numbers to indices.
#[derive(Debug)]
pub struct Collected {
    dense: Vec<u64>,
    ranks: Vec<u32>,
    dense_count: u32,
    dense_to_index: Option<Vec<u32>>,
    dense_offset: u32,
    integers: Vec<i64>,
    integer_to_index: Vec<u32>,
    text: Vec<u8>,
    text_ends: Vec<u64>,
    text_hashes: Vec<u64>,
    text_to_index: Vec<u32>,
}

impl Collected {
    /// All integers: the bits are in order already; negative ones come before, large ones after.
    fn sort_integers(&mut self) {
        let mut order: Vec<u32> = (0..self.integers.len() as u32).collect();
        order.sort_unstable_by_key(|&n| self.integers[n as usize]);
        self.dense_offset = self.integers.iter().filter(|&&value| value < 0).count() as u32;
        self.integer_to_index = vec![0; order.len()];
        for (position, &n) in order.iter().enumerate() {
            let after = if self.integers[n as usize] < 0 { 0 } else { self.dense_count };
            self.integer_to_index[n as usize] = position as u32 + after;
        }
    }

    /// Some text: labels that are numbers come first, by value, then the rest, by bytes.
    fn sort_mixed(&mut self) {
        let mut order: Vec<(f64, u32)> = Vec::with_capacity(self.len());
        let dense: Vec<i64> = self.dense_values().collect();
        order.extend(dense.iter().enumerate().map(|(rank, &value)| (value as f64, rank as u32)));
        order.extend(
            self.integers.iter().enumerate().map(|(n, &value)| (value as f64, SPARSE_CODE + n as u32)),
        );
        order.extend((0..self.text_ends.len()).map(|n| {
            let number = parse_number(text_at(&self.text, &self.text_ends, n)).filter(|x| x.is_finite());
            (number.unwrap_or(f64::NAN), TEXT_CODE + n as u32)
        }));
        let bytes = |code: u32| -> Cow<'_, [u8]> {
            match code {
                n if n >= TEXT_CODE => text_at(&self.text, &self.text_ends, (n - TEXT_CODE) as usize).into(),
                n if n >= SPARSE_CODE => {
                    self.integers[(n - SPARSE_CODE) as usize].to_string().into_bytes().into()
                }
                rank => dense[rank as usize].to_string().into_bytes().into(),
            }
        };
        order.sort_unstable_by(|a, b| {
            let by_number = match (a.0.is_nan(), b.0.is_nan()) {
                (false, false) => a.0.total_cmp(&b.0),
                (x, y) => x.cmp(&y),
            };
            if by_number == Ordering::Equal { bytes(a.1).cmp(&bytes(b.1)) } else { by_number }
        });
        let mut dense_to_index = vec![0; self.dense_count as usize];
        let mut integer_to_index = vec![0; self.integers.len()];
        let mut text_to_index = vec![0; self.text_ends.len()];
        for (index, &(_, code)) in order.iter().enumerate() {
            let index = index as u32;
            match code {
                n if n >= TEXT_CODE => text_to_index[(n - TEXT_CODE) as usize] = index,
                n if n >= SPARSE_CODE => integer_to_index[(n - SPARSE_CODE) as usize] = index,
                rank => dense_to_index[rank as usize] = index,
            }
        }
        self.dense_to_index = Some(dense_to_index);
        self.integer_to_index = integer_to_index;
        self.text_to_index = text_to_index;
    }

    fn dense_values(&self) -> impl Iterator<Item = i64> + '_ {
        self.dense.iter().enumerate().flat_map(|(word, &bits)| {
            (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| word as i64 * 64 + bit)
        })
    }

    /// The number of distinct ids.
    pub fn len(&self) -> usize {
        self.dense_count as usize + self.integers.len() + self.text_ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether all ids are integers.
    pub fn all_integers(&self) -> bool {
        self.text_ends.is_empty()
    }

    /// The index and the hash of an id, from its provisional number.
    #[inline]
    pub fn index(&self, code: u32) -> (u32, u64) {
        if code < SPARSE_CODE {
            let word = code as usize / 64;
            let below = self.dense[word] & ((1u64 << (code % 64)) - 1);
            let rank = self.ranks[word] + below.count_ones();
            let index =
                self.dense_to_index.as_ref().map_or(rank + self.dense_offset, |map| map[rank as usize]);
            (index, hash_integer(i64::from(code)))
        } else if code < TEXT_CODE {
            let n = (code - SPARSE_CODE) as usize;
            (self.integer_to_index[n], hash_integer(self.integers[n]))
        } else {
            let n = (code - TEXT_CODE) as usize;
            (self.text_to_index[n], self.text_hashes[n])
        }
    }

    /// The provisional numbers in index order.
    pub fn codes(&self) -> Vec<u32> {
        let mut codes = vec![0; self.len()];
        for (rank, value) in self.dense_values().enumerate() {
            let index = self.dense_to_index.as_ref().map_or(rank as u32 + self.dense_offset, |map| map[rank]);
            codes[index as usize] = value as u32;
        }
        for (n, &index) in self.integer_to_index.iter().enumerate() {
            codes[index as usize] = SPARSE_CODE + n as u32;
        }
        for (n, &index) in self.text_to_index.iter().enumerate() {
            codes[index as usize] = TEXT_CODE + n as u32;
        }
        codes
    }

    /// The integer behind a provisional number; 0 for text.
    pub fn integer(&self, code: u32) -> i64 {
        match code {
            n if n >= TEXT_CODE => 0,
            n if n >= SPARSE_CODE => self.integers[(n - SPARSE_CODE) as usize],
            value => i64::from(value),
        }
    }

    /// The label behind a provisional number, as it stood in the file.
    pub fn label(&self, code: u32) -> Cow<'_, str> {
        if code >= TEXT_CODE {
            return String::from_utf8_lossy(text_at(
                &self.text,
                &self.text_ends,
                (code - TEXT_CODE) as usize,
            ));
        }
        self.integer(code).to_string().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(ids: &[&str]) -> (Collected, Vec<u32>) {
        let mut dictionary = Dictionary::default();
        let mut batch = RowBatch::default();
        let codes: Vec<u32> = ids
            .iter()
            .map(|id| {
                let cell = super::super::number::parse_integer(id.as_bytes()).map_or_else(
                    || {
                        let start = batch.text.len() as u32;
                        batch.text.extend_from_slice(id.as_bytes());
                        Cell::Text { start, length: id.len() as u32 }
                    },
                    Cell::Integer,
                );
                dictionary.code(cell, &batch).0
            })
            .collect();
        let collected = dictionary.finish();
        let indices = codes.iter().map(|&code| collected.index(code).0).collect();
        (collected, indices)
    }

    fn shown(collected: &Collected) -> Vec<String> {
        collected.codes().iter().map(|&code| collected.label(code).into()).collect()
    }

    #[test]
    fn integers_are_sorted_as_numbers() {
        let ids = ["10", "9", "-5", "9", "1000000000000", "100000000", "0", "-70"];
        let (collected, indices) = collect(&ids);
        assert!(collected.all_integers());
        assert_eq!(shown(&collected), ["-70", "-5", "0", "9", "10", "100000000", "1000000000000"]);
        assert_eq!(indices, [4, 3, 1, 3, 6, 5, 2, 0]);
    }

    #[test]
    fn numbers_come_before_words_and_all_come_back() {
        let ids = ["b", "10", "007", "7", "a", "2.5", "-1", "99999999999", "Zoë", "", "nan"];
        let (collected, indices) = collect(&ids);
        let labels = shown(&collected);
        assert_eq!(labels, ["-1", "2.5", "007", "7", "10", "99999999999", "", "Zoë", "a", "b", "nan"]);
        for (id, index) in ids.iter().zip(indices) {
            assert_eq!(&labels[index as usize], id);
        }
    }
}
