//! How runs end, and what happens at the edges: nothing to do, no way down, singular cores.

use std::ops::ControlFlow;

use super::super::*;
use super::problem;
use crate::manifold::{Distribution, Preconditioned, random_point};

fn keep_going(_: &Iteration, _: &State) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn stopping_rules() {
    let (mut objective, point) = problem(&[8, 7, 6], &[2, 2, 2], 0.7, 50);
    let run = |options: Options, objective: &mut InMemory, most: usize| {
        let mut solver = Solver::new(Preconditioned, options);
        let Ok(mut state) = solver.start(objective, point.clone());
        let Ok(reason) = solver.run(&mut state, objective, |i, _| match i.iteration < most {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        });
        (reason, state)
    };
    let plain = Options::default();
    let (reason, state) = run(plain, &mut objective, 1000);
    assert_eq!(reason, StoppedBy::Tolerance);
    assert!(state.last.train_mse <= 1e-12);
    let few = Options { max_iterations: 3, ..plain };
    let (reason, state) = run(few, &mut objective, 1000);
    assert_eq!((reason, state.last.iteration), (StoppedBy::MaxIterations, 3));
    let (reason, state) = run(plain, &mut objective, 2);
    assert_eq!((reason, state.last.iteration), (StoppedBy::Interrupted, 2));
    let gradient = Options { gradient_tolerance: 1e-3, ..plain };
    let (reason, state) = run(gradient, &mut objective, 1000);
    assert_eq!(reason, StoppedBy::Gradient);
    assert!(state.last.gradient_norm <= 1e-3 * state.first_gradient_norm);
    // Everything off: rounding ends it, in one way or another, and nothing is NaN.
    let endless = Options { tolerance: 0.0, gradient_tolerance: 0.0, ..plain };
    let (reason, state) = run(endless, &mut objective, 1000);
    assert_ne!(reason, StoppedBy::Interrupted);
    assert!(state.last.train_mse < 1e-24 && state.last.gradient_norm.is_finite());
    // Validation entries that contradict the train entries: the best model comes early.
    objective.validation = objective.train.clone();
    objective.validation.values.iter_mut().for_each(|v| *v *= 0.5);
    let patient = Options { patience: 4, ..plain };
    let (reason, state) = run(patient, &mut objective, 1000);
    assert_eq!(reason, StoppedBy::Patience);
    let best = state.best.as_ref().unwrap();
    assert_eq!(state.last.iteration - best.iteration, 4);
    let mse = InMemory::mean_squared_error(state.model(), &objective.validation);
    assert_eq!(mse, best.validation_mse);
}

#[test]
fn words_of_the_contract() {
    for reason in [StoppedBy::MaxIterations, StoppedBy::Tolerance, StoppedBy::Step] {
        let json = serde_json::to_string(&reason).unwrap();
        assert_eq!(json, format!("\"{reason}\""));
    }
    assert_eq!(StoppedBy::MaxIterations.as_str(), "max-iterations");
}

#[test]
fn nothing_to_do_is_done_gracefully() {
    // The start is the answer; then, all values and the core are zero.
    let (mut objective, point) = problem(&[6, 5, 4], &[2, 2, 2], 0.8, 60);
    let mut zero = point.clone();
    zero.core.fill(0.0);
    objective.train.values.fill(0.0);
    let mut solver = Solver::new(Preconditioned, Options::default());
    let Ok(mut state) = solver.start(&mut objective, zero);
    let Ok(reason) = solver.run(&mut state, &mut objective, keep_going);
    assert_eq!((reason, state.last.cost), (StoppedBy::Tolerance, 0.0));
    assert_eq!(state.guards, 6);
    let Ok(nothing) = solver.iterate(&mut state, &mut objective);
    assert!(nothing.is_none() && state.stuck);

    // A zero core before values that are not zero: it must move, guarded, and without NaN.
    let (mut objective, mut point) = problem(&[6, 5, 4], &[2, 2, 2], 0.8, 61);
    point.core.fill(0.0);
    let Ok(mut state) = solver.start(&mut objective, point);
    assert_eq!(state.last.guarded, 6);
    let Ok(_) = solver.run(&mut state, &mut objective, keep_going);
    assert!(state.last.cost.is_finite() && state.last.gradient_norm.is_finite());
    assert!(state.last.iteration > 0);
}

#[test]
fn a_core_that_cannot_have_full_rank_is_guarded_and_solved() {
    // r_1 > r_2 r_3: G_1 G_1^T is singular at every point.
    let (mut objective, _) = problem(&[12, 8, 7], &[2, 2, 2], 0.7, 90);
    let start = random_point(&[12, 8, 7], &[5, 2, 2], Distribution::Uniform, 91);
    let mut solver = Solver::new(Preconditioned, Options::default());
    let Ok(mut state) = solver.start(&mut objective, start);
    assert_eq!(state.last.guarded, 1);
    let mut records = vec![];
    let Ok(reason) = solver.run(&mut state, &mut objective, |i, _| {
        records.push(*i);
        ControlFlow::Continue(())
    });
    assert!(records.iter().all(|i| i.guarded >= 1 && i.gradient_norm.is_finite()));
    assert_eq!(state.guards, 1 + records.iter().map(|i| i.guarded).sum::<usize>());
    assert!(state.point.orthonormality_error() < 1e-14);
    assert_eq!(reason, StoppedBy::Tolerance, "{:?}", state.last);
}

#[test]
fn a_direction_that_leads_nowhere_is_replaced_once() {
    let (mut objective, point) = problem(&[8, 7, 6], &[2, 2, 2], 0.7, 80);
    let mut solver = Solver::new(Preconditioned, Options::default());
    let Ok(mut state) = solver.start(&mut objective, point);
    // Uphill, with a slope that says downhill.
    state.direction.copy_from(&state.gradient);
    state.slope = -1.0;
    let before = state.last;
    let Ok(next) = solver.iterate(&mut state, &mut objective);
    let next = next.unwrap();
    assert!(next.restarted && next.cost < before.cost);
    // Sums for the step along the direction, sums along -grad, the trial point.
    assert_eq!(next.passes, before.passes + 3);
    // Where even -grad leads nowhere, because the cost is said to be lower than it is, the run
    // ends where it is.
    state.last.cost = 0.0;
    let at = state.point.clone();
    let Ok(reason) = solver.run(&mut state, &mut objective, keep_going);
    assert_eq!(reason, StoppedBy::Step);
    assert!(state.point == at && state.last.iteration == next.iteration);
    assert_eq!(solver.stop(&state), Some(StoppedBy::Step));
}

#[test]
fn refreshing_an_unchanged_objective_changes_nothing() {
    let (mut objective, point) = problem(&[8, 7, 6], &[2, 2, 2], 0.7, 70);
    let mut solver = Solver::new(Preconditioned, Options::default());
    let Ok(mut state) = solver.start(&mut objective, point);
    for _ in 0..3 {
        let Ok(_) = solver.iterate(&mut state, &mut objective);
    }
    let before = state.clone();
    let Ok(()) = solver.refresh(&mut state, &mut objective);
    assert_eq!(state.last.passes, before.last.passes + 1);
    state.last.passes -= 1;
    assert_eq!(state, before);
    // With other values it is another problem, and solved as such.
    objective.train.values.iter_mut().for_each(|v| *v += 1.0);
    let Ok(()) = solver.refresh(&mut state, &mut objective);
    assert_ne!(state.gradient, before.gradient);
    let mse = InMemory::mean_squared_error(&state.point, &objective.train);
    assert_eq!(state.last.cost, mse);
    let Ok(next) = solver.iterate(&mut state, &mut objective);
    assert!(next.unwrap().cost < mse);
}
