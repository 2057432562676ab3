//! The streamed objective against the plain formula, however the bytes get into memory.

use crate::common::{close, numbers};
use std::path::Path;
use tenfill_engine::budget::Budget;
use tenfill_engine::convert::{ConvertOptions, convert_entries};
use tenfill_engine::kernel::Precision;
use tenfill_engine::manifold::{Distribution, Point, Preconditioned, Tangent, random_point};
use tenfill_engine::model::Biases;
use tenfill_engine::objective::{Coordinates, Needs, Penalty, PenaltyKind, Regularised, Streamed, bias_fit};
use tenfill_engine::shard::Split;
use tenfill_engine::solver::{Entries, InMemory, Objective, check_gradient};
use tenfill_engine::stream::Access;
use tenfill_engine::synth::{TuckerSpec, TuckerSynth};
use tenfill_engine::{Control, Dataset};

/// A dataset on disk and the same entries in memory.
fn data(folder: &Path, dims: &[u32], entries: u64) -> (Dataset, InMemory) {
    let mut spec = TuckerSpec::new(dims, &vec![2; dims.len()], entries);
    spec.noise = 0.1;
    let synth = TuckerSynth::new(spec).unwrap();
    let options = ConvertOptions::new(Vec::new(), folder.join("d"));
    let names: Vec<String> = (0..dims.len()).map(|mode| format!("m{mode}")).collect();
    let mut memory = Entries::default();
    convert_entries(&options, &names, dims, &Control::default(), |gather| {
        synth.for_each_batch(|batch| {
            for (indices, value, _) in batch.entries() {
                memory.push(indices, value);
            }
            gather.entries(&batch.indices, &batch.values, batch.splits.iter().map(|_| Split::Train))
        })
    })
    .unwrap();
    (Dataset::open(folder.join("d")).unwrap(), InMemory::new(memory))
}

fn open(dataset: &Dataset, ranks: &[usize], memory: u64, access: Access) -> Streamed {
    Streamed::open(dataset, ranks, Precision::F64, &Budget::new(memory).unwrap(), Some(access)).unwrap()
}

fn point(dims: &[u32], ranks: &[usize], seed: u64) -> Point {
    let dims: Vec<usize> = dims.iter().map(|&dim| dim as usize).collect();
    random_point(&dims, ranks, Distribution::Gaussian, seed)
}

#[test]
fn streamed_sums_are_those_of_the_formula() {
    // The dimensions are such that the mode order is not the user's.
    for (dims, ranks) in [
        (vec![30, 500], vec![3, 3]),
        (vec![40, 700, 60], vec![3, 2, 4]),
        (vec![12, 9, 300, 14], vec![2, 3, 2, 2]),
        (vec![6, 200, 7, 5, 8], vec![2, 2, 3, 1, 2]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (dataset, mut formula) = data(folder.path(), &dims, 14_000);
        let at = point(&dims, &ranks, 5);
        let along = point(&dims, &ranks, 6);
        let along = Tangent { factors: along.factors, core: along.core };
        let mut reference = Tangent::zeros_like(&at);
        let cost = formula.cost_and_gradient(&at, &mut reference).unwrap().total;
        let sums = formula.step_sums(&at, &along).unwrap();
        let polynomial = formula.line_polynomial(&at, &along).unwrap();

        let mut bits = Vec::new();
        for access in [Access::Cached, Access::ReadAhead] {
            let needs =
                Needs::of(&dataset, &ranks, Precision::F64, Some(access), rayon::current_num_threads());
            for memory in [1 << 30, needs.total(1).max(16 << 20)] {
                let mut streamed = open(&dataset, &ranks, memory, access);
                assert_eq!(streamed.train().access(), access);
                let mut gradient = Tangent::zeros_like(&at);
                let ours = streamed.cost_and_gradient(&at, &mut gradient).unwrap().total;
                close(&[ours], &[cost], "cost");
                close(&numbers(&gradient), &numbers(&reference), "gradient");
                let ours = streamed.step_sums(&at, &along).unwrap();
                close(&[ours.slope, ours.curvature], &[sums.slope, sums.curvature], "step sums");
                close(&streamed.line_polynomial(&at, &along).unwrap(), &polynomial, "polynomial");
                bits.push(numbers(&gradient));
            }
        }
        assert!(bits.iter().all(|other| other == &bits[0]), "the same bits however the data is read");
    }
}

#[test]
fn damage_met_in_a_pass_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (dataset, _) = data(folder.path(), &[300, 200, 50], 60_000);
    let shard = dataset.directory().join("train/00000.shard");
    let mut bytes = std::fs::read(&shard).unwrap();
    bytes[5000] ^= 4;
    std::fs::write(&shard, bytes).unwrap();
    for access in [Access::Cached, Access::ReadAhead] {
        let mut streamed = open(&dataset, &[2, 2, 2], 1 << 30, access);
        let at = point(&[300, 200, 50], &[2, 2, 2], 1);
        let error = streamed.cost_and_gradient(&at, &mut Tangent::zeros_like(&at)).unwrap_err().to_string();
        assert!(error.contains("00000.shard is damaged at offset 64"), "{error}");
    }
}

/// Counts, coordinates, biases and a penalty, all at once.
fn regularised(dataset: &Dataset, ranks: &[usize], kind: PenaltyKind) -> Regularised {
    let mut objective = Regularised::new(open(dataset, ranks, 1 << 30, Access::Cached));
    let (counts, time) = bias_fit::count(dataset.manifest(), objective.data.train(), Some((1, 2))).unwrap();
    objective.coordinates = Some(Coordinates::smoothed(&counts));
    objective.penalty = Penalty { kind, lambda: 0.1, smoothing: 1e-4 };
    let biases =
        counts.modes.iter().map(|mode| (0..mode.len()).map(|i| (i as f64).sin()).collect()).collect();
    objective.data.set_biases(Some(Biases { mean: 0.5, modes: biases, time, pairs: Vec::new() }));
    objective
}

#[test]
fn the_gradient_with_biases_coordinates_and_penalty_belongs_to_the_cost() {
    let folder = tempfile::tempdir().unwrap();
    let (dims, ranks) = ([40, 300, 20], [2, 3, 2]);
    let (dataset, _) = data(folder.path(), &dims, 9_000);
    for kind in [PenaltyKind::Nuclear, PenaltyKind::Log, PenaltyKind::Frobenius] {
        let mut objective = regularised(&dataset, &ranks, kind);
        let at = point(&dims, &ranks, 3);
        let found = check_gradient(&Preconditioned, &mut objective, &at, 4).unwrap();
        assert!(found.slope > 1.9 && found.relative_error < 1e-6, "{kind:?}: {found:?}");
        // The step's slope is half that of the cost along the direction.
        let along = point(&dims, &ranks, 6);
        let along = Tangent { factors: along.factors, core: along.core };
        let mut gradient = Tangent::zeros_like(&at);
        objective.cost_and_gradient(&at, &mut gradient).unwrap();
        let slope: f64 = numbers(&gradient).iter().zip(numbers(&along)).map(|(g, d)| g * d).sum();
        let sums = objective.step_sums(&at, &along).unwrap();
        assert!((sums.slope / (slope / 2.0) - 1.0).abs() < 1e-9, "{} {slope}", sums.slope);
        objective.held = vec![false, true, false];
        objective.cost_and_gradient(&at, &mut gradient).unwrap();
        assert!(gradient.factors[1].as_slice().iter().all(|x| *x == 0.0));
    }
}

/// Where entries are spread unevenly, gradients, steps and chunks are those of the cost in other coordinates.
#[test]
fn coordinates_for_uneven_data_belong_to_the_cost() {
    let folder = tempfile::tempdir().unwrap();
    let (dims, ranks) = ([40, 300, 20], [2, 3, 2]);
    let (dataset, _) = data(folder.path(), &dims, 150_000);
    let mut objective = Regularised::new(open(&dataset, &ranks, 1 << 30, Access::Cached));
    objective.data.cut(4);
    let (mut counts, _) = bias_fit::count(dataset.manifest(), objective.data.train(), None).unwrap();
    // The data are even: these are not.
    for weights in &mut counts.modes {
        weights.iter_mut().enumerate().for_each(|(row, n)| *n *= 1.0 + row as f64);
    }
    objective.coordinates = Some(Coordinates::even(&counts));
    let at = point(&dims, &ranks, 3);
    let found = check_gradient(&Preconditioned, &mut objective, &at, 4).unwrap();
    assert!(found.slope > 1.9 && found.relative_error < 1e-6, "{found:?}");

    let along = point(&dims, &ranks, 6);
    let along = Tangent { factors: along.factors, core: along.core };
    let mut whole = Tangent::zeros_like(&at);
    let cost = objective.cost_and_gradient(&at, &mut whole).unwrap();
    let slope: f64 = numbers(&whole).iter().zip(numbers(&along)).map(|(g, d)| g * d).sum();
    let sums = objective.step_sums(&at, &along).unwrap();
    assert!((sums.slope / (slope / 2.0) - 1.0).abs() < 1e-9, "{} {slope}", sums.slope);
    let line = objective.line_polynomial(&at, &along).unwrap();
    assert!((line[0] / cost.total - 1.0).abs() < 1e-9 && (line[1] / slope - 1.0).abs() < 1e-9, "{line:?}");

    let (mut sum, mut part) = (Tangent::zeros_like(&at), Tangent::zeros_like(&at));
    let mut costs = 0.0;
    for chunk in 0..objective.chunks() {
        costs += objective.chunk_cost_and_gradient(chunk, &at, &mut part).unwrap().total;
        sum.axpby(1.0, &part, 1.0);
    }
    assert_eq!(objective.chunks(), 4);
    assert!((costs / cost.total - 1.0).abs() < 1e-9, "{costs} {cost:?}");
    close(&numbers(&sum), &numbers(&whole), "chunks");
}

#[test]
fn refitted_biases_come_to_the_damped_least_squares() {
    let folder = tempfile::tempdir().unwrap();
    let dims = [40, 300, 20];
    let (dataset, _) = data(folder.path(), &dims, 9_000);
    let streamed = open(&dataset, &[1, 1, 1], 1 << 30, Access::Cached);
    let order = dataset.manifest().mode_order.clone();
    let (counts, time) = bias_fit::count(dataset.manifest(), streamed.train(), Some((1, 2))).unwrap();
    let (mut biases, mut damping) =
        bias_fit::fit(streamed.train(), &order, &counts, dataset.manifest().mean(), time).unwrap();
    assert!(damping.modes.iter().all(|damping| *damping > 0.0));
    damping.modes = vec![3.0, 5.0, 7.0];
    damping.time = 2.0;
    let mut at = point(&dims, &[1, 1, 1], 9);
    at.core.scale(3.0);
    // Term by term: the damped squares, and the sums of residuals of every index of mode 1.
    let look = |biases: &Biases| {
        let (mut squares, mut sums) = (0.0, vec![0.0; dims[1] as usize]);
        dataset
            .for_each(Split::Train, |i, value| {
                let indices: Vec<usize> = i.iter().map(|&i| i as usize).collect();
                let all: Vec<Option<u32>> = i.iter().map(|&i| Some(i)).collect();
                let residual = value - at.value_at(&indices) - biases.at(&all);
                squares += residual * residual;
                sums[indices[1]] += residual;
            })
            .unwrap();
        let prior = |values: &[f64], damping: f64| damping * values.iter().map(|b| b * b).sum::<f64>();
        let modes: f64 = biases.modes.iter().zip(&damping.modes).map(|(b, d)| prior(b, *d)).sum();
        (squares + modes + prior(&biases.time.as_ref().unwrap().values, damping.time), sums)
    };
    let mut before = look(&biases).0;
    for _ in 0..300 {
        let (train, exchange) = (streamed.train(), streamed.exchange());
        bias_fit::refit(train, exchange, &order, &at, &counts, &damping, &mut biases).unwrap();
        let now = look(&biases).0;
        assert!(now <= before * (1.0 + 1e-12), "{now} after {before}");
        before = now;
    }
    for (sum, bias) in look(&biases).1.iter().zip(&biases.modes[1]) {
        assert!((sum - damping.modes[1] * bias).abs() < 1e-2, "{sum} {bias}");
    }
}
