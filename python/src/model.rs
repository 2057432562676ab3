//! A model in memory, asked by ids.

use crate::batches::{self, Raised, take_raised};
use crate::errors;
use crate::table::{Source, Stream, Table};
use crate::work::{self, Listeners};
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::SchemaRef;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyDict, PyFloat, PyInt, PyString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tenfill_engine::answer::{
    AnswerOptions, Answered, Predictor, Questions, USUAL_TOP, given_places, mode_named, recommend_some,
};
use tenfill_engine::control::Control;
use tenfill_engine::ingest::batches::same_columns;
use tenfill_engine::ingest::{Batches, STREAM};
use tenfill_engine::model::{self, Found, ModeIds, Place, Places, Spreads};
use tenfill_engine::run::Config;
use tenfill_engine::shard::{Dataset, Split};
use tenfill_engine::table::{TableBatch, labels_array};
use tenfill_engine::{Error, Result};

/// Rows that are answered at a time.
const ROWS: usize = 1 << 16;

/// What is shared by all who ask.
struct Loaded {
    path: PathBuf,
    model: model::Model,
    ids: Vec<ModeIds>,
    /// The datasets of the run, opened when somebody asks what was observed.
    datasets: OnceLock<Vec<Dataset>>,
}

impl Loaded {
    fn datasets(&self) -> Result<&[Dataset]> {
        if self.datasets.get().is_none() {
            let opened = Config::read(&self.path)?.open_datasets(&self.path)?;
            let _ = self.datasets.set(opened);
        }
        Ok(self.datasets.get().map_or(&[], Vec::as_slice))
    }
}

/// A model of a run, in memory.
#[pyclass(frozen, module = "tenfill._native")]
pub struct Model {
    loaded: Arc<Loaded>,
}

/// Bytes of NumPy's `f8`.
fn numbers<'py>(py: Python<'py>, numbers: &[f64]) -> Bound<'py, PyByteArray> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
    PyByteArray::new(py, &bytes)
}

/// Answers batches as they come.
struct Answers {
    loaded: Arc<Loaded>,
    questions: Batches,
    options: AnswerOptions,
    rest: Option<RecordBatch>,
    schema: SchemaRef,
    answered: Answered,
    raised: Raised,
}

impl Answers {
    fn new(loaded: Arc<Loaded>, questions: Batches, options: AnswerOptions, raised: Raised) -> Result<Self> {
        let asked = questions.schema();
        let predictor =
            Predictor::new(&loaded.model, &loaded.ids, &asked, true, Path::new(STREAM), &options)?;
        let (schema, answered) = (Arc::clone(predictor.schema()), Answered::default());
        drop(predictor);
        Ok(Answers { loaded, questions, options, rest: None, schema, answered, raised })
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        let batch = match self.rest.take() {
            Some(batch) => batch,
            None => {
                let next = self.questions.next().transpose();
                let rows = self.answered.rows;
                let failed = |error: arrow_schema::ArrowError| {
                    Error::input(STREAM, format!("the stream has failed after {rows} rows ({error})"))
                };
                match next.map_err(failed)? {
                    Some(batch) => batch,
                    None => return Ok(None),
                }
            }
        };
        if !same_columns(&batch.schema(), &self.questions.schema()) {
            let what =
                format!("a batch behind {} rows has other columns than the first one", self.answered.rows);
            return Err(Error::input(STREAM, what));
        }
        let count = batch.num_rows().min(ROWS);
        if count < batch.num_rows() {
            self.rest = Some(batch.slice(count, batch.num_rows() - count));
        }
        let before = self.answered.rows + 1;
        let batch =
            TableBatch { rows: batch.slice(0, count), lines: (before..before + count as u64).collect() };
        let Loaded { model, ids, .. } = &*self.loaded;
        let asked = batch.rows.schema();
        let predictor = Predictor::new(model, ids, &asked, true, Path::new(STREAM), &self.options)?;
        work::pool()?.install(|| predictor.answer(&batch, &mut self.answered)).map(Some)
    }
}

impl Source for Answers {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn next_batch(&mut self) -> PyResult<Option<RecordBatch>> {
        work::check_fork()?;
        self.next().map_err(|error| take_raised(&self.raised).unwrap_or_else(|| errors::raised(&error)))
    }
}

impl Model {
    fn answers(
        &self,
        source: &Bound<'_, PyAny>,
        columns: Option<Vec<String>>,
        given: &[(String, String)],
        strict: bool,
        sd: bool,
    ) -> PyResult<Answers> {
        let raised = Raised::default();
        let questions = batches::of(source, &raised)?;
        let Loaded { model, ids, .. } = &*self.loaded;
        let given = given_places(model, ids, given, strict, &Control::default());
        let options =
            given.map(|given| AnswerOptions { given, strict, columns, sd, ..AnswerOptions::default() });
        let answers =
            options.and_then(|options| Answers::new(Arc::clone(&self.loaded), questions, options, raised));
        answers.map_err(|error| errors::raised(&error))
    }

    /// An error for the number of no mode.
    fn check(&self, mode: usize) -> PyResult<()> {
        let order = self.loaded.ids.len();
        let wrong = || PyIndexError::new_err(format!("there are {order} modes"));
        (mode < order).then_some(()).ok_or_else(wrong)
    }

    /// The place that a Python value names in a mode.
    fn place(&self, mode: usize, id: &Bound<'_, PyAny>) -> PyResult<Place> {
        let Loaded { model, ids, .. } = &*self.loaded;
        let ids = &ids[mode];
        // A column of numbers with holes is one of floats in pandas. Longer integers are text to a dictionary.
        let whole = |number: f64| (number.fract() == 0.0 && number.abs() < 1e15).then_some(number as i64);
        let integer = match id.cast::<PyFloat>() {
            Ok(float) => whole(float.value()),
            Err(_) => id.cast::<PyInt>().ok().and_then(|id| id.extract::<i64>().ok()),
        };
        let integer =
            integer.filter(|id| ids.bins().is_none() && id.unsigned_abs() < 1_000_000_000_000_000_000);
        if let Some(id) = integer {
            return Ok(ids.integer(id).index().into());
        }
        let text = match id.cast::<PyString>() {
            Ok(text) => text.to_str()?.to_string(),
            Err(_) => id.str()?.to_str()?.to_string(),
        };
        if ids.bins().is_some() && text == "latest" {
            let latest = (0..ids.dim()).rev().find(|&index| model.knows(mode, index));
            return Ok(Place::Index(latest.unwrap_or(0)));
        }
        // No bin has this name; an id of that name goes first.
        if text == "average" && (ids.bins().is_some() || ids.find(&text) == Ok(Found::Unknown)) {
            return Ok(Place::Average);
        }
        let found = ids.find(&text).map_err(|what| errors::raised(&Error::request(what)))?;
        Ok(found.index().into())
    }

    /// The answer of `predict_one`.
    fn value_at(&self, given: &Bound<'_, PyDict>) -> PyResult<(f64, bool, Option<f64>)> {
        let Loaded { model, ids, .. } = &*self.loaded;
        let mut asked = Vec::with_capacity(ids.len());
        for (mode, about) in ids.iter().enumerate() {
            let Some(id) = given.get_item(about.name())? else {
                let what = format!("what is {0}? give {0}=..., an id or 'average'", about.name());
                return Err(errors::raised(&Error::request(what)));
            };
            asked.push(self.place(mode, &id)?);
        }
        if given.len() != ids.len() {
            for name in given.keys() {
                mode_named(ids, name.str()?.to_str()?).map_err(|error| errors::raised(&error))?;
            }
        }
        let averaged: Vec<bool> = asked.iter().map(|place| *place == Place::Average).collect();
        let places = Places::new(model, &averaged);
        let answer = places.value(&asked);
        let spreads = model.uncertainty.as_ref().map(|_| Spreads::new(model, &averaged)).transpose();
        let spreads = spreads.map_err(|error| errors::raised(&error))?;
        let sd = spreads.map(|spreads| spreads.predictive(&places, &asked).sd());
        Ok((answer.value, answer.known, sd))
    }
}

#[pymethods]
impl Model {
    /// Reads the model of a run.
    #[new]
    fn new(py: Python<'_>, run: PathBuf) -> PyResult<Self> {
        let load = || {
            let model = model::Model::read_with_uncertainty(&run)?;
            let ids = ModeIds::of_all(&model)?;
            Ok::<_, Error>(Loaded { path: run, model, ids, datasets: OnceLock::new() })
        };
        let loaded = py.detach(|| errors::guarded(|| load().map_err(|error| errors::raised(&error))))?;
        Ok(Model { loaded: Arc::new(loaded) })
    }

    /// What it says of itself, as JSON.
    fn about(&self) -> PyResult<String> {
        let Loaded { model, ids, .. } = &*self.loaded;
        let mut about = serde_json::to_value(&model.about).unwrap_or_default();
        about["mode_names"] = ids.iter().map(ModeIds::name).collect::<Vec<_>>().into();
        about["mean"] = model.biases.as_ref().map_or(about["mean"].clone(), |biases| biases.mean.into());
        about["has_biases"] = model.biases.is_some().into();
        Ok(about.to_string())
    }

    /// The core as bytes of `f8`, the last mode fastest.
    fn core<'py>(&self, py: Python<'py>) -> Bound<'py, PyByteArray> {
        numbers(py, self.loaded.model.point.core.numbers())
    }

    /// The indices of its numbers as bytes of `f8`, where only those that are not zero are kept.
    fn core_places<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyByteArray>> {
        let places = self.loaded.model.point.core.places()?;
        Some(numbers(py, &places.iter().map(|&index| f64::from(index)).collect::<Vec<_>>()))
    }

    /// The factor of a mode, row by row.
    fn factor<'py>(&self, py: Python<'py>, mode: usize) -> PyResult<Bound<'py, PyByteArray>> {
        self.check(mode)?;
        Ok(numbers(py, self.loaded.model.point.factors[mode].as_slice()))
    }

    /// The biases of a mode; none where it has none.
    fn bias<'py>(&self, py: Python<'py>, mode: usize) -> PyResult<Option<Bound<'py, PyByteArray>>> {
        self.check(mode)?;
        let biases = self.loaded.model.biases.as_ref().map(|biases| &biases.modes[mode]);
        Ok(biases.filter(|biases| !biases.is_empty()).map(|biases| numbers(py, biases)))
    }

    /// The ids of a mode and whether each has train entries, as a table.
    fn ids(&self, mode: usize) -> PyResult<Table> {
        self.check(mode)?;
        let Loaded { model, ids, .. } = &*self.loaded;
        let ids = &ids[mode];
        let labels = labels_array((0..ids.dim()).map(|index| ids.label(index)), ids.integers());
        let known = (0..ids.dim()).map(|index| Some(model.knows(mode, index)));
        let table =
            Table::of(vec![(ids.name(), labels), ("known", Arc::new(BooleanArray::from_iter(known)))]);
        table.map_err(|error| errors::raised(&error))
    }

    /// The value at one entry, whether all of it is known, and the standard deviation of an observation where the model
    /// knows it: an id per mode, by the modes' names.
    fn predict_one(&self, given: &Bound<'_, PyDict>) -> PyResult<(f64, bool, Option<f64>)> {
        work::check_fork()?;
        errors::guarded(|| self.value_at(given))
    }

    /// Every row of a source with its `prediction`, whether it is `known`, and its `sd` where that is wanted.
    #[pyo3(signature = (source, *, modes=None, given=Vec::new(), strict=false, sd=false))]
    fn predict(
        &self,
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        modes: Option<Vec<String>>,
        given: Vec<(String, String)>,
        strict: bool,
        sd: bool,
    ) -> PyResult<Table> {
        let mut answers = self.answers(source, modes, &given, strict, sd)?;
        let done = work::run(py, &Listeners::default(), false, move |control, _| {
            let mut batches = Vec::new();
            while let Some(batch) = answers.next_batch()? {
                control.check().map_err(|error| errors::raised(&error))?;
                batches.push(batch);
            }
            Ok(Table::new(Source::schema(&answers), batches))
        });
        done?
    }

    /// The same as a stream, which reads its source as it is read.
    #[pyo3(signature = (source, *, modes=None, given=Vec::new(), strict=false, sd=false))]
    fn predict_stream(
        &self,
        source: &Bound<'_, PyAny>,
        modes: Option<Vec<String>>,
        given: Vec<(String, String)>,
        strict: bool,
        sd: bool,
    ) -> PyResult<Stream> {
        work::check_fork()?;
        self.answers(source, modes, &given, strict, sd).map(Stream::new)
    }

    /// The best ids of a mode for some questions that give the same modes: per question, their ids as text.
    #[pyo3(signature = (modes, questions, rank_mode, top, *, splits, strict=false, sd=false, explore=None, progress=None))]
    fn recommend(
        &self,
        py: Python<'_>,
        modes: Vec<String>,
        questions: Vec<Vec<String>>,
        rank_mode: String,
        top: Option<usize>,
        splits: Vec<String>,
        strict: bool,
        sd: bool,
        explore: Option<f64>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Table> {
        let (loaded, listeners) = (Arc::clone(&self.loaded), Listeners { line: None, progress });
        let done = work::run(py, &listeners, false, move |control, _| {
            let told = (sd, explore);
            let best = || best(&loaded, &modes, &questions, &rank_mode, top, told, &splits, strict, &control);
            work::pool()?.install(best)
        });
        done?.map_err(|error| errors::raised(&error))
    }
}

fn best(
    loaded: &Loaded,
    modes: &[String],
    questions: &[Vec<String>],
    rank_mode: &str,
    top: Option<usize>,
    (sd, explore): (bool, Option<f64>),
    splits: &[String],
    strict: bool,
    control: &Control,
) -> Result<Table> {
    let Loaded { model, ids, .. } = loaded;
    let ranked = mode_named(ids, rank_mode)?;
    if modes.iter().any(|mode| mode == rank_mode) {
        return Err(Error::request(format!("{rank_mode} is ranked, so it cannot be given too")));
    }
    let mut asked = Vec::with_capacity(questions.len());
    for question in questions {
        let given: Vec<(String, String)> = modes.iter().cloned().zip(question.iter().cloned()).collect();
        let mut places = vec![Place::Average; ids.len()];
        for (mode, place) in given_places(model, ids, &given, strict, control)? {
            places[mode] = place;
        }
        asked.push(places);
    }
    let splits: Vec<Split> =
        Split::ALL.into_iter().filter(|split| splits.iter().any(|name| name == split.name())).collect();
    let datasets = if splits.is_empty() { &[] } else { loaded.datasets()? };
    let top = top.unwrap_or(USUAL_TOP.min(ids[ranked].dim() as usize));
    let asked = Questions { questions: asked, ranked, top, sd, explore, datasets, splits };
    let best = recommend_some(model, ids, &asked, control)?;
    let mut columns: Vec<(&str, ArrayRef)> = Vec::new();
    for (position, name) in modes.iter().enumerate() {
        let given = questions.iter().zip(&best);
        let texts = given.flat_map(|(question, best)| std::iter::repeat_n(&question[position], best.len()));
        columns.push((name, given_array(texts.collect())));
    }
    let positions = best.iter().flat_map(|best| 1..=best.len() as i64);
    columns.push(("rank", Arc::new(Int64Array::from_iter_values(positions))));
    let found = || best.iter().flatten();
    let labels = found().map(|one| ids[ranked].label(one.index));
    columns.push((rank_mode, labels_array(labels, ids[ranked].integers())));
    columns.push(("prediction", Arc::new(Float64Array::from_iter_values(found().map(|one| one.value)))));
    columns.push(("known", Arc::new(BooleanArray::from_iter(found().map(|one| Some(one.known))))));
    if explore.is_some() {
        columns.push(("bound", Arc::new(Float64Array::from_iter(found().map(|one| one.bound)))));
    }
    if sd {
        columns.push(("sd", Arc::new(Float64Array::from_iter(found().map(|one| one.sd)))));
    }
    Table::of(columns)
}

/// What was given, as integers where all of it are.
fn given_array(texts: Vec<&String>) -> ArrayRef {
    let integers: Option<Vec<i64>> = texts.iter().map(|text| text.parse().ok()).collect();
    match integers {
        Some(integers) => Arc::new(Int64Array::from(integers)),
        None => Arc::new(StringArray::from_iter_values(texts)),
    }
}
