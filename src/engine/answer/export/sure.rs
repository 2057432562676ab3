//! How sure a model is, as files: variances and features of rows, and the prior that they were learned with.
//!
//! Numbers are in the units of the factors and of the values: a row is (u1, ..., bias), as it is in predictions.

use super::npy::begin;
use super::{BATCH_ROWS, ExportFormat, write};
use crate::error::Result;
use crate::model::{ModeIds, ModeUncertainty, Model, Uncertainty};
use crate::storage::Disk;
use crate::table::{TableWriter, labels_array};
use arrow_array::{ArrayRef, BooleanArray, Float64Array, StringArray};
use arrow_schema::{DataType, Field, Schema};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

/// What one mode's files are made from.
struct Part<'m> {
    of: &'m ModeUncertainty,
    unit: f64,
    rank: usize,
}

impl Part<'_> {
    /// What number n of a row is multiplied by: the bias has the values' unit.
    fn unit_of(&self, n: usize) -> f64 {
        if n + 1 == self.of.width { self.unit } else { 1.0 }
    }

    /// The variance of component c of a row, from 0; the bias stands behind the last.
    fn variance(&self, row: usize, c: usize) -> f64 {
        let variances = self.of.row(row);
        if c == self.rank {
            return self.unit * self.unit * f64::from(variances[self.of.width - 1]);
        }
        // A component that is 1 for all ids is certain.
        if c + 1 < self.of.width { f64::from(variances[c]) } else { 0.0 }
    }

    fn h(&self, row: usize, n: usize) -> f64 {
        f64::from(self.of.features.values[row * self.of.features.width + n])
    }

    /// The names of a row's numbers.
    fn names(&self) -> Vec<String> {
        (1..self.of.width).map(|n| format!("u{n}")).chain(["bias".into()]).collect()
    }

    fn feature_names(&self) -> Vec<String> {
        let d = self.of.features.width;
        let mut names = vec!["constant".to_string()];
        if d > 0 {
            names.push("ln_n".into());
            names.extend((1..=d).map(|n| format!("h{n}")));
            names.extend((1..=d).map(|n| format!("root_n_h{n}")));
        }
        names
    }

    fn coefficients(&self) -> Vec<f64> {
        let count = self.of.coefficients.len() / self.of.width;
        let of = |(at, b): (usize, &f64)| b * self.unit_of(at / count);
        self.of.coefficients.iter().enumerate().map(of).collect()
    }

    fn covariance(&self) -> Vec<f64> {
        let k = self.of.width;
        let of = |(at, v): (usize, &f64)| v * self.unit_of(at / k) * self.unit_of(at % k);
        self.of.covariance.iter().enumerate().map(of).collect()
    }
}

/// What `model.json` says of it.
pub(super) fn about(uncertainty: &Uncertainty) -> Value {
    let unit = uncertainty.unit;
    json!({
        "noise_variance": uncertainty.held_out_noise * unit * unit,
        "train_noise_variance": uncertainty.noise * unit * unit,
        "tails": uncertainty.tails,
        "features_half": uncertainty.modes[uncertainty.pair[0]].features.half,
        "features": "f = (1, ln n - 4, w h, w sqrt(n) h), w = n / (n + features_half), n the entries of the id; a row is normal with mean B f and covariance V",
    })
}

/// The files of a mode, by what they hold.
pub(super) fn mode(
    disk: &dyn Disk,
    directory: &Path,
    model: &Model,
    ids: &ModeIds,
    mode: usize,
    name: &str,
    format: ExportFormat,
) -> Result<Vec<(&'static str, String)>> {
    let Some(uncertainty) = &model.uncertainty else { return Ok(Vec::new()) };
    let part = Part { of: &uncertainty.modes[mode], unit: uncertainty.unit, rank: model.point.ranks()[mode] };
    let mut files = Vec::new();
    let mut place = |what: &'static str| {
        let file = format!("{what}-{name}.{}", format.ending());
        files.push((what, file.clone()));
        directory.join(file)
    };
    if format == ExportFormat::Npy {
        arrays(disk, &part, ids.dim() as usize, place)?;
    } else {
        rows(disk, &place("variance"), &part, model, ids, mode)?;
        prior(disk, &place("prior"), &part)?;
    }
    Ok(files)
}

fn rows(
    disk: &dyn Disk,
    path: &Path,
    part: &Part<'_>,
    model: &Model,
    ids: &ModeIds,
    mode: usize,
) -> Result<()> {
    let kind = if ids.integers() { DataType::Int64 } else { DataType::Utf8 };
    let number = |name: String| Field::new(name, DataType::Float64, false);
    let mut fields = vec![Field::new("id", kind, false), Field::new("known", DataType::Boolean, false)];
    fields.extend(["entries".to_string(), "bias".into()].map(number));
    fields.extend((1..=part.rank).map(|c| number(format!("u{c}"))));
    fields.extend((1..=part.of.features.width).map(|n| number(format!("h{n}"))));
    let schema = Arc::new(Schema::new(fields));
    let mut writer = TableWriter::file(disk, path, Arc::clone(&schema))?;
    for start in (0..ids.dim()).step_by(BATCH_ROWS as usize) {
        let rows = start..ids.dim().min(start + BATCH_ROWS);
        let numbers = |of: &dyn Fn(usize) -> f64| -> ArrayRef {
            Arc::new(Float64Array::from_iter_values(rows.clone().map(|index| of(index as usize))))
        };
        let mut columns: Vec<ArrayRef> = vec![
            labels_array(rows.clone().map(|index| ids.label(index)), ids.integers()),
            Arc::new(BooleanArray::from_iter(rows.clone().map(|index| Some(model.knows(mode, index))))),
            numbers(&|row| part.of.counts.get(row).copied().unwrap_or(0.0)),
            numbers(&|row| part.variance(row, part.rank)),
        ];
        columns.extend((0..part.rank).map(|c| numbers(&|row| part.variance(row, c))));
        columns.extend((0..part.of.features.width).map(|n| numbers(&|row| part.h(row, n))));
        write(&mut writer, &schema, columns)?;
    }
    writer.finish()?;
    Ok(())
}

/// A row per number: its coefficients in B, then its row of V.
fn prior(disk: &dyn Disk, path: &Path, part: &Part<'_>) -> Result<()> {
    let (names, k) = (part.names(), part.of.width);
    let (b, v) = (part.coefficients(), part.covariance());
    let features = part.feature_names();
    let number = |name: String| Field::new(name, DataType::Float64, false);
    let mut fields = vec![Field::new("number", DataType::Utf8, false)];
    fields.extend(features.iter().map(|name| number(format!("b_{name}"))));
    fields.extend(names.iter().map(|name| number(format!("v_{name}"))));
    let schema = Arc::new(Schema::new(fields));
    let column = |from: &[f64], width: usize, n: usize| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values((0..k).map(|row| from[row * width + n])))
    };
    let mut columns: Vec<ArrayRef> = vec![Arc::new(StringArray::from_iter_values(&names))];
    columns.extend((0..features.len()).map(|n| column(&b, features.len(), n)));
    columns.extend((0..k).map(|n| column(&v, k, n)));
    let mut writer = TableWriter::file(disk, path, Arc::clone(&schema))?;
    write(&mut writer, &schema, columns)?;
    writer.finish()?;
    Ok(())
}

fn arrays(
    disk: &dyn Disk,
    part: &Part<'_>,
    rows: usize,
    mut place: impl FnMut(&'static str) -> std::path::PathBuf,
) -> Result<()> {
    let (k, d) = (part.of.width, part.of.features.width);
    let mut put = |what: &'static str, shape: &[usize], of: &dyn Fn(usize) -> f64| -> Result<()> {
        let mut file = begin(disk, &place(what), "<f8", shape)?;
        (0..shape.iter().product()).try_for_each(|at| file.append(&of(at).to_le_bytes()))?;
        file.commit()
    };
    let wide = part.rank + 1;
    put("variance", &[rows, wide], &|at| part.variance(at / wide, at % wide))?;
    put("entries", &[rows], &|at| part.of.counts.get(at).copied().unwrap_or(0.0))?;
    if d > 0 {
        put("features", &[rows, d], &|at| part.h(at / d, at % d))?;
    }
    let (b, v) = (part.coefficients(), part.covariance());
    put("coefficients", &[k, b.len() / k], &|at| b[at])?;
    put("covariance", &[k, k], &|at| v[at])
}
