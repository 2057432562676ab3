//! A batch of rows on its way from a file to the dictionaries.

use crate::MAX_ORDER;

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

/// How the times of a column were written: a mixture has no one unit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimesSeen {
    dates: [bool; MAX_ORDER + 1],
    numbers: [bool; MAX_ORDER + 1],
}

impl TimesSeen {
    /// The place of the column that a split by time goes by; modes have their own positions.
    pub const SPLIT: usize = MAX_ORDER;

    /// A date, which is in seconds.
    #[inline]
    pub fn date(&mut self, column: usize) {
        self.dates[column] = true;
    }

    /// A number, of seconds, milliseconds, ...
    #[inline]
    pub fn number(&mut self, column: usize) {
        self.numbers[column] = true;
    }

    /// Takes in what another batch saw.
    pub fn join(&mut self, other: &TimesSeen) {
        (0..=MAX_ORDER).for_each(|column| {
            self.dates[column] |= other.dates[column];
            self.numbers[column] |= other.numbers[column];
        });
    }

    /// Whether a column has dates.
    pub fn has_dates(&self, column: usize) -> bool {
        self.dates[column]
    }

    /// Whether a column has both.
    pub fn is_mixed(&self, column: usize) -> bool {
        self.dates[column] && self.numbers[column]
    }
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
    /// Rows that were left out.
    pub bad: Vec<BadRow>,
    /// How times stood there, per mode; the last is for the column that a split goes by.
    pub times_seen: TimesSeen,
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

    /// Takes back a row that was begun and then found bad.
    pub fn reject(&mut self, rows: usize, line: u64, what: String) {
        self.modes.iter_mut().for_each(|mode| mode.truncate(rows));
        self.values.truncate(rows);
        self.weights.truncate(rows);
        self.times.truncate(rows);
        self.bad.push(BadRow { line, what });
    }
}
