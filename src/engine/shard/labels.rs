//! Labels: what the indices of a mode were called in the user's file, as Arrow IPC.

use super::manifest::LabelsFile;
use crate::error::{Error, IoContext, Result};
use crate::storage::{AtomicFile, Disk, guarded, read_regular};
use arrow_array::{Array, ArrayRef, Int64Array, LargeStringArray, RecordBatch};
use arrow_ipc::reader::{FileReader, read_footer_length};
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
    let parts = parts.map(|start| Ok(array.slice(start, BATCH.min(array.len() - start))));
    write_label_parts(disk, directory, file, array.data_type(), parts)
}

/// Writes labels that come in parts of a column, so that they need not be in memory together.
pub fn write_label_parts(
    disk: &dyn Disk,
    directory: &Path,
    file: String,
    kind: &DataType,
    parts: impl Iterator<Item = Result<ArrayRef>>,
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
            let batch = RecordBatch::try_new(Arc::clone(&schema), vec![part?])
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
    let bytes = read_regular(&path)?;
    if bytes.len() as u64 != record.bytes {
        let what = format!("the file has {} bytes, the manifest says {}", bytes.len(), record.bytes);
        return Err(Error::corrupt(&path, bytes.len() as u64, what));
    }
    if crc32c::crc32c(&bytes) != record.crc32c {
        return Err(Error::corrupt(&path, 0, "the checksum of the labels does not match"));
    }
    // The checksum holds, so what follows can fail only where another program wrote the dataset.
    let labels = check_layout(&bytes).and_then(|()| guarded(|| decode(bytes))?);
    let labels = labels.map_err(|what| Error::corrupt(&path, 0, what))?;
    if labels.len() != dim as usize {
        let what = format!("{} labels for a mode of dimension {dim}", labels.len());
        return Err(Error::corrupt(&path, 0, what));
    }
    Ok(labels)
}

/// Whether all parts of an Arrow file lie within it, and together take no more than it: the reader takes
/// memory for what a part says it has.
fn check_layout(bytes: &[u8]) -> Result<(), String> {
    let (rest, end) = bytes.split_last_chunk::<10>().ok_or("the file is cut short")?;
    let length = read_footer_length(*end).map_err(|error| error.to_string())?;
    let start = rest.len().checked_sub(length).ok_or("its footer is longer than the file")?;
    let footer = arrow_ipc::root_as_footer(&rest[start..]).map_err(|error| error.to_string())?;
    let mut left = rest.len() as u64;
    for part in
        footer.dictionaries().into_iter().flatten().chain(footer.recordBatches().into_iter().flatten())
    {
        let within = |part: &arrow_ipc::Block| -> Option<u64> {
            let offset = u64::try_from(part.offset()).ok()?;
            let size = u64::try_from(part.bodyLength()).ok()?;
            let size = size.checked_add(u64::try_from(part.metaDataLength()).ok()?)?;
            (offset.checked_add(size)? <= rest.len() as u64).then_some(size)
        };
        left = within(part).and_then(|size| left.checked_sub(size)).ok_or("a part lies outside the file")?;
    }
    Ok(())
}

fn decode(bytes: Vec<u8>) -> Result<Labels, String> {
    let said = |error: arrow_schema::ArrowError| error.to_string();
    let reader = FileReader::try_new(std::io::Cursor::new(bytes), None).map_err(said)?;
    let kind = match reader.schema().fields().first() {
        Some(field) => field.data_type().clone(),
        None => return Err("the file has no column of labels".into()),
    };
    let (mut integers, mut text) = (Vec::new(), arrow_array::builder::LargeStringBuilder::new());
    for batch in reader {
        let batch = batch.map_err(said)?;
        let column = batch.column(0);
        if column.null_count() > 0 {
            return Err("a label is missing".into());
        }
        if let Some(array) = column.as_any().downcast_ref::<Int64Array>() {
            integers.extend_from_slice(array.values());
        } else if let Some(array) = column.as_any().downcast_ref::<LargeStringArray>() {
            array.iter().flatten().for_each(|label| text.append_value(label));
        } else {
            return Err(format!("labels of type {kind}"));
        }
    }
    Ok(match kind {
        DataType::Int64 => Labels::Integers(integers.into()),
        _ => Labels::Text(text.finish()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::RealDisk;

    /// The bytes of a good file with labels 1, 2 and 5.
    fn good() -> (tempfile::TempDir, Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let labels = Labels::Integers(vec![1, 2, 5].into());
        write_labels(&RealDisk, folder.path(), "x.arrow".into(), &labels).unwrap();
        let bytes = std::fs::read(folder.path().join("x.arrow")).unwrap();
        (folder, bytes)
    }

    /// What is said of bytes whose checksum is right.
    fn said(folder: &Path, bytes: &[u8]) -> String {
        std::fs::write(folder.join("x.arrow"), bytes).unwrap();
        let record =
            LabelsFile { file: "x.arrow".into(), bytes: bytes.len() as u64, crc32c: crc32c::crc32c(bytes) };
        read_labels(folder, &record, 3).map_or_else(|error| error.to_string(), |_| "well".into())
    }

    #[test]
    fn a_file_without_columns_is_an_error() {
        let (folder, _) = good();
        let mut bytes = Vec::new();
        let mut writer = FileWriter::try_new(&mut bytes, &Schema::empty()).unwrap();
        writer.finish().unwrap();
        drop(writer);
        assert!(said(folder.path(), &bytes).contains("no column of labels"));
    }

    #[test]
    fn memory_is_taken_only_for_what_the_file_has() {
        let (folder, bytes) = good();
        assert_eq!(said(folder.path(), &bytes), "well");
        let end = bytes.len() - 10;
        let length = u32::from_le_bytes(bytes[end..end + 4].try_into().unwrap()) as usize;
        let footer = arrow_ipc::root_as_footer(&bytes[end - length..end]).unwrap();
        let part = *footer.recordBatches().unwrap().get(0);
        // A part is its offset, the length of its description, and that of its numbers.
        let mut place = part.offset().to_le_bytes().to_vec();
        place.extend(part.metaDataLength().to_le_bytes());
        let at = end - length + bytes[end - length..].windows(12).position(|bytes| bytes == place).unwrap();
        for size in [4i64 << 30, i64::MAX, -1] {
            let mut other = bytes.clone();
            other[at + 16..at + 24].copy_from_slice(&size.to_le_bytes());
            assert!(said(folder.path(), &other).contains("outside the file"), "{size}");
        }
        for size in [i32::MAX, -1, 1 << 20] {
            let mut other = bytes.clone();
            other[end..end + 4].copy_from_slice(&size.to_le_bytes());
            let said = said(folder.path(), &other);
            assert!(said.contains("longer than the file") || said.contains("Invalid footer"), "{said}");
        }
    }

    #[test]
    fn no_byte_makes_the_reader_panic() {
        let (folder, bytes) = good();
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut other = bytes.clone();
                other[at] ^= flip;
                said(folder.path(), &other);
            }
            said(folder.path(), &bytes[..at]);
        }
    }
}
