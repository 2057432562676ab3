//! What a completed run says: `cargo run --release --example predict -- RUN ID ID ...`, an id for each mode.

use tenfill::Run;

fn main() -> tenfill::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((run, ids)) = arguments.split_first().filter(|(_, ids)| !ids.is_empty()) else {
        eprintln!("usage: predict RUN ID ID ...");
        std::process::exit(2);
    };
    let run = Run::open(run)?;
    let model = run.model()?;
    let prediction = model.predict(ids)?;
    let known = if prediction.known { "" } else { " (from biases alone: an id is unknown)" };
    println!("{}: {:.4}{known}", ids.join(", "), prediction.value);

    let modes = model.modes();
    let (first, second) = (modes[0], modes[1]);
    println!("the best of {second} for {first} {}:", ids[0]);
    for best in run.recommend(&[(first, ids[0].as_str())], second, 5)? {
        println!("  {:12} {:.4}", best.id, best.prediction.value);
    }
    Ok(())
}
