//! Numbers of a book, over seeds.

use crate::record::{Book, Run};

/// The instances of a book in the order they were run.
pub fn instances(book: &Book) -> Vec<&str> {
    unique(book.runs.iter().map(|run| run.instance.as_str()))
}

/// The systems of a book in the order they were run.
pub fn systems(book: &Book) -> Vec<&str> {
    unique(book.runs.iter().map(|run| run.system.as_str()))
}

fn unique<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut all = Vec::new();
    names.for_each(|name| {
        if !all.contains(&name) {
            all.push(name);
        }
    });
    all
}

/// The runs of a system on an instance, by seed.
pub fn runs<'b>(book: &'b Book, instance: &str, system: &str) -> Vec<&'b Run> {
    book.runs.iter().filter(|run| run.instance == instance && run.system == system).collect()
}

/// The median; not a number where there is none.
pub fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    match numbers.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => numbers[n / 2],
        n => (numbers[n / 2 - 1] + numbers[n / 2]) / 2.0,
    }
}

/// The median of a number over the seeds of a system on an instance.
pub fn over_seeds(book: &Book, instance: &str, system: &str, number: impl Fn(&Run) -> f64) -> f64 {
    median(runs(book, instance, system).into_iter().map(number).collect())
}

/// A number of iterations, followed by + where not every run reached the tolerance.
pub fn iterations(book: &Book, instance: &str, system: &str) -> String {
    let runs = runs(book, instance, system);
    let more = if runs.iter().all(|run| run.stopped_by == "tolerance") { "" } else { "+" };
    format!("{}{more}", median(runs.iter().map(|run| run.iterations as f64).collect()))
}

/// Iterations, time and test error of ours and geomCG side by side.
pub fn side_by_side(book: &Book) -> String {
    let mut text =
        "| instance | seeds | iterations: ours | geomCG | CPU s: ours | geomCG | test MSE: ours | geomCG |\n\
                    |---|---|---|---|---|---|---|---|\n"
            .to_string();
    for instance in instances(book) {
        let number = |system: &str, number: fn(&Run) -> f64| over_seeds(book, instance, system, number);
        let cpu = |run: &Run| run.cpu_seconds;
        let test = |run: &Run| run.test_mse;
        text += &format!(
            "| {instance} | {} | {} | {} | {:.2} | {:.2} | {:.1e} | {:.1e} |\n",
            runs(book, instance, "ours").len(),
            iterations(book, instance, "ours"),
            iterations(book, instance, "geomCG"),
            number("ours", cpu),
            number("geomCG", cpu),
            number("ours", test),
            number("geomCG", test),
        );
    }
    text + "\n`+`: not every run came to the tolerance.\n"
}

/// The first iteration of every run of a system whose train MSE is at most this, by seed.
pub fn reached(book: &Book, instance: &str, system: &str, level: f64) -> Vec<(u64, Option<usize>)> {
    let one = |run: &Run| {
        let steps = book.steps.iter().filter(|step| {
            step.instance == instance
                && step.system == system
                && step.seed == run.seed
                && step.train_mse <= level
        });
        (run.seed, steps.map(|step| step.iteration).min())
    };
    runs(book, instance, system).into_iter().map(one).collect()
}
