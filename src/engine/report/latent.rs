//! What the model has found: its components, over time and by their strongest ids.

use super::Facts;
use super::chart::{Axes, Figure, Scale, Series, bars, lines};
use super::components::Components;
use super::page::{Item, Section, Table, number};
use super::periods::periodogram;
use super::plots::{HALF, section};
use crate::model::ModeIds;

/// Components that are shown of a mode, and ids at each end of a component.
const MOST_COMPONENTS: usize = 8;
const ENDS: usize = 5;

pub(super) fn magnitudes(facts: &Facts, found: &[Components]) -> Section {
    let figures = facts.ids.iter().zip(found).map(|(ids, found)| {
        let labels: Vec<String> = (1..=found.magnitudes.len()).map(|k| k.to_string()).collect();
        let values = found.magnitudes.iter().map(|&value| Some(value)).collect();
        let axes = Axes {
            x: ("component", Scale::Integer),
            y: ("magnitude", Scale::Number),
            from_zero: true,
            steps: false,
            size: HALF,
        };
        bars(ids.name(), "", &axes, &labels, &[(ids.name().to_string(), values)])
    });
    let text = "The norm of the core's slice of each component, in the coordinates of the higher-order \
                singular value decomposition, which do not depend on rotations of the factors.";
    section("The core by component", text, figures)
}

/// Components of the modes that are times, with their periods.
pub(super) fn over_time(facts: &Facts, found: &[Components]) -> Vec<Section> {
    let mut sections = Vec::new();
    for (mode, ids) in facts.ids.iter().enumerate() {
        let Some(bins) = ids.bins() else { continue };
        if facts.model.is_held(mode) {
            let text =
                format!("Freeing {} did not help, so all its bins are alike to the tensor.", ids.name());
            let nothing: [Option<Figure>; 0] = [];
            sections.push(section(&format!("Components over {}", ids.name()), &text, nothing));
            continue;
        }
        let known: Vec<u32> = (0..ids.dim()).filter(|&index| facts.model.knows(mode, index)).collect();
        let loadings: Vec<Vec<f64>> =
            known.iter().map(|&index| found[mode].loadings(&facts.model, mode, index)).collect();
        let at = |index: u32| bins.origin + bins.width * (f64::from(index) + 0.5);
        let weight = |index: u32| match &facts.activity {
            Some(activity) => f64::from(activity.counts[mode][index as usize]),
            None => 1.0,
        };
        let mut figures = Vec::new();
        for component in 0..found[mode].magnitudes.len().min(MOST_COMPONENTS) {
            let each = || known.iter().zip(&loadings).map(|(&index, row)| (at(index), row[component]));
            let weighted: Vec<(f64, f64, f64)> =
                each().zip(&known).map(|((t, y), &index)| (t, y, weight(index).sqrt())).collect();
            let searched = periodogram(&weighted, bins.width);
            let unit = |period: f64| if bins.time { days(period) } else { number(period) };
            let note = match searched.as_ref().map(|searched| searched.dominant) {
                Some(Some((period, share))) => {
                    format!("Dominant period {} ({:.0} % of the variance).", unit(period), share * 100.0)
                }
                Some(None) => "No period stands out from noise.".into(),
                None => "Too few bins for a period.".into(),
            };
            let scale = if bins.time { Scale::Date } else { Scale::Number };
            let axes = Axes {
                x: ("", scale),
                y: ("loading", Scale::Number),
                from_zero: false,
                steps: false,
                size: HALF,
            };
            let title = format!("Component {}", component + 1);
            figures.push(lines(
                &title,
                &note,
                &axes,
                &[Series { name: title.clone(), points: each().collect() }],
            ));
            if let Some(searched) = searched {
                let day = if bins.time { 86_400.0 } else { 1.0 };
                let points =
                    searched.power.iter().map(|(period, share)| ((period / day).log10(), share * 100.0));
                let x = (if bins.time { "period in days" } else { "period" }, Scale::Log);
                let axes = Axes {
                    x,
                    y: ("% of variance", Scale::Number),
                    from_zero: true,
                    steps: false,
                    size: HALF,
                };
                let series = Series { name: "share".into(), points: points.rev().collect() };
                let title = format!("Periods in component {}", component + 1);
                figures.push(lines(&title, "What a wave of each period explains.", &axes, &[series]));
            }
        }
        let text = "Loadings are scaled to a mean square of 1. Periods come from a weighted Lomb-Scargle \
                    periodogram after a linear trend is taken out; one is called dominant where noise would \
                    have such a peak in fewer than one of a hundred series.";
        sections.push(section(&format!("Components over {}", ids.name()), text, figures));
    }
    sections
}

fn days(seconds: f64) -> String {
    match seconds / 86_400.0 {
        d if d >= 730.0 => format!("{:.1} years", d / 365.25),
        d if d >= 3.0 => format!("{d:.0} days"),
        d if d >= 1.0 => format!("{d:.1} days"),
        d => format!("{:.1} hours", d * 24.0),
    }
}

/// The ids at both ends of every component.
pub(super) fn strongest(facts: &Facts, found: &[Components]) -> Section {
    let mut items = Vec::new();
    for (mode, (ids, found)) in facts.ids.iter().zip(found).enumerate() {
        if facts.model.is_held(mode) || ids.dim() < 2 {
            continue;
        }
        let shown = found.magnitudes.len().min(MOST_COMPONENTS);
        let mut ends: Vec<Ends> = (0..shown).map(|_| Ends::default()).collect();
        for index in (0..ids.dim()).filter(|&index| facts.model.knows(mode, index)) {
            let loadings = found.loadings(&facts.model, mode, index);
            ends.iter_mut().zip(&loadings).for_each(|(ends, &x)| ends.add(x, index));
        }
        let rows = ends.iter().enumerate().map(|(component, ends)| {
            let total: f64 = found.magnitudes.iter().map(|m| m * m).sum();
            let share = found.magnitudes[component].powi(2) / total.max(f64::MIN_POSITIVE) * 100.0;
            vec![
                format!("{} ({share:.1} %)", component + 1),
                told(ids, &ends.most, |x| x),
                told(ids, &ends.least, |x| -x),
            ]
        });
        items.push(Item::Table(Table {
            title: ids.name().into(),
            head: vec!["component".into(), "highest loadings".into(), "lowest loadings".into()],
            rows: rows.collect(),
            numbers: false,
        }));
    }
    let text = "Labels as they stood in the data, with their loading; in brackets the component's share of \
                the tensor's square.";
    Section { title: "The strongest ids of each component".into(), text: text.into(), items }
}

/// The largest, and the largest of the negatives, best first.
#[derive(Default)]
struct Ends {
    most: Vec<(f64, u32)>,
    least: Vec<(f64, u32)>,
}

impl Ends {
    fn add(&mut self, x: f64, index: u32) {
        for (list, x) in [(&mut self.most, x), (&mut self.least, -x)] {
            if list.len() < ENDS || x > list[list.len() - 1].0 {
                let at = list.partition_point(|(other, _)| *other >= x);
                list.insert(at, (x, index));
                list.truncate(ENDS);
            }
        }
    }
}

fn told(ids: &ModeIds, ends: &[(f64, u32)], sign: impl Fn(f64) -> f64) -> String {
    let one = |(x, index): &(f64, u32)| format!("{} ({:+.2})", ids.label(*index), sign(*x));
    ends.iter().map(one).collect::<Vec<_>>().join(", ")
}
