//! Text as old programs write it: Latin-1, UTF-16, and what a user says it is.

use crate::common::{contents, failure, folder, json, output, stderr, tenfill};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

/// Readings of stations with names that are not ASCII, some without a value.
fn table(rows: usize) -> String {
    let stations = ["Zürich", "Genève", "Malmö", "Besançon"];
    let mut text = String::from("Station,Uhrzeit,Größe\n");
    for n in 0..rows {
        let station = stations[n % 4];
        let value =
            if n % 7 == 3 { String::new() } else { format!("{:.2}", 10.0 + (n * 37 % 50) as f64 / 7.0) };
        text += &format!("{station},{},{value}\n", n / 4);
    }
    text
}

fn latin1(text: &str) -> Vec<u8> {
    text.chars().map(|c| u8::try_from(c as u32).unwrap()).collect()
}

fn utf16(text: &str, big: bool, mark: bool) -> Vec<u8> {
    let units = mark.then_some(0xfeff).into_iter().chain(text.encode_utf16());
    units.flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
}

const COLUMNS: &str = "--modes Station,Uhrzeit --value Größe --split none";

fn said(folder: &Path, arguments: &str) -> String {
    let done = tenfill(folder).args(arguments.split_whitespace()).output().unwrap();
    assert!(done.status.success(), "{}", stderr(&done));
    stderr(&done)
}

#[test]
fn encodings_are_found_and_said_and_give_the_same_dataset() {
    let folder = folder();
    let at = folder.path();
    let text = table(4000);
    fs::write(at.join("utf8.csv"), &text).unwrap();
    json(at, &format!("convert utf8.csv -o utf8 {COLUMNS}"));
    let expected = contents(&at.join("utf8"));
    for (name, bytes, encoding) in [
        ("latin.csv", latin1(&text), "windows-1252 (Latin-1)"),
        ("le.csv", utf16(&text, false, true), "UTF-16LE"),
        ("be.csv", utf16(&text, true, true), "UTF-16BE"),
        ("bare.csv", utf16(&text, false, false), "UTF-16LE"),
    ] {
        fs::write(at.join(name), &bytes).unwrap();
        let packed = fs::File::create(at.join(format!("{name}.gz"))).unwrap();
        let mut packed = flate2::write::GzEncoder::new(packed, flate2::Compression::fast());
        packed.write_all(&bytes).unwrap();
        packed.finish().unwrap();
        for name in [name.to_string(), format!("{name}.gz")] {
            let told = said(at, &format!("convert {name} -o out --force --memory 16M {COLUMNS}"));
            assert!(
                told.contains(&format!("{name} is read as {encoding} text; --encoding says another")),
                "{told}"
            );
            assert_eq!(contents(&at.join("out")), expected, "{name}");
        }
        // From a pipe, with the name of the encoding: nothing is said.
        let asked = encoding.split(' ').next().unwrap();
        let arguments = format!("convert - -o out --force --encoding {asked} {COLUMNS}");
        let mut child = tenfill(at);
        child.args(arguments.split_whitespace()).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        let done = child.wait_with_output().unwrap();
        assert!(done.status.success() && !stderr(&done).contains("is read as"), "{}", stderr(&done));
        assert_eq!(contents(&at.join("out")), expected, "{name} from a pipe");
    }
}

#[test]
fn wrong_bytes_are_one_sentence_with_their_line_and_the_flag() {
    let folder = folder();
    let at = folder.path();
    // 60,000 lines of UTF-8, and then one that is none.
    let mut bytes = "Zürich,1,2\n".repeat(60_000).into_bytes();
    bytes.extend_from_slice(b"Gen\xe8ve,1,2\n");
    fs::write(at.join("in.csv"), &bytes).unwrap();
    let said = failure(at, "convert in.csv -o out --modes 1,2 --value 3 --no-header");
    assert!(said.contains("in.csv:60001: ") && said.contains("--encoding"), "{said}");
    let said = failure(at, "convert in.csv -o out --modes 1,2 --value 3 --no-header --encoding utf-8");
    assert!(said.contains("in.csv:60001: these bytes are no UTF-8 text: --encoding"), "{said}");
    fs::write(at.join("odd.csv"), [utf16("a,b,v\n1,2,3\n", false, true), vec![0x31]].concat()).unwrap();
    let said = failure(at, "convert odd.csv -o out --modes a,b --value v --encoding utf-16");
    assert!(said.contains("odd.csv:3: these bytes are no UTF-16LE text"), "{said}");
    let done =
        tenfill(at).args(["convert", "in.csv", "-o", "out", "--encoding", "klingon"]).output().unwrap();
    assert_eq!(done.status.code(), Some(2));
    assert!(stderr(&done).contains("latin1"), "{}", stderr(&done));
    assert!(!at.join("out").exists());
}

#[test]
fn a_filled_table_comes_back_in_its_own_encoding() {
    let folder = folder();
    let at = folder.path();
    let text = table(1200).replace('\n', "\r\n");
    let kinds = [latin1(&text), utf16(&text, false, true), utf16(&text, true, false)];
    for bytes in kinds {
        fs::write(at.join("in.csv"), &bytes).unwrap();
        let said = said(at, "fill in.csv -o out.csv --force --modes Station,Uhrzeit --value Größe --rank 1");
        assert_eq!(said.matches("is read as").count(), 1, "{said}");
        let out = fs::read(at.join("out.csv")).unwrap();
        let (unit, mark) = match &bytes[..2] {
            [0xff, 0xfe] => (2, 2),
            [0, _] => (2, 0),
            _ => (1, 0),
        };
        let decoded: String = match (unit, bytes[0]) {
            (1, _) => out.iter().map(|&byte| char::from(byte)).collect(),
            (_, first) => {
                let units = out[mark..].chunks_exact(2).map(|pair| match first {
                    0 => u16::from_be_bytes([pair[0], pair[1]]),
                    _ => u16::from_le_bytes([pair[0], pair[1]]),
                });
                char::decode_utf16(units).map(Result::unwrap).collect()
            }
        };
        assert_eq!(&out[..mark], &bytes[..mark]);
        // Without what was added it is the table, to the byte.
        let mut lines = decoded.split("\r\n");
        assert_eq!(lines.next(), Some("Station,Uhrzeit,Größe,filled"));
        let again: Vec<String> = lines
            .filter(|line| !line.is_empty())
            .map(|line| {
                let fields: Vec<&str> = line.split(',').collect();
                let value = if fields[3] == "true" { "" } else { fields[2] };
                assert!(fields[2].parse::<f64>().unwrap().is_finite());
                format!("{},{},{value}", fields[0], fields[1])
            })
            .collect();
        assert_eq!(again.join("\r\n"), text.split_once("\r\n").unwrap().1.trim_end());
    }
}

#[test]
fn questions_and_new_entries_may_be_latin1() {
    let folder = folder();
    let at = folder.path();
    let text = table(2000);
    fs::write(at.join("in.csv"), &text).unwrap();
    json(at, "complete in.csv -o run --modes Station,Uhrzeit --value Größe --rank 1 --max-iterations 5");
    fs::write(at.join("q.csv"), latin1("Uhrzeit,Station,Notiz\n3,Zürich,früh\n4,Genève,spät\n")).unwrap();
    let answers = output(at, &["predict", "run", "q.csv"]);
    let lines: Vec<&str> = answers.lines().collect();
    assert_eq!(lines[0], "Uhrzeit,Station,Notiz,prediction,known");
    assert!(lines[1].starts_with("3,Zürich,früh,") && lines[1].ends_with(",true"), "{answers}");
    let asked = output(at, &["predict", "run", "q.csv", "--encoding", "iso-8859-1"]);
    assert_eq!(asked, answers);
    fs::write(at.join("new.csv"), latin1("Station,Uhrzeit,Größe\nKöln,3,12.5\nKöln,4,13\nKöln,9,11\n"))
        .unwrap();
    assert_eq!(json(at, "fold-in run new.csv -o run2 --encoding latin1")["new_ids"], 1);
    let scored = json(at, "evaluate run2 --on new.csv --encoding latin1");
    assert_eq!((&scored["entries"], &scored["fallback"]), (&3.into(), &0.into()));
    assert!(failure(at, "evaluate run2 --on new.csv --encoding utf-8").contains("new.csv:1: these bytes"));
    json(at, &format!("convert in.csv -o data {COLUMNS}"));
    assert_eq!(json(at, "append data new.csv --in-place --encoding latin1")["new_ids"]["Station"], 1);
    assert!(contents(&at.join("data")).contains_key(&vec!["Köln".to_string(), "3".to_string()]));
}

#[test]
fn a_header_of_any_width_is_read_whole() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("in.csv"), table(400)).unwrap();
    json(at, "complete in.csv -o run --modes Station,Uhrzeit --value Größe --rank 1 --max-iterations 3");
    // 5,000 further columns with long names: 160 KB of header.
    let names: Vec<String> = (0..5000).map(|n| format!("a note of no consequence {n:06}")).collect();
    let blank = ",".repeat(4999);
    let rows = format!("{},Station,Uhrzeit\n{blank},Zürich,3\n{blank},Genève,4\n", names.join(","));
    fs::write(at.join("wide.csv"), rows).unwrap();
    let answers = output(at, &["predict", "run", "wide.csv"]);
    let header = answers.lines().next().unwrap();
    assert!(header.ends_with(",Station,Uhrzeit,prediction,known"), "{}", &header[header.len() - 80..]);
    assert_eq!(answers.lines().filter(|line| line.ends_with(",true")).count(), 2);
}

#[test]
fn what_is_said_to_be_no_text_is_told_in_one_sentence() {
    let folder = folder();
    let folder = folder.path();
    fs::write(folder.join("in.csv"), latin1(&table(40))).unwrap();
    for (format, needle) in [("parquet", "this is no Parquet file"), ("npy", "in.csv: ")] {
        let said = failure(folder, &format!("convert in.csv -o out --format {format}"));
        assert!(said.contains(needle) && said.lines().count() == 1, "{said}");
    }
}

/// Before a blank line and a header of two lines; `fill` puts it back in front of both tables.
#[test]
fn a_mark_of_utf8_is_no_part_of_the_text() {
    let folder = folder();
    let at = folder.path();
    let mark = "\u{feff}";
    let text = format!("\n\"Sta\ntion\",Uhrzeit,Größe\n{}", table(200).split_once('\n').unwrap().1);
    fs::write(at.join("bare.csv"), &text).unwrap();
    fs::write(at.join("in.csv"), mark.to_string() + &text).unwrap();
    let read = |file: &str, more: &str| {
        json(at, &format!("convert {file} -o out --force --modes 1,2 --value 3 --split none {more}"));
        contents(&at.join("out"))
    };
    let expected = read("bare.csv", "");
    for more in ["", "--encoding utf-8", "--memory 16M --threads 1"] {
        assert_eq!(read("in.csv", more), expected, "{more}");
    }
    let fill = |file: &str| {
        json(at, &format!("fill {file} -o out.csv --force --modes 1,2 --value 3 --rank 1 --sd"));
        fs::read_to_string(at.join("out.csv")).unwrap()
    };
    let filled = fill("bare.csv");
    assert!(filled.starts_with("\n\"Sta\ntion\",Uhrzeit,Größe,filled,sd\n"), "{filled}");
    assert_eq!(fill("in.csv"), mark.to_string() + &filled);
    // Another encoding that is asked for is kept to; what the mark says goes before what the bytes look like.
    fs::write(at.join("in.csv"), [mark.as_bytes(), b"a,b,v\nZo\xeb,2,3\n"].concat()).unwrap();
    let said = failure(at, "convert in.csv -o out --force --modes a,b --value v");
    assert!(said.contains("in.csv:2: ") && said.contains("not UTF-8 text"), "{said}");
    json(at, "convert in.csv -o out --force --modes 1,b --value v --encoding latin1");
}
