//! The solver with a cost of one's own: a robust one, which a few wild values do not spoil.
//! `cargo run --release --example custom_objective`.
//!
//! With residuals r = X - y the cost is the mean of 2 h^2 (sqrt(1 + (r / h)^2) - 1): r^2 where r is small
//! beside h, 2 h |r| where it is large.

use std::convert::Infallible;
use std::ops::ControlFlow;
use tenfill::manifold::{
    Cost, Distribution, LinearisedStep, Objective, Options, Point, Preconditioned, Solver, Tangent,
    check_gradient, random_point,
};

const DIMS: [usize; 3] = [30, 25, 20];
const RANKS: [usize; 3] = [2, 2, 2];

struct Robust {
    entries: Vec<([usize; 3], f64)>,
    /// Where residuals begin to count less than their square.
    h: f64,
}

/// Calls `each(a, b, c, g)` for every number g of the core.
fn for_each_of_core(point: &Point, mut each: impl FnMut(usize, usize, usize, f64)) {
    for (n, &g) in point.core.as_slice().iter().enumerate() {
        // The first mode is the slowest.
        each(n / (RANKS[1] * RANKS[2]), n / RANKS[2] % RANKS[1], n % RANKS[2], g);
    }
}

impl Robust {
    /// The weight of a residual: the cost is w r^2 to first order in the change of r.
    fn weight(&self, r: f64) -> f64 {
        1.0 / (1.0 + (r / self.h).powi(2)).sqrt()
    }
}

impl Objective for Robust {
    type Error = Infallible;

    fn cost_and_gradient(&mut self, point: &Point, partials: &mut Tangent) -> Result<Cost, Infallible> {
        partials.fill(0.0);
        let count = self.entries.len() as f64;
        let (mut total, mut squares, mut absolute) = (0.0, 0.0, 0.0);
        for &(at, y) in &self.entries {
            let r = point.value_at(&at) - y;
            // The same as above, without taking the difference of nearly equal numbers.
            total += 2.0 * r * r / (1.0 + 1.0 / self.weight(r));
            squares += r * r;
            absolute += r.abs();
            let factor = 2.0 * self.weight(r) * r / count;
            let [u, v, w] = [0, 1, 2].map(|mode| point.factors[mode].row(at[mode]).to_vec());
            let mut n = 0;
            for_each_of_core(point, |a, b, c, g| {
                partials.factors[0].row_mut(at[0])[a] += factor * g * v[b] * w[c];
                partials.factors[1].row_mut(at[1])[b] += factor * g * u[a] * w[c];
                partials.factors[2].row_mut(at[2])[c] += factor * g * u[a] * v[b];
                partials.core.as_mut_slice()[n] += factor * u[a] * v[b] * w[c];
                n += 1;
            });
        }
        Ok(Cost { total: total / count, train_mse: squares / count, train_mae: absolute / count })
    }

    fn step_sums(&mut self, point: &Point, direction: &Tangent) -> Result<LinearisedStep, Infallible> {
        let count = self.entries.len() as f64;
        let mut sums = LinearisedStep { slope: 0.0, curvature: 0.0 };
        for &(at, y) in &self.entries {
            let [u, v, w] = [0, 1, 2].map(|mode| point.factors[mode].row(at[mode]));
            let [du, dv, dw] = [0, 1, 2].map(|mode| direction.factors[mode].row(at[mode]));
            let (mut change, mut n) = (0.0, 0);
            for_each_of_core(point, |a, b, c, g| {
                change += g * (du[a] * v[b] * w[c] + u[a] * dv[b] * w[c] + u[a] * v[b] * dw[c]);
                change += direction.core.as_slice()[n] * u[a] * v[b] * w[c];
                n += 1;
            });
            let r = point.value_at(&at) - y;
            sums.slope += self.weight(r) * r * change / count;
            sums.curvature += self.weight(r) * change * change / count;
        }
        Ok(sums)
    }
}

/// The root mean square of what a point misses of the truth, over all cells.
fn distance(point: &Point, truth: &Point) -> f64 {
    let mut sum = 0.0;
    for i in 0..DIMS[0] {
        for j in 0..DIMS[1] {
            for k in 0..DIMS[2] {
                sum += (point.value_at(&[i, j, k]) - truth.value_at(&[i, j, k])).powi(2);
            }
        }
    }
    (sum / (DIMS[0] * DIMS[1] * DIMS[2]) as f64).sqrt()
}

fn main() {
    let truth = random_point(&DIMS, &RANKS, Distribution::Uniform, 1);
    let mut entries = Vec::new();
    for cell in 0..DIMS[0] * DIMS[1] * DIMS[2] {
        let at = [cell / (DIMS[1] * DIMS[2]), cell / DIMS[2] % DIMS[1], cell % DIMS[2]];
        let [i, j, k] = at;
        if (i * 5 + j * 3 + k * 7) % 11 < 5 {
            // One value in thirteen is wild.
            let wild = if (i * 7 + j * 11 + k * 3) % 13 == 0 { 20.0 } else { 0.0 };
            entries.push((at, truth.value_at(&at) + wild));
        }
    }
    let start = random_point(&DIMS, &RANKS, Distribution::Uniform, 2);
    for h in [1e6, 0.1] {
        let mut objective = Robust { entries: entries.clone(), h };
        let check = check_gradient(&Preconditioned, &mut objective, &start, 3).unwrap_or_else(|e| match e {});
        assert!(check.slope > 1.9, "the gradient belongs to the cost");
        let mut solver = Solver::new(Preconditioned, Options { max_iterations: 1000, ..Options::default() });
        let mut state = solver.start(&mut objective, start.clone()).unwrap_or_else(|e| match e {});
        let ended = solver
            .run(&mut state, &mut objective, |_, _| ControlFlow::Continue(()))
            .unwrap_or_else(|e| match e {});
        let error = distance(state.model(), &truth);
        println!("h = {h:e}: {} iterations, stopped by {ended}, RMSE {error:.2e}", state.last.iteration);
    }
}
