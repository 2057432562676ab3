//! Measures tenfill: `cargo run --release -p tenfill-bench -- SUBCOMMAND`. One file per subcommand.

mod append;
mod billion;
mod cases;
mod classes;
mod cold;
mod compare;
mod convert;
mod delays;
mod export;
mod fill;
mod hard;
mod instances;
mod iterations;
mod kernels;
mod limits;
mod measure;
mod processes;
mod ranks;
mod ratings;
mod readings;
mod scaling;
mod simulate;
mod stochastic;
mod sweeps;
mod unranked;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "tenfill-bench", about = "Measures tenfill, side by side with other programs")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Append(append::Arguments),
    Billion(billion::Arguments),
    Convert(convert::Arguments),
    Delays(delays::Arguments),
    Kernels(kernels::Arguments),
    Instances(instances::Arguments),
    Classes(classes::Arguments),
    Cold(cold::Arguments),
    Iterations(iterations::Arguments),
    Scaling(scaling::Arguments),
    Compare(compare::Arguments),
    Export(export::Arguments),
    Fill(fill::Arguments),
    Ranks(ranks::Arguments),
    Ratings(ratings::Arguments),
    Readings(readings::Arguments),
    Stochastic(stochastic::Arguments),
    Hard(hard::Arguments),
    Processes(processes::Arguments),
    Reduce(processes::ReduceArguments),
    Simulate(simulate::Arguments),
    Unranked(unranked::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Append(arguments) => append::run(&arguments),
        Command::Billion(arguments) => billion::run(&arguments),
        Command::Convert(arguments) => convert::run(&arguments),
        Command::Delays(arguments) => delays::run(&arguments),
        Command::Kernels(arguments) => kernels::run(&arguments),
        Command::Instances(arguments) => instances::run(&arguments),
        Command::Classes(arguments) => classes::run(&arguments),
        Command::Cold(arguments) => cold::run(&arguments),
        Command::Iterations(arguments) => iterations::run(&arguments),
        Command::Scaling(arguments) => scaling::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Fill(arguments) => fill::run(&arguments),
        Command::Ranks(arguments) => ranks::run(&arguments),
        Command::Ratings(arguments) => ratings::run(&arguments),
        Command::Readings(arguments) => readings::run(&arguments),
        Command::Stochastic(arguments) => stochastic::run(&arguments),
        Command::Hard(arguments) => hard::run(&arguments),
        Command::Processes(arguments) => processes::run(&arguments),
        Command::Reduce(arguments) => processes::reduce(&arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Unranked(arguments) => unranked::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tenfill-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
