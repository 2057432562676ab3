//! What a run starts with: solver, data, first point.

use super::config::{Config, GeometryKind, Init};
use super::limits::Limits;
use crate::bayes::{FEW_MODES, Fit, Origins, Room, Sizes};
use crate::budget::Budget;
use crate::checkpoint::Checkpoints;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::manifold::{
    Damped, Distribution, Embedded, Euclidean, Geometry, Point, Preconditioned, random_point_on,
};
use crate::model::{Matched, Model};
use crate::objective::{Needs, Regularised, Streamed};
use crate::recipe::Setup;
use crate::shard::{Dataset, Manifest};
use crate::solver::{Algorithm, CHUNKS, Options, Solver};
use crate::storage::RunLayout;
use crate::stream::{Access, Share};
use crate::team::{Combine, Team};
use crate::units;
use std::ops::RangeInclusive;

/// The solver that a configuration asks for.
fn solver(kind: GeometryKind, entries: u64, options: Options) -> Solver {
    let geometry: Box<dyn Geometry> = match kind {
        GeometryKind::Damped => Box::new(Damped::new(entries)),
        GeometryKind::Preconditioned => Box::new(Preconditioned),
        GeometryKind::Euclidean => Box::new(Euclidean),
        GeometryKind::Embedded => Box::new(Embedded),
    };
    Solver::boxed(geometry, options)
}

/// What a trainer is made from.
pub(super) fn setup<'a>(config: &'a Config, dataset: &'a Dataset) -> Setup<'a> {
    let (kind, entries) = (config.geometry, dataset.manifest().train.entries);
    Setup {
        dataset,
        recipe: &config.recipe,
        ranks: &config.rank,
        options: config.options(dataset.manifest()),
        seed: config.seed,
        rank_auto: config.rank_auto,
        probe: config.recipe.sweeps && !config.sweeps_alone(),
        grown: &config.grown,
        components: config.sweep_start(),
        pair_alone: config.pair_alone,
        warm: None,
        warm_fit: None,
        cold: !matches!(config.init, Init::Run(_) | Init::Spectral),
        spectral: config.init == Init::Spectral,
        make_solver: Box::new(move |options| solver(kind, entries, options)),
    }
}

/// What a configuration needs beside the plain method's memory, with so many threads and within a budget: where that is
/// short, sweeps take more passes or fewer lanes at a time.
pub fn with_more(config: &Config, dataset: &Dataset, needs: Needs, threads: usize, budget: u64) -> Needs {
    let dims = level_dims(dataset.manifest());
    let further = config.rank_auto || dims.len() > FEW_MODES;
    let sizes = sizes(dataset.manifest(), &dims, config.sweep_rank(), further && !config.pair_alone);
    if !config.recipe.sweeps {
        return with_room(config, dataset, needs, threads, &sizes, None);
    }
    let lanes = if needs.several() { needs.lanes as usize } else { threads.min(config.lanes) };
    let mut least = None;
    for room in sizes.rooms(lanes, needs.several()) {
        let needs = with_room(config, dataset, needs, threads, &sizes, Some(room));
        if needs.total(needs.fewest()) <= budget {
            return needs;
        }
        least = Some(needs);
    }
    least.unwrap_or(needs)
}

fn with_room(
    config: &Config,
    dataset: &Dataset,
    needs: Needs,
    threads: usize,
    sizes: &Sizes<'_>,
    room: Option<Room>,
) -> Needs {
    let manifest = dataset.manifest();
    let swept = |needs: Needs| {
        room.map_or(needs, |room| needs.with_sweeps(sizes.bytes(room), (room.lanes, room.sums)))
    };
    if config.sweeps_alone() {
        let sweeps = swept(needs);
        return match config.grown.is_empty() {
            true => sweeps,
            false => sweeps.after_other(&grown(config, dataset, needs, threads)),
        };
    }
    if !config.recipe.is_plain() && !config.recipe.sweeps {
        return needs.with_biases(dataset).with_recipe();
    }
    let grows = config.solver.algorithm == Algorithm::Auto || config.init == Init::Spectral;
    let plain = if has_chunks(config) { needs.with_chunks() } else { needs };
    let even = config.solver.algorithm == Algorithm::Auto;
    let plain = if even { plain.with_coordinates(manifest) } else { plain };
    // Components may be looked for in what a fit leaves over.
    let plain = if grows { plain.with_growth(manifest, &config.rank, threads) } else { plain };
    if config.recipe.is_plain() {
        return plain;
    }
    swept(needs).after(&plain.with_biases(dataset))
}

/// What components that are looked for before sweeps need, beside what needs no rank.
fn grown(config: &Config, dataset: &Dataset, needs: Needs, threads: usize) -> Needs {
    let (manifest, ranks) = (dataset.manifest(), &config.grown);
    let of = |constant| {
        let (lanes, processes) = (config.lanes, needs.processes);
        Needs { constant, ..Needs::of_several(manifest, ranks, config.precision, None, 0, lanes, processes) }
    };
    let plain = of(needs.constant).with_chunks().with_coordinates(manifest).with_biases(dataset);
    plain.with_growth(manifest, ranks, threads)
}

fn level_dims(manifest: &Manifest) -> Vec<u64> {
    manifest.level_dims().iter().map(|&dim| dim.into()).collect()
}

fn sizes<'d>(manifest: &Manifest, dims: &'d [u64], rank: usize, grows: bool) -> Sizes<'d> {
    // Whether it will be asked for or not: it is little.
    let beside = manifest.validation.entries;
    Sizes { dims, entries: manifest.train.entries, beside, rank, grows }
}

/// The configuration of a new run with what the memory has room for: where it is short, no components of all modes before sweeps,
/// then none beside those of the first pair, then fewer of these. And the memory that would do for all of it.
fn within(mut config: Config, dataset: &Dataset, limits: &Limits) -> (Config, Option<u64>) {
    let usual = config.sweep_start();
    if !config.sweeps_alone() || matches!(config.init, Init::Run(_)) {
        return (config, None);
    }
    let (manifest, processes) = (dataset.manifest(), limits.team.size());
    // What results depend on may not depend on how many threads there are, nor on what else takes memory at the moment.
    let (ones, threads, access) = (vec![1; config.rank.len()], config.lanes, Some(Access::Cached));
    let needs =
        Needs::of_several(manifest, &ones, config.precision, access, threads, config.lanes, processes);
    let fewest = |needs: Needs| needs.total(needs.fewest());
    let least = |config: &Config| fewest(with_more(config, dataset, needs, threads, limits.memory));
    let whole = least(&config);
    if whole <= limits.memory {
        return (config, None);
    }
    // The room is one and the same: what comes first takes nothing from what follows.
    if !config.grown.is_empty() && fewest(grown(&config, dataset, needs, threads)) > limits.memory {
        config.grown.clear();
    }
    if !config.rank_auto {
        return (config, Some(whole));
    }
    config.pair_alone = least(&config) > limits.memory;
    for components in (1..=usual).rev() {
        config.components = (components < usual).then_some(components);
        if least(&config) <= limits.memory {
            return (config, Some(whole));
        }
    }
    // With fewer threads there may be room for one all the same; whoever opens the data tells what it would take.
    let real = rayon::current_num_threads();
    let needs = Needs::of_several(manifest, &ones, config.precision, access, real, config.lanes, processes);
    let fits = fewest(with_more(&config, dataset, needs, real, limits.memory)) <= limits.memory;
    (config, fits.then_some(whole))
}

/// What memory has room for when a run begins; what it had room for then stays, whatever it is gone on with. Memory may differ
/// between machines: that of the first process counts.
pub(super) fn settle_room(
    config: Config,
    dataset: &Dataset,
    limits: &Limits,
    control: &Control,
) -> Result<Config> {
    let wished = config.sweep_start();
    let told = limits.team.told_by_first(|| {
        let (within, would_do) = within(config.clone(), dataset, limits);
        let Config { components, pair_alone, grown, .. } = within;
        Ok(serde_json::json!([components, pair_alone, grown, would_do]).to_string())
    })?;
    let (components, pair_alone, grown, would_do): (_, _, _, Option<u64>) =
        serde_json::from_str(&told).unwrap_or((None, true, Vec::new(), None));
    let (config, grown) = (Config { components, pair_alone, grown, ..config.clone() }, config.grown);
    if let Some(bytes) = would_do {
        let (have, bytes, rank) = (units::size(limits.memory), units::size(bytes), config.sweep_start());
        let mut without = Vec::new();
        if config.grown != grown {
            without.push("to look for low-rank data before sweeps".to_string());
        }
        if config.pair_alone {
            without.push("to try components of further pairs of modes".to_string());
        }
        if rank < wished {
            without.push(format!("for rank {wished}, so that sweeps begin with rank {rank}"));
        }
        if !without.is_empty() {
            let without = without.join(", nor ");
            control.say(format!("{have} has no room {without}: {bytes} would do for all that may be tried"));
        }
    }
    Ok(config)
}

/// Whether steps are made from chunks of the data.
fn has_chunks(config: &Config) -> bool {
    let first = !config.sweeps_alone() || !config.grown.is_empty();
    matches!(config.solver.algorithm, Algorithm::Stochastic | Algorithm::Auto) && first
}

/// What a configuration cannot have of several processes.
fn check_processes(config: &Config, team: Team) -> Result<()> {
    if team.is_alone() || config.solver.algorithm != Algorithm::GeomCg {
        return Ok(());
    }
    let what = "`algorithm` geomcg runs in one process: leave out mpirun, or use another `algorithm`";
    Err(Error::request(what))
}

/// Sizes of values whose squares and products, and those of the model's numbers, are numbers still.
const SIZES: RangeInclusive<f64> = 1e-60..=1e60;
/// Sizes of weights whose products with these squares are.
const WEIGHTS: RangeInclusive<f64> = 1e-160..=1e160;

/// What a run cannot compute with.
fn check_sizes(dataset: &Dataset) -> Result<()> {
    let manifest = dataset.manifest();
    if manifest.values.min == 1.0 && manifest.values.max == 1.0 && manifest.train.entries > 1 {
        let what = "all train values are 1: there is nothing to tell apart; with `absent` 1.0, where it is converted, as many \
                    cells that have no entry are drawn as zeros";
        return Err(Error::input(dataset.directory(), what));
    }
    let out_of_range = |what: &str, largest: f64, range: &RangeInclusive<f64>| {
        let (least, most) = (range.start(), range.end());
        let what = format!(
            "the train {what} are up to {largest:.0e}, and only {least:e} to {most:e} can be fitted: scale them, and \
             convert again"
        );
        Error::input(dataset.directory(), what)
    };
    let largest = manifest.weights.as_ref().map_or(1.0, |weights| weights.train.max);
    if !WEIGHTS.contains(&largest) {
        return Err(out_of_range("weights", largest, &WEIGHTS));
    }
    let largest = manifest.values.max.max(-manifest.values.min);
    if largest == 0.0 || SIZES.contains(&largest) {
        return Ok(());
    }
    Err(out_of_range("values", largest, &SIZES))
}

/// How many passes over the data a sweep of so many components takes, with so much room for sums, and why; nothing where
/// it is one.
pub fn sweep_passes(manifest: &Manifest, rank: usize, room: Room) -> Option<(u64, String)> {
    let dims = level_dims(manifest);
    let sizes = sizes(manifest, &dims, rank, false);
    let ((level, bytes), passes) = (sizes.sums(), sizes.passes(room));
    let name = &manifest.modes[manifest.mode_order[level]].name;
    let told = format!(
        "a sweep takes {passes} passes: the sums of the rows of {name} take {} per thread and are taken in {passes} parts",
        units::size(bytes)
    );
    (passes > 1).then_some((passes, told))
}

/// What can be seen to be wrong with the start of a run before its data are read, of which the names of the modes are
/// known.
pub fn check_start(config: &Config, manifest: &Manifest) -> Result<()> {
    let Init::Run(run) = &config.init else { return Ok(()) };
    let about = Model::about(run)?;
    about.check_modes(run, &manifest.modes)?;
    let (ranks, plain) = (&about.rank, config.recipe.is_plain());
    let above = ranks.iter().zip(&config.rank).any(|(rank, bound)| rank > bound);
    if plain && ranks != &config.rank {
        let what = other_rank(ranks, "", &config.rank);
        return Err(Error::input(run, what));
    }
    if !plain && !config.rank_auto && above {
        let what = other_rank(ranks, "at most ", &config.rank);
        return Err(Error::input(run, what));
    }
    Ok(())
}

/// What keeps a run from beginning with the model of another one.
fn other_rank(ranks: &[usize], most: &str, wanted: &[usize]) -> String {
    format!("its model has rank {}, this run {most}{}", units::ranks(ranks), units::ranks(wanted))
}

/// Tells which rank a budget is too small for.
fn with_rank(error: Error, config: &Config) -> Error {
    let Error::Budget { budget, needed, what } = error else { return error };
    let rank = match config.sweeps_alone() {
        true => format!("by sweeps, of rank {} at the most,", config.sweep_rank()),
        false => format!("of rank {}", units::ranks(&config.rank)),
    };
    Error::Budget { budget, needed, what: what.replacen("of this rank", &rank, 1) }
}

/// Opens the data, and says what is odd about it.
pub(super) fn open(
    dataset: &Dataset,
    config: &Config,
    budget: &Budget,
    limits: &Limits,
    control: &Control,
) -> Result<Regularised> {
    let manifest = dataset.manifest();
    let checked = match manifest.train.entries {
        0 => Err(Error::input(dataset.directory(), "the dataset has no train entries")),
        _ => (config.recipe.check(manifest, config.rank_auto))
            .and_then(|()| check_sizes(dataset))
            .and_then(|()| check_processes(config, limits.team)),
    };
    limits.team.agree(checked)?;
    let more = |needs: Needs| with_more(config, dataset, needs, rayon::current_num_threads(), budget.total());
    let share = Share { lanes: config.lanes, team: limits.team };
    let (ones, precision) = (vec![1; config.rank.len()], config.precision);
    let rank = if config.sweeps_alone() { &ones } else { &config.rank };
    let objective =
        Streamed::open_for(dataset, rank, precision, budget, None, share, config.recipe.refit, more);
    let mut objective = objective.map_err(|error| with_rank(error, config))?;
    if has_chunks(config) {
        objective.cut(CHUNKS);
    }
    objective.watch(control);
    say_processes(&objective, config, limits, control);
    let needs = objective.needs();
    let buffers = limits.team.agree(needs.buffers(budget.total()))?;
    if buffers < needs.lanes {
        let (have, need) = (units::size(budget.total()), units::size(needs.total(needs.lanes)));
        control.say(format!(
            "{buffers} of {} lanes at a time fit into {have}; {need} would be faster",
            needs.lanes
        ));
    }
    if config.recipe.sweeps {
        say_room(needs, config, manifest, control);
    }
    for mode in &manifest.modes {
        let missing = u64::from(mode.dim) - mode.statistics.in_train;
        if missing > 0 {
            let (count, dim) = (units::count(missing), units::count(mode.dim.into()));
            let what = match mode.gaps.is_empty() {
                true => "and cannot be learned",
                false => "and take the nearest bin that has",
            };
            control.say(format!("{count} of {dim} rows of {} have no train entries {what}", mode.name));
        }
    }
    if manifest.values.min == manifest.values.max {
        control.say(format!("all train values are {}: there is little to learn", manifest.values.min));
    }
    Ok(Regularised::new(objective))
}

/// Says what a sweep takes more of where memory is short.
fn say_room(needs: &Needs, config: &Config, manifest: &Manifest, control: &Control) {
    let (lanes, sums) = needs.sweep_room;
    if let Some((_, told)) = sweep_passes(manifest, config.sweep_rank(), Room { lanes, sums }) {
        control.say(told);
    }
    let wished = rayon::current_num_threads().min(config.lanes).min(needs.lanes as usize);
    if !needs.several() && lanes < wished {
        control
            .say(format!("`memory` has room for the sums of {lanes} of {wished} lanes of a sweep at a time"));
    }
}

/// Says what several processes do, and what travels between them.
fn say_processes(objective: &Streamed, config: &Config, limits: &Limits, control: &Control) {
    let (team, mode_order) = (limits.team, objective.mode_order());
    if team.is_alone() {
        return;
    }
    let ranks: Vec<usize> = mode_order.iter().map(|&mode| config.rank[mode]).collect();
    let mut words = [objective.exchange().words_sent(&ranks)];
    team.combine(&mut words, Combine::Sum);
    let lanes = objective.train().all_lanes().len();
    control.say(format!(
        "{} processes of {} threads, {lanes} lanes; {} travel in a gradient pass",
        team.size(),
        limits.threads,
        units::size(words[0] * 8)
    ));
    let most = lanes.div_ceil(team.size());
    if limits.threads > most {
        control.say(format!(
            "{most} of {} threads of a process have a lane to go through: `lanes` {} would give one to each",
            limits.threads,
            team.size() * limits.threads
        ));
    }
}

/// Says which rows of a model are a start for others.
fn say_matched(matched: &Matched, dataset: &Dataset, control: &Control) {
    let modes = dataset.manifest().modes.iter().zip(&matched.known);
    let counts = modes.map(|(mode, known)| (mode, known.iter().filter(|known| !**known).count()));
    let new: Vec<String> = counts
        .filter(|(_, new)| *new > 0)
        .map(|(mode, new)| format!("{} of {}", units::count(new as u64), mode.name))
        .collect();
    if !new.is_empty() {
        control.say(format!("rows of new ids start from what the others are like: {}", new.join(", ")));
    }
}

/// The model that a run with biases or a penalty starts from, where one was given.
pub(super) fn warm(
    config: &Config,
    dataset: &Dataset,
    team: Team,
    control: &Control,
) -> Result<Option<Matched>> {
    let Init::Run(run) = &config.init else { return Ok(None) };
    if config.recipe.is_plain() || config.recipe.sweeps {
        return Ok(None);
    }
    let matched = team.agree(Model::read(run).and_then(|model| model.onto(dataset)))?;
    let ranks = matched.model.point.ranks();
    if ranks.iter().zip(&config.rank).any(|(rank, bound)| rank > bound) {
        let what = other_rank(ranks, "at most ", &config.rank);
        return team.agree(Err(Error::input(run, what)));
    }
    say_matched(&matched, dataset, control);
    Ok(Some(matched))
}

/// The sweeps that a run starts from, where another run was given that was fitted by sweeps, and where the rows of every
/// mode come from. None where that was no such run, or levels are others.
pub(super) fn warm_fit(
    config: &Config,
    dataset: &Dataset,
    team: Team,
) -> Result<Option<(Fit, Vec<Origins>)>> {
    let Init::Run(run) = &config.init else { return Ok(None) };
    if !config.recipe.sweeps {
        return Ok(None);
    }
    let model = team.agree(Model::read(run))?;
    let before = Config::read_for(run, team)?;
    if !before.recipe.sweeps {
        return Ok(None);
    }
    let checkpoints = Checkpoints::new(RunLayout::of(run).checkpoints(), before.meaning());
    let loaded = if before.added.is_empty() { checkpoints.newest_for(team)? } else { None };
    let sweeping = loaded.and_then(|loaded| loaded.extra).and_then(|extra| extra.sweeping);
    let same_levels = |fit: &Fit| fit.terms.mode_order == dataset.manifest().mode_order;
    let Some(fit) = sweeping.map(|sweeping| sweeping.held_out()).filter(same_levels) else { return Ok(None) };
    let origins = team.agree(model.indices_of(dataset))?;
    let ranks = fit.ranks().0;
    if !config.rank_auto && ranks.iter().zip(&config.rank).any(|(rank, bound)| rank > bound) {
        let what = other_rank(&ranks, "at most ", &config.rank);
        return team.agree(Err(Error::input(run, what)));
    }
    Ok(Some((fit, origins)))
}

/// Sets what sweeps begin with where another run was given: its sweeps, where they can be gone on with; its model, where the
/// plain method has its turn first and that is one of the plain method's; and otherwise nothing.
pub(super) fn settle_start(
    config: &mut Config,
    dataset: &Dataset,
    team: Team,
    control: &Control,
) -> Result<()> {
    let Init::Run(run) = &config.init else { return Ok(()) };
    if !config.recipe.sweeps || warm_fit(config, dataset, team)?.is_some() {
        return Ok(());
    }
    let model = team.agree(Model::read(run))?;
    if model.biases.is_some() {
        control.say(format!(
            "{} has no sweeps that could be gone on with: these begin from nothing",
            run.display()
        ));
        config.init = Init::Scaled;
    } else if config.rank_auto {
        (config.rank, config.rank_auto) = (model.point.ranks().to_vec(), false);
    }
    Ok(())
}

/// The first point.
pub(super) fn start_point(config: &Config, dataset: &Dataset, objective: &Regularised) -> Result<Point> {
    let dims: Vec<usize> = dataset.manifest().dims().iter().map(|&dim| dim as usize).collect();
    let team = objective.data.team();
    let random = |distribution| random_point_on(team, &dims, &config.rank, distribution, config.seed);
    match &config.init {
        Init::Uniform => Ok(random(Distribution::Uniform)),
        Init::Gaussian => Ok(random(Distribution::Gaussian)),
        // (That of the spectrum is made where it is looked at.)
        Init::Scaled | Init::Spectral => {
            let mut point = random(Distribution::Uniform);
            let scale = objective.data.least_squares_scale(&point)?;
            point.core.scale(scale);
            Ok(point)
        }
        Init::Run(run) => {
            let model = team.agree(Model::read(run))?;
            if model.biases.is_some() {
                let what = "its model has biases, which the plain method has not: leave `bias` to auto";
                return team.agree(Err(Error::input(run, what)));
            }
            if model.point.ranks() != config.rank {
                let (ranks, wanted) = (model.point.ranks(), &config.rank);
                let what = other_rank(ranks, "", wanted);
                return team.agree(Err(Error::input(run, what)));
            }
            Ok(team.agree(model.onto(dataset))?.model.point.divided(team))
        }
    }
}
