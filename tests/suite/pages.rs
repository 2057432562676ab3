//! What pages print is what their commands print, to a few digits: they go stale where nobody compares.

use crate::common::{folder, stderr, tenfill};
use std::fs;
use std::path::Path;
use tenfill_engine::Model;
use tenfill_engine::model::{Place, Places};

const RATINGS: &str = "tests/data/ratings.csv";

fn page(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// The blocks of a page that are marked as being of a kind.
fn blocks<'p>(page: &'p str, kind: &str) -> Vec<&'p str> {
    let begin = format!("```{kind}\n");
    page.split(&begin).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// The arguments of the commands of blocks, without what is said about them.
fn commands(page: &str) -> Vec<Vec<&str>> {
    let lines = blocks(page, "sh").into_iter().flat_map(str::lines);
    let words = lines.map(|line| line.split('#').next().unwrap().split_whitespace().collect::<Vec<_>>());
    words
        .filter_map(|words| match words.as_slice() {
            ["tenfill", rest @ ..] | ["cargo", "run", "--release", "--", rest @ ..] => Some(rest.to_vec()),
            _ => None,
        })
        .collect()
}

/// A text as words with a mark for every number, and the numbers.
fn told(text: &str) -> (String, Vec<f64>) {
    let is_part = |c: char| c.is_ascii_digit() || ".eE+-".contains(c);
    let (mut words, mut numbers, mut rest) = (String::new(), Vec::new(), text);
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        // A number may have a full stop behind it.
        let number = (1..=end).rev().find_map(|end| Some((end, rest[..end].parse::<f64>().ok()?)));
        let after_word = words.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let end = match number.filter(|_| !after_word) {
            Some((end, number)) => {
                numbers.push(number);
                words.push('#');
                end
            }
            None => {
                words.push(first);
                first.len_utf8()
            }
        };
        rest = &rest[end..];
    }
    (words, numbers)
}

/// Whether numbers of a page are those of a command.
fn same(ours: &[f64], printed: &[f64]) -> bool {
    let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-3 * b.abs();
    ours.len() == printed.len() && ours.iter().zip(printed).all(close)
}

/// A folder with the ratings where the commands look for them.
fn prepared() -> tempfile::TempDir {
    let place = folder();
    fs::create_dir_all(place.path().join("tests/data")).unwrap();
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join(RATINGS), place.path().join(RATINGS)).unwrap();
    place
}

/// What a command prints.
fn run(directory: &Path, arguments: &[&str]) -> String {
    let output = tenfill(directory).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    format!("{}{}", String::from_utf8_lossy(&output.stdout), stderr(&output))
}

#[test]
fn the_readme_prints_what_its_commands_print() {
    let readme = page("README.md");
    let place = prepared();
    let commands = commands(&readme);
    let printed: Vec<String> = commands.iter().map(|words| run(place.path(), words)).collect();
    let of = |command: &str| {
        let number = commands.iter().position(|words| words[0] == command);
        &printed[number.unwrap_or_else(|| panic!("no {command} in the README"))]
    };
    assert!(commands.len() >= 8 && commands[0].contains(&RATINGS), "{commands:?}");
    let [first, best, ..] = blocks(&readme, "text")[..] else { panic!("two outputs") };
    let is_measured = |line: &&str| line.contains(" wall, ");
    assert_eq!(first.lines().filter(is_measured).count(), 1);
    for (block, output) in [(first, &printed[0]), (best, of("recommend"))] {
        for line in block.lines().filter(|line| !is_measured(line)) {
            let (words, numbers) = told(line);
            let found = output.lines().map(told).any(|(other, real)| other == words && same(&numbers, &real));
            assert!(found, "the README has the line\n{line}\nand the program prints\n{output}");
        }
    }
}

#[test]
fn the_way_of_a_row_ends_with_what_the_model_says() {
    let place = prepared();
    let readme = page("README.md");
    run(place.path(), &commands(&readme)[0]);
    let model = Model::read(&place.path().join("target/demo")).unwrap();
    fs::write(place.path().join("q.csv"), "userId,movieId,timestamp\n1,25,2000-07-15\n").unwrap();
    let answer = run(place.path(), &["predict", "target/demo", "q.csv"]);
    let answer: f64 = answer.lines().nth(1).unwrap().split(',').nth(3).unwrap().parse().unwrap();

    let at = [0, 24, 28];
    let biases = model.biases.as_ref().unwrap();
    let [user, movie, week] = [0, 1, 2].map(|mode| biases.modes[mode][at[mode] as usize]);
    let sum = Places::new(&model, &[false; 3]).raw(&at.map(Place::Index)).0;
    let tensor = sum - biases.mean - user - movie - week;
    let real = [biases.mean, user, movie, week, tensor, sum];

    let design = page("docs/design.md");
    let told_of = |begin: &str, end: &str| {
        let rest = design.split(begin).nth(1).unwrap_or_else(|| panic!("design.md: {begin}"));
        told(&rest.split(end).next().unwrap().replace('\n', " ")).1
    };
    let close = |page: &[f64], real: &[f64]| {
        let near = page.iter().zip(real).all(|(page, real)| (page - real).abs() < 2e-4);
        assert!(page.len() == real.len() && near, "design.md has {page:?}, the model {real:?}");
    };
    close(&told_of("adds up: ", " The range is"), &real);
    close(&told_of("and its noise: **", "**"), &[answer]);
}
