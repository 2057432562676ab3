//! Rows that a program hands over give the dataset that a file of them gives, and the same sentences.

use crate::common::{bytes, folder, json};
use arrow_array::{
    ArrayRef, DictionaryArray, Float64Array, Int64Array, LargeStringArray, RecordBatch, RecordBatchIterator,
    StringArray, StringViewArray, types::Int32Type,
};
use std::path::Path;
use std::sync::Arc;
use tenfill_engine::control::Control;
use tenfill_engine::convert::{ConvertOptions, convert_batches};
use tenfill_engine::error::Result;
use tenfill_engine::ingest::Batches;
use tenfill_engine::shard::Split;

/// Rows in batches of so many, the ids of `user` in an array that `text` makes.
fn stream(rows: usize, each: usize, text: impl Fn(Vec<String>) -> ArrayRef) -> Batches {
    let batch = |first: usize| {
        let numbers = first..rows.min(first + each);
        let user = text(numbers.clone().map(|n| format!("u{}", n % 37)).collect());
        let item: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers.clone().map(|n| (n / 37) as i64)));
        let value: ArrayRef = Arc::new(Float64Array::from_iter_values(numbers.map(|n| (n % 5) as f64)));
        RecordBatch::try_from_iter([("user", user), ("item", item), ("stars", value)]).unwrap()
    };
    let batches: Vec<RecordBatch> = (0..rows).step_by(each).map(batch).collect();
    let schema = batches[0].schema();
    Box::new(RecordBatchIterator::new(batches.into_iter().map(Ok), schema))
}

fn plain(text: Vec<String>) -> ArrayRef {
    Arc::new(StringArray::from(text))
}

fn converted(output: &Path, batches: Vec<(Split, Batches)>) -> Result<()> {
    let options = ConvertOptions { force: true, memory: 64 << 20, ..ConvertOptions::new(Vec::new(), output) };
    convert_batches(&options, batches, &Control::default()).map(|_| ())
}

#[test]
fn a_stream_gives_the_bytes_of_a_file_however_it_is_cut() {
    let folder = folder();
    let rows: Vec<String> = (0..20_000).map(|n| format!("u{},{},{}", n % 37, n / 37, n % 5)).collect();
    std::fs::write(folder.path().join("r.csv"), format!("user,item,stars\n{}\n", rows.join("\n"))).unwrap();
    json(&folder, "convert r.csv -o file.tenfill --memory 64M");
    let expected = bytes(&folder.path().join("file.tenfill"));
    let output = folder.path().join("stream.tenfill");
    let kinds: [fn(Vec<String>) -> ArrayRef; 4] = [
        plain,
        |text| Arc::new(LargeStringArray::from(text)),
        |text| Arc::new(StringViewArray::from_iter_values(text)),
        |text| Arc::new(text.iter().map(String::as_str).collect::<DictionaryArray<Int32Type>>()),
    ];
    for (number, kind) in kinds.into_iter().enumerate() {
        for each in [20_000, 4096, 333] {
            converted(&output, vec![(Split::Train, stream(20_000, each, kind))]).unwrap();
            assert_eq!(bytes(&output), expected, "text of kind {number}, batches of {each}");
        }
    }
}

#[test]
fn streams_may_be_the_splits() {
    let folder = folder();
    let output = folder.path().join("parts.tenfill");
    let parts = vec![(Split::Train, stream(5000, 100, plain)), (Split::Test, stream(700, 100, plain))];
    converted(&output, parts).unwrap();
    let entries = json(&folder, "inspect parts.tenfill")["entries"].clone();
    assert_eq!((entries["test"].as_u64(), entries["validation"].as_u64()), (Some(700), Some(0)));
}

#[test]
fn what_is_wrong_with_a_stream_is_said_with_its_row() {
    let folder = folder();
    let output = folder.path().join("bad.tenfill");
    let failure = |batches: Batches| converted(&output, vec![(Split::Train, batches)]).unwrap_err();
    let empty = failure(stream(10, 10, |text| Arc::new(StringArray::from(vec![""; text.len()]))));
    assert_eq!(empty.to_string(), "<stream>:1: user is empty");
    assert_eq!((empty.path(), empty.line()), (Some(Path::new("<stream>")), Some(1)));
    let whole = stream(10, 10, plain);
    let schema = whole.schema();
    let torn = whole.chain([Err(arrow_schema::ArrowError::ComputeError("torn".into()))]);
    let torn = failure(Box::new(RecordBatchIterator::new(torn, Arc::clone(&schema))));
    assert!(torn.to_string().contains("the stream has failed after 10 rows"), "{torn}");
    let none = failure(Box::new(RecordBatchIterator::new([], schema)));
    assert_eq!(none.to_string(), "<stream>: the stream has no rows");
    assert!(!output.exists());
}
