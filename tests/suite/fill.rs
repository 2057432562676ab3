//! Tables and arrays given back with their holes filled.

use crate::common::{failure, failure_of, folder, json, names, run, stderr, tenfill};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float32Array, Float64Array, Int64Array, RecordBatch, StringArray,
};
use std::fs::{File, read, read_to_string, write};
use std::path::Path;
use std::sync::Arc;

/// What a station reads on a day and at an hour: additive and a product, so that a small model has it.
fn truth(station: usize, day: usize, hour: usize) -> f64 {
    let (s, d, h) = (station as f64, day as f64, hour as f64);
    20.0 + s + 4.0 * (h / 3.0).sin() + (1.0 + s / 5.0) * (d / 2.0).cos()
}

/// Holes that follow no pattern.
fn is_hole(number: usize) -> bool {
    let mixed = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40).is_multiple_of(4)
}

const DIMS: [usize; 3] = [8, 15, 12];

/// All cells with their number.
fn cells() -> impl Iterator<Item = (usize, [usize; 3])> {
    let [_, b, c] = DIMS;
    (0..DIMS.iter().product()).map(move |n| (n, [n / (b * c), n / c % b, n % c]))
}

#[test]
fn a_table_comes_back_byte_for_byte_with_its_holes_filled() {
    let folder = folder();
    let folder = folder.path();
    // As a spreadsheet writes it: semicolons, quotes, line ends of two characters, another column, a blank line.
    let mut text = "\u{feff}station;day;hour;note;pm10\r\n".to_string();
    for (n, [s, d, h]) in cells() {
        let value = truth(s, d, h);
        let value = match (is_hole(n), n % 9) {
            (true, k) => ["", "NA", "\"\"", " "][k % 4].to_string(),
            (false, 0) => format!("\"{value:.3}\""),
            (false, _) => format!("{value:.3}"),
        };
        text += &format!("\"S; {s}\";{d};{h};\"say \"\"{n}\"\"\";{value}\r\n");
        if n == 100 {
            text += "\r\n";
        }
    }
    write(folder.join("in.csv"), &text).unwrap();
    let line = "fill in.csv -o out.csv --modes station,day,hour --value pm10 --threads 3";
    let told = json(folder, line);
    assert_eq!(names(folder), ["in.csv", "out.csv"], "the run was in a temporary place");
    let holes = cells().filter(|(n, _)| is_hole(*n)).count();
    assert_eq!((&told["rows"], &told["filled"]), (&DIMS.iter().product::<usize>().into(), &holes.into()));
    assert_eq!((&told["unknown"], &told["added"]), (&0.into(), &0.into()));
    let held = &told["held_out"];
    assert!(held["rmse"].as_f64().unwrap() < 0.2, "{told}");
    assert!(held["rmse"].as_f64() < held["interpolation_rmse"].as_f64(), "{told}");
    assert!(held["interpolation_rmse"].as_f64() < held["mean_rmse"].as_f64(), "{told}");
    assert_eq!(held["interpolation_mode"], "day and hour");

    let out = read_to_string(folder.join("out.csv")).unwrap();
    let mut lines = out.split("\r\n");
    assert_eq!(lines.next().unwrap(), "\u{feff}station;day;hour;note;pm10;filled");
    let mut before = text.split("\r\n").skip(1);
    let mut seen = 0;
    for line in lines {
        let old = before.next().unwrap();
        if old.is_empty() {
            assert_eq!(line, "");
            continue;
        }
        let (n, [s, d, h]) = cells().nth(seen).unwrap();
        seen += 1;
        if is_hole(n) {
            let (ids, _) = old.rsplit_once(';').unwrap();
            let value = line.strip_prefix(ids).unwrap().strip_prefix(';').unwrap();
            let value: f64 = value.strip_suffix(";true").unwrap().parse().unwrap();
            assert!((value - truth(s, d, h)).abs() < 0.5, "{line}: {}", truth(s, d, h));
        } else {
            assert_eq!(line, format!("{old};false"));
        }
    }
    assert_eq!(seen, DIMS.iter().product::<usize>());

    // The same bytes with any number of threads, and from a run that was kept.
    json(
        folder,
        &format!("{} --force", line.replace("out.csv", "one.csv").replace("threads 3", "threads 1")),
    );
    assert_eq!(read(folder.join("one.csv")).unwrap(), out.as_bytes());
    json(folder, &format!("{} --keep run", line.replace("out.csv", "two.csv")));
    json(folder, "fill in.csv -o three.csv --run run");
    for name in ["two.csv", "three.csv"] {
        assert_eq!(read(folder.join(name)).unwrap(), out.as_bytes(), "{name}");
    }
    // In the other kinds of file: the same values.
    json(folder, "fill in.csv -o four.parquet --run run");
    json(folder, "fill four.parquet -o five.csv --run run --all-cells");
    json(folder, "fill in.csv -o six.tsv.gz --run run");
    let values = |text: &str, between: char| -> Vec<String> {
        let rows = text.lines().skip(1).filter(|line| !line.is_empty());
        rows.map(|line| line.rsplit(between).nth(1).unwrap().trim_matches('"').to_string()).collect()
    };
    let numbers =
        |texts: Vec<String>| -> Vec<f64> { texts.iter().map(|text| text.parse().unwrap()).collect() };
    let five = read_to_string(folder.join("five.csv")).unwrap();
    let expected = numbers(values(&out, ';'));
    // Nothing is missing any more: `filled` of before stays, and there is another one.
    assert!(five.starts_with("station,day,hour,note,pm10,filled,filled_2\n"));
    let five: Vec<String> = five.lines().map(|line| line.rsplit_once(',').unwrap().0.to_string()).collect();
    assert_eq!(numbers(values(&five.join("\n"), ',')), expected);
}

fn parquet(path: &Path, columns: Vec<(&str, ArrayRef)>) {
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let mut writer =
        parquet::arrow::ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

fn columns(path: &Path) -> RecordBatch {
    let builder =
        parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap());
    let mut batches = builder.unwrap().with_batch_size(1 << 20).build().unwrap();
    batches.next().unwrap().unwrap()
}

#[test]
fn parquet_keeps_its_types() {
    let folder = folder();
    let folder = folder.path();
    let all: Vec<(usize, [usize; 3])> = cells().collect();
    let stations: ArrayRef =
        Arc::new(StringArray::from_iter_values(all.iter().map(|(_, at)| format!("S{}", at[0]))));
    let days: ArrayRef = Arc::new(Int64Array::from_iter_values(all.iter().map(|(_, at)| at[1] as i64)));
    let hours: ArrayRef = Arc::new(Int64Array::from_iter_values(all.iter().map(|(_, at)| at[2] as i64)));
    let value = |n: &usize, at: &[usize; 3]| (!is_hole(*n)).then(|| truth(at[0], at[1], at[2]));
    let floats =
        all.iter().map(|(n, at)| value(n, at).map(|value| value as f32).or((n % 2 == 0).then_some(f32::NAN)));
    let floats: ArrayRef = Arc::new(Float32Array::from_iter(floats));
    let integers = all.iter().map(|(n, at)| value(n, at).map(|value| (10.0 * value).round() as i64));
    let integers: ArrayRef = Arc::new(Int64Array::from_iter(integers));
    for (kind, values) in [("floats", floats), ("integers", integers)] {
        let table = vec![
            ("station", Arc::clone(&stations)),
            ("pm10", Arc::clone(&values)),
            ("day", Arc::clone(&days)),
            ("hour", Arc::clone(&hours)),
        ];
        parquet(&folder.join("in.parquet"), table);
        let told =
            json(folder, "fill in.parquet -o out.parquet --modes station,day,hour --value pm10 --force");
        let holes = all.iter().filter(|(n, _)| is_hole(*n)).count();
        assert_eq!(told["filled"], holes, "{kind}");
        let (before, after) = (columns(&folder.join("in.parquet")), columns(&folder.join("out.parquet")));
        assert_eq!(after.num_columns(), 5);
        for column in [0, 2, 3] {
            assert_eq!(before.column(column), after.column(column), "{kind}");
        }
        assert_eq!(after.schema().field(1).data_type(), before.schema().field(1).data_type());
        let (old, new) = (before.column(1), after.column(1));
        assert_eq!(new.null_count(), 0);
        let filled: &BooleanArray = after.column(4).as_boolean();
        for (n, at) in &all {
            assert_eq!(filled.value(*n), is_hole(*n));
            let truth = truth(at[0], at[1], at[2]);
            if kind == "floats" {
                let (old, new) = (old.as_primitive::<Float32Type>(), new.as_primitive::<Float32Type>());
                assert!((f64::from(new.value(*n)) - truth).abs() < 0.5, "{kind} {n}");
                assert!(is_hole(*n) || old.value(*n).to_bits() == new.value(*n).to_bits());
            } else {
                let (old, new) = (old.as_primitive::<Int64Type>(), new.as_primitive::<Int64Type>());
                assert!((new.value(*n) as f64 - 10.0 * truth).abs() < 5.0, "{kind} {n}");
                assert!(is_hole(*n) || old.value(*n) == new.value(*n));
            }
        }
    }
}

#[test]
fn cells_without_a_row_are_added_where_they_are_wanted() {
    let folder = folder();
    let folder = folder.path();
    // A third of the holes has no row at all, and another column is there.
    let rows = cells().filter(|(n, _)| !(is_hole(*n) && n % 3 == 0)).map(|(n, [s, d, h])| {
        let value = if is_hole(n) { String::new() } else { format!("{:.4}", truth(s, d, h)) };
        format!("\"S,{s}\",{d},x,{value},{h}\n")
    });
    write(folder.join("in.csv"), format!("station,day,other,pm10,hour\n{}", rows.collect::<String>()))
        .unwrap();
    let absent = cells().filter(|(n, _)| is_hole(*n) && n % 3 == 0).count();
    let line = "fill in.csv -o out.csv --modes station,day,hour --value pm10 --all-cells --keep run";
    assert_eq!(json(folder, line)["added"], absent);
    json(folder, "fill in.csv -o out.parquet --run run --all-cells");
    let text = read_to_string(folder.join("out.csv")).unwrap();
    assert_eq!(text.lines().count(), 1 + DIMS.iter().product::<usize>());
    let table = columns(&folder.join("out.parquet"));
    let values = table.column(3).as_primitive::<Float64Type>();
    for (number, line) in text.lines().skip(1).enumerate().skip(DIMS.iter().product::<usize>() - absent) {
        let fields: Vec<&str> = line.strip_prefix("\"S,").unwrap().split(',').collect();
        let [station, day, other, value, hour, filled] = fields[..] else { panic!("{line}") };
        assert_eq!((other, filled), ("", "true"));
        let at = |text: &str| text.trim_matches('"').parse::<usize>().unwrap();
        let value: f64 = value.parse().unwrap();
        assert!((value - truth(at(station), at(day), at(hour))).abs() < 0.5, "{line}");
        assert_eq!(values.value(number), value, "the same in Parquet");
    }
    // More cells than can be kept account of are refused before anything is fitted.
    let many: String = (0..40_000).map(|n| format!("a{n},b{n},c{},{}\n", n % 50, n % 7)).collect();
    write(folder.join("many.csv"), format!("a,b,c,value\n{many}")).unwrap();
    let said = failure(folder, "fill many.csv -o many-out.csv --all-cells --memory 64M --quiet");
    assert!(said.contains("--all-cells would write 80000000000 rows"), "{said}");
    assert!(!folder.join("many-out.csv").exists());
}

#[test]
fn wide_in_wide_out() {
    let folder = folder();
    let folder = folder.path();
    let [stations, days, hours] = DIMS;
    let mut text = "day\thour\t".to_string()
        + &(0..stations).map(|s| format!("S{s}")).collect::<Vec<_>>().join("\t")
        + "\n";
    for at in 0..days * hours {
        let (d, h) = (at / hours, at % hours);
        let cells = (0..stations).map(|s| match is_hole(at * stations + s) {
            true => String::new(),
            false => format!("{:.3}", truth(s, d, h)),
        });
        text += &format!("{d}\t{h}\t{}\n", cells.collect::<Vec<_>>().join("\t"));
    }
    text.pop(); // no line end at the end
    write(folder.join("in.tsv"), &text).unwrap();
    let line = "fill in.tsv -o out.tsv --wide --id-columns day,hour --column-mode station --keep run";
    let told = json(folder, line);
    let holes = (0..DIMS.iter().product()).filter(|&n| is_hole(n)).count();
    assert_eq!((&told["filled"], &told["rows"]), (&holes.into(), &(days * hours).into()));
    json(folder, "fill in.tsv -o out.parquet --wide --run run");
    json(folder, "fill out.parquet -o again.tsv --wide --run run");
    let out = read_to_string(folder.join("out.tsv")).unwrap();
    assert!(!out.ends_with('\n'));
    for (number, (old, new)) in text.lines().zip(out.lines()).enumerate().skip(1) {
        let (d, h) = ((number - 1) / hours, (number - 1) % hours);
        let fields = old.split('\t').zip(new.split('\t'));
        for (column, (old, new)) in fields.enumerate() {
            if old.is_empty() {
                let value: f64 = new.parse().unwrap();
                assert!((value - truth(column - 2, d, h)).abs() < 0.5, "{new}");
            } else {
                assert_eq!(old, new);
            }
        }
    }
    let numbers = |name: &str| -> Vec<f64> {
        let text = read_to_string(folder.join(name)).unwrap();
        let rows = text.lines().skip(1);
        rows.flat_map(|line| line.split('\t').map(|field| field.parse().unwrap()).collect::<Vec<f64>>())
            .collect()
    };
    assert_eq!(numbers("out.tsv"), numbers("again.tsv"), "by way of Parquet");
    let said = failure(folder, "fill in.tsv -o other.tsv --wide --all-cells");
    assert!(said.contains("--all-cells is for long tables"), "{said}");
}

fn npy(path: &Path, kind: &str, fortran: bool, cells: &[u8]) {
    let [a, b, c] = DIMS;
    let order = if fortran { "True" } else { "False" };
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': {order}, 'shape': ({a}, {b}, {c}), }}");
    header.extend(std::iter::repeat_n(' ', 117 - header.len()));
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(cells);
    write(path, bytes).unwrap();
}

#[test]
fn arrays_keep_shape_order_and_kind() {
    let folder = folder();
    let folder = folder.path();
    let [a, b, c] = DIMS;
    let total = a * b * c;
    for (kind, fortran) in [("<f8", false), ("<f4", true), (">f4", false)] {
        let at = |n: usize| match fortran {
            false => [n / (b * c), n / c % b, n % c],
            true => [n % a, n / a % b, n / (a * b)],
        };
        let number = |n: usize| {
            let [s, d, h] = at(n);
            if is_hole(n) { f64::NAN } else { truth(s, d, h) }
        };
        let bytes = |value: f64| -> Vec<u8> {
            match kind {
                "<f8" => value.to_le_bytes().to_vec(),
                "<f4" => (value as f32).to_le_bytes().to_vec(),
                _ => (value as f32).to_be_bytes().to_vec(),
            }
        };
        let cells: Vec<u8> = (0..total).flat_map(|n| bytes(number(n))).collect();
        npy(&folder.join("in.npy"), kind, fortran, &cells);
        let told = json(folder, "fill in.npy -o out.npy --modes station,day,hour --force --memory 64M");
        let holes = (0..total).filter(|&n| is_hole(n)).count();
        assert_eq!((&told["filled"], &told["rows"]), (&holes.into(), &total.into()), "{kind}");
        let (before, after) = (read(folder.join("in.npy")).unwrap(), read(folder.join("out.npy")).unwrap());
        assert_eq!((&before[..128], before.len()), (&after[..128], after.len()), "{kind}");
        let width = cells.len() / total;
        for (n, (old, new)) in before[128..].chunks(width).zip(after[128..].chunks(width)).enumerate() {
            let value = match kind {
                "<f8" => f64::from_le_bytes(new.try_into().unwrap()),
                "<f4" => f64::from(f32::from_le_bytes(new.try_into().unwrap())),
                _ => f64::from(f32::from_be_bytes(new.try_into().unwrap())),
            };
            let [s, d, h] = at(n);
            assert!((value - truth(s, d, h)).abs() < 0.5, "{kind} {n}: {value}");
            assert!(is_hole(n) || old == new);
        }
    }
    // A dataset of it: its ids are the indices, as NumPy counts them.
    let told = json(folder, "convert in.npy -o data --split none");
    assert_eq!(told["dims"], serde_json::json!(DIMS));
    assert_eq!(told["modes"], serde_json::json!(["axis1", "axis2", "axis3"]));
    assert!(crate::common::contents(&folder.join("data")).keys().any(|ids| ids.join(",") == "0,0,1"));

    let said = failure(folder, "fill in.npy -o out.csv");
    assert!(said.contains("end the output with .npy"), "{said}");
    npy(&folder.join("int.npy"), "<i4", false, &vec![0; 4 * total]);
    let said = failure(folder, "fill int.npy -o int-out.npy");
    assert!(said.contains("int.npy: an array of integers cannot hold what is filled in"), "{said}");
    assert_eq!(failure(folder, "fill int.npy -o int-out.npy --missing=-999"), said);
    npy(&folder.join("short.npy"), "<f8", false, &[0; 80]);
    let said = failure(folder, "fill short.npy -o short-out.npy");
    assert!(said.contains("the array ends early: 0 cells of 1440"), "{said}");
    npy(&folder.join("inf.npy"), "<f8", false, &f64::INFINITY.to_le_bytes().repeat(total));
    let said = failure(folder, "fill inf.npy -o inf-out.npy");
    assert!(said.contains("inf.npy:1: the cell [0, 0, 0] is inf"), "{said}");
    assert!(!names(folder).iter().any(|name| name.ends_with("-out.npy") || name.starts_with('.')));
}

#[test]
fn what_cannot_be_filled_is_said_before_work_is_done() {
    let folder = folder();
    let folder = folder.path();
    let rows: String = (0..40).map(|n| format!("{},{},{}\n", n % 8, n / 8, n % 5)).collect();
    write(folder.join("full.csv"), format!("a,b,value\n{rows}")).unwrap();
    write(folder.join("there.csv"), "mine\n").unwrap();
    for (line, needle) in [
        ("fill full.csv -o out.csv", "no value is missing: there is nothing to fill"),
        ("fill full.csv -o there.csv", "there.csv"),
        ("fill full.csv -o full.csv --force", "is an input"),
        ("fill - -o out.csv", "<stdin>: the file is empty"),
        ("fill full.csv -o out.npy", "a table is no array"),
        ("fill full.csv -o out.xyz", "does not say what to write"),
        ("fill gone.csv -o out.csv", "gone.csv"),
        ("fill full.csv -o out.csv --run nowhere", "nowhere"),
        ("fill full.csv -o out.csv --test full.csv", "--validation and --test do not go"),
    ] {
        let said = failure(folder, line);
        assert!(said.contains(needle), "{line}: {said}");
    }
    assert_eq!(names(folder), ["full.csv", "there.csv"]);
    assert_eq!(read_to_string(folder.join("there.csv")).unwrap(), "mine\n");
    // An id that has no value anywhere is answered by the rest, and counted.
    write(folder.join("holes.csv"), format!("a,b,value\n{rows}99,1,\n3,3,NA\n")).unwrap();
    let told = run(folder, ["fill", "holes.csv", "-o", "out.csv", "--where", "value >= 0"]);
    assert_eq!((&told["filled"], &told["unknown"]), (&2.into(), &1.into()));
    let bad = ["fill", "holes.csv", "-o", "other.csv", "--where", "gone > 1"];
    assert!(failure_of(folder, &bad).contains("there is no column 'gone'"));
}

#[test]
fn other_signs_of_a_hole_are_filled() {
    let folder = folder();
    let folder = folder.path();
    let rows = |hole: &str, other: &str| -> Vec<String> {
        let row = |n: usize| match n % 11 {
            3 => hole.to_string(),
            7 => other.to_string(),
            _ => format!("{}", n % 20 + n / 20),
        };
        (0..400).map(row).collect()
    };
    let table = |values: &[String]| {
        let rows = values.iter().enumerate().map(|(n, value)| format!("{},{},{value}\n", n % 20, n / 20));
        format!("a,b,value\n{}", rows.collect::<String>())
    };
    write(folder.join("holes.csv"), table(&rows("", "NA"))).unwrap();
    write(folder.join("signs.csv"), table(&rows("?", "-999.0"))).unwrap();
    let holes = rows("", "x").iter().filter(|value| value.is_empty() || *value == "x").count();
    let usual = run(folder, ["fill", "holes.csv", "-o", "usual.csv"]);
    assert_eq!(usual["filled"], holes);
    let signs = ["fill", "signs.csv", "-o", "out.csv", "--missing", "-999", "--missing", "?"];
    assert_eq!(run(folder, signs)["filled"], holes);
    let text = |name: &str| read_to_string(folder.join(name)).unwrap();
    assert_eq!(text("out.csv"), text("usual.csv"));
    run(folder, ["fill", "signs.csv", "-o", "out.parquet", "--missing=-999", "--missing=?"]);
    let said = failure(folder, "fill signs.csv -o other.csv --missing -999");
    assert!(said.contains("value is '?', which is no number"), "{said}");
    // The same in Parquet, of numbers, and in an array.
    let numbers = rows("-999", "-999").iter().map(|value| value.parse::<f64>().unwrap()).collect::<Vec<_>>();
    let ids = |of: fn(i64) -> i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values((0..400).map(of))) };
    let values: ArrayRef = Arc::new(Float64Array::from(numbers.clone()));
    parquet(
        &folder.join("in.parquet"),
        vec![("a", ids(|n| n % 20)), ("b", ids(|n| n / 20)), ("value", values)],
    );
    let told = run(folder, ["fill", "in.parquet", "-o", "filled.parquet", "--missing", "-999"]);
    assert_eq!(told["filled"], holes);
    let filled = columns(&folder.join("filled.parquet"));
    let of = filled.column(2).as_any().downcast_ref::<Float64Array>().unwrap();
    assert!(of.values().iter().all(|value| (-5.0..50.0).contains(value)));
}

/// Signs that the data of a run had are holes of every table that the run fills.
#[test]
fn a_run_fills_the_signs_that_its_model_knows() {
    let folder = folder();
    let folder = folder.path();
    let value = |n: usize, hole: &str| match n % 7 {
        3 => hole.to_string(),
        _ => (n % 20 + n / 20).to_string(),
    };
    let long = |hole: &str| {
        let rows = (0..400).map(|n| format!("{},{},{}\n", n % 20, n / 20, value(n, hole)));
        format!("a,b,value\n{}", rows.collect::<String>())
    };
    let wide = |hole: &str| {
        let rows = (0..20).map(|b| {
            let cells = (0..20).map(|a| value(20 * b + a, hole));
            format!("{b},{}\n", cells.collect::<Vec<_>>().join(","))
        });
        let names = (0..20).map(|a| format!("c{a}")).collect::<Vec<_>>();
        format!("b,{}\n{}", names.join(","), rows.collect::<String>())
    };
    let array = |name: &str, hole: &str| {
        let cells = DIMS.iter().product();
        let number = |n: usize| value(n % 380, hole).parse::<f64>().unwrap().to_le_bytes();
        npy(&folder.join(name), "<f8", false, &(0..cells).flat_map(number).collect::<Vec<u8>>());
    };
    write(folder.join("a.csv"), long("-999")).unwrap();
    write(folder.join("b.csv"), long("")).unwrap();
    write(folder.join("a-wide.csv"), wide("-999")).unwrap();
    write(folder.join("b-wide.csv"), wide("")).unwrap();
    array("a.npy", "-999");
    array("b.npy", "NaN");
    for (kind, ending, more) in [("", "csv", ""), ("-wide", "csv", "--wide"), ("", "npy", "")] {
        let place = format!("run{kind}-{ending}");
        json(
            folder,
            &format!("fill a{kind}.{ending} -o first.{ending} {more} --missing=-999 --keep {place} --force"),
        );
        let told = |from: &str, to: &str| {
            json(folder, &format!("fill {from}{kind}.{ending} -o {to}.{ending} {more} --run {place} --force"))
                ["filled"]
                .clone()
        };
        let expected = told("b", "usual");
        assert!(expected.as_u64() > Some(40), "{place}: {expected}");
        assert_eq!(told("a", "out"), expected, "{place}");
        let bytes = |name: &str| read(folder.join(name).with_extension(ending)).unwrap();
        assert!(bytes("out") == bytes("usual") && bytes("out") == bytes("first"), "{place}");
    }
    let values = (0..400).map(|n| value(n, "-999").parse::<f64>().unwrap());
    let ids = |of: fn(i64) -> i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values((0..400).map(of))) };
    let table = vec![
        ("a", ids(|n| n % 20)),
        ("b", ids(|n| n / 20)),
        ("value", Arc::new(Float64Array::from_iter_values(values)) as ArrayRef),
    ];
    parquet(&folder.join("in.parquet"), table);
    assert_eq!(json(folder, "fill in.parquet -o out.parquet --run run-csv")["filled"], 57);
}

#[test]
fn comments_of_a_tns_file_stay() {
    let folder = folder();
    let folder = folder.path();
    let mut text = "# made by hand\n".to_string();
    for n in 0..400 {
        let value = if n % 9 == 4 { "NA".into() } else { format!("{}.5", n % 20 + n / 20) };
        text += &format!("{} {} {value}\n", 1 + n / 20, 1 + n % 20);
        if n % 150 == 100 {
            text += " # 1 2 3\n";
        }
    }
    write(folder.join("in.tns"), &text).unwrap();
    let told = json(folder, "fill in.tns -o out.csv --keep run");
    assert_eq!((&told["rows"], &told["filled"]), (&400.into(), &44.into()));
    let out = read_to_string(folder.join("out.csv")).unwrap();
    assert_eq!(out.lines().count(), text.lines().count());
    for (line, old) in out.lines().zip(text.lines()) {
        match (old.contains('#'), old.strip_suffix("NA")) {
            (true, _) => assert_eq!(line, old),
            (_, Some(ids)) => assert!(line.starts_with(ids) && line.ends_with(" true"), "{line}"),
            _ => assert_eq!(line, format!("{old} false")),
        }
    }
    // Other kinds of file have no place for them.
    assert_eq!(json(folder, "fill in.tns -o out.parquet --run run")["filled"], 44);
    assert_eq!(columns(&folder.join("out.parquet")).num_rows(), 400);
}

/// The lines between two stray quotes are good, and filled like all others.
#[test]
fn every_line_of_a_table_with_stray_quotes_comes_back_as_one() {
    let folder = folder();
    let folder = folder.path();
    let mut text = "a,b,v\n".to_string();
    for n in 0..400 {
        let value = if n % 9 == 4 { String::new() } else { format!("{}.5", n % 20 + n / 20) };
        match n {
            150 => text += "1,\"2,3\n",
            250 => text += "4,5\",6,\"x\n",
            _ => {}
        }
        text += &format!("{},{},{value}\n", n / 20, n % 20);
    }
    write(folder.join("in.csv"), &text).unwrap();
    let told = json(folder, "fill in.csv -o out.csv --modes a,b --value v --rank 1 --skip-bad 9");
    assert_eq!((&told["rows"], &told["filled"]), (&402.into(), &44.into()));
    let out = read_to_string(folder.join("out.csv")).unwrap();
    assert_eq!(out.lines().count(), text.lines().count());
    for (line, old) in out.lines().zip(text.lines()).skip(1) {
        match old.strip_suffix(',') {
            Some(_) => assert!(line.starts_with(old) && line.ends_with(",true"), "{line}"),
            None => assert_eq!(line, format!("{old},false")),
        }
    }
}

#[test]
fn what_cannot_be_learned_from_names_the_table() {
    let folder = folder();
    let folder = folder.path();
    let rows: String =
        (0..400).map(|n| format!("{},{},{}\n", n % 20, n / 20, if n % 7 == 3 { "" } else { "1" })).collect();
    write(folder.join("in.csv"), format!("a,b,value\n{rows}")).unwrap();
    let said = failure(folder, "fill in.csv -o out.csv --quiet");
    assert_eq!(said, "tenfill: in.csv: all values are 1: there is nothing to tell apart\n");
}

#[test]
fn interpolation_that_is_clearly_better_is_said() {
    let folder = folder();
    let folder = folder.path();
    // Every sensor has a course of its own, which is smooth: sensors have nothing in common.
    let mut text = "sensor,time,value\n".to_string();
    for sensor in 0..5 {
        for time in 0..200 {
            let value = match (sensor * 200 + time) % 7 {
                3 => String::new(),
                _ => format!("{:.4}", (f64::from(time) * (0.05 + 0.03 * f64::from(sensor))).sin()),
            };
            text += &format!("s{sensor},{time},{value}\n");
        }
    }
    write(folder.join("in.csv"), &text).unwrap();
    let line =
        ["fill", "in.csv", "-o", "out.csv", "--modes", "sensor,time", "--value", "value", "--rank", "1"];
    let told = tenfill(folder).args(line).output().unwrap();
    let said = stderr(&told);
    assert!(told.status.success(), "{said}");
    assert!(said.contains("linear interpolation along time is closer than the model"), "{said}");
}

#[test]
fn an_array_without_a_number_is_said_to_be_one() {
    let folder = folder();
    let folder = folder.path();
    let header = "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }";
    let header = format!("{header:<117}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend((0..12).flat_map(|_| f64::NAN.to_le_bytes()));
    write(folder.join("in.npy"), bytes).unwrap();
    let said = failure(folder, "fill in.npy -o out.npy");
    assert!(said.contains("the array holds no number: all 12 cells are missing"), "{said}");
    assert!(!said.contains("--value"), "{said}");
}
