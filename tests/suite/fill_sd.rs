//! `fill --sd`: how sure the model is of what it has put into the holes.

use crate::common::{failure, folder, json, names, stderr, tenfill};
use crate::usage::sample::Numbers;
use std::fs::{read, read_to_string, write};
use std::path::Path;

const DIMS: [usize; 3] = [12, 20, 10];

/// Readings with noise, and their holes.
struct Readings {
    values: Vec<f64>,
    truth: Vec<f64>,
}

impl Readings {
    fn new() -> Self {
        let mut numbers = Numbers(11);
        let noise = |numbers: &mut Numbers| (0..12).map(|_| numbers.next()).sum::<f64>() - 6.0;
        let [_, b, c] = DIMS;
        let (mut values, mut truth) = (Vec::new(), Vec::new());
        for n in 0..DIMS.iter().product() {
            let [s, d, h] = [n / (b * c), n / c % b, n % c].map(|x| x as f64);
            truth.push(20.0 + s + 3.0 * (h / 2.0).sin() + (1.0 + s / 4.0) * (d / 3.0).cos());
            let seen = truth[n] + 0.4 * noise(&mut numbers);
            values.push(if numbers.next() < 0.3 { f64::NAN } else { seen });
        }
        Readings { values, truth }
    }

    fn at(n: usize) -> [usize; 3] {
        let [_, b, c] = DIMS;
        [n / (b * c), n / c % b, n % c]
    }

    fn long(&self) -> String {
        let rows = self.values.iter().enumerate().map(|(n, value)| {
            let [s, d, h] = Self::at(n);
            let value = if value.is_nan() { String::new() } else { format!("{value:.4}") };
            format!("S{s},{d},{h},{value}\n")
        });
        format!("station,day,hour,pm10\n{}", rows.collect::<String>())
    }
}

fn sure(readings: &Readings, told: &[(usize, f64, f64)]) {
    let within = told.iter().filter(|(n, value, sd)| (value - readings.truth[*n]).abs() < 2.0 * sd).count();
    assert!(told.iter().all(|(_, _, sd)| sd.is_finite() && (0.2..2.0).contains(sd)));
    assert!(within * 10 > told.len() * 9, "{within} of {}", told.len());
}

#[test]
fn a_long_table_has_a_column_of_standard_deviations() {
    let folder = folder();
    let folder = folder.path();
    let readings = Readings::new();
    write(folder.join("in.csv"), readings.long()).unwrap();
    let line = "fill in.csv -o out.csv --modes station,day,hour --value pm10 --sd --keep run";
    let told = json(folder, line);
    assert_eq!(told["sd"], true);
    let out = read_to_string(folder.join("out.csv")).unwrap();
    assert!(out.starts_with("station,day,hour,pm10,filled,sd\n"), "{}", &out[..60]);
    let mut found = Vec::new();
    for (n, line) in out.lines().skip(1).enumerate() {
        let fields: Vec<&str> = line.split(',').collect();
        match readings.values[n].is_nan() {
            true => {
                assert_eq!(fields[4], "true");
                found.push((n, fields[3].parse().unwrap(), fields[5].parse().unwrap()));
            }
            false => assert_eq!(fields[4..], ["false", ""]),
        }
    }
    sure(&readings, &found);
    // What `predict --sd` says of the same cells.
    let asked = found.iter().map(|(n, ..)| {
        let [s, d, h] = Readings::at(*n);
        format!("S{s},{d},{h}\n")
    });
    write(folder.join("q.csv"), format!("station,day,hour\n{}", asked.collect::<String>())).unwrap();
    json(folder, "predict run q.csv --sd -o a.csv");
    let answers = read_to_string(folder.join("a.csv")).unwrap();
    for ((_, value, sd), line) in found.iter().zip(answers.lines().skip(1)) {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!((fields[3].parse(), fields[5].parse()), (Ok(*value), Ok(*sd)), "{line}");
    }
    // By way of Parquet the same; nothing (null) where a value was.
    json(folder, "fill in.csv -o out.parquet --run run --sd");
    json(folder, "fill out.parquet -o back.csv --run run --all-cells --sd");
    let back = read_to_string(folder.join("back.csv")).unwrap();
    assert!(back.starts_with("station,day,hour,pm10,filled,sd,filled_2,sd_2\n"), "{}", &back[..60]);
    for (old, new) in out.lines().zip(back.lines()).skip(1) {
        let (old, new): (Vec<&str>, Vec<&str>) = (old.split(',').collect(), new.split(',').collect());
        assert_eq!(old[4..6], new[4..6]);
        assert_eq!(new[6..], ["false", ""]);
    }
    // Without the option the table is what it was.
    json(folder, "fill in.csv -o plain.csv --run run");
    let plain = read_to_string(folder.join("plain.csv")).unwrap();
    for (plain, with) in plain.lines().zip(out.lines()) {
        assert_eq!(plain, with.rsplit_once(',').unwrap().0);
    }
}

#[test]
fn cells_that_are_added_have_theirs() {
    let folder = folder();
    let folder = folder.path();
    let readings = Readings::new();
    let text = readings.long();
    let some: String =
        text.lines().filter(|line| !line.ends_with(',')).map(|line| format!("{line}\n")).collect();
    write(folder.join("in.csv"), some).unwrap();
    let line = "fill in.csv -o out.csv --modes station,day,hour --value pm10 --all-cells --sd --keep run";
    let told = json(folder, line);
    let holes = readings.values.iter().filter(|value| value.is_nan()).count();
    assert_eq!((&told["added"], &told["sd"]), (&holes.into(), &true.into()));
    json(folder, "fill in.csv -o out.parquet --run run --all-cells --sd");
    json(folder, "fill out.parquet -o back.csv --run run --all-cells");
    let [out, back] = ["out.csv", "back.csv"].map(|name| read_to_string(folder.join(name)).unwrap());
    let mut found = Vec::new();
    for (line, back) in out.lines().zip(back.lines()).skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        if fields[4] == "true" {
            let at: Vec<usize> = (0..3).map(|f| fields[f].trim_start_matches('S').parse().unwrap()).collect();
            let n = (at[0] * DIMS[1] + at[1]) * DIMS[2] + at[2];
            found.push((n, fields[3].parse().unwrap(), fields[5].parse().unwrap()));
        }
        assert_eq!(fields[4..6], back.split(',').collect::<Vec<_>>()[4..6]);
    }
    assert_eq!(found.len(), holes);
    sure(&readings, &found);
}

#[test]
fn wide_tables_and_arrays_get_a_second_file() {
    let folder = folder();
    let folder = folder.path();
    let readings = Readings::new();
    let [stations, days, hours] = DIMS;
    let number = |s: usize, at: usize| s * days * hours + at;
    let names_of = (0..stations).map(|s| format!("S{s}")).collect::<Vec<_>>().join(";");
    let mut text = format!("day;hour;{names_of}\r\n");
    for at in 0..days * hours {
        let cells = (0..stations).map(|s| match readings.values[number(s, at)] {
            value if value.is_nan() => ["", "NA"][at % 2].to_string(),
            value => format!("{value:.4}"),
        });
        text += &format!("{};{};{}\r\n", at / hours, at % hours, cells.collect::<Vec<_>>().join(";"));
    }
    write(folder.join("wide.csv"), &text).unwrap();
    let line =
        "fill wide.csv -o out.csv.gz --wide --id-columns day,hour --column-mode station --sd --keep run";
    assert_eq!(json(folder, line)["sd"], true);
    json(folder, "fill wide.csv -o out.csv --wide --run run --sd");
    json(folder, "fill wide.csv -o out.parquet --wide --run run --sd");
    let packed =
        std::process::Command::new("gzip").args(["-dc", "out.sd.csv.gz"]).current_dir(folder).output();
    let sds = read_to_string(folder.join("out.sd.csv")).unwrap();
    assert_eq!(packed.unwrap().stdout, sds.as_bytes());
    let out = read_to_string(folder.join("out.csv")).unwrap();
    let mut found = Vec::new();
    for (line, (values, sds)) in out.split("\r\n").zip(sds.split("\r\n")).enumerate() {
        let (values, sds): (Vec<&str>, Vec<&str>) = (values.split(';').collect(), sds.split(';').collect());
        assert_eq!(values.len(), sds.len());
        if line == 0 || values.len() == 1 {
            assert_eq!(values, sds);
            continue;
        }
        assert_eq!(values[..2], sds[..2]);
        for s in 0..stations {
            let n = number(s, line - 1);
            match readings.values[n].is_nan() {
                true => found.push((n, values[s + 2].parse().unwrap(), sds[s + 2].parse().unwrap())),
                false => assert_eq!(sds[s + 2], ""),
            }
        }
    }
    sure(&readings, &found);
    json(folder, "predict run out.sd.parquet --given station=S3 -o rows.csv");
    let rows = read_to_string(folder.join("rows.csv")).unwrap();
    for (old, new) in sds.split("\r\n").zip(rows.lines()).skip(1) {
        let (old, new): (Vec<&str>, Vec<&str>) = (old.split(';').collect(), new.split(',').collect());
        assert_eq!(old[..], new[..stations + 2], "the same in Parquet");
    }

    // An array: NaN where a value was.
    let cells: Vec<u8> = readings.values.iter().flat_map(|&value| (value as f32).to_le_bytes()).collect();
    npy(&folder.join("in.npy"), &cells);
    let told = json(folder, "fill in.npy -o cube.npy --sd");
    assert_eq!(told["sd"], true);
    let [values, sds] = ["cube.npy", "cube.sd.npy"].map(|name| read(folder.join(name)).unwrap());
    assert_eq!((&values[..128], values.len()), (&sds[..128], sds.len()));
    let numbers = |bytes: &[u8]| -> Vec<f64> {
        let cells = bytes[128..].chunks(4);
        cells.map(|cell| f32::from_le_bytes(cell.try_into().unwrap()).into()).collect()
    };
    let (values, sds) = (numbers(&values), numbers(&sds));
    let found: Vec<(usize, f64, f64)> = (0..values.len()).map(|n| (n, values[n], sds[n])).collect();
    let (filled, there): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|(n, ..)| readings.values[*n].is_nan());
    sure(&readings, &filled);
    assert!(there.iter().all(|(_, _, sd)| sd.is_nan()));
    // The second file is an output like the first: never replaced unasked, never an input.
    write(folder.join("other.sd.npy"), "mine").unwrap();
    let said = failure(folder, "fill in.npy -o other.npy --sd");
    assert!(said.contains("other.sd.npy exists already"), "{said}");
    std::fs::rename(folder.join("in.npy"), folder.join("x.sd.npy")).unwrap();
    let said = failure(folder, "fill x.sd.npy -o x.npy --sd --force");
    assert!(said.contains("x.sd.npy is an input"), "{said}");
    assert!(!names(folder).contains(&"x.npy".to_string()));
}

fn npy(path: &Path, cells: &[u8]) {
    let [a, b, c] = DIMS;
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({a}, {b}, {c}), }}");
    header.extend(std::iter::repeat_n(' ', 117 - header.len()));
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    bytes.extend(format!("{header}\n").as_bytes());
    bytes.extend(cells);
    write(path, bytes).unwrap();
}

#[test]
fn a_model_that_does_not_know_says_so_and_fills() {
    let folder = folder();
    let folder = folder.path();
    write(folder.join("in.csv"), Readings::new().long()).unwrap();
    // With a rank that is given and nothing to decide, the method is the plain one.
    let line =
        "fill in.csv -o out.csv --modes station,day,hour --value pm10 --rank 2 --split 100/0/0 --sd --json";
    let output = tenfill(folder).args(line.split_whitespace()).output().unwrap();
    let said = stderr(&output);
    assert!(output.status.success() && said.contains("there is no sd"), "{said}");
    let out = read_to_string(folder.join("out.csv")).unwrap();
    assert!(out.starts_with("station,day,hour,pm10,filled\n"));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["sd"], false);
}
