//! Named pipes wherever a file is read, and what parallel compressors write.

use super::{done, write};
use crate::common::{contents, folder, names, stderr, tenfill};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::thread;

fn csv(rows: usize, seed: usize) -> String {
    let rows = (0..rows).map(|n| format!("{},{},{}\n", n % 17, n / 17 % 13 + seed, 1 + (n * 7 + seed) % 5));
    "user,item,rating\n".to_string() + &rows.collect::<String>()
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

/// A frame of zstd's that is to be skipped.
fn skipped(kind: u8, content: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x50 + kind, 0x2a, 0x4d, 0x18];
    frame.extend((content.len() as u32).to_le_bytes());
    frame.extend(content);
    frame
}

/// Runs a command whose pipes are filled from `contents` by name; gives its standard output.
fn piped(folder: &Path, line: &str, contents: &[(&str, Vec<u8>)]) -> String {
    for (name, _) in contents {
        let _ = fs::remove_file(folder.join(name));
        assert!(Command::new("mkfifo").arg(folder.join(name)).status().unwrap().success());
    }
    thread::scope(|scope| {
        for (name, bytes) in contents {
            // Opening waits for the reader; one that stops reading early is the test's own failure.
            scope.spawn(move || {
                let mut pipe = fs::OpenOptions::new().write(true).open(folder.join(name)).unwrap();
                let _ = pipe.write_all(bytes);
            });
        }
        // A reader that opens twice would wait for a second writer for ever.
        let output = Command::new("timeout")
            .args(["60", env!("CARGO_BIN_EXE_tenfill")])
            .args(line.split_whitespace())
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(output.status.success(), "{line}: {:?} {}", output.status, stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    })
}

fn parquet(folder: &Path, text: &str) -> Vec<u8> {
    write(folder, "plain.csv", text);
    // Written by the program itself: the questions with their answers are a table like any other.
    done(folder, "predict run plain.csv -o plain.parquet --force");
    fs::read(folder.join("plain.parquet")).unwrap()
}

#[test]
fn a_pipe_is_read_wherever_a_file_is() {
    let folder = folder();
    let folder = folder.path();
    let text = csv(2000, 0);
    write(folder, "data.csv", &text);
    let columns = "--modes user,item --value rating";
    done(folder, &format!("convert data.csv -o plain --split none {columns}"));
    done(folder, &format!("complete data.csv -o run {columns} --rank 1 --max-iterations 3"));
    let expected = contents(&folder.join("plain"));
    let table = parquet(folder, &text);

    // convert, in every format.
    let zstd = zstd::encode_all(text.as_bytes(), 1).unwrap();
    for (name, bytes) in [
        ("text", text.clone().into_bytes()),
        ("gz", gz(text.as_bytes())),
        ("zst", zstd.clone()),
        ("skipped", [skipped(0, b"x"), zstd].concat()),
        ("parquet", table.clone()),
        ("parquet.gz", gz(&table)),
    ] {
        piped(folder, &format!("convert pipe -o {name} --split none {columns}"), &[("pipe", bytes)]);
        assert_eq!(contents(&folder.join(name)), expected, "{name}");
    }
    // Files of validation and test entries.
    let (more, other) = (csv(100, 20), csv(120, 40));
    write(folder, "v.csv", &more);
    write(folder, "t.csv", &other);
    done(folder, &format!("convert data.csv --validation v.csv --test t.csv -o files {columns}"));
    let pipes = [("vp", more.into_bytes()), ("tp", other.into_bytes()), ("pipe", text.clone().into_bytes())];
    piped(folder, &format!("convert pipe --validation vp --test tp -o pipes {columns}"), &pipes);
    assert_eq!(contents(&folder.join("pipes")), contents(&folder.join("files")));
    // complete of a raw file.
    let complete = format!("complete pipe -o run2 {columns} --rank 1 --max-iterations 3 --json");
    piped(folder, &complete, &[("pipe", text.clone().into_bytes())]);
    assert_eq!(
        fs::read(folder.join("run2/model/model.bin")).unwrap(),
        fs::read(folder.join("run/model/model.bin")).unwrap()
    );
    // Questions, as text and as Parquet.
    let (answers, _) = done(folder, "predict run data.csv");
    assert_eq!(piped(folder, "predict run pipe", &[("pipe", text.clone().into_bytes())]), answers);
    let (answers, _) = done(folder, "predict run plain.parquet");
    assert_eq!(piped(folder, "predict run pipe", &[("pipe", table.clone())]), answers);
    // What is read twice: new rows, and entries that are scored and ranked.
    let new = "user,item,rating\n".to_string()
        + &(0..13).map(|n| format!("new,{n},{}\n", n % 5)).collect::<String>();
    write(folder, "new.csv", &new);
    done(folder, "fold-in run new.csv -o folded");
    for (name, bytes) in [("folded-text", new.clone().into_bytes()), ("folded-gz", gz(new.as_bytes()))] {
        piped(folder, &format!("fold-in run pipe -o {name}"), &[("pipe", bytes)]);
        let model = |run: &str| fs::read(folder.join(run).join("model/model.bin")).unwrap();
        assert_eq!(model(name), model("folded"), "{name}");
        assert_eq!(names(&folder.join(name)), names(&folder.join("folded")), "no scratch file is left");
    }
    for ranking in ["", "--top 3 --rank-mode item"] {
        let (expected, _) = done(folder, &format!("evaluate run --on data.csv {ranking} --json"));
        for bytes in [text.clone().into_bytes(), table.clone()] {
            let told = piped(folder, &format!("evaluate run --on pipe {ranking} --json"), &[("pipe", bytes)]);
            assert_eq!(told, expected, "{ranking}");
        }
    }
}

/// A table with holes, and the same one as an array and as a wide table.
fn with_holes() -> (String, Vec<u8>, String) {
    let value = |n: usize| (n % 6 != 1).then(|| (n % 17 + n / 17) as f64 / 4.0);
    let told = |n: usize| value(n).map_or(String::new(), |value| value.to_string());
    let long = (0..17 * 13).map(|n| format!("u{},{},{}\n", 100 + n % 17, n / 17, told(n)));
    let wide = (0..13).map(|row| {
        let cells: Vec<String> = (0..17).map(|column| told(17 * row + column)).collect();
        format!("{row},{}\n", cells.join(","))
    });
    let names: Vec<String> = (0..17).map(|column| format!("s{column}")).collect();
    let header = "{'descr': '<f8', 'fortran_order': False, 'shape': (13, 17), }";
    let mut array = b"\x93NUMPY\x01\x00".to_vec();
    array.extend((118u16).to_le_bytes());
    array.extend(format!("{header:<117}\n").into_bytes());
    (0..17 * 13).for_each(|n| array.extend(value(n).unwrap_or(f64::NAN).to_le_bytes()));
    (long.collect(), array, format!("hour,{}\n{}", names.join(","), wide.collect::<String>()))
}

#[test]
fn what_comes_through_a_pipe_is_filled_whole() {
    let folder = folder();
    let folder = folder.path();
    let (long, array, wide) = with_holes();
    write(folder, "long.csv", &long);
    write(folder, "wide.csv", &wide);
    fs::write(folder.join("cube.npy"), &array).unwrap();
    done(folder, "fill long.csv -o long.out.csv --keep run");
    done(folder, "fill long.csv -o long.out.parquet --run run");
    done(folder, "fill wide.csv -o wide.out.csv --wide");
    done(folder, "fill cube.npy -o cube.out.npy");
    let text = long.clone().into_bytes();
    let read = |name: &str| fs::read(folder.join(name)).unwrap();
    for (line, output, bytes) in [
        ("", "long.out.csv", text.clone()),
        ("--run run", "long.out.csv", text.clone()),
        ("--run run", "long.out.parquet", text.clone()),
        ("--run run", "long.out.csv", gz(&text)),
        ("--run run", "long.out.csv", zstd::encode_all(text.as_slice(), 1).unwrap()),
        ("--wide", "wide.out.csv", wide.into_bytes()),
        ("", "cube.out.npy", array.clone()),
        ("", "cube.out.npy", gz(&array)),
    ] {
        let again = format!("again.{output}");
        piped(folder, &format!("fill pipe -o {again} --force {line}"), &[("pipe", bytes)]);
        assert!(read(&again) == read(output), "{line} {output}");
    }
    // Standard input by its usual name.
    let input = fs::File::open(folder.join("long.csv")).unwrap();
    let output = tenfill(folder).args(["fill", "-", "-o", "stdin.csv"]).stdin(input).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(read("stdin.csv") == read("long.out.csv"));
}

#[test]
fn standard_input_is_folded_in_too() {
    let folder = folder();
    let folder = folder.path();
    write(folder, "data.csv", &csv(500, 0));
    let columns = "--modes user,item --value rating";
    done(folder, &format!("complete data.csv -o run {columns} --rank 1 --max-iterations 3"));
    write(folder, "new.csv", "user,item,rating\nnew,3,4\nnew,5,2\n");
    done(folder, "fold-in run new.csv -o one");
    for (name, path) in [("two", "-"), ("three", "/dev/stdin")] {
        let input = fs::File::open(folder.join("new.csv")).unwrap();
        let output =
            tenfill(folder).args(["fold-in", "run", path, "-o", name]).stdin(input).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let model = |run: &str| fs::read(folder.join(run).join("model/model.bin")).unwrap();
        assert_eq!(model(name), model("one"));
    }
}

#[test]
fn zstd_may_begin_with_a_frame_to_be_skipped() {
    let folder = folder();
    let folder = folder.path();
    let text = csv(300, 0);
    write(folder, "data.csv", &text);
    done(folder, "convert data.csv -o plain --split none");
    let halves = text.as_bytes().split_at(text.len() / 2);
    let pack = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
    for kind in [0, 7, 15] {
        // As pzstd writes: a skippable frame with the length before each frame.
        let packed =
            [skipped(kind, &[1, 2, 3, 4]), pack(halves.0), skipped(kind, &[]), pack(halves.1)].concat();
        fs::write(folder.join("data.csv.zst"), packed).unwrap();
        done(folder, "convert data.csv.zst -o out --split none --force");
        assert_eq!(contents(&folder.join("out")), contents(&folder.join("plain")));
    }
}
