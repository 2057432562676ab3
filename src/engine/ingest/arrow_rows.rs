//! Arrow batches to rows: what Parquet files and streams of batches have in common.

use super::arrow::{Column, is_null, nulls};
use super::columns::{Columns, FilePlan, ModeColumn, ModeRole};
use super::number::{parse_integer, parse_number};
use super::rows::{Cell, ModeCells, RowBatch};
use super::text::{LONGEST_LINE, check_index, check_weight, shown};
use super::times::TimesSeen;
use crate::error::{Error, Result};
use crate::times::parse_time;
use arrow_array::RecordBatch;
use arrow_schema::Schema;
use std::path::{Path, PathBuf};

/// Few enough that even ids of a megabyte fit into 32-bit offsets.
pub(super) const BATCH_ROWS: usize = 1 << 12;

/// The columns of a schema, with the first row of a batch to guess from.
pub(super) fn columns(schema: &Schema, first: Option<&RecordBatch>, path: &Path) -> Columns {
    let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
    let mut texts = vec![String::new(); names.len()];
    if let Some(batch) = first.filter(|batch| batch.num_rows() > 0) {
        for (text, column) in texts.iter_mut().zip(batch.slice(0, 1).columns()) {
            *text = match Column::of(column, "", path) {
                Ok(cells) if !is_null(&nulls(column), 0) => cells.text(0).into_owned(),
                _ => String::new(),
            };
        }
    }
    Columns { count: names.len(), names: Some(names), first: texts, tns: false }
}

/// Turns the batches of one input into rows.
pub(super) struct ArrowRows {
    path: PathBuf,
    plan: FilePlan,
    /// For each column of the input that is wanted, its place in a batch.
    place: Vec<Option<usize>>,
    row: u64,
}

impl ArrowRows {
    /// For batches that hold the columns `wanted` of an input, in this order.
    pub(super) fn new(path: &Path, plan: &FilePlan, wanted: &[usize]) -> Self {
        let mut place = vec![None; plan.count];
        wanted.iter().enumerate().for_each(|(position, &column)| place[column] = Some(position));
        ArrowRows { path: path.into(), plan: plan.clone(), place, row: 0 }
    }

    fn column<'b>(&self, batch: &'b RecordBatch, column: usize, name: &str) -> Result<Column<'b>> {
        Column::of(batch.column(self.place[column].unwrap_or(0)), name, &self.path)
    }

    /// The nulls of the columns in use that have some, with the columns' names.
    fn nulls(&self, batch: &RecordBatch) -> Vec<(Vec<bool>, &str)> {
        let modes = self.plan.modes.iter().map(|mode| (mode.column, mode.name.as_str()));
        let weight = self.plan.weight.as_ref().map(|(column, name)| (*column, name.as_str()));
        let rest = [(self.plan.value, self.plan.value_name.as_str())].into_iter().chain(weight);
        let time = self.plan.time.map(|column| (column, "the time"));
        let columns = modes.chain(rest).chain(time);
        let place = |column: usize| batch.column(self.place[column].unwrap_or(0));
        columns.filter_map(|(column, name)| nulls(place(column)).map(|nulls| (nulls, name))).collect()
    }

    /// The rows of the next batch.
    pub(super) fn rows(&mut self, batch: &RecordBatch) -> Result<RowBatch> {
        let mut out = RowBatch::default();
        let value = self.column(batch, self.plan.value, &self.plan.value_name)?;
        if let Column::Times(..) = value {
            let what = format!("the value '{}' is a time, not a number", self.plan.value_name);
            return Err(Error::input(&self.path, what));
        }
        let weight = self.plan.weight.as_ref();
        let weight = weight.map(|(column, name)| self.column(batch, *column, name)).transpose()?;
        let time = self.plan.time.map(|column| self.column(batch, column, "the time")).transpose()?;
        let mut modes = Vec::new();
        for mode in &self.plan.modes {
            modes.push((mode, self.column(batch, mode.column, &mode.name)?));
            out.modes.push(match mode.role {
                ModeRole::Bins(_) => ModeCells::Numbers(Vec::with_capacity(batch.num_rows())),
                _ => ModeCells::Ids(Vec::with_capacity(batch.num_rows())),
            });
        }
        let (nulls, times) = (self.nulls(batch), self.plan.times());
        for row in 0..batch.num_rows() {
            let (rows, line) = (out.len(), self.row + row as u64 + 1);
            if let Some((_, name)) = nulls.iter().find(|(nulls, _)| nulls[row]) {
                let what =
                    format!("{name} is null: a missing entry is left out of the file, not written as null");
                out.reject(rows, line, what);
                continue;
            }
            match take_row(&self.plan, &modes, &value, weight.as_ref(), time.as_ref(), row, &mut out) {
                Ok(()) => out.accept(line, &times),
                Err(what) => out.reject(rows, line, what),
            }
        }
        self.row += batch.num_rows() as u64;
        Ok(out)
    }
}

fn take_row(
    plan: &FilePlan,
    modes: &[(&ModeColumn, Column<'_>)],
    value: &Column<'_>,
    weight: Option<&Column<'_>>,
    time: Option<&Column<'_>>,
    row: usize,
    out: &mut RowBatch,
) -> Result<(), String> {
    for (position, (mode, column)) in modes.iter().enumerate() {
        let cell = match mode.role {
            ModeRole::Bins(binning) => {
                let number = if binning.time {
                    moment(column, row, position, out)?
                } else {
                    finite(column, row, &mode.name)?
                };
                if let ModeCells::Numbers(numbers) = &mut out.modes[position] {
                    numbers.push(number);
                }
                continue;
            }
            ModeRole::Indices { base, dim } => match column.integer(row) {
                Some(id) => Cell::Integer(check_index(id, base, dim, &mode.name)?),
                None => {
                    return Err(format!(
                        "{} is {}, not an index",
                        mode.name,
                        shown(column.text(row).as_bytes())
                    ));
                }
            },
            ModeRole::Ids => match column {
                Column::Integers(values) if values[row].unsigned_abs() < 1_000_000_000_000_000_000 => {
                    Cell::Integer(values[row])
                }
                Column::Floats(values) if !values[row].is_finite() => {
                    return Err(format!("{} is {}", mode.name, values[row]));
                }
                _ => {
                    let text = column.text(row);
                    if text.is_empty() {
                        return Err(format!("{} is empty", mode.name));
                    }
                    if text.len() > LONGEST_LINE {
                        return Err(format!("{} is longer than 1 MB: {}", mode.name, shown(text.as_bytes())));
                    }
                    match parse_integer(text.as_bytes()) {
                        Some(id) => Cell::Integer(id),
                        None => {
                            let start = out.text.len() as u32;
                            out.text.extend_from_slice(text.as_bytes());
                            Cell::Text { start, length: text.len() as u32 }
                        }
                    }
                }
            },
        };
        if let ModeCells::Ids(cells) = &mut out.modes[position] {
            cells.push(cell);
        }
    }
    if let Some(column) = time {
        let at = moment(column, row, TimesSeen::SPLIT, out)?;
        out.times.push(at);
    }
    if let (Some(column), Some((_, name))) = (weight, &plan.weight) {
        let weight = check_weight(finite(column, row, name)?, name)?;
        out.weights.push(weight);
    }
    out.values.push(finite(value, row, &plan.value_name)?);
    Ok(())
}

fn finite(column: &Column<'_>, row: usize, name: &str) -> Result<f64, String> {
    match column.number(row) {
        Some(number) if number.is_finite() => Ok(number),
        Some(_) => Err(format!("{name} is {}, which is no finite number", column.text(row))),
        None => Err(format!("{name} is {}, which is no number", shown(column.text(row).as_bytes()))),
    }
}

/// A time in seconds, or in the unit of the file's own numbers.
fn moment(column: &Column<'_>, row: usize, place: usize, out: &mut RowBatch) -> Result<f64, String> {
    match column {
        Column::Times(values, per_second) => {
            out.dates |= 1 << place;
            Ok(values[row] as f64 / *per_second as f64)
        }
        Column::Text(values) if parse_number(values[row].as_bytes()).is_none() => {
            out.dates |= 1 << place;
            let text = shown(values[row].as_bytes());
            parse_time(&values[row]).ok_or_else(|| format!("{text} is neither a number nor an ISO-8601 date"))
        }
        _ => finite(column, row, "the time"),
    }
}
