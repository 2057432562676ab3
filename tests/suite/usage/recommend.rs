//! `tenfill recommend` and the ranking of `tenfill evaluate`, against plain sorting.

use super::sample::{self, DIMS, failure, id, number, output, quoted, rows};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use tenfill_engine::Model;
use tenfill_engine::model::{Place, Places};
use tenfill_engine::shard::{Dataset, Split};

/// Users and the films that they occur with in some splits.
fn observed(folder: &Path, splits: &[Split]) -> HashSet<(u32, u32)> {
    let dataset = Dataset::open(folder.join("run/data.tenfill")).unwrap();
    let mut seen = HashSet::new();
    for &split in splits {
        let each = |at: &[u32], _| {
            seen.insert((at[0], at[1]));
        };
        dataset.for_each(split, each).unwrap();
    }
    seen
}

/// The films of a user by value, weeks averaged by plain means over the known ones.
fn sorted(model: &Model, user: u32, without: &HashSet<(u32, u32)>) -> Vec<(f64, u32)> {
    let weeks: Vec<u32> = (0..model.about.modes[2].dim).filter(|&week| model.knows(2, week)).collect();
    let films = (0..model.about.modes[1].dim).filter(|&film| model.knows(1, film));
    let value = |film: u32| {
        let one = |&week: &u32| model.predict(&[Some(user), Some(film), Some(week)]).value;
        weeks.iter().map(one).sum::<f64>() / weeks.len() as f64
    };
    let mut all: Vec<(f64, u32)> =
        films.filter(|film| !without.contains(&(user, *film))).map(|film| (value(film), film)).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    all
}

#[test]
fn the_best_are_those_of_plain_sorting() {
    for extra in [
        "--bias none --penalty 0 --no-clip",
        "--bias modes --penalty 0.01 --no-clip",
        "--bias modes --penalty 0.01 --bias-time user:week --no-clip",
    ] {
        let folder = crate::common::folder();
        let folder = folder.path();
        sample::complete(folder, 3, extra);
        let model = Model::read(&folder.join("run")).unwrap();
        let lookup = &model.lookups().unwrap()[1];
        let all = rows(&output(folder, &["recommend", "run", "--all", "--rank-mode", "film", "--top", "5"]));
        let train = rows(&output(
            folder,
            &["recommend", "run", "--all=user", "--rank-mode", "film", "--top", "5", "--seen", "train"],
        ));
        for (told, splits) in [(&all, &Split::ALL[..]), (&train, &[Split::Train])] {
            let seen = observed(folder, splits);
            let mut by_user: HashMap<u32, Vec<(f64, u32)>> = HashMap::new();
            for row in told {
                let user = number(row, "user") as u32 - 1;
                let list = by_user.entry(user).or_default();
                assert_eq!(number(row, "rank") as usize, list.len() + 1);
                list.push((number(row, "prediction"), lookup.text(&row["film"]).unwrap()));
            }
            for user in (0..model.about.modes[0].dim).filter(|&user| model.knows(0, user)) {
                let expected = sorted(&model, user, &seen);
                let ours = by_user.get(&user).map_or(&[][..], Vec::as_slice);
                assert_eq!(ours.len(), expected.len().min(5), "user {user}");
                for (ours, expected) in ours.iter().zip(&expected) {
                    assert!((ours.0 - expected.0).abs() < 1e-12 * 10.0, "user {user}: {ours:?} {expected:?}");
                    assert_eq!(ours.1, expected.1);
                }
            }
        }
        // One user alone has the same rows, bit for bit, and any number of threads the same bytes.
        let one = rows(&output(
            folder,
            &["recommend", "run", "--given", "user=7", "--rank-mode", "film", "--top", "5"],
        ));
        let same: Vec<_> = all.iter().filter(|row| row["user"] == "7").collect();
        assert_eq!(one.len(), same.len());
        for (a, b) in one.iter().zip(same) {
            assert_eq!((&a["film"], &a["prediction"]), (&b["film"], &b["prediction"]));
        }
        for threads in ["1", "3"] {
            let arguments =
                ["recommend", "run", "--all", "--rank-mode", "film", "--top", "5", "--threads", threads];
            assert_eq!(rows(&output(folder, &arguments)), all);
        }
    }
}

#[test]
fn averages_and_given_times_are_what_they_say() {
    let folder = crate::common::folder();
    let folder = folder.path();
    sample::complete(folder, 3, "--bias modes --penalty 0.01 --bias-time user:week --no-clip");
    let model = Model::read(&folder.join("run")).unwrap();
    let places = Places::new(&model, &[true, true, true]);
    let known = |mode: usize| -> Vec<u32> {
        (0..model.about.modes[mode].dim).filter(|&index| model.knows(mode, index)).collect()
    };
    let mean = |asked: &dyn Fn(u32) -> f64, over: &[u32]| {
        over.iter().map(|&index| asked(index)).sum::<f64>() / over.len() as f64
    };
    let value = |user: u32, film: u32, week: u32| model.predict(&[Some(user), Some(film), Some(week)]).value;
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12 * 10.0, "{a} {b}");
    let (users, weeks) = (known(0), known(2));
    let raw = |asked: [Place; 3]| places.raw(&asked).0;
    let at = Place::Index;
    close(raw([at(3), at(4), Place::Average]), mean(&|week| value(3, 4, week), &weeks));
    close(raw([Place::Average, at(4), at(5)]), mean(&|user| value(user, 4, 5), &users));
    close(
        raw([Place::Average, at(4), Place::Average]),
        mean(&|user| mean(&|week| value(user, 4, week), &weeks), &users),
    );
    // The time's ends by name, and a ranking over the clock and over users.
    let last = output(
        folder,
        &["recommend", "run", "--given", "user=7", "--given", "week=latest", "--rank-mode", "film"],
    );
    let dated = output(
        folder,
        &["recommend", "run", "--given", "user=7", "--given", "week=2004-03-25", "--rank-mode", "film"],
    );
    assert_eq!(last, dated);
    let film = format!("film={}", id(1, 4));
    for (mode, all) in [("week", "user"), ("user", "week")] {
        let each = format!("--all={all}");
        let told = rows(&output(
            folder,
            &[
                "recommend",
                "run",
                &each,
                "--given",
                &film,
                "--rank-mode",
                mode,
                "--top",
                "3",
                "--include-seen",
            ],
        ));
        for row in told.iter().take(40) {
            let question = format!("user,film,week\n{},{},{}\n", row["user"], quoted(&id(1, 4)), row["week"]);
            std::fs::write(folder.join("q.csv"), question).unwrap();
            let answer = rows(&output(folder, &["predict", "run", "q.csv"]));
            assert_eq!(answer[0]["prediction"], row["prediction"], "{row:?}");
        }
    }
}

#[test]
fn equal_values_come_in_the_order_of_ids() {
    // All users and films are alike: every value is the same but for rounding.
    let folder = crate::common::folder();
    let folder = folder.path();
    let cells = (0..20).flat_map(|user| (0..15).map(move |film| (user, film)));
    let text: String = cells.filter(|(u, f)| (u + f) % 3 != 0).map(|(u, f)| format!("{u},{f},4\n")).collect();
    std::fs::write(folder.join("flat.csv"), format!("user,film,stars\n{text}")).unwrap();
    crate::common::run(
        folder,
        [
            "complete",
            "flat.csv",
            "-o",
            "run",
            "--rank",
            "1",
            "--bias",
            "mean",
            "--penalty",
            "0",
            "--max-iterations",
            "3",
        ],
    );
    let told =
        rows(&output(folder, &["recommend", "run", "--all", "--rank-mode", "film", "--top", "4", "-v"]));
    for user in 0..20 {
        let own: Vec<_> = told.iter().filter(|row| row["user"] == user.to_string()).collect();
        let same = own.windows(2).filter(|pair| pair[0]["prediction"] == pair[1]["prediction"]);
        for pair in same {
            assert!(number(pair[0], "film") < number(pair[1], "film"));
        }
    }
}

#[test]
fn precision_recall_and_ndcg_are_those_of_plain_lists() {
    let folder = crate::common::folder();
    let folder = folder.path();
    sample::complete(folder, 3, "--bias modes --penalty 0.01 --no-clip");
    let model = Model::read(&folder.join("run")).unwrap();
    let (k, least) = (4, 3.2);
    let seen = observed(folder, &[Split::Train, Split::Validation]);
    let mut relevant: HashMap<u32, HashSet<u32>> = HashMap::new();
    let dataset = Dataset::open(folder.join("run/data.tenfill")).unwrap();
    dataset
        .for_each(Split::Test, |at, value| {
            if value >= least && !seen.contains(&(at[0], at[1])) {
                relevant.entry(at[0]).or_default().insert(at[1]);
            }
        })
        .unwrap();
    let (mut precision, mut recall, mut ndcg) = (0.0, 0.0, 0.0);
    for (&user, films) in &relevant {
        let best: Vec<u32> = sorted(&model, user, &seen).iter().take(k).map(|(_, film)| *film).collect();
        let gain = |position: usize| 1.0 / ((position + 2) as f64).log2();
        let hits: Vec<usize> = (0..best.len()).filter(|&at| films.contains(&best[at])).collect();
        precision += hits.len() as f64 / k as f64;
        recall += hits.len() as f64 / films.len() as f64;
        let ideal: f64 = (0..k.min(films.len())).map(gain).sum();
        ndcg += hits.iter().map(|&at| gain(at)).sum::<f64>() / ideal;
    }
    let users = relevant.len() as f64;
    let arguments = ["evaluate", "run", "--top", "4", "--rank-mode", "film", "--relevant", "3.2"];
    let found = crate::common::run(folder, arguments);
    assert_eq!(found["ranked_ids"].as_f64(), Some(users));
    for (name, sum) in [("precision_at_k", precision), ("recall_at_k", recall), ("ndcg_at_k", ndcg)] {
        assert!((found[name].as_f64().unwrap() - sum / users).abs() < 1e-12, "{name}: {found}");
    }
    assert!(found["mse"].is_number() && users > 5.0);
}

#[test]
fn what_cannot_be_recommended_is_said_in_one_sentence() {
    let folder = crate::common::folder();
    let folder = folder.path();
    sample::complete(folder, 3, "--bias none --penalty 0");
    let top = (DIMS[1] + 1).to_string();
    for (arguments, what) in [
        (
            &["--given", "user=7", "--rank-mode", "movie"][..],
            "there is no mode 'movie': the modes are user, film, week",
        ),
        (
            &["--given", "user=99", "--rank-mode", "film"],
            "the model does not know user '99'; the nearest are 40, 39, 38",
        ),
        (&["--given", "film=film 7", "--rank-mode", "user"], "the nearest are film"),
        (
            &["--given", "user=7", "--rank-mode", "film", "--top", &top],
            "--top 26 is not between 1 and the 25 ids of film",
        ),
        (&["--given", "user=7", "--rank-mode", "film", "--top", "0"], "--top 0 is not between"),
        (&["--given", "film=x", "--given", "user=7", "--rank-mode", "film"], "film"),
        (
            &["--given", "user=7", "--given", "user=8", "--rank-mode", "film"],
            "--given says two things of user",
        ),
        (&["--rank-mode", "film"], "for whom? say --given MODE=ID, or --all"),
        (&["--all=weeks", "--rank-mode", "film"], "there is no mode 'weeks'"),
        (&["--all", "--given", "user=7", "--rank-mode", "film"], "no mode is left"),
        (
            &["--given", "user=7", "--given", "week=soon", "--rank-mode", "film"],
            "week is 'soon', which is neither a date",
        ),
    ] {
        let all: Vec<&str> = ["recommend", "run"].iter().chain(arguments).copied().collect();
        let said = failure(folder, &all);
        assert!(said.contains(what), "{arguments:?}: {said}");
    }
    let usage = crate::common::tenfill(folder).args(["recommend", "run"]).output().unwrap();
    assert_eq!(usage.status.code(), Some(2), "a missing --rank-mode is wrong usage");
}

#[test]
fn an_average_may_be_said_aloud_of_bins_too() {
    let folder = crate::common::folder();
    let folder = folder.path();
    sample::complete(folder, 3, "--bias modes --penalty 0.01");
    let silent = ["recommend", "run", "--given", "user=7", "--rank-mode", "film"];
    let aloud = [&silent[..], &["--given", "week=average"]].concat();
    assert_eq!(output(folder, &silent), output(folder, &aloud));
}

#[test]
fn a_time_alone_leaves_nothing_out() {
    let folder = crate::common::folder();
    let folder = folder.path();
    sample::complete(folder, 3, "--bias modes --penalty 0.01");
    // Every film was observed at some time.
    for given in ["week=2004-03-25", "week=latest"] {
        let silent = ["recommend", "run", "--given", given, "--rank-mode", "film", "--top", "5"];
        let told = output(folder, &silent);
        assert_eq!(rows(&told).len(), 5, "{told}");
        assert_eq!(told, output(folder, &[&silent[..], &["--include-seen"]].concat()));
    }
    let run = tenfill::Run::open(folder.join("run")).unwrap();
    let best = run.recommend(&[("week", "2004-03-25")], "film", 5).unwrap();
    let given = ["recommend", "run", "--given", "week=2004-03-25", "--rank-mode", "film", "--top", "5"];
    let told = rows(&output(folder, &given));
    assert!(best.iter().map(|one| &one.id).eq(told.iter().map(|row| &row["film"])), "{best:?}");
}

#[test]
fn of_a_mode_with_few_ids_all_are_recommended() {
    let folder = crate::common::folder();
    let folder = folder.path();
    let rows = (0..400).map(|n| format!("{},{},{}\n", n % 20, ["a", "b", "c"][n / 20 % 3], n % 5));
    std::fs::write(folder.join("in.csv"), format!("user,shop,rating\n{}", rows.collect::<String>())).unwrap();
    crate::common::json(folder, "complete in.csv -o run --rank 1 --bias modes --penalty 0.01");
    let line = ["recommend", "run", "--given", "user=3", "--rank-mode", "shop", "--include-seen"];
    assert_eq!(output(folder, &line).lines().count(), 4);
    // Who asks for more than there are is told so.
    let more: Vec<&str> = line.into_iter().chain(["--top", "4"]).collect();
    assert!(failure(folder, &more).contains("--top 4 is not between 1 and the 3 ids of shop"));
}
