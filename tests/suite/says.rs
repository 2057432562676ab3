//! What the program says: what a model is beside, what does not go together before work is done, mistakes in one sentence.

use crate::common::{bytes, failure, folder, json, names, output, run, stderr, tenfill};
use crate::usage::sample::{self, Numbers};
use serde_json::Value;
use std::fs::{read_to_string, write};
use std::path::Path;
use tenfill_engine::model::{Baseline, Model};
use tenfill_engine::shard::{Dataset, Split};

/// Books and readers: what a reader and a book add, a taste where `taste` is not 0, and noise.
fn books(taste: f64) -> String {
    let mut numbers = Numbers(3);
    let mut text = "reader,book,year,score\n".to_string();
    let mut seen = std::collections::HashSet::new();
    while seen.len() < 4000 {
        let (r, b, y) = (numbers.below(120), numbers.below(90), numbers.below(6));
        if seen.insert((r, b)) {
            let wave = |x: usize, k: f64| ((x as f64 + 1.0) * k).sin();
            let noise = (0..12).map(|_| numbers.next()).sum::<f64>() - 6.0;
            let score = 6.0 + wave(r, 1.7) + wave(b, 2.3) + taste * wave(r, 0.9) * wave(b, 0.4) + 0.5 * noise;
            text += &format!("r{r},b{b},{},{score:.3}\n", 2000 + y);
        }
    }
    text
}

fn float(line: &Value, field: &str) -> f64 {
    line[field].as_f64().unwrap_or_else(|| panic!("{field}: {line}"))
}

/// Errors of biases alone and of the mean, entry by entry.
fn naive(run: &Path, data: &Path, split: Split) -> [f64; 2] {
    let model = Model::read(run).unwrap();
    let baseline = Baseline::of(&model).unwrap().unwrap();
    let (mut sums, mut weight) = ([0.0; 2], 0.0);
    let dataset = Dataset::open(data).unwrap();
    dataset
        .for_each_weighted(split, |at, value, w| {
            let mut said = baseline.biases.mean;
            at.iter()
                .enumerate()
                .for_each(|(mode, &index)| said += baseline.biases.modes[mode][index as usize]);
            let said = model.about.range.map_or(said, |(least, most)| said.clamp(least, most));
            for (sum, said) in sums.iter_mut().zip([said, dataset.manifest().mean()]) {
                *sum += w * (said - value).powi(2);
            }
            weight += w;
        })
        .unwrap();
    sums.map(|sum| (sum / weight).sqrt())
}

#[test]
fn a_model_stands_beside_the_mean_and_biases_alone() {
    let folder = folder();
    let folder = folder.path();
    write(folder.join("books.csv"), books(2.0)).unwrap();
    let told = json(folder, "complete books.csv -o run --modes reader,book --value score --no-refit");
    let end: Value = serde_json::from_str(&read_to_string(folder.join("run/end.json")).unwrap()).unwrap();
    for split in Split::ALL {
        let [biases, mean] = naive(&folder.join("run"), &folder.join("run/data.tenfill"), split);
        let on = json(folder, &format!("evaluate run --on {}", split.name()));
        for line in [&told["errors"][split.name()], &on, &end["errors"][split.name()]] {
            assert!((float(line, "biases_rmse") / biases - 1.0).abs() < 1e-12, "{line}");
            assert!((float(line, "mean_rmse") / mean - 1.0).abs() < 1e-12, "{line}");
            assert_eq!(line["rmse"], on["rmse"]);
        }
        assert!((float(&on, "over_biases") - (1.0 - float(&on, "rmse") / biases)).abs() < 1e-12);
        assert!(float(&on, "rmse") < 0.9 * biases && biases < mean, "{on}");
    }
    // A file with the same entries says the same.
    json(folder, "entries run/data.tenfill --split test -o test.csv");
    let (on, file) = (json(folder, "evaluate run"), json(folder, "evaluate run --on test.csv"));
    for field in ["rmse", "biases_rmse", "mean_rmse"] {
        assert!((float(&on, field) / float(&file, field) - 1.0).abs() < 1e-12, "{field}: {on} {file}");
    }
    let text = output(folder, &["evaluate", "run"]);
    assert!(text.contains("(mean ") && text.contains(", biases alone "), "{text}");
    // Biases alone are damped main effects: near to what made the data, readers and books being balanced.
    let biases = Baseline::read(&folder.join("run/model")).unwrap().unwrap();
    assert!(biases.modes.iter().flatten().all(|bias| bias.abs() < 2.0) && (biases.mean - 6.0).abs() < 0.1);
    // Whoever folds ids in still has them, and a verified run has one file more that is right.
    write(folder.join("new.csv"), "reader,book,score\nr999,b1,6.5\nr999,b2,7.5\n").unwrap();
    json(folder, "fold-in run new.csv -o folded");
    let folded = json(folder, "evaluate folded");
    assert_eq!(folded["biases_rmse"], on["biases_rmse"]);
    json(folder, "verify run");
    let file = folder.join("run/model/baseline.bin");
    let mut damaged = std::fs::read(&file).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    write(&file, damaged).unwrap();
    assert!(failure(folder, "verify run").contains("baseline.bin"));
    assert!(failure(folder, "evaluate run").contains("baseline.bin"));
    // A run of before has none, and evaluates.
    std::fs::remove_file(&file).unwrap();
    assert_eq!(json(folder, "evaluate run")["biases_rmse"], Value::Null);
    // What the plain method has no value for is left out of all three.
    let told = json(folder, "complete run/data.tenfill -o plain --rank 2 --bias none --penalty 0");
    assert!(float(&told["errors"]["test"], "biases_rmse") > 0.0);
}

#[test]
fn a_low_rank_part_that_adds_little_is_said() {
    let folder = folder();
    let folder = folder.path();
    for (taste, little) in [(0.0, true), (2.0, false)] {
        write(folder.join("books.csv"), books(taste)).unwrap();
        let line = "complete books.csv -o run --force --modes reader,book --value score";
        let made = tenfill(folder).args(line.split(' ')).output().unwrap();
        let on = tenfill(folder).args(["evaluate", "run"]).output().unwrap();
        for done in [made, on] {
            let said = stderr(&done);
            assert!(done.status.success());
            assert_eq!(said.contains("the low-rank part adds little"), little, "{said}");
            assert!(said.matches("adds little").count() <= 1, "once: {said}");
        }
    }
    // The same of a table that is filled.
    let text = books(0.0);
    let holes = text.lines().enumerate().map(|(n, line)| match n % 10 {
        5 => format!("{},\n", line.rsplit_once(',').unwrap().0),
        _ => format!("{line}\n"),
    });
    write(folder.join("holes.csv"), holes.collect::<String>()).unwrap();
    let line = "fill holes.csv -o out.csv --modes reader,book --value score";
    let done = tenfill(folder).args(line.split(' ')).output().unwrap();
    assert!(stderr(&done).contains("adds little"), "{}", stderr(&done));
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(text.contains("beside     the mean ") && text.contains(", biases alone "), "{text}");
}

#[test]
fn weights_count_for_all_that_stands_beside() {
    let folder = folder();
    let folder = folder.path();
    // Every third row has no weight: without those rows everything is the same.
    let text = books(2.0);
    let weighted: String = text
        .lines()
        .enumerate()
        .map(|(n, line)| match n {
            0 => format!("{line},w\n"),
            n => format!("{line},{}\n", if n % 3 == 0 { 0 } else { 1 + n % 2 }),
        })
        .collect();
    write(folder.join("weighted.csv"), &weighted).unwrap();
    let line = "complete weighted.csv -o run --modes reader,book --value score --weights w --rank 2";
    let told = json(folder, line);
    let data = folder.join("run/data.tenfill");
    let [biases, mean] = naive(&folder.join("run"), &data, Split::Test);
    let test = &told["errors"]["test"];
    assert!((float(test, "biases_rmse") / biases - 1.0).abs() < 1e-12, "{test}");
    assert!((float(test, "mean_rmse") / mean - 1.0).abs() < 1e-12, "{test}");
    // The report says what evaluate says.
    let on = json(folder, "evaluate run");
    output(folder, &["report", "run", "-o", "page.html"]);
    let page = read_to_string(folder.join("page.html")).unwrap();
    let tile = format!("<span>test RMSE</span><b>{:.4}</b>", float(&on, "rmse"));
    assert!(page.contains(&tile) && page.contains("weighted by w"), "{tile}");
    for (name, field) in [("biases alone", "biases_rmse"), ("the mean", "mean_rmse")] {
        assert!(page.contains(&format!("<span>{name}</span><b>{:.4}</b>", float(&on, field))), "{name}");
    }
    assert!(!page.contains(" MSE") && !page.contains(">mean squared error"), "one measure");
}

#[test]
fn known_means_the_same_with_and_without_weights() {
    let folder = folder();
    let folder = folder.path();
    // Reader r7 and book b5 have rows without weight only; in the other file they have none.
    let text = books(2.0);
    let counts = |line: &&str| !line.starts_with("r7,") && !line.contains(",b5,");
    let weighted = text.lines().enumerate().map(|(n, line)| match (n, counts(&line)) {
        (0, _) => format!("{line},w\n"),
        (_, keep) => format!("{line},{}\n", u8::from(keep)),
    });
    write(folder.join("weighted.csv"), weighted.collect::<String>()).unwrap();
    let plain = text.lines().filter(counts).map(|line| format!("{line}\n"));
    write(folder.join("plain.csv"), plain.collect::<String>()).unwrap();
    let asked = (0..12).flat_map(|r| (0..12).map(move |b| format!("r{r},b{b}\n")));
    write(folder.join("q.csv"), format!("reader,book\n{}", asked.collect::<String>())).unwrap();
    let mut told = Vec::new();
    for (name, weights) in [("weighted", "--weights w"), ("plain", "")] {
        let modes = "--modes reader,book --value score --seed 4";
        json(folder, &format!("complete {name}.csv -o {name} {modes} {weights}"));
        json(folder, &format!("predict {name} q.csv -o {name}-a.csv"));
        let answers = read_to_string(folder.join(format!("{name}-a.csv"))).unwrap();
        let predicted: Vec<(String, String)> = sample::rows(&answers)
            .iter()
            .map(|row| (format!("{} {}", row["reader"], row["book"]), row["known"].clone()))
            .collect();
        let all = |given: &str| {
            let line = ["recommend", name, "--rank-mode", "book", "--given", given, "--top", "20"];
            let rows = sample::rows(&output(folder, &line));
            assert!(rows.iter().all(|row| row["book"] != "b5"), "{name}: nothing is known of b5");
            rows.iter().map(|row| row["known"].clone()).collect::<Vec<_>>()
        };
        told.push((predicted, all("reader=r7"), all("reader=r1")));
    }
    assert_eq!(told[0], told[1]);
    assert!(
        told[0]
            .0
            .iter()
            .all(|(ids, known)| (known == "false") == (ids.contains("r7 ") || ids.ends_with(" b5")))
    );
}

#[test]
fn what_does_not_go_together_is_said_before_a_file_is_converted() {
    let folder = folder();
    let folder = folder.path();
    // A conversion would stumble over the last line.
    write(folder.join("bad.csv"), books(1.0) + "r1,b1,2000,many\n").unwrap();
    write(folder.join("books.csv"), books(1.0)).unwrap();
    json(folder, "complete books.csv -o two --modes reader,book --value score --rank 2");
    let modes = "--modes reader,book,year --value score";
    for (options, needle) in [
        ("--rank 2,2", "gives 2 ranks for 3 modes (reader, book, year)"),
        ("--rank 9,2,2", "above the product of the other ranks"),
        ("--rank 0", "is 0"),
        ("--metric euclidean", "--rank auto is for sweeps"),
        ("--split none", "--rank auto decides on validation entries, and there are none"),
        ("--refine", "--refine was removed in this version"),
        (
            "--init two --rank 2",
            "two: its model has the modes reader, book, and the dataset reader, book, year",
        ),
        ("--init nowhere", "nowhere: there is no such run"),
        ("--init uniform --rank 2 --bias modes --penalty 0", "starts of the plain method"),
        ("--algorithm geomcg --rank 2 --bias modes", "leave out"),
        ("--algorithm sgd --rank 2 --bias mean --penalty 0", "--algorithm sgd is for the plain method"),
        ("--bias-time reader:month --rank 2", "does not name two modes"),
        (
            "--bias-time reader:book --rank 2",
            "counts time in book, which has neither bins nor a name of times",
        ),
        (
            "--bias-time reader:year --bias none --penalty 0 --rank 2",
            "--bias-time goes with --bias modes or auto",
        ),
        ("--tolerance=-1", "--tolerance -1 is negative"),
        ("--dims 3,0,1", "--dims holds a 0"),
    ] {
        let said = failure(folder, &format!("complete bad.csv -o run {modes} {options}"));
        assert!(said.contains(needle), "{options}: {said}");
    }
    let said = failure(folder, &format!("complete bad.csv -o run {modes} --rank 2"));
    assert!(said.contains("bad.csv:4002: score is 'many'"), "{said}");
    assert_eq!(names(folder), ["bad.csv", "books.csv", "two"]);
    let same = "--modes reader,book --value score";
    let said = failure(folder, &format!("complete bad.csv -o run {same} --init two --rank 1"));
    assert!(said.contains("two: its model has rank 2,2, this run at most 1,1"), "{said}");
}

#[test]
fn a_budget_that_is_too_small_names_rank_and_number_and_keeps_the_conversion() {
    let folder = folder();
    let folder = folder.path();
    let many: String = (0..60_000).map(|n| format!("{},{},{}\n", n % 30_011, n % 20_011, n % 7)).collect();
    write(folder.join("many.csv"), format!("a,b,value\n{many}")).unwrap();
    let line = "complete many.csv -o run --rank 40 --memory 16M --threads 1 --bias none --penalty 0 --quiet";
    let said = failure(folder, line);
    assert!(
        said.contains("--memory 16 MB is too small: a run of rank 40,40 (") && said.contains("needs "),
        "{said}"
    );
    let again = said.split_once("the file is converted and kept as run.tenfill: go on with `");
    let again = again.and_then(|(_, again)| again.strip_suffix("`\n")).unwrap_or_else(|| panic!("{said}"));
    assert_eq!(names(folder), ["many.csv", "run.tenfill"]);
    let kept = bytes(&folder.join("run.tenfill"));
    // Again: nothing that is there is touched, and there is another name.
    let mut words: Vec<&str> = line.split(' ').collect();
    words.push("--json");
    let failed = tenfill(folder).args(&words).output().unwrap();
    let told: Value = serde_json::from_slice(&failed.stdout).unwrap();
    assert_eq!(told["path"], "run-2.tenfill", "{told}");
    assert!(bytes(&folder.join("run.tenfill")) == kept && bytes(&folder.join("run-2.tenfill")) == kept);
    // The command that is named goes on.
    json(folder, &format!("{} --max-iterations 1", again.strip_prefix("tenfill ").unwrap()));
    assert!(!folder.join("run/data.tenfill").exists());
}

#[test]
fn a_rank_above_a_dimension_is_told_before_the_file_is_converted_where_that_is_known() {
    let folder = folder();
    let folder = folder.path();
    let rows: String = (0..900).map(|n| format!("{},{},{}\n", n % 37 + 1, n * 7 % 11 + 1, n % 5)).collect();
    write(folder.join("in.csv"), format!("a,b,value\n{rows}")).unwrap();
    let said = failure(folder, "complete in.csv -o run --rank 20 --dims 37,11");
    assert!(
        said.contains("rank 20 of b is above its dimension 11: the largest that works is 11\n"),
        "{said}"
    );
    let mut npy =
        b"\x93NUMPY\x01\0\x46\0{'descr': '<f8', 'fortran_order': False, 'shape': (30, 4), }".to_vec();
    npy.resize(79, b' ');
    npy.push(b'\n');
    npy.extend((0..120).flat_map(|n| f64::from(n % 7).to_le_bytes()));
    write(folder.join("in.npy"), npy).unwrap();
    let said = failure(folder, "complete in.npy -o run --rank 5");
    assert!(said.contains("rank 5 of axis2 is above its dimension 4"), "{said}");
    let wide: String = (0..30).map(|n| format!("d{n},1,{},3\n", n % 4)).collect();
    write(folder.join("wide.csv"), format!("day,x,y,z\n{wide}")).unwrap();
    let said = failure(folder, "complete wide.csv -o run --wide --rank 4");
    assert!(said.contains("rank 4 of column is above its dimension 3"), "{said}");
    assert_eq!(names(folder), ["in.csv", "in.npy", "wide.csv"], "nothing was converted");
    // Else what was converted is kept, with the command to go on with.
    let line = "complete in.csv -o run --rank 20 --modes=a,b --value value --where value>0 --quiet --max-iterations 3";
    let said = failure(folder, line);
    let end = "kept as run.tenfill: go on with `tenfill complete run.tenfill -o run --quiet --max-iterations 3 --rank \
               11,11`\n";
    assert!(said.contains("rank 20 of b is above its dimension 11") && said.ends_with(end), "{said}");
    json(folder, "complete run.tenfill -o run --quiet --max-iterations 3 --rank 11,11");
}

#[test]
fn ways_out_are_ways() {
    let folder = folder();
    let folder = folder.path();
    write(folder.join("books.csv"), books(1.0)).unwrap();
    let file = "books.csv --modes reader,book --value score";
    // What cannot be found is given, and that works.
    write(folder.join("more.csv"), books(0.5)).unwrap();
    let said = failure(folder, &format!("complete {file} -o none --test more.csv --quiet"));
    if let Some((_, again)) = said.split_once("go on with `tenfill ") {
        json(folder, &format!("{} --max-iterations 1", again.trim_end().trim_end_matches('`')));
    } else {
        assert!(said.contains("or give --rank"), "{said}");
    }
    json(folder, "synth -o made --dims 20,20,20 --rank 2,2,2 --oversampling 5");
    let said = failure(folder, "complete made -o run");
    assert!(said.contains("synth --validation 0.1"), "{said}");
    for (rank, needle) in [
        ("99999999999", "rank 99999999999 of reader is above any dimension"),
        ("4,0", "the rank of book is 0: the least is 1"),
    ] {
        let said = failure(folder, &format!("complete {file} -o run --rank {rank}"));
        assert!(said.contains(needle), "{said}");
    }

    // A run that has ended says so, and what goes on.
    json(folder, &format!("complete {file} -o run --rank 2 --max-iterations 1"));
    let output = tenfill(folder).args(["resume", "run"]).output().unwrap();
    assert!(stderr(&output).contains("the run had ended already, stopped by max-iterations"), "{output:?}");
    let output = tenfill(folder).args(["resume", "run", "--max-iterations", "2"]).output().unwrap();
    assert!(!stderr(&output).contains("ended already"), "{output:?}");

    let output = tenfill(folder).args(["resume", "run", "--threads", "0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("0 threads do nothing"), "{output:?}");

    // Ids as pandas writes them in a column with holes are the same ids.
    write(folder.join("numbers.csv"), {
        let rows = (0..400).map(|n| format!("{},{},{}\n", n % 20, n / 20, n % 7));
        format!("a,b,value\n{}", rows.collect::<String>())
    })
    .unwrap();
    json(folder, "complete numbers.csv -o numbers --rank 1 --max-iterations 2");
    write(folder.join("asked.csv"), "a,b,value\n4.0,7.00,1\n4,7,1\n4.5,7,1\n").unwrap();
    assert_eq!(json(folder, "predict numbers asked.csv -o answers.csv")["unknown"], 1);
    let answers = read_to_string(folder.join("answers.csv")).unwrap();
    let of = |line: usize| answers.lines().nth(line).unwrap().split_once(",1,").unwrap().1.to_string();
    assert_eq!(of(1), of(2), "{answers}");
    // Quotes of questions are read as those of entries.
    write(folder.join("stray.csv"), "a,b,note\n4,\"7,x\n4,7,y\n").unwrap();
    let said = failure(folder, "predict numbers stray.csv");
    assert!(said.contains("stray.csv:2: the quote that opens here is never closed"), "{said}");
    write(folder.join("quoted.csv"), "a,b,note\n\"4\",7,\"say \"\"x\"\"\n!\"\n").unwrap();
    json(folder, "predict numbers quoted.csv -o quoted.out.csv");
    let answers = read_to_string(folder.join("quoted.out.csv")).unwrap();
    assert!(answers.starts_with("a,b,note,prediction,known\n4,7,\"say \"\"x\"\"\n!\","), "{answers}");
    write(folder.join("nothing.csv"), "").unwrap();
    assert!(failure(folder, "predict numbers nothing.csv").contains("nothing.csv: the file is empty"));

    // Rows that are appended in place are the end of earlier runs, which is said, with the way on.
    json(folder, "convert numbers.csv -o data");
    json(folder, "complete data -o old --rank 1 --max-iterations 2");
    write(folder.join("new.csv"), "a,b,value\n31,3,2\n").unwrap();
    let output = tenfill(folder).args(["append", "data", "new.csv", "--in-place"]).output().unwrap();
    assert!(stderr(&output).contains("`tenfill complete data -o NEW --init RUN`"), "{output:?}");
    let said = failure(folder, "resume old");
    assert!(
        said.contains("-o NEW --init old` begins a new run with this model, which still predicts"),
        "{said}"
    );
    let said = failure(folder, "verify old");
    assert_eq!(said.matches("data: ").count(), 1, "{said}");
    json(folder, "complete data -o new --init old --rank 1 --max-iterations 2");

    // A damaged model is written anew.
    let model = folder.join("new/model/model.bin");
    let whole = std::fs::read(&model).unwrap();
    let mut damaged = whole.clone();
    damaged[40] ^= 1;
    write(&model, damaged).unwrap();
    let said = failure(folder, "predict new asked.csv");
    assert!(said.contains("`tenfill resume new` writes it anew"), "{said}");
    json(folder, "resume new");
    json(folder, "predict new asked.csv -o again.csv");
}

#[test]
fn mistakes_are_told_apart_in_one_sentence() {
    let folder = folder();
    let folder = folder.path();
    write(folder.join("books.csv"), books(1.0)).unwrap();
    json(folder, "complete books.csv -o run --modes reader,book --value score --rank 2");
    std::fs::create_dir(folder.join("empty")).unwrap();
    write(folder.join("nothing.csv"), "").unwrap();
    for (line, needle) in [
        ("entries run -o x.csv", "run: this is a run: its dataset is run/data.tenfill"),
        ("append run books.csv -o x", "run: this is a run: its dataset is run/data.tenfill"),
        ("inspect books.csv", "books.csv: this is a file, not a dataset: convert it first"),
        ("verify books.csv", "books.csv: this is a file, not a dataset"),
        ("append books.csv books.csv -o x", "books.csv: this is a file, not a dataset"),
        ("entries empty -o x.csv", "empty: this is no dataset of tenfill"),
        ("entries nowhere -o x.csv", "nowhere: there is no such dataset"),
        (
            "predict run/data.tenfill books.csv",
            "run/data.tenfill: this is a dataset, not a run: complete it first",
        ),
        ("evaluate run/data.tenfill", "this is a dataset, not a run"),
        ("report run/data.tenfill -o x.html", "this is a dataset, not a run"),
        ("resume run/data.tenfill", "this is a dataset, not a run"),
        ("export books.csv -o x", "books.csv: this is no run of tenfill"),
        ("recommend empty --rank-mode book", "empty: this is no run of tenfill"),
        ("append run/data.tenfill run/data.tenfill -o x", "this is a dataset, not a table"),
        ("evaluate run --on run", "run: this is a run, not a table"),
        ("fill run -o x.csv", "run: this is a run, not a table"),
        ("convert empty -o x", "empty: there is no Parquet file in this directory"),
        ("evaluate run --on nothing.csv", "nothing.csv: the file is empty"),
        ("append run/data.tenfill nothing.csv -o x", "nothing.csv: the file is empty"),
        ("fill nothing.csv -o x.csv", "nothing.csv: the file is empty"),
    ] {
        let said = failure(folder, line);
        assert!(said.contains(needle), "{line}: {said}");
        // Programs are told the same in a line.
        let words: Vec<&str> = line.split(' ').chain(["--json"]).collect();
        let told = tenfill(folder).args(&words).output().unwrap();
        let told: Value = serde_json::from_slice(&told.stdout).unwrap();
        assert!(said.contains(told["error"].as_str().unwrap()), "{line}: {told}");
    }
    assert_eq!(names(folder), ["books.csv", "empty", "nothing.csv", "run"]);
    // Wrong usage, too, and nothing is said twice.
    for words in [
        &["fill", "--json"][..],
        &["evaluate", "run", "--nope", "--json"],
        &["entries", "run", "--split", "x", "--json"],
    ] {
        let told = tenfill(folder).args(words).output().unwrap();
        assert_eq!(told.status.code(), Some(2), "{words:?}");
        let told: Value = serde_json::from_slice(&told.stdout).unwrap();
        assert!(told["error"].as_str().is_some_and(|error| !error.is_empty()), "{words:?}");
    }
}

#[test]
fn the_report_has_the_time_of_all_starts() {
    let folder = folder();
    let folder = folder.path();
    write(folder.join("books.csv"), books(1.0)).unwrap();
    let line = "complete books.csv -o run --modes reader,book --value score --rank 2 --bias none --penalty 0 \
                --tolerance 0 --patience 0 --max-iterations 5";
    let first = run(folder, line.split_whitespace());
    let second = json(folder, "resume run --max-iterations 9");
    // Where the first start had come to when its last checkpoint was written counts.
    let log = read_to_string(folder.join("run/log.jsonl")).unwrap();
    let fifth: Value = serde_json::from_str(log.lines().nth(5).unwrap()).unwrap();
    assert!(float(&second, "seconds") > float(&fifth, "seconds"), "{first} {second}");
    let end: Value = serde_json::from_str(&read_to_string(folder.join("run/end.json")).unwrap()).unwrap();
    assert_eq!((&end["seconds"], &end["iterations"]), (&second["seconds"], &9.into()));
    output(folder, &["report", "run", "-o", "page.html"]);
    let page = read_to_string(folder.join("page.html")).unwrap();
    let shown = tenfill_engine::units::duration(float(&second, "seconds"));
    assert!(page.contains(&format!("<span>time</span><b>{shown}</b>")), "{shown}");
    // The page fits a phone: nothing but a plot or a table may be wider than it, and those scroll.
    assert!(page.contains("max-width: 720px") && page.contains("overflow-x: auto"));
}

#[test]
fn an_option_of_conversions_is_refused_beside_a_dataset() {
    let folder = folder();
    let folder = folder.path();
    write(folder.join("books.csv"), books(1.0)).unwrap();
    json(folder, "convert books.csv -o books --modes reader,book --value score");
    for flag in ["--split none", "--modes=reader,book", "--no-header"] {
        let said = failure(folder, &format!("complete books -o run --max-iterations 1 {flag}"));
        let name = flag.split([' ', '=']).next().unwrap();
        assert!(said.contains(&format!("books: this is a dataset already, and {name} says how")), "{said}");
        assert!(!folder.join("run").exists());
    }
    json(folder, "complete books -o run --max-iterations 1 --temp-dir . --seed 2");
}

#[test]
fn a_first_line_among_nothing_but_text_is_said_to_be_data() {
    let folder = folder();
    let folder = folder.path();
    let rows = (0..60).map(|n| format!("e{},r{},e{}\n", n % 9, n % 4, n % 7));
    write(folder.join("triples.csv"), format!("head,relation,tail\n{}", rows.collect::<String>())).unwrap();
    let said = |flags: &[&str]| {
        let mut command = tenfill(folder);
        command.args(["convert", "triples.csv", "-o", "data", "--force", "--absent", "1.0"]).args(flags);
        stderr(&command.output().unwrap())
    };
    let taken = said(&[]);
    assert!(taken.contains("the first line is taken for data (with --header, for names)"), "{taken}");
    let named = said(&["--header"]);
    assert!(named.contains("taking head, relation, tail as the modes"), "{named}");
    assert!(!named.contains("first line"), "{named}");
}
