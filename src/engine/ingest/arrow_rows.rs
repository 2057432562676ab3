//! Arrow batches to rows: what Parquet files and streams of batches have in common.

use super::arrow::{Column, is_null, nulls};
use super::columns::{Columns, FilePlan, ModeColumn, ModeRole};
use super::nearly;
use super::number::{parse_integer, parse_number};
use super::rows::{Cell, ModeCells, RowBatch, Taken};
use super::rules::{self, Signs, is_missing};
use super::text::{LONGEST_LINE, Verdict, Want, check_index, check_weight, shown};
use super::times::TimesSeen;
use crate::error::{Error, Result};
use crate::times::parse_time;
use arrow_array::RecordBatch;
use arrow_schema::Schema;
use std::path::{Path, PathBuf};

/// Few enough that even ids of a megabyte fit into 32-bit offsets.
pub(super) const BATCH_ROWS: usize = 1 << 12;

/// Rows that columns are guessed from: values may be missing in the first ones.
pub(super) const SAMPLE_ROWS: usize = 64;

/// The columns of a schema, with what the first rows of a batch hold to guess from.
pub(super) fn columns(schema: &Schema, first: Option<&RecordBatch>, path: &Path) -> Columns {
    let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
    let mut texts = vec![String::new(); names.len()];
    let mut nearly = vec![None; names.len()];
    if let Some(batch) = first.filter(|batch| batch.num_rows() > 0) {
        let rows = batch.num_rows().min(SAMPLE_ROWS);
        for ((text, nearly), column) in texts.iter_mut().zip(&mut nearly).zip(batch.slice(0, rows).columns())
        {
            let (Ok(cells), nulls) = (Column::of(column, "", path), nulls(column)) else { continue };
            let mut filled = (0..rows).filter(|&row| !is_null(&nulls, row));
            let told = filled.clone().find(|&row| !is_missing(cells.text(row).as_bytes()));
            *text = told.or(filled.next()).map_or(String::new(), |row| cells.text(row).into_owned());
            if let Column::Text(texts) = &cells {
                let texts = || (0..rows).filter(|&row| !is_null(&nulls, row)).map(|row| texts[row].as_ref());
                *nearly = nearly::examples(1, |_| Box::new(texts())).pop().flatten();
            }
        }
    }
    Columns { count: names.len(), names: Some(names), first: texts, nearly, tns: false }
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

    /// Counts rows from behind so many others.
    pub(super) fn behind(self, before: u64) -> Self {
        ArrowRows { row: before, ..self }
    }

    /// A column with the places of its nulls.
    fn cells<'b>(&self, batch: &'b RecordBatch, column: usize, name: &str) -> Result<Cells<'b>> {
        let array = batch.column(self.place[column].unwrap_or(0));
        Ok(Cells { column: Column::of(array, name, &self.path)?, nulls: nulls(array), name: name.into() })
    }

    /// The rows of the next batch.
    pub(super) fn rows(&mut self, batch: &RecordBatch) -> Result<RowBatch> {
        let plan = &self.plan;
        let mut out = RowBatch::default();
        let mut read = BatchColumns {
            modes: Vec::new(),
            values: Vec::new(),
            weight: plan.weight.as_ref().map(|(at, name)| self.cells(batch, *at, name)).transpose()?,
            time: plan.time.map(|at| self.cells(batch, at, "the time")).transpose()?,
            conditions: Vec::new(),
        };
        for column in plan.values() {
            let wide = plan.wide.as_ref().and(plan.names.as_ref());
            let name = wide.map_or(plan.value_name.clone(), |names| names[column].clone());
            let cells = self.cells(batch, column, &name)?;
            if let Column::Times(..) = cells.column {
                return Err(Error::input(&self.path, format!("the value '{name}' is a time, not a number")));
            }
            read.values.push(cells);
        }
        for mode in plan.id_columns() {
            read.modes.push(self.cells(batch, mode.column, &mode.name)?);
        }
        for (column, condition) in &plan.rules.conditions {
            read.conditions.push(self.cells(batch, *column, &condition.column)?);
        }
        out.modes.extend(plan.modes.iter().map(|mode| match mode.role {
            ModeRole::Bins(_) => ModeCells::Numbers(Vec::with_capacity(batch.num_rows())),
            _ => ModeCells::Ids(Vec::with_capacity(batch.num_rows())),
        }));
        let times = plan.times();
        for row in 0..batch.num_rows() {
            let line = self.row + row as u64 + 1;
            for number in 0..read.values.len().max(1) {
                let rows = out.len();
                let taken = read.take_row(plan, number, row, &mut out);
                // A row is left out or bad as a whole, and counted once.
                let whole = matches!(taken, Ok(Taken::LeftOut) | Err(_));
                out.end(rows, line, taken, &times);
                if whole {
                    break;
                }
            }
        }
        if let Some(wide) = &plan.wide {
            wide.add_names(&mut out);
        }
        self.row += batch.num_rows() as u64;
        Ok(out)
    }
}

/// One column of a batch.
struct Cells<'b> {
    column: Column<'b>,
    nulls: Option<Vec<bool>>,
    name: String,
}

impl Cells<'_> {
    fn is_null(&self, row: usize) -> bool {
        is_null(&self.nulls, row)
    }

    fn check(&self, row: usize) -> Result<(), String> {
        match self.is_null(row) {
            true => Err(format!("{} is null: every entry needs one", self.name)),
            false => Ok(()),
        }
    }

    /// Whether there is no value: null, NaN, or text that says so.
    fn is_missing(&self, row: usize, signs: &Signs) -> bool {
        self.is_null(row)
            || match &self.column {
                Column::Floats(values) => values[row].is_nan() || signs.has_number(values[row]),
                Column::Text(values) => {
                    let text = values[row].trim();
                    is_missing(text.as_bytes())
                        || signs.has(text.as_bytes())
                        || parse_number(text.as_bytes()).is_some_and(f64::is_nan)
                }
                Column::Integers(values) => signs.has_number(values[row] as f64),
                Column::Times(..) => false,
            }
    }
}

/// The columns of a batch that are read, by what they are for.
struct BatchColumns<'b> {
    modes: Vec<Cells<'b>>,
    values: Vec<Cells<'b>>,
    weight: Option<Cells<'b>>,
    time: Option<Cells<'b>>,
    conditions: Vec<Cells<'b>>,
}

impl BatchColumns<'_> {
    /// Takes one row, with value `number` of its values.
    fn take_row(
        &self,
        plan: &FilePlan,
        number: usize,
        row: usize,
        out: &mut RowBatch,
    ) -> Result<Taken, String> {
        let mut verdict = Verdict::default();
        let value = self.values.get(number);
        let missing = value.is_some_and(|value| value.is_missing(row, &plan.rules.missing));
        for (at, (cells, (column, condition))) in
            self.conditions.iter().zip(&plan.rules.conditions).enumerate()
        {
            let cell = rules::Cell::Row(&cells.column, Some(row).filter(|&row| !cells.is_null(row)));
            verdict.hear(Want::Where(at), || {
                // That a value is missing is said of the value.
                let met = missing && plan.wide.is_none() && *column == plan.value || condition.meets(cell)?;
                Ok(if met { Taken::Entry } else { Taken::LeftOut })
            });
        }
        for (position, (cells, mode)) in self.modes.iter().zip(&plan.modes).enumerate() {
            verdict.hear(Want::Mode(position), || take_mode(cells, mode, position, row, out));
        }
        if let Some(cells) = &self.time {
            verdict.hear(Want::Time, || {
                cells.check(row)?;
                let at = moment(&cells.column, row, TimesSeen::SPLIT, out)?;
                out.times.push(at);
                Ok(Taken::Entry)
            });
        }
        if let Some(cells) = &self.weight {
            verdict.hear(Want::Weight, || {
                cells.check(row)?;
                let weight = check_weight(finite(&cells.column, row, &cells.name)?, &cells.name)?;
                out.weights.push(weight);
                Ok(Taken::Entry)
            });
        }
        verdict.hear(Want::Value, || {
            let Some(value) = value else {
                out.values.push(1.0);
                return Ok(Taken::Entry);
            };
            if missing {
                return plan.rules.lacking(|| match value.is_null(row) {
                    true => format!("{} is null", value.name),
                    false => {
                        format!("{} is missing: {}", value.name, shown(value.column.text(row).as_bytes()))
                    }
                });
            }
            if let Some(wide) = &plan.wide {
                wide.push(number, out);
            }
            let number = finite(&value.column, row, &value.name)?;
            plan.rules.check(number, &value.name)?;
            out.values.push(number);
            Ok(Taken::Entry)
        });
        verdict.taken()
    }
}

fn take_mode(
    cells: &Cells<'_>,
    mode: &ModeColumn,
    position: usize,
    row: usize,
    out: &mut RowBatch,
) -> Result<Taken, String> {
    cells.check(row)?;
    let column = &cells.column;
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
            return Ok(Taken::Entry);
        }
        ModeRole::Indices { base, dim } => match column.integer(row) {
            Some(id) => Cell::Integer(check_index(id, base, dim, &mode.name)?),
            None => {
                let text = shown(column.text(row).as_bytes());
                return Err(format!("{} is {text}, not an index", mode.name));
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
    Ok(Taken::Entry)
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
