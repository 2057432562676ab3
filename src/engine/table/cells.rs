//! The cells of one column, as text or as a time.

use crate::error::Result;
use crate::ingest::arrow::{Column, is_null, nulls};
use arrow_array::{ArrayRef, Int64Array, StringArray};
use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

/// One column of a batch.
pub struct Cells<'b> {
    nulls: Option<Vec<bool>>,
    column: Column<'b>,
}

impl<'b> Cells<'b> {
    /// Looks at a column; an error for types that have no text.
    pub fn of(array: &'b ArrayRef, name: &str, path: &Path) -> Result<Self> {
        Ok(Cells { nulls: nulls(array), column: Column::of(array, name, path)? })
    }

    /// Cell `row` as it would stand in a text file; `None` where it is null.
    pub fn text(&self, row: usize) -> Option<Cow<'_, str>> {
        if is_null(&self.nulls, row) { None } else { Some(self.column.text(row)) }
    }

    /// Cell `row`, where the column holds integers; those of 19 digits are text to a dictionary.
    pub fn integer(&self, row: usize) -> Option<i64> {
        match &self.column {
            Column::Integers(values) if !is_null(&self.nulls, row) => {
                Some(values[row]).filter(|id| id.unsigned_abs() < 1_000_000_000_000_000_000)
            }
            _ => None,
        }
    }

    /// Cell `row` in seconds since 1970, where the column holds moments.
    pub fn moment(&self, row: usize) -> Option<f64> {
        match &self.column {
            Column::Times(..) if !is_null(&self.nulls, row) => self.column.number(row),
            _ => None,
        }
    }
}

/// Labels as a column: integers where `integers` says that all are, else text.
pub fn labels_array(labels: impl Iterator<Item = String>, integers: bool) -> ArrayRef {
    if integers {
        let numbers = labels.map(|label| label.parse::<i64>().unwrap_or_default());
        Arc::new(Int64Array::from_iter_values(numbers))
    } else {
        Arc::new(StringArray::from_iter_values(labels))
    }
}
