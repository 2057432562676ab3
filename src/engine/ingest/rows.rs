//! A batch of rows on its way from a file to the dictionaries.

use super::times::TimesSeen;

/// An id as it stood in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cell {
    /// A canonical integer.
    Integer(i64),
    /// Anything else: a stretch of the batch's text.
    Text {
        /// Where it begins.
        start: u32,
        /// Its length in bytes.
        length: u32,
    },
}

/// The cells of one mode.
#[derive(Debug, Clone)]
pub enum ModeCells {
    /// Ids.
    Ids(Vec<Cell>),
    /// Numbers that will be binned.
    Numbers(Vec<f64>),
}

impl ModeCells {
    fn truncate(&mut self, rows: usize) {
        match self {
            ModeCells::Ids(cells) => cells.truncate(rows),
            ModeCells::Numbers(numbers) => numbers.truncate(rows),
        }
    }
}

/// A row that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRow {
    /// Its line or row number, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub what: String,
}

/// What a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// An entry.
    Entry,
    /// Without a value.
    Empty,
    /// One that does not meet a condition.
    LeftOut,
}

/// Some rows, in file order.
#[derive(Debug, Clone, Default)]
pub struct RowBatch {
    /// The file they come from.
    pub file: std::path::PathBuf,
    /// One per mode.
    pub modes: Vec<ModeCells>,
    /// The values.
    pub values: Vec<f64>,
    /// The weights, each finite and not negative; empty where entries have none.
    pub weights: Vec<f64>,
    /// The times that a split by time goes by; empty where there is none.
    pub times: Vec<f64>,
    /// What [`Cell::Text`] points into.
    pub text: Vec<u8>,
    /// Rows that cannot be used.
    pub bad: Vec<BadRow>,
    /// How many rows (of a wide table, cells) have no value.
    pub empty: u64,
    /// How many rows do not meet the conditions.
    pub left_out: u64,
    /// How times stood there.
    pub times_seen: TimesSeen,
    /// Which times of the row that is being read were dates, a bit per column of times.
    pub dates: u16,
    /// How far the input has been read, in its own bytes.
    pub input_bytes: u64,
}

impl RowBatch {
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The text of a cell.
    pub fn text_of(&self, start: u32, length: u32) -> &[u8] {
        &self.text[start as usize..(start + length) as usize]
    }

    /// Ends a row that can be used: only these have a say in the units of times.
    pub fn accept(&mut self, line: u64, times: &[usize]) {
        for &column in times {
            let number = match self.modes.get(column) {
                Some(ModeCells::Numbers(numbers)) => numbers.last(),
                _ => self.times.last(),
            };
            if let Some(&number) = number {
                self.times_seen.add(column, number, self.dates >> column & 1 == 1, line);
            }
        }
        self.dates = 0;
    }

    /// Takes back a row that was begun and then found bad.
    pub fn reject(&mut self, rows: usize, line: u64, what: String) {
        self.take_back(rows);
        self.bad.push(BadRow { line, what });
    }

    /// Ends the row that follows `rows` others as it deserves.
    pub fn end(&mut self, rows: usize, line: u64, taken: Result<Taken, String>, times: &[usize]) {
        match taken {
            Ok(Taken::Entry) => return self.accept(line, times),
            Ok(Taken::Empty) => self.empty += 1,
            Ok(Taken::LeftOut) => self.left_out += 1,
            Err(what) => return self.reject(rows, line, what),
        }
        self.take_back(rows);
    }

    fn take_back(&mut self, rows: usize) {
        self.dates = 0;
        self.modes.iter_mut().for_each(|mode| mode.truncate(rows));
        self.values.truncate(rows);
        self.weights.truncate(rows);
        self.times.truncate(rows);
    }
}
