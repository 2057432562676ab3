//! Rows as people have them: without values, to be left out, wide.

use crate::common::{contents, failure_of, folder, run, stderr, tenfill};
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampSecondArray};
use std::fs::{File, write};
use std::path::Path;
use std::sync::Arc;

fn parquet(path: &Path, columns: Vec<(&str, ArrayRef)>) {
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .unwrap();
    let file = File::create(path).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

fn convert(folder: &Path, arguments: &[&str]) -> serde_json::Value {
    let fixed = ["-o", "out", "--force", "--split", "none"];
    run(folder, ["convert"].iter().chain(arguments).chain(&fixed).copied())
}

/// The entries as `a,b=value`.
fn entries(folder: &Path) -> Vec<String> {
    let entries = contents(&folder.join("out")).into_iter();
    entries.map(|(ids, (_, value))| format!("{}={}", ids.join(","), f64::from_bits(value))).collect()
}

#[test]
fn a_row_without_a_value_is_a_missing_entry_and_counted() {
    let folder = folder();
    let folder = folder.path();
    // The first values are missing: header and columns are found all the same.
    let rows = "station,day,pm10\nS1,mon,\nS1,tue,NA\nS2,mon,17.5\nS2,tue,NaN\nS3,mon,null\nS3,tue,\"\"\nS4,mon,N/A\nS4,tue,\\N\nS5,mon,0\n,,\n";
    write(folder.join("in.csv"), rows).unwrap();
    let told = convert(folder, &["in.csv", "--value", "pm10"]);
    assert_eq!((&told["rows"], &told["empty"], &told["bad_rows"]), (&2.into(), &8.into(), &0.into()));
    assert_eq!(entries(folder), ["S2,mon=17.5", "S5,mon=0"]);
    assert!(told["notes"].to_string().contains("8 rows have no value"), "{told}");
    let strict = ["convert", "in.csv", "-o", "other", "--value", "pm10", "--empty", "error"];
    assert!(failure_of(folder, &strict).contains("in.csv:2: pm10 is empty"));
    // None at all.
    write(folder.join("none.csv"), "station,day,pm10\nS1,mon,\nS1,tue,NA\n").unwrap();
    let none = ["convert", "none.csv", "-o", "other", "--modes", "station,day", "--value", "pm10"];
    assert!(failure_of(folder, &none).contains("pm10 is empty in all 2 rows"));
    assert!(!folder.join("other").exists());
    // What is no number and no sign of nothing is an error still.
    write(folder.join("odd.csv"), "station,day,pm10\nS1,mon,3\nS1,tue,?\n").unwrap();
    assert!(
        failure_of(folder, &["convert", "odd.csv", "-o", "other", "--value", "pm10"])
            .contains("odd.csv:3: pm10 is '?'")
    );
    let told = convert(folder, &["odd.csv", "--value", "pm10", "--where", "pm10 != '?'"]);
    assert_eq!((&told["rows"], &told["left_out"]), (&1.into(), &1.into()));
}

#[test]
fn nulls_and_nans_of_parquet_are_missing_entries() {
    let folder = folder();
    let folder = folder.path();
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
    let floats = Float64Array::from(vec![None, Some(f64::NAN), Some(2.5), Some(4.0)]);
    let texts = StringArray::from(vec![None, Some("NA"), Some("2.5"), Some("4")]);
    let all: [ArrayRef; 2] = [Arc::new(floats), Arc::new(texts)];
    for values in all {
        let table = vec![("user", Arc::clone(&ids)), ("item", Arc::clone(&ids)), ("rating", values)];
        parquet(&folder.join("in.parquet"), table);
        let told = convert(folder, &["in.parquet"]);
        assert_eq!((&told["rows"], &told["empty"]), (&2.into(), &2.into()));
        assert_eq!(entries(folder), ["3,3=2.5", "4,4=4"]);
        let strict = ["convert", "in.parquet", "-o", "other", "--empty", "error"];
        assert!(failure_of(folder, &strict).contains("in.parquet:1: rating is null"));
    }
}

/// Where a missing value is an error, a sign of one is, and no condition on values leaves such a row out.
#[test]
fn signs_of_missing_values_are_errors_where_these_are() {
    let folder = folder();
    let folder = folder.path();
    write(folder.join("in.csv"), "user,item,rating\n1,1,3\n1,2,-999.0\n2,1,4\n").unwrap();
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    for (name, values) in [
        ("floats.parquet", Arc::new(Float64Array::from(vec![3.0, -999.0, 4.0])) as ArrayRef),
        ("whole.parquet", Arc::new(Int64Array::from(vec![3, -999, 4]))),
        ("texts.parquet", Arc::new(StringArray::from(vec!["3", "-999", "4"]))),
    ] {
        parquet(
            &folder.join(name),
            vec![("user", Arc::clone(&ids)), ("item", Arc::clone(&ids)), ("rating", values)],
        );
    }
    let mut array = b"\x93NUMPY\x01\x00\x4a\x00".to_vec();
    array.extend(format!("{:<74}", "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }").bytes());
    array.extend([3.0, -999.0, 4.0, 5.0f64].iter().flat_map(|value| value.to_le_bytes()));
    write(folder.join("in.npy"), array).unwrap();
    for (file, said) in [
        ("in.csv", "in.csv:3: rating is missing: '-999.0'"),
        ("floats.parquet", ":2: rating is missing: '-999'"),
        ("whole.parquet", ":2: rating is missing: '-999'"),
        ("texts.parquet", ":2: rating is missing: '-999'"),
        ("in.npy", "the cell [0, 1] is missing: '-999'"),
    ] {
        let value = if file == "in.npy" { "value > 0" } else { "rating > 0" };
        for condition in [&["--where", value][..], &[]] {
            let asked = [&[file, "--missing", "-999"], condition].concat();
            let strict = [&["convert", "-o", "other", "--empty", "error"], &asked[..]].concat();
            let strict = failure_of(folder, &strict);
            assert!(strict.contains(said), "{strict}");
            let told = convert(folder, &asked);
            assert_eq!((&told["empty"], &told["left_out"]), (&1.into(), &0.into()), "{file}");
        }
    }
}

#[test]
fn conditions_look_at_any_column_of_any_kind_of_file() {
    let folder = folder();
    let folder = folder.path();
    let rows =
        "user,book,rating,year,country\na,x,0,1999,IT\na,y,7,2001,IT\nb,x,5,,FR\n,y,9,2003,\nb,y,,2004,IT\n";
    write(folder.join("in.csv"), rows).unwrap();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("user", Arc::new(StringArray::from(vec![Some("a"), Some("a"), Some("b"), None, Some("b")]))),
        ("book", Arc::new(StringArray::from(vec!["x", "y", "x", "y", "y"]))),
        ("rating", Arc::new(Int64Array::from(vec![Some(0), Some(7), Some(5), Some(9), None]))),
        ("year", Arc::new(Int64Array::from(vec![Some(1999), Some(2001), None, Some(2003), Some(2004)]))),
        ("country", Arc::new(StringArray::from(vec![Some("IT"), Some("IT"), Some("FR"), None, Some("IT")]))),
    ];
    parquet(&folder.join("in.parquet"), columns);
    for file in ["in.csv", "in.parquet"] {
        let with = |conditions: &[&str]| {
            let mut arguments = vec![file, "--modes", "user,book", "--value", "rating"];
            conditions.iter().for_each(|condition| arguments.extend(["--where", condition]));
            let told = convert(folder, &arguments);
            (entries(folder), told["left_out"].as_u64().unwrap(), told["empty"].as_u64().unwrap())
        };
        let kept = |ids: &[&str]| ids.iter().map(|id| id.to_string()).collect::<Vec<_>>();
        // A row that is left out may be bad; that a value is missing is not for a condition on it to say.
        assert_eq!(with(&["rating > 0", "user != ''"]), (kept(&["a,y=7", "b,x=5"]), 2, 1), "{file}");
        assert_eq!(with(&["rating > 0 and country = IT"]), (kept(&["a,y=7"]), 3, 1), "{file}");
        assert_eq!(with(&["year < 2001"]), (kept(&["a,x=0"]), 4, 0), "{file}");
        assert_eq!(with(&["4 >= 2001", "user = a"]), (kept(&["a,y=7"]), 4, 0), "{file}");
        let none = ["convert", file, "-o", "o", "--modes", "1,2", "--value", "3", "--where", "year > 2010"];
        assert!(failure_of(folder, &none).contains("--where leaves out 5"), "{file}");
        let wrong = ["convert", file, "-o", "o", "--where", "stars > 1", "--value", "rating"];
        assert!(failure_of(folder, &wrong).contains("there is no column 'stars'"), "{file}");
        let text = ["convert", file, "-o", "o", "--modes", "1,2", "--value", "3", "--where", "country > 3"];
        let said = failure_of(folder, &text);
        assert!(said.contains("country is 'IT', which is no number, as --where country > 3 needs"), "{said}");
    }
    let usage = tenfill(folder).args(["convert", "in.csv", "-o", "o", "--where", "rating"]).output().unwrap();
    assert_eq!(usage.status.code(), Some(2));
    assert!(stderr(&usage).contains("is no condition"));
}

#[test]
fn conditions_compare_dates() {
    let folder = folder();
    let folder = folder.path();
    write(folder.join("in.csv"), "id,day,x\na,2020-01-01,1\nb,2020-06-01T12:00:00Z,2\nc,2021-01-01,3\n")
        .unwrap();
    let days: ArrayRef =
        Arc::new(TimestampSecondArray::from(vec![1_577_836_800, 1_591_012_800, 1_609_459_200]));
    let ids: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
    let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    parquet(&folder.join("in.parquet"), vec![("id", ids), ("day", days), ("x", values)]);
    for file in ["in.csv", "in.parquet"] {
        convert(
            folder,
            &[
                file,
                "--modes",
                "id,day",
                "--value",
                "x",
                "--where",
                "day >= 2020-06-01 and day != 2021-01-01",
            ],
        );
        let found = entries(folder);
        assert!(found.len() == 1 && found[0].starts_with("b,"), "{found:?}");
    }
}

#[test]
fn a_wide_table_has_its_columns_as_a_mode() {
    let folder = folder();
    let folder = folder.path();
    let wide = "day,north,south,\"the, east\"\n2020-01-01,1.5,,3\n2020-01-02,NA,2.5,\n";
    write(folder.join("in.csv"), wide).unwrap();
    let told = convert(folder, &["in.csv", "--wide", "--column-mode", "station"]);
    assert_eq!(told["modes"], serde_json::json!(["day", "station"]));
    assert_eq!((&told["rows"], &told["empty"]), (&3.into(), &3.into()));
    let expected = ["2020-01-01,north=1.5", "2020-01-01,the, east=3", "2020-01-02,south=2.5"];
    assert_eq!(entries(folder), expected);
    // The same from Parquet, without quotes, and with bins over both modes.
    let days: ArrayRef = Arc::new(StringArray::from(vec!["2020-01-01", "2020-01-02"]));
    let north: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.5), None]));
    let south: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN, 2.5]));
    let east: ArrayRef = Arc::new(Int64Array::from(vec![Some(3), None]));
    let table = vec![("day", days), ("north", north), ("south", south), ("the, east", east)];
    parquet(&folder.join("in.parquet"), table);
    convert(folder, &["in.parquet", "--wide", "--column-mode", "station"]);
    assert_eq!(entries(folder), expected);
    // Columns of numbers: the header is a header, and the ids are numbers.
    write(folder.join("hours.tsv"), "room\tfloor\t0\t1\t10\nA\t1\t5\t6\t7\nB\t2\t8\t\t9\n").unwrap();
    let told = convert(folder, &["hours.tsv", "--wide", "--id-columns", "room,floor", "--bin", "column=5"]);
    assert_eq!(told["dims"], serde_json::json!([2, 2, 3]));
    assert_eq!(entries(folder), ["A,1,0=5.5", "A,1,10=7", "B,2,0=8", "B,2,10=9"]);
    // A condition leaves out whole rows.
    let told =
        convert(folder, &["hours.tsv", "--wide", "--id-columns", "room,floor", "--where", "floor > 1"]);
    assert_eq!((&told["rows"], &told["left_out"], &told["empty"]), (&2.into(), &1.into(), &1.into()));
    for (more, needle) in [
        (&["--modes", "room,floor"][..], "--wide does not go with --modes"),
        (&["--id-columns", "room,floor,0,1,10"], "leaves no column of values"),
        (&["--column-mode", "room"], "two modes have the name 'room'"),
        (&["--id-columns", "flat"], "there is no column 'flat'"),
        (&["--bin", "flat=3"], "none of the modes"),
    ] {
        let arguments = [&["convert", "hours.tsv", "-o", "other", "--wide"], more].concat();
        let said = failure_of(folder, &arguments);
        assert!(said.contains(needle), "{said}");
    }
}

#[test]
fn files_that_are_evaluated_may_have_holes_too() {
    let folder = folder();
    let folder = folder.path();
    let rows: String = (0..300).map(|n| format!("u{},m{},{}\n", n % 20, n / 20, 1 + n * 7 % 5)).collect();
    write(folder.join("in.csv"), format!("user,movie,rating\n{rows}")).unwrap();
    run(folder, ["complete", "in.csv", "--rank", "2", "-o", "run", "--max-iterations", "3"]);
    write(folder.join("more.csv"), "user,movie,rating\nu1,m1,3\nu2,m1,\nu3,m2,NA\n").unwrap();
    assert_eq!(run(folder, ["evaluate", "run", "--on", "more.csv"])["entries"], 1);
}

/// They are said once, where the dataset is made; a model needs no dataset to know them.
#[test]
fn signs_of_missing_values_stay_with_the_data_and_the_model() {
    let folder = folder();
    let folder = folder.path();
    let table = |rows: std::ops::Range<usize>, users: usize| {
        let value = |n: usize| if n % 4 == 1 { "-999".into() } else { format!("{}.5", 1 + n * 7 % 5) };
        let row = |n: usize| format!("u{},m{},{}\n", n % users, n / 20, value(n));
        format!("user,movie,rating\n{}", rows.map(row).collect::<String>())
    };
    write(folder.join("in.csv"), table(0..300, 20)).unwrap();
    write(folder.join("more.csv"), table(200..240, 20)).unwrap();
    write(folder.join("new.csv"), table(0..100, 1).replace("u0", "u99")).unwrap();
    run(folder, ["convert", "in.csv", "-o", "data", "--missing", "-999"]);
    run(folder, ["complete", "data", "--rank", "2", "-o", "run", "--max-iterations", "3"]);
    std::fs::rename(folder.join("data"), folder.join("elsewhere")).unwrap();
    let found = run(folder, ["evaluate", "run", "--on", "more.csv"]);
    assert_eq!(found["entries"], 30);
    assert!(found["rmse"].as_f64().unwrap() < 10.0, "{found}");
    let ranked = ["evaluate", "run", "--on", "more.csv", "--top", "2", "--rank-mode", "movie"];
    std::fs::rename(folder.join("elsewhere"), folder.join("data")).unwrap();
    assert_eq!(run(folder, ranked)["entries"], 30);
    // Several rows of the new user are for the same movie.
    assert_eq!(run(folder, ["fold-in", "run", "new.csv", "-o", "run2"])["entries"], 5);
    assert_eq!(run(folder, ["evaluate", "run2", "--on", "new.csv"])["entries"], 75);
    // Rows that are appended may have others besides.
    write(folder.join("more.csv"), table(200..240, 20).replace("u3,m10,", "u3,m10,?").replace("?2.5", "?"))
        .unwrap();
    let appended = run(folder, ["append", "data", "more.csv", "-o", "both", "--missing", "?"]);
    assert_eq!((&appended["empty"], &appended["rows"]), (&11.into(), &29.into()), "{appended}");
    let text = std::fs::read_to_string(folder.join("both/manifest.json")).unwrap();
    assert!(text.contains("\"-999\",\n    \"?\""), "{text}");
    // Datasets and models without any say nothing of them.
    write(folder.join("in.csv"), table(0..300, 20).replace("-999", "1")).unwrap();
    run(folder, ["complete", "in.csv", "--rank", "2", "-o", "plain", "--max-iterations", "3"]);
    assert!(
        !std::fs::read_to_string(folder.join("plain/data.tenfill/manifest.json"))
            .unwrap()
            .contains("missing")
    );
}

#[test]
fn a_value_is_told_by_the_last_word_of_its_name() {
    let folder = folder();
    let folder = folder.path();
    let rows: String =
        (0..40).map(|n| format!("{};97800{};{};{}\n", n % 8, n / 8, n % 10, 1950 + n)).collect();
    write(folder.join("books.csv"), format!("User-ID;ISBN;Book-Rating;Year-Of-Publication\n{rows}")).unwrap();
    convert(folder, &["books.csv", "--modes", "User-ID,ISBN"]);
    assert!(entries(folder).contains(&"3,978000=3".to_string()), "{:?}", entries(folder));
    // Two that could be meant are asked about.
    write(folder.join("two.csv"), "user,film,critic_score,user_score\n1,2,3,4\n5,6,7,8\n").unwrap();
    let said = failure_of(folder, &["convert", "two.csv", "-o", "x", "--modes", "user,film"]);
    assert!(said.contains("which column is the value"), "{said}");
}
