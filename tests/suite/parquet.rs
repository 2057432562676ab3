//! Parquet on several threads, within the budget, and with its types.

use crate::common::{bytes, failure, folder, json};
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, DictionaryArray, Float32Array, Float64Array, Int32Array,
    Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow_schema::{DataType, Schema, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::properties::WriterProperties;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

fn write(path: &Path, batch: &RecordBatch, group: usize) {
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(group)).build();
    let mut writer =
        ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

fn read(path: &Path) -> (Arc<Schema>, RecordBatch) {
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    let schema = Arc::clone(builder.schema());
    let mut batches = builder.with_batch_size(1 << 20).build().unwrap();
    (schema, batches.next().unwrap().unwrap())
}

/// Ratings of users with text names by the hour, some of them null.
fn ratings(first: i64, rows: i64) -> RecordBatch {
    let number = |n: i64| (first + n).wrapping_mul(0x9e37_79b9) % 100_003;
    let users = StringArray::from_iter_values((0..rows).map(|n| format!("user {}", number(n) % 5000)));
    let items = Int64Array::from_iter_values((0..rows).map(|n| number(n) / 7 % 3000));
    let hours = (0..rows).map(|n| 1_600_000_000_000_000 + (first + n) * 3_600_000_000);
    let hours = TimestampMicrosecondArray::from_iter_values(hours);
    let stars = (0..rows).map(|n| ((first + n) % 13 != 5).then(|| ((number(n) % 9) as f32) / 2.0 + 0.5));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("user", Arc::new(users)),
        ("item", Arc::new(items)),
        ("at", Arc::new(hours)),
        ("stars", Arc::new(Float32Array::from_iter(stars))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .unwrap()
}

#[test]
fn threads_and_memory_do_not_change_a_byte() {
    let folder = folder();
    let at = folder.path();
    // A group of more rows than a thread takes at a time, several small groups, and parts.
    write(&at.join("one.parquet"), &ratings(0, 300_000), 1 << 20);
    fs::create_dir(at.join("parts")).unwrap();
    for part in 0..3 {
        let path = at.join(format!("parts/{part}.parquet"));
        write(&path, &ratings(part * 100_000, 100_000), 30_000);
    }
    let columns = "--modes user,item,at --value stars --bin at=30d --duplicates first";
    let mut all = Vec::new();
    for (input, options) in [
        ("one.parquet", "--threads 1"),
        ("one.parquet", "--threads 4"),
        ("one.parquet", "--threads 3 --memory 32M"),
        ("parts", "--threads 1"),
        ("parts", "--threads 3"),
        ("parts", "--threads 2 --memory 64M"),
    ] {
        let told = json(at, &format!("convert {input} -o out --force {columns} {options}"));
        assert_eq!(
            told["rows"].as_u64().unwrap() + told["empty"].as_u64().unwrap(),
            300_000,
            "{input} {options}"
        );
        let mut files = bytes(&at.join("out"));
        files.remove(Path::new("manifest.json"));
        all.push(files);
    }
    assert!(all[1..].iter().all(|files| *files == all[0]));
}

#[test]
fn a_bad_row_has_its_own_number_whichever_thread_reads_it() {
    let folder = folder();
    let at = folder.path();
    let rows = 280_000;
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let values = (0..rows).map(|n| if n == 250_000 { f64::INFINITY } else { 1.0 + (n % 5) as f64 });
    let values: ArrayRef = Arc::new(Float64Array::from_iter_values(values));
    let batch = RecordBatch::try_from_iter([("a", Arc::clone(&ids)), ("b", ids), ("v", values)]).unwrap();
    write(&at.join("in.parquet"), &batch, 1 << 20);
    for threads in [1, 4] {
        let said =
            failure(at, &format!("convert in.parquet -o out --modes a,b --value v --threads {threads}"));
        assert!(said.contains("in.parquet:250001: v is inf"), "{said}");
    }
    let told = json(at, "convert in.parquet -o out --modes a,b --value v --threads 4 --skip-bad 1");
    assert!(told["notes"].to_string().contains("in.parquet:250001:"), "{told}");
    // Cut short, it is damage, on any number of threads.
    let whole = fs::read(at.join("in.parquet")).unwrap();
    let mut hurt = whole.clone();
    let middle = hurt.len() / 2;
    hurt[middle..middle + 4096].fill(0xa5);
    fs::write(at.join("hurt.parquet"), hurt).unwrap();
    for threads in [1, 4] {
        let done = crate::common::tenfill(at)
            .args(["convert", "hurt.parquet", "-o", "hurt", "--modes", "a,b", "--value", "v", "--force"])
            .args(["--threads", &threads.to_string()])
            .output()
            .unwrap();
        let said = crate::common::stderr(&done);
        assert!(
            done.status.success() || done.status.code() == Some(1) && said.contains("hurt.parquet"),
            "{said}"
        );
    }
}

#[test]
fn predict_keeps_the_types_of_what_it_passes_through() {
    let folder = folder();
    let at = folder.path();
    let rows: String = (0..400).map(|n| format!("u{},{},{}\n", n % 20, n / 20, n % 5 + 1)).collect();
    fs::write(at.join("in.csv"), format!("user,item,rating\n{rows}")).unwrap();
    json(at, "complete in.csv -o run --rank 1 --max-iterations 3");
    let kinds: DictionaryArray<Int32Type> = [Some("a"), None, Some("b")].into_iter().collect();
    let prices =
        Decimal128Array::from(vec![Some(12_345), None, Some(-5)]).with_precision_and_scale(10, 2).unwrap();
    let moments = TimestampMicrosecondArray::from(vec![Some(1), Some(2), None]).with_timezone("UTC");
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("kind", Arc::new(kinds)),
        ("user", Arc::new(StringArray::from(vec!["u1", "u2", "u3"]))),
        ("price", Arc::new(prices)),
        ("item", Arc::new(Int32Array::from(vec![1, 2, 3]))),
        ("at", Arc::new(moments)),
        ("flag", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
    ];
    let asked = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .unwrap();
    write(&at.join("q.parquet"), &asked, 1 << 20);
    json(at, "predict run q.parquet -o a.parquet");
    let (schema, answers) = read(&at.join("a.parquet"));
    for (place, field) in asked.schema().fields().iter().enumerate() {
        assert_eq!(schema.field(place).data_type(), field.data_type(), "{}", field.name());
        assert_eq!(answers.column(place).to_data(), asked.column(place).to_data(), "{}", field.name());
    }
    assert_eq!(schema.field(6).data_type(), &DataType::Float64);
    assert!(matches!(schema.field(4).data_type(), DataType::Timestamp(TimeUnit::Microsecond, Some(_))));

    // From text: numbers where all cells are, and ids that only look like numbers stay text.
    let mut text = String::from("user,item,zip,score,count,when\n");
    (0..9000).for_each(|n| {
        text += &format!("u{},{},{:05},{},{n},2024-01-01\n", n % 20, n % 20, n, n as f64 / 4.0)
    });
    // Far behind what a look at the beginning would tell.
    text += "u1,2,x1,,,\nu1,2,7,NA,,\n";
    fs::write(at.join("q.csv"), &text).unwrap();
    let told = json(at, "predict run q.csv -o b.parquet");
    assert_eq!(told["rows"], 9002);
    let (schema, answers) = read(&at.join("b.parquet"));
    let types: Vec<&DataType> = schema.fields().iter().map(|field| field.data_type()).collect();
    let (text_type, whole, number) = (&DataType::Utf8, &DataType::Int64, &DataType::Float64);
    assert_eq!(types, [text_type, whole, text_type, number, whole, text_type, number, &DataType::Boolean]);
    assert_eq!((answers.column(3).null_count(), answers.column(4).null_count()), (2, 2));
    // From a pipe as well: it is copied first.
    let mut child = crate::common::tenfill(at);
    child.args(["predict", "run", "-", "-o", "c.parquet"]).stdin(File::open(at.join("q.csv")).unwrap());
    assert!(child.status().unwrap().success());
    assert_eq!(read(&at.join("c.parquet")).1, answers);
}
