//! Figures in the paper's form: mean squared error on a logarithmic axis, a colour per system, all seeds
//! in the colour of their system.

use crate::Result;
use std::path::Path;
use tenfill_engine::report::{Axes, COLOURS, Scale, Series, lines};

/// On white, by role and by series.
const PLAIN: [(&str, &str); 3] = [("muted", "#555555"), ("grid", "#e2e2e2"), ("axis", "#999999")];
const SERIES: [&str; COLOURS] =
    ["#c0392b", "#2257a8", "#2e8b57", "#8e5bb5", "#d98a1c", "#17869c", "#7a5230", "#444444"];
const SIZE: (u32, u32) = (560, 340);
const HEAD: usize = 30;
const LEGEND_LINE: usize = 20;

/// A system's curves, one per seed.
pub struct Curves {
    /// For the legend.
    pub name: String,
    /// Points of each run.
    pub runs: Vec<Vec<(f64, f64)>>,
}

/// Writes the mean squared error against something as an SVG; nothing where there is nothing to show.
pub fn errors(path: &Path, title: &str, x: (&str, Scale), curves: &[Curves]) -> Result<()> {
    let y = ("mean squared error", Scale::Log);
    let logarithm = |&(x, y): &(f64, f64)| (x, if y > 0.0 { y.log10() } else { f64::NAN });
    let series: Vec<Series> = curves.iter().map(|curves| joined(curves, logarithm)).collect();
    write(path, title, &Axes { x, y, from_zero: false, steps: false, size: SIZE }, &series)
}

/// Writes plain lines as an SVG.
pub fn plain(path: &Path, title: &str, x: (&str, Scale), y: (&str, Scale), curves: &[Curves]) -> Result<()> {
    let series: Vec<Series> = curves.iter().map(|curves| joined(curves, |point| *point)).collect();
    write(path, title, &Axes { x, y, from_zero: false, steps: false, size: SIZE }, &series)
}

/// One series of all runs, with a break between them.
fn joined(curves: &Curves, each: impl Fn(&(f64, f64)) -> (f64, f64)) -> Series {
    let gap = (f64::NAN, f64::NAN);
    let points = curves.runs.iter().flat_map(|run| run.iter().map(&each).chain([gap])).collect();
    Series { name: curves.name.clone(), points }
}

fn write(path: &Path, title: &str, axes: &Axes<'_>, series: &[Series]) -> Result<()> {
    let Some(figure) = lines(title, "", axes, series) else { return Ok(()) };
    let mut chart = figure.svg;
    for (role, colour) in PLAIN {
        chart = chart.replace(&format!("var(--{role})"), colour);
    }
    for (number, colour) in SERIES.iter().enumerate() {
        chart = chart.replace(&format!("var(--s{})", number + 1), colour);
    }
    let chart = chart.replacen("<svg ", &format!("<svg y=\"{HEAD}\" "), 1);
    let (width, height) = (axes.size.0 as usize, axes.size.1 as usize);
    let total = HEAD + height + LEGEND_LINE * series.len().div_ceil(2) + 8;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{total}\" \
         viewBox=\"0 0 {width} {total}\" font-family=\"sans-serif\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"12\" y=\"20\" font-size=\"14\" fill=\"#222222\">{}</text>\n{chart}\n",
        escaped(title)
    );
    for (number, series) in series.iter().enumerate() {
        let (x, y) = (70 + number % 2 * (width / 2 - 30), HEAD + height + 14 + number / 2 * LEGEND_LINE);
        svg += &format!(
            "<rect x=\"{x}\" y=\"{}\" width=\"18\" height=\"3\" fill=\"{}\"/>\
             <text x=\"{}\" y=\"{y}\" font-size=\"12\" fill=\"#222222\">{}</text>\n",
            y - 5,
            SERIES[number % COLOURS],
            x + 26,
            escaped(&series.name)
        );
    }
    svg += "</svg>\n";
    std::fs::write(path, svg).map_err(|error| format!("{}: {error}", path.display()))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_has_its_title_its_names_and_no_colour_left_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("figure.svg");
        let run = |by: f64| (0..20).map(|k| (f64::from(k), by.powi(k))).collect::<Vec<_>>();
        let curves = [
            Curves { name: "ours".into(), runs: vec![run(0.3), run(0.35)] },
            Curves { name: "a < b".into(), runs: vec![run(0.7)] },
        ];
        errors(&path, "S2 & more", ("iteration", Scale::Integer), &curves).unwrap();
        let svg = std::fs::read_to_string(&path).unwrap();
        assert!(svg.contains("S2 &amp; more") && svg.contains(">ours<") && svg.contains("a &lt; b"));
        assert!(!svg.contains("var(") && svg.contains(SERIES[0]) && svg.contains(SERIES[1]));
        // Two runs of one system are two lines, not one that goes back.
        assert_eq!(svg.matches(&format!("stroke=\"{}\"", SERIES[0])).count(), 2);
        errors(&path, "nothing", ("iteration", Scale::Integer), &[]).unwrap();
    }
}
