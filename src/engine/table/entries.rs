//! The entries of a dataset as a table: a column of ids per mode, and the value.

use super::{TableWriter, labels_array};
use crate::control::{Control, Unit};
use crate::error::{Error, Result};
use crate::shard::{Dataset, Labels, Mode, ModeKind, Shard, Split};
use crate::storage::{Disk, Output};
use crate::times::format_time;
use crate::transform::Transform;
use crate::units;
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::sync::Arc;

/// Reads splits block by block; one is in memory at a time.
pub struct EntryBatches {
    modes: Vec<(Mode, Option<Labels>)>,
    mode_order: Vec<usize>,
    weighted: bool,
    transform: Option<Transform>,
    /// Whether a column says which split an entry belongs to.
    tagged: bool,
    shards: Vec<(Split, Shard)>,
    /// The shard and the block that come next.
    next: (usize, usize),
    buffer: Vec<u64>,
    schema: SchemaRef,
}

impl EntryBatches {
    /// Of a split.
    pub fn new(dataset: &Dataset, split: Split) -> Result<Self> {
        Self::of(dataset, &[split], false)
    }

    /// Of all splits, one after the other, with a column that says which.
    pub fn all(dataset: &Dataset) -> Result<Self> {
        Self::of(dataset, &Split::ALL, true)
    }

    fn of(dataset: &Dataset, splits: &[Split], tagged: bool) -> Result<Self> {
        let manifest = dataset.manifest();
        let labels = |mode: usize| dataset.labels(mode);
        let modes: Vec<(Mode, Option<Labels>)> = (manifest.modes.iter().enumerate())
            .map(|(number, mode)| Ok((mode.clone(), labels(number)?)))
            .collect::<Result<_>>()?;
        let mut fields: Vec<Field> = modes
            .iter()
            .map(|(mode, labels)| {
                let kind = if is_integers(mode, labels.as_ref()) { DataType::Int64 } else { DataType::Utf8 };
                Field::new(&mode.name, kind, false)
            })
            .collect();
        fields.push(Field::new(&manifest.value, DataType::Float64, false));
        let weights = manifest.weights.as_ref();
        if let Some(weights) = weights {
            // Counts of rows have no name of their own.
            let taken = |name: &str| fields.iter().any(|field| field.name() == name);
            let name = if weights.counts && taken(&weights.column) { "rows_joined" } else { &weights.column };
            fields.push(Field::new(name, DataType::Float64, false));
        }
        if tagged {
            let taken = |name: &str| fields.iter().any(|field| field.name() == name);
            let name = if taken("split") { "split_of_entry" } else { "split" };
            fields.push(Field::new(name, DataType::Utf8, false));
        }
        let mut shards = Vec::new();
        for &split in splits {
            shards.extend(dataset.shards(split)?.into_iter().map(|shard| (split, shard)));
        }
        Ok(EntryBatches {
            modes,
            mode_order: manifest.mode_order.clone(),
            weighted: weights.is_some(),
            transform: manifest.transform(),
            tagged,
            shards,
            next: (0, 0),
            buffer: Vec::new(),
            schema: Arc::new(Schema::new(fields)),
        })
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The options that make entries of such a table again: without them its further columns would be taken for modes.
    pub fn options(&self) -> String {
        let names: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        // A name with a comma in it cannot be listed.
        let column = |at: usize| match names.iter().any(|name| name.contains(',')) {
            true => (at + 1).to_string(),
            false => names[at].to_string(),
        };
        let order = self.modes.len();
        let modes: Vec<String> = (0..order).map(column).collect();
        let mut options = format!("--modes {} --value {}", quoted(&modes.join(",")), quoted(&column(order)));
        if self.weighted {
            options += &format!(" --weights {}", quoted(&column(order + 1)));
        }
        for (at, (mode, _)) in self.modes.iter().enumerate() {
            if let ModeKind::Bins(bins) = &mode.kind {
                let width = if bins.time { units::width(bins.width) } else { bins.width.to_string() };
                options += &format!(" --bin {}", quoted(&format!("{}={width}", column(at))));
            }
        }
        let transform = self.transform.map(|transform| format!(" --transform {}", transform.name()));
        options + &transform.unwrap_or_default()
    }

    /// The entries of the next block; `None` at the end.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let (mut at, mut number) = self.next;
        while self.shards.get(at).is_some_and(|(_, shard)| number >= shard.blocks().len()) {
            (at, number) = (at + 1, 0);
        }
        self.next = (at, number + 1);
        let Some((split, shard)) = self.shards.get(at) else { return Ok(None) };
        let bytes = shard.read_block(number, &mut self.buffer)?;
        shard.check(number, bytes)?;
        let mut indices: Vec<Vec<u32>> = vec![Vec::new(); self.modes.len()];
        let (mut values, mut weights) = (Vec::new(), Vec::new());
        shard.view(number, bytes)?.for_each_weighted(|levels, value, weight| {
            for (&mode, &index) in self.mode_order.iter().zip(levels) {
                indices[mode].push(index);
            }
            values.push(self.transform.map_or(value, |transform| transform.restore(value)));
            weights.push(weight);
        });
        let ids = self.modes.iter().zip(&indices);
        let mut columns: Vec<ArrayRef> =
            ids.map(|((mode, labels), indices)| ids_array(mode, labels.as_ref(), indices)).collect();
        columns.push(Arc::new(Float64Array::from(values)));
        if self.weighted {
            columns.push(Arc::new(Float64Array::from(weights)));
        }
        if self.tagged {
            let names = std::iter::repeat_n(split.name(), columns[0].len());
            columns.push(Arc::new(StringArray::from_iter_values(names)));
        }
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns);
        batch.map(Some).map_err(|error| Error::request(error.to_string()))
    }
}

/// Writes the entries of a split, or of all with a column that says which, as a table; returns their number.
pub fn write_entries(
    disk: &dyn Disk,
    dataset: &Dataset,
    split: Option<Split>,
    place: Option<&Output>,
    control: &Control,
) -> Result<u64> {
    TableWriter::check(place, control)?;
    let mut batches = match split {
        Some(split) => EntryBatches::new(dataset, split)?,
        None => EntryBatches::all(dataset)?,
    };
    let splits = Split::ALL.into_iter().filter(|&other| split.is_none_or(|split| split == other));
    let total = splits.map(|split| dataset.manifest().split(split).entries).sum();
    control.progress().stage("write", Unit::Rows, total);
    let mut writer = TableWriter::create(disk, place, Arc::clone(batches.schema()), control)?;
    while let Some(batch) = batches.next_batch()? {
        control.check()?;
        writer.write(&batch)?;
        if writer.closed() {
            break;
        }
        control.progress().advance(writer.rows(), &"");
    }
    writer.finish()
}

/// A word of a command line, in quotes where the shell would read it otherwise.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-.,=/:+%@".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

fn is_integers(mode: &Mode, labels: Option<&Labels>) -> bool {
    match (&mode.kind, labels) {
        (ModeKind::Range { .. }, _) | (_, Some(Labels::Integers(_))) => true,
        (ModeKind::Bins(bins), _) => !bins.time && bins.width.fract() == 0.0 && bins.origin.fract() == 0.0,
        _ => false,
    }
}

/// The ids of indices as they stood in the user's file; of bins, where they begin.
fn ids_array(mode: &Mode, labels: Option<&Labels>, indices: &[u32]) -> ArrayRef {
    match (&mode.kind, labels) {
        (ModeKind::Range { base }, _) => {
            Arc::new(Int64Array::from_iter_values(indices.iter().map(|&index| base + i64::from(index))))
        }
        (_, Some(Labels::Integers(labels))) => {
            Arc::new(Int64Array::from_iter_values(indices.iter().map(|&index| labels.value(index as usize))))
        }
        (_, Some(Labels::Text(labels))) => {
            Arc::new(StringArray::from_iter_values(indices.iter().map(|&index| labels.value(index as usize))))
        }
        (ModeKind::Bins(bins), _) => {
            let begins = indices.iter().map(|&index| bins.origin + bins.width * f64::from(index));
            let show = |begin: f64| if bins.time { format_time(begin) } else { begin.to_string() };
            labels_array(begins.map(show), is_integers(mode, labels))
        }
        _ => Arc::new(StringArray::from_iter_values(indices.iter().map(u32::to_string))),
    }
}
