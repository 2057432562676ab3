//! Parquet to rows: one file or a directory of parts.

use super::arrow::{Column, is_null, nulls};
use super::columns::{Columns, FilePlan, ModeRole};
use super::number::{parse_integer, parse_number};
use super::rows::{Cell, ModeCells, RowBatch};
use super::text::{LONGEST_LINE, check_index, check_weight, shown};
use super::times::TimesSeen;
use crate::error::{Error, IoContext, Result};
use crate::storage::guarded;
use crate::times::parse_time;
use arrow_array::RecordBatch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use std::fs::File;
use std::path::{Path, PathBuf};

/// How a Parquet file begins.
pub const MAGIC: &[u8; 4] = b"PAR1";
/// Few enough that even ids of a megabyte fit into 32-bit offsets.
const BATCH_ROWS: usize = 1 << 12;

/// Whether a file begins as Parquet does.
///
/// Only a regular file is looked into: what is read from a pipe is gone.
pub fn is_parquet(path: &Path) -> bool {
    use std::io::Read;
    let mut magic = [0; 4];
    path.is_file()
        && File::open(path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok())
        && &magic == MAGIC
}

/// The parts in a directory, sorted by name; hidden and marker files (`_SUCCESS`) are left out.
pub fn parts(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut parts = Vec::new();
    for entry in std::fs::read_dir(directory).context("read", directory)? {
        let path = entry.context("read", directory)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_string();
        if path.is_file() && !name.starts_with(['_', '.']) && is_parquet(&path) {
            parts.push(path);
        }
    }
    parts.sort();
    if parts.is_empty() {
        return Err(Error::input(directory, "there is no Parquet file in this directory"));
    }
    Ok(parts)
}

pub(crate) fn builder(path: &Path, unpacked: Option<&File>) -> Result<ParquetRecordBatchReaderBuilder<File>> {
    let file = unpacked.map_or_else(|| File::open(path), File::try_clone).context("open", path)?;
    intact(path, || ParquetRecordBatchReaderBuilder::try_new(file))
}

/// What the Parquet reader returns, with its errors and panics as damage to the file.
pub(crate) fn intact<T, E: std::fmt::Display>(path: &Path, read: impl FnOnce() -> Result<T, E>) -> Result<T> {
    let result = guarded(read).and_then(|result| result.map_err(|error| error.to_string()));
    result.map_err(|error| {
        Error::input(path, format!("this Parquet file is damaged ({error}): fetch it again"))
    })
}

/// The columns of a file (or of its unpacked copy), with the first row to guess from.
pub fn columns(path: &Path, unpacked: Option<&File>) -> Result<Columns> {
    let builder = builder(path, unpacked)?;
    let names: Vec<String> = builder.schema().fields().iter().map(|field| field.name().clone()).collect();
    let mut first = vec![String::new(); names.len()];
    let mut reader = intact(path, || builder.with_batch_size(1).build())?;
    if let Some(batch) = intact(path, || reader.next().transpose())? {
        for (text, column) in first.iter_mut().zip(batch.columns()) {
            *text = match Column::of(column, "", path) {
                Ok(cells) if batch.num_rows() > 0 && !is_null(&nulls(column), 0) => {
                    cells.text(0).into_owned()
                }
                _ => String::new(),
            };
        }
    }
    Ok(Columns { count: names.len(), names: Some(names), first, tns: false })
}

/// Reads one file's rows, a batch at a time.
pub struct Parts {
    reader: ParquetRecordBatchReader,
    path: PathBuf,
    plan: FilePlan,
    /// For each wanted column of the file, its place in the projection.
    place: Vec<Option<usize>>,
    row: u64,
}

impl Parts {
    /// Opens a file for a plan; `unpacked` is read in its place where it is given.
    pub fn open(path: &Path, unpacked: Option<&File>, plan: &FilePlan) -> Result<Self> {
        let builder = builder(path, unpacked)?;
        let mut wanted: Vec<usize> = plan.modes.iter().map(|mode| mode.column).collect();
        wanted.push(plan.value);
        wanted.extend(plan.weight.as_ref().map(|(column, _)| *column));
        wanted.extend(plan.time);
        wanted.sort_unstable();
        wanted.dedup();
        let mut place = vec![None; plan.count];
        wanted.iter().enumerate().for_each(|(position, &column)| place[column] = Some(position));
        let mask = ProjectionMask::roots(builder.parquet_schema(), wanted);
        let reader = intact(path, || builder.with_projection(mask).with_batch_size(BATCH_ROWS).build())?;
        Ok(Parts { reader, path: path.into(), plan: plan.clone(), place, row: 0 })
    }

    /// The next rows; `None` at the end.
    pub fn next_rows(&mut self) -> Result<Option<RowBatch>> {
        let batch = intact(&self.path, || self.reader.next().transpose())?;
        batch.map(|batch| self.rows(&batch)).transpose()
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

    fn rows(&mut self, batch: &RecordBatch) -> Result<RowBatch> {
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
    modes: &[(&super::columns::ModeColumn, Column<'_>)],
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
