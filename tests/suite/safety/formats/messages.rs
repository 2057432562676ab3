//! What is printed: short, harmless to a terminal, and one line for programs when a command fails.

use super::{done, refused, write};
use crate::common::{folder, stderr, tenfill};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

const NASTY: &str = "a\u{1b}[2J\u{7}b";

#[test]
fn a_message_never_lists_a_million_columns() {
    let folder = folder();
    let folder = folder.path();
    let header: Vec<String> = (1..=90_000).map(|n| format!("column_{n}")).collect();
    let row = vec!["1"; header.len()].join(",");
    write(folder, "wide.csv", &format!("{}\n{row}\n{row}\n", header.join(",")));
    let ten =
        "column_1, column_2, column_3, column_4, column_5, column_6, column_7, column_8, column_9, column_10";
    for line in ["convert wide.csv -o out", "convert wide.csv -o out --modes x,y --value z"] {
        let said = refused(folder, line);
        assert!(said.contains(&format!("{ten} and 89,990 others")), "{said}");
        assert!(said.len() < 500, "{} bytes", said.len());
    }
    let said = refused(folder, "convert wide.csv -o out --value column_90000");
    assert!(said.contains("89999 modes") && said.len() < 500, "{said}");
    // Such a table can be read.
    done(folder, "convert wide.csv -o out --modes column_1,column_80000 --value column_90000 --split none");
    write(folder, "data.csv", "user,item,rating\n1,1,1\n1,2,3\n2,1,3\n2,2,5\n");
    done(folder, "complete data.csv -o run --rank 1 --max-iterations 1 --split none");
    write(folder, "q.csv", &format!("{}\n{}\n", header[..5000].join(","), vec!["1"; 5000].join(",")));
    let said = refused(folder, "predict run q.csv");
    assert!(said.contains("and 4,990 others") && said.len() < 500, "{said}");
}

#[test]
fn control_characters_are_escaped_in_what_is_printed_and_kept_in_files() {
    let folder = folder();
    let folder = folder.path();
    let bare = |text: &str| {
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        text.to_string()
    };
    let text = format!("user,item,{NASTY}\n{NASTY},x,1\n{NASTY},y,3\nb,x,3\nb,y,5\n");
    write(folder, "data.csv", &text);
    let twice = text.clone() + &format!("{NASTY},x,2\n");
    write(folder, "twice.csv", &twice);
    let columns = ["--modes", "user,item", "--value", NASTY, "--split", "none"];
    let with = |words: &[&str]| {
        let output = tenfill(folder).args(words).args(columns).output().unwrap();
        bare(&String::from_utf8_lossy(&output.stdout));
        bare(&stderr(&output))
    };
    // Errors: ids, names of columns, names of files.
    let said = with(&["convert", "twice.csv", "-o", "no", "--duplicates", "error"]);
    assert!(said.contains("a\\u{1b}[2J\\u{7}b"), "{said}");
    write(folder, &format!("{NASTY}.csv"), "user,item,rating\n1,2,x\n");
    let output = tenfill(folder).args(["convert", &format!("{NASTY}.csv"), "-o", "no"]).output().unwrap();
    assert!(bare(&stderr(&output)).contains("\\u{1b}"), "{}", stderr(&output));
    write(folder, "names.csv", &format!("{NASTY},item,rating\n1,2,3\n"));
    assert!(bare(&refused(folder, "convert names.csv -o no --modes user,item")).contains("\\u{1b}"));
    // What is said and printed of a dataset and a run.
    with(&["convert", "data.csv", "-o", "data"]);
    assert!(bare(&done(folder, "inspect data").0).contains("\\u{1b}"));
    with(&["complete", "data.csv", "-o", "run", "--rank", "1", "--max-iterations", "2"]);
    let given = format!("user={NASTY}\u{9b}");
    let output = tenfill(folder)
        .args(["recommend", "run", "--given", &given, "--rank-mode", "item"])
        .output()
        .unwrap();
    assert!(bare(&stderr(&output)).contains("\\u{1b}"), "{}", stderr(&output));
    write(folder, "q.csv", &format!("user,item\n{NASTY},x\n{NASTY}?,x\n"));
    assert!(bare(&refused(folder, "predict run q.csv --strict")).contains("\\u{1b}"));
    // Files, and what a program reads from a pipe, have the ids as they are.
    done(folder, "predict run q.csv -o out.csv");
    let told = done(folder, "predict run q.csv").0;
    for text in [std::fs::read_to_string(folder.join("out.csv")).unwrap(), told] {
        assert!(text.contains(NASTY), "{text:?}");
    }
    // On a terminal they are escaped.
    let tenfill = env!("CARGO_BIN_EXE_tenfill");
    let terminal = Command::new("script")
        .args(["-qec", &format!("{tenfill} predict run q.csv"), "/dev/null"])
        .current_dir(folder)
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&terminal.stdout);
    assert!(shown.contains("a\\u{1b}[2J\\u{7}b,x,"), "{shown:?}");
    assert!(!shown.contains(NASTY), "{shown:?}");
}

/// The last line of a command that fails.
fn last(folder: &Path, line: &str, code: i32) -> Value {
    let output = tenfill(folder).args(line.split_whitespace()).arg("--json").output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{line}: {}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    let value: Value = serde_json::from_str(text.lines().last().expect("a last line")).unwrap();
    assert_eq!(value.as_object().unwrap().len(), 3, "{value}");
    let said = stderr(&output);
    assert!(code != 1 || said.contains(value["error"].as_str().unwrap()), "{said}: {value}");
    value
}

#[test]
fn a_failed_command_ends_with_one_line_for_programs() {
    let folder = folder();
    let folder = folder.path();
    write(folder, "in.csv", "user,item,rating\n1,2,3\n1,3,oops\n");
    let row = last(folder, "convert in.csv -o out", 1);
    assert_eq!((&row["path"], &row["line"]), (&json!("in.csv"), &json!(3)));
    assert!(row["error"].as_str().unwrap().contains("'oops'"), "{row}");
    let file = last(folder, "convert none.csv -o out", 1);
    assert_eq!((&file["path"], &file["line"]), (&json!("none.csv"), &Value::Null));
    let request = last(folder, "convert in.csv -o out --dims 0,1", 1);
    assert_eq!((&request["path"], &request["line"]), (&Value::Null, &Value::Null));
    write(folder, "taken", "something else");
    let exists = last(folder, "convert in.csv -o taken", 1);
    assert_eq!(exists["path"], json!("taken"));
    for line in ["predict none in.csv", "evaluate none", "inspect none", "complete in.csv -o run --rank 1"] {
        last(folder, line, 1);
    }
    let usage = last(folder, "convert in.csv", 2);
    assert!(usage["error"].as_str().unwrap().contains("--output"), "{usage}");
    // Without --json there is none.
    let output = tenfill(folder).args(["convert", "in.csv", "-o", "out"]).output().unwrap();
    assert_eq!(output.stdout, b"");
}
