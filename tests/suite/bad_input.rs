//! What bad input gets: one sentence that says what, where and what to do; nothing left behind.

use crate::common::{contents, folder, names, output, run, stderr, tenfill};
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// Runs the arguments (words between blanks) and expects one sentence with all of `needles`, the
/// exit code, and that no file came or went.
fn fails_with(code: i32, directory: &Path, arguments: &str, needles: &[&str]) {
    let before = names(directory);
    let output = tenfill(directory).args(arguments.split_whitespace()).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{arguments}: {said}");
    assert!(!said.contains("panicked"), "{arguments}: {said}");
    let lines: Vec<&str> = said.lines().filter(|line| !line.starts_with("taking ")).collect();
    if code == 1 {
        assert_eq!(lines.len(), 1, "{arguments}: {said}");
        assert!(lines[0].starts_with("tenfill: "), "{said}");
    }
    for needle in needles {
        assert!(said.contains(needle), "{arguments}: no '{needle}' in: {said}");
    }
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{arguments}");
    assert_eq!(names(directory), before, "{arguments}: something was left behind");
}

fn fails(directory: &Path, arguments: &str, needles: &[&str]) {
    fails_with(1, directory, arguments, needles);
}

/// One file, one conversion, one sentence.
fn refused(text: &str, arguments: &str, needles: &[&str]) {
    let directory = folder();
    fs::write(directory.path().join("in.csv"), text).unwrap();
    fails(directory.path(), &format!("convert in.csv -o out {arguments}"), needles);
}

const NAMED: &str = "--modes user,item --value rating";

#[test]
fn columns_that_are_not_there() {
    let text = "user,item,rating\n1,2,3\n";
    let all = "the columns are user, item, rating";
    refused(text, "--modes user,movie --value rating", &["in.csv", "'movie'", all]);
    refused(text, "--modes user,item --value stars", &["in.csv", "'stars'", all]);
    refused(text, "--modes user,item,7 --value rating", &["in.csv", "no column 7", "has 3"]);
    refused(text, &format!("{NAMED} --bin week=7d"), &["in.csv", "'week'"]);
    refused("1,2,3\n4,5,6\n", "--modes user,item --value rating", &["no header", "1 to 3"]);
    refused("user,item,when\na,b,c\n1,x,2\n", "--modes user,item", &["in.csv"]);
    refused("a,b,c,d\n1,2,3,4\n", "", &["which column is the value", "--value", "a, b, c, d"]);
    refused(text, "--modes user,user --value rating", &["two modes", "'user'"]);
    let twice = ["two modes", "'user'", "columns 1 and 2", "rename"];
    refused("user,user,rating\n1,2,3\n", "--modes 1,2 --value rating", &twice);
    refused(text, "--modes user,rating --value rating", &["both a mode and the value"]);
    refused(text, "--modes user --value rating", &["2 to 8"]);
    let nine = "a,b,c,d,e,f,g,h,i,rating\n1,2,3,4,5,6,7,8,9,10\n";
    refused(nine, "", &["9 modes", "2 to 8"]);
    refused(text, &format!("{NAMED} --dims 5"), &["--dims gives 1 dimensions for 2 modes"]);
}

#[test]
fn lines_that_cannot_be_used() {
    let with = |line: &str| format!("user,item,rating\n1,2,3\n{line}\n4,5,6\n");
    for (line, needle) in [
        ("7,8", "2 fields where 3 were expected: '7,8'"),
        ("7,8,9,10", "4 fields where 3 were expected"),
        ("7,8,five", "rating is 'five', which is no number"),
        ("7,8,-inf", "rating is '-inf', which is no finite number"),
        ("7,8,1e999", "no finite number"),
        ("7,,1", "item is empty"),
        (",8,1", "user is empty"),
        ("7,\"8,1", "the quote that opens here is never closed"),
        ("7,\"8\"x,1", "text follows the quote that closes '8'"),
        (
            "7,\"8,1\n9,5,1\n9,6\",1",
            "item holds line breaks: the quote that opens here is closed 2 lines below",
        ),
        ("7,\"8,1\n9,5,1\n9,\"6,1", "meets the next one 2 lines below, with text behind it"),
        (
            "7,\"8,1\n9,5,1\n9,6\"",
            "2 fields where 3 were expected, with the quote that opens here closed 2 lines",
        ),
        (
            "user,item,rating",
            "rating is 'rating', which is no number: is this the header once more? --skip-bad",
        ),
        ("7,a\0b,1", "NUL byte"),
        ("7,8,\"4,5\"", "decimal point and no comma here, so turn decimal commas into points first (4.5)"),
        ("7,8,\"-1,234\"", "first (-1.234), or take out those between thousands (-1234)"),
    ] {
        refused(&with(line), NAMED, &["in.csv:3: ", needle]);
    }
    for (value, needle) in [
        ("NaN", "rating is 'NaN', which is no finite number"),
        ("NA", "rating is 'NA', which is no number"),
        ("null", "rating is 'null', which is no number"),
        ("", "rating is empty"),
    ] {
        let strict = format!("{NAMED} --empty error");
        refused(&with(&format!("7,8,{value}")), &strict, &["in.csv:3: ", needle]);
    }
    // The number of the line stays right behind comments, blank lines, quotes and line ends in them.
    let note = "user,item,note,rating\n\n1,a,\"a\nb\",3\n\n\n2,x,\"\n\",bad\n";
    refused(note, NAMED, &["in.csv:7: ", "'bad'"]);
    refused("user;item;rating\n1;2;3,5\n", NAMED, &["in.csv:2: ", "'3,5'", "decimal point"]);
    refused(&with(&format!("7,8,{}", "9".repeat(2_000_000))), NAMED, &["in.csv:3: ", "1 MB"]);
    // Far from the beginning, in whichever chunk.
    let mut long = "user,item,rating\n".to_string();
    (0..200_000).for_each(|n| long += &format!("{},{n},1\n", n % 100));
    refused(&(long.clone() + "1,2,oops\n"), NAMED, &["in.csv:200002: ", "'oops'"]);
    refused(&(long + "1,\"2,3\n"), NAMED, &["in.csv:200002: "]);
}

#[test]
fn times_that_are_none() {
    let with = |time: &str| format!("user,time,rating\n1,2004-05-01,3\n2,{time},4\n");
    let columns = "--modes user,time --value rating --bin time=7d";
    refused(&with("06/10/2024"), columns, &["in.csv:3: ", "'06/10/2024'", "year-month-day"]);
    refused(&with("yesterday"), columns, &["in.csv:3: ", "'yesterday'", "ISO-8601"]);
    refused(&with("1083369600"), columns, &["time", "both dates and numbers"]);
    refused(&with("2004-02-30"), columns, &["in.csv:3: "]);
    refused("user,time,rating\n1,0,3\n2,1e30,4\n", "--modes user,time --bin time=1", &["bins", "wider"]);
    refused("user,item,rating\n1,2,3\n", &format!("{NAMED} --split time"), &["--time-column"]);
    let mixed = "user,item,when,rating\n1,2,2004-05-01,3\n2,1,99,4\n";
    refused(mixed, &format!("{NAMED} --split time --time-column when"), &["both dates and numbers"]);
}

#[test]
fn files_that_hold_no_rows() {
    refused("", NAMED, &["in.csv", "empty"]);
    refused("user,item,rating\n1,2,\n3,4,NA\n", NAMED, &["rating is empty in all 2 rows", "--value"]);
    refused("\n\n", NAMED, &["in.csv", "empty"]);
    refused("user,item,rating\n", NAMED, &["in.csv", "header but no rows"]);
    refused("user,item,rating\r\n\r\n", NAMED, &["in.csv", "header but no rows"]);
    refused("# nothing\n", "--format tns", &["in.csv", "empty"]);
    refused("user,item,rating\nx\ny\n", &format!("{NAMED} --header --skip-bad 9"), &["no row of the file"]);
    let directory = folder();
    fails(directory.path(), "convert none.csv -o out", &["none.csv", "no such file"]);
    fails(directory.path(), "convert - -o out", &["<stdin>", "empty"]);
    fs::create_dir(directory.path().join("folder")).unwrap();
    fails(directory.path(), "convert folder -o out", &["folder", "no Parquet file"]);
    fs::write(directory.path().join("folder/a.csv"), "1,2,3\n").unwrap();
    fails(directory.path(), "convert folder -o out", &["folder", "no Parquet file", "FOLDER/*.csv"]);
    fails(directory.path(), "convert folder -o out --format text", &["folder", "directory"]);
}

#[test]
fn indices_out_of_range() {
    let tns = |text: &str, arguments: &str, needles: &[&str]| {
        let directory = folder();
        fs::write(directory.path().join("in.tns"), text).unwrap();
        fails(directory.path(), &format!("convert in.tns -o out {arguments}"), needles);
    };
    tns("1 1 1 5\n2 0 1 3\n", "", &["in.tns:2: ", "mode2 is 0", "--zero-based"]);
    tns("1 1 1 5\n-2 1 1 3\n", "", &["in.tns:2: ", "mode1 is -2"]);
    tns("1 1 1 5\n2 9 1 3\n", "--dims 2,8,1", &["in.tns:2: ", "mode2 is 9", "dimension 8"]);
    tns("0 0 0 5\n0 8 0 3\n", "--dims 2,8,1 --zero-based", &["in.tns:2: ", "dimension 8"]);
    tns("1 1 1 5\n1 1 3\n", "", &["in.tns:2: ", "3 fields where 4"]);
    tns("1 1 1 5\nx 1 1 3\n", "", &["in.tns:2: ", "'x'", "index"]);
    tns("1 1 1 5\n4294967296 1 1 3\n", "", &["in.tns:2: ", "4294967296, above the largest index 4294967295"]);
    tns("0 0 0 5\n4294967295 0 0 3\n", "--zero-based", &["4294967295, above the largest index 4294967294"]);
    tns("1 1 1 5\n1.5 1 1 3\n", "", &["in.tns:2: ", "'1.5'"]);
    tns("1 1 1 5\n1 1 1 3\n", "--duplicates error", &["two rows", "mode1 1, mode2 1, mode3 1", "mean"]);
    tns("1 1 1 5\n", "--dims 0,1,1", &["--dims holds a 0"]);
    tns("1 1 1 1e200\n", "--split none", &["too large to be squared"]);
    tns("1 1 1 1e308\n1 1 1 1e308\n", "--duplicates sum --split none", &["too large to be joined"]);
}

#[test]
fn bad_rows_are_left_out_when_asked() {
    let directory = folder();
    let path = directory.path();
    fs::write(path.join("in.csv"), "user,item,rating\n1,2,3\nbad\n4,5,inf\n6,7,8\n").unwrap();
    fails(path, "convert in.csv -o out --skip-bad 1", &["in.csv:4: ", "bad row 2, --skip-bad allows 1"]);
    let result = run(path, ["convert", "in.csv", "-o", "out", "--skip-bad", "2", "--split", "none"]);
    assert_eq!((&result["rows"], &result["bad_rows"]), (&2.into(), &2.into()));
    let notes = result["notes"].to_string();
    assert!(notes.contains("2 bad rows were left out") && notes.contains("in.csv:3: 1 fields"), "{notes}");
    assert_eq!(contents(&path.join("out")).len(), 2);
}

/// What is said of many is said of one in other words.
#[test]
fn of_one_row_it_is_said_as_of_one() {
    let directory = folder();
    let path = directory.path();
    let text = "user,item,rating,on\n1,2,3,1\n1,2,4,1\n1,3,,1\n2,2,5,0\nbad\n2,3,1,1\n";
    fs::write(path.join("in.csv"), text).unwrap();
    let command = format!("convert in.csv -o out {NAMED} --where on>0 --skip-bad 1 --split none");
    let notes = run(path, command.split_whitespace())["notes"].to_string();
    for one in [
        "1 bad row was left out: in.csv:6: ",
        "1 row fell on an entry that was there already",
        "1 row has no value: this entry is missing",
        " leaves out 1 row\"",
    ] {
        assert!(notes.contains(one), "{one}: {notes}");
    }
}

/// Whatever a column is called.
#[test]
fn line_breaks_of_names_are_not_printed() {
    let directory = folder();
    let path = directory.path();
    let text = "\"us\ner\",item,rating,\"we\night\"\n1,2,3,1\n2,3,4,1\n";
    fs::write(path.join("in.csv"), text).unwrap();
    let command = "convert in.csv -o out --modes 1,2 --value 3 --weights 4 --split none";
    let printed = output(path, &command.split_whitespace().collect::<Vec<_>>());
    assert!(
        printed.contains("order    us\\ner first") && printed.contains("weighted by we\\night"),
        "{printed}"
    );
    let printed = output(path, &["inspect", "out"]);
    assert!(printed.contains("us\\ner") && !printed.contains("us\ner"), "{printed}");
}

#[test]
fn half_a_download() {
    let text: String = "user,item,rating\n".to_string()
        + &(0..100_000).map(|n| format!("{},{},{}\n", n % 977, n * 7919 % 10_007, n % 5)).collect::<String>();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(text.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    let zst = zstd::encode_all(text.as_bytes(), 3).unwrap();
    let directory = folder();
    let path = directory.path();
    for whole in [gzip.as_slice(), zst.as_slice()] {
        for length in [whole.len() - 1, whole.len() / 2, 100, 20] {
            fs::write(path.join("in.csv"), &whole[..length]).unwrap();
            fails(path, "convert in.csv -o out", &["in.csv", "cut short", "again"]);
        }
        fs::write(path.join("in.csv"), [whole, b"and more"].concat()).unwrap();
        fails(path, "convert in.csv -o out", &["in.csv"]);
        let mut damaged = whole.to_vec();
        let middle = whole.len() / 2;
        damaged[middle..middle + 20].fill(0xa5);
        fs::write(path.join("in.csv"), damaged).unwrap();
        fails(path, "convert in.csv -o out", &["in.csv"]);
    }
}

#[test]
fn files_of_another_kind() {
    let directory = folder();
    let path = directory.path();
    for (bytes, needle) in [
        (&b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n"[..], "PDF"),
        (b"PK\x03\x04\x14\x00\x06\x00\x08\x00", "zip archive or a spreadsheet"),
        (b"BZh91AY&SY", "bzip2"),
        (b"\xfd7zXZ\x00\x00", "xz"),
        (b"\x7fELF\x02\x01\x01\x00\x00", "binary"),
        (b"user,item,rating\r1,2,3\r4,5,6\r", "line feeds"),
        (b"just some words\n", "in.csv"),
        (b"word\nword\nword\n", "--delimiter"),
    ] {
        fs::write(path.join("in.csv"), bytes).unwrap();
        fails(path, "convert in.csv -o out", &["in.csv", needle]);
    }
    fs::write(path.join("in.csv"), [&gzipped(b"1,2,3\n4,5,6\n")[..], b"more"].concat()).unwrap();
    fails(path, "convert in.csv -o out", &["in.csv", "no gzip follows the compressed data"]);
    fs::write(path.join("in.csv"), b"user,item,rating\n1,2,3\n4,5,6\n").unwrap();
    fails(path, "convert in.csv -o out --format tns", &["in.csv", "blanks between its numbers", "--format"]);
    fails(
        path,
        "convert in.csv -o out --delimiter ;",
        &["';' occurs in none", "'user,item,rating'", "--delimiter"],
    );
    fs::write(path.join("in.csv"), b"user;item;x\n1;2;3,98\n4;5;6,5\n").unwrap();
    fails(
        path,
        "convert in.csv -o out",
        &["which column is the value", "'3,98' has a comma", "points first (3.98)"],
    );
    fs::write(path.join("in.csv"), b"user,item,rating\nZo\xeb,2,3\n").unwrap();
    fails(path, "convert in.csv -o out --encoding utf-8", &["in.csv:2: ", "UTF-8", "--encoding"]);
    fs::write(path.join("in.csv"), b"user,item,rating\n1,2,3\n").unwrap();
    fails(path, "convert in.csv -o out --format parquet", &["in.csv", "no Parquet"]);
}

/// Zeros fill up the blocks of a tape: behind a member, between two, and more of them than a buffer holds.
#[test]
fn zeros_in_a_gzip_file_hide_nothing() {
    let directory = folder();
    let path = directory.path();
    let member = |text: &str| gzipped(text.as_bytes());
    for zeros in [1, 512, 300_000] {
        let zeros = vec![0; zeros];
        let two = [member("1,2,3\n"), zeros.clone(), member("4,5,6\n"), zeros.clone()].concat();
        fs::write(path.join("in.csv"), &two).unwrap();
        let converted = run(path, ["convert", "in.csv", "-o", "out", "--split", "none", "--force"]);
        assert_eq!(converted["rows"], 2);
        fs::write(path.join("in.csv"), [&two[..], b"more"].concat()).unwrap();
        fails(path, "convert in.csv -o new", &["in.csv", "no gzip follows the compressed data"]);
        let cut = [member("1,2,3\n"), zeros, member("4,5,6\n")[..12].to_vec()].concat();
        fs::write(path.join("in.csv"), cut).unwrap();
        fails(path, "convert in.csv -o new", &["in.csv", "cut short", "again"]);
    }
}

fn gzipped(text: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(text).unwrap();
    gzip.finish().unwrap()
}

/// Quotes that are never closed, or closed by another stray one far below, in small and large chunks and with
/// any number of threads: always the same rows, and the same lines.
#[test]
fn a_stray_quote_costs_one_line() {
    let directory = folder();
    let path = directory.path();
    let mut text = "user,item,rating\n".to_string();
    let strays = [10usize, 700, 701, 30_000, 149_999];
    for n in 0..150_000usize {
        let (open, close) = match n {
            _ if strays.contains(&n) => ("\"", ""),
            n if n % 7 == 0 => ("\"", "\""),
            _ => ("", ""),
        };
        text += &format!("{},{open}i{n}{close},{}\n", n % 300, n % 5);
    }
    fs::write(path.join("in.csv"), text).unwrap();
    let convert = |more: &str| {
        let arguments = format!("convert in.csv -o out --force --split none --skip-bad 5 {more}");
        let result = run(path, arguments.split_whitespace());
        assert_eq!((&result["rows"], &result["bad_rows"]), (&149_995.into(), &5.into()), "{more}");
        let notes = result["notes"].to_string();
        assert!(notes.contains("in.csv:12: "), "{notes}");
        (notes, contents(&path.join("out")))
    };
    let once = convert("--threads 1");
    for more in ["--threads 3", "--threads 2 --memory 16M", "--threads 1 --memory 900M"] {
        assert!(convert(more) == once, "{more}");
    }
    fails(path, "convert in.csv -o new --skip-bad 4", &["in.csv:150001: ", "never closed", "bad row 5"]);
    // So does a file that is looked at as a whole.
    fs::write(path.join("few.csv"), "user,item,rating\n1,\"a,1\n2,b,2\n2,c,3\n").unwrap();
    fails(path, "convert few.csv -o new", &["few.csv:2: ", "never closed"]);
}

/// Where the quote that a stray one meets far below is not the wrong one, but one behind that: the lines between
/// are good.
#[test]
fn good_lines_between_stray_quotes_stay() {
    let directory = folder();
    let path = directory.path();
    let good: String = (100..5100).map(|n| format!("{n},{},{}\n", n % 100, n % 7)).collect();
    let text = format!("user,item,rating\n1,2,3\n4,\"5,6\n{good}13,14\",15,\"x\n16,17,2\n");
    fs::write(path.join("in.csv"), text).unwrap();
    let command = format!("convert in.csv -o out --split none {NAMED}");
    let what = "in.csv:3: the quote that opens here is closed 5001 lines below, and a later quote of this row is wrong";
    fails(path, &command, &[what]);
    fails(path, &format!("{command} --skip-bad 1"), &["in.csv:5004: ", "never closed", "bad row 2"]);
    let result = run(path, format!("{command} --skip-bad 2 --memory 16M --threads 1").split_whitespace());
    assert_eq!((&result["rows"], &result["bad_rows"]), (&5002.into(), &2.into()));
}

/// A quote that opens a field of a good row closes a stray one above it: the record that this makes has the right number
/// of fields, and no value.
#[test]
fn a_stray_quote_does_not_take_the_good_row_below_along() {
    let directory = folder();
    let path = directory.path();
    let text = "user,item,note,rating\n1,2,x,3\n4,5,\"stray,2\n6,7,\", \"\"good\"\"\nrow\",1.5\n8,9,\"two\nlines\",\n8,7,y,5\n";
    fs::write(path.join("in.csv"), text).unwrap();
    let command = "convert in.csv -o out --split none --modes user,item --value rating";
    let what = "in.csv:3: the quote that opens here is closed 1 line below, and rating of this row is '\"\"good\"\"', no number";
    fails(path, command, &[what, "is it a stray quote?"]);
    let result = run(path, format!("{command} --skip-bad 1").split_whitespace());
    assert_eq!((&result["rows"], &result["bad_rows"], &result["empty"]), (&3.into(), &1.into(), &1.into()));
    assert!(contents(&path.join("out")).keys().any(|ids| ids.join(",") == "6,7"));
}

/// So it is with columns that are neither ids nor values, but for those of text.
#[test]
fn a_stray_quote_in_a_column_of_times_or_conditions_is_seen() {
    let directory = folder();
    let path = directory.path();
    let text = "a,b,v,t\n1,1,1,2020-01-01\n1,2,3,\"2020-01-05\n2,2,2,2020-01-02\n3,3,3,2020-01-03\"\n4,4,4,2020-01-04\n";
    fs::write(path.join("in.csv"), text).unwrap();
    for (more, name) in [("--split time --time-column t", "the time"), ("--where t>=2019-01-01", "t")] {
        let what =
            format!("in.csv:3: {name} holds line breaks: the quote that opens here is closed 2 lines below");
        fails(path, &format!("convert in.csv -o out --modes a,b --value v {more}"), &[&what]);
    }
    let command = "convert in.csv -o out --modes a,b --value v --split time --time-column t --skip-bad 9";
    let result = run(path, command.split_whitespace());
    // The last of the three is no date with the other quote.
    assert_eq!((&result["rows"], &result["bad_rows"]), (&3.into(), &2.into()));
    fs::write(path.join("in.csv"), "a,b,v,t\n1,1,1,x\n1,2,3,\"two\nlines\"\n").unwrap();
    let command = "convert in.csv -o out --modes a,b --value v --where t!=x --split none --force";
    assert_eq!(run(path, command.split_whitespace())["rows"], 1);
}

/// Factors of any dimensions are asked for before they are made.
#[test]
fn made_data_that_need_more_than_the_memory_are_refused() {
    let directory = folder();
    let path = directory.path();
    for what in [
        "-o s.tns --dims 5000000,5000000,3 --rank 3 --memory 64M",
        "-o s --dims 5000000,5000000,3 --rank 3 --memory 64M",
        "-o s.csv --dims 1000000000,1000000000,3 --rank 3",
        "-o s.csv --kind ratings --dims 60000000,1000,10 --memory 64M",
        "-o s.csv --kind ratings --dims 1000,60000000,10 --memory 64M",
    ] {
        fails(path, &format!("synth {what} --entries 10"), &["--memory ", "is too small: synth needs "]);
    }
    assert_eq!(fs::read_dir(path).unwrap().count(), 0);
}

/// From every line on, such quotes pair up to the end of the file.
#[test]
fn stray_quotes_on_every_line_take_no_longer_than_others() {
    let directory = folder();
    let path = directory.path();
    let text = "user,item,rating\n1,2,3\n".to_string() + &"x\",\"\n".repeat(150_000) + "x\"\n";
    fs::write(path.join("in.csv"), text).unwrap();
    let command = format!("convert in.csv -o out --split none {NAMED} --skip-bad 1000000");
    let began = std::time::Instant::now();
    assert_eq!(run(path, command.split_whitespace())["bad_rows"], 150_001);
    // It takes a tenth of a second; once it was a minute.
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
}

#[test]
fn ids_that_may_be_none_are_told() {
    let directory = folder();
    let path = directory.path();
    let said = |text: &str, more: &str| {
        fs::write(path.join("in.csv"), text).unwrap();
        let arguments = format!("convert in.csv -o out --force --split none {NAMED} {more}");
        let output = tenfill(path).args(arguments.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output)
    };
    let once = said("user,item,rating\n1,2,3\n1,NA,3\n2,NA,1\n", "");
    assert!(once.contains("one id of item is 'NA' and all others are numbers"), "{once}");
    assert!(once.contains("--where \"item != 'NA'\""), "{once}");
    let twice = said("user,item,rating\n1,16,3\n1,16.0,3\n2,7,1\n", "");
    assert!(twice.contains("item has both '16' and '16.0'"), "{twice}");
    for text in ["user,item,rating\n1,IT,3\n1,NA,3\n1,4,1\n", "user,item,rating\n1,2.1,3\n1,2,3\n1,2.0,3\n"] {
        let nothing = said(text, "");
        assert!(!nothing.contains("item"), "{nothing}");
    }
}

fn parquet(path: &Path, columns: Vec<(&str, ArrayRef)>) {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer =
        parquet::arrow::ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

#[test]
fn parquet_that_cannot_be_used() {
    let directory = folder();
    let path = directory.path();
    let ids = || -> ArrayRef { Arc::new(Int64Array::from(vec![1, 2, 3])) };
    let values = || -> ArrayRef { Arc::new(Float64Array::from(vec![0.5, 1.5, 2.5])) };
    let file = path.join("in.parquet");
    let command = "convert in.parquet -o out --modes user,item --value rating";

    let nulls = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
    parquet(&file, vec![("user", ids()), ("item", nulls.clone()), ("rating", values())]);
    fails(path, command, &["in.parquet:2: ", "item is null"]);
    let mut skipping: Vec<&str> = command.split_whitespace().collect();
    skipping.extend(["--skip-bad", "1", "--split", "none"]);
    assert_eq!(run(path, skipping)["bad_rows"], 1);
    fs::remove_dir_all(path.join("out")).unwrap();

    let flags: ArrayRef = Arc::new(BooleanArray::from(vec![true, false, true]));
    parquet(&file, vec![("user", ids()), ("item", ids()), ("rating", flags)]);
    fails(path, command, &["in.parquet:1: ", "'true'", "no number"]);
    let words: ArrayRef = Arc::new(arrow_array::StringArray::from(vec!["1", "2", "good"]));
    parquet(&file, vec![("user", ids()), ("item", ids()), ("rating", words)]);
    fails(path, command, &["in.parquet:3: ", "'good'", "no number"]);
    let broken: ArrayRef = Arc::new(Float64Array::from(vec![1.0, f64::NEG_INFINITY, f64::NAN]));
    parquet(&file, vec![("user", ids()), ("item", ids()), ("rating", broken)]);
    fails(path, command, &["in.parquet:2: ", "-inf"]);
    let time: ArrayRef = Arc::new(arrow_array::TimestampSecondArray::from(vec![1, 2, 3]));
    parquet(&file, vec![("user", ids()), ("item", ids()), ("rating", time)]);
    fails(path, command, &["in.parquet", "is a time"]);
    let none: ArrayRef = Arc::new(Float64Array::from(Vec::<f64>::new()));
    parquet(&file, vec![("user", none.clone()), ("item", none.clone()), ("rating", none)]);
    fails(path, command, &["in.parquet", "no rows"]);

    parquet(&file, vec![("user", ids()), ("item", ids()), ("rating", values())]);
    fails(path, "convert in.parquet -o out --modes user,movie", &["'movie'", "user, item, rating"]);
    let whole = fs::read(&file).unwrap();
    for length in [whole.len() - 1, whole.len() / 2, 6] {
        fs::write(&file, &whole[..length]).unwrap();
        fails(path, command, &["in.parquet", "Parquet", "again"]);
    }
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        fs::write(&file, damaged).unwrap();
        // Parquet has no checksum of all its bytes: what still reads is no failure of ours.
        let output = tenfill(path).args(command.split_whitespace()).arg("--force").output().unwrap();
        assert!(!stderr(&output).contains("panicked"), "byte {at}: {}", stderr(&output));
        assert!(matches!(output.status.code(), Some(0 | 1)), "byte {at}: {:?}", output.status);
    }
}

#[test]
fn outputs_that_cannot_be_written() {
    let directory = folder();
    let path = directory.path();
    fs::write(path.join("in.csv"), "user,item,rating\n1,2,3\n1,3,4\n").unwrap();
    fs::write(path.join("bad.csv"), "user,item,rating\n1,2,x\n").unwrap();
    let convert = |input: &str, more: &[&str]| {
        let arguments = ["convert", input, "-o", "out", "--split", "none"];
        run(path, arguments.into_iter().chain(more.iter().copied()))
    };
    convert("in.csv", &[]);
    fails(path, "convert in.csv -o out", &["out exists already", "--force"]);
    // A failed replacement leaves the old one as it was.
    let before = crate::common::bytes(&path.join("out"));
    fails(path, "convert bad.csv -o out --force", &["bad.csv:2: "]);
    assert!(crate::common::bytes(&path.join("out")) == before);
    convert("in.csv", &["--force", "--duplicates", "sum"]);
    assert!(crate::common::bytes(&path.join("out")) != before, "--force replaces");

    fails(path, "convert in.csv -o in.csv", &["in.csv"]);
    fails(path, "convert in.csv -o in.csv --force", &["in.csv", "input"]);
    fails(path, "convert out/../in.csv -o . --force", &["input"]);
    fs::create_dir(path.join("photos")).unwrap();
    fs::write(path.join("photos/cat.jpg"), "meow").unwrap();
    fails(path, "convert in.csv -o photos --force", &["photos", "no dataset"]);
    assert!(path.join("photos/cat.jpg").exists());
    fails(path, "convert bad.csv -o new/deeper/out", &["bad.csv:2: "]);
    run(path, ["convert", "in.csv", "-o", "new/deeper/out", "--split", "none"]);
    fails(path, "convert in.csv -o two --temp-dir nowhere", &["nowhere", "temporary"]);
    fails(path, "convert in.csv -o two --memory 1M", &["--memory 1.0 MB is too small", "needs"]);
    fails(path, "convert - - -o two", &["only once"]);
    fails(path, "convert in.csv -o in.csv/two", &["in.csv"]);
    fails(path, "convert in.csv --test bad.csv -o two", &["bad.csv:2: "]);
    fails(path, "convert in.csv --test in.csv --split time -o two", &["--split"]);
    fails(path, "inspect photos", &["photos", "no dataset"]);
    fails(path, "verify nothing", &["nothing", "no such dataset"]);
    fails(path, "synth -o s --dims 5,5 --entries 26", &[]);
    fails(path, "synth -o s --dims 5,5", &["--oversampling", "--entries"]);
    fails(path, "synth -o s.csv --dims 5 --entries 2", &[]);
}

#[test]
fn wrong_usage_is_exit_code_2() {
    let directory = folder();
    let path = directory.path();
    fs::write(path.join("in.csv"), "user,item,rating\n1,2,3\n").unwrap();
    for (arguments, needle) in [
        ("convert in.csv", "--output"),
        ("convert -o out", "INPUTS"),
        ("convert in.csv -o out --split 80-20", "80/10/10"),
        ("convert in.csv -o out --bin time", "MODE=WIDTH"),
        ("convert in.csv -o out --bin time=soon", "7d"),
        ("convert in.csv -o out --memory much", "512M"),
        ("convert in.csv -o out --delimiter abc", "delimiter"),
        ("convert in.csv -o out --duplicates maybe", "mean"),
        ("convert in.csv -o out --dims 3,y", "'y' is not a whole number"),
        (
            "complete in.csv -o out --rank x",
            "'x' is no list of whole numbers, like 4,4,4: write 4, 4,4,4 or auto",
        ),
        ("convert in.csv -o out --seed abc", "this is no whole number from 0 on"),
        ("convert in.csv -o out --seed -1", "'-1' for '--seed <SEED>': this is no whole number from 0 on"),
        ("convert in.csv -o out --header --no-header", "--no-header"),
        ("frobnicate", "frobnicate"),
    ] {
        fails_with(2, path, arguments, &[needle]);
    }
}

#[test]
fn odd_files_that_are_right() {
    let directory = folder();
    let path = directory.path();
    let convert = |text: &str, more: &str| {
        fs::write(path.join("in.csv"), text).unwrap();
        let arguments = ["convert", "in.csv", "-o", "out", "--split", "none", "--force"];
        run(path, arguments.into_iter().chain(more.split_whitespace()));
        let entries = contents(&path.join("out")).into_iter();
        entries.map(|(labels, (_, value))| (labels.join("/"), f64::from_bits(value))).collect::<Vec<_>>()
    };
    let entry = |labels: &str, value: f64| (labels.to_string(), value);
    // A name that is no file name, an id that is one, numbers beyond 64 bits.
    assert_eq!(
        convert("a/b,../c,rating\n1x,../../etc,2\n", "--modes a/b,../c --value rating"),
        [entry("1x/../../etc", 2.0)]
    );
    assert_eq!(
        convert(
            "u,i,rating\n123456789012345678901234567890,-5,2\n9223372036854775807,18446744073709551616,1\n",
            ""
        ),
        [
            entry("123456789012345678901234567890/-5", 2.0),
            entry("9223372036854775807/18446744073709551616", 1.0)
        ]
    );
    // Tabs with an empty last column that nobody asked for, and a quote that is just a character.
    assert_eq!(
        convert("u\ti\trating\tnote\n1\t2\t3\t\n1\t5\"\t4\tx\n", "--modes u,i --value rating"),
        [entry("1/2", 3.0), entry("1/5\"", 4.0)]
    );
    let mut doubled = "u,i,rating\n".to_string();
    (0..50_000).for_each(|n| doubled += &format!("{n},a\"\"b,1\n"));
    assert_eq!(convert(&doubled, "--modes u,i --value rating --memory 16M").len(), 50_000);
    // Blanks around fields; pandas' row numbers, which are no mode; an unnamed column by its number.
    assert_eq!(convert("u , i , rating\n 1 , x y , 3 \n", ""), [entry("1/x y", 3.0)]);
    assert_eq!(convert(",u,i,rating\n0,a,b,3\n1,a,c,4\n", ""), [entry("a/b", 3.0), entry("a/c", 4.0)]);
    assert_eq!(convert(",i,rating\n7,b,3\n", "--modes 1,i"), [entry("7/b", 3.0)]);
    assert_eq!(convert("u,i,rating\nNaN,null,3\n", ""), [entry("NaN/null", 3.0)]);
}

#[test]
fn the_last_line_is_for_programs() {
    let directory = folder();
    let path = directory.path();
    fs::write(path.join("in.csv"), "user,item,rating\n1,2,3\n1,3,4\n1,3,5\n").unwrap();
    let fields = [
        "dims",
        "modes",
        "entries",
        "duplicates",
        "bytes_per_entry",
        "shards",
        "seconds",
        "cpu_seconds",
        "peak_anon_bytes",
    ];
    let converted = run(path, ["convert", "in.csv", "-o", "out", "--split", "none", "--quiet"]);
    let synthetic = run(path, ["synth", "-o", "s", "--dims", "9,8,7", "--entries", "50"]);
    let file = run(path, ["synth", "-o", "s.csv.gz", "--dims", "9,8,7", "--entries", "50"]);
    for json in [&converted, &synthetic, &file] {
        for field in fields {
            assert!(!json[field].is_null(), "no {field} in {json}");
        }
    }
    assert_eq!(converted["duplicates"], 1);
    assert_eq!(converted["entries"], serde_json::json!({ "train": 2, "validation": 0, "test": 0 }));
    assert_eq!(synthetic["entries"], serde_json::json!({ "train": 50, "validation": 0, "test": 5 }));
    let inspected = run(path, ["inspect", "out"]);
    for field in ["dims", "modes", "mode_order", "entries", "bytes_per_entry", "shards", "slices", "fibres"] {
        assert!(!inspected[field].is_null(), "no {field} in {inspected}");
    }
    let verified = run(path, ["verify", "out"]);
    assert_eq!((&verified["ok"], &verified["problems"]), (&true.into(), &serde_json::json!([])));
    assert!(verified["files"].as_u64() >= Some(2) && verified["bytes"].as_u64() > Some(0));

    let silent =
        tenfill(path).args(["convert", "in.csv", "-o", "out", "--force", "--quiet"]).output().unwrap();
    assert!(silent.status.success() && silent.stdout.is_empty() && silent.stderr.is_empty());

    let shard = path.join("out/train/00000.shard");
    let mut bytes = fs::read(&shard).unwrap();
    bytes[100] ^= 1;
    fs::write(shard, bytes).unwrap();
    let damaged = tenfill(path).args(["verify", "out", "--json"]).output().unwrap();
    assert_eq!(damaged.status.code(), Some(1));
    assert!(stderr(&damaged).contains("00000.shard at offset 64: the checksum of block 0"));
    let json: serde_json::Value = serde_json::from_slice(&damaged.stdout).unwrap();
    assert_eq!((&json["ok"], &json["problems"][0]["offset"]), (&false.into(), &64.into()));
}
