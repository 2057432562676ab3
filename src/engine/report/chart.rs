//! Charts as SVG, drawn by plotters, coloured by the page.
//!
//! plotters writes colours into the SVG; what it writes here are marks that stand for roles (text,
//! grid, series), which are then replaced by CSS variables: the same drawing is light or dark with
//! the page around it, and black on white on paper.

use plotters::coord::Shift;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;
use plotters::style::RGBColor;

/// Series that have a colour of their own; more than these take the colours again.
pub const COLOURS: usize = 8;
/// More points than this tell nothing more on a page.
const MOST_POINTS: usize = 1500;

const TEXT: RGBColor = RGBColor(2, 0, 1);
const GRID: RGBColor = RGBColor(2, 0, 2);
const AXIS: RGBColor = RGBColor(2, 0, 3);

fn series_colour(number: usize) -> RGBColor {
    RGBColor(1, 0, (number % COLOURS) as u8 + 1)
}

/// A named sequence of points.
pub struct Series {
    /// For the legend.
    pub name: String,
    /// In the order of the line; one that is not finite breaks it.
    pub points: Vec<(f64, f64)>,
}

/// How an axis says its numbers.
#[derive(Clone, Copy, PartialEq)]
pub enum Scale {
    /// As they are.
    Number,
    /// Whole numbers only.
    Integer,
    /// Powers of ten; the points are logarithms.
    Log,
    /// Seconds since 1970.
    Date,
    /// In units of 1024.
    Bytes,
    /// Times.
    Seconds,
}

impl Scale {
    fn show(self, x: f64) -> String {
        match self {
            Scale::Integer => format!("{x:.0}"),
            Scale::Log if (x - x.round()).abs() < 1e-9 => match x.round() as i32 {
                power @ -2..=4 => format!("{}", 10f64.powi(power)),
                power => format!("1e{power}"),
            },
            Scale::Log => short(10f64.powf(x)),
            Scale::Date => {
                let date: String = crate::times::format_time(x).chars().take(10).collect();
                date.strip_suffix("-01").map_or(date.clone(), str::to_string)
            }
            Scale::Bytes => crate::units::size(x.max(0.0) as u64),
            Scale::Seconds if x.abs() < 1.0 => format!("{} ms", short(x * 1e3)),
            Scale::Seconds => format!("{} s", short(x)),
            Scale::Number => short(x),
        }
    }
}

/// A number with few digits.
fn short(x: f64) -> String {
    let size = x.abs();
    let text = match size {
        0.0 => return "0".into(),
        s if !(1e-3..1e5).contains(&s) => return format!("{x:.1e}"),
        s if s >= 100.0 => format!("{x:.0}"),
        s if s >= 1.0 => format!("{x:.2}"),
        _ => format!("{x:.4}"),
    };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// A chart for the page.
pub struct Figure {
    /// Above it.
    pub title: String,
    /// Below the title; may be empty.
    pub note: String,
    /// The drawing. Colours are CSS variables: `--muted`, `--grid`, `--axis`, and `--s1` to `--s8`.
    pub svg: String,
    /// Names in the order of the colours; one alone needs no legend.
    pub legend: Vec<String>,
    /// Whether two of them fit beside each other.
    pub half: bool,
}

/// What the axes are.
pub struct Axes<'t> {
    /// What goes to the right.
    pub x: (&'t str, Scale),
    /// What goes up.
    pub y: (&'t str, Scale),
    /// Whether the vertical axis begins at 0.
    pub from_zero: bool,
    /// Lines go level from point to point.
    pub steps: bool,
    /// Width and height.
    pub size: (u32, u32),
}

fn bounds(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|x| x.is_finite()).fold(None, |bounds, x| match bounds {
        None => Some((x, x)),
        Some((least, most)) => Some((least.min(x), most.max(x))),
    })
}

fn widened((least, most): (f64, f64), share: f64) -> (f64, f64) {
    let room = if most > least { (most - least) * share } else { least.abs().max(1.0) * 0.05 };
    (least - room, most + room)
}

/// Lines; `None` where there is no point.
pub fn lines(title: &str, note: &str, axes: &Axes<'_>, series: &[Series]) -> Option<Figure> {
    let points = || series.iter().flat_map(|series| &series.points);
    let x = bounds(points().map(|point| point.0))?;
    let y = bounds(points().map(|point| point.1))?;
    let x = if x.0 == x.1 { widened(x, 0.0) } else { x };
    let mut y = widened(y, 0.06);
    if axes.from_zero {
        y.0 = 0.0;
    }
    let svg = draw(axes.size, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(16)
            .x_label_area_size(40)
            .y_label_area_size(62)
            .build_cartesian_2d(Axis::new(x, axes.x.1), Axis::new(y, axes.y.1))?;
        mesh(&mut chart, axes)?;
        for (number, series) in series.iter().enumerate() {
            let colour = series_colour(number);
            let whole = |point: &(f64, f64)| point.0.is_finite() && point.1.is_finite();
            for stretch in series.points.split(|point| !whole(point)).filter(|stretch| !stretch.is_empty()) {
                let mut points = thinned(stretch);
                if axes.steps {
                    let next = points.iter().skip(1).map(|point| point.0).chain([x.1]);
                    let level = points.iter().zip(next).flat_map(|(&(x, y), next)| [(x, y), (next, y)]);
                    points = level.collect();
                }
                if points.len() == 1 {
                    chart.draw_series(points.iter().map(|&at| Circle::new(at, 4, colour.filled())))?;
                } else {
                    chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
                }
            }
        }
        Ok(())
    })?;
    let legend = series.iter().map(|series| series.name.clone()).collect();
    Some(Figure { title: title.into(), note: note.into(), svg, legend, half: axes.size.0 < 500 })
}

/// Bars in groups: one group per label, one bar per series in it.
pub(super) fn bars(
    title: &str,
    note: &str,
    axes: &Axes<'_>,
    labels: &[String],
    series: &[(String, Vec<Option<f64>>)],
) -> Option<Figure> {
    let values = || series.iter().flat_map(|(_, values)| values.iter().flatten().copied());
    let (least, most) = bounds(values())?;
    let most = most.max(0.0) + (most - least.min(0.0)).abs() * 0.06;
    let y = (least.min(0.0), if most > least.min(0.0) { most } else { 1.0 });
    let x = (-0.5, labels.len() as f64 - 0.5);
    let width = 0.8 / series.len() as f64;
    let svg = draw(axes.size, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .x_label_area_size(40)
            .y_label_area_size(62)
            .build_cartesian_2d(Axis::named(x, labels), Axis::new(y, axes.y.1))?;
        mesh(&mut chart, axes)?;
        for (number, (_, values)) in series.iter().enumerate() {
            let left = -0.4 + number as f64 * width;
            // A gap of a tenth tells neighbours apart without an outline.
            let bar = |(at, value): (usize, f64)| {
                let x = at as f64 + left;
                let corners = [(x + width * 0.05, 0.0), (x + width * 0.95, value)];
                Rectangle::new(corners, series_colour(number).filled())
            };
            let values = values.iter().enumerate().filter_map(|(at, value)| Some((at, (*value)?)));
            chart.draw_series(values.map(bar))?;
        }
        Ok(())
    })?;
    let legend = series.iter().map(|(name, _)| name.clone()).collect();
    Some(Figure { title: title.into(), note: note.into(), svg, legend, half: axes.size.0 < 500 })
}

type Drawn = Result<(), Box<dyn std::error::Error>>;
type Area<'s> = DrawingArea<SVGBackend<'s>, Shift>;

/// Draws and colours; drawing into a string fails only where plotters does, and then there is no
/// chart.
fn draw(size: (u32, u32), work: impl Fn(&Area<'_>) -> Drawn) -> Option<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        work(&area).ok()?;
        area.present().ok()?;
    }
    Some(themed(svg))
}

/// Puts the roles in the place of the marks.
fn themed(svg: String) -> String {
    let hex = |RGBColor(r, g, b): RGBColor| format!("#{r:02X}{g:02X}{b:02X}");
    let mut svg = svg.replace(&hex(TEXT), "var(--muted)").replace(&hex(GRID), "var(--grid)");
    svg = svg.replace(&hex(AXIS), "var(--axis)");
    for number in 0..COLOURS {
        svg = svg.replace(&hex(series_colour(number)), &format!("var(--s{})", number + 1));
    }
    svg
}

fn mesh<'s>(chart: &mut ChartContext<'_, SVGBackend<'s>, Cartesian2d<Axis, Axis>>, axes: &Axes<'_>) -> Drawn {
    let font = ("sans-serif", 12).into_font().color(&TEXT);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID.stroke_width(1))
        .axis_style(AXIS.stroke_width(1))
        .label_style(font.clone())
        .axis_desc_style(font)
        .x_labels(if axes.size.0 < 500 { 5 } else { 9 })
        .y_labels(6)
        .x_desc(axes.x.0)
        .y_desc(axes.y.0)
        .draw()?;
    Ok(())
}

/// Every n-th point, and the last.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let step = points.len().div_ceil(MOST_POINTS).max(1);
    let mut few: Vec<(f64, f64)> = points.iter().copied().step_by(step).collect();
    if few.last() != points.last() {
        few.extend(points.last());
    }
    few
}

/// A range of numbers that says them in its own way.
struct Axis {
    range: (f64, f64),
    scale: Scale,
    names: Option<Vec<String>>,
}

impl Axis {
    fn new(range: (f64, f64), scale: Scale) -> Self {
        Axis { range, scale, names: None }
    }

    fn named(range: (f64, f64), names: &[String]) -> Self {
        Axis { range, scale: Scale::Number, names: Some(names.to_vec()) }
    }
}

impl Ranged for Axis {
    type FormatOption = plotters::coord::ranged1d::NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = (value - self.range.0) / (self.range.1 - self.range.0);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: plotters::coord::ranged1d::KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if let Some(names) = &self.names {
            return (0..names.len()).map(|at| at as f64).collect();
        }
        let count = hint.max_num_points().clamp(2, 12);
        match self.scale {
            Scale::Date => super::ticks::dates(self.range, count),
            Scale::Log => super::ticks::logarithms(self.range, count),
            Scale::Bytes => super::ticks::bytes(self.range, count),
            Scale::Integer => super::ticks::plain(self.range, count, 1.0),
            Scale::Number | Scale::Seconds => super::ticks::plain(self.range, count, 0.0),
        }
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.range.0..self.range.1
    }
}

impl ValueFormatter<f64> for Axis {
    fn format(value: &f64) -> String {
        short(*value)
    }

    fn format_ext(&self, value: &f64) -> String {
        match &self.names {
            Some(names) => names.get(value.round() as usize).cloned().unwrap_or_default(),
            None => self.scale.show(*value),
        }
    }
}
