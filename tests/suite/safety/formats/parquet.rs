//! Parquet as pandas, polars, Spark and databases write it.

use super::{done, write};
use crate::common::{contents, folder};
use arrow_array::types::{Int8Type, Int16Type, UInt32Type};
use arrow_array::{
    Array, ArrayRef, Decimal128Array, Decimal256Array, DictionaryArray, Float64Array, Int8Array, Int64Array,
    LargeStringArray, RecordBatch, StringArray, StringViewArray, TimestampMicrosecondArray,
};
use parquet::basic::{BrotliLevel, Compression};
use parquet::file::properties::WriterProperties;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

fn parquet(path: &Path, columns: Vec<(&str, ArrayRef)>, compression: Compression) {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder().set_compression(compression).build();
    let file = File::create(path).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

const ROWS: usize = 60;

fn users() -> Vec<String> {
    (0..ROWS).map(|n| format!("user {}", n % 10)).collect()
}

fn items() -> Vec<i64> {
    (0..ROWS).map(|n| 100 + n as i64 / 10 * 7).collect()
}

/// In hundredths.
fn values() -> Vec<i64> {
    (0..ROWS).map(|n| 100 + 25 * (n as i64 * 5 % 17)).collect()
}

fn seconds() -> Vec<i64> {
    (0..ROWS).map(|n| 1_600_000_000 + 86_400 * n as i64).collect()
}

fn csv() -> String {
    let rows = (0..ROWS).map(|n| {
        format!(
            "{},{},{},{}.{:02}\n",
            users()[n],
            items()[n],
            seconds()[n],
            values()[n] / 100,
            values()[n] % 100
        )
    });
    "user,item,time,rating\n".to_string() + &rows.collect::<String>()
}

fn array(array: impl Array + 'static) -> ArrayRef {
    Arc::new(array)
}

/// The same columns in several types.
fn columns() -> Vec<(&'static str, Vec<ArrayRef>)> {
    let users = users();
    let names = || users.iter().map(String::as_str);
    let rated = || values().into_iter().map(|value| value as f64 / 100.0);
    let narrow: DictionaryArray<Int8Type> = names().collect();
    let wide: DictionaryArray<UInt32Type> = names().collect();
    // Categories in 64-bit and in viewed text, of integers, floats and moments.
    let of = |values: ArrayRef, keys: Vec<i8>| {
        array(DictionaryArray::<Int8Type>::new(Int8Array::from(keys), values))
    };
    let ten: Vec<String> = (0..10).map(|n| format!("user {n}")).collect();
    let by_ten: Vec<i8> = (0..ROWS as i8).map(|n| n % 10).collect();
    let own: Vec<i8> = (0..ROWS as i8).collect();
    let twelfth: Vec<i8> = (0..ROWS as i8).map(|n| n / 10).collect();
    let decimal = |scale: i8, of: fn(i64) -> i128| {
        let numbers = Decimal128Array::from_iter_values(values().into_iter().map(of));
        array(numbers.with_precision_and_scale(20, scale).unwrap())
    };
    let ids = Decimal128Array::from_iter_values(items().into_iter().map(i128::from));
    let large = Decimal256Array::from_iter_values(values().into_iter().map(arrow_buffer_i256));
    let moments = TimestampMicrosecondArray::from_iter_values(seconds().into_iter().map(|s| s * 1_000_000));
    vec![
        (
            "user",
            vec![
                array(StringArray::from_iter_values(names())),
                array(narrow),
                array(wide),
                of(array(LargeStringArray::from_iter_values(&ten)), by_ten.clone()),
                of(array(StringViewArray::from_iter_values(&ten)), by_ten),
                array(LargeStringArray::from_iter_values(names())),
                array(StringViewArray::from_iter_values(names())),
            ],
        ),
        (
            "item",
            vec![
                array(Int64Array::from(items())),
                of(array(Int64Array::from_iter_values((0..6).map(|n| 100 + 7 * n))), twelfth.clone()),
                of(array(StringArray::from_iter_values((0..6).map(|n| (100 + 7 * n).to_string()))), twelfth),
                array(ids.with_precision_and_scale(18, 0).unwrap()),
            ],
        ),
        (
            "time",
            vec![
                array(Int64Array::from(seconds())),
                array(StringViewArray::from_iter_values(seconds().iter().map(i64::to_string))),
                of(array(Int64Array::from(seconds())), own.clone()),
            ],
        ),
        (
            "rating",
            vec![
                array(Float64Array::from_iter_values(rated())),
                decimal(2, i128::from),
                decimal(4, |value| i128::from(value) * 100),
                array(large.with_precision_and_scale(40, 2).unwrap()),
                of(array(Float64Array::from_iter_values(rated())), own.clone()),
                array(LargeStringArray::from_iter_values(rated().map(|x| x.to_string()))),
            ],
        ),
        ("moment", vec![array(moments.clone()), of(array(moments), own)]),
    ]
}

fn arrow_buffer_i256(
    value: i64,
) -> <arrow_array::types::Decimal256Type as arrow_array::ArrowPrimitiveType>::Native {
    value.into()
}

const CONVERT: &str = "--modes user,item,time --value rating --bin time=7d --split none --force";

#[test]
fn categories_decimals_and_all_kinds_of_text_are_read() {
    let folder = folder();
    let folder = folder.path();
    write(folder, "in.csv", &csv());
    done(folder, &format!("convert in.csv -o csv {CONVERT}"));
    let expected = contents(&folder.join("csv"));
    assert_eq!(expected.len(), ROWS);
    let all = columns();
    for (changed, (name, kinds)) in all[..4].iter().enumerate() {
        for kind in kinds {
            let column = |at: usize| if at == changed { Arc::clone(kind) } else { Arc::clone(&all[at].1[0]) };
            let table = all[..4].iter().enumerate().map(|(at, (name, _))| (*name, column(at))).collect();
            parquet(&folder.join("in.parquet"), table, Compression::UNCOMPRESSED);
            done(folder, &format!("convert in.parquet -o out {CONVERT}"));
            assert_eq!(contents(&folder.join("out")), expected, "{name} as {:?}", kind.data_type());
        }
    }
    // Moments, also as categories.
    for kind in &all[4].1 {
        let mut table: Vec<(&str, ArrayRef)> =
            all[..4].iter().map(|(name, kinds)| (*name, Arc::clone(&kinds[0]))).collect();
        table[2].1 = Arc::clone(kind);
        parquet(&folder.join("in.parquet"), table, Compression::UNCOMPRESSED);
        done(folder, &format!("convert in.parquet -o out {CONVERT}"));
        assert_eq!(contents(&folder.join("out")), expected, "moments as {:?}", kind.data_type());
    }
}

#[test]
fn brotli_is_unpacked() {
    let folder = folder();
    let folder = folder.path();
    write(folder, "in.csv", &csv());
    done(folder, &format!("convert in.csv -o csv {CONVERT}"));
    let table = columns()[..4].iter().map(|(name, kinds)| (*name, Arc::clone(&kinds[0]))).collect();
    parquet(&folder.join("in.parquet"), table, Compression::BROTLI(BrotliLevel::default()));
    done(folder, &format!("convert in.parquet -o out {CONVERT}"));
    assert_eq!(contents(&folder.join("out")), contents(&folder.join("csv")));
}

#[test]
fn a_category_that_is_null_is_a_null() {
    let folder = folder();
    let folder = folder.path();
    let ids = || array(Int64Array::from(vec![1, 2, 3]));
    let values = || array(Float64Array::from(vec![1.0, 2.0, 3.0]));
    let missing: DictionaryArray<Int16Type> = [Some("a"), None, Some("b")].into_iter().collect();
    let none = DictionaryArray::<Int8Type>::new(
        Int8Array::from(vec![None, None, None]),
        array(StringArray::from(Vec::<&str>::new())),
    );
    for (name, users, first, bad) in [("missing", array(missing), 2, 1), ("none", array(none), 1, 3)] {
        let table = vec![("user", users), ("item", ids()), ("rating", values())];
        parquet(&folder.join("in.parquet"), table, Compression::UNCOMPRESSED);
        let line = "convert in.parquet -o out --force --modes user,item --value rating --split none";
        let said = super::refused(folder, line);
        assert!(said.contains(&format!("in.parquet:{first}: user is null")), "{name}: {said}");
        if bad < 3 {
            done(folder, &format!("{line} --skip-bad {bad}"));
            assert_eq!(contents(&folder.join("out")).len(), 3 - bad);
        }
    }
}

#[test]
fn questions_may_have_any_of_these_types_and_keep_them() {
    let folder = folder();
    let folder = folder.path();
    write(folder, "in.csv", &csv());
    done(
        folder,
        "complete in.csv -o run --modes user,item,time --value rating --bin time=7d --rank 1 --max-iterations 3",
    );
    let predictions = |line: &str| -> Vec<String> {
        let (told, said) = done(folder, line);
        assert!(!said.contains("does not know") && !said.contains("outside"), "{line}: {said}");
        told.lines().skip(1).map(|line| line.split(',').nth(4).unwrap().to_string()).collect()
    };
    let expected = predictions("predict run in.csv");
    let all = columns();
    for (changed, (name, kinds)) in all[..4].iter().enumerate() {
        for kind in kinds {
            let column = |at: usize| if at == changed { Arc::clone(kind) } else { Arc::clone(&all[at].1[0]) };
            let table = all[..4].iter().enumerate().map(|(at, (name, _))| (*name, column(at))).collect();
            parquet(&folder.join("q.parquet"), table, Compression::BROTLI(BrotliLevel::default()));
            assert_eq!(predictions("predict run q.parquet"), expected, "{name} as {:?}", kind.data_type());
            done(folder, "predict run q.parquet -o out.parquet --force");
            let written = File::open(folder.join("out.parquet")).unwrap();
            let written =
                parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(written).unwrap();
            assert_eq!(
                written.schema().field(changed).data_type(),
                kind.data_type(),
                "{name} keeps its type"
            );
        }
    }
}
