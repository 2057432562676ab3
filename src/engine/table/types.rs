//! The types of columns of text, where they are written to a file that has types.

use crate::error::{Error, Result};
use crate::ingest::is_missing;
use crate::ingest::number::{parse_integer, parse_number};
use arrow_array::builder::{Float64Builder, Int64Builder};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::sync::Arc;

/// What all cells of a column that say something are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// There is none.
    Nothing,
    Integers,
    Numbers,
    Text,
}

/// What is known of the columns of a table of text.
#[derive(Debug, Clone)]
pub struct ColumnTypes(Vec<Kind>);

impl ColumnTypes {
    /// For so many columns.
    pub fn new(columns: usize) -> Self {
        ColumnTypes(vec![Kind::Nothing; columns])
    }

    /// Looks at some rows.
    pub fn see(&mut self, rows: &RecordBatch) {
        for (kind, column) in self.0.iter_mut().zip(rows.columns()) {
            if let Some(cells) = column.as_string_opt::<i32>().filter(|_| *kind != Kind::Text) {
                *kind = cells.iter().flatten().map(of_cell).fold(*kind, Kind::max);
            }
        }
    }

    /// A table with these columns in front, which are of text, in their types.
    pub fn schema(&self, schema: &Schema) -> SchemaRef {
        let typed = self.0.iter().zip(schema.fields()).map(|(kind, field)| match kind {
            Kind::Integers => Arc::new(Field::new(field.name(), DataType::Int64, true)),
            Kind::Numbers => Arc::new(Field::new(field.name(), DataType::Float64, true)),
            Kind::Nothing | Kind::Text => Arc::clone(field),
        });
        let rest = schema.fields().iter().skip(self.0.len()).cloned();
        Arc::new(Schema::new(typed.chain(rest).collect::<Vec<_>>()))
    }

    /// Rows of it; what is missing of a column of numbers is null.
    pub fn typed(&self, rows: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> = rows.columns().to_vec();
        for (kind, column) in self.0.iter().zip(&mut columns) {
            let Some(cells) = column.as_string_opt::<i32>() else { continue };
            match kind {
                Kind::Integers => *column = integers(cells),
                Kind::Numbers => *column = numbers(cells),
                Kind::Nothing | Kind::Text => {}
            }
        }
        RecordBatch::try_new(Arc::clone(schema), columns).map_err(|error| Error::request(error.to_string()))
    }
}

/// What a cell is: an id like 007 is no number, because it would not come back.
fn of_cell(cell: &str) -> Kind {
    let cell = cell.trim().as_bytes();
    let digits = cell.strip_prefix(b"-").unwrap_or(cell);
    let plain = match digits {
        [b'0', second, ..] => !second.is_ascii_digit(),
        [first, ..] => first.is_ascii_digit() || *first == b'.',
        [] => false,
    };
    match cell {
        _ if is_missing(cell) => Kind::Nothing,
        _ if parse_integer(cell).is_some() => Kind::Integers,
        _ if plain && parse_number(cell).is_some_and(f64::is_finite) => Kind::Numbers,
        _ => Kind::Text,
    }
}

fn integers(cells: &StringArray) -> ArrayRef {
    let mut out = Int64Builder::with_capacity(cells.len());
    cells
        .iter()
        .for_each(|cell| out.append_option(cell.and_then(|cell| parse_integer(cell.trim().as_bytes()))));
    Arc::new(out.finish())
}

fn numbers(cells: &StringArray) -> ArrayRef {
    let mut out = Float64Builder::with_capacity(cells.len());
    let number = |cell: &str| parse_number(cell.trim().as_bytes()).filter(|number| number.is_finite());
    cells.iter().for_each(|cell| out.append_option(cell.and_then(number)));
    Arc::new(out.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_what_they_come_back_as() {
        for (cell, kind) in [
            ("", Kind::Nothing),
            ("NA", Kind::Nothing),
            ("-12", Kind::Integers),
            ("0", Kind::Integers),
            ("3.50", Kind::Numbers),
            ("1e3", Kind::Numbers),
            ("0.5", Kind::Numbers),
            ("007", Kind::Text),
            ("+7", Kind::Text),
            ("inf", Kind::Text),
            ("2024-01-01", Kind::Text),
            ("x", Kind::Text),
        ] {
            assert_eq!(of_cell(cell), kind, "{cell}");
        }
    }
}
