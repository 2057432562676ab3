//! Labels: what the indices of a mode were called in the user's file, as Arrow IPC.

use super::manifest::LabelsFile;
use crate::error::{Error, IoContext, Result};
use crate::storage::{AtomicFile, Disk};
use arrow_array::{Array, ArrayRef, Int64Array, LargeStringArray, RecordBatch};
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{DataType, Field, Schema};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// The labels of a mode, in index order.
#[derive(Debug, Clone, PartialEq)]
pub enum Labels {
    /// Integers, ascending.
    Integers(Int64Array),
    /// Text.
    Text(LargeStringArray),
}

impl Labels {
    /// The number of labels.
    pub fn len(&self) -> usize {
        match self {
            Labels::Integers(array) => array.len(),
            Labels::Text(array) => array.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Label `index` as text, as it stood in the user's file.
    pub fn get(&self, index: usize) -> String {
        match self {
            Labels::Integers(array) => array.value(index).to_string(),
            Labels::Text(array) => array.value(index).to_string(),
        }
    }

    fn array(&self) -> ArrayRef {
        match self {
            Labels::Integers(array) => Arc::new(array.clone()),
            Labels::Text(array) => Arc::new(array.clone()),
        }
    }
}

/// Rows per Arrow record batch.
pub(crate) const BATCH: usize = 1 << 16;

struct Checked<W> {
    inner: W,
    crc: u32,
}

impl<W: Write> Write for Checked<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.crc = crc32c::crc32c_append(self.crc, &bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}

/// Writes `labels` to `directory/file`.
pub fn write_labels(disk: &dyn Disk, directory: &Path, file: String, labels: &Labels) -> Result<LabelsFile> {
    let array = labels.array();
    let parts = (0..array.len()).step_by(BATCH);
    let parts = parts.map(|start| array.slice(start, BATCH.min(array.len() - start)));
    write_label_parts(disk, directory, file, array.data_type(), parts)
}

/// Writes labels that come in parts of a column, so that they need not be in memory together.
pub fn write_label_parts(
    disk: &dyn Disk,
    directory: &Path,
    file: String,
    kind: &DataType,
    parts: impl Iterator<Item = ArrayRef>,
) -> Result<LabelsFile> {
    let path = directory.join(&file);
    let schema = Arc::new(Schema::new(vec![Field::new("label", kind.clone(), false)]));
    let mut output = Checked { inner: AtomicFile::create(disk, &path)?, crc: 0 };
    let arrow = |error: arrow_schema::ArrowError| match error {
        arrow_schema::ArrowError::IoError(_, source) => source,
        other => std::io::Error::other(other),
    };
    {
        let mut writer = FileWriter::try_new(&mut output, &schema).map_err(arrow).context("write", &path)?;
        for part in parts {
            let batch = RecordBatch::try_new(Arc::clone(&schema), vec![part])
                .map_err(arrow)
                .context("write", &path)?;
            writer.write(&batch).map_err(arrow).context("write", &path)?;
        }
        writer.finish().map_err(arrow).context("write", &path)?;
    }
    let (bytes, crc32c) = (output.inner.written(), output.crc);
    output.inner.commit()?;
    Ok(LabelsFile { file, bytes, crc32c })
}

/// Reads and checks the labels of a mode with `dim` indices.
pub fn read_labels(directory: &Path, record: &LabelsFile, dim: u32) -> Result<Labels> {
    let path = directory.join(&record.file);
    let bytes = std::fs::read(&path).context("read", &path)?;
    if bytes.len() as u64 != record.bytes {
        let what = format!("the file has {} bytes, the manifest says {}", bytes.len(), record.bytes);
        return Err(Error::corrupt(&path, bytes.len() as u64, what));
    }
    if crc32c::crc32c(&bytes) != record.crc32c {
        return Err(Error::corrupt(&path, 0, "the checksum of the labels does not match"));
    }
    // The checksum holds, so what follows can fail only where another program wrote the dataset.
    let wrong = |what: String| Error::corrupt(&path, 0, what);
    let reader = FileReader::try_new(std::io::Cursor::new(bytes), None).map_err(|e| wrong(e.to_string()))?;
    let kind = reader.schema().field(0).data_type().clone();
    let (mut integers, mut text) = (Vec::new(), arrow_array::builder::LargeStringBuilder::new());
    for batch in reader {
        let batch = batch.map_err(|e| wrong(e.to_string()))?;
        let column = batch.column(0);
        if let Some(array) = column.as_any().downcast_ref::<Int64Array>() {
            integers.extend_from_slice(array.values());
        } else if let Some(array) = column.as_any().downcast_ref::<LargeStringArray>() {
            array.iter().flatten().for_each(|label| text.append_value(label));
        } else {
            return Err(wrong(format!("labels of type {kind}")));
        }
    }
    let labels = match kind {
        DataType::Int64 => Labels::Integers(integers.into()),
        _ => Labels::Text(text.finish()),
    };
    if labels.len() != dim as usize {
        return Err(wrong(format!("{} labels for a mode of dimension {dim}", labels.len())));
    }
    Ok(labels)
}
