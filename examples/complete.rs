//! A ratings file to a model, with the log on the way:
//! `cargo run --release --example complete -- tests/data/ratings.csv FOLDER`.

use std::ops::ControlFlow;
use std::path::PathBuf;
use tenfill::{Completion, ConvertOptions, Split};

fn main() -> tenfill::Result<()> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(table), Some(folder)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: complete TABLE FOLDER");
        std::process::exit(2);
    };
    let dataset = ConvertOptions::new([&table]).force(true).convert(folder.join("data.tenfill"))?;
    println!("{} = {:?}", dataset.modes().join(" x "), dataset.dims());
    let run = Completion::new(&dataset)
        .rank([4])
        .memory(tenfill::parse_size("256M")?)
        .observe(|line| {
            let validation = line.validation_rmse.unwrap_or(f64::NAN);
            println!(
                "{:4}  train {:.4}  validation {validation:.4}",
                line.iteration.iteration, line.train_rmse
            );
            ControlFlow::Continue(())
        })
        .force(true)
        .run(folder.join("run"))?;
    let test = run.evaluate(Split::Test)?;
    println!("test RMSE {:.4} over {} entries", test.rmse(), test.entries);
    Ok(())
}
