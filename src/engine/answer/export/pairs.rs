//! Biases of pairs of ids: a row per pair that any train entry has, or an array of all of them.

use super::{BATCH_ROWS, ExportFormat, npy, write};
use crate::error::Result;
use crate::model::{ModeIds, Model, PairBias};
use crate::storage::Disk;
use crate::table::{TableWriter, labels_array};
use arrow_array::Float64Array;
use arrow_schema::{DataType, Field, Schema};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

/// Writes them, and says of which modes they are, and where; `names` are those of modes in files.
pub(super) fn all(
    disk: &dyn Disk,
    directory: &Path,
    model: &Model,
    ids: &[ModeIds],
    names: &[String],
    format: ExportFormat,
) -> Result<(Vec<String>, Vec<Value>)> {
    let (mut files, mut about) = (Vec::new(), Vec::new());
    for pair in model.biases.iter().flat_map(|biases| &biases.pairs) {
        let [a, b] = pair.modes;
        let file = format!("pair-{}-{}.{}", names[a], names[b], format.ending());
        let path = directory.join(&file);
        match format {
            ExportFormat::Npy => {
                npy::numbers(disk, &path, &[ids[a].dim() as usize, pair.width], &pair.values)?
            }
            _ => table(disk, &path, pair, [&ids[a], &ids[b]])?,
        }
        about.push(json!({ "modes": [ids[a].name(), ids[b].name()], "file": file }));
        files.push(file);
    }
    Ok((files, about))
}

/// A row per number that is not zero.
fn table(disk: &dyn Disk, path: &Path, pair: &PairBias, ids: [&ModeIds; 2]) -> Result<()> {
    let kind = |ids: &ModeIds| if ids.integers() { DataType::Int64 } else { DataType::Utf8 };
    let mut fields: Vec<Field> =
        ids.iter().zip(["id1", "id2"]).map(|(ids, name)| Field::new(name, kind(ids), false)).collect();
    fields.push(Field::new("bias", DataType::Float64, false));
    let schema = Arc::new(Schema::new(fields));
    let mut writer = TableWriter::file(disk, path, Arc::clone(&schema))?;
    let there: Vec<usize> = (0..pair.values.len()).filter(|&cell| pair.values[cell] != 0.0).collect();
    for cells in there.chunks(BATCH_ROWS as usize) {
        let first = cells.iter().map(|cell| ids[0].label((cell / pair.width) as u32));
        let second = cells.iter().map(|cell| ids[1].label((cell % pair.width) as u32));
        let values = Float64Array::from_iter_values(cells.iter().map(|&cell| pair.values[cell]));
        let columns = vec![
            labels_array(first, ids[0].integers()),
            labels_array(second, ids[1].integers()),
            Arc::new(values) as _,
        ];
        write(&mut writer, &schema, columns)?;
    }
    writer.finish()?;
    Ok(())
}
