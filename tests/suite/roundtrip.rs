//! Random tensors through every format and back: entries and labels are those that went in.

use crate::common::{Contents, contents, folder, run, tenfill};
use arrow_array::{ArrayRef, Float32Array, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use tenfill_engine::shard::Split;

/// Ids that any dialect can hold, and ids that need quotes.
const PLAIN: [&str; 8] = ["a", "Zoë", "007", "+7", "1e5", "x-y", "名前", "no.1"];
const QUOTED: [&str; 6] = ["two words", "x,y;z|w", "say \"hi\"", "# no comment", "a\tb", "it's"];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Ids {
    Range,
    Sparse,
    Text,
}

/// Distinct entries by label.
#[derive(Debug, Clone)]
struct Tensor {
    ids: Vec<Ids>,
    rows: Vec<(Vec<String>, f64)>,
}

fn id(kind: Ids, index: u32, quoted: bool) -> String {
    let words = if quoted { [&PLAIN[..], &QUOTED[..]].concat() } else { PLAIN.to_vec() };
    match kind {
        Ids::Range => index.to_string(),
        Ids::Sparse => (i64::from(index) * 98_765_432_101 - 500_000_000_000).to_string(),
        Ids::Text if index.is_multiple_of(5) => index.to_string(),
        Ids::Text => format!("{}{index}", words[index as usize % words.len()]),
    }
}

impl Tensor {
    fn of(kinds: &[Ids], cells: &[(Vec<u32>, f64)], quoted: bool) -> Self {
        let mut rows: Vec<(Vec<String>, f64)> = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        for (indices, value) in cells {
            let labels: Vec<String> = kinds.iter().zip(indices).map(|(&k, &i)| id(k, i, quoted)).collect();
            if seen.insert(labels.clone()) {
                rows.push((labels, *value));
            }
        }
        Tensor { ids: kinds.to_vec(), rows }
    }

    fn expected(&self) -> Contents {
        let rows = self.rows.iter();
        rows.map(|(labels, value)| (labels.clone(), (Split::Train, value.to_bits()))).collect()
    }

    fn order(&self) -> usize {
        self.ids.len()
    }
}

type Cells = (Vec<Ids>, Vec<(Vec<u32>, f64)>);

fn cells(order: impl Strategy<Value = usize>) -> impl Strategy<Value = Cells> {
    let kind = prop_oneof![Just(Ids::Range), Just(Ids::Sparse), Just(Ids::Text)];
    order.prop_flat_map(move |order| {
        let value = prop_oneof![
            // What squares and sums without overflow.
            (prop::num::f64::NORMAL | prop::num::f64::ZERO).prop_map(|x| if x.abs() > 1e140 {
                x * 1e-180
            } else {
                x
            }),
            (-10i32..10).prop_map(|n| f64::from(n) / 2.0),
            any::<f32>().prop_filter("finite", |x| x.is_finite()).prop_map(f64::from),
        ];
        let cell = (prop::collection::vec(0u32..30, order), value);
        (prop::collection::vec(kind.clone(), order), prop::collection::vec(cell, 1..120))
    })
}

#[derive(Debug, Clone, Copy)]
struct Dialect {
    delimiter: &'static str,
    quoted: bool,
    crlf: bool,
    bom: bool,
    header: bool,
    last_line_ends: bool,
    said: bool,
    packed: Packed,
    stdin: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Packed {
    No,
    Gzip,
    Zstd,
}

fn packed() -> impl Strategy<Value = Packed> {
    prop_oneof![Just(Packed::No), Just(Packed::Gzip), Just(Packed::Zstd)]
}

fn dialect() -> impl Strategy<Value = Dialect> {
    let delimiter = prop::sample::select(vec![",", "\t", ";", "|", "::", " "]);
    (delimiter, any::<[bool; 7]>(), packed()).prop_map(|(delimiter, flags, packed)| {
        let [quoted, crlf, bom, header, last_line_ends, said, stdin] = flags;
        let quoted = quoted && delimiter.len() == 1 && delimiter != " ";
        // Ids that hold other delimiters leave nothing to find the right one by.
        let said = said || quoted;
        Dialect { delimiter, quoted, crlf, bom, header, last_line_ends, said, packed, stdin }
    })
}

fn compress(bytes: &[u8], packed: Packed) -> Vec<u8> {
    match packed {
        Packed::No => bytes.to_vec(),
        Packed::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Packed::Zstd => zstd::encode_all(bytes, 1).unwrap(),
    }
}

impl Dialect {
    fn text(&self, tensor: &Tensor) -> Vec<u8> {
        let field = |text: &str| {
            if self.quoted { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_string() }
        };
        let mut lines = Vec::new();
        if self.header {
            let names = (0..tensor.order()).map(|mode| field(&format!("m{mode}")));
            lines.push(names.chain([field("rating")]).collect::<Vec<_>>().join(self.delimiter));
        }
        for (labels, value) in &tensor.rows {
            let fields = labels.iter().map(|label| field(label)).chain([value.to_string()]);
            lines.push(fields.collect::<Vec<_>>().join(self.delimiter));
        }
        let end = if self.crlf { "\r\n" } else { "\n" };
        let mut text = if self.bom { "\u{feff}".to_string() } else { String::new() };
        text += &lines.join(end);
        if self.last_line_ends {
            text += end;
        }
        text.into_bytes()
    }
}

/// The columns by number, since not every file has names.
fn columns(order: usize) -> [String; 2] {
    let modes: Vec<String> = (1..=order).map(|column| column.to_string()).collect();
    [format!("--modes={}", modes.join(",")), format!("--value={}", order + 1)]
}

const PLAINLY: [&str; 4] = ["--split", "none", "--duplicates", "error"];

fn through_text(cells: &Cells, dialect: Dialect) -> Result<(), TestCaseError> {
    let directory = folder();
    let tensor = Tensor::of(&cells.0, &cells.1, dialect.quoted);
    let file = compress(&dialect.text(&tensor), dialect.packed);
    fs::write(directory.path().join("in.txt"), &file).unwrap();
    let mut command = tenfill(directory.path());
    command.args(["convert", if dialect.stdin { "-" } else { "in.txt" }, "-o", "out"]);
    command.args(PLAINLY).args(columns(tensor.order()));
    if dialect.stdin {
        command.stdin(Stdio::from(File::open(directory.path().join("in.txt")).unwrap()));
    }
    if dialect.said {
        let name = match dialect.delimiter {
            "\t" => "tab",
            " " => "space",
            other => other,
        };
        command.args(["--delimiter", name, if dialect.header { "--header" } else { "--no-header" }]);
    }
    let output = command.output().unwrap();
    prop_assert!(output.status.success(), "{}", crate::common::stderr(&output));
    prop_assert_eq!(contents(&directory.path().join("out")), tensor.expected());
    Ok(())
}

fn write_parquet(path: &Path, tensor: &Tensor, rows: &[(Vec<String>, f64)], narrow: bool) {
    let mut columns: Vec<(String, ArrayRef)> = Vec::new();
    for (mode, kind) in tensor.ids.iter().enumerate() {
        let labels = || rows.iter().map(|(labels, _)| labels[mode].as_str());
        let array: ArrayRef = match kind {
            Ids::Text => Arc::new(labels().map(Some).collect::<StringArray>()),
            Ids::Range if narrow => Arc::new(labels().map(|x| x.parse().ok()).collect::<Int32Array>()),
            Ids::Range | Ids::Sparse => Arc::new(labels().map(|x| x.parse().ok()).collect::<Int64Array>()),
        };
        columns.push((format!("m{mode}"), array));
    }
    let values = || rows.iter().map(|(_, value)| *value);
    let single = values().all(|value| f64::from(value as f32) == value);
    let array: ArrayRef = if single && narrow {
        Arc::new(Float32Array::from_iter_values(values().map(|value| value as f32)))
    } else {
        Arc::new(Float64Array::from_iter_values(values()))
    };
    columns.push(("rating".into(), array));
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

fn through_parquet(cells: &Cells, narrow: bool, parts: usize, packed: Packed) -> Result<(), TestCaseError> {
    let directory = folder();
    let tensor = Tensor::of(&cells.0, &cells.1, true);
    let input = directory.path().join("in.parquet");
    if parts > 1 {
        fs::create_dir(&input).unwrap();
        fs::write(input.join("_SUCCESS"), "").unwrap();
        for (number, rows) in tensor.rows.chunks(tensor.rows.len().div_ceil(parts)).enumerate() {
            write_parquet(&input.join(format!("part-{number:05}.parquet")), &tensor, rows, narrow);
        }
    } else {
        write_parquet(&input, &tensor, &tensor.rows, narrow);
        let bytes = fs::read(&input).unwrap();
        fs::write(&input, compress(&bytes, packed)).unwrap();
    }
    let names: Vec<String> = (0..tensor.order()).map(|mode| format!("m{mode}")).collect();
    let modes = format!("--modes={}", names.join(","));
    run(directory.path(), ["convert", "in.parquet", "-o", "out", &modes].into_iter().chain(PLAINLY));
    prop_assert_eq!(contents(&directory.path().join("out")), tensor.expected());
    Ok(())
}

fn through_tns(cells: &Cells, zero_based: bool, packed: Packed) -> Result<(), TestCaseError> {
    let directory = folder();
    let kinds = vec![Ids::Range; cells.0.len()];
    let base = u32::from(!zero_based);
    let shifted: Vec<(Vec<u32>, f64)> = cells
        .1
        .iter()
        .map(|(indices, value)| (indices.iter().map(|&index| index + base).collect(), *value))
        .collect();
    let tensor = Tensor::of(&kinds, &shifted, false);
    let mut text = String::from("# a comment\n\n");
    for (number, (labels, value)) in tensor.rows.iter().enumerate() {
        let between = if number % 2 == 0 { " " } else { "  \t" };
        text += &format!("{}{between}{value}\n", labels.join(between));
        if number % 7 == 3 {
            text += "  # another\n";
        }
    }
    fs::write(directory.path().join("in.tns.x"), compress(text.as_bytes(), packed)).unwrap();
    let mut arguments = vec!["convert", "in.tns.x", "-o", "out", "--format", "tns"];
    if zero_based {
        arguments.push("--zero-based");
    }
    run(directory.path(), arguments.into_iter().chain(PLAINLY));
    prop_assert_eq!(contents(&directory.path().join("out")), tensor.expected());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn text_comes_back(cells in cells(2usize..=5), dialect in dialect()) {
        through_text(&cells, dialect)?;
    }

    #[test]
    fn parquet_comes_back(cells in cells(2usize..=5), narrow: bool, parts in 1usize..4, packed in packed()) {
        through_parquet(&cells, narrow, parts, packed)?;
    }

    #[test]
    fn tns_comes_back(cells in cells(2usize..=5), zero_based: bool, packed in packed()) {
        through_tns(&cells, zero_based, packed)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn order_eight_comes_back(cells in cells(Just(8)), dialect in dialect()) {
        through_text(&cells, dialect)?;
        through_parquet(&cells, true, 2, Packed::No)?;
        through_tns(&cells, false, Packed::No)?;
    }
}
