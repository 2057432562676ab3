//! geomCG: the embedded geometry, Polak and Ribiere, restarts where gradients are not orthogonal.

use std::ops::ControlFlow;

use super::*;

const GEOMCG: Algorithm = Algorithm::GeomCg;

pub(super) fn options() -> Options {
    Options { algorithm: GEOMCG, beta: Beta::PolakRibiere, ..Options::default() }
}

#[test]
fn it_completes_tensors_of_every_order() {
    for (dims, ranks) in [
        (vec![20, 18], vec![2, 2]),
        (vec![12, 11, 10], vec![2, 2, 2]),
        (vec![8, 7, 8, 7], vec![2, 2, 2, 2]),
        // A mode with n = r, where nothing of the factor can move.
        (vec![14, 12, 2], vec![2, 2, 2]),
    ] {
        let (mut objective, point) = problem(&dims, &ranks, 0.6, 20);
        let mut solver = Solver::new(Embedded, Options { max_iterations: 500, ..options() });
        let Ok(mut state) = solver.start(&mut objective, point);
        let mut backtracks = 0;
        let Ok(reason) = solver.run(&mut state, &mut objective, |i, _| {
            backtracks += i.backtracks;
            ControlFlow::Continue(())
        });
        assert_eq!(reason, StoppedBy::Tolerance, "{dims:?}: {:?}", state.last);
        assert_eq!(state.last.passes, 2 * state.last.iteration + 1 + backtracks);
        assert!(state.point.orthonormality_error() < 1e-14);
    }
}

#[test]
fn traces_do_not_depend_on_the_representation_of_the_start() {
    let (mut objective, point) = problem(&[8, 7, 6], &[3, 2, 2], 0.7, 6);
    let rotated = point.rotated(&random_rotations(&[3, 2, 2], &mut Pcg64::seed_from_u64(8)));
    let mut trace = |start: Point| {
        let mut solver = Solver::new(Embedded, options());
        let Ok(mut state) = solver.start(&mut objective, start);
        (0..8).map(|_| solver.iterate(&mut state, &mut objective).unwrap().unwrap().cost).collect::<Vec<_>>()
    };
    for (a, b) in trace(point).iter().zip(trace(rotated)) {
        assert!((a / b - 1.0).abs() < 1e-8, "{a} {b}");
    }
}

#[test]
fn the_direction_is_minus_the_gradient_after_a_restart_and_only_then() {
    let (mut objective, point) = problem(&[12, 11, 10], &[2, 2, 2], 0.5, 20);
    let mut solver = Solver::new(Embedded, options());
    let Ok(mut state) = solver.start(&mut objective, point);
    let (mut restarts, mut conjugate) = (0, 0);
    for _ in 0..30 {
        let before = state.clone();
        let Ok(Some(last)) = solver.iterate(&mut state, &mut objective) else { break };
        let mut opposite = state.gradient.clone();
        opposite.scale(-1.0);
        // The rule by its own formula, at the new point.
        let frame = Embedded.frame(&state.point);
        let mut old = before.gradient.clone();
        Embedded.transport(&frame, &before.point, &mut old);
        let share = frame.inner(&old, &state.gradient).abs() / state.gradient_square;
        assert_eq!(
            last.restarted,
            share >= ORTHOGONAL || state.slope == -state.gradient_square && last.beta > 0.0
        );
        if last.restarted {
            restarts += 1;
            assert_eq!(state.direction, opposite);
        } else if last.beta > 0.0 {
            conjugate += 1;
            assert_ne!(state.direction, opposite);
        }
    }
    assert!(restarts > 0 && conjugate > 0, "{restarts} restarts, {conjugate} conjugate directions");
}

#[test]
fn a_state_goes_on_to_the_same_bits() {
    let (mut objective, point) = problem(&[10, 9, 8], &[3, 2, 2], 0.5, 30);
    let Ok(mut state) = Solver::new(Embedded, options()).start(&mut objective, point);
    let mut other = state.clone();
    let mut solver = Solver::new(Embedded, options());
    for _ in 0..8 {
        let Ok(_) = solver.iterate(&mut state, &mut objective);
        // A new solver for every iteration.
        let Ok(_) = Solver::new(Embedded, options()).iterate(&mut other, &mut objective);
    }
    assert_eq!(state, other);
}
