//! The streamed objective against the plain formula, however the bytes get into memory.

use std::path::Path;
use tenfill::budget::Budget;
use tenfill::convert::{ConvertOptions, convert_entries};
use tenfill::kernel::Precision;
use tenfill::manifold::{Distribution, Point, Tangent, random_point};
use tenfill::objective::{Needs, Streamed};
use tenfill::shard::Split;
use tenfill::solver::{Entries, InMemory, Objective};
use tenfill::stream::Access;
use tenfill::synth::{TuckerSpec, TuckerSynth};
use tenfill::{Control, Dataset};

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
            gather.entries(&batch.indices, &batch.values, batch.parts.iter().map(|_| Split::Train))
        })
    })
    .unwrap();
    (Dataset::open(folder.join("d")).unwrap(), InMemory::new(memory))
}

fn open(dataset: &Dataset, ranks: &[usize], memory: u64, access: Access) -> Streamed {
    Streamed::open(dataset, ranks, Precision::F64, &Budget::new(memory).unwrap(), Some(access)).unwrap()
}

fn numbers(tangent: &Tangent) -> Vec<f64> {
    let rows = tangent.factors.iter().flat_map(|rows| rows.as_slice());
    rows.chain(tangent.core.as_slice()).copied().collect()
}

fn close(ours: &[f64], reference: &[f64], what: &str) {
    let size: f64 = reference.iter().map(|x| x * x).sum::<f64>().sqrt();
    let error: f64 = ours.iter().zip(reference).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt();
    assert!(ours.len() == reference.len() && error <= 1e-12 * size, "{what}: {:.2e}", error / size);
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
        for access in [Access::Mapped, Access::ReadAhead] {
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
    for access in [Access::Mapped, Access::ReadAhead] {
        let mut streamed = open(&dataset, &[2, 2, 2], 1 << 30, access);
        let at = point(&[300, 200, 50], &[2, 2, 2], 1);
        let error = streamed.cost_and_gradient(&at, &mut Tangent::zeros_like(&at)).unwrap_err().to_string();
        assert!(error.contains("00000.shard is damaged at offset 64"), "{error}");
    }
}
