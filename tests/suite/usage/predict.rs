//! `tenfill predict` as a user runs it.

use super::sample::{self, failure, number, output, rows};
use arrow_array::{ArrayRef, Float32Array, Int32Array, RecordBatch, StringArray, TimestampMillisecondArray};
use std::io::Write;
use std::process::Stdio;
use std::sync::Arc;

#[test]
fn columns_in_any_order_are_passed_through() {
    let folder = crate::common::folder();
    let folder = folder.path();
    sample::complete(folder, 3, "--bias modes --penalty 0.01");
    let text = "note,week,\"film\",user,more\n\
                \"a, b\",2004-01-02,\"film \"\"3\"\", part 0\",4,é\n\
                ,2004-02-09,\"film \"\"5\"\", part 2\", 7 ,x\n";
    std::fs::write(folder.join("q.csv"), text).unwrap();
    let told = output(folder, &["predict", "run", "q.csv"]);
    let found = rows(&told);
    assert!(told.starts_with("note,week,film,user,more,prediction,known\n"), "{told}");
    assert_eq!((found[0]["note"].as_str(), found[0]["more"].as_str()), ("a, b", "é"));
    assert_eq!(found[1]["user"], " 7 ");
    assert!(found.iter().all(|row| row["known"] == "true"));
    // Other columns, by name and by number, other delimiters, numbers of seconds instead of dates.
    let tsv = "u\tf\tw\n4\tfilm \"\"3\"\", part 0\t1073001600\n".replace("\"\"", "\"");
    std::fs::write(folder.join("q.tsv"), tsv).unwrap();
    for modes in ["u,f,w", "1,2,3"] {
        let other = rows(&output(folder, &["predict", "run", "q.tsv", "--modes", modes]));
        assert_eq!(other[0]["prediction"], found[0]["prediction"], "{modes}");
    }
    // Without a header, and with a mode that is given for all rows.
    std::fs::write(folder.join("bare.csv"), "4,\"film \"\"3\"\", part 0\"\n").unwrap();
    let given = ["predict", "run", "bare.csv", "--modes", "1,2", "--no-header", "--given", "week=2004-01-02"];
    assert_eq!(rows(&output(folder, &given))[0]["prediction"], found[0]["prediction"]);
    // From standard input, to compressed text.
    let mut child = crate::common::tenfill(folder)
        .args(["predict", "run", "-", "-o", "out/a.csv.gz"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    let again = rows(&output(
        folder,
        &["predict", "run", "out/a.csv.gz", "--given", "user=4", "--modes", "film,week"],
    ));
    assert_eq!(again[0]["prediction"], again[0]["prediction_2"]);
    assert_eq!(crate::common::names(&folder.join("out")), ["a.csv.gz"]);
}

#[test]
fn parquet_keeps_its_types_and_moments_are_times() {
    let folder = crate::common::folder();
    let folder = folder.path();
    sample::complete(folder, 3, "--bias modes --penalty 0.01");
    let seconds = [1_073_001_600i64, 1_076_284_800]; // 2004-01-02 and 2004-02-09
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("week", Arc::new(TimestampMillisecondArray::from_iter_values(seconds.map(|s| s * 1000)))),
        ("user", Arc::new(Int32Array::from(vec![Some(4), None]))),
        ("score", Arc::new(Float32Array::from(vec![0.5, 0.25]))),
        ("film", Arc::new(StringArray::from(vec!["film \"3\", part 0", "film \"5\", part 2"]))),
    ];
    let batch =
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).unwrap();
    let file = std::fs::File::create(folder.join("q.parquet")).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    output(folder, &["predict", "run", "q.parquet", "-o", "a.parquet"]);
    let file = std::fs::File::open(folder.join("a.parquet")).unwrap();
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let kept: Vec<_> = reader.schema().fields().iter().take(4).cloned().collect();
    assert_eq!(kept, batch.schema().fields().iter().cloned().collect::<Vec<_>>());
    let told = rows(&output(folder, &["predict", "run", "q.parquet"]));
    assert_eq!((told[0]["known"].as_str(), told[1]["known"].as_str()), ("true", "false"));
    assert_eq!((told[0]["week"].as_str(), told[1]["user"].as_str()), ("2004-01-02", ""));
    std::fs::write(folder.join("q.csv"), "user,film,week\n4,\"film \"\"3\"\", part 0\",2004-01-02\n")
        .unwrap();
    let text = rows(&output(folder, &["predict", "run", "q.csv"]));
    assert_eq!(text[0]["prediction"], told[0]["prediction"]);
}

#[test]
fn strangers_get_the_fallback_and_are_named_when_strict() {
    let folder = crate::common::folder();
    let folder = folder.path();
    sample::complete(folder, 3, "--bias modes --penalty 0.01 --no-clip");
    let text = "user,film,week\n4,\"film \"\"3\"\", part 0\",2004-01-02\n\
                999,\"film \"\"3\"\", part 0\",2004-01-02\n999,nothing,2004-01-02\n,,\n\
                4,\"film \"\"3\"\", part 0\",2031-01-01\n";
    std::fs::write(folder.join("q.csv"), text).unwrap();
    let found = crate::common::run(folder, ["predict", "run", "q.csv", "-o", "a.csv"]);
    assert_eq!((found["rows"].as_u64(), found["unknown"].as_u64()), (Some(5), Some(3)));
    assert_eq!(found["outside_bins"].as_u64(), Some(1));
    let told = rows(&std::fs::read_to_string(folder.join("a.csv")).unwrap());
    let known: Vec<&str> = told.iter().map(|row| row["known"].as_str()).collect();
    assert_eq!(known, ["true", "false", "false", "false", "true"]);
    let model = tenfill_engine::Model::read(&folder.join("run")).unwrap();
    let biases = model.biases.as_ref().expect("biases");
    assert!((number(&told[3], "prediction") - biases.mean).abs() < 1e-12);
    // The film's bias is all that tells the second row from the third.
    let film = model.lookups().unwrap()[1].text("film \"3\", part 0").unwrap();
    let difference = number(&told[1], "prediction") - number(&told[2], "prediction");
    assert!((difference - biases.modes[1][film as usize]).abs() < 1e-12);
    let said = failure(folder, &["predict", "run", "q.csv", "--strict", "-o", "b.csv"]);
    assert!(said.contains("q.csv:3: the model does not know user '999'"), "{said}");
    assert!(!folder.join("b.csv").exists());
}

#[test]
fn empty_questions_have_an_empty_answer_with_a_header() {
    let folder = crate::common::folder();
    let folder = folder.path();
    sample::complete(folder, 2, "");
    std::fs::write(folder.join("empty.csv"), "").unwrap();
    assert!(failure(folder, &["predict", "run", "empty.csv"]).contains("the file is empty"));
    for text in ["user,film\n", "user,film"] {
        std::fs::write(folder.join("q.csv"), text).unwrap();
        assert_eq!(output(folder, &["predict", "run", "q.csv"]), "user,film,prediction,known\n", "{text:?}");
        output(folder, &["predict", "run", "q.csv", "-o", "e.parquet", "--force"]);
        assert_eq!(output(folder, &["predict", "run", "e.parquet"]).lines().count(), 1);
    }
}

#[test]
fn what_is_wrong_is_said_in_one_sentence() {
    let folder = crate::common::folder();
    let folder = folder.path();
    sample::complete(folder, 3, "");
    std::fs::write(folder.join("q.csv"), "user,movie,week\n1,x,2004-01-01\n").unwrap();
    std::fs::write(folder.join("time.csv"), "user,film,week\n1,x,yesterday\n").unwrap();
    std::fs::write(folder.join("ragged.csv"), "user,film,week\n1,x,2004-01-01\n1,x\n").unwrap();
    std::fs::write(folder.join("open.csv"), format!("user,film,week\n1,\"x,{}", "y".repeat(3 << 20)))
        .unwrap();
    std::fs::write(folder.join("there.csv"), "mine").unwrap();
    for (arguments, what) in [
        (&["q.csv"][..], "there is no column 'film' for the mode film: the columns are user, movie, week"),
        (&["time.csv"], "time.csv:2: week is 'yesterday', which is neither a date nor a number of time"),
        (&["ragged.csv"], "ragged.csv:3: 2 fields where 3 were expected"),
        (&["open.csv"], "a row is longer than 1 MB"),
        (&["nowhere.csv"], "there is no such file"),
        (&["q.csv", "-o", "x.xlsx"], "end it with .csv, .tsv (also .gz, .zst) or .parquet"),
        (&["ragged.csv", "-o", "there.csv"], "there.csv exists already: --force replaces it"),
        (&["ragged.csv", "-o", "new.csv"], "ragged.csv:3"),
        (&["q.csv", "--given", "weeks=1"], "there is no mode 'weeks': the modes are user, film, week"),
        (&["q.csv", "--modes", "1,2"], "--modes names 2 columns for the modes user, film, week"),
    ] {
        let all: Vec<&str> = ["predict", "run"].iter().chain(arguments).copied().collect();
        let said = failure(folder, &all);
        assert!(said.contains(what), "{arguments:?}: {said}");
    }
    assert!(!folder.join("new.csv").exists(), "half an output");
    assert_eq!(std::fs::read_to_string(folder.join("there.csv")).unwrap(), "mine");
    // A run that has no model yet, and one of a newer program.
    std::fs::remove_file(folder.join("run/model/model.bin")).unwrap();
    let said = failure(folder, &["predict", "run", "q.csv"]);
    assert!(said.contains("the run has no model yet"), "{said}");
    let mut head = b"tenfdata\x63\0\0\0".to_vec();
    head.extend(crc32c::crc32c(&head).to_le_bytes());
    head.extend([0; 64]);
    std::fs::write(folder.join("run/model/model.bin"), head).unwrap();
    let said = failure(folder, &["predict", "run", "q.csv"]);
    assert!(said.contains("use a newer tenfill"), "{said}");
}

#[test]
fn nobody_reading_is_no_error_and_threads_do_not_matter() {
    let folder = crate::common::folder();
    let folder = folder.path();
    sample::complete(folder, 3, "--bias modes --penalty 0.01");
    let body: String = sample::csv(3, 1200, 3).lines().skip(1).map(|line| format!("{line}\n")).collect();
    std::fs::write(folder.join("many.csv"), "user,film,week,stars\n".to_string() + &body.repeat(20)).unwrap();
    let mut child = crate::common::tenfill(folder)
        .args(["predict", "run", "many.csv"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
    let one = output(folder, &["predict", "run", "many.csv", "--threads", "1"]);
    assert_eq!(one.lines().count(), 24_001);
    for threads in ["2", "5"] {
        assert!(output(folder, &["predict", "run", "many.csv", "--threads", threads]) == one, "{threads}");
    }
}
