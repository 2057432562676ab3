//! `tenfill evaluate`.

use super::outcome::{beside, say_joined, say_little};
use super::predict::in_pool;
use super::{Context, given, parse_threads};
use serde_json::json;
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tenfill_engine::answer::{
    NOMINAL, Observed, RankingMetrics, RankingQuestion, SeenEntries, evaluate_file, evaluate_split,
    ranking_metrics, read_entries,
};
use tenfill_engine::error::{Error, Result};
use tenfill_engine::ingest::{Encoding, Source};
use tenfill_engine::model::{ModeIds, Model, Place};
use tenfill_engine::run::Config;
use tenfill_engine::shard::Split;
use tenfill_engine::units;

/// Measure the error of a run's model
///
/// On the test entries of its dataset, on another split, or on a file with the same columns.
/// Entries with an id that has no train entries are scored by the biases of their other ids, or not
/// at all where the model has no biases; both are counted. Beside the error stand those of the mean and of
/// biases alone (a mean and a number per id, fitted at the end of the run). Where the model knows how sure it is,
/// it is also told how many of the values its intervals of 50, 80 and 95 % cover.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tenfill evaluate run
  tenfill evaluate run --on validation
  tenfill evaluate run --on new-ratings.csv --json
  tenfill evaluate run --top 10 --rank-mode movieId --relevant 4      precision, recall and NDCG at 10")]
pub(super) struct Arguments {
    /// The run
    run: PathBuf,
    /// test, validation, train, or a file
    #[arg(long, default_value = "test", value_name = "SPLIT|FILE")]
    on: String,
    /// The encoding of a file of text: utf-8, latin1, utf-16, windows-1250, shift_jis, ... [default: found; else UTF-8]
    #[arg(long, value_name = "NAME", value_parser = Encoding::parse)]
    encoding: Option<Encoding>,
    /// Also rank: how many ids are recommended
    #[arg(long, short = 'k', value_name = "K", requires = "rank_mode", help_heading = "Ranking")]
    top: Option<usize>,
    /// The mode whose ids are ranked
    #[arg(long, value_name = "MODE", requires = "top", help_heading = "Ranking")]
    rank_mode: Option<String>,
    /// The mode whose ids are recommended to [default: the only one that is left and has no bins]
    #[arg(long = "for", value_name = "MODE", requires = "top", help_heading = "Ranking")]
    each: Option<String>,
    /// Held-out entries of at least this value are relevant [default: all]
    #[arg(long, value_name = "VALUE", requires = "top", help_heading = "Ranking")]
    relevant: Option<f64>,
    /// A mode that is the same for all: an id, a date, 'latest' (of bins) or 'average'
    #[arg(long, value_name = "MODE=ID", value_parser = given::parse, requires = "top", help_heading = "Ranking")]
    given: Vec<given::Given>,
    /// Threads [default: one per core]
    #[arg(long, value_parser = parse_threads)]
    threads: Option<usize>,
}

/// Precision, recall and NDCG, where they are asked for.
fn ranking(
    arguments: &Arguments,
    model: &Model,
    on: &On,
    threads: usize,
    context: &Context,
) -> Result<Option<RankingMetrics>> {
    let (Some(top), Some(rank_mode)) = (arguments.top, &arguments.rank_mode) else { return Ok(None) };
    let ids = ModeIds::of_all(model)?;
    let ranked = given::mode(&ids, rank_mode)?;
    let places = given::places(model, &ids, &arguments.given, true, &context.control)?;
    let mut taken: Vec<usize> = places.iter().map(|(mode, _)| *mode).collect();
    if taken.contains(&ranked) {
        return Err(Error::request(format!("{rank_mode} is ranked, so it cannot be given too")));
    }
    taken.push(ranked);
    let each = given::each_mode(&ids, arguments.each.as_deref().unwrap_or(""), &taken)?;
    let mut question = vec![Place::Average; ids.len()];
    places.iter().for_each(|(mode, place)| question[*mode] = *place);
    let datasets = Config::read(&arguments.run)?.open_datasets(&arguments.run)?;
    // What is held out must not be left out of the candidates, unless it stands elsewhere too; a file
    // may repeat any entry but those of train.
    let splits: Vec<Split> = match on {
        On::Split(own) => Split::ALL.into_iter().filter(|other| other != own).collect(),
        On::File(_) => vec![Split::Train],
    };
    let observed =
        |splits| Observed { datasets: &datasets, splits, each: Some(each), ranked, given: Vec::new() };
    // Entries of a dataset are compared as they are kept.
    let kept = |value: f64| match model.about.transform() {
        Some(transform) => transform.apply(value).unwrap_or(f64::NEG_INFINITY),
        None => value,
    };
    let relevant = arguments.relevant.map(kept);
    let asked = RankingQuestion { question, ranked, each, top, relevant, seen: observed(splits) };
    let control = &context.control;
    let found = match on {
        On::Split(split) => {
            let held = observed(vec![*split]);
            let held = |range| held.entries(range).map(Cow::Owned);
            in_pool(threads, || ranking_metrics(model, &asked, held, control))?
        }
        On::File(source) => {
            let mut rows = Vec::new();
            read_entries(model, &ids, source, threads, control, |row| {
                if let (Some(id), Some(index)) = (row.found[each].index(), row.found[ranked].index()) {
                    rows.push((id, index, kept(row.value)));
                }
                Ok(())
            })?;
            let held = SeenEntries::new(0..ids[each].dim(), rows);
            in_pool(threads, || ranking_metrics(model, &asked, |_| Ok(Cow::Borrowed(&held)), control))?
        }
    };
    Ok(Some(found))
}

/// What is evaluated on.
enum On {
    Split(Split),
    File(Source),
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode> {
    let model = Model::read_with_uncertainty(&arguments.run)?;
    let threads = context.threads(arguments.threads);
    let split = Split::ALL.into_iter().find(|split| split.name() == arguments.on);
    let on = match split {
        Some(split) => On::Split(split),
        // To be ranked as well, it is read twice.
        None if arguments.top.is_some() => {
            let file = Source::again(Path::new(&arguments.on), &std::env::temp_dir(), &context.control)?;
            On::File(file.encoded(arguments.encoding))
        }
        None => On::File(Source::from(Path::new(&arguments.on)).encoded(arguments.encoding)),
    };
    let found = match &on {
        On::Split(split) => {
            if *split == Split::Validation && model.about.refit {
                context.control.say(
                    "the model was fitted to these entries in its last sweep: its errors on others are larger \
                     (`complete --no-refit` leaves them out)",
                );
            }
            let dataset = Config::read(&arguments.run)?.open_dataset(&arguments.run)?;
            evaluate_split(&model, &dataset, *split)?
        }
        On::File(source) => evaluate_file(&model, source, threads, &context.control)?,
    };
    let ranked = ranking(arguments, &model, &on, threads, context)?;
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
            "\n  {} of them have an id without train entries and were scored by what is known of the others",
            units::count(n)
        ),
    };
    let outside = match found.outside_bins {
        0 => String::new(),
        n => format!("\n  {} entries lie outside the bins and were taken as the nearest", units::count(n)),
    };
    let weighted = if found.weighted { ", errors weighted by their weights" } else { "" };
    let explained = match (found.r2(), found.mean_mse) {
        (Some(r2), Some(mean_mse)) => {
            let (r2, deviation) = (units::digits(r2), units::digits(mean_mse.sqrt()));
            format!("\n  R^2  {r2}   (the values deviate from the mean of train by {deviation})")
        }
        _ => String::new(),
    };
    let beside = beside(found.mean_mse, found.biases_mse);
    let coverage = found.coverage.map_or(String::new(), |coverage| {
        let told = coverage.iter().map(|x| format!("{:.1} %", 100.0 * x));
        format!("\n  covered by intervals of 50, 80 and 95 %: {}", told.collect::<Vec<_>>().join(", "))
    });
    // Where nothing could be scored there is no error to tell.
    let figure = |x: f64| if found.entries > 0 { json!(x) } else { json!(null) };
    if found.entries > 0 {
        context.print(format_args!(
            "{} on {}: {} entries{weighted}\n  MSE  {:.6e}\n  RMSE {}{beside}\n  MAE  {}{explained}{coverage}{fallback}{unscored}{outside}",
            arguments.run.display(),
            arguments.on,
            units::count(found.entries),
            found.mse,
            units::digits(found.rmse()),
            units::digits(found.mae),
        ));
    } else {
        context.print(format_args!(
            "{} on {}: no entry could be scored{unscored}",
            arguments.run.display(),
            arguments.on
        ));
    }
    if let On::Split(_) = on {
        say_joined(&arguments.run, context);
    }
    let judges = !matches!(on, On::Split(Split::Train)) && found.r2().is_some_and(|r2| r2 > 0.0);
    say_little(found.over_biases().filter(|_| judges), context);
    if let (Some(found), Some(k)) = (&ranked, arguments.top) {
        context.print(format_args!(
            "  precision@{k} {:.6}\n  recall@{k}    {:.6}\n  NDCG@{k}      {:.6}   over {} ids with relevant entries",
            found.precision,
            found.recall,
            found.ndcg,
            units::count(found.ids)
        ));
    }
    let mut line = json!({
        "mse": figure(found.mse),
        "rmse": figure(found.rmse()),
        "mae": figure(found.mae),
        "r2": found.r2(),
        "standard_deviation": found.mean_mse.map(f64::sqrt),
        "mean_rmse": found.mean_mse.map(f64::sqrt),
        "biases_rmse": found.biases_mse.map(f64::sqrt),
        "over_biases": found.over_biases(),
        "entries": found.entries,
        "weighted": found.weighted,
        "fallback": found.fallback,
        "unscored": found.unscored,
        "outside_bins": found.outside_bins,
    });
    if let Some(coverage) = found.coverage {
        let told = NOMINAL
            .iter()
            .zip(coverage)
            .map(|(nominal, covered)| json!({ "nominal": nominal, "covered": covered }));
        line["coverage"] = told.collect();
    }
    if let (Some(found), Some(k)) = (&ranked, arguments.top) {
        line["top"] = json!(k);
        line["precision_at_k"] = json!(found.precision);
        line["recall_at_k"] = json!(found.recall);
        line["ndcg_at_k"] = json!(found.ndcg);
        line["ranked_ids"] = json!(found.ids);
    }
    context.finish(&line);
    Ok(ExitCode::SUCCESS)
}
