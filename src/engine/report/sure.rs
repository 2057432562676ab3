//! How sure the model is, and whether it is right to be: calibration, and what the prior has learned.

use super::Facts;
use super::chart::{Axes, Scale, Series, bars, lines};
use super::page::{Item, Section, Table, number};
use super::plots::HALF;
use crate::model::{ModeUncertainty, Model, Uncertainty};

/// Components that are shown.
const MOST: usize = 64;

/// The probabilities of the intervals that are looked at.
pub(super) fn nominal() -> Vec<f64> {
    (1..20).map(|n| 0.05 * f64::from(n)).collect()
}

/// A component of the core: the standard deviation that values owe to it, and what it is of every mode.
struct Strength {
    size: f64,
    at: Vec<usize>,
}

/// All components, the strongest first.
fn strengths(model: &Model, uncertainty: &Uncertainty) -> Vec<Strength> {
    let mut found = Vec::new();
    model.point.core.for_each_nonzero(|place, g| {
        let at: Vec<usize> = place.iter().map(|&index| index as usize).collect();
        let of = |(&at, of): (&usize, &ModeUncertainty)| if at + 1 < of.width { of.unknown[at] } else { 1.0 };
        let square: f64 = g * g * at.iter().zip(&uncertainty.modes).map(of).product::<f64>();
        found.push(Strength { size: square.sqrt(), at });
    });
    found.sort_by(|a, b| b.size.total_cmp(&a.size));
    found
}

/// The section; none where the model does not know how sure it is.
pub(super) fn section(facts: &Facts) -> Option<Section> {
    let uncertainty = facts.model.uncertainty.as_ref()?;
    let mut items = Vec::new();
    if let (Some(covered), Some(activity)) = (&facts.covered, &facts.activity) {
        let percent = |pairs: &mut dyn Iterator<Item = (f64, f64)>| -> Vec<(f64, f64)> {
            pairs.map(|(x, y)| (100.0 * x, 100.0 * y)).collect()
        };
        let ideal = percent(&mut nominal().into_iter().map(|p| (p, p)));
        let ours = percent(&mut nominal().into_iter().zip(covered.iter().copied()));
        let axes = Axes {
            x: ("intervals of % probability", Scale::Integer),
            y: ("% of the values within", Scale::Integer),
            from_zero: true,
            steps: false,
            size: HALF,
        };
        let split = format!("{} entries", activity.split.name());
        let series = [
            Series { name: split.clone(), points: ours },
            Series { name: "as it should be".into(), points: ideal },
        ];
        let note = "Values on a grid count as far as an interval covers what is rounded to them.";
        items.extend(lines(&format!("Calibration on {split}"), note, &axes, &series).map(Item::Figure));
    }
    let strengths = strengths(&facts.model, uncertainty);
    let labels: Vec<String> = (1..=strengths.len().min(MOST)).map(|n| n.to_string()).collect();
    let values = strengths.iter().take(MOST).map(|strength| Some(strength.size)).collect();
    let axes = Axes {
        x: ("component", Scale::Integer),
        y: ("standard deviation", Scale::Number),
        from_zero: true,
        steps: false,
        size: HALF,
    };
    let note = "What values owe to each component, by the prior that was learned.";
    let spectrum = bars("The prior's spectrum", note, &axes, &labels, &[("component".into(), values)]);
    items.extend(spectrum.map(Item::Figure));
    items.push(Item::Table(parts(facts, uncertainty, &strengths)));
    let text = "Rows have a prior that is learned from all of them, and variances that say how much their entries \
                leave open. With the noise they make the standard deviation of an observation (predict --sd).";
    Some(Section { title: "How sure the model is".into(), text: text.into(), items })
}

/// Noise, biases and components beside each other, with the share that features explain.
fn parts(facts: &Facts, uncertainty: &Uncertainty, strengths: &[Strength]) -> Table {
    let unit = uncertainty.unit;
    let percent = |share: Option<f64>| share.map_or(String::new(), |share| format!("{:.0} %", 100.0 * share));
    let mut rows =
        vec![vec!["noise".into(), number(unit * uncertainty.held_out_noise.sqrt()), String::new()]];
    for (mode, ids) in facts.ids.iter().enumerate() {
        let of = &uncertainty.modes[mode];
        let explained = of.explained();
        let bias = explained.as_ref().map(|explained| explained[of.width - 1]);
        let size = unit * of.unknown[of.width - 1].sqrt();
        rows.push(vec![format!("bias of {}", ids.name()), number(size), percent(bias)]);
        let own = || strengths.iter().filter(|strength| strength.at[mode] + 1 < of.width);
        let total: f64 = own().map(|strength| strength.size.powi(2)).sum();
        if total > 0.0 {
            let share = explained.map(|explained| {
                own().map(|strength| strength.size.powi(2) * explained[strength.at[mode]]).sum::<f64>()
                    / total
            });
            rows.push(vec![format!("components of {}", ids.name()), number(total.sqrt()), percent(share)]);
        }
    }
    Table {
        title: "What values are made of".into(),
        head: vec!["part".into(), "standard deviation".into(), "of the rows, explained by features".into()],
        rows,
        numbers: true,
    }
}
