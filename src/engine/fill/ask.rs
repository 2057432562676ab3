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
    ) -> Result<Self> {
        let fields = ids.iter().zip(types).map(|(mode, kind)| Field::new(mode.name(), kind, true));
        let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let predictor = Predictor::new(model, ids, &schema, true, path, &AnswerOptions::default())?;
        Ok(Asker { predictor, schema })
    }

    /// The values at these places, in the order of rows; counted in `filled`. What else the model says of a
    /// value stands in the other columns of the answers.
    pub(super) fn ask(
        &self,
        columns: Vec<ArrayRef>,
        lines: Vec<u64>,
        filled: &mut Filled,
    ) -> Result<Vec<f64>> {
        let rows = RecordBatch::try_new(SchemaRef::clone(&self.schema), columns);
        let rows = rows.map_err(|error| Error::request(error.to_string()))?;
        let mut answered = Answered::default();
        let answers = self.predictor.answer(&TableBatch { rows, lines }, &mut answered)?;
        filled.unknown += answered.unknown;
        filled.outside_bins += answered.outside_bins;
        let values = answers.column(self.schema.fields().len()).as_primitive::<Float64Type>();
        Ok(values.values().to_vec())
    }
}

/// Whether the text of a value says that there is none.
pub(super) fn says_nothing(text: &str) -> bool {
    let text = text.trim().as_bytes();
    is_missing(text) || parse_number(text).is_some_and(f64::is_nan)
}

/// The name of the column that tells what was filled: one that no other column has.
pub(super) fn mark(names: &[String]) -> String {
    let numbered = (2..).map(|number| format!("filled_{number}"));
    let mut all = std::iter::once("filled".to_string()).chain(numbered);
    all.find(|name| !names.contains(name)).unwrap_or_default()
}
