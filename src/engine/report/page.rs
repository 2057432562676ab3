//! The page around the plots.

use super::Facts;
use super::chart::{COLOURS, Figure};
use crate::units;
use std::fmt::Write;

/// A part of the page.
pub(super) struct Section {
    pub title: String,
    pub text: String,
    pub items: Vec<Item>,
}

/// What a section holds.
pub(super) enum Item {
    Figure(Figure),
    Table(Table),
}

/// Rows of text; the first column is a heading.
pub(super) struct Table {
    pub title: String,
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// Whether all columns but the first are numbers.
    pub numbers: bool,
}

impl Section {
    pub(super) fn figures(&self) -> usize {
        self.items.iter().filter(|item| matches!(item, Item::Figure(_))).count()
    }
}

/// Text that cannot be taken for markup.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// The whole page.
pub(super) fn page(facts: &[Facts], sections: &[Section]) -> String {
    let names: Vec<&str> = facts.iter().map(|facts| facts.name.as_str()).collect();
    let title = match names.as_slice() {
        [one] => one.to_string(),
        several => several.join(" · "),
    };
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>{0} · tenfill</title>\n<style>{1}</style>\n</head>\n<body>\n<main>\n\
         <header><h1>{0}</h1>{2}</header>\n",
        escape(&title),
        include_str!("page.css"),
        if facts.len() == 1 { tiles(&facts[0]) } else { String::new() },
    );
    for section in sections {
        let _ = write!(out, "<section>\n<h2>{}</h2>\n", escape(&section.title));
        if !section.text.is_empty() {
            let _ = writeln!(out, "<p>{}</p>", escape(&section.text));
        }
        out.push_str("<div class=\"grid\">\n");
        for item in &section.items {
            match item {
                Item::Figure(figure) => out.push_str(&figure_html(figure)),
                Item::Table(table) => out.push_str(&table_html(table)),
            }
        }
        out.push_str("</div>\n</section>\n");
    }
    let version = env!("CARGO_PKG_VERSION");
    let _ = write!(out, "<footer>tenfill {version} report</footer>\n</main>\n</body>\n</html>\n");
    out
}

/// The figures that everybody looks for first.
fn tiles(facts: &Facts) -> String {
    let about = &facts.model.about;
    let dims: Vec<String> =
        facts.ids.iter().map(|mode| format!("{} {}", units::count(mode.dim().into()), mode.name())).collect();
    let [train, validation, test] = facts.entries.map(units::count);
    let rank = about.rank.iter().map(usize::to_string).collect::<Vec<_>>().join(" × ");
    let weighted = about
        .weights
        .as_ref()
        .map_or(String::new(), |column| format!(" · all errors are weighted by {column}"));
    let kept = about.transform().map_or(String::new(), |transform| {
        format!(
            " · values are fitted as their {0}, and the errors by iteration and time are of that",
            transform.name()
        )
    });
    let line = format!(
        "{} · {train} train, {validation} validation, {test} test entries{weighted}{kept}",
        dims.join(" × ")
    );
    let mut tiles: Vec<(&str, String)> = vec![("rank", rank), ("iteration", about.iteration.to_string())];
    if let Some(activity) = &facts.activity
        && let Some(rmse) = activity.total.rmse()
    {
        let name = match activity.split {
            crate::shard::Split::Test => "test RMSE",
            crate::shard::Split::Validation => "validation RMSE",
            crate::shard::Split::Train => "train RMSE",
        };
        tiles.push((name, number(rmse)));
    }
    let nothing = facts.activity.as_ref().is_some_and(|activity| !activity.learned());
    if nothing {
        tiles.push(("learned", "nothing".into()));
    }
    let judged = facts.activity.as_ref().map(|activity| activity.split);
    if let Some(beside) = facts.end.as_ref().zip(judged).and_then(|(end, split)| end.errors.get(split.name()))
    {
        tiles.extend(beside.biases_rmse.map(|rmse| ("biases alone", number(rmse))));
        tiles.extend(beside.mean_rmse.map(|rmse| ("the mean", number(rmse))));
    }
    if let Some(mse) = about.validation_mse.filter(|_| judged != Some(crate::shard::Split::Validation)) {
        tiles.push(("validation RMSE", number(mse.sqrt())));
    }
    if judged != Some(crate::shard::Split::Train) {
        tiles.push(("train RMSE", number(about.train_mse.sqrt())));
    }
    if let Some(seconds) = facts.seconds() {
        tiles.push(("time", units::duration(seconds)));
    }
    let tiles: String = tiles
        .iter()
        .map(|(name, value)| format!("<div class=\"tile\"><span>{name}</span><b>{}</b></div>", escape(value)))
        .collect();
    let warning = match nothing {
        true => {
            "<p><strong>The model is no better than the mean of the train values: it has learned nothing.</strong></p>"
        }
        false => "",
    };
    format!("<p>{}</p>{warning}<div class=\"tiles\">{tiles}</div>", escape(&line))
}

/// Four digits that matter.
pub(super) fn number(x: f64) -> String {
    if x == 0.0 || (1e-3..1e5).contains(&x.abs()) { format!("{x:.4}") } else { format!("{x:.3e}") }
}

fn figure_html(figure: &Figure) -> String {
    let class = if figure.half { "half" } else { "full" };
    let legend = if figure.legend.len() < 2 {
        String::new()
    } else {
        let keys: String = figure
            .legend
            .iter()
            .enumerate()
            .map(|(number, name)| {
                format!("<li><i class=\"c{}\"></i>{}</li>", number % COLOURS + 1, escape(name))
            })
            .collect();
        format!("<ul class=\"legend\">{keys}</ul>")
    };
    let note =
        if figure.note.is_empty() { String::new() } else { format!("<p>{}</p>", escape(&figure.note)) };
    format!(
        "<figure class=\"{class}\">\n<figcaption><h3>{0}</h3>{note}{legend}</figcaption>\n\
         <div class=\"plot\" role=\"img\" aria-label=\"{0}\">{1}</div>\n</figure>\n",
        escape(&figure.title),
        figure.svg
    )
}

fn table_html(table: &Table) -> String {
    let cells = |cells: &[String], tag: &str| -> String {
        cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect()
    };
    let rows: String = table
        .rows
        .iter()
        .map(|row| {
            let (first, rest) =
                row.split_first().map_or(("", &row[..]), |(first, rest)| (first.as_str(), rest));
            format!("<tr><th scope=\"row\">{}</th>{}</tr>\n", escape(first), cells(rest, "td"))
        })
        .collect();
    let head: String =
        table.head.iter().map(|cell| format!("<th scope=\"col\">{}</th>", escape(cell))).collect();
    let class = if table.numbers { " class=\"numbers\"" } else { "" };
    let title =
        if table.title.is_empty() { String::new() } else { format!("<h3>{}</h3>", escape(&table.title)) };
    format!(
        "<div class=\"table\">{title}<table{class}>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n"
    )
}
