//! Asks the model for the values that are missing.

use super::Filled;
use crate::answer::{AnswerOptions, Answered, Predictor};
use crate::error::{Error, Result};
use crate::ingest::is_missing;
use crate::ingest::number::parse_number;
use crate::model::{ModeIds, Model};
use crate::table::TableBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::path::Path;
use std::sync::Arc;

/// What a model says, in the order of the questions.
#[derive(Default)]
pub(super) struct Said {
    pub(super) values: Vec<f64>,
    /// The standard deviations of observations about them; empty where they are not wanted.
    pub(super) sds: Vec<f64>,
}

/// A model that is asked by columns, one per mode.
pub(super) struct Asker<'m> {
    predictor: Predictor<'m>,
    schema: SchemaRef,
}

impl<'m> Asker<'m> {
    /// For columns of these types; `path` is the table in messages.
    pub(super) fn new(
        model: &'m Model,
        ids: &'m [ModeIds],
        types: impl Iterator<Item = DataType>,
        path: &Path,
        sd: bool,
    ) -> Result<Self> {
        let fields = ids.iter().zip(types).map(|(mode, kind)| Field::new(mode.name(), kind, true));
        let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let options = AnswerOptions { sd, ..AnswerOptions::default() };
        let predictor = Predictor::new(model, ids, &schema, true, path, &options)?;
        Ok(Asker { predictor, schema })
    }

    /// What the model says of these places; counted in `filled`.
    pub(super) fn ask(&self, columns: Vec<ArrayRef>, lines: Vec<u64>, filled: &mut Filled) -> Result<Said> {
        let rows = RecordBatch::try_new(SchemaRef::clone(&self.schema), columns);
        let rows = rows.map_err(|error| Error::request(error.to_string()))?;
        let mut answered = Answered::default();
        let answers = self.predictor.answer(&TableBatch { rows, lines }, &mut answered)?;
        filled.unknown += answered.unknown;
        filled.outside_bins += answered.outside_bins;
        // The columns behind the questions: prediction, known, and sd where it is wanted.
        let numbers = |column: usize| {
            let column = answers.columns().get(self.schema.fields().len() + column);
            column.map_or_else(Vec::new, |column| column.as_primitive::<Float64Type>().values().to_vec())
        };
        Ok(Said { values: numbers(0), sds: numbers(2) })
    }
}

/// Whether the text of a value says that there is none.
pub(super) fn says_nothing(text: &str) -> bool {
    let text = text.trim().as_bytes();
    is_missing(text) || parse_number(text).is_some_and(f64::is_nan)
}

/// The name of a column that is added: one that no other column has.
pub(super) fn free_name(name: &str, names: &[String]) -> String {
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    let mut all = std::iter::once(name.to_string()).chain(numbered);
    all.find(|name| !names.contains(name)).unwrap_or_default()
}
