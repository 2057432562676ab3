//! Proximal operators by their definitions, and recovery where theory promises it.

use super::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use tenfill_engine::manifold::{Distribution, random_point};

fn gaussian(dims: &[usize], seed: u64) -> Core {
    let mut rng = Pcg64::seed_from_u64(seed);
    let size = dims.iter().product();
    Core::from_vec(dims, (0..size).map(|_| Distribution::Gaussian.draw(&mut rng)).collect())
}

fn norm(a: &Core) -> f64 {
    a.dot(a).sqrt()
}

/// A random tensor of a Tucker rank.
fn low_rank(dims: &[usize], ranks: &[usize], seed: u64) -> Core {
    let point = random_point(dims, ranks, Distribution::Gaussian, seed);
    let cell = |mut k: usize| {
        let mut index = vec![0; dims.len()];
        for d in (0..dims.len()).rev() {
            index[d] = k % dims[d];
            k /= dims[d];
        }
        point.value_at(&index)
    };
    Core::from_vec(dims, (0..dims.iter().product()).map(cell).collect())
}

/// A share of the entries of a tensor, and the others.
fn observe(tensor: &Core, share: f64, seed: u64) -> (Observed, Places) {
    let mut rng = Pcg64::seed_from_u64(seed);
    let entries = tensor.as_slice().iter().copied().enumerate();
    let (train, test): (Places, Places) = entries.partition(|_| rng.random::<f64>() < share);
    (Observed { dims: tensor.ranks().to_vec(), train }, test)
}

/// The nuclear norm of an unfolding, by another way than shrinking.
fn nuclear_norm(a: &Core, mode: usize) -> f64 {
    let (values, _) = a.unfolding_gram(a, mode).symmetric_eigen().unwrap();
    values.iter().map(|value| value.max(0.0).sqrt()).sum()
}

#[test]
fn shrinking_is_the_proximal_operator_of_the_nuclear_norm() {
    let a = gaussian(&[6, 5, 7], 1);
    for mode in 0..3 {
        for tau in [0.5, 4.0] {
            let shrunk = shrink(&a, mode, tau);
            let p = &shrunk.tensor;
            assert!((shrunk.nuclear_norm - nuclear_norm(p, mode)).abs() < 1e-6 * (1.0 + shrunk.nuclear_norm));
            // The conditions of the minimum: A - P is tau times a subgradient of the norm at P, that is,
            // no singular value of it is above tau, and <A - P, P> = tau |P|.
            let mut rest = a.clone();
            rest.axpy(-1.0, p);
            assert!(largest_singular_value(&rest, mode) < tau * (1.0 + 1e-7));
            let along = rest.dot(p);
            assert!((along - tau * shrunk.nuclear_norm).abs() < 1e-7 * (1.0 + along), "mode {mode}");
            // And no other point does better.
            let value = |x: &Core| {
                let mut distance = x.clone();
                distance.axpy(-1.0, &a);
                tau * nuclear_norm(x, mode) + 0.5 * distance.dot(&distance)
            };
            let least = value(p);
            for seed in 0..20 {
                for size in [1e-3, 0.1, 1.0] {
                    let mut other = p.clone();
                    other.axpy(size, &gaussian(&[6, 5, 7], 100 + seed));
                    assert!(value(&other) >= least - 1e-9);
                }
            }
        }
    }
    // Everything below the threshold goes.
    let tau = largest_singular_value(&a, 0) * 1.001;
    let nothing = shrink(&a, 0, tau);
    assert_eq!((nothing.rank, norm(&nothing.tensor)), (0, 0.0));
}

#[test]
fn shrinking_is_known_for_a_diagonal() {
    // The unfolding of an order-2 tensor is the matrix itself.
    let a = Core::from_vec(&[3, 3], vec![5.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.5]);
    let p = shrink(&a, 0, 1.0);
    let expected = [4.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0];
    for (x, y) in p.tensor.as_slice().iter().zip(expected) {
        assert!((x - y).abs() < 1e-12);
    }
    assert_eq!(p.rank, 2);
    assert!((p.nuclear_norm - 5.0).abs() < 1e-12);
}

/// The relative error of what is not observed after so many steps.
fn recover(system: Dense, tensor: &Core, share: f64, steps: usize) -> f64 {
    let (observed, test) = observe(tensor, share, 7);
    let mut run = system.start(observed);
    (0..steps).for_each(|_| run.iterate());
    let zero = Core::zeros(tensor.ranks());
    (mean_squared_error(run.estimate(), &test) / mean_squared_error(&zero, &test)).sqrt()
}

#[test]
fn halrtc_and_hard_recover_a_tensor_of_low_rank_in_all_modes() {
    let tensor = low_rank(&[24, 22, 20], &[2, 2, 2], 3);
    for system in [Dense::HaLrtc, Dense::Hard] {
        let error = recover(system, &tensor, 0.6, 200);
        assert!(error < 1e-3, "{system:?}: {error:e}");
        // Far too few entries: no system can know.
        let error = recover(system, &tensor, 0.02, 60);
        assert!(error > 0.3, "{system:?}: {error:e}");
    }
}

#[test]
fn latent_recovers_a_tensor_of_low_rank_in_one_mode_alone_and_the_others_do_not() {
    // Rank 2 in the first mode, full rank in the two others.
    let (left, right) = (gaussian(&[20, 2], 1), gaussian(&[2, 16 * 18], 2));
    let mut numbers = vec![0.0; 20 * 16 * 18];
    for i in 0..20 {
        for k in 0..16 * 18 {
            numbers[i * 16 * 18 + k] =
                (0..2).map(|a| left.as_slice()[i * 2 + a] * right.as_slice()[a * 16 * 18 + k]).sum();
        }
    }
    let tensor = Core::from_vec(&[20, 16, 18], numbers);
    let latent = recover(Dense::Latent, &tensor, 0.6, 400);
    let halrtc = recover(Dense::HaLrtc, &tensor, 0.6, 400);
    assert!(latent < 1e-2, "{latent:e}");
    assert!(halrtc > 3.0 * latent, "HaLRTC {halrtc:e}, Latent {latent:e}");
}

#[test]
fn hard_and_halrtc_find_the_same_minimum() {
    // Full rank: the minimum is no exact recovery, but both problems are the same.
    let tensor = gaussian(&[9, 8, 7], 4);
    let objective = |x: &Core| (0..3).map(|mode| nuclear_norm(x, mode)).sum::<f64>();
    let mut values = vec![];
    for (system, steps) in [(Dense::HaLrtc, 150), (Dense::Hard, 2000)] {
        let (observed, _) = observe(&tensor, 0.5, 5);
        let train = observed.train.clone();
        let mut run = system.start(observed);
        (0..steps).for_each(|_| run.iterate());
        assert_eq!(mean_squared_error(run.estimate(), &train), 0.0);
        values.push(objective(run.estimate()));
    }
    assert!((values[0] / values[1] - 1.0).abs() < 2e-2, "{values:?}");
}

#[test]
fn the_dual_copies_of_latent_stay_in_the_ball() {
    let tensor = low_rank(&[10, 9, 8], &[2, 2, 2], 3);
    let (observed, _) = observe(&tensor, 0.5, 7);
    let mut run = Latent::new(observed);
    for _ in 0..30 {
        run.iterate();
        for mode in 0..3 {
            assert!(largest_singular_value(run.copy(mode), mode) < 1.0 + 1e-6);
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_with_the_number() {
    let told = Dense::HaLrtc.check(&[10_000, 10_000, 10_000], 8 << 30).unwrap_err();
    assert!(
        told.starts_with("HaLRTC holds 13 full tensors of 10000 x 10000 x 10000, which takes "),
        "{told}"
    );
    assert!(told.contains("more than --memory 8"), "{told}");
    assert_eq!(Dense::Hard.check(&[100, 100, 100], 1 << 30), Ok(80_000_000));
    assert!(Dense::Latent.check(&[usize::MAX, usize::MAX, 3], u64::MAX).is_err());
}
