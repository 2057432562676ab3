//! Passes over the data to train MSE 1e-12: steps from chunks and then conjugate gradients, against
//! conjugate gradients alone.

use crate::cases::Place;
use crate::measure::last_line;
use std::process::Command;

/// Count passes and CPU time of --algorithm sgd against cg
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    place: Place,
    /// Seeds per instance
    #[arg(long, default_value_t = 3)]
    seeds: u64,
}

/// Name, dimensions, oversampling; rank 5.
const INSTANCES: [(&str, &str, &str); 3] = [
    ("3000^3 r5 OS10", "3000,3000,3000", "10"),
    ("10000^3 r5 OS10", "10000,10000,10000", "10"),
    ("10000^3 r5 OS5", "10000,10000,10000", "5"),
];

pub fn run(arguments: &Arguments) -> Result<(), String> {
    let place = &arguments.place;
    std::fs::create_dir_all(&place.dir).map_err(|error| error.to_string())?;
    println!("passes over the train entries to train MSE 1e-12; an epoch of sgd is one");
    println!(
        "{:16} {:>4} | {:>10} {:>6} {:>10} {:>6} | {:>10} {:>6} {:>10} {:>6} | {:>6}",
        "instance",
        "seed",
        "cg: stop",
        "passes",
        "test MSE",
        "CPU s",
        "sgd: stop",
        "passes",
        "test MSE",
        "CPU s",
        "ratio"
    );
    for (name, dims, oversampling) in INSTANCES {
        for seed in 1..=arguments.seeds {
            let (data, run) = (place.dir.join("stochastic.tenfill"), place.dir.join("stochastic-run"));
            let seed = seed.to_string();
            let mut synth = Command::new(&place.tenfill);
            synth.args(["synth", "--quiet", "--json", "--force", "--rank", "5", "--seed", &seed]);
            last_line(synth.args(["--dims", dims, "--oversampling", oversampling, "-o"]).arg(&data))?;
            let mut cells = String::new();
            let mut passes = Vec::new();
            for algorithm in ["cg", "sgd"] {
                let mut complete = Command::new(&place.tenfill);
                complete.args(["complete", "--quiet", "--json", "--force", "--rank", "5", "--seed", &seed]);
                complete.args(["--bias", "none", "--penalty", "0", "--max-iterations", "400"]);
                complete.args(["--tolerance", "1e-12"]);
                let done = last_line(complete.args(["--algorithm", algorithm, "-o"]).arg(&run).arg(&data))?;
                let number = |field: &str| done[field].as_f64().unwrap_or(f64::NAN);
                cells += &format!(
                    " | {:>10} {:>6} {:>10.2e} {:>6.1}",
                    done["stopped_by"].as_str().unwrap_or_default(),
                    number("passes"),
                    number("test_mse"),
                    number("cpu_seconds"),
                );
                passes.push(number("passes"));
                std::fs::remove_dir_all(&run).map_err(|error| error.to_string())?;
            }
            println!("{name:16} {seed:>4}{cells} | {:>6.2}", passes[0] / passes[1]);
            std::fs::remove_dir_all(&data).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}
