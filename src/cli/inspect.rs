//! `tenfill inspect`.

use super::{Context, Ranks, convert, parse_list, parse_threads};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use tenfill_engine::bayes::Room;
use tenfill_engine::error::Result;
use tenfill_engine::kernel::Precision;
use tenfill_engine::message::{printable, short};
use tenfill_engine::model::Model;
use tenfill_engine::objective::Needs;
use tenfill_engine::run::{Config, check_rank, sweep_passes, with_more};
use tenfill_engine::shard::{Dataset, ModeKind};
use tenfill_engine::storage::RunLayout;
use tenfill_engine::stream::{Access, LANES};
use tenfill_engine::units;

/// Show what a dataset or a run holds
///
/// With a rank, also the memory that a run of that rank would need.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  tenfill inspect ratings.tenfill\n  tenfill inspect ratings.tenfill --rank 10,10,10\n  tenfill inspect ratings.tenfill --rank 10 --processes 4     the memory of each of 4 MPI processes"
)]
pub(super) struct Arguments {
    /// The dataset or the run
    path: PathBuf,
    /// Ranks, one per mode; one number for all modes
    #[arg(long, value_parser = parse_list::<usize>, value_name = "R,R,...")]
    rank: Option<Ranks>,
    /// Threads that the run would have, in each process [default: one per core]
    #[arg(long, value_parser = parse_threads)]
    threads: Option<usize>,
    /// Processes (under mpirun) that the run would have: the memory is then that of one of them
    #[arg(long, alias = "ranks", value_name = "N", default_value_t = 1, value_parser = super::complete::parse_lanes)]
    processes: usize,
    /// Lanes that the run would have [default: 8, or the number of processes]
    #[arg(long, value_name = "N", value_parser = super::complete::parse_lanes)]
    lanes: Option<usize>,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode> {
    let mut about_run = None;
    let (path, dataset) = if RunLayout::is_in(&arguments.path) {
        let config = Config::read(&arguments.path)?;
        let model = Model::about(&arguments.path)?;
        context.print(format_args!(
            "{}: rank {}, model of iteration {}, train MSE {:.6e}{}",
            arguments.path.display(),
            // That of the run is the most that could be reached.
            units::ranks(&model.rank),
            model.iteration,
            model.train_mse,
            model.validation_mse.map_or(String::new(), |mse| format!(", validation MSE {mse:.6e}")),
        ));
        about_run = Some(json!({
            "rank": model.rank,
            "iteration": model.iteration,
            "train_mse": model.train_mse,
            "validation_mse": model.validation_mse,
        }));
        (arguments.path.join(&config.dataset), config.open_dataset(&arguments.path)?)
    } else {
        (arguments.path.clone(), Dataset::open(&arguments.path)?)
    };
    let manifest = dataset.manifest();
    context.print(convert::summary(manifest, &path));
    let train = &manifest.train;
    let cells: f64 = manifest.modes.iter().map(|mode| f64::from(mode.dim)).product();
    let all = train.entries + manifest.validation.entries + manifest.test.entries;
    let density = all as f64 / cells;
    let per = |nodes: u64| train.entries as f64 / nodes.max(1) as f64;
    context.print(format_args!(
        "  density  {density:.3e} of {cells:.3e} cells\n  slices   {} of {:.1} train entries\n  fibres   {} of {:.2} train entries",
        units::count(train.slices),
        per(train.slices),
        units::count(train.fibres),
        per(train.fibres),
    ));
    let values = &manifest.values;
    let mean = manifest.told_mean();
    let shown = |kept: f64| manifest.transform().map_or(kept, |transform| transform.restore(kept));
    let distinct = values.distinct.map_or("more than 256".into(), |n| n.to_string());
    context.print(format_args!(
        "  {:8} {} to {}, mean {mean:.4}, {distinct} distinct",
        manifest.value,
        shown(values.min),
        shown(values.max)
    ));
    context.print(format_args!("  split    {}", manifest.split_rule));
    context.print(format_args!(
        "  doubles  {} ({})",
        units::rows(manifest.duplicates),
        manifest.duplicates_rule
    ));
    for (position, mode) in manifest.modes.iter().enumerate() {
        let what = match &mode.kind {
            ModeKind::Range { base } => format!("the numbers {} to {}", base, base + i64::from(mode.dim) - 1),
            ModeKind::Integers { .. } | ModeKind::Text { .. } => {
                let labels = dataset.labels(position)?;
                let (first, last) = labels.map_or_else(Default::default, |l| (l.get(0), l.get(l.len() - 1)));
                let kind = if matches!(mode.kind, ModeKind::Text { .. }) { "text" } else { "integers" };
                format!("{kind} from '{}' to '{}'", printable(&short(&first)), printable(&short(&last)))
            }
            ModeKind::Bins(bins) if bins.time => {
                let end = bins.origin + bins.width * f64::from(mode.dim);
                let show = tenfill_engine::times::format_time;
                format!("bins of {} from {} to {}", units::width(bins.width), show(bins.origin), show(end))
            }
            ModeKind::Bins(bins) => format!("bins of {} from {}", bins.width, bins.origin),
        };
        let missing = u64::from(mode.dim) - mode.statistics.in_train;
        let note = if missing > 0 {
            format!(", {} without train entries", units::count(missing))
        } else {
            String::new()
        };
        context.print(format_args!(
            "  mode {}   {}: {} indices, {what}{note}",
            position + 1,
            printable(&mode.name),
            units::count(mode.dim.into())
        ));
    }
    let mut line = convert::dataset_json(manifest);
    line["slices"] = json!(train.slices);
    line["fibres"] = json!(train.fibres);
    line["density"] = json!(density);
    line["entries_per_slice"] = json!(per(train.slices));
    line["entries_per_fibre"] = json!(per(train.fibres));
    line["mode_order_reason"] = json!(manifest.mode_order_reason);
    line["duplicates"] = json!(manifest.duplicates);
    line["split"] = json!(manifest.split_rule);
    if let Some(rank) = &arguments.rank {
        let rank = check_rank(rank, manifest)?;
        let threads = context.threads(arguments.threads);
        let usual = manifest.part.as_ref().map_or(LANES, |part| part.lanes).max(arguments.processes);
        let (lanes, ranks) = (arguments.lanes.unwrap_or(usual), arguments.processes);
        let access = Some(Access::usual(manifest.train.bytes() / ranks as u64));
        let precision = Precision::default();
        let needs = Needs::of_several(manifest, &rank, precision, access, threads, lanes, ranks);
        // What `complete` does by default.
        let config = Config { lanes, ..Config::new(&dataset, rank.clone()) };
        // In as much memory as it likes, and in as little as it can.
        let [needs, fewest] =
            [u64::MAX, 0].map(|budget| with_more(&config, &dataset, needs, threads, budget));
        let mut passes = None;
        if config.recipe.sweeps {
            let of = |needs: Needs| {
                let (lanes, sums) = needs.sweep_room;
                sweep_passes(manifest, config.sweep_rank(), Room { lanes, sums })
            };
            line["sweep_passes"] = json!(of(needs).map_or(1, |told| told.0));
            passes = of(fewest);
            line["most_sweep_passes"] = json!(passes.as_ref().map_or(1, |told| told.0));
        }
        let (most, least) = (needs.most(), fewest.total(fewest.fewest()));
        let of = if ranks > 1 { format!(" in each of {ranks} processes") } else { String::new() };
        context.print(format_args!(
            "  memory   {} for rank {}{of}, {} at the least",
            units::size(most),
            units::ranks(&rank),
            units::size(least)
        ));
        if let Some((_, told)) = passes {
            context.print(format_args!("  sweeps   one pass each; in the least memory {told}"));
        }
        line["ranks"] = json!(ranks);
        line["memory_bytes"] = json!(most);
        line["least_memory_bytes"] = json!(least);
    }
    if let Some(about) = about_run {
        line["run"] = about;
    }
    context.finish(&line);
    Ok(ExitCode::SUCCESS)
}
