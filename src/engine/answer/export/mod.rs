//! A model as files that other programs read: Parquet, CSV or NumPy's own.
//!
//! ```text
//! DIR/
//!   model.json                names, ranks, offset, range, ends, files; what a prediction needs beside arrays
//!   factor-<mode>.parquet     id, known, bias, u1 ... ur; a row per index
//!   variance-<mode>.parquet   id, known, entries, variances of bias and u1 ... ur, features h1 ... hd
//!   prior-<mode>.parquet      a row per number of a row: its coefficients in B, its row of V
//!   core.parquet              component numbers per mode from 1, value; the last mode fastest; with `core_sparse`
//!                             without zeros
//!   pair-<mode>-<mode>.parquet id1, id2, bias; a row per pair that has one
//! ```
//!
//! Variances and priors are there where the model knows how sure it is. As `npy` a mode has files of its own for
//! labels, known, bias, factor, variance, entries, features, coefficients and covariance. A prediction is
//! `x = offset + sum of biases + core x_1 u x_2 v ...`, taken into `range`; with `pair_biases` also those of its pairs of
//! ids in x, and with a `time_bias` `values[bucket(clock index - first)]`. With `ends`, s their `noise`, it is what the range leaves on
//! average, `x + s psi((least - x) / s) - s psi((x - most) / s)`, psi(z) = density(z) + z Phi(z).

mod npy;
mod pairs;
mod sure;

use crate::error::{Error, IoContext, Result};
use crate::model::{ModeIds, Model};
use crate::run::inputs_of;
use crate::storage::{Disk, Kind, Listing, Output, Staging, write_atomic};
use crate::table::{TableWriter, labels_array};
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The kind of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// Parquet.
    Parquet,
    /// NumPy arrays.
    Npy,
    /// Text.
    Csv,
}

impl ExportFormat {
    /// The ending of its files.
    pub fn ending(self) -> &'static str {
        match self {
            ExportFormat::Parquet => "parquet",
            ExportFormat::Npy => "npy",
            ExportFormat::Csv => "csv",
        }
    }
}

const ABOUT: &str = "model.json";
/// What that file says it is. Those of before this was said have all the fields of [`About`].
const KIND: &str = "tenfill export";
const BATCH_ROWS: u32 = 8192;
/// What files of modes hold, as their names begin.
const PARTS: [&str; 12] = [
    "factor",
    "bias",
    "known",
    "labels",
    "first",
    "variance",
    "prior",
    "entries",
    "features",
    "coefficients",
    "covariance",
    "pair",
];

/// A directory that [`export`] wrote: `model.json`, and the files that it names.
struct ExportKind;

/// What every export says of itself.
#[derive(Deserialize)]
#[expect(dead_code, reason = "that they are there is the proof")]
struct About {
    kind: Option<String>,
    written_by: String,
    format: String,
    rank: Vec<usize>,
    offset: f64,
    modes: Vec<AboutMode>,
    core: String,
    #[serde(default)]
    pair_biases: Vec<AboutPair>,
    iteration: usize,
}

#[derive(Deserialize)]
struct AboutPair {
    file: String,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "that they are there is the proof")]
struct AboutMode {
    name: String,
    dim: u32,
    rank: usize,
    held: bool,
    files: BTreeMap<String, String>,
}

impl Kind for ExportKind {
    fn name(&self) -> &'static str {
        "export"
    }

    fn list(&self, folder: &Path) -> Result<Listing> {
        let path = folder.join(ABOUT);
        let text = std::fs::read(&path).context("read", &path)?;
        let about: About =
            serde_json::from_slice(&text).map_err(std::io::Error::other).context("read", &path)?;
        let files = about.modes.into_iter().flat_map(|mode| mode.files.into_values()).chain([about.core]);
        let files: Vec<String> = files.chain(about.pair_biases.into_iter().map(|pair| pair.file)).collect();
        let ours = about.written_by.starts_with("tenfill ") && about.kind.is_none_or(|kind| kind == KIND);
        if !ours || !files.iter().all(|file| self.may_hold(Path::new(file))) {
            return Err(Error::input(path, "this is no export of tenfill"));
        }
        let mut listing = Listing::default();
        files.into_iter().chain([ABOUT.into()]).for_each(|file| listing.file(file));
        Ok(listing)
    }

    fn may_hold(&self, inside: &Path) -> bool {
        let Some(name) = inside.to_str().filter(|name| !name.contains('/')) else { return false };
        let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
        let what = stem.split('-').next().unwrap_or_default();
        name == ABOUT
            || ["parquet", "npy", "csv"].contains(&ending) && (stem == "core" || PARTS.contains(&what))
    }
}

/// Writes the model to a new directory; with `force` an export that is there is replaced. Returns
/// the names of the files.
pub fn export(
    disk: &dyn Disk,
    model: &Model,
    output: &Path,
    format: ExportFormat,
    force: bool,
) -> Result<Vec<String>> {
    let output = Output::new(output, force).apart_from(inputs_of(model.run()));
    let staging = Staging::create(disk, &output, &ExportKind)?;
    let ids = ModeIds::of_all(model)?;
    let mut files = Vec::new();
    let mut modes = Vec::new();
    let names: Vec<String> =
        ids.iter().enumerate().map(|(mode, ids)| file_name(ids.name(), mode, model)).collect();
    for (mode, (ids, name)) in ids.iter().zip(&names).enumerate() {
        let mut written = match format {
            ExportFormat::Npy => npy::mode(disk, staging.path(), model, ids, mode, name)?,
            _ => vec![("factor", table(disk, staging.path(), model, ids, mode, name, format)?)],
        };
        written.extend(sure::mode(disk, staging.path(), model, ids, mode, name, format)?);
        modes.push(about_mode(model, ids, mode, &written));
        files.extend(written.into_iter().map(|(_, file)| file));
    }
    let core = format!("core.{}", format.ending());
    match format {
        ExportFormat::Npy => npy::core(disk, &staging.path().join(&core), model)?,
        _ => core_table(disk, &staging.path().join(&core), model)?,
    }
    files.push(core.clone());
    let (of_pairs, pairs) = pairs::all(disk, staging.path(), model, &ids, &names, format)?;
    files.extend(of_pairs);
    let mut about = about(model, modes, &core, format);
    if !pairs.is_empty() {
        about["pair_biases"] = pairs.into();
    }
    let path = staging.path().join(ABOUT);
    let text = serde_json::to_string_pretty(&about).map_err(std::io::Error::other).context("write", &path)?;
    write_atomic(disk, &path, (text + "\n").as_bytes())?;
    files.push(ABOUT.into());
    staging.commit()?;
    Ok(files)
}

/// A mode's name as a part of a file's name, that no other mode has.
fn file_name(name: &str, mode: usize, model: &Model) -> String {
    let plain = |name: &str| -> String {
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '_' }).collect()
    };
    let own = plain(name);
    let alone = model.about.modes.iter().filter(|other| plain(&other.name) == own).count() == 1;
    if alone { own } else { format!("{own}.{}", mode + 1) }
}

fn biases_of(model: &Model, mode: usize) -> Option<&[f64]> {
    let biases = model.biases.as_ref().map(|biases| biases.modes[mode].as_slice());
    biases.filter(|biases| !biases.is_empty())
}

/// The clock's index of every id's first entry, where the mode has a time bias; -1 for none.
fn first_of(model: &Model, mode: usize) -> Option<Vec<i64>> {
    let time = model.biases.as_ref().and_then(|biases| biases.time.as_ref());
    let first = |&first: &u32| if first == u32::MAX { -1 } else { i64::from(first) };
    time.filter(|time| time.of == mode).map(|time| time.first.iter().map(first).collect())
}

fn table(
    disk: &dyn Disk,
    directory: &Path,
    model: &Model,
    ids: &ModeIds,
    mode: usize,
    name: &str,
    format: ExportFormat,
) -> Result<String> {
    let factor = &model.point.factors[mode];
    let kind = if ids.integers() { DataType::Int64 } else { DataType::Utf8 };
    let mut fields = vec![
        Field::new("id", kind, false),
        Field::new("known", DataType::Boolean, false),
        Field::new("bias", DataType::Float64, false),
    ];
    let first = first_of(model, mode);
    if first.is_some() {
        fields.push(Field::new("first", DataType::Int64, false));
    }
    fields.extend((1..=factor.rank()).map(|c| Field::new(format!("u{c}"), DataType::Float64, false)));
    let schema = Arc::new(Schema::new(fields));
    let file = format!("factor-{name}.{}", format.ending());
    let path = directory.join(&file);
    let mut writer = TableWriter::file(disk, path, Arc::clone(&schema))?;
    let biases = biases_of(model, mode);
    for start in (0..ids.dim()).step_by(BATCH_ROWS as usize) {
        let rows = start..ids.dim().min(start + BATCH_ROWS);
        let each = || rows.clone().map(|index| index as usize);
        let mut columns: Vec<ArrayRef> = vec![
            labels_array(rows.clone().map(|index| ids.label(index)), ids.integers()),
            Arc::new(BooleanArray::from_iter(rows.clone().map(|index| Some(model.knows(mode, index))))),
            Arc::new(Float64Array::from_iter_values(
                each().map(|index| biases.map_or(0.0, |biases| biases[index])),
            )),
        ];
        if let Some(first) = &first {
            columns.push(Arc::new(Int64Array::from_iter_values(each().map(|index| first[index]))));
        }
        for component in 0..factor.rank() {
            let column = each().map(|index| factor.row(index)[component]);
            columns.push(Arc::new(Float64Array::from_iter_values(column)));
        }
        write(&mut writer, &schema, columns)?;
    }
    writer.finish()?;
    Ok(file)
}

fn write(writer: &mut TableWriter<'_>, schema: &Arc<Schema>, columns: Vec<ArrayRef>) -> Result<()> {
    let rows = RecordBatch::try_new(Arc::clone(schema), columns);
    writer.write(&rows.map_err(|error| Error::request(error.to_string()))?)
}

fn core_table(disk: &dyn Disk, path: &Path, model: &Model) -> Result<()> {
    let core = &model.point.core;
    let ranks = core.ranks();
    let mut fields: Vec<Field> =
        (1..=ranks.len()).map(|mode| Field::new(format!("c{mode}"), DataType::Int64, false)).collect();
    fields.push(Field::new("value", DataType::Float64, false));
    let schema = Arc::new(Schema::new(fields));
    let mut writer = TableWriter::file(disk, path, Arc::clone(&schema))?;
    for (part, values) in core.numbers().chunks(BATCH_ROWS as usize).enumerate() {
        let begin = part * BATCH_ROWS as usize;
        let mut columns: Vec<ArrayRef> = Vec::new();
        for mode in 0..ranks.len() {
            // Of a sparse core the numbers that are not zero.
            let number = |at: usize| match core.places() {
                Some(places) => i64::from(places[(begin + at) * ranks.len() + mode]) + 1,
                None => {
                    let behind: usize = ranks[mode + 1..].iter().product();
                    ((begin + at) / behind % ranks[mode]) as i64 + 1
                }
            };
            columns.push(Arc::new(Int64Array::from_iter_values((0..values.len()).map(number))));
        }
        columns.push(Arc::new(Float64Array::from_iter_values(values.iter().copied())));
        write(&mut writer, &schema, columns)?;
    }
    writer.finish()?;
    Ok(())
}

fn about_mode(model: &Model, ids: &ModeIds, mode: usize, files: &[(&'static str, String)]) -> Value {
    let mut about = json!({
        "name": ids.name(),
        "dim": ids.dim(),
        "rank": model.point.ranks()[mode],
        "held": model.is_held(mode),
        "files": files.iter().map(|(what, file)| (what.to_string(), json!(file))).collect::<serde_json::Map<_, _>>(),
    });
    if let Some(bins) = ids.bins() {
        about["bins"] = json!({ "origin": bins.origin, "width": bins.width, "time": bins.time });
    }
    about
}

fn about(model: &Model, modes: Vec<Value>, core: &str, format: ExportFormat) -> Value {
    let biases = model.biases.as_ref();
    let time = biases.and_then(|biases| biases.time.as_ref()).map(|time| {
        json!({
            "of": model.about.modes[time.of].name,
            "clock": model.about.modes[time.clock].name,
            "values": time.values,
            "bucket": "0 for 0, else 1 + 2 k, plus 1 where n >= 2^(k + 1/2), for n = clock index - first in [2^k, 2^(k+1))",
        })
    });
    json!({
        "kind": KIND,
        "written_by": concat!("tenfill ", env!("CARGO_PKG_VERSION")),
        "format": format.ending(),
        "value": model.about.value,
        "rank": model.point.ranks(),
        "offset": biases.map_or(0.0, |biases| biases.mean),
        "mean": model.about.mean,
        "transform": model.about.transform().map(crate::transform::Transform::name),
        "range": model.about.range.map(|(least, most)| [least, most]),
        "ends": model.about.ends,
        "modes": modes,
        "core": core,
        "core_sparse": model.point.core.places().is_some(),
        "time_bias": time,
        "uncertainty": model.uncertainty.as_ref().map(sure::about),
        "iteration": model.about.iteration,
        "train_mse": model.about.train_mse,
        "validation_mse": model.about.validation_mse,
    })
}
