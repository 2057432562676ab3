//! The cells of an Arrow column, of whichever type.

use super::number::{parse_integer, parse_number};
use crate::error::{Error, Result};
use crate::times::format_moment;
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, TimeUnit};
use std::borrow::Cow;
use std::path::Path;

/// The values of one column, of whichever type.
#[derive(Debug)]
pub enum Column<'b> {
    /// Integers.
    Integers(Vec<i64>),
    /// Numbers.
    Floats(Vec<f64>),
    /// Moments since 1970, and how many of their units make a second.
    Times(Vec<i64>, i64),
    /// Text; decimals too, which are read as they are written.
    Text(Vec<Cow<'b, str>>),
}

impl<'b> Column<'b> {
    /// Looks at a column; an error for types that are neither numbers nor text nor times.
    pub fn of(array: &'b ArrayRef, name: &str, path: &Path) -> Result<Self> {
        macro_rules! integers {
            ($kind:ty) => {
                Column::Integers(
                    array.as_primitive::<$kind>().values().iter().map(|&value| value as i64).collect(),
                )
            };
        }
        macro_rules! times {
            ($kind:ty, $per_second:expr) => {
                Column::Times(
                    array.as_primitive::<$kind>().values().iter().map(|&value| i64::from(value)).collect(),
                    $per_second,
                )
            };
        }
        macro_rules! text {
            ($strings:expr) => {
                Column::Text($strings.iter().map(|text| Cow::Borrowed(text.unwrap_or_default())).collect())
            };
        }
        macro_rules! decimals {
            ($kind:ty) => {{
                let values = array.as_primitive::<$kind>();
                Column::Text((0..values.len()).map(|row| Cow::Owned(values.value_as_string(row))).collect())
            }};
        }
        Ok(match array.data_type() {
            DataType::Int8 => integers!(Int8Type),
            DataType::Int16 => integers!(Int16Type),
            DataType::Int32 => integers!(Int32Type),
            DataType::Int64 => integers!(Int64Type),
            DataType::UInt8 => integers!(UInt8Type),
            DataType::UInt16 => integers!(UInt16Type),
            DataType::UInt32 => integers!(UInt32Type),
            DataType::UInt64 => {
                let values = array.as_primitive::<UInt64Type>().values();
                if values.iter().any(|&value| value > i64::MAX as u64) {
                    return Err(Error::input(path, format!("column '{name}' holds integers above 2^63")));
                }
                integers!(UInt64Type)
            }
            DataType::Float16 => Column::Floats(
                array.as_primitive::<Float16Type>().values().iter().map(|v| v.to_f64()).collect(),
            ),
            DataType::Float32 => Column::Floats(
                array.as_primitive::<Float32Type>().values().iter().map(|&v| f64::from(v)).collect(),
            ),
            DataType::Float64 => Column::Floats(array.as_primitive::<Float64Type>().values().to_vec()),
            DataType::Timestamp(TimeUnit::Second, _) => times!(TimestampSecondType, 1),
            DataType::Timestamp(TimeUnit::Millisecond, _) => times!(TimestampMillisecondType, 1_000),
            DataType::Timestamp(TimeUnit::Microsecond, _) => times!(TimestampMicrosecondType, 1_000_000),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => times!(TimestampNanosecondType, 1_000_000_000),
            DataType::Date32 => {
                let days = array.as_primitive::<Date32Type>().values().iter();
                Column::Times(days.map(|&day| i64::from(day) * 86_400).collect(), 1)
            }
            DataType::Date64 => times!(Date64Type, 1_000),
            DataType::Utf8 => text!(array.as_string::<i32>()),
            DataType::LargeUtf8 => text!(array.as_string::<i64>()),
            DataType::Utf8View => text!(array.as_string_view()),
            DataType::Boolean => {
                let truths = array.as_boolean().iter();
                let name = |truth| Cow::Borrowed(if truth == Some(true) { "true" } else { "false" });
                Column::Text(truths.map(name).collect())
            }
            DataType::Decimal32(..) => decimals!(Decimal32Type),
            DataType::Decimal64(..) => decimals!(Decimal64Type),
            DataType::Decimal128(..) => decimals!(Decimal128Type),
            DataType::Decimal256(..) => decimals!(Decimal256Type),
            // Categories: the values are kept once, and the rows have their numbers.
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary();
                let values = dictionary.values();
                if values.is_empty() {
                    return Ok(Column::Text(vec![Cow::Borrowed(""); array.len()])); // all are null
                }
                let keys = dictionary.normalized_keys();
                // There may be far more categories than rows here: only those of the rows are looked at.
                macro_rules! categories {
                    ($strings:expr) => {{
                        let strings = $strings;
                        Column::Text(keys.iter().map(|&key| Cow::Borrowed(strings.value(key))).collect())
                    }};
                }
                match values.data_type() {
                    DataType::Utf8 => categories!(values.as_string::<i32>()),
                    DataType::LargeUtf8 => categories!(values.as_string::<i64>()),
                    DataType::Utf8View => categories!(values.as_string_view()),
                    _ => Column::of(values, name, path)?.take(&keys),
                }
            }
            other => {
                let what = format!(
                    "column '{name}' has the type {other}: numbers, text, categories and times can be used"
                );
                return Err(Error::input(path, what));
            }
        })
    }

    /// The cells with these numbers.
    fn take(self, keys: &[usize]) -> Self {
        fn all<T: Clone>(values: &[T], keys: &[usize]) -> Vec<T> {
            keys.iter().map(|&key| values[key].clone()).collect()
        }
        match self {
            Column::Integers(values) => Column::Integers(all(&values, keys)),
            Column::Floats(values) => Column::Floats(all(&values, keys)),
            Column::Times(values, per_second) => Column::Times(all(&values, keys), per_second),
            Column::Text(values) => Column::Text(all(&values, keys)),
        }
    }

    /// Cell `row` as it would stand in a text file.
    pub fn text(&self, row: usize) -> Cow<'_, str> {
        match self {
            Column::Integers(values) => values[row].to_string().into(),
            Column::Floats(values) => values[row].to_string().into(),
            Column::Times(values, per_second) => format_moment(values[row], *per_second).into(),
            Column::Text(values) => Cow::Borrowed(&values[row]),
        }
    }

    /// Cell `row` as a number; a moment in seconds.
    pub fn number(&self, row: usize) -> Option<f64> {
        match self {
            Column::Integers(values) => Some(values[row] as f64),
            Column::Floats(values) => Some(values[row]),
            Column::Times(values, per_second) => Some(values[row] as f64 / *per_second as f64),
            Column::Text(values) => parse_number(values[row].as_bytes()),
        }
    }

    /// Cell `row` as an integer, where it is one.
    pub fn integer(&self, row: usize) -> Option<i64> {
        match self {
            Column::Integers(values) => Some(values[row]),
            Column::Text(values) => parse_integer(values[row].as_bytes()),
            Column::Floats(_) | Column::Times(..) => None,
        }
    }
}

/// Which cells are null, where any is: a category may be null itself.
pub fn nulls(array: &ArrayRef) -> Option<Vec<bool>> {
    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0)?;
    Some(nulls.iter().map(|valid| !valid).collect())
}

/// Whether a cell is null.
pub fn is_null(nulls: &Option<Vec<bool>>, row: usize) -> bool {
    nulls.as_ref().is_some_and(|nulls| nulls[row])
}
