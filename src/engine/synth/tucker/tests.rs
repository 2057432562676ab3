//! Counts, uniformity, rank, conditioning and noise of small instances.

use super::*;
use nalgebra::DMatrix;
use std::collections::HashSet;
use std::convert::Infallible;

/// All entries as one batch.
fn collect(synth: &TuckerSynth) -> Batch {
    let mut all = Batch::with_capacity(synth.spec.dims.len(), 0);
    synth
        .for_each_batch(|batch| {
            all.indices.extend(batch.indices);
            all.values.extend(batch.values);
            all.splits.extend(batch.splits);
            Ok::<(), Infallible>(())
        })
        .unwrap();
    all
}

fn make(spec: TuckerSpec) -> (TuckerSynth, Batch) {
    let synth = TuckerSynth::new(spec).unwrap();
    let all = collect(&synth);
    (synth, all)
}

/// A tensor in full, last mode fastest, from all its cells.
fn dense(dims: &[u32], batch: &Batch) -> Vec<f64> {
    let cells: usize = dims.iter().map(|&n| n as usize).product();
    assert_eq!(batch.len(), cells);
    let mut tensor = vec![f64::NAN; cells];
    for (index, value, _) in batch.entries() {
        let cell = index.iter().zip(dims).fold(0, |cell, (&i, &n)| cell * n as usize + i as usize);
        assert!(tensor[cell].is_nan(), "cell {cell} twice");
        tensor[cell] = value;
    }
    tensor
}

/// The singular values of an unfolding, largest first; the order of columns does not matter.
fn singular_values(tensor: &[f64], dims: &[u32], mode: usize) -> Vec<f64> {
    let n = dims[mode] as usize;
    let inner: usize = dims[mode + 1..].iter().map(|&n| n as usize).product();
    let unfolding =
        DMatrix::from_fn(n, tensor.len() / n, |i, j| tensor[(j / inner * n + i) * inner + j % inner]);
    unfolding.singular_values().iter().copied().collect()
}

#[test]
fn counts_are_exact_and_parts_disjoint() {
    let spec = TuckerSpec {
        validation: 20_001,
        test: 30_003,
        ..TuckerSpec::new(&[100, 90, 80], &[3, 4, 2], 100_007)
    };
    let (_, all) = make(spec);
    let count = |split| all.splits.iter().filter(|&&p| p == split).count();
    assert_eq!(count(Split::Train), 100_007);
    assert_eq!(count(Split::Validation), 20_001);
    assert_eq!(count(Split::Test), 30_003);
    let cells: HashSet<&[u32]> = all.entries().map(|(index, _, _)| index).collect();
    assert_eq!(cells.len(), all.len());
    for index in cells {
        assert!(index[0] < 100 && index[1] < 90 && index[2] < 80);
    }
}

#[test]
fn margins_are_uniform() {
    let dims = [50, 40, 30, 20];
    let (_, all) = make(TuckerSpec::new(&dims, &[2, 2, 2, 2], 200_000));
    for (mode, &n) in dims.iter().enumerate() {
        let other = (mode + 1) % 4;
        let pairs = (n * dims[other]) as usize;
        let mut counts = vec![0.0; pairs];
        for (index, _, _) in all.entries() {
            counts[(index[mode] * dims[other] + index[other]) as usize] += 1.0;
        }
        let mean = 200_000.0 / pairs as f64;
        let chi: f64 = counts.iter().map(|c| (c - mean) * (c - mean) / mean).sum();
        // Drawing without replacement a sixth of all cells narrows the spread by a sixth.
        let freedom = (pairs - 1) as f64 * (1.0 - 200_000.0 / 1_200_000.0);
        let score = (chi - freedom) / (2.0 * freedom).sqrt();
        assert!(score.abs() < 5.0, "modes {mode} and {other}: {score}");
    }
}

#[test]
fn bits_do_not_depend_on_threads() {
    for condition in [None, Some(50.0)] {
        let synth = TuckerSynth::new(TuckerSpec {
            validation: 10_000,
            test: 10_000,
            noise: 1e-3,
            condition,
            ..TuckerSpec::new(&[300, 200, 100], &[4, 4, 4], 500_000)
        })
        .unwrap();
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            pool.build().unwrap().install(|| collect(&synth))
        };
        let one = run(1);
        assert_eq!(one.len(), 520_000);
        assert!(one == run(2) && one == run(3) && one == collect(&synth));
    }
}

#[test]
fn seeds_differ_and_repeat() {
    let with_seed = |seed| {
        let spec = TuckerSpec::new(&[40, 30], &[3, 3], 500);
        make(TuckerSpec { seed, ..spec }).1
    };
    assert!(with_seed(1) == with_seed(1));
    assert!(with_seed(1) != with_seed(2));
}

#[test]
fn unfoldings_have_the_rank() {
    let cases: [(&[u32], &[usize]); 4] = [
        (&[30, 20], &[4, 4]),
        (&[20, 15, 12], &[4, 3, 2]),
        (&[12, 20, 15], &[5, 2, 3]),
        (&[7, 8, 9, 6], &[2, 3, 4, 2]),
    ];
    for (dims, rank) in cases {
        for factors in [Distribution::Uniform, Distribution::Gaussian] {
            let cells = dims.iter().map(|&n| n as u64).product();
            let (synth, all) = make(TuckerSpec { factors, ..TuckerSpec::new(dims, rank, cells) });
            let tensor = dense(dims, &all);
            for (mode, &r) in rank.iter().enumerate() {
                let s = singular_values(&tensor, dims, mode);
                assert!(s[r - 1] > 1e-6 * s[0], "{dims:?} {rank:?} {s:?}");
                assert!(s[r] < 1e-12 * s[0], "{dims:?} {rank:?} {s:?}");
            }
            let square: f64 = tensor.iter().map(|x| x * x).sum();
            let rms = (square / cells as f64).sqrt();
            assert!((rms / synth.model().rms() - 1.0).abs() < 1e-12);
        }
    }
}

#[test]
fn uniform_values_have_the_scale_of_the_papers_instances() {
    // The r^3 terms of a sum have the mean 1/16 each: about 9 at rank 5, 65 at rank 10.
    let rms = |r| {
        let spec = TuckerSpec::new(&[400, 300, 200], &[r, r, r], 1);
        TuckerSynth::new(spec).unwrap().model().rms()
    };
    assert!((rms(5) - 9.0).abs() < 2.5, "{}", rms(5));
    assert!((rms(10) - 65.0).abs() < 10.0, "{}", rms(10));
}

#[test]
fn single_cells_agree_with_batches() {
    // Slices of one entry and of many, against each other.
    for dims in [[100_000, 5, 70_000], [30, 40, 50]] {
        let (synth, all) = make(TuckerSpec::new(&dims, &[5, 4, 6], 2000));
        for (index, value, _) in all.entries() {
            assert_eq!(value, synth.model().value(index));
        }
    }
}

#[test]
fn condition_is_that_of_every_unfolding() {
    for condition in [1.0, 5.0, 100.0] {
        let dims = [14, 12, 10];
        let (_, all) = make(TuckerSpec {
            condition: Some(condition),
            ..TuckerSpec::new(&dims, &[4, 4, 4], 14 * 12 * 10)
        });
        let tensor = dense(&dims, &all);
        for mode in 0..3 {
            let s = singular_values(&tensor, &dims, mode);
            for k in 0..4 {
                let expected = condition.powf((3 - k) as f64 / 3.0);
                assert!((s[k] / expected - 1.0).abs() < 1e-10, "{s:?}");
            }
            assert!(s[4] < 1e-12 * s[0]);
        }
    }
}

#[test]
fn noise_has_the_level_and_spares_the_test_set() {
    let clean = TuckerSpec {
        validation: 60_000,
        test: 60_000,
        ..TuckerSpec::new(&[100, 100, 100], &[3, 3, 3], 60_000)
    };
    let noisy = TuckerSpec { noise: 1e-2, ..clean.clone() };
    let (synth, noisy) = make(noisy);
    let (_, clean) = make(clean);
    assert_eq!(noisy.indices, clean.indices);
    let error = |split| {
        let squares: Vec<f64> = (0..noisy.len())
            .filter(|&e| noisy.splits[e] == split)
            .map(|e| (noisy.values[e] - clean.values[e]).powi(2))
            .collect();
        (squares.iter().sum::<f64>() / squares.len() as f64).sqrt() / synth.model().rms()
    };
    assert!((error(Split::Train) / 1e-2 - 1.0).abs() < 0.02);
    assert!((error(Split::Validation) / 1e-2 - 1.0).abs() < 0.02);
    assert_eq!(error(Split::Test), 0.0);
}

#[test]
fn single_precision_rounds_the_same_values() {
    let spec = TuckerSpec::new(&[50, 50, 50], &[3, 3, 3], 5000);
    let (_, double) = make(spec.clone());
    let (_, single) = make(TuckerSpec { single: true, ..spec });
    assert!(double.values.iter().any(|&v| v as f32 as f64 != v));
    let rounded: Vec<f64> = double.values.iter().map(|&v| v as f32 as f64).collect();
    assert_eq!(single.values, rounded);
}

#[test]
fn cells_beyond_64_bits_are_drawn_too() {
    let dims = [2_000_003; 6];
    let (_, all) = make(TuckerSpec::new(&dims[..4], &[1; 4], 20_000));
    for mode in 0..4 {
        let mean: f64 = all.entries().map(|(i, _, _)| i[mode] as f64).sum::<f64>() / 20_000.0;
        assert!((mean / 1_000_001.0 - 1.0).abs() < 0.03, "{mean}");
        assert!(all.entries().all(|(i, _, _)| i[mode] < 2_000_003));
    }
    let spec = TuckerSpec::new(&dims, &[1; 6], 1);
    assert!(spec.validate().is_ok());
    let spec = TuckerSpec::new(&[2_000_003; 7], &[1; 7], 1);
    assert!(matches!(spec.validate(), Err(SynthError::TooManyCells { .. })));
}

#[test]
fn an_error_ends_the_stream() {
    let synth = TuckerSynth::new(TuckerSpec::new(&[1000, 1000], &[2, 2], 500_000)).unwrap();
    let mut taken = 0;
    let result = synth.for_each_batch(|_| {
        taken += 1;
        if taken == 3 { Err("full") } else { Ok(()) }
    });
    assert_eq!((result, taken), (Err("full"), 3));
}

#[test]
fn degrees_of_freedom_and_oversampling() {
    assert_eq!(degrees_of_freedom(&[10, 8, 6], &[3, 2, 2]), Ok(21 + 12 + 8 + 12));
    let dims = [10_000; 3];
    assert_eq!(entries_from_oversampling(10.0, &dims, &[5; 3]), Ok(1_500_500));
    assert_eq!(entries_from_oversampling(0.5, &dims, &[5; 3]), Ok(75_025));
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(
            entries_from_oversampling(bad, &dims, &[5; 3]),
            Err(SynthError::Oversampling { .. })
        ));
    }
}

#[test]
fn what_cannot_be_is_said_in_a_sentence() {
    type Change = fn(&mut TuckerSpec);
    let sentence = |change: Change| {
        let mut spec = TuckerSpec::new(&[10, 8, 6], &[3, 2, 2], 100);
        change(&mut spec);
        spec.validate().unwrap_err().to_string()
    };
    let cases: [(Change, &str); 12] = [
        (|s| s.dims = vec![9], "but 1 dimensions were given"),
        (|s| s.rank = vec![2, 2], "but 2 were given"),
        (|s| s.dims[1] = 0, "dimension of mode 2 is 0"),
        (|s| s.rank[2] = 0, "rank of mode 3 is 0"),
        (|s| s.rank = vec![3, 9, 3], "rank 9 of mode 2 exceeds its dimension 8"),
        (|s| s.rank = vec![5, 2, 2], "rank 5 of mode 1 exceeds 4"),
        (|s| s.entries = 0, "0 train entries"),
        (|s| s.test = 381, "481 entries"),
        (|s| s.noise = f64::NAN, "noise NaN"),
        (|s| s.condition = Some(5.0), "equal ranks, but they are [3, 2, 2]"),
        (|s| (s.rank, s.condition) = (vec![2; 3], Some(0.5)), "condition number 0.5"),
        (|s| (s.dims, s.rank) = (vec![2000; 3], vec![1000; 3]), "above the limit"),
    ];
    for (change, split) in cases {
        let sentence = sentence(change);
        assert!(sentence.contains(split), "{sentence}");
        assert!(sentence.contains(';') || sentence.contains("give"), "{sentence}");
    }
}
