//! Steps of one pass.

use super::*;

/// Cost and gradient as they are, but for some passes, whose cost comes out too high.
struct Failing {
    data: InMemory,
    /// Gradient passes so far, and the one that fails.
    passes: usize,
    fails: Option<usize>,
    steps: usize,
}

impl Objective for Failing {
    type Error = Infallible;
    fn cost_and_gradient(&mut self, x: &Point, g: &mut Tangent) -> Result<Cost, Infallible> {
        let cost = self.data.cost_and_gradient(x, g)?;
        self.passes += 1;
        Ok(if self.fails == Some(self.passes) { Cost { total: 1e9, ..cost } } else { cost })
    }
    fn step_sums(&mut self, x: &Point, d: &Tangent) -> Result<LinearisedStep, Infallible> {
        self.steps += 1;
        self.data.step_sums(x, d)
    }
}

fn solver(algorithm: Algorithm) -> Solver {
    Solver::new(Preconditioned, Options { algorithm, tolerance: 1e-22, ..Options::default() })
}

/// Runs to the end; every iteration, and the passes that the objective has counted.
fn run(objective: &mut Failing, start: Point, algorithm: Algorithm) -> (Vec<Iteration>, State) {
    let mut solver = solver(algorithm);
    let Ok(mut state) = solver.start(objective, start);
    let mut iterations = vec![state.last];
    let Ok(reason) = solver.run(&mut state, objective, |iteration, _| {
        iterations.push(*iteration);
        ControlFlow::Continue(())
    });
    assert_eq!(reason, StoppedBy::Tolerance);
    assert_eq!(state.last.passes, objective.passes + objective.steps);
    (iterations, state)
}

fn failing(data: InMemory, fails: Option<usize>) -> Failing {
    Failing { data, passes: 0, fails, steps: 0 }
}

#[test]
fn one_pass_does_what_two_do() {
    for (dims, ranks) in [(vec![30, 25], vec![2, 2]), (vec![14, 12, 10], vec![2, 2, 2])] {
        let (data, start) = problem(&dims, &ranks, 0.7, 3);
        let (two, _) = run(&mut failing(data.clone(), None), start.clone(), Algorithm::ConjugateGradient);
        let (one, state) = run(&mut failing(data, None), start, Algorithm::Auto);
        let of = |phase| one.iter().filter(|iteration| iteration.phase == Some(phase)).count();
        assert!(of(Phase::OnePass) >= 5, "{one:?}");
        assert!(two.iter().skip(1).all(|iteration| iteration.phase == Some(Phase::TwoPass)));
        // About as many iterations, so fewer passes; what is recorded is the point's own cost and gradient.
        let passes = |iterations: &[Iteration]| iterations.last().unwrap().passes;
        assert!(10 * passes(&one) < 8 * passes(&two), "{} against {}", passes(&one), passes(&two));
        assert!(one.windows(2).all(|pair| pair[1].cost <= pair[0].cost));
        assert!(state.point.orthonormality_error() < 1e-12);
    }
}

#[test]
fn what_fails_goes_back_to_two_passes() {
    let (data, start) = problem(&[14, 12, 10], &[2, 2, 2], 0.7, 3);
    let (usual, _) = run(&mut failing(data.clone(), None), start.clone(), Algorithm::Auto);
    let first = usual.iter().position(|iteration| iteration.phase == Some(Phase::OnePass)).unwrap();
    // The second of them fails. Before it there is a gradient pass for every iteration, and one for the start.
    let fails = first + 1;
    assert_eq!(usual[fails].phase, Some(Phase::OnePass), "{usual:?}");
    let (iterations, _) = run(&mut failing(data, Some(fails + 1)), start, Algorithm::Auto);
    assert_eq!(usual[..fails], iterations[..fails]);
    let after = iterations[fails];
    assert_eq!((after.phase, after.restarted), (Some(Phase::TwoPass), true));
    // Nothing but the pass is lost: the step goes from the last good point along -grad.
    assert_eq!(after.passes, iterations[first].passes + 3);
    assert!(after.cost < iterations[first].cost);
    assert!(iterations[fails..].iter().any(|iteration| iteration.phase == Some(Phase::OnePass)));
}

#[test]
fn a_state_from_its_fields_goes_on_to_the_same_bits() {
    let (mut data, start) = problem(&[14, 12, 10], &[2, 2, 2], 0.7, 3);
    let mut solver = solver(Algorithm::Auto);
    let Ok(mut state) = solver.start(&mut data, start);
    let mut phases = Vec::new();
    for _ in 0..25 {
        let mut other = state.clone();
        let Ok(here) = solver.iterate(&mut state, &mut data);
        let Ok(there) = self::solver(Algorithm::Auto).iterate(&mut other, &mut data);
        assert!(here == there && state == other);
        phases.push(here.unwrap().phase);
    }
    assert!(phases.contains(&Some(Phase::OnePass)));
}
