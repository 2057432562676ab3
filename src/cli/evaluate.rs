//! `tenfill evaluate`.

use super::{Context, default_threads};
use crate::error::Result;
use crate::model::{Model, evaluate_file, evaluate_split};
use crate::run::Config;
use crate::shard::Split;
use crate::units;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Measure the error of a run's model
///
/// On the test entries of its dataset, on another split, or on a file with the same columns.
/// Entries with an id that has no train entries are scored by the biases of their other ids, or not
/// at all where the model has no biases; both are counted.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tenfill evaluate run
  tenfill evaluate run --on validation
  tenfill evaluate run --on new-ratings.csv --json")]
pub(super) struct Arguments {
    /// The run
    run: PathBuf,
    /// test, validation, train, or a file
    #[arg(long, default_value = "test", value_name = "SPLIT|FILE")]
    on: String,
    /// Threads [default: one per core]
    #[arg(long)]
    threads: Option<usize>,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode> {
    let model = Model::read(&arguments.run)?;
    let threads = arguments.threads.unwrap_or_else(default_threads);
    let split = Split::ALL.into_iter().find(|split| split.name() == arguments.on);
    let found = match split {
        Some(split) => {
            let dataset = Config::read(&arguments.run)?.open_dataset(&arguments.run)?;
            evaluate_split(&model, &dataset, split)?
        }
        None => evaluate_file(&model, Path::new(&arguments.on), threads, &context.control)?,
    };
    let unscored = match found.unscored {
        0 => String::new(),
        n => format!(
            "\n  {} entries have an id without train entries and could not be scored",
            units::count(n)
        ),
    };
    let fallback = match found.fallback {
        0 => String::new(),
        n => format!(
            "\n  {} of them have an id without train entries and were scored by biases",
            units::count(n)
        ),
    };
    let outside = match found.outside_bins {
        0 => String::new(),
        n => format!("\n  {} entries lie outside the bins and were taken as the nearest", units::count(n)),
    };
    // Where nothing could be scored there is no error to tell.
    let figure = |x: f64| if found.entries > 0 { json!(x) } else { json!(null) };
    if found.entries > 0 {
        context.print(format_args!(
            "{} on {}: {} entries\n  MSE  {:.6e}\n  RMSE {:.6}\n  MAE  {:.6}{fallback}{unscored}{outside}",
            arguments.run.display(),
            arguments.on,
            units::count(found.entries),
            found.mse,
            found.rmse(),
            found.mae,
        ));
    } else {
        context.print(format_args!(
            "{} on {}: no entry could be scored{unscored}",
            arguments.run.display(),
            arguments.on
        ));
    }
    context.finish(&json!({
        "mse": figure(found.mse),
        "rmse": figure(found.rmse()),
        "mae": figure(found.mae),
        "entries": found.entries,
        "fallback": found.fallback,
        "unscored": found.unscored,
        "outside_bins": found.outside_bins,
    }));
    Ok(ExitCode::SUCCESS)
}
