//! Feeds mutated files to the readers of tenfill: no panic, no allocation beyond the file's size.
//!
//! `tenfill-fuzz [--seconds 60] [--seed 1] [TARGET...]`

mod allocations;
mod drive;
mod mutate;
mod targets;

use std::process::ExitCode;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: allocations::Watched = allocations::Watched;

fn main() -> ExitCode {
    let (mut seconds, mut seed, mut names) = (60, 1, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|text| text.parse().ok());
        match argument.as_str() {
            "--seconds" | "--seed" => {
                let Some(number) = number() else {
                    eprintln!("{argument} wants a whole number");
                    return ExitCode::from(2);
                };
                *(if argument == "--seed" { &mut seed } else { &mut seconds }) = number;
            }
            name if targets::TARGETS.iter().any(|target| target.name == name) => names.push(argument),
            _ => {
                let known: Vec<&str> = targets::TARGETS.iter().map(|target| target.name).collect();
                eprintln!("usage: tenfill-fuzz [--seconds N] [--seed N] [{}]", known.join("|"));
                return ExitCode::from(2);
            }
        }
    }
    let mut code = ExitCode::SUCCESS;
    for target in targets::TARGETS {
        if !names.is_empty() && !names.iter().any(|name| name == target.name) {
            continue;
        }
        let end = Instant::now() + Duration::from_secs(seconds);
        match drive::drive(&target, seed, |_| Instant::now() < end) {
            Ok(done) => println!(
                "{}: {} cases in {seconds} s, {} could be read; at most {} bytes at once beyond the file's size; slowest {:?}",
                target.name, done.cases, done.read, done.largest, done.slowest
            ),
            Err(what) => {
                println!("{what}");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}
