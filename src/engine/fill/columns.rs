//! A table as columns of Arrow: Parquet, and text that becomes another kind of file.

use super::ask::{Asker, Said, free_name, says_nothing};
use super::cells::Absent;
use super::{Filled, Filling};
use crate::control::Unit;
use crate::error::{Error, Result};
use crate::ingest::FilePlan;
use crate::ingest::dialect::{Delimiter, DialectRequest};
use crate::ingest::reader::input_bytes;
use crate::storage::RealDisk;
use crate::table::{Cells, Kind, Table, TableBatch, TableWriter};
use crate::times::parse_time;
use crate::units;
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float32Array, Float64Array, LargeStringArray, PrimitiveArray, RecordBatch,
    StringArray, new_null_array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use std::sync::Arc;

pub(super) fn fill(
    filling: &Filling<'_>,
    plan: &FilePlan,
    delimiter: Option<Delimiter>,
    header: Option<bool>,
    kind: Kind,
    filled: &mut Filled,
) -> Result<()> {
    let encoding = filling.options.convert.read.dialect.encoding;
    let request = DialectRequest { delimiter, header, encoding };
    let mut table = Table::open_source(filling.source, &[], request, filling.control)?;
    let numbers = delimiter.is_some() && kind == Kind::Parquet;
    let wide = plan.wide.as_ref();
    let values = plan.values();
    let mut fields: Vec<Arc<Field>> = table.schema().fields().iter().cloned().collect();
    for &column in &values {
        let field = &fields[column];
        let kind = if numbers { DataType::Float64 } else { field.data_type().clone() };
        fields[column] = Arc::new(Field::new(field.name(), kind, true));
    }
    if wide.is_none() {
        let names = table.names();
        fields.push(Arc::new(Field::new(free_name("filled", &names), DataType::Boolean, false)));
        if filling.sd {
            fields.push(Arc::new(Field::new(free_name("sd", &names), DataType::Float64, true)));
        }
    }
    let schema: SchemaRef = Arc::new(Schema::new(fields));
    let kinds = plan.id_columns().iter().map(|mode| table.schema().field(mode.column).data_type().clone());
    let kinds = kinds.chain(wide.map(|_| DataType::Utf8));
    let asker = Asker::new(filling.model, filling.ids, kinds, filling.name, filling.sd)?;
    let mut absent =
        filling.options.all_cells.then(|| Absent::new(filling.ids, filling.memory)).transpose()?;
    let mut rounds = false;
    let disk = RealDisk;
    let mut writer =
        TableWriter::create(&disk, Some(&filling.output), SchemaRef::clone(&schema), filling.control)?;
    let sd_schema = with_numbers(&schema, &values);
    let mut sds = match wide.and(filling.sd_output()) {
        Some(output) => {
            Some(TableWriter::create(&disk, Some(&output), SchemaRef::clone(&sd_schema), filling.control)?)
        }
        None => None,
    };
    filling.control.progress().stage(
        "fill",
        Unit::Bytes,
        input_bytes(filling.source.path(), filling.control),
    );
    while let Some(batch) = table.next_batch()? {
        filling.control.check()?;
        let mut columns: Vec<ArrayRef> = batch.rows.columns().to_vec();
        let mut sd_columns = columns.clone();
        let mut holes = vec![false; batch.rows.num_rows()];
        for (number, &column) in values.iter().enumerate() {
            let name = wide.map(|wide| wide.columns[number].1.as_str());
            let missing = missing(filling, plan, &batch, column)?;
            let said = ask(&asker, plan, &batch, &missing, name, filled)?;
            filled.filled += said.values.len() as u64;
            holes.iter_mut().zip(&missing).for_each(|(hole, missing)| *hole |= missing);
            let array = if numbers { as_numbers(&columns[column]) } else { Arc::clone(&columns[column]) };
            rounds |= !said.values.is_empty() && array.data_type().is_integer();
            columns[column] =
                replaced(&array, &missing, &said.values).map_err(|what| Error::input(filling.name, what))?;
            sd_columns[column] = spread(&missing, &said);
        }
        if let Some(absent) = &mut absent {
            see(filling, plan, &batch, absent)?;
        }
        filled.rows += holes.len() as u64;
        if wide.is_none() {
            columns.push(Arc::new(BooleanArray::from(holes)));
            columns.extend(filling.sd.then(|| Arc::clone(&sd_columns[plan.value])));
        }
        write(&mut writer, &schema, columns)?;
        if let Some(sds) = &mut sds {
            write(sds, &sd_schema, sd_columns)?;
        }
        filling.control.progress().advance(table.bytes_read(), &units::rows(filled.rows));
    }
    if let Some(absent) = absent {
        absent.for_each(filling, filled, |ids, said| {
            let columns = schema.fields().iter().enumerate().map(|(column, field)| {
                let mode = plan.modes.iter().position(|mode| mode.column == column);
                match mode {
                    Some(mode) => labels(&ids[mode], field.data_type()).map_err(|what| {
                        Error::request(format!("`all_cells`: column {} {what}", field.name()))
                    }),
                    None if column == plan.value => {
                        rounds |= field.data_type().is_integer();
                        let none = new_null_array(field.data_type(), said.values.len());
                        replaced(&none, &vec![true; said.values.len()], &said.values)
                            .map_err(|what| Error::input(filling.name, what))
                    }
                    None if column == plan.count => {
                        Ok(Arc::new(BooleanArray::from(vec![true; said.values.len()])) as ArrayRef)
                    }
                    None if column > plan.count => {
                        Ok(Arc::new(Float64Array::from(said.sds.clone())) as ArrayRef)
                    }
                    None if field.is_nullable() => Ok(new_null_array(field.data_type(), said.values.len())),
                    None => Err(Error::request(format!(
                        "`all_cells` leaves column {} empty, and it may not be null",
                        field.name()
                    ))),
                }
            });
            let columns = columns.collect::<Result<Vec<_>>>()?;
            write(&mut writer, &schema, columns)
        })?;
    }
    if rounds {
        filling.control.say("the values are integers: what was filled in is rounded");
    }
    sds.map_or(Ok(()), |sds| sds.finish().map(drop))?;
    writer.finish()?;
    Ok(())
}

/// The same columns, those of `values` being numbers that may be missing.
fn with_numbers(schema: &SchemaRef, values: &[usize]) -> SchemaRef {
    let mut fields: Vec<Arc<Field>> = schema.fields().iter().cloned().collect();
    for &column in values {
        fields[column] = Arc::new(Field::new(fields[column].name(), DataType::Float64, true));
    }
    Arc::new(Schema::new(fields))
}

/// The standard deviations of what was missing; nothing where a value was.
fn spread(missing: &[bool], said: &Said) -> ArrayRef {
    let mut sds = said.sds.iter();
    let next = |missing: &bool| if *missing { sds.next().copied() } else { None };
    Arc::new(Float64Array::from_iter(missing.iter().map(next).collect::<Vec<_>>()))
}

fn write(writer: &mut TableWriter<'_>, schema: &SchemaRef, columns: Vec<ArrayRef>) -> Result<()> {
    let rows = RecordBatch::try_new(SchemaRef::clone(schema), columns);
    writer.write(&rows.map_err(|error| Error::request(error.to_string()))?)
}

/// Which rows have no value in a column.
fn missing(filling: &Filling<'_>, plan: &FilePlan, batch: &TableBatch, column: usize) -> Result<Vec<bool>> {
    let array = batch.rows.column(column);
    if array.data_type() == &DataType::Null {
        return Ok(vec![true; array.len()]);
    }
    let cells = Cells::of(array, batch.rows.schema().field(column).name(), filling.name)?;
    let nothing = |text: &str| says_nothing(text) || plan.rules.missing.has(text.trim().as_bytes());
    Ok((0..array.len()).map(|row| cells.text(row).is_none_or(|text| nothing(&text))).collect())
}

fn ask(
    asker: &Asker<'_>,
    plan: &FilePlan,
    batch: &TableBatch,
    missing: &[bool],
    name: Option<&str>,
    filled: &mut Filled,
) -> Result<Said> {
    let lines: Vec<u64> =
        batch.lines.iter().zip(missing).filter(|(_, missing)| **missing).map(|(line, _)| *line).collect();
    if lines.is_empty() {
        return Ok(Said::default());
    }
    let which = BooleanArray::from(missing.to_vec());
    let pick = |mode: &crate::ingest::ModeColumn| {
        let picked = arrow_select::filter::filter(batch.rows.column(mode.column), &which);
        picked.map_err(|error| Error::request(error.to_string()))
    };
    let mut columns = plan.id_columns().iter().map(pick).collect::<Result<Vec<_>>>()?;
    columns.extend(name.map(|name| Arc::new(StringArray::from(vec![name; lines.len()])) as ArrayRef));
    asker.ask(columns, lines, filled)
}

/// The cells of a batch have a row.
fn see(filling: &Filling<'_>, plan: &FilePlan, batch: &TableBatch, absent: &mut Absent) -> Result<()> {
    let cells =
        plan.modes.iter().map(|mode| Cells::of(batch.rows.column(mode.column), &mode.name, filling.name));
    let cells = cells.collect::<Result<Vec<_>>>()?;
    for row in 0..batch.rows.num_rows() {
        absent.see(filling.ids, |mode| cells[mode].text(row));
    }
    Ok(())
}

/// Text as numbers; what is none is missing, and will be replaced.
fn as_numbers(array: &ArrayRef) -> ArrayRef {
    let texts = array.as_string::<i32>();
    let number = |text: Option<&str>| text.and_then(|text| text.trim().parse::<f64>().ok());
    Arc::new(Float64Array::from_iter(texts.iter().map(number)))
}

/// A column with the values that were missing, of its own type.
fn replaced(array: &ArrayRef, missing: &[bool], said: &[f64]) -> Result<ArrayRef, String> {
    if said.is_empty() {
        return Ok(Arc::clone(array));
    }
    /// Every row's own value, or the next of those that were said.
    fn joined<T>(missing: &[bool], said: &[f64], own: impl Fn(usize) -> T, new: impl Fn(f64) -> T) -> Vec<T> {
        let mut said = said.iter();
        let next = |row: usize| match missing[row] {
            true => said.next().map_or_else(|| own(row), |&value| new(value)),
            false => own(row),
        };
        (0..missing.len()).map(next).collect()
    }
    macro_rules! integers {
        ($kind:ty, $native:ty) => {{
            let own = array.as_primitive::<$kind>();
            // Casts of floats keep to the range of the type.
            let values = joined(missing, said, |row| own.value(row), |value| value.round() as $native);
            Arc::new(PrimitiveArray::<$kind>::from_iter_values(values)) as ArrayRef
        }};
    }
    Ok(match array.data_type() {
        DataType::Float64 => {
            let own = array.as_primitive::<Float64Type>();
            Arc::new(Float64Array::from(joined(missing, said, |row| own.value(row), |value| value)))
        }
        DataType::Float32 => {
            let own = array.as_primitive::<Float32Type>();
            Arc::new(Float32Array::from(joined(missing, said, |row| own.value(row), |value| value as f32)))
        }
        DataType::Int8 => integers!(Int8Type, i8),
        DataType::Int16 => integers!(Int16Type, i16),
        DataType::Int32 => integers!(Int32Type, i32),
        DataType::Int64 => integers!(Int64Type, i64),
        DataType::UInt8 => integers!(UInt8Type, u8),
        DataType::UInt16 => integers!(UInt16Type, u16),
        DataType::UInt32 => integers!(UInt32Type, u32),
        DataType::UInt64 => integers!(UInt64Type, u64),
        DataType::Decimal128(precision, scale) => {
            let own = array.as_primitive::<Decimal128Type>();
            let unit = 10f64.powi(i32::from(*scale));
            let values = joined(missing, said, |row| own.value(row), |value| (value * unit).round() as i128);
            let values = PrimitiveArray::<Decimal128Type>::from_iter_values(values);
            let values = values.with_precision_and_scale(*precision, *scale);
            Arc::new(values.map_err(|error| error.to_string())?)
        }
        DataType::Utf8 => {
            let own = array.as_string::<i32>();
            let text = joined(missing, said, |row| own.value(row).to_string(), |value| value.to_string());
            Arc::new(StringArray::from(text))
        }
        DataType::LargeUtf8 => {
            let own = array.as_string::<i64>();
            let text = joined(missing, said, |row| own.value(row).to_string(), |value| value.to_string());
            Arc::new(LargeStringArray::from(text))
        }
        other => return Err(format!("a value of type {other} cannot be filled in: use floats or integers")),
    })
}

/// Ids as a column of the type that the table has.
fn labels(ids: &[String], kind: &DataType) -> Result<ArrayRef, String> {
    fn all<T>(ids: &[String], of: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, String> {
        ids.iter().map(|id| of(id).ok_or_else(|| format!("cannot hold '{id}'"))).collect()
    }
    macro_rules! numbers {
        ($kind:ty, $native:ty) => {
            Arc::new(PrimitiveArray::<$kind>::from_iter_values(all(ids, |id| id.parse::<$native>().ok())?))
                as ArrayRef
        };
    }
    macro_rules! times {
        ($kind:ty, $per_second:expr, $zone:expr) => {{
            let moment = |id: &str| parse_time(id).map(|seconds| (seconds * $per_second).round() as i64);
            let array = PrimitiveArray::<$kind>::from_iter_values(all(ids, moment)?);
            Arc::new(array.with_timezone_opt($zone.clone())) as ArrayRef
        }};
    }
    Ok(match kind {
        DataType::Utf8 => Arc::new(StringArray::from_iter_values(ids)),
        DataType::LargeUtf8 => Arc::new(LargeStringArray::from_iter_values(ids)),
        DataType::Int8 => numbers!(Int8Type, i8),
        DataType::Int16 => numbers!(Int16Type, i16),
        DataType::Int32 => numbers!(Int32Type, i32),
        DataType::Int64 => numbers!(Int64Type, i64),
        DataType::UInt8 => numbers!(UInt8Type, u8),
        DataType::UInt16 => numbers!(UInt16Type, u16),
        DataType::UInt32 => numbers!(UInt32Type, u32),
        DataType::UInt64 => numbers!(UInt64Type, u64),
        DataType::Float32 => numbers!(Float32Type, f32),
        DataType::Float64 => numbers!(Float64Type, f64),
        DataType::Date32 => {
            let day = |id: &str| parse_time(id).map(|seconds| (seconds / 86_400.0).floor() as i32);
            Arc::new(PrimitiveArray::<Date32Type>::from_iter_values(all(ids, day)?))
        }
        DataType::Timestamp(TimeUnit::Second, zone) => times!(TimestampSecondType, 1.0, zone),
        DataType::Timestamp(TimeUnit::Millisecond, zone) => times!(TimestampMillisecondType, 1e3, zone),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => times!(TimestampMicrosecondType, 1e6, zone),
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => times!(TimestampNanosecondType, 1e9, zone),
        other => return Err(format!("of type {other} cannot be written")),
    })
}
