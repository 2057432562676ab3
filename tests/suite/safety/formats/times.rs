//! Times: which unit a column is in, and that questions are asked in the same.

use super::{done, refused, write};
use crate::common::{contents, folder};
use std::path::Path;
use tenfill_engine::times::parse_time;

const CONVERT: &str = "--modes user,item,time --value rating --bin time=7d --split none";

/// Dates some ten days apart, from 2001 to 2012.
fn dates() -> Vec<String> {
    let date = |n: u32| format!("{}-{:02}-{:02}", 2001 + n / 36, 1 + n / 3 % 12, 1 + n % 3 * 10);
    (0..400).map(date).collect()
}

/// Rows with the times written in some way.
fn rows(of: impl Fn(&str) -> String) -> String {
    let rows = dates()
        .into_iter()
        .enumerate()
        .map(|(n, date)| format!("{},{},{},{}\n", n % 20, n / 20, of(&date), 1 + n / 100 + n * 7 % 3));
    "user,item,time,rating\n".to_string() + &rows.collect::<String>()
}

fn day(date: &str) -> String {
    date.replace('-', "")
}

fn epoch(date: &str, zeros: &str) -> String {
    format!("{}{zeros}", parse_time(date).unwrap())
}

/// The dataset of dates in ISO form.
fn iso(folder: &Path) -> crate::common::Contents {
    write(folder, "iso.csv", &rows(str::to_string));
    done(folder, &format!("convert iso.csv -o iso {CONVERT} --force"));
    contents(&folder.join("iso"))
}

#[test]
fn days_written_as_numbers_are_dates() {
    let folder = folder();
    let folder = folder.path();
    write(folder, "days.csv", &rows(day));
    done(folder, &format!("convert days.csv -o days {CONVERT}"));
    assert_eq!(contents(&folder.join("days")), iso(folder));
    // As pandas writes a column with holes.
    write(folder, "float.csv", &rows(|date| day(date) + ".0"));
    done(folder, &format!("convert float.csv -o float {CONVERT}"));
    assert_eq!(contents(&folder.join("float")), iso(folder));
}

#[test]
fn epochs_are_told_apart_by_their_range() {
    let folder = folder();
    let folder = folder.path();
    let expected = iso(folder);
    for (unit, zeros) in
        [("seconds", ""), ("milliseconds", "000"), ("microseconds", "000000"), ("nanoseconds", "000000000")]
    {
        write(folder, "epoch.csv", &rows(|date| epoch(date, zeros)));
        let (_, said) = done(folder, &format!("convert epoch.csv -o {unit} {CONVERT}"));
        assert!(said.contains(&format!("epoch {unit}")), "{said}");
        assert_eq!(contents(&folder.join(unit)), expected, "{unit}");
    }
}

#[test]
fn a_column_of_two_units_names_the_first_line_of_the_other() {
    let folder = folder();
    let folder = folder.path();
    type Way = fn(&str) -> String;
    let ways: [(&str, Way); 5] = [
        ("dates", str::to_string),
        ("days (YYYYMMDD)", day),
        ("epoch seconds", |date| epoch(date, "")),
        ("epoch milliseconds", |date| epoch(date, "000")),
        ("epoch nanoseconds", |date| epoch(date, "000000000")),
    ];
    for (one, first) in ways {
        for (other, second) in ways.into_iter().filter(|(other, _)| *other != one) {
            // The 300th row is line 301.
            let odd = &dates()[299];
            write(folder, "mixed.csv", &rows(|date| if date == odd { second(date) } else { first(date) }));
            let said = refused(folder, &format!("convert mixed.csv -o mixed {CONVERT}"));
            assert!(said.contains("mixed.csv:301: time holds both"), "{one}, {other}: {said}");
            let named = |way| if one == "dates" || other == "dates" { [way, "numbers"] } else { [way, way] };
            for way in [one, other] {
                assert!(named(way).iter().any(|name| said.contains(name)), "{one}, {other}: {said}");
            }
            // The same for the times of a split, and in a second file.
            let split = "--modes user,item --value rating --split time --time-column time";
            let said = refused(folder, &format!("convert mixed.csv -o mixed {split}"));
            assert!(said.contains("mixed.csv:301: ") && said.contains("both"), "{said}");
        }
        write(folder, "first.csv", &rows(first));
        let (other, second) = if one == "epoch seconds" { ways[3] } else { ways[2] };
        write(folder, "second.csv", &rows(second));
        let said = refused(folder, &format!("convert first.csv second.csv -o mixed {CONVERT}"));
        assert!(said.contains("second.csv:2: time holds both"), "{one}, {other}: {said}");
    }
    // A day that is none among days, far from the beginning.
    write(folder, "mixed.csv", &(rows(day) + "1,1,20210230,3\n"));
    let said = refused(folder, &format!("convert mixed.csv -o mixed {CONVERT}"));
    assert!(said.contains("mixed.csv:402: "), "{said}");
    // Rows that are left out have no say.
    write(folder, "mixed.csv", &(rows(day) + "1,1,1610668800,none\n"));
    done(folder, &format!("convert mixed.csv -o left {CONVERT} --skip-bad 1"));
}

#[test]
fn what_was_chosen_is_printed_with_the_first_and_the_last_bin() {
    let folder = folder();
    let folder = folder.path();
    // Bins of a week begin on Thursdays, since 1970 did.
    for (name, way, of) in [
        ("iso", "dates", &str::to_string as &dyn Fn(&str) -> String),
        ("days", "days (YYYYMMDD)", &day),
        ("ms", "epoch milliseconds", &|date| epoch(date, "000")),
    ] {
        write(folder, "in.csv", &rows(of));
        let (_, said) = done(folder, &format!("convert in.csv -o {name} {CONVERT}"));
        let expected = format!("time are taken as {way}: 579 bins of 7d, the first from 2000-12-28");
        assert!(said.contains(&expected), "{said}");
        assert!(said.contains("the last from 2012-01-26"), "{said}");
    }
    let (_, said) = done(folder, "convert in.csv -o split --modes user,item --value rating --split time");
    assert!(
        said.contains("the times of the split are taken as epoch milliseconds: train ends at 20"),
        "{said}"
    );
}

#[test]
fn the_last_day_of_9999_is_a_date() {
    let folder = folder();
    let folder = folder.path();
    let text = "user,item,time,rating\n1,1,0001-01-01,1\n2,2,9999-12-31,3\n1,2,9999-12-31T23:59:59Z,4\n2,1,2021-01-15,2\n";
    write(folder, "in.csv", text);
    let (_, said) = done(
        folder,
        "convert in.csv -o out --modes user,item,time --value rating --bin time=1d --split none",
    );
    assert!(said.contains("the last from 9999-12-31"), "{said}");
    let last = parse_time("9999-12-31").unwrap().to_string();
    let at_the_end = contents(&folder.join("out")).into_keys().filter(|key| key[2] == last).count();
    assert_eq!(at_the_end, 2);
    let (told, _) = done(folder, "inspect out");
    assert!(told.contains("bins of 1d"), "{told}");
}

#[test]
fn questions_are_in_the_unit_of_the_dataset() {
    let folder = folder();
    let folder = folder.path();
    let complete = "--modes user,item,time --value rating --bin time=30d --rank 1 --max-iterations 3 --bias none --penalty 0 --split none";
    let ask = |name: &str, of: &dyn Fn(&str) -> String| {
        write(folder, "data.csv", &rows(of));
        done(folder, &format!("complete data.csv -o {name} {complete}"));
        let times = ["2001-02-03", "2005-06-07", "2011-12-13"].map(of);
        let queries: String = times.iter().map(|time| format!("1,2,{time}\n")).collect();
        write(folder, "q.csv", &format!("user,item,time\n{queries}"));
        let (told, said) = done(folder, &format!("predict {name} q.csv"));
        assert!(!said.contains("outside"), "{name}: {said}");
        let answers: Vec<String> =
            told.lines().skip(1).map(|line| line.split(',').nth(3).unwrap().to_string()).collect();
        let (best, said) = done(
            folder,
            &format!(
                "recommend {name} --given user=3 --given time={} --rank-mode item --include-seen",
                times[1]
            ),
        );
        assert!(!said.contains("outside"), "{name}: {said}");
        let two =
            |user: &str| format!("user,item,time,rating\n{user},1,{},4\n{user},2,{},3\n", times[0], times[2]);
        write(folder, "new.csv", &two("new"));
        write(folder, "old.csv", &two("1"));
        let (told, said) = done(folder, &format!("evaluate {name} --on old.csv"));
        assert!(!told.contains("outside"), "{name}: {told}");
        let (_, folded) = done(folder, &format!("fold-in {name} new.csv -o {name}2"));
        assert!(!folded.contains("outside"), "{name}: {folded} {said}");
        let (more, _) = done(
            folder,
            &format!(
                "recommend {name}2 --given user=new --given time={} --rank-mode item --include-seen",
                times[1]
            ),
        );
        (answers, best, more)
    };
    let expected = ask("iso", &str::to_string);
    assert!(expected.0[0] != expected.0[2], "the time matters: {expected:?}");
    assert_eq!(ask("days", &day), expected);
    assert_eq!(ask("s", &|date| epoch(date, "")), expected);
    assert_eq!(ask("us", &|date| epoch(date, "000000")), expected);
    // Dates in ISO form are understood whatever the dataset was made from.
    write(folder, "q.csv", "user,item,time\n1,2,2001-02-03\n");
    for name in ["days", "s", "us"] {
        let (told, _) = done(folder, &format!("predict {name} q.csv"));
        assert_eq!(told.lines().nth(1).unwrap().split(',').nth(3), Some(expected.0[0].as_str()), "{name}");
    }
    // What is no day is not taken for some other time.
    write(folder, "q.csv", "user,item,time\n1,2,20010203\n1,2,20010230\n");
    let said = refused(folder, "predict days q.csv");
    assert!(said.contains("q.csv:3: ") && said.contains("'20010230'") && said.contains("YYYYMMDD"), "{said}");
    write(folder, "new.csv", "user,item,time,rating\n1,2,20010203,3\n1,2,981158400,3\n");
    let said = refused(folder, "evaluate days --on new.csv");
    assert!(said.contains("new.csv:3: ") && said.contains("YYYYMMDD"), "{said}");
    write(folder, "new.csv", "user,item,time,rating\n1,2,981158400,3\n1,2,2001-02-03,3\n");
    let said = refused(folder, "evaluate s --on new.csv");
    assert!(said.contains("new.csv:3: ") && said.contains("both"), "{said}");
}

#[test]
fn times_of_another_unit_are_refused() {
    let folder = folder();
    let folder = folder.path();
    let complete = "--modes user,item,time --value rating --bin time=30d --rank 1 --max-iterations 3 --bias none --penalty 0 --split none";
    let days = ["2003-02-03", "2005-06-07", "2011-12-13"];
    let table = |users: &str, of: &dyn Fn(&str) -> String| {
        let rows = days.iter().zip(1..).map(|(day, n)| format!("{users},{n},{},{n}\n", of(day)));
        format!("user,item,time,rating\n{}", rows.collect::<String>())
    };
    let seconds = |date: &str| epoch(date, "");
    let milliseconds = |date: &str| epoch(date, "000");
    type Way<'w> = (&'w str, &'w dyn Fn(&str) -> String, &'w str);
    let ways: [Way<'_>; 3] = [
        ("s", &seconds, "epoch seconds"),
        ("ms", &milliseconds, "epoch milliseconds"),
        ("days", &day, "days (YYYYMMDD)"),
    ];
    for (name, of, own) in ways {
        write(folder, "data.csv", &rows(of));
        done(folder, &format!("complete data.csv -o {name} {complete}"));
        for (other, of, unit) in ways.into_iter().filter(|(other, ..)| *other != name && *other != "days") {
            // Where the data's times are days, what is no day is said of its line.
            let expected = match name {
                "days" => "YYYYMMDD".into(),
                _ => format!("the times of time are {unit}, those that the model learned from {own}"),
            };
            write(folder, "new.csv", &table("new", of));
            write(folder, "old.csv", &table("1", of));
            for command in [
                format!("evaluate {name} --on old.csv"),
                format!("fold-in {name} new.csv -o {name}-{other}"),
                format!("predict {name} old.csv -o out.csv"),
                format!("predict {name} old.csv -o out.parquet"),
                format!("predict {name} old.csv"),
            ] {
                let said = refused(folder, &command);
                assert!(said.contains(&expected), "{command}: {said}");
            }
        }
    }
    assert!(!crate::common::names(folder).iter().any(|name| name.starts_with("out") || name.contains('-')));
    // Times to come are of the same size.
    write(folder, "q.csv", "user,item,time\n1,2,1900000000000\n");
    assert!(done(folder, "predict ms q.csv").1.contains("1 outside the bins"));
    write(folder, "q.csv", "user,item,time\n1,2,2030-01-01\n");
    assert!(done(folder, "predict ms q.csv").1.contains("1 outside the bins"));
}

#[test]
fn predict_to_standard_output_tells_of_clamped_times_and_unknown_ids() {
    let folder = folder();
    let folder = folder.path();
    write(folder, "data.csv", &rows(str::to_string));
    done(
        folder,
        "complete data.csv -o run --modes user,item,time --value rating --bin time=30d --rank 1 --max-iterations 2",
    );
    write(
        folder,
        "q.csv",
        "user,item,time\n1,2,1990-01-01\n1,2,2030-01-01\nnobody,2,2005-01-01\n1,1,2005-01-01\n",
    );
    let (with_output, _) = done(folder, "predict run q.csv -o out.csv");
    for arguments in ["predict run q.csv", "predict run q.csv -o -", "predict run q.csv --json"] {
        let (_, said) = done(folder, arguments);
        for what in ["1 with ids that the model does not know", "2 outside the bins, taken as the nearest"] {
            assert!(with_output.contains(what), "{with_output}");
            assert!(said.contains(what), "{arguments}: {said}");
        }
    }
    let (_, quiet) = done(folder, "predict run q.csv --quiet");
    assert_eq!(quiet, "");
    write(folder, "q.csv", "user,item,time\n1,1,2005-01-01\n");
    assert_eq!(done(folder, "predict run q.csv").1, "", "nothing to tell");
}
