//! The best of a mode for one question, or for every id of another mode, as a table.

use super::ranking::{Ranked, Ranking};
use super::seen::{Observed, SeenEntries};
use super::unsure::check_sure;
use crate::control::{Control, Unit};
use crate::error::{Error, Result};
use crate::model::{ModeIds, Model, Place, Places, Spreads};
use crate::run::inputs_of;
use crate::storage::{Output, RealDisk};
use crate::table::{TableWriter, labels_array};
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// Ids whose best are held before they are written.
const IDS_AT_ONCE: u32 = 4096;

/// How many are told where nobody says, of modes that have as many ids.
pub const USUAL_TOP: usize = 10;

/// What is asked for.
pub struct RecommendOptions<'d> {
    /// What is known of every mode; the ranked mode and `each` are not looked at.
    pub question: Vec<Place>,
    /// The mode whose best indices are wanted.
    pub ranked: usize,
    /// The mode for each id of which they are wanted; `None` for one question.
    pub each: Option<usize>,
    /// How many.
    pub top: usize,
    /// Whether to tell the standard deviation of an observation, too.
    pub sd: bool,
    /// Ranks by an upper bound, so many standard deviations of what is said above it.
    pub explore: Option<f64>,
    /// Where to look for the entries that are left out; `None` leaves none out.
    pub observed: Option<Observed<'d>>,
    /// The table to write; standard output where not given.
    pub output: Option<PathBuf>,
    /// Whether to replace a table that exists.
    pub force: bool,
}

/// What was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recommended {
    /// Questions: ids, or one.
    pub questions: u64,
    /// Rows.
    pub rows: u64,
    /// Entries that were left out because they were observed.
    pub left_out: u64,
}

/// Writes a table of `[id of each], rank, id, prediction, known`, with `bound` and `sd` where they are wanted.
pub fn recommend(model: &Model, options: &RecommendOptions<'_>, control: &Control) -> Result<Recommended> {
    let RecommendOptions { question, ranked, each, .. } = options;
    let ids = ModeIds::of_all(model)?;
    let open = |mode: usize| mode == *ranked || Some(mode) == *each;
    if options.top == 0 || options.top > ids[*ranked].dim() as usize {
        let (name, dim) = (ids[*ranked].name(), ids[*ranked].dim());
        let what = format!("`top` {} is not between 1 and the {dim} ids of {name}", options.top);
        return Err(Error::request(what));
    }
    let averaged: Vec<bool> =
        (0..ids.len()).map(|mode| !open(mode) && question[mode] == Place::Average).collect();
    let places = Places::new(model, &averaged);
    check_sure(model, options.sd || options.explore.is_some())?;
    let spreads = Spreads::wanted(model, &averaged, options.sd, options.explore)?;
    let mut ranking = Ranking::new(&places, question, *ranked, *each);
    if let Some(spreads) = &spreads {
        ranking = ranking.with_spreads(spreads, options.explore);
    }
    let mut fields = Vec::new();
    let kind = |mode: &ModeIds| if mode.integers() { DataType::Int64 } else { DataType::Utf8 };
    if let Some(each) = each {
        fields.push(Field::new(ids[*each].name(), kind(&ids[*each]), false));
    }
    fields.push(Field::new("rank", DataType::Int64, false));
    fields.push(Field::new(ids[*ranked].name(), kind(&ids[*ranked]), false));
    fields.push(Field::new("prediction", DataType::Float64, false));
    fields.push(Field::new("known", DataType::Boolean, false));
    let more = [("bound", options.explore.is_some()), ("sd", options.sd)];
    let more = more.into_iter().filter_map(|(name, wanted)| wanted.then_some(name));
    fields.extend(more.map(|name| Field::new(name, DataType::Float64, false)));
    let schema = Arc::new(Schema::new(fields));
    let disk = RealDisk;
    let output = options.output.as_ref();
    let output = output.map(|path| Output::new(path, options.force).apart_from(inputs_of(model.run())));
    let mut writer = TableWriter::create(&disk, output.as_ref(), Arc::clone(&schema), control)?;
    let dim = each.map_or(1, |each| ids[each].dim());
    let ranges = match &options.observed {
        Some(observed) if each.is_some() => observed.ranges(dim)?,
        _ => std::iter::once(0..dim).collect(),
    };
    control.progress().stage("recommend", Unit::Rows, dim.into());
    let mut done = Recommended::default();
    'ranges: for range in ranges {
        let seen = match &options.observed {
            Some(observed) => observed.entries(range.clone())?,
            None => SeenEntries::default(),
        };
        for first in range.clone().step_by(IDS_AT_ONCE as usize) {
            control.check()?;
            let part = first..range.end.min(first + IDS_AT_ONCE);
            done.left_out += part.clone().map(|id| seen.indices(id).len() as u64).sum::<u64>();
            let best = ranking.best(part.clone(), options.top, |id| seen.indices(id));
            done.questions += part.len() as u64;
            let columns = columns(&ids, options, part.clone(), &best);
            let rows = RecordBatch::try_new(Arc::clone(&schema), columns)
                .map_err(|error| Error::request(error.to_string()))?;
            writer.write(&rows)?;
            if writer.closed() {
                break 'ranges;
            }
            control.progress().advance(part.end.into(), &"");
        }
    }
    done.rows = writer.finish()?;
    Ok(done)
}

fn columns(
    ids: &[ModeIds],
    options: &RecommendOptions<'_>,
    part: Range<u32>,
    best: &[Vec<Ranked>],
) -> Vec<ArrayRef> {
    let (each, ranked) = (options.each, options.ranked);
    let mut columns: Vec<ArrayRef> = Vec::new();
    let rows = || best.iter().flatten();
    if let Some(each) = each {
        let mode = &ids[each];
        let labels = part.zip(best).flat_map(|(id, best)| std::iter::repeat_n(mode.label(id), best.len()));
        columns.push(labels_array(labels, mode.integers()));
    }
    let positions = best.iter().flat_map(|best| 1..=best.len() as i64);
    columns.push(Arc::new(Int64Array::from_iter_values(positions)));
    let labels = rows().map(|row| ids[ranked].label(row.index));
    columns.push(labels_array(labels, ids[ranked].integers()));
    columns.push(Arc::new(Float64Array::from_iter_values(rows().map(|row| row.value))));
    columns.push(Arc::new(BooleanArray::from_iter(rows().map(|row| Some(row.known)))));
    if options.explore.is_some() {
        columns.push(Arc::new(Float64Array::from_iter(rows().map(|row| row.bound))));
    }
    if options.sd {
        columns.push(Arc::new(Float64Array::from_iter(rows().map(|row| row.sd))));
    }
    columns
}
