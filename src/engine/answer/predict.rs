//! A value for every row of a table of ids, streamed.

use super::units::{Met, check_unit, times_of};
use super::unsure::check_sure;
use crate::MAX_ORDER;
use crate::control::{Control, Unit};
use crate::error::{Error, Result};
use crate::ingest::Source;
use crate::ingest::columns::find_name;
use crate::ingest::dialect::DialectRequest;
use crate::ingest::number::parse_number;
use crate::message::list;
use crate::model::{Found, ModeIds, Model, Place, Places, Spreads};
use crate::remote;
use crate::run::inputs_of;
use crate::storage::{Output, RealDisk};
use crate::table::{Cells, ColumnTypes, Kind, Table, TableBatch, TableWriter};
use crate::units;
use arrow_array::{ArrayRef, BooleanArray, Float64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use rayon::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How questions are answered.
#[derive(Debug, Clone, Default)]
pub struct AnswerOptions {
    /// The table to write; standard output where not given.
    pub output: Option<PathBuf>,
    /// Whether to replace a table that exists.
    pub force: bool,
    /// Whether an unknown id is an error.
    pub strict: bool,
    /// The columns of the modes, in the model's order, by name or number; else by the modes' names.
    pub columns: Option<Vec<String>>,
    /// Whether to tell the standard deviation of an observation, too.
    pub sd: bool,
    /// Modes that are the same for all rows.
    pub given: Vec<(usize, Place)>,
    /// The dialect of text, where given.
    pub dialect: DialectRequest,
}

/// What was answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Answered {
    /// Rows.
    pub rows: u64,
    /// Of these, rows with an id that the model does not know.
    pub unknown: u64,
    /// Rows with a number or a time outside the bins.
    pub outside_bins: u64,
}

/// Where the place of a mode comes from.
enum From {
    Column(usize),
    Given(Place),
}

/// A model that is asked by tables of certain columns.
pub struct Predictor<'m> {
    places: Places<'m>,
    spreads: Option<Spreads<'m>>,
    ids: &'m [ModeIds],
    from: Vec<From>,
    strict: bool,
    /// What the table is called in messages.
    path: PathBuf,
    schema: SchemaRef,
}

impl<'m> Predictor<'m> {
    /// For tables with the columns of `schema`; `named` where the table itself has given them their names.
    pub fn new(
        model: &'m Model,
        ids: &'m [ModeIds],
        schema: &Schema,
        named: bool,
        path: &Path,
        options: &AnswerOptions,
    ) -> Result<Self> {
        let mut fields: Vec<Arc<Field>> = schema.fields().iter().cloned().collect();
        let names: Vec<String> = fields.iter().map(|field| field.name().clone()).collect();
        let from = sources(&names, named, path, ids, options)?;
        let averaged: Vec<bool> =
            from.iter().map(|from| matches!(from, From::Given(Place::Average))).collect();
        check_sure(model, options.sd)?;
        let spreads = options.sd.then(|| Spreads::new(model, &averaged)).transpose()?;
        let sd = options.sd.then_some(("sd", DataType::Float64));
        for (name, kind) in
            [("prediction", DataType::Float64), ("known", DataType::Boolean)].into_iter().chain(sd)
        {
            let name = free_name(name, &fields);
            fields.push(Arc::new(Field::new(name, kind, false)));
        }
        let (places, schema) = (Places::new(model, &averaged), Arc::new(Schema::new(fields)));
        Ok(Predictor { places, spreads, ids, from, strict: options.strict, path: path.into(), schema })
    }

    /// The columns of the answers: those of the questions, `prediction` and `known`, and `sd` where it is wanted.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The rows of a batch with their answers, which are counted in `answered`.
    pub fn answer(&self, batch: &TableBatch, answered: &mut Answered) -> Result<RecordBatch> {
        let rows = answers(&self.places, self.spreads.as_ref(), self.ids, &self.from, batch, &self.path)?;
        self.check_units(batch, &rows)?;
        let mut columns: Vec<ArrayRef> = batch.rows.columns().to_vec();
        for (row, answer) in rows.iter().enumerate() {
            if let (false, true) = (answer.known, self.strict) {
                let text = cell(batch, &self.from, self.ids, answer.unknown, row, &self.path)?;
                let what = format!(
                    "the model does not know {} '{text}': leave the row out, or take the fallback without `strict`",
                    self.ids[answer.unknown].name()
                );
                return Err(Error::Row { file: self.path.clone(), line: batch.lines[row], what });
            }
            answered.unknown += u64::from(!answer.known);
            answered.outside_bins +=
                u64::from(answer.found.iter().any(|found| matches!(found, Found::Nearest(_))));
        }
        answered.rows += rows.len() as u64;
        columns.push(Arc::new(Float64Array::from_iter_values(rows.iter().map(|answer| answer.value))));
        columns.push(Arc::new(BooleanArray::from_iter(rows.iter().map(|answer| Some(answer.known)))));
        if self.spreads.is_some() {
            columns.push(Arc::new(Float64Array::from_iter_values(rows.iter().map(|answer| answer.sd))));
        }
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .map_err(|error| Error::request(error.to_string()))
    }

    /// Refuses a batch whose times are of another unit than those of the data.
    fn check_units(&self, batch: &TableBatch, rows: &[Answer]) -> Result<()> {
        for (mode, (from, ids)) in self.from.iter().zip(self.ids).enumerate() {
            let (From::Column(column), true) = (from, ids.bins().is_some()) else { continue };
            let mut met = Met::default();
            rows.iter().for_each(|answer| met.add(answer.found[mode]));
            if met.is_doubtful(ids) {
                let cells = Cells::of(batch.rows.column(*column), ids.name(), &self.path)?;
                let time = |row: usize| match cells.moment(row) {
                    Some(_) => Some(None),
                    None => cells.text(row).map(|text| parse_number(text.trim().as_bytes())),
                };
                let times = times_of((0..rows.len()).filter_map(time), &self.path);
                check_unit(ids, &times, 0, &self.path)?;
            }
        }
        Ok(())
    }
}

/// Writes every row of `queries` with the columns `prediction` and `known` behind it, and `sd` where it is wanted.
pub fn predict_file(
    model: &Model,
    queries: &Path,
    options: &AnswerOptions,
    control: &Control,
) -> Result<Answered> {
    let inputs = || inputs_of(model.run()).into_iter().chain([queries.to_path_buf()]);
    let output = options.output.as_ref();
    let output = output.map(|path| Output::new(path, options.force).apart_from(inputs()));
    TableWriter::check(output.as_ref(), control)?;
    let ids = ModeIds::of_all(model)?;
    let names: Vec<String> = ids.iter().map(|mode| mode.name().to_string()).collect();
    let known_names = options.columns.as_ref().unwrap_or(&names);
    // A file with types is written when those of all columns of text are known: it is read twice.
    let typed = output.as_ref().is_some_and(|place| matches!(Kind::of(&place.path), Ok(Kind::Parquet)));
    let source = match typed && !remote::is_remote(queries) {
        true => Source::again(queries, &std::env::temp_dir(), control)?,
        false => Source::from(queries),
    };
    let source = source.encoded(options.dialect.encoding);
    let open = || Table::open_source(&source, known_names, options.dialect, control);
    let mut table = open()?;
    let mut types = None;
    if typed && table.is_text() {
        types = Some(types_of(table, control)?);
        table = open()?;
    }
    let predictor = Predictor::new(model, &ids, table.schema(), table.has_header(), table.path(), options)?;
    let disk = RealDisk;
    let schema = match &types {
        Some(types) => types.schema(predictor.schema()),
        None => Arc::clone(predictor.schema()),
    };
    let mut writer = TableWriter::create(&disk, output.as_ref(), Arc::clone(&schema), control)?;
    let mut answered = Answered::default();
    control.progress().stage("predict", Unit::Bytes, crate::ingest::reader::input_bytes(queries, control));
    while let Some(batch) = table.next_batch()? {
        control.check()?;
        let answers = predictor.answer(&batch, &mut answered)?;
        match &types {
            Some(types) => writer.write(&types.typed(&answers, &schema)?)?,
            None => writer.write(&answers)?,
        }
        if writer.closed() {
            break;
        }
        control.progress().advance(table.bytes_read(), &units::rows(answered.rows));
    }
    writer.finish()?;
    Ok(answered)
}

/// The types of the columns of a table of text.
fn types_of(mut table: Table, control: &Control) -> Result<ColumnTypes> {
    let mut types = ColumnTypes::new(table.schema().fields().len());
    while let Some(batch) = table.next_batch()? {
        control.check()?;
        types.see(&batch.rows);
    }
    Ok(types)
}

#[derive(Clone, Copy)]
struct Answer {
    value: f64,
    sd: f64,
    known: bool,
    /// What was found of the modes that have a column.
    found: [Found; MAX_ORDER],
    /// The first mode that is not known.
    unknown: usize,
}

fn answers(
    places: &Places<'_>,
    spreads: Option<&Spreads<'_>>,
    ids: &[ModeIds],
    from: &[From],
    batch: &TableBatch,
    path: &Path,
) -> Result<Vec<Answer>> {
    let mut columns = Vec::with_capacity(from.len());
    for (source, mode) in from.iter().zip(ids) {
        columns.push(match source {
            From::Column(column) => Some(Cells::of(batch.rows.column(*column), mode.name(), path)?),
            From::Given(_) => None,
        });
    }
    let one = |row: usize| -> Result<Answer> {
        let mut asked = [Place::Unknown; MAX_ORDER];
        let (mut met, mut unknown) = ([Found::Unknown; MAX_ORDER], None);
        for (mode, (source, cells)) in from.iter().zip(&columns).enumerate() {
            asked[mode] = match (source, cells) {
                (From::Given(place), _) => *place,
                (From::Column(_), Some(cells)) => {
                    let found = match cells.moment(row).filter(|_| ids[mode].bins().is_some()) {
                        Some(seconds) => Ok(ids[mode].moment(seconds)),
                        None if ids[mode].bins().is_none() && cells.integer(row).is_some() => {
                            Ok(cells.integer(row).map_or(Found::Unknown, |id| ids[mode].integer(id)))
                        }
                        None => cells.text(row).map_or(Ok(Found::Unknown), |text| ids[mode].find(&text)),
                    };
                    let found = found.map_err(|what| Error::Row {
                        file: path.into(),
                        line: batch.lines[row],
                        what,
                    })?;
                    met[mode] = found;
                    found.index().into()
                }
                (From::Column(_), None) => Place::Unknown,
            };
            if places.settle(mode, asked[mode]) == Place::Unknown {
                unknown = unknown.or(Some(mode));
            }
        }
        let answer = places.value(&asked[..from.len()]);
        let sd = spreads.map_or(0.0, |spreads| spreads.predictive(places, &asked[..from.len()]).sd());
        Ok(Answer { value: answer.value, sd, known: answer.known, found: met, unknown: unknown.unwrap_or(0) })
    };
    (0..batch.rows.num_rows()).into_par_iter().with_min_len(512).map(one).collect()
}

/// The text of a row's cell, for a message.
fn cell(
    batch: &TableBatch,
    from: &[From],
    ids: &[ModeIds],
    mode: usize,
    row: usize,
    path: &Path,
) -> Result<String> {
    let From::Column(column) = from[mode] else { return Ok("`given`".into()) };
    let cells = Cells::of(batch.rows.column(column), ids[mode].name(), path)?;
    Ok(cells.text(row).unwrap_or_default().into_owned())
}

/// Finds the column of every mode that is not given.
fn sources(
    names: &[String],
    named: bool,
    path: &Path,
    ids: &[ModeIds],
    options: &AnswerOptions,
) -> Result<Vec<From>> {
    let wrong = |what: String| Error::input(path, what);
    let columns: Vec<&String> = match &options.columns {
        Some(columns) => {
            let open: Vec<&str> = (0..ids.len())
                .filter(|mode| options.given.iter().all(|(given, _)| given != mode))
                .map(|mode| ids[mode].name())
                .collect();
            if columns.len() != open.len() {
                let (count, open) = (columns.len(), open.join(", "));
                return Err(Error::request(format!("`modes` names {count} columns for the modes {open}")));
            }
            columns.iter().collect()
        }
        None => Vec::new(),
    };
    let mut columns = columns.into_iter();
    let mut from = Vec::with_capacity(ids.len());
    for (mode, about) in ids.iter().enumerate() {
        if let Some((_, place)) = options.given.iter().find(|(given, _)| *given == mode) {
            from.push(From::Given(*place));
            continue;
        }
        let asked = columns.next();
        let wanted = asked.map_or(about.name(), String::as_str);
        // Names that were made from a column's number are numbers to a file without a header.
        let number = match asked {
            Some(text) => text.parse::<usize>().ok(),
            None if named => None,
            None => about
                .name()
                .strip_prefix("column")
                .or(about.name().strip_prefix("mode"))
                .and_then(|number| number.parse().ok()),
        };
        let by_name = find_name(names, wanted).map_err(wrong)?;
        let by_number = number.filter(|number| (1..=names.len()).contains(number)).map(|number| number - 1);
        let Some(column) = by_name.or(by_number) else {
            let known = if named {
                format!("the columns are {} (name them with `modes`)", list(names))
            } else {
                format!("the file has no header and {} columns, name them with `modes` 1,2,...", names.len())
            };
            let what = format!(
                "there is no column '{wanted}' for the mode {0}: {known}; or give it for all rows with `given` {0}=...",
                about.name()
            );
            return Err(wrong(what));
        };
        from.push(From::Column(column));
    }
    Ok(from)
}

/// A name that no other column has.
fn free_name(name: &str, fields: &[Arc<Field>]) -> String {
    let taken = |name: &str| fields.iter().any(|field| field.name() == name);
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    std::iter::once(name.to_string()).chain(numbered).find(|name| !taken(name)).unwrap_or_default()
}
