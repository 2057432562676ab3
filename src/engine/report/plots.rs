//! Which plots and tables the page has.

use super::Facts;
use super::activity::DECILES;
use super::chart::{Axes, Figure, Scale, Series, bars, lines};
use super::components::components;
use super::latent::{magnitudes, over_time, strongest};
use super::page::{Item, Section, Table, number};
use super::sure;
use crate::units;
use serde_json::Value;

const WIDE: (u32, u32) = (960, 320);
pub(super) const HALF: (u32, u32) = (470, 260);

/// The page of one run.
pub(super) fn of_one(facts: &Facts) -> Vec<Section> {
    let mut sections = vec![convergence(facts), work(facts)];
    sections.extend(by_activity(std::slice::from_ref(facts)));
    sections.extend(sure::section(facts));
    sections.retain(|section| !section.items.is_empty());
    if let Some(found) = components(&facts.model) {
        sections.push(magnitudes(facts, &found));
        sections.extend(over_time(facts, &found));
        sections.push(strongest(facts, &found));
    }
    sections
}

/// The page that compares runs.
pub(super) fn of_several(facts: &[Facts]) -> Vec<Section> {
    let mut sections = vec![summary(facts), compared(facts)];
    sections.extend(by_activity(facts));
    sections.retain(|section| !section.items.is_empty());
    sections
}

pub(super) fn section(title: &str, text: &str, figures: impl IntoIterator<Item = Option<Figure>>) -> Section {
    let items = figures.into_iter().flatten().map(Item::Figure).collect();
    Section { title: title.into(), text: text.into(), items }
}

/// A field of the log against another one.
fn curve(log: &[Value], x: &str, y: &str) -> Vec<(f64, f64)> {
    log.iter().filter_map(|line| Some((line[x].as_f64()?, line[y].as_f64()?))).collect()
}

/// Errors: on a logarithmic axis where they span much, with the points as logarithms.
fn errors(
    title: &str,
    note: &str,
    x: (&str, Scale),
    mut series: Vec<Series>,
    size: (u32, u32),
) -> Option<Figure> {
    series.retain(|series| !series.points.is_empty());
    let values = || series.iter().flat_map(|series| series.points.iter().map(|point| point.1));
    let (least, most) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
    let log = least > 0.0 && most / least > 4.0;
    if log {
        let all = series.iter_mut().flat_map(|series| &mut series.points);
        all.for_each(|point| point.1 = point.1.log10());
    }
    let y = ("RMSE", if log { Scale::Log } else { Scale::Number });
    lines(title, note, &Axes { x, y, from_zero: false, steps: false, size }, &series)
}

fn convergence(facts: &Facts) -> Section {
    let series = vec![
        Series { name: "train".into(), points: curve(&facts.log, "iteration", "train_rmse") },
        Series { name: "validation".into(), points: curve(&facts.log, "iteration", "validation_rmse") },
    ];
    let kept = facts.model.about.iteration;
    let note = format!("The model is that of iteration {kept}.");
    let error = errors("Error by iteration", &note, ("iteration", Scale::Integer), series, WIDE);
    section("Convergence", "", [error, ranks(facts), gradient(facts)])
}

/// The rank of each mode by iteration; modes that go together are one line.
fn ranks(facts: &Facts) -> Option<Figure> {
    let mut series: Vec<Series> = Vec::new();
    for (mode, ids) in facts.ids.iter().enumerate() {
        let points: Vec<(f64, f64)> = facts
            .log
            .iter()
            .filter_map(|line| Some((line["iteration"].as_f64()?, line["rank"].get(mode)?.as_f64()?)))
            .collect();
        match series.iter_mut().find(|other| other.points == points) {
            Some(other) => other.name += &format!(", {}", ids.name()),
            None => series.push(Series { name: ids.name().into(), points }),
        }
    }
    let axes = Axes {
        x: ("iteration", Scale::Integer),
        y: ("rank", Scale::Integer),
        from_zero: true,
        steps: true,
        size: HALF,
    };
    lines("Rank by iteration", &named(&series), &axes, &series)
}

/// Where one line stands for all, its name goes into the note.
fn named(series: &[Series]) -> String {
    if let [one] = series { one.name.clone() } else { String::new() }
}

fn gradient(facts: &Facts) -> Option<Figure> {
    let mut points = curve(&facts.log, "iteration", "gradient_norm");
    points.retain(|point| point.1 > 0.0);
    points.iter_mut().for_each(|point| point.1 = point.1.log10());
    let axes = Axes {
        x: ("iteration", Scale::Integer),
        y: ("gradient norm", Scale::Log),
        from_zero: false,
        steps: false,
        size: HALF,
    };
    lines("Gradient norm by iteration", "", &axes, &[Series { name: "gradient norm".into(), points }])
}

/// Time and bytes of a pass over the data.
fn work(facts: &Facts) -> Section {
    let per_pass = |field: &str| -> Vec<(f64, f64)> {
        let pairs = facts.log.windows(2);
        pairs
            .filter_map(|pair| {
                let change = |field: &str| Some(pair[1][field].as_f64()? - pair[0][field].as_f64()?);
                let passes = change("passes").filter(|passes| *passes > 0.0)?;
                // A resumed run may go back; what cannot be is not shown.
                let used = change(field).filter(|used| *used >= 0.0)?;
                Some((pair[1]["iteration"].as_f64()?, used / passes))
            })
            .collect()
    };
    let plot = |title: &str, y: (&str, Scale), points| {
        let x = ("iteration", Scale::Integer);
        let axes = Axes { x, y, from_zero: true, steps: false, size: HALF };
        lines(title, "", &axes, &[Series { name: y.0.into(), points }])
    };
    let time = plot("Time per pass", ("time", Scale::Seconds), per_pass("seconds"));
    let bytes = plot("Bytes read per pass", ("bytes", Scale::Bytes), per_pass("bytes_read"));
    section("Work", "A pass reads all train entries once.", [time, bytes])
}

/// The error by decile of activity, for every mode of ids.
fn by_activity(facts: &[Facts]) -> Option<Section> {
    let first = facts.iter().find(|facts| facts.activity.is_some())?;
    let split = first.activity.as_ref()?.split;
    let mut figures = Vec::new();
    for (mode, ids) in first.ids.iter().enumerate() {
        if ids.bins().is_some() {
            continue;
        }
        let mut labels: Vec<String> = (1..=DECILES).map(|decile| decile.to_string()).collect();
        let mut series = Vec::new();
        for facts in facts {
            let same = facts.ids.get(mode).is_some_and(|other| other.name() == ids.name());
            let activity = facts.activity.as_ref().filter(|activity| same && activity.split == split);
            let Some(deciles) = activity.and_then(|activity| activity.modes[mode].as_ref()) else { continue };
            if series.is_empty() {
                labels = deciles.iter().map(|(_, (least, most))| spread(*least, *most)).collect();
            }
            series.push((facts.name.clone(), deciles.iter().map(|(errors, _)| errors.rmse()).collect()));
        }
        let x = format!("train entries per {}", ids.name());
        let axes = Axes {
            x: (&x, Scale::Number),
            y: ("RMSE", Scale::Number),
            from_zero: true,
            steps: false,
            size: WIDE,
        };
        figures.push(bars(&format!("By activity of {}", ids.name()), "", &axes, &labels, &series));
    }
    let mut text = format!(
        "RMSE of the {} entries, by how many train entries the id has: ten parts with as \
         many ids each, the least active first.",
        split.name()
    );
    if let ([_], Some(unscored)) =
        (facts, first.activity.as_ref().map(|found| found.unscored).filter(|&n| n > 0))
    {
        text +=
            &format!(" {} entries with ids that have no train entries are left out.", units::count(unscored));
    }
    Some(section("Error by activity", &text, figures))
}

fn spread(least: u32, most: u32) -> String {
    if least == most { least.to_string() } else { format!("{least}–{most}") }
}

fn summary(facts: &[Facts]) -> Section {
    let rows = facts.iter().map(|facts| {
        let about = &facts.model.about;
        let test = facts.activity.as_ref().and_then(|activity| activity.total.rmse());
        vec![
            facts.name.clone(),
            units::ranks(&about.rank),
            about.iteration.to_string(),
            number(about.train_mse.sqrt()),
            about.validation_mse.map_or("–".into(), |mse| number(mse.sqrt())),
            test.map_or("–".into(), number),
            facts.seconds().map_or("–".into(), units::duration),
            facts.config.seed.to_string(),
        ]
    });
    let head = ["run", "rank", "iteration", "train RMSE", "validation RMSE", "held-out RMSE", "time", "seed"];
    let table = Table {
        title: String::new(),
        head: head.map(String::from).into(),
        rows: rows.collect(),
        numbers: true,
    };
    let text = "Held-out is test where there is such a split, else validation.";
    Section { title: "Runs".into(), text: text.into(), items: vec![Item::Table(table)] }
}

fn compared(facts: &[Facts]) -> Section {
    let series = |x: &str, y: &str| -> Vec<Series> {
        facts
            .iter()
            .map(|facts| Series { name: facts.name.clone(), points: curve(&facts.log, x, y) })
            .collect()
    };
    let iteration = ("iteration", Scale::Integer);
    let figures = [
        errors("Validation error by iteration", "", iteration, series("iteration", "validation_rmse"), HALF),
        errors("Train error by iteration", "", iteration, series("iteration", "train_rmse"), HALF),
        errors(
            "Validation error by time",
            "",
            ("seconds", Scale::Number),
            series("seconds", "validation_rmse"),
            HALF,
        ),
        errors("Train error by time", "", ("seconds", Scale::Number), series("seconds", "train_rmse"), HALF),
    ];
    section("Convergence", "", figures)
}
