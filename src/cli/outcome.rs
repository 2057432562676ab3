//! What `complete` and `resume` say at the end, to people and to programs.

use super::Context;
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use tenfill_engine::error::Result;
use tenfill_engine::objective::LITTLE;
use tenfill_engine::run::{Config, Outcome, SplitErrors, gradient_norm};
use tenfill_engine::shard::Split;
use tenfill_engine::solver::StoppedBy;
use tenfill_engine::units::{self, digits};
use tenfill_engine::usage::Usage;

/// What is said of validation entries that are part of the model.
const REFIT: &str = " (before the last sweep, which fits these, too)";

/// A model that has learned nothing says so.
pub(super) fn say_learned(outcome: &Outcome, context: &Context) {
    if !outcome.learned {
        context.control.say(
            "the model is no better than the mean of the train values: it has learned nothing; are these the right columns? \
             Another --rank, or more entries, may tell more",
        );
    }
}

/// A low-rank part that adds little to biases alone, by this share of their RMSE, says so.
pub(super) fn say_little(over_biases: Option<f64>, context: &Context) {
    let Some(over) = over_biases.filter(|&over| over < LITTLE) else { return };
    let how = match over {
        over if over < -LITTLE => format!("{:.1} % worse than", -100.0 * over),
        over => format!("within {:.1} % of", 100.0 * over.abs().max(0.001)),
    };
    context.control.say(format!(
        "the low-rank part adds little: the RMSE is {how} that of biases alone (a mean and a number per id)"
    ));
}

/// Where entries are means of rows, their errors are not those of rows: says so, of the dataset of a run.
pub(super) fn say_joined(run: &Path, context: &Context) {
    // A run may have come without its data.
    let dataset = Config::read(run).and_then(|config| config.open_dataset(run)).ok();
    let joined = dataset.and_then(|dataset| dataset.manifest().joined());
    joined.iter().for_each(|what| context.control.say_once(what));
}

/// The outcome for people and programs.
pub(super) fn report(outcome: &Outcome, run: &Path, usage: &Usage, context: &Context) -> Result<ExitCode> {
    let peak = context.team.most(usage.peak_anon_bytes());
    let so_far = match (outcome.errors.is_empty(), outcome.validation_mse) {
        (false, _) => String::new(),
        (true, None) => format!("\n  train MSE {:.6e}", outcome.train_mse),
        (true, Some(mse)) => format!("\n  train MSE {:.6e}   validation {mse:.6e}", outcome.train_mse),
    };
    let split =
        |of: Split| outcome.errors.iter().find(|errors| errors.split == of).map_or(String::new(), line);
    let model = match (outcome.biases, outcome.penalty) {
        (false, 0.0) => String::new(),
        (biases, penalty) => format!(
            "\n  rank {}, {}, penalty {}",
            units::ranks(&outcome.rank),
            if biases { "biases" } else { "no biases" },
            digits(penalty)
        ),
    };
    let weighted = match &outcome.weights {
        Some(column) => format!("\n  errors are means weighted by {column}"),
        None => String::new(),
    };
    let kept = match outcome.best_iteration == outcome.last.iteration {
        true => String::new(),
        false => format!(", the model of iteration {} is kept", outcome.best_iteration),
    };
    context.print(format_args!(
        "{}: {} ({}), stopped by {}{kept}{model}{weighted}{so_far}{}{}{}\n  {} wall, {} CPU, peak {} of memory",
        run.display(),
        units::many(outcome.last.iteration as u64, "iteration"),
        units::many(outcome.last.passes as u64, "pass"),
        outcome.stopped_by,
        split(Split::Train),
        match split(Split::Validation) {
            told if outcome.refit => told + REFIT,
            told => told,
        },
        split(Split::Test),
        units::duration(outcome.progress.seconds),
        units::duration(outcome.progress.cpu_seconds),
        units::size(peak),
    ));
    context.print(format_args!("  the data are {}", outcome.kind));
    say_joined(run, context);
    say_learned(outcome, context);
    if outcome.learned {
        say_little(outcome.adds_little(), context);
    }
    let errors: serde_json::Map<String, serde_json::Value> = (outcome.errors.iter())
        .map(|of| {
            let SplitErrors { split, scored, mean_mse, biases_mse, weight } = of;
            let mse = scored.all.mse();
            let errors = json!({
                "mse": mse, "rmse": mse.map(f64::sqrt), "mae": scored.all.mae(),
                "r2": of.r2(), "standard_deviation": mean_mse.map(f64::sqrt),
                "mean_rmse": mean_mse.map(f64::sqrt), "biases_rmse": biases_mse.map(f64::sqrt),
                "over_biases": of.over_biases(),
                "weight": weight, "entries": scored.all.scored,
                "fallback": scored.strangers, "unscored": scored.all.unscored,
            });
            (split.name().to_string(), errors)
        })
        .collect();
    context.finish(&json!({
        "iterations": outcome.last.iteration,
        "passes": outcome.last.passes,
        "rank": outcome.rank,
        "train_mse": outcome.train_mse,
        "validation_mse": outcome.validation_mse,
        "test_mse": outcome.test_mse,
        "learned": outcome.learned,
        "data": outcome.kind,
        "weights": outcome.weights,
        "refit": outcome.refit,
        "biases": outcome.biases,
        "penalty": outcome.penalty,
        "held": outcome.held,
        "tried": outcome.tried,
        "errors": errors,
        "best_iteration": outcome.best_iteration,
        "gradient_norm": gradient_norm(&outcome.last),
        "stopped_by": outcome.stopped_by.as_str(),
        "seconds": outcome.progress.seconds,
        "cpu_seconds": outcome.progress.cpu_seconds,
        "peak_anon_bytes": peak,
    }));
    if outcome.stopped_by == StoppedBy::Interrupted {
        context.control.say(format!("`tenfill resume {}` goes on", run.display()));
        return Ok(ExitCode::from(130));
    }
    Ok(ExitCode::SUCCESS)
}

/// The RMSE of the mean and of biases alone, behind that of the model.
pub(super) fn beside(mean_mse: Option<f64>, biases_mse: Option<f64>) -> String {
    let mean = mean_mse.map(|mse| format!("mean {}", digits(mse.sqrt())));
    let biases = biases_mse.map(|mse| format!("biases alone {}", digits(mse.sqrt())));
    let others: Vec<String> = mean.into_iter().chain(biases).collect();
    if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) }
}

/// The errors on a split.
fn line(errors: &SplitErrors) -> String {
    let scored = &errors.scored;
    let Some((mse, mae)) = scored.all.mse().zip(scored.all.mae()) else { return String::new() };
    let explained = errors.r2().map_or(String::new(), |r2| format!("   R^2 {}", digits(r2)));
    let beside = beside(errors.mean_mse, errors.biases_mse);
    let fallback = match scored.fallback.scored {
        0 => String::new(),
        n => format!("   ({} by biases alone)", units::many(n, "entry")),
    };
    format!(
        "\n  {:10} MSE {mse:.6e}   RMSE {}{beside}   MAE {}{explained}{fallback}",
        errors.split.name(),
        digits(mse.sqrt()),
        digits(mae),
    )
}
